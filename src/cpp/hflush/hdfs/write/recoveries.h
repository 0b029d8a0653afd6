// Recoveries: what a stream remembers of its DataNodes that failed, from one recovery of a pipeline
// to the next. Values; BlockRecovery (block_recovery.h) decides by them. Pure; thread-compatible.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "hflush/env/clock.h"
#include "hflush/hdfs/settings.h"
#include "hflush/hdfs/wire/types.h"

namespace hflush::hdfs {

// Whether a pipeline of `nodes` that are left gets another one, as Hadoop's
// ReplaceDatanodeOnFailure decides. `is_append`: the stream goes on with a partial block;
// `is_hflushed`: an hflush or hsync of it has succeeded.
constexpr bool wants_replacement(const WriteSettings& settings, std::size_t replication,
                                 std::size_t nodes, bool is_append, bool is_hflushed) noexcept {
  if (!settings.replace_datanode || nodes == 0 || nodes >= replication) return false;
  switch (settings.replacement_policy) {
    case ReplacementPolicy::kNever:
      return false;
    case ReplacementPolicy::kAlways:
      return true;
    case ReplacementPolicy::kDefault:
      return replication >= 3 && (nodes <= replication / 2 || is_append || is_hflushed);
  }
  return false;
}

struct Recoveries {
  struct FailedNode {
    DatanodeInfo node;
    env::TimePoint failed_at;
    // It restarts, or was waited for: it is left out until the next pipeline stands, or there is no
    // other one.
    bool may_return = false;
  };
  // A DataNode of the pipeline that restarts, or is silent.
  struct Awaited {
    std::string address;
    env::TimePoint until;
    env::Duration pause;  // the next one
  };
  // The DataNode that left last because it was found silent. Where the stream would fail without
  // another one it is waited for, as long as its silence would have been borne.
  struct Silent {
    Replica node;
    env::TimePoint until;
  };
  // A DataNode that was to come in, and got no copy of the block.
  struct Uncopied {
    DatanodeInfo node;
    env::TimePoint failed_at;
  };
  // The search for other DataNodes. It has succeeded when a pipeline with them is set up.
  struct Replacement {
    bool is_extra = false;  // no DataNode has left: the stream can go on without
    int failed_tries = 0;
    std::vector<Uncopied> uncopied;
    std::vector<std::string> targets;  // the addresses of those that are in the pipeline
    int refusals = 0;                  // of those that came in, and whose copy had not arrived

    int tries() const noexcept { return failed_tries + refusals; }
  };

  // A node is left out of replacements for the life of the stream, once.
  void add_failed(const DatanodeInfo& node, env::TimePoint now, bool may_return) {
    const std::string address = node.transfer_address();
    const auto known = std::ranges::find_if(
        failed, [&](const FailedNode& one) { return one.node.transfer_address() == address; });
    if (known == failed.end()) {
      failed.push_back({node, now, may_return});
    } else {
      *known = {node, now, may_return};
    }
  }
  // Whether it is slow and stays all the same, for the life of the stream.
  bool tolerates(const DatanodeInfo& node) const {
    return std::ranges::find(tolerated, node.transfer_address()) != tolerated.end();
  }
  // How many DataNodes came in that are not proven yet.
  std::size_t unproven() const noexcept { return replacement ? replacement->targets.size() : 0; }
  // Every DataNode of a pipeline has accepted it.
  void pipeline_is_set_up() {
    std::erase_if(failed, [](const FailedNode& node) { return node.may_return; });
    restarting.reset();
    slow.reset();
    awaited.reset();
    silent.reset();
    replacement.reset();
  }

  int since_ack = 0;  // recoveries without an acknowledgement between them
  std::vector<FailedNode> failed;
  std::optional<Replica> restarting;   // has left; is waited for where no other one can come in
  std::optional<Replica> slow;         // has left; is taken back where no other one can come in
  std::vector<std::string> tolerated;  // the addresses of such that were taken back
  std::optional<Awaited> awaited;
  std::optional<Silent> silent;
  std::optional<Replacement> replacement;
};

}  // namespace hflush::hdfs
