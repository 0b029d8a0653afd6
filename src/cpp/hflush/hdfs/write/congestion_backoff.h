// CongestionBackoff: how long a writer holds its packets back when DataNodes say in their acks that
// they are congested (ECN; dfs.pipeline.ecn of the cluster).
//
// The first packet after such an ack waits for a random time that grows, up to a limit, while the
// acks go on saying so, and is forgotten with the first that does not. The times are Hadoop's
// ("decorrelated jitter"), so that many writers do not come back together. Pure: the same seed
// gives the same times. Thread-compatible.
#pragma once

#include <algorithm>
#include <cstdint>
#include <random>

#include "hflush/env/clock.h"

namespace hflush::hdfs {

class CongestionBackoff {
 public:
  CongestionBackoff(env::Duration mean, env::Duration longest, std::uint64_t seed)
      : mean_(std::min(mean, kLongest)),
        longest_(std::min(longest, kLongest)),
        random_(static_cast<std::minstd_rand::result_type>(seed)) {}

  void acked(bool congested) noexcept {
    congested_ = congested;
    if (!congested) last_ = env::Duration::zero();
  }

  // What the next packet has to wait; nothing from then on, until another ack says otherwise.
  env::Duration take() {
    if (!congested_) return env::Duration::zero();
    congested_ = false;
    const env::Duration grown = 3 * last_;
    const env::Duration range = grown > mean_ ? grown - mean_ : mean_ - grown;
    const double part = std::uniform_real_distribution<double>(0, 1)(random_);
    const env::Duration jitter(
        static_cast<env::Duration::rep>(part * static_cast<double>(range.count())));
    last_ = std::min(longest_, std::min(grown, mean_) + jitter);
    return last_;
  }

 private:
  static constexpr env::Duration kLongest = std::chrono::hours(1);

  env::Duration mean_;
  env::Duration longest_;
  env::Duration last_{0};
  bool congested_ = false;
  std::minstd_rand random_;
};

}  // namespace hflush::hdfs
