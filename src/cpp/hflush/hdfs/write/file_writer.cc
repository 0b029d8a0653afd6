#include "hflush/hdfs/write/file_writer.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "hflush/hdfs/wire/remote_exception.h"
#include "hflush/hdfs/write/node_faults.h"

namespace hflush::hdfs {
namespace {

bool is_over_quota(const Status& failure) {
  return is_class(failure.remote_class(), "DSQuotaExceededException") ||
         is_class(failure.remote_class(), "QuotaByStorageTypeExceededException");
}

}  // namespace

FileWriter::FileWriter(WriteTarget target, const WriteSettings& settings)
    : stream_(std::move(target), settings),
      promises_(stream_, stream_.target.partial_block ? stream_.target.partial_block->offset
                                                      : stream_.target.start),
      put_(stream_.target.start),
      newest_block_start_(stream_.target.partial_block ? stream_.target.partial_block->offset
                                                       : put_),
      acknowledged_(put_),
      to_reopen_(stream_.target.partial_block),
      previous_(stream_.target.previous_block) {}

// --- questions

const BlockWriter* FileWriter::block() const noexcept {
  const auto* const writing = std::get_if<Writing>(&state_);
  return writing == nullptr ? nullptr : &writing->block;
}

BlockWriter* FileWriter::writer() noexcept { return const_cast<BlockWriter*>(block()); }

const BlockWriter* FileWriter::writer_on(ConnectionNumber connection) const noexcept {
  const BlockWriter* const writing = block();
  return writing != nullptr && writing->number() == connection ? writing : nullptr;
}

BlockWriter* FileWriter::writer_on(ConnectionNumber connection) noexcept {
  return const_cast<BlockWriter*>(std::as_const(*this).writer_on(connection));
}

const BlockRecovery* FileWriter::recovery() const noexcept {
  const auto* const recovering = std::get_if<Recovering>(&state_);
  return recovering == nullptr ? nullptr : &recovering->recovery;
}

BlockRecovery* FileWriter::recovering() noexcept {
  return const_cast<BlockRecovery*>(std::as_const(*this).recovery());
}

const BlockRecovery* FileWriter::recovery_on(ConnectionNumber connection) const noexcept {
  const BlockRecovery* const current = recovery();
  return current != nullptr && current->connection() == connection ? current : nullptr;
}

BlockRecovery* FileWriter::recovery_on(ConnectionNumber connection) noexcept {
  return const_cast<BlockRecovery*>(std::as_const(*this).recovery_on(connection));
}

bool FileWriter::promises_use(ConnectionNumber connection) const noexcept {
  return promises_.connection() == connection;
}

// How much of the current or last block is acknowledged, if the NameNode may learn it: while
// another one is being allocated, a length could be taken for that one's.
std::optional<std::uint64_t> FileWriter::recordable_length() const noexcept {
  if (const BlockWriter* const writing = block(); writing != nullptr && writing->has_pipeline()) {
    return writing->located().block.length;
  }
  if (state() == State::kIdle && previous_) return previous_->length;
  return std::nullopt;
}

RetryDelays FileWriter::delays() const noexcept {
  const WriteSettings& settings = stream_.settings;
  return {settings.complete_first_delay, settings.locate_initial_delay, settings.locate_max_delay,
          settings.locate_following_block_retries};
}

std::optional<env::TimePoint> FileWriter::deadline() const noexcept {
  std::optional<env::TimePoint> own;
  if (const BlockWriter* const writing = block()) own = writing->deadline();
  if (const BlockRecovery* const current = recovery()) own = current->deadline();
  if (const auto* const allocate = std::get_if<AllocateDelay>(&state_)) own = allocate->until;
  if (const auto* const complete = std::get_if<CompleteDelay>(&state_)) own = complete->until;
  const std::optional<env::TimePoint> theirs = promises_.deadline();
  if (own && theirs) return std::min(own, theirs);
  return own ? own : theirs;
}

// --- from the stream

void FileWriter::put(std::span<stream::Packet> packets, env::TimePoint now, Actions& actions) {
  if (is_over()) return;
  enqueue(packets, actions);
  advance(now, actions);
}

void FileWriter::enqueue(std::span<stream::Packet> packets, Actions& actions) {
  for (stream::Packet& packet : packets) {
    const bool follows = packet.offset() >= newest_block_start_ && packet.offset() <= put_ &&
                         packet.end() <= newest_block_start_ + target().block_size;
    if (!follows) {
      return fail(
          Status(StatusCode::kInternal,
                 "write: packet at " + std::to_string(packet.offset()) + " to " +
                     std::to_string(packet.end()) + " does not follow on " + std::to_string(put_) +
                     " in the block from " + std::to_string(newest_block_start_),
                 target().path),
          actions);
    }
    put_ = packet.end();
    const std::uint64_t end_in_block = put_ - newest_block_start_;
    stream_.packets.push_data(std::move(packet), newest_block_start_);
    if (end_in_block == target().block_size) end_newest_block();
  }
}

void FileWriter::end_newest_block() {
  stream_.packets.push_empty(PacketQueue::Kind::kLast, promises_.ends_blocks_with_sync(),
                             newest_block_start_, put_);
  newest_block_start_ = put_;
}

void FileWriter::sync(stream::Level level, std::span<stream::Packet> packets, env::TimePoint now,
                      Actions& actions) {
  if (is_over()) return;
  enqueue(packets, actions);
  if (level == stream::Level::kDurable) ask_for_durability();
  promises_.await(level, put_);
  advance(now, actions);
}

void FileWriter::ask_for_durability() {
  PacketQueue& packets = stream_.packets;
  packets.mark_last_packets_for_sync();
  // An append's partial block is the current one, although nothing has been written to it yet.
  const bool has_block = packets.newest_sequence_number() >= 0 || to_reopen_;
  const bool block_is_ended = put_ == newest_block_start_;
  if (!has_block || block_is_ended) return;
  if (packets.has_waiting()) {
    packets.mark_newest_for_sync();
  } else if (packets.empty() || !packets.newest().sync) {
    packets.push_empty(PacketQueue::Kind::kSync, true, newest_block_start_, put_);
  }
}

void FileWriter::finish(env::TimePoint now, Actions& actions) {
  if (is_over() || finishing_) return;
  finishing_ = true;
  const bool wrote_something = stream_.packets.newest_sequence_number() >= 0;
  if (wrote_something && put_ > newest_block_start_) end_newest_block();
  advance(now, actions);
}

void FileWriter::abandon(Actions& actions) {
  if (is_over()) return;
  drop_everything(actions);
  state_ = Abandoned{};
  if (finishing_ && stream_.settings.recover_lease_on_close_failure) {
    actions.emplace_back(action::RecoverLease{});  // this close() fails: it was interrupted
  }
}

// --- what is due

// After every event: all that can be done now is asked for.
void FileWriter::advance(env::TimePoint now, Actions& actions) {
  if (is_over()) return;
  if (const auto stall = stall_watch_.note(now, acknowledged_, put_ > acknowledged_)) {
    stream_.counters.stalls.add(*stall);
  }
  if (BlockWriter* const writing = writer()) {
    stream_.failures.writes(writing->located().block);
    writing->release(now);
  }
  promises_.advance(recordable_length(), actions);
  if (state() == State::kIdle) return leave_idle(now, actions);
  BlockRecovery* const held = recovering();
  if (held == nullptr || held->state() != BlockRecovery::State::kHeld) return;
  if (promises_.is_recording()) return;
  take(held->begin(promises_.has_flushed(), now, actions), now, actions);
}

// There is no block under construction: the next one, or the end.
void FileWriter::leave_idle(env::TimePoint now, Actions& actions) {
  if (promises_.is_recording()) return;
  if (stream_.packets.has_waiting()) {
    Search search{stream_.settings.block_write_retries, {}, delays()};
    if (!to_reopen_) return allocate(std::move(search), now, actions);
    BlockWriter::Block block;
    block.located = *std::exchange(to_reopen_, std::nullopt);
    block.released_length = block.located.block.length;
    block.stage = WriteStage::kSetupAppend;
    write_block(std::move(search), std::move(block), actions);
  } else if (finishing_ && !promises_.has_waiters()) {
    complete({delays(), std::nullopt}, actions);
  }
}

// --- blocks

void FileWriter::allocate(Search search, env::TimePoint now, Actions& actions) {
  std::erase_if(excluded_, [now](const ExcludedNode& node) { return node.until <= now; });
  action::AddBlock add{previous_, {}};
  for (const ExcludedNode& excluded : excluded_) add.excluded.push_back(excluded.node);
  actions.emplace_back(std::move(add));
  state_ = Allocating{std::move(search)};
}

void FileWriter::allocated(Result<LocatedBlock> answer, env::TimePoint now, Actions& actions) {
  auto* const allocating = std::get_if<Allocating>(&state_);
  if (allocating == nullptr) return;
  if (!answer.ok()) {
    allocation_failed(std::move(allocating->search), answer.status(), now, actions);
  } else if (answer->replicas.empty()) {
    fail(Status(StatusCode::kIo, "addBlock: no DataNode for " + answer->block.to_string(),
                target().path),
         actions);
  } else {
    ++stream_.counters.blocks;
    stream_.recoveries.faults.clear();
    BlockWriter::Block block;
    block.located = *std::move(answer);
    block.located.offset = stream_.packets.next_waiting().block_start;
    block.located.block.length = 0;
    write_block(std::move(allocating->search), std::move(block), actions);
  }
  advance(now, actions);
}

void FileWriter::allocation_failed(Search search, const Status& failure, env::TimePoint now,
                                   Actions& actions) {
  if (is_class(failure.remote_class(), "NotReplicatedYetException")) {
    if (const std::optional<env::Duration> delay = search.delays.next()) {
      state_ = AllocateDelay{std::move(search), now + *delay};
      return;
    }
  }
  // What exists of the file does not stay open.
  if (is_over_quota(failure)) return complete({delays(), failure}, actions);
  fail(as_lost_lease(failure), actions);
}

void FileWriter::write_block(Search search, BlockWriter::Block block, Actions& actions) {
  promises_.block_begins(block.located.offset);
  BlockWriter writer(stream_, ++stream_.last_connection, std::move(block), actions);
  state_.emplace<Writing>(std::move(search), std::move(writer));
}

void FileWriter::block_abandoned(const Status& answer, env::TimePoint now, Actions& actions) {
  auto* const abandoning = std::get_if<Abandoning>(&state_);
  if (abandoning == nullptr) return;
  if (!answer.ok()) return fail(as_lost_lease(answer), actions);
  Search& search = abandoning->search;
  if (search.attempts_left-- > 0) return allocate(std::move(search), now, actions);
  fail(Status(StatusCode::kPipeline,
              "write: unable to create new block after " +
                  std::to_string(stream_.settings.block_write_retries + 1) +
                  " attempts: " + search.failures,
              target().path, EIO),
       actions);
}

void FileWriter::reserved(Result<LocatedBlock> answer, env::TimePoint now, Actions& actions) {
  if (BlockWriter* const writing = writer()) {
    take(writing->reserved(std::move(answer), actions), now, actions);
  }
}

void FileWriter::registered(const Status& answer, env::TimePoint now, Actions& actions) {
  if (BlockWriter* const writing = writer()) {
    take(writing->registered(answer, now, actions), now, actions);
  }
}

void FileWriter::found(Result<LocatedBlock> answer, env::TimePoint now, Actions& actions) {
  if (BlockRecovery* const finding = recovering()) {
    take(finding->found(std::move(answer), actions), now, actions);
  }
}

// --- what an event meant to the block

void FileWriter::take(BlockWriter::Outcome outcome, env::TimePoint now, Actions& actions) {
  std::visit([&](auto& what) { on(std::move(what), now, actions); }, outcome);
}

void FileWriter::on(BlockWriter::Continues&& /*continues*/, env::TimePoint now, Actions& actions) {
  advance(now, actions);
}

void FileWriter::on(BlockWriter::Ended&& ended, env::TimePoint now, Actions& actions) {
  previous_ = ended.block.located.block;
  if (!ended.synced) promises_.block_ended(std::move(ended.block.located));
  if (ended.lacks_sync) promises_.sync_before_end();
  state_ = Idle{};
  advance(now, actions);
}

void FileWriter::note_failed(const BlockWriter::Block& block, std::size_t node, const Status& fault,
                             env::TimePoint now) {
  std::string reason = fault.message();
  if (fault.cause() != nullptr) reason += ": " + fault.cause()->message();
  stream_.failures.writes(block.located.block);
  stream_.failures.node_failed({block.located.replicas[node].node.transfer_address(), node,
                                std::move(reason), acknowledged_, now});
}

// The block is given up, and another one is asked for without that node.
void FileWriter::on(BlockWriter::NotBuilt&& not_built, env::TimePoint now, Actions& actions) {
  ++stream_.counters.block_retries;
  note_failed(not_built.block, not_built.node, not_built.fault, now);
  Search search = std::move(std::get<Writing>(state_).search);
  const DatanodeInfo& bad = not_built.block.located.replicas[not_built.node].node;
  const Status& fault = not_built.fault;
  search.failures += (search.failures.empty() ? "" : "; ") + bad.transfer_address() + " ";
  search.failures += fault.message();
  if (fault.cause() != nullptr) search.failures += ": " + fault.cause()->message();
  excluded_.push_back({bad, env::deadline_after(now, stream_.settings.excluded_nodes_expiry)});
  state_ = Abandoning{std::move(search)};
  actions.emplace_back(action::AbandonBlock{std::move(not_built.block.located.block)});
  advance(now, actions);
}

// The packets that are not acknowledged are in the queue, and `broken` has all else that a recovery
// needs.
void FileWriter::on(BlockWriter::Broken&& broken, env::TimePoint now, Actions& actions) {
  note_acknowledged(broken.block.located.end(), actions);
  note_failed(broken.block, broken.node, broken.fault, now);
  Search search = std::move(std::get<Writing>(state_).search);
  BlockRecovery recovery(stream_, std::move(broken));
  state_.emplace<Recovering>(std::move(search), std::move(recovery));
  advance(now, actions);
}

void FileWriter::on(BlockWriter::Refused&& refused, env::TimePoint /*now*/, Actions& actions) {
  state_ = Idle{};
  fail(std::move(refused.why), actions);
}

// --- what an event meant to its recovery

void FileWriter::take(BlockRecovery::Outcome outcome, env::TimePoint now, Actions& actions) {
  std::visit([&](auto& what) { on(std::move(what), now, actions); }, outcome);
}

void FileWriter::on(BlockRecovery::Continues&& /*continues*/, env::TimePoint now,
                    Actions& actions) {
  advance(now, actions);
}

void FileWriter::on(BlockRecovery::Ready&& ready, env::TimePoint now, Actions& actions) {
  const bool sync = ready.block.has_new_replica && promises_.ends_blocks_with_sync();
  Search search = std::move(std::get<Recovering>(state_).search);
  write_block(std::move(search), std::move(ready.block), actions);
  if (sync) sync_new_replica();
  advance(now, actions);
}

// What hsync has promised holds on the new DataNode too before anything else is acknowledged.
void FileWriter::sync_new_replica() {
  PacketQueue& packets = stream_.packets;
  if (packets.empty()) {
    packets.push_empty(PacketQueue::Kind::kSync, true, newest_block_start_, put_);
  } else {
    packets.mark_oldest_for_sync();
  }
  promises_.hold_until(packets.oldest().sequence_number);
}

void FileWriter::on(BlockRecovery::GivenUp&& given_up, env::TimePoint /*now*/, Actions& actions) {
  state_ = Idle{};
  fail(std::move(given_up.why), actions);
}

// --- the NameNode's other answers

void FileWriter::fsynced(const Status& answer, env::TimePoint now, Actions& actions) {
  if (is_over() || !promises_.is_recording()) return;
  if (!answer.ok()) return fail(as_lost_lease(answer), actions);
  promises_.recorded();
  advance(now, actions);
}

void FileWriter::located(const Result<LocatedBlocks>& answer, env::TimePoint now,
                         Actions& actions) {
  promises_.located(answer);
  advance(now, actions);
}

void FileWriter::complete(Closing closing, Actions& actions) {
  actions.emplace_back(action::Complete{to_reopen_ ? std::optional(to_reopen_->block) : previous_});
  state_ = Completing{std::move(closing)};
}

void FileWriter::completed(const Result<bool>& answer, env::TimePoint now, Actions& actions) {
  auto* const completing = std::get_if<Completing>(&state_);
  if (completing == nullptr) return;
  Closing closing = std::move(completing->closing);
  if (!answer.ok()) return not_closed(closing, as_lost_lease(answer.status()), actions);
  if (*answer) return closed(closing, actions);
  if (const std::optional<env::Duration> delay = closing.delays.next()) {
    state_ = CompleteDelay{std::move(closing), now + *delay};
    return;
  }
  not_closed(closing,
             Status(StatusCode::kIo,
                    "close: the last block, " + (previous_ ? previous_->to_string() : "none") +
                        ", has not enough replicas, " + seconds(closing.delays.waited()) +
                        " after its end",
                    target().path),
             actions);
}

void FileWriter::closed(const Closing& closing, Actions& actions) {
  drop_everything(actions);
  if (!closing.refusal) {
    state_ = Done{};
    actions.emplace_back(action::Finished{});
  } else {
    state_ = Failed{};
    actions.emplace_back(action::Failed{*closing.refusal, true});
  }
}

// The file stays open at the NameNode. What made the stream end it early comes first.
void FileWriter::not_closed(const Closing& closing, Status why, Actions& actions) {
  fail(closing.refusal ? first_failure(*closing.refusal, std::move(why)) : std::move(why), actions);
}

void FileWriter::lease_lost(const Status& failure, Actions& actions) {
  if (is_over()) return;
  if (failure.code() == StatusCode::kLeaseLost) return fail(failure, actions);
  fail(
      Status(StatusCode::kLeaseLost, "write: the lease is lost", target().path).with_cause(failure),
      actions);
}

// --- connections

void FileWriter::connected(ConnectionNumber connection, env::TimePoint now) {
  if (BlockWriter* const block = writer_on(connection)) {
    block->connected(now);
  } else if (BlockRecovery* const copying = recovery_on(connection)) {
    copying->connected(now);
  } else if (promises_use(connection)) {
    promises_.connected(now);
  }
}

void FileWriter::replied(ConnectionNumber connection, const OperationReply& reply,
                         env::TimePoint now, Actions& actions) {
  if (BlockWriter* const block = writer_on(connection)) {
    take(block->replied(reply, now, actions), now, actions);
  } else if (BlockRecovery* const copying = recovery_on(connection)) {
    take(copying->replied(reply, actions), now, actions);
  } else if (promises_use(connection)) {
    promises_.replied(reply, now, actions);
    advance(now, actions);
  }
}

void FileWriter::acked(ConnectionNumber connection, const PipelineAck& ack, env::TimePoint now,
                       Actions& actions) {
  if (BlockWriter* const block = writer_on(connection)) {
    BlockWriter::Outcome outcome = block->acked(ack, now, actions);
    if (std::holds_alternative<BlockWriter::Continues>(outcome)) {
      note_acknowledged(block->located().end(), actions);
    }
    take(std::move(outcome), now, actions);
  } else if (promises_use(connection)) {
    promises_.acked(ack, actions);
    advance(now, actions);
  }
}

// Many acks that come together wake the stream once.
void FileWriter::note_acknowledged(std::uint64_t offset, Actions& actions) {
  if (offset <= acknowledged_) return;
  acknowledged_ = offset;
  auto* const before =
      actions.empty() ? nullptr : std::get_if<action::Acknowledged>(&actions.back());
  if (before != nullptr) {
    before->offset = offset;
  } else {
    actions.emplace_back(action::Acknowledged{offset});
  }
}

void FileWriter::connection_lost(ConnectionNumber connection, const Status& failure,
                                 env::TimePoint now, Actions& actions) {
  if (BlockWriter* const block = writer_on(connection)) {
    take(block->connection_lost(failure, actions), now, actions);
  } else if (BlockRecovery* const copying = recovery_on(connection)) {
    take(copying->connection_lost(failure, actions), now, actions);
  } else if (promises_use(connection)) {
    promises_.connection_lost(failure, actions);
    advance(now, actions);
  }
}

std::size_t FileWriter::output(ConnectionNumber connection,
                               std::span<ByteView> pieces) const noexcept {
  if (pieces.empty()) return 0;
  if (const BlockWriter* const block = writer_on(connection)) return block->output(pieces);
  if (const BlockRecovery* const copying = recovery_on(connection)) return copying->output(pieces);
  return promises_use(connection) ? promises_.output(pieces) : 0;
}

void FileWriter::sent(ConnectionNumber connection, std::size_t bytes, env::TimePoint now) noexcept {
  if (bytes == 0) return;
  if (BlockWriter* const block = writer_on(connection)) {
    block->sent(bytes, now);
  } else if (BlockRecovery* const copying = recovery_on(connection)) {
    copying->sent(bytes, now);
  } else if (promises_use(connection)) {
    promises_.sent(bytes, now);
  } else {
    return;
  }
  stream_.counters.bytes_sent += static_cast<std::int64_t>(bytes);
}

// --- time

void FileWriter::tick(env::TimePoint now, Actions& actions) {
  const std::optional<env::TimePoint> due = deadline();
  if (!due || now < *due) return;
  if (auto* const waiting = std::get_if<AllocateDelay>(&state_)) {
    if (now >= waiting->until) {
      ++stream_.counters.allocate_retries;
      allocate(std::move(waiting->search), now, actions);
    }
  } else if (auto* const asking = std::get_if<CompleteDelay>(&state_)) {
    if (now >= asking->until) {
      ++stream_.counters.complete_retries;
      complete(std::move(asking->closing), actions);
    }
  } else if (BlockWriter* const writing = writer()) {
    take(writing->tick(now, actions), now, actions);
  } else if (BlockRecovery* const waiting_for = recovering()) {
    take(waiting_for->tick(now, actions), now, actions);
  }
  promises_.tick(now, actions);
  advance(now, actions);
}

// --- the end

void FileWriter::fail(Status failure, Actions& actions) {
  if (is_over()) return;
  drop_everything(actions);
  state_ = Failed{};
  // Nothing more can be written, so that close() will fail as well: others need not wait for it.
  if (stream_.settings.recover_lease_on_close_failure && failure.code() != StatusCode::kLeaseLost) {
    actions.emplace_back(action::RecoverLease{});
  }
  actions.emplace_back(action::Failed{std::move(failure)});
}

void FileWriter::drop_everything(Actions& actions) {
  if (const BlockWriter* const writing = block()) writing->close(actions);
  if (const BlockRecovery* const current = recovery()) current->close(actions);
  promises_.drop(actions);
  stream_.packets.clear();
}

std::string_view to_string(FileWriter::State state) noexcept {
  constexpr auto kNames = std::to_array<std::string_view>(
      {"idle", "allocating", "allocate delay", "writing", "recovering", "abandoning", "completing",
       "complete delay", "done", "failed", "abandoned"});
  return kNames[static_cast<std::size_t>(state)];
}

}  // namespace hflush::hdfs
