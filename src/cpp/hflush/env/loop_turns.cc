#include "hflush/env/loop_turns.h"

#include <utility>

namespace hflush::env {

void LoopTurns::entered(TimePoint now) noexcept {
  if (++guests_ > 1) last_crowd_ = now;
}

LoopTurns::Wake LoopTurns::left(TimePoint now, bool has_tasks, TimePoint next_due) noexcept {
  --guests_;
  pause_ = now - std::exchange(last_left_, now);
  if (turn_ == Turn::kThread) return may_rest(now, has_tasks) ? Wake::kToRest : Wake::kNot;
  const bool has_work = guests_ > 0 || busy_ > 0 || has_tasks || next_due < now + kRest;
  return has_work && called() ? Wake::kFromRest : Wake::kNot;
}

bool LoopTurns::takes() noexcept {
  if (turn_ != Turn::kNobody) return false;
  turn_ = Turn::kGuest;
  has_guest_come_ = true;
  return true;
}

bool LoopTurns::called() noexcept {
  if (turn_ != Turn::kNobody) return false;
  turn_ = Turn::kCalled;
  return true;
}

bool LoopTurns::rests(TimePoint now, bool has_tasks) noexcept {
  if (!may_rest(now, has_tasks)) return false;
  turn_ = Turn::kNobody;
  has_guest_come_ = false;
  return true;
}

bool LoopTurns::goes_on_resting(bool has_work) noexcept {
  const bool guests_come = std::exchange(has_guest_come_, false);
  if (turn_ == Turn::kGuest) return true;
  if (turn_ == Turn::kNobody && guests_come && !has_work && busy_ == 0) return true;
  turn_ = Turn::kThread;
  return false;
}

bool LoopTurns::may_rest(TimePoint now, bool has_tasks) const noexcept {
  return guests_ == 0 && busy_ == 0 && !has_tasks && pause_ < kRest && now - last_left_ < kRest &&
         now - last_crowd_ > kRest;
}

}  // namespace hflush::env
