#include "scripted_stream.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>

namespace scripted {
namespace {

// With MSG_TRUNC a TCP socket drops what it would copy; the address is not used.
std::array<std::byte, 1> nowhere;

ssize_t receive(int descriptor, void* to, std::size_t size, int flags) {
  ssize_t received = -1;
  do {
    received = ::recv(descriptor, to, size, flags);
  } while (received < 0 && errno == EINTR);
  return received;
}

}  // namespace

Stream::Stream(int descriptor) : descriptor_(descriptor) {
  const int on = 1;
  static_cast<void>(::setsockopt(descriptor_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on));
}

Stream::~Stream() { ::close(descriptor_); }

bool Stream::read(hflush::MutableByteView out) const {
  while (!out.empty()) {
    const ssize_t received = receive(descriptor_, out.data(), out.size(), MSG_WAITALL);
    if (received <= 0) return false;
    out = out.subspan(static_cast<std::size_t>(received));
  }
  return true;
}

bool Stream::read_length(std::size_t& length) const {
  length = 0;
  for (unsigned shift = 0; shift < 35; shift += 7) {
    std::byte next{};
    if (!read({&next, 1})) return false;
    length |= static_cast<std::size_t>(next & std::byte{0x7f}) << shift;
    if ((next & std::byte{0x80}) == std::byte{0}) return true;
  }
  return false;
}

bool Stream::has_more() const {
  int available = 0;
  return ::ioctl(descriptor_, FIONREAD, &available) == 0 && available > 0;
}

bool Stream::discard(std::size_t size) const {
  while (size > 0) {
    const ssize_t dropped = receive(descriptor_, nowhere.data(), size, MSG_TRUNC | MSG_WAITALL);
    if (dropped <= 0) return false;
    size -= static_cast<std::size_t>(dropped);
  }
  return true;
}

bool Stream::discard_some(std::size_t size) const {
  return receive(descriptor_, nowhere.data(), size, MSG_TRUNC) > 0;
}

bool Stream::write(hflush::ByteView bytes) const {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(descriptor_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return false;
    bytes = bytes.subspan(static_cast<std::size_t>(sent));
  }
  return true;
}

}  // namespace scripted
