// CallTable: the calls of one client: when an attempt of each is sent, what follows when it fails,
// and when the call is answered. A state machine without I/O, clock or lock.
//
// Each event appends the actions that it asks for. A call is in one of these stages:
//
//   kWaitingForTurn  an upload that is sent when it has its turn and there is room
//   kStarting        is given to the network; its exchange has no number yet
//   kSent            waits for its response
//   kPausing         is due when the pause is over
//   kInLine          is due, and waits for tokens of the retry budget
//   kExpired         waits for newer credentials
//   kStopping        was cancelled in kStarting: ends when it has a number
//
//   event              WaitingForTurn  Starting, Sent  Pausing     InLine      Expired    Stopping
//   room for it        Send, Starting  -               -           -           -          -
//   sent               -               Sent            -           -           -          End
//   succeeded          -               Answer          -           -           -          -
//   failed             -               decided         -           -           -          -
//   tokens             -               -               -           due         -          -
//   time_passed        -               -               due         Answer      Answer     -
//   credentials_newer  -               -               -           -           due        -
//   cancel, close      End             Stopping; End   End         End         End        -
//
//   decided: CallAttempts says Answer, kPausing, or kExpired with WantCredentials; or the call is
//   due at once, where it is sent with another time or to another host.
//   due: Send and kStarting, for an upload kWaitingForTurn; kInLine if the budget lacks tokens.
//
// A new call is due, and its first attempt costs no tokens. An upload has room while fewer are
// kStarting or kSent than SendingRate allows; UploadTurns says which is next. Events of an attempt
// that is over mean nothing. Where start(), cancel() or credentials_newer() throws std::bad_alloc,
// nothing has happened. Thread-compatible.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "hflush/base/statistics.h"
#include "hflush/env/clock.h"
#include "hflush/s3/call/addresses.h"
#include "hflush/s3/call/attempts.h"
#include "hflush/s3/call/call.h"
#include "hflush/s3/call/outcome.h"
#include "hflush/s3/call/settings.h"
#include "hflush/s3/call/signer.h"
#include "hflush/s3/call/upload_turns.h"

namespace hflush::s3 {

class CallTable {
 public:
  using CallId = std::uint64_t;
  // Numbers that the network and the credential store give; 0 is none.
  using ExchangeId = std::uint64_t;
  using WantId = std::uint64_t;
  // A call, kept by the table and handed back with each action; its body may be released meanwhile.
  using CallRef = std::shared_ptr<Call>;

  // Gives an attempt to the network, to target(); then sent(), succeeded() and failed().
  struct Send {
    CallRef call;
    std::uint64_t attempt;  // counts from 1
  };
  // A download whose reader has room again.
  struct Resume {
    ExchangeId exchange;
  };
  // Asks the credential store for newer ones than the attempt was signed with; then wanted() and
  // credentials_newer().
  struct WantCredentials {
    CallRef call;
    std::uint64_t attempt;
  };
  struct StopWanting {
    WantId want;
  };
  // The end of a call, with its last attempt.
  struct Answer {
    CallRef call;
    int attempts;
    bool ambiguous;                          // one of them may have been executed
    std::optional<env::TimePoint> deadline;  // of the attempts, once one has failed
  };
  // The end of a call that was cancelled; an exchange is cancelled, too.
  struct End {
    CallRef call;
    ExchangeId exchange;
  };
  using Action = std::variant<Send, Resume, WantCredentials, StopWanting, Answer, End>;
  using Actions = std::vector<Action>;

  enum class Stage : std::uint8_t {
    kWaitingForTurn,
    kStarting,
    kSent,
    kPausing,
    kInLine,
    kExpired,
    kStopping,
  };

  struct FailedAttempt {
    const Failure& failure;
    bool may_repeat = true;  // false: a part of the response has been handed on
    SystemTime time;         // by our clock
  };

  // `settings` outlives the table; `seed`: of the pauses.
  CallTable(const Settings& settings, std::uint64_t seed);

  // --- calls

  CallId start(CallRef call, Actions& actions);
  // Null: it has ended.
  CallRef find(CallId id) const;
  // The call, if it was there: it is not answered any more, and its End follows.
  CallRef cancel(CallId id, Actions& actions);
  // Cancels every call. Requires: no call is started afterwards.
  void close(Actions& actions);
  // The exchange to resume now, or 0: then there is nothing to do, or Resume follows.
  ExchangeId resume(CallId id);

