#include "hflush/stream/progress.h"

#include <algorithm>
#include <utility>

namespace hflush::stream {

bool Progress::acknowledged(std::uint64_t offset) noexcept {
  acknowledged_ = std::max(acknowledged_, offset);
  return needed_ && acknowledged_ >= *needed_;
}

void Progress::reached(Level level, std::uint64_t offset) noexcept {
  for (std::size_t below = 0; below <= static_cast<std::size_t>(level); ++below) {
    marks_[below].reached.raise_to(offset);
  }
  if (level != Level::kHandedOver) acknowledged(offset);
}

void Progress::refused(Level level, std::uint64_t offset, Status why) noexcept {
  Marks& marks = of(level);
  marks.refusal = {marks.refusal.number + 1, offset, std::move(why)};
  marks.requested = marks.reached;
}

}  // namespace hflush::stream
