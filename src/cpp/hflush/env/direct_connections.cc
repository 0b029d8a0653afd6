#include "hflush/env/direct_connections.h"

#include <algorithm>
#include <iterator>
#include <new>
#include <string_view>
#include <utility>

#include "hflush/base/ascii.h"

namespace hflush::env {
namespace {

constexpr Duration kAddressIsKnownFor = std::chrono::minutes(1);  // as long as libcurl knows it

// "host:port", with an address of version 6 in brackets.
std::optional<Endpoint> numeric_endpoint(std::string_view authority) {
  const std::size_t colon = authority.rfind(':');
  if (colon == std::string_view::npos) return std::nullopt;
  Endpoint endpoint;
  std::string_view host = authority.substr(0, colon);
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  endpoint.host = host;
  const bool has_port = parse_number(authority.substr(colon + 1), endpoint.port);
  return has_port && numeric_address(endpoint) ? std::optional(endpoint) : std::nullopt;
}

}  // namespace

std::optional<DirectConnections::Taken> DirectConnections::take(const std::string& authority,
                                                                bool fresh, TimePoint now) {
  while (!fresh) {
    std::optional<Socket> idle = take_idle(authority, now);
    if (!idle) break;
    if (!idle->is_stale()) return Taken{*std::move(idle), true};
    idle->shut_down();
  }
  return connect(authority, now);
}

// The one that was used last; those that are too old are closed.
std::optional<Socket> DirectConnections::take_idle(const std::string& authority, TimePoint now) {
  std::vector<Idle> old;  // closed without the lock
  std::optional<Socket> taken;
  {
    const MutexLock lock(mutex_);
    const auto host = hosts_.find(authority);
    if (host == hosts_.end()) return std::nullopt;
    std::vector<Idle>& idle = host->second.idle;
    old = take_old_locked(idle, now);
    if (!idle.empty()) {
      taken = std::move(idle.back().socket);
      idle.pop_back();
      --count_;
    }
  }
  for (const Idle& one : old) one.socket.shut_down();
  return taken;
}

std::vector<DirectConnections::Idle> DirectConnections::take_old_locked(std::vector<Idle>& idle,
                                                                        TimePoint now) {
  const auto first_young =
      std::ranges::find_if(idle, [&](const Idle& one) { return now - one.since < idle_timeout_; });
  std::vector<Idle> old(std::move_iterator(idle.begin()), std::move_iterator(first_young));
  idle.erase(idle.begin(), first_young);
  count_ -= old.size();
  return old;
}

TimePoint DirectConnections::close_old(TimePoint now) {
  std::vector<Idle> closing;  // without the lock
  TimePoint next = TimePoint::max();
  {
    const MutexLock lock(mutex_);
    for (auto& [authority, host] : hosts_) {
      std::ranges::move(take_old_locked(host.idle, now), std::back_inserter(closing));
      if (host.idle.empty()) continue;
      next = std::min(next, deadline_after(host.idle.front().since, idle_timeout_));
    }
  }
  for (const Idle& one : closing) one.socket.shut_down();
  return next;
}

std::optional<Endpoint> DirectConnections::address_of(const std::string& authority,
                                                      TimePoint now) const {
  {
    const MutexLock lock(mutex_);
    const auto host = hosts_.find(authority);
    if (host != hosts_.end() && host->second.address && now < host->second.address_until) {
      return host->second.address;
    }
  }
  return numeric_endpoint(authority);
}

std::optional<DirectConnections::Taken> DirectConnections::connect(const std::string& authority,
                                                                   TimePoint now) {
  const std::optional<Endpoint> endpoint = address_of(authority, now);
  if (!endpoint) return std::nullopt;
  const std::optional<SocketAddress> address = numeric_address(*endpoint);
  if (!address) return std::nullopt;
  Result<Socket> started = Socket::start_connecting(*address, {}, *endpoint);
  if (!started.ok()) {
    forget_address(authority);
    return std::nullopt;
  }
  started->bound_local_queue();
  return Taken{*std::move(started), false};
}

void DirectConnections::give_back(const std::string& authority, Socket socket,
                                  TimePoint now) noexcept {
  Idle idle{std::move(socket), now};
  try {
    keep(authority, idle);
  } catch (const std::bad_alloc&) {  // NOLINT(bugprone-empty-catch): it is closed
  }
  idle.socket.shut_down();
}

void DirectConnections::keep(const std::string& authority, Idle& idle) {
  const MutexLock lock(mutex_);
  if (is_closed_ || count_ >= max_) return;
  hosts_[authority].idle.push_back(std::move(idle));
  ++count_;
}

void DirectConnections::learn(const std::string& authority, const Endpoint& address,
                              TimePoint now) {
  const MutexLock lock(mutex_);
  if (is_closed_) return;
  Server& host = hosts_[authority];
  host.address = address;
  host.address_until = now + kAddressIsKnownFor;
}

bool DirectConnections::knows(const std::string& authority, TimePoint now) const {
  const MutexLock lock(mutex_);
  const auto host = hosts_.find(authority);
  return host != hosts_.end() && host->second.address && now < host->second.address_until;
}

void DirectConnections::forget_address(const std::string& authority) {
  const MutexLock lock(mutex_);
  const auto host = hosts_.find(authority);
  if (host != hosts_.end()) host->second.address.reset();
}

void DirectConnections::close_all() noexcept {
  std::map<std::string, Server> closing;
  {
    const MutexLock lock(mutex_);
    is_closed_ = true;
    closing.swap(hosts_);
    count_ = 0;
  }
  for (const auto& [authority, host] : closing) {
    for (const Idle& idle : host.idle) idle.socket.shut_down();
  }
}

std::size_t DirectConnections::count() const {
  const MutexLock lock(mutex_);
  return count_;
}

}  // namespace hflush::env
