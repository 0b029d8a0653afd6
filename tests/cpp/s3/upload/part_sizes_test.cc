// Parts: whole blocks, none too large, enough of them for any object, and every byte in one of
// them.
#include "hflush/s3/upload/part_sizes.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>

namespace hflush::s3 {
namespace {

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20U;
constexpr std::uint64_t kGiB = std::uint64_t{1} << 30U;
constexpr std::uint64_t kTiB = std::uint64_t{1} << 40U;

// All that holds of any sizes.
void check_all(const PartSizes& sizes) {
  const std::uint32_t count = sizes.max_parts();
  const std::uint64_t block = sizes.block_bytes();
  std::uint64_t begin = 0;
  std::uint64_t before = 0;
  std::uint32_t wrong = 0;
  for (std::uint32_t number = 1; number <= count; ++number) {
    const std::uint64_t size = sizes.size(number);
    wrong += sizes.begin(number) != begin;
    wrong += sizes.end(number) != begin + size;
    wrong += size == 0 || size % block != 0;
    wrong += size > PartSizes::kMaxPart;
    wrong += size < before;  // never smaller than the one before
    wrong += number <= (count + 1) / 2 && size != block;
    wrong += sizes.at(begin) != number;
    wrong += sizes.at(begin + size - 1) != number;
    wrong += sizes.at(begin + size / 2) != number;
    begin += size;
    before = size;
  }
  CHECK(wrong == 0);
  CHECK(sizes.size(1) == block);
  CHECK(sizes.at(begin) == count + 1);
  CHECK(sizes.at(UINT64_MAX) == count + 1);
  CHECK(sizes.max_bytes() == std::min(begin, PartSizes::kMaxObject));
}

TEST_CASE("10,000 growing parts hold 5 TiB") {
  for (const std::uint64_t block : {5 * kMiB, 8 * kMiB, 10 * kMiB, 64 * kMiB, 100 * kMiB,
                                    128 * kMiB, 512 * kMiB, kGiB, 3 * kGiB, 5 * kGiB}) {
    CAPTURE(block);
    const PartSizes sizes(block, PartSizes::kMaxParts, false);
    check_all(sizes);
    CHECK(sizes.end(10'000) >= 5 * kTiB);
    CHECK(sizes.max_bytes() == 5 * kTiB);
    CHECK(sizes.at(5 * kTiB - 1) <= 10'000);
  }
}

TEST_CASE("parts grow no faster than they have to") {
  const PartSizes sizes(8 * kMiB, PartSizes::kMaxParts, false);
  CHECK(sizes.end(5000) == 40'000 * kMiB);  // the first half is 39 GiB, in parts of one block
  CHECK(sizes.size(5001) == 16 * kMiB);
  CHECK(sizes.size(10'000) < 3 * kGiB);
  CHECK(sizes.end(10'000) < 5 * kTiB + 5 * kTiB / 10);
  std::uint32_t jumps = 0;
  for (std::uint32_t number = 2; number <= 10'000; ++number) {
    jumps += sizes.size(number) > sizes.size(number - 1) + 8 * kMiB;
  }
  CHECK(jumps == 0);
}

TEST_CASE("uniform parts are all alike") {
  for (const std::uint64_t block : {5 * kMiB, 8 * kMiB, 64 * kMiB, 600 * kMiB}) {
    CAPTURE(block);
    const PartSizes sizes(block, PartSizes::kMaxParts, true);
    check_all(sizes);
    CHECK(sizes.size(10'000) == block);
    CHECK(sizes.max_bytes() == std::min(10'000 * block, 5 * kTiB));
  }
}

TEST_CASE("where blocks are large enough nothing grows") {
  const PartSizes sizes(600 * kMiB, PartSizes::kMaxParts, false);
  CHECK(sizes.size(10'000) == 600 * kMiB);
  CHECK(sizes.max_bytes() == 5 * kTiB);
}

TEST_CASE("few parts go as far as they can, and none is too large for it") {
  for (const std::uint64_t block : {5 * kMiB, 8 * kMiB, 64 * kMiB, 128 * kMiB, kGiB, 5 * kGiB}) {
    CAPTURE(block);
    const PartSizes growing(block, 1000, false);
    check_all(growing);
    const PartSizes uniform(block, 1000, true);
    check_all(uniform);
    CHECK(uniform.max_bytes() == 1000 * block);
    CHECK(growing.max_bytes() >= uniform.max_bytes());
  }
  CHECK(PartSizes(8 * kMiB, 1000, false).max_bytes() > 980 * kGiB);
  const PartSizes capped(128 * kMiB, 1000, false);
  CHECK(capped.size(1000) == 5 * kGiB);
  CHECK(capped.max_bytes() > 2 * kTiB);
}

TEST_CASE("parts grow no larger than they may be") {
  const PartSizes none(8 * kMiB, PartSizes::kMaxParts, false, 14 * kMiB);
  check_all(none);
  CHECK(none.max_bytes() == 80'000 * kMiB);
  const PartSizes some(8 * kMiB, PartSizes::kMaxParts, false, 100 * kMiB);
  check_all(some);
  CHECK(some.size(10'000) == 96 * kMiB);
  CHECK(PartSizes(8 * kMiB, 10, false, kMiB).size(10) == 8 * kMiB);
}

TEST_CASE("every count of parts, every kind of block") {
  for (const std::uint32_t count : {1U, 2U, 3U, 4U, 5U, 7U, 10U, 99U, 101U, 9'999U, 10'000U}) {
    for (const std::uint64_t block : {std::uint64_t{1}, std::uint64_t{1000}, kMiB, 5 * kMiB,
                                      2 * kGiB, 4 * kGiB, 5 * kGiB - 1}) {
      for (const bool uniform : {false, true}) {
        CAPTURE(count);
        CAPTURE(block);
        CAPTURE(uniform);
        check_all(PartSizes(block, count, uniform));
      }
    }
  }
}

TEST_CASE("every byte of small parts is in the part that says so") {
  const PartSizes sizes(3, 12, false);
  REQUIRE(sizes.end(12) == 3 * (6 + 2 + 3 + 4 + 5 + 6 + 7));
  for (std::uint64_t offset = 0; offset < sizes.end(12); ++offset) {
    CAPTURE(offset);
    const std::uint32_t number = sizes.at(offset);
    CHECK(sizes.begin(number) <= offset);
    CHECK(offset < sizes.end(number));
  }
}

TEST_CASE("what is out of range is taken as the nearest") {
  CHECK(PartSizes(0, 10, true).block_bytes() == 1);
  CHECK(PartSizes(6 * kGiB, 10, true).block_bytes() == 5 * kGiB);
  CHECK(PartSizes(kMiB, 0, false).max_parts() == 1);
  CHECK(PartSizes(kMiB, 20'000, false).max_parts() == 10'000);
}

}  // namespace
}  // namespace hflush::s3
