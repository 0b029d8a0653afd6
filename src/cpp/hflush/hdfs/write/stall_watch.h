// StallWatch: for how long bytes waited while nothing was acknowledged. Pure; thread-compatible.
#pragma once

#include <cstdint>
#include <optional>

#include "hflush/env/clock.h"

namespace hflush::hdfs {

class StallWatch {
 public:
  // Less is not a stall, but how long acknowledgements take.
  static constexpr env::Duration kShortest = std::chrono::seconds(1);

  // After each event: the length of a stall that it has ended. `waits`: there are bytes that are
  // not acknowledged.
  std::optional<env::Duration> note(env::TimePoint now, std::uint64_t acknowledged,
                                    bool waits) noexcept {
    const bool was_waiting = since_ != kNever;
    if (waits && was_waiting && acknowledged == acknowledged_) return std::nullopt;
    const env::Duration waited = was_waiting ? now - since_ : env::Duration::zero();
    acknowledged_ = acknowledged;
    since_ = waits ? now : kNever;
    if (waited < kShortest) return std::nullopt;
    return waited;
  }

 private:
  static constexpr env::TimePoint kNever = env::TimePoint::max();

  env::TimePoint since_ = kNever;
  std::uint64_t acknowledged_ = 0;
};

}  // namespace hflush::hdfs
