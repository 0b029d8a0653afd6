// The writer of a file, walked without a cluster: golden conversations, every event in every state,
// and the talk with the NameNode.
#include "hflush/hdfs/write/file_writer.h"

#include <doctest/doctest.h>

#include <cerrno>
#include <functional>
#include <map>
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
using stream::Cut;
using stream::Level;

// --- golden conversations (DataTransfer of 16.2 and 16.3 in the protocol's description)

constexpr std::string_view kPool =
    "42502d313838333134323032392d3132372e302e302e312d31373935323436323836343336";
constexpr std::string_view kStorage =
    "44532d66396239646663312d383736372d343232352d396431652d643462646539363832336438";

LocatedBlock golden_block(std::uint64_t stamp, std::uint64_t length) {
  LocatedBlock block;
  block.block = {unhex(kPool), 1073741825, stamp, length};
  block.replicas.push_back(replica(1));
  block.replicas.back().storage_id = unhex(kStorage);
  return block;
}

WriteTarget golden_target() {
  WriteTarget target = small_target();
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
  stream::Geometry geometry = geometry_of(golden_target());
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
  CHECK(h.machine.state() == FileWriter::State::kDone);
  CHECK(h.machine.counters().heartbeats == 1);
  CHECK(h.machine.counters().packets_sent == 2);
  CHECK(h.machine.counters().acks == 2);
}

TEST_CASE("who failed is not excluded where there is no other, nor once it has served a block") {
  Harness h;
  h.write(4096 + 100);
  h.machine.allocated(located(1, 10, 3), h.now, h.actions);
  h.machine.connection_lost(h.pipeline(), kRefused, h.now, h.actions);
  h.machine.block_abandoned({}, h.now, h.actions);
  h.actions.clear();
  h.machine.allocated(kNoNode, h.now, h.actions);
  REQUIRE(h.machine.state() == FileWriter::State::kAllocateDelay);
  h.now = *h.machine.deadline();
  h.machine.tick(h.now, h.actions);
  CHECK(h.take<action::AddBlock>()->excluded.empty());

  h.machine.allocated(located(2, 20, 3), h.now, h.actions);
  h.machine.connection_lost(h.pipeline(), kRefused, h.now, h.actions);
  h.machine.block_abandoned({}, h.now, h.actions);
  CHECK(h.take<action::AddBlock>()->excluded.size() == 1);
  h.build(located(3, 30, 3));  // all three of them, as the NameNode sees fit
  h.ack_block();
  const auto add = h.take<action::AddBlock>();
  REQUIRE(add);
  CHECK(add->excluded.empty());
  h.machine.allocated(kRefused, h.now, h.actions);
  CHECK(h.machine.state() == FileWriter::State::kFailed);
}

