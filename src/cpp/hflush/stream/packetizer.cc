#include "hflush/stream/packetizer.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "hflush/base/check.h"
#include "hflush/crc/checksum.h"

namespace hflush::stream {
namespace {

std::size_t largest_sums(const Geometry& geometry) noexcept {
  return geometry.has_checksums()
             ? geometry.packet_bytes / geometry.bytes_per_checksum * crc::kSumSize
             : 0;
}

std::size_t round_up(std::size_t value, std::size_t multiple) noexcept {
  return (value + multiple - 1) / multiple * multiple;
}

}  // namespace

Packetizer::Packetizer(const Geometry& geometry, BufferPool& pool)
    : geometry_(geometry),
      pool_(pool),
      data_begin_(round_up(Packet::kHeaderRoom + largest_sums(geometry), 64)),
      block_start_(geometry.block_start),
      packet_offset_(geometry.start) {
  HFLUSH_DCHECK(geometry.valid());
}

void Packetizer::start_packet() {
  // Who has filled one packet fills others.
  const bool is_first = packet_offset_ < geometry_.start + geometry_.packet_bytes;
  buffer_ = pool_.take(data_begin_ + geometry_.packet_bytes,
                       is_first ? Filling::kUnknown : Filling::kWhole);
  data_ = buffer_.data() + data_begin_;
  filled_ = summed_ = replayed_ = 0;
  capacity_ = geometry_.packet_bytes;
  if (geometry_.has_chunks()) {
    // After an append inside a chunk the first packet ends that chunk, so that the next are
    // aligned.
    const std::size_t into_chunk = into_block() % geometry_.bytes_per_checksum;
    if (into_chunk != 0) capacity_ = geometry_.bytes_per_checksum - into_chunk;
  }
  capacity_ = static_cast<std::size_t>(std::min<std::uint64_t>(capacity_, left_in_block()));
}

// Of the packet being filled, or of the next one.
std::uint64_t Packetizer::into_block() const noexcept {
  const std::uint64_t begin = packet_offset_ - block_start_;
  return geometry_.block_bytes == 0 ? begin : begin % geometry_.block_bytes;
}

std::uint64_t Packetizer::left_in_block() const noexcept {
  return geometry_.block_bytes == 0 ? ~std::uint64_t{0} : geometry_.block_bytes - into_block();
}

void Packetizer::append(ByteView data, std::vector<Packet>& sealed) {
  while (!data.empty()) {
    if (capacity_ == 0) start_packet();
    const std::size_t count = std::min(data.size(), room());
    copy_in(data.first(count));
    data = data.subspan(count);
    if (filled_ == capacity_) cut(Cut::kFinal, sealed);
  }
}

void Packetizer::append_reference(ByteView data, const Owner& owner, std::vector<Packet>& sealed) {
  HFLUSH_DCHECK(geometry_.takes_references);
  cut(Cut::kFinal, sealed);
  HFLUSH_DCHECK(filled_ == 0);
  while (!data.empty()) {
    const ByteView piece = data.first(static_cast<std::size_t>(
        std::min<std::uint64_t>({data.size(), geometry_.packet_bytes, left_in_block()})));
    Buffer buffer = pool_.take(data_begin_);
    std::size_t sums_size = 0;
    if (geometry_.has_checksums()) {
      sums_size = crc::checksum_count(piece.size(), geometry_.bytes_per_checksum) * crc::kSumSize;
      crc::chunk_sums(geometry_.checksum, piece, geometry_.bytes_per_checksum,
                      buffer.data() + data_begin_ - sums_size);
    }
    sealed.push_back(Packet(std::move(buffer), packet_offset_, piece, owner, sums_size));
    packet_offset_ += piece.size();
    data = data.subspan(piece.size());
  }
}

void Packetizer::copy_in(ByteView data) noexcept {
  if (!geometry_.has_checksums() || data.size() < kFuseAtLeast) return fill(data);
  const std::size_t chunk = geometry_.bytes_per_checksum;
  const std::size_t to_boundary = (chunk - filled_ % chunk) % chunk;
  if (data.size() < to_boundary + chunk) return fill(data);
  fill(data.first(to_boundary));
  sum_whole_chunks();
  data = data.subspan(to_boundary);
  const std::size_t whole = data.size() - data.size() % chunk;
  crc::copy_and_sum(geometry_.checksum, data_ + filled_, data.first(whole), chunk, sum_at(filled_));
  filled_ += whole;
  summed_ = filled_;
  fill(data.subspan(whole));
}

std::byte* Packetizer::sum_at(std::size_t data_offset) noexcept {
  return buffer_.data() + Packet::kHeaderRoom +
         data_offset / geometry_.bytes_per_checksum * crc::kSumSize;
}

void Packetizer::sum_whole_chunks() noexcept {
  const std::size_t whole = filled_ - filled_ % geometry_.bytes_per_checksum;
  if (whole <= summed_) return;
  crc::chunk_sums(geometry_.checksum, {data_ + summed_, whole - summed_},
                  geometry_.bytes_per_checksum, sum_at(summed_));
  summed_ = whole;
}

std::size_t Packetizer::whole_chunk_bytes() const noexcept {
  if (!geometry_.has_chunks() || filled_ == capacity_) return filled_;
  return filled_ - filled_ % geometry_.bytes_per_checksum;
}

std::uint64_t Packetizer::position_after(Cut cut) const noexcept {
  return packet_offset_ + (cut == Cut::kWholeChunks ? whole_chunk_bytes() : filled_);
}

// Seals the first `data_size` bytes; the caller takes care of the rest before the buffer is gone.
Packet Packetizer::seal(std::size_t data_size) {
  std::size_t sums_size = 0;
  if (geometry_.has_checksums()) {
    if (data_size > summed_) {
      crc::chunk_sums(geometry_.checksum, {data_ + summed_, data_size - summed_},
                      geometry_.bytes_per_checksum, sum_at(summed_));
    }
    sums_size = crc::checksum_count(data_size, geometry_.bytes_per_checksum) * crc::kSumSize;
    std::byte* const sums = buffer_.data() + Packet::kHeaderRoom;
    std::byte* const closed_up = data_ - sums_size;
    if (closed_up != sums) std::memmove(closed_up, sums, sums_size);
  }
  return Packet(std::move(buffer_), packet_offset_, data_begin_, data_size, sums_size);
}

void Packetizer::cut(Cut cut, std::vector<Packet>& sealed) {
  const std::size_t whole = whole_chunk_bytes();
  const std::size_t size = cut == Cut::kWholeChunks ? whole : filled_;
  const bool has_new = size > replayed_;
  if (!has_new && cut != Cut::kBlock) return;

  const bool keeps_partial = cut == Cut::kWholeChunks || cut == Cut::kEverything;
  const std::size_t kept_from = keeps_partial ? whole : filled_;
  const ByteView kept{data_ + kept_from, filled_ - kept_from};  // stays valid: `sealed` owns it
  if (has_new) {
    sealed.push_back(seal(size));
  } else {
    buffer_ = {};  // what it holds of the block was sealed before
  }
  packet_offset_ += kept_from;
  if (cut == Cut::kBlock) block_start_ = packet_offset_;
  capacity_ = filled_ = summed_ = replayed_ = 0;
  if (!kept.empty()) {
    start_packet();
    fill(kept);
    replayed_ = size - kept_from;
  }
}

}  // namespace hflush::stream
