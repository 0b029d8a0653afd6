// History: the newest lines, in order, within its bounds, whatever is noted. FailureRecord: what a
// failure says of nodes and stamps.
#include "hflush/hdfs/write/history.h"

#include <doctest/doctest.h>

#include <deque>
#include <random>
#include <string>

#include "hflush/hdfs/write/write_failure.h"

namespace hflush::hdfs {
namespace {

using namespace std::chrono_literals;  // NOLINT(google-build-using-namespace)

constexpr env::TimePoint kStart = env::TimePoint() + 1h;

TEST_CASE("history: lines come back in order, with their times") {
  History history;
  CHECK(history.events().empty());
  history.note(kStart, "one");
  history.note(kStart + 1s, "");
  history.note(kStart + 2s, "two");
  const stream::PastEvents events = history.events();
  REQUIRE(events.size() == 3);
  CHECK(events[0].what == "one");
  CHECK(events[0].when == kStart);
  CHECK(events[1].what.empty());
  CHECK(events[2].what == "two");
  CHECK(events[2].when == kStart + 2s);
}

TEST_CASE("history: what is said again is counted") {
  History history;
  for (int i = 0; i < 5; ++i) history.note(kStart + i * 1s, "refused");
  history.note(kStart + 9s, "answered");
  history.note(kStart + 10s, "refused");
  const stream::PastEvents events = history.events();
  REQUIRE(events.size() == 3);
  CHECK(events[0].times == 5);
  CHECK(events[0].when == kStart + 4s);
  CHECK(events[1].times == 1);
  CHECK(events[2].times == 1);
}

TEST_CASE("history: a line that is too long is cut, and is still counted") {
  History history;
  const std::string line(1000, 'x');
  history.note(kStart, line);
  history.note(kStart, line);
  REQUIRE(history.events().size() == 1);
  CHECK(history.events()[0].what == line.substr(0, History::kMaxLine));
  CHECK(history.events()[0].times == 2);
}

TEST_CASE("history: a line is not cut inside a character") {
  History history;
  history.note(kStart, std::string(History::kMaxLine - 1, 'x') + "\xC3\xA4");
  history.note(kStart, std::string(History::kMaxLine - 2, 'y') + "\xC3\xA4z");
  CHECK(history.events()[0].what == std::string(History::kMaxLine - 1, 'x'));
  CHECK(history.events()[1].what == std::string(History::kMaxLine - 2, 'y') + "\xC3\xA4");
}

TEST_CASE("history: 64 lines, and no more text than fits; the newest stay") {
  std::mt19937 random(7);
  for (const std::size_t longest : {0UL, 1UL, 40UL, 60UL, 255UL, 400UL}) {
    CAPTURE(longest);
    History history;
    std::deque<std::string> noted;
    for (int i = 0; i < 500; ++i) {
      const std::size_t size = random() % (longest + 1);
      std::string line =
          std::to_string(i) + ' ' + std::string(size, static_cast<char>('a' + i % 26));
      history.note(kStart + i * 1s, line);
      noted.push_back(line.substr(0, History::kMaxLine));
      const stream::PastEvents events = history.events();
      REQUIRE(events.size() <= History::kMaxEvents);
      REQUIRE(events.size() <= noted.size());
      std::size_t text = 0;
      for (std::size_t back = 0; back < events.size(); ++back) {
        const stream::PastEvent& event = events[events.size() - 1 - back];
        REQUIRE(event.what == noted[noted.size() - 1 - back]);
        REQUIRE(event.when == kStart + (i - static_cast<int>(back)) * 1s);
        text += event.what.size();
      }
      // As many as fit: the one before would not.
      if (events.size() < noted.size() && events.size() < History::kMaxEvents) {
        text += noted[noted.size() - 1 - events.size()].size();
        REQUIRE(text + History::kMaxEvents * 16 > History::kMaxBytes - 64);
      }
    }
  }
}

TEST_CASE("failure record: the stamps of the last block, and the nodes in their order") {
  FailureRecord record;
  WriteFailure none = record.failure(0, {});
  CHECK(none.block.empty());
  CHECK(none.generation_stamps.empty());
  record.writes({"BP-1", 1, 1001, 0});
  record.writes({"BP-1", 1, 1001, 500});
  record.writes({"BP-1", 1, 1002, 500});
  CHECK(record.failure(500, {}).generation_stamps == std::vector<std::uint64_t>{1001, 1002});
  record.node_failed({"a:1", 2, 3, "is lost", 500, kStart});
  record.block_begins();
  CHECK(record.faults().empty());
  record.writes({"BP-1", 2, 1003, 0});
  record.node_failed({"b:1", 0, 2, "is lost", 600, kStart + 1s});
  const WriteFailure failure = record.failure(700, {{kStart, "failed", 1}});
  CHECK(record.faults() == "DataNode b:1 (1 of 2) is lost");
  CHECK(failure.block == "blk_2_1003");
  CHECK(failure.generation_stamps == std::vector<std::uint64_t>{1003});
  CHECK(failure.acknowledged == 700);
  REQUIRE(failure.failed_nodes.size() == 2);
  CHECK(failure.failed_nodes[0].address == "a:1");
  CHECK(failure.failed_nodes[1].place == 0);
  REQUIRE(failure.history.size() == 1);
  CHECK(failure.history[0].what == "failed");
}

TEST_CASE("failure record: bounded, the newest stay") {
  FailureRecord record;
  for (std::uint64_t i = 0; i < 200; ++i) {
    record.writes({"BP-1", 1, 1000 + i, 0});
    record.node_failed({"n:" + std::to_string(i), 0, 1, "is lost", i, kStart});
  }
  const WriteFailure failure = record.failure(0, {});
  CHECK(failure.generation_stamps.size() == FailureRecord::kMaxStamps);
  CHECK(failure.generation_stamps.back() == 1199);
  CHECK(failure.failed_nodes.size() == FailureRecord::kMaxNodes);
  CHECK(failure.failed_nodes.back().address == "n:199");
  CHECK(record.faults().size() <= FailureRecord::kMaxText);
  CHECK(record.faults().ends_with(
      "; DataNode n:198 (1 of 1) is lost; DataNode n:199 (1 of 1) is lost"));
  CHECK(record.faults().starts_with("DataNode n:1"));
}

}  // namespace
}  // namespace hflush::hdfs