TEST_CASE("golden: append inside a partial chunk, a flush that tells the length, close") {
  WriteTarget target = golden_target();
  target.start = 1025;
  target.update_length = true;
  target.partial_block = golden_block(1001, 1025);
  target.replication = 1;
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
  h.machine.reserved(reserved, h.now, h.actions);
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
  CHECK(hex(h.send_all()) ==  // an earlier stream may have hsynced it
        hex(unhex("00000004 001b 09 0104000000000000 11 0000000000000000 1800 25 00000000 2801")));
  CHECK_FALSE(h.has<action::UpdatePipeline>());
  h.machine.acked(connect->connection, ack_of("09 0800 1000 1800 2201 00"), h.now, h.actions);
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

using Events = std::map<std::string, std::function<void(Harness&)>>;

const Events& file_events() {
  static const Events events = {
      {"put", [](Harness& h) { h.write(24); }},
      {"flush", [](Harness& h) { h.flush(Level::kHandedOver, 24); }},
      {"hflush", [](Harness& h) { h.flush(Level::kVisible, 24); }},
      {"hsync", [](Harness& h) { h.flush(Level::kDurable, 24); }},
      {"hsync that ends the block", [](Harness& h) { h.flush(Level::kBlockEnded, 24); }},
      {"hflush of nothing", [](Harness& h) { h.flush(Level::kVisible); }},
      {"finish", [](Harness& h) { h.machine.finish(h.now, h.actions); }},
      {"abandon", [](Harness& h) { h.machine.abandon(h.now, h.actions); }},
      {"the lease is lost", [](Harness& h) { h.machine.lease_lost(kRefused, h.now, h.actions); }},
      {"addBlock: a block",
       [](Harness& h) { h.machine.allocated(located(2, 20, 3), h.now, h.actions); }},
      {"addBlock: a block without DataNodes",
       [](Harness& h) { h.machine.allocated(located(2, 20, 0), h.now, h.actions); }},
      {"addBlock: NotReplicatedYet",
       [](Harness& h) { h.machine.allocated(kNotReplicated, h.now, h.actions); }},
      {"addBlock: over quota",
       [](Harness& h) { h.machine.allocated(kOverQuota, h.now, h.actions); }},
      {"addBlock: refused", [](Harness& h) { h.machine.allocated(kRefused, h.now, h.actions); }},
      {"addBlock: no DataNode can take it",
       [](Harness& h) { h.machine.allocated(kNoNode, h.now, h.actions); }},
      {"abandonBlock: done", [](Harness& h) { h.machine.block_abandoned({}, h.now, h.actions); }},
      {"abandonBlock: done without attempts left",
       [](Harness& h) {
         while (h.machine.state() == FileWriter::State::kAbandoning) {
           h.machine.block_abandoned({}, h.now, h.actions);
           if (h.machine.state() != FileWriter::State::kAllocating) return;
           h.machine.allocated(located(2, 20, 3), h.now, h.actions);
           h.machine.connection_lost(h.pipeline(), kRefused, h.now, h.actions);
         }
         h.machine.block_abandoned({}, h.now, h.actions);
       }},
      {"abandonBlock: refused",
       [](Harness& h) { h.machine.block_abandoned(kRefused, h.now, h.actions); }},
      {"complete: true", [](Harness& h) { h.machine.completed(true, h.now, h.actions); }},
      {"complete: false", [](Harness& h) { h.machine.completed(false, h.now, h.actions); }},
      {"complete: refused", [](Harness& h) { h.machine.completed(kRefused, h.now, h.actions); }},
      {"complete: the lease of an empty file is lost",
       [](Harness& h) { h.machine.completed(kLeaseGone, h.now, h.actions); }},
      {"getBlockLocations: it is closed",
       [](Harness& h) { h.machine.located(LocatedBlocks(), h.now, h.actions); }},
      {"getBlockLocations: it is open",
       [](Harness& h) {
         LocatedBlocks answer;
         answer.under_construction = true;
         h.machine.located(answer, h.now, h.actions);
       }},
      {"refused", [](Harness& h) { h.machine.located(kRefused, h.now, h.actions); }},
      {"the delay is over",
       [](Harness& h) {
         h.now += 1s;
         h.machine.tick(h.now, h.actions);
       }},
      {"the block has ended",
       [](Harness& h) {
         if (h.machine.block() != nullptr) h.write_up_to(4096);
         static_cast<void>(h.send_all());
         h.actions.clear();
         h.ack_block();
       }},
      {"its first pipeline was not built",
       [](Harness& h) {
         if (h.machine.block() != nullptr) {
           // Only its first pipeline: another block, allocated and connecting.
           h.write_up_to(2 * 4096);
           static_cast<void>(h.send_all());
           h.ack_block();
           h.machine.allocated(located(2, 20, 3), h.now, h.actions);
         }
         h.actions.clear();
         h.machine.connection_lost(h.pipeline(), kRefused, h.now, h.actions);
       }},
      {"it is broken: the others go on",
       [](Harness& h) { h.machine.connection_lost(h.pipeline(), kRefused, h.now, h.actions); }},
      {"it is broken: another DataNode is wanted",
       [](Harness& h) {
         if (h.machine.block() != nullptr) {
           h.flush(Level::kVisible, 24);
           static_cast<void>(h.send_all());
           for (std::int64_t n = h.machine.counters().acks;
                n < h.machine.counters().packets_sent;) {
             h.ack(n++);
           }
           h.machine.fsynced({}, h.now, h.actions);
           h.actions.clear();
         }
         h.machine.connection_lost(h.pipeline(), kRefused, h.now, h.actions);
       }},
      {"it is broken before its first acknowledgement: another DataNode is wanted",
       [](Harness& h) {
         const bool is_writing = h.machine.block() != nullptr;
         h.machine.connection_lost(h.pipeline(), kRefused, h.now, h.actions);
         if (!is_writing) return;
         h.machine.reserved(located(1, 60, 0), h.now, h.actions);
         h.machine.connection_lost(h.pipeline(), kRefused, h.now, h.actions);
       }},
      {"it is broken: none is left",
       [](Harness& h) {
         if (h.machine.block() != nullptr) {  // of one node, with bytes that are acknowledged
           h.write_up_to(4096 + 100);
           static_cast<void>(h.send_all());
           h.ack_block();
           h.build(located(2, 20, 1));
           h.ack(h.machine.counters().acks, 1);
           h.actions.clear();
         }
         h.machine.acked(h.pipeline(), {-2, {TransferStatus::kError}}, h.now, h.actions);
       }},
      {"it is broken: a DataNode restarts",
       [](Harness& h) {
         if (h.machine.block() == nullptr) return;
         h.write_up_to(4096 + 100);
         static_cast<void>(h.send_all());
         h.ack_block();
         h.build(located(2, 20, 1));  // the only one is waited for
         h.actions.clear();
         h.machine.acked(h.pipeline(), {-2, {TransferStatus::kOobRestart}}, h.now, h.actions);
       }},
      {"its recovery is ready",
       [](Harness& h) {
         LocatedBlock found = located(1, 10, 4);
         found.replicas.erase(found.replicas.begin());
         h.machine.found(found, h.now, h.actions);
         const BlockRecovery* const recovery = h.machine.recovery();
         if (recovery == nullptr || !recovery->connection()) return;
         const ConnectionNumber copying = *recovery->connection();
         h.machine.connected(copying, h.now);
         CHECK_FALSE(h.send_all(copying).empty());
         h.machine.replied(copying, {}, h.now, h.actions);
       }},
      {"its recovery has failed", [](Harness& h) { h.machine.found(kRefused, h.now, h.actions); }},
      {"it is refused",
       [](Harness& h) {
         h.machine.reserved(kRefused, h.now, h.actions);
         h.machine.registered(kRefused, h.now, h.actions);
       }},
  };
  return events;
}

TEST_CASE("every event in every state of a file: as the page's table says") {
  const PageTable table = page_table("hdfs-client.md", "### FileWriter");
  const auto check = [](const std::string& name, const std::string& state,
                        const std::string& cell) {
    // A block is refused where it is set up again.
    const std::string from = state != "writing"        ? state
                             : name == "it is refused" ? "registering"
                                                       : "streaming";
    const std::unique_ptr<Harness> h = in_state(from);
    const FileWriter::State before = h->machine.state();
    file_events().at(name)(*h);
    const bool remains = cell == "–" || cell == "stays";
    CHECK(to_string(h->machine.state()) == (remains ? to_string(before) : cell));
    if (cell == "–") CHECK(h->actions.empty());
    CHECK(h->has<action::Failed>() == (cell == "failed"));
  };
  for_each_cell(table, file_events(), check);
  CHECK(table.columns.size() == 10);
}

TEST_CASE("after the end of a file every event is ignored, and nothing is left open") {
  for (const char* const state : {"done", "failed", "abandoned"}) {
    for (const auto& [event, happen] : file_events()) {
      const std::string& name = event;
      CAPTURE(state);
      CAPTURE(name);
      const std::unique_ptr<Harness> h = in_state(state);
      happen(*h);
      CHECK(to_string(h->machine.state()) == state);
      CHECK(h->actions.empty());
      CHECK_FALSE(h->machine.deadline());
      CHECK(h->pipeline() == 0);
      CHECK(h->sync_connection() == 0);
    }
  }
}

// Those of the file, of its block and of its promises.
Events all_events() {
  Events events = file_events();
  const auto acked = [](std::int64_t number, NodeReplies replies) {
    return [=](Harness& h) { h.machine.acked(h.pipeline(), {number, replies}, h.now, h.actions); };
  };
  constexpr auto kGood = TransferStatus::kSuccess;
  events["stamp"] = [](Harness& h) { h.machine.reserved(located(5, 51, 0), h.now, h.actions); };
  events["registered"] = [](Harness& h) { h.machine.registered({}, h.now, h.actions); };
  events["another node"] = [](Harness& h) { h.machine.found(located(1, 10, 4), h.now, h.actions); };
  events["the copy is lost"] = [](Harness& h) {
    if (h.machine.recovery() == nullptr) return;
    h.machine.connection_lost(h.machine.recovery()->connection().value_or(0), kRefused, h.now,
                              h.actions);
  };
  events["a restart"] = acked(-2, {TransferStatus::kOobRestart});
  events["fsynced"] = [](Harness& h) { h.machine.fsynced({}, h.now, h.actions); };
  events["not fsynced"] = [](Harness& h) { h.machine.fsynced(kRefused, h.now, h.actions); };
  events["located"] = [](Harness& h) { h.locate(located(1, 10, 2)); };
  events["not located"] = [](Harness& h) { h.machine.located(kRefused, h.now, h.actions); };
  events["connected"] = [](Harness& h) { h.machine.connected(h.pipeline(), h.now); };
  events["replied"] = [](Harness& h) { h.machine.replied(h.pipeline(), {}, h.now, h.actions); };
  events["acked"] = acked(0, {kGood, kGood, kGood});
  events["acked next"] = acked(1, {kGood, kGood, kGood});
  events["heartbeat acked"] = acked(PipelineAck::kHeartbeat, {kGood, kGood, kGood});
  events["acked with an error"] = acked(0, {kGood, TransferStatus::kError});
  events["ack of no node"] = acked(0, {});
  events["replica synced"] = [](Harness& h) { h.sync_replica(); };
  events["replica not synced"] = [](Harness& h) { h.sync_replica(TransferStatus::kError); };
  events["an hour later"] = [](Harness& h) {
    h.now += 1h;
    h.machine.tick(h.now, h.actions);
  };
  events["events of closed connections"] = [](Harness& h) {
    const std::int64_t sent = h.machine.counters().bytes_sent;
    for (const ConnectionNumber old : {0U, 999U}) {
      h.machine.connected(old, h.now);
      h.machine.replied(old, {}, h.now, h.actions);
      h.machine.acked(old, {}, h.now, h.actions);
      h.machine.connection_lost(old, kRefused, h.now, h.actions);
      h.machine.sent(old, 1000, h.now);
      std::vector<ByteView> pieces(4);
      CHECK(h.machine.output(old, pieces) == 0);
    }
    CHECK(h.machine.counters().bytes_sent == sent);
  };
  return events;
}

TEST_CASE("any two events in a row from any state: nothing breaks, nothing follows the end") {
  const Events events = all_events();
  for (const std::string& state : kStates) {
    for (const auto& [first, first_happens] : events) {
      for (const auto& [second, second_happens] : events) {
        const std::unique_ptr<Harness> h = in_state(state);
        first_happens(*h);
        const bool was_over = is_over(*h);
        h->actions.clear();
        second_happens(*h);
        const std::string in_a_row = first + ", " + second;
        CAPTURE(state);
        CAPTURE(in_a_row);
        if (was_over) CHECK(h->actions.empty());
        if (const auto failed = h->take<action::Failed>()) CHECK(failed->failure.path() == "/f");
        const std::optional<env::TimePoint> deadline = h->machine.deadline();
        if (second == "an hour later" && deadline) CHECK(*deadline > h->now);
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
  CHECK(message.find(
            "DataNode 10.0.0.2:9866 (2 of 3) answered ERROR for 10.0.0.2:9866 (no mirror)") !=
        std::string::npos);
  CHECK(message.find("DataNode 10.0.0.1:9866 (1 of 3) is lost: connect") != std::string::npos);
  CHECK(h.machine.counters().block_retries == 4);
}

TEST_CASE("an excluded node is forgotten after its time") {
  Harness h;
  h.write(4096);
  h.machine.allocated(located(1, 1, 1), h.now, h.actions);
  h.machine.connection_lost(h.pipeline(), kRefused, h.now, h.actions);
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
  CHECK(h.block_is(BlockWriter::State::kEnding));
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

TEST_CASE("a block that the NameNode cannot give yet is asked for again, for 12.4 s") {
  for (const Status& refusal : {kNotReplicated, kNoNode}) {
    CAPTURE(refusal.message());
    Harness h;
    h.write(1);
    env::Duration waited{0};
    int retries = 0;
    h.actions.clear();
    while (h.machine.state() == FileWriter::State::kAllocating) {
      h.machine.allocated(refusal, h.now, h.actions);
      if (h.machine.state() == FileWriter::State::kFailed) break;
      const env::Duration delay = *h.machine.deadline() - h.now;
      waited += delay;
      if (retries == 0) CHECK(delay == 2ms);
      h.now += delay - 1ns;
      h.machine.tick(h.now, h.actions);
      CHECK(h.machine.state() == FileWriter::State::kAllocateDelay);
      h.now += 1ns;
      h.machine.tick(h.now, h.actions);
      ++retries;
    }
    CHECK(h.machine.state() == FileWriter::State::kFailed);
    CHECK(waited == 12400ms);  // 0.4 + 0.8 + 1.6 + 3.2 + 6.4 s
    CHECK(h.machine.counters().allocate_retries == retries);
    const auto failed = h.take<action::Failed>();
    REQUIRE(failed);
    CHECK(failed->failure.remote_class() == refusal.remote_class());
    CHECK(failed->failure.message() == refusal.message() + ", asked again for 12.4 s");
  }
}

TEST_CASE("DataNodes that have all failed are tried again after each pause, for 12.4 s") {
  const auto attempts = [](env::Duration each, Status& why) {
    Harness h;
    h.write(1);
    int count = 0;
    while (const auto add = h.take<action::AddBlock>()) {
      if (!add->excluded.empty()) {
        h.machine.allocated(kNoNode, h.now, h.actions);
        h.now = h.machine.deadline().value_or(h.now);
        h.machine.tick(h.now, h.actions);
        continue;
      }
      ++count;
      h.machine.allocated(located(1, 10, 1), h.now, h.actions);
      h.now += each;
      h.machine.connection_lost(h.pipeline(), kRefused, h.now, h.actions);
      h.machine.block_abandoned({}, h.now, h.actions);
    }
    why = h.take<action::Failed>()->failure;
    return count;
  };
  Status why;
  CHECK(attempts(0s, why) == 14);
  CHECK(why.code() == StatusCode::kPipeline);
  CHECK(why.message().starts_with("write: the NameNode gives no other block, " + kNoNode.message() +
                                  ", asked again for 12.4 s; before that DataNode 10.0.0.1"));
  CHECK(attempts(1min, why) == 5);
  CHECK(why.message().starts_with("write: unable to create new block after 5 attempts: DataNode"));
}

TEST_CASE("a NameNode that is gone when it is asked again: the error is that one's") {
  Harness h;
  h.write(1);
  h.machine.allocated(kNotReplicated, h.now, h.actions);
  h.now = *h.machine.deadline();
  h.machine.tick(h.now, h.actions);
  const Status gone = Status::from_errno(ECONNREFUSED, "addBlock: connect", "/f");
  h.machine.allocated(gone, h.now, h.actions);
  const auto failed = h.take<action::Failed>();
  REQUIRE(failed);
  CHECK(failed->failure.error_number() == ECONNREFUSED);
  CHECK(failed->failure.message() == gone.message());
}

TEST_CASE("a block that no DataNode can take is asked for once if the configuration says so") {
  WriteSettings settings;
  settings.locate_following_block_retries = 0;
  Harness h(small_target(), settings);
  h.write(1);
  h.machine.allocated(kNoNode, h.now, h.actions);
  const auto failed = h.take<action::Failed>();
  REQUIRE(failed);
  CHECK(failed->failure.message() == kNoNode.message());
}

TEST_CASE(
    "quota reached by what close() still has to write: the file is completed, then it fails") {
  WriteSettings settings;
  settings.recover_lease_on_close_failure = true;
  Harness h(small_target(), settings);
  h.write(5000);
  h.build(located(1, 10, 3));
  h.machine.finish(h.now, h.actions);
  for (const std::int64_t number : {0, 1, 2, 3, 4}) h.ack(number);
  REQUIRE(h.machine.state() == FileWriter::State::kAllocating);
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
      if (h.machine.state() == FileWriter::State::kFailed) return;
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
    CHECK(h.machine.state() == FileWriter::State::kCompleting);
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
  CHECK(h.machine.state() == FileWriter::State::kFailed);
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

TEST_CASE("quota reached: a flush() that waits for the packets that were dropped is not reached") {
  WriteSettings settings;
  settings.max_packets_in_flight = 1;
  Harness h(small_target(), settings);
  h.flush(Level::kHandedOver, 3000);
  h.machine.allocated(kOverQuota, h.now, h.actions);
  CHECK_FALSE(h.has<action::Reached>());
  h.flush(Level::kVisible);
  h.machine.completed(true, h.now, h.actions);
  CHECK_FALSE(h.has<action::Reached>());
  CHECK(h.take<action::Failed>()->is_closed);
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

TEST_CASE("an append that nothing is written to touches no DataNode") {
  SUBCASE("partial block") {
    Harness h(append_target());
    h.machine.finish(h.now, h.actions);
    const auto complete = h.take<action::Complete>();
    REQUIRE(complete);
    CHECK(*complete->last == append_target().partial_block->block);
  }
  SUBCASE("full last block that nobody could name") {
    WriteTarget target = small_target();
    target.start = 4096;
    Harness h(target);
    h.machine.finish(h.now, h.actions);
    CHECK_FALSE(h.take<action::Complete>()->last);
  }
  SUBCASE("full last block, or NEW_BLOCK") {
    WriteTarget target = small_target();
    target.start = 100;
    target.previous_block = ExtendedBlock{"BP-1", 5, 50, 100};
    Harness h(target);
    h.machine.finish(h.now, h.actions);
    CHECK(h.take<action::Complete>()->last == target.previous_block);
  }
}

TEST_CASE("HDFS-25: a repeated complete of a file without a block is known by the file") {
  const auto completes = [](WriteTarget target, std::uint64_t length, bool is_open) {
    auto h = std::make_unique<Harness>(std::move(target));
    h->machine.finish(h->now, h->actions);
    REQUIRE(h->take<action::Complete>());
    h->machine.completed(kLeaseGone, h->now, h->actions);
    if (h->machine.state() != FileWriter::State::kChecking) return h;
    REQUIRE(h->take<action::GetBlockLocations>());
    LocatedBlocks answer;
    answer.file_length = length;
    answer.under_construction = is_open;
    h->machine.located(answer, h->now, h->actions);
    return h;
  };
  const auto why = [](Harness& h) {
    const auto failed = h.take<action::Failed>();
    return failed ? failed->failure.code() : StatusCode::kOk;
  };
  CHECK(completes(small_target(), 0, false)->take<action::Finished>());
  CHECK(why(*completes(small_target(), 0, true)) == StatusCode::kLeaseLost);
  CHECK(why(*completes(small_target(), 5, false)) == StatusCode::kLeaseLost);  // another writer's
  WriteTarget at_an_end = small_target();
  at_an_end.start = 4096;
  CHECK(completes(at_an_end, 4096, false)->take<action::Finished>());
  CHECK(why(*completes(at_an_end, 0, false)) == StatusCode::kLeaseLost);
  // With a last block the NameNode knows it: its word is final.
  CHECK(why(*completes(append_target(), 100, false)) == StatusCode::kLeaseLost);

  // Quota, and the answer of the complete that followed was lost.
  Harness h;
  h.write(100);
  h.machine.allocated(kOverQuota, h.now, h.actions);
  h.machine.completed(kLeaseGone, h.now, h.actions);
  h.machine.located(LocatedBlocks(), h.now, h.actions);
  const auto failed = h.take<action::Failed>();
  REQUIRE(failed);
  CHECK(failed->is_closed);
  CHECK(failed->failure.others().empty());
}

TEST_CASE("APPEND-8: a new block behind a short one") {
  WriteTarget target = small_target();
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

TEST_CASE(
    "HDFS-17: complete is asked again while the last replica is not reported, then it fails") {
  Harness h;
  h.machine.finish(h.now, h.actions);
  env::Duration waited{0};
  int asked = 0;
  while (h.take<action::Complete>()) {
    ++asked;
    h.machine.completed(false, h.now, h.actions);
    if (h.machine.state() == FileWriter::State::kFailed) break;
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
  const auto fails = [&](const std::string& state, const std::function<void(Harness&)>& answer) {
    const std::unique_ptr<Harness> h = in_state(state);
    answer(*h);
    const auto failed = h->take<action::Failed>();
    REQUIRE(failed);
    CHECK(failed->failure.code() == StatusCode::kLeaseLost);
    CHECK(failed->failure.remote_class() == "java.io.FileNotFoundException");
  };
  fails("allocating", [&](Harness& h) { h.machine.allocated(gone, h.now, h.actions); });
  fails("abandoning", [&](Harness& h) { h.machine.block_abandoned(gone, h.now, h.actions); });
  fails("reserving", [&](Harness& h) { h.machine.reserved(gone, h.now, h.actions); });
  fails("registering", [&](Harness& h) { h.machine.registered(gone, h.now, h.actions); });
  fails("completing", [&](Harness& h) {
    h.machine.completed(gone, h.now, h.actions);
    h.machine.located(gone, h.now, h.actions);
  });
  fails("streaming", [&](Harness& h) {
    h.flush(Level::kVisible);
    h.ack(0);
    h.machine.fsynced(gone, h.now, h.actions);
  });
  const std::unique_ptr<Harness> h = in_state("streaming");
  h->machine.lease_lost(Status(StatusCode::kTimedOut, "renewLease: no answer"), h->now, h->actions);
  const auto failed = h->take<action::Failed>();
  REQUIRE(failed);
  CHECK(failed->failure.code() == StatusCode::kLeaseLost);
  CHECK(failed->failure.cause()->code() == StatusCode::kTimedOut);
}

TEST_CASE("HFLUSH-12: a stream that has failed does not raise TimeoutError, which leaves it open") {
  const Status late =
      Status(StatusCode::kTimedOut, "addBlock: nn:8020: no answer within 1000 ms", "/f", ETIMEDOUT)
          .with_remote_class("java.net.SocketTimeoutException");
  const auto ends = [&late](const std::string& state, const auto& answer) {
    const std::unique_ptr<Harness> h = in_state(state);
    answer(*h);
    const auto failed = h->take<action::Failed>();
    REQUIRE(failed);
    CHECK(failed->failure.code() == StatusCode::kIo);
    CHECK(failed->failure.error_number() == EIO);
    CHECK(failed->failure.path() == "/f");
    CHECK(failed->failure.remote_class() == late.remote_class());
    CHECK(failed->failure.message().find(late.message()) != std::string::npos);
    REQUIRE(failed->failure.cause() != nullptr);
    CHECK(failed->failure.cause()->code() == StatusCode::kTimedOut);
  };
  ends("allocating", [&](Harness& h) { h.machine.allocated(late, h.now, h.actions); });
  ends("abandoning", [&](Harness& h) { h.machine.block_abandoned(late, h.now, h.actions); });
  ends("reserving", [&](Harness& h) { h.machine.reserved(late, h.now, h.actions); });
  ends("registering", [&](Harness& h) { h.machine.registered(late, h.now, h.actions); });
  ends("completing", [&](Harness& h) { h.machine.completed(late, h.now, h.actions); });
  ends("streaming", [&](Harness& h) {
    h.flush(Level::kVisible);
    h.ack(0);
    h.machine.fsynced(late, h.now, h.actions);
  });

  // Nor where the system has given up the connection.
  const std::unique_ptr<Harness> h = in_state("allocating");
  h->machine.allocated(Status(StatusCode::kIo, "addBlock: nn:8020: reset", "/f", ETIMEDOUT), h->now,
                       h->actions);
  CHECK(h->take<action::Failed>()->failure.error_number() == EIO);
}

TEST_CASE("a stall that ends in failure is counted") {
  const auto longest = [](const auto& end) {
    const std::unique_ptr<Harness> h = in_state("streaming");
    h->now += 5s;
    end(*h);
    REQUIRE(is_over(*h));
    Statistics statistics;
    h->machine.counters().stalls.add_to(statistics, "stall");
    CHECK(statistics["stall.samples"] == 1);
    return statistics["stall.max_ns"] / 1'000'000;
  };
  CHECK(longest([](Harness& h) { h.machine.lease_lost(kRefused, h.now, h.actions); }) == 5000);
  CHECK(longest([](Harness& h) { h.machine.abandon(h.now, h.actions); }) == 5000);
  CHECK(longest([](Harness& h) {
          h.machine.connection_lost(h.pipeline(), kRefused, h.now, h.actions);
          h.machine.reserved(kRefused, h.now, h.actions);
        }) == 5000);
}

// The only DataNode of the first block is lost, and another block is asked for.
void lose_first_block(Harness& h) {
  h.write(100);
  h.machine.allocated(located(1, 10, 1), h.now, h.actions);
  h.machine.connection_lost(h.pipeline(), kRefused, h.now, h.actions);
  h.machine.block_abandoned({}, h.now, h.actions);
}

TEST_CASE("a NameNode that gives no other block: the error has the nodes that failed") {
  Harness h;
  lose_first_block(h);
  h.machine.allocated(kRefused, h.now, h.actions);
  h.now = *h.machine.deadline();  // the same without excluded DataNodes
  h.machine.tick(h.now, h.actions);
  h.machine.allocated(kRefused, h.now, h.actions);
  const auto failed = h.take<action::Failed>();
  REQUIRE(failed);
  CHECK(failed->failure.code() == StatusCode::kPipeline);
  CHECK(failed->failure.remote_class() == "java.io.IOException");
  CHECK(failed->failure.message() ==
        "write: the NameNode gives no other block, refused; before that DataNode 10.0.0.1:9866 "
        "(1 of 1) is lost: refused");
}

TEST_CASE("a NameNode in safe mode says so, whatever DataNode failed before") {
  Harness h;
  lose_first_block(h);
  h.machine.allocated(Status(StatusCode::kIo, "safe mode", "/file", EROFS), h.now, h.actions);
  const auto failed = h.take<action::Failed>();
  REQUIRE(failed);
  CHECK(failed->failure.code() == StatusCode::kIo);
  CHECK(failed->failure.error_number() == EROFS);
  CHECK(failed->failure.message().find("before that DataNode 10.0.0.1:9866") != std::string::npos);
}

TEST_CASE("HDFS-3: a failed close asks for lease recovery if the configuration says so") {
  WriteSettings settings;
  for (const bool wanted : {false, true}) {
    settings.recover_lease_on_close_failure = wanted;
    Harness h(small_target(), settings);
    h.machine.finish(h.now, h.actions);
    h.machine.completed(kRefused, h.now, h.actions);
    CHECK(h.has<action::RecoverLease>() == wanted);
    CHECK(h.has<action::Failed>());

    Harness lost(small_target(), settings);
    lost.machine.finish(lost.now, lost.actions);
    lost.machine.completed(kLeaseGone, lost.now, lost.actions);
    lost.machine.located(kRefused, lost.now, lost.actions);
    CHECK_FALSE(lost.has<action::RecoverLease>());
  }
}

}  // namespace
}  // namespace hflush::hdfs
