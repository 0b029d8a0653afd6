// BackgroundThread: a thread of the operating system that runs Python, whatever the program has
// made of Python's `threading`. gevent and eventlet put greenlets of one thread in its place: one
// that waits in the core would stop all others, and none would run while the program waits there.
#include <pybind11/pybind11.h>

#include <chrono>
#include <memory>
#include <thread>
#include <utility>

#include "gil.h"
#include "hflush/base/mutex.h"
#include "register.h"

namespace py = pybind11;

namespace hflush::bindings {
namespace {

// A daemon: the process does not wait for its end. Thread-safe.
class BackgroundThread {
 public:
  // Calls `run`, which raises nothing.
  void start(py::function run) {
    std::thread([state = state_, callable = run.release().ptr()] {
      {
        const HeldGil held;
        const auto function = py::reinterpret_steal<py::function>(callable);
        if (PyObject* result = PyObject_CallNoArgs(function.ptr()); result != nullptr) {
          Py_DECREF(result);
        } else {
          PyErr_WriteUnraisable(function.ptr());
        }
      }
      set(*state, &State::is_ended);
    }).detach();
  }

  void stop() { set(*state_, &State::is_stopped); }

  // Waits until stop() was called, or the thread has ended, or that long: whether it is so.
  bool wait_stopped(double seconds) { return wait(&State::is_stopped, seconds); }
  bool join(double seconds) { return wait(&State::is_ended, seconds); }

 private:
  struct State {
    // Innermost. Never held while the GIL is taken.
    Mutex mutex;
    CondVar changed;
    bool is_stopped HFLUSH_GUARDED_BY(mutex) = false;
    bool is_ended HFLUSH_GUARDED_BY(mutex) = false;
  };
  using Flag = bool State::*;

  static void set(State& state, Flag flag) {
    MutexLock lock(state.mutex);
    state.*flag = true;
    state.changed.notify_all();
  }

  bool wait(Flag flag, double seconds) {
    const ReleasedGil released;
    const auto end = std::chrono::steady_clock::now() +
                     std::chrono::duration_cast<std::chrono::steady_clock::duration>(
                         std::chrono::duration<double>(seconds));
    MutexLock lock(state_->mutex);
    while (!((*state_).*flag) && std::chrono::steady_clock::now() < end) {
      state_->changed.wait_until(state_->mutex, end);
    }
    return (*state_).*flag;
  }

  const std::shared_ptr<State> state_ = std::make_shared<State>();
};

}  // namespace

void register_threads(py::module_& module) {
  py::class_<BackgroundThread>(module, "BackgroundThread", py::is_final())
      .def(py::init<>())
      .def("start", &BackgroundThread::start, py::arg("run"))
      .def("stop", &BackgroundThread::stop)
      .def("wait_stopped", &BackgroundThread::wait_stopped, py::arg("timeout"))
      .def("join", &BackgroundThread::join, py::arg("timeout"));
}

}  // namespace hflush::bindings
