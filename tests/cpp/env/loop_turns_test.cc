// The table of loop_turns.h: every turn and every event, and when the thread rests at all.
#include "hflush/env/loop_turns.h"

#include <doctest/doctest.h>

#include <array>
#include <functional>
#include <string_view>

namespace hflush::env {
namespace {

using namespace std::chrono_literals;  // NOLINT(google-build-using-namespace)
using Turn = LoopTurns::Turn;
using Wake = LoopTurns::Wake;

constexpr TimePoint kNow = TimePoint(std::chrono::hours(1));
constexpr TimePoint kNever = TimePoint::max();

// Two guests, one after the other: the thread may rest at kNow.
LoopTurns quiet() {
  LoopTurns turns;
  for (const TimePoint left : {kNow - 2ms, kNow - 1ms}) {
    turns.entered(left - 1ms);
    turns.left(left, false, kNever);
  }
  return turns;
}

LoopTurns in(Turn turn) {
  LoopTurns turns = quiet();
  if (turn == Turn::kThread) return turns;
  REQUIRE(turns.rests(kNow, false));
  if (turn == Turn::kCalled) REQUIRE(turns.called());
  if (turn == Turn::kGuest) REQUIRE(turns.takes());
  REQUIRE(turns.turn() == turn);
  return turns;
}

// An event; returns what it says, as a number.
using Event = std::function<int(LoopTurns&)>;

int guest_comes_and_leaves(LoopTurns& turns, bool has_tasks, TimePoint next_due) {
  turns.entered(kNow);
  return static_cast<int>(turns.left(kNow, has_tasks, next_due));
}

struct Column {
  std::string_view name;
  Event event;
  struct Cell {
    Turn after;
    int says;
  };
  std::array<Cell, 4> cells;  // kThread, kNobody, kCalled, kGuest
};

constexpr int kSaysNot = static_cast<int>(Wake::kNot);
constexpr int kSaysFromRest = static_cast<int>(Wake::kFromRest);
constexpr int kSaysToRest = static_cast<int>(Wake::kToRest);
constexpr Turn kThread = Turn::kThread;
constexpr Turn kNobody = Turn::kNobody;
constexpr Turn kCalled = Turn::kCalled;
constexpr Turn kGuest = Turn::kGuest;

const std::array kTable{
    Column{"called",
           [](LoopTurns& turns) { return int{turns.called()}; },
           {{{kThread, 0}, {kCalled, 1}, {kCalled, 0}, {kGuest, 0}}}},
    Column{"posted",
           [](LoopTurns& turns) { return int{turns.posted(false)}; },
           {{{kThread, 0}, {kCalled, 1}, {kCalled, 0}, {kGuest, 0}}}},
    Column{"posted by a guest",
           [](LoopTurns& turns) { return int{turns.posted(true)}; },
           {{{kThread, 0}, {kNobody, 0}, {kCalled, 0}, {kGuest, 0}}}},
    Column{"due soon",
           [](LoopTurns& turns) { return int{turns.due(kNow + 9ms, kNow, false)}; },
           {{{kThread, 0}, {kCalled, 1}, {kCalled, 0}, {kGuest, 0}}}},
    Column{"due soon, by a guest",
           [](LoopTurns& turns) { return int{turns.due(kNow + 9ms, kNow, true)}; },
           {{{kThread, 0}, {kNobody, 0}, {kCalled, 0}, {kGuest, 0}}}},
    Column{"due later",
           [](LoopTurns& turns) { return int{turns.due(kNow + 10ms, kNow, false)}; },
           {{{kThread, 0}, {kNobody, 0}, {kCalled, 0}, {kGuest, 0}}}},
    Column{"busy",
           [](LoopTurns& turns) { return int{turns.busy(false)}; },
           {{{kThread, 0}, {kCalled, 1}, {kCalled, 0}, {kGuest, 0}}}},
    Column{"busy by a guest",
           [](LoopTurns& turns) { return int{turns.busy(true)}; },
           {{{kThread, 0}, {kNobody, 0}, {kCalled, 0}, {kGuest, 0}}}},
    Column{
        "left",
        [](LoopTurns& turns) { return guest_comes_and_leaves(turns, false, kNever); },
        {{{kThread, kSaysToRest}, {kNobody, kSaysNot}, {kCalled, kSaysNot}, {kGuest, kSaysNot}}}},
    Column{
        "left, with a task",
        [](LoopTurns& turns) { return guest_comes_and_leaves(turns, true, kNever); },
        {{{kThread, kSaysNot}, {kCalled, kSaysFromRest}, {kCalled, kSaysNot}, {kGuest, kSaysNot}}}},
    Column{"left, with a timer due soon",
           [](LoopTurns& turns) { return guest_comes_and_leaves(turns, false, kNow + 9ms); },
           {{{kThread, kSaysToRest},
             {kCalled, kSaysFromRest},
             {kCalled, kSaysNot},
             {kGuest, kSaysNot}}}},
    Column{
        "left, another there",
        [](LoopTurns& turns) {
          turns.entered(kNow);
          return guest_comes_and_leaves(turns, false, kNever);
        },
        {{{kThread, kSaysNot}, {kCalled, kSaysFromRest}, {kCalled, kSaysNot}, {kGuest, kSaysNot}}}},
    Column{
        "left, something under way",
        [](LoopTurns& turns) {
          turns.busy(true);
          return guest_comes_and_leaves(turns, false, kNever);
        },
        {{{kThread, kSaysNot}, {kCalled, kSaysFromRest}, {kCalled, kSaysNot}, {kGuest, kSaysNot}}}},
    Column{"takes",
           [](LoopTurns& turns) { return int{turns.takes()}; },
           {{{kThread, 0}, {kGuest, 1}, {kCalled, 0}, {kGuest, 0}}}},
};

TEST_CASE("every turn and every event") {
  constexpr std::array kTurns{kThread, kNobody, kCalled, kGuest};
  for (const Column& column : kTable) {
    for (std::size_t i = 0; i < kTurns.size(); ++i) {
      CAPTURE(column.name);
      CAPTURE(i);
      LoopTurns turns = in(kTurns[i]);
      CHECK(column.event(turns) == column.cells[i].says);
      CHECK(turns.turn() == column.cells[i].after);
    }
  }
}

TEST_CASE("a guest that gives its turn back leaves it to the next, or to the thread") {
  LoopTurns turns = in(kGuest);
  turns.gave_back();
  CHECK(turns.turn() == kNobody);
  CHECK(turns.takes());
  turns.gave_back();
  CHECK(turns.called());
  CHECK_FALSE(turns.takes());
}

TEST_CASE("the thread looks: it goes on resting while guests come and nothing else is to be done") {
  SUBCASE("no guest came") {
    LoopTurns turns = in(kNobody);
    CHECK_FALSE(turns.goes_on_resting(false));
    CHECK(turns.turn() == kThread);
  }
  SUBCASE("guests came, until they do no longer") {
    LoopTurns turns = in(kGuest);
    turns.gave_back();
    CHECK(turns.goes_on_resting(false));
    CHECK(turns.turn() == kNobody);
    CHECK_FALSE(turns.goes_on_resting(false));
    CHECK(turns.turn() == kThread);
  }
  SUBCASE("work is left") {
    LoopTurns turns = in(kGuest);
    turns.gave_back();
    CHECK_FALSE(turns.goes_on_resting(true));
    CHECK(turns.turn() == kThread);
  }
  SUBCASE("something is under way, until it ends") {
    LoopTurns turns = in(kGuest);
    turns.busy(true);
    turns.gave_back();
    LoopTurns ended = turns;
    ended.idle();
    CHECK_FALSE(turns.goes_on_resting(false));
    CHECK(ended.goes_on_resting(false));
  }
  SUBCASE("it was called") {
    LoopTurns turns = in(kGuest);
    turns.gave_back();
    turns.called();
    CHECK_FALSE(turns.goes_on_resting(false));
    CHECK(turns.turn() == kThread);
  }
  SUBCASE("a guest has the turn, whatever there is to do") {
    LoopTurns turns = in(kGuest);
    CHECK(turns.goes_on_resting(true));
    CHECK(turns.goes_on_resting(true));
    CHECK(turns.turn() == kGuest);
    turns.gave_back();
    CHECK_FALSE(turns.goes_on_resting(false));  // it took the turn before the last look
  }
}

TEST_CASE("the thread rests only after guests that came alone and soon after each other") {
  CHECK(quiet().rests(kNow, false));
  CHECK_FALSE(quiet().rests(kNow, true));         // a task
  CHECK_FALSE(quiet().rests(kNow + 9ms, false));  // the last one left 10 ms ago
  CHECK_FALSE(LoopTurns().rests(kNow, false));    // none came
  {
    LoopTurns turns = quiet();
    turns.entered(kNow);
    CHECK_FALSE(turns.rests(kNow, false));  // one is there
  }
  {
    LoopTurns turns = quiet();
    turns.busy(true);
    CHECK_FALSE(turns.rests(kNow, false));
    turns.idle();
    CHECK(turns.rests(kNow, false));
  }
  {
    LoopTurns turns;
    turns.entered(kNow - 20ms);
    turns.left(kNow - 11ms, false, kNever);
    turns.entered(kNow - 5ms);
    turns.left(kNow - 1ms, false, kNever);
    CHECK_FALSE(turns.rests(kNow, false));  // 10 ms between the last two
  }
  {
    LoopTurns turns = quiet();
    turns.entered(kNow);
    turns.entered(kNow);  // a crowd
    turns.left(kNow, false, kNever);
    turns.left(kNow, false, kNever);
    CHECK_FALSE(turns.rests(kNow + 5ms, false));
    turns.entered(kNow + 11ms);
    turns.left(kNow + 11ms, false, kNever);
    turns.entered(kNow + 12ms);
    turns.left(kNow + 12ms, false, kNever);
    CHECK(turns.rests(kNow + 12ms, false));
  }
}

}  // namespace
}  // namespace hflush::env
