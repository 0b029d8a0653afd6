#include "hflush/hdfs/write/packet_queue.h"

#include <algorithm>
#include <utility>

#include "hflush/base/check.h"

namespace hflush::hdfs {

void PacketQueue::push_data(stream::Packet packet, std::uint64_t block_start) {
  Entry& entry = entries_.emplace_back();
  entry.sequence_number = next_sequence_number_++;
  entry.block_start = block_start;
  entry.end_in_file = packet.end();
  entry.packet = std::move(packet);
}

void PacketQueue::push_empty(Kind kind, bool sync, std::uint64_t block_start,
                             std::uint64_t end_in_file) {
  HFLUSH_DCHECK(kind != Kind::kData);
  Entry& entry = entries_.emplace_back();
  entry.sequence_number = next_sequence_number_++;
  entry.block_start = block_start;
  entry.end_in_file = end_in_file;
  entry.kind = kind;
  entry.sync = sync;
}

void PacketQueue::mark_last_packets_for_sync() noexcept {
  for (std::size_t i = released_; i < entries_.size(); ++i) {
    if (entries_[i].kind == Kind::kLast) entries_[i].sync = true;
  }
}

bool PacketQueue::has_sync_to_pass_over() const noexcept {
  const auto end = entries_.begin() + static_cast<std::ptrdiff_t>(released_);
  return std::any_of(entries_.begin(), end,
                     [](const Entry& entry) { return entry.sync && entry.kind == Kind::kData; });
}

const PacketQueue::Entry& PacketQueue::release(env::TimePoint now) noexcept {
  HFLUSH_DCHECK(has_waiting());
  Entry& entry = entries_[released_++];
  entry.released_at = now;
  PacketHeader header;
  header.offset_in_block = entry.end_in_block();
  header.sequence_number = entry.sequence_number;
  header.last_in_block = entry.kind == Kind::kLast;
  header.sync_block = entry.sync;
  if (entry.packet) {
    header.sums_size = static_cast<std::uint32_t>(entry.packet->sums().size());
    header.data_size = static_cast<std::uint32_t>(entry.packet->data().size());
    header.offset_in_block -= header.data_size;
    const MutableByteView room = entry.packet->header_room(header.encoded_size());
    header.encode_to(room);
    entry.wire = {room.data(), room.size() + header.sums_size + header.data_size};
  } else {
    const MutableByteView room(entry.header.data(), header.encoded_size());
    header.encode_to(room);
    entry.wire = room;
  }
  return entry;
}

std::size_t PacketQueue::output(std::span<ByteView> pieces) const noexcept {
  const std::size_t count = std::min(pieces.size(), released_ - sent_);
  for (std::size_t i = 0; i < count; ++i) pieces[i] = entries_[sent_ + i].wire;
  if (count > 0) pieces[0] = pieces[0].subspan(sent_part_);
  return count;
}

std::size_t PacketQueue::sent(std::size_t bytes) noexcept {
  const std::size_t before = sent_;
  sent_part_ += bytes;
  while (sent_ < released_ && sent_part_ >= entries_[sent_].wire.size()) {
    sent_part_ -= entries_[sent_].wire.size();
    ++sent_;
  }
  return sent_ - before;
}

void PacketQueue::acknowledge() noexcept {
  HFLUSH_DCHECK(oldest_is_sent());
  entries_.pop_front();
  --released_;
  --sent_;
}

std::size_t PacketQueue::rewind() noexcept {
  std::size_t bytes = sent_part_;
  for (std::size_t i = 0; i < sent_; ++i) bytes += entries_[i].wire.size();
  for (std::size_t i = 0; i < released_; ++i) entries_[i].was_released = true;
  released_ = sent_ = sent_part_ = 0;
  return bytes;
}

void PacketQueue::drop_oldest() noexcept {
  HFLUSH_DCHECK(has_waiting() && !has_unacknowledged());
  entries_.pop_front();
}

void PacketQueue::clear() noexcept {
  rewind();
  entries_.clear();
}

}  // namespace hflush::hdfs
