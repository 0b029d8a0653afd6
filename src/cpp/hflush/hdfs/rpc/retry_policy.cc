#include "hflush/hdfs/rpc/retry_policy.h"

#include <algorithm>
#include <utility>

#include "hflush/hdfs/wire/remote_exception.h"

namespace hflush::hdfs {
namespace {

using Action = RetryDecision::Action;

// Of what is repeated for minutes, whatever the settings say.
constexpr env::Duration kShortestPause = std::chrono::milliseconds(10);

// From half of `delay` to one and a half.
env::Duration jittered(env::Duration delay, double random) {
  return env::Duration(
      static_cast<env::Duration::rep>(static_cast<double>(delay.count()) * (random + 0.5)));
}

bool is_connect_failure(AttemptFailure failure) noexcept {
  return failure == AttemptFailure::kConnectRefused ||
         failure == AttemptFailure::kConnectTimedOut || failure == AttemptFailure::kUnknownHost;
}

// The server is not the active one.
bool is_elsewhere(std::string_view remote_class) noexcept {
  return is_class(remote_class, "StandbyException") ||
         is_class(remote_class, "ObserverRetryOnActiveException");
}

bool is_retriable(std::string_view remote_class) noexcept {
  return is_class(remote_class, "RetriableException");
}

// A NameNode that is starting, or was put into this mode by hand.
bool is_safe_mode(std::string_view remote_class) noexcept {
  return is_class(remote_class, "SafeModeException");
}

// By a server that has not looked at the call.
bool is_refused(const FailedAttempt& failed) noexcept {
  return failed.failure == AttemptFailure::kRemote &&
         (is_elsewhere(failed.remote_class) || is_retriable(failed.remote_class));
}

}  // namespace

RetryPolicy::RetryPolicy(RpcSettings settings, bool several)
    : settings_(std::move(settings)), several_(several) {}

RetryDecision RetryPolicy::decide(const FailedAttempt& failed, double random,
                                  Attempts& attempts) const {
  const Plan planned = plan(failed, random, attempts);
  const RetryDecision& decision = planned.decision;
  if (decision.action == Action::kFail) return decision;
  if (failed.repeat == Repeat::kAtMostOnce && failed.since_sent + decision.delay > kLongestRepeat) {
    return {};
  }
  const bool is_done_perhaps =
      failed.was_sent && !is_refused(failed) && !is_safe_mode(failed.remote_class);
  if (failed.repeat == Repeat::kNever && is_done_perhaps) return {};
  if (planned.level == Level::kConnection) {
    attempts.connects_refused += failed.failure == AttemptFailure::kConnectRefused ? 1 : 0;
    attempts.connects_timed_out += failed.failure == AttemptFailure::kConnectTimedOut ? 1 : 0;
    attempts.idle_losses += failed.failure == AttemptFailure::kIdleLost ? 1 : 0;
    return decision;
  }
  attempts.connects_refused = 0;
  attempts.connects_timed_out = 0;
  ++attempts.retries;
  attempts.failovers += decision.action == Action::kFailover ? 1 : 0;
  return decision;
}

RetryDecision RetryPolicy::decide_disowned(const FailedAttempt& failed, double random,
                                           Attempts& attempts) const {
  const RetryDecision decision = decide(failed, random, attempts);
  if (decision.action != Action::kFail) return decision;
  if (failed.failure == AttemptFailure::kRemote && !is_refused(failed)) return {};
  if (failed.failure == AttemptFailure::kUnauthenticated) return {};
  const env::Duration delay =
      std::max(kShortestPause, exponential(++attempts.retries, random, settings_.failover_cap));
  if (failed.since_sent + delay > kLongestRepeat) return {};
  return {several_ ? Action::kFailover : Action::kRetry, delay};
}

RetryPolicy::Plan RetryPolicy::plan(const FailedAttempt& failed, double random,
                                    const Attempts& attempts) const {
  if (failed.failure == AttemptFailure::kUnauthenticated) return {};
  const int refused = several_ ? settings_.failover_connect_retries : settings_.connect_retries;
  const int timed_out = several_ ? settings_.failover_connect_retries_on_timeouts
                                 : settings_.connect_retries_on_timeouts;
  if (failed.failure == AttemptFailure::kConnectRefused && attempts.connects_refused < refused) {
    return {Level::kConnection, {Action::kRetry, settings_.connect_retry_interval}};
  }
  if (failed.failure == AttemptFailure::kConnectTimedOut &&
      attempts.connects_timed_out < timed_out) {
    return {Level::kConnection, {Action::kRetry, {}}};
  }
  if (failed.failure == AttemptFailure::kIdleLost && attempts.idle_losses == 0) {
    return {Level::kConnection, {Action::kRetry, {}}};
  }
  const RetryDecision decision =
      several_ ? plan_nameservice(failed, random, attempts) : plan_single(failed, random, attempts);
  return {Level::kCall,
          decision.action == Action::kFail ? plan_patient(failed, random, attempts) : decision};
}

// Hadoop's MultipleLinearRandomRetry.
RetryDecision RetryPolicy::plan_single(const FailedAttempt& failed, double random,
                                       const Attempts& attempts) const {
  if (!settings_.retry_policy_enabled) return {};
  if (failed.failure == AttemptFailure::kRemote && !is_retriable(failed.remote_class) &&
      !is_safe_mode(failed.remote_class)) {
    return {};
  }
  int before = 0;
  for (const auto& [delay, times] : settings_.retry_policy) {
    before += times;
    if (attempts.retries < before) return {Action::kRetry, jittered(delay, random)};
  }
  return {};
}

// Hadoop's FailoverOnNetworkExceptionRetry.
RetryDecision RetryPolicy::plan_nameservice(const FailedAttempt& failed, double random,
                                            const Attempts& attempts) const {
  if (attempts.failovers >= settings_.max_failovers) return {};
  if (attempts.retries - attempts.failovers > settings_.max_retries) return {};
  if (failed.failure == AttemptFailure::kRemote) {
    if (is_elsewhere(failed.remote_class)) {
      return {Action::kFailover, failover_pause(failed, random, attempts.failovers)};
    }
    if (is_retriable(failed.remote_class)) {
      return {Action::kRetry, pause(failed, random, attempts.retries)};
    }
    return {};
  }
  const bool unavailable = is_connect_failure(failed.failure) ||
                           failed.failure == AttemptFailure::kClosed ||
                           failed.failure == AttemptFailure::kIdleLost;
  if (unavailable) return {Action::kFailover, failover_pause(failed, random, attempts.failovers)};
  return {Action::kFailover, pause(failed, random, attempts.retries)};
}

env::Duration RetryPolicy::pause(const FailedAttempt& failed, double random, int times) const {
  const bool is_patient = failed.patience > env::Duration::zero();
  return is_patient ? patient(times, random) : exponential(times, random, settings_.failover_cap);
}

// Of a server that has not carried out the call: a patient caller need not save attempts. It asks
// two servers at a time: one of them may be the next.
env::Duration RetryPolicy::failover_pause(const FailedAttempt& failed, double random,
                                          int failovers) const {
  const bool is_patient = failed.patience > env::Duration::zero();
  if (!is_patient) return exponential(failovers, random, settings_.failover_cap);
  return failovers % 2 == 0 ? env::Duration::zero() : patient((failovers + 1) / 2, random);
}

// Beyond what Hadoop does.
RetryDecision RetryPolicy::plan_patient(const FailedAttempt& failed, double random,
                                        const Attempts& attempts) const {
  const bool waits_there = is_retriable(failed.remote_class) || is_safe_mode(failed.remote_class);
  const bool is_answer = failed.failure == AttemptFailure::kRemote && !waits_there &&
                         !is_elsewhere(failed.remote_class);
  if (is_answer) return {};
  const bool goes_on = several_ && !waits_there;
  const env::Duration delay = goes_on ? failover_pause(failed, random, attempts.failovers)
                                      : patient(attempts.retries, random);
  if (failed.since_failed + delay >= failed.patience) return {};
  return {goes_on ? Action::kFailover : Action::kRetry, delay};
}

env::Duration RetryPolicy::exponential(int times, double random, env::Duration cap) const {
  if (times == 0) return {};
  env::Duration delay = settings_.failover_base;
  for (int i = 0; i < times && delay < cap; ++i) delay *= 2;
  return jittered(std::min(delay, cap), random);
}

env::Duration RetryPolicy::patient(int times, double random) const {
  if (times == 0) return {};
  const env::Duration cap =
      std::clamp(settings_.failover_cap, kShortestPause, kLongestPatientPause);
  env::Duration delay = std::max(settings_.failover_base / kFirstPatientPart, kShortestPause);
  for (int i = 1; i < times && delay < cap; ++i) delay *= 2;
  return jittered(std::min(delay, cap), random);
}

}  // namespace hflush::hdfs
