// What the simulated writers write: every byte of a file is known from the file's number and the
// byte's place, so that a server can tell at once whether it was given the right one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace hflush::sim {

inline char content_at(std::uint64_t file, std::uint64_t place) noexcept {
  std::uint64_t mixed = (file * 0x9e3779b97f4a7c15U) ^ (place / 8 * 0xbf58476d1ce4e5b9U);
  mixed ^= mixed >> 29U;
  mixed *= 0x94d049bb133111ebU;
  return static_cast<char>(mixed >> (place % 8 * 8));
}

inline std::string content(std::uint64_t file, std::uint64_t place, std::size_t size) {
  std::string bytes(size, '\0');
  for (std::size_t i = 0; i < size; ++i) bytes[i] = content_at(file, place + i);
  return bytes;
}

}  // namespace hflush::sim
