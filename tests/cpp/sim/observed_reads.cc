// What hdfs/read does in a run: ReplicaSearch. See observed.h.
#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <variant>

#include "hflush/hdfs/read/replica_search.h"
#include "sim/observed.h"
#include "sim/transitions.h"

namespace hflush::sim {

using namespace hdfs;  // NOLINT(google-build-using-namespace)

namespace {

// What a search was given since it began.
struct Searched {
  enum class Failure : std::uint8_t { kNone, kToken, kOther };
  Failure last = Failure::kNone;  // since it was asked
  std::set<std::string> damaged;
  std::set<std::string> unsummed;
  std::optional<std::uint64_t> stamp;
};

Searched& searched(const ReplicaSearch& search) {
  static std::map<const ReplicaSearch*, Searched> searched;
  return searched[&search];
}

bool all_in(const LocatedBlock& block, const std::set<std::string>& names) {
  return std::ranges::all_of(block.replicas, [&](const Replica& replica) {
    return names.contains(DeadNodes::name(replica.node));
  });
}

// Nothing where a replica is tried without an event before.
std::string_view name_of(const Searched& known, const LocatedBlock& block, bool is_tried) {
  if (block.replicas.empty()) return "there is none";
  if (known.last == Searched::Failure::kToken) return "a token is not accepted";
  if (all_in(block, known.damaged)) return "all are damaged";
  if (all_in(block, known.unsummed)) return "all are without checksums";
  if (!is_tried) return "the last one that is left fails";
  if (known.last == Searched::Failure::kOther) return "a replica fails and another one is left";
  const bool is_new = known.stamp && *known.stamp != block.block.generation_stamp;
  return is_new ? "the block has a new generation stamp" : "";
}

}  // namespace

HFLUSH_EVENT(ReplicaSearch, failed, bool, ReplicaSearch* search, const DatanodeInfo& node,
             const Status& failure) {
  Searched& known = searched(*search);
  const bool is_token = failure.code() == StatusCode::kPermissionDenied;
  known.last = is_token ? Searched::Failure::kToken : Searched::Failure::kOther;
  const std::string name = DeadNodes::name(node);
  if (failure.code() == StatusCode::kChecksum) known.damaged.insert(name);
  if (is_without_sums(failure)) known.unsummed.insert(name);
  return observed_ReplicaSearch_failed(search, node, failure);
}

HFLUSH_EVENT(ReplicaSearch, next, ReplicaSearch::Step, ReplicaSearch* search,
             const LocatedBlock& block, const DeadNodes& dead, double random) {
  Searched& known = searched(*search);
  const std::string_view before = search->state();
  // Another one may have been at that address.
  if (before == "known" && known.last == Searched::Failure::kNone) known = {};
  ReplicaSearch::Step step = observed_ReplicaSearch_next(search, block, dead, random);
  const bool is_tried = std::holds_alternative<ReplicaSearch::Try>(step);
  const bool is_over = std::holds_alternative<ReplicaSearch::GiveUp>(step);
  const std::string_view after = is_over ? "given up" : search->state();
  const std::string_view event = name_of(known, block, is_tried);
  // The page's table is for searches of one round.
  const bool is_another_round = before == "asked anew" && after == before && !is_tried;
  if (!event.empty() && !is_another_round) {
    Transitions::seen().add("ReplicaSearch", before, event,
                            after == before ? Transitions::kStays : after);
  }
  known.last = Searched::Failure::kNone;
  known.stamp = block.block.generation_stamp;
  return step;
}

}  // namespace hflush::sim
