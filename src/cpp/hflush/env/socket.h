// Socket: an owned TCP descriptor, and what both kinds of connection (tcp_connection.h,
// blocking_socket.h) do alike: find addresses, begin to connect, learn the outcome, move bytes.
//
// Thread-compatible: a Socket has one owner; sending and receiving are independent of each other.
#pragma once

#include <sys/socket.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "hflush/base/bytes.h"
#include "hflush/base/result.h"
#include "hflush/env/clock.h"

namespace hflush::env {

struct Endpoint {
  std::string host;  // a name or a numeric address, IPv6 without brackets
  std::uint16_t port = 0;

  std::string to_string() const;  // "host:port", "[::1]:port"
  bool operator==(const Endpoint&) const = default;
};

struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t size = 0;
};

struct SocketOptions {
  int send_buffer_bytes = 0;  // 0: the system's own choice
  bool no_delay = true;
};

class Socket {
 public:
  static constexpr std::size_t kMaxPieces = 64;

  Socket() noexcept = default;
  explicit Socket(int descriptor) noexcept : descriptor_(descriptor) {}
  Socket(Socket&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  Socket& operator=(Socket&& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    return *this;
  }
  ~Socket();

  int descriptor() const noexcept { return descriptor_; }

  // A non-blocking, close-on-exec socket whose connection to `address` is under way, or complete:
  // outcome() will say. A failure is returned at once where the system can.
  static Result<Socket> start_connecting(const SocketAddress& address, const SocketOptions& options,
                                         const Endpoint& endpoint);
  // The number of the other side's address, "10.0.0.1"; empty if there is none.
  std::string peer_address() const;
  // 0: connected. EINPROGRESS: not yet. Else why not; asked once, the answer is gone.
  int connect_outcome() const noexcept;

  // Bytes taken, at most kMaxPieces pieces at a time; -EAGAIN; -errno. No SIGPIPE.
  std::ptrdiff_t send_some(std::span<const ByteView> pieces) const noexcept;
  // Bytes received; 0 at the end of the stream; -EAGAIN; -errno. Requires: !out.empty().
  std::ptrdiff_t receive_some(MutableByteView out) const noexcept;
  // The same into several pieces, filled one after the other; at most kMaxPieces of them.
  std::ptrdiff_t receive_some(std::span<const MutableByteView> pieces) const noexcept;
  // Readable means so many bytes, or the end of the stream, or a failure; less if the system has no
  // room for them. 1 at first.
  void set_low_water(std::size_t bytes) const noexcept;
  // Whether the peer has closed, or has sent what was not asked for. Never waits.
  bool is_stale() const noexcept;
  // Bounds what it has of bytes to be sent where both ends are on this machine: what one processor
  // writes there another reads soon after, out of caches if it fits in them. The system lets the
  // queue grow, as for what is far away, and a large body takes twice as long. Requires: connected,
  // or connecting; no effect on any other connection.
  void bound_local_queue() const noexcept;
  // Ends it for the peer, and for a thread in a call, even if a forked child still has the
  // descriptor.
  void shut_down() const noexcept;

 private:
  int descriptor_ = -1;
};

// The address if `endpoint.host` is one; asks no resolver.
std::optional<SocketAddress> numeric_address(const Endpoint& endpoint);
// At least one address, best first. May block for as long as the resolver likes. An unknown name is
// kIo with EHOSTUNREACH, whatever the resolver's own number is: retries treat both alike.
Result<std::vector<SocketAddress>> resolve(const Endpoint& endpoint);
// How failures call the two steps: "resolve host of nn:8020", "connect to nn:8020".
std::string resolve_operation(const Endpoint& endpoint);
std::string connect_operation(const Endpoint& endpoint);

// When to give up on the next of `addresses_left` addresses: each gets an equal share of the time
// left, so that one that never answers leaves some for the others.
TimePoint attempt_deadline(TimePoint now, TimePoint deadline, std::size_t addresses_left) noexcept;

// "connect to nn:8020: Connection refused"
Status connect_failure(const Endpoint& endpoint, int error_number);
// "connect to nn:8020: timed out after 1500 ms"
Status timed_out(const std::string& operation, Duration timeout);

}  // namespace hflush::env
