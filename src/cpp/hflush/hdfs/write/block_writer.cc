#include "hflush/hdfs/write/block_writer.h"

#include <algorithm>
#include <array>
#include <utility>

#include "hflush/hdfs/write/node_faults.h"

namespace hflush::hdfs {
namespace {

// As it is sent, without data.
std::string encode(const PacketHeader& header) {
  std::array<std::byte, PacketHeader::kMaxSize> room;
  const MutableByteView bytes = MutableByteView(room).first(header.encoded_size());
  header.encode_to(bytes);
  return std::string(as_text(bytes));
}

BlockWriter::Failure failure_of(TransferStatus answer) noexcept {
  return answer == TransferStatus::kOobRestart ? BlockWriter::Failure::kRestart
                                               : BlockWriter::Failure::kFault;
}

}  // namespace

std::string BlockWriter::Block::describe() const {
  std::string text = located.block.to_string() + ", " + std::to_string(located.block.length) +
                     " bytes acknowledged and " + std::to_string(released_length) +
                     " sent, pipeline [";
  for (const Replica& replica : located.replicas) {
    if (text.back() != '[') text += ", ";
    text += replica.node.transfer_address();
  }
  return text + "]";
}

BlockWriter::BlockWriter(WriteStream& stream, ConnectionNumber number, Block block,
                         Actions& actions)
    : stream_(stream),
      number_(number),
      block_(std::move(block)),
      released_before_(block_.released_length),
      probe_(stream, stream.settings.silence_probe) {
  stream_.counters.bytes_sent_again += static_cast<std::int64_t>(stream_.packets.rewind());
  if (block_.stage == WriteStage::kSetupCreate) {
    connect(std::nullopt, actions);
  } else {
    actions.emplace_back(action::UpdateBlockForPipeline{block_.located.block});
  }
}

// --- questions

const BlockWriter::Pipeline* BlockWriter::pipeline() const noexcept {
  if (const auto* const streaming = std::get_if<Streaming>(&state_)) return streaming;
  if (const auto* const draining = std::get_if<Draining>(&state_)) return draining;
  return std::get_if<Ending>(&state_);
}

BlockWriter::Pipeline* BlockWriter::pipeline() noexcept {
  return const_cast<Pipeline*>(std::as_const(*this).pipeline());
}

const TransferChannel* BlockWriter::channel() const noexcept {
  if (const Pipeline* const open = pipeline()) return &open->channel;
  if (const auto* const setting_up = std::get_if<SettingUp>(&state_)) return &setting_up->channel;
  if (const auto* const syncing = std::get_if<Syncing>(&state_)) return &syncing->channel;
  const auto* const registering = std::get_if<Registering>(&state_);
  const bool is_open = registering != nullptr && registering->channel;
  return is_open ? &*registering->channel : nullptr;
}

TransferChannel* BlockWriter::channel() noexcept {
  return const_cast<TransferChannel*>(std::as_const(*this).channel());
}

env::TimePoint BlockWriter::silent_until(const TransferChannel& channel) const noexcept {
  return channel.silent_until(stream_.settings.socket_timeout, nodes());
}

// The oldest packet is the first one, or became it with the newest ack. Requires: it is released.
env::TimePoint BlockWriter::unacknowledged_since(const Pipeline& pipeline) const noexcept {
  return std::max(pipeline.acked_at, stream_.packets.oldest().released_at);
}

env::TimePoint BlockWriter::patient_until(const Pipeline& pipeline) const noexcept {
  return env::deadline_after(
      unacknowledged_since(pipeline),
      TransferChannel::for_nodes(stream_.settings.socket_write_timeout, nodes()));
}

// From when all DataNodes have accepted the block, also before the NameNode has registered it.
// None while there is something else to send.
std::optional<env::TimePoint> BlockWriter::heartbeat_at() const noexcept {
  const TransferChannel* const open = channel();
  if (open == nullptr || std::holds_alternative<SettingUp>(state_)) return std::nullopt;
  const bool sends_packets = has_pipeline() && stream_.packets.has_output();
  if (open->has_control() || sends_packets) return std::nullopt;
  return open->last_sent() + std::min(stream_.settings.socket_timeout / 2, kLongestSilence);
}

// Since when the pipeline owes an answer; none if it does not, or may take its time.
std::optional<env::TimePoint> BlockWriter::silent_since() const noexcept {
  const bool is_new = block_.stage == WriteStage::kSetupCreate && !has_pipeline();
  if (is_new && !block_.is_replaceable) return std::nullopt;
  if (const auto* const connecting = std::get_if<Connecting>(&state_)) return connecting->since;
  if (has_pipeline()) {
    if (!stream_.packets.has_unacknowledged()) return std::nullopt;
    return std::max(channel()->silent_since(), stream_.packets.oldest().released_at);
  }
  const bool owes =
      std::holds_alternative<SettingUp>(state_) || std::holds_alternative<Syncing>(state_);
  return owes ? std::optional(channel()->silent_since()) : std::nullopt;
}

SilenceProbe::Expected BlockWriter::expected() const noexcept {
  if (!has_pipeline()) {
    const auto* const setting_up = std::get_if<SettingUp>(&state_);
    const Stamp known = block_.located.block.generation_stamp;
    return {.has_replicas = block_.stage != WriteStage::kSetupCreate,
            .set_up = setting_up != nullptr ? std::optional(setting_up->stamp.value_or(known))
                                            : std::nullopt};
  }
  if (!stream_.packets.has_unacknowledged()) return {};
  const PacketQueue::Entry& oldest = stream_.packets.oldest();
  const bool is_sent_again = oldest.end_in_block() <= released_before_;
  const bool shows = oldest.kind == PacketQueue::Kind::kData && !oldest.sync && !is_sent_again &&
                     stream_.packets.oldest_is_sent();
  return {.has_replicas = true,
          .length = shows ? std::optional(oldest.end_in_block()) : std::nullopt};
}

std::optional<env::TimePoint> BlockWriter::deadline() const noexcept {
  std::optional<env::TimePoint> earliest;
  const auto consider = [&earliest](std::optional<env::TimePoint> when) {
    if (when && *when < earliest.value_or(env::TimePoint::max())) earliest = when;
  };
  if (const auto* const setting_up = std::get_if<SettingUp>(&state_)) {
    consider(silent_until(setting_up->channel));
  } else if (const auto* const syncing = std::get_if<Syncing>(&state_)) {
    consider(silent_until(syncing->channel));
  } else if (const Pipeline* const open = pipeline()) {
    consider(silent_until(open->channel));
    if (stream_.packets.has_unacknowledged()) consider(patient_until(*open));
    consider(open->held_until);
  }
  consider(heartbeat_at());
  consider(probe_.deadline(silent_since()));
  return earliest;
}

// --- the set-up

void BlockWriter::connect(std::optional<Stamp> stamp, Actions& actions) {
  state_ = Connecting{stamp};
  actions.emplace_back(action::Connect{number_, block_.located.replicas.front().node,
                                       stream_.settings.socket_timeout});
}

BlockWriter::Outcome BlockWriter::reserved(Result<LocatedBlock> answer, Actions& actions) {
  if (!std::holds_alternative<Reserving>(state_)) return Continues{};
  if (!answer.ok()) return Refused{as_lost_lease(answer.status())};
  if (nodes() == 0) {
    return Refused{
        Status(StatusCode::kIo,
               "append: no DataNode has the last block, " + block_.located.block.to_string(),
               stream_.target.path)};
  }
  stream_.failures.may_have(answer->block.generation_stamp);
  block_.located.token = std::move(answer->token);
  connect(answer->block.generation_stamp, actions);
  return Continues{};
}

void BlockWriter::connected(env::TimePoint now) {
  const auto* const connecting = std::get_if<Connecting>(&state_);
  if (connecting == nullptr) return;
  const std::optional<Stamp> stamp = connecting->stamp;
  state_ = SettingUp{stamp, TransferChannel(write_operation(stamp), now)};
}

std::string BlockWriter::write_operation(std::optional<Stamp> stamp) const {
  const WriteTarget& target = stream_.target;
  WriteBlockOperation write;
  write.block = block_.located.block;
  write.block.length = target.block_size;
  write.token = block_.located.token;
  write.client_name = target.client_name;
  write.pipeline = block_.located.replicas;
  write.stage = block_.stage;
  write.min_bytes_received = block_.located.block.length;
  write.max_bytes_received = block_.released_length;
  write.latest_generation_stamp = stamp.value_or(0);
  write.checksum = stream_.checksum();
  write.drop_behind = stream_.drop_behind;
  write.lazy_persist = target.lazy_persist;
  write.favored_nodes = target.favored_nodes;
  return write.encode();
}

BlockWriter::Outcome BlockWriter::replied(const OperationReply& reply, env::TimePoint now,
                                          Actions& actions) {
  auto* const setting_up = std::get_if<SettingUp>(&state_);
  if (setting_up == nullptr) return Continues{};
  if (reply.status != TransferStatus::kSuccess) {
    return node_failed(
        {node_named(reply.first_bad_link), bad_answer(reply), failure_of(reply.status)}, actions);
  }
  setting_up->channel.heard(now);
  probe_.heard(actions);
  Recoveries& recoveries = stream_.recoveries;
  stream_.counters.replacements += static_cast<std::int64_t>(recoveries.unproven());
  recoveries.pipeline_is_set_up();
  if (!setting_up->stamp) {
    begin_streaming(std::move(setting_up->channel), now);
    return Continues{};
  }
  const Stamp stamp = *setting_up->stamp;
  if (block_.stage == WriteStage::kCloseRecovery) {
    close(actions);  // the DataNode does, too
    register_pipeline(stamp, std::nullopt, actions);
  } else if (block_.is_synced) {
    sync(stamp, std::move(setting_up->channel), now);
  } else {
    register_pipeline(stamp, std::move(setting_up->channel), actions);
  }
  return Continues{};
}

// Of the packet of kSyncing, which is not in the queue: that of the newest packet which was
// acknowledged. If none was, 0; -1 is a heartbeat's.
std::int64_t BlockWriter::sync_number() const noexcept {
  return std::max<std::int64_t>(0, stream_.packets.acknowledged_sequence_number());
}

void BlockWriter::sync(Stamp stamp, TransferChannel channel, env::TimePoint now) {
  PacketHeader header;
  header.offset_in_block = block_.located.block.length;
  header.sequence_number = sync_number();
  header.sync_block = true;
  channel.restart(now);
  channel.send(encode(header));
  state_ = Syncing{stamp, std::move(channel)};
}

void BlockWriter::register_pipeline(Stamp stamp, std::optional<TransferChannel> channel,
                                    Actions& actions) {
  state_ = Registering{stamp, std::move(channel)};
  ExtendedBlock registered = block_.located.block;
  registered.generation_stamp = stamp;
  actions.emplace_back(
      action::UpdatePipeline{block_.located.block, std::move(registered), block_.located.replicas});
}

BlockWriter::Outcome BlockWriter::registered(const Status& answer, env::TimePoint now,
                                             Actions& actions) {
  auto* const registering = std::get_if<Registering>(&state_);
  if (registering == nullptr) return Continues{};
  if (!answer.ok()) {
    close(actions);
    return Refused{as_lost_lease(answer)};
  }
  block_.located.block.generation_stamp = registering->stamp;
  if (registering->fault) return node_failed(*std::move(registering->fault), actions);
  if (!registering->channel) return ended_without_last_packet();
  begin_streaming(*std::move(registering->channel), now);
  return Continues{};
}

BlockWriter::Outcome BlockWriter::ended_without_last_packet() {
  stream_.packets.drop_oldest();
  stream_.recoveries.since_ack = 0;
  ++stream_.counters.pipelines;
  return Ended{std::move(block_)};
}

void BlockWriter::begin_streaming(TransferChannel channel, env::TimePoint now) {
  channel.restart(now);
  channel.rest();
  state_ = Streaming{{.channel = std::move(channel), .acked_at = now}};
  ++stream_.counters.pipelines;
}

// The node of the pipeline with that address; the first one if none is named.
std::size_t BlockWriter::node_named(std::string_view address) const {
  const std::size_t place = place_of(address, block_.located.replicas);
  return place < nodes() ? place : 0;
}

// --- packets

void BlockWriter::release(env::TimePoint now) {
  auto* const connecting = std::get_if<Connecting>(&state_);
  if (connecting != nullptr && !connecting->since) connecting->since = now;
  PacketQueue& packets = stream_.packets;
  while (packets.has_waiting() && !std::holds_alternative<Ending>(state_)) {
    Pipeline* const open = pipeline();
    if (open == nullptr) return;
    const bool is_last = packets.next_waiting().kind == PacketQueue::Kind::kLast;
    if (is_last && packets.has_unacknowledged()) {
      if (std::holds_alternative<Streaming>(state_)) state_ = Draining{std::move(*open)};
      return;
    }
    if (holds_back(*open, now)) return;
    if (is_last && block_.is_synced) packets.mark_next_for_sync();
    block_.released_length = std::max(block_.released_length, packets.release(now).end_in_block());
    if (is_last) state_ = Ending{std::move(*open)};
  }
}

// Whether the DataNodes get time to recover from congestion. Heartbeats are sent all the same.
bool BlockWriter::holds_back(Pipeline& pipeline, env::TimePoint now) {
  if (!pipeline.held_until) {
    const env::Duration delay = stream_.backoff.take();
    if (delay == env::Duration::zero()) return false;
    ++stream_.counters.congestion_delays;
    pipeline.held_until = now + delay;
  }
  if (now < *pipeline.held_until) return true;
  pipeline.held_until.reset();
  return false;
}

std::size_t BlockWriter::output(std::span<ByteView> pieces) const noexcept {
  const TransferChannel* const open = channel();
  if (open == nullptr) return 0;
  const std::size_t count = open->output(pieces);
  return has_pipeline() ? count + stream_.packets.output(pieces.subspan(count)) : count;
}

void BlockWriter::sent(std::size_t bytes, env::TimePoint now) noexcept {
  if (TransferChannel* const open = channel()) {
    const std::size_t of_packets = open->sent(bytes, now);
    stream_.counters.packets_sent += static_cast<std::int64_t>(stream_.packets.sent(of_packets));
  }
}

BlockWriter::Outcome BlockWriter::acked(const PipelineAck& ack, env::TimePoint now,
                                        Actions& actions) {
  TransferChannel* const connection = channel();
  if (connection == nullptr || std::holds_alternative<SettingUp>(state_)) return Continues{};
  connection->heard(now);
  probe_.heard(actions);
  if (std::optional<Fault> fault = fault_of(ack)) return node_failed(*std::move(fault), actions);
  if (auto* const syncing = std::get_if<Syncing>(&state_)) {
    if (ack.sequence_number != PipelineAck::kHeartbeat) {
      register_pipeline(syncing->stamp, std::move(syncing->channel), actions);
    }
    return Continues{};
  }
  Pipeline* const open = pipeline();
  if (open == nullptr) return Continues{};
  if (ack.sequence_number == PipelineAck::kHeartbeat) {
    if (stream_.packets.empty()) stream_.recoveries.since_ack = 0;  // it is idle, and stands
  } else {
    Outcome outcome = acknowledged(*open, ack, now, actions);
    if (!std::holds_alternative<Continues>(outcome)) return outcome;
  }
  if (!stream_.packets.has_unacknowledged()) connection->rest();
  if (std::optional<Fault> slow = slow_node(*open, ack)) {
    return node_failed(*std::move(slow), actions);
  }
  return Continues{};
}

std::optional<BlockWriter::Fault> BlockWriter::fault_of(const PipelineAck& ack) const {
  const std::optional<std::size_t> node = node_to_blame(ack);
  if (!node) return std::nullopt;
  const PacketQueue& packets = stream_.packets;
  const std::string expected =
      packets.empty() || std::holds_alternative<Syncing>(state_)
          ? std::string()
          : " where " + std::to_string(packets.oldest().sequence_number) + " is the oldest";
  const Failure failure =
      *node < ack.replies.size() ? failure_of(ack.replies[*node]) : Failure::kFault;
  return Fault{*node, bad_answer(ack, expected), failure};
}

// The node that says in ack after ack that it is slow. The last one that is left may be, and one
// that no other one could replace.
std::optional<BlockWriter::Fault> BlockWriter::slow_node(Pipeline& pipeline,
                                                         const PipelineAck& ack) const {
  std::vector<int>& acks = pipeline.slow_acks;
  if (ack.slow == 0) {
    acks.clear();
    return std::nullopt;
  }
  acks.resize(std::min<std::size_t>(nodes(), 64));
  std::optional<Fault> fault;
  for (std::size_t i = 0; i < acks.size(); ++i) {
    acks[i] = (ack.slow >> i & 1U) != 0 ? acks[i] + 1 : 0;
    if (acks[i] == 0 || acks[i] < stream_.settings.slow_node_threshold || nodes() == 1) continue;
    if (stream_.recoveries.tolerates(block_.located.replicas[i].node)) continue;
    fault = Fault{i, slow(acks[i]), Failure::kSlow};
  }
  return fault;
}

// The node furthest down that complains is the one that failed.
std::optional<std::size_t> BlockWriter::node_to_blame(const PipelineAck& ack) const {
  for (std::size_t i = ack.replies.size(); i-- > 0;) {
    if (ack.replies[i] != TransferStatus::kSuccess) return std::min(i, nodes() - 1);
  }
  if (ack.sequence_number == PipelineAck::kHeartbeat) return std::nullopt;
  if (!expects(ack.sequence_number) || ack.replies.size() > nodes()) return 0;
  if (ack.replies.size() < nodes()) return ack.replies.size();
  return std::nullopt;
}

bool BlockWriter::expects(std::int64_t sequence_number) const noexcept {
  const PacketQueue& packets = stream_.packets;
  if (const auto* const syncing = std::get_if<Syncing>(&state_)) {
    return !syncing->channel.has_control() && sync_number() == sequence_number;
  }
  return packets.oldest_is_sent() && packets.oldest().sequence_number == sequence_number;
}

BlockWriter::Outcome BlockWriter::acknowledged(Pipeline& pipeline, const PipelineAck& ack,
                                               env::TimePoint now, Actions& actions) {
  const PacketQueue::Entry& oldest = stream_.packets.oldest();
  stream_.backoff.acked(ack.congested);
  ++stream_.counters.acks;
  stream_.counters.ack_latency.add(now - oldest.released_at);
  pipeline.acked_at = now;
  ExtendedBlock& block = block_.located.block;
  block.length = std::max(block.length, oldest.end_in_block());
  const bool is_last = oldest.kind == PacketQueue::Kind::kLast;
  const bool synced = oldest.sync;
  block_.is_synced = block_.is_synced || synced;
  stream_.recoveries.since_ack = 0;
  stream_.packets.acknowledge();
  if (!is_last) return Continues{};
  close(actions);
  return Ended{std::move(block_), synced};
}

// --- time

BlockWriter::Outcome BlockWriter::tick(env::TimePoint now, Actions& actions) {
  Pipeline* const open = pipeline();
  const bool awaits_bytes = open != nullptr || std::holds_alternative<SettingUp>(state_) ||
                            std::holds_alternative<Syncing>(state_);
  if (awaits_bytes && now >= silent_until(*channel())) {
    return node_failed({0, no_answer("did not answer", now - channel()->silent_since())}, actions);
  }
  if (open != nullptr && stream_.packets.has_unacknowledged() && now >= patient_until(*open)) {
    const env::Duration waited = now - unacknowledged_since(*open);
    return node_failed({0, no_answer("acknowledged nothing", waited)}, actions);
  }
  if (auto found = probe_.tick(silent_since(), block_.located, expected(), now, actions)) {
    ++stream_.counters.found_silent;
    const Failure failure = found->is_link ? Failure::kLostConnection : Failure::kSilence;
    return node_failed({found->node, std::move(found->why), failure}, actions);
  }
  if (const auto due = heartbeat_at(); due && now >= *due) {
    ++stream_.counters.heartbeats;
    PacketHeader heartbeat;
    heartbeat.sequence_number = PipelineAck::kHeartbeat;
    channel()->send(encode(heartbeat));
  }
  return Continues{};
}

// --- the end

BlockWriter::Outcome BlockWriter::connection_lost(const Status& failure, Actions& actions) {
  const bool has_connection = channel() != nullptr || std::holds_alternative<Connecting>(state_);
  if (!has_connection) return Continues{};
  if (std::holds_alternative<Connecting>(state_) && is_own_shortage(failure)) {
    close(actions);
    return Refused{no_connection("write", failure, stream_.target.path)};
  }
  return node_failed({0, lost(failure), Failure::kLostConnection}, actions);
}

BlockWriter::Outcome BlockWriter::node_failed(Fault fault, Actions& actions) {
  close(actions);
  auto* const registering = std::get_if<Registering>(&state_);
  if (registering != nullptr && registering->channel) {  // updatePipeline cannot be taken back
    registering->channel.reset();
    registering->fault = std::move(fault);
    return Continues{};
  }
  if (block_.stage == WriteStage::kSetupCreate && !has_pipeline()) {
    return NotBuilt{std::move(block_), fault.node, std::move(fault.why)};
  }
  const bool stood =
      has_pipeline() || registering != nullptr || std::holds_alternative<Syncing>(state_);
  block_.stage = recovery_stage();
  block_.is_synced = block_.is_synced || stream_.packets.has_sync_to_pass_over();
  block_.is_ending = block_.is_ending || std::holds_alternative<Ending>(state_);
  return Broken{std::move(block_), fault.node, std::move(fault.why), fault.failure, stood};
}

// How the pipeline of this block is set up again.
WriteStage BlockWriter::recovery_stage() const noexcept {
  if (std::holds_alternative<Ending>(state_)) {
    const bool ends_with_sync = stream_.packets.oldest().sync;
    return ends_with_sync ? WriteStage::kSetupAppendRecovery : WriteStage::kCloseRecovery;
  }
  if (has_pipeline()) return WriteStage::kSetupStreamingRecovery;
  const bool is_append = block_.stage == WriteStage::kSetupAppend;
  return is_append ? WriteStage::kSetupAppendRecovery : block_.stage;
}

void BlockWriter::close(Actions& actions) const {
  probe_.drop(actions);
  if (channel() != nullptr || std::holds_alternative<Connecting>(state_)) {
    actions.emplace_back(action::Disconnect{number_});
  }
}

std::string_view to_string(BlockWriter::State state) noexcept {
  constexpr auto kNames =
      std::to_array<std::string_view>({"reserving", "connecting", "setting up", "syncing",
                                       "registering", "streaming", "draining", "ending"});
  return kNames[static_cast<std::size_t>(state)];
}

}  // namespace hflush::hdfs
