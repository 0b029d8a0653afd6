#include "hflush/env/direct_exchange.h"

#include <linux/sockios.h>
#include <sys/ioctl.h>

#include <algorithm>
#include <cerrno>
#include <initializer_list>
#include <span>
#include <string_view>
#include <utility>

#include "hflush/base/ascii.h"
#include "hflush/env/http_head.h"
#include "hflush/env/http_limits.h"

namespace hflush::env {
namespace {

constexpr std::size_t kSmallBuffer = std::size_t{8} << 10U;
constexpr std::size_t kLargeBuffer = std::size_t{64} << 10U;
constexpr int kReceivesInTurn = 16;
constexpr std::uint64_t kSentInTurn = std::uint64_t{1} << 20U;
constexpr int kExpectationFailed = 417;

}  // namespace

bool DirectExchange::suits(const HttpRequest& request) noexcept {
  const std::string_view url = request.url;
  const auto is_odd = [](char letter) { return letter <= ' ' || letter > '~'; };
  if (std::ranges::any_of(url, is_odd) || std::ranges::any_of(request.method, is_odd)) return false;
  if (!equals_ignoring_case(url.substr(0, 7), "http://")) return false;
  if (url.substr(7, authority_size(url.substr(7))).find('@') != std::string_view::npos) {
    return false;
  }
  return std::ranges::none_of(
      std::initializer_list<std::string_view>{"Connection", "Content-Length", "Expect",
                                              "Transfer-Encoding", "Upgrade"},
      [&](std::string_view name) { return has_header(request, name); });
}

DirectExchange::DirectExchange(std::shared_ptr<Owner> owner, EventLoop& loop, ExchangeId id,
                               std::string authority, HttpRequest request,
                               std::shared_ptr<HttpEvents> events, std::string head)
    : owner_(std::move(owner)),
      loop_(loop),
      id_(id),
      authority_(std::move(authority)),
      request_(std::move(request)),
      events_(std::move(events)),
      sending_(std::move(head), request_),
      receiving_(request_),
      timer_(loop) {}

DirectExchange::Receiving::Receiving(const HttpRequest& request)
    : reader(request.method == "HEAD"),
      room_bytes(request.method == "GET" ? kLargeBuffer : kSmallBuffer),
      room(std::make_unique_for_overwrite<std::byte[]>(room_bytes)) {}

DirectExchange::Sending::Sending(std::string its_head, const HttpRequest& request)
    : head(std::move(its_head)),
      body_bytes(body_size(request)),
      waits_for_consent(asks_first(request)) {}

std::span<const ByteView> DirectExchange::Sending::next(const HttpRequest& request,
                                                        Pieces& room) const noexcept {
  std::size_t count = 0;
  if (done < head.size()) room[count++] = as_bytes(head).subspan(done);
  const std::uint64_t offset = std::max<std::uint64_t>(done, head.size()) - head.size();
  if (offset < body_bytes && !waits_for_consent) {
    count += request.body->views_at(offset, std::span(room).subspan(count));
  }
  return std::span(room).first(count);
}

bool DirectExchange::begin(DirectConnections::Taken& connection, TimePoint now) noexcept {
  const int outcome = connection.was_used ? 0 : connection.socket.connect_outcome();
  std::ptrdiff_t bytes = outcome == EINPROGRESS ? 0 : -outcome;
  if (outcome == 0) {
    Pieces room;
    bytes = connection.socket.send_some(sending_.next(request_, room));
  }
  if (bytes < 0 && bytes != -EAGAIN) {
    connection.socket.shut_down();
    return false;
  }
  take(connection, now);
  sending_.is_connecting = outcome != 0;
  sent(static_cast<std::uint64_t>(std::max<std::ptrdiff_t>(bytes, 0)), now);
  is_guests_ = true;
  return true;
}

void DirectExchange::begin_on_loop(DirectConnections::Taken& connection, TimePoint now) {
  take(connection, now);
  loop_.post([self = self()] { self->go_on(); });
}

void DirectExchange::take(DirectConnections::Taken& connection, TimePoint now) noexcept {
  times_.begun = times_.last_active = times_.last_look = now;
  sending_.is_used_line = connection.was_used;
  sending_.is_connecting = !connection.was_used;
  const MutexLock lock(mutex_);
  socket_ = std::move(connection.socket);
  if (is_cancelled_) socket_.shut_down();  // no thread waits for a response
}

// --- from any thread

bool DirectExchange::cancel(std::function<void()>& done) {
  const MutexLock lock(mutex_);
  if (is_over_) return false;
  dones_.reserve(dones_.size() + 1);
  // The task finds what follows: it takes the lock first.
  if (is_loops_) loop_.post([self = self()] { self->look(); });
  if (done) dones_.push_back(std::move(done));
  is_cancelled_ = true;
  socket_.shut_down();  // wakes the thread that waits for it
  return true;
}

void DirectExchange::look() {
  {
    const MutexLock lock(mutex_);
  }
  carry_on();
}

void DirectExchange::resume() {
  const MutexLock lock(mutex_);
  if (is_over_) return;
  if (is_loops_) {
    loop_.post([self = self()] { self->unpause(); });
  } else {
    resume_asked_ = true;  // until it is the loop's
  }
}

// --- from the thread that drives

EventLoop::Errand::Wanted DirectExchange::wanted() const noexcept {
  if (!is_guests_) return {};
  return {socket_.descriptor(), interest(), due()};
}

EventLoop::Interest DirectExchange::interest() const noexcept {
  if (is_paused_) return EventLoop::Interest::kNone;
  if (sending_.is_connecting) return EventLoop::Interest::kWrite;
  return sending_.has_more() && sending_.failure == 0 ? EventLoop::Interest::kReadAndWrite
                                                      : EventLoop::Interest::kRead;
}

TimePoint DirectExchange::due() const noexcept {
  if (is_paused_) return TimePoint::max();
  // The other way has more addresses, perhaps.
  if (sending_.is_connecting) return deadline_after(times_.begun, request_.connect_timeout / 2);
  return std::min({deadline_after(times_.last_active, request_.stall_timeout),
                   deadline_after(times_.last_look, request_.stall_timeout / 4),
                   deadline_after(times_.begun, request_.total_timeout), sending_.consent_due});
}

void DirectExchange::carry_on() noexcept {
  if (events_ == nullptr) return;  // over
  const auto kept = self();
  if (is_cancelled_) return end({});
  if (is_paused_) return;
  const TimePoint now = loop_.clock().now();
  if (look_for_connection(now)) {
    send_rest(now);
    if (!receive(now)) return;
    look_for_consent(now);
    check_time(now);
  }
  if (events_ == nullptr || !is_watched_) return;
  loop_.change(socket_.descriptor(), interest());
  timer_.arm_by(due(), *this, &DirectExchange::on_due);
}

void DirectExchange::sent(std::uint64_t bytes, TimePoint now) noexcept {
  sending_.done += bytes;
  times_.last_active = now;
  if (sending_.waits_for_consent && sending_.done == sending_.head.size()) {
    sending_.consent_due = deadline_after(now, kConsentIsDueAfter);
  }
}

// Whether it can send now. One that cannot be connected goes another way, or ends.
bool DirectExchange::look_for_connection(TimePoint now) {
  if (!sending_.is_connecting) return true;
  const int outcome = socket_.connect_outcome();
  if (outcome == 0) {
    sending_.is_connecting = false;
    times_.last_active = now;
    return true;
  }
  if (outcome == EINPROGRESS && now < due()) return false;
  if (!goes_another_way()) {
    const int error_number = outcome == EINPROGRESS ? ETIMEDOUT : outcome;
    fail(Status::from_errno(error_number, "connect to " + authority_, {}));
  }
  return false;
}

void DirectExchange::send_rest(TimePoint now) {
  Pieces room;
  for (std::uint64_t in_turn = 0; in_turn < kSentInTurn && sending_.failure == 0;) {
    const std::span<const ByteView> pieces = sending_.next(request_, room);
    if (pieces.empty()) return;
    const std::ptrdiff_t bytes = socket_.send_some(pieces);
    if (bytes == -EAGAIN) return;
    if (bytes < 0) {
      sending_.failure = static_cast<int>(-bytes);  // but an answer may be there already
      return;
    }
    in_turn += static_cast<std::uint64_t>(bytes);
    sent(static_cast<std::uint64_t>(bytes), now);
  }
}

// A server that says nothing consents; one that has answered wants no body.
void DirectExchange::look_for_consent(TimePoint now) {
  if (!sending_.waits_for_consent || receiving_.has_head) return;
  if (!receiving_.reader.was_told_to_go_on() && now < sending_.consent_due) return;
  sending_.waits_for_consent = false;
  sending_.consent_due = TimePoint::max();
  send_rest(now);
}

// False: it is over, or paused; then it may be the loop's by now.
bool DirectExchange::receive(TimePoint now) {
  if (!take_in()) return false;  // what a pause has left
  for (int i = 0; i < kReceivesInTurn; ++i) {
    const std::span<std::byte> room(receiving_.room.get(), receiving_.room_bytes);
    const std::ptrdiff_t size = socket_.receive_some(room);
    if (size == -EAGAIN) {
      if (sending_.failure == 0) return true;
      lost(Status::from_errno(sending_.failure, "send request to " + authority_, {}));
      return false;
    }
    if (size < 0) {
      lost(Status::from_errno(static_cast<int>(-size), receive_from(), {}));
      return false;
    }
    if (size == 0) {
      closed();
      return false;
    }
    times_.last_active = now;
    receiving_.rest = room.first(static_cast<std::size_t>(size));
    if (!take_in()) return false;
  }
  return true;
}

// Reports what has come; false: there is no more to be received, now or ever.
bool DirectExchange::take_in() {
  while (true) {
    if (!receiving_.kept_body.empty()) {
      if (!take_body(receiving_.kept_body)) return false;
      receiving_.kept_body = {};
    }
    const HttpResponseReader::Step step = receiving_.reader.next(receiving_.rest);
    receiving_.rest = receiving_.rest.subspan(step.taken);
    switch (step.what) {
      case HttpResponseReader::What::kMore:
        return true;
      case HttpResponseReader::What::kHead: {
        HttpHead head = receiving_.reader.take_head();
        receiving_.has_head = true;
        sending_.consent_due = TimePoint::max();
        if (head.status == kExpectationFailed && sending_.waits_for_consent) {
          request_.expect_continue = false;
          if (goes_another_way()) return false;
        }
        receiving_.is_success = head.status / 100 == 2;
        receiving_.max_body_bytes = max_body_bytes(request_, head.status);
        if (!is_cancelled_) events_->on_head(std::move(head));
        break;
      }
      case HttpResponseReader::What::kBody:
        receiving_.kept_body = step.body;
        break;
      case HttpResponseReader::What::kEnd:
        ended();
        return false;
      case HttpResponseReader::What::kBroken:
        fail(receiving_.reader.is_too_long() ? head_too_long(authority_)
                                             : bad_response(receiving_.reader.why(), EPROTO));
        return false;
    }
    if (is_cancelled_) {
      end({});
      return false;
    }
  }
}

bool DirectExchange::take_body(ByteView bytes) {
  if (bytes.size() > receiving_.max_body_bytes - receiving_.body_bytes) {
    fail(body_too_long(authority_, receiving_.max_body_bytes));
    return false;
  }
  {
    const MutexLock lock(mutex_);
    resume_asked_ = false;
  }
  if (!events_->on_body(bytes)) {
    if (is_cancelled_) {
      end({});
    } else {
      pause();
    }
    return false;
  }
  receiving_.body_bytes += bytes.size();
  if (!is_cancelled_) return true;
  end({});
  return false;
}

// The response is whole. What a server has not got it cannot have taken.
void DirectExchange::ended() {
  if (!receiving_.is_success || sending_.is_whole()) return end({});
  fail(bad_response("it came before all of the request was sent", EPROTO));
}

void DirectExchange::closed() {
  if (receiving_.reader.closed() == HttpResponseReader::What::kEnd) return ended();
  if (!receiving_.has_head) {
    return lost(bad_response("the connection was closed instead", ECONNRESET));
  }
  fail(bad_response("the connection was closed after " + std::to_string(receiving_.body_bytes) +
                        " bytes of the body, before its end",
                    ECONNRESET));
}

void DirectExchange::lost(Status failure) {
  if (sending_.is_used_line && !receiving_.reader.has_begun() && goes_another_way()) return;
  fail(std::move(failure));
}

bool DirectExchange::goes_another_way() {
  const auto kept = self();
  return owner_->direct_fails(*this);
}

bool DirectExchange::may_be_executed() const noexcept {
  return sending_.body_bytes > 0 ? sending_.is_whole() : sending_.done > 0;
}

DirectExchange::Given DirectExchange::give_up() noexcept {
  leave_network().shut_down();
  return {std::move(request_), std::move(events_)};
}

// Bytes that the peer takes from the system's buffer are activity, too, of which nothing tells.
void DirectExchange::check_time(TimePoint now) {
  if (now < due()) return;
  const bool in_all = now >= deadline_after(times_.begun, request_.total_timeout);
  int unacknowledged = 0;
  static_cast<void>(::ioctl(socket_.descriptor(), SIOCOUTQ, &unacknowledged));
  if (std::exchange(times_.last_unacknowledged, unacknowledged) != unacknowledged) {
    times_.last_active = now;
  }
  times_.last_look = now;
  if (in_all || now >= deadline_after(times_.last_active, request_.stall_timeout)) {
    fail(exchange_timed_out(authority_, request_, in_all));
  }
}

void DirectExchange::fail(Status failure) { end({std::move(failure), may_be_executed()}); }

void DirectExchange::end(HttpEnd end) {
  const auto kept = self();
  const bool is_reusable = end.failure.ok() && !is_cancelled_ &&
                           receiving_.reader.keeps_connection() && receiving_.rest.empty() &&
                           sending_.is_whole();
  const auto events = std::move(events_);
  request_.body.reset();
  Socket socket = leave_network();
  if (!is_reusable) socket.shut_down();
  owner_->direct_ended(id_, authority_, is_reusable ? std::move(socket) : Socket());
  if (!is_cancelled_) events->on_end(std::move(end));
  std::vector<std::function<void()>> dones;
  {
    const MutexLock lock(mutex_);
    dones.swap(dones_);
  }
  for (std::function<void()>& done : dones) loop_.post(std::move(done));
}

Socket DirectExchange::leave_network() noexcept {
  if (std::exchange(is_watched_, false)) loop_.unwatch(socket_.descriptor());
  timer_.cancel();
  const MutexLock lock(mutex_);
  is_over_ = true;
  is_guests_ = false;
  return std::move(socket_);
}

std::string DirectExchange::receive_from() const { return "receive response from " + authority_; }

Status DirectExchange::bad_response(const std::string& why, int error_number) const {
  return {StatusCode::kIo, receive_from() + ": " + why, {}, error_number};
}

// --- on the loop

void DirectExchange::pause() {
  is_paused_ = true;
  if (is_watched_) {
    loop_.change(socket_.descriptor(), EventLoop::Interest::kNone);
  } else {
    leave_to_loop();
  }
}

// From then on this thread touches nothing of it.
void DirectExchange::leave_to_loop() noexcept {
  if (!is_guests_.exchange(false)) return;
  loop_.post([self = self()] { self->go_on(); });
}

void DirectExchange::go_on() {
  bool is_resumed = false;
  {
    const MutexLock lock(mutex_);
    is_loops_ = true;
    is_resumed = resume_asked_;
  }
  if (is_cancelled_) return end({});
  if (Status failure = loop_.watch(socket_.descriptor(), interest(), self()); !failure.ok()) {
    return fail(std::move(failure));
  }
  is_watched_ = true;
  if (is_resumed) unpause();
  carry_on();
}

void DirectExchange::unpause() {
  if (events_ == nullptr || !is_paused_.exchange(false)) return;
  times_.last_active = loop_.clock().now();
  loop_.change(socket_.descriptor(), interest());
  carry_on();
}

void DirectExchange::on_due(Timer::Arming arming) {
  if (timer_.fired(arming)) carry_on();
}

}  // namespace hflush::env
