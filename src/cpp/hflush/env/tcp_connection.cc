#include "hflush/env/tcp_connection.h"

#include <cerrno>
#include <optional>
#include <utility>
#include <vector>

#include "hflush/base/check.h"
#include "hflush/base/mutex.h"
#include "hflush/env/epoll_loop.h"
#include "hflush/env/executor.h"
#include "hflush/env/own_process.h"

namespace hflush::env {
namespace {

using Interest = EventLoop::Interest;

class Connection final : public TcpConnection, public EventLoop::Handler {
 public:
  Connection(EventLoop& loop, Endpoint endpoint, Options options, std::shared_ptr<Events> events)
      : TcpConnection(std::move(endpoint)),
        loop_(loop),
        options_(options),
        deadline_(deadline_after(loop.clock().now(), options.connect_timeout)),
        events_(std::move(events)) {}

  void start(Executor& resolver);

  std::ptrdiff_t send_some(std::span<const ByteView> pieces) noexcept override;
  std::ptrdiff_t receive_some(MutableByteView out) noexcept override;
  void want_writable() override;
  std::string peer_address() const override;
  void close() noexcept override;

  void on_ready(bool readable, bool writable) override;
  bool is_patient() const noexcept override { return true; }

 private:
  enum class State : std::uint8_t {
    kConnecting,  // looking for addresses, then trying them
    kOpen,
    kEnded,  // closed, or could not connect
  };
  // kEnded: the end of the stream or a failure was received.
  enum class Reading : std::uint8_t { kOpen, kEnded };

  // What an ended connection held, to be released without the lock.
  struct Remains {
    std::shared_ptr<Socket> socket;
    std::shared_ptr<Events> events;
  };

  std::shared_ptr<Connection> shared() {
    return std::static_pointer_cast<Connection>(shared_from_this());
  }
  bool is_connecting() HFLUSH_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    return state_ == State::kConnecting;
  }

  // Connecting, on the loop thread.
  void connect_to(Result<std::vector<SocketAddress>> addresses);
  void try_next_address();
  Status try_address(const SocketAddress& address, std::size_t addresses_left);
  void attempt_ended(int outcome);
  void attempt_failed(Status failure);
  void opened();
  void give_up();

  // Open, on the loop thread.
  void tell_readable();
  void tell_writable();

  Interest interest_locked() const HFLUSH_REQUIRES(mutex_);
  void update_interest_locked() HFLUSH_REQUIRES(mutex_);
  Remains end_locked() HFLUSH_REQUIRES(mutex_);

  EventLoop& loop_;
  const Options options_;
  const TimePoint deadline_;
  const Origin origin_;

  // Before the loop's. Held while bytes are sent or received without waiting, never across an
  // event.
  mutable Mutex mutex_;
  State state_ HFLUSH_GUARDED_BY(mutex_) = State::kConnecting;
  std::shared_ptr<Events> events_ HFLUSH_GUARDED_BY(mutex_);
  // Shared with the calls under way: the last one out closes the descriptor, so that its number
  // does not become another file's under a call.
  std::shared_ptr<Socket> socket_ HFLUSH_GUARDED_BY(mutex_);
  EventLoop::TimerId timer_ HFLUSH_GUARDED_BY(mutex_) = 0;
  Reading reading_ HFLUSH_GUARDED_BY(mutex_) = Reading::kOpen;
  bool wants_writable_ HFLUSH_GUARDED_BY(mutex_) = false;

