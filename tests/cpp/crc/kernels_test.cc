// One suite over every kernel, checked against published vectors and a bit-by-bit model.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <random>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "hflush/base/bytes.h"
#include "hflush/base/endian.h"
#include "hflush/crc/checksum.h"
#include "hflush/crc/kernel.h"
#include "hflush/crc/polynomial.h"

namespace hflush::crc {
namespace {

using Bytes = std::vector<std::byte>;
using Sizes = std::initializer_list<std::size_t>;

constexpr std::array kKinds = {Kind::kCrc32, Kind::kCrc32c};
constexpr std::byte kCanary{0xA5};

// The definition, one bit at a time.
std::uint32_t model(Kind kind, std::uint32_t crc, ByteView data) {
  crc = ~crc;
  for (const std::byte byte : data) {
    crc ^= std::to_integer<std::uint32_t>(byte);
    for (int bit = 0; bit < 8; ++bit) crc = times_x(kind, crc);
  }
  return ~crc;
}

Bytes model_sums(Kind kind, ByteView data, std::size_t bytes_per_checksum) {
  Bytes sums(checksum_count(data.size(), bytes_per_checksum) * kSumSize);
  for (std::size_t i = 0; i * kSumSize < sums.size(); ++i) {
    const ByteView rest = data.subspan(i * bytes_per_checksum);
    const ByteView chunk = rest.first(std::min(bytes_per_checksum, rest.size()));
    store_be32(sums.data() + i * kSumSize, model(kind, 0, chunk));
  }
  return sums;
}

Bytes random_bytes(std::size_t size, std::uint32_t seed = 1) {
  std::mt19937 generate(seed);
  Bytes bytes(size);
  for (auto& byte : bytes) byte = static_cast<std::byte>(generate() & 0xFF);
  return bytes;
}

// Runs `check` on each kernel this processor can run, and says which it cannot.
template <typename Check>
void for_each_kernel(Check check) {
  for (const Kernel* kernel : all_kernels()) {
    if (kernel->usable()) {
      CAPTURE(kernel->name);
      check(*kernel);
    } else {
      MESSAGE("not run, this processor lacks the instructions: " << kernel->name);
    }
  }
}

template <typename Check>
void for_each_kernel_and_kind(Check check) {
  for_each_kernel([&](const Kernel& kernel) {
    for (const Kind kind : kKinds) {
      CAPTURE(static_cast<int>(kind));
      check(kernel, kind);
    }
  });
}

TEST_CASE("the last kernel is portable, and the active one is the first usable") {
  const auto kernels = all_kernels();
  CHECK(kernels.back()->name == "portable");
  CHECK(kernels.back()->usable());
  const auto first =
      std::ranges::find_if(kernels, [](const Kernel* kernel) { return kernel->usable(); });
  CHECK(kernel_name() == (*first)->name);
}

TEST_CASE("a kernel is found by its name if it is usable") {
  for (const Kernel* kernel : all_kernels()) {
    CHECK(find_kernel(kernel->name) == (kernel->usable() ? kernel : nullptr));
  }
  CHECK(find_kernel("abacus") == nullptr);
}

TEST_CASE("CRC32C of the vectors in RFC 3720, section B.4") {
  Bytes ascending(32);
  for (std::size_t i = 0; i < 32; ++i) ascending[i] = static_cast<std::byte>(i);
  const Bytes descending(ascending.rbegin(), ascending.rend());
  constexpr std::array<std::uint8_t, 48> kReadCommand = {
      0x01, 0xC0, 0, 0,    0, 0, 0, 0,    0,    0, 0, 0, 0, 0, 0, 0, 0x14, 0, 0, 0, 0, 0, 0x04, 0,
      0,    0,    0, 0x14, 0, 0, 0, 0x18, 0x28, 0, 0, 0, 0, 0, 0, 0, 0x02, 0, 0, 0, 0, 0, 0,    0};
  for_each_kernel([&](const Kernel& kernel) {
    const auto sum = [&](ByteView data) { return kernel.extend(Kind::kCrc32c, 0, data); };
    CHECK(sum(Bytes(32, std::byte{0})) == 0x8A9136AA);
    CHECK(sum(Bytes(32, std::byte{0xFF})) == 0x62A8AB43);
    CHECK(sum(ascending) == 0x46DD794E);
    CHECK(sum(descending) == 0x113FDB5C);
    CHECK(sum(std::as_bytes(std::span(kReadCommand))) == 0xD9963A56);
  });
}

TEST_CASE("CRC-32 and CRC32C of well-known texts") {
  for_each_kernel([](const Kernel& kernel) {
    const auto crc32 = [&](std::string_view text) {
      return kernel.extend(Kind::kCrc32, 0, as_bytes(text));
    };
    CHECK(crc32("") == 0);
    CHECK(crc32("a") == 0xE8B7BE43);
    CHECK(crc32("abc") == 0x352441C2);
    CHECK(crc32("123456789") == 0xCBF43926);
    CHECK(crc32("The quick brown fox jumps over the lazy dog") == 0x414FA339);
    CHECK(crc32(std::string(512, '\0')) == 0xB2AA7578);
    CHECK(kernel.extend(Kind::kCrc32c, 0, as_bytes("123456789")) == 0xE3069283);
    CHECK(kernel.extend(Kind::kCrc32c, 0, as_bytes("")) == 0);
  });
}

TEST_CASE("every split of 2 KiB gives the sum of the whole") {
  const Bytes data = random_bytes(2048);
  const ByteView whole(data);
  for_each_kernel_and_kind([&](const Kernel& kernel, Kind kind) {
    const std::uint32_t expected = model(kind, 0, whole);
    for (std::size_t at = 0; at <= whole.size(); ++at) {
      CAPTURE(at);
      const std::uint32_t first = kernel.extend(kind, 0, whole.first(at));
      REQUIRE(kernel.extend(kind, first, whole.subspan(at)) == expected);
    }
  });
}

TEST_CASE("every size up to 4097 bytes, alone and after other bytes") {
  const Bytes data = random_bytes(4097, 2);
  constexpr std::uint32_t kBefore = 0x12345678;
  for_each_kernel_and_kind([&](const Kernel& kernel, Kind kind) {
    std::uint32_t alone = 0;
    std::uint32_t after = kBefore;
    for (std::size_t size = 0; size <= data.size(); ++size) {
      CAPTURE(size);
      const ByteView view(data.data(), size);
      REQUIRE(kernel.extend(kind, 0, view) == alone);
      REQUIRE(kernel.extend(kind, kBefore, view) == after);
      if (size < data.size()) {
        alone = model(kind, alone, ByteView(&data[size], 1));
        after = model(kind, after, ByteView(&data[size], 1));
      }
    }
  });
}

TEST_CASE("every alignment within 64 bytes, of sizes about the widths of the vectors") {
  const Bytes data = random_bytes(2048, 3);
  for_each_kernel_and_kind([&](const Kernel& kernel, Kind kind) {
    for (std::size_t offset = 0; offset < 64; ++offset) {
      for (const std::size_t size : Sizes{1, 7, 8, 15, 16, 63, 64, 65, 511, 512, 513, 1023, 1984}) {
        CAPTURE(offset);
        CAPTURE(size);
        const ByteView view(data.data() + offset, size);
        REQUIRE(kernel.extend(kind, 0, view) == model(kind, 0, view));
      }
    }
  });
}

TEST_CASE("one bit in a megabyte of zeros, wherever it is, changes the sum as the model says") {
  constexpr std::size_t kSize = 1 << 20;
  std::mt19937 generate(4);
  for_each_kernel_and_kind([&](const Kernel& kernel, Kind kind) {
    Bytes data(kSize, std::byte{0});
    const std::uint32_t zeros = kernel.extend(kind, 0, data);
    for (int round = 0; round < 50; ++round) {
      const std::size_t at = generate() % kSize;
      data[at] = std::byte{1};
      // CRCs are affine: the difference is the bit, moved past the bytes after it.
      const std::uint32_t bit = multiply(kind, kOne >> 7, power_of_x(kind, 32));
      const std::uint32_t moved =
          multiply(kind, bit, power(kind, power_of_x(kind, 8), kSize - 1 - at));
      REQUIRE((kernel.extend(kind, 0, data) ^ zeros) == moved);
      data[at] = std::byte{0};
    }
  });
}

TEST_CASE("chunk sums are those of each chunk, and nothing is stored beyond them") {
  const Bytes data = random_bytes(5 * 4096 + 77, 5);
  for_each_kernel_and_kind([&](const Kernel& kernel, Kind kind) {
    for (const std::size_t chunk :
         Sizes{1, 3, 8, 100, 400, 511, 512, 513, 1024, 1536, 4096, 100000}) {
      for (const std::size_t size : Sizes{0, 1, 511, 512, 513, 1024, 4097, 20557}) {
        CAPTURE(chunk);
        CAPTURE(size);
        const ByteView view(data.data() + 1, size - std::min<std::size_t>(size, 1));
        Bytes sums(checksum_count(view.size(), chunk) * kSumSize + 1, kCanary);
        kernel.chunk_sums(kind, view, chunk, sums.data());
        REQUIRE(sums.back() == kCanary);
        sums.pop_back();
        REQUIRE(sums == model_sums(kind, view, chunk));
      }
    }
  });
}

TEST_CASE("a fused copy is a copy and its chunk sums, and touches nothing else") {
  const Bytes data = random_bytes(8192, 6);
  for_each_kernel_and_kind([&](const Kernel& kernel, Kind kind) {
    for (const std::size_t chunk : Sizes{1, 7, 400, 512, 520, 4096}) {
      for (const std::size_t size : Sizes{0, 1, 63, 511, 512, 513, 1024, 2049, 4095, 8000}) {
        for (const std::size_t offset : Sizes{0, 1, 16, 33, 63}) {
          CAPTURE(chunk);
          CAPTURE(size);
          CAPTURE(offset);
          const ByteView source(data.data() + offset, size);
          Bytes copy(offset + size + 1, kCanary);
          Bytes sums(checksum_count(size, chunk) * kSumSize + 1, kCanary);
          kernel.copy_and_sum(kind, copy.data() + offset, source, chunk, sums.data());
          REQUIRE(std::ranges::equal(ByteView(copy).subspan(offset, size), source));
          REQUIRE(std::ranges::count(ByteView(copy).first(offset), kCanary) ==
                  static_cast<std::ptrdiff_t>(offset));
          REQUIRE(copy.back() == kCanary);
          REQUIRE(sums.back() == kCanary);
          sums.pop_back();
          REQUIRE(sums == model_sums(kind, source, chunk));
        }
      }
    }
  });
}

#if !defined(__SANITIZE_THREAD__)
// Python's buffers may change while they are written: what is sent has the sums of what is sent.
TEST_CASE("the sums of a fused copy are those of the copy, though its source changes meanwhile") {
  for (const std::size_t size : Sizes{512, 4096 + 63, 100}) {
    Bytes source = random_bytes(size, 11);
    std::atomic<bool> is_over = false;
    std::thread changing([&] {
      volatile std::byte* const bytes = source.data();
      for (std::size_t i = 0; !is_over; ++i) bytes[i % size] = static_cast<std::byte>(i * 7 / size);
    });
    for_each_kernel_and_kind([&](const Kernel& kernel, Kind kind) {
      for (int round = 0; round < 20'000; ++round) {
        Bytes copy(size);
        Bytes sums(checksum_count(size, 512) * kSumSize);
        kernel.copy_and_sum(kind, copy.data(), source, 512, sums.data());
        Bytes of_copy(sums.size());
        kPortableKernel.chunk_sums(kind, copy, 512, of_copy.data());
        if (sums == of_copy) continue;
        FAIL_CHECK("round " << round << " of " << size);
        break;
      }
    });
    is_over = true;
    changing.join();
  }
}
#endif

TEST_CASE("random sizes, offsets, chunks and beginnings agree with the portable kernel") {
  const Bytes data = random_bytes(1 << 18, 7);
  std::mt19937 generate(8);
  for_each_kernel_and_kind([&](const Kernel& kernel, Kind kind) {
    for (int round = 0; round < 300; ++round) {
      const std::size_t offset = generate() % 4096;
      const std::size_t size = generate() % (data.size() - offset);
      const std::size_t chunk = 1 + generate() % 6000;
      const auto begin = static_cast<std::uint32_t>(generate());
      CAPTURE(offset);
      CAPTURE(size);
      CAPTURE(chunk);
      const ByteView view(data.data() + offset, size);
      REQUIRE(kernel.extend(kind, begin, view) == kPortableKernel.extend(kind, begin, view));
      Bytes sums(checksum_count(size, chunk) * kSumSize);
      Bytes expected(sums.size());
      kernel.chunk_sums(kind, view, chunk, sums.data());
      kPortableKernel.chunk_sums(kind, view, chunk, expected.data());
      REQUIRE(sums == expected);
    }
  });
}

}  // namespace
}  // namespace hflush::crc
