#include "hflush/hdfs/write/write_pipeline.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "hflush/hdfs/wire/remote_exception.h"

namespace hflush::hdfs {
namespace {

bool is_over_quota(const Status& failure) {
  return is_class(failure.remote_class(), "DSQuotaExceededException") ||
         is_class(failure.remote_class(), "QuotaByStorageTypeExceededException");
}

// A call about a file that is open for writing found no such file: it was deleted or replaced.
Status as_lost_lease(const Status& failure) {
  if (failure.code() != StatusCode::kNotFound) return failure;
  return Status(StatusCode::kLeaseLost, failure.message(), failure.path())
      .with_remote_class(failure.remote_class());
}

std::string seconds(env::Duration duration) {
  const auto tenths = std::chrono::duration_cast<std::chrono::milliseconds>(duration).count() / 100;
  return std::to_string(tenths / 10) + "." + std::to_string(tenths % 10) + " s";
}

std::string describe_reply(const OperationReply& reply) {
  std::string text(hdfs::to_string(reply.status));
  if (!reply.first_bad_link.empty()) text += " for " + reply.first_bad_link;
  if (!reply.message.empty()) text += " (" + reply.message + ")";
  return text;
}

// `timeout`, longer by what each of the nodes adds.
env::Duration for_nodes(env::Duration timeout, std::size_t nodes) noexcept {
  const env::Duration more = static_cast<int>(nodes) * WritePipeline::kTimeoutPerNode;
  return timeout < env::kNoTimeout - more ? timeout + more : env::kNoTimeout;
}

// What a DataNode did wrong, as a Status whose message goes on after its name: it answered with an
// error or nonsense,
Status bad_answer(const std::string& answer) {
  return Status(StatusCode::kIo, "answered " + answer, {}, EIO);
}
// or not at all,
Status no_answer(const std::string& what, env::Duration duration) {
  return Status(StatusCode::kTimedOut, what + " for " + seconds(duration), {}, ETIMEDOUT);
}
// or is gone.
Status lost(const Status& failure) {
  return Status(StatusCode::kIo, "is lost", {}, failure.error_number()).with_cause(failure);
}

// A fault as the stream's failure.
Status failure_of(const Status& fault, std::string message, const std::string& path) {
  const Status failure(fault.code(), std::move(message), path, fault.error_number());
  return fault.cause() == nullptr ? failure : failure.with_cause(*fault.cause());
}

}  // namespace

WritePipeline::WritePipeline(WriteTarget target, const WriteSettings& settings)
    : target_(std::move(target)),
      settings_(settings),
      drop_behind_(settings.drop_behind),
      put_(target_.start),
      newest_block_start_(target_.partial_block ? target_.partial_block->offset : target_.start),
      block_start_(newest_block_start_),
      acknowledged_(target_.start),
      backoff_(settings.congestion_backoff_mean, settings.congestion_backoff_max, target_.file_id),
      to_reopen_(target_.partial_block),
      previous_(target_.previous_block),
      allocate_delays_(settings.complete_first_delay, settings.locate_initial_delay,
                       settings.locate_max_delay, settings.locate_following_block_retries),
      complete_delays_(allocate_delays_) {}

// --- questions

bool WritePipeline::is_over() const noexcept {
  return state_ == State::kDone || state_ == State::kFailed || state_ == State::kAbandoned;
}

// Whether packets go out and acks come in.
bool WritePipeline::has_pipeline() const noexcept {
  return state_ == State::kStreaming || state_ == State::kDraining || state_ == State::kEndingBlock;
}

// Whether the NameNode may be told about the block: while another one is being allocated, a length
// could be taken for that one's.
bool WritePipeline::may_record_length() const noexcept {
  return !fsync_pending_ && (has_pipeline() || state_ == State::kIdle);
}

// addBlock tells the length of the blocks before the current one.
bool WritePipeline::is_recorded(const Waiter& waiter) const noexcept {
  if (waiter.sequence_number < 0 || waiter.offset <= block_start_) return true;
  if (!recorded_length_) return false;
  const bool exactly = target_.update_length && waiter.level == stream::Level::kDurable;
  return !exactly || *recorded_length_ >= waiter.offset - block_start_;
}

env::TimePoint WritePipeline::silent_until(const Link& link, std::size_t nodes) const noexcept {
  return env::deadline_after(link.last_heard, for_nodes(settings_.socket_timeout, nodes));
}

// By then the oldest packet is acknowledged.
env::TimePoint WritePipeline::patient_until() const noexcept {
  return env::deadline_after(waiting_since_,
                             for_nodes(settings_.socket_write_timeout, replicas_.size()));
}

env::Duration WritePipeline::heartbeat_interval() const noexcept {
  return std::min(settings_.socket_timeout / 2, kLongestSilence);
}

std::optional<env::TimePoint> WritePipeline::deadline() const noexcept {
  std::optional<env::TimePoint> earliest;
  const auto consider = [&earliest](env::TimePoint when) {
    if (when < earliest.value_or(env::TimePoint::max())) earliest = when;
  };
  if (state_ == State::kAllocateDelay || state_ == State::kCompleteDelay) consider(retry_at_);
  if (state_ == State::kSettingUp || has_pipeline()) {
    consider(silent_until(link_, replicas_.size()));
  }
  if (has_pipeline()) {
    if (has_nothing_to_send()) consider(link_.last_sent + heartbeat_interval());
    if (queue_.has_unacknowledged()) consider(patient_until());
    if (held_until_) consider(*held_until_);
  }
  if (has_asked_replica()) consider(silent_until(sync_link_, 1));
  return earliest;
}

bool WritePipeline::has_nothing_to_send() const noexcept {
  return link_.control.empty() && !queue_.has_output();
}

// Whether a replica of a finished block has been asked to sync.
bool WritePipeline::has_asked_replica() const noexcept { return !sync_link_.control.empty(); }

// Whether an hsync waits for more than the current block.
bool WritePipeline::awaits_finished_blocks() const noexcept {
  return !unsynced_.empty() && std::ranges::any_of(waiters_, [](const Waiter& waiter) {
    return waiter.level == stream::Level::kDurable;
  });
}

std::string WritePipeline::describe_pipeline() const {
  std::string text = block_.to_string() + ", " + std::to_string(block_.length) +
                     " bytes acknowledged and " + std::to_string(released_length_) +
                     " sent, pipeline [";
  for (const Replica& replica : replicas_) {
    if (text.back() != '[') text += ", ";
    text += replica.node.transfer_address();
  }
  return text + "]";
}

// --- from the stream

void WritePipeline::put(std::span<stream::Packet> packets, env::TimePoint now, Actions& actions) {
  if (is_over()) return;
  enqueue(packets, actions);
  advance(now, actions);
}

void WritePipeline::enqueue(std::span<stream::Packet> packets, Actions& actions) {
  for (stream::Packet& packet : packets) {
    const bool follows = packet.offset() >= newest_block_start_ && packet.offset() <= put_ &&
                         packet.end() <= newest_block_start_ + target_.block_size;
    if (!follows) {
      return fail(
          Status(StatusCode::kInternal,
                 "write: packet at " + std::to_string(packet.offset()) + " to " +
                     std::to_string(packet.end()) + " does not follow on " + std::to_string(put_) +
                     " in the block from " + std::to_string(newest_block_start_),
                 target_.path),
          actions);
    }
    put_ = packet.end();
    const std::uint64_t end_in_block = put_ - newest_block_start_;
    queue_.push_data(std::move(packet), newest_block_start_);
    if (end_in_block == target_.block_size) end_newest_block();
  }
}

void WritePipeline::end_newest_block() {
  queue_.push_empty(PacketQueue::Kind::kLast, newest_block_start_, put_);
  newest_block_start_ = put_;
}

void WritePipeline::sync(stream::Level level, std::span<stream::Packet> packets, env::TimePoint now,
                         Actions& actions) {
  if (is_over()) return;
  enqueue(packets, actions);
  if (level == stream::Level::kHandedOver) {
    handed_over_ = put_;
  } else {
    if (level == stream::Level::kDurable) ask_for_durability();
    waiters_.push_back({level, put_, queue_.newest_sequence_number()});
  }
  advance(now, actions);
}

void WritePipeline::ask_for_durability() {
  durable_ = true;  // last packets that are not released yet will carry a sync
  // An append's partial block is the current one, although nothing has been written to it yet.
  const bool has_block = queue_.newest_sequence_number() >= 0 || to_reopen_;
  const bool block_is_ended = put_ == newest_block_start_;
  if (!has_block || block_is_ended) return;
  if (queue_.has_waiting()) {
    queue_.mark_newest_for_sync();
  } else if (queue_.empty() || !queue_.newest().sync) {
    queue_.push_empty(PacketQueue::Kind::kSync, newest_block_start_, put_);
    queue_.mark_newest_for_sync();
  }
}

void WritePipeline::finish(env::TimePoint now, Actions& actions) {
  if (is_over() || finishing_) return;
  finishing_ = true;
  const bool wrote_something = queue_.newest_sequence_number() >= 0;
  if (wrote_something && put_ > newest_block_start_) end_newest_block();
  advance(now, actions);
}

void WritePipeline::abandon(Actions& actions) {
  if (is_over()) return;
  drop_everything(actions);
  state_ = State::kAbandoned;
  if (finishing_ && settings_.recover_lease_on_close_failure) {
    actions.emplace_back(action::RecoverLease{});  // this close() fails: it was interrupted
  }
}

// --- what is due

// After every event: whatever can be done now is asked for.
void WritePipeline::advance(env::TimePoint now, Actions& actions) {
  if (is_over()) return;
  if (has_pipeline()) release_packets(now);
  sync_finished_blocks(actions);
  resolve_waiters(actions);
  if (state_ == State::kIdle) leave_idle(now, actions);
}

void WritePipeline::release_packets(env::TimePoint now) {
  while (queue_.has_waiting() && state_ != State::kEndingBlock) {
    const bool is_last = queue_.next_waiting().kind == PacketQueue::Kind::kLast;
    if (is_last && queue_.has_unacknowledged()) {
      state_ = State::kDraining;
      return;
    }
    if (holds_back(now)) return;
    if (!queue_.has_unacknowledged()) waiting_since_ = now;
    const PacketQueue::Entry& released =
        queue_.release(is_last && (durable_ || target_.sync_every_block), now);
    released_length_ = std::max(released_length_, released.end_in_block());
    if (is_last) {
      last_packet_syncs_ = released.sync;
      state_ = State::kEndingBlock;
    }
  }
}

// Whether the DataNodes get time to catch up. Heartbeats go on.
bool WritePipeline::holds_back(env::TimePoint now) {
  if (!held_until_) {
    const env::Duration delay = backoff_.take();
    if (delay == env::Duration::zero()) return false;
    ++counters_.congestion_delays;
    held_until_ = now + delay;
  }
  if (now < *held_until_) return true;
  held_until_.reset();
  return false;
}

void WritePipeline::resolve_waiters(Actions& actions) {
  if (handed_over_ && queue_.size() <= settings_.max_packets_in_flight) {
    actions.emplace_back(action::Reached{stream::Level::kHandedOver, *handed_over_});
    handed_over_.reset();
  }
  bool length_is_wanted = false;
  std::array<std::optional<std::uint64_t>, 3> reached;  // by Level
  std::erase_if(waiters_, [&](const Waiter& waiter) {
    if (waiter.sequence_number > acknowledged_sequence_number_) return false;
    if (!is_recorded(waiter)) {
      length_is_wanted = true;
      return false;
    }
    if (waiter.level == stream::Level::kDurable && !unsynced_.empty()) return false;
    reached[static_cast<std::size_t>(waiter.level)] = waiter.offset;
    return true;
  });
  for (const stream::Level level : {stream::Level::kVisible, stream::Level::kDurable}) {
    const std::optional<std::uint64_t> offset = reached[static_cast<std::size_t>(level)];
    if (offset) actions.emplace_back(action::Reached{level, *offset});
  }
  if (length_is_wanted && may_record_length()) {
    fsync_pending_ = true;
    fsync_length_ = block_.length;
    ++counters_.fsyncs;
    actions.emplace_back(action::Fsync{fsync_length_});
  }
}

// One replica at a time, while somebody waits for it.
void WritePipeline::sync_finished_blocks(Actions& actions) {
  if (!awaits_finished_blocks() || locating_ || sync_link_.number != 0) return;
  const FinishedBlocks::Step step = unsynced_.next();
  counters_.left_unsynced = unsynced_.left_out();
  if (std::holds_alternative<FinishedBlocks::Locate>(step)) {
    locating_ = true;
    actions.emplace_back(
        action::GetBlockLocations{unsynced_.block().offset, unsynced_.block().block.length});
  } else if (std::holds_alternative<FinishedBlocks::Open>(step)) {
    open_link(sync_link_, unsynced_.replica().node, actions);
  } else if (const auto* const given_up = std::get_if<FinishedBlocks::GiveUp>(&step)) {
    refuse_durability(given_up->failure.with_path(target_.path), actions);
  }
}

void WritePipeline::located(const Result<LocatedBlocks>& answer, env::TimePoint now,
                            Actions& actions) {
  if (is_over() || !std::exchange(locating_, false)) return;
  if (answer.ok()) {
    unsynced_.located(answer);
  } else {
    unsynced_.located(as_lost_lease(answer.status()));
  }
  advance(now, actions);
}

// Every hsync under way has failed; the stream goes on.
void WritePipeline::refuse_durability(const Status& why, Actions& actions) {
  std::uint64_t offset = 0;
  std::erase_if(waiters_, [&offset](const Waiter& waiter) {
    if (waiter.level != stream::Level::kDurable) return false;
    offset = std::max(offset, waiter.offset);
    return true;
  });
  actions.emplace_back(action::NotReached{stream::Level::kDurable, offset, why});
}

// There is no block under construction: the next one, or the end.
void WritePipeline::leave_idle(env::TimePoint now, Actions& actions) {
  if (fsync_pending_) return;
  if (queue_.has_waiting()) {
    attempts_left_ = settings_.block_write_retries;
    failed_attempts_.clear();
    allocate_delays_.restart();
    if (to_reopen_) {
      state_ = State::kReserving;
      actions.emplace_back(action::UpdateBlockForPipeline{to_reopen_->block});
    } else {
      allocate(now, actions);
    }
  } else if (finishing_ && waiters_.empty()) {
    complete(actions);
  }
}

// --- a block and its pipeline

void WritePipeline::allocate(env::TimePoint now, Actions& actions) {
  state_ = State::kAllocating;
  std::erase_if(excluded_, [now](const ExcludedNode& node) { return node.until <= now; });
  action::AddBlock add{previous_, {}};
  for (const ExcludedNode& excluded : excluded_) add.excluded.push_back(excluded.node);
  actions.emplace_back(std::move(add));
}

void WritePipeline::allocated(Result<LocatedBlock> answer, env::TimePoint now, Actions& actions) {
  if (state_ != State::kAllocating) return;
  if (!answer.ok()) {
    allocation_failed(answer.status(), now, actions);
  } else if (answer->replicas.empty()) {
    fail(Status(StatusCode::kIo, "addBlock: no DataNode for " + answer->block.to_string(),
                target_.path),
         actions);
  } else {
    ++counters_.blocks;
    const PacketQueue::Entry& first = queue_.next_waiting();
    start_block(*std::move(answer), first.block_start, 0, actions);
  }
  advance(now, actions);
}

void WritePipeline::allocation_failed(const Status& failure, env::TimePoint now, Actions& actions) {
  if (is_class(failure.remote_class(), "NotReplicatedYetException")) {
    if (const std::optional<env::Duration> delay = allocate_delays_.next()) {
      state_ = State::kAllocateDelay;
      retry_at_ = now + *delay;
      return;
    }
  }
  if (is_over_quota(failure)) {  // what there is of the file does not stay open
    doomed_ = failure;
    queue_.clear();
    return complete(actions);
  }
  fail(as_lost_lease(failure), actions);
}

void WritePipeline::reserved(Result<LocatedBlock> answer, Actions& actions) {
  if (state_ != State::kReserving) return;
  if (!answer.ok()) return fail(as_lost_lease(answer.status()), actions);
  LocatedBlock reopened = *std::exchange(to_reopen_, std::nullopt);
  if (reopened.replicas.empty()) {
    return fail(Status(StatusCode::kIo,
                       "append: no DataNode has the last block, " + reopened.block.to_string(),
                       target_.path),
                actions);
  }
  reserved_stamp_ = answer->block.generation_stamp;
  reopened.token = std::move(answer->token);
  const std::uint64_t length = reopened.block.length;
  const std::uint64_t offset = reopened.offset;
  start_block(std::move(reopened), offset, length, actions);
}

void WritePipeline::start_block(LocatedBlock block, std::uint64_t start, std::uint64_t length,
                                Actions& actions) {
  block_ = std::move(block.block);
  block_.length = released_length_ = length;
  block_start_ = start;
  token_ = std::move(block.token);
  replicas_ = std::move(block.replicas);
  recorded_length_.reset();
  state_ = State::kConnecting;
  open_link(link_, replicas_.front().node, actions);
}

void WritePipeline::connected(ConnectionNumber connection, env::TimePoint now) {
  if (connection == 0) return;
  if (connection == sync_link_.number && !has_asked_replica()) {
    sync_link_.last_heard = now;
    sync_link_.control =
        unsynced_.request(target_.client_name, target_.block_size, checksum_parameters());
  } else if (connection == link_.number && state_ == State::kConnecting) {
    state_ = State::kSettingUp;
    link_.last_heard = now;
    link_.control = write_operation();
  }
}

std::string WritePipeline::write_operation() const {
  WriteBlockOperation write;
  write.block = block_;
  write.block.length = target_.block_size;
  write.token = token_;
  write.client_name = target_.client_name;
  write.pipeline = replicas_;
  write.stage = reserved_stamp_ != 0 ? WriteStage::kSetupAppend : WriteStage::kSetupCreate;
  write.min_bytes_received = write.max_bytes_received = block_.length;
  write.latest_generation_stamp = reserved_stamp_;
  write.checksum = checksum_parameters();
  write.drop_behind = drop_behind_;
  write.lazy_persist = target_.lazy_persist;
  write.favored_nodes = target_.favored_nodes;
  return write.encode();
}

void WritePipeline::replied(ConnectionNumber connection, const OperationReply& reply,
                            env::TimePoint now, Actions& actions) {
  if (connection == 0) return;
  if (connection == sync_link_.number) {
    sync_link_.last_heard = now;
    if (reply.status != TransferStatus::kSuccess) {
      replica_failed(bad_answer(describe_reply(reply)), false, actions);
    }
  } else if (connection == link_.number && state_ == State::kSettingUp) {
    link_.last_heard = now;
    if (reply.status != TransferStatus::kSuccess) {
      set_up_failed(node_of(reply.first_bad_link), bad_answer(describe_reply(reply)), now, actions);
    } else if (reserved_stamp_ != 0) {
      state_ = State::kRegistering;
      ExtendedBlock registered_block = block_;
      registered_block.generation_stamp = reserved_stamp_;
      actions.emplace_back(action::UpdatePipeline{block_, std::move(registered_block), replicas_});
    } else {
      pipeline_stands(now);
    }
  }
  advance(now, actions);
}

void WritePipeline::registered(const Status& answer, env::TimePoint now, Actions& actions) {
  if (state_ != State::kRegistering) return;
  if (!answer.ok()) return fail(as_lost_lease(answer), actions);
  block_.generation_stamp = std::exchange(reserved_stamp_, 0);
  pipeline_stands(now);
  advance(now, actions);
}

void WritePipeline::pipeline_stands(env::TimePoint now) noexcept {
  state_ = State::kStreaming;
  held_until_.reset();
  ++counters_.pipelines;
  link_.last_sent = link_.last_heard = now;
}

// The node of the pipeline with that address; the first one if none is named.
std::size_t WritePipeline::node_of(std::string_view address) const {
  const auto named = std::ranges::find(
      replicas_, address, [](const Replica& replica) { return replica.node.transfer_address(); });
  return named == replicas_.end() ? 0 : static_cast<std::size_t>(named - replicas_.begin());
}

// A new block is given up and another one is asked for without that node. To build the pipeline of
// an append again is recovery.
void WritePipeline::set_up_failed(std::size_t node, const Status& fault, env::TimePoint now,
                                  Actions& actions) {
  if (reserved_stamp_ != 0) return node_failed(node, fault, actions);
  ++counters_.block_retries;
  close_link(link_, actions);
  const DatanodeInfo& bad = replicas_[node].node;
  failed_attempts_ += (failed_attempts_.empty() ? "" : "; ") + bad.transfer_address() + " ";
  failed_attempts_ += fault.message();
  if (fault.cause() != nullptr) failed_attempts_ += ": " + fault.cause()->message();
  excluded_.push_back({bad, env::deadline_after(now, settings_.excluded_nodes_expiry)});
  state_ = State::kAbandoning;
  actions.emplace_back(action::AbandonBlock{block_});
}

void WritePipeline::block_abandoned(const Status& answer, env::TimePoint now, Actions& actions) {
  if (state_ != State::kAbandoning) return;
  if (!answer.ok()) return fail(as_lost_lease(answer), actions);
  if (attempts_left_-- > 0) return allocate(now, actions);
  fail(Status(StatusCode::kIo,
              "write: unable to create new block after " +
                  std::to_string(settings_.block_write_retries + 1) +
                  " attempts: " + failed_attempts_,
              target_.path, EIO),
       actions);
}

void WritePipeline::end_block(Actions& actions) {
  close_link(link_, actions);
  previous_ = block_;
  if (!last_packet_syncs_) unsynced_.add({block_, block_start_, token_, replicas_});
  state_ = State::kIdle;
}

// --- acknowledgements

void WritePipeline::acked(ConnectionNumber connection, const PipelineAck& ack, env::TimePoint now,
                          Actions& actions) {
  if (connection == 0) return;
  if (connection == sync_link_.number) {
    if (FinishedBlocks::is_durable(ack)) {
      ++counters_.synced_afterwards;
      unsynced_.replica_is_durable();
      close_link(sync_link_, actions);
    } else {
      replica_failed(bad_answer(describe_ack(ack)), false, actions);
    }
  } else if (connection == link_.number && has_pipeline()) {
    link_.last_heard = now;
    packet_acked(ack, now, actions);
  }
  advance(now, actions);
}

void WritePipeline::packet_acked(const PipelineAck& ack, env::TimePoint now, Actions& actions) {
  // The node furthest down that complains is the one that failed.
  for (std::size_t i = ack.replies.size(); i-- > 0;) {
    if (ack.replies[i] == TransferStatus::kSuccess) continue;
    return node_failed(std::min(i, replicas_.size() - 1), bad_answer(describe_ack(ack)), actions);
  }
  if (ack.sequence_number == PipelineAck::kHeartbeat) return;
  const bool is_expected =
      queue_.oldest_is_sent() && queue_.oldest().sequence_number == ack.sequence_number;
  if (!is_expected) return node_failed(0, bad_answer(describe_ack(ack)), actions);
  if (ack.replies.size() != replicas_.size()) {
    const std::size_t silent = ack.replies.size() < replicas_.size() ? ack.replies.size() : 0;
    return node_failed(silent, bad_answer(describe_ack(ack)), actions);
  }

  const PacketQueue::Entry& oldest = queue_.oldest();
  backoff_.acked(ack.congested);
  ++counters_.acks;
  counters_.ack_latency.add(now - oldest.released_at);
  waiting_since_ = now;
  block_.length = std::max(block_.length, oldest.end_in_block());
  acknowledged_sequence_number_ = oldest.sequence_number;
  if (oldest.end_in_file > acknowledged_) {
    acknowledged_ = oldest.end_in_file;
    tell_acknowledged(actions);
  }
  const bool was_last = oldest.kind == PacketQueue::Kind::kLast;
  queue_.acknowledge();
  if (was_last) end_block(actions);
}

// Many acks that come together wake the stream once.
void WritePipeline::tell_acknowledged(Actions& actions) {
  if (!actions.empty()) {
    if (auto* before = std::get_if<action::Acknowledged>(&actions.back())) {
      before->offset = acknowledged_;
      return;
    }
  }
  actions.emplace_back(action::Acknowledged{acknowledged_});
}

// --- the NameNode's other answers

void WritePipeline::fsynced(const Status& answer, env::TimePoint now, Actions& actions) {
  if (is_over() || !fsync_pending_) return;
  fsync_pending_ = false;
  if (!answer.ok()) return fail(as_lost_lease(answer), actions);
  recorded_length_ = fsync_length_;
  advance(now, actions);
}

void WritePipeline::complete(Actions& actions) {
  state_ = State::kCompleting;
  actions.emplace_back(action::Complete{to_reopen_ ? std::optional(to_reopen_->block) : previous_});
}

void WritePipeline::completed(const Result<bool>& answer, env::TimePoint now, Actions& actions) {
  if (state_ != State::kCompleting) return;
  if (!answer.ok()) return not_completed(as_lost_lease(answer.status()), actions);
  if (*answer) {
    drop_everything(actions);
    state_ = doomed_.ok() ? State::kDone : State::kFailed;
    if (doomed_.ok()) {
      actions.emplace_back(action::Finished{});
    } else {
      actions.emplace_back(action::Failed{doomed_, true});
    }
  } else if (const std::optional<env::Duration> delay = complete_delays_.next()) {
    state_ = State::kCompleteDelay;
    retry_at_ = now + *delay;
  } else {
    not_completed(Status(StatusCode::kIo,
                         "close: the last block, " + (previous_ ? previous_->to_string() : "none") +
                             ", has not enough replicas, " + seconds(complete_delays_.waited()) +
                             " after its end",
                         target_.path),
                  actions);
  }
}

// The file stays open at the NameNode. What made the stream end it early comes first.
void WritePipeline::not_completed(Status why, Actions& actions) {
  fail(doomed_.ok() ? std::move(why) : first_failure(doomed_, std::move(why)), actions);
}

void WritePipeline::lease_lost(const Status& failure, Actions& actions) {
  if (is_over()) return;
  if (failure.code() == StatusCode::kLeaseLost) return fail(failure, actions);
  fail(Status(StatusCode::kLeaseLost, "write: the lease is lost", target_.path).with_cause(failure),
       actions);
}

// --- time

void WritePipeline::tick(env::TimePoint now, Actions& actions) {
  const std::optional<env::TimePoint> due = deadline();
  if (!due || now < *due) return;
  if (state_ == State::kAllocateDelay && now >= retry_at_) {
    ++counters_.allocate_retries;
    allocate(now, actions);
  } else if (state_ == State::kCompleteDelay && now >= retry_at_) {
    ++counters_.complete_retries;
    complete(actions);
  } else if (state_ == State::kSettingUp || has_pipeline()) {
    check_pipeline(now, actions);
  }
  if (held_until_ && now >= *held_until_) advance(now, actions);
  if (has_asked_replica() && now >= silent_until(sync_link_, 1)) {
    replica_failed(no_answer("did not answer", now - sync_link_.last_heard), true, actions);
    advance(now, actions);
  }
}

void WritePipeline::check_pipeline(env::TimePoint now, Actions& actions) {
  if (now >= silent_until(link_, replicas_.size())) {
    const Status fault = no_answer("did not answer", now - link_.last_heard);
    if (state_ == State::kSettingUp) return set_up_failed(0, fault, now, actions);
    return node_failed(0, fault, actions);
  }
  if (!has_pipeline()) return;
  if (queue_.has_unacknowledged() && now >= patient_until()) {
    return node_failed(0, no_answer("acknowledged nothing", now - waiting_since_), actions);
  }
  if (has_nothing_to_send() && now >= link_.last_sent + heartbeat_interval()) {
    ++counters_.heartbeats;
    PacketHeader heartbeat;
    heartbeat.sequence_number = PipelineAck::kHeartbeat;
    std::array<std::byte, PacketHeader::kMaxSize> header;
    const MutableByteView bytes = MutableByteView(header).first(heartbeat.encoded_size());
    heartbeat.encode_to(bytes);
    link_.control = as_text(bytes);
  }
}

// --- connections

void WritePipeline::open_link(Link& link, const DatanodeInfo& node, Actions& actions) {
  link = Link{};
  link.number = ++last_number_;
  actions.emplace_back(action::Connect{link.number, node, settings_.socket_timeout});
}

void WritePipeline::close_link(Link& link, Actions& actions) {
  if (link.number == 0) return;
  actions.emplace_back(action::Disconnect{link.number});
  link = Link{};
}

std::size_t WritePipeline::output(ConnectionNumber connection,
                                  std::span<ByteView> pieces) const noexcept {
  if (connection == 0 || pieces.empty()) return 0;
  const bool is_pipeline = connection == link_.number;
  if (!is_pipeline && connection != sync_link_.number) return 0;
  const Link& link = is_pipeline ? link_ : sync_link_;
  std::size_t count = 0;
  if (link.control_sent < link.control.size()) {
    pieces[count++] = as_bytes(link.control).subspan(link.control_sent);
  }
  if (is_pipeline && has_pipeline()) count += queue_.output(pieces.subspan(count));
  return count;
}

void WritePipeline::sent(ConnectionNumber connection, std::size_t bytes,
                         env::TimePoint now) noexcept {
  if (connection == 0 || bytes == 0) return;
  const bool is_pipeline = connection == link_.number;
  if (!is_pipeline && connection != sync_link_.number) return;
  Link& link = is_pipeline ? link_ : sync_link_;
  link.last_sent = now;
  counters_.bytes_sent += static_cast<std::int64_t>(bytes);
  const std::size_t control = std::min(bytes, link.control.size() - link.control_sent);
  link.control_sent += control;
  if (is_pipeline && link.control_sent == link.control.size()) {
    link.control = {};
    link.control_sent = 0;
    counters_.packets_sent += static_cast<std::int64_t>(queue_.sent(bytes - control));
  }
}

void WritePipeline::connection_lost(ConnectionNumber connection, const Status& failure,
                                    env::TimePoint now, Actions& actions) {
  if (connection == 0) return;
  if (connection == sync_link_.number) {
    // What it did with the connection says something of that replica only.
    replica_failed(lost(failure), !has_asked_replica(), actions);
    advance(now, actions);
  } else if (connection == link_.number) {
    if (state_ == State::kConnecting || state_ == State::kSettingUp) {
      set_up_failed(0, lost(failure), now, actions);
    } else {
      node_failed(0, lost(failure), actions);
    }
  }
}

// --- the end

// Recovery will begin here: the queue has all that is needed to send it again.
void WritePipeline::node_failed(std::size_t node, const Status& fault, Actions& actions) {
  fail(failure_of(fault,
                  "write: DataNode " + replicas_[node].node.transfer_address() + " (" +
                      std::to_string(node + 1) + " of " + std::to_string(replicas_.size()) + ") " +
                      fault.message() + "; " + describe_pipeline(),
                  target_.path),
       actions);
}

// A replica of a finished block.
void WritePipeline::replica_failed(const Status& fault, bool node_is_gone, Actions& actions) {
  unsynced_.replica_failed(fault, node_is_gone);
  close_link(sync_link_, actions);
}

void WritePipeline::fail(Status failure, Actions& actions) {
  if (is_over()) return;
  drop_everything(actions);
  state_ = State::kFailed;
  // Nothing more can be written, so that close() will fail as well: others need not wait for it.
  if (settings_.recover_lease_on_close_failure && failure.code() != StatusCode::kLeaseLost) {
    actions.emplace_back(action::RecoverLease{});
  }
  actions.emplace_back(action::Failed{std::move(failure)});
}

void WritePipeline::drop_everything(Actions& actions) {
  close_link(link_, actions);
  close_link(sync_link_, actions);
  queue_.clear();
  waiters_.clear();
  unsynced_.clear();
}

ChecksumParameters WritePipeline::checksum_parameters() const noexcept {
  return {target_.checksum, target_.bytes_per_checksum};
}

std::string WritePipeline::describe_ack(const PipelineAck& ack) const {
  std::string text;
  for (std::size_t i = 0; i < ack.replies.size(); ++i) {
    text += (i == 0 ? "" : ", ") + std::string(hdfs::to_string(ack.replies[i]));
  }
  text = "[" + text + "] to packet " + std::to_string(ack.sequence_number);
  if (!queue_.empty()) {
    text += " where " + std::to_string(queue_.oldest().sequence_number) + " is the oldest";
  }
  return text;
}

std::string_view to_string(WritePipeline::State state) noexcept {
  using State = WritePipeline::State;
  switch (state) {
    case State::kIdle:
      return "idle";
    case State::kAllocating:
      return "allocating";
    case State::kAllocateDelay:
      return "allocate delay";
    case State::kReserving:
      return "reserving";
    case State::kConnecting:
      return "connecting";
    case State::kSettingUp:
      return "setting up";
    case State::kAbandoning:
      return "abandoning";
    case State::kRegistering:
      return "registering";
    case State::kStreaming:
      return "streaming";
    case State::kDraining:
      return "draining";
    case State::kEndingBlock:
      return "ending block";
    case State::kCompleting:
      return "completing";
    case State::kCompleteDelay:
      return "complete delay";
    case State::kDone:
      return "done";
    case State::kFailed:
      return "failed";
    case State::kAbandoned:
      return "abandoned";
  }
  return "unknown";
}

}  // namespace hflush::hdfs
