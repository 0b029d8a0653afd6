// Timer: the one timer of an owner, armed, moved and cancelled as often as it likes.
//
// The owner's guard is the timer's: a lock, or that only one thread at a time has it. The function
// that it calls runs on the loop thread, without that guard. It may have begun to run when the
// timer is armed anew or cancelled, so it begins with fired(), under the guard.
#pragma once

#include <cstdint>
#include <utility>

#include "hflush/env/clock.h"
#include "hflush/env/event_loop.h"

namespace hflush::env {

class Timer {
 public:
  using Arming = std::uint64_t;

  explicit Timer(EventLoop& loop) noexcept : loop_(loop) {}
  ~Timer() { cancel(); }
  Timer(const Timer&) = delete;
  Timer& operator=(const Timer&) = delete;

  // Calls `function` of the owner at `when`, and at no time that was set before.
  template <typename Owner>
  void arm(TimePoint when, Owner& owner, void (Owner::*function)(Arming)) {
    cancel();
    timer_ =
        loop_.run_at(when, [alive = owner.weak_from_this(), &owner, function, arming = arming_] {
          if (const auto held = alive.lock()) (owner.*function)(arming);
        });
    when_ = when;
  }
  // The same at `when` or earlier: one call too many costs less than a timer that is moved often.
  template <typename Owner>
  void arm_by(TimePoint when, Owner& owner, void (Owner::*function)(Arming)) {
    if (when < when_) arm(when, owner, function);
  }
  void cancel() {
    ++arming_;
    when_ = TimePoint::max();
    if (timer_ != 0) loop_.cancel(std::exchange(timer_, 0));
  }
  // Whether the timer is armed as it was for this call. Then it is no more.
  bool fired(Arming arming) noexcept {
    if (arming != arming_ || when_ == TimePoint::max()) return false;
    when_ = TimePoint::max();
    timer_ = 0;
    return true;
  }

 private:
  EventLoop& loop_;
  Arming arming_ = 0;
  TimePoint when_ = TimePoint::max();  // it is not armed
  EventLoop::TimerId timer_ = 0;
};

}  // namespace hflush::env
