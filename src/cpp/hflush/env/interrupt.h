// Interrupt: how a call that waits lets its caller end the wait.
#pragma once

#include "hflush/base/mutex.h"
#include "hflush/base/status.h"

namespace hflush::env {

// Asked now and then by a call that waits, on the caller's thread, without any lock held. A failure
// ends the wait and is returned; nothing else changes. One for each call.
class Interrupt {
 public:
  virtual ~Interrupt() = default;

  CondVar::Clock::time_point next_check() const noexcept { return next_check_; }
  Status check_now() {
    next_check_ = CondVar::Clock::now() + kInterval;
    return check();
  }

 private:
  static constexpr auto kInterval = std::chrono::milliseconds(50);

  virtual Status check() = 0;

  CondVar::Clock::time_point next_check_ = CondVar::Clock::now() + kInterval;
};

// For calls that nobody can interrupt.
class Uninterrupted final : public Interrupt {
 private:
  Status check() override { return {}; }
};

}  // namespace hflush::env
