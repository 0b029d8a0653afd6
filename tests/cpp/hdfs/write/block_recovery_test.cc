// What happens between two block writers of a block: every event in every state, and each rule by
// itself.
#include "hflush/hdfs/write/block_recovery.h"

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
using hflush::testing::page_table;
using hflush::testing::PageTable;
using hflush::testing::split;
using stream::Level;
using State = BlockRecovery::State;

bool is_at_home(const std::string& ip) { return ip == "10.0.0.3"; }

struct RecoveryHarness {
  explicit RecoveryHarness(WriteTarget target = small_target(), WriteSettings settings = {})
      : shared(target, settings) {}

  static BlockWriter::Broken broken(int nodes, std::size_t bad) {
    BlockWriter::Broken broken;
    broken.block.located = located(5, 50, nodes);
    broken.block.located.block.length = 100;
    broken.block.released_length = 300;
    broken.block.stage = WriteStage::kSetupStreamingRecovery;
    broken.node = bad;
    broken.fault = Status(StatusCode::kIo, "is lost", {}, EPIPE);
    broken.stood = true;
    return broken;
  }
  void hold(BlockWriter::Broken what) { recovery.emplace(shared, std::move(what)); }
  BlockRecovery::Outcome begin(BlockWriter::Broken what, bool is_hflushed) {
    hold(std::move(what));
    return recovery->begin(is_hflushed, now, actions);
  }
  // A hflushed pipeline of three has lost the second one.
  void wants_another() { static_cast<void>(begin(broken(3, 1), true)); }
  BlockRecovery::Outcome finds(int number) {
    LocatedBlock answer = located(5, 50, 0);
    if (const auto ask = take<action::GetAdditionalDatanode>()) existing = ask->replicas;
    answer.replicas = existing;
    answer.replicas.insert(answer.replicas.begin(), replica(number));
    return recovery->found(answer, actions);
  }
  std::string send_all() {
    std::string sent;
    std::vector<ByteView> pieces(2);
    while (recovery->output(pieces) > 0) {
      sent += as_text(pieces[0]);
      recovery->sent(pieces[0].size(), now);
    }
    return sent;
  }
  template <typename T>
  std::optional<T> take() {
    for (auto at = actions.begin(); at != actions.end(); ++at) {
      if (T* found = std::get_if<T>(&*at)) {
        T taken = std::move(*found);
        actions.erase(at);
        return taken;
      }
    }
    return std::nullopt;
  }

  WriteStream shared;
  env::TimePoint now = env::TimePoint(1h);
  Actions actions;
  std::vector<Replica> existing;
  std::optional<BlockRecovery> recovery;
};

std::vector<std::string> addresses(const BlockRecovery::Outcome& outcome) {
  std::vector<std::string> found;
  const auto* const ready = std::get_if<BlockRecovery::Ready>(&outcome);
  if (ready == nullptr) return found;
  for (const Replica& replica : ready->block.located.replicas) found.push_back(replica.node.ip);
  return found;
}

std::string why(const BlockRecovery::Outcome& outcome) {
  const auto* const given_up = std::get_if<BlockRecovery::GivenUp>(&outcome);
  return given_up == nullptr ? std::string() : given_up->why.message();
}

std::unique_ptr<RecoveryHarness> recovery_in(const std::string& state) {
  auto h = std::make_unique<RecoveryHarness>();
  if (state == "held") {
    h->hold(RecoveryHarness::broken(3, 1));
  } else if (state == "pausing") {
    BlockWriter::Broken broken = RecoveryHarness::broken(1, 0);
    broken.restarts = true;
    static_cast<void>(h->begin(broken, false));
  } else {
    h->wants_another();
    h->existing = {replica(1), replica(3)};
    if (state != "finding") static_cast<void>(h->finds(4));
    if (state == "transferring") h->recovery->connected(h->now);
    static_cast<void>(h->send_all());
  }
  h->actions.clear();
  REQUIRE(to_string(h->recovery->state()) == state);
  return h;
}

using RecoveryEvents =
    std::map<std::string, std::function<BlockRecovery::Outcome(RecoveryHarness&)>>;

