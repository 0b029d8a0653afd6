// The table of ordered_reads.h, with every bound of it.
#include "hflush/stream/ordered_reads.h"

#include <doctest/doctest.h>

#include <cstdint>
#include <limits>

namespace hflush::stream {
namespace {

constexpr std::uint64_t kWindow = 100;
constexpr std::uint64_t kLast = std::numeric_limits<std::uint64_t>::max();

struct Row {
  const char* what;
  std::uint64_t last_end;  // of the read before
  StreamAhead ahead;
  std::uint64_t position;
  ReadStep step;
};

constexpr Row kTable[] = {
    {"the first read, at the start", 0, {}, 0, ReadStep::kStream},
    {"the first read, elsewhere", 0, {}, 1, ReadStep::kRange},
    {"where the last one ended", 500, {}, 500, ReadStep::kStream},
    {"a byte before that", 500, {}, 499, ReadStep::kRange},
    {"a byte after that", 500, {}, 501, ReadStep::kRange},
    {"at the start again", 500, {}, 0, ReadStep::kRange},
    {"the next byte of the stream", 500, {500, 1000}, 500, ReadStep::kGoOn},
    {"its last byte", 500, {500, 50}, 549, ReadStep::kGoOn},
    {"its end", 500, {500, 50}, 550, ReadStep::kRange},
    {"a gap as long as the window", 500, {500, 1000}, 600, ReadStep::kGoOn},
    {"a byte more", 500, {500, 1000}, 601, ReadStep::kRange},
    {"a byte before the stream", 500, {500, 1000}, 499, ReadStep::kRange},
    {"the stream, after a read elsewhere", 77, {500, 1000}, 510, ReadStep::kGoOn},
    {"where that one ended, with the stream further on", 77, {500, 1000}, 77, ReadStep::kStream},
    {"a stream with nothing left", 500, {500, 0}, 500, ReadStep::kStream},
    {"the last byte there can be", 0, {kLast - 10, 20}, kLast, ReadStep::kGoOn},
    {"far from a stream at the start", 0, {0, kLast}, kLast, ReadStep::kRange},
};

TEST_CASE("every row of the table of ordered reads") {
  for (const Row& row : kTable) {
    CAPTURE(row.what);
    OrderedReads reads(kWindow);
    reads.succeeded(row.last_end);
    CHECK(reads.step(row.position, row.ahead) == row.step);
  }
}

TEST_CASE("without a window only the next byte goes on") {
  OrderedReads reads(0);
  CHECK(reads.step(0, {0, 10}) == ReadStep::kGoOn);
  CHECK(reads.step(1, {0, 10}) == ReadStep::kRange);
}

TEST_CASE("asking changes nothing, only reads that succeed do") {
  OrderedReads reads(kWindow);
  CHECK(reads.step(0, {}) == ReadStep::kStream);
  CHECK(reads.step(40, {}) == ReadStep::kRange);
  CHECK(reads.step(0, {}) == ReadStep::kStream);
  reads.succeeded(40);
  CHECK(reads.step(0, {}) == ReadStep::kRange);
  CHECK(reads.step(40, {}) == ReadStep::kStream);
}

}  // namespace
}  // namespace hflush::stream
