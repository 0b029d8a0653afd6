// BlockRecovery: what happens between a block writer that broke and the next one: which DataNode
// leaves the pipeline, which one is waited for, and which one comes in. It also comes before the
// first block writer of an append, which may find fewer replicas than its file has. A state machine
// without I/O, part of FileWriter.
//
//   kHeld          fsync is asked; there is one call at a time
//   kPausing       a DataNode restarts; the pipeline is tried again after a pause
//   kFinding       getAdditionalDatanode asked
//   kFindingLater  there is none, and the stream fails without one; asked again after a pause
//   kConnecting    to the DataNode that copies its replica to the new one
//   kTransferring  TRANSFER_BLOCK sent
//
// docs/hdfs-client.md has the table of states and events. Each event returns what it means to the
// file: mostly that the recovery continues. With any other outcome it has ended, its connection is
// closed, and it is not used any more. Ready has the block with which another block writer begins;
// where its pipeline cannot be set up either, the next recovery goes on with what Recoveries has.
//
// A replica without an acknowledged byte cannot be copied: its source would report success, and the
// new DataNode refuse the pipeline. Hadoop's client tries one DataNode after another in this way,
// and then fails. Here such a block, if it is new, is Discarded where another DataNode is wanted or
// none is left: it is abandoned, as one whose first pipeline was not built, and the same packets
// are written to another block. No promise is broken by that: nothing in the block was
// acknowledged, no length of it was recorded, and hflush and hsync wait for acknowledgements. Some
// DataNodes may have bytes that were sent, and show them to a reader: bytes that were not flushed,
// which come back at the same offset. The NameNode has these replicas deleted, and abandonBlock can
// be repeated.
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
#include "hflush/hdfs/rpc/retry_delays.h"
#include "hflush/hdfs/wire/data_transfer.h"
#include "hflush/hdfs/wire/types.h"
#include "hflush/hdfs/write/block_writer.h"
#include "hflush/hdfs/write/transfer_channel.h"
#include "hflush/hdfs/write/write_actions.h"
#include "hflush/hdfs/write/write_stream.h"

namespace hflush::hdfs {

class BlockRecovery {
 public:
  enum class State : std::uint8_t {
    kHeld,
    kPausing,
    kFinding,
    kFindingLater,
    kConnecting,
    kTransferring
  };

  struct Continues {};
  struct Ready {
    BlockWriter::Block block;
  };
  struct Discarded {
    ExtendedBlock block;
    std::vector<Replica> others;  // of its pipeline, which have not failed
  };
  struct GivenUp {
    Status why;
  };
  using Outcome = std::variant<Continues, Ready, Discarded, GivenUp>;

  // `stream` outlives it.
  BlockRecovery(WriteStream& stream, BlockWriter::Broken broken, env::TimePoint now);
  // No DataNode has failed; the block is one that an append goes on with.
  BlockRecovery(WriteStream& stream, BlockWriter::Block block);

  State state() const noexcept { return static_cast<State>(state_.index()); }
  std::optional<env::TimePoint> deadline() const noexcept;
  // The connection that copies the block, if there is one.
  std::optional<ConnectionNumber> connection() const noexcept;

  // No call is under way any more. `is_hflushed`: an hflush or hsync of the stream has succeeded;
  // `may_discard`: another block may be asked for. Requires: the state is kHeld.
  Outcome begin(bool is_hflushed, bool may_discard, env::TimePoint now, Actions& actions);
  // From the NameNode.
  Outcome found(Result<LocatedBlock> answer, env::TimePoint now, Actions& actions);
  // From the connection.
  void connected(env::TimePoint now);
  Outcome replied(const OperationReply& reply, env::TimePoint now, Actions& actions);
  Outcome connection_lost(const Status& failure, env::TimePoint now, Actions& actions);
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
  // Which DataNodes the NameNode may not name: all that have failed; not those that restarted, were
  // waited for and refused the pipeline; only those that got no copy a short while ago.
  enum class Avoided : std::uint8_t { kAllFailed, kFailedForGood, kJustUncopied };
  struct Finding {
    Avoided avoided;
  };
  struct FindingLater {
    env::TimePoint at;
  };
  struct Connecting {
    Extended extended;
  };
  struct Transferring {
    Extended extended;
    TransferChannel channel;
  };

  const std::vector<Replica>& nodes() const noexcept { return broken_.block.located.replicas; }
  // Of the copy that is tried now.
  std::size_t source() const;
  const Extended* extended() const noexcept;
  env::TimePoint silent_until(const TransferChannel& channel) const noexcept;
  bool is_worth_waiting_for(const Replica& node) const;
  bool is_of_append() const noexcept;
  bool can_be_discarded() const noexcept;
  bool can_be_tried_again() const noexcept;
  bool has_fault() const noexcept { return !broken_.fault.ok(); }
  bool restarts() const noexcept { return broken_.failure == BlockWriter::Failure::kRestart; }
  bool was_silent() const noexcept { return broken_.failure == BlockWriter::Failure::kSilence; }
  bool was_slow() const noexcept { return broken_.failure == BlockWriter::Failure::kSlow; }
  bool is_in_pipeline(const Replica& replica) const;

  std::optional<std::size_t> node_that_leaves(env::TimePoint now);
  std::optional<Outcome> leave(std::size_t node, env::TimePoint now);
  void rejoin(Replica node);
  void wait_for(Replica absent, env::TimePoint until);
  void wait_for_restart(Replica restarting, env::TimePoint now);
  void note_silent(Replica node, env::TimePoint now);
  std::optional<Outcome> take_back(env::TimePoint now);
  Outcome pause(env::TimePoint now);
  Outcome replace_or_go_on(env::TimePoint now, Actions& actions);
  bool needs_another() const noexcept;
  bool has_tries_left() const noexcept;
  bool can_take_one_back() const;
  Outcome find(env::TimePoint now, Actions& actions, Avoided avoided = Avoided::kAllFailed);
  Outcome none_found(env::TimePoint now, Actions& actions);
  Outcome try_failed(const Status& fault, env::TimePoint now, Actions& actions);
  Outcome try_again(const Status& fault, env::TimePoint now, Actions& actions);
  Outcome not_copied(const Status& fault, env::TimePoint now);
  Outcome not_replaced(Status why);
  Outcome ready();
  Outcome discard();
  void note(std::span<const Replica> pipeline, std::size_t place, std::string reason,
            env::TimePoint now);
  Status failure(std::string_view what, const Status& fault) const;

  WriteStream& stream_;
  BlockWriter::Broken broken_;  // its block is what the next block writer gets
  bool is_hflushed_ = false;
  bool may_discard_ = false;
  bool has_lost_node_ = false;  // by this recovery; else the search for another one may fail
  RetryDelays delays_;          // of searches that find none
  std::variant<Held, Pausing, Finding, FindingLater, Connecting, Transferring> state_;
};

std::string_view to_string(BlockRecovery::State state) noexcept;

}  // namespace hflush::hdfs
