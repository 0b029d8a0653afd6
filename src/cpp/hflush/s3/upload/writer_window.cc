#include "hflush/s3/upload/writer_window.h"

#include <algorithm>

#include "hflush/base/check.h"

namespace hflush::s3 {

WriterWindow::WriterWindow(std::uint64_t whole, const PartSizes& sizes, MemoryBudget& budget,
                           std::uint64_t begin) noexcept
    : whole_(whole),
      sizes_(sizes),
      budget_(budget),
      limit_(begin + first()),
      acknowledged_(begin) {}

std::uint64_t WriterWindow::first() const noexcept { return std::min(whole_, kFirst); }

std::uint64_t WriterWindow::in_memory_from(std::uint64_t end, std::uint64_t stored) const noexcept {
  return std::max(acknowledged_, std::min(end, stored));
}

std::optional<std::uint64_t> WriterWindow::move(std::uint64_t end, std::uint64_t stored) {
  HFLUSH_DCHECK(is_open());
  const std::uint64_t held_from = in_memory_from(end, stored);
  const std::uint32_t next_part = std::min(sizes_.at(acknowledged_), sizes_.max_parts());
  const std::uint64_t most = acknowledged_ + whole_;
  const std::uint64_t least =
      std::max(acknowledged_ + first(), sizes_.end(next_part) + first() / 2);
  std::uint64_t limit = std::max(limit_, std::min(most, least));
  const std::uint64_t at_most = held_from + budget_.total();
  const std::uint64_t wanted = std::min({most, end + first(), at_most});
  if (wanted > limit && share_->try_hold(wanted - held_from, true)) {
    limit = granted_ = wanted;
  } else {
    const std::uint64_t held_to = std::max(end, granted_);
    share_->hold(held_to - std::min(held_to, held_from));
  }
  if (limit == limit_) return std::nullopt;
  limit_ = limit;
  return limit - first();
}

void WriterWindow::hold(std::uint64_t end, std::uint64_t stored) {
  if (share_) share_->hold(end - std::min(end, in_memory_from(end, stored)));
}

}  // namespace hflush::s3
