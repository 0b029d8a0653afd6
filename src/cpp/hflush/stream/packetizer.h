// Packetizer: cuts a stream of bytes into packets as a geometry asks, and sums their chunks.
//
// Pure apart from taking buffers. Whole chunks are copied and summed in one pass; small pieces are
// copied and summed when the packet seals. Every byte appended is in exactly one sealed packet
// after cut(kEverything), except that a chunk cut short there is sealed again, longer, with the
// bytes that follow (HDFS rewrites a partial chunk; rule HDFS-13). cut(kBlock) ends the block with
// that: the next byte begins another one, and its first chunk.
// Thread-compatible: LoneWriter guards it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "hflush/base/buffer_pool.h"
#include "hflush/base/bytes.h"
#include "hflush/base/check.h"
#include "hflush/stream/geometry.h"
#include "hflush/stream/packet.h"

namespace hflush::stream {

enum class Cut : std::uint8_t {
  kWholeChunks,  // what can be passed on without rewriting it later
  kEverything,   // all bytes; a partial chunk comes again with the next packet
  kBlock,        // all bytes; the next one begins a block
  kFinal,        // all bytes; nothing follows
};

class Packetizer {
 public:
  // Requires: geometry.valid(). `pool` outlives the packetizer and its packets.
  Packetizer(const Geometry& geometry, BufferPool& pool);

  // The file offset after the last byte appended.
  std::uint64_t position() const noexcept { return packet_offset_ + filled_; }
  // The offset up to which cut() would have sealed everything.
  std::uint64_t position_after(Cut cut) const noexcept;

  // What cut(kWholeChunks) would not seal: less than a chunk, up to position(). Valid until the
  // next call that changes anything.
  ByteView partial_chunk() const noexcept {
    const std::size_t whole = whole_chunk_bytes();
    return {data_ + whole, filled_ - whole};
  }

  // Bytes that the packet being filled still takes; 0 if there is none.
  std::size_t room() const noexcept { return capacity_ - filled_; }
  // The fast path. Requires: data.size() < room(), so that no packet fills up.
  void append_within(ByteView data) noexcept {
    HFLUSH_DCHECK(data.size() < room());
    if (data.size() >= kFuseAtLeast) return copy_in(data);
    fill(data);
    // The cache lines of the next small writes: the lock of each waits for the copy before it.
    __builtin_prefetch(data_ + filled_ + kAhead, 1);
    __builtin_prefetch(data_ + filled_ + kAhead + kCacheLine, 1);
  }
  // Appends all of `data`; packets that fill up are added to `sealed`.
  void append(ByteView data, std::vector<Packet>& sealed);
  // Seals what is being filled, and adds packets that refer to `data`. Requires: the geometry takes
  // references.
  void append_reference(ByteView data, const Owner& owner, std::vector<Packet>& sealed);
  // Counts bytes that went to the sink directly. Requires: no packet is being filled.
  void skip(std::uint64_t count) noexcept {
    HFLUSH_DCHECK(filled_ == 0);
    packet_offset_ += count;
  }

  // Adds to `sealed` at most one packet with what `cut` covers.
  void cut(Cut cut, std::vector<Packet>& sealed);

 private:
  static constexpr std::size_t kCacheLine = 64;
  static constexpr std::size_t kAhead = 3 * kCacheLine;
  static constexpr std::size_t kFuseAtLeast = 4096;  // below, catching up with the sums costs more

  // For a few bytes a call of memcpy takes longer than two loads and two stores that may overlap.
  static void copy(std::byte* to, ByteView from) noexcept {
    if (from.size() > 2 * sizeof(std::uint64_t)) {
      __builtin_memcpy(to, from.data(), from.size());
    } else if (from.size() >= sizeof(std::uint64_t)) {
      copy_ends<std::uint64_t>(to, from);
    } else if (from.size() >= sizeof(std::uint32_t)) {
      copy_ends<std::uint32_t>(to, from);
    } else {
      for (const std::byte byte : from) *to++ = byte;
    }
  }
  template <typename Word>
  static void copy_ends(std::byte* to, ByteView from) noexcept {
    const std::size_t last = from.size() - sizeof(Word);
    Word words[2];
    __builtin_memcpy(&words[0], from.data(), sizeof(Word));
    __builtin_memcpy(&words[1], from.data() + last, sizeof(Word));
    __builtin_memcpy(to, &words[0], sizeof(Word));
    __builtin_memcpy(to + last, &words[1], sizeof(Word));
  }

  // Requires: data.size() <= room().
  void fill(ByteView data) noexcept {
    HFLUSH_DCHECK(data.size() <= room());
    copy(data_ + filled_, data);
    filled_ += data.size();
  }

  void start_packet();
  std::uint64_t into_block() const noexcept;
  std::uint64_t left_in_block() const noexcept;
  void copy_in(ByteView data) noexcept;
  void sum_whole_chunks() noexcept;
  Packet seal(std::size_t data_size);
  std::size_t whole_chunk_bytes() const noexcept;
  std::byte* sum_at(std::size_t data_offset) noexcept;

  const Geometry geometry_;
  BufferPool& pool_;
  const std::size_t data_begin_;  // of every packet, behind the header room and the largest sums

  Buffer buffer_;                    // empty while no packet is being filled
  std::byte* data_ = nullptr;        // buffer_'s data region
  std::uint64_t block_start_;        // of a block, from which on the blocks are full
  std::uint64_t packet_offset_ = 0;  // of the packet being filled, or of the next one
  std::size_t capacity_ = 0;         // data bytes the packet takes
  std::size_t filled_ = 0;           // summed_ <= filled_ <= capacity_
  std::size_t summed_ = 0;           // a whole number of chunks
  std::size_t replayed_ = 0;         // bytes at the front that an earlier packet carried already
};

}  // namespace hflush::stream
