// CallStatistics: the counts and times of a stream's calls. Thread-compatible.
#pragma once

#include <cstdint>

#include "hflush/base/statistics.h"
#include "hflush/stream/duration_statistic.h"

namespace hflush::stream {

struct CallStatistics {
  std::int64_t write_exceptions = 0;
  std::int64_t aborts = 0;
  DurationStatistic hflush;
  DurationStatistic hsync;
  DurationStatistic close;

  void add_to(Statistics& statistics) const {
    statistics["stream_write_exceptions"] += write_exceptions;
    statistics["op_abort"] += aborts;
    hflush.add_to(statistics, "op_hflush");
    hsync.add_to(statistics, "op_hsync");
    close.add_to(statistics, "op_close");
  }
};

}  // namespace hflush::stream
