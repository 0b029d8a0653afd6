// PacketQueue: the packets of one stream that are not acknowledged yet, in order.
//
//   | sent and not acknowledged | released, not all sent | waiting |
//   ^ oldest                    ^ output() begins here    ^ release()
//
// A packet is released when its pipeline may have it: its header is written then, because only then
// it is known whether it carries a sync. It stays until acknowledge() takes it out, with the same
// bytes, so that another pipeline can have it after rewind(). Empty packets (a sync with no new
// data, the last packet of a block) stand in the same queue. Sequence numbers count from 0 for the
// whole stream. Pure; thread-compatible.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>

#include "hflush/base/bytes.h"
#include "hflush/base/check.h"
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
    bool was_released = false;  // on a pipeline before: its DataNodes may have it
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
  // Whether one of those that are released has data and carries a sync, which DataNodes that have
  // the data pass over when it comes again.
  bool has_sync_to_pass_over() const noexcept;
  // Of the newest packet of all, and of the newest that is acknowledged; -1 before the first one.
  std::int64_t newest_sequence_number() const noexcept { return next_sequence_number_ - 1; }
  std::int64_t acknowledged_sequence_number() const noexcept {
    return newest_sequence_number() - static_cast<std::int64_t>(entries_.size());
  }

  // Of the block that begins at `block_start` in the file.
  void push_data(stream::Packet packet, std::uint64_t block_start);
  // Behind the byte before `end_in_file`; `sync`: carries a sync. Requires: kind is not kData.
  void push_empty(Kind kind, bool sync, std::uint64_t block_start, std::uint64_t end_in_file);

  // Requires: !empty().
  const Entry& newest() const noexcept {
    HFLUSH_DCHECK(!empty());
    return entries_.back();
  }
  const Entry& oldest() const noexcept {
    HFLUSH_DCHECK(!empty());
    return entries_.front();
  }
  // Requires: has_waiting().
  const Entry& next_waiting() const noexcept {
    HFLUSH_DCHECK(has_waiting());
    return entries_[released_];
  }
  // The newest packet, or the next waiting one, will carry a sync. Requires: has_waiting(); of the
  // newest that it was never released.
  void mark_newest_for_sync() noexcept {
    HFLUSH_DCHECK(has_waiting() && !newest().was_released);
    entries_.back().sync = true;
  }
  void mark_next_for_sync() noexcept {
    HFLUSH_DCHECK(has_waiting());
    entries_[released_].sync = true;
  }
  // So will the last packets of blocks, as far as they wait.
  void mark_last_packets_for_sync() noexcept;
  // The next waiting packet may be sent. Requires: has_waiting().
  const Entry& release(env::TimePoint now) noexcept;
  // Every packet waits again, to be sent on another pipeline. Returns how many bytes of them had
  // been sent.
  std::size_t rewind() noexcept;

  // What is released and not sent: fills `pieces`, one for each packet, and returns how many.
  std::size_t output(std::span<ByteView> pieces) const noexcept;
  bool has_output() const noexcept { return sent_ < released_; }
  // `bytes` of the output have gone out; returns how many packets are complete by that.
  std::size_t sent(std::size_t bytes) noexcept;
  // Whether the oldest packet has been sent completely: it cannot be acknowledged before.
  bool oldest_is_sent() const noexcept { return sent_ > 0; }
  // Takes the oldest packet out. Requires: oldest_is_sent().
  void acknowledge() noexcept;
  // Takes the oldest packet out: its block was ended without it. Requires: it waits.
  void drop_oldest() noexcept;

  // Nothing is written any more.
  void clear() noexcept;

 private:
  std::deque<Entry> entries_;
  std::size_t released_ = 0;   // sent_ <= released_ <= entries_.size()
  std::size_t sent_ = 0;       // completely
  std::size_t sent_part_ = 0;  // bytes of entries_[sent_]
  std::int64_t next_sequence_number_ = 0;
};

}  // namespace hflush::hdfs
