// The write pipeline, walked without a cluster: the golden conversations, every event in every
// state, and each promise on its own.
#include "hflush/hdfs/write/write_pipeline.h"

#include <doctest/doctest.h>

#include <functional>
#include <map>
#include <string>

#include "hdfs/pipeline_harness.h"

namespace hflush::hdfs {
namespace {

using namespace std::chrono_literals;  // NOLINT(google-build-using-namespace)
using stream::Cut;
using stream::Level;
using testing::Harness;
using testing::located;
using testing::remote;
using State = WritePipeline::State;

std::string hex(std::string_view bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  for (const char byte : bytes) {
    text += kDigits[static_cast<unsigned char>(byte) >> 4U];
    text += kDigits[static_cast<unsigned char>(byte) & 15U];
  }
  return text;
}

std::string unhex(std::string_view text) {
  std::string bytes;
  std::string digits;
  for (const char digit : text) {
    if (digit != ' ') digits += digit;
  }
  for (std::size_t i = 0; i < digits.size(); i += 2) {
    bytes += static_cast<char>(std::stoi(digits.substr(i, 2), nullptr, 16));
  }
  return bytes;
}

// --- golden conversations (DataTransfer of 16.2 and 16.3 in the protocol's description)

constexpr std::string_view kPool =
    "42502d313838333134323032392d3132372e302e302e312d31373935323436323836343336";
constexpr std::string_view kStorage =
    "44532d66396239646663312d383736372d343232352d396431652d643462646539363832336438";

LocatedBlock golden_block(std::uint64_t stamp, std::uint64_t length) {
  LocatedBlock block;
  block.block = {unhex(kPool), 1073741825, stamp, length};
  Replica replica = testing::replica(1);
  replica.storage_id = unhex(kStorage);
  block.replicas.push_back(replica);
  return block;
}

WriteTarget golden_target() {
  WriteTarget target = testing::small_target();
  target.block_size = 1048576;
  return target;
}

OperationReply reply_of(std::string_view text) {
  const std::string bytes = unhex(text);
  const Result<OperationReply> reply = decode_operation_reply(as_bytes(bytes));
  REQUIRE(reply.ok());
  return *reply;
}

PipelineAck ack_of(std::string_view text) {
  const std::string bytes = unhex(text);
  const Result<PipelineAck> ack = decode_pipeline_ack(as_bytes(bytes));
  REQUIRE(ack.ok());
  return *ack;
}

TEST_CASE("golden: 1,025 bytes to one replica, with a heartbeat") {
  Harness h(golden_target());
  std::vector<std::byte> data(1025);
  for (std::size_t i = 0; i < data.size(); ++i) data[i] = static_cast<std::byte>(i);
  stream::Geometry geometry = testing::geometry_of(golden_target());
  geometry.packet_bytes = 64512;
  geometry.batch_bytes = 64512;
  stream::Packetizer packetizer(geometry, h.pool);
  std::vector<stream::Packet> sealed;
  packetizer.append(data, sealed);
  packetizer.cut(Cut::kFinal, sealed);
  h.machine.put(sealed, h.now, h.actions);

  const auto add = h.take<action::AddBlock>();
  REQUIRE(add);
  CHECK_FALSE(add->previous);
  CHECK(add->excluded.empty());
  h.machine.allocated(golden_block(1001, 0), h.now, h.actions);
  const auto connect = h.take<action::Connect>();
  REQUIRE(connect);
  CHECK(connect->node.ip == "10.0.0.1");
  h.machine.connected(connect->connection, h.now);
  const std::string pool(kPool);
  const std::string storage(kStorage);
  CHECK(hex(h.send_all()) == hex(unhex("001c 50 8901 0a46 0a40 0a34 0a25 " + pool +
                                       " 108180808004 18e907 20808040 1208 0a0012001a002200"
                                       " 1202 4331 2006 2801 3000 3800 4000 4a05 0802 108004 5200"
                                       " 5801 6800 820127 " +
                                       storage)));
  h.machine.replied(connect->connection, reply_of("04 0800 1200"), h.now, h.actions);
  CHECK(hex(h.send_all()) ==
        hex(unhex("00000411 0019 09 0000000000000000 11 0000000000000000 1800 25 01040000"
                  "ae10ee5a ae10ee5a 527d5351") +
            std::string(as_text(ByteView(data)))));
  h.machine.acked(connect->connection, ack_of("09 0800 1000 1800 2201 00"), h.now, h.actions);
  const auto acknowledged = h.take<action::Acknowledged>();
  REQUIRE(acknowledged);
  CHECK(acknowledged->offset == 1025);

  h.now += 30s;
  h.machine.tick(h.now, h.actions);
  CHECK(hex(h.send_all()) ==
        hex(unhex("00000004 0019 09 0000000000000000 11 ffffffffffffffff 1800 25 00000000")));
  h.machine.acked(connect->connection, ack_of("09 0801 1000 1800 2201 00"), h.now, h.actions);
  CHECK(h.actions.empty());

  h.machine.finish(h.now, h.actions);
  CHECK(hex(h.send_all()) ==
        hex(unhex("00000004 0019 09 0104000000000000 11 0100000000000000 1801 25 00000000")));
  h.machine.acked(connect->connection, ack_of("09 0802 1000 1800 2201 00"), h.now, h.actions);
  CHECK(h.take<action::Disconnect>());
  const auto complete = h.take<action::Complete>();
  REQUIRE(complete);
  CHECK(*complete->last == ExtendedBlock{unhex(kPool), 1073741825, 1001, 1025});
  h.machine.completed(true, h.now, h.actions);
  CHECK(h.take<action::Finished>());
  CHECK(h.actions.empty());
  CHECK(h.machine.state() == State::kDone);
  CHECK(h.machine.counters().heartbeats == 1);
  CHECK(h.machine.counters().packets_sent == 2);
  CHECK(h.machine.counters().acks == 2);
}

TEST_CASE("golden: append inside a partial chunk, a flush that tells the length, close") {
  WriteTarget target = golden_target();
  target.start = 1025;
  target.update_length = true;
  target.partial_block = golden_block(1001, 1025);
  Harness h(target);
  const auto flush = [&h](std::string_view text, Level level) {
    std::vector<stream::Packet> sealed;
    h.packetizer.append(as_bytes(text), sealed);
    h.packetizer.cut(Cut::kEverything, sealed);
    h.machine.sync(level, sealed, h.now, h.actions);
  };
  flush("hello", Level::kVisible);
  const auto reserve = h.take<action::UpdateBlockForPipeline>();
  REQUIRE(reserve);
  CHECK(reserve->block == golden_block(1001, 1025).block);
  LocatedBlock reserved = golden_block(1002, 1025);
  reserved.replicas.clear();
  h.machine.reserved(reserved, h.actions);
  const auto connect = h.take<action::Connect>();
  REQUIRE(connect);
  h.machine.connected(connect->connection, h.now);
  const std::string pool(kPool);
  const std::string storage(kStorage);
  CHECK(hex(h.send_all()) ==
        hex(unhex("001c 50 8c01 0a46 0a40 0a34 0a25 " + pool +
                  " 108180808004 18e907 20808040 1208 0a0012001a002200 1202 4331"
                  " 2000 2801 308108 388108 40ea07 4a05 0802 108004 5200 5801 6800 820127 " +
                  storage)));
  h.machine.replied(connect->connection, reply_of("04 0800 1200"), h.now, h.actions);
  CHECK(h.send_all().empty());  // nothing before the NameNode knows
  const auto update = h.take<action::UpdatePipeline>();
  REQUIRE(update);
  CHECK(update->old_block == golden_block(1001, 1025).block);
  CHECK(update->new_block == golden_block(1002, 1025).block);
  CHECK(update->replicas.size() == 1);
  h.machine.registered({}, h.now, h.actions);
  CHECK(hex(h.send_all()) ==
        hex(unhex("0000000d 0019 09 0104000000000000 11 0000000000000000 1800 25 05000000"
                  "9a71bb4c 68656c6c6f")));
  h.machine.acked(connect->connection, ack_of("09 0800 1000 1800 2201 00"), h.now, h.actions);
  const auto first = h.take<action::Fsync>();  // the pipeline is new
  REQUIRE(first);
  CHECK(first->block_length == 1030);
  CHECK_FALSE(h.has<action::Reached>());
  h.machine.fsynced({}, h.now, h.actions);
  CHECK(h.take<action::Reached>()->offset == 1030);

  flush("!!", Level::kDurable);
  CHECK(hex(h.send_all()) ==
        hex(unhex("0000000f 001b 09 0104000000000000 11 0100000000000000 1800 25 07000000 2801"
                  "488b2699 68656c6c6f2121")));
  h.machine.acked(connect->connection, ack_of("09 0802 1000 1800 2201 00"), h.now, h.actions);
  const auto second = h.take<action::Fsync>();  // UPDATE_LENGTH
  REQUIRE(second);
  CHECK(second->block_length == 1032);
  h.machine.fsynced({}, h.now, h.actions);
  CHECK(h.take<action::Reached>()->level == Level::kDurable);

  h.machine.finish(h.now, h.actions);
  CHECK(hex(h.send_all()) ==
        hex(unhex("00000004 001b 09 0804000000000000 11 0200000000000000 1801 25 00000000 2801")));
  h.machine.acked(connect->connection, ack_of("09 0804 1000 1800 2201 00"), h.now, h.actions);
  const auto complete = h.take<action::Complete>();
  REQUIRE(complete);
  CHECK(*complete->last == golden_block(1002, 1032).block);
}

// --- every event in every state

WriteTarget append_target() {
  WriteTarget target = testing::small_target();
  target.start = 100;
  target.partial_block = located(5, 50, 3);
  target.partial_block->block.length = 100;
  return target;
}

const Status kRefused = remote("java.io.IOException");
const Status kNotReplicated =
    remote("org.apache.hadoop.hdfs.server.namenode.NotReplicatedYetException");
const Status kOverQuota = remote("org.apache.hadoop.hdfs.protocol.DSQuotaExceededException");

// A machine on its way, brought to `state`.
std::unique_ptr<Harness> in_state(State state) {
  const bool append = state == State::kReserving || state == State::kRegistering;
  auto h = std::make_unique<Harness>(append ? append_target() : testing::small_target());
  const auto connection = [&h] { return h->machine.pipeline_connection(); };
  switch (state) {
    case State::kIdle:
      break;
    case State::kAllocating:
    case State::kReserving:
      h->write(1000);
      break;
    case State::kAllocateDelay:
      h->write(1000);
      h->machine.allocated(kNotReplicated, h->now, h->actions);
      break;
    case State::kConnecting:
    case State::kSettingUp:
    case State::kAbandoning:
      h->write(1000);
      h->machine.allocated(located(1, 10, 3), h->now, h->actions);
      if (state == State::kConnecting) break;
      h->machine.connected(connection(), h->now);
      static_cast<void>(h->send_all());
      if (state == State::kSettingUp) break;
      h->machine.replied(connection(), {TransferStatus::kError, "10.0.0.2:9866", "", {}, 0, {}},
                         h->now, h->actions);
      break;
    case State::kRegistering:
      h->write(1000);
      h->machine.reserved(located(5, 51, 0), h->actions);
      h->machine.connected(connection(), h->now);
      static_cast<void>(h->send_all());
      h->machine.replied(connection(), {}, h->now, h->actions);
      break;
    case State::kStreaming:
      h->write(1000);
      h->build(located(1, 10, 3));
      break;
    case State::kDraining:
      h->write(1000);
      h->build(located(1, 10, 3));
      h->machine.finish(h->now, h->actions);
      break;
    case State::kEndingBlock:
      h->write(1000);
      h->build(located(1, 10, 3));
      h->machine.finish(h->now, h->actions);
      h->ack(0);
      break;
    case State::kCompleting:
      h->machine.finish(h->now, h->actions);
      break;
    case State::kCompleteDelay:
      h->machine.finish(h->now, h->actions);
      h->machine.completed(false, h->now, h->actions);
      break;
    case State::kDone:
      h->machine.finish(h->now, h->actions);
      h->machine.completed(true, h->now, h->actions);
      break;
    case State::kFailed:
      h->write(1000);
      h->machine.allocated(kRefused, h->now, h->actions);
      break;
    case State::kAbandoned:
      h->write(1000);
      h->machine.abandon(h->actions);
      break;
  }
  h->actions.clear();
  REQUIRE(h->machine.state() == state);
  return h;
}

// Of an ack about the pipeline, not a packet.
constexpr std::int64_t kUnknownPacket = -2;

constexpr auto kStates = std::to_array<State>(
    {State::kIdle, State::kAllocating, State::kAllocateDelay, State::kReserving, State::kConnecting,
     State::kSettingUp, State::kAbandoning, State::kRegistering, State::kStreaming,
     State::kDraining, State::kEndingBlock, State::kCompleting, State::kCompleteDelay, State::kDone,
     State::kFailed, State::kAbandoned});

bool is_over(State state) {
  return state == State::kDone || state == State::kFailed || state == State::kAbandoned;
}

struct NamedEvent {
  std::string name;
  std::function<void(Harness&)> happen;
};

std::vector<NamedEvent> events() {
  const auto acked = [](std::int64_t number, NodeReplies replies) {
    return [=](Harness& h) {
      h.machine.acked(h.machine.pipeline_connection(), {number, replies}, h.now, h.actions);
    };
  };
  const auto next_ack = [](Harness& h) {
    const std::int64_t oldest = h.machine.state() == State::kEndingBlock ? 1 : 0;
    h.machine.acked(
        h.machine.pipeline_connection(),
        {oldest, {TransferStatus::kSuccess, TransferStatus::kSuccess, TransferStatus::kSuccess}},
        h.now, h.actions);
  };
  return {
      {"put", [](Harness& h) { h.write(24); }},
      {"flush", [](Harness& h) { h.flush(Level::kHandedOver, 24); }},
      {"hflush", [](Harness& h) { h.flush(Level::kVisible, 24); }},
      {"hsync", [](Harness& h) { h.flush(Level::kDurable, 24); }},
      {"hflush of nothing", [](Harness& h) { h.flush(Level::kVisible); }},
      {"finish", [](Harness& h) { h.machine.finish(h.now, h.actions); }},
      {"abandon", [](Harness& h) { h.machine.abandon(h.actions); }},
      {"lease lost", [](Harness& h) { h.machine.lease_lost(kRefused, h.actions); }},
      {"set_drop_behind", [](Harness& h) { h.machine.set_drop_behind(true); }},
      {"allocated", [](Harness& h) { h.machine.allocated(located(2, 20, 3), h.now, h.actions); }},
      {"allocated without nodes",
       [](Harness& h) { h.machine.allocated(located(2, 20, 0), h.now, h.actions); }},
      {"not replicated yet",
       [](Harness& h) { h.machine.allocated(kNotReplicated, h.now, h.actions); }},
      {"not allocated", [](Harness& h) { h.machine.allocated(kRefused, h.now, h.actions); }},
      {"over quota", [](Harness& h) { h.machine.allocated(kOverQuota, h.now, h.actions); }},
      {"block abandoned", [](Harness& h) { h.machine.block_abandoned({}, h.now, h.actions); }},
      {"block not abandoned",
       [](Harness& h) { h.machine.block_abandoned(kRefused, h.now, h.actions); }},
      {"reserved", [](Harness& h) { h.machine.reserved(located(5, 51, 0), h.actions); }},
      {"not reserved", [](Harness& h) { h.machine.reserved(kRefused, h.actions); }},
      {"registered", [](Harness& h) { h.machine.registered({}, h.now, h.actions); }},
      {"not registered", [](Harness& h) { h.machine.registered(kRefused, h.now, h.actions); }},
      {"fsynced", [](Harness& h) { h.machine.fsynced({}, h.now, h.actions); }},
      {"not fsynced", [](Harness& h) { h.machine.fsynced(kRefused, h.now, h.actions); }},
      {"located", [](Harness& h) { h.machine.located(LocatedBlocks{}, h.now, h.actions); }},
      {"not located", [](Harness& h) { h.machine.located(kRefused, h.now, h.actions); }},
      {"completed", [](Harness& h) { h.machine.completed(true, h.now, h.actions); }},
      {"not completed yet", [](Harness& h) { h.machine.completed(false, h.now, h.actions); }},
      {"not completed", [](Harness& h) { h.machine.completed(kRefused, h.now, h.actions); }},
      {"connected",
       [](Harness& h) { h.machine.connected(h.machine.pipeline_connection(), h.now); }},
      {"replied",
       [](Harness& h) {
         h.machine.replied(h.machine.pipeline_connection(), {}, h.now, h.actions);
       }},
      {"replied with an error",
       [](Harness& h) {
         h.machine.replied(h.machine.pipeline_connection(),
                           {TransferStatus::kErrorAccessToken, "10.0.0.3:9866", "", {}, 0, {}},
                           h.now, h.actions);
       }},
      {"acked", next_ack},
      {"heartbeat acked",
       acked(PipelineAck::kHeartbeat,
             {TransferStatus::kSuccess, TransferStatus::kSuccess, TransferStatus::kSuccess})},
      {"acked with an error",
       acked(kUnknownPacket, {TransferStatus::kSuccess, TransferStatus::kError})},
      {"restart announced", acked(kUnknownPacket, {TransferStatus::kOobRestart})},
      {"unexpected ack",
       acked(77, {TransferStatus::kSuccess, TransferStatus::kSuccess, TransferStatus::kSuccess})},
      {"ack of nobody", acked(0, {})},
      {"connection lost",
       [](Harness& h) {
         h.machine.connection_lost(h.machine.pipeline_connection(), kRefused, h.now, h.actions);
       }},
      {"event of an old connection",
       [](Harness& h) {
         for (const ConnectionNumber old : {0U, 999U}) {
           h.machine.connected(old, h.now);
           h.machine.replied(old, {}, h.now, h.actions);
           h.machine.acked(old, {}, h.now, h.actions);
           h.machine.connection_lost(old, kRefused, h.now, h.actions);
           h.machine.sent(old, 1000, h.now);
           std::vector<ByteView> pieces(4);
           CHECK(h.machine.output(old, pieces) == 0);
         }
       }},
      {"a second later",
       [](Harness& h) {
         h.now += 1s;
         h.machine.tick(h.now, h.actions);
       }},
      {"an hour later",
       [](Harness& h) {
         h.now += 1h;
         h.machine.tick(h.now, h.actions);
       }},
  };
}

// What changes the state; everything else leaves it. "" is any state that has not ended.
const std::map<std::pair<State, std::string>, State>& transitions() {
  static const std::map<std::pair<State, std::string>, State> kTable = {
      {{State::kIdle, "put"}, State::kAllocating},
      {{State::kIdle, "flush"}, State::kAllocating},
      {{State::kIdle, "hflush"}, State::kAllocating},
      {{State::kIdle, "hsync"}, State::kAllocating},
      {{State::kIdle, "finish"}, State::kCompleting},
      {{State::kAllocating, "allocated"}, State::kConnecting},
      {{State::kAllocating, "allocated without nodes"}, State::kFailed},
      {{State::kAllocating, "not replicated yet"}, State::kAllocateDelay},
      {{State::kAllocating, "not allocated"}, State::kFailed},
      {{State::kAllocating, "over quota"}, State::kCompleting},
      {{State::kAllocateDelay, "a second later"}, State::kAllocating},
      {{State::kAllocateDelay, "an hour later"}, State::kAllocating},
      {{State::kReserving, "reserved"}, State::kConnecting},
      {{State::kReserving, "not reserved"}, State::kFailed},
      {{State::kConnecting, "connected"}, State::kSettingUp},
      {{State::kConnecting, "connection lost"}, State::kAbandoning},
      {{State::kSettingUp, "replied"}, State::kStreaming},
      {{State::kSettingUp, "replied with an error"}, State::kAbandoning},
      {{State::kSettingUp, "connection lost"}, State::kAbandoning},
      {{State::kSettingUp, "an hour later"}, State::kAbandoning},
      {{State::kAbandoning, "block abandoned"}, State::kAllocating},
      {{State::kAbandoning, "block not abandoned"}, State::kFailed},
      {{State::kRegistering, "registered"}, State::kStreaming},
      {{State::kRegistering, "not registered"}, State::kFailed},
      {{State::kRegistering, "connection lost"}, State::kFailed},
      {{State::kStreaming, "finish"}, State::kDraining},
      {{State::kDraining, "acked"}, State::kEndingBlock},
      {{State::kEndingBlock, "acked"}, State::kCompleting},
      {{State::kCompleting, "completed"}, State::kDone},
      {{State::kCompleting, "not completed yet"}, State::kCompleteDelay},
      {{State::kCompleting, "not completed"}, State::kFailed},
      {{State::kCompleteDelay, "a second later"}, State::kCompleting},
      {{State::kCompleteDelay, "an hour later"}, State::kCompleting},
  };
  return kTable;
}

State expected_after(State state, const std::string& event) {
  if (is_over(state)) return state;
  if (event == "abandon") return State::kAbandoned;
  if (event == "lease lost") return State::kFailed;
  const bool has_pipeline =
      state == State::kStreaming || state == State::kDraining || state == State::kEndingBlock;
  for (const char* const fatal : {"acked with an error", "restart announced", "unexpected ack",
                                  "ack of nobody", "connection lost", "an hour later"}) {
    if (has_pipeline && event == fatal) return State::kFailed;
  }
  const auto known = transitions().find({state, event});
  return known == transitions().end() ? state : known->second;
}

TEST_CASE("every event in every state: the table of transitions, and nothing else") {
  for (const State state : kStates) {
    for (const NamedEvent& event : events()) {
      CAPTURE(to_string(state));
      CAPTURE(event.name);
      const std::unique_ptr<Harness> h = in_state(state);
      // After finish() the stream asks for nothing more.
      const bool is_closing = state == State::kCompleting || state == State::kCompleteDelay ||
                              state == State::kDraining || state == State::kEndingBlock;
      const bool is_from_stream = event.name == "put" || event.name.starts_with("hflush") ||
                                  event.name == "hsync" || event.name == "flush";
      if (is_closing && is_from_stream) continue;
      event.happen(*h);
      CHECK(to_string(h->machine.state()) == to_string(expected_after(state, event.name)));

      const bool failed = h->machine.state() == State::kFailed && state != State::kFailed;
      CHECK(h->has<action::Failed>() == failed);
      if (is_over(state)) CHECK(h->actions.empty());
      if (is_over(h->machine.state())) {
        CHECK_FALSE(h->machine.deadline());
        CHECK(h->machine.pipeline_connection() == 0);
        CHECK(h->machine.sync_connection() == 0);
      }
      if (failed) CHECK(h->take<action::Failed>()->failure.path() == "/f");
    }
  }
}

TEST_CASE("any two events in a row from any state: nothing breaks, nothing is told after the end") {
  const std::vector<NamedEvent> all = events();
  for (const State state : kStates) {
    for (const NamedEvent& first : all) {
      for (const NamedEvent& second : all) {
        const std::unique_ptr<Harness> h = in_state(state);
        first.happen(*h);
        const bool was_over = is_over(h->machine.state());
        h->actions.clear();
        second.happen(*h);
        if (was_over) {
          CAPTURE(to_string(state));
          CAPTURE(first.name);
          CAPTURE(second.name);
          CHECK(h->actions.empty());
        }
        const std::optional<env::TimePoint> deadline = h->machine.deadline();
        if (second.name.ends_with("later") && deadline) CHECK(*deadline > h->now);
      }
    }
  }
}

// --- allocation

TEST_CASE("HDFS-11: a pipeline that cannot be built: abandon, exclude the node, ask again") {
  Harness h;
  h.write(100);
  CHECK(h.take<action::AddBlock>());
  for (int attempt = 0; attempt < 4; ++attempt) {
    CAPTURE(attempt);
    h.machine.allocated(located(10 + static_cast<std::uint64_t>(attempt), 10, 3), h.now, h.actions);
    const auto connect = h.take<action::Connect>();
    REQUIRE(connect);
    if (attempt == 1) {
      h.machine.connected(connect->connection, h.now);
      h.machine.replied(connect->connection,
                        {TransferStatus::kError, "10.0.0.2:9866", "no mirror", {}, 0, {}}, h.now,
                        h.actions);
    } else {
      h.machine.connection_lost(connect->connection,
                                Status::from_errno(ECONNREFUSED, "connect", ""), h.now, h.actions);
    }
    CHECK(h.take<action::Disconnect>()->connection == connect->connection);
    CHECK(h.take<action::AbandonBlock>()->block.id == 10 + static_cast<std::uint64_t>(attempt));
    h.machine.block_abandoned({}, h.now, h.actions);
    if (attempt == 3) break;
    const auto again = h.take<action::AddBlock>();
    REQUIRE(again);
    CHECK_FALSE(again->previous);
    REQUIRE(again->excluded.size() == static_cast<std::size_t>(attempt + 1));
    CHECK(again->excluded.back().ip == (attempt == 1 ? "10.0.0.2" : "10.0.0.1"));
  }
  const auto failed = h.take<action::Failed>();
  REQUIRE(failed);
  const std::string& message = failed->failure.message();
  CHECK(message.starts_with("write: unable to create new block after 4 attempts: "));
  CHECK(message.find("10.0.0.2:9866 answered ERROR for 10.0.0.2:9866 (no mirror)") !=
        std::string::npos);
  CHECK(message.find("10.0.0.1:9866 is lost: connect") != std::string::npos);
  CHECK(h.machine.counters().block_retries == 4);
}

TEST_CASE("an excluded node is forgotten after its time") {
  Harness h;
  h.write(4096);
  h.machine.allocated(located(1, 1, 1), h.now, h.actions);
  h.machine.connection_lost(h.machine.pipeline_connection(), kRefused, h.now, h.actions);
  h.now += WriteSettings().excluded_nodes_expiry - 1ns;
  h.actions.clear();
  h.machine.block_abandoned({}, h.now, h.actions);
  CHECK(h.take<action::AddBlock>()->excluded.size() == 1);
  h.build(located(2, 2, 1));
  for (const std::int64_t number : {0, 1, 2, 3, 4}) h.ack(number, 1);
  h.now += 1ns;
  h.write(1);
  CHECK(h.take<action::AddBlock>()->excluded.empty());
}

TEST_CASE("the second block names the first with what is acknowledged of it") {
  Harness h;
  h.write(5000);
  h.build(located(1, 10, 3));
  h.actions.clear();
  for (const std::int64_t number : {0, 1, 2, 3}) h.ack(number);
  CHECK(h.machine.state() == State::kEndingBlock);
  CHECK_FALSE(h.has<action::AddBlock>());
  h.ack(4);
  CHECK(h.take<action::Disconnect>());
  const auto add = h.take<action::AddBlock>();
  REQUIRE(add);
  CHECK(*add->previous == ExtendedBlock{"BP-1", 1, 10, 4096});
  h.build(located(2, 11, 3));
  h.ack(5);
  h.machine.finish(h.now, h.actions);
  static_cast<void>(h.send_all());
  h.ack(6);
  const auto complete = h.take<action::Complete>();
  REQUIRE(complete);
  CHECK(*complete->last == ExtendedBlock{"BP-1", 2, 11, 5000 - 4096});
  CHECK(h.machine.counters().blocks == 2);
}

TEST_CASE("NotReplicatedYet is asked again for as long as Hadoop's client would wait") {
  Harness h;
  h.write(1);
  env::Duration waited{0};
  int retries = 0;
  h.actions.clear();
  while (h.machine.state() == State::kAllocating) {
    h.machine.allocated(kNotReplicated, h.now, h.actions);
    if (h.machine.state() == State::kFailed) break;
    const env::Duration delay = *h.machine.deadline() - h.now;
    waited += delay;
    if (retries == 0) CHECK(delay == 2ms);
    h.now += delay - 1ns;
    h.machine.tick(h.now, h.actions);
    CHECK(h.machine.state() == State::kAllocateDelay);
    h.now += 1ns;
    h.machine.tick(h.now, h.actions);
    ++retries;
  }
  CHECK(h.machine.state() == State::kFailed);
  CHECK(waited == 12400ms);  // 0.4 + 0.8 + 1.6 + 3.2 + 6.4 s
  CHECK(h.machine.counters().allocate_retries == retries);
  CHECK(h.take<action::Failed>()->failure.remote_class().ends_with("NotReplicatedYetException"));
}

TEST_CASE(
    "quota reached by what close() still has to write: the file is completed, then it fails") {
  WriteSettings settings;
  settings.recover_lease_on_close_failure = true;
  Harness h(testing::small_target(), settings);
  h.write(5000);
  h.build(located(1, 10, 3));
  h.machine.finish(h.now, h.actions);
  for (const std::int64_t number : {0, 1, 2, 3, 4}) h.ack(number);
  REQUIRE(h.machine.state() == State::kAllocating);
  h.machine.allocated(kOverQuota, h.now, h.actions);
  int asked = 0;
  env::Duration waited{0};
  const auto answer_not_yet = [&](int times) {
    for (; times > 0; --times) {
      const auto complete = h.take<action::Complete>();
      if (!complete) return;
      CHECK(complete->last->length == 4096);
      ++asked;
      h.machine.completed(false, h.now, h.actions);
      if (h.machine.state() == State::kFailed) return;
      CHECK_FALSE(h.has<action::Failed>());
      waited += *h.machine.deadline() - h.now;
      h.now = *h.machine.deadline();
      h.machine.tick(h.now, h.actions);
    }
  };
  bool is_complete = false;
  std::string besides;
  SUBCASE("completed") { is_complete = true; }
  SUBCASE("completed when its last block is reported") {
    answer_not_yet(3);
    CHECK(h.machine.state() == State::kCompleting);
    CHECK(h.machine.counters().complete_retries == 3);
    is_complete = true;
  }
  SUBCASE("never") {
    answer_not_yet(100);
    CHECK(waited == 12400ms);  // as an ordinary close
    CHECK(asked == 14);
    besides = "has not enough replicas, 12.4 s after its end";
  }
  SUBCASE("refused") {
    CHECK(h.take<action::Complete>());
    h.machine.completed(kRefused, h.now, h.actions);
    besides = "refused";
  }
  if (is_complete) {
    CHECK(h.take<action::Complete>()->last->length == 4096);
    h.machine.completed(true, h.now, h.actions);
  }
  CHECK_FALSE(h.has<action::Complete>());
  CHECK(h.machine.state() == State::kFailed);
  const auto failed = h.take<action::Failed>();
  REQUIRE(failed);
  CHECK(failed->failure.remote_class().ends_with("DSQuotaExceededException"));
  REQUIRE(failed->failure.others().size() == (is_complete ? 0 : 1));
  if (!is_complete) {
    CHECK(failed->failure.others()[0].message().find(besides) != std::string::npos);
  }
  // A file that is closed may be somebody else's by now.
  CHECK(h.has<action::RecoverLease>() == !is_complete);
}

// --- acknowledgements

TEST_CASE("HDFS-9: only the acknowledgement of every node counts") {
  const auto fails_with = [](NodeReplies replies, std::int64_t number, std::string_view what) {
    const std::unique_ptr<Harness> h = in_state(State::kStreaming);
    h->machine.acked(h->machine.pipeline_connection(), {number, replies}, h->now, h->actions);
    CHECK_FALSE(h->has<action::Acknowledged>());
    CHECK(h->has<action::Disconnect>());
    const auto failed = h->take<action::Failed>();
    REQUIRE(failed);
    CAPTURE(failed->failure.message());
    CHECK(failed->failure.message().find(what) != std::string::npos);
    CHECK(failed->failure.message().find("blk_1_10, 0 bytes acknowledged and 1000 sent, pipeline "
                                         "[10.0.0.1:9866, 10.0.0.2:9866, 10.0.0.3:9866]") !=
          std::string::npos);
  };
  constexpr auto kGood = TransferStatus::kSuccess;
  constexpr auto kBad = TransferStatus::kError;
  fails_with({kGood, kGood}, 0, "DataNode 10.0.0.3:9866 (3 of 3)");  // too short
  fails_with({kGood, kGood, kGood, kGood}, 0, "DataNode 10.0.0.1:9866 (1 of 3)");
  fails_with({kBad, kGood, kBad}, 0, "DataNode 10.0.0.3:9866 (3 of 3)");  // furthest down first
  fails_with({kGood, kBad}, -2, "DataNode 10.0.0.2:9866 (2 of 3)");
  fails_with({kGood, kGood, kGood}, 1, "DataNode 10.0.0.1:9866 (1 of 3)");  // not the oldest
  fails_with({kGood, kGood, kGood}, -2, "DataNode 10.0.0.1:9866 (1 of 3)");
  fails_with({TransferStatus::kOobRestart}, -2, "answered [OOB_RESTART]");
  fails_with({TransferStatus::kErrorChecksum}, 0, "ERROR_CHECKSUM");
}

TEST_CASE("a packet that has not gone out completely cannot be acknowledged") {
  Harness h;
  h.write(1000);
  h.machine.allocated(located(1, 10, 3), h.now, h.actions);
  const ConnectionNumber connection = h.machine.pipeline_connection();
  h.machine.connected(connection, h.now);
  static_cast<void>(h.send_all());
  h.machine.replied(connection, {}, h.now, h.actions);
  std::vector<ByteView> pieces(4);
  REQUIRE(h.machine.output(connection, pieces) == 1);
  h.machine.sent(connection, pieces[0].size() - 1, h.now);
  h.ack(0);
  CHECK(h.machine.state() == State::kFailed);
}

TEST_CASE("output: what was sent in part goes on where it stopped") {
  Harness h;
  h.write(3000);
  h.machine.allocated(located(1, 10, 1), h.now, h.actions);
  const ConnectionNumber connection = h.machine.pipeline_connection();
  h.machine.connected(connection, h.now);
  static_cast<void>(h.send_all());
  h.machine.replied(connection, {}, h.now, h.actions);
  std::string expected;
  std::vector<ByteView> pieces(8);
  const std::size_t count = h.machine.output(connection, pieces);
  CHECK(count == 3);
  for (std::size_t i = 0; i < count; ++i) expected += as_text(pieces[i]);
  std::string sent;
  for (std::size_t step = 1; sent.size() < expected.size(); step = step * 7 % 1009) {
    REQUIRE(h.machine.output(connection, pieces) > 0);
    const ByteView part = pieces[0].first(std::min(step, pieces[0].size()));
    sent += as_text(part);
    h.machine.sent(connection, part.size(), h.now);
  }
  CHECK(sent == expected);
  CHECK(h.machine.output(connection, pieces) == 0);
  CHECK(h.machine.counters().packets_sent == 3);
}

TEST_CASE("many acks that come together are told once") {
  Harness h;
  h.write(4000);
  h.build(located(1, 10, 3));
  h.actions.clear();
  for (const std::int64_t number : {0, 1, 2}) h.ack(number);
  REQUIRE(h.actions.size() == 1);
  CHECK(h.take<action::Acknowledged>()->offset == 3072);
}

TEST_CASE("the last packet waits for every ack, and the next block's packets for the last one") {
  Harness h;
  h.write(4096 + 10);
  h.build(located(1, 10, 3));
  CHECK(h.machine.counters().packets_sent == 4);
  CHECK(h.machine.state() == State::kDraining);
  for (const std::int64_t number : {0, 1, 2}) {
    h.ack(number);
    CHECK(h.machine.counters().packets_sent == 4);
  }
  h.ack(3);
  CHECK(h.machine.counters().packets_sent == 5);
  CHECK(h.machine.state() == State::kEndingBlock);
  h.ack(4);
  CHECK(h.machine.counters().packets_sent == 5);
  CHECK(h.machine.state() == State::kAllocating);
}

// --- flushes

TEST_CASE("HFLUSH-9: a flush of a stream that nothing was written to") {
  for (const Level level : {Level::kHandedOver, Level::kVisible, Level::kDurable}) {
    for (const bool append : {false, true}) {
      if (append && level == Level::kDurable) continue;
      Harness h(append ? append_target() : testing::small_target());
      h.flush(level);
      REQUIRE(h.actions.size() == 1);
      const auto reached = h.take<action::Reached>();
      REQUIRE(reached);
      CHECK(reached->level == level);
      CHECK(reached->offset == (append ? 100 : 0));
      CHECK(h.machine.state() == State::kIdle);
    }
  }
}

TEST_CASE("hsync of an append that has written nothing syncs the block that it would go on with") {
  Harness h(append_target());
  h.flush(Level::kDurable);
  CHECK_FALSE(h.has<action::Reached>());
  h.machine.reserved(located(5, 51, 0), h.actions);
  h.machine.connected(h.machine.pipeline_connection(), h.now);
  static_cast<void>(h.send_all());
  h.machine.replied(h.machine.pipeline_connection(), {}, h.now, h.actions);
  h.machine.registered({}, h.now, h.actions);
  CHECK(hex(h.send_all()) ==
        hex(unhex("00000004 001b 09 6400000000000000 11 0000000000000000 1800 25 00000000 2801")));
  h.ack(0);
  h.machine.fsynced({}, h.now, h.actions);
  const auto reached = h.take<action::Reached>();
  REQUIRE(reached);
  CHECK(reached->offset == 100);
  h.machine.finish(h.now, h.actions);
  CHECK(h.machine.state() == State::kEndingBlock);
}

TEST_CASE("HDFS-15: the first flush of each block tells the NameNode; later ones do not") {
  Harness h;
  h.flush(Level::kVisible, 100);
  h.build(located(1, 10, 3));
  h.actions.clear();
  h.ack(0);
  CHECK(h.take<action::Fsync>()->block_length == 100);
  CHECK_FALSE(h.has<action::Reached>());
  h.flush(Level::kVisible, 10);  // comes while the call is under way
  static_cast<void>(h.send_all());
  h.ack(1);
  CHECK_FALSE(h.has<action::Fsync>());
  h.machine.fsynced({}, h.now, h.actions);
  CHECK(h.take<action::Reached>()->offset == 110);
  CHECK_FALSE(h.has<action::Fsync>());

  h.flush(Level::kVisible, 20);
  static_cast<void>(h.send_all());
  h.ack(2);
  CHECK(h.take<action::Reached>()->offset == 130);
  CHECK_FALSE(h.has<action::Fsync>());
  h.flush(Level::kVisible);  // nothing new
  CHECK(h.take<action::Reached>()->offset == 130);
  CHECK(h.send_all().empty());

  h.write(4096 - 130 + 5);
  static_cast<void>(h.send_all());
  const std::int64_t last = h.machine.counters().packets_sent;
  for (std::int64_t number = 3; number <= last; ++number) h.ack(number);
  h.build(located(2, 11, 3));
  h.actions.clear();
  h.flush(Level::kVisible);
  h.ack(last + 1);
  CHECK(h.take<action::Fsync>()->block_length == 5);
}

TEST_CASE("UPDATE_LENGTH: every hsync tells the NameNode, an hflush only the first time") {
  WriteTarget target = testing::small_target();
  target.update_length = true;
  Harness h(target);
  h.flush(Level::kDurable, 100);
  h.build(located(1, 10, 3));
  std::int64_t number = 0;
  const auto expect_fsync = [&](bool expected) {
    h.actions.clear();
    h.ack(number++);
    CHECK(h.has<action::Fsync>() == expected);
    if (expected) h.machine.fsynced({}, h.now, h.actions);
    CHECK(h.has<action::Reached>());
  };
  expect_fsync(true);
  h.flush(Level::kVisible, 100);
  static_cast<void>(h.send_all());
  expect_fsync(false);
  h.flush(Level::kDurable, 100);
  static_cast<void>(h.send_all());
  expect_fsync(true);
  h.flush(Level::kVisible, 100);
  static_cast<void>(h.send_all());
  expect_fsync(false);
  h.flush(Level::kDurable);  // nothing new, but the NameNode does not know the length
  static_cast<void>(h.send_all());
  expect_fsync(true);
  CHECK(h.machine.counters().fsyncs == 3);
}

bool carries_sync(std::string_view packet) { return packet[5] == 27; }

TEST_CASE("HDFS-14: the packet with the data carries the sync; without data an empty one does") {
  Harness h;
  h.flush(Level::kVisible, 100);
  h.build(located(1, 10, 3));
  h.ack(0);
  h.machine.fsynced({}, h.now, h.actions);
  h.actions.clear();

  h.flush(Level::kDurable, 100);
  std::string sent = h.send_all();
  CHECK(carries_sync(sent));
  h.ack(1);
  CHECK(h.take<action::Reached>()->level == Level::kDurable);

  h.flush(Level::kVisible, 100);
  sent = h.send_all();
  CHECK_FALSE(carries_sync(sent));
  h.flush(Level::kDurable);
  sent = h.send_all();
  REQUIRE(sent.size() == 33);
  CHECK(carries_sync(sent));
  h.flush(Level::kDurable);  // that one serves this, too
  CHECK(h.send_all().empty());
  h.actions.clear();
  h.ack(2);
  CHECK(h.take<action::Reached>()->level == Level::kVisible);
  h.ack(3);
  CHECK(h.take<action::Reached>()->level == Level::kDurable);
  CHECK_FALSE(h.has<action::Reached>());

  h.machine.finish(h.now, h.actions);
  sent = h.send_all();
  CHECK(carries_sync(sent));  // the replica's move to "finalized" is durable, too
}

TEST_CASE("hsync of a stream that has never synced: each replica of each earlier block, in turn") {
  Harness h;
  h.write(2 * 4096 + 10);
  std::int64_t number = 0;
  for (const std::uint64_t id : {1U, 2U}) {
    h.build(located(id, 10 + id, 2));
    for (int i = 0; i < 5; ++i) h.ack(number++, 2);
  }
  h.build(located(3, 13, 2));
  h.ack(number++, 2);
  CHECK(h.machine.sync_connection() == 0);
  h.actions.clear();

  h.flush(Level::kDurable);
  CHECK(carries_sync(h.send_all()));
  for (const std::uint64_t id : {1U, 2U}) {
    for (const int node : {1, 2}) {
      CAPTURE(id);
      CAPTURE(node);
      CHECK_FALSE(h.has<action::Reached>());
      if (node == 1) {
        const auto locate = h.take<action::GetBlockLocations>();
        REQUIRE(locate);
        CHECK(locate->offset == (id - 1) * 4096);
        CHECK(locate->length == 4096);
        CHECK_FALSE(h.has<action::Connect>());
        h.locate(located(id, 10 + id, 2));
      }
      const auto connect = h.take<action::Connect>();
      REQUIRE(connect);
      CHECK(connect->node.ip == "10.0.0." + std::to_string(node));
      CHECK(connect->connection == h.machine.sync_connection());
      h.machine.connected(connect->connection, h.now);
      const std::string sent = h.send_all(connect->connection);
      CHECK(sent.starts_with(std::string("\x00\x1c\x50", 3)));
      CHECK(hex(sent).find(hex(unhex("2000 2801 308020 388020 40")) + (id == 1 ? "0b" : "0c")) !=
            std::string::npos);
      CHECK(hex(sent).ends_with(hex(
          unhex("00000004 001b 09 0010000000000000 11 0000000000000000 1801 25 00000000 2801"))));
      h.machine.replied(connect->connection, {}, h.now, h.actions);
      h.machine.acked(connect->connection, {0, {TransferStatus::kSuccess}}, h.now, h.actions);
      CHECK(h.take<action::Disconnect>()->connection == connect->connection);
    }
  }
  CHECK(h.machine.counters().synced_afterwards == 4);
  CHECK_FALSE(h.has<action::Reached>());
  h.ack(number++, 2);
  h.machine.fsynced({}, h.now, h.actions);
  const auto reached = h.take<action::Reached>();
  REQUIRE(reached);
  CHECK(reached->level == Level::kDurable);
}

TEST_CASE("a block that ends after the first hsync was asked is synced at its end or afterwards") {
  Harness h;
  h.write(4096);
  h.build(located(1, 10, 1));
  for (const std::int64_t number : {0, 1, 2}) h.ack(number, 1);
  SUBCASE("its last packet waits") {
    h.flush(Level::kDurable);
    h.machine.acked(h.machine.pipeline_connection(), {3, {TransferStatus::kSuccess}}, h.now,
                    h.actions);
    CHECK(carries_sync(h.send_all()));
    h.ack(4, 1);
    CHECK(h.machine.sync_connection() == 0);
    h.machine.fsynced({}, h.now, h.actions);
    CHECK(h.has<action::Reached>());
  }
  SUBCASE("its last packet is out") {
    h.ack(3, 1);
    h.flush(Level::kDurable);
    CHECK(h.machine.sync_connection() == 0);
    h.ack(4, 1);
    CHECK(h.take<action::GetBlockLocations>());
    h.machine.fsynced({}, h.now, h.actions);
    CHECK_FALSE(h.has<action::Reached>());
    h.machine.finish(h.now, h.actions);
    CHECK_FALSE(h.has<action::Complete>());
    h.locate(located(1, 10, 1));
    h.sync_replica();
    CHECK(h.has<action::Reached>());
    CHECK(h.has<action::Complete>());
  }
}

TEST_CASE("SYNC_BLOCK: every block ends with a sync, and none is opened again") {
  WriteTarget target = testing::small_target();
  target.sync_every_block = true;
  Harness h(target);
  h.write(4096);
  h.build(located(1, 10, 1));
  for (const std::int64_t number : {0, 1, 2}) h.ack(number, 1);
  h.machine.acked(h.machine.pipeline_connection(), {3, {TransferStatus::kSuccess}}, h.now,
                  h.actions);
  CHECK(carries_sync(h.send_all()));
  h.ack(4, 1);
  h.flush(Level::kDurable);
  CHECK(h.machine.sync_connection() == 0);
}

// A machine whose first block, of two replicas, has ended without a sync; and an hsync that waits
// for where they are now.
std::unique_ptr<Harness> with_finished_block() {
  auto h = std::make_unique<Harness>();
  h->write(4096);
  h->build(located(1, 10, 2));
  for (const std::int64_t number : {0, 1, 2, 3, 4}) h->ack(number, 2);
  h->actions.clear();
  h->flush(Level::kDurable);
  h->machine.fsynced({}, h->now, h->actions);
  REQUIRE(h->take<action::GetBlockLocations>());
  REQUIRE(h->machine.sync_connection() == 0);
  return h;
}

LocatedBlock located_at(std::uint64_t id, const std::vector<int>& nodes) {
  LocatedBlock block = located(id, 10, 0);
  for (const int node : nodes) block.replicas.push_back(testing::replica(node));
  return block;
}

TEST_CASE("HSYNC-7: replicas of a finished block are synced where HDFS has them now") {
  const std::unique_ptr<Harness> h = with_finished_block();
  bool is_last = false;
  SUBCASE("another node, and one more") { is_last = false; }
  SUBCASE("as the last block, which the NameNode takes for unfinished") { is_last = true; }
  LocatedBlocks answer;
  answer.blocks.push_back(located_at(7, {8, 9}));
  answer.last_block = located_at(8, {9});
  (is_last ? *answer.last_block : answer.blocks.emplace_back()) = located_at(1, {2, 5, 6});
  h->machine.located(answer, h->now, h->actions);
  for (const int node : {2, 5, 6}) {
    CHECK_FALSE(h->has<action::Reached>());
    const auto connect = h->take<action::Connect>();
    REQUIRE(connect);
    CHECK(connect->node.ip == "10.0.0." + std::to_string(node));
    h->sync_replica();
  }
  CHECK(h->take<action::Reached>()->level == Level::kDurable);
  CHECK(h->machine.counters().synced_afterwards == 3);
  CHECK(h->machine.counters().left_unsynced == 0);
}

// What may happen to a connection that is to sync a replica.
struct ReplicaFault {
  std::string said;
  std::function<void(Harness&)> happen;
};

std::vector<ReplicaFault> replica_faults() {
  const auto connected = [](Harness& h) {
    h.machine.connected(h.machine.sync_connection(), h.now);
    static_cast<void>(h.send_all(h.machine.sync_connection()));
  };
  return {
      {"is lost: connect",
       [](Harness& h) {
         h.machine.connection_lost(h.machine.sync_connection(),
                                   Status::from_errno(ECONNREFUSED, "connect", ""), h.now,
                                   h.actions);
       }},
      {"is lost: refused",
       [=](Harness& h) {
         connected(h);
         h.machine.connection_lost(h.machine.sync_connection(), kRefused, h.now, h.actions);
       }},
      {"answered ERROR",
       [=](Harness& h) {
         connected(h);
         h.machine.replied(h.machine.sync_connection(), {TransferStatus::kError, "", "", {}, 0, {}},
                           h.now, h.actions);
       }},
      {"answered [ERROR] to packet 0", [](Harness& h) { h.sync_replica(TransferStatus::kError); }},
      {"did not answer for 65.0 s",
       [=](Harness& h) {
         connected(h);
         h.now += 65s;
         h.machine.tick(h.now, h.actions);
       }},
  };
}

TEST_CASE("HSYNC-7: a replica that cannot be synced is left out where another one could be") {
  for (const ReplicaFault& fault : replica_faults()) {
    for (const bool is_first : {true, false}) {
      CAPTURE(fault.said);
      CAPTURE(is_first);
      const std::unique_ptr<Harness> h = with_finished_block();
      h->locate(located_at(1, {1, 2}));
      if (!is_first) h->sync_replica();
      fault.happen(*h);
      CHECK_FALSE(h->has<action::Failed>());
      if (is_first) {
        CHECK_FALSE(h->has<action::Reached>());
        h->sync_replica();
      }
      CHECK(h->take<action::Reached>()->offset == 4096);
      CHECK(h->machine.counters().synced_afterwards == 1);
      CHECK(h->machine.counters().left_unsynced == 1);
      CHECK(h->machine.sync_connection() == 0);
    }
  }
}

TEST_CASE("HSYNC-12: no replica can be synced: that hsync fails, the stream goes on") {
  for (const ReplicaFault& fault : replica_faults()) {
    CAPTURE(fault.said);
    const std::unique_ptr<Harness> h = with_finished_block();
    h->flush(Level::kDurable);  // somebody else waits as well
    h->locate(located_at(1, {1, 2}));
    h->machine.connection_lost(h->machine.sync_connection(), kRefused, h->now, h->actions);
    CHECK_FALSE(h->has<action::NotReached>());
    fault.happen(*h);
    CHECK_FALSE(h->has<action::Failed>());
    CHECK_FALSE(h->has<action::Reached>());
    const auto not_reached = h->take<action::NotReached>();
    REQUIRE(not_reached);
    CHECK(not_reached->level == Level::kDurable);
    CHECK(not_reached->offset == 4096);
    const std::string message = not_reached->why.message();
    CAPTURE(message);
    CHECK(
        message.starts_with("hsync: the finished block blk_1_10, 4096 bytes, could be synced on "
                            "no DataNode: DataNode 10.0.0.1:9866 is lost: refused; "
                            "DataNode 10.0.0.2:9866 " +
                            fault.said));
    CHECK(message.ends_with("the stream is still open, and hsync may be called again"));
    CHECK(not_reached->why.path() == "/f");
    CHECK_FALSE(h->has<action::NotReached>());
    CHECK(h->machine.sync_connection() == 0);

    // hflush needs none of that; the next hsync asks again.
    h->flush(Level::kVisible, 100);
    CHECK_FALSE(h->has<action::GetBlockLocations>());
    h->build(located(2, 11, 1));
    h->ack(5, 1);
    h->machine.fsynced({}, h->now, h->actions);
    CHECK(h->take<action::Reached>()->level == Level::kVisible);
    h->flush(Level::kDurable);
    static_cast<void>(h->send_all());
    h->ack(6, 1);
    CHECK_FALSE(h->has<action::Reached>());
    CHECK(h->take<action::GetBlockLocations>());
    h->locate(located_at(1, {3}));
    h->sync_replica();
    CHECK(h->take<action::Reached>()->offset == 4196);
    h->machine.finish(h->now, h->actions);
    static_cast<void>(h->send_all());
    h->ack(7, 1);
    CHECK(h->take<action::Complete>());
  }
}

TEST_CASE("close after an hsync that failed does not wait for what it could not have") {
  const std::unique_ptr<Harness> h = with_finished_block();
  h->locate(located_at(1, {}));
  CHECK(h->take<action::NotReached>()->why.message().find("no replica on any live DataNode") !=
        std::string::npos);
  h->machine.finish(h->now, h->actions);
  CHECK(h->take<action::Complete>());
  CHECK_FALSE(h->has<action::GetBlockLocations>());
}

TEST_CASE("an hsync that cannot learn where earlier blocks are fails alone") {
  const std::unique_ptr<Harness> h = with_finished_block();
  StatusCode code = StatusCode::kIo;
  Status answer = kRefused;
  SUBCASE("refused") {}
  SUBCASE("the file is gone") {
    code = StatusCode::kLeaseLost;
    answer = remote("java.io.FileNotFoundException", StatusCode::kNotFound);
  }
  h->machine.located(answer, h->now, h->actions);
  const auto not_reached = h->take<action::NotReached>();
  REQUIRE(not_reached);
  CHECK(not_reached->why.code() == code);
  CHECK(not_reached->why.remote_class() == answer.remote_class());
  CHECK(not_reached->why.message().find("the NameNode does not say where it is: refused") !=
        std::string::npos);
  CHECK(h->machine.state() == State::kIdle);
}

TEST_CASE("who may not read the file has its earlier blocks synced where they were written") {
  const std::unique_ptr<Harness> h = with_finished_block();
  h->machine.located(
      remote("org.apache.hadoop.security.AccessControlException", StatusCode::kPermissionDenied),
      h->now, h->actions);
  for (const int node : {1, 2}) {
    CHECK(h->take<action::Connect>()->node.ip == "10.0.0." + std::to_string(node));
    h->sync_replica();
  }
  CHECK(h->has<action::Reached>());
}

TEST_CASE("a node that is gone is not waited for at every block, unless it is the only one") {
  Harness h;
  h.write(3 * 4096);
  std::int64_t number = 0;
  for (const std::uint64_t id : {1U, 2U, 3U}) {
    h.build(located(id, 10, 2));
    for (int i = 0; i < 5; ++i) h.ack(number++, 2);
  }
  h.actions.clear();
  h.flush(Level::kDurable);
  h.machine.fsynced({}, h.now, h.actions);
  const auto tries = [&h](int node, bool succeeds) {
    const auto connect = h.take<action::Connect>();
    REQUIRE(connect);
    CHECK(connect->node.ip == "10.0.0." + std::to_string(node));
    if (succeeds) return h.sync_replica();
    h.machine.connection_lost(connect->connection, kRefused, h.now, h.actions);
  };
  h.locate(located_at(1, {1, 2}));
  tries(1, false);
  tries(2, true);
  h.locate(located_at(2, {1, 2}));
  tries(2, true);
  h.locate(located_at(3, {1}));
  tries(1, true);
  CHECK(h.has<action::Reached>());
  CHECK(h.machine.counters().synced_afterwards == 3);
  CHECK(h.machine.counters().left_unsynced == 2);
}

TEST_CASE("a stream that ends while it asks where its blocks are hears nothing more of it") {
  const std::unique_ptr<Harness> h = with_finished_block();
  h->machine.abandon(h->actions);
  h->actions.clear();
  h->locate(located_at(1, {1, 2}));
  CHECK(h->actions.empty());
}

TEST_CASE("fsync and addBlock are not under way together: the length would be another block's") {
  Harness h;
  h.flush(Level::kVisible, 4096);
  h.write(100);
  h.build(located(1, 10, 1));
  for (const std::int64_t number : {0, 1, 2, 3}) h.ack(number, 1);
  h.actions.clear();
  h.ack(4, 1);
  CHECK(h.take<action::Fsync>()->block_length == 4096);
  CHECK_FALSE(h.has<action::AddBlock>());
  h.machine.fsynced({}, h.now, h.actions);
  CHECK(h.has<action::AddBlock>());

  h.flush(Level::kVisible);  // of bytes in the block that is being allocated
  CHECK_FALSE(h.has<action::Fsync>());
}

TEST_CASE("a flush that becomes due while the next block is allocated needs no fsync") {
  Harness h;
  h.write(4096 + 100);
  h.build(located(1, 10, 1));
  for (const std::int64_t number : {0, 1, 2, 3}) h.ack(number, 1);
  CHECK(h.machine.state() == State::kEndingBlock);
  // The stream asks for what is in the first block only after more was put: the newest packet
  // is awaited, and by then addBlock has told the first block's length.
  h.flush(Level::kVisible);
  h.ack(4, 1);
  CHECK_FALSE(h.has<action::Fsync>());
  h.build(located(2, 11, 1));
  h.actions.clear();
  h.ack(5, 1);
  CHECK(h.take<action::Fsync>()->block_length == 100);
}

TEST_CASE("flush() waits while more packets than the window's number are under way") {
  WriteSettings settings;
  settings.max_packets_in_flight = 3;
  Harness h(testing::small_target(), settings);
  h.flush(Level::kHandedOver, 512);
  CHECK(h.take<action::Reached>()->offset == 512);
  for (int i = 0; i < 2; ++i) h.flush(Level::kHandedOver, 512);
  h.actions.clear();
  h.flush(Level::kHandedOver, 512);
  CHECK(h.actions.empty());
  h.build(located(1, 10, 3));
  CHECK_FALSE(h.has<action::Reached>());
  h.ack(0);
  CHECK(h.take<action::Reached>()->offset == 2048);
}

// --- appends

TEST_CASE("an append that nothing is written to touches no DataNode") {
  SUBCASE("partial block") {
    Harness h(append_target());
    h.machine.finish(h.now, h.actions);
    const auto complete = h.take<action::Complete>();
    REQUIRE(complete);
    CHECK(*complete->last == append_target().partial_block->block);
  }
  SUBCASE("full last block that nobody could name") {
    WriteTarget target = testing::small_target();
    target.start = 4096;
    Harness h(target);
    h.machine.finish(h.now, h.actions);
    CHECK_FALSE(h.take<action::Complete>()->last);
  }
  SUBCASE("full last block, or NEW_BLOCK") {
    WriteTarget target = testing::small_target();
    target.start = 100;
    target.previous_block = ExtendedBlock{"BP-1", 5, 50, 100};
    Harness h(target);
    h.machine.finish(h.now, h.actions);
    CHECK(h.take<action::Complete>()->last == target.previous_block);
  }
}

TEST_CASE("APPEND-8: a new block behind a short one") {
  WriteTarget target = testing::small_target();
  target.start = 100;
  target.previous_block = ExtendedBlock{"BP-1", 5, 50, 100};
  Harness h(target);
  h.write(4096 + 7);
  CHECK(h.take<action::AddBlock>()->previous == target.previous_block);
  h.build(located(6, 60, 1));
  for (const std::int64_t number : {0, 1, 2, 3, 4}) h.ack(number, 1);
  CHECK(*h.take<action::AddBlock>()->previous == ExtendedBlock{"BP-1", 6, 60, 4096});
  CHECK(h.machine.acknowledged_offset() == 100 + 4096);
}

TEST_CASE("an append whose pipeline cannot be built names the node; the block is not abandoned") {
  Harness h(append_target());
  h.write(10);
  h.machine.reserved(located(5, 51, 0), h.actions);
  h.machine.connection_lost(h.machine.pipeline_connection(), kRefused, h.now, h.actions);
  CHECK_FALSE(h.has<action::AbandonBlock>());
  const auto failed = h.take<action::Failed>();
  REQUIRE(failed);
  CHECK(failed->failure.message().find("10.0.0.1:9866") != std::string::npos);
  CHECK(failed->failure.message().find("blk_5_50, 100 bytes") != std::string::npos);
}

TEST_CASE("an append to a block that no DataNode has") {
  WriteTarget target = append_target();
  target.partial_block->replicas.clear();
  Harness h(target);
  h.write(10);
  h.machine.reserved(located(5, 51, 0), h.actions);
  CHECK(h.take<action::Failed>()->failure.message() ==
        "append: no DataNode has the last block, blk_5_50");
}

// --- time, and the end

TEST_CASE("HDFS-18: heartbeats keep an idle pipeline, and their acks count as life") {
  Harness h;
  h.flush(Level::kVisible, 10);
  h.build(located(1, 10, 3));
  h.ack(0);
  h.machine.fsynced({}, h.now, h.actions);
  h.actions.clear();
  for (int i = 0; i < 10; ++i) {
    REQUIRE(h.machine.deadline());
    CHECK(*h.machine.deadline() == h.now + 30s);
    h.now += 30s;
    h.machine.tick(h.now, h.actions);
    CHECK(h.send_all().size() == 31);
    h.ack(PipelineAck::kHeartbeat);
  }
  CHECK(h.machine.counters().heartbeats == 10);
  CHECK(h.actions.empty());
  for (int i = 0; i < 3; ++i) {  // nobody answers any more
    h.now = *h.machine.deadline();
    h.machine.tick(h.now, h.actions);
    static_cast<void>(h.send_all());
  }
  const auto failed = h.take<action::Failed>();
  REQUIRE(failed);
  CHECK(failed->failure.message().find("did not answer for 75.0 s") != std::string::npos);
  CHECK(failed->failure.code() == StatusCode::kTimedOut);
  CHECK(failed->failure.error_number() == ETIMEDOUT);
}

TEST_CASE("HDFS-23: a congested ack holds the next packets back, and heartbeats go on") {
  WriteSettings settings;
  settings.congestion_backoff_mean = 60s;
  settings.congestion_backoff_max = 80s;
  Harness h(testing::small_target(), settings);
  h.write(512);
  h.build(located(1, 10, 1));
  const auto ack = [&h](std::int64_t number, bool congested) {
    PipelineAck acknowledgement;
    acknowledgement.sequence_number = number;
    acknowledgement.replies = {TransferStatus::kSuccess};
    acknowledgement.congested = congested;
    h.machine.acked(h.machine.pipeline_connection(), acknowledgement, h.now, h.actions);
  };
  ack(0, true);
  std::int64_t next = 1;
  env::Duration longest{0};
  for (int round = 0; round < 8; ++round) {
    CAPTURE(round);
    h.write(128);
    h.write(128);
    CHECK(h.send_all().empty());
    const env::TimePoint start = h.now;
    std::string sent;
    while (sent.empty()) {
      REQUIRE(h.machine.deadline());
      h.now = *h.machine.deadline();
      h.machine.tick(h.now, h.actions);
      sent = h.send_all();
      if (sent.size() == 31) {  // a heartbeat
        sent.clear();
        ack(PipelineAck::kHeartbeat, true);
      }
    }
    CHECK(h.now - start <= 80s);
    longest = std::max(longest, h.now - start);
    CHECK(h.machine.counters().packets_sent == next + 2);  // both, once the time has passed
    ack(next++, false);
    ack(next++, true);
  }
  CHECK(longest > 1s);
  CHECK(h.machine.counters().congestion_delays == 8);
  CHECK(h.machine.counters().heartbeats > 0);
  REQUIRE(h.machine.state() == State::kStreaming);

  ack(PipelineAck::kHeartbeat, false);
  SUBCASE("close waits as well") {
    h.machine.finish(h.now, h.actions);
    CHECK(h.send_all().empty());
    CHECK(h.machine.counters().congestion_delays == 9);
  }
  SUBCASE("an abandoned stream does not") {
    h.write(100);
    h.machine.abandon(h.actions);
    CHECK_FALSE(h.machine.deadline());
  }
}

TEST_CASE("the delays of one congestion grow up to a limit; the first good ack ends it") {
  CongestionBackoff backoff(5s, 50s, 42);
  CHECK(backoff.take() == 0s);
  env::Duration sum{0};
  for (int i = 0; i < 100; ++i) {
    backoff.acked(true);
    const env::Duration delay = backoff.take();
    CHECK(delay <= 50s);
    CHECK(backoff.take() == 0s);
    if (i >= 50) sum += delay;
  }
  CHECK(sum / 50 > 5s);
  backoff.acked(true);
  backoff.acked(false);
  CHECK(backoff.take() == 0s);
  backoff.acked(true);
  CHECK(backoff.take() <= 5s);
  CongestionBackoff none(0s, 50s, 42);
  none.acked(true);
  CHECK(none.take() == 0s);
}

TEST_CASE("no heartbeat goes between the parts of a packet, and a stuck socket ends by timeout") {
  Harness h;
  h.write(1000);
  h.machine.allocated(located(1, 10, 3), h.now, h.actions);
  const ConnectionNumber connection = h.machine.pipeline_connection();
  h.machine.connected(connection, h.now);
  static_cast<void>(h.send_all());
  h.machine.replied(connection, {}, h.now, h.actions);
  h.machine.sent(connection, 100, h.now);
  CHECK(*h.machine.deadline() == h.now + 75s);
  h.now += 40s;
  h.machine.tick(h.now, h.actions);
  CHECK(h.machine.counters().heartbeats == 0);
  h.now += 35s;
  h.machine.tick(h.now, h.actions);
  CHECK(h.machine.state() == State::kFailed);
}

TEST_CASE("no timeout means none, and heartbeats are sent all the same") {
  WriteSettings settings;
  settings.socket_timeout = settings.socket_write_timeout = env::kNoTimeout;
  settings.excluded_nodes_expiry = env::kNoTimeout;
  Harness h(testing::small_target(), settings);
  h.write(1000);
  h.machine.allocated(located(1, 10, 3), h.now, h.actions);
  CHECK(h.take<action::Connect>()->timeout == env::kNoTimeout);
  h.machine.connected(h.machine.pipeline_connection(), h.now);
  CHECK_FALSE(h.machine.deadline());
  h.machine.connection_lost(h.machine.pipeline_connection(), kRefused, h.now, h.actions);
  h.machine.block_abandoned({}, h.now, h.actions);
  h.build(located(2, 11, 3));
  CHECK(*h.machine.deadline() == h.now + 30s);
}

TEST_CASE("a packet that is never acknowledged ends the stream though heartbeats are answered") {
  Harness h;
  h.write(1000);
  h.build(located(1, 10, 3));
  const env::TimePoint sent_at = h.now;
  while (h.machine.state() == State::kStreaming) {
    h.now = *h.machine.deadline();
    h.machine.tick(h.now, h.actions);
    static_cast<void>(h.send_all());
    if (h.machine.state() == State::kStreaming) h.ack(PipelineAck::kHeartbeat);
  }
  CHECK(h.now - sent_at == 495s);
}

TEST_CASE(
    "HDFS-17: complete is asked again while the last replica is not reported, then it fails") {
  Harness h;
  h.machine.finish(h.now, h.actions);
  env::Duration waited{0};
  int asked = 0;
  while (h.take<action::Complete>()) {
    ++asked;
    h.machine.completed(false, h.now, h.actions);
    if (h.machine.state() == State::kFailed) break;
    waited += *h.machine.deadline() - h.now;
    h.now = *h.machine.deadline();
    h.machine.tick(h.now, h.actions);
  }
  CHECK(waited == 12400ms);
  CHECK(asked == 14);
  CHECK(h.machine.counters().complete_retries == 13);
  CHECK(h.take<action::Failed>()->failure.message().find("12.4 s") != std::string::npos);
}

TEST_CASE("a lost lease shows in any call, also as a file that is not there") {
  const Status gone = remote("java.io.FileNotFoundException", StatusCode::kNotFound);
  const auto fails = [&](State state, const std::function<void(Harness&)>& answer) {
    const std::unique_ptr<Harness> h = in_state(state);
    answer(*h);
    const auto failed = h->take<action::Failed>();
    REQUIRE(failed);
    CHECK(failed->failure.code() == StatusCode::kLeaseLost);
    CHECK(failed->failure.remote_class() == "java.io.FileNotFoundException");
  };
  fails(State::kAllocating, [&](Harness& h) { h.machine.allocated(gone, h.now, h.actions); });
  fails(State::kAbandoning, [&](Harness& h) { h.machine.block_abandoned(gone, h.now, h.actions); });
  fails(State::kReserving, [&](Harness& h) { h.machine.reserved(gone, h.actions); });
  fails(State::kRegistering, [&](Harness& h) { h.machine.registered(gone, h.now, h.actions); });
  fails(State::kCompleting, [&](Harness& h) { h.machine.completed(gone, h.now, h.actions); });
  fails(State::kStreaming, [&](Harness& h) {
    h.flush(Level::kVisible);
    h.ack(0);
    h.machine.fsynced(gone, h.now, h.actions);
  });
  const std::unique_ptr<Harness> h = in_state(State::kStreaming);
  h->machine.lease_lost(Status(StatusCode::kTimedOut, "renewLease: no answer"), h->actions);
  const auto failed = h->take<action::Failed>();
  REQUIRE(failed);
  CHECK(failed->failure.code() == StatusCode::kLeaseLost);
  CHECK(failed->failure.cause()->code() == StatusCode::kTimedOut);
}

TEST_CASE("HDFS-3: a failed close asks for lease recovery if the configuration says so") {
  WriteSettings settings;
  for (const bool wanted : {false, true}) {
    settings.recover_lease_on_close_failure = wanted;
    Harness h(testing::small_target(), settings);
    h.machine.finish(h.now, h.actions);
    h.machine.completed(kRefused, h.now, h.actions);
    CHECK(h.has<action::RecoverLease>() == wanted);
    CHECK(h.has<action::Failed>());

    Harness lost(testing::small_target(), settings);
    lost.machine.finish(lost.now, lost.actions);
    lost.machine.completed(remote("LeaseExpiredException", StatusCode::kLeaseLost), lost.now,
                           lost.actions);
    CHECK_FALSE(lost.has<action::RecoverLease>());
  }
}

TEST_CASE("DROP-1: the setting is in the next pipeline's operation") {
  for (const std::optional<bool> value :
       {std::optional<bool>(), std::optional(true), std::optional(false)}) {
    Harness h;
    h.machine.set_drop_behind(value);
    h.write(10);
    h.machine.allocated(located(1, 10, 1), h.now, h.actions);
    h.machine.connected(h.machine.pipeline_connection(), h.now);
    const std::string sent = hex(h.send_all());
    CHECK((sent.find("52020801") != std::string::npos) == (value == true));
    CHECK((sent.find("52020800") != std::string::npos) == (value == false));
    CHECK((sent.find("5200") != std::string::npos) == !value.has_value());
  }
}

}  // namespace
}  // namespace hflush::hdfs
