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

// No DataNode can take the block now: "File /f could only be written to 0 of the 1 minReplication
// nodes". Hadoop 2 says "replicated".
bool is_out_of_nodes(const Status& failure) {
  return is_class(failure.remote_class(), "IOException") &&
         failure.message().find(" could only be ") != std::string::npos;
}

// TimeoutError is for a caller whose deadline has passed, and who may try again (HFLUSH-12). Here
// one of a call to the NameNode has passed, and with it the stream has ended.
Status as_end_of_stream(const Status& failure) {
  const bool is_late = failure.code() == StatusCode::kTimedOut ||
                       (failure.code() == StatusCode::kIo && failure.error_number() == ETIMEDOUT);
  if (!is_late) return failure;
  return Status(StatusCode::kIo,
                "write: the stream has failed, as the NameNode did not answer in time (see "
                "hflush.hdfs.namenode.patience): " +
                    failure.message(),
                failure.path(), EIO)
      .with_remote_class(failure.remote_class())
      .with_cause(failure);
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

// Of the file, as far as this stream knows; none if it is empty.
std::optional<ExtendedBlock> FileWriter::last_block() const {
  return to_reopen_ ? std::optional(to_reopen_->block) : previous_;
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
  enqueue(packets, now, actions);
  advance(now, actions);
}

void FileWriter::enqueue(std::span<stream::Packet> packets, env::TimePoint now, Actions& actions) {
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
          now, actions);
    }
    put_ = packet.end();
    const std::uint64_t end_in_block = put_ - newest_block_start_;
    stream_.packets.push_data(std::move(packet), newest_block_start_);
    if (end_in_block == target().block_size) end_newest_block(promises_.ends_blocks_with_sync());
  }
}

// Whether the newest byte is in a block that may grow. An append's partial block is the current
// one, although nothing has been written to it yet.
bool FileWriter::newest_block_is_open() const noexcept {
  const bool has_block = stream_.packets.newest_sequence_number() >= 0 || to_reopen_;
  return has_block && put_ > newest_block_start_;
}

void FileWriter::end_newest_block(bool sync) {
  stream_.packets.push_empty(PacketQueue::Kind::kLast, sync, newest_block_start_, put_);
  newest_block_start_ = put_;
}

void FileWriter::sync(stream::Level level, std::span<stream::Packet> packets, env::TimePoint now,
                      Actions& actions) {
  if (is_over()) return;
  enqueue(packets, now, actions);
  if (is_over()) return;
  if (level >= stream::Level::kDurable) stream_.packets.mark_last_packets_for_sync();
  if (newest_block_is_open()) {
    if (level == stream::Level::kDurable) sync_newest_block();
    if (level == stream::Level::kBlockEnded) end_newest_block(true);
  }
  promises_.await(level, put_);
  advance(now, actions);
}

void FileWriter::sync_newest_block() {
  PacketQueue& packets = stream_.packets;
  if (packets.has_waiting() && !packets.newest().was_released) {
    packets.mark_newest_for_sync();
  } else if (packets.empty() || !packets.newest().sync) {
    packets.push_empty(PacketQueue::Kind::kSync, true, newest_block_start_, put_);
  }
}

void FileWriter::finish(env::TimePoint now, Actions& actions) {
  if (is_over() || finishing_) return;
  finishing_ = true;
  const bool wrote_something = stream_.packets.newest_sequence_number() >= 0;
  if (wrote_something && newest_block_is_open()) {
    end_newest_block(promises_.ends_blocks_with_sync());
  }
  advance(now, actions);
}

void FileWriter::abandon(env::TimePoint now, Actions& actions) {
  if (is_over()) return;
  drop_everything(now, actions);
  state_ = Abandoned{};
  if (finishing_ && stream_.settings.recover_lease_on_close_failure) {
    actions.emplace_back(action::RecoverLease{});  // this close() fails: it was interrupted
  }
}

// --- what is due

// After every event: all that can be done now is asked for.
void FileWriter::advance(env::TimePoint now, Actions& actions) {
  if (is_over()) return;
  note_stall(put_ > acknowledged_, now);
  if (BlockWriter* const writing = writer()) {
    stream_.failures.writes(writing->located().block);
    writing->release(now);
  }
  promises_.advance(recordable_length(), actions);
  if (state() == State::kIdle) return leave_idle(now, actions);
  BlockRecovery* const held = recovering();
  if (held == nullptr || held->state() != BlockRecovery::State::kHeld) return;
  if (promises_.is_recording()) return;
  const bool may_discard = std::get<Recovering>(state_).search.attempts_left > 0;
  take(held->begin(promises_.has_flushed(), may_discard, now, actions), now, actions);
}

