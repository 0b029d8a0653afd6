#include "hflush/hdfs/read/replica_search.h"

#include <doctest/doctest.h>

#include <cerrno>
#include <functional>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "testing/page_table.h"

namespace hflush::hdfs {
namespace {

using namespace std::chrono_literals;
using Try = ReplicaSearch::Try;
using Refetch = ReplicaSearch::Refetch;
using GiveUp = ReplicaSearch::GiveUp;

LocatedBlock block_of(std::size_t replicas) {
  LocatedBlock block;
  block.block = {"pool", 7, 3, 1000};
  block.offset = 5000;
  for (std::size_t i = 0; i < replicas; ++i) {
    Replica replica;
    replica.node.ip = "10.0.0." + std::to_string(i + 1);
    replica.node.transfer_port = 9866;
    replica.node.uuid = "u" + std::to_string(i + 1);
    block.replicas.push_back(replica);
  }
  return block;
}

ReadSettings settings() {
  ReadSettings settings;
  settings.max_block_acquire_failures = 2;
  settings.retry_window = 100ms;
  return settings;
}

const Status kLost(StatusCode::kIo, "lost", {}, ECONNRESET);
const Status kTimeout(StatusCode::kTimedOut, "too slow", {}, ETIMEDOUT);
const Status kToken(StatusCode::kPermissionDenied, "token", {}, EACCES);
const Status kUnsummed(StatusCode::kUnsupported, "no sums", {}, EIO);
const Status kDamaged =
    Status(StatusCode::kChecksum, "damaged", {}, EIO).with_mismatch({512, 1, 2});

// What a search does if every replica fails like this, one letter for each step: a digit for a
// replica that is tried, a letter from a on for one that may do without checksums, r for locations
// asked anew, R if that is after a pause and the dead are forgotten, x at the end.
std::string course(const LocatedBlock& block, const std::vector<Status>& failures,
                   Status* summary = nullptr) {
  ReplicaSearch search(settings(), "read at 5000");
  DeadNodes dead;
  std::string steps;
  while (steps.size() < 100) {
    const auto step = search.next(block, dead, 0.0);
    if (const auto* const replica = std::get_if<Try>(&step)) {
      const char first = replica->sums == Sums::kRequired ? '0' : 'a';
      steps += static_cast<char>(first + static_cast<char>(replica->replica));
      const DatanodeInfo& node = block.replicas[replica->replica].node;
      if (search.failed(node, failures[replica->replica])) dead.add(node);
    } else if (const auto* const refetch = std::get_if<Refetch>(&step)) {
      steps += refetch->forget_dead_nodes ? 'R' : 'r';
      if (!refetch->forget_dead_nodes) CHECK(refetch->delay == 0s);
      if (refetch->forget_dead_nodes) dead.clear();
    } else {
      if (summary != nullptr) *summary = std::get<GiveUp>(step).failure;
      return steps + 'x';
    }
  }
  return "endless: " + steps;
}

TEST_CASE("replica search: every replica once in each round, in the NameNode's order") {
  CHECK(course(block_of(0), {}) == "rRRx");
  CHECK(course(block_of(1), {kLost}) == "0rR0R0x");
  CHECK(course(block_of(3), {kLost, kTimeout, kLost}) == "012rR012R012x");
}

TEST_CASE("replica search: a damaged replica is not read again; if all are, it is over") {
  CHECK(course(block_of(1), {kDamaged}) == "0rx");
  CHECK(course(block_of(3), {kDamaged, kDamaged, kDamaged}) == "012rx");
  CHECK(course(block_of(3), {kDamaged, kLost, kDamaged}) == "012rR1R1x");
}

TEST_CASE("READ-16: a replica without checksums is believed if every replica is without") {
  CHECK(course(block_of(1), {kUnsummed}) == "0raRaRax");
  CHECK(course(block_of(3), {kUnsummed, kUnsummed, kUnsummed}).starts_with("012ra"));
  Status summary;
  CHECK(course(block_of(3), {kUnsummed, kLost, kUnsummed}, &summary) == "012rR1R1x");
  CHECK(summary.code() == StatusCode::kIo);
  CHECK(summary.message().find("only if every replica") != std::string::npos);
  CHECK(course(block_of(2), {kUnsummed, kDamaged}) == "01rx");
  CHECK(course(block_of(2), {kUnsummed, kToken}) == "01r1R1R1x");
}

TEST_CASE("replica search: a refused token is renewed once, and then is a failure") {
  CHECK(course(block_of(1), {kToken}) == "0r0R0R0x");
  CHECK(course(block_of(2), {kToken, kToken}) == "0r01R01R01x");
  CHECK(course(block_of(2), {kLost, kToken}) == "01r1R01R01x");
}

TEST_CASE("replica search: each way in which three replicas can fail comes to an end") {
  const Status kinds[] = {kLost, kTimeout, kToken, kDamaged};
  for (const Status& a : kinds) {
    for (const Status& b : kinds) {
      for (const Status& c : kinds) {
        Status summary;
        const std::string steps = course(block_of(3), {a, b, c}, &summary);
        CAPTURE(steps);
        CHECK(steps.back() == 'x');
        CHECK(steps.size() <= 15);
        for (const char* const node : {"10.0.0.1:9866", "10.0.0.2:9866", "10.0.0.3:9866"}) {
          CHECK(summary.message().find(node) != std::string::npos);
        }
        const bool alike = a.code() == b.code() && b.code() == c.code();
        CHECK(summary.code() == (alike ? a.code() : StatusCode::kIo));
        CHECK(summary.error_number() == (alike ? a.error_number() : EIO));
        CHECK((summary.checksum_mismatch() != nullptr) ==
              (alike && a.code() == StatusCode::kChecksum));
      }
    }
  }
}

TEST_CASE("replica search: the position of damage is told as one in the file") {
  Status summary;
  course(block_of(1), {kDamaged}, &summary);
  REQUIRE(summary.checksum_mismatch() != nullptr);
  CHECK(summary.checksum_mismatch()->position == 5512);
  CHECK(summary.message() ==
        "read at 5000: blk_7_3 has 1 replica, none could be read, in 1 round: 10.0.0.1:9866: "
        "damaged");
}

TEST_CASE("replica search: DataNodes that failed the file before come last") {
  const LocatedBlock block = block_of(3);
  DeadNodes dead;
  dead.add(block.replicas[0].node);
  ReplicaSearch search(settings(), "read");
  for (const std::size_t expected : {1U, 2U, 0U}) {
    const auto step = search.next(block, dead, 0.0);
    REQUIRE(std::holds_alternative<Try>(step));
    CHECK(std::get<Try>(step).replica == expected);
    CHECK(search.failed(block.replicas[expected].node, kLost));
    dead.add(block.replicas[expected].node);
  }
  CHECK(std::holds_alternative<Refetch>(search.next(block, dead, 0.0)));
}

// The replica that the search tries next. Requires: it tries one.
std::size_t tried(ReplicaSearch& search, const LocatedBlock& block) {
  const auto step = search.next(block, {}, 0.5);
  REQUIRE(std::holds_alternative<Try>(step));
  return std::get<Try>(step).replica;
}

TEST_CASE("replica search: locations that are stale are asked anew without a pause, once") {
  for (const Status& failure : {kLost, kDamaged, kUnsummed}) {
    ReplicaSearch search(settings(), "read");
    LocatedBlock block = block_of(1);
    CHECK(tried(search, block) == 0);
    search.failed(block.replicas[0].node, failure);
    const auto anew = search.next(block, {}, 0.5);
    REQUIRE(std::holds_alternative<Refetch>(anew));
    CHECK(std::get<Refetch>(anew).delay == 0s);
    CHECK_FALSE(std::get<Refetch>(anew).forget_dead_nodes);
    block = block_of(2);  // it is on another node, too
    CHECK(tried(search, block) == 1);
    search.failed(block.replicas[1].node, kLost);
    const auto later = search.next(block, {}, 0.5);
    REQUIRE(std::holds_alternative<Refetch>(later));
    CHECK(std::get<Refetch>(later).delay == 50ms);
    CHECK(std::get<Refetch>(later).forget_dead_nodes);
  }
}

TEST_CASE("replica search: under a new stamp every replica is tried again") {
  ReplicaSearch search(settings(), "read");
  LocatedBlock block = block_of(3);
  search.failed(block.replicas[tried(search, block)].node, kLost);
  search.failed(block.replicas[tried(search, block)].node, kDamaged);
  search.failed(block.replicas[tried(search, block)].node, kLost);
  CHECK(std::holds_alternative<Refetch>(search.next(block, {}, 0.5)));
  ++block.block.generation_stamp;
  CHECK(tried(search, block) == 0);
  search.failed(block.replicas[0].node, kLost);
  CHECK(tried(search, block) == 2);  // what does not match its sums is not mended by a stamp
}

TEST_CASE("replica search: without new locations, what no pause mends is the failure") {
  const Status unreachable(StatusCode::kIo, "no NameNode", {}, ECONNREFUSED);
  const Status interrupted(StatusCode::kInterrupted, "interrupted");
  const LocatedBlock block = block_of(2);
  ReplicaSearch search(settings(), "read");
  search.failed(block.replicas[0].node, kDamaged);
  search.failed(block.replicas[1].node, kLost);
  CHECK(search.without_locations(block, unreachable).message() == "no NameNode");
  search.failed(block.replicas[1].node, kDamaged);
  CHECK(search.without_locations(block, unreachable).code() == StatusCode::kChecksum);
  CHECK(search.without_locations(block, interrupted).code() == StatusCode::kInterrupted);
  CHECK(search.without_locations(block_of(0), unreachable).message() == "no NameNode");
}

TEST_CASE("replica search: a DataNode set up anew on the same address is another one") {
  DeadNodes dead;
  DatanodeInfo node = block_of(1).replicas[0].node;
  dead.add(node);
  CHECK(dead.contains(node));
  node.uuid = "other";
  CHECK_FALSE(dead.contains(node));
}

TEST_CASE("replica search: new locations may name new replicas") {
  ReplicaSearch search(settings(), "read");
  const DeadNodes dead;
  LocatedBlock block = block_of(1);
  REQUIRE(std::holds_alternative<Try>(search.next(block, dead, 0.0)));
  search.failed(block.replicas[0].node, kDamaged);
  block = block_of(2);
  const auto step = search.next(block, dead, 0.0);
  REQUIRE(std::holds_alternative<Try>(step));
  CHECK(std::get<Try>(step).replica == 1);
}

TEST_CASE("replica search: who is reported as bad") {
  const LocatedBlock block = block_of(3);
  ReplicaSearch search(settings(), "read");
  CHECK(search.bad_replicas(block).empty());
  search.failed(block.replicas[1].node, kLost);
  CHECK(search.bad_replicas(block).empty());
  search.failed(block.replicas[1].node, kDamaged);
  REQUIRE(search.bad_replicas(block).size() == 1);
  CHECK(search.bad_replicas(block)[0].node.uuid == "u2");
  search.failed(block.replicas[1].node, kLost);  // in another round
  CHECK(search.bad_replicas(block).size() == 1);
  search.failed(block.replicas[0].node, kDamaged);
  CHECK(search.bad_replicas(block).size() == 2);
  search.failed(block.replicas[2].node, kDamaged);
  CHECK(search.bad_replicas(block).empty());  // rather we are wrong
  CHECK(search.bad_replicas(block_of(1)).size() == 1);
}

// --- the table in docs/hdfs-client.md

void lose(ReplicaSearch& search, const LocatedBlock& block, const Status& failure, int times = 1) {
  for (int i = 0; i < times; ++i) {
    search.failed(block.replicas[tried(search, block)].node, failure);
  }
}

using SearchEvent = std::function<void(ReplicaSearch& search, LocatedBlock& block)>;

const std::map<std::string, SearchEvent>& search_events() {
  static const std::map<std::string, SearchEvent> events = {
      {"a replica fails and another one is left",
       [](ReplicaSearch& search, LocatedBlock& block) { lose(search, block, kLost); }},
      {"the last one that is left fails",
       [](ReplicaSearch& search, LocatedBlock& block) { lose(search, block, kLost, 2); }},
      {"there is none", [](ReplicaSearch&, LocatedBlock& block) { block.replicas.clear(); }},
      {"a token is not accepted",
       [](ReplicaSearch& search, LocatedBlock& block) { lose(search, block, kToken); }},
      {"all are damaged",
       [](ReplicaSearch& search, LocatedBlock& block) { lose(search, block, kDamaged, 2); }},
      {"all are without checksums",
       [](ReplicaSearch& search, LocatedBlock& block) { lose(search, block, kUnsummed, 2); }},
      {"the block has a new generation stamp",
       [](ReplicaSearch& search, LocatedBlock& block) {
         lose(search, block, kLost, 2);
         ++block.block.generation_stamp;
       }},
  };
  return events;
}

// A search that has come so far, at locations without a replica.
ReplicaSearch search_in(const std::string& state) {
  ReadSettings once = settings();
  once.max_block_acquire_failures = 1;
  ReplicaSearch search(once, "read");
  for (int i = 0; i < 2 && search.state() != state; ++i) search.next(block_of(0), {}, 0.5);
  REQUIRE(search.state() == state);
  return search;
}

TEST_CASE("every event in every state of a replica search: as the page's table says") {
  const auto table = hflush::testing::page_table("hdfs-client.md", "### ReplicaSearch");
  CHECK(table.columns == std::vector<std::string>{"known", "asked anew", "last round"});
  const auto check = [](const std::string& name, const std::string& state,
                        const std::string& cell) {
    ReplicaSearch search = search_in(state);
    LocatedBlock block = block_of(2);
    search_events().at(name)(search, block);
    const auto step = search.next(block, {}, 0.5);
    const bool is_over = std::holds_alternative<GiveUp>(step);
    const std::string after(is_over ? "given up" : search.state());
    CHECK(after == (cell == "stays" ? state : cell));
  };
  hflush::testing::for_each_cell(table, search_events(), check);
}

TEST_CASE("replica search: pauses grow, and spread") {
  CHECK(pause_after_round(0, 3s, 0.0) == 0s);
  CHECK(pause_after_round(0, 3s, 0.5) == 1500ms);
  CHECK(pause_after_round(1, 3s, 0.0) == 3s);
  CHECK(pause_after_round(1, 3s, 0.5) == 6s);
  CHECK(pause_after_round(2, 3s, 0.0) == 6s);
  CHECK(pause_after_round(2, 3s, 0.5) == 10500ms);
}

}  // namespace
}  // namespace hflush::hdfs
