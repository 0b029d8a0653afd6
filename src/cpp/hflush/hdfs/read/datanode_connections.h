// DatanodeConnections: connections to DataNodes that wait for their next use.
//
// A DataNode keeps a connection open for about 4 s after a read (its
// dfs.datanode.socket.reuse.keepalive). What is given back here is kept for less, at most
// `capacity` connections of all DataNodes together, the oldest closed first; a timer of the loop
// closes what is not taken. Thread-safe; never waits for a network. Owned by the Client; loop and
// buffers outlive it. In a forked child nothing is idle and nothing is kept.
#pragma once

#include <cstddef>
#include <list>
#include <memory>
#include <optional>

#include "hflush/base/mutex.h"
#include "hflush/env/blocking_socket.h"
#include "hflush/env/clock.h"
#include "hflush/env/event_loop.h"
#include "hflush/env/own_process.h"
#include "hflush/env/timer.h"

namespace hflush::hdfs {

class DatanodeConnections : public std::enable_shared_from_this<DatanodeConnections> {
 public:
  // dfs.client.socketcache.capacity (0 keeps none) and .expiryMsec.
  static std::shared_ptr<DatanodeConnections> make(env::EventLoop& loop, std::size_t capacity,
                                                   env::Duration expiry);
  ~DatanodeConnections() = default;
  DatanodeConnections(const DatanodeConnections&) = delete;
  DatanodeConnections& operator=(const DatanodeConnections&) = delete;

  // The connection to `datanode` that was used last and that the DataNode has not closed since. It
  // may do so now: then the next operation fails at once, and belongs on a fresh connection.
  std::optional<env::BlockingSocket> take(const env::Endpoint& datanode);
  // Keeps a connection on which the DataNode waits for an operation.
  void give_back(env::BlockingSocket connection);
  std::size_t idle() const;

 private:
  struct Idle {
    env::BlockingSocket connection;
    env::TimePoint expires;
  };
  using IdleList = std::list<Idle>;  // the oldest first

  DatanodeConnections(env::EventLoop& loop, std::size_t capacity, env::Duration expiry);

  void close_expired(env::Timer::Arming arming);
  IdleList take_expired_locked(env::TimePoint now) HFLUSH_REQUIRES(mutex_);
  void arm_locked() HFLUSH_REQUIRES(mutex_);

  env::EventLoop& loop_;
  const std::size_t capacity_;
  const env::Duration expiry_;
  const env::Origin origin_;

  // Before the loop's. Never held across anything that waits.
  mutable Mutex mutex_;
  IdleList idle_ HFLUSH_GUARDED_BY(mutex_);
  env::Timer timer_ HFLUSH_GUARDED_BY(mutex_);
};

}  // namespace hflush::hdfs
