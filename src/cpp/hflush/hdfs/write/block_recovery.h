// BlockRecovery: what happens between a block writer that broke and the next one: which DataNode
// leaves the pipeline, which one is waited for, and which one comes in. A state machine without
// I/O, part of FileWriter.
//
//   kHeld          fsync is asked; there is one call at a time
//   kPausing       a DataNode restarts; the pipeline is tried again after a pause
//   kFinding       getAdditionalDatanode asked
//   kConnecting    to the DataNode that copies its replica to the new one
//   kTransferring  TRANSFER_BLOCK sent
//
// docs/hdfs-client.md has the table of states and events. Each event returns what it means to the
// file: mostly that the recovery continues. With any other outcome it has ended, its connection is
// closed, and it is not used any more. `ready` is the block with which another block writer begins;
// where its pipeline cannot be set up either, the next recovery goes on with what Recoveries has.
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

#include "hflush/base/bytes.h"
#include "hflush/base/result.h"
#include "hflush/base/status.h"
#include "hflush/env/clock.h"
#include "hflush/hdfs/wire/data_transfer.h"
#include "hflush/hdfs/wire/types.h"
#include "hflush/hdfs/write/block_writer.h"
#include "hflush/hdfs/write/transfer_channel.h"
#include "hflush/hdfs/write/write_actions.h"
#include "hflush/hdfs/write/write_stream.h"

namespace hflush::hdfs {

class BlockRecovery {
 public:
  enum class State : std::uint8_t { kHeld, kPausing, kFinding, kConnecting, kTransferring };

  struct Continues {};
  struct Ready {
    BlockWriter::Block block;
  };
  struct GivenUp {
    Status why;
  };
  using Outcome = std::variant<Continues, Ready, GivenUp>;

  // `stream` outlives it.
  BlockRecovery(WriteStream& stream, BlockWriter::Broken broken)
      : stream_(stream), broken_(std::move(broken)) {}

  State state() const noexcept { return static_cast<State>(state_.index()); }
  std::optional<env::TimePoint> deadline() const noexcept;
  // The connection that copies the block, if there is one.
  std::optional<ConnectionNumber> connection() const noexcept;

  // No call is under way any more. `is_hflushed`: an hflush or hsync of the stream has succeeded.
  // Requires: the state is kHeld.
  Outcome begin(bool is_hflushed, env::TimePoint now, Actions& actions);
  // From the NameNode.
  Outcome found(Result<LocatedBlock> answer, Actions& actions);
  // From the connection.
  void connected(env::TimePoint now);
  Outcome replied(const OperationReply& reply, Actions& actions);
  Outcome connection_lost(const Status& failure, Actions& actions);
  // From the clock.
  Outcome tick(env::TimePoint now, Actions& actions);

  // As FileWriter has them.
  std::size_t output(std::span<ByteView> pieces) const noexcept;
  void sent(std::size_t bytes, env::TimePoint now) noexcept;
  // The stream has ended.
  void close(Actions& actions) const;

 private:
  // A pipeline with another node, which gets a copy of the block first.
  struct Extended {
    ConnectionNumber number;
    LocatedBlock located;  // with the token that allows copying
    std::size_t target;    // of its replicas
  };

  // In the order of State.
  struct Held {};
  struct Pausing {
    env::TimePoint until;
  };
  struct Finding {};
  struct Connecting {
    Extended extended;
  };
  struct Transferring {
    Extended extended;
    TransferChannel channel;
  };

  const std::vector<Replica>& nodes() const noexcept { return broken_.block.located.replicas; }
  std::size_t node_of(std::string_view address) const noexcept;
  // Of the copy that is tried now.
  const DatanodeInfo& source() const noexcept;
  const Extended* extended() const noexcept;
  env::TimePoint silent_until(const TransferChannel& channel) const noexcept;
  bool is_worth_waiting_for(const Replica& node) const;

  std::optional<std::size_t> node_that_leaves(env::TimePoint now);
  std::optional<Outcome> leave(std::size_t node);
  Outcome replace_or_go_on(Actions& actions);
  Outcome find(Actions& actions);
  Outcome try_failed(const DatanodeInfo& target, const Status& fault, Actions& actions);
  Outcome try_again(const Status& fault, Actions& actions);
  Outcome not_replaced(Status why);
  Outcome ready();
  void note(const DatanodeInfo& node, std::string_view place, const Status& fault);
  Status failure(std::string_view what, const Status& fault) const;

  WriteStream& stream_;
  BlockWriter::Broken broken_;  // its block is what the next block writer gets
  bool is_hflushed_ = false;
  std::variant<Held, Pausing, Finding, Connecting, Transferring> state_;
};

std::string_view to_string(BlockRecovery::State state) noexcept;

}  // namespace hflush::hdfs
