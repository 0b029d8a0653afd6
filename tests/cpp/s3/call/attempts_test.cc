// When a call is tried again: every row of docs/s3-client.md, in every state of the counters.
#include "hflush/s3/call/attempts.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <queue>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace hflush::s3 {
namespace {

using What = Decision::What;
using env::Duration;
using env::TimePoint;
using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

const TimePoint kStart = TimePoint() + hours(1);

constexpr FailureKind kKinds[] = {
    FailureKind::kNotSent,      FailureKind::kAmbiguous,   FailureKind::kThrottled,
    FailureKind::kTransient,    FailureKind::kCredentials, FailureKind::kTransit,
    FailureKind::kClock,        FailureKind::kAddress,     FailureKind::kConflict,
    FailureKind::kPrecondition, FailureKind::kGone,        FailureKind::kFinal,
    FailureKind::kInProgress,
};
constexpr Repeat kRepeats[] = {Repeat::kFreely, Repeat::kNotTwice, Repeat::kConditional};

bool is_doubtful(FailureKind kind) {
  return kind == FailureKind::kAmbiguous || kind == FailureKind::kInProgress;
}

// A failure that has all that a further attempt might need.
Failure failure(FailureKind kind) {
  Failure made;
  made.kind = kind;
  made.region = "eu-west-1";
  made.server_time_s = 1;
  return made;
}

Failure answered(FailureKind kind, int http_status, std::string_view code = {}) {
  Failure made = failure(kind);
  made.http_status = http_status;
  made.code = code;
  return made;
}

// A call, with what it needs.
struct Call {
  explicit Call(Repeat repeat = Repeat::kFreely, const RetrySettings& settings = {})
      : attempts(settings, repeat) {}
  Decision failed(const Failure& what) { return attempts.failed(what, random, now); }
  Decision failed(FailureKind kind) { return failed(failure(kind)); }
  // How often that failure is followed by another attempt.
  int retries(const Failure& what) {
    for (int count = 0; count < 100; ++count) {
      if (failed(what).what == What::kGiveUp) return count;
    }
    return 100;
  }

