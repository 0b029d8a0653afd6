// Who keeps a pipeline silent: every event in every state, and who is to blame by which answers.
#include "hflush/hdfs/write/silence_probe.h"

#include <doctest/doctest.h>

#include <array>
#include <cerrno>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "hdfs/write_harness.h"
#include "testing/page_table.h"

namespace hflush::hdfs {
namespace {

using namespace std::chrono_literals;  // NOLINT(google-build-using-namespace)
using namespace testing;               // NOLINT(google-build-using-namespace)
using hflush::testing::for_each_cell;
using hflush::testing::page_table;
using hflush::testing::PageTable;
using State = SilenceProbe::State;
using Length = Result<std::int64_t>;
using Verdict = std::optional<SilenceProbe::Verdict>;

constexpr std::uint64_t kAwaited = 300;
const Status kUnreached = Status(StatusCode::kIo, "connect: refused", {}, ECONNREFUSED);
const Status kGone = remote("org.apache.hadoop.hdfs.server.datanode.ReplicaNotFoundException");

// A pipeline of three that has been silent since `since`.
struct ProbeHarness {
  Verdict tick(env::Duration later) {
    now += later;
    return probe.tick(since, block, expected, now, actions);
  }
  // The number of the question that is asked then.
  QuestionNumber ask(env::Duration later) {
    CHECK_FALSE(tick(later));
    return asked().question;
  }
  action::AskReplicas asked() {
    const auto question = take_from<action::AskReplicas>(actions);
    REQUIRE(question);
    CHECK(question->block.id == block.block.id);
    CHECK(question->nodes.size() == block.replicas.size());
    return *question;
  }
  // In both rounds of what is asked now.
  void answer(std::size_t node, const Length& length) {
    probe.answered(shared.last_question - 1, node, length);
    probe.answered(shared.last_question, node, length);
  }
  void all_answer(std::int64_t length) {
    for (std::size_t node = 0; node < block.replicas.size(); ++node) answer(node, length);
  }
  void reach(State state) {
    if (state != State::kResting) static_cast<void>(ask(3s));
    if (state == State::kAskingAgain) static_cast<void>(ask(1500ms));
    REQUIRE(probe.state() == state);
  }

