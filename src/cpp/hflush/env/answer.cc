#include "hflush/env/answer.h"

#include <algorithm>

namespace hflush::env {

Status wait_until(Mutex& mutex, LoopCondVar& changed, TimePoint deadline, Interrupt& interrupt,
                  EventLoop* loop) {
  const TimePoint now = interrupt.clock().now();
  if (now >= deadline) return Status(StatusCode::kTimedOut, "time is up");
  if (now >= interrupt.next_check()) {
    const MutexUnlock unlock(mutex);
    return interrupt.check_now();
  }
  changed.wait_until(mutex, std::min(deadline, interrupt.next_check()), loop);
  return {};
}

Status pause(Duration duration, Interrupt& interrupt) {
  const Clock& clock = interrupt.clock();
  const TimePoint end = deadline_after(clock.now(), duration);
  while (clock.now() < end) {
    HFLUSH_RETURN_IF_ERROR(interrupt.check_if_due());
    clock.sleep_until(std::min(end, interrupt.next_check()));
  }
  return {};
}

}  // namespace hflush::env
