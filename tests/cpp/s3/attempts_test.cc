// When a call is tried again: every row of docs/s3-client.md, in every state of the counters.
#include "hflush/s3/attempts.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <string_view>
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
};
constexpr Repeat kRepeats[] = {Repeat::kFreely, Repeat::kNotTwice, Repeat::kConditional};

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

// A call, with all that it shares.
struct Call {
  explicit Call(Repeat repeat = Repeat::kFreely, const RetrySettings& settings = {})
      : attempts(settings, repeat) {}
  Decision failed(const Failure& what) { return attempts.failed(what, budget, random, now); }
  Decision failed(FailureKind kind) { return failed(failure(kind)); }
  // How often that failure is followed by another attempt.
  int retries(const Failure& what) {
    for (int count = 0; count < 100; ++count) {
      if (failed(what).what == What::kGiveUp) return count;
    }
    return 100;
  }

  CallAttempts attempts;
  RetryBudget budget;
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
      CHECK(call.attempts.ambiguous() == (row.kind == FailureKind::kAmbiguous));
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

TEST_CASE("a 503 that is not S3's own, and a throttled 200, may have been executed") {
  const auto ambiguous = [](int status, std::string_view code) {
    Call call(Repeat::kNotTwice);
    CHECK(call.failed(answered(FailureKind::kThrottled, status, code)).what == What::kRetry);
    return call.attempts.ambiguous();
  };
  CHECK(ambiguous(503, ""));
  CHECK_FALSE(ambiguous(503, "SlowDown"));
  CHECK_FALSE(ambiguous(429, ""));
  CHECK(ambiguous(200, "SlowDown"));
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

TEST_CASE("no retries at all") {
  RetrySettings settings;
  settings.limit = 0;
  settings.throttle_limit = 0;
  for (const FailureKind kind : kKinds) {
    CAPTURE(to_string(kind));
    Call call(Repeat::kFreely, settings);
    CHECK(call.failed(kind).what == What::kGiveUp);
    CHECK(call.attempts.made() == 1);
  }
}

// The pauses before the first, second, ... further attempt, each the longest of many calls.
std::vector<Duration> longest_pauses(FailureKind kind, const RetrySettings& settings) {
  std::vector<Duration> longest;
  Random random(7);  // NOLINT(bugprone-random-generator-seed): the same each time
  for (int i = 0; i < 2000; ++i) {
    CallAttempts attempts(settings, Repeat::kFreely);
    RetryBudget budget;
    for (std::size_t n = 0;; ++n) {
      const Decision decision = attempts.failed(failure(kind), budget, random, kStart);
      if (decision.what == What::kGiveUp) break;
      CHECK(decision.when >= kStart);
      if (longest.size() == n) longest.push_back(Duration::zero());
      longest[n] = std::max(longest[n], decision.when - kStart);
    }
  }
  return longest;
}

void check_doubling(const std::vector<Duration>& longest, Duration first, Duration most) {
  for (std::size_t n = 0; n < longest.size(); ++n) {
    CAPTURE(n);
    const Duration limit = std::min(first * (1 << n), most);
    CHECK(longest[n] <= limit);
    CHECK(longest[n] > limit - limit / 50);  // of 2,000
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

TEST_CASE("pauses: full jitter, doubling, bounded") {
  RetrySettings settings;
  settings.limit = 12;
  const auto usual = longest_pauses(FailureKind::kTransient, settings);
  CHECK(usual.size() == 12);
  check_doubling(usual, milliseconds(100), seconds(20));
  const auto throttled = longest_pauses(FailureKind::kThrottled, settings);
  CHECK(throttled.size() == 20);
  check_doubling(throttled, milliseconds(500), seconds(20));
}

TEST_CASE("pauses of odd settings") {
  RetrySettings settings;
  settings.deadline = env::kNoTimeout;
  settings.limit = 80;
  settings.max_interval = env::kNoTimeout / 4;
  for (const Duration pause : longest_pauses(FailureKind::kTransient, settings)) {
    CHECK(pause <= settings.max_interval);
  }
  settings.interval = Duration::zero();
  for (const Duration pause : longest_pauses(FailureKind::kTransient, settings)) {
    CHECK(pause == Duration::zero());
  }
  settings.interval = seconds(5);
  settings.max_interval = seconds(1);
  for (const Duration pause : longest_pauses(FailureKind::kTransient, settings)) {
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

TEST_CASE("the budget: retries take, successes give back, and empty means no more") {
  RetryBudget budget;
  CHECK(budget.tokens() == 500);
  budget.succeeded(0);
  CHECK(budget.tokens() == 500);
  CHECK(budget.take(FailureKind::kTransient) == 5);
  CHECK(budget.tokens() == 495);
  CHECK(budget.take(FailureKind::kAmbiguous) == 10);
  CHECK(budget.tokens() == 485);
  while (budget.tokens() >= 10) CHECK(budget.take(FailureKind::kAmbiguous) == 10);
  CHECK(budget.tokens() == 5);
  CHECK(budget.take(FailureKind::kAmbiguous) == 0);
  CHECK(budget.tokens() == 5);
  CHECK(budget.take(FailureKind::kThrottled) == 5);
  CHECK(budget.take(FailureKind::kThrottled) == 0);
  CHECK(budget.tokens() == 0);

  Random random(1);  // NOLINT(bugprone-random-generator-seed): the same each time
  CallAttempts attempts({}, Repeat::kFreely);
  CHECK(attempts.failed(failure(FailureKind::kTransient), budget, random, kStart).what ==
        What::kGiveUp);
  for (int i = 0; i < 5; ++i) budget.succeeded(0);
  CHECK(attempts.failed(failure(FailureKind::kTransient), budget, random, kStart).what ==
        What::kRetry);
  CHECK(budget.tokens() == 0);
  // What is given up takes nothing.
  budget.succeeded(attempts.spent());
  CHECK(budget.tokens() == 5);
  for (int i = 0; i < 15; ++i) budget.succeeded(0);
  CHECK(attempts.failed(failure(FailureKind::kFinal), budget, random, kStart).what ==
        What::kGiveUp);
  CHECK(budget.tokens() == 20);
}

TEST_CASE("a store that throttles every third attempt does not empty the budget") {
  RetryBudget budget;
  Random random(1);  // NOLINT(bugprone-random-generator-seed): the same each time
  for (int i = 0; i < 1000; ++i) {
    CallAttempts attempts({}, Repeat::kFreely);
    if (i % 2 == 0) {
      CHECK(attempts.failed(failure(FailureKind::kThrottled), budget, random, kStart).what ==
            What::kRetry);
    }
    budget.succeeded(attempts.spent());
  }
  CHECK(budget.tokens() == 500);
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
    RetryBudget budget;
    TimePoint now = kStart;
    bool ambiguous = false;
    int made = 0;
    for (;;) {
      const FailureKind kind = kKinds[random() % std::size(kKinds)];
      const Decision decision = attempts.failed(failure(kind), budget, random, now);
      ++made;
      ambiguous = ambiguous || kind == FailureKind::kAmbiguous;
      REQUIRE(attempts.made() == made);
      REQUIRE(attempts.ambiguous() == ambiguous);
      if (decision.what == What::kGiveUp) break;
      REQUIRE(decision.when >= now);
      REQUIRE(decision.when <= kStart + settings.deadline);
      if (ambiguous) REQUIRE(repeat == Repeat::kFreely);
      now = decision.when;
    }
    REQUIRE(made <= settings.limit + settings.throttle_limit + 1);
  }
}

}  // namespace
}  // namespace hflush::s3
