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
// Where there is no other one, a DataNode that got no copy may be back after that.
constexpr env::Duration kUncopiedFor = kLongestPause;
// Hadoop waits longer for a copy, by 5 s for each so many packets.
constexpr std::uint64_t kPacketsOfAStep = 200;

std::optional<Recoveries::Replacement> begun_anew(Recoveries::Replacement search) {
  if (search.targets.empty()) return std::nullopt;
  return Recoveries::Replacement{false, 0, {}, std::move(search.targets)};
}

}  // namespace

BlockRecovery::BlockRecovery(WriteStream& stream, BlockWriter::Broken broken, env::TimePoint now)
    : stream_(stream), broken_(std::move(broken)), delays_(stream.delays()) {
  note(nodes(), broken_.node, reason(broken_.fault), now);
}

BlockRecovery::BlockRecovery(WriteStream& stream, BlockWriter::Block block)
    : stream_(stream), delays_(stream.delays()) {
  broken_.block = std::move(block);
}

// --- questions

// The place of the node that copies: one that has the block for certain, if there is one.
std::size_t BlockRecovery::source() const {
  const Recoveries::Replacement& search = *stream_.recoveries.replacement;
  const auto first = static_cast<std::size_t>(search.tries());
  for (std::size_t i = 0; i < nodes().size(); ++i) {
    const std::size_t place = (first + i) % nodes().size();
    const std::string address = nodes()[place].node.transfer_address();
    if (std::ranges::find(search.targets, address) == search.targets.end()) return place;
  }
  return first % nodes().size();
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
  if (const auto* const later = std::get_if<FindingLater>(&state_)) return later->at;
  const auto* const transferring = std::get_if<Transferring>(&state_);
  if (transferring == nullptr) return std::nullopt;
  const env::TimePoint due = silent_until(transferring->channel);
  return due < env::TimePoint::max() ? std::optional(due) : std::nullopt;
}

bool BlockRecovery::is_in_pipeline(const Replica& replica) const {
  return place_of(replica.node.transfer_address(), nodes()) < nodes().size();
}

bool BlockRecovery::is_worth_waiting_for(const Replica& node) const {
  return nodes().size() == 1 ||
         (stream_.target.is_local != nullptr && stream_.target.is_local(node.node.ip));
}

// The block was there before this stream.
bool BlockRecovery::is_of_append() const noexcept {
  const std::optional<LocatedBlock>& partial = stream_.target.partial_block;
  return partial && partial->block.id == broken_.block.located.block.id;
}

// A new block of which nothing is acknowledged.
bool BlockRecovery::can_be_discarded() const noexcept {
  return may_discard_ && !is_of_append() && broken_.block.located.block.length == 0;
}

// The last node of a pipeline that stood may be there still: it alone has the block's bytes.
bool BlockRecovery::can_be_tried_again() const noexcept {
  return nodes().size() == 1 && broken_.stood &&
         broken_.failure == BlockWriter::Failure::kLostConnection && !can_be_discarded();
}

// --- who leaves

BlockRecovery::Outcome BlockRecovery::begin(bool is_hflushed, bool may_discard, env::TimePoint now,
                                            Actions& actions) {
  HFLUSH_DCHECK(state() == State::kHeld);
  is_hflushed_ = is_hflushed;
  may_discard_ = may_discard;
  if (!has_fault()) return replace_or_go_on(now, actions);
  Recoveries& known = stream_.recoveries;
  if (broken_.stood) {
    ++stream_.counters.recoveries;
    if (!restarts() && ++known.since_ack > stream_.settings.pipeline_recovery_retries) {
      return GivenUp{failure("the pipeline broke again after " +
                                 std::to_string(stream_.settings.pipeline_recovery_retries) +
                                 " recoveries without an acknowledgement",
                             broken_.fault)};
    }
  }
  if (const std::optional<std::size_t> node = node_that_leaves(now)) {
    if (std::optional<Outcome> end = leave(*node, now)) return *std::move(end);
  }
  return known.awaited ? pause(now) : replace_or_go_on(now, actions);
}

