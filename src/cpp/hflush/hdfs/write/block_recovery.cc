#include "hflush/hdfs/write/block_recovery.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "hflush/base/check.h"
#include "hflush/hdfs/write/node_faults.h"

namespace hflush::hdfs {
namespace {

// Between attempts to reach a DataNode that restarts: doubled up to Hadoop's pause.
constexpr env::Duration kFirstPause = std::chrono::milliseconds(250);
constexpr env::Duration kLongestPause = std::chrono::seconds(4);
constexpr int kReplacementTries = 3;
// Hadoop waits longer for a copy, by 5 s for each so many packets.
constexpr std::uint64_t kPacketsOfAStep = 200;
// What is kept of the faults of one block.
constexpr std::size_t kMaxFaults = 2048;

}  // namespace

// --- questions

std::size_t BlockRecovery::node_of(std::string_view address) const noexcept {
  const auto named = std::ranges::find(
      nodes(), address, [](const Replica& replica) { return replica.node.transfer_address(); });
  return static_cast<std::size_t>(named - nodes().begin());
}

const DatanodeInfo& BlockRecovery::source() const noexcept {
  const auto tries = static_cast<std::size_t>(stream_.recoveries.replacement->failed_tries);
  return nodes()[tries % nodes().size()].node;
}

const BlockRecovery::Extended* BlockRecovery::extended() const noexcept {
  if (const auto* const connecting = std::get_if<Connecting>(&state_)) return &connecting->extended;
  const auto* const transferring = std::get_if<Transferring>(&state_);
  return transferring == nullptr ? nullptr : &transferring->extended;
}

std::optional<ConnectionNumber> BlockRecovery::connection() const noexcept {
  const Extended* const open = extended();
  return open == nullptr ? std::nullopt : std::optional(open->number);
}

env::TimePoint BlockRecovery::silent_until(const TransferChannel& channel) const noexcept {
  const std::uint64_t step =
      kPacketsOfAStep * std::max<std::uint64_t>(1, stream_.settings.packet_size);
  return channel.silent_until(stream_.settings.socket_timeout,
                              2 + static_cast<std::size_t>(broken_.block.released_length / step));
}

std::optional<env::TimePoint> BlockRecovery::deadline() const noexcept {
  if (const auto* const pausing = std::get_if<Pausing>(&state_)) return pausing->until;
  const auto* const transferring = std::get_if<Transferring>(&state_);
  if (transferring == nullptr) return std::nullopt;
  const env::TimePoint due = silent_until(transferring->channel);
  return due < env::TimePoint::max() ? std::optional(due) : std::nullopt;
}

bool BlockRecovery::is_worth_waiting_for(const Replica& node) const {
  return nodes().size() == 1 ||
         (stream_.target.is_local != nullptr && stream_.target.is_local(node.node.ip));
}

// --- who leaves

BlockRecovery::Outcome BlockRecovery::begin(bool is_hflushed, env::TimePoint now,
                                            Actions& actions) {
  HFLUSH_DCHECK(state() == State::kHeld);
  is_hflushed_ = is_hflushed;
  Recoveries& known = stream_.recoveries;
  note(nodes()[broken_.node].node,
       std::to_string(broken_.node + 1) + " of " + std::to_string(nodes().size()), broken_.fault);
  if (broken_.stood) {
    ++stream_.counters.recoveries;
    if (!broken_.restarts && ++known.since_ack > stream_.settings.pipeline_recovery_retries) {
      return GivenUp{failure("the pipeline broke again after " +
                                 std::to_string(stream_.settings.pipeline_recovery_retries) +
                                 " recoveries without an acknowledgement",
                             broken_.fault)};
    }
  }
  if (const std::optional<std::size_t> node = node_that_leaves(now)) {
    if (std::optional<Outcome> end = leave(*node)) return *std::move(end);
  }
  if (known.awaited) {
    Recoveries::Awaited& awaited = *known.awaited;
    state_ = Pausing{std::min(now + awaited.pause, awaited.until)};
    awaited.pause = std::min(2 * awaited.pause, kLongestPause);
    return Continues{};
  }
  return replace_or_go_on(actions);
}

// None while the one that failed restarts and is waited for.
std::optional<std::size_t> BlockRecovery::node_that_leaves(env::TimePoint now) {
  std::optional<Recoveries::Awaited>& awaited = stream_.recoveries.awaited;
  const Replica& bad = nodes()[broken_.node];
  if (broken_.restarts && !awaited && is_worth_waiting_for(bad)) {
    ++stream_.counters.restarts_waited_for;
    awaited = {bad.node.transfer_address(),
               env::deadline_after(now, stream_.settings.datanode_restart_timeout), kFirstPause};
  }
  if (!awaited) return broken_.node;
  const std::size_t restarting = node_of(awaited->address);
  if (now < awaited->until) {
    return broken_.node == restarting ? std::nullopt : std::optional(broken_.node);
  }
  awaited.reset();
  return broken_.node;
}

// An outcome if the recovery ends by that.
std::optional<BlockRecovery::Outcome> BlockRecovery::leave(std::size_t node) {
  Recoveries& known = stream_.recoveries;
  const DatanodeInfo left = nodes()[node].node;
  if (nodes().size() == 1) {
    return GivenUp{failure("no DataNode of the pipeline is left", broken_.fault)};
  }
  std::vector<Replica>& replicas = broken_.block.located.replicas;
  replicas.erase(replicas.begin() + static_cast<std::ptrdiff_t>(node));
  if (!known.replacement || known.replacement->target != left.transfer_address()) {
    known.add_failed(left, broken_.restarts);
    known.replacement.reset();  // with one node fewer the search begins anew
    return std::nullopt;
  }
  // The copy had not arrived, whatever its source said.
  Recoveries::Replacement& replacement = *known.replacement;
  replacement.target.clear();
  replacement.excluded.push_back(left);
  if (++replacement.failed_tries < kReplacementTries) return std::nullopt;
  return not_replaced(failure("no other DataNode could get a copy of the block", broken_.fault));
}

// --- who comes in

BlockRecovery::Outcome BlockRecovery::replace_or_go_on(Actions& actions) {
  const BlockWriter::Block& block = broken_.block;
  // An empty replica cannot be copied; a block that is complete is left to the NameNode.
  const bool can_be_copied =
      block.located.block.length > 0 && block.stage != WriteStage::kCloseRecovery;
  const bool wanted =
      wants_replacement(stream_.settings, stream_.target.replication, nodes().size(),
                        stream_.target.partial_block.has_value(), is_hflushed_);
  return can_be_copied && wanted ? find(actions) : ready();
}

BlockRecovery::Outcome BlockRecovery::find(Actions& actions) {
  Recoveries& known = stream_.recoveries;
  if (!known.replacement) known.replacement = Recoveries::Replacement{};
  action::GetAdditionalDatanode ask{broken_.block.located.block, nodes(), {}};
  for (const Recoveries::FailedNode& failed : known.failed) ask.excluded.push_back(failed.node);
  const std::vector<DatanodeInfo>& excluded = known.replacement->excluded;
  ask.excluded.insert(ask.excluded.end(), excluded.begin(), excluded.end());
  actions.emplace_back(std::move(ask));
  state_ = Finding{};
  return Continues{};
}

BlockRecovery::Outcome BlockRecovery::found(Result<LocatedBlock> answer, Actions& actions) {
  if (state() != State::kFinding) return Continues{};
  if (!answer.ok()) return not_replaced(as_lost_lease(answer.status()));
  const std::vector<Replica>& listed = answer->replicas;
  const auto target = std::ranges::find_if(listed, [this](const Replica& replica) {
    return node_of(replica.node.transfer_address()) == nodes().size();
  });
  if (listed.size() != nodes().size() + 1 || target == listed.end()) {
    const int enough = stream_.settings.replacement_min_replication;
    if (enough > 0 && listed.size() >= static_cast<std::size_t>(enough)) {
      stream_.recoveries.replacement.reset();
      return ready();
    }
    return not_replaced(
        failure("the NameNode has no further DataNode in place of the one that failed; see "
                "dfs.client.block.write.replace-datanode-on-failure.policy and .best-effort",
                broken_.fault));
  }
  const auto index = static_cast<std::size_t>(target - listed.begin());
  Extended extended{++stream_.last_connection, *std::move(answer), index};
  actions.emplace_back(action::Connect{extended.number, source(), stream_.settings.socket_timeout});
  state_ = Connecting{std::move(extended)};
  return Continues{};
}

void BlockRecovery::connected(env::TimePoint now) {
  auto* const connecting = std::get_if<Connecting>(&state_);
  if (connecting == nullptr) return;
  Extended extended = std::move(connecting->extended);
  TransferBlockOperation transfer;
  transfer.block = broken_.block.located.block;
  transfer.token = extended.located.token;
  transfer.client_name = stream_.target.client_name;
  transfer.targets = std::span<const Replica>(&extended.located.replicas[extended.target], 1);
  std::string operation = transfer.encode();
  state_ = Transferring{std::move(extended), TransferChannel(std::move(operation), now)};
}

BlockRecovery::Outcome BlockRecovery::replied(const OperationReply& reply, Actions& actions) {
  auto* const transferring = std::get_if<Transferring>(&state_);
  if (transferring == nullptr) return Continues{};
  Extended& extended = transferring->extended;
  const DatanodeInfo target = extended.located.replicas[extended.target].node;
  if (reply.status != TransferStatus::kSuccess) {
    return try_failed(target, bad_answer(reply), actions);
  }
  close(actions);
  ++stream_.counters.transfers;
  stream_.recoveries.replacement->target = target.transfer_address();
  broken_.block.located.replicas = std::move(extended.located.replicas);
  broken_.block.has_new_replica = true;
  return ready();
}

BlockRecovery::Outcome BlockRecovery::connection_lost(const Status& failure, Actions& actions) {
  const Extended* const open = extended();
  if (open == nullptr) return Continues{};
  if (state() == State::kTransferring) {
    return try_failed(open->located.replicas[open->target].node, lost(failure), actions);
  }
  close(actions);
  note(source(), "source of a copy", lost(failure));
  return try_again(lost(failure), actions);
}

BlockRecovery::Outcome BlockRecovery::tick(env::TimePoint now, Actions& actions) {
  if (const auto* const pausing = std::get_if<Pausing>(&state_)) {
    if (now < pausing->until) return Continues{};
    // The one that is waited for counts as there. Alone, it leaves no source for a copy.
    return nodes().size() > 1 ? replace_or_go_on(actions) : ready();
  }
  const auto* const transferring = std::get_if<Transferring>(&state_);
  if (transferring == nullptr || now < silent_until(transferring->channel)) return Continues{};
  const Extended& extended = transferring->extended;
  return try_failed(extended.located.replicas[extended.target].node,
                    no_answer("was not copied to", now - transferring->channel.last_heard()),
                    actions);
}

// --- the end

BlockRecovery::Outcome BlockRecovery::try_failed(const DatanodeInfo& target, const Status& fault,
                                                 Actions& actions) {
  close(actions);
  note(target, "in place of one that failed", fault);
  stream_.recoveries.replacement->excluded.push_back(target);
  return try_again(fault, actions);
}

// With another target that is not excluded, and another source if there is one.
BlockRecovery::Outcome BlockRecovery::try_again(const Status& fault, Actions& actions) {
  if (++stream_.recoveries.replacement->failed_tries < kReplacementTries) return find(actions);
  return not_replaced(failure("no other DataNode could get a copy of the block", fault));
}

BlockRecovery::Outcome BlockRecovery::not_replaced(Status why) {
  stream_.recoveries.replacement.reset();
  if (stream_.settings.replacement_best_effort) return ready();
  return GivenUp{std::move(why)};
}

BlockRecovery::Outcome BlockRecovery::ready() { return Ready{std::move(broken_.block)}; }

void BlockRecovery::close(Actions& actions) const {
  if (const Extended* const open = extended()) {
    actions.emplace_back(action::Disconnect{open->number});
  }
}

std::size_t BlockRecovery::output(std::span<ByteView> pieces) const noexcept {
  const auto* const transferring = std::get_if<Transferring>(&state_);
  return transferring == nullptr ? 0 : transferring->channel.output(pieces);
}

void BlockRecovery::sent(std::size_t bytes, env::TimePoint now) noexcept {
  if (auto* const transferring = std::get_if<Transferring>(&state_)) {
    transferring->channel.sent(bytes, now);
  }
}

// --- messages

void BlockRecovery::note(const DatanodeInfo& node, std::string_view place, const Status& fault) {
  std::string& faults = stream_.recoveries.faults;
  for (std::size_t oldest = 0; faults.size() > kMaxFaults; faults.erase(0, oldest + 2)) {
    oldest = faults.find("; DataNode ");
    if (oldest == std::string::npos) break;
  }
  faults += (faults.empty() ? "DataNode " : "; DataNode ") + node.transfer_address();
  faults += " (" + std::string(place) + ") " + fault.message();
  if (fault.cause() != nullptr) faults += ": " + fault.cause()->message();
}

Status BlockRecovery::failure(std::string_view what, const Status& fault) const {
  const Status failed(StatusCode::kPipeline,
                      "write: " + std::string(what) + ": " + stream_.recoveries.faults + "; " +
                          broken_.block.describe(),
                      stream_.target.path, fault.error_number());
  return fault.cause() == nullptr ? failed : failed.with_cause(*fault.cause());
}

std::string_view to_string(BlockRecovery::State state) noexcept {
  constexpr auto kNames =
      std::to_array<std::string_view>({"held", "pausing", "finding", "connecting", "transferring"});
  return kNames[static_cast<std::size_t>(state)];
}

}  // namespace hflush::hdfs
