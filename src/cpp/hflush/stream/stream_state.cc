#include "hflush/stream/stream_state.h"

namespace hflush::stream {

std::optional<State> next(State state, Event event) noexcept {
  if (is_final(state)) return state;
  switch (event) {
    case Event::kCloseAsked:
      if (state == State::kOpen || state == State::kClosing) return State::kClosing;
      return State::kUnpublished;
    case Event::kPublished:
      if (state == State::kClosing) return State::kClosed;
      return std::nullopt;
    case Event::kCloseFailed:
      if (state == State::kClosing) return State::kUnpublished;
      return std::nullopt;
    case Event::kBroke:
      return state == State::kOpen ? State::kBroken : state;
    case Event::kReported:
      if (state == State::kBroken || state == State::kFailed) return State::kFailed;
      return std::nullopt;
    case Event::kAbortAsked:
      return state == State::kClosing ? State::kClosing : State::kAborted;
  }
  return std::nullopt;
}

std::string_view to_string(State state) noexcept {
  switch (state) {
    case State::kOpen:
      return "open";
    case State::kClosing:
      return "closing";
    case State::kClosed:
      return "closed";
    case State::kBroken:
    case State::kFailed:
    case State::kUnpublished:
      return "failed";
    case State::kAborted:
      return "aborted";
  }
  return "unknown";
}

}  // namespace hflush::stream