// There is no block under construction: the next one, or the end.
void FileWriter::leave_idle(env::TimePoint now, Actions& actions) {
  if (promises_.is_recording()) return;
  if (stream_.packets.has_waiting()) {
    Search search{stream_.settings.block_write_retries, stream_.delays()};
    stream_.failures.block_begins();
    if (!to_reopen_) return allocate(search, now, actions);
    BlockWriter::Block block;
    block.located = *std::exchange(to_reopen_, std::nullopt);
    block.released_length = block.located.block.length;
    block.stage = WriteStage::kSetupAppend;
    block.is_synced = true;
    stream_.failures.writes(block.located.block);
    state_.emplace<Recovering>(search, BlockRecovery(stream_, std::move(block)));
    advance(now, actions);
  } else if (finishing_ && !promises_.has_waiters()) {
    complete({stream_.delays(), std::nullopt}, actions);
  }
}

// --- blocks

void FileWriter::allocate(Search search, env::TimePoint now, Actions& actions) {
  std::erase_if(excluded_, [now](const ExcludedNode& node) { return node.until <= now; });
  action::AddBlock add{previous_, {}};
  for (const ExcludedNode& excluded : excluded_) add.excluded.push_back(excluded.node);
  actions.emplace_back(std::move(add));
  state_ = Allocating{search};
}

void FileWriter::allocated(Result<LocatedBlock> answer, env::TimePoint now, Actions& actions) {
  auto* const allocating = std::get_if<Allocating>(&state_);
  if (allocating == nullptr) return;
  if (!answer.ok()) {
    allocation_failed(allocating->search, answer.status(), now, actions);
  } else if (answer->replicas.empty()) {
    fail(Status(StatusCode::kIo, "addBlock: no DataNode for " + answer->block.to_string(),
                target().path),
         now, actions);
  } else {
    ++stream_.counters.blocks;
    BlockWriter::Block block;
    block.located = *std::move(answer);
    block.located.offset = stream_.packets.oldest().block_start;
    block.located.block.length = 0;
    block.is_replaceable = allocating->search.attempts_left > 0;
    write_block(allocating->search, std::move(block), actions);
  }
  advance(now, actions);
}

void FileWriter::allocation_failed(Search search, const Status& failure, env::TimePoint now,
                                   Actions& actions) {
  // Not every server says so in these words.
  const bool excludes_some = is_class(failure.remote_class(), "IOException") && !excluded_.empty();
  const bool has_no_node = excludes_some || is_out_of_nodes(failure);
  if (has_no_node) {
    excluded_.clear();  // one that has failed before is better than none
    // And may be back after the pause. Those that take long to fail are not tried for as long.
    const bool failed_lately =
        search.failed > 0 && now - search.failed_first < search.delays.total();
    if (failed_lately) search.attempts_left = stream_.settings.block_write_retries;
  }
  if (!has_no_node && !is_class(failure.remote_class(), "NotReplicatedYetException")) {
    return no_block(failure, now, actions);
  }
  if (const std::optional<env::Duration> delay = search.delays.next()) {
    state_ = AllocateDelay{search, now + *delay};
    return;
  }
  const env::Duration waited = search.delays.waited();
  if (waited == env::Duration::zero()) return no_block(failure, now, actions);
  const Status still(failure.code(), failure.message() + ", asked again for " + seconds(waited),
                     failure.path(), failure.error_number());
  no_block(still.with_remote_class(failure.remote_class()), now, actions);
}

void FileWriter::no_block(const Status& failure, env::TimePoint now, Actions& actions) {
  // What exists of the file does not stay open.
  if (is_over_quota(failure)) return complete({stream_.delays(), failure}, actions);
  const Status why = as_lost_lease(failure);
  const std::string faults = stream_.failures.faults();
  if (faults.empty() || why.code() != StatusCode::kIo) return fail(why, now, actions);
  // A number, as of safe mode or of a host that is not there, says more than that no block came.
  const int number = why.error_number();
  const bool has_reason = number != 0 && number != EIO;
  fail(Status(
           has_reason ? StatusCode::kIo : StatusCode::kPipeline,
           "write: the NameNode gives no other block, " + why.message() + "; before that " + faults,
           target().path, has_reason ? number : EIO)
           .with_remote_class(why.remote_class()),
       now, actions);
}

