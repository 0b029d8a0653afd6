// Who writes a batch: the caller when it writes back to back, a worker when it has other things to
// do.
#include "hflush/local/drain_policy.h"

#include <doctest/doctest.h>

namespace hflush::local {
namespace {

using std::chrono::microseconds;

constexpr std::size_t kMiB = 1U << 20U;

// Decides `rounds` batches of a caller that stays away for `away` between them; the last decision.
Drainer settle(DrainPolicy& policy, env::TimePoint& now, microseconds away, std::size_t bytes,
               int rounds = 8) {
  Drainer decision = Drainer::kCaller;
  for (int i = 0; i < rounds; ++i) {
    now += away;
    decision = policy.decide(now, bytes);
    now += microseconds(200);
    policy.caller_left(now);
  }
  return decision;
}

TEST_CASE("back to back: the caller; with work in between: a worker; and back") {
  DrainPolicy policy(2);
  env::TimePoint now{microseconds(1000)};
  CHECK(settle(policy, now, microseconds(1), kMiB) == Drainer::kCaller);
  CHECK(settle(policy, now, microseconds(150), kMiB) == Drainer::kWorker);
  CHECK(settle(policy, now, microseconds(60), kMiB) == Drainer::kCaller);
}

TEST_CASE("the time away counts per mebibyte") {
  DrainPolicy policy(2);
  env::TimePoint now{microseconds(1000)};
  CHECK(settle(policy, now, microseconds(150), 4 * kMiB) == Drainer::kCaller);
  CHECK(settle(policy, now, microseconds(40), kMiB / 4) == Drainer::kWorker);
}

TEST_CASE("small batches, one processor, and the first batch: the caller") {
  DrainPolicy policy(2);
  env::TimePoint now{microseconds(1000)};
  CHECK(policy.decide(now, kMiB) == Drainer::kCaller);
  CHECK(settle(policy, now, microseconds(1000), 1000) == Drainer::kCaller);
  DrainPolicy alone(1);
  CHECK(settle(alone, now, microseconds(1000), kMiB) == Drainer::kCaller);
}

TEST_CASE("one long pause does not decide for long") {
  DrainPolicy policy(2);
  env::TimePoint now{microseconds(1000)};
  settle(policy, now, microseconds(1), kMiB);
  settle(policy, now, microseconds(1000000), kMiB, 1);
  CHECK(settle(policy, now, microseconds(1), kMiB, 3) == Drainer::kCaller);
}

}  // namespace
}  // namespace hflush::local
