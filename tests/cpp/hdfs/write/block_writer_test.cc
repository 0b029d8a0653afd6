// One block and its pipeline: every event in every state, what a node that fails leaves, and each
// rule by itself.
#include "hflush/hdfs/write/block_writer.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "hdfs/write_harness.h"
#include "testing/page_table.h"

namespace hflush::hdfs {
namespace {

using namespace std::chrono_literals;  // NOLINT(google-build-using-namespace)
using namespace testing;               // NOLINT(google-build-using-namespace)
using hflush::testing::for_each_cell;
using hflush::testing::page_table;
using hflush::testing::PageTable;
using stream::Level;

// A block writer by itself: its packets are in the stream's queue.
struct BlockHarness {
  explicit BlockHarness(WriteTarget target = small_target(), WriteSettings settings = patient())
      : shared(target, settings), packetizer(geometry_of(target), pool) {}

  void begin(BlockWriter::Block block) {
    writer.emplace(shared, ++shared.last_connection, std::move(block), actions);
  }
  static BlockWriter::Block block(bool again, bool close = false) {
    BlockWriter::Block block;
    block.located = located(5, 50, 3);
    block.is_replaceable = !again;
    if (again) {
      block.stage = close ? WriteStage::kCloseRecovery : WriteStage::kSetupAppend;
      block.located.block.length = block.released_length = 100;
    }
    return block;
  }
  // One whose 100 bytes were synced by packet 0.
  BlockWriter::Block synced_block() {
    shared.packets.push_empty(PacketQueue::Kind::kSync, true, 0, 100);
    shared.packets.drop_oldest();
    BlockWriter::Block synced = block(true);
    synced.stage = WriteStage::kSetupStreamingRecovery;
    synced.is_synced = true;
    return synced;
  }

  void put(std::size_t bytes) {
    std::vector<stream::Packet> sealed;
    packetizer.append(hflush::testing::pattern(bytes), sealed);
    packetizer.cut(stream::Cut::kFinal, sealed);
    for (stream::Packet& packet : sealed) shared.packets.push_data(std::move(packet), 0);
    written += bytes;
    release();
  }
  void put_last() {
    shared.packets.push_empty(PacketQueue::Kind::kLast, false, 0, written);
    release();
  }
  void release() {
    if (writer) writer->release(now);
  }
  std::string send_all() {
    std::string sent;
    std::vector<ByteView> pieces(10);
    while (const std::size_t count = writer->output(pieces)) {
      std::size_t bytes = 0;
      for (std::size_t i = 0; i < count; ++i) {
        sent += as_text(pieces[i]);
        bytes += pieces[i].size();
      }
      writer->sent(bytes, now);
    }
    return sent;
  }
  // All nodes are asked twice, and the second one is silent.
  BlockWriter::Outcome probe() {
    BlockWriter::Outcome outcome = BlockWriter::Continues{};
    release();
    for (const env::Duration later : {3000ms, 1500ms, 1500ms}) {
      now += later;
      outcome = writer->tick(now, actions);
      writer->replica_answered(shared.last_question, 0, std::int64_t{0});
      writer->replica_answered(shared.last_question, 2, std::int64_t{0});
    }
    std::erase_if(actions, [](const Action& action) {
      return std::holds_alternative<action::AskReplicas>(action) ||
             std::holds_alternative<action::DropQuestions>(action);
    });
    return outcome;
  }
  BlockWriter::Outcome ack(std::int64_t number, NodeReplies replies) {
    BlockWriter::Outcome outcome = writer->acked({number, std::move(replies)}, now, actions);
    if (std::holds_alternative<BlockWriter::Continues>(outcome)) release();
    return outcome;
  }

