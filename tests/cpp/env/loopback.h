// What the tests of this directory share: real sockets on the loopback interface, and waiting for
// another thread with a deadline.
#pragma once

#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "hflush/base/mutex.h"
#include "hflush/env/event_loop.h"
#include "hflush/env/socket.h"
#include "testing/patience.h"

namespace hflush::env::testing {

using hflush::testing::kPatience;

// Something that another thread changes under the lock: update() there, wait_until() here.
template <typename T>
class Shared {
 public:
  template <typename Change>
  void update(Change change) {
    const MutexLock lock(mutex_);
    change(value_);
    changed_.notify_all();
  }
  template <typename Predicate>
  [[nodiscard]] bool wait_until(Predicate predicate) {
    const auto deadline = CondVar::Clock::now() + kPatience;
    const MutexLock lock(mutex_);
    while (!predicate(std::as_const(value_))) {
      if (CondVar::Clock::now() >= deadline) return false;
      changed_.wait_until(mutex_, deadline);
    }
    return true;
  }
  T get() {
    const MutexLock lock(mutex_);
    return value_;
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  T value_ HFLUSH_GUARDED_BY(mutex_){};
};

// Something that happens once, and that others wait for.
class Gate {
 public:
  void open() {
    opened_.update([](bool& value) { value = true; });
  }
  [[nodiscard]] bool wait() {
    return opened_.wait_until([](bool value) { return value; });
  }
  bool is_open() { return opened_.get(); }

 private:
  Shared<bool> opened_;
};

// Returns when the loop has run all that was posted before.
inline void drain(EventLoop& loop) {
  Gate ran;
  loop.post([&] { ran.open(); });
  REQUIRE(ran.wait());
}

inline bool wait_readable(int descriptor, std::chrono::milliseconds patience = kPatience) {
  pollfd polled{descriptor, POLLIN, 0};
  return ::poll(&polled, 1, static_cast<int>(patience.count())) == 1;
}

// A blocking peer of the code under test.
class Peer {
 public:
  explicit Peer(int descriptor) : descriptor_(descriptor) {}
  Peer(Peer&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  Peer& operator=(Peer&&) = delete;
  ~Peer() { close(); }

  int descriptor() const { return descriptor_; }
  void close() {
    if (descriptor_ >= 0) ::close(std::exchange(descriptor_, -1));
  }
  // Ends the connection with RST.
  void reset() {
    const linger at_once{1, 0};
    REQUIRE(::setsockopt(descriptor_, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once) == 0);
    close();
  }
  void end_of_stream() const { REQUIRE(::shutdown(descriptor_, SHUT_WR) == 0); }
  void send(const std::string& text) const {
    std::size_t done = 0;
    while (done < text.size()) {
      const ssize_t sent =
          ::send(descriptor_, text.data() + done, text.size() - done, MSG_NOSIGNAL);
      REQUIRE(sent > 0);
      done += static_cast<std::size_t>(sent);
    }
  }
  // Whether the end of the stream comes, with nothing before it.
  bool ends() const {
    char byte = 0;
    return wait_readable(descriptor_) && ::recv(descriptor_, &byte, 1, 0) == 0;
  }
  // `size` bytes, fewer at the end of the stream.
  std::string receive(std::size_t size) const {
    std::string text(size, '\0');
    std::size_t done = 0;
    while (done < size && wait_readable(descriptor_)) {
      const ssize_t received = ::recv(descriptor_, text.data() + done, size - done, 0);
      if (received <= 0) break;
      done += static_cast<std::size_t>(received);
    }
    text.resize(done);
    return text;
  }

 private:
  int descriptor_;
};

class Listener {
 public:
  explicit Listener(int backlog = 16, const char* address = "127.0.0.1", std::uint16_t port = 0)
      : host_(address) {
    sockaddr_in name{};
    name.sin_family = AF_INET;
    name.sin_port = htons(port);
    REQUIRE(::inet_pton(AF_INET, address, &name.sin_addr) == 1);
    REQUIRE(descriptor_ >= 0);
    REQUIRE(::bind(descriptor_, reinterpret_cast<const sockaddr*>(&name), sizeof name) == 0);
    REQUIRE(::listen(descriptor_, backlog) == 0);
    socklen_t size = sizeof name;
    REQUIRE(::getsockname(descriptor_, reinterpret_cast<sockaddr*>(&name), &size) == 0);
    port_ = ntohs(name.sin_port);
  }
  ~Listener() { ::close(descriptor_); }
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  int descriptor() const { return descriptor_; }
  Endpoint endpoint() const { return {host_, port_}; }
  Peer accept() const {
    REQUIRE(wait_readable(descriptor_));
    const int accepted = ::accept4(descriptor_, nullptr, nullptr, SOCK_CLOEXEC);
    REQUIRE(accepted >= 0);
    return Peer(accepted);
  }

 private:
  std::string host_;
  std::uint16_t port_ = 0;
  int descriptor_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
};

// A port that nobody listens on, and that no one else gets while this lives: bound, not listening.
class DeafPort {
 public:
  DeafPort() {
    sockaddr_in name{};
    name.sin_family = AF_INET;
    name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    REQUIRE(::bind(descriptor_, reinterpret_cast<const sockaddr*>(&name), sizeof name) == 0);
    socklen_t size = sizeof name;
    REQUIRE(::getsockname(descriptor_, reinterpret_cast<sockaddr*>(&name), &size) == 0);
    port_ = ntohs(name.sin_port);
  }
  ~DeafPort() { ::close(descriptor_); }
  DeafPort(const DeafPort&) = delete;
  DeafPort& operator=(const DeafPort&) = delete;

  Endpoint endpoint() const { return {"127.0.0.1", port_}; }

 private:
  std::uint16_t port_ = 0;
  int descriptor_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
};

// A port where no attempt to connect ends: Linux drops what does not fit into a full backlog.
class FullListener {
 public:
  explicit FullListener(const char* address = "127.0.0.1", std::uint16_t port = 0)
      : listener_(0, address, port) {
    for (int i = 0; i < 64; ++i) {
      const auto target = numeric_address(listener_.endpoint());
      REQUIRE(target.has_value());
      Result<Socket> made = Socket::start_connecting(*target, {}, listener_.endpoint());
      REQUIRE(made.ok());
      waiting_.push_back(*std::move(made));
      pollfd polled{waiting_.back().descriptor(), POLLOUT, 0};
      if (::poll(&polled, 1, 200) == 0) return;
    }
    FAIL("the backlog takes everything");
  }

  Endpoint endpoint() const { return listener_.endpoint(); }

  // Makes room, and accepts who comes then: a second later, when it tries again.
  Peer accept() {
    const std::size_t accepted = waiting_.size() - 1;  // the last one has found no room
    waiting_.clear();
    for (std::size_t i = 0; i < accepted; ++i) static_cast<void>(listener_.accept());
    return listener_.accept();
  }

 private:
  Listener listener_;
  std::vector<Socket> waiting_;
};

// `size` bytes that tell where they are in the stream.
inline std::string pattern(std::size_t from, std::size_t size) {
  std::string text(size, '\0');
  for (std::size_t i = 0; i < size; ++i) {
    const std::size_t at = from + i;
    text[i] = static_cast<char>(at ^ (at >> 8U) ^ (at >> 16U));
  }
  return text;
}

}  // namespace hflush::env::testing
