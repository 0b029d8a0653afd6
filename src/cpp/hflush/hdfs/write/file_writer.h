// FileWriter: what the writer of one HDFS file does next. A state machine without I/O.
//
// Events are the functions below; each appends what is to be done to a list of actions. No clock,
// socket or thread in here, time is an argument. The shell (pipeline_shell.h) performs the actions
// in order and reports the answers as events. One call to the NameNode is under way at a time,
// except for getBlockLocations. Connections have numbers; an event of one that is closed is
// ignored, as is every answer that no state waits for.
//
//   kIdle           no block; nothing to send
//   kAllocating     addBlock asked
//   kAllocateDelay  the block before the previous one is not replicated yet, or no DataNode can
//                   take a block; addBlock again later, then with no DataNode excluded
//   kWriting        a block, by its BlockWriter (block_writer.h)
//   kRecovering     a DataNode of its pipeline has failed, or an append has found its block:
//                   BlockRecovery (block_recovery.h) makes the block of the next BlockWriter
//   kAbandoning     its pipeline could not be built; abandonBlock asked, then kAllocating again
//   kCompleting     complete asked
//   kCompleteDelay  complete said "not yet"
//   kChecking       complete said that the lease is lost, as a NameNode says of a file without a
//                   block when it has closed it already; getBlockLocations asked: is it closed?
//   kDone           published
//   kFailed         reported why; nothing more happens
//   kAbandoned      the stream was dropped
//
// docs/hdfs-client.md has the table of states and events. What hflush and hsync wait for is kept
// by Promises (promises.h).
//
// A DataNode that fails while a block's first pipeline is built is excluded, and another block is
// allocated (HDFS-17299 is left out). One that fails later is left out of the pipeline, waited for
// or replaced; before the first acknowledgement another block may take the place of this one. Where
// nothing of that is possible the stream fails with a Status that names the nodes, the block and
// the numbers.
//
// Thread-compatible: the shell serialises.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "hflush/base/bytes.h"
#include "hflush/base/result.h"
#include "hflush/base/status.h"
#include "hflush/env/clock.h"
#include "hflush/hdfs/rpc/retry_delays.h"
#include "hflush/hdfs/settings.h"
#include "hflush/hdfs/wire/data_transfer.h"
#include "hflush/hdfs/wire/types.h"
#include "hflush/hdfs/write/block_recovery.h"
#include "hflush/hdfs/write/block_writer.h"
#include "hflush/hdfs/write/promises.h"
#include "hflush/hdfs/write/stall_watch.h"
#include "hflush/hdfs/write/write_actions.h"
#include "hflush/hdfs/write/write_stream.h"
#include "hflush/stream/packet.h"
#include "hflush/stream/sink.h"

namespace hflush::hdfs {

class FileWriter {
 public:
  enum class State : std::uint8_t {
    kIdle,
    kAllocating,
    kAllocateDelay,
    kWriting,
    kRecovering,
    kAbandoning,
    kCompleting,
    kCompleteDelay,
    kChecking,
    kDone,
    kFailed,
    kAbandoned,
  };

  FileWriter(WriteTarget target, const WriteSettings& settings);
  FileWriter(const FileWriter&) = delete;
  FileWriter& operator=(const FileWriter&) = delete;

  State state() const noexcept { return static_cast<State>(state_.index()); }
  // None but in kWriting.
  const BlockWriter* block() const noexcept;
  // None but in kRecovering.
  const BlockRecovery* recovery() const noexcept;
  const Promises& promises() const noexcept { return promises_; }
  const WriteTarget& target() const noexcept { return stream_.target; }
  const WriteCounters& counters() const noexcept { return stream_.counters; }
  const FailureRecord& failures() const noexcept { return stream_.failures; }
  // Every byte below this is acknowledged by every DataNode.
  std::uint64_t acknowledged_offset() const noexcept { return acknowledged_; }
  // When tick() has something to do, unless an event comes before.
  std::optional<env::TimePoint> deadline() const noexcept;

