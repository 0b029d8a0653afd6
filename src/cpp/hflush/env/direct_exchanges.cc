#include "hflush/env/direct_exchanges.h"

#include <algorithm>
#include <cstdint>
#include <new>
#include <optional>
#include <span>
#include <utility>

#include "hflush/env/http_framing.h"
#include "hflush/env/http_head.h"

namespace hflush::env {
namespace {

// Behind `bytes`; false if it cannot be read.
bool append_body(const HttpRequest& request, std::string& bytes) {
  const std::uint64_t size = request.body ? request.body->size() : 0;
  const std::size_t head = bytes.size();
  bytes.resize(head + static_cast<std::size_t>(size));
  for (std::uint64_t offset = 0; offset < size;) {
    const std::ptrdiff_t count = request.body->read_at(
        offset, std::as_writable_bytes(std::span(bytes)).subspan(head + offset));
    if (count <= 0) return false;
    offset += static_cast<std::uint64_t>(count);
  }
  return true;
}

// What it was given, for the other way.
bool give_up(DirectExchange& exchange, HttpRequest& request, std::shared_ptr<HttpEvents>& events) {
  DirectExchange::Given given = exchange.give_up();
  request = std::move(given.request);
  events = std::move(given.events);
  return false;
}

}  // namespace

DirectExchanges::DirectExchanges(EventLoop& loop, const HttpSettings& settings, bool is_on,
                                 std::weak_ptr<OtherWay> other)
    : loop_(loop),
      user_agent_(settings.user_agent),
      max_connections_(std::max<std::size_t>(settings.max_connections, 1)),
      is_on_(is_on),
      other_(std::move(other)),
      connections_(settings.idle_timeout, max_connections_) {}

bool DirectExchanges::start(ExchangeId id, HttpRequest& request,
                            std::shared_ptr<HttpEvents>& events) {
  if (!is_on_ || !loop_.takes_errands() || !DirectExchange::suits(request) ||
      !check_http_request(request).ok()) {
    return false;
  }
  const TimePoint now = loop_.clock().now();
  const std::string authority = http_authority(request.url);
  const bool is_fresh = request.fresh_connection;
  std::string bytes = http_request_head(request, user_agent_);
  if (!append_body(request, bytes)) return false;  // the other way reports it
  const std::shared_ptr<OtherWay> other = other_.lock();
  auto connection = connections_.take(authority, is_fresh, now);
  if (!connection || other == nullptr) return false;
  const auto exchange =
      std::make_shared<DirectExchange>(shared_from_this(), loop_, id, authority, std::move(request),
                                       std::move(events), std::move(bytes));
  try {
    loop_.add_errand(exchange);
    const MutexLock lock(mutex_);
    if (has_ended_ || exchanges_.size() + other->count() >= max_connections_) {
      connections_.give_back(authority, std::move(connection->socket), now);
      return give_up(*exchange, request, events);
    }
    exchanges_.emplace(id, exchange);
  } catch (const std::bad_alloc&) {
    return give_up(*exchange, request, events);
  }
  while (!exchange->begin(*connection, now)) {
    connection = connections_.take(authority, is_fresh, now);
    if (connection) continue;
    const MutexLock lock(mutex_);
    exchanges_.erase(id);
    return give_up(*exchange, request, events);
  }
  return true;
}

bool DirectExchanges::resume(ExchangeId id) {
  const MutexLock lock(mutex_);
  const auto found = exchanges_.find(id);
  if (found == exchanges_.end()) return false;
  found->second->resume();
  return true;
}

bool DirectExchanges::cancel(ExchangeId id, std::function<void()>& done) {
  const MutexLock lock(mutex_);
  const auto found = exchanges_.find(id);
  return found != exchanges_.end() && found->second->cancel(done);
}

void DirectExchanges::end() {
  std::function<void()> nothing;
  {
    const MutexLock lock(mutex_);
    has_ended_ = true;
    for (const auto& [id, exchange] : exchanges_) exchange->cancel(nothing);
  }
  connections_.close_all();
}

bool DirectExchanges::has_room(std::size_t moving) {
  const MutexLock lock(mutex_);
  const auto direct =
      std::ranges::count_if(exchanges_, [](const auto& one) { return !one.second->is_paused(); });
  room_is_wanted_ = moving + static_cast<std::size_t>(direct) >= max_connections_;
  return !room_is_wanted_;
}

void DirectExchanges::learn(const std::string& authority, const Endpoint& address) {
  connections_.learn(authority, address, loop_.clock().now());
}

bool DirectExchanges::wants_address(const std::string& authority) const {
  return is_on_ && !connections_.knows(authority, loop_.clock().now());
}

std::size_t DirectExchanges::open_connections() {
  const MutexLock lock(mutex_);
  return exchanges_.size() + connections_.count();
}

void DirectExchanges::direct_ended(ExchangeId id, const std::string& authority,
                                   Socket reusable) noexcept {
  if (reusable.descriptor() >= 0) {
    connections_.give_back(authority, std::move(reusable), loop_.clock().now());
  }
  {
    const MutexLock lock(mutex_);
    exchanges_.erase(id);  // its thread keeps it
    if (!std::exchange(room_is_wanted_, false)) return;
  }
  if (const auto other = other_.lock()) other->room_came();
}

// Under the lock from start to end: it is cancelled before, or as one of the other way's.
bool DirectExchanges::direct_lost(DirectExchange& exchange) noexcept {
  const std::shared_ptr<OtherWay> other = other_.lock();
  const MutexLock lock(mutex_);
  if (other == nullptr || exchange.is_cancelled()) return false;
  DirectExchange::Given given = exchange.give_up();
  other->start_again(exchange.id(), std::move(given.request), std::move(given.events));
  exchanges_.erase(exchange.id());
  return true;
}

}  // namespace hflush::env
