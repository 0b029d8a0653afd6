// TcpConnection: one non-blocking TCP connection on an EventLoop, which makes it.
//
// EventLoop::connect() resolves the host (numeric addresses at once, names on a resolver's thread
// and nowhere else, for no longer than the connect timeout; without such a thread it fails:
// EAGAIN), tries each address in turn and reports; then the owner of the connection sends from any
// thread and receives on the loop thread. It queues nothing: send_some() takes what the kernel
// takes, and on_writable() says when more fits. Owner and loop share it (shared_ptr): it lives
// until close(), or until it could not connect. Failures are Status with host and port, and with
// errno where there is one: the first address's, the others' beside it; a host that has no address
// is EHOSTUNREACH. TCP_NODELAY and SO_KEEPALIVE are on; SIGPIPE never comes; the descriptor is
// close-on-exec.
//
// In a forked child every function does nothing, and sends and receives fail: the connection is the
// parent's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "hflush/base/bytes.h"
#include "hflush/base/status.h"
#include "hflush/env/clock.h"
#include "hflush/env/socket.h"

namespace hflush::env {

class TcpConnection : public std::enable_shared_from_this<TcpConnection> {
 public:
  // Implemented by the owner; called on the loop thread, without any lock held. After close()
  // returned at most the call under way on the loop thread still arrives.
  class Events {
   public:
    // Perhaps before connect() has returned on its thread: `connection` is what it returns.
    virtual void on_connected(TcpConnection& connection) = 0;
    // receive_some() until it would block. Not called any more after the end of the stream or a
    // failure was received.
    virtual void on_readable() = 0;
    virtual void on_writable() = 0;  // asked for by want_writable()
    // Could not connect, or the connect timeout passed. Nothing follows. Failures of an established
    // connection show in send_some() and receive_some().
    virtual void on_connect_failed(Status failure) = 0;

   protected:
    ~Events() = default;
  };

  struct Options {
    // Bounds the whole attempt, all addresses of the name included; kNoTimeout: no limit.
    Duration connect_timeout = std::chrono::seconds(20);
    int send_buffer_bytes = 0;  // 0: the system's own choice
    bool no_delay = true;
  };

  virtual ~TcpConnection() = default;

  const Endpoint& endpoint() const noexcept { return endpoint_; }

  // Bytes taken; 0 if the kernel takes none now, or before on_connected(); -errno after a failure;
  // -ENOTCONN after close(). Any thread, one at a time.
  virtual std::ptrdiff_t send_some(std::span<const ByteView> pieces) noexcept = 0;
  // Bytes received; 0 at the end of the stream; -EAGAIN if there is nothing now; -errno; -ENOTCONN
  // after close(). One thread at a time. Requires: !out.empty().
  virtual std::ptrdiff_t receive_some(MutableByteView out) noexcept = 0;
  // Asks for one on_writable().
  virtual void want_writable() = 0;
  // The server's address as a number, "10.0.0.1"; empty if there is none, or none yet.
  virtual std::string peer_address() const = 0;
  // Ends the connection now (shutdown, so that the peer learns it even if a forked child still has
  // the descriptor). Idempotent; any thread.
  virtual void close() noexcept = 0;

  static constexpr std::size_t kMaxPieces = Socket::kMaxPieces;

 protected:
  explicit TcpConnection(Endpoint endpoint) : endpoint_(std::move(endpoint)) {}

 private:
  const Endpoint endpoint_;
};

}  // namespace hflush::env
