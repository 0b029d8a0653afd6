// UploadTurns: the order of uploads that wait.
#include "hflush/s3/call/upload_turns.h"

#include <doctest/doctest.h>

#include <cstdint>
#include <vector>

namespace hflush::s3 {
namespace {

TEST_CASE("uploads: streams take turns, and urgent ones have every other") {
  UploadTurns turns;
  CHECK(turns.empty());
  CHECK_FALSE(turns.next());
  turns.add({1, 10, false}, false);
  turns.add({2, 10, false}, false);
  turns.add({3, 20, false}, false);
  turns.add({4, 20, true}, false);
  turns.add({5, 20, true}, true);
  turns.add({6, 10, false}, true);
  turns.add({7, 30, false}, false);
  turns.add({8, 20, false}, false);
  turns.remove({7, 30, false});
  turns.remove({7, 30, false});
  turns.remove({9, 20, true});
  std::vector<std::uint64_t> order;
  while (const auto next = turns.next()) order.push_back(*next);
  CHECK(order == std::vector<std::uint64_t>{5, 6, 4, 3, 1, 8, 2});
  CHECK(turns.empty());
}

}  // namespace
}  // namespace hflush::s3