  BufferPool pool{0};
  WriteStream shared;
  stream::Packetizer packetizer;
  env::TimePoint now = env::TimePoint(1h);
  Actions actions;
  std::size_t written = 0;
  std::optional<BlockWriter> writer;
};

constexpr auto kGood = TransferStatus::kSuccess;

std::unique_ptr<BlockHarness> block_in(const std::string& state,
                                       const WriteSettings& settings = patient()) {
  const bool close = state.ends_with("close");
  const bool synced = state.ends_with("synced") || state == "syncing";
  const bool again =
      close || synced || state.ends_with("again") || state == "reserving" || state == "registering";
  auto h = std::make_unique<BlockHarness>(again ? append_target() : small_target(), settings);
  h->written = again ? 100 : 0;
  const BlockWriter::Block block = synced ? h->synced_block() : BlockHarness::block(again, close);
  if (close) {
    h->put_last();
  } else {
    h->put(300);
  }
  h->begin(block);
  const auto advance = [&] {
    if (state == "reserving") return;
    if (again) static_cast<void>(h->writer->reserved(located(5, 51, 0), h->actions));
    if (state.starts_with("connecting")) return;
    h->writer->connected(h->now);
    static_cast<void>(h->send_all());
    if (state.starts_with("setting up")) return;
    static_cast<void>(h->writer->replied({}, h->now, h->actions));
    h->release();
    static_cast<void>(h->send_all());
    if (state == "draining" || state == "ending") h->put_last();
    if (state == "ending") static_cast<void>(h->ack(0, {kGood, kGood, kGood}));
    static_cast<void>(h->send_all());
  };
  advance();
  h->actions.clear();
  REQUIRE(state.starts_with(to_string(h->writer->state())));
  return h;
}

using BlockEvents = std::map<std::string, std::function<BlockWriter::Outcome(BlockHarness&)>>;

const BlockEvents& block_events() {
  const auto oldest = [](const BlockHarness& h) {
    return h.shared.packets.oldest().sequence_number;
  };
  static const BlockEvents events = {
      {"a packet is put",
       [](BlockHarness& h) {
         h.put(100);
         return BlockWriter::Continues{};
       }},
      {"the block's last packet is put",
       [](BlockHarness& h) {
         h.put_last();
         return BlockWriter::Continues{};
       }},
      {"the block's last packet is put: all others are acknowledged",
       [](BlockHarness& h) -> BlockWriter::Outcome {
         if (h.writer->state() == BlockWriter::State::kStreaming) {
           static_cast<void>(h.ack(0, {kGood, kGood, kGood}));
           h.put_last();
         }
         return BlockWriter::Continues{};
       }},
      {"updateBlockForPipeline: a stamp",
       [](BlockHarness& h) { return h.writer->reserved(located(5, 51, 0), h.actions); }},
      {"updateBlockForPipeline: a stamp for no node",
       [](BlockHarness& h) {
         if (h.writer->state() == BlockWriter::State::kReserving) {
           BlockWriter::Block block = BlockHarness::block(true);
           block.located.replicas.clear();
           h.begin(block);
           h.actions.clear();
         }
         return h.writer->reserved(located(5, 51, 0), h.actions);
       }},
      {"updateBlockForPipeline: refused",
       [](BlockHarness& h) { return h.writer->reserved(kRefused, h.actions); }},
      {"connected",
       [](BlockHarness& h) {
         h.writer->connected(h.now);
         return BlockWriter::Continues{};
       }},
      {"the DataNode accepts",
       [](BlockHarness& h) { return h.writer->replied({}, h.now, h.actions); }},
      {"the DataNode refuses",
       [](BlockHarness& h) {
         return h.writer->replied(
             {TransferStatus::kErrorAccessToken, "10.0.0.3:9866", "", {}, 0, {}}, h.now, h.actions);
       }},
      {"updatePipeline: done",
       [](BlockHarness& h) { return h.writer->registered({}, h.now, h.actions); }},
      {"updatePipeline: done after a fault",
       [](BlockHarness& h) {
         if (h.writer->state() == BlockWriter::State::kRegistering) {
           const auto outcome = h.writer->connection_lost(kRefused, h.actions);
           CHECK(std::holds_alternative<BlockWriter::Continues>(outcome));
         }
         return h.writer->registered({}, h.now, h.actions);
       }},
      {"updatePipeline: refused",
       [](BlockHarness& h) { return h.writer->registered(kRefused, h.now, h.actions); }},
      {"ack of the oldest packet",
       [=](BlockHarness& h) { return h.ack(oldest(h), {kGood, kGood, kGood}); }},
      {"ack of the sync",
       [](BlockHarness& h) -> BlockWriter::Outcome {
         if (h.writer->state() != BlockWriter::State::kSyncing) return BlockWriter::Continues{};
         return h.ack(0, {kGood, kGood, kGood});
       }},
      {"ack of a heartbeat",
       [](BlockHarness& h) { return h.ack(PipelineAck::kHeartbeat, {kGood, kGood, kGood}); }},
      {"ack with an error",
       [](BlockHarness& h) { return h.ack(-2, {kGood, TransferStatus::kError}); }},
      {"of another packet", [](BlockHarness& h) { return h.ack(77, {kGood, kGood, kGood}); }},
      {"of fewer nodes", [=](BlockHarness& h) { return h.ack(oldest(h), {kGood, kGood}); }},
      {"of a restart", [](BlockHarness& h) { return h.ack(-2, {TransferStatus::kOobRestart}); }},
      {"the connection is lost",
       [](BlockHarness& h) { return h.writer->connection_lost(kRefused, h.actions); }},
      {"no connection can be made for want of descriptors",
       [](BlockHarness& h) -> BlockWriter::Outcome {
         if (h.writer->state() != BlockWriter::State::kConnecting) return BlockWriter::Continues{};
         return h.writer->connection_lost(kNoDescriptor, h.actions);
       }},
      {"silence",
       [](BlockHarness& h) {
         h.now += 1h;
         return h.writer->tick(h.now, h.actions);
       }},
      {"a silent DataNode is found", [](BlockHarness& h) { return h.probe(); }},
  };
  return events;
}

// As the page calls it: the outcome, or the state in which the block writer continues.
std::string_view what_of(const BlockWriter::Outcome& outcome, const BlockWriter& writer) {
  constexpr auto kNames =
      std::to_array<std::string_view>({"", "ended", "not built", "broken", "refused"});
  return outcome.index() == 0 ? to_string(writer.state()) : kNames[outcome.index()];
}

TEST_CASE("every event in every state of a block: as the page's table says") {
  const PageTable table = page_table("hdfs-client.md", "### BlockWriter");
  const auto check = [](const std::string& name, const std::string& state,
                        const std::string& cell) {
    const std::unique_ptr<BlockHarness> h = block_in(state, WriteSettings());
    const std::string_view before = to_string(h->writer->state());
    const BlockWriter::Outcome outcome = block_events().at(name)(*h);
    const bool closes = cell.starts_with("closed; ");
    const std::string expected = closes ? cell.substr(cell.find(' ') + 1) : cell;
    const bool remains = expected == "–" || expected == "stays";
    CHECK(what_of(outcome, *h->writer) == (remains ? before : expected));
    if (cell == "–") CHECK(h->actions.empty());
    // Its connection is closed when it has ended.
    const bool has_connection = state != "reserving" && state != "registering, close";
    const bool is_closed = std::ranges::any_of(h->actions, [](const Action& action) {
      return std::holds_alternative<action::Disconnect>(action);
    });
    CHECK(is_closed == (closes || (has_connection && outcome.index() != 0)));
    if (outcome.index() != 0) CHECK(std::ssize(h->actions) == (has_connection ? 1 : 0));
  };
  for_each_cell(table, block_events(), check);
  CHECK(table.columns.size() == 13);
}

TEST_CASE("a block that is broken is a value, from which another block writer goes on") {
  const auto breaks = [](BlockHarness& h) {
    BlockWriter::Outcome outcome = h.writer->connection_lost(kRefused, h.actions);
    auto* const broken = std::get_if<BlockWriter::Broken>(&outcome);
    REQUIRE(broken != nullptr);
    return std::move(*broken);
  };
  CHECK(breaks(*block_in("connecting, again")).block.stage == WriteStage::kSetupAppendRecovery);
  CHECK(breaks(*block_in("draining")).block.stage == WriteStage::kSetupStreamingRecovery);
  CHECK_FALSE(breaks(*block_in("draining")).block.is_ending);
  CHECK(breaks(*block_in("ending")).block.stage == WriteStage::kCloseRecovery);
  CHECK(breaks(*block_in("ending")).block.is_ending);

  const std::unique_ptr<BlockHarness> h = block_in("streaming");
  h->put(100);
  h->put(100);
  const std::string first = h->send_all();
  CHECK(std::holds_alternative<BlockWriter::Continues>(h->ack(0, {kGood, kGood, kGood})));
  BlockWriter::Outcome outcome = h->ack(1, {kGood, TransferStatus::kError});
  auto* const broken = std::get_if<BlockWriter::Broken>(&outcome);
  REQUIRE(broken != nullptr);
  CHECK(broken->node == 1);
  CHECK(broken->fault.message() == "answered [SUCCESS, ERROR] to packet 1 where 1 is the oldest");
  CHECK(broken->block.located.block.length == 300);
  CHECK(broken->block.released_length == 500);
  CHECK(broken->block.stage == WriteStage::kSetupStreamingRecovery);
  h->writer.reset();
  h->put(50);  // the stream goes on meanwhile

  BlockWriter::Block block = std::move(broken->block);
  block.located.replicas.erase(block.located.replicas.begin() + 1);
  h->actions.clear();
  h->begin(block);
  REQUIRE(std::get_if<action::UpdateBlockForPipeline>(&h->actions.at(0)) != nullptr);
  static_cast<void>(h->writer->reserved(located(5, 52, 0), h->actions));
  const auto* const connect = std::get_if<action::Connect>(&h->actions.at(1));
  REQUIRE(connect != nullptr);
  CHECK(connect->connection == h->writer->number());
  h->writer->connected(h->now);
  // The old stamp, two nodes, acknowledged, released, the new stamp; stage 3.
  CHECK(hex(h->send_all()).find(hex(unhex("2003 2802 30ac02 38f403 4034"))) != std::string::npos);
  static_cast<void>(h->writer->replied({}, h->now, h->actions));
  h->release();
  CHECK(h->send_all().empty());
  const auto* const update = std::get_if<action::UpdatePipeline>(&h->actions.at(2));
  REQUIRE(update != nullptr);
  CHECK(update->new_block.generation_stamp == 52);
  CHECK(update->new_block.length == 300);
  CHECK(update->replicas.size() == 2);
  static_cast<void>(h->writer->registered({}, h->now, h->actions));
  h->release();
  const std::string again = h->send_all();
  CHECK(again.starts_with(first));  // the same bytes
  CHECK(again.size() > first.size());
  for (const std::int64_t number : {1, 2, 3, 4}) {  // 50 bytes across the end of a chunk are two
    CHECK(std::holds_alternative<BlockWriter::Continues>(h->ack(number, {kGood, kGood})));
  }
  CHECK(h->writer->located().block.length == 550);
}

TEST_CASE("golden: the nodes of a new pipeline sync before the NameNode knows them") {
  const std::unique_ptr<BlockHarness> h = block_in("setting up, synced");
  CHECK(std::holds_alternative<BlockWriter::Continues>(h->writer->replied({}, h->now, h->actions)));
  CHECK(h->actions.empty());
  // Number 0 again, at byte 100, without data.
  h->release();
  CHECK(hex(h->send_all()) ==
        hex(unhex("00000004 001b 09 6400000000000000 11 0000000000000000 1800 25 00000000 2801")));
  CHECK(*h->writer->deadline() == h->now + 30s);
  h->now += 30s;
  static_cast<void>(h->writer->tick(h->now, h->actions));
  CHECK(h->send_all().size() == 31);  // a heartbeat
  CHECK(*h->writer->deadline() == h->now + 30s);
  CHECK(std::holds_alternative<BlockWriter::Continues>(h->ack(0, {kGood, kGood, kGood})));
  const auto update = take_from<action::UpdatePipeline>(h->actions);
  REQUIRE(update);
  CHECK(update->new_block.length == 100);
  CHECK(h->send_all().empty());
  static_cast<void>(h->writer->registered({}, h->now, h->actions));
  h->release();
  CHECK_FALSE(h->send_all().empty());
  CHECK(std::holds_alternative<BlockWriter::Continues>(h->ack(1, {kGood, kGood, kGood})));
  CHECK(h->writer->located().block.length == 400);
}

TEST_CASE("a sync of the set-up that fails is a pipeline that stood and broke") {
  const auto blames = [](NodeReplies replies, std::int64_t number) {
    const std::unique_ptr<BlockHarness> h = block_in("syncing");
    h->shared.recoveries.since_ack = 3;
    BlockWriter::Outcome outcome = h->writer->acked({number, replies}, h->now, h->actions);
    auto* const broken = std::get_if<BlockWriter::Broken>(&outcome);
    REQUIRE(broken != nullptr);
    CHECK(broken->stood);
    CHECK(broken->block.is_synced);
    CHECK(broken->block.stage == WriteStage::kSetupStreamingRecovery);
    CHECK(broken->block.located.block.generation_stamp == 50);
    CHECK(h->shared.recoveries.since_ack == 3);
    return broken->node;
  };
  CHECK(blames({kGood, TransferStatus::kError}, 0) == 1);
  CHECK(blames({kGood, kGood}, 0) == 2);
  CHECK(blames({kGood, kGood, kGood}, 1) == 0);
  // Its acknowledgement is no sign that packets get through.
  const std::unique_ptr<BlockHarness> h = block_in("syncing");
  h->shared.recoveries.since_ack = 3;
  static_cast<void>(h->ack(0, {kGood, kGood, kGood}));
  CHECK(h->shared.recoveries.since_ack == 3);
  // It cannot be acknowledged before it is sent.
  const std::unique_ptr<BlockHarness> early = block_in("setting up, synced");
  static_cast<void>(early->writer->replied({}, early->now, early->actions));
  CHECK(std::holds_alternative<BlockWriter::Broken>(early->ack(0, {kGood, kGood, kGood})));
}

TEST_CASE("HDFS-9: only the acknowledgement of every node counts") {
  const auto blames = [](NodeReplies replies, std::int64_t number) {
    const std::unique_ptr<BlockHarness> h = block_in("streaming");
    BlockWriter::Outcome outcome = h->writer->acked({number, replies}, h->now, h->actions);
    auto* const broken = std::get_if<BlockWriter::Broken>(&outcome);
    REQUIRE(broken != nullptr);
    CHECK(broken->block.located.block.length == 0);
    CHECK(broken->block.describe() ==
          "blk_5_50, 0 bytes acknowledged and 300 sent, pipeline [10.0.0.1:9866, 10.0.0.2:9866, "
          "10.0.0.3:9866]");
    CHECK(broken->fault.message().find("answered [") == 0);
    CHECK(broken->stood);
    const bool restarts = replies[replies.size() - 1] == TransferStatus::kOobRestart;
    CHECK(broken->failure ==
          (restarts ? BlockWriter::Failure::kRestart : BlockWriter::Failure::kFault));
    return broken->node;
  };
  constexpr auto kBad = TransferStatus::kError;
  CHECK(blames({kGood, kGood}, 0) == 2);  // too short
  CHECK(blames({kGood, kGood, kGood, kGood}, 0) == 0);
  CHECK(blames({kBad, kGood, kBad}, 0) == 2);  // furthest down first
  CHECK(blames({kGood, kBad}, -2) == 1);
  CHECK(blames({kGood, kGood, kGood}, 1) == 0);  // not the oldest
  CHECK(blames({kGood, kGood, kGood}, -2) == 0);
  CHECK(blames({kGood, TransferStatus::kOobRestart}, -2) == 1);
  CHECK(blames({TransferStatus::kErrorChecksum}, 0) == 0);
}

TEST_CASE("a node that says so in ten acks running is slow, and leaves a pipeline of several") {
  const auto ack = [](BlockHarness& h, std::uint64_t slow, NodeReplies replies) {
    PipelineAck heartbeat{PipelineAck::kHeartbeat, std::move(replies)};
    heartbeat.slow = slow;
    return h.writer->acked(heartbeat, h.now, h.actions);
  };
  const std::unique_ptr<BlockHarness> h = block_in("streaming");
  const NodeReplies all{kGood, kGood, kGood};
  for (const std::uint64_t between : {0U, 1U}) {  // another one, or none
    for (int i = 0; i < 9; ++i) {
      CHECK(std::holds_alternative<BlockWriter::Continues>(ack(*h, 4, all)));
    }
    CHECK(std::holds_alternative<BlockWriter::Continues>(ack(*h, between, all)));
  }
  for (int i = 0; i < 9; ++i) {
    CHECK(std::holds_alternative<BlockWriter::Continues>(ack(*h, 4, all)));
  }
  // The ack counts all the same.
  PipelineAck tenth{0, all};
  tenth.slow = 4;
  const BlockWriter::Outcome outcome = h->writer->acked(tenth, h->now, h->actions);
  const auto* const broken = std::get_if<BlockWriter::Broken>(&outcome);
  REQUIRE(broken != nullptr);
  CHECK(broken->node == 2);
  CHECK(broken->block.located.block.length == 300);
  CHECK(broken->fault.message() == "is slow, as it said in 10 acks running");
  CHECK(broken->failure == BlockWriter::Failure::kSlow);

  const std::unique_ptr<BlockHarness> tolerant = block_in("streaming");
  tolerant->shared.recoveries.tolerated = {"10.0.0.3:9866"};
  for (int i = 0; i < 30; ++i) {
    CHECK(std::holds_alternative<BlockWriter::Continues>(ack(*tolerant, 4, all)));
  }

  BlockHarness alone;
  BlockWriter::Block block = BlockHarness::block(false);
  block.located.replicas.resize(1);
  alone.begin(block);
  alone.writer->connected(alone.now);
  static_cast<void>(alone.send_all());
  static_cast<void>(alone.writer->replied({}, alone.now, alone.actions));
  for (int i = 0; i < 30; ++i) {
    CHECK(std::holds_alternative<BlockWriter::Continues>(ack(alone, 1, {kGood})));
  }
}

TEST_CASE("HDFS-10: the nodes end the block in a close recovery; no packet is sent") {
  const std::unique_ptr<BlockHarness> h = block_in("setting up, close");
  CHECK(h->shared.packets.size() == 1);
  static_cast<void>(h->writer->replied({}, h->now, h->actions));
  h->release();
  std::vector<ByteView> pieces(2);
  CHECK(h->writer->output(pieces) == 0);
  const BlockWriter::Outcome outcome = h->writer->registered({}, h->now, h->actions);
  const auto* const ended = std::get_if<BlockWriter::Ended>(&outcome);
  REQUIRE(ended != nullptr);
  CHECK(ended->block.located.block.generation_stamp == 51);
  CHECK(ended->block.located.block.length == 100);
  CHECK_FALSE(ended->synced);
  CHECK(h->shared.packets.empty());
  CHECK(h->shared.packets.acknowledged_sequence_number() == 0);
}

TEST_CASE("a packet that has not gone out completely cannot be acknowledged") {
  Harness h;
  h.write(1000);
  h.machine.allocated(located(1, 10, 3), h.now, h.actions);
  const ConnectionNumber connection = h.pipeline();
  h.machine.connected(connection, h.now);
  static_cast<void>(h.send_all());
  h.machine.replied(connection, {}, h.now, h.actions);
  std::vector<ByteView> pieces(4);
  REQUIRE(h.machine.output(connection, pieces) == 1);
  h.machine.sent(connection, pieces[0].size() - 1, h.now);
  h.ack(0);
  CHECK(h.block_is(BlockWriter::State::kReserving));  // without that node
}

TEST_CASE("output: what was sent in part goes on where it stopped") {
  Harness h;
  h.write(3000);
  h.machine.allocated(located(1, 10, 1), h.now, h.actions);
  const ConnectionNumber connection = h.pipeline();
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

TEST_CASE("the last packet waits for every ack, and the next block's packets for the last one") {
  Harness h;
  h.write(4096 + 10);
  h.build(located(1, 10, 3));
  CHECK(h.machine.counters().packets_sent == 4);
  CHECK(h.block_is(BlockWriter::State::kDraining));
  for (const std::int64_t number : {0, 1, 2}) {
    h.ack(number);
    CHECK(h.machine.counters().packets_sent == 4);
  }
  h.ack(3);
  CHECK(h.machine.counters().packets_sent == 5);
  CHECK(h.block_is(BlockWriter::State::kEnding));
  h.ack(4);
  CHECK(h.machine.counters().packets_sent == 5);
  CHECK(h.machine.state() == FileWriter::State::kAllocating);
}

TEST_CASE("an append whose pipeline cannot be built names the node; the block is not abandoned") {
  WriteSettings settings;
  settings.locate_following_block_retries = 0;
  Harness h(append_target(), settings);
  h.write(10);
  h.machine.reserved(located(5, 51, 0), h.now, h.actions);
  h.machine.connection_lost(h.pipeline(), kRefused, h.now, h.actions);
  CHECK_FALSE(h.has<action::AbandonBlock>());
  CHECK(h.take<action::GetAdditionalDatanode>()->replicas.size() == 2);
  h.machine.found(located(5, 50, 2), h.now, h.actions);
  const auto failed = h.take<action::Failed>();
  REQUIRE(failed);
  CHECK(failed->failure.message().find("10.0.0.1:9866") != std::string::npos);
  CHECK(failed->failure.message().find("blk_5_50, 100 bytes") != std::string::npos);
}

TEST_CASE("what this process or machine has run out of is no fault of a DataNode") {
  for (const int error : {EMFILE, ENFILE, ENOMEM, ENOBUFS, EADDRNOTAVAIL}) {
    CAPTURE(error);
    const std::unique_ptr<BlockHarness> h = block_in("connecting, new");
    const BlockWriter::Outcome outcome = h->writer->connection_lost(
        Status::from_errno(error, "connect to 10.0.0.1:9866", {}), h->actions);
    const auto* const refused = std::get_if<BlockWriter::Refused>(&outcome);
    REQUIRE(refused != nullptr);
    CHECK(refused->why.error_number() == error);
    CHECK(refused->why.message().find("ports of this machine") != std::string::npos);
  }
}

TEST_CASE("an append to a block that no DataNode has") {
  WriteTarget target = append_target();
  target.partial_block->replicas.clear();
  Harness h(target);
  h.write(10);
  h.machine.reserved(located(5, 51, 0), h.now, h.actions);
  CHECK(h.take<action::Failed>()->failure.message() ==
        "append: no DataNode has the last block, blk_5_50");
}

TEST_CASE("HDFS-18: heartbeats keep an idle pipeline, and their acks count as life") {
  WriteSettings settings = patient();
  settings.locate_following_block_retries = 0;
  Harness h(small_target(), settings);
  h.open_block(10, located(1, 10, 3));
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
  for (int i = 0; i < 4; ++i) {  // nobody answers any more: the first heartbeat that is due
    h.now = *h.machine.deadline();
    h.machine.tick(h.now, h.actions);
    static_cast<void>(h.send_all());
  }
  REQUIRE(h.has<action::GetAdditionalDatanode>());
  h.machine.found(located(1, 10, 2), h.now, h.actions);
  const auto failed = h.take<action::Failed>();
  REQUIRE(failed);
  CHECK(failed->failure.message().find("did not answer for 75.0 s") != std::string::npos);
  CHECK(failed->failure.code() == StatusCode::kPipeline);
  CHECK(failed->failure.error_number() == ETIMEDOUT);
}

TEST_CASE("silence begins with what was sent last, not with an idle time before it") {
  Harness h;
  h.open_block(10, located(1, 10, 3));
  h.now += 10s;
  h.flush(Level::kVisible, 20);
  static_cast<void>(h.send_all());
  // By then the first DataNode, which waits 70 s from the same packet on, has said who is silent.
  h.now += 75s - 1ms;
  h.machine.tick(h.now, h.actions);
  static_cast<void>(h.send_all());  // a heartbeat
  CHECK_FALSE(h.has<action::GetAdditionalDatanode>());
  h.now += 1ms;
  h.machine.tick(h.now, h.actions);
  CHECK(h.has<action::GetAdditionalDatanode>());
}

TEST_CASE("a process that was stopped asks an idle pipeline by a heartbeat before it is silent") {
  Harness h;
  h.open_block(10, located(1, 10, 3));
  h.now += 10min;
  h.machine.tick(h.now, h.actions);
  CHECK(h.send_all().size() == 31);  // a heartbeat
  CHECK(h.block_is(BlockWriter::State::kStreaming));
  h.now += 75s - 1ms;
  h.machine.tick(h.now, h.actions);
  static_cast<void>(h.send_all());
  CHECK(h.block_is(BlockWriter::State::kStreaming));
  h.now += 1ms;
  h.machine.tick(h.now, h.actions);
  CHECK(h.has<action::GetAdditionalDatanode>());
}

TEST_CASE("silence of a pipeline that was repaired begins with what is sent on it") {
  WriteSettings settings = patient();
  settings.replacement_policy = ReplacementPolicy::kNever;
  Harness h(small_target(), settings);
  h.open_block(10, located(1, 10, 3));
  h.machine.connection_lost(h.pipeline(), kRefused, h.now, h.actions);
  h.machine.reserved(located(1, 11, 0), h.now, h.actions);
  CHECK(h.set_up().empty());
  h.machine.registered({}, h.now, h.actions);
  h.actions.clear();
  h.now += 15s;
  h.flush(Level::kVisible, 20);
  static_cast<void>(h.send_all());
  h.now += 70s - 1ms;  // two nodes are left
  h.machine.tick(h.now, h.actions);
  static_cast<void>(h.send_all());
  CHECK(h.block_is(BlockWriter::State::kStreaming));
  h.now += 1ms;
  h.machine.tick(h.now, h.actions);
  CHECK(h.block_is(BlockWriter::State::kReserving));
  CHECK(h.machine.failures().faults().find("did not answer for 70.0 s") != std::string::npos);
}

TEST_CASE("heartbeats keep a pipeline while the NameNode is asked to register it") {
  const auto h = block_in("registering");
  for (int i = 0; i < 4; ++i) {
    REQUIRE(h->writer->deadline());
    CHECK(*h->writer->deadline() == h->now + 30s);
    h->now += 30s;
    static_cast<void>(h->writer->tick(h->now, h->actions));
    CHECK(h->send_all().size() == 31);
    static_cast<void>(h->ack(PipelineAck::kHeartbeat, {kGood, kGood, kGood}));
    CHECK(h->writer->state() == BlockWriter::State::kRegistering);
  }
  static_cast<void>(h->writer->registered({}, h->now, h->actions));
  CHECK(h->writer->state() == BlockWriter::State::kStreaming);
}

TEST_CASE("what was found by asking is a node that may be there again, or only a link") {
  const std::unique_ptr<BlockHarness> h = block_in("streaming", WriteSettings());
  const BlockWriter::Outcome outcome = h->probe();
  const auto* const broken = std::get_if<BlockWriter::Broken>(&outcome);
  REQUIRE(broken != nullptr);
  CHECK(broken->node == 1);
  CHECK(broken->failure == BlockWriter::Failure::kSilence);
  CHECK(broken->fault.message().find("did not answer getReplicaVisibleLength") == 0);
  CHECK(h->shared.counters.silence_probes == 1);
  CHECK(h->shared.counters.found_silent == 1);

  // They have all acknowledged it, so that only the acks are lost.
  const std::unique_ptr<BlockHarness> lost = block_in("streaming", WriteSettings());
  BlockWriter::Outcome cut = BlockWriter::Continues{};
  for (const env::Duration later : {3000ms, 1500ms, 1500ms}) {
    lost->now += later;
    cut = lost->writer->tick(lost->now, lost->actions);
    for (const std::size_t node : {0U, 1U, 2U}) {
      lost->writer->replica_answered(lost->shared.last_question, node, std::int64_t{300});
    }
  }
  REQUIRE(std::holds_alternative<BlockWriter::Broken>(cut));
  CHECK(std::get<BlockWriter::Broken>(cut).failure == BlockWriter::Failure::kLostConnection);
}

TEST_CASE("bytes that an earlier pipeline may have brought prove nothing against a DataNode") {
  BlockHarness h(small_target(), WriteSettings());
  h.put(300);
  BlockWriter::Block block = BlockHarness::block(true);
  block.stage = WriteStage::kSetupStreamingRecovery;
  block.located.block.length = 0;
  block.released_length = 300;
  h.begin(block);
  static_cast<void>(h.writer->reserved(located(5, 51, 0), h.actions));
  h.writer->connected(h.now);
  static_cast<void>(h.send_all());
  static_cast<void>(h.writer->replied({}, h.now, h.actions));
  static_cast<void>(h.writer->registered({}, h.now, h.actions));
  h.release();
  static_cast<void>(h.send_all());
  const auto last_one_has = [&h](std::int64_t length) {
    BlockWriter::Outcome outcome = BlockWriter::Continues{};
    for (const env::Duration later : {3000ms, 1500ms, 1500ms}) {
      h.now += later;
      outcome = h.writer->tick(h.now, h.actions);
      h.writer->replica_answered(h.shared.last_question, 0, std::int64_t{0});
      h.writer->replica_answered(h.shared.last_question, 1, std::int64_t{0});
      h.writer->replica_answered(h.shared.last_question, 2, length);
    }
    return outcome;
  };
  CHECK(std::holds_alternative<BlockWriter::Continues>(last_one_has(300)));
  CHECK(h.shared.counters.silence_probes == 1);

  static_cast<void>(h.ack(0, {kGood, kGood, kGood}));
  h.put(100);
  static_cast<void>(h.send_all());
  const BlockWriter::Outcome outcome = last_one_has(400);
  const auto* const broken = std::get_if<BlockWriter::Broken>(&outcome);
  REQUIRE(broken != nullptr);
  CHECK(broken->node == 1);
}

TEST_CASE("DataNodes are asked of packets that are out, and no more once the pipeline answers") {
  const auto asks = [](BlockHarness& h) {
    static_cast<void>(h.writer->tick(h.now, h.actions));
    return take_from<action::AskReplicas>(h.actions).has_value();
  };
  const std::unique_ptr<BlockHarness> h = block_in("streaming", WriteSettings());
  h->now += 3s - 1ms;
  CHECK_FALSE(asks(*h));
  static_cast<void>(h->ack(PipelineAck::kHeartbeat, {kGood, kGood, kGood}));
  h->now += 1ms;
  CHECK_FALSE(asks(*h));
  CHECK(*h->writer->deadline() == h->now + 3s - 1ms);
  h->now += 3s;
  CHECK(asks(*h));
  static_cast<void>(h->ack(PipelineAck::kHeartbeat, {kGood, kGood, kGood}));
  CHECK(take_from<action::DropQuestions>(h->actions));
  h->now += 1500ms;
  CHECK_FALSE(asks(*h));
  h->now += 1500ms;
  CHECK(asks(*h));
  // Nothing is owed: the time since then is no silence.
  static_cast<void>(h->ack(0, {kGood, kGood, kGood}));
  CHECK(take_from<action::DropQuestions>(h->actions));
  h->now += 10s;
  CHECK_FALSE(asks(*h));
  h->put(100);
  static_cast<void>(h->send_all());
  CHECK(*h->writer->deadline() == h->now + 3s);
  h->now += 3s;
  CHECK(asks(*h));
  h->writer->close(h->actions);
  CHECK(take_from<action::DropQuestions>(h->actions));
}

TEST_CASE("the last attempt at a new block is as patient as Hadoop's") {
  WriteSettings settings;
  settings.block_write_retries = 1;
  Harness h(small_target(), settings);
  h.write(1000);
  for (const bool is_last : {false, true}) {
    h.machine.allocated(located(1, 10, 3), h.now, h.actions);
    h.machine.connected(h.pipeline(), h.now);
    static_cast<void>(h.send_all());
    CHECK(*h.machine.deadline() == h.now + (is_last ? 75s : 3s));
    for (const env::Duration later : {3000ms, 1500ms, 1500ms}) {
      h.now += later;
      h.machine.tick(h.now, h.actions);
      const auto question = h.take<action::AskReplicas>();
      if (question) h.machine.replica_answered(question->question, 0, kRefused);
    }
    CHECK((h.machine.state() == FileWriter::State::kAbandoning) == !is_last);
    if (!is_last) h.machine.block_abandoned({}, h.now, h.actions);
  }
  CHECK(h.block_is(BlockWriter::State::kSettingUp));
}

TEST_CASE("recoveries are counted from the last sign that an idle pipeline stands") {
  const auto h = block_in("streaming");
  h->shared.recoveries.since_ack = 5;
  static_cast<void>(h->ack(PipelineAck::kHeartbeat, {kGood, kGood, kGood}));
  CHECK(h->shared.recoveries.since_ack == 5);  // a packet is not acknowledged
  static_cast<void>(h->ack(h->shared.packets.oldest().sequence_number, {kGood, kGood, kGood}));
  h->shared.recoveries.since_ack = 5;
  static_cast<void>(h->ack(PipelineAck::kHeartbeat, {kGood, kGood, kGood}));
  CHECK(h->shared.recoveries.since_ack == 0);
}

TEST_CASE("HDFS-23: a congested ack holds the next packets back, and heartbeats go on") {
  WriteSettings settings = patient();
  settings.congestion_backoff_mean = 60s;
  settings.congestion_backoff_max = 80s;
  Harness h(small_target(), settings);
  h.write(512);
  h.build(located(1, 10, 1));
  const auto ack = [&h](std::int64_t number, bool congested) {
    PipelineAck acknowledgement;
    acknowledgement.sequence_number = number;
    acknowledgement.replies = {TransferStatus::kSuccess};
    acknowledgement.congested = congested;
    h.machine.acked(h.pipeline(), acknowledgement, h.now, h.actions);
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
  REQUIRE(h.block_is(BlockWriter::State::kStreaming));

  ack(PipelineAck::kHeartbeat, false);
  SUBCASE("close waits as well") {
    h.machine.finish(h.now, h.actions);
    CHECK(h.send_all().empty());
    CHECK(h.machine.counters().congestion_delays == 9);
  }
  SUBCASE("an abandoned stream does not") {
    h.write(100);
    h.machine.abandon(h.now, h.actions);
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
  const ConnectionNumber connection = h.pipeline();
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
  CHECK(h.block_is(BlockWriter::State::kReserving));
}

TEST_CASE("no timeout means none, and heartbeats are sent all the same") {
  WriteSettings settings = patient();
  settings.socket_timeout = settings.socket_write_timeout = env::kNoTimeout;
  settings.excluded_nodes_expiry = env::kNoTimeout;
  Harness h(small_target(), settings);
  h.write(1000);
  h.machine.allocated(located(1, 10, 3), h.now, h.actions);
  CHECK(h.take<action::Connect>()->timeout == env::kNoTimeout);
  h.machine.connected(h.pipeline(), h.now);
  CHECK_FALSE(h.machine.deadline());
  h.machine.connection_lost(h.pipeline(), kRefused, h.now, h.actions);
  h.machine.block_abandoned({}, h.now, h.actions);
  h.build(located(2, 11, 3));
  CHECK(*h.machine.deadline() == h.now + 30s);
}

TEST_CASE("a packet that is never acknowledged breaks a pipeline though heartbeats are answered") {
  Harness h;
  h.write(1000);
  h.build(located(1, 10, 3));
  const env::TimePoint sent_at = h.now;
  while (h.block_is(BlockWriter::State::kStreaming)) {
    h.now = *h.machine.deadline();
    h.machine.tick(h.now, h.actions);
    static_cast<void>(h.send_all());
    if (h.block_is(BlockWriter::State::kStreaming)) h.ack(PipelineAck::kHeartbeat);
  }
  CHECK(h.now - sent_at == 495s);
}

TEST_CASE("DROP-1: the setting is in the next pipeline's operation") {
  for (const std::optional<bool> value :
       {std::optional<bool>(), std::optional(true), std::optional(false)}) {
    Harness h;
    h.machine.set_drop_behind(value);
    h.write(10);
    h.machine.allocated(located(1, 10, 1), h.now, h.actions);
    h.machine.connected(h.pipeline(), h.now);
    const std::string sent = hex(h.send_all());
    CHECK((sent.find("52020801") != std::string::npos) == (value == true));
    CHECK((sent.find("52020800") != std::string::npos) == (value == false));
    CHECK((sent.find("5200") != std::string::npos) == !value.has_value());
  }
}

}  // namespace
}  // namespace hflush::hdfs
