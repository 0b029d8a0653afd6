#include "hflush/s3/call/attempts.h"

#include <algorithm>
#include <string_view>

namespace hflush::s3 {
namespace {

constexpr int kRetryCost = 5;
constexpr int kAmbiguousCost = 10;
constexpr int kTransitRetries = 2;
constexpr int kPartialRetries = 1;
constexpr env::Duration kOnceIn = std::chrono::seconds(1);

constexpr Decision kGiveUp = {Decision::What::kGiveUp, {}, 0};

Decision retry_at(env::TimePoint when) noexcept { return {Decision::What::kRetry, when, 0}; }

// The codes that say that there are too many requests; others of a 503 do not say how far it got.
bool is_about_rate(std::string_view code) noexcept {
  const auto has = [code](std::string_view part) {
    return code.find(part) != std::string_view::npos;
  };
  return code == "SlowDown" || code == "SlowDownRead" || has("Throttl") || has("Exceeded") ||
         has("TooManyRequests");
}

bool may_be_executed(const Failure& failure, Repeat repeat) noexcept {
  // An error within a 200 comes from a server that had begun.
  const bool had_begun = failure.http_status / 100 == 2;
  switch (failure.kind) {
    case FailureKind::kAmbiguous:
    case FailureKind::kInProgress:
      return true;
    case FailureKind::kFinal:
      return had_begun || failure.may_be_executed;
    case FailureKind::kTransient:
      // AWS says so of what it has not received; MinIO when its drives are too slow.
      return had_begun || failure.http_status >= 500;
    case FailureKind::kThrottled:
      if (failure.http_status != 503) return had_begun;
      // Without S3's code it comes from something in between, which may have passed the request on;
      // MinIO's from the drives that could not do it, while others had.
      if (failure.code.empty() || failure.code == "SlowDownWrite") return true;
      return repeat != Repeat::kFreely && !is_about_rate(failure.code);
    default:
      return false;
  }
}

bool is_5xx(const Failure& failure) noexcept {
  return failure.http_status >= 500 || failure.code == "InternalError";
}

}  // namespace

env::Duration doubled(env::Duration interval, std::uint64_t doublings,
                      env::Duration longest) noexcept {
  if (interval <= env::Duration::zero()) return env::Duration::zero();
  for (; doublings > 0 && interval < longest; --doublings) {
    if (interval > longest / 2) return std::max(env::Duration::zero(), longest);
    interval *= 2;
  }
  return std::max(env::Duration::zero(), std::min(interval, longest));
}

int RetryBudget::tokens(env::TimePoint now) noexcept {
  const auto fresh = std::max<env::Duration::rep>((now - counted_until_) / kNewTokenEvery, 0);
  tokens_ = static_cast<int>(std::min<env::Duration::rep>(tokens_ + fresh, kCapacity));
  counted_until_ = tokens_ == kCapacity ? now : counted_until_ + fresh * kNewTokenEvery;
  return tokens_;
}

bool RetryBudget::start(std::uint64_t call, int cost, env::TimePoint now) {
  if (cost == 0) return true;
  if (!line_.empty() || tokens(now) < cost) {
    line_.push_back({call, cost});
    return false;
  }
  tokens_ -= cost;
  return true;
}

std::optional<std::uint64_t> RetryBudget::next(env::TimePoint now) {
  if (line_.empty() || tokens(now) < line_.front().cost) return std::nullopt;
  const Waiting first = line_.front();
  line_.pop_front();
  tokens_ -= first.cost;
  return first.call;
}

std::optional<env::TimePoint> RetryBudget::next_at() const noexcept {
  if (line_.empty()) return std::nullopt;
  return counted_until_ + std::max(line_.front().cost - tokens_, 0) * kNewTokenEvery;
}

void RetryBudget::leave(std::uint64_t call) noexcept {
  const auto found = std::ranges::find(line_, call, &Waiting::call);
  if (found != line_.end()) line_.erase(found);
}

void RetryBudget::succeeded(int spent, env::TimePoint now) noexcept {
  tokens_ = std::min(tokens(now) + std::max(1, 2 * spent), kCapacity);
}

SendingRate::SendingRate(std::size_t limit) noexcept
    : limit_(std::max<std::size_t>(1, limit)), allowed_(limit_) {}

void SendingRate::throttled(env::TimePoint now) noexcept {
  if (lowered_ && now - *lowered_ < kOnceIn) return;
  lowered_ = now;
  allowed_ = std::max<std::size_t>(1, allowed_ / 2);
}

void SendingRate::succeeded() noexcept { allowed_ = std::min(allowed_ + 1, limit_); }

CallAttempts::CallAttempts(const RetrySettings& settings, Repeat repeat) noexcept
    : settings_(settings), repeat_(repeat) {}

Decision CallAttempts::failed(const Failure& failure, Random& random, env::TimePoint now) {
  if (++made_ == 1) deadline_ = env::deadline_after(now, settings_.deadline);
  if (failure.kind == FailureKind::kThrottled) ++throttled_;
  if (may_be_executed(failure, repeat_)) ambiguous_ = true;
  const Decision decision = plan(failure, random, now);
  if (decision.what == Decision::What::kGiveUp) return decision;
  if (now >= deadline_ || decision.when > deadline_) return kGiveUp;
  spent_ = decision.cost;
  return decision;
}

// What the table says, without the deadline.
Decision CallAttempts::plan(const Failure& failure, Random& random, env::TimePoint now) {
  const int failures = made_ - throttled_;
  if (failure.kind == FailureKind::kExtra) return retry_at(now);
  if (failure.kind == FailureKind::kThrottled) {
    if (throttled_ > settings_.throttle_limit) return kGiveUp;
    return after_pause(failure, settings_.throttle_interval, throttled_, random, now);
  }
  if (failures > settings_.limit && !sends_something_else(failure)) return kGiveUp;
  switch (failure.kind) {
    case FailureKind::kAmbiguous:
    case FailureKind::kInProgress:
      if (repeat_ == Repeat::kUntilDone && failure.http_status / 100 == 2 &&
          ++partial_ > kPartialRetries) {
        return kGiveUp;
      }
      if (repeat_ != Repeat::kFreely && repeat_ != Repeat::kUntilDone) return kGiveUp;
      if (is_5xx(failure) && !settings_.retry_5xx) return kGiveUp;
      break;
    case FailureKind::kConflict:
      if (repeat_ == Repeat::kNotTwice) return kGiveUp;
      break;
    case FailureKind::kTransit:
      if (repeat_ == Repeat::kNotTwice || ++transit_ > kTransitRetries) return kGiveUp;
      break;
    case FailureKind::kCredentials:
      credentials_renewed_ = true;
      return {Decision::What::kRetryWithNewer,
              std::min(env::deadline_after(now, settings_.credentials_wait), deadline_), 0};
    case FailureKind::kClock:
      if (clock_set_ || !failure.server_time_s) return kGiveUp;
      clock_set_ = true;
      return retry_at(now);
    case FailureKind::kAddress:
      if (address_changed_ || (failure.region.empty() && failure.location.empty())) return kGiveUp;
      address_changed_ = true;
      return retry_at(now);
    case FailureKind::kNotSent:
    case FailureKind::kTransient:
      break;
    case FailureKind::kThrottled:
    case FailureKind::kExtra:
    case FailureKind::kPrecondition:
    case FailureKind::kGone:
    case FailureKind::kFinal:
      return kGiveUp;
  }
  return after_pause(failure, settings_.interval, failures, random, now);
}

// Whether the next attempt is the first to do so: no retry, so that their limit does not count.
bool CallAttempts::sends_something_else(const Failure& failure) const noexcept {
  switch (failure.kind) {
    case FailureKind::kCredentials:
      return !credentials_renewed_;
    case FailureKind::kClock:
      return !clock_set_;
    case FailureKind::kAddress:
      return !address_changed_;
    default:
      return false;
  }
}

// Between half of what doubles with each failure and all of it, so that no call makes its attempts
// in a moment; but no less than the store asks for.
Decision CallAttempts::after_pause(const Failure& failure, env::Duration interval, int failures,
                                   Random& random, env::TimePoint now) const {
  const env::Duration longest = doubled(
      interval, static_cast<std::uint64_t>(std::max(failures - 1, 0)), settings_.max_interval);
  std::uniform_int_distribution<env::Duration::rep> any(longest.count() - longest.count() / 2,
                                                        longest.count());
  const env::Duration pause(any(random));
  Decision decision =
      retry_at(now + std::max(pause, failure.retry_after.value_or(env::Duration::zero())));
  if (made_ > 1) {
    decision.cost = failure.kind == FailureKind::kAmbiguous ? kAmbiguousCost : kRetryCost;
  }
  return decision;
}

}  // namespace hflush::s3
