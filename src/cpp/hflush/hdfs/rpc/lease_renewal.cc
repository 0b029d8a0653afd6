#include "hflush/hdfs/rpc/lease_renewal.h"

#include <algorithm>
#include <array>

namespace hflush::hdfs {

LeaseRenewal::LeaseRenewal(env::Duration rpc_timeout, env::Duration hard_limit) noexcept
    : period_(rpc_timeout > env::Duration::zero() ? std::min(kSoftLimit, rpc_timeout) / 2
                                                  : kSoftLimit / 2),
      hard_limit_(hard_limit) {}

LeaseRenewal::Step LeaseRenewal::opened(env::TimePoint now) {
  switch (state_) {
    case State::kIdle:
      last_renewed_ = now;
      return wait_until(now + period_);
    case State::kFinishing:
      last_renewed_ = now;
      state_ = State::kRenewing;
      break;
    case State::kWaiting:
    case State::kRenewing:
      break;
  }
  return {};
}

LeaseRenewal::Step LeaseRenewal::emptied() {
  switch (state_) {
    case State::kWaiting:
      state_ = State::kIdle;
      return {Action::kDisarm, {}};
    case State::kRenewing:
      state_ = State::kFinishing;
      break;
    case State::kIdle:
    case State::kFinishing:
      break;
  }
  return {};
}

LeaseRenewal::Step LeaseRenewal::timer_fired() {
  if (state_ != State::kWaiting) return {};
  state_ = State::kRenewing;
  return {Action::kRenew, {}};
}

LeaseRenewal::Step LeaseRenewal::renewed(env::TimePoint now) {
  if (state_ == State::kRenewing) {
    last_renewed_ = now;
    return wait_until(now + period_);
  }
  if (state_ == State::kFinishing) state_ = State::kIdle;
  return {};
}

LeaseRenewal::Step LeaseRenewal::failed(env::TimePoint now, const Status& failure) {
  if (state_ == State::kFinishing) state_ = State::kIdle;
  if (state_ != State::kRenewing) return {};
  const bool final =
      failure.code() == StatusCode::kLeaseLost || failure.code() == StatusCode::kClosed;
  if (!final && now - last_renewed_ <= hard_limit_) return wait_until(now + kRetryPause);
  state_ = State::kIdle;
  return {Action::kGiveUp, {}};
}

LeaseRenewal::Step LeaseRenewal::wait_until(env::TimePoint when) {
  state_ = State::kWaiting;
  return {Action::kArm, when};
}

std::string_view to_string(LeaseRenewal::State state) noexcept {
  constexpr auto kNames =
      std::to_array<std::string_view>({"idle", "waiting", "renewing", "finishing"});
  return kNames[static_cast<std::size_t>(state)];
}

}  // namespace hflush::hdfs
