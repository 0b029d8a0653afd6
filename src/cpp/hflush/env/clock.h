// Clock: where durations come from, so that tests can move time by hand. Thread-safe.
#pragma once

#include <chrono>

namespace hflush::env {

using Duration = std::chrono::nanoseconds;
using TimePoint = std::chrono::steady_clock::time_point;

class Clock {
 public:
  virtual ~Clock() = default;
  virtual TimePoint now() const noexcept = 0;
};

// The monotonic clock of the machine.
const Clock& steady_clock() noexcept;

}  // namespace hflush::env