  // The loop thread's, while connecting.
  std::vector<SocketAddress> addresses_;
  std::size_t next_address_ = 0;
  Status failure_;
};

void Connection::start(Executor& resolver) {
  const auto self = shared();
  if (const auto address = numeric_address(endpoint())) {
    loop_.post([self, address = *address] { self->connect_to(std::vector{address}); });
    return;
  }
  {
    const MutexLock lock(mutex_);
    timer_ = loop_.run_at(deadline_, [self] {
      self->attempt_failed(
          timed_out(resolve_operation(self->endpoint()), self->options_.connect_timeout));
    });
  }
  const bool taken = resolver.run([self] {
    if (!self->is_connecting()) return;  // it was given up while other lookups were in the way
    self->loop_.post([self, found = resolve(self->endpoint())]() mutable {
      self->connect_to(std::move(found));
    });
  });
  if (taken) return;
  loop_.post([self] {
    self->attempt_failed(Status::from_errno(EAGAIN, resolve_operation(self->endpoint()), {}));
  });
}

void Connection::connect_to(Result<std::vector<SocketAddress>> addresses) {
  if (!addresses.ok()) {
    attempt_failed(addresses.status());
    return;
  }
  addresses_ = *std::move(addresses);
  try_next_address();
}

void Connection::try_next_address() {
  while (next_address_ < addresses_.size()) {
    const std::size_t left = addresses_.size() - next_address_;
    Status attempt = try_address(addresses_[next_address_++], left);
    if (attempt.ok()) return;
    failure_ = first_failure(failure_, std::move(attempt));
  }
  give_up();
}

// Fine: the attempt is under way, or no longer wanted.
Status Connection::try_address(const SocketAddress& address, std::size_t addresses_left) {
  HFLUSH_ASSIGN_OR_RETURN(
      Socket made, Socket::start_connecting(
                       address, {options_.send_buffer_bytes, options_.no_delay}, endpoint()));
  const auto self = shared();
  const TimePoint until = attempt_deadline(loop_.clock().now(), deadline_, addresses_left);
  const MutexLock lock(mutex_);
  if (state_ != State::kConnecting) return {};
  const int descriptor = made.descriptor();
  HFLUSH_RETURN_IF_ERROR(loop_.watch(descriptor, Interest::kWrite, self));
  socket_ = std::make_shared<Socket>(std::move(made));
  loop_.cancel(timer_);
  timer_ = loop_.run_at(until, [self] {
    self->attempt_failed(
        timed_out(connect_operation(self->endpoint()), self->options_.connect_timeout));
  });
  return {};
}

void Connection::attempt_ended(int outcome) {
  if (outcome == EINPROGRESS) return;
  if (outcome == 0) {
    opened();
  } else {
    attempt_failed(connect_failure(endpoint(), outcome));
  }
}

void Connection::attempt_failed(Status failure) {
  {
    const MutexLock lock(mutex_);
    if (state_ != State::kConnecting) return;
    if (socket_) loop_.unwatch(socket_->descriptor());
    socket_.reset();
  }
  failure_ = first_failure(failure_, std::move(failure));
  try_next_address();
}

void Connection::opened() {
  std::shared_ptr<Events> events;
  {
    const MutexLock lock(mutex_);
    if (state_ != State::kConnecting) return;
    state_ = State::kOpen;
    loop_.cancel(std::exchange(timer_, 0));
    update_interest_locked();
    events = events_;
  }
  events->on_connected(*this);
}

void Connection::give_up() {
  Remains remains;
  {
    const MutexLock lock(mutex_);
    if (state_ != State::kConnecting) return;
    remains = end_locked();
  }
  remains.events->on_connect_failed(failure_);
}

void Connection::on_ready(bool readable, bool writable) {
  std::shared_ptr<Socket> connecting;
  {
    const MutexLock lock(mutex_);
    if (state_ == State::kConnecting) connecting = socket_;
  }
  if (connecting) {
    attempt_ended(connecting->connect_outcome());
    return;
  }
  if (readable) tell_readable();
  if (writable) tell_writable();
}

void Connection::tell_readable() {
  std::shared_ptr<Events> events;
  {
    const MutexLock lock(mutex_);
    if (state_ != State::kOpen || reading_ != Reading::kOpen) return;
    events = events_;
  }
  events->on_readable();
}

void Connection::tell_writable() {
  std::shared_ptr<Events> events;
  {
    const MutexLock lock(mutex_);
    if (state_ != State::kOpen || !wants_writable_) return;
    wants_writable_ = false;
    update_interest_locked();
    events = events_;
  }
  events->on_writable();
}

Interest Connection::interest_locked() const {
  if (reading_ == Reading::kOpen) {
    return wants_writable_ ? Interest::kReadAndWrite : Interest::kRead;
  }
  return wants_writable_ ? Interest::kWrite : Interest::kNone;
}

void Connection::update_interest_locked() {
  if (state_ == State::kOpen) loop_.change(socket_->descriptor(), interest_locked());
}

std::ptrdiff_t Connection::send_some(std::span<const ByteView> pieces) noexcept {
  if (origin_.is_parent()) return -ENOTCONN;
  std::shared_ptr<Socket> socket;
  {
    const MutexLock lock(mutex_);
    if (state_ == State::kConnecting) return 0;
    if (state_ == State::kEnded) return -ENOTCONN;
    socket = socket_;
  }
  const std::ptrdiff_t sent = socket->send_some(pieces);
  return sent == -EAGAIN ? 0 : sent;
}

std::ptrdiff_t Connection::receive_some(MutableByteView out) noexcept {
  HFLUSH_DCHECK(!out.empty());
  if (origin_.is_parent()) return -ENOTCONN;
  std::shared_ptr<Socket> socket;
  {
    const MutexLock lock(mutex_);
    if (state_ == State::kConnecting) return -EAGAIN;
    if (state_ == State::kEnded) return -ENOTCONN;
    socket = socket_;
  }
  const std::ptrdiff_t received = socket->receive_some(out);
  if (received > 0 || received == -EAGAIN) return received;
  // The end, or a failure, would be reported for as long as it is asked for.
  const MutexLock lock(mutex_);
  reading_ = Reading::kEnded;
  update_interest_locked();
  return received;
}

std::string Connection::peer_address() const {
  if (origin_.is_parent()) return {};
  const MutexLock lock(mutex_);
  return state_ == State::kOpen ? socket_->peer_address() : std::string();
}

void Connection::want_writable() {
  if (origin_.is_parent()) return;
  const MutexLock lock(mutex_);
  wants_writable_ = true;
  update_interest_locked();
}

Connection::Remains Connection::end_locked() {
  state_ = State::kEnded;
  loop_.cancel(std::exchange(timer_, 0));
  if (socket_) loop_.unwatch(socket_->descriptor());
  return {std::move(socket_), std::move(events_)};
}

void Connection::close() noexcept {
  if (origin_.is_parent()) return;
  const auto self = weak_from_this().lock();  // the loop may hold the last other reference
  Remains remains;
  {
    const MutexLock lock(mutex_);
    if (state_ == State::kEnded) return;
    remains = end_locked();
  }
  if (remains.socket) remains.socket->shut_down();
}

}  // namespace

std::shared_ptr<TcpConnection> EpollLoop::connect(Executor& resolver, Endpoint endpoint,
                                                  TcpConnection::Options options,
                                                  std::shared_ptr<TcpConnection::Events> events) {
  auto connection =
      std::make_shared<Connection>(*this, std::move(endpoint), options, std::move(events));
  connection->start(resolver);
  return connection;
}

}  // namespace hflush::env
