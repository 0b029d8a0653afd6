// Promises: which callers wait for which level, and what is needed to keep it. A state machine
// without I/O, part of FileWriter.
//
//   visible   every packet up to the last one that was put is acknowledged by every DataNode and,
//             the first time in each block, fsync() has given the NameNode the acknowledged length
//             of the block; updatePipeline keeps it.
//   durable   the same, and the last packet, or an empty one, carried a sync; and every earlier
//             block of this stream ended with a sync, or was synced afterwards (finished_blocks.h
//             says how, on which replicas and at what cost; where that is not possible now, this
//             hsync fails and the stream continues). From the first hsync on the last packet of
//             every block carries a sync, also that of close(): without it a power failure could
//             undo the replica's move to "finalized", and the NameNode would refuse what is left.
//   ended     durable, where the last packet of the newest block, which carries the sync, ends that
//             block: the next byte is in another one. A block without bytes is not begun.
//
// Two things happen beside each other: the NameNode records a length, or not; and the replicas of
// finished blocks are synced, one at a time, while an hsync waits:
//
//   kResting     nothing to sync, or no hsync waits
//   kLocating    getBlockLocations asked
//   kConnecting  to a DataNode that has a replica
//   kSyncing     the replica is opened and synced
//
// docs/hdfs-client.md has the table. Thread-compatible.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "hflush/base/bytes.h"
#include "hflush/base/result.h"
#include "hflush/base/status.h"
#include "hflush/env/clock.h"
#include "hflush/hdfs/wire/data_transfer.h"
#include "hflush/hdfs/wire/types.h"
#include "hflush/hdfs/write/finished_blocks.h"
#include "hflush/hdfs/write/transfer_channel.h"
#include "hflush/hdfs/write/write_actions.h"
#include "hflush/hdfs/write/write_stream.h"
#include "hflush/stream/sink.h"

namespace hflush::hdfs {

class Promises {
 public:
  enum class State : std::uint8_t { kResting, kLocating, kConnecting, kSyncing };

  // `stream` outlives it; the first block begins at `block_start` in the file.
  Promises(WriteStream& stream, std::uint64_t block_start)
      : stream_(stream), block_start_(block_start) {}

  State state() const noexcept { return static_cast<State>(syncing_.index()); }
  // Whether fsync() is asked.
  bool is_recording() const noexcept { return recording_.has_value(); }
  // Whether an hflush or hsync waits.
  bool has_waiters() const noexcept { return !waiters_.empty(); }
  // Whether an hflush or hsync has succeeded.
  bool has_flushed() const noexcept { return has_flushed_; }
  // Whether the last packet of a block carries a sync.
  bool ends_blocks_with_sync() const noexcept {
    return hsync_was_asked_ || stream_.target.sync_every_block;
  }
  std::optional<env::TimePoint> deadline() const noexcept;

  // A caller waits until all that was put, up to `offset`, is at `level`.
  void await(stream::Level level, std::uint64_t offset);
  // The block at `start` in the file gets a pipeline.
  void block_begins(std::uint64_t start) noexcept;
  // A block ended without a sync.
  void block_ended(LocatedBlock block) { unsynced_.add(std::move(block)); }
  // Reports what is reached and asks for what is due. `recordable`: how much of the current block
  // is acknowledged, if the NameNode may learn it now.
  void advance(std::optional<std::uint64_t> recordable, Actions& actions);
  // The stream has ended.
  void drop(Actions& actions);

  // From the NameNode. Requires: is_recording().
  void recorded() noexcept;
  void located(const Result<LocatedBlocks>& answer);
  // From the connection to a replica; number() is none without one.
  std::optional<ConnectionNumber> connection() const noexcept;
  void connected(env::TimePoint now);
  void replied(const OperationReply& reply, env::TimePoint now, Actions& actions);
  void acked(const PipelineAck& ack, Actions& actions);
  void connection_lost(const Status& failure, Actions& actions);
  // From the clock.
  void tick(env::TimePoint now, Actions& actions);

  // As FileWriter has them.
  std::size_t output(std::span<ByteView> pieces) const noexcept;
  void sent(std::size_t bytes, env::TimePoint now) noexcept;

 private:
  struct Waiter {
    stream::Level level;
    std::uint64_t offset;
    std::int64_t sequence_number;  // acknowledged when this is
  };
  // In the order of State.
  struct Resting {};
  struct Locating {};
  struct Connecting {
    ConnectionNumber number;
  };
  struct Syncing {
    ConnectionNumber number;
    TransferChannel channel;
  };

  bool is_recorded(const Waiter& waiter) const noexcept;
  bool awaits_finished_blocks() const noexcept;
  env::TimePoint silent_until(const Syncing& syncing) const noexcept;
  void sync_finished_blocks(Actions& actions);
  void refuse_durability(const Status& why, Actions& actions);
  void resolve_waiters(std::optional<std::uint64_t> recordable, Actions& actions);
  void replica_failed(const Status& fault, bool node_is_gone, Actions& actions);
  void rest(Actions& actions);

  WriteStream& stream_;
  std::vector<Waiter> waiters_;
  std::optional<std::uint64_t> handed_over_;  // a flush() waits for the queue to shrink
  bool hsync_was_asked_ = false;
  bool has_flushed_ = false;

  std::uint64_t block_start_;              // of the current block, or else of the last one
  std::optional<std::uint64_t> recorded_;  // its length, by fsync() since it began
  std::optional<std::uint64_t> recording_;

  FinishedBlocks unsynced_;
  // The sync of the first of the unsynced blocks.
  std::variant<Resting, Locating, Connecting, Syncing> syncing_;
};

std::string_view to_string(Promises::State state) noexcept;

}  // namespace hflush::hdfs