void FileWriter::write_block(Search search, BlockWriter::Block block, Actions& actions) {
  promises_.block_begins(block.located.offset);
  BlockWriter writer(stream_, ++stream_.last_connection, std::move(block), actions);
  state_.emplace<Writing>(search, std::move(writer));
}

void FileWriter::block_abandoned(const Status& answer, env::TimePoint now, Actions& actions) {
  auto* const abandoning = std::get_if<Abandoning>(&state_);
  if (abandoning == nullptr) return;
  if (!answer.ok()) return fail(as_lost_lease(answer), now, actions);
  Search& search = abandoning->search;
  if (search.attempts_left-- > 0) return allocate(search, now, actions);
  fail(Status(StatusCode::kPipeline,
              "write: unable to create new block after " + std::to_string(search.failed) +
                  " attempts: " + stream_.failures.faults(),
              target().path, EIO),
       now, actions);
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
    take(finding->found(std::move(answer), now, actions), now, actions);
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
  std::erase_if(excluded_, [&](const ExcludedNode& node) {  // who failed once, and is good again
    const std::vector<Replica>& good = ended.block.located.replicas;
    return place_of(node.node.transfer_address(), good) < good.size();
  });
  if (!ended.synced) promises_.block_ended(std::move(ended.block.located));
  state_ = Idle{};
  advance(now, actions);
}

// The block is given up, and another one is asked for without that node.
void FileWriter::on(BlockWriter::NotBuilt&& not_built, env::TimePoint now, Actions& actions) {
  Search search = std::get<Writing>(state_).search;
  const std::vector<Replica>& pipeline = not_built.block.located.replicas;
  const DatanodeInfo& bad = pipeline[not_built.node].node;
  stream_.failures.node_failed({bad.transfer_address(), not_built.node, pipeline.size(),
                                reason(not_built.fault), acknowledged_, now});
  exclude(bad, now, stream_.settings.excluded_nodes_expiry);
  discard_block(search, std::move(not_built.block.located.block), now, actions);
  advance(now, actions);
}

void FileWriter::exclude(const DatanodeInfo& node, env::TimePoint failed_at, env::Duration length) {
  excluded_.push_back({node, env::deadline_after(failed_at, length)});
}

void FileWriter::discard_block(Search search, ExtendedBlock block, env::TimePoint now,
                               Actions& actions) {
  ++stream_.counters.block_retries;
  if (search.failed++ == 0) search.failed_first = now;
  state_ = Abandoning{search};
  actions.emplace_back(action::AbandonBlock{std::move(block)});
}

// The packets that are not acknowledged are in the queue, and `broken` has all else that a recovery
// needs.
void FileWriter::on(BlockWriter::Broken&& broken, env::TimePoint now, Actions& actions) {
  note_acknowledged(broken.block.located.end(), actions);
  Search search = std::get<Writing>(state_).search;
  BlockRecovery recovery(stream_, std::move(broken), now);
  state_.emplace<Recovering>(search, std::move(recovery));
  advance(now, actions);
}

void FileWriter::on(BlockWriter::Refused&& refused, env::TimePoint now, Actions& actions) {
  state_ = Idle{};
  fail(refused.why, now, actions);
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
  Search search = std::get<Recovering>(state_).search;
  write_block(search, std::move(ready.block), actions);
  advance(now, actions);
}

// The nodes that have left a pipeline are excluded, as those with which one was not built.
void FileWriter::on(BlockRecovery::Discarded&& discarded, env::TimePoint now, Actions& actions) {
  Search search = std::get<Recovering>(state_).search;
  const WriteSettings& settings = stream_.settings;
  for (const Recoveries::FailedNode& failed : stream_.recoveries.failed) {
    const std::size_t place = place_of(failed.node.transfer_address(), discarded.others);
    if (place < discarded.others.size()) continue;  // it failed earlier, and was good since
    exclude(failed.node, failed.failed_at,
            failed.may_return ? settings.datanode_restart_timeout : settings.excluded_nodes_expiry);
  }
  discard_block(search, std::move(discarded.block), now, actions);
  advance(now, actions);
}

void FileWriter::on(BlockRecovery::GivenUp&& given_up, env::TimePoint now, Actions& actions) {
  state_ = Idle{};
  fail(given_up.why, now, actions);
}

// --- the NameNode's other answers

void FileWriter::fsynced(const Status& answer, env::TimePoint now, Actions& actions) {
  if (is_over() || !promises_.is_recording()) return;
  if (!answer.ok()) return fail(as_lost_lease(answer), now, actions);
  promises_.recorded();
  advance(now, actions);
}

