#include "sim/faults.h"

#include <algorithm>
#include <utility>

namespace hflush::sim {
namespace {

using namespace std::chrono_literals;  // NOLINT(google-build-using-namespace)

// Less than a stream waits for a DataNode, whether it has heard that it restarts or not.
constexpr Duration kUpgrade = 29s;

}  // namespace

void Faults::plan(std::vector<std::string> hosts) {
  hosts_ = std::move(hosts);
  if (chance_.one_in(3)) {
    NameNode::Faults faults;
    if (chance_.one_in(2)) faults.lost_calls = chance_.between(5, 50);
    if (chance_.one_in(2)) faults.lost_answers = chance_.between(5, 50);
    if (chance_.one_in(2)) faults.late_answers = chance_.between(5, 50);
    if (chance_.one_in(2)) faults.late_calls = chance_.between(5, 50);
    name_nodes_.suffer(faults);
  }
  const std::uint64_t planned = chance_.between(0, 3);
  for (std::uint64_t i = 0; i < planned; ++i) {
    world_.after(chance_.up_to(chance_.one_in(2) ? 20ms : 3s), [this] { one(); });
  }
  if (chance_.one_in(20)) {
    world_.after(chance_.up_to(chance_.one_in(2) ? 20ms : 3s), [this] { cut_all_power(); });
  }
  if (silence_.one_in(3)) {
    world_.after(silence_.up_to(silence_.one_in(2) ? 20ms : 3s), [this] { of_silence(); });
  }
}

void Faults::one() {
  ++count_;
  const std::uint64_t kind = chance_.below(12);
  if (kind < 2) return of_name_node();
  if (kind < 3) return of_client();
  of_data_node(**(nodes_.begin() + static_cast<std::ptrdiff_t>(chance_.below(nodes_.size()))));
}

Duration Faults::short_or(Duration longest) {
  return chance_.up_to(chance_.one_in(2) ? Duration(1s) : longest);
}

void Faults::of_name_node() {
  if (name_nodes_.are_two() && !chance_.one_in(4)) {
    return name_nodes_.fail_over(short_or(30s), chance_.one_in(2), short_or(60s));
  }
  name_nodes_.restart(short_or(60s), short_or(20s));
}

// It dies (its connections are reset, and nothing more is heard of it), or is not heard for a
// while.
void Faults::of_client() {
  const std::string host = hosts_[chance_.below(hosts_.size())];
  if (chance_.one_in(2)) {
    world_.note(host, " dies");
    dead_.insert(host);
    network_.crash(host);
    world_.after(100ms, [this, host] { network_.cut_off(host, TimePoint::max()); });
    if (on_death) on_death(host);
    return;
  }
  const Duration length = chance_.up_to(chance_.one_in(2) ? 20s : 1500s);
  world_.note(host, " is cut off for ", length.count() / 1'000'000, " ms");
  partitions_[host] += length;
  network_.cut_off(host, world_.now() + length);
}

bool Faults::any_power_cut() const {
  return std::ranges::any_of(nodes_, [](const auto& node) { return node->has_lost_power(); });
}

std::optional<std::uint64_t> Faults::cut(std::uint64_t block) const {
  std::optional<std::uint64_t> least;
  for (const auto& node : nodes_) {
    const auto cut = node->cut(block);
    if (cut) least = std::min(least.value_or(*cut), *cut);
  }
  return least;
}

Duration Faults::partition(const std::string& host) const {
  const auto found = partitions_.find(host);
  return found == partitions_.end() ? Duration{} : found->second;
}

void Faults::of_data_node(DataNode& node) {
  const std::uint64_t kind = chance_.below(10);
  if (kind == 0) {
    world_.note(node.info().host, " becomes slow");
    slowed_.insert(&node);
    return node.slow_down(chance_.up_to(2s));
  }
  const bool is_first = hit_.insert(&node).second;
  upgraded_.erase(&node);
  switch (kind) {
    case 1:
    case 2:
      node.crash();
      if (chance_.one_in(2)) world_.after(chance_.up_to(100s), [&node] { node.restart(); });
      break;
    case 3:
      node.cut_power();
      if (chance_.one_in(2)) world_.after(chance_.up_to(100s), [&node] { node.restart(); });
      break;
    case 4: {
      if (chance_.one_in(2)) return node.restart_in_a_chunk(short_or(60s));
      const Duration absence = short_or(60s);
      if (is_first && absence <= kUpgrade) upgraded_.insert(&node);
      node.restart_for_upgrade(absence);
      break;
    }
    case 5: {
      const Duration length = short_or(200s);
      world_.note(node.info().host, " is cut off for ", length.count() / 1'000'000, " ms");
      network_.cut_off(node.ip(), world_.now() + length);
      break;
    }
    case 6:
      world_.note("the disk of ", node.info().host, " is full");
      node.fill_disk();
      break;
    case 7:
      world_.note("packets are damaged on ", node.info().host);
      has_damage_ = true;
      node.damage_one_in(chance_.between(1, 50));
      break;
    default:
      world_.note("the connections of ", node.info().host, " are reset");
      has_reset_ = true;
      network_.reset_connections(node.ip());
      break;
  }
}

// What hides who is silent: a node that does not hear another one, or one whose answers about its
// replicas are missing, late or wrong.
void Faults::of_silence() {
  ++count_;
  DataNode& node = *silence_.one_of(nodes_);
  hit_.insert(&node);
  if (silence_.one_in(3)) {
    const DataNode& other = *silence_.one_of(nodes_);
    const Duration length = silence_.up_to(silence_.one_in(2) ? 20s : 200s);
    world_.note(node.info().host, " and ", other.info().host, " do not hear each other for ",
                length.count() / 1'000'000, " ms");
    hit_.insert(&other);
    has_cut_link_ = true;
    return network_.cut_link(node.ip(), other.ip(), world_.now() + length);
  }
  const auto how = static_cast<DataNode::Answering>(silence_.between(1, 5));
  world_.note(node.info().host, " answers in way ", static_cast<int>(how));
  node.answer(how, hosts_);
}

void Faults::cut_all_power() {
  ++count_;
  for (const auto& node : nodes_) {
    hit_.insert(node.get());
    node->cut_power();
    world_.after(chance_.up_to(10s), [&node = *node] { node.restart(); });
  }
}

}  // namespace hflush::sim
