// Slicing by eight: one table for each byte of a word. Kounavis and Berry, "A systematic approach
// to building high performance software-based CRC generators", 2005.
#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "hflush/base/endian.h"
#include "hflush/crc/kernel.h"
#include "hflush/crc/polynomial.h"

#define HFLUSH_TARGET

namespace hflush::crc {
namespace {

using Table = std::array<std::uint32_t, 256>;

// Table i holds each byte, with i bytes after it in the word, times x^32 modulo P.
constexpr std::array<Table, 8> slicing_tables(Kind kind) {
  std::array<Table, 8> tables{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t residue = byte;
    for (auto& table : tables) {
      for (int bit = 0; bit < 8; ++bit) residue = times_x(kind, residue);
      table[byte] = residue;
    }
  }
  return tables;
}

template <Kind kKind>
std::uint32_t reduce(std::uint64_t word) {
  static constexpr auto kTables = slicing_tables(kKind);
  std::uint32_t sum = 0;
  for (std::size_t i = 0; i < 8; ++i) sum ^= kTables[7 - i][word >> 8 * i & 0xFF];
  return sum;
}

#include "hflush/crc/words.inc"

template <Kind kKind>
struct Engine {
  template <bool kCopy>
  static std::uint32_t update(std::uint32_t state, const std::byte* source, std::size_t size,
                              std::byte* destination) {
    return update_words<kKind, kCopy>(state, source, size, destination);
  }
};

constexpr std::size_t kPrefetchBytes = 0;
constexpr std::size_t kRuns = 1;

#include "hflush/crc/chunks.inc"

}  // namespace

constinit const Kernel kPortableKernel = make_kernel("portable", []() noexcept { return true; });

}  // namespace hflush::crc
