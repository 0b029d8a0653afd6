// ReadBuffer: bytes come out as they went in, and its memory is of a budget.
#include "hflush/s3/read/read_buffer.h"

#include <doctest/doctest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "env/loopback.h"
#include "hflush/s3/packets.h"

namespace hflush::s3 {
namespace {

using env::testing::pattern;

constexpr std::uint64_t kBudget = std::uint64_t{1} << 30U;

std::string drained(ReadBuffer& buffer) {
  std::string all;
  while (!buffer.empty()) {
    ReadBuffer::Block block = buffer.pop_front();
    std::array<std::byte, 1000> piece{};
    while (block.size() > 0) {
      all.append(reinterpret_cast<const char*>(piece.data()), block.take(piece));
    }
  }
  return all;
}

TEST_CASE("bytes come out in order, whatever the pieces they came in") {
  const std::string content = pattern(0, 3 * kBufferBytes + 100);
  MemoryBudget budget(kBudget);
  ReadBuffer buffer(budget);
  std::string_view rest = content;
  for (std::size_t size = 1; !rest.empty(); size = size * 3 + 1) {
    const std::string_view piece = rest.substr(0, size);
    REQUIRE(buffer.append(as_bytes(piece)));
    rest.remove_prefix(piece.size());
  }
  CHECK(buffer.size() == content.size());
  CHECK(drained(buffer) == content);
  CHECK(buffer.size() == 0);
}

TEST_CASE("what is skipped does not come out") {
  const std::string content = pattern(0, 2 * kBufferBytes);
  MemoryBudget budget(kBudget);
  ReadBuffer buffer(budget);
  REQUIRE(buffer.append(as_bytes(content)));
  CHECK(buffer.skip(kBufferBytes + 7) == kBufferBytes + 7);
  CHECK(buffer.size() == kBufferBytes - 7);
  CHECK(drained(buffer) == content.substr(kBufferBytes + 7));
  REQUIRE(buffer.append(as_bytes(content)));
  CHECK(buffer.skip(content.size() + 5) == content.size());
  CHECK(buffer.empty());
}

TEST_CASE("blocks are given back from the end, as long as enough stays") {
  const std::string content = pattern(0, 2 * kBufferBytes + 10);
  MemoryBudget budget(kBudget);
  ReadBuffer buffer(budget);
  REQUIRE(buffer.append(as_bytes(content)));
  CHECK(buffer.pop_back_beyond(kBufferBytes + 1).size() == 10);
  CHECK(buffer.pop_back_beyond(kBufferBytes + 1).size() == 0);
  CHECK(buffer.pop_back_beyond(kBufferBytes).size() == kBufferBytes);
  CHECK(drained(buffer) == content.substr(0, kBufferBytes));
  CHECK(buffer.pop_back_beyond(0).size() == 0);
}

TEST_CASE("one piece always has room, more only up to the window, and all of it is counted") {
  MemoryBudget budget(5000);
  const std::string piece = pattern(0, 1000);
  {
    ReadBuffer buffer(budget);
    CHECK(buffer.has_room_for(10'000, 0));
    REQUIRE(buffer.append(as_bytes(piece)));
    CHECK(budget.held() == 1000);
    CHECK_FALSE(buffer.has_room_for(1000, 1000));
    CHECK(buffer.has_room_for(1000, 1001));
    REQUIRE(buffer.append(as_bytes(piece)));
    CHECK(budget.held() == 2000);
    CHECK_FALSE(buffer.has_room_for(4000, 10'000));
    CHECK(buffer.pop_front().size() == 2000);
    CHECK(budget.held() == 0);
    CHECK(buffer.has_room_for(10'000, 0));
    REQUIRE(buffer.append(as_bytes(pattern(0, 10'000))));
    CHECK(budget.held() == 10'000);
  }
  CHECK(budget.held() == 0);
}

}  // namespace
}  // namespace hflush::s3