const RecoveryEvents& recovery_events() {
  const auto begins = [](int nodes, bool is_hflushed, bool restarts, int recoveries = 0) {
    return [=](RecoveryHarness& h) -> BlockRecovery::Outcome {
      if (h.recovery->state() != State::kHeld) return BlockRecovery::Continues{};
      BlockWriter::Broken broken = RecoveryHarness::broken(nodes, 0);
      broken.restarts = restarts;
      h.shared.recoveries.since_ack = recoveries;
      return h.begin(broken, is_hflushed);
    };
  };
  static const RecoveryEvents events = {
      {"a node fails: the others go on", begins(3, false, false)},
      {"a node fails: another one is wanted", begins(3, true, false)},
      {"a node restarts that is waited for", begins(1, true, true)},
      {"the last node fails", begins(1, true, false)},
      {"one recovery too many", begins(3, true, false, 5)},
      {"getAdditionalDatanode: another node", [](RecoveryHarness& h) { return h.finds(4); }},
      {"getAdditionalDatanode: none",
       [](RecoveryHarness& h) { return h.recovery->found(located(5, 50, 2), h.actions); }},
      {"refused", [](RecoveryHarness& h) { return h.recovery->found(kRefused, h.actions); }},
      {"connected",
       [](RecoveryHarness& h) {
         h.recovery->connected(h.now);
         return BlockRecovery::Continues{};
       }},
      {"the copy is made", [](RecoveryHarness& h) { return h.recovery->replied({}, h.actions); }},
      {"the copy is refused",
       [](RecoveryHarness& h) {
         return h.recovery->replied({TransferStatus::kError, "", "", {}, 0, {}}, h.actions);
       }},
      {"the connection is lost",
       [](RecoveryHarness& h) { return h.recovery->connection_lost(kRefused, h.actions); }},
      {"the time is over",
       [](RecoveryHarness& h) {
         h.now += 1h;
         return h.recovery->tick(h.now, h.actions);
       }},
  };
  return events;
}

TEST_CASE("every event in every state of a recovery: as the page's table says") {
  const PageTable table = page_table("hdfs-client.md", "### BlockRecovery");
  constexpr auto kOutcomes = std::to_array<std::string_view>({"", "ready", "given up"});
  std::size_t rows = 0;
  for (const PageTable::Row& row : table.rows) {
    for (const std::string& name : split(row.event, ", ")) {
      REQUIRE(recovery_events().contains(name));
      ++rows;
      for (std::size_t i = 0; i < table.columns.size(); ++i) {
        const std::string& state = table.columns[i];
        CAPTURE(state);
        CAPTURE(name);
        const std::unique_ptr<RecoveryHarness> h = recovery_in(state);
        const bool was_connected = h->recovery->connection().has_value();
        const BlockRecovery::Outcome outcome = recovery_events().at(name)(*h);
        const std::string& cell = row.cells[i];
        const std::string_view what =
            outcome.index() == 0 ? to_string(h->recovery->state()) : kOutcomes[outcome.index()];
        CHECK(what == (cell == "–" ? state : cell));
        if (cell == "–") CHECK(h->actions.empty());
        // No connection is left by it.
        const bool is_closed = h->take<action::Disconnect>().has_value();
        CHECK(is_closed == (was_connected && cell != "–" && cell != "transferring"));
      }
    }
  }
  CHECK(rows == recovery_events().size());
  CHECK(table.columns.size() == 5);
}

TEST_CASE("whether another DataNode comes in is decided as the page's table says") {
  const PageTable table = page_table("hdfs-client.md", "### Replacement");
  const std::map<std::string, ReplacementPolicy> policies = {
      {"NEVER", ReplacementPolicy::kNever},
      {"DEFAULT", ReplacementPolicy::kDefault},
      {"ALWAYS", ReplacementPolicy::kAlways}};
  for (const PageTable::Row& row : table.rows) {
    const std::size_t replication = std::stoul(row.cells[0]);
    const std::size_t nodes = std::stoul(row.cells[1]);
    CAPTURE(replication);
    CAPTURE(nodes);
    WriteSettings settings;
    settings.replacement_policy = policies.at(row.event);
    const auto wants = [&](std::size_t left) {
      return wants_replacement(settings, replication, left, row.cells[2] == "yes",
                               row.cells[3] == "yes");
    };
    CHECK(wants(nodes) == (row.cells[4] == "yes"));
    CHECK_FALSE(wants(0));
    settings.replace_datanode = false;
    CHECK_FALSE(wants(nodes));
  }
  CHECK(table.rows.size() == 17);
}

