#include "hflush/hdfs/write/promises.h"

#include <algorithm>
#include <array>
#include <utility>

#include "hflush/base/check.h"
#include "hflush/hdfs/write/node_faults.h"

namespace hflush::hdfs {

using stream::Level;

namespace {

// The furthest offset of each; waiters are in the order of theirs.
using OffsetsByLevel = std::array<std::optional<std::uint64_t>, stream::kLevels>;

}  // namespace

// --- questions

// addBlock tells the length of the blocks before the current one.
bool Promises::is_recorded(const Waiter& waiter) const noexcept {
  if (waiter.sequence_number < 0 || waiter.offset <= block_start_) return true;
  if (!recorded_) return false;
  const bool exactly = stream_.target.update_length && waiter.level >= Level::kDurable;
  return !exactly || *recorded_ >= waiter.offset - block_start_;
}

// Whether an hsync waits for more than the current block.
bool Promises::awaits_finished_blocks() const noexcept {
  const auto is_hsync = [](const Waiter& waiter) { return waiter.level >= Level::kDurable; };
  return !unsynced_.empty() && std::ranges::any_of(waiters_, is_hsync);
}

env::TimePoint Promises::silent_until(const Syncing& syncing) const noexcept {
  return syncing.channel.silent_until(stream_.settings.socket_timeout, 1);
}

std::optional<env::TimePoint> Promises::deadline() const noexcept {
  const auto* const syncing = std::get_if<Syncing>(&syncing_);
  if (syncing == nullptr) return std::nullopt;
  const env::TimePoint due = silent_until(*syncing);
  return due < env::TimePoint::max() ? std::optional(due) : std::nullopt;
}

std::optional<ConnectionNumber> Promises::connection() const noexcept {
  if (const auto* const connecting = std::get_if<Connecting>(&syncing_)) return connecting->number;
  if (const auto* const syncing = std::get_if<Syncing>(&syncing_)) return syncing->number;
  return std::nullopt;
}

// --- from the file

void Promises::await(Level level, std::uint64_t offset) {
  if (level == Level::kHandedOver) {
    handed_over_ = offset;
    return;
  }
  if (level >= Level::kDurable) hsync_was_asked_ = true;
  waiters_.push_back({level, offset, stream_.packets.newest_sequence_number()});
}

void Promises::block_begins(std::uint64_t start) noexcept {
  // Of a block that is set up again, updatePipeline keeps what is recorded.
  if (start != block_start_) recorded_.reset();
  block_start_ = start;
}

void Promises::drop(Actions& actions) {
  waiters_.clear();
  unsynced_.clear();
  rest(actions);
}

void Promises::advance(std::optional<std::uint64_t> recordable, Actions& actions) {
  sync_finished_blocks(actions);
  resolve_waiters(recordable, actions);
}

void Promises::resolve_waiters(std::optional<std::uint64_t> recordable, Actions& actions) {
  const PacketQueue& packets = stream_.packets;
  if (handed_over_ && packets.size() <= stream_.settings.max_packets_in_flight) {
    actions.emplace_back(action::Reached{Level::kHandedOver, *handed_over_});
    handed_over_.reset();
  }
  bool length_is_wanted = false;
  OffsetsByLevel reached;
  std::erase_if(waiters_, [&](const Waiter& waiter) {
    if (waiter.sequence_number > packets.acknowledged_sequence_number()) return false;
    if (!is_recorded(waiter)) {
      length_is_wanted = true;
      return false;
    }
    if (waiter.level >= Level::kDurable && !unsynced_.empty()) return false;
    reached[static_cast<std::size_t>(waiter.level)] = waiter.offset;
    return true;
  });
  for (const Level level : {Level::kVisible, Level::kDurable, Level::kBlockEnded}) {
    const std::optional<std::uint64_t> offset = reached[static_cast<std::size_t>(level)];
    if (!offset) continue;
    has_flushed_ = true;
    actions.emplace_back(action::Reached{level, *offset});
  }
  if (length_is_wanted && recordable && !is_recording()) {
    recording_ = recordable;
    ++stream_.counters.fsyncs;
    actions.emplace_back(action::Fsync{*recordable});
  }
}

void Promises::recorded() noexcept {
  HFLUSH_DCHECK(is_recording());
  recorded_ = std::exchange(recording_, std::nullopt);
}

// --- finished blocks

// One replica at a time, while an hsync waits.
void Promises::sync_finished_blocks(Actions& actions) {
  if (!awaits_finished_blocks() || state() != State::kResting) return;
  const FinishedBlocks::Step step = unsynced_.next();
  stream_.counters.left_unsynced = unsynced_.left_out();
  if (std::holds_alternative<FinishedBlocks::Locate>(step)) {
    syncing_ = Locating{};
    const LocatedBlock& finished = unsynced_.block();
    actions.emplace_back(
        action::GetBlockLocations{finished.offset, finished.block.length, finished.block});
  } else if (std::holds_alternative<FinishedBlocks::Open>(step)) {
    syncing_ = Connecting{++stream_.last_connection};
    actions.emplace_back(action::Connect{stream_.last_connection, unsynced_.replica().node,
                                         stream_.settings.socket_timeout});
  } else if (const auto* const given_up = std::get_if<FinishedBlocks::GiveUp>(&step)) {
    refuse_durability(given_up->failure.with_path(stream_.target.path), actions);
  }
}

// Every hsync under way has failed; the stream continues.
void Promises::refuse_durability(const Status& why, Actions& actions) {
  OffsetsByLevel refused;
  std::erase_if(waiters_, [&refused](const Waiter& waiter) {
    if (waiter.level < Level::kDurable) return false;
    refused[static_cast<std::size_t>(waiter.level)] = waiter.offset;
    return true;
  });
  for (const Level level : {Level::kDurable, Level::kBlockEnded}) {
    const std::optional<std::uint64_t> offset = refused[static_cast<std::size_t>(level)];
    if (offset) actions.emplace_back(action::NotReached{level, *offset, why});
  }
}

void Promises::located(const Result<LocatedBlocks>& answer) {
  if (state() != State::kLocating) return;
  syncing_ = Resting{};
  if (answer.ok()) {
    unsynced_.located(answer);
  } else {
    unsynced_.located(as_lost_lease(answer.status()));
  }
}

void Promises::connected(env::TimePoint now) {
  const auto* const connecting = std::get_if<Connecting>(&syncing_);
  if (connecting == nullptr) return;
  const WriteTarget& target = stream_.target;
  const ConnectionNumber number = connecting->number;
  syncing_ = Syncing{
      number,
      TransferChannel(unsynced_.request(target.client_name, target.block_size, stream_.checksum()),
                      now)};
}

void Promises::replied(const OperationReply& reply, env::TimePoint now, Actions& actions) {
  auto* const syncing = std::get_if<Syncing>(&syncing_);
  if (syncing == nullptr) return;
  syncing->channel.heard(now);
  if (reply.status != TransferStatus::kSuccess) replica_failed(bad_answer(reply), false, actions);
}

void Promises::acked(const PipelineAck& ack, Actions& actions) {
  if (state() != State::kSyncing) return;
  if (!FinishedBlocks::is_durable(ack)) return replica_failed(bad_answer(ack), false, actions);
  ++stream_.counters.synced_afterwards;
  unsynced_.replica_is_durable();
  rest(actions);
}

void Promises::connection_lost(const Status& failure, Actions& actions) {
  if (state() == State::kConnecting && is_own_shortage(failure)) {
    rest(actions);
    return refuse_durability(no_connection("hsync", failure, stream_.target.path), actions);
  }
  // A node that closes a connection has failed with this replica only.
  if (connection()) replica_failed(lost(failure), state() == State::kConnecting, actions);
}

void Promises::tick(env::TimePoint now, Actions& actions) {
  const auto* const syncing = std::get_if<Syncing>(&syncing_);
  if (syncing == nullptr || now < silent_until(*syncing)) return;
  replica_failed(no_answer("did not answer", now - syncing->channel.silent_since()), true, actions);
}

void Promises::replica_failed(const Status& fault, bool node_is_gone, Actions& actions) {
  unsynced_.replica_failed(fault, node_is_gone);
  rest(actions);
}

void Promises::rest(Actions& actions) {
  if (const std::optional<ConnectionNumber> open = connection()) {
    actions.emplace_back(action::Disconnect{*open});
  }
  syncing_ = Resting{};
}

std::size_t Promises::output(std::span<ByteView> pieces) const noexcept {
  const auto* const syncing = std::get_if<Syncing>(&syncing_);
  return syncing == nullptr ? 0 : syncing->channel.output(pieces);
}

void Promises::sent(std::size_t bytes, env::TimePoint now) noexcept {
  if (auto* const syncing = std::get_if<Syncing>(&syncing_)) syncing->channel.sent(bytes, now);
}

std::string_view to_string(Promises::State state) noexcept {
  constexpr auto kNames =
      std::to_array<std::string_view>({"resting", "locating", "connecting", "syncing"});
  return kNames[static_cast<std::size_t>(state)];
}

}  // namespace hflush::hdfs
