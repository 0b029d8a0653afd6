#include "hflush/env/direct_exchanges.h"

#include <algorithm>
#include <cstdint>
#include <new>
#include <optional>
#include <span>
#include <utility>

#include "hflush/env/http_framing.h"
#include "hflush/env/http_head.h"
#include "hflush/env/http_limits.h"

namespace hflush::env {
namespace {

bool lies_in_memory(const HttpBody& body) {
  ByteView first;
  return body.views_at(0, {&first, 1}) > 0;
}

// A small one is brought there; false if that cannot be read, or is not small.
bool bring_into_memory(HttpRequest& request) {
  const std::uint64_t size = body_size(request);
  if (size == 0 || lies_in_memory(*request.body)) return true;
  if (size > kSmallBodyBytes) return false;
  std::string bytes(static_cast<std::size_t>(size), '\0');
  if (read_fully(*request.body, 0, std::as_writable_bytes(std::span(bytes))) != 0) return false;
  request.body = text_body(std::move(bytes));
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
      watch_interval_(std::max<Duration>(settings.idle_timeout, std::chrono::seconds(1))),
      is_on_(is_on),
      other_(std::move(other)),
      connections_(settings.idle_timeout, max_connections_),
      idle_timer_(loop) {}

bool DirectExchanges::start(ExchangeId id, HttpRequest& request,
                            std::shared_ptr<HttpEvents>& events) {
  const bool by_guest = request.is_awaited && loop_.takes_errands();
  const bool is_small = body_size(request) <= kSmallBodyBytes;
  if (!is_on_ || (is_small && !by_guest) || !DirectExchange::suits(request) ||
      !check_http_request(request).ok() || !bring_into_memory(request)) {
    return false;  // the other way reports what cannot be read
  }
  const TimePoint now = loop_.clock().now();
  std::string authority = http_authority(request.url);
  const bool is_fresh = request.fresh_connection;
  std::string head = http_request_head(request, user_agent_);
  const std::shared_ptr<OtherWay> other = other_.lock();
  if (other == nullptr) return false;
  const auto exchange =
      std::make_shared<DirectExchange>(shared_from_this(), loop_, id, std::move(authority),
                                       std::move(request), std::move(events), std::move(head));
  try {
    if (by_guest) loop_.add_errand(exchange);
    const MutexLock lock(mutex_);
    if (has_ended_ || exchanges_.size() + other->count() >= max_connections_) {
      return give_up(*exchange, request, events);
    }
    exchanges_.emplace(id, exchange);
  } catch (const std::bad_alloc&) {
    return give_up(*exchange, request, events);
  }
  if (begin(*exchange, by_guest, is_fresh, now)) return true;
  const MutexLock lock(mutex_);
  exchanges_.erase(id);
  return give_up(*exchange, request, events);
}

// Over the first connection that is good for it.
bool DirectExchanges::begin(DirectExchange& exchange, bool by_guest, bool fresh, TimePoint now) {
  const std::string& authority = exchange.authority();
  try {
    while (auto connection = connections_.take(authority, fresh, now)) {
      if (!by_guest) {
        exchange.begin_on_loop(*connection, now);
        return true;
      }
      if (exchange.begin(*connection, now)) return true;
      if (connection->was_used) continue;
      connections_.forget_address(authority);
      return false;
    }
  } catch (const std::bad_alloc&) {  // NOLINT(bugprone-empty-catch)
    // The other way may have some.
  }
  return false;
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
  std::unordered_map<ExchangeId, std::shared_ptr<DirectExchange>> exchanges;
  {
    const MutexLock lock(mutex_);
    has_ended_ = true;
    idle_timer_.cancel();
    exchanges.swap(exchanges_);  // who drives one keeps it
  }
  std::function<void()> nothing;
  for (const auto& [id, exchange] : exchanges) exchange->cancel(nothing);
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

// Not where one is given back: a guest that asks the loop for something leaves its errands to it.
void DirectExchanges::watch_idle() {
  if (!is_on_) return;
  const TimePoint now = loop_.clock().now();
  const TimePoint oldest = connections_.close_old(now);
  const TimePoint next = oldest != TimePoint::max() ? oldest : deadline_after(now, watch_interval_);
  const MutexLock lock(mutex_);
  if (!has_ended_) idle_timer_.arm(next, *this, &DirectExchanges::watch_idle_again);
}

void DirectExchanges::watch_idle_again(Timer::Arming arming) {
  {
    const MutexLock lock(mutex_);
    if (!idle_timer_.fired(arming)) return;
  }
  watch_idle();
}

// Under the lock from start to end: it is cancelled before, or as one of the other way's.
bool DirectExchanges::direct_fails(DirectExchange& exchange) noexcept {
  const std::shared_ptr<OtherWay> other = other_.lock();
  const MutexLock lock(mutex_);
  if (other == nullptr || has_ended_ || exchange.is_cancelled()) return false;
  const bool was_sent = !exchange.is_connecting();
  if (!was_sent) connections_.forget_address(exchange.authority());
  DirectExchange::Given given = exchange.give_up();
  other->start_again(exchange.id(), std::move(given.request), std::move(given.events), was_sent);
  exchanges_.erase(exchange.id());
  return true;
}

}  // namespace hflush::env
