// StatisticsSum: what the snapshots of many streams come to: extremes of durations combine, all
// else adds up.
//
// Thread-compatible. add() may throw std::bad_alloc, which leaves part of the snapshot added.
#pragma once

#include <algorithm>
#include <string_view>

#include "hflush/stream/duration_statistic.h"
#include "hflush/stream/sink.h"

namespace hflush::stream {

class StatisticsSum {
 public:
  void add(const Statistics& one) {
    for (const auto& [name, value] : one) {
      const auto [found, is_new] = total_.try_emplace(name, value);
      if (is_new) continue;
      std::int64_t& known = found->second;
      if (std::string_view(name).ends_with(DurationStatistic::kMin)) {
        known = std::min(known, value);
      } else if (std::string_view(name).ends_with(DurationStatistic::kMax)) {
        known = std::max(known, value);
      } else {
        known += value;
      }
    }
  }
  const Statistics& total() const noexcept { return total_; }

 private:
  Statistics total_;
};

}  // namespace hflush::stream
