#include "hflush/env/socket.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <limits>
#include <memory>

#include "hflush/base/check.h"
#include "hflush/env/standard_streams.h"

namespace hflush::env {
namespace {

// What the system doubles.
constexpr int kLocalQueueBytes = 128 << 10;

void set_option(int descriptor, int level, int name, int value) noexcept {
  // What these set is a matter of speed: a system that refuses one can still connect.
  static_cast<void>(::setsockopt(descriptor, level, name, &value, sizeof value));
}

template <typename Address>
SocketAddress to_socket_address(const Address& address) {
  SocketAddress result;
  std::memcpy(&result.storage, &address, sizeof address);
  result.size = sizeof address;
  return result;
}

// An address of either version, one of version 4 as version 6 has it.
struct Place {
  explicit Place(const SocketAddress& address) noexcept {
    if (address.storage.ss_family == AF_INET) {
      sockaddr_in known;
      std::memcpy(&known, &address.storage, sizeof known);
      ip[10] = ip[11] = 0xFF;
      std::memcpy(&ip[12], &known.sin_addr, sizeof known.sin_addr);
      port = known.sin_port;
    } else {
      sockaddr_in6 known;
      std::memcpy(&known, &address.storage, sizeof known);
      std::memcpy(ip.data(), &known.sin6_addr, sizeof known.sin6_addr);
      port = known.sin6_port;
    }
  }
  bool operator==(const Place&) const = default;
  // 127.0.0.0/8: one that is called there may answer as another.
  bool is_loopback() const noexcept { return ip[10] == 0xFF && ip[12] == IN_LOOPBACKNET; }

