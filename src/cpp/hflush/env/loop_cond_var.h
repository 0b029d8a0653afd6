// LoopCondVar: a condition variable for changes that an event loop makes: a waiting thread runs
// the loop, if it gets the turn (EventLoop::Guest), and otherwise waits as with any other.
#pragma once

#include <atomic>

#include "hflush/base/mutex.h"
#include "hflush/env/clock.h"
#include "hflush/env/event_loop.h"

namespace hflush::env {

// Thread-safe. Waits may end spuriously: callers re-check their predicate.
class LoopCondVar {
 public:
  LoopCondVar() = default;
  LoopCondVar(const LoopCondVar&) = delete;
  LoopCondVar& operator=(const LoopCondVar&) = delete;

  // `loop` makes the change; null: no loop does. Tasks, timers and handlers of the loop may run in
  // here, and so may errands of this guest, without the mutex: the caller must not hold what they
  // take. One that has errands hears of a change that another thread makes within 50 ms.
  void wait_until(Mutex& mutex, TimePoint deadline, EventLoop* loop) HFLUSH_REQUIRES(mutex) {
    if (loop != nullptr && loop->has_errands()) {
      const MutexUnlock unlock(mutex);
      return loop->run_errands(deadline);
    }
    const EventLoop::Guest guest(loop);
    if (loop == nullptr || !loop->take_turn()) return changed_.wait_until(mutex, deadline);
    notified_ = false;
    run_here_ = loop;
    ++runners_;
    {
      const MutexUnlock unlock(mutex);
      loop->run_turn(deadline, notified_);
    }
    // The next one may have had its turn before we had the mutex.
    if (--runners_ == 0) run_here_ = nullptr;
  }
  void wait(Mutex& mutex) HFLUSH_REQUIRES(mutex) { changed_.wait(mutex); }
  void notify_all() noexcept {
    notified_ = true;
    changed_.notify_all();
    if (EventLoop* const loop = run_here_) loop->nudge();
  }

 private:
  CondVar changed_;
  // Of the threads that had the turn and have not looked at their predicate since; guarded by the
  // callers' mutex, but for what notify_all() does.
  int runners_ = 0;
  std::atomic<EventLoop*> run_here_{nullptr};
  std::atomic<bool> notified_{false};
};

}  // namespace hflush::env
