// Attempts: when a call of S3 is tried again. CallAttempts is one call's; RetryBudget and
// SendingRate are shared by all calls of a client. One layer: nothing above or below retries.
// docs/s3-client.md has the table.
//
// State machines without I/O: the caller says what happened and what time it is, and learns what
// to do. Jitter comes from a generator that the caller owns. Thread-compatible.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <random>

#include "hflush/env/clock.h"
#include "hflush/s3/call/outcome.h"

namespace hflush::s3 {

using Random = std::mt19937_64;

struct RetrySettings {
  int limit = 7;            // fs.s3a.retry.limit: retries after the first attempt, apart from the
                            // first that sends newer credentials, another time or address
  int throttle_limit = 20;  // fs.s3a.retry.throttle.limit: the same, of throttled attempts,
                            // which count by themselves
  env::Duration interval = std::chrono::milliseconds(500);
  env::Duration throttle_interval = std::chrono::milliseconds(500);
  env::Duration max_interval = std::chrono::seconds(20);
  env::Duration deadline = std::chrono::minutes(3);           // of all attempts of a call
  env::Duration credentials_wait = std::chrono::seconds(30);  // for newer ones
  bool retry_5xx = true;                                      // fs.s3a.retry.http.5xx.errors
};

// interval × 2^doublings, between nothing and `longest`, whatever the numbers.
env::Duration doubled(env::Duration interval, std::uint64_t doublings,
                      env::Duration longest) noexcept;

// A bucket of tokens: what keeps thousands of calls from retrying in step. A retry takes 5, one
// after an ambiguous failure (a timeout, 5xx) 10, and a new token comes every 400 ms. Where there
// are too few left, calls wait in line for them: none fails for that, within its deadline. A
// success gives back twice what the call's last retry took, or one: a store that is down is asked
// by few, and the first answer of one that is back lets the others follow, more with each.
class RetryBudget {
 public:
  static constexpr int kCapacity = 500;
  static constexpr env::Duration kNewTokenEvery = std::chrono::milliseconds(400);

  // A retry of that call is due: true if it may start, and is paid for. Else it is in line.
  bool start(std::uint64_t call, int cost, env::TimePoint now);
  // Takes the first in line if it can be paid for: it may start.
  std::optional<std::uint64_t> next(env::TimePoint now);
  // When next() has one if nothing succeeds before; nullopt if none is in line.
  std::optional<env::TimePoint> next_at() const noexcept;
  // It waits no more. No effect on one that does not.
  void leave(std::uint64_t call) noexcept;
  void succeeded(int spent, env::TimePoint now) noexcept;
  int tokens(env::TimePoint now) noexcept;

 private:
  struct Waiting {
    std::uint64_t call = 0;
    int cost = 0;
  };

  int tokens_ = kCapacity;
  env::TimePoint counted_until_;  // new tokens are in tokens_ up to here
  std::deque<Waiting> line_;
};

// How many uploads may be under way at once: halved when the store throttles (once a second at
// most), one more for each success, between 1 and the limit.
class SendingRate {
 public:
  explicit SendingRate(std::size_t limit) noexcept;
  std::size_t allowed() const noexcept { return allowed_; }
  void throttled(env::TimePoint now) noexcept;
  void succeeded() noexcept;

 private:
  std::size_t limit_;
  std::size_t allowed_;
  std::optional<env::TimePoint> lowered_;
};

// What a call is, as far as trying it again is concerned.
enum class Repeat : std::uint8_t {
  kFreely,       // idempotent: the same again does no harm
  kUntilDone,    // as kFreely, but after two answers of success in part the caller looks
  kNotTwice,     // what may have been executed is not repeated: the caller has to look. What the
                 // store refused for its content (a conflict, a checksum) is not either: Complete
  kConditional,  // as kNotTwice, but what was refused without being executed is sent again:
                 // PutObject with a condition
};

struct Decision {
  enum class What : std::uint8_t {
    kRetry,           // at `when`
    kRetryWithNewer,  // as soon as there are newer credentials, until `when`
    kGiveUp,          // with the last failure
  };
  What what = What::kGiveUp;
  env::TimePoint when;
  int cost = 0;  // kRetry: of the budget, when it is due
};

class CallAttempts {
 public:
  CallAttempts(const RetrySettings& settings, Repeat repeat) noexcept;

  // What is to be done about an attempt that failed. The deadline counts from the first failure: a
  // large part may take its time to be sent. The first retry costs nothing, nor do those that send
  // something else (newer credentials, another time or address).
  Decision failed(const Failure& failure, Random& random, env::TimePoint now);

  int made() const noexcept { return made_; }    // the one that failed last included
  int spent() const noexcept { return spent_; }  // what the last retry costs
  env::TimePoint deadline() const noexcept { return deadline_; }  // after the first failure
  // An attempt that failed may have been executed by the server; a later 404 or 412 may be the
  // echo of its success. True also after a 503 that is not S3's own: who sent it does not say; of
  // MinIO's that say so; of all that are not about too many requests, where the call publishes (not
  // kFreely); and of errors within a 200 but those that are about the request.
  bool ambiguous() const noexcept { return ambiguous_; }

 private:
  Decision plan(const Failure& failure, Random& random, env::TimePoint now);
  bool sends_something_else(const Failure& failure) const noexcept;
  Decision after_pause(const Failure& failure, env::Duration interval, int failures, Random& random,
                       env::TimePoint now) const;

  RetrySettings settings_;
  Repeat repeat_;
  env::TimePoint deadline_;
  int made_ = 0;
  int throttled_ = 0;
  int transit_ = 0;
  int partial_ = 0;  // answers of success in part
  int spent_ = 0;
  bool credentials_renewed_ = false;
  bool clock_set_ = false;
  bool address_changed_ = false;
  bool ambiguous_ = false;
};

}  // namespace hflush::s3