  CallAttempts attempts;
  Random random{1};  // NOLINT(bugprone-random-generator-seed): the same each time
  TimePoint now = kStart;
};

TEST_CASE("each kind, for each way to repeat") {
  struct Row {
    FailureKind kind;
    int freely;
    int not_twice;
    int conditional;
  };
  constexpr Row kRows[] = {
      {FailureKind::kNotSent, 7, 7, 7},      {FailureKind::kAmbiguous, 7, 0, 0},
      {FailureKind::kThrottled, 20, 20, 20}, {FailureKind::kTransient, 7, 7, 7},
      {FailureKind::kCredentials, 7, 7, 7},  {FailureKind::kTransit, 2, 0, 2},
      {FailureKind::kClock, 1, 1, 1},        {FailureKind::kAddress, 1, 1, 1},
      {FailureKind::kConflict, 7, 0, 7},     {FailureKind::kPrecondition, 0, 0, 0},
      {FailureKind::kGone, 0, 0, 0},         {FailureKind::kFinal, 0, 0, 0},
      {FailureKind::kInProgress, 7, 0, 0},
  };
  static_assert(std::size(kRows) == std::size(kKinds));
  for (const Row& row : kRows) {
    CAPTURE(to_string(row.kind));
    const int expected[] = {row.freely, row.not_twice, row.conditional};
    for (std::size_t i = 0; i < std::size(kRepeats); ++i) {
      CAPTURE(i);
      Call call(kRepeats[i]);
      CHECK(call.retries(failure(row.kind)) == expected[i]);
      CHECK(call.attempts.made() == expected[i] + 1);
      CHECK(call.attempts.ambiguous() == is_doubtful(row.kind));
    }
  }
}

TEST_CASE("what was ambiguous stays so, and is not repeated where that might do harm") {
  for (const Repeat repeat : {Repeat::kNotTwice, Repeat::kConditional}) {
    for (const FailureKind before :
         {FailureKind::kNotSent, FailureKind::kThrottled, FailureKind::kTransient,
          FailureKind::kCredentials, FailureKind::kClock, FailureKind::kAddress}) {
      CAPTURE(to_string(before));
      Call call(repeat);
      CHECK(call.failed(before).what != What::kGiveUp);
      CHECK_FALSE(call.attempts.ambiguous());
      CHECK(call.failed(FailureKind::kAmbiguous).what == What::kGiveUp);
      CHECK(call.attempts.ambiguous());
      CHECK(call.attempts.made() == 2);
    }
  }
  Call freely;
  CHECK(freely.failed(FailureKind::kAmbiguous).what == What::kRetry);
  CHECK(freely.failed(FailureKind::kGone).what == What::kGiveUp);
  CHECK(freely.attempts.ambiguous());
}

TEST_CASE("a success that was answered in part is looked at, where the caller can") {
  for (const int status : {200, 204, 500}) {
    CAPTURE(status);
    Call looks(Repeat::kUntilDone);
    const Failure doubt = answered(FailureKind::kAmbiguous, status);
    CHECK(looks.retries(doubt) == (status == 500 ? 7 : 1));
    CHECK(looks.attempts.ambiguous());
  }
}

TEST_CASE("what can be left out is left out at once, whatever the limit of retries") {
  for (const Repeat repeat : kRepeats) {
    Call call(repeat, RetrySettings{.limit = 0, .throttle_limit = 0});
    const Decision decision = call.failed(FailureKind::kExtra);
    CHECK(decision.what == What::kRetry);
    CHECK(decision.when == kStart);
    CHECK_FALSE(call.attempts.ambiguous());
    CHECK(call.failed(FailureKind::kFinal).what == What::kGiveUp);
  }
}

TEST_CASE("which refusals may come after the request was executed") {
  const auto is_after = [](Repeat repeat, const Failure& what) {
    Call call(repeat);
    static_cast<void>(call.failed(what));
    return call.attempts.ambiguous();
  };
  const auto ambiguous = [&](FailureKind kind, int status, std::string_view code = {}) {
    return is_after(Repeat::kConditional, answered(kind, status, code));
  };
  CHECK(ambiguous(FailureKind::kThrottled, 503));
  CHECK_FALSE(ambiguous(FailureKind::kThrottled, 503, "SlowDown"));
  CHECK_FALSE(ambiguous(FailureKind::kThrottled, 429));
  CHECK(ambiguous(FailureKind::kThrottled, 200, "SlowDown"));
  // MinIO, of what its drives have done too slowly, or too few of them.
  CHECK(ambiguous(FailureKind::kThrottled, 503, "SlowDownWrite"));
  CHECK(ambiguous(FailureKind::kTransient, 503, "RequestTimeout"));
  CHECK(ambiguous(FailureKind::kTransient, 200, "RequestTimeout"));
  CHECK_FALSE(ambiguous(FailureKind::kTransient, 400, "RequestTimeout"));
  CHECK(ambiguous(FailureKind::kFinal, 200, "SomethingNew"));
  CHECK_FALSE(ambiguous(FailureKind::kFinal, 400, "InvalidPart"));
  Failure too_long = answered(FailureKind::kFinal, 0);
  too_long.may_be_executed = true;
  CHECK(is_after(Repeat::kConditional, too_long));
  CHECK_FALSE(ambiguous(FailureKind::kPrecondition, 200, "PreconditionFailed"));
  // What publishes: unless the store says that it has too many requests.
  for (const char* const code : {"SlowDown", "SlowDownRead", "Throttling", "RequestThrottled",
                                 "RequestLimitExceeded", "TooManyRequestsException"}) {
    CHECK_FALSE_MESSAGE(ambiguous(FailureKind::kThrottled, 503, code), code);
  }
  for (const char* const code : {"ServiceUnavailable", "SomethingNew"}) {
    const Failure unclear = answered(FailureKind::kThrottled, 503, code);
    for (const Repeat repeat : {Repeat::kUntilDone, Repeat::kNotTwice, Repeat::kConditional}) {
      CHECK_MESSAGE(is_after(repeat, unclear), code);
    }
    CHECK_FALSE_MESSAGE(is_after(Repeat::kFreely, unclear), code);
  }
}

TEST_CASE("without retry_5xx they are final, throttling and lost answers are not") {
  RetrySettings settings;
  settings.retry_5xx = false;
  const auto retries = [&](const Failure& what) {
    return Call(Repeat::kFreely, settings).retries(what);
  };
  CHECK(retries(answered(FailureKind::kAmbiguous, 500, "InternalError")) == 0);
  CHECK(retries(answered(FailureKind::kAmbiguous, 502)) == 0);
  CHECK(retries(answered(FailureKind::kAmbiguous, 200, "InternalError")) == 0);
  CHECK(retries(answered(FailureKind::kThrottled, 503, "SlowDown")) == 20);
  CHECK(retries(answered(FailureKind::kAmbiguous, 200)) == 7);
  CHECK(retries(answered(FailureKind::kAmbiguous, 408)) == 7);
  CHECK(retries(failure(FailureKind::kAmbiguous)) == 7);
}

TEST_CASE("nothing is tried again that could not go otherwise") {
  Failure nowhere = failure(FailureKind::kAddress);
  nowhere.region.clear();
  CHECK(Call().failed(nowhere).what == What::kGiveUp);
  nowhere.location = "http://other/";
  CHECK(Call().failed(nowhere).what == What::kRetry);
  Failure timeless = failure(FailureKind::kClock);
  timeless.server_time_s.reset();
  CHECK(Call().failed(timeless).what == What::kGiveUp);
}

TEST_CASE("a new address, a set clock: at once, each once, whatever comes between") {
  Call call;
  for (const FailureKind kind : {FailureKind::kClock, FailureKind::kAddress}) {
    const Decision decision = call.failed(kind);
    CHECK(decision.what == What::kRetry);
    CHECK(decision.when == kStart);
  }
  CHECK(call.failed(FailureKind::kTransient).what == What::kRetry);
  CHECK(call.failed(FailureKind::kClock).what == What::kGiveUp);
  Call other;
  CHECK(other.failed(FailureKind::kAddress).what == What::kRetry);
  CHECK(other.failed(FailureKind::kTransient).what == What::kRetry);
  CHECK(other.failed(FailureKind::kAddress).what == What::kGiveUp);
}

TEST_CASE("newer credentials are waited for, not longer than all may take") {
  Call call;
  Decision decision = call.failed(FailureKind::kCredentials);
  CHECK(decision.what == What::kRetryWithNewer);
  CHECK(decision.when == kStart + seconds(30));
  call.now = kStart + minutes(3) - seconds(10);
  decision = call.failed(FailureKind::kCredentials);
  CHECK(decision.what == What::kRetryWithNewer);
  CHECK(decision.when == kStart + minutes(3));
  call.now = kStart + minutes(3);
  CHECK(call.failed(FailureKind::kCredentials).what == What::kGiveUp);
}

TEST_CASE("throttled attempts count by themselves") {
  RetrySettings settings;
  settings.limit = 2;
  settings.throttle_limit = 3;
  Call call(Repeat::kFreely, settings);
  CHECK(call.failed(FailureKind::kThrottled).what == What::kRetry);
  CHECK(call.failed(FailureKind::kTransient).what == What::kRetry);
  CHECK(call.failed(FailureKind::kThrottled).what == What::kRetry);
  CHECK(call.failed(FailureKind::kTransient).what == What::kRetry);
  CHECK(call.failed(FailureKind::kThrottled).what == What::kRetry);
  Call copy = call;
  CHECK(call.failed(FailureKind::kThrottled).what == What::kGiveUp);
  CHECK(copy.failed(FailureKind::kTransient).what == What::kGiveUp);
  CHECK(copy.attempts.made() == 6);
}

TEST_CASE("no retries at all: once with newer credentials, another time and address") {
  constexpr FailureKind kOthers[] = {FailureKind::kCredentials, FailureKind::kClock,
                                     FailureKind::kAddress};
  constexpr RetrySettings kNone{.limit = 0, .throttle_limit = 0};
  for (const FailureKind kind : kKinds) {
    CAPTURE(to_string(kind));
    const bool is_other = std::ranges::find(kOthers, kind) != std::end(kOthers);
    CHECK(Call(Repeat::kFreely, kNone).retries(failure(kind)) == (is_other ? 1 : 0));
  }
  for (const Repeat repeat : kRepeats) {
    Call call(repeat, kNone);
    for (const FailureKind kind : kOthers) CHECK(call.failed(kind).what != What::kGiveUp);
    CHECK(call.failed(FailureKind::kTransient).what == What::kGiveUp);
  }
}

// The pauses before the first, second, ... further attempt: the shortest and longest of many calls.
struct Pauses {
  std::vector<Duration> shortest;
  std::vector<Duration> longest;
};

Pauses pauses_of(FailureKind kind, const RetrySettings& settings) {
  Pauses pauses;
  auto& [shortest, longest] = pauses;
  Random random(7);  // NOLINT(bugprone-random-generator-seed): the same each time
  for (int i = 0; i < 2000; ++i) {
    CallAttempts attempts(settings, Repeat::kFreely);
    for (std::size_t n = 0;; ++n) {
      const Decision decision = attempts.failed(failure(kind), random, kStart);
      if (decision.what == What::kGiveUp) break;
      CHECK(decision.when >= kStart);
      if (longest.size() == n) {
        longest.push_back(Duration::zero());
        shortest.push_back(Duration::max());
      }
      longest[n] = std::max(longest[n], decision.when - kStart);
      shortest[n] = std::min(shortest[n], decision.when - kStart);
    }
  }
  return pauses;
}

void check_doubling(const Pauses& pauses, Duration first, Duration most) {
  for (std::size_t n = 0; n < pauses.longest.size(); ++n) {
    CAPTURE(n);
    const Duration limit = std::min(first * (1 << n), most);
    CHECK(pauses.longest[n] <= limit);
    CHECK(pauses.longest[n] > limit - limit / 50);  // of 2,000
    CHECK(pauses.shortest[n] >= limit / 2);
    CHECK(pauses.shortest[n] < limit / 2 + limit / 50);
  }
}

TEST_CASE("doubling stays within its bounds, whatever the numbers") {
  CHECK(doubled(milliseconds(5), 0, seconds(1)) == milliseconds(5));
  CHECK(doubled(milliseconds(5), 3, seconds(1)) == milliseconds(40));
  CHECK(doubled(milliseconds(500), 1, seconds(1)) == seconds(1));
  CHECK(doubled(milliseconds(600), 1, seconds(1)) == seconds(1));
  CHECK(doubled(seconds(5), 0, seconds(1)) == seconds(1));
  for (const std::uint64_t many : {std::uint64_t{63}, std::uint64_t{64}, UINT64_MAX}) {
    CAPTURE(many);
    CHECK(doubled(Duration(1), many, Duration::max()) == Duration::max());
    CHECK(doubled(Duration::max() - Duration(1), many, Duration::max()) == Duration::max());
    CHECK(doubled(milliseconds(5), many, seconds(20)) == seconds(20));
    CHECK(doubled(Duration::zero(), many, seconds(20)) == Duration::zero());
    CHECK(doubled(Duration::min(), many, seconds(20)) == Duration::zero());
    CHECK(doubled(seconds(1), many, Duration::min()) == Duration::zero());
  }
}

TEST_CASE("pauses: random, from half of what doubles, bounded") {
  RetrySettings settings;
  settings.limit = 12;
  const auto usual = pauses_of(FailureKind::kTransient, settings);
  CHECK(usual.longest.size() == 12);
  check_doubling(usual, milliseconds(500), seconds(20));
  const auto throttled = pauses_of(FailureKind::kThrottled, settings);
  CHECK(throttled.longest.size() == 20);
  check_doubling(throttled, milliseconds(500), seconds(20));
}

TEST_CASE("pauses of odd settings") {
  RetrySettings settings;
  settings.deadline = env::kNoTimeout;
  settings.limit = 80;
  settings.max_interval = env::kNoTimeout / 4;
  for (const Duration pause : pauses_of(FailureKind::kTransient, settings).longest) {
    CHECK(pause <= settings.max_interval);
  }
  settings.interval = Duration::zero();
  for (const Duration pause : pauses_of(FailureKind::kTransient, settings).longest) {
    CHECK(pause == Duration::zero());
  }
  settings.interval = seconds(5);
  settings.max_interval = seconds(1);
  for (const Duration pause : pauses_of(FailureKind::kTransient, settings).longest) {
    CHECK(pause <= seconds(1));
  }
}

TEST_CASE("Retry-After is the least pause") {
  Failure slow = failure(FailureKind::kThrottled);
  slow.retry_after = seconds(45);
  CHECK(Call().failed(slow).when == kStart + seconds(45));
  slow.retry_after = milliseconds(1);
  Call call;
  for (int i = 0; i < 12; ++i) CHECK(call.failed(slow).when >= kStart + milliseconds(1));
  Failure transient = failure(FailureKind::kTransient);
  transient.retry_after = seconds(10);
  CHECK(Call().failed(transient).when == kStart + seconds(10));
}

TEST_CASE("nothing starts after the deadline") {
  RetrySettings settings;
  settings.deadline = seconds(10);
  Failure slow = failure(FailureKind::kThrottled);
  slow.retry_after = seconds(10);
  CHECK(Call(Repeat::kFreely, settings).failed(slow).what == What::kRetry);
  slow.retry_after = seconds(11);
  CHECK(Call(Repeat::kFreely, settings).failed(slow).what == What::kGiveUp);
  for (const FailureKind kind : kKinds) {
    CAPTURE(to_string(kind));
    Call late(Repeat::kFreely, settings);
    late.now = kStart + hours(2);  // the first attempt took its time
    CHECK(late.failed(FailureKind::kTransient).what == What::kRetry);
    late.now += seconds(10);
    CHECK(late.failed(kind).what == What::kGiveUp);
  }
}

TEST_CASE("the first retry of a call costs nothing, nor does one that sends something else") {
  for (const FailureKind first : {FailureKind::kNotSent, FailureKind::kAmbiguous,
                                  FailureKind::kThrottled, FailureKind::kTransient}) {
    CAPTURE(to_string(first));
    Call call;
    CHECK(call.failed(first).cost == 0);
    CHECK(call.attempts.spent() == 0);
    CHECK(call.failed(FailureKind::kClock).cost == 0);
    CHECK(call.failed(FailureKind::kAddress).cost == 0);
    CHECK(call.failed(FailureKind::kTransient).cost == 5);
    CHECK(call.failed(FailureKind::kThrottled).cost == 5);
    CHECK(call.failed(FailureKind::kCredentials).cost == 0);
    CHECK(call.failed(FailureKind::kAmbiguous).cost == 10);
    CHECK(call.attempts.spent() == 10);
  }
}

TEST_CASE("the budget: retries take, successes give back, and time does") {
  RetryBudget budget;
  TimePoint now = kStart;
  CHECK(budget.tokens(now) == 500);
  budget.succeeded(0, now);
  CHECK(budget.tokens(now) == 500);
  CHECK(budget.start(1, 5, now));
  CHECK(budget.start(2, 10, now));
  CHECK(budget.start(3, 0, now));
  CHECK(budget.tokens(now) == 485);
  budget.succeeded(0, now);
  CHECK(budget.tokens(now) == 486);
  budget.succeeded(5, now);
  CHECK(budget.tokens(now) == 496);
  budget.succeeded(10, now);
  CHECK(budget.tokens(now) == 500);
  while (budget.tokens(now) > 0) CHECK(budget.start(4, 5, now));
  now += RetryBudget::kNewTokenEvery - Duration(1);
  CHECK(budget.tokens(now) == 0);
  now += Duration(1);
  CHECK(budget.tokens(now) == 1);
  now += 3 * RetryBudget::kNewTokenEvery + milliseconds(1);
  CHECK(budget.tokens(now) == 4);
  now += hours(1);
  CHECK(budget.tokens(now) == 500);
  CHECK(budget.start(5, 10, now));
  CHECK(budget.tokens(now) == 490);  // what was full gained nothing
}

TEST_CASE("the budget: where there are too few tokens calls wait in line") {
  RetryBudget budget;
  TimePoint now = kStart;
  while (budget.tokens(now) > 0) CHECK(budget.start(1, 10, now));
  CHECK_FALSE(budget.next_at());
  CHECK_FALSE(budget.start(2, 10, now));
  CHECK_FALSE(budget.start(3, 5, now));
  CHECK_FALSE(budget.start(4, 5, now));
  CHECK(budget.start(5, 0, now));  // a first retry passes
  CHECK_FALSE(budget.next(now));
  CHECK(budget.next_at() == now + 10 * RetryBudget::kNewTokenEvery);

  now += 7 * RetryBudget::kNewTokenEvery;
  CHECK_FALSE(budget.next(now));  // the first in line is not passed by
  CHECK_FALSE(budget.start(6, 5, now));
  now += 3 * RetryBudget::kNewTokenEvery;
  CHECK(budget.next(now) == 2);
  CHECK_FALSE(budget.next(now));

  budget.leave(3);
  budget.leave(3);
  budget.succeeded(5, now);
  CHECK(budget.next(now) == 4);
  CHECK(budget.next(now) == 6);
  CHECK_FALSE(budget.next(now));
  CHECK_FALSE(budget.next_at());
}

TEST_CASE("a store that throttles every third attempt does not empty the budget") {
  RetryBudget budget;
  Random random(1);  // NOLINT(bugprone-random-generator-seed): the same each time
  for (int i = 0; i < 1000; ++i) {
    CallAttempts attempts({}, Repeat::kFreely);
    if (i % 2 == 0) {
      CHECK(attempts.failed(failure(FailureKind::kThrottled), random, kStart).what == What::kRetry);
    }
    budget.succeeded(attempts.spent(), kStart);
  }
  CHECK(budget.tokens(kStart) == 500);
}

// --- many calls at once

// Calls that begin together, of a store whose every attempt fails so until it heals.
struct Outage {
  std::size_t calls = 0;
  Failure failure;
  Duration lasts = hours(24);
  RetrySettings settings;
};

struct Aftermath {
  std::size_t lost = 0;
  std::size_t requests = 0;
  Duration until{};  // the last call has ended
};

// What the client does with the machines, on a clock of its own.
Aftermath after(const Outage& outage, std::uint64_t seed) {
  constexpr Duration kRoundTrip = milliseconds(20);
  enum class Event : std::uint8_t { kAnswer, kDue, kDeadline, kTokens };
  struct Next {
    TimePoint when;
    Event event;
    std::size_t call;
    bool operator>(const Next& other) const { return when > other.when; }
  };
  struct State {
    CallAttempts attempts;
    int cost = 0;
    bool in_line = false;
  };
  Random random(seed);
  RetryBudget budget;
  Aftermath result;
  std::vector<State> calls(outage.calls, State{CallAttempts(outage.settings, Repeat::kFreely)});
  std::priority_queue<Next, std::vector<Next>, std::greater<>> events;
  TimePoint now = kStart;
  const auto send = [&](std::size_t call) {
    ++result.requests;
    calls[call].in_line = false;
    events.push({now + kRoundTrip, Event::kAnswer, call});
  };
  const auto start_retries = [&] {
    while (const auto next = budget.next(now)) send(*next);
    if (const auto at = budget.next_at()) events.push({*at, Event::kTokens, 0});
  };
  for (std::size_t call = 0; call < outage.calls; ++call) send(call);
  while (!events.empty()) {
    const Next next = events.top();
    events.pop();
    now = next.when;
    if (next.event == Event::kTokens) {
      start_retries();
      continue;
    }
    State& call = calls[next.call];
    switch (next.event) {
      case Event::kAnswer: {
        if (now - kStart >= outage.lasts) {
          budget.succeeded(call.attempts.spent(), now);
          start_retries();
          result.until = now - kStart;
          break;
        }
        const Decision decision = call.attempts.failed(outage.failure, random, now);
        call.cost = decision.cost;
        if (decision.what == What::kGiveUp) {
          ++result.lost;
          result.until = now - kStart;
        } else {
          events.push({decision.when, Event::kDue, next.call});
        }
        break;
      }
      case Event::kDue:
        if (budget.start(next.call, call.cost, now)) {
          send(next.call);
        } else {
          call.in_line = true;
          events.push({call.attempts.deadline(), Event::kDeadline, next.call});
          start_retries();
        }
        break;
      case Event::kDeadline:
        if (!std::exchange(call.in_line, false)) break;
        budget.leave(next.call);
        ++result.lost;
        result.until = now - kStart;
        break;
      case Event::kTokens:
        break;
    }
  }
  return result;
}

const Failure kBadGateway = answered(FailureKind::kAmbiguous, 502);
const Failure kSlowDown = answered(FailureKind::kThrottled, 503, "SlowDown");

TEST_CASE("nothing is lost in an outage, however many calls are under way") {
  struct Row {
    Failure failure;
    Duration lasts;
  };
  const Row rows[] = {
      {kBadGateway, seconds(1)},
      {kBadGateway, seconds(10)},
      {failure(FailureKind::kAmbiguous), seconds(10)},  // reset
      {failure(FailureKind::kNotSent), seconds(10)},    // refused
      {failure(FailureKind::kTransient), seconds(10)},
      {kSlowDown, seconds(30)},
  };
  for (const Row& row : rows) {
    for (const std::size_t calls : {1U, 16U, 32U, 64U, 1000U}) {
      const std::uint64_t seeds = calls < 1000 ? 20 : 3;
      for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
        CAPTURE(to_string(row.failure.kind));
        CAPTURE(calls);
        CAPTURE(seed);
        const Aftermath result = after({calls, row.failure, row.lasts, {}}, seed);
        CHECK(result.lost == 0);
        // No longer than the outage and the longest pause that it leads to; and where calls are in
        // line, a few tokens' time more.
        CHECK(result.until < 2 * row.lasts + seconds(8));
      }
    }
  }
}