TEST_CASE("golden: another node gets a copy from one that is left, with the token for it") {
  RecoveryHarness h;
  h.wants_another();
  const auto ask = h.take<action::GetAdditionalDatanode>();
  REQUIRE(ask);
  CHECK(ask->block.generation_stamp == 50);
  CHECK(ask->replicas.size() == 2);
  REQUIRE(ask->excluded.size() == 1);
  CHECK(ask->excluded[0].ip == "10.0.0.2");
  LocatedBlock answer = located(5, 50, 0);
  answer.replicas = {replica(3), replica(4), replica(1)};  // in an order of its own
  answer.token.encoded = "COPY";
  static_cast<void>(h.recovery->found(answer, h.actions));
  const auto connect = h.take<action::Connect>();
  REQUIRE(connect);
  CHECK(connect->node.ip == "10.0.0.1");
  h.recovery->connected(h.now);
  const std::string sent = h.send_all();
  CHECK(hex(sent).starts_with("001c56"));
  CHECK(sent.find("COPY") != std::string::npos);
  CHECK(sent.find("DS-4") != std::string::npos);
  CHECK(sent.find("DS-3") == std::string::npos);
  CHECK(*h.recovery->deadline() == h.now + 70s);
  const BlockRecovery::Outcome outcome = h.recovery->replied({}, h.actions);
  CHECK(addresses(outcome) == std::vector<std::string>{"10.0.0.3", "10.0.0.4", "10.0.0.1"});
  CHECK(std::get<BlockRecovery::Ready>(outcome).block.has_new_replica);
  CHECK(std::get<BlockRecovery::Ready>(outcome).block.located.token == Token());
}

TEST_CASE("three tries, each with another target and source; what a source says proves nothing") {
  RecoveryHarness h;
  h.wants_another();
  static_cast<void>(h.finds(4));
  CHECK(h.take<action::Connect>()->node.ip == "10.0.0.1");
  static_cast<void>(h.recovery->connection_lost(kRefused, h.actions));
  CHECK(h.take<action::Disconnect>());
  static_cast<void>(h.finds(5));
  CHECK(h.take<action::Connect>()->node.ip == "10.0.0.3");
  h.recovery->connected(h.now);
  BlockRecovery::Outcome outcome = h.recovery->replied({}, h.actions);
  REQUIRE(std::holds_alternative<BlockRecovery::Ready>(outcome));
  h.actions.clear();

  // The new node refuses the pipeline: a failed try, and no failed node.
  BlockWriter::Broken broken = RecoveryHarness::broken(3, 0);
  broken.block = std::get<BlockRecovery::Ready>(outcome).block;
  broken.stood = false;
  outcome = h.begin(broken, true);
  const auto ask = h.take<action::GetAdditionalDatanode>();
  REQUIRE(ask);
  CHECK(ask->replicas.size() == 2);
  CHECK(ask->excluded.size() == 2);  // not the one whose source was not reached
  CHECK(h.shared.recoveries.failed.size() == 1);
  h.existing = ask->replicas;
  static_cast<void>(h.finds(6));
  CHECK(h.take<action::Connect>()->node.ip == "10.0.0.1");
  outcome = h.recovery->connection_lost(kRefused, h.actions);
  CHECK(why(outcome).find("no other DataNode could get a copy of the block") != std::string::npos);
  CHECK(why(outcome).find("10.0.0.1:9866 (source of a copy) is lost: refused") !=
        std::string::npos);
  CHECK(why(outcome).find("blk_5_50, 100 bytes acknowledged and 300 sent") != std::string::npos);
}

