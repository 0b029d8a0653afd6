// PartSizes: how large the parts of an upload are, so that any object fits in the store's number of
// parts. A part is a whole number of blocks, of 5 GiB at most; the last may be shorter. Pure.
//
// Growing: the first half of the parts are one block each (39 GiB at 8 MiB), then they grow evenly,
// by one block at a time, so that the last one ends beyond 5 TiB (or as far as the number of parts
// and the largest size allow). Uniform (stores that want equal parts, or a known length): all are
// alike.
#pragma once

#include <cstdint>

namespace hflush::s3 {

class PartSizes {
 public:
  static constexpr std::uint64_t kMinPart = std::uint64_t{5} << 20U;  // except for the last
  static constexpr std::uint64_t kMaxPart = std::uint64_t{5} << 30U;
  static constexpr std::uint64_t kMaxObject = std::uint64_t{5} << 40U;
  static constexpr std::uint32_t kMaxParts = 10'000;

  // `block_bytes`: the first part's size, 1 to kMaxPart. `max_parts`: 1 to kMaxParts. What is
  // beyond is taken as the nearest. Growing if `uniform` is not set, to `max_part` bytes at most.
  PartSizes(std::uint64_t block_bytes, std::uint32_t max_parts, bool uniform,
            std::uint64_t max_part = kMaxPart) noexcept;

  // Parts are numbered from 1. Requires: 1 <= number <= max_parts().
  std::uint64_t size(std::uint32_t number) const noexcept { return end(number) - begin(number); }
  std::uint64_t begin(std::uint32_t number) const noexcept;  // the part's first byte
  std::uint64_t end(std::uint32_t number) const noexcept { return begin(number + 1); }
  // The part that has the byte at `offset`; max_parts() + 1 beyond all.
  std::uint32_t at(std::uint64_t offset) const noexcept;
  std::uint32_t max_parts() const noexcept { return max_parts_; }
  std::uint64_t max_bytes() const noexcept;  // of an object, at most kMaxObject
  std::uint64_t block_bytes() const noexcept { return block_bytes_; }

 private:
  std::uint64_t blocks_before(std::uint32_t number) const noexcept;

  std::uint64_t block_bytes_;
  std::uint32_t max_parts_;
  std::uint32_t constant_parts_;  // these are one block each
  std::uint64_t largest_;         // of the others, in blocks
  std::uint32_t step_ = 1;        // of the others, so many in turn have the same size
};

}  // namespace hflush::s3
