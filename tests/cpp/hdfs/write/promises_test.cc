// Promises: every event in every state; what hflush and hsync wait for, and how finished blocks
// become durable.
#include "hflush/hdfs/write/promises.h"

#include <doctest/doctest.h>

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
using stream::Level;

bool carries_sync(std::string_view packet) { return packet[5] == 27; }

LocatedBlock located_at(std::uint64_t id, const std::vector<int>& nodes) {
  LocatedBlock block = located(id, 10, 0);
  for (const int node : nodes) block.replicas.push_back(replica(node));
  return block;
}

TEST_CASE("HFLUSH-9: a flush of a stream that nothing was written to") {
  for (const Level level : {Level::kHandedOver, Level::kVisible, Level::kDurable}) {
    for (const bool append : {false, true}) {
      if (append && level == Level::kDurable) continue;
      Harness h(append ? append_target() : small_target());
      h.flush(level);
      REQUIRE(h.actions.size() == 1);
      const auto reached = h.take<action::Reached>();
      REQUIRE(reached);
      CHECK(reached->level == level);
      CHECK(reached->offset == (append ? 100 : 0));
      CHECK(h.machine.state() == FileWriter::State::kIdle);
    }
  }
}

TEST_CASE("hsync of an append that has written nothing syncs the block that it would go on with") {
  Harness h(append_target());
  h.flush(Level::kDurable);
  CHECK_FALSE(h.has<action::Reached>());
  h.machine.reserved(located(5, 51, 0), h.now, h.actions);
  CHECK(hex(h.set_up_append()) ==
        hex(unhex("00000004 001b 09 6400000000000000 11 0000000000000000 1800 25 00000000 2801")));
  h.ack(0);
  h.machine.fsynced({}, h.now, h.actions);
  const auto reached = h.take<action::Reached>();
  REQUIRE(reached);
  CHECK(reached->offset == 100);
  h.machine.finish(h.now, h.actions);
  CHECK(h.block_is(BlockWriter::State::kEnding));
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
  WriteTarget target = small_target();
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

TEST_CASE("HDFS-14: the packet with the data carries the sync; without data an empty one does") {
  Harness h;
  h.open_block(100, located(1, 10, 3));

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
  CHECK(h.sync_connection() == 0);
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
        REQUIRE(locate->block);
        CHECK(locate->block->id == id);
        CHECK_FALSE(h.has<action::Connect>());
        h.locate(located(id, 10 + id, 2));
      }
      const auto connect = h.take<action::Connect>();
      REQUIRE(connect);
      CHECK(connect->node.ip == "10.0.0." + std::to_string(node));
      CHECK(connect->connection == h.sync_connection());
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
    h.machine.acked(h.pipeline(), {3, {TransferStatus::kSuccess}}, h.now, h.actions);
    CHECK(carries_sync(h.send_all()));
    h.ack(4, 1);
    CHECK(h.sync_connection() == 0);
    h.machine.fsynced({}, h.now, h.actions);
    CHECK(h.has<action::Reached>());
  }
  SUBCASE("its last packet is out") {
    h.ack(3, 1);
    h.flush(Level::kDurable);
    CHECK(h.sync_connection() == 0);
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
  WriteTarget target = small_target();
  target.sync_every_block = true;
  Harness h(target);
  h.write(4096);
  h.build(located(1, 10, 1));
  for (const std::int64_t number : {0, 1, 2}) h.ack(number, 1);
  h.machine.acked(h.pipeline(), {3, {TransferStatus::kSuccess}}, h.now, h.actions);
  CHECK(carries_sync(h.send_all()));
  h.ack(4, 1);
  h.flush(Level::kDurable);
  CHECK(h.sync_connection() == 0);
}

// A machine whose first block, of two replicas, has ended without a sync; and an hsync that waits
// for where they are now.
std::unique_ptr<Harness> with_finished_block(bool hsync = true) {
  auto h = std::make_unique<Harness>();
  h->write(4096);
  h->build(located(1, 10, 2));
  for (const std::int64_t number : {0, 1, 2, 3, 4}) h->ack(number, 2);
  h->actions.clear();
  if (!hsync) return h;
  h->flush(Level::kDurable);
  h->machine.fsynced({}, h->now, h->actions);
  REQUIRE(h->take<action::GetBlockLocations>());
  REQUIRE(h->sync_connection() == 0);
  return h;
}

