#include "hflush/s3/upload/part_sizes.h"

#include <algorithm>

#include "hflush/base/check.h"

namespace hflush::s3 {

PartSizes::PartSizes(std::uint64_t block_bytes, std::uint32_t max_parts, bool uniform,
                     std::uint64_t max_part) noexcept
    : block_bytes_(std::clamp(block_bytes, std::uint64_t{1}, kMaxPart)),
      max_parts_(std::clamp(max_parts, std::uint32_t{1}, kMaxParts)),
      constant_parts_(max_parts_),
      largest_(std::max(std::min(max_part, kMaxPart) / block_bytes_, std::uint64_t{1})) {
  if (uniform || begin(max_parts_ + 1) >= kMaxObject) return;
  constant_parts_ = (max_parts_ + 1) / 2;
  // The slowest growth that reaches far enough; the fastest there is if none does.
  const std::uint32_t slowest = std::max(std::uint32_t{1}, max_parts_ - constant_parts_);
  std::uint32_t reaches = 1;
  std::uint32_t beyond = slowest + 1;
  while (beyond - reaches > 1) {
    step_ = reaches + (beyond - reaches) / 2;
    (begin(max_parts_ + 1) < kMaxObject ? beyond : reaches) = step_;
  }
  step_ = reaches;
}

std::uint64_t PartSizes::blocks_before(std::uint32_t number) const noexcept {
  HFLUSH_DCHECK(number >= 1);
  const std::uint64_t before = number - 1;
  if (before <= constant_parts_) return before;
  // Groups of step_ parts with 2, 3, ... blocks each, until a part cannot be larger.
  const std::uint64_t growing = before - constant_parts_;
  const std::uint64_t groups = std::min(growing / step_, std::max(largest_, std::uint64_t{2}) - 2);
  const std::uint64_t next = std::min(groups + 2, largest_);
  return constant_parts_ + step_ * (groups * (groups + 3) / 2) + (growing - groups * step_) * next;
}

std::uint64_t PartSizes::begin(std::uint32_t number) const noexcept {
  return blocks_before(number) * block_bytes_;
}

std::uint32_t PartSizes::at(std::uint64_t offset) const noexcept {
  // The last part that begins at or before the offset, of one more than there are.
  std::uint32_t low = 1;
  std::uint32_t high = max_parts_ + 1;
  while (low < high) {
    const std::uint32_t middle = low + (high - low + 1) / 2;
    if (begin(middle) <= offset) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  return low;
}

std::uint64_t PartSizes::max_bytes() const noexcept {
  return std::min(begin(max_parts_ + 1), kMaxObject);
}

}  // namespace hflush::s3
