// RetryDelays: how long to wait before asking again for what a server says is not there yet.
//
// Delays double from `first` on until they add up to what Hadoop's client would wait in total: its
// delays double from `initial` on, capped at `longest`, for `retries` times. Hadoop's first delay
// of 400 ms is 200 times what a DataNode's report usually takes. Pure; thread-compatible.
#pragma once

#include <algorithm>
#include <optional>

#include "hflush/env/clock.h"

namespace hflush::hdfs {

class RetryDelays {
 public:
  RetryDelays(env::Duration first, env::Duration initial, env::Duration longest,
              int retries) noexcept
      : first_(first), longest_(longest), total_(sum(initial, longest, retries)) {}

  // The next delay; nullopt when it is time to give up.
  std::optional<env::Duration> next() noexcept {
    if (waited_ >= total_) return std::nullopt;
    next_ = waited_ == env::Duration::zero() ? first_ : 2 * next_;
    next_ = std::max(env::Duration(1), std::min({next_, longest_, total_ - waited_}));
    waited_ += next_;
    return next_;
  }
  void restart() noexcept { waited_ = env::Duration::zero(); }

  env::Duration waited() const noexcept { return waited_; }
  // That they add up to.
  env::Duration total() const noexcept { return total_; }

 private:
  static constexpr env::Duration kForever = std::chrono::hours(24 * 365);

  static env::Duration sum(env::Duration delay, env::Duration longest, int retries) noexcept {
    env::Duration total{0};
    for (int i = 0; i < retries && total < kForever; ++i) {
      delay = std::min({delay, longest, kForever});
      total += delay;
      delay = 2 * delay;
    }
    return total;
  }

  env::Duration first_;
  env::Duration longest_;
  env::Duration total_;
  env::Duration next_{0};
  env::Duration waited_{0};
};

}  // namespace hflush::hdfs
