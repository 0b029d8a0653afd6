#include "hflush/s3/call/addresses.h"

namespace hflush::s3 {

Target Addresses::target(const std::string& bucket, const Correction& own) const {
  Target target{settings_.authority(bucket), settings_.region, settings_.names_in_path(bucket),
                clock_ahead_};
  if (const auto found = corrections_.find(bucket); found != corrections_.end()) {
    correct(bucket, found->second, target);
  }
  correct(bucket, own, target);
  return target;
}

void Addresses::correct(const std::string& bucket, const Correction& correction,
                        Target& target) const {
  if (!correction.region.empty()) {
    target.region = correction.region;
    target.authority = settings_.authority(bucket, correction.region);
    target.names_bucket = settings_.names_in_path(bucket);
  }
  if (!correction.authority.empty()) {
    target.authority = correction.authority;
    target.names_bucket = settings_.names_in_path(bucket, correction.authority);
  }
}

void Addresses::learn(const std::string& bucket, const Failure& failure, SystemTime time,
                      Correction& own) {
  if (failure.kind == FailureKind::kClock && failure.server_time_s) {
    clock_ahead_ = SystemTime(std::chrono::seconds(*failure.server_time_s)) - time;
  } else if (failure.kind == FailureKind::kAddress) {
    Correction& correction = failure.is_temporary ? own : corrections_[bucket];
    if (is_region(failure.region)) correction.region = failure.region;
    correction.authority = settings_.redirect_authority(bucket, failure.location);
  } else if (failure.kind == FailureKind::kNotSent) {
    // The host that a redirect led to may be gone.
    own = {};
    if (const auto found = corrections_.find(bucket); found != corrections_.end()) {
      found->second.authority.clear();
    }
  }
}

void check_redirect(const Settings& settings, std::string_view bucket, std::string_view region,
                    Failure& failure) {
  if (failure.kind != FailureKind::kAddress) return;
  if (!settings.follows_regions && failure.http_status != 307) {
    failure.kind = FailureKind::kFinal;
    failure.message += ": not followed, as fs.s3a.cross.region.access.enabled says";
    return;
  }
  if (failure.location.empty()) return;
  if (!settings.redirect_authority(bucket, failure.location).empty()) return;
  if (!failure.is_temporary && is_region(failure.region) && failure.region != region) {
    failure.location.clear();  // the region says where
    return;
  }
  failure.kind = FailureKind::kFinal;
  failure.message = "redirected to another domain than " + settings.host +
                    ", or another scheme than " + settings.scheme + ": not followed" +
                    (failure.message.empty() ? "" : ": " + failure.message);
}

}  // namespace hflush::s3
