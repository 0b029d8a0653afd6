// BeforeSleep: what a thread does before it sleeps in the core, or waits for one of its locks.
//
// For what a caller holds that others wait for, and that is dear to give up and take back: it is
// kept through a call that turns out not to sleep. Whatever may sleep in the core says so first.
#pragma once

#include <utility>

namespace hflush {

// One at a time per thread, of the thread that makes it.
class BeforeSleep {
 public:
  BeforeSleep(const BeforeSleep&) = delete;
  BeforeSleep& operator=(const BeforeSleep&) = delete;

  // Does it, if this thread has any and has not done it yet.
  static void run() noexcept {
    if (here != nullptr) std::exchange(here, nullptr)->before_sleep();
  }

 protected:
  BeforeSleep() noexcept { here = this; }
  ~BeforeSleep() { here = nullptr; }

 private:
  virtual void before_sleep() noexcept = 0;

  static inline constinit thread_local BeforeSleep* here = nullptr;
};

}  // namespace hflush