TEST_CASE("a node of the old pipeline that fails in the new one: three tries again") {
  RecoveryHarness h;
  h.wants_another();
  static_cast<void>(h.finds(4));
  static_cast<void>(h.recovery->connection_lost(kRefused, h.actions));
  static_cast<void>(h.finds(5));
  h.recovery->connected(h.now);
  BlockRecovery::Outcome outcome = h.recovery->replied({}, h.actions);
  h.actions.clear();

  BlockWriter::Broken broken = RecoveryHarness::broken(3, 0);
  broken.block = std::get<BlockRecovery::Ready>(outcome).block;
  broken.node = 1;  // of 10.0.0.5, .1 and .3
  broken.stood = false;
  static_cast<void>(h.begin(broken, true));
  const auto ask = h.take<action::GetAdditionalDatanode>();
  REQUIRE(ask);
  CHECK(ask->excluded.size() == 2);  // those that failed, and no target
  h.existing = ask->replicas;
  for (int node = 6; node < 8; ++node) {
    static_cast<void>(h.finds(node));
    h.recovery->connected(h.now);
    outcome = h.recovery->connection_lost(kRefused, h.actions);
    REQUIRE(std::holds_alternative<BlockRecovery::Continues>(outcome));
  }
  static_cast<void>(h.finds(8));
  CHECK_FALSE(why(h.recovery->connection_lost(kRefused, h.actions)).empty());
}

TEST_CASE("without another node the stream fails, unless the configuration lets it go on") {
  WriteSettings settings;
  const auto with_none = [&settings](int remain) {
    RecoveryHarness h(small_target(), settings);
    h.wants_another();
    return h.recovery->found(located(5, 50, remain), h.actions);
  };
  CHECK(why(with_none(2)).find("replace-datanode-on-failure.policy") != std::string::npos);
  settings.replacement_min_replication = 3;
  CHECK_FALSE(why(with_none(2)).empty());
  settings.replacement_min_replication = 2;
  CHECK(addresses(with_none(2)).size() == 2);
  settings.replacement_min_replication = 0;
  settings.replacement_best_effort = true;
  CHECK(addresses(with_none(2)).size() == 2);
  CHECK(addresses(with_none(0)).size() == 2);
}

TEST_CASE("nothing is copied while nothing is acknowledged, nor at a block's end") {
  RecoveryHarness h;
  BlockWriter::Broken broken = RecoveryHarness::broken(3, 1);
  SUBCASE("nothing is acknowledged") { broken.block.located.block.length = 0; }
  SUBCASE("its last packet was sent") { broken.block.stage = WriteStage::kCloseRecovery; }
  CHECK(addresses(h.begin(broken, true)) == std::vector<std::string>{"10.0.0.1", "10.0.0.3"});
}

TEST_CASE("a node that restarts here is waited for, and failures of it do not count till then") {
  WriteTarget target = small_target();
  target.is_local = &is_at_home;
  RecoveryHarness h(target);
  h.shared.recoveries.since_ack = 5;
  BlockWriter::Broken broken = RecoveryHarness::broken(3, 2);
  broken.restarts = true;
  static_cast<void>(h.begin(broken, false));
  const env::TimePoint start = h.now;
  env::Duration longest{0};
  BlockRecovery::Outcome outcome = BlockRecovery::Continues{};
  int attempts = 0;
  while (h.recovery->state() == State::kPausing) {
    REQUIRE(h.recovery->deadline());
    longest = std::max(longest, *h.recovery->deadline() - h.now);
    h.now = *h.recovery->deadline();
    outcome = h.recovery->tick(h.now, h.actions);
    CHECK(addresses(outcome).size() == 3);
    broken = RecoveryHarness::broken(3, 2);
    broken.stood = false;
    outcome = h.begin(broken, false);
    ++attempts;
  }
  CHECK(h.now - start == 30s);
  CHECK(longest == 4s);
  CHECK(attempts > 8);
  CHECK(addresses(outcome) == std::vector<std::string>{"10.0.0.1", "10.0.0.2"});
  CHECK(h.shared.counters.restarts_waited_for == 1);
  CHECK(h.shared.recoveries.since_ack == 5);
}