  // --- from the stream, as stream::Sink has them

  void put(std::span<stream::Packet> packets, env::TimePoint now, Actions& actions);
  // Takes `packets` before.
  void sync(stream::Level level, std::span<stream::Packet> packets, env::TimePoint now,
            Actions& actions);
  void finish(env::TimePoint now, Actions& actions);
  void abandon(env::TimePoint now, Actions& actions);
  // For the pipelines that are set up from now on.
  void set_drop_behind(std::optional<bool> value) noexcept { stream_.drop_behind = value; }

  // --- from the NameNode

  void allocated(Result<LocatedBlock> answer, env::TimePoint now, Actions& actions);
  void block_abandoned(const Status& answer, env::TimePoint now, Actions& actions);
  void reserved(Result<LocatedBlock> answer, env::TimePoint now, Actions& actions);
  void registered(const Status& answer, env::TimePoint now, Actions& actions);
  // Of getAdditionalDatanode.
  void found(Result<LocatedBlock> answer, env::TimePoint now, Actions& actions);
  void fsynced(const Status& answer, env::TimePoint now, Actions& actions);
  void completed(const Result<bool>& answer, env::TimePoint now, Actions& actions);
  void located(const Result<LocatedBlocks>& answer, env::TimePoint now, Actions& actions);
  void lease_lost(const Status& failure, env::TimePoint now, Actions& actions);

  // --- from a DataNode that was asked, the one at that place of its question

  void replica_answered(QuestionNumber question, std::size_t node,
                        const Result<std::int64_t>& length);

  // --- from the connections

  void connected(ConnectionNumber connection, env::TimePoint now);
  void replied(ConnectionNumber connection, const OperationReply& reply, env::TimePoint now,
               Actions& actions);
  void acked(ConnectionNumber connection, const PipelineAck& ack, env::TimePoint now,
             Actions& actions);
  void connection_lost(ConnectionNumber connection, const Status& failure, env::TimePoint now,
                       Actions& actions);

  // What the connection has to send now: fills `pieces` and returns how many. Valid until the next
  // event; sent() says how much of it was sent.
  std::size_t output(ConnectionNumber connection, std::span<ByteView> pieces) const noexcept;
  void sent(ConnectionNumber connection, std::size_t bytes, env::TimePoint now) noexcept;

  void tick(env::TimePoint now, Actions& actions);

 private:
  // The search for a new block whose pipeline can be built.
  struct Search {
    int attempts_left;
    RetryDelays delays;
    int failed = 0;  // attempts
    env::TimePoint failed_first = {};
  };
  // The end of the file.
  struct Closing {
    RetryDelays delays;
    // addBlock was refused: with this the stream fails once the file is closed.
    std::optional<Status> refusal;
  };
  struct ExcludedNode {
    DatanodeInfo node;
    env::TimePoint until;
  };

  // In the order of State.
  struct Idle {};
  struct Allocating {
    Search search;
  };
  struct AllocateDelay {
    Search search;
    env::TimePoint until;
  };
  struct Writing {
    Writing(Search its_search, BlockWriter its_block)
        : search(its_search), block(std::move(its_block)) {}
    Search search;
    BlockWriter block;
  };
  struct Recovering {
    Recovering(Search its_search, BlockRecovery its_recovery)
        : search(its_search), recovery(std::move(its_recovery)) {}
    Search search;
    BlockRecovery recovery;
  };
  struct Abandoning {
    Search search;
  };
  struct Completing {
    Closing closing;
  };
  struct CompleteDelay {
    Closing closing;
    env::TimePoint until;
  };
  struct Checking {
    Closing closing;
    Status why;  // what complete said
  };
  struct Done {};
  struct Failed {};
  struct Abandoned {};

