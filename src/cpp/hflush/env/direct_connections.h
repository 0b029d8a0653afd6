// DirectConnections: plain TCP connections of our own to servers, idle between two exchanges.
//
// Made from the addresses that libcurl has reached, and from numeric ones. Closing shuts a
// connection down, so that the peer learns it even if a forked child still has the descriptor.
// Never waits. Thread-safe.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "hflush/base/mutex.h"
#include "hflush/env/clock.h"
#include "hflush/env/socket.h"

namespace hflush::env {

class DirectConnections {
 public:
  struct Taken {
    Socket socket;
    bool was_used = false;  // for an exchange before; else it may not be connected yet
  };

  // `max`: idle at once.
  DirectConnections(Duration idle_timeout, std::size_t max) noexcept
      : idle_timeout_(idle_timeout), max_(max) {}
  ~DirectConnections() { close_all(); }
  DirectConnections(const DirectConnections&) = delete;
  DirectConnections& operator=(const DirectConnections&) = delete;

  // One to "host:port" that its peer has not closed, or a new one; nullopt: its address is not
  // known. `fresh`: a new one.
  std::optional<Taken> take(const std::string& authority, bool fresh, TimePoint now)
      HFLUSH_EXCLUDES(mutex_);
  void give_back(const std::string& authority, Socket socket, TimePoint now) noexcept
      HFLUSH_EXCLUDES(mutex_);
  // Where it is reached; known for a minute. `address`: numeric.
  void learn(const std::string& authority, const Endpoint& address, TimePoint now)
      HFLUSH_EXCLUDES(mutex_);
  void forget_address(const std::string& authority) HFLUSH_EXCLUDES(mutex_);
  bool knows(const std::string& authority, TimePoint now) const HFLUSH_EXCLUDES(mutex_);
  // Closes those that are too old; when the next one will be: TimePoint::max() if there is none.
  TimePoint close_old(TimePoint now) HFLUSH_EXCLUDES(mutex_);
  // Those that are here; what is given back later is closed.
  void close_all() noexcept HFLUSH_EXCLUDES(mutex_);
  std::size_t count() const HFLUSH_EXCLUDES(mutex_);

 private:
  struct Idle {
    Socket socket;
    TimePoint since;
  };
  struct Server {
    std::vector<Idle> idle;
    std::optional<Endpoint> address;
    TimePoint address_until;
  };

  std::optional<Socket> take_idle(const std::string& authority, TimePoint now)
      HFLUSH_EXCLUDES(mutex_);
  std::optional<Endpoint> address_of(const std::string& authority, TimePoint now) const
      HFLUSH_EXCLUDES(mutex_);
  std::optional<Taken> connect(const std::string& authority, TimePoint now) HFLUSH_EXCLUDES(mutex_);
  // Those of a server, oldest first, that are too old.
  std::vector<Idle> take_old_locked(std::vector<Idle>& idle, TimePoint now) HFLUSH_REQUIRES(mutex_);
  // Where there is room; else it is left.
  void keep(const std::string& authority, Idle& idle) HFLUSH_EXCLUDES(mutex_);

  const Duration idle_timeout_;
  const std::size_t max_;

  // Innermost. Never held across a system call.
  mutable Mutex mutex_;
  std::map<std::string, Server> hosts_ HFLUSH_GUARDED_BY(mutex_);
  std::size_t count_ HFLUSH_GUARDED_BY(mutex_) = 0;
  bool is_closed_ HFLUSH_GUARDED_BY(mutex_) = false;
};

}  // namespace hflush::env
