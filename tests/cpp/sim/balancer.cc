#include "sim/balancer.h"

#include <algorithm>

namespace hflush::sim {
namespace {

using namespace std::chrono_literals;  // NOLINT(google-build-using-namespace)

constexpr std::uint64_t kMostMoves = 40;
constexpr Duration kHeartbeat = 3s;
constexpr int kHeartbeats = 50;  // of a DataNode that is gone, or cut off

}  // namespace

void Balancer::plan() {
  if (!chance_.one_in(3)) return;
  const std::uint64_t planned = chance_.between(1, kMostMoves);
  const Duration longest = chance_.one_in(2) ? Duration(20ms) : Duration(3s);
  for (std::uint64_t i = 0; i < planned; ++i) {
    world_.after(chance_.up_to(chance_.one_in(8) ? 60s : longest), [this] { begin(); });
  }
}

Duration Balancer::lag() { return chance_.up_to(chance_.one_in(4) ? Duration(2s) : Duration(3ms)); }

bool Balancer::is_reached(const DataNode& node) const {
  return node.is_up() && !network_.is_silent(node.ip()) && space_.is_served();
}

void Balancer::begin() {
  std::vector<Move> possible;
  for (const auto& [path, file] : space_.files()) {
    for (const NameSpace::Block& block : file.blocks) {
      if (block.state != NameSpace::Block::State::kComplete || block.reported.empty()) continue;
      DataNode* const source = chance_.one_of(block.reported);
      DataNode* const target = chance_.one_of(nodes_).get();
      const bool has_it = std::ranges::count(block.reported, target) > 0 ||
                          std::ranges::count(block.pipeline, target) > 0;
      if (!has_it) possible.push_back({block.id, block.stamp, source, target});
    }
  }
  if (possible.empty()) return;
  const Move& move = chance_.one_of(possible);
  world_.note("balancer: ", move.block, " from ", move.source->info().host, " to ",
              move.target->info().host);
  world_.after(chance_.up_to(chance_.one_in(4) ? 1s : 2ms), [this, move] { copy(move); });
}

void Balancer::copy(const Move& move) {
  const StoredReplica* const original = move.source->replica(move.block);
  const bool can = original != nullptr && original->stamp == move.stamp &&
                   original->state == StoredReplica::State::kFinalized && move.source->is_up() &&
                   !network_.is_silent(move.source->ip()) && !network_.is_silent(move.target->ip());
  if (!can || !move.target->take_copy(move.block, *original)) return;
  world_.note("balancer: ", move.target->info().host, " has a copy of ", move.block);
  world_.after(lag(), [this, move] { report(move); });
}

void Balancer::report(const Move& move) {
  if (!is_reached(*move.target)) return;  // it reports when it is back, as any replica
  // Of what has become of a block since its last report a DataNode tells the latest: here, that it
  // has deleted the copy, as another move has asked for.
  if (move.target->replica(move.block) == nullptr) return;
  const NameSpace::Moved moved = space_.moved(move.block, move.stamp, *move.source, *move.target);
  if (moved == NameSpace::Moved::kLate) {
    world_.note("nn: the copy of ", move.block, " on ", move.target->info().host, " is late");
    world_.after(lag(), [move] { move.target->invalidate(move.block, move.stamp); });
    return;
  }
  world_.note("nn: ", move.target->info().host, " has ", move.block, " now");
  if (moved == NameSpace::Moved::kReplaced) {
    world_.after(chance_.up_to(chance_.one_in(2) ? kHeartbeat : 5ms),
                 [this, move] { delete_old(move, 1); });
  }
}

void Balancer::delete_old(const Move& move, int tries) {
  if (!is_reached(*move.source)) {
    if (tries < kHeartbeats) {
      world_.after(kHeartbeat, [this, move, tries] { delete_old(move, tries + 1); });
    }
    return;
  }
  if (!space_.tell_to_delete(move.block, *move.source)) return;  // it was opened again
  world_.after(lag(), [this, move] {
    const StoredReplica* const replica = move.source->replica(move.block);
    const bool is_there = replica != nullptr && replica->stamp == move.stamp;
    if (!move.source->is_up() || !is_there) return;
    space_.deletes(move.block, *move.source);
    move.source->invalidate(move.block, move.stamp);
    world_.after(lag(), [this, move] { report_deleted(move); });
  });
}

void Balancer::report_deleted(const Move& move) {
  if (move.source->replica(move.block) == nullptr) space_.deleted(move.block, *move.source);
}

}  // namespace hflush::sim
