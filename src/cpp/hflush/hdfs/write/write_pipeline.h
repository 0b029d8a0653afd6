// WritePipeline: what the writer of one HDFS file does next. A state machine without I/O.
//
// Events go in by the functions below, each of which appends what is to be done to a list of
// actions; no clock, socket or thread in here, time comes in as an argument. The shell
// (pipeline_shell.h) performs actions in order and feeds back what came of them. One call to the
// NameNode is under way at a time. Connections have numbers; what comes from one that was given up
// is ignored, as is every answer that no state waits for.
//
// States (docs/hdfs-client.md has the whole table):
//
//   kIdle            no block; nothing to send
//   kAllocating      addBlock asked
//   kAllocateDelay   the block before the previous one is not replicated yet; addBlock again later
//   kReserving       append to a partial block: updateBlockForPipeline asked
//   kConnecting      to the first DataNode
//   kSettingUp       OpWriteBlock sent
//   kAbandoning      the pipeline could not be built; abandonBlock asked, then kAllocating again
//   kRegistering     append: updatePipeline asked
//   kStreaming       packets go out, acks come in
//   kDraining        the block is full or to be ended; its last packet waits for the acks
//   kEndingBlock     the last packet is sent
//   kCompleting      complete asked
//   kCompleteDelay   complete said "not yet"
//   kDone            published
//   kFailed          told why; nothing more happens
//   kAbandoned       the stream was dropped
//
// What hflush and hsync promise, and how it is kept:
//
//   visible   every packet up to the last one that was put is acknowledged by every DataNode, and,
//             the first time after a pipeline was built, fsync() has told the NameNode the
//             acknowledged length of the block.
//   durable   the same, and the last packet, or an empty one, carried a sync; and every earlier
//             block of this stream ended with a sync, or was synced afterwards (finished_blocks.h
//             says how, on which replicas and what it costs; where that cannot be had now, this
//             hsync fails and the stream goes on). From the first hsync on the last packet of every
//             block carries a sync, also that of close(): without it a power cut could take back
//             the replica's move to "finalized", and the NameNode would refuse what is left.
//
// A DataNode that fails while a block's first pipeline is built is excluded, and another block is
// allocated (HDFS-17299 is left out). One that fails later ends the stream with a Status that names
// node, block and numbers; the packets that are not acknowledged are still in the queue, in order,
// for a recovery to send again.
//
// Thread-compatible: the shell serialises.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "hflush/base/result.h"
#include "hflush/base/status.h"
#include "hflush/env/clock.h"
#include "hflush/hdfs/rpc/retry_delays.h"
#include "hflush/hdfs/settings.h"
#include "hflush/hdfs/wire/data_transfer.h"
#include "hflush/hdfs/wire/types.h"
#include "hflush/hdfs/write/congestion_backoff.h"
#include "hflush/hdfs/write/finished_blocks.h"
#include "hflush/hdfs/write/packet_queue.h"
#include "hflush/stream/duration_statistic.h"
#include "hflush/stream/packet.h"
#include "hflush/stream/sink.h"

