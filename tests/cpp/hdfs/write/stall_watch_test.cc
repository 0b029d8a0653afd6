// StallWatch: a table of events, and what ends a stall.
#include "hflush/hdfs/write/stall_watch.h"

#include <doctest/doctest.h>

#include <optional>

namespace hflush::hdfs {
namespace {

using namespace std::chrono_literals;  // NOLINT(google-build-using-namespace)

TEST_CASE("stall watch: from the first byte that waits, or the last progress, to the next") {
  struct Row {
    env::Duration after;  // the event before
    std::uint64_t acknowledged;
    bool waits;
    std::optional<env::Duration> ended;
  };
  const Row rows[] = {
      {100s, 0, false, {}},                                // nothing waits
      {100s, 0, true, {}},                                 // bytes are put
      {200ms, 0, true, {}},   {300ms, 500, true, {}},      // acknowledged in half a second
      {600ms, 500, true, {}}, {600ms, 600, true, 1200ms},  // no progress for longer
      {999ms, 700, true, {}}, {1s, 700, false, 1s},        // all is acknowledged
      {50s, 700, false, {}},  {50s, 700, true, {}},        // other bytes
      {30s, 700, true, {}},   {40s, 701, true, 70s},      {0s, 702, false, {}},
  };
  StallWatch watch;
  env::TimePoint now = env::TimePoint() + 1h;
  int number = 0;
  for (const Row& row : rows) {
    CAPTURE(number++);
    now += row.after;
    CHECK(watch.note(now, row.acknowledged, row.waits) == row.ended);
  }
}

}  // namespace
}  // namespace hflush::hdfs
