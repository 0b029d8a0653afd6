// LeaseRenewal: when to renew the lease that all files of one client share, and what to do if that
// does not work. A state machine without I/O; LeaseRenewer (lease_renewer.h) is its shell.
//
//   kIdle       no file is open
//   kWaiting    for the time of the next renewal
//   kRenewing   the call is under way
//   kFinishing  the same, but no file is open any more
//
//   event        kIdle            kWaiting        kRenewing             kFinishing
//   opened       kWaiting, arm    -               -                     kRenewing
//   emptied      -                kIdle, disarm   kFinishing            -
//   timer_fired  -                kRenewing       -                     -
//   renewed      -                -               kWaiting, arm         kIdle
//   failed       -                -               kWaiting, arm, or     kIdle
//                                                 kIdle, give up
//
// Each event answers what to do next. Thread-compatible.
#pragma once

#include <chrono>
#include <cstdint>
#include <string_view>

#include "hflush/base/status.h"
#include "hflush/env/clock.h"

namespace hflush::hdfs {

class LeaseRenewal {
 public:
  enum class State : std::uint8_t { kIdle, kWaiting, kRenewing, kFinishing };
  enum class Action : std::uint8_t {
    kNothing,
    kArm,     // call timer_fired() at `when`
    kDisarm,  // do not
    kRenew,   // call renewed() or failed() with the outcome
    kGiveUp,  // the lease is lost: every open file learns it, and is forgotten
  };
  struct Step {
    Action action = Action::kNothing;
    env::TimePoint when;
  };

  static constexpr env::Duration kSoftLimit = std::chrono::seconds(60);
  static constexpr env::Duration kRetryPause = std::chrono::seconds(1);

  // `rpc_timeout` 0: there is none.
  LeaseRenewal(env::Duration rpc_timeout, env::Duration hard_limit) noexcept;

  State state() const noexcept { return state_; }
  // How long a lease lasts that is not renewed, as far as this side knows.
  env::Duration soft_limit() const noexcept { return 2 * period_; }
  // A file was opened: that, too, has renewed the lease.
  Step opened(env::TimePoint now);
  // No file is open any more.
  Step emptied();
  Step timer_fired();
  Step renewed(env::TimePoint now);
  Step failed(env::TimePoint now, const Status& failure);

 private:
  Step wait_until(env::TimePoint when);

  const env::Duration period_;
  const env::Duration hard_limit_;
  State state_ = State::kIdle;
  env::TimePoint last_renewed_;
};

std::string_view to_string(LeaseRenewal::State state) noexcept;

}  // namespace hflush::hdfs
