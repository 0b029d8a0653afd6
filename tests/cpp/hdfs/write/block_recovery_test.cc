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
using hflush::testing::for_each_cell;
using hflush::testing::page_table;
using hflush::testing::PageTable;
using stream::Level;
using State = BlockRecovery::State;

constexpr auto kFault = BlockWriter::Failure::kFault;
constexpr auto kRestart = BlockWriter::Failure::kRestart;
constexpr auto kSilence = BlockWriter::Failure::kSilence;
constexpr auto kSlow = BlockWriter::Failure::kSlow;

bool is_at_home(const std::string& ip) { return ip == "10.0.0.3"; }

struct RecoveryHarness {
  explicit RecoveryHarness(WriteTarget target = small_target(), WriteSettings settings = {})
      : shared(target, settings) {}

  static BlockWriter::Broken broken(int nodes, std::size_t bad,
                                    BlockWriter::Failure failure = kFault) {
    BlockWriter::Broken broken;
    broken.block.located = located(5, 50, nodes);
    broken.block.located.block.length = 100;
    broken.block.released_length = 300;
    broken.block.stage = WriteStage::kSetupStreamingRecovery;
    broken.node = bad;
    broken.fault = Status(StatusCode::kIo, "is lost", {}, EPIPE);
    broken.failure = failure;
    broken.stood = true;
    return broken;
  }
  void hold(BlockWriter::Broken what) { recovery.emplace(shared, std::move(what), now); }
  BlockRecovery::Outcome begin(BlockWriter::Broken what, bool is_hflushed,
                               bool may_discard = true) {
    hold(std::move(what));
    return recovery->begin(is_hflushed, may_discard, now, actions);
  }
  // The first block of an append, of which the NameNode knows so many replicas.
  BlockRecovery::Outcome append(int nodes, bool is_hflushed = false) {
    BlockWriter::Block block;
    block.located = located(5, 50, nodes);
    block.located.block.length = 100;
    block.stage = WriteStage::kSetupAppend;
    recovery.emplace(shared, std::move(block));
    return recovery->begin(is_hflushed, true, now, actions);
  }
  // A hflushed pipeline of three has lost the second one.
  void wants_another() { static_cast<void>(begin(broken(3, 1), true)); }
  BlockRecovery::Outcome finds(int number) {
    LocatedBlock answer = located(5, 50, 0);
    if (const auto ask = take<action::GetAdditionalDatanode>()) existing = ask->replicas;
    answer.replicas = existing;
    answer.replicas.insert(answer.replicas.begin(), replica(number));
    return recovery->found(answer, now, actions);
  }
  // And not in all the time for which it is asked.
  BlockRecovery::Outcome finds_none_at_all() {
    BlockRecovery::Outcome outcome = finds_none();
    while (recovery->state() == State::kFindingLater) {
      now = *recovery->deadline();
      static_cast<void>(recovery->tick(now, actions));
      outcome = finds_none();
    }
    return outcome;
  }
  BlockRecovery::Outcome finds_none() {
    const auto ask = take<action::GetAdditionalDatanode>();
    REQUIRE(ask);
    LocatedBlock answer = located(5, 50, 0);
    answer.replicas = ask->replicas;
    return recovery->found(answer, now, actions);
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
    return take_from<T>(actions);
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
    BlockWriter::Broken broken = RecoveryHarness::broken(1, 0, kRestart);
    static_cast<void>(h->begin(broken, false));
  } else {
    h->wants_another();
    h->existing = {replica(1), replica(3)};
    if (state == "finding later") {
      static_cast<void>(h->finds_none());
    } else if (state != "finding") {
      static_cast<void>(h->finds(4));
    }
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
  const auto begins = [](int nodes, bool is_hflushed, BlockWriter::Failure failure = kFault,
                         int recoveries = 0, std::uint64_t acknowledged = 100) {
    return [=](RecoveryHarness& h) -> BlockRecovery::Outcome {
      if (h.recovery->state() != State::kHeld) return BlockRecovery::Continues{};
      BlockWriter::Broken broken = RecoveryHarness::broken(nodes, 0);
      broken.block.located.block.length = acknowledged;
      broken.failure = failure;
      h.shared.recoveries.since_ack = recoveries;
      return h.begin(broken, is_hflushed);
    };
  };
  const auto appends = [](int nodes) {
    return [=](RecoveryHarness& h) -> BlockRecovery::Outcome {
      if (h.recovery->state() != State::kHeld) return BlockRecovery::Continues{};
      return h.append(nodes);
    };
  };
  const auto third_copy_fails = [](RecoveryHarness& h) -> BlockRecovery::Outcome {
    if (h.recovery->state() == State::kHeld) return BlockRecovery::Continues{};
    std::optional<Recoveries::Replacement>& replacement = h.shared.recoveries.replacement;
    if (replacement) replacement->failed_tries = 2;
    return h.recovery->connection_lost(kRefused, h.now, h.actions);
  };
  static const RecoveryEvents events = {
      {"an append finds enough replicas", appends(3)},
      {"an append finds too few replicas", appends(1)},
      {"a node fails: the others go on", begins(3, false)},
      {"a node fails: another one is wanted", begins(3, true)},
      {"a node fails before a new block's first acknowledgement", begins(3, true, kFault, 0, 0)},
      {"a node restarts that is waited for", begins(1, true, kRestart)},
      {"the last node fails", begins(1, true)},
      {"the last node's connection is lost: another one is wanted",
       begins(1, true, BlockWriter::Failure::kLostConnection)},
      {"one recovery too many", begins(3, true, kFault, 5)},
      {"getAdditionalDatanode: another node", [](RecoveryHarness& h) { return h.finds(4); }},
      {"getAdditionalDatanode: none",
       [](RecoveryHarness& h) { return h.recovery->found(located(5, 50, 2), h.now, h.actions); }},
      {"getAdditionalDatanode: none for too long",
       [](RecoveryHarness& h) -> BlockRecovery::Outcome {
         if (h.recovery->state() != State::kFinding) return BlockRecovery::Continues{};
         h.wants_another();
         return h.finds_none_at_all();
       }},
      {"refused", [](RecoveryHarness& h) { return h.recovery->found(kRefused, h.now, h.actions); }},
      {"getAdditionalDatanode: none while one can be waited for",
       [](RecoveryHarness& h) -> BlockRecovery::Outcome {
         if (h.recovery->state() != State::kFinding) return BlockRecovery::Continues{};
         BlockWriter::Broken broken = RecoveryHarness::broken(3, 1, kRestart);
         static_cast<void>(h.begin(broken, true));
         return h.finds_none();
       }},
      {"getAdditionalDatanode: none in place of a slow one",
       [](RecoveryHarness& h) -> BlockRecovery::Outcome {
         if (h.recovery->state() != State::kFinding) return BlockRecovery::Continues{};
         static_cast<void>(h.begin(RecoveryHarness::broken(3, 1, kSlow), true));
         return h.finds_none();
       }},
      {"getAdditionalDatanode: none after one was waited for",
       [](RecoveryHarness& h) -> BlockRecovery::Outcome {
         if (h.recovery->state() != State::kFinding) return BlockRecovery::Continues{};
         h.shared.recoveries.awaited = {replica(3).node.transfer_address(), h.now, 1s};
         static_cast<void>(h.begin(RecoveryHarness::broken(3, 2), true));
         return h.finds_none();
       }},
      {"getAdditionalDatanode: none after three failed copies",
       [](RecoveryHarness& h) -> BlockRecovery::Outcome {
         if (h.recovery->state() != State::kFinding) return BlockRecovery::Continues{};
         Recoveries::Replacement& replacement = *h.shared.recoveries.replacement;
         replacement.uncopied = {{replica(9).node, h.now - 1min}};
         replacement.refusals = 3;
         return h.recovery->found(located(5, 50, 2), h.now, h.actions);
       }},
      {"connected",
       [](RecoveryHarness& h) {
         h.recovery->connected(h.now);
         return BlockRecovery::Continues{};
       }},
      {"the copy is made",
       [](RecoveryHarness& h) { return h.recovery->replied({}, h.now, h.actions); }},
      {"the copy is made: an append has too few still",
       [](RecoveryHarness& h) -> BlockRecovery::Outcome {
         if (h.recovery->state() != State::kTransferring) return BlockRecovery::Continues{};
         static_cast<void>(h.append(1, true));
         static_cast<void>(h.finds(4));
         h.recovery->connected(h.now);
         h.actions.clear();
         return h.recovery->replied({}, h.now, h.actions);
       }},
      {"the copy is refused",
       [](RecoveryHarness& h) {
         return h.recovery->replied({TransferStatus::kError, "", "", {}, 0, {}}, h.now, h.actions);
       }},
      {"the connection is lost",
       [](RecoveryHarness& h) { return h.recovery->connection_lost(kRefused, h.now, h.actions); }},
      {"no connection can be made for want of descriptors",
       [](RecoveryHarness& h) -> BlockRecovery::Outcome {
         if (h.recovery->state() != State::kConnecting) return BlockRecovery::Continues{};
         return h.recovery->connection_lost(kNoDescriptor, h.now, h.actions);
       }},
      {"the third copy fails", third_copy_fails},
      {"the third copy fails while one can be waited for",
       [third_copy_fails](RecoveryHarness& h) {
         h.shared.recoveries.silent = {replica(9), h.now + 1min};
         return third_copy_fails(h);
       }},
      {"the third copy fails in place of a slow one",
       [third_copy_fails](RecoveryHarness& h) {
         h.shared.recoveries.slow = replica(9);
         return third_copy_fails(h);
       }},
      {"the time is over",
       [](RecoveryHarness& h) {
         h.now += 1h;
         return h.recovery->tick(h.now, h.actions);
       }},
      {"the time is over: another one is wanted",
       [](RecoveryHarness& h) -> BlockRecovery::Outcome {
         if (h.recovery->state() != State::kPausing) return BlockRecovery::Continues{};
         const std::string awaited = replica(1).node.transfer_address();
         h.shared.recoveries.awaited = {awaited, h.now + 1min, 1s};
         static_cast<void>(h.begin(RecoveryHarness::broken(2, 0), true));
         h.now += 1h;
         return h.recovery->tick(h.now, h.actions);
       }},
  };
  return events;
}

TEST_CASE("every event in every state of a recovery: as the page's table says") {
  const PageTable table = page_table("hdfs-client.md", "### BlockRecovery");
  const auto check = [](const std::string& name, const std::string& state,
                        const std::string& cell) {
    constexpr auto kOutcomes =
        std::to_array<std::string_view>({"", "ready", "discarded", "given up"});
    const std::unique_ptr<RecoveryHarness> h = recovery_in(state);
    const bool was_connected = h->recovery->connection().has_value();
    const BlockRecovery::Outcome outcome = recovery_events().at(name)(*h);
    const std::string_view what =
        outcome.index() == 0 ? to_string(h->recovery->state()) : kOutcomes[outcome.index()];
    CHECK(what == (cell == "–" || cell == "stays" ? state : cell));
    if (cell == "–") CHECK(h->actions.empty());
    // No connection is left by it.
    const bool is_closed = h->take<action::Disconnect>().has_value();
    CHECK(is_closed == (was_connected && cell != "–" && cell != "transferring"));
  };
  for_each_cell(table, recovery_events(), check);
  CHECK(table.columns.size() == 6);
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

TEST_CASE("an append gets DataNodes until the file has its replicas, or there is no other one") {
  for (const int others : {0, 1, 2}) {
    CAPTURE(others);
    RecoveryHarness h(append_target());
    BlockRecovery::Outcome outcome = h.append(1);
    for (int found = 0; found < others; ++found) {
      outcome = h.finds(2 + found);
      h.recovery->connected(h.now);
      static_cast<void>(h.send_all());
      outcome = h.recovery->replied({}, h.now, h.actions);
      CHECK(h.take<action::Disconnect>());
    }
    if (others < 2) {
      CHECK(std::holds_alternative<BlockRecovery::Continues>(outcome));
      outcome = h.recovery->found(kRefused, h.now, h.actions);
    }
    CHECK(addresses(outcome).size() == 1 + static_cast<std::size_t>(others));
    CHECK(h.shared.recoveries.unproven() == static_cast<std::size_t>(others));
    CHECK(h.shared.counters.recoveries == 0);
    CHECK(h.shared.failures.faults().empty());
  }
}

TEST_CASE("an append goes on without a DataNode that came in and refuses the pipeline") {
  RecoveryHarness h(append_target());
  static_cast<void>(h.append(2));
  BlockRecovery::Outcome outcome = BlockRecovery::Continues{};
  for (const int number : {7, 8, 9}) {
    static_cast<void>(h.finds(number));
    h.recovery->connected(h.now);
    static_cast<void>(h.send_all());
    outcome = h.recovery->replied({}, h.now, h.actions);  // its source has tried
    BlockWriter::Broken broken = RecoveryHarness::broken(1, 0);
    broken.stood = false;
    broken.block = std::get<BlockRecovery::Ready>(outcome).block;
    CHECK(broken.block.stage == WriteStage::kSetupAppend);
    h.actions.clear();
    outcome = h.begin(broken, false);  // the one that came in stands first
    if (number == 9) break;
    const auto ask = h.take<action::GetAdditionalDatanode>();
    REQUIRE(ask);
    CHECK(ask->replicas.size() == 2);
    CHECK(ask->excluded.size() == static_cast<std::size_t>(number - 6));
    h.actions.emplace_back(*ask);
  }
  CHECK(addresses(outcome) == std::vector<std::string>{"10.0.0.1", "10.0.0.2"});
  CHECK_FALSE(h.shared.recoveries.replacement);
}

TEST_CASE("what came in for an append is no source of a copy, and stays in although others fail") {
  RecoveryHarness h(append_target());
  static_cast<void>(h.append(1));
  static_cast<void>(h.finds(7));  // the NameNode names it first
  static_cast<void>(h.take<action::Connect>());
  h.recovery->connected(h.now);
  static_cast<void>(h.send_all());
  static_cast<void>(h.recovery->replied({}, h.now, h.actions));
  static_cast<void>(h.finds(8));
  const auto connect = h.take<action::Connect>();
  REQUIRE(connect);
  CHECK(connect->node.ip == "10.0.0.1");
  h.recovery->connected(h.now);
  static_cast<void>(h.send_all());
  BlockRecovery::Outcome outcome = h.recovery->replied({}, h.now, h.actions);
  CHECK(addresses(outcome) == std::vector<std::string>{"10.0.0.8", "10.0.0.7", "10.0.0.1"});
  h.actions.clear();
  BlockWriter::Broken broken = RecoveryHarness::broken(1, 2);
  broken.stood = false;
  broken.block = std::get<BlockRecovery::Ready>(outcome).block;
  outcome = h.begin(broken, false);  // the one that the append has found fails
  CHECK(h.shared.recoveries.unproven() == 2);
  CHECK_FALSE(h.shared.recoveries.replacement->is_extra);
  const auto ask = h.take<action::GetAdditionalDatanode>();
  REQUIRE(ask);
  REQUIRE(ask->excluded.size() == 1);
  CHECK(ask->excluded[0].ip == "10.0.0.1");
}

TEST_CASE("with a minimum of replicas an append goes on without one that came in and refuses") {
  WriteSettings settings;
  settings.replacement_min_replication = 2;
  RecoveryHarness h(append_target(), settings);
  static_cast<void>(h.append(1));
  static_cast<void>(h.finds(7));
  h.recovery->connected(h.now);
  static_cast<void>(h.send_all());
  static_cast<void>(h.recovery->replied({}, h.now, h.actions));
  BlockRecovery::Outcome outcome = h.finds_none();
  CHECK(addresses(outcome) == std::vector<std::string>{"10.0.0.7", "10.0.0.1"});
  h.actions.clear();
  BlockWriter::Broken broken = RecoveryHarness::broken(1, 0);
  broken.stood = false;
  broken.block = std::get<BlockRecovery::Ready>(outcome).block;
  static_cast<void>(h.begin(broken, false));
  outcome = h.finds_none();
  CHECK(addresses(outcome) == std::vector<std::string>{"10.0.0.1"});
  CHECK(h.shared.recoveries.failed.empty());
}

TEST_CASE("a restart that is waited for ends no stream that is short of DataNodes already") {
  for (const std::uint64_t acknowledged : {0U, 100U}) {
    CAPTURE(acknowledged);
    WriteTarget target = small_target();
    target.is_local = is_at_home;
    RecoveryHarness h(target);
    BlockWriter::Broken broken = RecoveryHarness::broken(3, 2);
    broken.block.located.replicas.erase(broken.block.located.replicas.begin());  // it left before
    broken.block.located.block.length = acknowledged;
    broken.node = 1;
    broken.failure = kRestart;
    BlockRecovery::Outcome outcome = h.begin(broken, true);
    CHECK(h.recovery->state() == State::kPausing);
    h.now = *h.recovery->deadline();
    outcome = h.recovery->tick(h.now, h.actions);
    if (acknowledged > 0) {  // another one is looked for, and there is none
      REQUIRE(h.take<action::GetAdditionalDatanode>());
      outcome = h.recovery->found(kRefused, h.now, h.actions);
    }
    CHECK(addresses(outcome) == std::vector<std::string>{"10.0.0.2", "10.0.0.3"});
  }
}

TEST_CASE("a node that was found silent is waited for where there is no other, as Hadoop would") {
  RecoveryHarness h;
  const env::TimePoint found_at = h.now;
  BlockWriter::Broken broken = RecoveryHarness::broken(3, 1, kSilence);
  static_cast<void>(h.begin(broken, true));
  BlockRecovery::Outcome outcome = h.finds_none();
  while (h.recovery->state() == State::kPausing) {
    h.now = *h.recovery->deadline();
    outcome = h.recovery->tick(h.now, h.actions);
    // Tried as the last one, and silent still.
    REQUIRE(addresses(outcome) == std::vector<std::string>{"10.0.0.1", "10.0.0.3", "10.0.0.2"});
    broken = {std::get<BlockRecovery::Ready>(outcome).block, 2, broken.fault, kSilence, false};
    h.now += 6s;
    static_cast<void>(h.begin(broken, true));
  }
  CHECK(h.now - found_at >= 75s);
  CHECK(h.now - found_at < 95s);
  static_cast<void>(h.finds_none());  // nor would it be taken back
  CHECK(why(h.finds_none_at_all()).find("the NameNode has no further DataNode") !=
        std::string::npos);
  CHECK(h.shared.counters.restarts_waited_for == 0);
}

TEST_CASE("of several that are found silent each is waited for, all in one time") {
  RecoveryHarness h;
  const env::TimePoint found_at = h.now;
  BlockWriter::Broken broken = RecoveryHarness::broken(3, 1, kSilence);
  static_cast<void>(h.begin(broken, true));
  while (h.recovery->state() == State::kFinding) {
    static_cast<void>(h.finds_none());
    if (h.recovery->state() != State::kPausing) break;
    h.now = *h.recovery->deadline();
    const BlockRecovery::Outcome outcome = h.recovery->tick(h.now, h.actions);
    REQUIRE(addresses(outcome).size() == 3);
    // The other one, which is silent too.
    broken = {std::get<BlockRecovery::Ready>(outcome).block, 1, broken.fault, kSilence, false};
    h.now += 6s;
    static_cast<void>(h.begin(broken, true));
    if (h.recovery->state() != State::kPausing) break;
    h.now = *h.recovery->deadline();
    static_cast<void>(h.recovery->tick(h.now, h.actions));
  }
  CHECK(h.now - found_at >= 75s);
  CHECK(h.now - found_at < 95s);
}

TEST_CASE("a slow node keeps its place where the stream would fail, and may be slow from then on") {
  WriteSettings settings;
  bool keeps = true;
  SUBCASE("there is no other one") {}
  SUBCASE("the stream can go on without") {
    settings.replacement_best_effort = true;
    keeps = false;
  }
  RecoveryHarness h(small_target(), settings);
  static_cast<void>(h.begin(RecoveryHarness::broken(3, 1, kSlow), true));
  std::vector<std::string> left{"10.0.0.1", "10.0.0.3"};
  if (keeps) left.emplace_back("10.0.0.2");
  CHECK(addresses(h.finds_none()) == left);
  CHECK(h.shared.recoveries.tolerates(replica(2).node) == keeps);
  CHECK(h.shared.recoveries.failed.empty() == keeps);
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
  static_cast<void>(h.recovery->found(answer, h.now, h.actions));
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
  const BlockRecovery::Outcome outcome = h.recovery->replied({}, h.now, h.actions);
  CHECK(addresses(outcome) == std::vector<std::string>{"10.0.0.3", "10.0.0.4", "10.0.0.1"});
  CHECK(std::get<BlockRecovery::Ready>(outcome).block.located.token == Token());
}

TEST_CASE("three tries, each with another target and source; what a source says proves nothing") {
  RecoveryHarness h;
  h.wants_another();
  static_cast<void>(h.finds(4));
  CHECK(h.take<action::Connect>()->node.ip == "10.0.0.1");
  static_cast<void>(h.recovery->connection_lost(kRefused, h.now, h.actions));
  CHECK(h.take<action::Disconnect>());
  static_cast<void>(h.finds(5));
  CHECK(h.take<action::Connect>()->node.ip == "10.0.0.3");
  h.recovery->connected(h.now);
  BlockRecovery::Outcome outcome = h.recovery->replied({}, h.now, h.actions);
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
  outcome = h.recovery->connection_lost(kRefused, h.now, h.actions);
  CHECK(why(outcome).find("no other DataNode could get a copy of the block") != std::string::npos);
  CHECK(why(outcome).find("10.0.0.1:9866 (1 of 2) is lost: refused") != std::string::npos);
  CHECK(why(outcome).find("blk_5_50, 100 bytes acknowledged and 300 sent") != std::string::npos);
  // Also those that took part in no pipeline are among the stream's failed nodes.
  const std::vector<FailedNode>& failed = h.shared.failures.nodes();
  REQUIRE(failed.size() == 4);
  CHECK(failed[1].address == "10.0.0.1:9866");
  CHECK(failed[1].place == 0);
  CHECK(failed[1].reason == "is lost: refused");
  CHECK(failed[1].offset == 100);
  CHECK(failed[1].when == h.now);
}

TEST_CASE(
    "those that came in are gone, too: all others are tried, and then the NameNode is asked") {
  RecoveryHarness h;
  h.wants_another();
  const env::TimePoint start = h.now;
  for (int number = 4; number < 10; ++number) {
    CAPTURE(number);
    static_cast<void>(h.finds(number));
    h.recovery->connected(h.now);
    BlockRecovery::Outcome outcome = h.recovery->replied({}, h.now, h.actions);
    BlockWriter::Broken broken = RecoveryHarness::broken(3, 0);
    broken.block = std::get<BlockRecovery::Ready>(outcome).block;
    broken.stood = false;
    h.actions.clear();
    static_cast<void>(h.begin(broken, true));
    const auto ask = h.take<action::GetAdditionalDatanode>();
    REQUIRE(ask);
    CHECK(std::ssize(ask->excluded) == number - 2);
    h.actions.emplace_back(*ask);
  }
  CHECK(h.shared.recoveries.failed.size() == 1);
  CHECK(why(h.finds_none_at_all()).starts_with("write: no other DataNode could get a copy"));
  CHECK(h.now - start == 12400ms);
}

TEST_CASE("a target that gets no copy is one of the stream's failed nodes") {
  RecoveryHarness h;
  h.wants_another();
  static_cast<void>(h.finds(4));
  h.recovery->connected(h.now);
  std::string what;
  SUBCASE("its source says so") {
    what = "answered ERROR";
    static_cast<void>(
        h.recovery->replied({TransferStatus::kError, "", "", {}, 0, {}}, h.now, h.actions));
  }
  SUBCASE("its source is lost") {
    what = "is lost: refused";
    static_cast<void>(h.recovery->connection_lost(kRefused, h.now, h.actions));
  }
  SUBCASE("its source is silent") {
    what = "was not copied to for 3600.0 s";
    h.now += 1h;
    static_cast<void>(h.recovery->tick(h.now, h.actions));
  }
  REQUIRE(h.shared.failures.nodes().size() == 2);
  CHECK(h.shared.failures.nodes()[1].address == "10.0.0.4:9866");
  CHECK(h.shared.failures.nodes()[1].place == 0);  // of the pipeline that was to be
  CHECK(h.shared.failures.nodes()[1].reason == "got no copy from 10.0.0.1:9866: " + what);
  CHECK(h.shared.failures.nodes()[1].when == h.now);
}

TEST_CASE("a node of the old pipeline that fails in the new one: three tries again") {
  RecoveryHarness h;
  h.wants_another();
  static_cast<void>(h.finds(4));
  static_cast<void>(h.recovery->connection_lost(kRefused, h.now, h.actions));
  static_cast<void>(h.finds(5));
  h.recovery->connected(h.now);
  BlockRecovery::Outcome outcome = h.recovery->replied({}, h.now, h.actions);
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
    outcome = h.recovery->connection_lost(kRefused, h.now, h.actions);
    REQUIRE(std::holds_alternative<BlockRecovery::Continues>(outcome));
  }
  static_cast<void>(h.finds(8));
  CHECK_FALSE(why(h.recovery->connection_lost(kRefused, h.now, h.actions)).empty());
}

TEST_CASE("without another node the stream fails, unless the configuration lets it go on") {
  WriteSettings settings;
  settings.locate_following_block_retries = 0;
  const auto with_none = [&settings](int remain) {
    RecoveryHarness h(small_target(), settings);
    h.wants_another();
    return h.recovery->found(located(5, 50, remain), h.now, h.actions);
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

TEST_CASE("a NameNode that has no other node is asked again before the stream fails") {
  RecoveryHarness h;
  h.wants_another();
  const env::TimePoint start = h.now;
  static_cast<void>(h.finds_none());
  REQUIRE(h.recovery->state() == State::kFindingLater);
  CHECK(*h.recovery->deadline() > h.now);
  CHECK(std::holds_alternative<BlockRecovery::Continues>(h.recovery->tick(h.now, h.actions)));
  CHECK(h.actions.empty());
  h.now = *h.recovery->deadline();
  static_cast<void>(h.recovery->tick(h.now, h.actions));
  const auto ask = h.take<action::GetAdditionalDatanode>();
  REQUIRE(ask);
  CHECK(ask->excluded.empty());  // the one that failed may be back
  h.actions.emplace_back(*ask);
  SUBCASE("it has one") {
    static_cast<void>(h.finds(2));
    h.recovery->connected(h.now);
    CHECK(addresses(h.recovery->replied({}, h.now, h.actions)) ==
          std::vector<std::string>{"10.0.0.2", "10.0.0.1", "10.0.0.3"});
  }
  SUBCASE("it has none for 12.4 s") {
    const std::string said = why(h.finds_none_at_all());
    CHECK(said.find("no further DataNode in place of the one that failed, for 12.4 s") !=
          std::string::npos);
    CHECK(h.now - start == 12400ms);
  }
  SUBCASE("who got no copy is avoided") {
    static_cast<void>(h.finds(2));
    static_cast<void>(h.recovery->connection_lost(kRefused, h.now, h.actions));
    const auto next = h.take<action::GetAdditionalDatanode>();
    REQUIRE(next);
    CHECK_FALSE(next->excluded.empty());
  }
}

TEST_CASE("where there is no other one, a node that got no copy is asked for again, in 4 s") {
  RecoveryHarness h;
  h.wants_another();
  static_cast<void>(h.finds(4));
  h.recovery->connected(h.now);
  const env::TimePoint failed_at = h.now;
  static_cast<void>(
      h.recovery->replied({TransferStatus::kError, "", "", {}, 0, {}}, h.now, h.actions));
  static_cast<void>(h.finds_none());
  bool is_asked_for = false;
  while (h.recovery->state() == State::kFindingLater) {
    h.now = *h.recovery->deadline();
    static_cast<void>(h.recovery->tick(h.now, h.actions));
    const auto ask = h.take<action::GetAdditionalDatanode>();
    REQUIRE(ask);
    CHECK(ask->excluded.empty() == (h.now - failed_at >= 4s));
    is_asked_for = ask->excluded.empty();
    h.actions.emplace_back(*ask);
    static_cast<void>(h.finds_none());
  }
  CHECK(is_asked_for);
}

TEST_CASE("a node that fails at a block's end is replaced, too, but costs no file") {
  RecoveryHarness h;
  BlockWriter::Broken broken = RecoveryHarness::broken(3, 1);
  broken.block.is_ending = true;
  broken.block.stage = WriteStage::kCloseRecovery;
  REQUIRE(std::holds_alternative<BlockRecovery::Continues>(h.begin(broken, true)));
  SUBCASE("another one gets a copy") {
    static_cast<void>(h.finds(4));
    h.recovery->connected(h.now);
    CHECK(addresses(h.recovery->replied({}, h.now, h.actions)).size() == 3);
  }
  SUBCASE("there is no other one") {
    CHECK(addresses(h.recovery->found(located(5, 50, 2), h.now, h.actions)).size() == 2);
  }
  SUBCASE("none can get a copy") {
    BlockRecovery::Outcome outcome = BlockRecovery::Continues{};
    for (int number = 4; number < 7; ++number) {
      static_cast<void>(h.finds(number));
      outcome = h.recovery->connection_lost(kRefused, h.now, h.actions);
    }
    CHECK(addresses(outcome).size() == 2);
  }
}

TEST_CASE("a new block of which nothing is acknowledged is discarded, not copied") {
  BlockWriter::Broken broken = RecoveryHarness::broken(3, 1);
  broken.block.located.block.length = 0;
  const auto discards = [&broken](WriteSettings settings, bool is_hflushed, bool may_discard) {
    RecoveryHarness h(small_target(), settings);
    const BlockRecovery::Outcome outcome = h.begin(broken, is_hflushed, may_discard);
    REQUIRE(h.shared.recoveries.failed.size() == 1);
    CHECK(h.shared.recoveries.failed[0].node.ip == "10.0.0.2");
    CHECK_FALSE(h.shared.recoveries.replacement);
    CHECK(h.actions.empty());
    if (std::holds_alternative<BlockRecovery::Ready>(outcome)) return false;
    CHECK(std::get<BlockRecovery::Discarded>(outcome).block == broken.block.located.block);
    return true;
  };
  WriteSettings never;
  never.replacement_policy = ReplacementPolicy::kNever;
  WriteSettings always;
  always.replacement_policy = ReplacementPolicy::kAlways;
  CHECK(discards({}, true, true));
  CHECK_FALSE(discards({}, false, true));  // as Hadoop: two of three are enough
  CHECK(discards(always, false, true));
  CHECK_FALSE(discards(never, true, true));
  CHECK_FALSE(discards({}, true, false));  // no attempt is left: the others go on

  // The last node of a block that is new, or not: an append's is never given up.
  const auto ends = [](WriteTarget target, bool may_discard) {
    RecoveryHarness h(std::move(target));
    BlockWriter::Broken last = RecoveryHarness::broken(1, 0);
    last.block.located.block.length = 0;
    return h.begin(last, true, may_discard);
  };
  CHECK(std::holds_alternative<BlockRecovery::Discarded>(ends(small_target(), true)));
  CHECK(why(ends(small_target(), false)).find("no DataNode of the pipeline is left") !=
        std::string::npos);
  CHECK_FALSE(why(ends(append_target(), true)).empty());
}

TEST_CASE("a node that restarts here is waited for, and failures of it do not count till then") {
  WriteTarget target = small_target();
  target.is_local = &is_at_home;
  RecoveryHarness h(target);
  h.shared.recoveries.since_ack = 5;
  BlockWriter::Broken broken = RecoveryHarness::broken(3, 2, kRestart);
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
  BlockWriter::Broken broken = RecoveryHarness::broken(3, 0, kRestart);
  CHECK(addresses(h.begin(broken, false)).size() == 2);  // 10.0.0.1 is not here
  REQUIRE(h.shared.recoveries.failed.size() == 1);
  h.shared.recoveries.pipeline_is_set_up();
  CHECK(h.shared.recoveries.failed.empty());

  broken = RecoveryHarness::broken(3, 2, kRestart);
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

// A hflushed pipeline of three, the policy insists on three, and there is no fourth node.
TEST_CASE("a node that restarts anywhere is waited for where no other one can come in") {
  RecoveryHarness h;
  BlockWriter::Broken broken = RecoveryHarness::broken(3, 0, kRestart);
  static_cast<void>(h.begin(broken, true));
  CHECK(h.recovery->state() == State::kFinding);
  BlockRecovery::Outcome outcome = h.finds_none();
  CHECK(h.recovery->state() == State::kPausing);
  CHECK(h.shared.counters.restarts_waited_for == 1);
  CHECK(h.shared.recoveries.failed.empty());
  h.now = *h.recovery->deadline();
  outcome = h.recovery->tick(h.now, h.actions);
  CHECK(addresses(outcome) == std::vector<std::string>{"10.0.0.2", "10.0.0.3", "10.0.0.1"});
  CHECK(h.actions.empty());

  // Another one that fails meanwhile leaves; nobody but the one that restarts can be waited for.
  BlockWriter::Block& next = std::get<BlockRecovery::Ready>(outcome).block;
  broken = {std::move(next), 0, Status(StatusCode::kIo, "is lost", {}, EPIPE)};
  static_cast<void>(h.begin(broken, true));
  CHECK(h.recovery->state() == State::kPausing);
  h.now = *h.recovery->deadline();
  static_cast<void>(h.recovery->tick(h.now, h.actions));
  CHECK(why(h.finds_none_at_all()).find("no further DataNode") != std::string::npos);
}

// A hflushed pipeline of three; the fourth node is chosen, and takes nothing.
TEST_CASE("a node that restarts anywhere is waited for where another one gets no copy") {
  RecoveryHarness h;
  BlockWriter::Broken broken = RecoveryHarness::broken(3, 0, kRestart);
  static_cast<void>(h.begin(broken, true));
  BlockRecovery::Outcome outcome = BlockRecovery::Continues{};
  SUBCASE("its copies fail") {
    for (int tries = 0; tries < 3; ++tries) {
      static_cast<void>(h.finds(4 + tries));
      outcome = h.recovery->connection_lost(kRefused, h.now, h.actions);
    }
  }
  SUBCASE("it refuses the pipeline, and there is no fifth") {
    static_cast<void>(h.finds(4));
    h.recovery->connected(h.now);
    outcome = h.recovery->replied({}, h.now, h.actions);
    CHECK(addresses(outcome) == std::vector<std::string>{"10.0.0.4", "10.0.0.2", "10.0.0.3"});
    broken = {std::move(std::get<BlockRecovery::Ready>(outcome).block), 0, broken.fault};
    h.actions.clear();
    static_cast<void>(h.begin(broken, true));
    outcome = h.finds_none();
  }
  CHECK(why(outcome).empty());
  REQUIRE(h.recovery->state() == State::kPausing);
  CHECK(h.shared.counters.restarts_waited_for == 1);
  h.actions.clear();
  h.now = *h.recovery->deadline();
  outcome = h.recovery->tick(h.now, h.actions);
  CHECK(addresses(outcome) == std::vector<std::string>{"10.0.0.2", "10.0.0.3", "10.0.0.1"});
  CHECK(h.actions.empty());
}

TEST_CASE("a node that was waited for and refuses the pipeline gets a copy if there is no other") {
  WriteTarget target = small_target();
  target.is_local = &is_at_home;
  for (const bool is_copied : {true, false}) {
    CAPTURE(is_copied);
    RecoveryHarness h(target);
    BlockWriter::Broken broken = RecoveryHarness::broken(3, 2, kRestart);
    static_cast<void>(h.begin(broken, true));
    while (h.recovery->state() == State::kPausing) {
      h.now = *h.recovery->deadline();
      static_cast<void>(h.recovery->tick(h.now, h.actions));
      broken = RecoveryHarness::broken(3, 2);
      broken.stood = false;
      static_cast<void>(h.begin(broken, true));
    }
    auto ask = h.take<action::GetAdditionalDatanode>();
    REQUIRE(ask);
    REQUIRE(ask->excluded.size() == 1);
    CHECK(ask->excluded[0].ip == "10.0.0.3");
    h.actions.emplace_back(*ask);
    static_cast<void>(h.finds_none());
    ask = h.take<action::GetAdditionalDatanode>();
    REQUIRE(ask);
    CHECK(ask->excluded.empty());
    h.actions.emplace_back(*ask);
    static_cast<void>(h.finds(3));
    REQUIRE(h.recovery->state() == State::kConnecting);
    h.recovery->connected(h.now);
    if (is_copied) {
      CHECK(addresses(h.recovery->replied({}, h.now, h.actions)) ==
            std::vector<std::string>{"10.0.0.3", "10.0.0.1", "10.0.0.2"});
      CHECK(h.shared.recoveries.unproven() == 1);
      continue;
    }
    // It is not asked for a second time.
    static_cast<void>(
        h.recovery->replied({TransferStatus::kError, "", "", {}, 0, {}}, h.now, h.actions));
    CHECK(why(h.finds_none_at_all()).find("no further DataNode") != std::string::npos);
  }
}

TEST_CASE("the last node is tried again when its connection is lost, as it alone has the bytes") {
  WriteSettings settings;
  settings.replacement_policy = ReplacementPolicy::kNever;
  BlockWriter::Broken last = RecoveryHarness::broken(1, 0);
  last.failure = BlockWriter::Failure::kLostConnection;
  const auto ends = [&settings](const BlockWriter::Broken& broken) {
    RecoveryHarness h(small_target(), settings);
    const BlockRecovery::Outcome outcome = h.begin(broken, true);
    CHECK(h.shared.recoveries.failed.empty() == (addresses(outcome).size() == 1));
    return outcome;
  };
  CHECK(addresses(ends(last)) == std::vector<std::string>{"10.0.0.1"});
  SUBCASE("not when it cannot be reached") {
    last.stood = false;
    CHECK(why(ends(last)).find("no DataNode of the pipeline is left") != std::string::npos);
  }
  SUBCASE("not when it says that it failed") {
    last.failure = kFault;
    CHECK(why(ends(last)).find("no DataNode of the pipeline is left") != std::string::npos);
  }
  SUBCASE("another block is asked for where nothing of a new one is acknowledged") {
    last.block.located.block.length = 0;
    CHECK(std::holds_alternative<BlockRecovery::Discarded>(ends(last)));
  }
  SUBCASE("not for ever") {
    RecoveryHarness h(small_target(), settings);
    BlockRecovery::Outcome outcome = BlockRecovery::Continues{};
    for (int i = 0; i < 5; ++i) outcome = h.begin(last, true);
    CHECK(addresses(outcome).size() == 1);
    CHECK(why(h.begin(last, true)).find("again after 5 recoveries") != std::string::npos);
  }
  SUBCASE("another one is looked for, and not insisted on") {
    settings = {};
    RecoveryHarness h(small_target(), settings);
    CHECK(std::holds_alternative<BlockRecovery::Continues>(h.begin(last, true)));
    CHECK(addresses(h.finds_none()) == std::vector<std::string>{"10.0.0.1"});
  }
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
  const std::string first = h.set_up();
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

TEST_CASE(
    "a block that the NameNode has recorded is not recorded again by a flush after a recovery") {
  WriteSettings settings;
  settings.replacement_policy = ReplacementPolicy::kNever;
  for (const bool was_flushed : {false, true}) {
    CAPTURE(was_flushed);
    Harness h(small_target(), settings);
    h.flush(Level::kVisible, 100);
    h.build(located(1, 10, 3));
    std::int64_t newest = 0;
    if (was_flushed) {
      h.ack(newest++);
      h.machine.fsynced({}, h.now, h.actions);
      h.flush(Level::kVisible, 100);
      static_cast<void>(h.send_all());
    }
    h.machine.connection_lost(h.pipeline(), kRefused, h.now, h.actions);
    h.machine.reserved(located(1, 11, 0), h.now, h.actions);
    CHECK(h.set_up().empty());  // not before the NameNode knows
    h.machine.registered({}, h.now, h.actions);
    static_cast<void>(h.send_all());
    h.actions.clear();
    h.ack(newest, 2);
    CHECK(h.has<action::Fsync>() == !was_flushed);  // updatePipeline keeps what is recorded
    CHECK(h.has<action::Reached>() == was_flushed);
  }
}

TEST_CASE("HSYNC-12: what was synced is synced on a new pipeline, before it is registered") {
  for (const bool with_new_node : {false, true}) {
    CAPTURE(with_new_node);
    WriteSettings settings;
    settings.replacement_policy =
        with_new_node ? ReplacementPolicy::kAlways : ReplacementPolicy::kNever;
    Harness h(small_target(), settings);
    h.flush(Level::kDurable, 100);
    h.build(located(1, 10, 3));
    h.ack(0);
    h.machine.fsynced({}, h.now, h.actions);
    h.write(50);
    static_cast<void>(h.send_all());
    h.actions.clear();
    h.machine.connection_lost(h.pipeline(), kRefused, h.now, h.actions);
    if (with_new_node) {
      LocatedBlock found = located(1, 10, 4);
      found.replicas.erase(found.replicas.begin());
      h.machine.found(found, h.now, h.actions);
      const ConnectionNumber copying = h.machine.recovery()->connection().value();
      h.machine.connected(copying, h.now);
      static_cast<void>(h.send_all(copying));
      h.machine.replied(copying, {}, h.now, h.actions);
    }
    h.machine.reserved(located(1, 11, 0), h.now, h.actions);
    const PacketHeader sync = first_header(h.set_up());
    CHECK(sync.sequence_number == 0);
    CHECK(sync.offset_in_block == 100);
    CHECK(sync.data_size == 0);
    CHECK(sync.sync_block);
    CHECK_FALSE(h.has<action::UpdatePipeline>());
    h.ack(0, with_new_node ? 3 : 2);
    CHECK(h.has<action::UpdatePipeline>());
    h.machine.registered({}, h.now, h.actions);
    const PacketHeader data = first_header(h.send_all());
    CHECK(data.sequence_number == 1);
    CHECK_FALSE(data.sync_block);
    CHECK(h.machine.counters().replacements == (with_new_node ? 1 : 0));
    CHECK(h.machine.counters().transfers == (with_new_node ? 1 : 0));
  }
}

// The first pipeline of the first block is lost before anything is acknowledged.
void lose_what_is_sent(Harness& h) {
  h.build(located(1, 10, 3));
  static_cast<void>(h.send_all());
  h.actions.clear();
  h.machine.connection_lost(h.pipeline(), kRefused, h.now, h.actions);
}

TEST_CASE("HSYNC-12: what was sent with a sync is synced before it is sent again") {
  WriteSettings settings;
  settings.replacement_policy = ReplacementPolicy::kNever;
  Harness h(small_target(), settings);
  h.flush(Level::kDurable, 100);
  lose_what_is_sent(h);
  h.machine.reserved(located(1, 11, 0), h.now, h.actions);
  const PacketHeader sync = first_header(h.set_up());
  CHECK(sync.data_size == 0);
  CHECK(sync.sync_block);
  CHECK_FALSE(h.has<action::UpdatePipeline>());
  h.ack(0, 2);
  h.machine.registered({}, h.now, h.actions);
  const PacketHeader data = first_header(h.send_all());
  CHECK(data.data_size == 100);
  CHECK_FALSE(h.has<action::Reached>());
}

TEST_CASE("HSYNC-12: a packet that was sent before does not carry a later sync") {
  WriteSettings settings;
  settings.replacement_policy = ReplacementPolicy::kNever;
  Harness h(small_target(), settings);
  h.write(100);
  lose_what_is_sent(h);
  h.flush(Level::kDurable);
  h.machine.reserved(located(1, 11, 0), h.now, h.actions);
  CHECK(h.set_up().empty());
  h.machine.registered({}, h.now, h.actions);
  CHECK_FALSE(first_header(h.send_all()).sync_block);
  h.ack(0, 2);
  CHECK_FALSE(h.has<action::Fsync>());
  h.ack(1, 2);
  CHECK(h.has<action::Fsync>());
}

TEST_CASE("HSYNC-12: an append syncs what an earlier stream may have synced, whoever fails") {
  WriteSettings settings;
  settings.replacement_policy = ReplacementPolicy::kNever;
  Harness h(append_target(), settings);
  h.write(50);
  h.machine.reserved(located(5, 51, 0), h.now, h.actions);
  bool dies = false;
  SUBCASE("nobody") { dies = false; }
  SUBCASE("a node") { dies = true; }
  if (dies) {
    h.machine.connection_lost(h.pipeline(), kRefused, h.now, h.actions);
    h.machine.reserved(located(5, 52, 0), h.now, h.actions);
  }
  const PacketHeader sync = first_header(h.set_up());
  CHECK(sync.sequence_number == 0);  // nothing is acknowledged yet
  CHECK(sync.offset_in_block == 100);
  CHECK(sync.sync_block);
  CHECK_FALSE(h.has<action::UpdatePipeline>());
  const int left = dies ? 2 : 3;
  h.ack(0, left);
  CHECK(h.has<action::UpdatePipeline>());
  h.machine.registered({}, h.now, h.actions);
  const PacketHeader data = first_header(h.send_all());
  CHECK(data.sequence_number == 0);
  CHECK_FALSE(data.sync_block);
  h.ack(0, left);
  h.machine.finish(h.now, h.actions);
  const PacketHeader last = first_header(h.send_all());
  CHECK(last.last_in_block);
  CHECK(last.sync_block);  // the replica's move to "finalized" is durable, too
}

TEST_CASE(
    "HSYNC-12: a node that dies at the end of an append's block: the others end it with a sync") {
  WriteSettings settings;
  settings.replacement_policy = ReplacementPolicy::kNever;
  Harness h(append_target(), settings);
  h.write(50);
  h.machine.reserved(located(5, 51, 0), h.now, h.actions);
  static_cast<void>(h.set_up_append());
  h.ack(0);
  h.machine.finish(h.now, h.actions);
  CHECK(first_header(h.send_all()).sync_block);
  h.machine.connection_lost(h.pipeline(), kRefused, h.now, h.actions);
  h.machine.reserved(located(5, 52, 0), h.now, h.actions);
  const PacketHeader sync = first_header(h.set_up());
  CHECK(sync.sync_block);
  CHECK_FALSE(sync.last_in_block);
  h.ack(0, 2);
  REQUIRE(h.has<action::UpdatePipeline>());
  h.machine.registered({}, h.now, h.actions);
  const PacketHeader last = first_header(h.send_all());
  CHECK(last.last_in_block);
  CHECK(last.sync_block);
  h.ack(1, 2);
  CHECK(h.has<action::Complete>());
}

TEST_CASE("a node that dies before the last packet's ack costs a recovery, not the file") {
  for (const bool has_synced : {false, true}) {
    CAPTURE(has_synced);
    Harness h;
    h.flush(has_synced ? Level::kDurable : Level::kVisible, 100);
    h.build(located(1, 10, 3));
    h.ack(0);
    h.machine.fsynced({}, h.now, h.actions);
    h.machine.finish(h.now, h.actions);
    const std::string last = h.send_all();
    CHECK_FALSE(last.empty());
    CHECK(h.block_is(BlockWriter::State::kEnding));
    h.machine.connection_lost(h.pipeline(), kRefused, h.now, h.actions);
    LocatedBlock no_other = located(1, 10, 3);
    no_other.replicas.erase(no_other.replicas.begin());
    h.machine.found(no_other, h.now, h.actions);
    h.machine.reserved(located(1, 11, 0), h.now, h.actions);
    h.machine.connected(h.pipeline(), h.now);
    const std::string operation = hex(h.send_all());  // the stage, two nodes, 100 bytes
    CHECK(operation.find(hex(unhex(has_synced ? "2001 2802 3064 3864" : "2005 2802 3064 3864"))) !=
          std::string::npos);
    h.machine.replied(h.pipeline(), {}, h.now, h.actions);
    if (has_synced) {  // some nodes have ended the block: each does so again, with a sync
      CHECK_FALSE(h.has<action::UpdatePipeline>());
      CHECK_FALSE(h.send_all().empty());
      h.ack(0, 2);
    }
    REQUIRE(h.has<action::UpdatePipeline>());
    h.machine.registered({}, h.now, h.actions);
    if (has_synced) {
      CHECK(h.send_all() == last);
      h.ack(1, 2);
    }
    const auto complete = h.take<action::Complete>();
    REQUIRE(complete);
    CHECK(complete->last->generation_stamp == 11);
    CHECK(complete->last->length == 100);
    CHECK(h.machine.counters().synced_afterwards == 0);
  }
}

TEST_CASE("an hsync that comes while a block is ended without a sync is not reached by that") {
  WriteSettings settings;
  settings.replacement_policy = ReplacementPolicy::kNever;
  Harness h(small_target(), settings);
  h.write(4096);
  h.build(located(1, 10, 2));
  for (const std::int64_t number : {0, 1, 2, 3}) h.ack(number, 2);
  REQUIRE(h.block_is(BlockWriter::State::kEnding));
  h.machine.connection_lost(h.pipeline(), kRefused, h.now, h.actions);
  h.machine.reserved(located(1, 11, 0), h.now, h.actions);
  h.machine.connected(h.pipeline(), h.now);
  h.flush(Level::kDurable);
  static_cast<void>(h.send_all());
  h.machine.replied(h.pipeline(), {}, h.now, h.actions);
  h.actions.clear();
  h.machine.registered({}, h.now, h.actions);
  h.machine.finish(h.now, h.actions);
  CHECK_FALSE(h.has<action::Reached>());
  CHECK_FALSE(h.has<action::Complete>());
  REQUIRE(h.take<action::GetBlockLocations>());
  LocatedBlock left = located(1, 11, 0);
  left.replicas.push_back(replica(2));
  h.locate(left);
  SUBCASE("the replica is synced") {
    h.sync_replica();
    h.machine.fsynced({}, h.now, h.actions);
    CHECK(h.take<action::Reached>()->level == Level::kDurable);
  }
  SUBCASE("it cannot be") {
    h.sync_replica(TransferStatus::kError);
    CHECK(h.take<action::NotReached>());
    CHECK_FALSE(h.has<action::Reached>());
  }
}

TEST_CASE("HDFS-11: nothing acknowledged, nothing lost: the same packets go to another block") {
  WriteSettings settings;
  settings.replacement_policy = ReplacementPolicy::kAlways;
  Harness h(small_target(), settings);
  h.flush(Level::kDurable, 1500);
  h.machine.allocated(located(1, 10, 3), h.now, h.actions);
  const std::string first = h.set_up();
  CHECK_FALSE(first.empty());
  h.actions.clear();
  h.machine.acked(h.pipeline(), {-2, {TransferStatus::kSuccess, TransferStatus::kError}}, h.now,
                  h.actions);
  CHECK(h.take<action::Disconnect>());
  CHECK(h.take<action::AbandonBlock>()->block == ExtendedBlock{"BP-1", 1, 10, 0});
  CHECK(h.actions.empty());
  h.machine.block_abandoned({}, h.now, h.actions);
  const auto add = h.take<action::AddBlock>();
  REQUIRE(add);
  CHECK_FALSE(add->previous);
  REQUIRE(add->excluded.size() == 1);
  CHECK(add->excluded[0].ip == "10.0.0.2");
  h.machine.allocated(located(2, 11, 3), h.now, h.actions);
  CHECK(h.set_up() == first);  // the same bytes, with the same numbers
  for (const std::int64_t number : {0, 1}) h.ack(number);
  h.machine.fsynced({}, h.now, h.actions);
  CHECK(h.take<action::Reached>()->offset == 1500);
  CHECK(h.machine.counters().block_retries == 1);
  CHECK(h.machine.counters().recoveries == 1);

  // Behind another block, and with all packets sent.
  Harness second(small_target(), settings);
  second.write(4096 + 100);
  second.build(located(1, 10, 3));
  second.ack_block();
  second.build(located(2, 11, 3));
  second.machine.connection_lost(second.pipeline(), kRefused, second.now, second.actions);
  second.machine.block_abandoned({}, second.now, second.actions);
  second.actions.clear();
  second.build(located(3, 12, 3));
  second.ack(second.machine.counters().acks);
  CHECK(second.machine.acknowledged_offset() == 4096 + 100);
  CHECK(second.take<action::Acknowledged>()->offset == 4096 + 100);

  // After so many attempts the others go on.
  Harness tired(small_target(), settings);
  tired.write(100);
  for (int attempt = 0; attempt < 4; ++attempt) {
    tired.build(located(static_cast<std::uint64_t>(attempt), 10, 3));
    tired.machine.connection_lost(tired.pipeline(), kRefused, tired.now, tired.actions);
    CHECK((tired.machine.state() == FileWriter::State::kAbandoning) == (attempt < 3));
    tired.machine.block_abandoned({}, tired.now, tired.actions);
  }
  CHECK(tired.block_is(BlockWriter::State::kReserving));
  CHECK(tired.machine.counters().block_retries == 3);
}

TEST_CASE(
    "a block that is discarded excludes those that failed in it, and a restart not for long") {
  Harness h;
  const auto complains = [&h](std::size_t place, std::size_t nodes, TransferStatus how) {
    PipelineAck ack;
    ack.sequence_number = PipelineAck::kHeartbeat;
    for (std::size_t i = 0; i < nodes; ++i) {
      ack.replies.push_back(i == place ? how : TransferStatus::kSuccess);
    }
    h.machine.acked(h.pipeline(), ack, h.now, h.actions);
  };
  const auto goes_on = [&h](std::uint64_t id, std::uint64_t stamp) {
    h.machine.reserved(located(id, stamp, 0), h.now, h.actions);
    CHECK(h.set_up().empty());
    h.machine.registered({}, h.now, h.actions);
    static_cast<void>(h.send_all());
  };
  const auto excluded = [&h] {
    h.machine.block_abandoned({}, h.now, h.actions);
    std::vector<std::string> found;
    const auto add = h.take<action::AddBlock>();
    REQUIRE(add);
    for (const DatanodeInfo& node : add->excluded) found.push_back(node.ip);
    return found;
  };
  h.write(4096);
  h.build(located(1, 10, 3));
  complains(0, 3, TransferStatus::kError);
  goes_on(1, 11);
  for (std::int64_t number = 0; h.machine.block() != nullptr; ++number) h.ack(number, 2);
  h.write(1000);
  h.actions.clear();
  h.build(located(2, 20, 3));  // the NameNode names the one that failed in the first block
  complains(1, 3, TransferStatus::kError);
  goes_on(2, 21);
  complains(1, 2, TransferStatus::kOobRestart);  // of one that is elsewhere
  REQUIRE(h.take<action::AbandonBlock>());
  CHECK(excluded() == std::vector<std::string>{"10.0.0.2", "10.0.0.3"});
  h.now += WriteSettings().datanode_restart_timeout;
  h.machine.allocated(located(3, 30, 1), h.now, h.actions);
  h.machine.connection_lost(h.pipeline(), kRefused, h.now, h.actions);
  CHECK(excluded() == std::vector<std::string>{"10.0.0.2", "10.0.0.1"});
}

TEST_CASE("FAIL-3: the story of a failure has every node and every generation stamp") {
  WriteSettings settings = patient();
  settings.locate_following_block_retries = 0;
  Harness h(small_target(), settings);
  h.open_block(100, located(5, 50, 3));
  h.machine.connection_lost(h.pipeline(), kRefused, h.now, h.actions);
  for (int node = 4; node < 7; ++node) {  // the first is not copied to, and so on
    LocatedBlock found = located(5, 50, 0);
    found.replicas = {replica(2), replica(3), replica(node)};
    h.machine.found(found, h.now, h.actions);
    const ConnectionNumber copying = h.machine.recovery()->connection().value();
    if (node == 5) {  // its source is not reached
      h.machine.connection_lost(copying, kRefused, h.now, h.actions);
      continue;
    }
    h.machine.connected(copying, h.now);
    h.machine.replied(
        copying, {node == 4 ? TransferStatus::kError : TransferStatus::kSuccess, "", "", {}, 0, {}},
        h.now, h.actions);
  }
  h.machine.reserved(located(5, 51, 0), h.now, h.actions);  // and refuses the pipeline
  h.machine.connected(h.pipeline(), h.now);
  h.machine.replied(h.pipeline(), {TransferStatus::kError, "10.0.0.6:9866", "", {}, 0, {}}, h.now,
                    h.actions);
  h.machine.found(located(5, 50, 2), h.now, h.actions);  // there is no other one
  const auto failed = h.take<action::Failed>();
  REQUIRE(failed);
  const WriteFailure story = h.machine.failures().failure(100, {});
  CHECK(story.block == "blk_5_50");
  CHECK(story.generation_stamps == std::vector<std::uint64_t>{50, 51});
  std::vector<std::string> nodes;
  for (const FailedNode& node : story.failed_nodes) {
    nodes.push_back(node.address + " " + std::to_string(node.place) + " " + node.reason);
    CHECK(node.offset == 100);
    CHECK(node.when == h.now);
    CHECK(failed->failure.message().find(node.address) != std::string::npos);
  }
  CHECK(nodes ==
        std::vector<std::string>{"10.0.0.1:9866 0 is lost: refused",
                                 "10.0.0.4:9866 2 got no copy from 10.0.0.2:9866: answered ERROR",
                                 "10.0.0.3:9866 1 is lost: refused",
                                 "10.0.0.6:9866 2 answered ERROR for 10.0.0.6:9866"});
}

}  // namespace
}  // namespace hflush::hdfs