TEST_CASE("a store that stays down is asked at most twice as often as if no retry were spared") {
  // Without spared ones and new tokens: each call once, and as many retries as 500 tokens pay for.
  const auto bare = [](std::size_t calls, int limit, std::size_t cost) {
    return calls + std::min(calls * static_cast<std::size_t>(limit), 500 / cost);
  };
  for (const std::size_t calls : {1U, 2U, 8U, 16U, 20U, 32U, 64U, 200U, 1000U, 5000U}) {
    CAPTURE(calls);
    const RetrySettings usual;
    const std::uint64_t seeds = calls < 200 ? 5 : 1;
    for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
      const Aftermath bad = after({calls, kBadGateway, hours(24), usual}, seed);
      CHECK(bad.lost == calls);
      CHECK(bad.requests <= 2 * bare(calls, usual.limit, 10));
      CHECK(bad.until <= usual.deadline + seconds(1));
      const Aftermath refused =
          after({calls, failure(FailureKind::kNotSent), hours(24), usual}, seed);
      CHECK(refused.requests <= 2 * bare(calls, usual.limit, 5));
      const Aftermath slow = after({calls, kSlowDown, hours(24), usual}, seed);
      CHECK(slow.requests <= 2 * bare(calls, usual.throttle_limit, 5));
    }
  }
}

