// Clock: where times and durations come from, so that tests can move time by hand. Thread-safe.
#pragma once

#include <chrono>

namespace hflush::env {

using Duration = std::chrono::nanoseconds;
using TimePoint = std::chrono::steady_clock::time_point;

class Clock {
 public:
  virtual ~Clock() = default;
  virtual TimePoint now() const noexcept = 0;
  // Sleeps on this thread; at least so long.
  virtual void sleep_until(TimePoint when) const;
};

// The monotonic clock of the machine.
const Clock& steady_clock() noexcept;

// For every wait that takes a timeout: no limit.
inline constexpr Duration kNoTimeout = Duration::max();

// When a wait that starts `now` ends; the last of all times for kNoTimeout.
constexpr TimePoint deadline_after(TimePoint now, Duration timeout) noexcept {
  return timeout < TimePoint::max() - now ? now + timeout : TimePoint::max();
}

}  // namespace hflush::env
