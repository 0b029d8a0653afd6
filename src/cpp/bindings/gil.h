// ReleasedGil and HeldGil: the GIL released, or taken, for the length of a scope.
//
// pybind11 has the same, but a daemon thread that asks for the GIL while the interpreter ends is
// unwound by CPython (before 3.14), and unwinding through a destructor ends the process with
// SIGABRT. Here such a thread sleeps instead, until the process is gone.
#pragma once

#include <pybind11/pybind11.h>
#include <unistd.h>

namespace hflush::bindings {

// Runs `take`, which asks for the GIL; does not return if the interpreter is ending.
template <typename Take>
decltype(auto) take_gil(Take take) noexcept {
  try {
    return take();
  } catch (...) {  // the unwinding of pthread_exit(): it may not leave this handler
    while (true) pause();
  }
}

class ReleasedGil {
 public:
  ReleasedGil() noexcept : state_(PyEval_SaveThread()) {}
  ~ReleasedGil() {
    take_gil([this] { PyEval_RestoreThread(state_); });
  }
  ReleasedGil(const ReleasedGil&) = delete;
  ReleasedGil& operator=(const ReleasedGil&) = delete;

 private:
  PyThreadState* const state_;
};

class HeldGil {
 public:
  HeldGil() noexcept : state_(take_gil([] { return PyGILState_Ensure(); })) {}
  ~HeldGil() { PyGILState_Release(state_); }
  HeldGil(const HeldGil&) = delete;
  HeldGil& operator=(const HeldGil&) = delete;

 private:
  const PyGILState_STATE state_;
};

}  // namespace hflush::bindings