TEST_CASE("HSYNC-17: the block's last packet carries the sync; the next byte is in another one") {
  Harness h;
  h.flush(Level::kBlockEnded, 700);
  h.build(located(1, 10, 1));
  CHECK(h.block_is(BlockWriter::State::kDraining));
  h.actions.clear();
  h.machine.acked(h.pipeline(), {0, {TransferStatus::kSuccess}}, h.now, h.actions);
  const std::string last = h.send_all();
  CHECK(hex(last) ==
        hex(unhex("00000004 001b 09 bc02000000000000 11 0100000000000000 1801 25 00000000 2801")));
  CHECK_FALSE(h.has<action::Reached>());
  h.ack(1, 1);
  CHECK(h.take<action::Fsync>()->block_length == 700);
  CHECK_FALSE(h.has<action::Reached>());
  h.machine.fsynced({}, h.now, h.actions);
  const auto reached = h.take<action::Reached>();
  REQUIRE(reached);
  CHECK(reached->level == Level::kBlockEnded);
  CHECK(reached->offset == 700);
  CHECK(h.machine.state() == FileWriter::State::kIdle);
  CHECK_FALSE(h.has<action::AddBlock>());  // not before there is a byte for it

  h.write(4096 + 10);
  CHECK(*h.take<action::AddBlock>()->previous == ExtendedBlock{"BP-1", 1, 10, 700});
  h.machine.allocated(located(2, 11, 3), h.now, h.actions);
  const PacketHeader first = first_header(h.set_up());
  CHECK(first.offset_in_block == 0);
  CHECK(first.data_size == 1024);
  for (const std::int64_t number : {2, 3, 4, 5, 6}) h.ack(number);
  CHECK(*h.take<action::AddBlock>()->previous == ExtendedBlock{"BP-1", 2, 11, 4096});
  h.build(located(3, 12, 3));
  h.ack(7);
  h.machine.finish(h.now, h.actions);
  static_cast<void>(h.send_all());
  h.ack(8);
  CHECK(*h.take<action::Complete>()->last == ExtendedBlock{"BP-1", 3, 12, 10});
}

TEST_CASE("HSYNC-17: where there is nothing to end there is no packet, and no empty block") {
  SUBCASE("a file without bytes") {
    Harness h;
    h.flush(Level::kBlockEnded);
    CHECK(h.take<action::Reached>()->level == Level::kBlockEnded);
    CHECK(h.actions.empty());
  }
  SUBCASE("a block that is full") {
    Harness h;
    h.flush(Level::kBlockEnded, 4096);
    h.build(located(1, 10, 1));
    for (const std::int64_t number : {0, 1, 2, 3, 4}) h.ack(number, 1);
    CHECK(h.machine.counters().packets_sent == 5);
    h.machine.fsynced({}, h.now, h.actions);
    CHECK(h.has<action::Reached>());
  }
  SUBCASE("a block that has ended, and one that is ended twice") {
    Harness h;
    h.flush(Level::kBlockEnded, 100);
    h.flush(Level::kBlockEnded);
    h.build(located(1, 10, 1));
    h.ack(0, 1);
    h.ack(1, 1);
    h.machine.fsynced({}, h.now, h.actions);
    CHECK(h.take<action::Reached>()->offset == 100);
    h.actions.clear();
    h.flush(Level::kBlockEnded);
    CHECK(h.has<action::Reached>());
    h.flush(Level::kDurable);
    CHECK(h.machine.state() == FileWriter::State::kIdle);
    h.actions.clear();
    h.machine.finish(h.now, h.actions);
    CHECK(*h.take<action::Complete>()->last == ExtendedBlock{"BP-1", 1, 10, 100});
    CHECK(h.machine.counters().packets_sent == 2);
  }
}

