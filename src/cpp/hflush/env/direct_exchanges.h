// DirectExchanges: the exchanges of a client that do not need libcurl.
//
// What is small and awaited by a guest of the loop goes over a plain connection of our own, on the
// guest's thread (direct_exchange.h); so does a body that lies in memory, on the loop where no
// thread waits for it. Everything else is the other way's, and so is what fails before anything was
// sent; HttpClient's promises hold for both. Thread-safe.
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>

#include "hflush/base/mutex.h"
#include "hflush/env/direct_connections.h"
#include "hflush/env/direct_exchange.h"
#include "hflush/env/event_loop.h"
#include "hflush/env/http_client.h"
#include "hflush/env/timer.h"

namespace hflush::env {

class DirectExchanges final : public DirectExchange::Owner,
                              public std::enable_shared_from_this<DirectExchanges> {
 public:
  using ExchangeId = HttpClient::ExchangeId;

  // The other way. Called under this one's lock but for room_came().
  class OtherWay {
   public:
    // Its exchanges, those that wait included.
    virtual std::size_t count() = 0;
    // `was_sent`: once before, so that it may have been executed.
    virtual void start_again(ExchangeId id, HttpRequest request, std::shared_ptr<HttpEvents> events,
                             bool was_sent) = 0;
    // After has_room() was false.
    virtual void room_came() = 0;

   protected:
    ~OtherWay() = default;
  };

  // `is_on`: else none is made. The loop outlives it.
  DirectExchanges(EventLoop& loop, const HttpSettings& settings, bool is_on,
                  std::weak_ptr<OtherWay> other);

  // Closes idle connections that are too old, now and from time to time until the end.
  void watch_idle() HFLUSH_EXCLUDES(mutex_);
  // For one of either way.
  ExchangeId new_id() noexcept { return ++last_id_; }
  // Sends what suits. False: nothing has happened.
  bool start(ExchangeId id, HttpRequest& request, std::shared_ptr<HttpEvents>& events)
      HFLUSH_EXCLUDES(mutex_);
  // As HttpClient's. False: it is not one of these (any more).
  bool resume(ExchangeId id) HFLUSH_EXCLUDES(mutex_);
  bool cancel(ExchangeId id, std::function<void()>& done) HFLUSH_EXCLUDES(mutex_);
  // Cancels all; there are none after it.
  void end() HFLUSH_EXCLUDES(mutex_);

  // Whether there may be one more beside `moving` of the other way.
  bool has_room(std::size_t moving) HFLUSH_EXCLUDES(mutex_);
  // The other way has reached "host:port" there.
  void learn(const std::string& authority, const Endpoint& address);
  bool wants_address(const std::string& authority) const;
  std::size_t open_connections() HFLUSH_EXCLUDES(mutex_);

  void direct_ended(ExchangeId id, const std::string& authority, Socket reusable) noexcept override;
  bool direct_fails(DirectExchange& exchange) noexcept override;

 private:
  // False: nothing was sent.
  bool begin(DirectExchange& exchange, bool by_guest, bool fresh, TimePoint now);
  void watch_idle_again(Timer::Arming arming) HFLUSH_EXCLUDES(mutex_);

  EventLoop& loop_;
  const std::string user_agent_;
  const std::size_t max_connections_;
  const Duration watch_interval_;  // while none is idle
  const bool is_on_;
  const std::weak_ptr<OtherWay> other_;
  DirectConnections connections_;
  std::atomic<ExchangeId> last_id_ = 0;

  // Before the other way's, those of exchanges, and the loop's.
  Mutex mutex_;
  std::unordered_map<ExchangeId, std::shared_ptr<DirectExchange>> exchanges_
      HFLUSH_GUARDED_BY(mutex_);  // not ended
  bool room_is_wanted_ HFLUSH_GUARDED_BY(mutex_) = false;
  bool has_ended_ HFLUSH_GUARDED_BY(mutex_) = false;
  Timer idle_timer_ HFLUSH_GUARDED_BY(mutex_);
};

}  // namespace hflush::env
