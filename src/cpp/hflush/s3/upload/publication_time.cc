#include "hflush/s3/upload/publication_time.h"

#include <algorithm>

namespace hflush::s3 {

void PublicationTime::failed(env::TimePoint now, std::optional<env::TimePoint> deadline) noexcept {
  if (!end_) end_ = deadline.value_or(env::deadline_after(now, retry_.deadline));
}

std::optional<env::TimePoint> PublicationTime::end_of_look(env::TimePoint now) const noexcept {
  if (!end_) return std::nullopt;
  return std::max(*end_, env::deadline_after(now, stall_timeout_));
}

env::Duration PublicationTime::pause_before(std::uint32_t again) const noexcept {
  return doubled(retry_.interval, again, retry_.max_interval);
}

bool PublicationTime::is_up(env::TimePoint now, std::uint32_t again) const noexcept {
  return end_ && env::deadline_after(now, pause_before(again)) >= *end_;
}

}  // namespace hflush::s3