TEST_CASE("HSYNC-17: an append ends the partial block that it found, with bytes or without") {
  for (const std::size_t bytes : {0U, 5U}) {
    CAPTURE(bytes);
    WriteTarget target = append_target();
    target.partial_block->replicas.resize(1);
    target.replication = 1;
    Harness h(target);
    if (bytes > 0) h.flush(Level::kVisible, bytes);  // in the block's first chunk
    h.flush(Level::kBlockEnded);
    h.machine.reserved(located(5, 51, 0), h.now, h.actions);
    std::string sent = h.set_up_append(1);
    std::int64_t number = 0;
    if (bytes > 0) {
      h.machine.acked(h.pipeline(), {number++, {TransferStatus::kSuccess}}, h.now, h.actions);
      sent = h.send_all();
    }
    const PacketHeader last = first_header(sent);
    CHECK(last.last_in_block);
    CHECK(last.sync_block);
    CHECK(last.offset_in_block == 100 + bytes);
    h.ack(number++, 1);
    h.machine.fsynced({}, h.now, h.actions);
    CHECK(h.machine.state() == FileWriter::State::kIdle);

    h.write(600);  // its first packet is a whole chunk at 0, wherever the old chunk ended
    CHECK(*h.take<action::AddBlock>()->previous == ExtendedBlock{"BP-1", 5, 51, 100 + bytes});
    h.machine.allocated(located(6, 60, 1), h.now, h.actions);
    const PacketHeader first = first_header(h.set_up());
    CHECK(first.offset_in_block == 0);
    CHECK(first.data_size == 600);
    h.ack(number, 1);
    CHECK(h.machine.acknowledged_offset() == 100 + bytes + 600);
  }
}

TEST_CASE("HSYNC-17: UPDATE_LENGTH tells the NameNode where the block ended") {
  WriteTarget target = small_target();
  target.update_length = true;
  Harness h(target);
  h.flush(Level::kVisible, 100);
  h.build(located(1, 10, 1));
  h.ack(0, 1);
  h.machine.fsynced({}, h.now, h.actions);
  h.flush(Level::kBlockEnded, 20);
  static_cast<void>(h.send_all());
  h.ack(1, 1);
  h.actions.clear();
  h.ack(2, 1);
  CHECK(h.take<action::Fsync>()->block_length == 120);
  h.machine.fsynced({}, h.now, h.actions);
  CHECK(h.take<action::Reached>()->offset == 120);
}

TEST_CASE("HSYNC-17: a node dies before the last packet's ack: the others end the block with it") {
  Harness h;
  h.flush(Level::kBlockEnded, 100);
  h.build(located(1, 10, 3));
  h.ack(0);
  CHECK(h.block_is(BlockWriter::State::kEnding));
  h.actions.clear();
  h.machine.connection_lost(h.pipeline(), kRefused, h.now, h.actions);
  h.machine.reserved(located(1, 11, 0), h.now, h.actions);
  CHECK(h.set_up().empty());  // not before the NameNode knows
  h.machine.registered({}, h.now, h.actions);
  CHECK(carries_sync(h.send_all()));
  CHECK_FALSE(h.has<action::Reached>());
  h.ack(1, 2);
  h.machine.fsynced({}, h.now, h.actions);
  const auto reached = h.take<action::Reached>();
  REQUIRE(reached);
  CHECK(reached->level == Level::kBlockEnded);
  CHECK(h.machine.counters().synced_afterwards == 0);
}

TEST_CASE("HSYNC-12, HSYNC-17: earlier blocks that cannot be synced now fail each kind of hsync") {
  Harness h;
  h.write(4096 + 10);
  h.build(located(1, 10, 1));
  for (const std::int64_t number : {0, 1, 2, 3, 4}) h.ack(number, 1);
  h.build(located(2, 11, 1));
  h.ack(5, 1);
  h.actions.clear();
  h.flush(Level::kDurable);
  h.flush(Level::kBlockEnded);
  h.locate(located(1, 10, 0));                                                 // on no DataNode
  h.machine.connection_lost(h.sync_connection(), kRefused, h.now, h.actions);  // of its pipeline
  const auto first = h.take<action::NotReached>();
  REQUIRE(first);
  CHECK(first->level == Level::kDurable);
  const auto second = h.take<action::NotReached>();
  REQUIRE(second);
  CHECK(second->level == Level::kBlockEnded);
  CHECK(second->offset == 4096 + 10);
  CHECK_FALSE(is_over(h));
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
  for (const int node : {2, 5, 6, 1}) {
    CHECK_FALSE(h->has<action::Reached>());
    const auto connect = h->take<action::Connect>();
    REQUIRE(connect);
    CHECK(connect->node.ip == "10.0.0." + std::to_string(node));
    // Nobody misses what was deleted where it was written.
    h->sync_replica(node == 1 ? TransferStatus::kError : TransferStatus::kSuccess);
  }
  CHECK(h->take<action::Reached>()->level == Level::kDurable);
  CHECK(h->machine.counters().synced_afterwards == 3);
  CHECK(h->machine.counters().left_unsynced == 0);
}

