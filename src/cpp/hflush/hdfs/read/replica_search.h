// ReplicaSearch: which replica of a block a read turns to next, and when it gives up. Decisions
// without I/O: the caller asks next(), does what it says, and reports the outcome.
//
//   a round    every replica once, in the NameNode's order (the closest first), DataNodes that
//              failed this file before last
//   anew       once in a search, locations are asked anew without a pause: when a token is not
//              accepted, which is not a fault of the replica, or when no replica that is known is
//              left to try; they may have been moved
//   between    rounds a pause, locations asked anew, the dead nodes forgotten: so often as
//              dfs.client.max.block.acquire.failures says, counted from the last byte that came
//   a replica  whose checksums do not match is not read again by this search; if all are like that,
//              no pause will mend them
//   one that   has no checksums is believed only if every replica says the same: then the block was
//              written so; otherwise it has lost them, and is not read
//   a stamp    that is a new one makes the replicas new: all are tried again
//
// docs/hdfs-client.md has the table of states and events. One for each read of a block.
// Thread-compatible.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "hflush/base/status.h"
#include "hflush/env/clock.h"
#include "hflush/hdfs/read/block_reader.h"
#include "hflush/hdfs/settings.h"
#include "hflush/hdfs/wire/types.h"

namespace hflush::hdfs {

// DataNodes that failed, as one file remembers them. Thread-compatible.
class DeadNodes {
 public:
  void add(const DatanodeInfo& node) { names_.insert(name(node)); }
  bool contains(const DatanodeInfo& node) const { return names_.contains(name(node)); }
  void clear() { names_.clear(); }
  // Two nodes are the same if address and id are: a DataNode that was set up anew is another one.
  static std::string name(const DatanodeInfo& node) {
    return node.transfer_address() + " " + node.uuid;
  }

 private:
  std::set<std::string> names_;
};

class ReplicaSearch {
 public:
  // `operation` starts the message of the last failure: "read at 4096".
  ReplicaSearch(const ReadSettings& settings, std::string operation)
      : max_rounds_(settings.max_block_acquire_failures),
        window_(settings.retry_window),
        operation_(std::move(operation)) {}

  struct Try {
    std::size_t replica;
    Sums sums = Sums::kRequired;
  };
  // Wait, ask the NameNode for the block again; without_locations() if it cannot be asked.
  struct Refetch {
    env::Duration delay;
    bool forget_dead_nodes;
  };
  struct GiveUp {
    Status failure;
  };
  using Step = std::variant<Try, Refetch, GiveUp>;

  // `random`: uniform in [0, 1).
  Step next(const LocatedBlock& block, const DeadNodes& dead, double random);
  // Every replica of the block is known to be without checksums.
  void expect_no_sums() noexcept { sums_ = Sums::kOptional; }
  bool expects_no_sums() const noexcept { return sums_ == Sums::kOptional; }
  // Whether the node is to be remembered as dead.
  bool failed(const DatanodeInfo& node, const Status& failure);
  // Bytes came before the last failure: the rounds are counted anew.
  void went_on() noexcept { rounds_ = 0; }
  // The failure of a search for which the NameNode could not be asked again: what is wrong with the
  // replicas, if nothing would mend them, otherwise `why`.
  Status without_locations(const LocatedBlock& block, const Status& why) const;

  // Where the search is, as the table in docs/hdfs-client.md has it.
  std::string_view state() const noexcept;

  // The replicas of `block` to report to the NameNode: those whose checksums do not
  // match, unless that are all of several. Then rather this client is what is wrong.
  std::vector<Replica> bad_replicas(const LocatedBlock& block) const;

 private:
  enum class Anew : std::uint8_t { kNotYet, kDue, kDone };
  struct Failure {
    std::string name;
    std::string address;
    Status status;
  };

  bool is_corrupt(const Replica& replica) const;
  bool is_without_sums(const Replica& replica) const;
  bool is_hopeless(const Replica& replica) const;
  // Whether there are replicas, and all of them are like that.
  bool all_are(const LocatedBlock& block,
               bool (ReplicaSearch::*like)(const Replica& replica) const) const;
  std::optional<std::size_t> untried(const LocatedBlock& block, const DeadNodes& dead) const;
  Status summary(const LocatedBlock& block) const;

  const int max_rounds_;
  const env::Duration window_;
  const std::string operation_;
  int rounds_ = 0;  // that are over, since bytes came last
  Anew anew_ = Anew::kNotYet;
  std::optional<std::uint64_t> stamp_;  // of the block, when it was looked at last
  Sums sums_ = Sums::kRequired;
  std::set<std::string> tried_;     // in this round
  std::set<std::string> unsummed_;  // that have no checksums
  std::vector<Failure> failures_;   // the last of each node
};

// The pause after round number `round`, counted from 0: up to one window at first, longer and more
// spread each time.
env::Duration pause_after_round(int round, env::Duration window, double random) noexcept;

}  // namespace hflush::hdfs