// None where the one that failed restarts and is waited for, or can be tried again.
std::optional<std::size_t> BlockRecovery::node_that_leaves(env::TimePoint now) {
  const std::optional<Recoveries::Awaited>& awaited = stream_.recoveries.awaited;
  std::vector<Replica>& replicas = broken_.block.located.replicas;
  const auto bad = replicas.begin() + static_cast<std::ptrdiff_t>(broken_.node);
  if (restarts() && !awaited && is_worth_waiting_for(*bad)) {
    Replica restarting = std::move(*bad);
    replicas.erase(bad);
    wait_for_restart(std::move(restarting), now);
    return std::nullopt;
  }
  if (can_be_tried_again()) return std::nullopt;
  const bool is_awaited = awaited && awaited->address == bad->node.transfer_address();
  return is_awaited && now < awaited->until ? std::nullopt : std::optional(broken_.node);
}

// An outcome if the recovery ends by that.
std::optional<BlockRecovery::Outcome> BlockRecovery::leave(std::size_t node, env::TimePoint now) {
  Recoveries& known = stream_.recoveries;
  std::vector<Replica>& replicas = broken_.block.located.replicas;
  const DatanodeInfo left = replicas[node].node;
  const bool was_waited_for = known.awaited && known.awaited->address == left.transfer_address();
  const bool may_return = restarts() || was_waited_for;
  if (known.awaited && now >= known.awaited->until) known.awaited.reset();
  if (replicas.size() == 1) {
    known.add_failed(left, now, may_return);
    if (can_be_discarded()) {
      replicas.clear();
      return discard();
    }
    return GivenUp{failure("no DataNode of the pipeline is left", broken_.fault)};
  }
  Replica gone = std::move(replicas[node]);
  if (restarts()) known.restarting = gone;
  if (was_slow()) known.slow = gone;
  replicas.erase(replicas.begin() + static_cast<std::ptrdiff_t>(node));
  has_lost_node_ = true;
  if (!known.replacement || std::erase(known.replacement->targets, left.transfer_address()) == 0) {
    if (was_silent()) note_silent(std::move(gone), now);
    known.add_failed(left, now, may_return);
    // With one node fewer the search begins anew. Who came in by the last one is not proven yet.
    if (known.replacement) known.replacement = begun_anew(*std::move(known.replacement));
    return std::nullopt;
  }
  // The copy had not arrived, whatever its source said: mostly that one is gone, too. All others
  // are tried before the stream fails.
  Recoveries::Replacement& replacement = *known.replacement;
  replacement.uncopied.push_back({left, now});
  ++replacement.refusals;
  if (needs_another() || has_tries_left()) return std::nullopt;
  return not_copied(broken_.fault, now);
}

// --- who comes back

// As the last of the pipeline: all others get each new stamp, and can copy their replicas to it if
// its own, from before that, is refused.
void BlockRecovery::rejoin(Replica node) {
  std::erase_if(stream_.recoveries.failed, [&](const Recoveries::FailedNode& failed) {
    return failed.node.transfer_address() == node.node.transfer_address();
  });
  broken_.block.located.replicas.push_back(std::move(node));
}

void BlockRecovery::wait_for(Replica absent, env::TimePoint until) {
  stream_.recoveries.awaited = {absent.node.transfer_address(), until, kFirstPause};
  rejoin(std::move(absent));
}

void BlockRecovery::wait_for_restart(Replica restarting, env::TimePoint now) {
  ++stream_.counters.restarts_waited_for;
  wait_for(std::move(restarting),
           env::deadline_after(now, stream_.settings.datanode_restart_timeout));
}