namespace hflush::hdfs {

// What is written, and how. Constant for the life of a stream.
struct WriteTarget {
  std::string path;
  std::uint64_t file_id = 0;
  std::string client_name;
  std::uint64_t block_size = 0;
  crc::Kind checksum = crc::Kind::kCrc32c;
  std::uint32_t bytes_per_checksum = 512;
  bool sync_every_block = false;  // CreateFlag SYNC_BLOCK
  bool update_length = false;     // hsync tells the NameNode the length (SyncFlag UPDATE_LENGTH)
  bool lazy_persist = false;
  bool no_local_write = false;
  bool ignore_client_locality = false;
  std::vector<std::string> favored_nodes;
  // An append: the file's length, and its partial last block if there is one; or else the last
  // block, which the first addBlock, or complete, names so that it can be repeated.
  std::uint64_t start = 0;
  std::optional<LocatedBlock> partial_block;
  std::optional<ExtendedBlock> previous_block;
};

// Numbers a connection of one stream; 0 is none.
using ConnectionNumber = std::uint32_t;

namespace action {

// Calls to the NameNode, answered by the event of the same name.
struct AddBlock {
  std::optional<ExtendedBlock> previous;
  std::vector<DatanodeInfo> excluded;
};
struct AbandonBlock {
  ExtendedBlock block;
};
struct UpdateBlockForPipeline {
  ExtendedBlock block;
};
struct UpdatePipeline {
  ExtendedBlock old_block;
  ExtendedBlock new_block;
  std::vector<Replica> replicas;
};
struct Fsync {
  std::uint64_t block_length;  // acknowledged bytes of the block under construction
};
struct Complete {
  std::optional<ExtendedBlock> last;
};
// Where the bytes are now; may be under way beside one of the others. Answered by located().
struct GetBlockLocations {
  std::uint64_t offset;
  std::uint64_t length;
};
// Nobody waits for the answer.
struct RecoverLease {};

// Answered by connected() or connection_lost(). What the connection then has to send is output().
struct Connect {
  ConnectionNumber connection;
  DatanodeInfo node;
  env::Duration timeout;
};
struct Disconnect {
  ConnectionNumber connection;
};

// To the stream above (stream::SinkEvents).
struct Acknowledged {
  std::uint64_t offset;
};
struct Reached {
  stream::Level level;
  std::uint64_t offset;
};
struct NotReached {
  stream::Level level;
  std::uint64_t offset;
  Status why;
};
struct Finished {};
struct Failed {
  Status failure;
  bool is_closed = false;  // the file is: the NameNode has completed it
};

}  // namespace action

using Action =
    std::variant<action::AddBlock, action::AbandonBlock, action::UpdateBlockForPipeline,
                 action::UpdatePipeline, action::Fsync, action::Complete, action::GetBlockLocations,
                 action::RecoverLease, action::Connect, action::Disconnect, action::Acknowledged,
                 action::Reached, action::NotReached, action::Finished, action::Failed>;
using Actions = std::vector<Action>;

// What a stream has done so far.
struct WriteCounters {
  std::int64_t packets_sent = 0;  // heartbeats are not among them
  std::int64_t bytes_sent = 0;    // headers and sums included
  std::int64_t heartbeats = 0;
  std::int64_t acks = 0;
  std::int64_t blocks = 0;
  std::int64_t pipelines = 0;
  std::int64_t block_retries = 0;     // blocks abandoned because their pipeline could not be built
  std::int64_t allocate_retries = 0;  // addBlock asked again after NotReplicatedYet
  std::int64_t complete_retries = 0;
  std::int64_t fsyncs = 0;             // calls to the NameNode
  std::int64_t synced_afterwards = 0;  // replicas of finished blocks
  std::int64_t left_unsynced = 0;      // other replicas of these, whose node is gone or refused
  std::int64_t congestion_delays = 0;  // packets held back because DataNodes were congested
  stream::DurationStatistic ack_latency;
};

class WritePipeline {
 public:
  enum class State : std::uint8_t {
    kIdle,
    kAllocating,
    kAllocateDelay,
    kReserving,
    kConnecting,
    kSettingUp,
    kAbandoning,
    kRegistering,
    kStreaming,
    kDraining,
    kEndingBlock,
    kCompleting,
    kCompleteDelay,
    kDone,
    kFailed,
    kAbandoned,
  };

  WritePipeline(WriteTarget target, const WriteSettings& settings);

  State state() const noexcept { return state_; }
  const WriteTarget& target() const noexcept { return target_; }
  const WriteCounters& counters() const noexcept { return counters_; }
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
  void abandon(Actions& actions);
  // For the pipelines that are built from now on.
  void set_drop_behind(std::optional<bool> value) noexcept { drop_behind_ = value; }

  // --- from the NameNode

  void allocated(Result<LocatedBlock> answer, env::TimePoint now, Actions& actions);
  void block_abandoned(const Status& answer, env::TimePoint now, Actions& actions);
  void reserved(Result<LocatedBlock> answer, Actions& actions);
  void registered(const Status& answer, env::TimePoint now, Actions& actions);
  void fsynced(const Status& answer, env::TimePoint now, Actions& actions);
  void completed(const Result<bool>& answer, env::TimePoint now, Actions& actions);
  void located(const Result<LocatedBlocks>& answer, env::TimePoint now, Actions& actions);
  void lease_lost(const Status& failure, Actions& actions);

  // --- from the connections

  void connected(ConnectionNumber connection, env::TimePoint now);
  void replied(ConnectionNumber connection, const OperationReply& reply, env::TimePoint now,
               Actions& actions);
  void acked(ConnectionNumber connection, const PipelineAck& ack, env::TimePoint now,
             Actions& actions);
  void connection_lost(ConnectionNumber connection, const Status& failure, env::TimePoint now,
                       Actions& actions);

  // What the connection has to send now: fills `pieces` and returns how many. Valid until the next
  // event; sent() says how much of it went out.
  std::size_t output(ConnectionNumber connection, std::span<ByteView> pieces) const noexcept;
  void sent(ConnectionNumber connection, std::size_t bytes, env::TimePoint now) noexcept;
  ConnectionNumber pipeline_connection() const noexcept { return link_.number; }
  ConnectionNumber sync_connection() const noexcept { return sync_link_.number; }

  void tick(env::TimePoint now, Actions& actions);

  // A client that says nothing for longer is dropped by a DataNode.
  static constexpr env::Duration kLongestSilence = std::chrono::seconds(30);
  // A timeout is longer by this for each node of a pipeline.
  static constexpr env::Duration kTimeoutPerNode = std::chrono::seconds(5);

 private:
  // A connection to a DataNode.
  struct Link {
    ConnectionNumber number = 0;
    std::string control;           // an operation or a heartbeat: goes out before any packet
    std::size_t control_sent = 0;  // bytes of it
    env::TimePoint last_sent;
    env::TimePoint last_heard;
  };
  // hflush() or hsync() that waits.
  struct Waiter {
    stream::Level level;
    std::uint64_t offset;
    std::int64_t sequence_number;  // acknowledged when this is
  };
  struct ExcludedNode {
    DatanodeInfo node;
    env::TimePoint until;
  };

