// The constants of carry-less multiplication: dot products, folding and Barrett's reduction.
//
// Words are the message's 64-bit little-endian words, which as polynomials are reflected: bit 63 is
// x^0 and bit 0 is x^63. A carry-less product of two reflected numbers of m and n bits has m + n -
// 1 bits; read as m + n bits it is the product of the polynomials times one more x. That is where
// the odd exponents below come from. Constant expressions; immutable.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "hflush/crc/polynomial.h"

namespace hflush::crc {

// Dot product. With word i of n multiplied by c_i = x^(64 (n-1-i) + 31) mod P, a 64-bit by 32-bit
// product of 96 bits, all the products may be added up: the sum is congruent to M x^32, which the
// register is to become. Its first 64 bits are still to be reduced, its last 32 are a residue.
// The constant depends only on the distance from the end, so shorter messages use the table's end.
inline constexpr std::size_t kDotBytes = 512;
inline constexpr std::size_t kDotWords = kDotBytes / 8;

constexpr std::array<std::uint64_t, kDotWords> dot_constants(Kind kind) noexcept {
  std::array<std::uint64_t, kDotWords> constants{};
  const std::uint32_t word = power_of_x(kind, 64);
  std::uint32_t constant = power_of_x(kind, 31);
  for (std::size_t i = kDotWords; i-- > 0; constant = multiply(kind, constant, word)) {
    constants[i] = constant;
  }
  return constants;
}

// Folding. A 16-byte lane is A x^64 + B, of words A and B; moved d bits ahead in the message it is
// A x^(64+d) + B x^d, congruent to the sum of two products with these 64-bit constants.
struct FoldConstants {
  std::uint64_t first_word;
  std::uint64_t second_word;
};

constexpr FoldConstants fold_constants(Kind kind, std::size_t distance_bytes) noexcept {
  const std::uint64_t distance_bits = 8 * std::uint64_t{distance_bytes};
  return {std::uint64_t{power_of_x(kind, distance_bits + 63)} << 32,
          std::uint64_t{power_of_x(kind, distance_bits - 1)} << 32};
}

// Barrett's reduction of w x^32, w being a word. The quotient q = floor(w x^32 / P) is
// floor(w floor(x^96 / P) / x^64), reflected the low half of a product; the remainder is what q P
// has below x^32, reflected the high half. Both factors have one leading bit more than a word,
// which reflected is bit 0; of the first, 65 bits long, only the low 64 can reach the low half.
struct BarrettConstants {
  std::uint64_t quotient;
  std::uint64_t generator;
};

constexpr BarrettConstants barrett_constants(Kind kind) noexcept {
  std::uint64_t quotient = 1;
  std::uint32_t remainder = generator(kind);  // long division: of x^(32 + i - 1) before digit i
  for (int i = 1; i < 64; ++i, remainder = times_x(kind, remainder)) {
    quotient |= std::uint64_t{remainder & 1} << i;
  }
  return {quotient, std::uint64_t{generator(kind)} << 1 | 1};
}

}  // namespace hflush::crc
