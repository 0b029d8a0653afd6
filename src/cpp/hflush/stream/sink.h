// Sink: what a store implements to receive a stream. SinkEvents: what it reports back.
//
// Two upload disciplines fit behind it: an ordered pipeline of packets with acknowledgements (a
// local file, HDFS) and independent blocks in parallel (S3). docs/architecture.md walks through all
// three.
//
// The stream calls put() and finish() from one thread at a time and without its lock. A sink may do
// the work before it returns (a local file: the caller's thread is the fastest) or return at once
// and report later from the event loop (HDFS, S3): the stream decides the same in both cases,
// because it only believes events. After failed() or finished() nothing else is reported.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "hflush/base/bytes.h"
#include "hflush/base/statistics.h"
#include "hflush/base/status.h"
#include "hflush/env/clock.h"
#include "hflush/env/event_loop.h"
#include "hflush/stream/geometry.h"
#include "hflush/stream/packet.h"

namespace hflush::stream {

// How far bytes have got. Each level includes the ones before it.
enum class Level : std::uint8_t {
  kHandedOver,  // flush(): out of this process's buffers, as far as that needs no answer
  kVisible,     // hflush(): every new reader sees them
  kDurable,     // hsync(): on the disk device
  kBlockEnded,  // hsync_and_end_block(): in blocks of the store to which nothing is added
};
inline constexpr std::size_t kLevels = 4;

// The capability of a store whose files consist of blocks that a stream may end early.
inline constexpr std::string_view kEndBlock = "fs.hdfs.capability.end.block";

// What a sink remembers of its past, for people.
struct PastEvent {
  env::TimePoint when;  // of the last time
  std::string what;
  std::uint32_t times = 1;  // in a row
};
using PastEvents = std::vector<PastEvent>;

// Implemented by the stream. Thread-safe; a sink calls it without holding a lock that put(),
// finish() or abandon() take.
class SinkEvents {
 public:
  // The store has confirmed receipt of every byte below `offset`.
  virtual void acknowledged(std::uint64_t offset) = 0;
  // Every byte below `offset` is at `level`; beyond kHandedOver that acknowledges it too.
  virtual void reached(Level level, std::uint64_t offset) = 0;
  // The bytes below `offset` cannot be brought to `level` now, and `why`. Nothing is broken: the
  // stream goes on, and may ask again.
  virtual void not_reached(Level level, std::uint64_t offset, Status why) = 0;
  // finish() has succeeded: the file is published.
  virtual void finished() = 0;
  // The sink is broken for good: what is not acknowledged may be lost.
  virtual void failed(Status failure) = 0;

 protected:
  ~SinkEvents() = default;
};

// The properties of a sink. Constant for its life.
struct SinkTraits {
  Geometry geometry;
  // Names of capabilities in lower case; "hsync" stands for hflush too.
  std::vector<std::string_view> capabilities;
  // The loop on which the store's answers arrive: a thread that waits for one runs the loop, which
  // saves two thread switches (docs/threading.md). No decision of the stream
  // depends on it. nullptr: events need no loop.
  env::EventLoop* loop = nullptr;
  // The store's own name of the file, which a rename does not change (inode, HDFS's file id); 0:
  // it has none.
  std::uint64_t file_id = 0;

  bool has(std::string_view capability) const noexcept {
    return std::ranges::find(capabilities, capability) != capabilities.end();
  }
};

// The argument of put().
struct Batch {
  std::span<Packet> packets;  // they follow on what was put before
  ByteView tail = {};  // the caller's bytes behind them; only where the geometry has no chunks

  bool empty() const noexcept { return packets.empty() && tail.empty(); }
};

class Sink {
 public:
  virtual ~Sink() = default;

  virtual SinkTraits traits() const = 0;

  // Takes the packets, and any number of bytes of the tail, straight from the caller's memory,
  // which the caller may reuse when this returns. Returns that number of bytes, and reports
  // acknowledged() for them.
  //
  // With a `level`: brings everything put so far to it; reports reached() or not_reached(). A sink
  // that marks the packets it sends marks the last one of the batch. Asked for kVisible and
  // kDurable only of a sink with "hsync", for kBlockEnded only of one with kEndBlock: the next
  // packet then begins a block.
  virtual std::size_t put(Batch batch, std::optional<Level> level, SinkEvents& events) = 0;
  // The one attempt to publish; everything was put. Reports finished() or failed().
  virtual void finish(SinkEvents& events) = 0;
  // abandon() follows when the call under way returns: that waits no longer than it has to for who
  // takes the bytes. Thread-safe.
  virtual void give_up() noexcept {}
  // Releases everything; publishes nothing more. No event follows its return. Does not wait for a
  // network. Called after a failure, or instead of finish().
  virtual Status abandon() noexcept = 0;

  // Whether the store is to drop what it has written from its cache; nullopt: the store decides.
  // Asked only of a sink with "dropbehind"; thread-safe.
  virtual void advise(std::optional<bool> /*drop_behind*/) {}

  // Adds the sink's own counters. Thread-safe; never waits for I/O.
  virtual void add_statistics(Statistics& statistics) const = 0;
  // What has happened last, oldest first; bounded. Thread-safe; never waits for I/O.
  virtual PastEvents history() const { return {}; }
};

}  // namespace hflush::stream