// Where the stream would fail without another DataNode: the one that has left because it is slow
// has its place back at once, and may be slow from then on; the one that has left because it
// restarts, wherever it is, or because it was found silent, may have it back.
std::optional<BlockRecovery::Outcome> BlockRecovery::take_back(env::TimePoint now) {
  Recoveries& known = stream_.recoveries;
  if (!needs_another()) return std::nullopt;
  if (known.slow) {
    known.tolerated.push_back(known.slow->node.transfer_address());
    rejoin(*std::exchange(known.slow, std::nullopt));
    if (known.replacement) known.replacement = begun_anew(*std::move(known.replacement));
    return ready();
  }
  bool is_the_lost_one = false;  // and no other one has left
  if (known.restarting) {
    is_the_lost_one = restarts();
    wait_for_restart(*std::exchange(known.restarting, std::nullopt), now);
  } else if (known.silent && now < known.silent->until && !is_in_pipeline(known.silent->node)) {
    is_the_lost_one = was_silent();
    wait_for(known.silent->node, known.silent->until);
  } else {
    return std::nullopt;
  }
  if (known.replacement) known.replacement = begun_anew(*std::move(known.replacement));
  if (is_the_lost_one) {
    has_lost_node_ = false;
    if (known.replacement) known.replacement->is_extra = true;
  }
  return pause(now);
}

// All that are found silent before a pipeline stands again have the same time.
void BlockRecovery::note_silent(Replica node, env::TimePoint now) {
  std::optional<Recoveries::Silent>& silent = stream_.recoveries.silent;
  const env::Duration patience =
      TransferChannel::for_nodes(stream_.settings.socket_timeout, nodes().size() + 1);
  silent = {std::move(node), silent ? silent->until : env::deadline_after(now, patience)};
}

BlockRecovery::Outcome BlockRecovery::pause(env::TimePoint now) {
  Recoveries::Awaited& awaited = *stream_.recoveries.awaited;
  state_ = Pausing{std::min(now + awaited.pause, awaited.until)};
  awaited.pause = std::min(2 * awaited.pause, kLongestPause);
  return Continues{};
}

// --- who comes in

// Without another one the stream fails. Every byte of a block that ends is acknowledged: its file
// is not lost for want of a replica.
bool BlockRecovery::needs_another() const noexcept {
  const std::optional<Recoveries::Replacement>& replacement = stream_.recoveries.replacement;
  const bool is_extra = replacement && replacement->is_extra;
  return !is_extra && !broken_.block.is_ending && !stream_.settings.replacement_best_effort;
}

bool BlockRecovery::has_tries_left() const noexcept {
  return stream_.recoveries.replacement->tries() < kReplacementTries;
}

bool BlockRecovery::can_take_one_back() const {
  const Recoveries& known = stream_.recoveries;
  return std::ranges::any_of(known.failed, [&](const Recoveries::FailedNode& failed) {
    const auto is_it = [&](const Recoveries::Uncopied& uncopied) {
      return uncopied.node.transfer_address() == failed.node.transfer_address();
    };
    return failed.may_return && std::ranges::none_of(known.replacement->uncopied, is_it);
  });
}

BlockRecovery::Outcome BlockRecovery::replace_or_go_on(env::TimePoint now, Actions& actions) {
  const BlockWriter::Block& block = broken_.block;
  const bool wanted =
      wants_replacement(stream_.settings, stream_.target.replication, nodes().size(),
                        stream_.target.partial_block.has_value(), is_hflushed_);
  if (!wanted) return ready();
  if (block.located.block.length > 0) return find(now, actions);
  return has_lost_node_ && can_be_discarded() ? discard() : ready();
}

BlockRecovery::Outcome BlockRecovery::find(env::TimePoint now, Actions& actions, Avoided avoided) {
  Recoveries& known = stream_.recoveries;
  if (!known.replacement) known.replacement = Recoveries::Replacement{!has_lost_node_, 0, {}, {}};
  action::GetAdditionalDatanode ask{broken_.block.located.block, nodes(), {}};
  for (const Recoveries::FailedNode& failed : known.failed) {
    const bool is_avoided = avoided == Avoided::kAllFailed ||
                            (avoided == Avoided::kFailedForGood && !failed.may_return);
    if (is_avoided) ask.excluded.push_back(failed.node);
  }
  for (const Recoveries::Uncopied& uncopied : known.replacement->uncopied) {
    const bool is_avoided =
        avoided != Avoided::kJustUncopied || now - uncopied.failed_at < kUncopiedFor;
    if (is_avoided) ask.excluded.push_back(uncopied.node);
  }
  actions.emplace_back(std::move(ask));
  state_ = Finding{avoided};
  return Continues{};
}