  // --- attempts

  // Where an attempt is sent. Requires: it was asked for by Send, and sent() has not been called.
  Target target(CallId id) const;
  // The network has it; 0: it could not take it, and failed() is next.
  void sent(CallId id, std::uint64_t attempt, ExchangeId exchange, Actions& actions);
  // These may come before sent().
  void succeeded(CallId id, env::TimePoint now, Actions& actions);
  void failed(CallId id, const FailedAttempt& attempt, env::TimePoint now, Actions& actions);

  // --- credentials

  void wanted(CallId id, std::uint64_t attempt, WantId want, Actions& actions);
  void credentials_newer(CallId id, std::uint64_t attempt, Actions& actions);

  // --- time

  // When time_passed() is to be called; TimePoint::max(): no need.
  env::TimePoint due() const noexcept;
  // Answers one call at most, which may cancel others; due() says that there is more.
  void time_passed(env::TimePoint now, Actions& actions);

  std::optional<Stage> stage(CallId id) const;
  // store_io_request, store_io_retry, store_io_throttled, and Hadoop's counters of operations.
  void add_statistics(Statistics& statistics) const;

 private:
  // What is known in each stage, in the order of Stage. `until`: see waits_.
  struct WaitingForTurn {};
  struct Starting {
    bool resumes = false;  // as soon as it is sent
  };
  struct Sent {
    ExchangeId exchange = 0;
  };
  struct Pausing {
    env::TimePoint until;
    int cost = 0;  // of the retry
  };
  struct InLine {
    env::TimePoint until;
  };
  struct Expired {
    env::TimePoint until;
    WantId want = 0;  // not known yet
  };
  struct Stopping {};

  struct Entry {
    CallRef call;
    CallAttempts attempts;
    std::variant<WaitingForTurn, Starting, Sent, Pausing, InLine, Expired, Stopping> state;
    std::uint64_t attempt = 0;  // those that were begun
    Correction address = {};    // of this call alone

    bool is_with_network() const noexcept {
      return std::holds_alternative<Starting>(state) || std::holds_alternative<Sent>(state);
    }
  };
  using Calls = std::unordered_map<CallId, Entry>;

  static constexpr std::size_t kOperationCount = 13;

  static UploadTurns::Upload upload_of(CallId id, const Entry& entry) noexcept {
    return {id, entry.call->stream, entry.call->urgent};
  }
  Calls::iterator find_with_network(CallId id);
  RetrySettings retry_settings(const Call& call) const noexcept;
  // Starts an attempt that is paid for, or lines an upload up.
  void ready(CallId id, Entry& entry, Actions& actions);
  void begin(Entry& entry, Actions& actions);
  // Memory for the actions of start_uploads() and for others.
  void reserve(Actions& actions, std::size_t others) const;
  void start_uploads(Actions& actions);
  void start_retries(env::TimePoint now, Actions& actions);
  // A retry is due.
  void pay(CallId id, Entry& entry, int cost, env::TimePoint now, Actions& actions);
  Decision decide(Entry& entry, const FailedAttempt& attempt, env::TimePoint now);
  template <typename State>
  void wait(CallId id, Entry& entry, State state);
  // Whether it was answered.
  bool waited(CallId id, env::TimePoint now, Actions& actions);
  // Out of the line, or of the wait, that it is in.
  void leave_line(CallId id, const Entry& entry, Actions& actions);
  // Ends a call that was cancelled; none: it is kStopping.
  std::optional<End> leave(Calls::iterator found, Actions& actions);
  void answer(Calls::iterator found, Actions& actions);

  const Settings& settings_;
  Addresses addresses_;
  Random random_;
  Calls calls_;
  CallId last_id_ = 0;
  std::set<std::pair<env::TimePoint, CallId>> waits_;  // of kPausing, kInLine and kExpired
  UploadTurns turns_;
  std::size_t uploads_ = 0;  // that are kStarting or kSent
  SendingRate rate_;
  RetryBudget budget_;
  std::int64_t attempt_count_ = 0;
  std::int64_t retry_count_ = 0;
  std::int64_t throttled_count_ = 0;
  std::array<std::int64_t, kOperationCount> operation_counts_{};
};

}  // namespace hflush::s3
