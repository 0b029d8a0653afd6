// The functions everybody calls: dispatch, verification, combination and the kind without sums.
#include "hflush/crc/checksum.h"

#include <doctest/doctest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <optional>
#include <random>
#include <string_view>
#include <vector>

#include "hflush/base/bytes.h"
#include "hflush/base/endian.h"
#include "hflush/crc/polynomial.h"

namespace hflush::crc {
namespace {

using Bytes = std::vector<std::byte>;
using Sizes = std::initializer_list<std::size_t>;

constexpr std::array kKinds = {Kind::kCrc32, Kind::kCrc32c};

Bytes random_bytes(std::size_t size) {
  std::mt19937 generate(9);
  Bytes bytes(size);
  for (auto& byte : bytes) byte = static_cast<std::byte>(generate() & 0xFF);
  return bytes;
}

Bytes sums_of(Kind kind, ByteView data, std::size_t bytes_per_checksum) {
  Bytes sums(checksum_count(data.size(), bytes_per_checksum) * kSumSize);
  chunk_sums(kind, data, bytes_per_checksum, sums.data());
  return sums;
}

TEST_CASE("a chunk begun is a chunk counted") {
  static_assert(checksum_count(0, 512) == 0);
  static_assert(checksum_count(1, 512) == 1);
  static_assert(checksum_count(512, 512) == 1);
  static_assert(checksum_count(513, 512) == 2);
  constexpr std::size_t kMost = std::numeric_limits<std::size_t>::max();
  CHECK(checksum_count(kMost, 1) == kMost);
  CHECK(checksum_count(kMost, kMost - 1) == 2);
}

TEST_CASE("kinds have HDFS's ids") {
  CHECK(static_cast<int>(Kind::kNone) == 0);
  CHECK(static_cast<int>(Kind::kCrc32) == 1);
  CHECK(static_cast<int>(Kind::kCrc32c) == 2);
}

TEST_CASE("sums are stored big-endian") {
  const Bytes sums = sums_of(Kind::kCrc32c, as_bytes("123456789"), 512);
  CHECK(sums == Bytes{std::byte{0xE3}, std::byte{0x06}, std::byte{0x92}, std::byte{0x83}});
}

TEST_CASE("a copy through the active kernel is a copy, with the sums of its chunks") {
  const Bytes data = random_bytes(3000);
  for (const Kind kind : kKinds) {
    Bytes copy(data.size());
    Bytes sums(checksum_count(data.size(), 512) * kSumSize);
    copy_and_sum(kind, copy.data(), data, 512, sums.data());
    CHECK(copy == data);
    CHECK(sums == sums_of(kind, data, 512));
  }
}

TEST_CASE("the first chunk that differs is found, in the data or in the sums, and only then") {
  const Bytes data = random_bytes(300 * 512 + 100);
  for (const Kind kind : kKinds) {
    const Bytes sums = sums_of(kind, data, 512);
    CHECK(first_mismatch(kind, data, 512, sums.data()) == std::nullopt);
    for (const std::size_t chunk : Sizes{0, 1, 127, 128, 129, 255, 256, 299, 300}) {
      CAPTURE(chunk);
      Bytes flipped = data;
      flipped[chunk * 512 + 99] ^= std::byte{0x10};
      CHECK(first_mismatch(kind, flipped, 512, sums.data()) == chunk);
      flipped.back() ^= std::byte{1};
      CHECK(first_mismatch(kind, flipped, 512, sums.data()) == chunk);
      for (std::size_t byte = 0; byte < kSumSize; ++byte) {
        Bytes wrong = sums;
        wrong[chunk * kSumSize + byte] ^= std::byte{1};
        CHECK(first_mismatch(kind, data, 512, wrong.data()) == chunk);
      }
    }
  }
}

TEST_CASE("no bytes match, whatever their sums") {
  CHECK(first_mismatch(Kind::kCrc32c, ByteView(), 512, nullptr) == std::nullopt);
}

TEST_CASE("combining the sums of two runs gives the sum of both, at every cut") {
  const Bytes data = random_bytes(1500);
  const ByteView whole(data);
  for (const Kind kind : kKinds) {
    const std::uint32_t expected = extend(kind, 0, whole);
    for (std::size_t at = 0; at <= whole.size(); ++at) {
      const std::uint32_t a = extend(kind, 0, whole.first(at));
      const std::uint32_t b = extend(kind, 0, whole.subspan(at));
      REQUIRE(combine(kind, a, b, whole.size() - at) == expected);
    }
  }
}

TEST_CASE("combining is associative for lengths beyond any memory") {
  constexpr std::uint64_t kLong = std::uint64_t{1} << 61;
  for (const Kind kind : kKinds) {
    const std::uint32_t left = combine(kind, combine(kind, 1, 2, kLong), 3, kLong + 5);
    const std::uint32_t right = combine(kind, 1, combine(kind, 2, 3, kLong + 5), 2 * kLong + 5);
    CHECK(left == right);
  }
}

TEST_CASE("powers of x: 32 gives the generator, and exponents add up") {
  for (const Kind kind : kKinds) {
    CHECK(power_of_x(kind, 0) == kOne);
    CHECK(power_of_x(kind, 32) == generator(kind));
    CHECK(multiply(kind, power_of_x(kind, 1000), power_of_x(kind, 337)) == power_of_x(kind, 1337));
  }
}

TEST_CASE("the kind without sums stores none and accepts everything") {
  const Bytes data = random_bytes(1024);
  Bytes copy(data.size());
  Bytes sums(2 * kSumSize, std::byte{0xA5});
  const Bytes untouched = sums;
  copy_and_sum(Kind::kNone, copy.data(), data, 512, sums.data());
  chunk_sums(Kind::kNone, data, 512, sums.data());
  CHECK(copy == data);
  CHECK(sums == untouched);
  CHECK(first_mismatch(Kind::kNone, data, 512, sums.data()) == std::nullopt);
  CHECK(extend(Kind::kNone, 0, data) == 0);
  CHECK(combine(Kind::kNone, 0, 0, 7) == 0);
}

}  // namespace
}  // namespace hflush::crc
