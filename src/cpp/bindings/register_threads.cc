// BackgroundThread: a thread of the operating system that runs Python, whatever the program has
// made of Python's `threading`. gevent and eventlet put greenlets of one thread in its place: one
// that waits in the core would stop all others, and none would run while the program waits there.
#include <pthread.h>
#include <pybind11/pybind11.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <memory>
#include <system_error>
#include <utility>

#include "gil.h"
#include "hflush/base/mutex.h"
#include "hflush/env/blocked_signals.h"
#include "register.h"

namespace py = pybind11;

namespace hflush::bindings {
namespace {

// A daemon: the process does not wait for its end. Thread-safe.
class BackgroundThread {
 public:
  // Calls `run`, which raises nothing. Throws where the system refuses a thread.
  void start(py::function run) {
    auto work = std::make_unique<Work>(Work{state_, std::move(run)});
    std::size_t stack = 0;
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_attr_getstacksize(&attributes, &stack);
    pthread_attr_setstacksize(&attributes, std::max(stack, kLeastStack));
    pthread_t thread{};
    const env::BlockedSignals blocked;
    const int refused = pthread_create(&thread, &attributes, &BackgroundThread::begin, work.get());
    pthread_attr_destroy(&attributes);
    if (refused != 0) throw std::system_error(refused, std::generic_category(), "start a thread");
    // The thread waits for the GIL before it touches it.
    [[maybe_unused]] const Work* const given = work.release();
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
  struct Work {
    std::shared_ptr<State> state;
    py::function function;
  };

  static void* begin(void* given) {
    std::shared_ptr<State> state;
    {
      const HeldGil held;
      auto* const work = static_cast<Work*>(given);
      state = work->state;
      run_python([work] {
        PyObject* const result = PyObject_CallNoArgs(work->function.ptr());
        if (result == nullptr) PyErr_WriteUnraisable(work->function.ptr());
        Py_XDECREF(result);
        delete work;  // NOLINT(cppcoreguidelines-owning-memory): no owner here: see run_python()
      });
    }
    set(*state, &State::is_ended);
    return nullptr;
  }

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

  // What Python's own threads have with glibc. Elsewhere threads get less: 128 KiB with musl.
  static constexpr std::size_t kLeastStack = std::size_t{8} << 20U;

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
