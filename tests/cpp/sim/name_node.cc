#include "sim/name_node.h"

#include <algorithm>
#include <set>
#include <utility>
#include <variant>

namespace hflush::sim {
namespace {

constexpr const char* kStandby = "org.apache.hadoop.ipc.StandbyException";
constexpr const char* kRetriable = "org.apache.hadoop.ipc.RetriableException";
constexpr const char* kSafeMode = "org.apache.hadoop.hdfs.server.namenode.SafeModeException";

// Those of an open stream, which can all be repeated.
bool may_be_late(const std::string& method) {
  static const std::set<std::string> kMethods{
      "addBlock",       "abandonBlock", "complete", "fsync", "updateBlockForPipeline",
      "updatePipeline", "renewLease"};
  return kMethods.contains(method);
}

}  // namespace

// --- one of them ---------------------------------------------------------------------------------

NameNode::NameNode(World& world, Network& network, NameSpace& space, int number, bool has_other)
    : world_(world),
      network_(network),
      space_(space),
      name_("nn" + std::to_string(number)),
      ip_("10.0.1." + std::to_string(number)),
      has_other_(has_other),
      chance_(world.seed(), name_) {}

void NameNode::stop() {
  if (role_ == Role::kGone) return;
  become(Role::kGone);
  ++life_;
  network_.crash(ip_);
}

void NameNode::start(Role role) {
  if (role_ != Role::kGone) return;
  become(role);
  network_.listen(endpoint(), [this](std::shared_ptr<End> end) {
    RpcConnection::accept(world_, std::move(end), name_,
                          [this](const auto& from, auto call) { serve(from, std::move(call)); });
  });
}

void NameNode::serve(const std::shared_ptr<RpcConnection>& from, RpcCall call) {
  const auto hit = [&](std::uint64_t one_in) {
    const bool is_hit = one_in != 0 && chance_.one_in(one_in);
    if (is_hit) ++hits_;
    if (is_hit) bad_luck_ = std::max(bad_luck_, ++hits_of_[call.key]);
    return is_hit;
  };
  if (hit(faults_.lost_calls)) {
    world_.note(name_, " loses the call ", call.key.second, " ", call.method);
    return from->reset();
  }
  Duration takes = chance_.up_to(std::chrono::microseconds(500));
  if (may_be_late(call.method) && hit(faults_.late_calls)) {
    world_.note(name_, " lets the call ", call.key.second, " ", call.method, " wait");
    call.is_late = true;
    takes = chance_.up_to(std::chrono::seconds(20));
    from->reset();
  }
  Duration later{};
  if (hit(faults_.late_answers)) later = chance_.up_to(std::chrono::seconds(30));
  const bool is_lost = hit(faults_.lost_answers);
  world_.after(takes, [this, from, life = life_, call = std::move(call), is_lost, later] {
    if (life_ != life) return;  // what waits in a server that dies is not carried out
    const RpcAnswer answer = carry_out(call);
    const auto* const thrown = std::get_if<RpcException>(&answer);
    world_.note(name_, " ", call.method, " ", call.key.second,
                thrown != nullptr ? " throws " : " answers",
                thrown != nullptr ? thrown->class_name + ": " + thrown->message : "",
                is_lost || call.is_late ? ", which is lost" : "");
    is_lost ? from->reset() : from->answer(call, answer, later);
  });
}

void NameNode::become(Role role) {
  static constexpr const char* kNames[] = {"active", "standby", "gone"};
  world_.note(name_, " is ", kNames[static_cast<std::size_t>(role)]);
  role_ = role;
}

RpcAnswer NameNode::carry_out(const RpcCall& call) {
  if (role_ != Role::kActive) {
    return RpcException{kStandby,
                        "Operation category WRITE is not supported in state "
                        "standby"};
  }
  if (world_.now() < safe_until_ && NameSpace::changes(call.method)) {
    const std::string why = call.method + ": Name node is in safe mode.";
    if (!has_other_) return RpcException{kSafeMode, why};
    return RpcException{kRetriable, std::string(kSafeMode) + ": " + why};
  }
  return space_.carry_out(call);
}

// --- all of them ---------------------------------------------------------------------------------

NameNodes::NameNodes(World& world, Network& network, NameSpace& space, int count)
    : world_(world), space_(space) {
  for (int i = 1; i <= count; ++i) {
    nodes_.push_back(std::make_unique<NameNode>(world, network, space, i, count > 1));
    nodes_.back()->start(i == 1 ? NameNode::Role::kActive : NameNode::Role::kStandby);
  }
}

std::vector<env::Endpoint> NameNodes::endpoints() const {
  std::vector<env::Endpoint> all;
  for (const auto& node : nodes_) all.push_back(node->endpoint());
  return all;
}

void NameNodes::suffer(NameNode::Faults faults) {
  for (const auto& node : nodes_) node->suffer(faults);
}

void NameNodes::restart(Duration absence, Duration safe_mode) {
  world_.note("the NameNode is gone for ", absence.count() / 1'000'000, " ms");
  for (const auto& node : nodes_) node->stop();
  space_.serve(false);
  outage_ += absence + safe_mode;
  const std::uint64_t change = ++changes_;
  world_.after(absence, [this, change, safe_mode] {
    if (change != changes_) return;
    for (const auto& node : nodes_) {
      node->start(node.get() == &active() ? NameNode::Role::kActive : NameNode::Role::kStandby);
    }
    active().stay_in_safe_mode(safe_mode);
    serve_after(safe_mode);
  });
}

void NameNodes::fail_over(Duration gap, bool dies, Duration absence) {
  NameNode& before = active();
  world_.note("a failover that takes ", gap.count() / 1'000'000, " ms");
  if (dies) {
    before.stop();
  } else if (before.role() == NameNode::Role::kActive) {
    before.become(NameNode::Role::kStandby);
  }
  space_.serve(false);
  outage_ += gap;
  active_ = (active_ + 1) % nodes_.size();
  const std::uint64_t change = ++changes_;
  world_.after(gap, [this, change] {
    if (change != changes_) return;
    active().start(NameNode::Role::kStandby);
    active().become(NameNode::Role::kActive);
    serve_after({});
  });
  world_.after(std::max(gap, absence), [this, change, &before] {
    if (change == changes_) before.start(NameNode::Role::kStandby);
  });
}

void NameNodes::serve_after(Duration gap) {
  const std::uint64_t change = changes_;
  world_.after(gap, [this, change] {
    if (change == changes_) space_.serve(true);
  });
}

std::uint64_t NameNodes::bad_luck() const noexcept {
  std::uint64_t most = 0;
  for (const auto& node : nodes_) most = std::max(most, node->bad_luck());
  return most;
}

std::uint64_t NameNodes::hits() const noexcept {
  std::uint64_t sum = changes_;
  for (const auto& node : nodes_) sum += node->hits();
  return sum;
}

}  // namespace hflush::sim
