#include "hflush/hdfs/rpc/name_node_link.h"

#include <array>
#include <cerrno>
#include <new>
#include <span>
#include <utility>

namespace hflush::hdfs {

using env::TcpConnection;

void NameNodeLink::connect(env::Executor& resolver, env::Endpoint endpoint,
                           const TcpConnection::Options& options) {
  const std::shared_ptr<TcpConnection> tcp =
      loop_.connect(resolver, std::move(endpoint), options, shared_from_this());
  bool is_closed = false;
  {
    const MutexLock lock(mutex_);
    is_closed = is_closed_;
    if (!is_closed) tcp_ = tcp;
  }
  if (is_closed) return tcp->close();
  flush();  // it may stand already
}

void NameNodeLink::close() {
  std::shared_ptr<TcpConnection> closing;
  {
    const MutexLock lock(mutex_);
    is_closed_ = true;
    closing.swap(tcp_);
    queued_.clear();
  }
  if (closing) closing->close();
}

std::shared_ptr<TcpConnection> NameNodeLink::connection() {
  const MutexLock lock(mutex_);
  return tcp_;
}

// --- out -----------------------------------------------------------------------------------------

void NameNodeLink::queue(std::string bytes) {
  const MutexLock lock(mutex_);
  if (queued_.empty()) {
    queued_ = std::move(bytes);
  } else {
    queued_ += bytes;
  }
}

void NameNodeLink::flush() {
  std::string bytes;
  while (const std::shared_ptr<TcpConnection> tcp = take_turn(bytes)) {
    std::ptrdiff_t taken = 0;
    std::size_t sent = 0;
    do {
      const ByteView piece = as_bytes(std::string_view(bytes).substr(sent));
      taken = tcp->send_some(std::span(&piece, 1));
      if (taken > 0) sent += static_cast<std::size_t>(taken);
    } while (taken > 0 && sent < bytes.size());
    const bool is_full = taken == 0;
    bytes.erase(0, sent);
    give_turn_back(std::move(bytes), taken < 0 ? static_cast<int>(-taken) : 0);
    if (is_full) return tcp->want_writable();
  }
}

std::shared_ptr<TcpConnection> NameNodeLink::take_turn(std::string& bytes) {
  const MutexLock lock(mutex_);
  if (is_sending_ || queued_.empty() || send_error_ != 0 || !tcp_) return nullptr;
  is_sending_ = true;
  bytes = std::exchange(queued_, {});
  return tcp_;
}

void NameNodeLink::give_turn_back(std::string rest, int error_number) {
  {
    const MutexLock lock(mutex_);
    is_sending_ = false;
    try {
      if (!is_closed_ && !rest.empty()) {
        rest += queued_;
        queued_.swap(rest);
      }
    } catch (const std::bad_alloc&) {
      error_number = ENOMEM;  // a part of a frame is sent: nothing may follow it
    }
    send_error_ = error_number;
    if (is_closed_) return;
  }
  if (error_number == 0) return;
  // The server may have said why before it closed: the loop thread reads that first.
  loop_.post([weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->receive();
  });
}

int NameNodeLink::send_error() {
  const MutexLock lock(mutex_);
  return send_error_;
}

// --- in, on the loop thread ----------------------------------------------------------------------

void NameNodeLink::receive() {
  constexpr std::size_t kAtOnce = 8U << 10U;  // the stack may be a small one
  std::array<std::byte, kAtOnce> buffer;
  for (std::ptrdiff_t count = kAtOnce; std::cmp_equal(count, kAtOnce);) {
    const std::shared_ptr<Owner> owner = owner_.lock();
    const std::shared_ptr<TcpConnection> tcp = connection();
    if (!owner || !tcp) return;
    count = tcp->receive_some(buffer);
    if (count > 0) {
      owner->received(id_, ByteView(buffer).first(static_cast<std::size_t>(count)));
    } else if (count != -EAGAIN) {
      owner->lost(id_, static_cast<int>(-count));
    } else if (const int error_number = send_error(); error_number != 0) {
      owner->lost(id_, error_number);
    }
  }
}

void NameNodeLink::on_connected(TcpConnection& connection) {
  if (const auto owner = owner_.lock()) owner->connected(id_, connection.peer_address());
}

void NameNodeLink::on_connect_failed(Status failure) {
  if (const auto owner = owner_.lock()) owner->connect_failed(id_, failure);
}

}  // namespace hflush::hdfs
