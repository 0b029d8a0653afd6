// Byte views: how a run of bytes is passed without owning it.
//
// A view never outlives the call that received it. Immutable values; thread-compatible.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include "hflush/base/check.h"

namespace hflush {

using ByteView = std::span<const std::byte>;
using MutableByteView = std::span<std::byte>;

inline ByteView as_bytes(std::string_view text) noexcept {
  return std::as_bytes(std::span<const char>(text.data(), text.size()));
}

inline std::string_view as_text(ByteView bytes) noexcept {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// `pieces` without their first `count` bytes: the rest, after a call that took only part.
// Requires: count is at most the size of all of them.
inline std::span<ByteView> without_front(std::span<ByteView> pieces, std::size_t count) noexcept {
  while (!pieces.empty() && count >= pieces.front().size()) {
    count -= pieces.front().size();
    pieces = pieces.subspan(1);
  }
  HFLUSH_DCHECK(count == 0 || !pieces.empty());
  if (count > 0) pieces.front() = pieces.front().subspan(count);
  return pieces;
}

}  // namespace hflush
