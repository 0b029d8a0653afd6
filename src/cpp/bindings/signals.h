// SignalCheck: lets Python run while a call waits: its signal handlers (PEP 475), and the program's
// progress function. waiting(): a call that waits.
#pragma once

#include <pybind11/pybind11.h>

#include "gil.h"
#include "hflush/env/event_loop.h"
#include "hflush/env/interrupt.h"
#include "kept_bytes.h"

namespace hflush::bindings {

// Used without the GIL, which it takes for the check, or within GilUntilSleep. An exception that is
// raised stays set and ends the wait; the stream is as before.
class SignalCheck final : public env::Interrupt {
 public:
  SignalCheck() = default;
  // `stream` outlives it; its method _report is called if it has one (ReportingOutputStream).
  explicit SignalCheck(PyObject* stream) : stream_(stream) {}

 private:
  Status check() override {
    BeforeSleep::run();  // a handler may take its time
    const HeldGil gil;
    if (run_python([this] { return PyErr_CheckSignals() == 0 && report(); })) return {};
    return Status(StatusCode::kInterrupted, "interrupted by a signal");
  }

  bool report() {
    if (stream_ == nullptr || PyObject_HasAttrString(stream_, kReport) == 0) return true;
    PyObject* const done = PyObject_CallMethod(stream_, kReport, nullptr);
    Py_XDECREF(done);
    return done != nullptr;
  }

  static constexpr const char* kReport = "_report";

  PyObject* const stream_ = nullptr;
};

// Throws what a signal handler has raised. A wait that was over when it was raised is not
// interrupted by it, but the caller is.
inline void raise_from_signals() {
  if (PyErr_Occurred() != nullptr) throw pybind11::error_already_set();
}

// Makes `call` without the GIL for as long as `Unlocked` has it; it may be interrupted by a Python
// signal handler.
template <typename Unlocked = ReleasedGil, typename Call>
auto waiting(const Call& call) {
  auto result = [&call] {
    SignalCheck signals;
    const Unlocked unlocked;
    return call(signals);
  }();
  release_kept_bytes();
  raise_from_signals();
  return result;
}

// The same of a call that has little to send to `loop`'s store, and gets little.
template <typename Call>
auto waiting_for(const env::EventLoop& loop, const Call& call) {
  return loop.answers_at_once() ? waiting<GilUntilSleep>(call) : waiting(call);
}

}  // namespace hflush::bindings