  std::array<std::uint8_t, sizeof(in6_addr)> ip{};
  in_port_t port = 0;
};

std::optional<SocketAddress> own_address(int descriptor) noexcept {
  SocketAddress own;
  own.size = sizeof own.storage;
  const int done = ::getsockname(descriptor, reinterpret_cast<sockaddr*>(&own.storage), &own.size);
  return done == 0 ? std::optional(own) : std::nullopt;
}

std::optional<SocketAddress> address_of_peer(int descriptor) noexcept {
  SocketAddress peer;
  peer.size = sizeof peer.storage;
  const int done =
      ::getpeername(descriptor, reinterpret_cast<sockaddr*>(&peer.storage), &peer.size);
  return done == 0 ? std::optional(peer) : std::nullopt;
}

// A connection to a free port of this machine may meet itself: the system can pick the very port
// that is being called.
bool is_self_connected(int descriptor, const SocketAddress& peer) noexcept {
  const std::optional<SocketAddress> own = own_address(descriptor);
  return own && Place(*own) == Place(peer);
}

bool is_within_machine(const SocketAddress& own, const SocketAddress& peer) noexcept {
  const Place here(own);
  return here.is_loopback() || here.ip == Place(peer).ip;
}

}  // namespace

std::string Endpoint::to_string() const {
  const std::string shown = host.find(':') == std::string::npos ? host : "[" + host + "]";
  return shown + ":" + std::to_string(port);
}

Socket::~Socket() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

Result<Socket> Socket::start_connecting(const SocketAddress& address, const SocketOptions& options,
                                        const Endpoint& endpoint) {
  Socket made(beside_standard_streams(::socket(
      address.storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, IPPROTO_TCP)));
  const int descriptor = made.descriptor();
  if (descriptor < 0) return connect_failure(endpoint, errno);
  set_option(descriptor, IPPROTO_TCP, TCP_NODELAY, options.no_delay ? 1 : 0);
  set_option(descriptor, SOL_SOCKET, SO_KEEPALIVE, 1);
  if (options.send_buffer_bytes > 0) {
    set_option(descriptor, SOL_SOCKET, SO_SNDBUF, options.send_buffer_bytes);
  }
  // Interrupted by a signal, it goes on all the same.
  if (::connect(descriptor, reinterpret_cast<const sockaddr*>(&address.storage), address.size) !=
          0 &&
      errno != EINPROGRESS && errno != EINTR) {
    return connect_failure(endpoint, errno);
  }
  return made;
}

int Socket::connect_outcome() const noexcept {
  int error_number = 0;
  socklen_t size = sizeof error_number;
  if (::getsockopt(descriptor_, SOL_SOCKET, SO_ERROR, &error_number, &size) != 0) return errno;
  if (error_number != 0) return error_number;
  const std::optional<SocketAddress> peer = address_of_peer(descriptor_);
  if (!peer) return errno == ENOTCONN ? EINPROGRESS : errno;
  return is_self_connected(descriptor_, *peer) ? ECONNREFUSED : 0;
}

std::string Socket::peer_address() const {
  const std::optional<SocketAddress> peer = address_of_peer(descriptor_);
  std::array<char, NI_MAXHOST> number{};
  if (!peer || ::getnameinfo(reinterpret_cast<const sockaddr*>(&peer->storage), peer->size,
                             number.data(), number.size(), nullptr, 0, NI_NUMERICHOST) != 0) {
    return {};
  }
  return number.data();
}

std::ptrdiff_t Socket::send_some(std::span<const ByteView> pieces) const noexcept {
  std::array<iovec, kMaxPieces> vectors;
  const std::size_t count = std::min(pieces.size(), vectors.size());
  for (std::size_t i = 0; i < count; ++i) {
    vectors[i] = {const_cast<std::byte*>(pieces[i].data()), pieces[i].size()};
  }
  msghdr message{};
  message.msg_iov = vectors.data();
  message.msg_iovlen = count;
  ssize_t sent = -1;
  do {
    sent = ::sendmsg(descriptor_, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
  } while (sent < 0 && errno == EINTR);
  return sent >= 0 ? sent : -errno;
}

std::ptrdiff_t Socket::receive_some(MutableByteView out) const noexcept {
  HFLUSH_DCHECK(!out.empty());
  ssize_t received = -1;
  do {
    received = ::recv(descriptor_, out.data(), out.size(), MSG_DONTWAIT);
  } while (received < 0 && errno == EINTR);
  return received >= 0 ? received : -errno;
}

std::ptrdiff_t Socket::receive_some(std::span<const MutableByteView> pieces) const noexcept {
  if (pieces.size() == 1) return receive_some(pieces.front());
  std::array<iovec, kMaxPieces> vectors;
  const std::size_t count = std::min(pieces.size(), vectors.size());
  for (std::size_t i = 0; i < count; ++i) vectors[i] = {pieces[i].data(), pieces[i].size()};
  msghdr message{};
  message.msg_iov = vectors.data();
  message.msg_iovlen = count;
  ssize_t received = -1;
  do {
    received = ::recvmsg(descriptor_, &message, MSG_DONTWAIT);
  } while (received < 0 && errno == EINTR);
  return received >= 0 ? received : -errno;
}

void Socket::set_low_water(std::size_t bytes) const noexcept {
  const int size = static_cast<int>(std::min<std::size_t>(bytes, std::numeric_limits<int>::max()));
  ::setsockopt(descriptor_, SOL_SOCKET, SO_RCVLOWAT, &size, sizeof size);
}

bool Socket::is_stale() const noexcept {
  std::byte unexpected{};
  ssize_t received = -1;
  do {
    received = ::recv(descriptor_, &unexpected, 1, MSG_PEEK | MSG_DONTWAIT);
  } while (received < 0 && errno == EINTR);
  return received >= 0 || errno != EAGAIN;
}

void Socket::bound_local_queue() const noexcept {
  const std::optional<SocketAddress> own = own_address(descriptor_);
  const std::optional<SocketAddress> peer = address_of_peer(descriptor_);
  if (own && peer && is_within_machine(*own, *peer)) {
    set_option(descriptor_, SOL_SOCKET, SO_SNDBUF, kLocalQueueBytes);
  }
}

void Socket::shut_down() const noexcept { ::shutdown(descriptor_, SHUT_RDWR); }

std::optional<SocketAddress> numeric_address(const Endpoint& endpoint) {
  sockaddr_in four{};
  if (::inet_pton(AF_INET, endpoint.host.c_str(), &four.sin_addr) == 1) {
    four.sin_family = AF_INET;
    four.sin_port = htons(endpoint.port);
    return to_socket_address(four);
  }
  sockaddr_in6 six{};
  if (::inet_pton(AF_INET6, endpoint.host.c_str(), &six.sin6_addr) == 1) {
    six.sin6_family = AF_INET6;
    six.sin6_port = htons(endpoint.port);
    return to_socket_address(six);
  }
  return std::nullopt;
}

Result<std::vector<SocketAddress>> resolve(const Endpoint& endpoint) {
  if (const auto address = numeric_address(endpoint)) return std::vector{*address};
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const std::string port = std::to_string(endpoint.port);
  const int error =
      endpoint.host.empty()  // means this machine to the resolver, and a mistake to us
          ? EAI_NONAME
          : ::getaddrinfo(endpoint.host.c_str(), port.c_str(), &hints, &found);
  const int error_number = errno;
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owned(found, &::freeaddrinfo);

  std::vector<SocketAddress> addresses;
  for (const addrinfo* one = found; one != nullptr; one = one->ai_next) {
    SocketAddress address;
    if (one->ai_addrlen > sizeof address.storage) continue;
    std::memcpy(&address.storage, one->ai_addr, one->ai_addrlen);
    address.size = one->ai_addrlen;
    const auto same = [&](const SocketAddress& known) { return Place(known) == Place(address); };
    if (std::ranges::none_of(addresses, same)) addresses.push_back(address);
  }
  if (!addresses.empty()) return addresses;
  const std::string operation = resolve_operation(endpoint);
  if (error == EAI_SYSTEM) return Status::from_errno(error_number, operation, {});
  const char* why = error == 0 ? "the name has no address" : ::gai_strerror(error);
  return Status(StatusCode::kIo, operation + ": " + why, {}, EHOSTUNREACH);
}

TimePoint attempt_deadline(TimePoint now, TimePoint deadline, std::size_t addresses_left) noexcept {
  if (deadline == TimePoint::max() || addresses_left <= 1) return deadline;
  return now + (deadline - now) / static_cast<Duration::rep>(addresses_left);
}

std::string resolve_operation(const Endpoint& endpoint) {
  return "resolve host of " + endpoint.to_string();
}

std::string connect_operation(const Endpoint& endpoint) {
  return "connect to " + endpoint.to_string();
}

Status connect_failure(const Endpoint& endpoint, int error_number) {
  return Status::from_errno(error_number, connect_operation(endpoint), {});
}

Status timed_out(const std::string& operation, Duration timeout) {
  const auto milliseconds = std::chrono::duration_cast<std::chrono::milliseconds>(timeout);
  return Status(StatusCode::kTimedOut,
                operation + ": timed out after " + std::to_string(milliseconds.count()) + " ms", {},
                ETIMEDOUT);
}

}  // namespace hflush::env
