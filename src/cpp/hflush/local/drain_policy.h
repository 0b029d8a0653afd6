// DrainPolicy: who writes a batch to the file, the caller's thread or a worker. Pure.
//
// A worker lets the caller compute while the kernel copies, but costs a wake and moves the bytes to
// another core's cache. It pays when the caller spends a good part of a batch's time elsewhere; a
// caller that writes back to back is faster alone (docs/performance.md has the figures). So the
// policy looks at how long the caller stayed away per mebibyte between batches, smoothed.
// Thread-compatible.
#pragma once

#include <cstddef>

#include "hflush/env/clock.h"

namespace hflush::local {

enum class Drainer : std::uint8_t { kCaller, kWorker };

class DrainPolicy {
 public:
  // With one usable processor no thread can work beside the caller.
  explicit DrainPolicy(unsigned usable_processors) noexcept
      : worker_is_useful_(usable_processors > 1) {}

  // A batch of `bytes` arrives at `now`.
  Drainer decide(env::TimePoint now, std::size_t bytes) noexcept;
  // The caller goes back to its own work at `now`.
  void caller_left(env::TimePoint now) noexcept { left_at_ = now; }

  // A batch below this is written at once: handing it over would cost more than writing it.
  static constexpr std::size_t kWorthAWake = 256U << 10U;
  // Away for longer than this per MiB, the caller has other things to do. Copying and summing a MiB
  // take it about half of that.
  static constexpr env::Duration kAwayPerMiB = std::chrono::microseconds(80);

 private:
  const bool worker_is_useful_;
  env::TimePoint left_at_;
  env::Duration away_per_mib_{};
};

}  // namespace hflush::local
