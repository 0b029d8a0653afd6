#include "hflush/hdfs/read/datanode_connections.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace hflush::hdfs {

std::shared_ptr<DatanodeConnections> DatanodeConnections::make(env::EventLoop& loop,
                                                               std::size_t capacity,
                                                               env::Duration expiry) {
  return std::shared_ptr<DatanodeConnections>(new DatanodeConnections(loop, capacity, expiry));
}

DatanodeConnections::DatanodeConnections(env::EventLoop& loop, std::size_t capacity,
                                         env::Duration expiry)
    : loop_(loop), capacity_(capacity), expiry_(expiry), timer_(loop) {}

std::optional<env::BlockingSocket> DatanodeConnections::take(const env::Endpoint& datanode) {
  if (origin_.is_parent()) return std::nullopt;
  IdleList closing;  // closed without the lock
  const MutexLock lock(mutex_);
  closing = take_expired_locked(loop_.clock().now());
  while (true) {
    // The one given back last; clang 14 has no reversed view.
    // NOLINTNEXTLINE(modernize-use-ranges)
    const auto found = std::find_if(idle_.rbegin(), idle_.rend(), [&](const Idle& idle) {
      return idle.connection.endpoint() == datanode;
    });
    if (found == idle_.rend()) return std::nullopt;
    IdleList taken;
    taken.splice(taken.begin(), idle_, std::prev(found.base()));
    if (!taken.front().connection.is_stale()) return std::move(taken.front().connection);
    closing.splice(closing.end(), taken);
  }
}

void DatanodeConnections::give_back(env::BlockingSocket connection) {
  if (capacity_ == 0 || origin_.is_parent()) return;
  IdleList closing;
  const MutexLock lock(mutex_);
  const env::TimePoint now = loop_.clock().now();
  closing = take_expired_locked(now);
  if (idle_.size() >= capacity_) closing.splice(closing.end(), idle_, idle_.begin());
  idle_.push_back({std::move(connection), now + expiry_});
  arm_locked();
}

std::size_t DatanodeConnections::idle() const {
  if (origin_.is_parent()) return 0;
  const MutexLock lock(mutex_);
  return idle_.size();
}

void DatanodeConnections::close_expired(env::Timer::Arming arming) {
  IdleList closing;
  const MutexLock lock(mutex_);
  if (!timer_.fired(arming)) return;
  closing = take_expired_locked(loop_.clock().now());
  arm_locked();
}

DatanodeConnections::IdleList DatanodeConnections::take_expired_locked(env::TimePoint now) {
  IdleList expired;
  const auto end =
      std::ranges::find_if(idle_, [&](const Idle& idle) { return idle.expires > now; });
  expired.splice(expired.begin(), idle_, idle_.begin(), end);
  return expired;
}

void DatanodeConnections::arm_locked() {
  if (idle_.empty()) return;
  timer_.arm_by(idle_.front().expires, *this, &DatanodeConnections::close_expired);
}

}  // namespace hflush::hdfs
