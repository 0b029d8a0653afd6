// Packet: a run of a file's bytes with its checksums, sealed, on its way to a store.
//
//   | header room | checksums, 4 bytes each | data              |
//                 ^ sums()                  ^ data()            ^ end()
//
// One allocation. Checksums and data touch, and the header room ends where they begin, so that a
// sink which speaks a wire protocol sends header, checksums and data with one call. A reference has
// its data elsewhere, in memory of the caller's that it keeps: only where the geometry takes them.
// Sealed: data and checksums never change; only the header room is the sink's to write. Owned by
// one thread at a time; its memory returns to the pool, or is let go, when it is destroyed, which
// is when its bytes are acknowledged.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "hflush/base/buffer_pool.h"
#include "hflush/base/bytes.h"
#include "hflush/base/check.h"

namespace hflush::stream {

// What keeps memory as it is while it is held. May be let go by any thread.
using Owner = std::shared_ptr<const void>;

class Packet {
 public:
  // 33 bytes are the largest header of HDFS's data transfer protocol; a cache line holds it.
  static constexpr std::size_t kHeaderRoom = 64;

  // Where the file's byte data()[0] stands.
  std::uint64_t offset() const noexcept { return offset_; }
  std::uint64_t end() const noexcept { return offset_ + data_size_; }

  ByteView data() const noexcept { return {data_, data_size_}; }
  bool is_reference() const noexcept { return owner_ != nullptr; }
  // Big-endian, one for each chunk that data() touches; empty where the geometry has none.
  ByteView sums() const noexcept { return {buffer_.data() + data_begin_ - sums_size_, sums_size_}; }
  // The `size` bytes in front of sums(). Requires: size <= kHeaderRoom.
  MutableByteView header_room(std::size_t size) noexcept {
    HFLUSH_DCHECK(size <= kHeaderRoom);
    return {buffer_.data() + data_begin_ - sums_size_ - size, size};
  }

 private:
  friend class Packetizer;
  Packet(Buffer buffer, std::uint64_t offset, std::size_t data_begin, std::size_t data_size,
         std::size_t sums_size) noexcept
      : buffer_(std::move(buffer)),
        offset_(offset),
        data_begin_(data_begin),
        data_(buffer_.data() + data_begin),
        data_size_(data_size),
        sums_size_(sums_size) {}
  // A reference; `buffer` ends where data would begin.
  Packet(Buffer buffer, std::uint64_t offset, ByteView data, Owner owner,
         std::size_t sums_size) noexcept
      : buffer_(std::move(buffer)),
        offset_(offset),
        data_begin_(buffer_.size()),
        data_(data.data()),
        data_size_(data.size()),
        sums_size_(sums_size),
        owner_(std::move(owner)) {}

  Buffer buffer_;
  std::uint64_t offset_;
  std::size_t data_begin_;  // in the buffer
  const std::byte* data_;
  std::size_t data_size_;
  std::size_t sums_size_;
  Owner owner_;  // none: the data is the buffer's
};

}  // namespace hflush::stream
