#include "hflush/stream/lone_writer.h"

#include "hflush/base/check.h"

namespace hflush::stream {

void LoneWriter::shut() noexcept {
  const SpinLockHolder holder(lock_);
  ++shut_;
}

void LoneWriter::reopen() noexcept {
  const SpinLockHolder holder(lock_);
  --shut_;
}

std::uint64_t LoneWriter::position() const noexcept {
  const SpinLockHolder holder(lock_);
  return packetizer_.position();
}

std::uint64_t LoneWriter::position_after(Cut cut) const noexcept {
  const SpinLockHolder holder(lock_);
  return packetizer_.position_after(cut);
}

void LoneWriter::append(ByteView data, std::vector<Packet>& sealed) {
  const SpinLockHolder holder(lock_);
  packetizer_.append(data, sealed);
}

void LoneWriter::append_reference(ByteView data, const Owner& owner, std::vector<Packet>& sealed) {
  const SpinLockHolder holder(lock_);
  packetizer_.append_reference(data, owner, sealed);
}

std::uint64_t LoneWriter::cut(Cut cut, std::vector<Packet>& sealed) {
  const SpinLockHolder holder(lock_);
  const std::uint64_t target = packetizer_.position_after(cut);
  sealed.reserve(sealed.size() + 1);  // no packet may be lost while there is room left in it
  packetizer_.cut(cut, sealed);
  return target;
}

std::vector<std::byte> LoneWriter::partial_chunk() const {
  const SpinLockHolder holder(lock_);
  HFLUSH_DCHECK(shut_ > 0);
  const ByteView bytes = packetizer_.partial_chunk();
  return {bytes.begin(), bytes.end()};
}

void LoneWriter::skip(std::uint64_t count) noexcept {
  const SpinLockHolder holder(lock_);
  HFLUSH_DCHECK(shut_ > 0);
  packetizer_.skip(count);
}

}  // namespace hflush::stream
