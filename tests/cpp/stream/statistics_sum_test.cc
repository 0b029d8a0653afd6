#include "hflush/stream/statistics_sum.h"

#include <doctest/doctest.h>

#include <chrono>

namespace hflush::stream {
namespace {

using std::chrono::nanoseconds;

TEST_CASE("counters add, extremes combine, what was never timed has none") {
  DurationStatistic fast;
  fast.add(nanoseconds(5));
  fast.add(nanoseconds(7));
  DurationStatistic slow;
  slow.add(nanoseconds(9));
  const DurationStatistic never;

  Statistics first{{"bytes", 3}};
  fast.add_to(first, "op");
  Statistics second{{"bytes", 4}, {"other", 1}};
  slow.add_to(second, "op");
  Statistics third;
  never.add_to(third, "op");

  StatisticsSum sum;
  sum.add(third);
  CHECK(sum.total() == Statistics{{"op.samples", 0}, {"op.sum_ns", 0}});
  sum.add(first);
  sum.add(second);
  sum.add(third);
  CHECK(sum.total() == Statistics{{"bytes", 7},
                                  {"op.max_ns", 9},
                                  {"op.min_ns", 5},
                                  {"op.samples", 3},
                                  {"op.sum_ns", 21},
                                  {"other", 1}});
}

}  // namespace
}  // namespace hflush::stream
