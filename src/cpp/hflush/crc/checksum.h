// CRC-32 and CRC32C: of whole buffers, of chunks, and fused with a copy.
//
// Values follow zlib's convention: finalised on the way in and out, 0 is the sum of no bytes, so
// `extend(kind, extend(kind, 0, a), b)` is the sum of a and b together. Chunk sums are independent
// of each other, one for each `bytes_per_checksum` bytes and one for a shorter rest, stored
// big-endian as Hadoop stores them in packets and in `.crc` files. Any length and alignment is
// right; 512 bytes per checksum, and a copy to a 64-byte boundary, are fast. The work is done by
// the best kernel this processor has (kernel.h). Thread-safe: pure functions of their arguments.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "hflush/base/bytes.h"
#include "hflush/base/check.h"

namespace hflush::crc {

// HDFS's ids (org.apache.hadoop.util.DataChecksum: NULL, CRC32, CRC32C). kNone has no sums: extend
// and combine give 0, nothing is stored and everything matches.
enum class Kind : std::uint8_t { kNone = 0, kCrc32 = 1, kCrc32c = 2 };

// Bytes that one stored sum takes.
inline constexpr std::size_t kSumSize = 4;

// How many sums `size` bytes have. Requires: bytes_per_checksum > 0, as everywhere below.
constexpr std::size_t checksum_count(std::size_t size, std::size_t bytes_per_checksum) noexcept {
  HFLUSH_DCHECK(bytes_per_checksum > 0);
  return size / bytes_per_checksum + (size % bytes_per_checksum != 0 ? 1 : 0);
}

// The sum of the bytes summed by `crc` followed by `data`.
std::uint32_t extend(Kind kind, std::uint32_t crc, ByteView data) noexcept;

// Stores checksum_count() sums at `sums_be`.
void chunk_sums(Kind kind, ByteView data, std::size_t bytes_per_checksum,
                std::byte* sums_be) noexcept;

// A copy of `source` to `destination` and chunk_sums of that copy, in one pass over memory. The
// three ranges do not overlap. Another thread may change `source` meanwhile: the sums fit the copy.
void copy_and_sum(Kind kind, std::byte* destination, ByteView source,
                  std::size_t bytes_per_checksum, std::byte* sums_be) noexcept;

// The index of the first chunk of `data` that does not match its sum; none if all match.
std::optional<std::size_t> first_mismatch(Kind kind, ByteView data, std::size_t bytes_per_checksum,
                                          const std::byte* sums_be) noexcept;

// The sum of two runs of bytes one after the other, from their sums and the length of the second in
// bytes. O(log length_b).
std::uint32_t combine(Kind kind, std::uint32_t a, std::uint32_t b, std::uint64_t length_b) noexcept;

// The name of the kernel that does the work on this machine: "avx512", "portable", ...
std::string_view kernel_name() noexcept;

}  // namespace hflush::crc
