// BlockWriter: one block and its pipeline of DataNodes, from the set-up to the last packet's
// acknowledgement. A state machine without I/O, part of FileWriter.
//
//   kReserving    a block that exists is set up again: updateBlockForPipeline asked
//   kConnecting   to the first DataNode
//   kSettingUp    WRITE_BLOCK sent
//   kSyncing      hsync has promised something of the block, or is about to, or it is a block of an
//                 append, of which an earlier stream may have: an empty packet with a sync is sent
//   kRegistering  a block that exists: updatePipeline asked; a node that fails meanwhile is noted
//   kStreaming    packets are sent, acks received
//   kDraining     the block's last packet waits for the acks of all others
//   kEnding       the last packet is sent
//
// docs/hdfs-client.md has the table of states and events. Each event returns what it means to the
// file: mostly that the block writer continues. With any other outcome the block writer has ended,
// its connection is closed, and it is not used any more. The packets that are not acknowledged are
// then in the stream's queue, in order: a node that fails is a value, Broken, from which
// BlockRecovery makes the block of another block writer, with the same packets.
//
// What hsync has promised survives a power cut of every DataNode, also in the middle of a recovery.
// A DataNode takes the new generation stamp by renaming the file of sums, without a sync: a power
// cut may undo that, and a replica with an older stamp than the NameNode's is not used any more. So
// before the NameNode gets the new stamp, every DataNode of the new pipeline, one that has only
// just got a copy of the block too, syncs the replica and its directory: kSyncing. So it is before
// packets with a sync are sent again: a DataNode passes over data that it has, and over its sync.
//
// A block that broke when its last packet was sent may be ended at some of its DataNodes and not at
// others. Where the last packet carries a sync, the pipeline is set up as that of an append is
// (kSetupAppendRecovery takes both kinds of replicas, under the rules of a close recovery), and the
// last packet is sent again. Else it is set up with kCloseRecovery: the DataNodes end the block
// when they accept the pipeline, and no packet is sent.
//
// Thread-compatible.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "hflush/base/bytes.h"
#include "hflush/base/result.h"
#include "hflush/base/status.h"
#include "hflush/env/clock.h"
#include "hflush/hdfs/wire/data_transfer.h"
#include "hflush/hdfs/wire/types.h"
#include "hflush/hdfs/write/silence_probe.h"
#include "hflush/hdfs/write/transfer_channel.h"
#include "hflush/hdfs/write/write_actions.h"
#include "hflush/hdfs/write/write_stream.h"

namespace hflush::hdfs {

class BlockWriter {
 public:
  enum class State : std::uint8_t {
    kReserving,
    kConnecting,
    kSettingUp,
    kSyncing,
    kRegistering,
    kStreaming,
    kDraining,
    kEnding,
  };

  // A block as a pipeline takes it over, or leaves it.
  struct Block {
    // Its length is what every node has acknowledged, its replicas are the pipeline.
    LocatedBlock located;
    std::uint64_t released_length = 0;  // what a node may have of it
    WriteStage stage = WriteStage::kSetupCreate;
    // hsync has promised something of it, or is about to: a packet carried a sync that is
    // acknowledged, or was sent with data; or it was there before this stream, and an earlier one
    // may have synced it.
    bool is_synced = false;
    bool is_ending = false;  // its last packet was sent
    // Its first pipeline may fail early: another block can take the place of this one.
    bool is_replaceable = false;

    std::string describe() const;  // for messages
  };

  // How a node failed: with an answer or with none; it says that it restarts; its connection is
  // lost, which a node survives; it was found silent, and may be there again; or it is slow.
  enum class Failure : std::uint8_t { kFault, kRestart, kLostConnection, kSilence, kSlow };

  // Outcome is what an event means to the file.
  //
  // Continues: the block writer goes on.
  struct Continues {};
  // Ended: every node has acknowledged the last packet, or has ended the block without it.
  struct Ended {
    Block block;
    bool synced = false;  // the last packet carried a sync
  };
  // NotBuilt: a node failed before a new block had a pipeline, so the block is empty.
  struct NotBuilt {
    Block block;
    std::size_t node = 0;  // of its replicas
    Status fault;          // its message continues after the node's name
  };
  // Broken: a node failed later. Another block writer begins with `block` without that node; its
  // stage is the one of the recovery.
  struct Broken {
    Block block;
    std::size_t node = 0;
    Status fault;
    Failure failure = Failure::kFault;
    bool stood = false;  // every node had accepted the pipeline
  };
  // Refused: the block cannot be written, and no node is the reason.
  struct Refused {
    Status why;
  };
  using Outcome = std::variant<Continues, Ended, NotBuilt, Broken, Refused>;

  // Begins with `block` and the packets of `stream`, which outlives it; its one connection has
  // `number`. Sends all packets that are not acknowledged, up to the block's last one.
  BlockWriter(WriteStream& stream, ConnectionNumber number, Block block, Actions& actions);

