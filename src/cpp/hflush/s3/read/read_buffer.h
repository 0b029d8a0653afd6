// ReadBuffer: bytes that have come before a reader wanted them.
//
// They lie in blocks that change hands as a whole, so that a reader copies without its lock. The
// memory is of a budget (memory_budget.h). Thread-compatible.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>

#include "hflush/base/buffer_pool.h"
#include "hflush/base/bytes.h"
#include "hflush/s3/memory_budget.h"

namespace hflush::s3 {

class ReadBuffer {
 public:
  struct Block {
    Buffer memory;
    std::size_t begin = 0;
    std::size_t end = 0;

    std::size_t size() const noexcept { return end - begin; }
    // How many bytes were copied to `out`.
    std::size_t take(MutableByteView out) noexcept;
    std::uint64_t skip(std::uint64_t count) noexcept;
  };

  explicit ReadBuffer(MemoryBudget& budget) : share_(budget) {}

  std::uint64_t size() const noexcept { return size_; }
  bool empty() const noexcept { return size_ == 0; }

  // Whether `bytes` more may be appended: something is always kept for the reader; more as far as
  // the window and the budget have room.
  bool has_room_for(std::size_t bytes, std::uint64_t window);
  // False: no memory; what fitted is there.
  [[nodiscard]] bool append(ByteView bytes);
  // Requires: !empty().
  Block pop_front();
  // Skips up to `count` bytes from the front; returns how many were there.
  std::uint64_t skip(std::uint64_t count);
  // The last block, if at least `bytes` stay without it; else one without bytes.
  Block pop_back_beyond(std::uint64_t bytes);

 private:
  std::deque<Block> blocks_;
  std::uint64_t size_ = 0;
  MemoryBudget::Share share_;
};

}  // namespace hflush::s3