BlockRecovery::Outcome BlockRecovery::found(Result<LocatedBlock> answer, env::TimePoint now,
                                            Actions& actions) {
  if (state() != State::kFinding) return Continues{};
  if (!answer.ok()) return not_replaced(as_lost_lease(answer.status()));
  const std::vector<Replica>& listed = answer->replicas;
  const auto target = std::ranges::find_if(
      listed, [this](const Replica& replica) { return !is_in_pipeline(replica); });
  if (listed.size() != nodes().size() + 1 || target == listed.end()) {
    const int enough = stream_.settings.replacement_min_replication;
    if (enough > 0 && listed.size() >= static_cast<std::size_t>(enough)) {
      if (stream_.recoveries.unproven() == 0) stream_.recoveries.replacement.reset();
      return ready();
    }
    return none_found(now, actions);
  }
  const auto index = static_cast<std::size_t>(target - listed.begin());
  Extended extended{++stream_.last_connection, *std::move(answer), index};
  actions.emplace_back(
      action::Connect{extended.number, nodes()[source()].node, stream_.settings.socket_timeout});
  state_ = Connecting{std::move(extended)};
  return Continues{};
}

// Where the policy insists on another one, one that was slow is taken back, one that restarts is
// waited for, wherever it is, or one that was found silent, and one that was waited for and refused
// the pipeline gets a copy. If there is none of these either, the NameNode is asked again, as for a
// new block: it may have just started, its DataNodes may be busy for now, and one that has failed
// may be back.
BlockRecovery::Outcome BlockRecovery::none_found(env::TimePoint now, Actions& actions) {
  if (std::optional<Outcome> returned = take_back(now)) return *std::move(returned);
  const auto& uncopied = stream_.recoveries.replacement->uncopied;
  const bool is_long_ago = !uncopied.empty() && now - uncopied.front().failed_at >= delays_.total();
  if (!has_tries_left() && is_long_ago) return not_copied(broken_.fault, now);
  const bool asked_first = std::get<Finding>(state_).avoided == Avoided::kAllFailed;
  if (needs_another() && asked_first && can_take_one_back()) {
    return find(now, actions, Avoided::kFailedForGood);
  }
  if (needs_another()) {
    if (const std::optional<env::Duration> delay = delays_.next()) {
      state_ = FindingLater{now + *delay};
      return Continues{};
    }
  }
  return not_replaced(
      failure("the NameNode has no further DataNode in place of the one that failed, for " +
                  seconds(delays_.waited()) +
                  "; see dfs.client.block.write.replace-datanode-on-failure.policy and "
                  ".best-effort, and dfs.client.block.write.locateFollowingBlock.retries",
              broken_.fault));
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

BlockRecovery::Outcome BlockRecovery::replied(const OperationReply& reply, env::TimePoint now,
                                              Actions& actions) {
  auto* const transferring = std::get_if<Transferring>(&state_);
  if (transferring == nullptr) return Continues{};
  if (reply.status != TransferStatus::kSuccess) {
    return try_failed(bad_answer(reply), now, actions);
  }
  close(actions);
  ++stream_.counters.transfers;
  Extended& extended = transferring->extended;
  stream_.recoveries.replacement->targets.push_back(
      extended.located.replicas[extended.target].node.transfer_address());
  broken_.block.located.replicas = std::move(extended.located.replicas);
  return has_fault() ? ready() : replace_or_go_on(now, actions);
}

BlockRecovery::Outcome BlockRecovery::connection_lost(const Status& failure, env::TimePoint now,
                                                      Actions& actions) {
  if (extended() == nullptr) return Continues{};
  if (state() == State::kTransferring) return try_failed(lost(failure), now, actions);
  close(actions);
  if (is_own_shortage(failure)) {
    return GivenUp{no_connection("write", failure, stream_.target.path)};
  }
  note(nodes(), source(), reason(lost(failure)), now);
  return try_again(lost(failure), now, actions);
}

BlockRecovery::Outcome BlockRecovery::tick(env::TimePoint now, Actions& actions) {
  if (const auto* const pausing = std::get_if<Pausing>(&state_)) {
    if (now < pausing->until) return Continues{};
    // The one that is waited for counts as there. Alone, it leaves no source for a copy.
    return nodes().size() > 1 ? replace_or_go_on(now, actions) : ready();
  }
  if (const auto* const later = std::get_if<FindingLater>(&state_)) {
    return now < later->at ? Outcome(Continues{}) : find(now, actions, Avoided::kJustUncopied);
  }
  const auto* const transferring = std::get_if<Transferring>(&state_);
  if (transferring == nullptr || now < silent_until(transferring->channel)) return Continues{};
  return try_failed(no_answer("was not copied to", now - transferring->channel.silent_since()), now,
                    actions);
}

// --- the end

BlockRecovery::Outcome BlockRecovery::try_failed(const Status& fault, env::TimePoint now,
                                                 Actions& actions) {
  close(actions);
  const Extended& extended = *this->extended();
  const std::vector<Replica>& replicas = extended.located.replicas;
  note(replicas, extended.target,
       "got no copy from " + nodes()[source()].node.transfer_address() + ": " + reason(fault), now);
  stream_.recoveries.replacement->uncopied.push_back({replicas[extended.target].node, now});
  return try_again(fault, now, actions);
}

// Tries another target that is not excluded, and another source if there is one.
BlockRecovery::Outcome BlockRecovery::try_again(const Status& fault, env::TimePoint now,
                                                Actions& actions) {
  ++stream_.recoveries.replacement->failed_tries;
  if (has_tries_left()) return find(now, actions);
  return not_copied(fault, now);
}

BlockRecovery::Outcome BlockRecovery::not_copied(const Status& fault, env::TimePoint now) {
  if (std::optional<Outcome> returned = take_back(now)) return *std::move(returned);
  return not_replaced(failure("no other DataNode could get a copy of the block", fault));
}

BlockRecovery::Outcome BlockRecovery::not_replaced(Status why) {
  const bool gives_up = needs_another();
  std::optional<Recoveries::Replacement>& replacement = stream_.recoveries.replacement;
  // Those that came in before it are proven by the pipeline, or leave it.
  if (replacement && (!replacement->is_extra || replacement->targets.empty())) replacement.reset();
  if (gives_up) return GivenUp{std::move(why)};
  return ready();
}

BlockRecovery::Outcome BlockRecovery::ready() { return Ready{std::move(broken_.block)}; }

BlockRecovery::Outcome BlockRecovery::discard() {
  stream_.recoveries.awaited.reset();
  stream_.recoveries.silent.reset();
  stream_.recoveries.replacement.reset();
  stream_.recoveries.restarting.reset();
  stream_.recoveries.slow.reset();
  return Discarded{std::move(broken_.block.located.block),
                   std::move(broken_.block.located.replicas)};
}

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

void BlockRecovery::note(std::span<const Replica> pipeline, std::size_t place, std::string reason,
                         env::TimePoint now) {
  stream_.failures.node_failed({pipeline[place].node.transfer_address(), place, pipeline.size(),
                                std::move(reason), broken_.block.located.end(), now});
}

Status BlockRecovery::failure(std::string_view what, const Status& fault) const {
  const Status failed(StatusCode::kPipeline,
                      "write: " + std::string(what) + ": " + stream_.failures.faults() + "; " +
                          broken_.block.describe(),
                      stream_.target.path, fault.error_number());
  return fault.cause() == nullptr ? failed : failed.with_cause(*fault.cause());
}

std::string_view to_string(BlockRecovery::State state) noexcept {
  constexpr auto kNames = std::to_array<std::string_view>(
      {"held", "pausing", "finding", "finding later", "connecting", "transferring"});
  return kNames[static_cast<std::size_t>(state)];
}

}  // namespace hflush::hdfs
