// The states of an output stream (contract.md §1) and the transitions between them, as pure data.
//
//               close_asked   published     close_failed  broke     reported  abort_asked
//   kOpen       kClosing      -             -             kBroken   -         kAborted
//   kBroken     kUnpublished  -             -             kBroken   kFailed   kAborted
//   kFailed     kUnpublished  -             -             kFailed   kFailed   kAborted
//   kClosing    kClosing      kClosed       kUnpublished  kClosing  -         kClosing
//   kClosed, kUnpublished, kAborted: final; every event leaves them as they are
//
// "-": cannot happen; next() answers nullopt. Immutable.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace hflush::stream {

enum class State : std::uint8_t {
  kOpen,         // accepts writes
  kBroken,       // failed in the background, and not yet reported to a caller
  kFailed,       // failed and reported to a caller; close() still owes its one report
  kClosing,      // the first close() is at work
  kClosed,       // published
  kUnpublished,  // close() was called and reported a failure
  kAborted,      // abort(), or dropped without close()
};

enum class Event : std::uint8_t {
  kCloseAsked,
  kPublished,
  kCloseFailed,
  kBroke,
  kReported,
  kAbortAsked,
};

// The state after `event`; nullopt where the table has "-".
std::optional<State> next(State state, Event event) noexcept;

// Whether nothing more will happen: the sink is finished or abandoned.
constexpr bool is_final(State state) noexcept {
  return state == State::kClosed || state == State::kUnpublished || state == State::kAborted;
}

// "open", "closing", "closed", "failed" or "aborted": the names of contract.md.
std::string_view to_string(State state) noexcept;

}  // namespace hflush::stream
