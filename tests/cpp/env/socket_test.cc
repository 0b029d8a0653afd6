// Addresses: names with several of them, shares of the time, and a connection that meets itself.
#include "hflush/env/socket.h"

#include <dlfcn.h>
#include <doctest/doctest.h>
#include <netdb.h>
#include <netinet/in.h>

#include <array>
#include <atomic>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "env/loopback.h"
#include "env/names.h"
#include "hflush/env/blocking_socket.h"
#include "hflush/env/epoll_loop.h"
#include "hflush/env/tcp_connection.h"

namespace hflush::env {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::kManyAddresses;
using testing::Listener;
using testing::Shared;

TEST_CASE("numeric hosts are addresses; names are not") {
  for (const char* host : {"127.0.0.1", "::1", "fe80::1", "::ffff:10.0.0.1", "255.255.255.255"}) {
    CAPTURE(host);
    const auto address = numeric_address({host, 8020});
    REQUIRE(address.has_value());
    CHECK(address->size == (std::strchr(host, ':') ? sizeof(sockaddr_in6) : sizeof(sockaddr_in)));
    const auto resolved = resolve({host, 8020});
    REQUIRE(resolved.ok());
    CHECK(resolved->size() == 1);
  }
  for (const char* host : {"", "localhost", "127.1", "1.2.3", "1.2.3.4.5", "256.1.1.1", "[::1]",
                           "fe80::1%eth0", "0x7f000001"}) {
    CAPTURE(host);
    CHECK_FALSE(numeric_address({host, 8020}).has_value());
  }
}

TEST_CASE("a name's addresses come without duplicates, in the resolver's order") {
  const auto addresses = resolve({kManyAddresses, 513});
  REQUIRE(addresses.ok());
  REQUIRE(addresses->size() == 2);
  for (const std::size_t i : {0U, 1U}) {
    sockaddr_in address;
    std::memcpy(&address, &(*addresses)[i].storage, sizeof address);
    CHECK(ntohl(address.sin_addr.s_addr) == INADDR_LOOPBACK + (i == 0 ? 1 : 0));
    CHECK(ntohs(address.sin_port) == 513);
  }
}

TEST_CASE("each address gets an equal share of the time that is left") {
  const TimePoint now(seconds(100));
  const TimePoint deadline = now + seconds(12);
  CHECK(attempt_deadline(now, deadline, 3) == now + seconds(4));
  CHECK(attempt_deadline(now + seconds(4), deadline, 2) == now + seconds(8));
  CHECK(attempt_deadline(now + seconds(1), deadline, 1) == deadline);
  CHECK(attempt_deadline(deadline, deadline, 2) == deadline);
  CHECK(attempt_deadline(now, TimePoint::max(), 2) == TimePoint::max());
}

TEST_CASE("a timeout without limit, and one that just fits") {
  const TimePoint now(seconds(100));
  CHECK(deadline_after(now, kNoTimeout) == TimePoint::max());
  CHECK(deadline_after(now, kNoTimeout - seconds(100)) == TimePoint::max());
  CHECK(deadline_after(now, seconds(1)) == TimePoint(seconds(101)));
}

TEST_CASE("a connection that meets itself counts as refused") {
  const int descriptor = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  REQUIRE(descriptor >= 0);
  const Socket socket(descriptor);
  sockaddr_in name{};
  name.sin_family = AF_INET;
  name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof name;
  REQUIRE(::bind(descriptor, reinterpret_cast<sockaddr*>(&name), size) == 0);
  REQUIRE(::getsockname(descriptor, reinterpret_cast<sockaddr*>(&name), &size) == 0);
  REQUIRE(::connect(descriptor, reinterpret_cast<sockaddr*>(&name), size) == 0);
  CHECK(socket.connect_outcome() == ECONNREFUSED);
}

TEST_CASE("what waits to be sent within this machine is bounded") {
  const Listener listener;
  const Endpoint endpoint = listener.endpoint();
  Result<Socket> made = Socket::start_connecting(*numeric_address(endpoint), {}, endpoint);
  REQUIRE(made.ok());
  const auto queue_bytes = [&] {
    int bytes = 0;
    socklen_t size = sizeof bytes;
    REQUIRE(::getsockopt(made->descriptor(), SOL_SOCKET, SO_SNDBUF, &bytes, &size) == 0);
    return bytes;
  };
  made->bound_local_queue();
  CHECK(queue_bytes() == 256 << 10);
}

struct Outcome {
  bool connected = false;
  std::optional<Status> failure;
};

class Owner final : public TcpConnection::Events {
 public:
  void on_connected(TcpConnection& /*connection*/) override {
    outcome.update([](Outcome& value) { value.connected = true; });
  }
  void on_readable() override {}
  void on_writable() override {}
  void on_connect_failed(Status failure) override {
    outcome.update([&](Outcome& value) { value.failure = std::move(failure); });
  }
  Outcome wait() {
    REQUIRE(outcome.wait_until(
        [](const Outcome& value) { return value.connected || value.failure.has_value(); }));
    return outcome.get();
  }

  Shared<Outcome> outcome;
};

// What both kinds of connection make of `endpoint`: the failure, or nothing.
std::array<std::optional<Status>, 2> connect_both_ways(const Endpoint& endpoint, Duration timeout) {
  std::array<std::optional<Status>, 2> failures;
  Uninterrupted uninterrupted;
  const auto blocking = BlockingSocket::connect(endpoint, timeout, uninterrupted);
  if (!blocking.ok()) failures[0] = blocking.status();

  EpollLoop loop(steady_clock());
  WorkerPool workers(1);
  const auto owner = std::make_shared<Owner>();
  TcpConnection::Options options;
  options.connect_timeout = timeout;
  const auto connection = loop.connect(workers, endpoint, options, owner);
  failures[1] = owner->wait().failure;
  connection->close();
  return failures;
}

TEST_CASE("an address that refuses leaves the next one its chance") {
  const testing::Listener listener;
  for (const auto& failure :
       connect_both_ways({kManyAddresses, listener.endpoint().port}, testing::kPatience)) {
    CHECK_FALSE(failure.has_value());
  }
}

TEST_CASE("when every address refuses, the first one's failure is told, with the others'") {
  const testing::DeafPort deaf;
  const Endpoint endpoint{kManyAddresses, deaf.endpoint().port};
  for (const auto& failure : connect_both_ways(endpoint, testing::kPatience)) {
    REQUIRE(failure.has_value());
    CHECK(failure->error_number() == ECONNREFUSED);
    CHECK(failure->message() == "connect to " + endpoint.to_string() + ": Connection refused");
    CHECK(failure->others().size() == 1);
  }
}

TEST_CASE("an address that never answers leaves the next one half of the time") {
  const testing::Listener listener;  // first: ports of 127.0.0.2 are hardly used by others
  const std::uint16_t port = listener.endpoint().port;
  const testing::FullListener full("127.0.0.2", port);
  for (const auto& failure : connect_both_ways({kManyAddresses, port}, seconds(2))) {
    CHECK_FALSE(failure.has_value());
  }
}

}  // namespace
}  // namespace hflush::env