  WriteStream shared{small_target(), WriteSettings()};
  SilenceProbe probe{shared, 3s};
  SilenceProbe::Expected expected = {true, kAwaited};
  LocatedBlock block = located(5, 50, 3);
  env::TimePoint now = env::TimePoint(1h);
  std::optional<env::TimePoint> since = now;
  Actions actions;
};

using ProbeEvents = std::map<std::string, std::function<Verdict(ProbeHarness&)>>;

const ProbeEvents& probe_events() {
  static const ProbeEvents events = {
      {"the pipeline is silent for too long",
       [](ProbeHarness& h) {
         return h.tick(h.probe.state() == State::kResting ? env::Duration(3s) : 0s);
       }},
      {"the pipeline says something",
       [](ProbeHarness& h) {
         h.probe.heard(h.actions);
         return Verdict();
       }},
      {"a DataNode answers",
       [](ProbeHarness& h) {
         h.probe.answered(h.shared.last_question, 0, std::int64_t{7});
         return Verdict();
       }},
      {"the round is over", [](ProbeHarness& h) { return h.tick(1500ms); }},
      {"the round is over: a DataNode is to blame",
       [](ProbeHarness& h) {
         if (h.probe.state() != State::kAskingAgain) return Verdict();
         h.answer(0, std::int64_t{7});
         return h.tick(1500ms);
       }},
      {"the round is over: all have answered with lengths",
       [](ProbeHarness& h) {
         if (h.probe.state() != State::kAskingAgain) return Verdict();
         h.all_answer(7);
         return h.tick(1500ms);
       }},
      {"the round is over: all have answered and one refused where there are block tokens",
       [](ProbeHarness& h) {
         if (h.probe.state() != State::kAskingAgain) return Verdict();
         h.block.token.encoded = "of a writer";
         h.all_answer(7);
         h.answer(1, kRefused);
         return h.tick(1500ms);
       }},
      {"the round was over long ago",
       [](ProbeHarness& h) {
         if (h.probe.state() == State::kResting) return Verdict();
         h.probe.answered(h.shared.last_question, 0, std::int64_t{7});
         return h.tick(4500ms);
       }},
  };
  return events;
}

TEST_CASE("every event in every state of a probe: as the page's table says") {
  const PageTable table = page_table("hdfs-client.md", "### SilenceProbe");
  const std::map<std::string, State> states = {{"resting", State::kResting},
                                               {"asking", State::kAsking},
                                               {"asking again", State::kAskingAgain}};
  const auto check = [&](const std::string& name, const std::string& state,
                         const std::string& cell) {
    ProbeHarness h;
    h.reach(states.at(state));
    const Verdict verdict = probe_events().at(name)(h);
    CHECK(verdict.has_value() == (cell == "found"));
    const bool remains = cell == "–" || cell == "stays";
    const std::string expected = remains ? state : cell == "found" ? "resting" : cell;
    CHECK(to_string(h.probe.state()) == expected);
    if (remains) CHECK(h.actions.empty());
    CHECK(take_from<action::AskReplicas>(h.actions).has_value() ==
          (!remains && expected != "resting"));
    CHECK(take_from<action::DropQuestions>(h.actions).has_value() ==
          (!remains && expected == "resting"));
  };
  for_each_cell(table, probe_events(), check);
  CHECK(table.columns.size() == 3);
}

TEST_CASE("who is to blame is decided as the page's table says") {
  const std::map<std::string, std::optional<Length>> answers = {
      {"silence", std::nullopt},
      {"gone", kGone},
      {"other", kRefused},
      {"short", Length(std::int64_t{kAwaited - 1})},
      {"long", Length(std::int64_t{kAwaited})}};
  const PageTable table = page_table("hdfs-client.md", "Who is to blame, by what each of three");
  for (const PageTable::Row& row : table.rows) {
    std::vector<std::string> nodes = {row.event};
    nodes.insert(nodes.end(), row.cells.begin(), row.cells.end());
    CAPTURE(row.event + ", " + nodes[1] + ", " + nodes[2]);
    ProbeHarness h;
    const QuestionNumber first = h.ask(3s);
    const QuestionNumber second = h.ask(1500ms);
    for (std::size_t node = 0; node < 3; ++node) {
      const std::vector<std::string> said = hflush::testing::split(nodes[node], " ");
      if (const auto& length = answers.at(said.at(0))) h.probe.answered(first, node, *length);
      if (const auto& length = answers.at(said.at(1))) h.probe.answered(second, node, *length);
    }
    const Verdict verdict = h.tick(1500ms);
    constexpr auto kNames = std::to_array<std::string_view>({"first", "second", "third"});
    CHECK((verdict ? kNames.at(verdict->node) : "none") == nodes[3]);
  }
  CHECK(table.rows.size() == 15);
}

// As a DataNode describes its replica to who asks about a newer stamp.
Length described(std::uint64_t received, std::uint64_t acknowledged) {
  return Status(StatusCode::kIo,
                "replica=ReplicaBeingWritten, blk_5_50, RBW\n  getNumBytes()     = " +
                    std::to_string(received) +
                    "\n  getVisibleLength()= " + std::to_string(acknowledged) + "\n")
      .with_remote_class("java.io.IOException");
}

TEST_CASE("who is to blame for a packet on its way is decided as the page's table says") {
  const std::map<std::string, std::optional<Length>> answers = {
      {"silence", std::nullopt},
      {"other", kRefused},
      {"–", described(kAwaited - 1, kAwaited - 10)},
      {"received", described(kAwaited, kAwaited - 10)},
      {"acknowledged", described(kAwaited + 7, kAwaited)}};
  const PageTable table = page_table("hdfs-client.md", "replica, and writes the refusal");
  for (const PageTable::Row& row : table.rows) {
    std::vector<std::string> nodes = {row.event};
    nodes.insert(nodes.end(), row.cells.begin(), row.cells.end());
    CAPTURE(row.event + ", " + nodes[1] + ", " + nodes[2]);
    ProbeHarness h;
    h.reach(State::kAskingAgain);
    h.all_answer(kAwaited - 10);
    CHECK_FALSE(h.tick(1500ms));
    const action::AskReplicas first = h.asked();
    CHECK(first.block.generation_stamp == kNewerStamp);
    const QuestionNumber second = h.ask(1500ms);
    for (std::size_t node = 0; node < 3; ++node) {
      const std::vector<std::string> said = hflush::testing::split(nodes[node], " ");
      if (const auto& length = answers.at(said.at(0))) {
        h.probe.answered(first.question, node, *length);
      }
      if (const auto& length = answers.at(said.at(1))) h.probe.answered(second, node, *length);
    }
    const Verdict verdict = h.tick(1500ms);
    constexpr auto kNames = std::to_array<std::string_view>({"first", "second", "third"});
    CHECK((verdict ? kNames.at(verdict->node) : "none") == nodes[3]);
    CHECK(h.probe.state() == State::kResting);
  }
  CHECK(table.rows.size() == 13);
}

TEST_CASE("who is to blame for a set-up on its way is decided as the page's table says") {
  const std::map<std::string, std::optional<Length>> answers = {{"silence", std::nullopt},
                                                                {"gone", kGone},
                                                                {"other", kRefused},
                                                                {"has", Length(std::int64_t{7})}};
  constexpr std::uint64_t kStamp = 77;
  const PageTable table = page_table("hdfs-client.md", "While a pipeline is set up");
  for (const PageTable::Row& row : table.rows) {
    std::vector<std::string> nodes = {row.event};
    nodes.insert(nodes.end(), row.cells.begin(), row.cells.end());
    CAPTURE(row.event + ", " + nodes[1] + ", " + nodes[2]);
    ProbeHarness h;
    h.expected = {.set_up = kStamp};
    for (const env::Duration later : {3000ms, 1500ms}) {
      CHECK_FALSE(h.tick(later));
      const action::AskReplicas question = h.asked();
      CHECK(question.block.generation_stamp == kStamp);
      const std::size_t round = later == 3000ms ? 0 : 1;
      for (std::size_t node = 0; node < 3; ++node) {
        const std::vector<std::string> said = hflush::testing::split(nodes[node], " ");
        if (const auto& length = answers.at(said.at(round))) {
          h.probe.answered(question.question, node, *length);
        }
      }
    }
    const Verdict verdict = h.tick(1500ms);
    constexpr auto kNames = std::to_array<std::string_view>({"first", "second", "third"});
    CHECK((verdict ? kNames.at(verdict->node) : "none") == nodes[3]);
  }
  CHECK(table.rows.size() == 9);
}

TEST_CASE("what was received is asked only where that can tell who is to blame") {
  const auto asks_more = [](SilenceProbe::Expected expected, const Length& third) {
    ProbeHarness h;
    h.reach(State::kAskingAgain);
    h.all_answer(10);
    h.answer(2, third);
    h.now += 1500ms;
    CHECK_FALSE(h.probe.tick(h.since, h.block, expected, h.now, h.actions));
    return take_from<action::AskReplicas>(h.actions).has_value();
  };
  CHECK(asks_more({true, kAwaited}, std::int64_t{10}));
  CHECK_FALSE(asks_more({true, {}}, std::int64_t{10}));
  CHECK_FALSE(asks_more({true, kAwaited}, kRefused));
}

TEST_CASE("where block tokens are on they are asked as a writer, and then as a reader") {
  ProbeHarness h;
  h.block.token.encoded = "of a writer";
  for (const env::Duration later : {3000ms, 1500ms}) {
    CHECK_FALSE(h.tick(later));
    CHECK_FALSE(h.asked().as_reader);
  }
  for (std::size_t node = 0; node < 3; ++node) h.answer(node, kRefused);
  SUBCASE("a packet on its way is followed with the token, too") {
    CHECK_FALSE(h.tick(1500ms));
    CHECK(h.asked().as_reader);
    CHECK_FALSE(h.tick(1500ms));
    CHECK(h.asked().as_reader);
    h.all_answer(10);
    CHECK_FALSE(h.tick(1500ms));
    const action::AskReplicas detailed = h.asked();
    CHECK(detailed.as_reader);
    CHECK(detailed.block.generation_stamp == kNewerStamp);
    CHECK_FALSE(h.tick(1500ms));
    h.answer(0, described(kAwaited, 10));
    h.answer(1, described(10, 10));
    h.answer(2, described(10, 10));
    CHECK(h.tick(1500ms)->node == 1);
  }
  SUBCASE("so is a set-up") {
    h.expected = {.set_up = 77};
    CHECK_FALSE(h.tick(1500ms));
    CHECK(h.asked().as_reader);
    CHECK_FALSE(h.tick(1500ms));
    h.answer(0, std::int64_t{7});
    h.answer(1, kRefused);
    h.answer(2, kRefused);
    CHECK(h.tick(1500ms)->node == 1);
  }
  SUBCASE("the token may come late, or not at all: silence is no fault then") {
    CHECK_FALSE(h.tick(1500ms));
    CHECK_FALSE(h.tick(1500ms));
    h.answer(0, std::int64_t{10});
    h.answer(2, std::int64_t{10});
    CHECK_FALSE(h.tick(1500ms));
    CHECK(h.probe.state() == State::kResting);
  }
  SUBCASE("nothing is looked for: there is nothing to ask") {
    h.expected = {true, {}};
    CHECK_FALSE(h.tick(1500ms));
    CHECK(h.probe.state() == State::kResting);
  }
}

// What a node said that answers twice in the same way, while another one does that is well.
Verdict verdict_on(const Length& answer, const SilenceProbe::Expected& expected) {
  ProbeHarness h;
  h.reach(State::kAskingAgain);
  h.answer(0, std::int64_t{10});
  h.answer(1, answer);
  h.answer(2, std::int64_t{kAwaited});
  h.now += 1500ms;
  return h.probe.tick(h.since, h.block, expected, h.now, h.actions);
}

TEST_CASE("what an answer proves") {
  const SilenceProbe::Expected all = {true, kAwaited};
  CHECK(verdict_on(kUnreached, all)->node == 1);
  CHECK(verdict_on(kUnreached, all)->why.message() ==
        "did not answer getReplicaVisibleLength, twice, while others did; the pipeline was silent "
        "for 6.0 s");
  CHECK(verdict_on(Status(StatusCode::kTimedOut, "no answer"), all)->node == 1);
  // It restarted, and cannot write the replica any more.
  CHECK(verdict_on(std::int64_t{-1}, all)->node == 1);
  CHECK(verdict_on(kGone, all)->why.message() ==
        "has no replica of the block that can be written, as it answered to "
        "getReplicaVisibleLength twice");
  // They answer, with whatever.
  CHECK_FALSE(verdict_on(kRefused, all));
  CHECK_FALSE(verdict_on(remote("org.apache.hadoop.ipc.RetriableException"), all));
  CHECK_FALSE(verdict_on(Status(StatusCode::kPermissionDenied, "SASL"), all));
  // This process has no descriptor left.
  CHECK_FALSE(verdict_on(Status(StatusCode::kIo, "connect: too many", {}, EMFILE), all));
  CHECK(verdict_on(std::int64_t{10}, all)->node == 1);
  CHECK_FALSE(verdict_on(std::int64_t{kAwaited}, all)->is_link);
  // A sync may take long, and a block that is new has no replicas.
  CHECK_FALSE(verdict_on(std::int64_t{10}, {true, {}}));
  CHECK(verdict_on(kGone, {true, {}})->node == 1);
  CHECK_FALSE(verdict_on(kGone, {}));
  CHECK(verdict_on(kUnreached, {})->node == 1);
}

TEST_CASE("acknowledged by all: the link to the first one is lost, also of a single one") {
  for (const std::size_t nodes : {1U, 3U}) {
    ProbeHarness h;
    h.block.replicas.resize(nodes);
    h.reach(State::kAskingAgain);
    h.all_answer(kAwaited);
    const Verdict verdict = h.tick(1500ms);
    REQUIRE(verdict);
    CHECK(verdict->node == 0);
    CHECK(verdict->is_link);
  }
}

TEST_CASE("a single DataNode is not to blame: there is no other one to go on with") {
  for (const Length& answer : {described(10, 10), described(kAwaited, 10)}) {
    ProbeHarness h;
    h.block.replicas.resize(1);
    h.reach(State::kAskingAgain);
    h.all_answer(10);
    CHECK_FALSE(h.tick(1500ms));
    CHECK_FALSE(h.tick(1500ms));
    h.answer(0, answer);
    CHECK_FALSE(h.tick(1500ms));
    CHECK(h.probe.state() == State::kResting);
  }
}

TEST_CASE("the wait goes on where none is to blame, and the next probe comes later") {
  ProbeHarness h;
  for (const env::Duration pause : {3s, 6s, 12s}) {
    CHECK(*h.probe.deadline(h.since) == h.now + pause);
    h.ask(pause);
    h.ask(1500ms);
    CHECK_FALSE(h.tick(1500ms));
    CHECK(h.probe.state() == State::kResting);
    h.actions.clear();
  }
  CHECK(h.shared.counters.silence_probes == 3);
  h.probe.heard(h.actions);
  h.since = h.now;
  CHECK(*h.probe.deadline(h.since) == h.now + 3s);
  CHECK_FALSE(h.probe.deadline(std::nullopt));
}

TEST_CASE("answers count for their own round, and those of an earlier probe for nothing") {
  ProbeHarness h;
  const QuestionNumber first = h.ask(3s);
  const QuestionNumber second = h.ask(1500ms);
  h.probe.answered(first, 1, std::int64_t{10});  // late, and a sign of life
  for (const QuestionNumber question : {first, second}) {
    h.probe.answered(question, 0, std::int64_t{10});
    h.probe.answered(question, 2, std::int64_t{10});
    h.probe.answered(question, 3, std::int64_t{10});  // there is none
  }
  CHECK_FALSE(h.tick(1500ms));
  h.probe.answered(second, 1, std::int64_t{10});
  const QuestionNumber third = h.ask(6s);
  h.probe.answered(first, 1, std::int64_t{10});
  h.probe.answered(second, 1, std::int64_t{10});
  h.probe.answered(third, 0, std::int64_t{10});
  h.probe.answered(h.ask(1500ms), 0, std::int64_t{10});
  CHECK(h.tick(1500ms)->node == 1);
}

TEST_CASE("without a time to wait none is asked") {
  ProbeHarness h;
  SilenceProbe never(h.shared, env::Duration::zero());
  CHECK_FALSE(never.deadline(h.since));
  CHECK_FALSE(never.tick(h.since, h.block, {true, kAwaited}, h.now + 1h, h.actions));
  CHECK(h.actions.empty());
}

}  // namespace
}  // namespace hflush::hdfs