  State state() const noexcept { return static_cast<State>(state_.index()); }
  ConnectionNumber number() const noexcept { return number_; }
  const LocatedBlock& located() const noexcept { return block_.located; }
  // Whether packets are sent and acks received.
  bool has_pipeline() const noexcept { return pipeline() != nullptr; }
  std::optional<env::TimePoint> deadline() const noexcept;

  // From the NameNode.
  Outcome reserved(Result<LocatedBlock> answer, Actions& actions);
  Outcome registered(const Status& answer, env::TimePoint now, Actions& actions);
  // From the connection.
  void connected(env::TimePoint now);
  Outcome replied(const OperationReply& reply, env::TimePoint now, Actions& actions);
  Outcome acked(const PipelineAck& ack, env::TimePoint now, Actions& actions);
  Outcome connection_lost(const Status& failure, Actions& actions);
  // From a DataNode that was asked.
  void replica_answered(QuestionNumber question, std::size_t node,
                        const Result<std::int64_t>& length) {
    probe_.answered(question, node, length);
  }
  // From the clock.
  Outcome tick(env::TimePoint now, Actions& actions);

  // Packets were put, or acknowledged: those whose turn has come may be sent.
  void release(env::TimePoint now);
  // As FileWriter has them.
  std::size_t output(std::span<ByteView> pieces) const noexcept;
  void sent(std::size_t bytes, env::TimePoint now) noexcept;
  // The stream has ended.
  void close(Actions& actions) const;

  // A DataNode drops a client that is silent for longer.
  static constexpr env::Duration kLongestSilence = std::chrono::seconds(30);

 private:
  // The new generation stamp of a block that exists.
  using Stamp = std::uint64_t;
  struct Pipeline {
    TransferChannel channel;
    env::TimePoint acked_at;  // the newest ack, or when the pipeline was set up
    std::optional<env::TimePoint> held_until = {};  // by congestion: no packet is released before
    std::vector<int> slow_acks = {};  // by node, how many in a row said so; may be shorter
  };
  struct Fault {
    std::size_t node = 0;
    Status why;
    Failure failure = Failure::kFault;
  };

  // In the order of State.
  struct Reserving {};
  struct Connecting {
    std::optional<Stamp> stamp;
    std::optional<env::TimePoint> since = {};
  };
  struct SettingUp {
    std::optional<Stamp> stamp;
    TransferChannel channel;
  };
  struct Syncing {
    Stamp stamp;
    TransferChannel channel;
  };
  struct Registering {
    Stamp stamp;
    std::optional<TransferChannel> channel;  // none once the connection is closed
    std::optional<Fault> fault = std::nullopt;
  };
  struct Streaming : Pipeline {};
  struct Draining : Pipeline {};
  struct Ending : Pipeline {};

  const Pipeline* pipeline() const noexcept;
  Pipeline* pipeline() noexcept;
  const TransferChannel* channel() const noexcept;
  TransferChannel* channel() noexcept;

  std::size_t nodes() const noexcept { return block_.located.replicas.size(); }
  std::size_t node_named(std::string_view address) const;
  bool expects(std::int64_t sequence_number) const noexcept;
  std::int64_t sync_number() const noexcept;
  std::optional<std::size_t> node_to_blame(const PipelineAck& ack) const;
  std::optional<Fault> fault_of(const PipelineAck& ack) const;
  std::optional<Fault> slow_node(Pipeline& pipeline, const PipelineAck& ack) const;
  env::TimePoint silent_until(const TransferChannel& channel) const noexcept;
  env::TimePoint unacknowledged_since(const Pipeline& pipeline) const noexcept;
  env::TimePoint patient_until(const Pipeline& pipeline) const noexcept;
  std::optional<env::TimePoint> heartbeat_at() const noexcept;
  std::optional<env::TimePoint> silent_since() const noexcept;
  SilenceProbe::Expected expected() const noexcept;

  void connect(std::optional<Stamp> stamp, Actions& actions);
  std::string write_operation(std::optional<Stamp> stamp) const;
  void sync(Stamp stamp, TransferChannel channel, env::TimePoint now);
  void register_pipeline(Stamp stamp, std::optional<TransferChannel> channel, Actions& actions);
  void begin_streaming(TransferChannel channel, env::TimePoint now);
  bool holds_back(Pipeline& pipeline, env::TimePoint now);
  Outcome acknowledged(Pipeline& pipeline, const PipelineAck& ack, env::TimePoint now,
                       Actions& actions);
  Outcome node_failed(Fault fault, Actions& actions);
  Outcome ended_without_last_packet();
  WriteStage recovery_stage() const noexcept;

  WriteStream& stream_;
  ConnectionNumber number_;
  Block block_;
  const std::uint64_t released_before_;  // to earlier pipelines of the block
  SilenceProbe probe_;
  std::variant<Reserving, Connecting, SettingUp, Syncing, Registering, Streaming, Draining, Ending>
      state_;
};

std::string_view to_string(BlockWriter::State state) noexcept;

}  // namespace hflush::hdfs