TEST_CASE("HSYNC-7: a replica that its node has not reported yet is synced, and is enough") {
  for (const bool listed_fails : {false, true}) {
    CAPTURE(listed_fails);
    const std::unique_ptr<Harness> h = with_finished_block();
    h->locate(located_at(1, {2}));
    CHECK(h->take<action::Connect>()->node.ip == "10.0.0.2");
    h->sync_replica(listed_fails ? TransferStatus::kError : TransferStatus::kSuccess);
    CHECK_FALSE(h->has<action::Reached>());
    CHECK(h->take<action::Connect>()->node.ip == "10.0.0.1");
    h->sync_replica();
    CHECK(h->take<action::Reached>()->offset == 4096);
    CHECK(h->machine.counters().synced_afterwards == (listed_fails ? 1 : 2));
    CHECK(h->machine.counters().left_unsynced == (listed_fails ? 1 : 0));
  }
}

// --- every event in every state

using Events = std::map<std::string, std::function<void(Harness&)>>;

const Events& replica_events() {
  static const Events events = {
      {"hsync", [](Harness& h) { h.flush(Level::kDurable); }},
      {"getBlockLocations: replicas", [](Harness& h) { h.locate(located_at(1, {1, 2})); }},
      {"none", [](Harness& h) { h.locate(located_at(1, {})); }},
      {"getBlockLocations: not this block", [](Harness& h) { h.locate(located_at(7, {1, 2})); }},
      {"refused", [](Harness& h) { h.machine.located(kRefused, h.now, h.actions); }},
      {"connected", [](Harness& h) { h.machine.connected(h.sync_connection(), h.now); }},
      {"the DataNode accepts",
       [](Harness& h) { h.machine.replied(h.sync_connection(), {}, h.now, h.actions); }},
      {"the DataNode refuses",
       [](Harness& h) {
         h.machine.replied(h.sync_connection(), {TransferStatus::kError, "", "", {}, 0, {}}, h.now,
                           h.actions);
       }},
      {"ack of the sync",
       [](Harness& h) {
         h.machine.acked(h.sync_connection(), {0, {TransferStatus::kSuccess}}, h.now, h.actions);
       }},
      {"ack with an error",
       [](Harness& h) {
         h.machine.acked(h.sync_connection(), {0, {TransferStatus::kError}}, h.now, h.actions);
       }},
      {"the connection is lost",
       [](Harness& h) {
         h.machine.connection_lost(h.sync_connection(), kRefused, h.now, h.actions);
       }},
      {"no connection can be made for want of descriptors",
       [](Harness& h) {
         if (h.machine.promises().state() != Promises::State::kConnecting) return;
         h.machine.connection_lost(h.sync_connection(), kNoDescriptor, h.now, h.actions);
       }},
      {"silence",
       [](Harness& h) {
         h.now += 1h;
         h.machine.tick(h.now, h.actions);
       }},
      {"the stream ends", [](Harness& h) { h.machine.abandon(h.now, h.actions); }},
  };
  return events;
}

std::unique_ptr<Harness> promises_in(const std::string& state) {
  std::unique_ptr<Harness> h = with_finished_block(state != "resting");
  if (state == "connecting" || state == "syncing") h->locate(located_at(1, {1, 2}));
  if (state == "syncing") {
    h->machine.connected(h->sync_connection(), h->now);
    static_cast<void>(h->send_all(h->sync_connection()));
  }
  h->actions.clear();
  REQUIRE(to_string(h->machine.promises().state()) == state);
  return h;
}

