#include "hflush/local/drain_policy.h"

#include <algorithm>

namespace hflush::local {

Drainer DrainPolicy::decide(env::TimePoint now, std::size_t bytes) noexcept {
  if (!worker_is_useful_ || bytes < kWorthAWake) return Drainer::kCaller;
  if (left_at_ == env::TimePoint{}) return Drainer::kCaller;  // nothing is known yet
  constexpr std::int64_t kMiB = 1 << 20;
  constexpr env::Duration kLongest =
      4 * kAwayPerMiB;  // one long pause does not decide for many batches
  constexpr env::Duration kForEver = std::chrono::seconds(1);  // more would only overflow
  const env::Duration away =
      std::min<env::Duration>(now - left_at_, kForEver) * kMiB / static_cast<std::int64_t>(bytes);
  away_per_mib_ = (away_per_mib_ + std::clamp(away, env::Duration{}, kLongest)) / 2;
  return away_per_mib_ > kAwayPerMiB ? Drainer::kWorker : Drainer::kCaller;
}

}  // namespace hflush::local
