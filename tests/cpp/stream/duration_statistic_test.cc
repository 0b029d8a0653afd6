#include "hflush/stream/duration_statistic.h"

#include <doctest/doctest.h>

#include <chrono>

namespace hflush::stream {
namespace {

using std::chrono::nanoseconds;

TEST_CASE("samples and times of several add up, extremes combine, what was never timed has none") {
  DurationStatistic fast;
  fast.add(nanoseconds(5));
  fast.add(nanoseconds(7));
  DurationStatistic slow;
  slow.add(nanoseconds(9));
  const DurationStatistic never;

  Statistics sum;
  never.add_to(sum, "op");
  CHECK(sum == Statistics{{"op.samples", 0}, {"op.sum_ns", 0}});
  fast.add_to(sum, "op");
  slow.add_to(sum, "op");
  never.add_to(sum, "op");
  CHECK(sum ==
        Statistics{{"op.max_ns", 9}, {"op.min_ns", 5}, {"op.samples", 3}, {"op.sum_ns", 21}});
}

}  // namespace
}  // namespace hflush::stream