TEST_CASE("another node leaves while one is waited for; one that restarts elsewhere may return") {
  WriteTarget target = small_target();
  target.is_local = &is_at_home;
  RecoveryHarness h(target);
  BlockWriter::Broken broken = RecoveryHarness::broken(3, 0);
  broken.restarts = true;
  CHECK(addresses(h.begin(broken, false)).size() == 2);  // 10.0.0.1 is not here
  REQUIRE(h.shared.recoveries.failed.size() == 1);
  h.shared.recoveries.pipeline_is_set_up();
  CHECK(h.shared.recoveries.failed.empty());

  broken = RecoveryHarness::broken(3, 2);
  broken.restarts = true;
  static_cast<void>(h.begin(broken, false));
  CHECK(h.recovery->state() == State::kPausing);
  broken = RecoveryHarness::broken(3, 1);
  broken.stood = false;
  static_cast<void>(h.begin(broken, false));
  CHECK(h.recovery->state() == State::kPausing);
  REQUIRE(h.shared.recoveries.failed.size() == 1);
  CHECK(h.shared.recoveries.failed[0].node.ip == "10.0.0.2");
  h.now = *h.recovery->deadline();
  CHECK(addresses(h.recovery->tick(h.now, h.actions)).size() == 2);  // it was never hflushed
  broken.stood = true;
  static_cast<void>(h.begin(broken, true));
  h.now = *h.recovery->deadline();
  CHECK(std::holds_alternative<BlockRecovery::Continues>(h.recovery->tick(h.now, h.actions)));
  CHECK(h.take<action::GetAdditionalDatanode>());
  h.shared.recoveries.pipeline_is_set_up();
  CHECK_FALSE(h.shared.recoveries.awaited);
  CHECK(h.shared.recoveries.failed.size() == 1);
}

TEST_CASE("recoveries without an acknowledgement are limited, and each names its node") {
  RecoveryHarness h;
  BlockRecovery::Outcome outcome = BlockRecovery::Continues{};
  for (int i = 0; i < 6; ++i) outcome = h.begin(RecoveryHarness::broken(9, 4), false);
  CHECK(why(outcome).find("again after 5 recoveries without an acknowledgement: DataNode "
                          "10.0.0.5:9866 (5 of 9) is lost; DataNode 10.0.0.5") !=
        std::string::npos);
  CHECK(h.shared.counters.recoveries == 6);
  CHECK(h.shared.recoveries.failed.size() == 1);
}

// --- with the rest of a stream

TEST_CASE("HDFS-10: a node dies: all that is not acknowledged goes out again, the same bytes") {
  Harness h;
  h.write(3000);
  h.machine.allocated(located(1, 10, 3), h.now, h.actions);
  h.machine.connected(h.pipeline(), h.now);
  static_cast<void>(h.send_all());
  h.machine.replied(h.pipeline(), {}, h.now, h.actions);
  const std::string first = h.send_all();
  h.ack(0);
  h.actions.clear();
  h.machine.acked(h.pipeline(), {-2, {TransferStatus::kSuccess, TransferStatus::kError}}, h.now,
                  h.actions);
  const auto update = h.take<action::UpdateBlockForPipeline>();
  REQUIRE(update);
  CHECK(update->block.length == 1024);
  h.machine.reserved(located(1, 11, 0), h.now, h.actions);
  CHECK(h.take<action::Connect>()->node.ip == "10.0.0.1");
  h.machine.connected(h.pipeline(), h.now);
  CHECK_FALSE(h.send_all().empty());
  h.machine.replied(h.pipeline(), {}, h.now, h.actions);
  CHECK(h.send_all().empty());
  CHECK(h.take<action::UpdatePipeline>()->replicas.size() == 2);
  h.machine.registered({}, h.now, h.actions);
  const std::string again = h.send_all();
  CHECK_FALSE(again.empty());
  CHECK(first.ends_with(again));
  for (const std::int64_t number : {1, 2}) h.ack(number, 2);
  CHECK(h.machine.acknowledged_offset() == 3000);
  CHECK(h.machine.counters().recoveries == 1);
  CHECK(h.machine.counters().bytes_sent_again == std::ssize(again));
}

