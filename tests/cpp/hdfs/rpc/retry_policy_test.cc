// RetryPolicy: every kind of failure, in every state of the counters, against Hadoop's rules.
#include "hflush/hdfs/rpc/retry_policy.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

namespace hflush::hdfs {
namespace {

using Action = RetryDecision::Action;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

constexpr std::string_view kStandby = "org.apache.hadoop.ipc.StandbyException";
constexpr std::string_view kObserver = "org.apache.hadoop.ipc.ObserverRetryOnActiveException";
constexpr std::string_view kRetriable = "org.apache.hadoop.ipc.RetriableException";
constexpr std::string_view kSafeMode = "org.apache.hadoop.hdfs.server.namenode.SafeModeException";
constexpr std::string_view kAccess = "org.apache.hadoop.security.AccessControlException";

struct Kind {
  AttemptFailure failure;
  std::string_view remote_class;
};
const std::vector<Kind> kKinds = {
    {AttemptFailure::kConnectRefused, ""}, {AttemptFailure::kConnectTimedOut, ""},
    {AttemptFailure::kUnknownHost, ""},    {AttemptFailure::kIdleLost, ""},
    {AttemptFailure::kClosed, ""},         {AttemptFailure::kBroken, ""},
    {AttemptFailure::kTimedOut, ""},       {AttemptFailure::kUnauthenticated, ""},
    {AttemptFailure::kRemote, kStandby},   {AttemptFailure::kRemote, kObserver},
    {AttemptFailure::kRemote, kRetriable}, {AttemptFailure::kRemote, kSafeMode},
    {AttemptFailure::kRemote, kAccess},    {AttemptFailure::kRemote, "java.io.IOException"},
};

// Settings with small numbers, so that a walk over all counters ends.
RpcSettings small() {
  RpcSettings settings;
  settings.connect_retries = 2;
  settings.connect_retries_on_timeouts = 3;
  settings.failover_connect_retries = 1;
  settings.failover_connect_retries_on_timeouts = 2;
  settings.max_failovers = 3;
  settings.max_retries = 2;
  settings.retry_policy = {{seconds(1), 2}, {seconds(6), 1}};
  return settings;
}

// Calls `check` in every state of the counters.
template <typename Check>
void each_state(Check check) {
  for (int retries = 0; retries <= 8; ++retries) {
    for (int failovers = 0; failovers <= retries; ++failovers) {
      for (int refused = 0; refused <= 3; ++refused) {
        for (int timed_out = 0; timed_out <= 4; ++timed_out) {
          for (int idle = 0; idle <= 1; ++idle) {
            check(Attempts{retries, failovers, refused, timed_out, idle});
          }
        }
      }
    }
  }
}

env::Duration expo(int times, double random) {
  constexpr milliseconds kSteps[] = {milliseconds(0),     milliseconds(1000),  milliseconds(2000),
                                     milliseconds(4000),  milliseconds(8000),  milliseconds(15000),
                                     milliseconds(15000), milliseconds(15000), milliseconds(15000)};
  return env::Duration(static_cast<std::int64_t>(
      static_cast<double>(env::Duration(kSteps[times]).count()) * (0.5 + random)));
}

// The rules as they are written down: what an attempt to connect does, then the call's.
RetryDecision connection_rule(const Kind& kind, int refused, int timed_out, const Attempts& at) {
  if (kind.failure == AttemptFailure::kConnectRefused && at.connects_refused < refused) {
    return {Action::kRetry, seconds(1)};
  }
  if (kind.failure == AttemptFailure::kConnectTimedOut && at.connects_timed_out < timed_out) {
    return {Action::kRetry, {}};
  }
  if (kind.failure == AttemptFailure::kIdleLost && at.idle_losses < 1) return {Action::kRetry, {}};
  return {};
}

RetryDecision nameservice_rule(const Kind& kind, const Attempts& at, double random) {
  if (at.failovers >= 3) return {};
  if (at.retries - at.failovers > 2) return {};
  switch (kind.failure) {
    case AttemptFailure::kConnectRefused:
    case AttemptFailure::kConnectTimedOut:
    case AttemptFailure::kUnknownHost:
    case AttemptFailure::kIdleLost:
    case AttemptFailure::kClosed:
      return {Action::kFailover, expo(at.failovers, random)};
    case AttemptFailure::kBroken:
    case AttemptFailure::kTimedOut:
      return {Action::kFailover, expo(at.retries, random)};
    case AttemptFailure::kUnauthenticated:
      return {};
    case AttemptFailure::kRemote:
      break;
  }
  if (kind.remote_class == kStandby || kind.remote_class == kObserver) {
    return {Action::kFailover, expo(at.failovers, random)};
  }
  if (kind.remote_class == kRetriable) return {Action::kRetry, expo(at.retries, random)};
  return {};
}

RetryDecision policy_rule(const Kind& kind, const Attempts& at, double random) {
  if (kind.failure == AttemptFailure::kUnauthenticated) return {};
  if (kind.failure == AttemptFailure::kRemote && kind.remote_class != kRetriable &&
      kind.remote_class != kSafeMode) {
    return {};
  }
  if (at.retries >= 3) return {};
  const auto pause = static_cast<double>(env::Duration(seconds(at.retries < 2 ? 1 : 6)).count());
  return {Action::kRetry, env::Duration(static_cast<std::int64_t>(pause * (0.5 + random)))};
}

enum class Setup : std::uint8_t { kSingle, kSingleWithPolicy, kNameservice };

void check_all(Setup setup) {
  const bool several = setup == Setup::kNameservice;
  RpcSettings settings = small();
  settings.retry_policy_enabled = setup == Setup::kSingleWithPolicy;
  const RetryPolicy policy(settings, several);
  for (const Kind& kind : kKinds) {
    CAPTURE(static_cast<int>(kind.failure));
    CAPTURE(kind.remote_class);
    for (const Repeat repeat : {Repeat::kIdempotent, Repeat::kAtMostOnce}) {
      for (const double random : {0.0, 0.25, 0.999}) {
        each_state([&](const Attempts& at) {
          CAPTURE(at.retries);
          CAPTURE(at.failovers);
          RetryDecision expected = connection_rule(kind, several ? 1 : 2, several ? 2 : 3, at);
          const bool by_connection = expected.action != Action::kFail;
          if (!by_connection && several) expected = nameservice_rule(kind, at, random);
          if (!by_connection && setup == Setup::kSingleWithPolicy) {
            expected = policy_rule(kind, at, random);
          }
          Attempts after = at;
          const RetryDecision decision =
              policy.decide({kind.failure, kind.remote_class, repeat, {}}, random, after);
          REQUIRE(decision.action == expected.action);
          REQUIRE(decision.delay == expected.delay);
          Attempts counted = at;
          if (decision.action == Action::kFail) {
            // Nothing is counted.
          } else if (by_connection) {
            counted.connects_refused += kind.failure == AttemptFailure::kConnectRefused ? 1 : 0;
            counted.connects_timed_out += kind.failure == AttemptFailure::kConnectTimedOut ? 1 : 0;
            counted.idle_losses += kind.failure == AttemptFailure::kIdleLost ? 1 : 0;
          } else {
            counted.connects_refused = 0;
            counted.connects_timed_out = 0;
            ++counted.retries;
            counted.failovers += decision.action == Action::kFailover ? 1 : 0;
          }
          REQUIRE((after == counted));
        });
      }
    }
  }
}

TEST_CASE("one NameNode: only connecting is repeated") { check_all(Setup::kSingle); }
TEST_CASE("one NameNode, with dfs.client.retry.policy") { check_all(Setup::kSingleWithPolicy); }
TEST_CASE("a nameservice fails over") { check_all(Setup::kNameservice); }

TEST_CASE("defaults: 10 more attempts if one NameNode refuses, none if it does not answer") {
  const RpcSettings settings;
  const auto attempts_until_failure = [&](bool several, AttemptFailure failure) {
    const RetryPolicy policy(settings, several);
    Attempts attempts;
    int count = 1;
    while (policy.decide({failure, "", Repeat::kIdempotent, {}}, 0.5, attempts).action !=
           Action::kFail) {
      ++count;
    }
    return count;
  };
  CHECK(attempts_until_failure(false, AttemptFailure::kConnectRefused) == 11);
  CHECK(attempts_until_failure(false, AttemptFailure::kConnectTimedOut) == 1);
  CHECK(attempts_until_failure(false, AttemptFailure::kUnknownHost) == 1);
  CHECK(attempts_until_failure(false, AttemptFailure::kTimedOut) == 1);
  CHECK(attempts_until_failure(true, AttemptFailure::kConnectRefused) == 16);
  CHECK(attempts_until_failure(true, AttemptFailure::kConnectTimedOut) == 16);

  const RetryPolicy policy(settings, true);
  Attempts attempts;
  const FailedAttempt busy{AttemptFailure::kRemote, kRetriable, Repeat::kIdempotent, {}};
  int count = 1;
  while (policy.decide(busy, 0.5, attempts).action == Action::kRetry) ++count;
  CHECK(count == 12);
  CHECK(attempts.failovers == 0);
}

TEST_CASE("patience: a NameNode that takes over is noticed soon") {
  RpcSettings settings;
  settings.failover_base = milliseconds(480);
  const RetryPolicy policy(settings, true);
  for (const Kind kind :
       {Kind{AttemptFailure::kRemote, kStandby}, Kind{AttemptFailure::kConnectRefused, ""}}) {
    CAPTURE(kind.remote_class);
    Attempts attempts;
    for (const int pause : {30, 60, 120, 240, 480, 960, 1920, 2000, 2000}) {
      CAPTURE(pause);
      for (const milliseconds expected : {milliseconds(0), milliseconds(pause)}) {
        const RetryDecision decision = policy.decide({.failure = kind.failure,
                                                      .remote_class = kind.remote_class,
                                                      .repeat = Repeat::kIdempotent,
                                                      .patience = minutes(2)},
                                                     0.5, attempts);
        CHECK(decision.action == Action::kFailover);
        CHECK(decision.delay == expected);
      }
    }
  }
}

TEST_CASE("patience: the end of a safe mode is noticed soon, after whatever went before") {
  const RetryPolicy policy(RpcSettings(), true);
  for (const AttemptFailure failure :
       {AttemptFailure::kRemote, AttemptFailure::kBroken, AttemptFailure::kTimedOut}) {
    Attempts attempts;
    for (int i = 0; i < 40; ++i) {
      const bool is_away = i < 14;  // both NameNodes refuse; then one of them is in safe mode
      const RetryDecision decision =
          policy.decide({.failure = is_away ? AttemptFailure::kConnectRefused : failure,
                         .remote_class = is_away ? std::string_view() : kRetriable,
                         .repeat = Repeat::kIdempotent,
                         .was_sent = !is_away,
                         .since_sent = {},
                         .patience = minutes(2),
                         .since_failed = seconds(i)},
                        0.5, attempts);
      CHECK(decision.action != Action::kFail);
      CHECK(decision.delay <= RetryPolicy::kLongestPatientPause);
    }
  }
}

TEST_CASE("patience: what passes is repeated for so long, beyond Hadoop's attempts") {
  for (const bool several : {false, true}) {
    RpcSettings settings = small();
    settings.connect_retries = 0;
    settings.failover_connect_retries = 0;
    settings.failover_base = milliseconds(500);
    const RetryPolicy policy(settings, several);
    CAPTURE(several);
    for (const Kind& kind : kKinds) {
      CAPTURE(static_cast<int>(kind.failure));
      CAPTURE(kind.remote_class);
      const bool is_final = kind.failure == AttemptFailure::kUnauthenticated ||
                            kind.remote_class == kAccess ||
                            kind.remote_class == "java.io.IOException";
      const bool stays = kind.remote_class == kRetriable || kind.remote_class == kSafeMode;
      const auto decide = [&](env::Duration patience, env::Duration since_failed, double random) {
        // Hadoop's policy has given up, whatever the failure.
        Attempts attempts{
            .retries = 19, .failovers = 15, .connects_timed_out = 9, .idle_losses = 1};
        return policy.decide({.failure = kind.failure,
                              .remote_class = kind.remote_class,
                              .repeat = Repeat::kIdempotent,
                              .was_sent = true,
                              .since_sent = {},
                              .patience = patience,
                              .since_failed = since_failed},
                             random, attempts);
      };
      CHECK(decide({}, {}, 0.5).action == Action::kFail);
      const RetryDecision early = decide(seconds(60), seconds(1), 0.5);
      if (is_final) {
        CHECK(early.action == Action::kFail);
        continue;
      }
      CHECK(early.action == (several && !stays ? Action::kFailover : Action::kRetry));
      CHECK(early.delay == RetryPolicy::kLongestPatientPause);
      CHECK(decide(seconds(60), seconds(1), 0.0).delay == seconds(1));
      CHECK(decide(seconds(60), seconds(58), 0.5).action == Action::kFail);  // with the pause
      CHECK(decide(seconds(60), seconds(58) - milliseconds(1), 0.5).action != Action::kFail);
    }
  }
}

TEST_CASE("patience: without pauses in the settings a server is not asked all the time") {
  RpcSettings settings;
  settings.failover_base = settings.failover_cap = {};
  FailedAttempt failed{.failure = AttemptFailure::kRemote,
                       .remote_class = kSafeMode,
                       .was_sent = true,
                       .patience = minutes(2)};
  Attempts attempts{.retries = 30, .failovers = 15};
  CHECK(RetryPolicy(settings, true).decide(failed, 0.0, attempts).delay >= milliseconds(5));
  failed.remote_class = kStandby;
  CHECK(RetryPolicy(settings, true).decide_disowned(failed, 0.0, attempts).delay >=
        milliseconds(5));
}

TEST_CASE("patience does not repeat what the server may have forgotten") {
  const RetryPolicy policy(RpcSettings(), false);
  const auto action = [&](Repeat repeat, env::Duration since_sent) {
    Attempts attempts{.retries = 4};
    return policy
        .decide({.failure = AttemptFailure::kBroken,
                 .remote_class = {},
                 .repeat = repeat,
                 .was_sent = true,
                 .since_sent = since_sent,
                 .patience = minutes(60),
                 .since_failed = {}},
                0.5, attempts)
        .action;
  };
  CHECK(action(Repeat::kAtMostOnce, minutes(8)) == Action::kRetry);
  CHECK(action(Repeat::kAtMostOnce, minutes(9)) == Action::kFail);
  CHECK(action(Repeat::kIdempotent, minutes(30)) == Action::kRetry);
  CHECK(action(Repeat::kNever, seconds(1)) == Action::kFail);
}

TEST_CASE("a call that may do harm when it comes late is not repeated once it was sent") {
  for (const bool several : {false, true}) {
    RpcSettings settings;
    settings.retry_policy_enabled = true;
    const RetryPolicy policy(settings, several);
    const auto action = [&](AttemptFailure failure, bool was_sent, std::string_view remote = {}) {
      Attempts attempts;
      return policy.decide({failure, remote, Repeat::kNever, was_sent, {}}, 0.5, attempts).action;
    };
    for (const AttemptFailure lost : {AttemptFailure::kClosed, AttemptFailure::kBroken,
                                      AttemptFailure::kIdleLost, AttemptFailure::kTimedOut}) {
      CHECK(action(lost, true) == Action::kFail);
    }
    CHECK(action(AttemptFailure::kConnectRefused, false) != Action::kFail);
    CHECK(action(AttemptFailure::kRemote, true, kRetriable) != Action::kFail);
    const bool repeats = action(AttemptFailure::kRemote, true, kSafeMode) != Action::kFail;
    CHECK(repeats == !several);  // as of any call
  }
}

TEST_CASE("a disowned call is repeated until a server that can know has answered") {
  for (const bool several : {false, true}) {
    const RetryPolicy policy(RpcSettings(), several);
    Attempts attempts;
    const auto decide = [&](AttemptFailure failure, env::Duration since_sent,
                            std::string_view remote = {}) {
      return policy.decide_disowned({failure, remote, Repeat::kAtMostOnce, true, since_sent}, 0.5,
                                    attempts);
    };
    for (int i = 0; i < 40; ++i) {
      const RetryDecision decision = decide(AttemptFailure::kClosed, seconds(10 * i));
      CHECK(decision.action == (several ? Action::kFailover : Action::kRetry));
      CHECK(decision.delay <= seconds(23));
    }
    CHECK(decide(AttemptFailure::kRemote, seconds(1), "x.StandbyException").action !=
          Action::kFail);
    CHECK(decide(AttemptFailure::kRemote, seconds(1), kRetriable).action != Action::kFail);
    CHECK(decide(AttemptFailure::kRemote, seconds(1), "java.io.IOException").action ==
          Action::kFail);
    CHECK(decide(AttemptFailure::kClosed, minutes(9)).action == Action::kFail);
  }
}

TEST_CASE(
    "FAIL-10: what must not be done twice is not repeated once the server may have forgotten") {
  const RetryPolicy policy(RpcSettings(), true);
  const auto action = [&](Repeat repeat, env::Duration since_sent) {
    Attempts attempts{.retries = 4, .failovers = 4};
    return policy.decide({AttemptFailure::kBroken, "", repeat, true, since_sent}, 0.5, attempts)
        .action;
  };
  CHECK(action(Repeat::kIdempotent, minutes(30)) == Action::kFailover);
  CHECK(action(Repeat::kAtMostOnce, minutes(8)) == Action::kFailover);
  CHECK(action(Repeat::kAtMostOnce, minutes(9)) == Action::kFail);
  // The pause before the repeat counts.
  CHECK(action(Repeat::kAtMostOnce, minutes(9) - seconds(5)) == Action::kFail);
}

TEST_CASE("a class in another package is the same class") {
  const RetryPolicy policy(RpcSettings(), true);
  Attempts attempts;
  CHECK(policy.decide({AttemptFailure::kRemote, "com.vendor.StandbyException"}, 0.5, attempts)
            .action == Action::kFailover);
  CHECK(policy.decide({AttemptFailure::kRemote, "com.vendor.NotAStandbyException"}, 0.5, attempts)
            .action == Action::kFail);
}

}  // namespace
}  // namespace hflush::hdfs
