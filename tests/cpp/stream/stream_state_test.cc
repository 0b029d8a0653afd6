// The state table of stream_state.h, every pair of it.
#include "hflush/stream/stream_state.h"

#include <doctest/doctest.h>

#include <array>
#include <optional>

namespace hflush::stream {
namespace {

constexpr std::array kEvents{Event::kCloseAsked, Event::kPublished, Event::kCloseFailed,
                             Event::kBroke,      Event::kReported,  Event::kAbortAsked};

struct Row {
  State state;
  std::array<std::optional<State>, kEvents.size()> after;
};

constexpr std::optional<State> kImpossible = std::nullopt;

constexpr std::array kTable{
    Row{State::kOpen,
        {State::kClosing, kImpossible, kImpossible, State::kBroken, kImpossible, State::kAborted}},
    Row{State::kBroken,
        {State::kUnpublished, kImpossible, kImpossible, State::kBroken, State::kFailed,
         State::kAborted}},
    Row{State::kFailed,
        {State::kUnpublished, kImpossible, kImpossible, State::kFailed, State::kFailed,
         State::kAborted}},
    Row{State::kClosing,
        {State::kClosing, State::kClosed, State::kUnpublished, State::kClosing, kImpossible,
         State::kClosing}},
};

TEST_CASE("every transition of the table") {
  for (const Row& row : kTable) {
    for (std::size_t i = 0; i < kEvents.size(); ++i) {
      CAPTURE(to_string(row.state));
      CAPTURE(i);
      CHECK(next(row.state, kEvents[i]) == row.after[i]);
    }
  }
}

TEST_CASE("final states stay as they are, whatever happens") {
  for (const State state : {State::kClosed, State::kUnpublished, State::kAborted}) {
    CHECK(is_final(state));
    for (const Event event : kEvents) CHECK(next(state, event) == state);
  }
}

TEST_CASE("states have the names of the contract") {
  CHECK(to_string(State::kOpen) == "open");
  CHECK(to_string(State::kClosing) == "closing");
  CHECK(to_string(State::kClosed) == "closed");
  CHECK(to_string(State::kAborted) == "aborted");
  for (const State state : {State::kBroken, State::kFailed, State::kUnpublished}) {
    CHECK(to_string(state) == "failed");
  }
}

}  // namespace
}  // namespace hflush::stream