TEST_CASE("every event in every state of the promises: as the page's table says") {
  const PageTable table = page_table("hdfs-client.md", "### Promises");
  const auto check = [](const std::string& name, const std::string& state,
                        const std::string& cell) {
    const std::unique_ptr<Harness> h = promises_in(state);
    replica_events().at(name)(*h);
    const bool remains = cell == "–" || cell == "stays";
    CHECK(to_string(h->machine.promises().state()) == (remains ? state : cell));
    if (cell == "–") CHECK(h->actions.empty());
    CHECK_FALSE(h->has<action::Failed>());
  };
  for_each_cell(table, replica_events(), check);
  CHECK(table.columns.size() == 4);
}

TEST_CASE("the length: an answer that was not asked for is ignored, a refusal fails the stream") {
  for (const bool asked : {false, true}) {
    for (const bool refused : {false, true}) {
      CAPTURE(asked);
      CAPTURE(refused);
      const std::unique_ptr<Harness> h = in_state("streaming");
      if (asked) {
        h->flush(Level::kVisible);
        h->ack(0);
      }
      h->actions.clear();
      REQUIRE(h->machine.promises().is_recording() == asked);
      h->machine.fsynced(refused ? kRefused : Status(), h->now, h->actions);
      CHECK(h->has<action::Failed>() == (asked && refused));
      CHECK(h->has<action::Reached>() == (asked && !refused));
      if (!asked) CHECK(h->actions.empty());
    }
  }
}

// What may happen to a connection that is to sync a replica.
struct ReplicaFault {
  std::string said;
  std::function<void(Harness&)> happen;
};

std::vector<ReplicaFault> replica_faults() {
  const auto connected = [](Harness& h) {
    h.machine.connected(h.sync_connection(), h.now);
    static_cast<void>(h.send_all(h.sync_connection()));
  };
  return {
      {"is lost: connect",
       [](Harness& h) {
         h.machine.connection_lost(h.sync_connection(),
                                   Status::from_errno(ECONNREFUSED, "connect", ""), h.now,
                                   h.actions);
       }},
      {"is lost: refused",
       [=](Harness& h) {
         connected(h);
         h.machine.connection_lost(h.sync_connection(), kRefused, h.now, h.actions);
       }},
      {"answered ERROR",
       [=](Harness& h) {
         connected(h);
         h.machine.replied(h.sync_connection(), {TransferStatus::kError, "", "", {}, 0, {}}, h.now,
                           h.actions);
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
      CHECK(h->sync_connection() == 0);
    }
  }
}

TEST_CASE("HSYNC-12: no replica can be synced: that hsync fails, the stream goes on") {
  for (const ReplicaFault& fault : replica_faults()) {
    CAPTURE(fault.said);
    const std::unique_ptr<Harness> h = with_finished_block();
    h->flush(Level::kDurable);  // somebody else waits as well
    h->locate(located_at(1, {1, 2}));
    h->machine.connection_lost(h->sync_connection(), kRefused, h->now, h->actions);
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
    CHECK(h->sync_connection() == 0);

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
    for (int i = 0; i < 2; ++i) {  // where it was written
      CHECK_FALSE(h->has<action::Reached>());
      h->machine.connection_lost(h->sync_connection(), kRefused, h->now, h->actions);
    }
    CHECK(h->take<action::Reached>()->offset == 4196);
    h->machine.finish(h->now, h->actions);
    static_cast<void>(h->send_all());
    h->ack(7, 1);
    CHECK(h->take<action::Complete>());
  }
}

TEST_CASE("close after an hsync that failed does not wait for what it could not have") {
  const std::unique_ptr<Harness> h = with_finished_block();
  LocatedBlock foreign = located_at(7, {1, 2});
  SUBCASE("another block is there") {}
  SUBCASE("a block of another pool") {
    foreign = located_at(1, {1, 2});
    foreign.block.pool = "BP-2";
  }
  h->locate(foreign);
  CHECK(h->take<action::NotReached>()->why.message().find("is not in the file any more") !=
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
  CHECK(h->machine.state() == FileWriter::State::kIdle);
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
    const int nodes = id == 3 ? 1 : 2;
    h.build(located(id, 10, nodes));
    for (int i = 0; i < 5; ++i) h.ack(number++, nodes);
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
  h->machine.abandon(h->now, h->actions);
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
  CHECK(h.block_is(BlockWriter::State::kEnding));
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
  Harness h(small_target(), settings);
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

}  // namespace
}  // namespace hflush::hdfs
