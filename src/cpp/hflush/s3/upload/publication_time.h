// PublicationTime: how long a publication may take; docs/s3-client.md has the sum. Pure: the caller
// says what time it is.
#pragma once

#include <cstdint>
#include <optional>

#include "hflush/env/clock.h"
#include "hflush/s3/call/client.h"

namespace hflush::s3 {

class PublicationTime {
 public:
  explicit PublicationTime(const Settings& settings) noexcept
      : retry_(settings.retry), stall_timeout_(settings.stall_timeout) {}

  // An attempt has failed. `deadline`: of its call's retries, if it has one. The first counts.
  void failed(env::TimePoint now, std::optional<env::TimePoint> deadline) noexcept;
  // Call::ends of the publishing call; a look or an abort gets one attempt however late it is.
  std::optional<env::TimePoint> end() const noexcept { return end_; }
  std::optional<env::TimePoint> end_of_look(env::TimePoint now) const noexcept;
  // Before the publication is asked for the `again`th time after the first.
  env::Duration pause_before(std::uint32_t again) const noexcept;
  // Whether that would begin too late.
  bool is_up(env::TimePoint now, std::uint32_t again) const noexcept;

 private:
  const RetrySettings retry_;
  const env::Duration stall_timeout_;
  std::optional<env::TimePoint> end_;
};

}  // namespace hflush::s3