  bool is_over() const noexcept;
  bool has_pipeline() const noexcept;
  bool has_nothing_to_send() const noexcept;
  bool may_record_length() const noexcept;
  bool is_recorded(const Waiter& waiter) const noexcept;
  bool awaits_finished_blocks() const noexcept;
  bool has_asked_replica() const noexcept;
  env::TimePoint silent_until(const Link& link, std::size_t nodes) const noexcept;
  env::TimePoint patient_until() const noexcept;
  env::Duration heartbeat_interval() const noexcept;
  ChecksumParameters checksum_parameters() const noexcept;
  std::size_t node_of(std::string_view address) const;

  void enqueue(std::span<stream::Packet> packets, Actions& actions);
  void end_newest_block();
  void ask_for_durability();

  void advance(env::TimePoint now, Actions& actions);
  void release_packets(env::TimePoint now);
  bool holds_back(env::TimePoint now);
  void resolve_waiters(Actions& actions);
  void sync_finished_blocks(Actions& actions);
  void refuse_durability(const Status& why, Actions& actions);
  void leave_idle(env::TimePoint now, Actions& actions);

  void allocate(env::TimePoint now, Actions& actions);
  void allocation_failed(const Status& failure, env::TimePoint now, Actions& actions);
  void start_block(LocatedBlock block, std::uint64_t start, std::uint64_t length, Actions& actions);
  std::string write_operation() const;
  void pipeline_stands(env::TimePoint now) noexcept;
  void set_up_failed(std::size_t node, const Status& fault, env::TimePoint now, Actions& actions);
  void packet_acked(const PipelineAck& ack, env::TimePoint now, Actions& actions);
  void tell_acknowledged(Actions& actions);
  void end_block(Actions& actions);
  void complete(Actions& actions);
  void not_completed(Status why, Actions& actions);
  void check_pipeline(env::TimePoint now, Actions& actions);

  void open_link(Link& link, const DatanodeInfo& node, Actions& actions);
  static void close_link(Link& link, Actions& actions);

  void node_failed(std::size_t node, const Status& fault, Actions& actions);
  void replica_failed(const Status& fault, bool node_is_gone, Actions& actions);
  void fail(Status failure, Actions& actions);
  void drop_everything(Actions& actions);
  std::string describe_ack(const PipelineAck& ack) const;
  std::string describe_pipeline() const;

  const WriteTarget target_;
  const WriteSettings settings_;
  std::optional<bool> drop_behind_;

  State state_ = State::kIdle;
  WriteCounters counters_;

  // What the stream has asked for.
  PacketQueue queue_;
  std::uint64_t put_;                         // every byte below is in the queue, or was
  std::uint64_t newest_block_start_;          // of the block of the newest byte, in the file
  std::optional<std::uint64_t> handed_over_;  // a flush() that waits for the queue to shrink
  std::vector<Waiter> waiters_;
  bool durable_ = false;  // hsync has been asked for
  bool finishing_ = false;

  // The block under construction; without one, the last that was.
  ExtendedBlock block_;                // its length is what is acknowledged of it
  std::uint64_t block_start_;          // in the file
  std::uint64_t released_length_ = 0;  // of the block
  Token token_;
  std::vector<Replica> replicas_;     // the pipeline
  std::uint64_t reserved_stamp_ = 0;  // an append's new generation stamp, until it is registered
  bool last_packet_syncs_ = false;    // the one that ends it

  std::uint64_t acknowledged_;  // in the file
  std::int64_t acknowledged_sequence_number_ = -1;
  env::TimePoint waiting_since_;  // for the ack of the oldest packet
  CongestionBackoff backoff_;
  std::optional<env::TimePoint> held_until_;  // no packet is released before

  std::optional<LocatedBlock> to_reopen_;  // an append's partial block, untouched
  std::optional<ExtendedBlock> previous_;  // the last block that was ended
  FinishedBlocks unsynced_;
  bool locating_ = false;  // the first of them

  Link link_;       // of the pipeline
  Link sync_link_;  // to a replica of a finished block
  ConnectionNumber last_number_ = 0;

  // The NameNode.
  bool fsync_pending_ = false;
  std::uint64_t fsync_length_ = 0;
  std::optional<std::uint64_t>
      recorded_length_;  // of the block, by fsync since its pipeline stands
  env::TimePoint retry_at_;
  RetryDelays allocate_delays_;
  RetryDelays complete_delays_;
  int attempts_left_ = 0;        // to find a pipeline for a block
  std::string failed_attempts_;  // what became of the others
  std::vector<ExcludedNode> excluded_;
  Status doomed_;  // why the stream fails once complete() is through
};

std::string_view to_string(WritePipeline::State state) noexcept;

}  // namespace hflush::hdfs
