#include "hflush/crc/checksum.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "hflush/crc/kernel.h"
#include "hflush/crc/polynomial.h"

namespace hflush::crc {
namespace {

// Sums compared at a time by first_mismatch: few enough for the stack, enough to keep kernels busy.
constexpr std::size_t kSumsPerBatch = 128;

}  // namespace

std::uint32_t extend(Kind kind, std::uint32_t crc, ByteView data) noexcept {
  return kind == Kind::kNone ? 0 : active_kernel().extend(kind, crc, data);
}

void chunk_sums(Kind kind, ByteView data, std::size_t bytes_per_checksum,
                std::byte* sums_be) noexcept {
  if (kind == Kind::kNone) return;
  active_kernel().chunk_sums(kind, data, bytes_per_checksum, sums_be);
}

void copy_and_sum(Kind kind, std::byte* destination, ByteView source,
                  std::size_t bytes_per_checksum, std::byte* sums_be) noexcept {
  if (source.empty()) return;
  if (kind == Kind::kNone) {
    std::memcpy(destination, source.data(), source.size());
  } else {
    active_kernel().copy_and_sum(kind, destination, source, bytes_per_checksum, sums_be);
  }
}

std::optional<std::size_t> first_mismatch(Kind kind, ByteView data, std::size_t bytes_per_checksum,
                                          const std::byte* sums_be) noexcept {
  if (kind == Kind::kNone) return std::nullopt;
  std::array<std::byte, kSumsPerBatch * kSumSize> actual;
  const std::size_t count = checksum_count(data.size(), bytes_per_checksum);
  for (std::size_t done = 0; done < count; done += kSumsPerBatch) {
    const std::size_t batch = std::min(kSumsPerBatch, count - done);
    const ByteView rest = data.subspan(done * bytes_per_checksum);
    const std::size_t size = done + batch < count ? batch * bytes_per_checksum : rest.size();
    active_kernel().chunk_sums(kind, rest.first(size), bytes_per_checksum, actual.data());
    const auto end = actual.cbegin() + batch * kSumSize;
    const auto differs = std::mismatch(actual.cbegin(), end, sums_be + done * kSumSize).first;
    if (differs != end) {
      return done + static_cast<std::size_t>(differs - actual.cbegin()) / kSumSize;
    }
  }
  return std::nullopt;
}

std::uint32_t combine(Kind kind, std::uint32_t a, std::uint32_t b,
                      std::uint64_t length_b) noexcept {
  if (kind == Kind::kNone) return 0;
  if (a == 0) return b;  // as that of nothing
  return multiply(kind, a, power(kind, power_of_x(kind, 8), length_b)) ^ b;
}

std::string_view kernel_name() noexcept { return active_kernel().name; }

}  // namespace hflush::crc
