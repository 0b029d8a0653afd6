// Big-endian loads and stores, at any alignment. Hadoop's formats are big-endian throughout.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace hflush {

constexpr std::uint32_t to_big_endian(std::uint32_t value) noexcept {
  if constexpr (std::endian::native == std::endian::little) {
    return __builtin_bswap32(value);
  }
  return value;
}

inline void store_be32(std::byte* at, std::uint32_t value) noexcept {
  const std::uint32_t wire = to_big_endian(value);
  std::memcpy(at, &wire, sizeof wire);
}

inline std::uint32_t load_be32(const std::byte* at) noexcept {
  std::uint32_t wire;
  std::memcpy(&wire, at, sizeof wire);
  return to_big_endian(wire);
}

}  // namespace hflush