  bool is_over() const noexcept { return state() >= State::kDone; }
  BlockWriter* writer() noexcept;
  BlockWriter* writer_on(ConnectionNumber connection) noexcept;
  const BlockWriter* writer_on(ConnectionNumber connection) const noexcept;
  BlockRecovery* recovering() noexcept;
  BlockRecovery* recovery_on(ConnectionNumber connection) noexcept;
  const BlockRecovery* recovery_on(ConnectionNumber connection) const noexcept;
  bool promises_use(ConnectionNumber connection) const noexcept;
  std::optional<std::uint64_t> recordable_length() const noexcept;
  std::optional<ExtendedBlock> last_block() const;

  void enqueue(std::span<stream::Packet> packets, env::TimePoint now, Actions& actions);
  bool newest_block_is_open() const noexcept;
  void end_newest_block(bool sync);
  void sync_newest_block();

  void advance(env::TimePoint now, Actions& actions);
  void leave_idle(env::TimePoint now, Actions& actions);
  void allocate(Search search, env::TimePoint now, Actions& actions);
  void allocation_failed(Search search, const Status& failure, env::TimePoint now,
                         Actions& actions);
  void no_block(const Status& failure, env::TimePoint now, Actions& actions);
  void write_block(Search search, BlockWriter::Block block, Actions& actions);
  void exclude(const DatanodeInfo& node, env::TimePoint failed_at, env::Duration length);
  void discard_block(Search search, ExtendedBlock block, env::TimePoint now, Actions& actions);
  void note_acknowledged(std::uint64_t offset, Actions& actions);

  // What an event meant to the block; no outcome but Continues leaves it in state_.
  void take(BlockWriter::Outcome outcome, env::TimePoint now, Actions& actions);
  void on(BlockWriter::Continues&& continues, env::TimePoint now, Actions& actions);
  void on(BlockWriter::Ended&& ended, env::TimePoint now, Actions& actions);
  void on(BlockWriter::NotBuilt&& not_built, env::TimePoint now, Actions& actions);
  void on(BlockWriter::Broken&& broken, env::TimePoint now, Actions& actions);
  void on(BlockWriter::Refused&& refused, env::TimePoint now, Actions& actions);

  // And to its recovery.
  void take(BlockRecovery::Outcome outcome, env::TimePoint now, Actions& actions);
  void on(BlockRecovery::Continues&& continues, env::TimePoint now, Actions& actions);
  void on(BlockRecovery::Ready&& ready, env::TimePoint now, Actions& actions);
  void on(BlockRecovery::Discarded&& discarded, env::TimePoint now, Actions& actions);
  void on(BlockRecovery::GivenUp&& given_up, env::TimePoint now, Actions& actions);

  void complete(Closing closing, Actions& actions);
  void checked(const Result<LocatedBlocks>& answer, env::TimePoint now, Actions& actions);
  void closed(const Closing& closing, env::TimePoint now, Actions& actions);
  void not_closed(const Closing& closing, Status why, env::TimePoint now, Actions& actions);
  void fail(const Status& failure, env::TimePoint now, Actions& actions);
  void note_stall(bool waits, env::TimePoint now);
  void drop_everything(env::TimePoint now, Actions& actions);

  WriteStream stream_;
  Promises promises_;

  // What the stream has asked for.
  std::uint64_t put_;                 // every byte below is in the queue, or was
  std::uint64_t newest_block_start_;  // of the block of the newest byte, in the file
  bool finishing_ = false;

  std::uint64_t acknowledged_;  // in the file
  StallWatch stall_watch_;
  std::optional<LocatedBlock> to_reopen_;  // an append's partial block, untouched
  std::optional<ExtendedBlock> previous_;  // the last block that was ended
  std::vector<ExcludedNode> excluded_;
  std::variant<Idle, Allocating, AllocateDelay, Writing, Recovering, Abandoning, Completing,
               CompleteDelay, Checking, Done, Failed, Abandoned>
      state_;
};

std::string_view to_string(FileWriter::State state) noexcept;

}  // namespace hflush::hdfs
