// Polynomials over GF(2) modulo a CRC's generator P: where every constant of the kernels comes
// from.
//
// A residue modulo P has 32 coefficients, kept reflected as CRC registers are: bit 31 is x^0 and
// bit 0 is x^31. The register after n message bits M, begun with the register S, is
// (S x^n + M x^32) mod P; all the kernels do is compute that in another order. Constant
// expressions; immutable.
#pragma once

#include <cstdint>

#include "hflush/crc/checksum.h"

namespace hflush::crc {

// P without its leading x^32, in other words x^32 mod P. CRC-32: IEEE 802.3, as in zlib and gzip;
// CRC32C: Castagnoli's, RFC 3720.
constexpr std::uint32_t generator(Kind kind) noexcept {
  return kind == Kind::kCrc32c ? 0x82F63B78u : 0xEDB88320u;
}

inline constexpr std::uint32_t kOne = std::uint32_t{1} << 31;

constexpr std::uint32_t times_x(Kind kind, std::uint32_t residue) noexcept {
  return (residue >> 1) ^ ((residue & 1) != 0 ? generator(kind) : 0);
}

constexpr std::uint32_t multiply(Kind kind, std::uint32_t a, std::uint32_t b) noexcept {
  std::uint32_t product = 0;
  for (; a != 0; a <<= 1) {
    if ((a & kOne) != 0) product ^= b;
    b = times_x(kind, b);
  }
  return product;
}

constexpr std::uint32_t power(Kind kind, std::uint32_t base, std::uint64_t exponent) noexcept {
  std::uint32_t result = kOne;
  for (; exponent != 0; exponent >>= 1) {
    if ((exponent & 1) != 0) result = multiply(kind, result, base);
    base = multiply(kind, base, base);
  }
  return result;
}

constexpr std::uint32_t power_of_x(Kind kind, std::uint64_t exponent) noexcept {
  return power(kind, kOne >> 1, exponent);
}

}  // namespace hflush::crc
