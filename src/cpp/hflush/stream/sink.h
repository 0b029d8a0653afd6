// Sink: what a store implements to receive a stream. SinkEvents: what it reports back.
//
// Two upload disciplines fit behind it: an ordered pipeline of packets with acknowledgements (a
// local file, HDFS) and independent blocks in parallel (S3). docs/architecture.md walks through all
// three.
//
// The stream calls put(), sync() and finish() from one thread at a time and without its lock. A
// sink may do the work before it returns (a local file: the caller's thread is the fastest) or
// return at once and report later from the event loop (HDFS, S3): the stream cannot tell
// the difference, because it only believes events. After failed() or finished() nothing else is
// reported.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "hflush/base/bytes.h"
#include "hflush/base/status.h"
#include "hflush/env/event_loop.h"
#include "hflush/stream/geometry.h"
#include "hflush/stream/packet.h"
#include "hflush/stream/statistics.h"

namespace hflush::stream {

// How far bytes have got. Each level includes the ones before it.
enum class Level : std::uint8_t {
  kHandedOver,  // flush(): out of this process's buffers, as far as that needs no answer
  kVisible,     // hflush(): every new reader sees them
  kDurable,     // hsync(): on the disk device
};

// Implemented by the stream. Thread-safe; a sink calls it without holding a lock of its own that
// put(), sync(), finish() or abandon() take.
class SinkEvents {
 public:
  // The store has confirmed receipt of every byte below `offset`.
  virtual void acknowledged(std::uint64_t offset) = 0;
  // Every byte below `offset` has got to `level`; beyond kHandedOver it is acknowledged by that.
  virtual void reached(Level level, std::uint64_t offset) = 0;
  // What sync() was asked for up to `offset` cannot be had now, and `why`. Nothing is broken: the
  // stream goes on, and may ask again.
  virtual void not_reached(Level level, std::uint64_t offset, Status why) = 0;
  // finish() is through: the file is published.
  virtual void finished() = 0;
  // The sink is broken for good: what is not acknowledged may be lost.
  virtual void failed(Status failure) = 0;

 protected:
  ~SinkEvents() = default;
};

class Sink {
 public:
  virtual ~Sink() = default;

  virtual const Geometry& geometry() const noexcept = 0;
  // `name` in lower case. Constant for the life of the sink; thread-safe.
  virtual bool has_capability(std::string_view name) const noexcept = 0;

  // Which loop brings the events; none: they come by themselves.
  virtual env::EventLoop* loop() const noexcept { return nullptr; }

  // Takes `packets`, which follow on what was put before, and then as many bytes of `tail` as it
  // likes to take straight from the caller's memory: that count is returned, and those bytes are
  // the sink's as soon as it returns. There is a tail only where the geometry has no chunks.
  // Acknowledges through `events`.
  virtual std::size_t put(std::span<Packet> packets, ByteView tail, SinkEvents& events) = 0;
  // Brings everything put so far to `level`; reports reached(), or not_reached(). Asked for
  // kVisible or kDurable only where has_capability("hsync").
  virtual void sync(Level level, SinkEvents& events) = 0;
  // put() and sync() together, for a sink that marks the packets it sends: what is put last carries
  // the sync.
  virtual void put_and_sync(std::span<Packet> packets, Level level, SinkEvents& events) {
    if (!packets.empty()) put(packets, {}, events);
    sync(level, events);
  }
  // The one attempt to publish; everything was put. Reports finished() or failed().
  virtual void finish(SinkEvents& events) = 0;
  // Releases everything; publishes nothing more. No event follows its return. Does not wait for a
  // network. Called once, after a failure, or instead of finish().
  virtual Status abandon() noexcept = 0;

  // Whether the store is to drop what it has written from its cache; nullopt: as it likes. Asked
  // only where has_capability("dropbehind"); thread-safe.
  virtual Status set_drop_behind(std::optional<bool> /*value*/) {
    return Status(StatusCode::kUnsupported, "set_drop_behind is not supported by this stream");
  }

  // Adds the sink's own counters. Thread-safe; never waits for I/O.
  virtual void add_statistics(Statistics& statistics) const = 0;
};

}  // namespace hflush::stream