TEST_CASE("a pipeline that breaks while fsync is asked is repaired after the answer") {
  Harness h;
  h.flush(Level::kVisible, 100);
  h.build(located(1, 10, 3));
  h.ack(0);
  REQUIRE(h.take<action::Fsync>());
  h.machine.connection_lost(h.pipeline(), kRefused, h.now, h.actions);
  CHECK(h.machine.state() == FileWriter::State::kRecovering);
  CHECK_FALSE(h.has<action::UpdateBlockForPipeline>());
  h.machine.fsynced({}, h.now, h.actions);
  CHECK(h.take<action::Reached>()->offset == 100);  // what it waited for holds
  CHECK(h.has<action::GetAdditionalDatanode>());
}

TEST_CASE("a new replica of a stream that has synced is synced before anything is acknowledged") {
  WriteSettings settings;
  settings.replacement_policy = ReplacementPolicy::kAlways;
  for (const bool has_more : {false, true}) {
    CAPTURE(has_more);
    Harness h(small_target(), settings);
    h.flush(Level::kDurable, 100);
    h.build(located(1, 10, 3));
    h.ack(0);
    h.machine.fsynced({}, h.now, h.actions);
    if (has_more) h.write(50);
    static_cast<void>(h.send_all());
    h.actions.clear();
    h.machine.connection_lost(h.pipeline(), kRefused, h.now, h.actions);
    LocatedBlock found = located(1, 10, 4);
    found.replicas.erase(found.replicas.begin());
    h.machine.found(found, h.now, h.actions);
    const ConnectionNumber copying = h.machine.recovery()->connection().value();
    h.machine.connected(copying, h.now);
    static_cast<void>(h.send_all(copying));
    h.machine.replied(copying, {}, h.now, h.actions);
    h.machine.reserved(located(1, 11, 0), h.now, h.actions);
    h.machine.connected(h.pipeline(), h.now);
    static_cast<void>(h.send_all());
    h.machine.replied(h.pipeline(), {}, h.now, h.actions);
    h.machine.registered({}, h.now, h.actions);
    const std::string sent = h.send_all();
    const auto header = decode_packet_header(as_bytes(sent));
    REQUIRE(header.ok());
    REQUIRE(*header);
    CHECK((*header)->header.sequence_number == 1);
    CHECK((*header)->header.sync_block);
    CHECK(((*header)->header.data_size > 0) == has_more);
    CHECK(h.machine.counters().replacements == 1);
    CHECK(h.machine.counters().transfers == 1);
  }
}

TEST_CASE("a node that dies before the last packet's ack costs a close recovery, not the file") {
  for (const bool has_synced : {false, true}) {
    CAPTURE(has_synced);
    Harness h;
    h.flush(has_synced ? Level::kDurable : Level::kVisible, 100);
    h.build(located(1, 10, 3));
    h.ack(0);
    h.machine.fsynced({}, h.now, h.actions);
    h.machine.finish(h.now, h.actions);
    CHECK_FALSE(h.send_all().empty());
    CHECK(h.block_is(BlockWriter::State::kEnding));
    h.machine.connection_lost(h.pipeline(), kRefused, h.now, h.actions);
    h.machine.reserved(located(1, 11, 0), h.now, h.actions);
    h.machine.connected(h.pipeline(), h.now);
    static_cast<void>(h.send_all());
    h.machine.replied(h.pipeline(), {}, h.now, h.actions);
    h.machine.registered({}, h.now, h.actions);
    if (has_synced) {  // the replicas were moved without one
      CHECK_FALSE(h.has<action::Complete>());
      h.locate(located(1, 11, 2));
      h.sync_replica();
      h.sync_replica();
    }
    const auto complete = h.take<action::Complete>();
    REQUIRE(complete);
    CHECK(complete->last->generation_stamp == 11);
    CHECK(complete->last->length == 100);
    CHECK(h.machine.counters().synced_afterwards == (has_synced ? 2 : 0));
  }
}

}  // namespace
}  // namespace hflush::hdfs
