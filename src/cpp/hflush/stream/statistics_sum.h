// StatisticsSum: the sum of the snapshots of many streams: extremes of durations combine, all else
// adds up.
//
// Thread-compatible. add() may throw std::bad_alloc, which leaves part of the snapshot added.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string_view>

#include "hflush/base/statistics.h"
#include "hflush/stream/duration_statistic.h"

namespace hflush::stream {

class StatisticsSum {
 public:
  void add(const Statistics& one) { total_.merge(one, combine); }
  const Statistics& total() const noexcept { return total_; }

 private:
  static void combine(std::int64_t& known, std::int64_t value, std::string_view name) noexcept {
    if (name.ends_with(DurationStatistic::kMin)) {
      known = std::min(known, value);
    } else if (name.ends_with(DurationStatistic::kMax)) {
      known = std::max(known, value);
    } else {
      known += value;
    }
  }

  Statistics total_;
};

}  // namespace hflush::stream
