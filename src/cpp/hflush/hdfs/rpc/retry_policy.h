// RetryPolicy: what to do about an attempt of a call that failed. A function without I/O: counters,
// failure and a random number in, decision out.
//
// Two levels, as in Hadoop. An attempt that could not even connect is repeated by the connection
// (refused: after a pause; timed out: at once), so many times as the configuration says; then, and
// after every other failure, the call decides: one NameNode fails it unless
// dfs.client.retry.policy.* says otherwise, a nameservice goes to the next NameNode or asks the
// same one again, with pauses that double. A caller with patience is answered only when that has
// run out: until then an attempt is repeated that no NameNode has carried out for a reason that
// passes (a restart, safe mode, a failover). A repeat carries the client id and call id of the
// first attempt, so that the NameNode answers from its retry cache what must not be done twice;
// longer than that remembers, nothing of the kind is repeated. Immutable; thread-safe.
#pragma once

#include <cstdint>
#include <string_view>

#include "hflush/env/clock.h"
#include "hflush/hdfs/settings.h"
#include "hflush/hdfs/wire/name_node_requests.h"

namespace hflush::hdfs {

enum class AttemptFailure : std::uint8_t {
  kConnectRefused,  // or the host is unreachable
  kConnectTimedOut,
  kUnknownHost,
  kIdleLost,         // the connection had served calls and was idle: the server had closed it
  kClosed,           // the server ended the connection
  kBroken,           // any other failure of an established connection
  kUnauthenticated,  // no agreement about who calls; asking again changes nothing
  kTimedOut,         // no answer within ipc.client.rpc-timeout.ms
  kRemote,           // the server answered with an exception
};

// How a call is repeated.
struct Repetition {
  Repeat repeat = Repeat::kIdempotent;
  // Counted from its first failed attempt; 0: as Hadoop.
  env::Duration patience{};
};

struct FailedAttempt {
  AttemptFailure failure = AttemptFailure::kBroken;
  std::string_view remote_class;  // of kRemote
  Repeat repeat = Repeat::kIdempotent;
  bool was_sent = false;
  env::Duration since_sent{};  // how long ago it was first sent
  env::Duration patience{};
  env::Duration since_failed{};  // how long ago the first attempt failed
};

// How often a call was tried before.
struct Attempts {
  int retries = 0;  // attempts of the call, failovers included
  int failovers = 0;
  int connects_refused = 0;  // of this attempt
  int connects_timed_out = 0;
  int idle_losses = 0;

  bool operator==(const Attempts&) const = default;
};

struct RetryDecision {
  enum class Action : std::uint8_t {
    kFail,
    kRetry,     // ask the same NameNode
    kFailover,  // ask the next one
  };
  Action action = Action::kFail;
  env::Duration delay{};  // before that
};

class RetryPolicy {
 public:
  // `several`: the servers of a nameservice.
  RetryPolicy(RpcSettings settings, bool several);

  // `random`: uniform in [0, 1). Counts in `attempts` what it decides.
  RetryDecision decide(const FailedAttempt& failed, double random, Attempts& attempts) const;
  // The same for a call that was sent and that no thread waits for any more, but whose outcome
  // matters: it is repeated beyond that, until a server that can know has answered.
  RetryDecision decide_disowned(const FailedAttempt& failed, double random,
                                Attempts& attempts) const;

  // The NameNode's retry cache forgets after 10 minutes
  // (dfs.namenode.retrycache.expirytime.millis).
  static constexpr env::Duration kLongestRepeat = std::chrono::minutes(9);
  // Between the attempts of a patient caller: a NameNode that is back is noticed soon, and one that
  // takes over at once. The first pause is this part of dfs.client.failover.sleep.base.millis.
  static constexpr int kFirstPatientPart = 16;
  static constexpr env::Duration kLongestPatientPause = std::chrono::seconds(2);

 private:
  enum class Level : std::uint8_t { kConnection, kCall };
  struct Plan {
    Level level = Level::kCall;
    RetryDecision decision;
  };

  Plan plan(const FailedAttempt& failed, double random, const Attempts& attempts) const;
  RetryDecision plan_single(const FailedAttempt& failed, double random,
                            const Attempts& attempts) const;
  RetryDecision plan_nameservice(const FailedAttempt& failed, double random,
                                 const Attempts& attempts) const;
  RetryDecision plan_patient(const FailedAttempt& failed, double random,
                             const Attempts& attempts) const;
  // Before another attempt: Hadoop's, or a shorter one for a patient caller.
  env::Duration pause(const FailedAttempt& failed, double random, int times) const;
  env::Duration failover_pause(const FailedAttempt& failed, double random, int failovers) const;
  env::Duration exponential(int times, double random, env::Duration cap) const;
  env::Duration patient(int times, double random) const;

  const RpcSettings settings_;
  const bool several_;
};

}  // namespace hflush::hdfs
