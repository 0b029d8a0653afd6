#include "hflush/env/clock.h"

#include <thread>

#include "hflush/base/before_sleep.h"

namespace hflush::env {
namespace {

class SteadyClock final : public Clock {
 public:
  TimePoint now() const noexcept override { return std::chrono::steady_clock::now(); }
};

}  // namespace

void Clock::sleep_until(TimePoint when) const {
  BeforeSleep::run();
  std::this_thread::sleep_until(when);
}

const Clock& steady_clock() noexcept {
  static const SteadyClock clock;
  return clock;
}

}  // namespace hflush::env
