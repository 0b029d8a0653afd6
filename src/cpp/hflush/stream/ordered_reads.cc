#include "hflush/stream/ordered_reads.h"

namespace hflush::stream {

ReadStep OrderedReads::step(std::uint64_t position, StreamAhead ahead) const noexcept {
  if (position >= ahead.position) {
    const std::uint64_t gap = position - ahead.position;
    if (gap <= skip_window_ && gap < ahead.remaining) return ReadStep::kGoOn;
  }
  return position == next_position_ ? ReadStep::kStream : ReadStep::kRange;
}

}  // namespace hflush::stream