TEST_CASE("limits that are set are kept, whatever the budget") {
  for (const int limit : {0, 1, 3}) {
    RetrySettings settings;
    settings.limit = settings.throttle_limit = limit;
    settings.interval = settings.throttle_interval = milliseconds(5);
    for (const Failure& what : {kBadGateway, kSlowDown}) {
      CAPTURE(limit);
      const Aftermath result = after({4, what, hours(24), settings}, 1);
      CHECK(result.requests == 4U * static_cast<unsigned>(limit + 1));
      CHECK(result.until < seconds(1));
    }
  }
}

TEST_CASE("the rate: halved when throttled, once a second, up by one with each success") {
  SendingRate rate(16);
  CHECK(rate.allowed() == 16);
  rate.succeeded();
  CHECK(rate.allowed() == 16);
  rate.throttled(kStart);
  CHECK(rate.allowed() == 8);
  rate.throttled(kStart + milliseconds(999));
  CHECK(rate.allowed() == 8);
  rate.throttled(kStart + milliseconds(1000));
  CHECK(rate.allowed() == 4);
  rate.succeeded();
  CHECK(rate.allowed() == 5);
  for (int i = 2; i < 12; ++i) rate.throttled(kStart + seconds(i));
  CHECK(rate.allowed() == 1);
  for (int i = 0; i < 100; ++i) rate.succeeded();
  CHECK(rate.allowed() == 16);
  CHECK(SendingRate(0).allowed() == 1);
}

