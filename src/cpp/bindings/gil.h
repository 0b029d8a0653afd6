// ReleasedGil and HeldGil: the GIL released, or taken, for the length of a scope. GilUntilSleep:
// the GIL released as soon as a scope sleeps.
//
// pybind11 has the same, but a daemon thread that asks for the GIL while the interpreter ends is
// unwound by CPython (before 3.14), and unwinding through a destructor ends the process with
// SIGABRT. Here such a thread sleeps instead, until the process is gone. And PyGILState_Ensure()
// needs an interpreter, which may be gone some time before the process is: a thread that asks for
// it then would end the process with SIGSEGV.
#pragma once

#include <pybind11/pybind11.h>
#include <unistd.h>

#include <atomic>
#include <chrono>

#include "hflush/base/before_sleep.h"

namespace hflush::bindings {

// Runs what asks for the GIL, or runs Python, which gives it up and asks for it again; does not
// return if the interpreter is ending. What `run` has in its frame is not destroyed then.
template <typename Run>
decltype(auto) run_python(Run run) noexcept {
  try {
    return run();
  } catch (...) {  // the unwinding of pthread_exit(): it may not leave this handler
    while (true) pause();
  }
}

// Whether the interpreter is ending, or has ended. Needs no GIL.
inline bool is_interpreter_ending() noexcept {
#if PY_VERSION_HEX >= 0x030d0000
  return Py_IsFinalizing() != 0;
#else
  return _Py_IsFinalizing() != 0;
#endif
}

// Whether it is this thread that ends the interpreter: no other has the GIL by then.
inline constinit thread_local bool ends_interpreter = false;

// Requires: the GIL.
inline void note_end_of_interpreter() noexcept { ends_interpreter = is_interpreter_ending(); }

inline PyThreadState* give_gil_up() noexcept {
  note_end_of_interpreter();
  return PyEval_SaveThread();
}

// Whether the interpreter is ending, or has ended, on another thread than this one.
inline bool has_no_interpreter() noexcept { return is_interpreter_ending() && !ends_interpreter; }

class ReleasedGil {
 public:
  ReleasedGil() noexcept : state_(give_gil_up()) {}
  ~ReleasedGil() {
    run_python([this] { PyEval_RestoreThread(state_); });
  }
  ReleasedGil(const ReleasedGil&) = delete;
  ReleasedGil& operator=(const ReleasedGil&) = delete;

 private:
  PyThreadState* const state_;
};

// For a call that will hardly sleep: who gives the GIL up gets it back behind all others, each of
// which may do the same. The scope runs no Python but by HeldGil. Others get the GIL every
// millisecond, as they would not from a thread that makes such calls one after another.
class GilUntilSleep final : public BeforeSleep {
 public:
  GilUntilSleep() noexcept {
    note_end_of_interpreter();
    if (std::chrono::steady_clock::now() - given_up.load(std::memory_order_relaxed) > kKept) run();
  }
  ~GilUntilSleep() {
    if (state_ != nullptr) run_python([this] { PyEval_RestoreThread(state_); });
  }

 private:
  using Time = std::chrono::steady_clock::time_point;

  void before_sleep() noexcept override {
    given_up.store(std::chrono::steady_clock::now(), std::memory_order_relaxed);
    state_ = give_gil_up();
  }

  static constexpr auto kKept = std::chrono::milliseconds(1);
  static inline std::atomic<Time> given_up{Time()};  // by any thread

  PyThreadState* state_ = nullptr;  // null: the GIL is held
};

class HeldGil {
 public:
  HeldGil() noexcept
      : state_(run_python([] {
          while (has_no_interpreter()) pause();
          return PyGILState_Ensure();
        })) {}
  ~HeldGil() {
    run_python([this] { PyGILState_Release(state_); });
  }
  HeldGil(const HeldGil&) = delete;
  HeldGil& operator=(const HeldGil&) = delete;

 private:
  const PyGILState_STATE state_;
};

}  // namespace hflush::bindings
