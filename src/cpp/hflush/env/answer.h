// Waiting with an interrupt: wait_until() for a condition variable, pause() for time alone, and
// Answer, a value that one thread waits for and another one sets.
#pragma once

#include <functional>
#include <optional>
#include <utility>

#include "hflush/base/check.h"
#include "hflush/base/mutex.h"
#include "hflush/base/status.h"
#include "hflush/env/clock.h"
#include "hflush/env/event_loop.h"
#include "hflush/env/interrupt.h"
#include "hflush/env/loop_cond_var.h"

namespace hflush::env {

// LoopCondVar::wait_until() that can be interrupted. It may end spuriously and before the deadline:
//   while (!predicate) HFLUSH_RETURN_IF_ERROR(wait_until(mutex, changed, deadline, interrupt));
// kTimedOut once the deadline has passed, or the failure of `interrupt`, which is asked without the
// mutex. `loop`: see LoopCondVar; null: no event loop brings the change about.
Status wait_until(Mutex& mutex, LoopCondVar& changed, TimePoint deadline, Interrupt& interrupt,
                  EventLoop* loop = nullptr) HFLUSH_REQUIRES(mutex);

// Returns after `duration`, or with the failure of `interrupt`. Holds no lock.
Status pause(Duration duration, Interrupt& interrupt);

// A value, set once, for one thread that waits for it, or for a function if that thread has given
// up. Owned by a std::shared_ptr on both sides: either may be the last to hold it. Thread-safe.
template <typename T>
class Answer {
 public:
  using Taker = std::function<void(T)>;

  // Called once.
  void set(T value) HFLUSH_EXCLUDES(mutex_) {
    Taker taker;
    {
      const MutexLock lock(mutex_);
      if (!taker_) {
        value_.emplace(std::move(value));
        changed_.notify_all();
        return;
      }
      taker.swap(taker_);
    }
    taker(std::move(value));
  }

  // Waits until the value is set. kTimedOut after `deadline`, or the failure of `interrupt`: then
  // the value may still come, and leave_to() says who takes it. `loop` as in wait_until().
  Status wait(Interrupt& interrupt, EventLoop* loop, TimePoint deadline = TimePoint::max())
      HFLUSH_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    while (!value_) {
      HFLUSH_RETURN_IF_ERROR(wait_until(mutex_, changed_, deadline, interrupt, loop));
    }
    return {};
  }
  // Requires: wait() has succeeded; once.
  T take() HFLUSH_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    HFLUSH_DCHECK(value_.has_value());
    return *std::move(value_);
  }

  // Nothing waits for the value any more: `taker` gets it, on the thread that sets it, or on this
  // one if it is set already. Without a lock.
  void leave_to(Taker taker) HFLUSH_EXCLUDES(mutex_) {
    std::optional<T> value;
    {
      const MutexLock lock(mutex_);
      if (!value_) {
        taker_ = std::move(taker);
        return;
      }
      value.swap(value_);
    }
    taker(*std::move(value));
  }

 private:
  // Before the loop's. Never held across the function that takes a value which is not waited for.
  Mutex mutex_;
  LoopCondVar changed_;
  std::optional<T> value_ HFLUSH_GUARDED_BY(mutex_);
  Taker taker_ HFLUSH_GUARDED_BY(mutex_);
};

}  // namespace hflush::env