void FileWriter::located(const Result<LocatedBlocks>& answer, env::TimePoint now,
                         Actions& actions) {
  if (state() == State::kChecking) return checked(answer, now, actions);
  promises_.located(answer);
  advance(now, actions);
}

void FileWriter::complete(Closing closing, Actions& actions) {
  actions.emplace_back(action::Complete{last_block()});
  state_ = Completing{std::move(closing)};
}

void FileWriter::completed(const Result<bool>& answer, env::TimePoint now, Actions& actions) {
  auto* const completing = std::get_if<Completing>(&state_);
  if (completing == nullptr) return;
  Closing closing = std::move(completing->closing);
  if (!answer.ok()) {
    Status why = as_lost_lease(answer.status());
    if (why.code() != StatusCode::kLeaseLost || last_block()) {
      return not_closed(closing, std::move(why), now, actions);
    }
    state_ = Checking{std::move(closing), std::move(why)};
    actions.emplace_back(action::GetBlockLocations{0, 1});
    return;
  }
  if (*answer) return closed(closing, now, actions);
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
             now, actions);
}

// A NameNode knows a repeated complete by the last block. Of a file without one it says that the
// lease is gone, although the first attempt has closed it and its answer was lost. No block of this
// stream is in the file: if it is closed with the length that it had, this stream's close is done.
void FileWriter::checked(const Result<LocatedBlocks>& answer, env::TimePoint now,
                         Actions& actions) {
  Checking checking = std::move(std::get<Checking>(state_));
  const bool is_closed =
      answer.ok() && !answer->under_construction && answer->file_length == target().start;
  if (is_closed) return closed(checking.closing, now, actions);
  not_closed(checking.closing, std::move(checking.why), now, actions);
}

void FileWriter::closed(const Closing& closing, env::TimePoint now, Actions& actions) {
  drop_everything(now, actions);
  if (!closing.refusal) {
    state_ = Done{};
    actions.emplace_back(action::Finished{});
  } else {
    state_ = Failed{};
    actions.emplace_back(action::Failed{*closing.refusal, true});
  }
}

// The file stays open at the NameNode. What made the stream end it early comes first.
void FileWriter::not_closed(const Closing& closing, Status why, env::TimePoint now,
                            Actions& actions) {
  if (!closing.refusal) return fail(why, now, actions);
  fail(first_failure(*closing.refusal, std::move(why)), now, actions);
}

void FileWriter::lease_lost(const Status& failure, env::TimePoint now, Actions& actions) {
  if (is_over()) return;
  if (failure.code() == StatusCode::kLeaseLost) return fail(failure, now, actions);
  fail(
      Status(StatusCode::kLeaseLost, "write: the lease is lost", target().path).with_cause(failure),
      now, actions);
}

// --- DataNodes that were asked

void FileWriter::replica_answered(QuestionNumber question, std::size_t node,
                                  const Result<std::int64_t>& length) {
  if (BlockWriter* const writing = writer()) writing->replica_answered(question, node, length);
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
    take(copying->replied(reply, now, actions), now, actions);
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
    take(copying->connection_lost(failure, now, actions), now, actions);
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
      allocate(waiting->search, now, actions);
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

void FileWriter::fail(const Status& failure, env::TimePoint now, Actions& actions) {
  if (is_over()) return;
  drop_everything(now, actions);
  state_ = Failed{};
  // Nothing more can be written, so that close() will fail as well: others need not wait for it.
  if (stream_.settings.recover_lease_on_close_failure && failure.code() != StatusCode::kLeaseLost) {
    actions.emplace_back(action::RecoverLease{});
  }
  actions.emplace_back(action::Failed{as_end_of_stream(failure)});
}

void FileWriter::note_stall(bool waits, env::TimePoint now) {
  if (const auto stall = stall_watch_.note(now, acknowledged_, waits)) {
    stream_.counters.stalls.add(*stall);
  }
}

void FileWriter::drop_everything(env::TimePoint now, Actions& actions) {
  note_stall(false, now);
  if (const BlockWriter* const writing = block()) writing->close(actions);
  if (const BlockRecovery* const current = recovery()) current->close(actions);
  promises_.drop(actions);
  stream_.packets.clear();
}

std::string_view to_string(FileWriter::State state) noexcept {
  constexpr auto kNames = std::to_array<std::string_view>(
      {"idle", "allocating", "allocate delay", "writing", "recovering", "abandoning", "completing",
       "complete delay", "checking", "done", "failed", "abandoned"});
  return kNames[static_cast<std::size_t>(state)];
}

}  // namespace hflush::hdfs
