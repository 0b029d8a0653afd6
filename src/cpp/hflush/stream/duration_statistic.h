// DurationStatistic: count, sum, shortest and longest of the durations of an operation.
//
// Thread-compatible. Appears in a snapshot as `<name>.samples`, `.sum_ns`, `.min_ns`, `.max_ns`.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string_view>

#include "hflush/base/statistics.h"
#include "hflush/env/clock.h"

namespace hflush::stream {

class DurationStatistic {
 public:
  void add(env::Duration duration) noexcept {
    const std::int64_t ns = duration.count();
    min_ns_ = samples_ == 0 ? ns : std::min(min_ns_, ns);
    max_ns_ = std::max(max_ns_, ns);
    sum_ns_ += ns;
    ++samples_;
  }

  // To a snapshot, or to the sum of many.
  void add_to(Statistics& statistics, std::string_view name) const {
    statistics.of(name, ".samples") += samples_;
    statistics.of(name, ".sum_ns") += sum_ns_;
    if (samples_ == 0) return;
    statistics.lower(name, ".min_ns", min_ns_);
    statistics.raise(name, ".max_ns", max_ns_);
  }

 private:
  std::int64_t samples_ = 0;
  std::int64_t sum_ns_ = 0;
  std::int64_t min_ns_ = 0;
  std::int64_t max_ns_ = 0;
};

}  // namespace hflush::stream
