// LoneWriter: the packet that a stream is filling, and the fast path of small writes into it.
//
// append() is all that a small write needs: one atomic exchange, a copy, one store. It does not
// wait: if another thread holds the packet, or the packet has no room, it appends nothing, and the
// caller takes the slow path, which holds the stream's mutex. Everything else here belongs to that
// path, so that at most one thread waits for `lock_`, and only while a small write copies.
//
// Why this is correct, on any number of threads and without a lock of the callers (a GIL):
// - Each byte is there once and in order. The packet, and whether it is open, change only under
//   `lock_`, which clang's analysis checks. What a thread appends follows on all that was appended
//   before its exchange.
// - Records stay in one piece. append() copies all of its bytes under one hold of `lock_`. A write
//   that appends in several holds keeps the packet shut from the first to the last (Shut).
// - The end is a point in time. When shut() returns no append() is under way, and none that begins
//   later succeeds: one that held `lock_` before shut() did has appended before it, all others see
//   it shut. close() and abort() shut the packet before they cut what is left.
// - hflush covers every write that returned: position() and cut() take `lock_` after it.
// - No wake-up is lost. Threads wait for what the sink reports, for turns and for the end, never
//   for bytes of a small write; so append() has no thread to wake.
//
// A forked child must not call anything here: another thread of the parent may have held the lock.
#pragma once

#include <cstdint>
#include <vector>

#include "hflush/base/buffer_pool.h"
#include "hflush/base/bytes.h"
#include "hflush/base/spin_lock.h"
#include "hflush/stream/geometry.h"
#include "hflush/stream/packet.h"
#include "hflush/stream/packetizer.h"

namespace hflush::stream {

class LoneWriter {
 public:
  // Requires: geometry.valid(). `pool` outlives it and its packets.
  LoneWriter(const Geometry& geometry, BufferPool& pool) : packetizer_(geometry, pool) {}

  // The fast path, for any thread: true if all of `data` is appended; false if nothing is.
  bool append(ByteView data) noexcept {
    if (!lock_.try_lock()) return false;
    const bool fits = shut_ == 0 && data.size() < packetizer_.room();
    if (fits) packetizer_.append_within(data);
    lock_.unlock();
    return fits;
  }

  // The slow path. Requires, for each function below: the caller holds the stream's mutex.

  // Keeps the fast path shut, until reopen() was called as often.
  void shut() noexcept;
  void reopen() noexcept;
  class Shut;

  std::uint64_t position() const noexcept;
  std::uint64_t position_after(Cut cut) const noexcept;
  // As Packetizer's: packets are added to `sealed`. Throw std::bad_alloc.
  void append(ByteView data, std::vector<Packet>& sealed);
  void append_reference(ByteView data, const Owner& owner, std::vector<Packet>& sealed);
  // Returns the offset up to which everything is sealed.
  std::uint64_t cut(Cut cut, std::vector<Packet>& sealed);
  // Requires: shut. A copy of Packetizer's.
  std::vector<std::byte> partial_chunk() const;
  // Requires: shut, and nothing is being filled.
  void skip(std::uint64_t count) noexcept;

 private:
  mutable SpinLock lock_;
  Packetizer packetizer_ HFLUSH_GUARDED_BY(lock_);
  int shut_ HFLUSH_GUARDED_BY(lock_) = 0;
};

// Keeps small writes out for a scope. The stream's mutex is held at both ends.
class LoneWriter::Shut {
 public:
  explicit Shut(LoneWriter& writer) noexcept : writer_(writer) { writer_.shut(); }
  ~Shut() { writer_.reopen(); }
  Shut(const Shut&) = delete;
  Shut& operator=(const Shut&) = delete;

 private:
  LoneWriter& writer_;
};

}  // namespace hflush::stream