TEST_CASE("any failures in any order end within the limits") {
  Random random(42);  // NOLINT(bugprone-random-generator-seed): the same each time
  for (int round = 0; round < 3000; ++round) {
    RetrySettings settings;
    settings.limit = static_cast<int>(random() % 9);
    settings.throttle_limit = static_cast<int>(random() % 9);
    const Repeat repeat = kRepeats[random() % 3];
    CallAttempts attempts(settings, repeat);
    TimePoint now = kStart;
    bool ambiguous = false;
    int made = 0;
    for (;;) {
      const FailureKind kind = kKinds[random() % std::size(kKinds)];
      const Decision decision = attempts.failed(failure(kind), random, now);
      ++made;
      ambiguous = ambiguous || is_doubtful(kind);
      REQUIRE(attempts.made() == made);
      REQUIRE(attempts.ambiguous() == ambiguous);
      if (decision.what == What::kGiveUp) break;
      REQUIRE(decision.when >= now);
      REQUIRE(decision.when <= kStart + settings.deadline);
      if (ambiguous) REQUIRE(repeat == Repeat::kFreely);
      now = decision.when;
    }
    // The first attempt, and one each with newer credentials, another time and address.
    REQUIRE(made <= settings.limit + settings.throttle_limit + 4);
  }
}

}  // namespace
}  // namespace hflush::s3
