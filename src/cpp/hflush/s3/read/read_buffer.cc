#include "hflush/s3/read/read_buffer.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include "hflush/base/check.h"
#include "hflush/env/process.h"
#include "hflush/s3/packets.h"

namespace hflush::s3 {

std::size_t ReadBuffer::Block::take(MutableByteView out) noexcept {
  const std::size_t count = std::min(out.size(), size());
  std::memcpy(out.data(), memory.data() + begin, count);
  begin += count;
  return count;
}

std::uint64_t ReadBuffer::Block::skip(std::uint64_t count) noexcept {
  const std::uint64_t skipped = std::min<std::uint64_t>(count, size());
  begin += static_cast<std::size_t>(skipped);
  return skipped;
}

bool ReadBuffer::has_room_for(std::size_t bytes, std::uint64_t window) {
  return empty() || (size_ < window && share_.try_hold(size_ + bytes, false));
}

bool ReadBuffer::append(ByteView bytes) {
  bool has_memory = true;
  try {
    while (!bytes.empty()) {
      if (blocks_.empty() || blocks_.back().end == blocks_.back().memory.size()) {
        const Filling filling = blocks_.empty() ? Filling::kUnknown : Filling::kWhole;
        blocks_.push_back({env::Process::current().buffers().take(kBufferBytes, filling), 0, 0});
      }
      Block& block = blocks_.back();
      const std::size_t count = std::min(bytes.size(), block.memory.size() - block.end);
      std::memcpy(block.memory.data() + block.end, bytes.data(), count);
      block.end += count;
      size_ += count;
      bytes = bytes.subspan(count);
    }
  } catch (const std::bad_alloc&) {
    has_memory = false;
  }
  share_.hold(size_);
  return has_memory;
}

ReadBuffer::Block ReadBuffer::pop_front() {
  HFLUSH_DCHECK(!empty());
  Block block = std::move(blocks_.front());
  blocks_.pop_front();
  size_ -= block.size();
  share_.hold(size_);
  return block;
}

std::uint64_t ReadBuffer::skip(std::uint64_t count) {
  std::uint64_t skipped = 0;
  while (skipped < count && !blocks_.empty()) {
    skipped += blocks_.front().skip(count - skipped);
    if (blocks_.front().size() == 0) blocks_.pop_front();
  }
  size_ -= skipped;
  share_.hold(size_);
  return skipped;
}

ReadBuffer::Block ReadBuffer::pop_back_beyond(std::uint64_t bytes) {
  if (blocks_.empty() || size_ - blocks_.back().size() < bytes) return {};
  Block block = std::move(blocks_.back());
  blocks_.pop_back();
  size_ -= block.size();
  share_.hold(size_);
  return block;
}

}  // namespace hflush::s3
