// Interrupt: how a call that waits lets its caller end the wait.
#pragma once

#include <chrono>
#include <optional>

#include "hflush/base/mutex.h"
#include "hflush/base/status.h"

namespace hflush::env {

// A call that waits asks it now and then, on its own thread, without any lock held. A failure ends
// the wait and is returned; nothing else changes. One for each call.
class Interrupt {
 public:
  virtual ~Interrupt() = default;

  // Of a call that has not asked yet: one interval from now. A call that never waits reads no
  // clock.
  CondVar::Clock::time_point next_check() noexcept {
    if (!next_check_) next_check_ = CondVar::Clock::now() + kInterval;
    return *next_check_;
  }
  Status check_now() {
    next_check_ = CondVar::Clock::now() + kInterval;
    return check();
  }
  // For what waits without a condition variable, or works for long without a wait.
  Status check_if_due() { return CondVar::Clock::now() < next_check() ? Status() : check_now(); }

 private:
  static constexpr auto kInterval = std::chrono::milliseconds(50);

  virtual Status check() = 0;

  std::optional<CondVar::Clock::time_point> next_check_;
};

// For calls that cannot be interrupted.
class Uninterrupted final : public Interrupt {
 private:
  Status check() override { return {}; }
};

}  // namespace hflush::env
