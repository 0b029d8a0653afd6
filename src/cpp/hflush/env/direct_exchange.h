// DirectExchange: a request and its response over a plain TCP connection of our own. By the thread
// that waits for the response: it sends at once, and goes on in its wait (EventLoop::Errand); if
// that thread does not stay, the exchange goes on by itself on the loop. Or on the loop from the
// start. The body goes out from where it lies.
//
// Driven by one thread at a time: that of its guest, then perhaps the loop's. cancel() and resume()
// may be called by any. Where memory runs out while it is driven the process ends, as on the loop.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "hflush/base/bytes.h"
#include "hflush/base/mutex.h"
#include "hflush/env/clock.h"
#include "hflush/env/direct_connections.h"
#include "hflush/env/event_loop.h"
#include "hflush/env/http_client.h"
#include "hflush/env/http_framing.h"
#include "hflush/env/socket.h"
#include "hflush/env/timer.h"

namespace hflush::env {

class DirectExchange final : public EventLoop::Handler,
                             public EventLoop::Errand,
                             public std::enable_shared_from_this<DirectExchange> {
 public:
  using ExchangeId = HttpClient::ExchangeId;

  // Called on the thread that drives, without a lock; lives as long as the exchange does.
  class Owner {
   public:
    // It is out of the network; on_end() follows unless it was cancelled. `reusable`: its
    // connection, if that is good for another exchange.
    virtual void direct_ended(ExchangeId id, const std::string& authority,
                              Socket reusable) noexcept = 0;
    // It cannot go on: it cannot be connected; or its connection, which was used before, has died
    // without a byte of a response; or its server does not understand that it asks first. True:
    // what was asked for goes another way, after give_up(); false: it has been cancelled, or the
    // client has ended.
    virtual bool direct_fails(DirectExchange& exchange) noexcept = 0;

   protected:
    ~Owner() = default;
  };

  struct Given {
    HttpRequest request;
    std::shared_ptr<HttpEvents> events;
  };

  // Whether it is plain HTTP, and no header is about the connection.
  static bool suits(const HttpRequest& request) noexcept;

  // `authority`: "host:port" of the request. `head`: what goes before its body, all of which lies
  // in memory.
  DirectExchange(std::shared_ptr<Owner> owner, EventLoop& loop, ExchangeId id,
                 std::string authority, HttpRequest request, std::shared_ptr<HttpEvents> events,
                 std::string head);

  // Sends over `connection`; false: that has taken nothing, since it was closed meanwhile, or
  // cannot be connected.
  // Requires: it has not begun.
  bool begin(DirectConnections::Taken& connection, TimePoint now) noexcept HFLUSH_EXCLUDES(mutex_);
  // The same on the loop. Throws std::bad_alloc before anything was sent.
  void begin_on_loop(DirectConnections::Taken& connection, TimePoint now) HFLUSH_EXCLUDES(mutex_);
  // Ends without an event; what was asked for. Requires: nothing was sent, or direct_fails().
  Given give_up() noexcept HFLUSH_EXCLUDES(mutex_);

  ExchangeId id() const noexcept { return id_; }
  const std::string& authority() const noexcept { return authority_; }
  // Of the thread that drives.
  bool is_connecting() const noexcept { return sending_.is_connecting; }
  bool is_paused() const noexcept { return is_paused_; }

  // From any thread, as HttpClient's. False: it is over, and `done` is left alone.
  bool cancel(std::function<void()>& done) HFLUSH_EXCLUDES(mutex_);
  bool is_cancelled() const noexcept { return is_cancelled_; }
  void resume() HFLUSH_EXCLUDES(mutex_);

  Wanted wanted() const noexcept override;
  void carry_on() noexcept override;
  void leave_to_loop() noexcept override;
  void on_ready(bool /*readable*/, bool /*writable*/) override { carry_on(); }
  bool is_patient() const noexcept override { return false; }

 private:
  std::shared_ptr<DirectExchange> self() noexcept { return weak_from_this().lock(); }

  using Pieces = std::array<ByteView, Socket::kMaxPieces>;
  struct Sending {
    Sending(std::string its_head, const HttpRequest& request);

    // What may go out now, as far as there is room.
    std::span<const ByteView> next(const HttpRequest& request, Pieces& room) const noexcept;
    // Whether there is some, once there is room.
    bool has_more() const noexcept {
      return done < head.size() + (waits_for_consent ? 0 : body_bytes);
    }
    bool is_whole() const noexcept { return done == head.size() + body_bytes; }

    std::string head;
    std::uint64_t body_bytes;
    std::uint64_t done = 0;
    bool waits_for_consent;                    // with the body
    TimePoint consent_due = TimePoint::max();  // then it is taken for given
    int failure = 0;                           // errno: no more of it goes out
    bool is_used_line = false;                 // whose connection was used before
    bool is_connecting = false;
  };
  struct Receiving {
    explicit Receiving(const HttpRequest& request);

    HttpResponseReader reader;
    std::size_t room_bytes;
    std::unique_ptr<std::byte[]> room;
    ByteView rest;       // of it, not read
    ByteView kept_body;  // of it, read, not taken
    bool has_head = false;
    bool is_success = false;           // 2xx
    std::uint64_t max_body_bytes = 0;  // of this response, as its status has it
    std::uint64_t body_bytes = 0;
  };
  struct Times {
    TimePoint begun;
    TimePoint last_active;
    TimePoint last_look;          // at what the peer has not taken
    int last_unacknowledged = 0;  // bytes
  };

  void take(DirectConnections::Taken& connection, TimePoint now) noexcept HFLUSH_EXCLUDES(mutex_);
  TimePoint due() const noexcept;
  EventLoop::Interest interest() const noexcept;
  void look() HFLUSH_EXCLUDES(mutex_);
  void sent(std::uint64_t bytes, TimePoint now) noexcept;
  bool look_for_connection(TimePoint now);
  void send_rest(TimePoint now);
  void look_for_consent(TimePoint now);
  bool receive(TimePoint now);
  bool take_in();
  bool take_body(ByteView bytes);
  void ended();
  void closed();
  void lost(Status failure);
  bool goes_another_way();
  bool may_be_executed() const noexcept;
  void check_time(TimePoint now);
  void fail(Status failure);
  void end(HttpEnd end) HFLUSH_EXCLUDES(mutex_);
  Socket leave_network() noexcept HFLUSH_EXCLUDES(mutex_);
  std::string receive_from() const;
  Status bad_response(const std::string& why, int error_number) const;
  void pause();
  void go_on() HFLUSH_EXCLUDES(mutex_);
  void unpause();
  void on_due(Timer::Arming arming);

  const std::shared_ptr<Owner> owner_;
  EventLoop& loop_;
  const ExchangeId id_;
  const std::string authority_;

  std::atomic<bool> is_cancelled_ = false;
  std::atomic<bool> is_paused_ = false;
  std::atomic<bool> is_guests_ = false;  // an errand that is under way
  // Before the loop's. Never held across an event or a function of the owner.
  Mutex mutex_;
  bool is_over_ HFLUSH_GUARDED_BY(mutex_) = false;
  bool is_loops_ HFLUSH_GUARDED_BY(mutex_) = false;
  bool resume_asked_ HFLUSH_GUARDED_BY(mutex_) = false;
  std::vector<std::function<void()>> dones_ HFLUSH_GUARDED_BY(mutex_);

  // The driving thread's.
  Socket socket_;  // changes under the lock, under which others may look at it
  HttpRequest request_;
  std::shared_ptr<HttpEvents> events_;  // none: it is over
  Sending sending_;
  Receiving receiving_;
  Times times_;
  bool is_watched_ = false;
  Timer timer_;  // the loop's, once it drives; one that is early looks again
};

}  // namespace hflush::env
