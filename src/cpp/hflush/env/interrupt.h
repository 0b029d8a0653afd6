// Interrupt: how a call that waits lets its caller end the wait.
#pragma once

#include <chrono>
#include <optional>

#include "hflush/base/status.h"
#include "hflush/env/clock.h"

namespace hflush::env {

// A call that waits asks it now and then, on its own thread, without any lock held. A failure ends
// the wait and is returned; nothing else changes. One for each call. Its clock is the one by which
// the call waits.
class Interrupt {
 public:
  explicit Interrupt(const Clock& clock = steady_clock()) noexcept : clock_(clock) {}
  virtual ~Interrupt() = default;
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;

  const Clock& clock() const noexcept { return clock_; }
  // Of a call that has not asked yet: one interval from now. A call that never waits reads no
  // clock.
  TimePoint next_check() noexcept {
    if (!next_check_) next_check_ = clock_.now() + kInterval;
    return *next_check_;
  }
  bool is_due() noexcept { return clock_.now() >= next_check(); }
  Status check_now() {
    next_check_ = clock_.now() + kInterval;
    return check();
  }
  // For what waits without a condition variable, or works for long without a wait.
  Status check_if_due() { return is_due() ? check_now() : Status(); }

 private:
  static constexpr auto kInterval = std::chrono::milliseconds(50);

  virtual Status check() = 0;

  const Clock& clock_;
  std::optional<TimePoint> next_check_;
};

// For calls that cannot be interrupted.
class Uninterrupted final : public Interrupt {
 public:
  using Interrupt::Interrupt;

 private:
  Status check() override { return {}; }
};

}  // namespace hflush::env
