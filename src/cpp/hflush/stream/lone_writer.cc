#include "hflush/stream/lone_writer.h"

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

std::uint64_t LoneWriter::cut(Cut cut, std::vector<Packet>& sealed) {
  const SpinLockHolder holder(lock_);
  const std::uint64_t target = packetizer_.position_after(cut);
  sealed.reserve(sealed.size() + 1);  // no packet may be lost while there is room left in it
  packetizer_.cut(cut, sealed);
  return target;
}

void LoneWriter::skip(std::uint64_t count) noexcept {
  const SpinLockHolder holder(lock_);
  packetizer_.skip(count);
}

}  // namespace hflush::stream
