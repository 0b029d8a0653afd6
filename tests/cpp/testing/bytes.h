// Test data, and a way to look at it.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "hflush/base/bytes.h"

namespace hflush::testing {

// `size` bytes in which every position is told from its neighbours, also 256 and 512 further on.
inline std::vector<std::byte> pattern(std::size_t size) {
  std::vector<std::byte> bytes(size);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(i * 31 + i / 251);
  return bytes;
}

inline std::vector<std::byte> bytes_of(std::string_view text) {
  const ByteView view = as_bytes(text);
  return {view.begin(), view.end()};
}

}  // namespace hflush::testing
