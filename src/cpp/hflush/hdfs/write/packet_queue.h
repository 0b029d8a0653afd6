// PacketQueue: the packets of one stream that are not acknowledged yet, in order.
//
//   | sent and not acknowledged | released, not all sent | waiting |
//   ^ oldest                    ^ output() begins here    ^ release()
//
// A packet is released when its pipeline may have it: its header is written then, because only then
// is it known whether it carries a sync. It stays until acknowledge() takes it out, with the same
// bytes, so that it can be sent again. Empty packets (a sync with no new data, the last packet of a
// block) stand in the same queue. Pure; thread-compatible. Sequence numbers count from 0 for the
// whole stream.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>

#include "hflush/base/bytes.h"
#include "hflush/env/clock.h"
#include "hflush/hdfs/wire/data_transfer.h"
#include "hflush/stream/packet.h"

namespace hflush::hdfs {

class PacketQueue {
 public:
  enum class Kind : std::uint8_t {
    kData,
    kSync,  // empty: asks every DataNode to sync what it has of the block
    kLast,  // empty: ends the block
  };

  struct Entry {
    std::int64_t sequence_number = 0;
    std::uint64_t block_start = 0;  // in the file
    std::uint64_t end_in_file = 0;
    Kind kind = Kind::kData;
    bool sync = false;
    env::TimePoint released_at;
    std::optional<stream::Packet> packet;
    std::array<std::byte, PacketHeader::kMaxSize> header{};  // of an empty packet
    ByteView wire;                                           // as it is sent, once released

    std::uint64_t end_in_block() const noexcept { return end_in_file - block_start; }
  };

  bool empty() const noexcept { return entries_.empty(); }
  // Waiting or not acknowledged.
  std::size_t size() const noexcept { return entries_.size(); }
  bool has_waiting() const noexcept { return released_ < entries_.size(); }
  bool has_unacknowledged() const noexcept { return released_ > 0; }
  // -1 before the first packet.
  std::int64_t newest_sequence_number() const noexcept { return next_sequence_number_ - 1; }

  // Of the block that begins at `block_start` in the file.
  void push_data(stream::Packet packet, std::uint64_t block_start);
  // Behind the byte before `end_in_file`. Requires: kind is not kData.
  void push_empty(Kind kind, std::uint64_t block_start, std::uint64_t end_in_file);

  // Requires: !empty().
  const Entry& newest() const noexcept { return entries_.back(); }
  const Entry& oldest() const noexcept { return entries_.front(); }
  // Requires: has_waiting().
  const Entry& next_waiting() const noexcept { return entries_[released_]; }
  // The newest packet will carry a sync. Requires: has_waiting().
  void mark_newest_for_sync() noexcept { entries_.back().sync = true; }
  // The next waiting packet may be sent; it carries a sync if it was marked, or if `sync`.
  // Requires: has_waiting().
  const Entry& release(bool sync, env::TimePoint now) noexcept;

  // What is released and not sent: fills `pieces`, one for each packet, and returns how many.
  std::size_t output(std::span<ByteView> pieces) const noexcept;
  bool has_output() const noexcept { return sent_ < released_; }
  // `bytes` of the output have gone out; returns how many packets are complete by that.
  std::size_t sent(std::size_t bytes) noexcept;
  // Whether the oldest packet has gone out completely: nobody can acknowledge it before.
  bool oldest_is_sent() const noexcept { return sent_ > 0; }
  // Takes the oldest packet out. Requires: oldest_is_sent().
  void acknowledge() noexcept;

  void clear() noexcept;

 private:
  std::deque<Entry> entries_;
  std::size_t released_ = 0;   // sent_ <= released_ <= entries_.size()
  std::size_t sent_ = 0;       // completely
  std::size_t sent_part_ = 0;  // bytes of entries_[sent_]
  std::int64_t next_sequence_number_ = 0;
};

}  // namespace hflush::hdfs
