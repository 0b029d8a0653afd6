// ByteQueue: bytes that wait, the first one first, in memory of their own. Thread-compatible.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <vector>

#include "hflush/base/bytes.h"
#include "hflush/base/check.h"

namespace hflush::hdfs {

class ByteQueue {
 public:
  std::size_t size() const noexcept { return end_ - begin_; }
  bool empty() const noexcept { return begin_ == end_; }
  ByteView bytes() const noexcept { return ByteView(memory_).subspan(begin_, size()); }

  // Memory behind the last byte, valid until the next call: filled() adds what has been put there.
  MutableByteView room(std::size_t size) {
    if (begin_ > 0) {
      std::copy(memory_.begin() + static_cast<std::ptrdiff_t>(begin_),
                memory_.begin() + static_cast<std::ptrdiff_t>(end_), memory_.begin());
      end_ -= begin_;
      begin_ = 0;
    }
    if (memory_.size() < end_ + size) memory_.resize(end_ + size);
    return MutableByteView(memory_).subspan(end_, size);
  }
  // Requires: size <= that of the room.
  void filled(std::size_t size) noexcept {
    HFLUSH_DCHECK(size <= memory_.size() - end_);
    end_ += size;
  }
  void append(ByteView bytes) {
    if (bytes.empty()) return;
    std::memcpy(room(bytes.size()).data(), bytes.data(), bytes.size());
    filled(bytes.size());
  }

  // Moves bytes to `target`, as many as there are and as it holds; how many that were.
  std::size_t take(MutableByteView target) noexcept {
    const std::size_t count = std::min(target.size(), size());
    if (count > 0) std::memcpy(target.data(), memory_.data() + begin_, count);
    begin_ += count;
    return count;
  }
  // Requires: count <= size().
  void drop(std::size_t count) noexcept {
    HFLUSH_DCHECK(count <= size());
    begin_ += count;
  }
  void clear() noexcept { begin_ = end_ = 0; }

 private:
  std::vector<std::byte> memory_;
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
};

}  // namespace hflush::hdfs
