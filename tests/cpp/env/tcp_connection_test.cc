// TcpConnection against real sockets: how connecting ends, bytes both ways, closing under traffic.
#include "hflush/env/tcp_connection.h"

#include <doctest/doctest.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <iostream>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "env/loopback.h"
#include "hflush/env/epoll_loop.h"
#include "hflush/env/process.h"

namespace hflush::env {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::drain;
using testing::Listener;
using testing::pattern;
using testing::Peer;
using testing::Shared;

// What the owner of a connection was told, and what it does about it.
class Owner : public TcpConnection::Events {
 public:
  struct Told {
    int connected = 0;
    int readable = 0;
    int writable = 0;
    std::optional<Status> failure;
  };

  virtual ~Owner() = default;
  void on_connected(TcpConnection& /*connection*/) override { note(&Told::connected); }
  void on_readable() override { note(&Told::readable); }
  void on_writable() override { note(&Told::writable); }
  void on_connect_failed(Status failure) override {
    told.update([&](Told& value) { value.failure = std::move(failure); });
  }
  bool wait_for_connection() {
    return told.wait_until([](const Told& value) { return value.connected > 0; });
  }
  // The failure, which must be the only thing told.
  Status wait_for_failure() {
    REQUIRE(told.wait_until([](const Told& value) { return value.failure.has_value(); }));
    const Told value = told.get();
    CHECK(value.connected + value.readable + value.writable == 0);
    return *value.failure;
  }

  Shared<Told> told;

 protected:
  void note(int Told::* what) {
    told.update([&](Told& value) { ++(value.*what); });
  }
};

// Receives all there is, each time.
class Receiver : public Owner {
 public:
  void on_readable() override {
    const auto source = connection.get();
    std::array<std::byte, 8192> buffer;
    while (true) {
      const std::ptrdiff_t received = source->receive_some(buffer);
      if (received == -EAGAIN) break;
      text.update([&](Received& value) {
        if (received > 0) {
          value.bytes.append(reinterpret_cast<const char*>(buffer.data()),
                             static_cast<std::size_t>(received));
        } else {
          value.end = received;
        }
      });
      if (received <= 0) break;
    }
    Owner::on_readable();
  }

  struct Received {
    std::string bytes;
    std::optional<std::ptrdiff_t> end;
  };
  void use(std::shared_ptr<TcpConnection> made) {
    connection.update([&](auto& value) { value = std::move(made); });
  }

  Shared<std::shared_ptr<TcpConnection>> connection;  // set before the first byte comes
  Shared<Received> text;
};

class NoWorkers final : public Executor {
 public:
  bool run(Task /*task*/) override { return false; }
};

struct Rig {
  template <typename T>
  std::shared_ptr<TcpConnection> connect(const Endpoint& endpoint, std::shared_ptr<T> events,
                                         TcpConnection::Options options = {}) {
    return loop.connect(workers, endpoint, options, std::move(events));
  }

  // Workers end before the loop to which they report.
  EpollLoop loop{steady_clock()};
  WorkerPool workers{64};  // it refuses what finds no idle thread
};

// A connection that stands, and its peer.
struct Connected {
  explicit Connected(Rig& rig, std::shared_ptr<Receiver> receiver = std::make_shared<Receiver>(),
                     TcpConnection::Options options = {})
      : owner(std::move(receiver)) {
    connection = rig.connect(listener.endpoint(), owner, options);
    peer.emplace(listener.accept());
    REQUIRE(owner->wait_for_connection());
    owner->use(connection);
  }
  ~Connected() {
    connection->close();
    owner->use(nullptr);
  }
  Connected(const Connected&) = delete;
  Connected& operator=(const Connected&) = delete;

  Listener listener;
  std::shared_ptr<Receiver> owner;
  std::shared_ptr<TcpConnection> connection;
  std::optional<Peer> peer;
};

std::ptrdiff_t send_text(TcpConnection& connection, std::string_view text) {
  const ByteView piece = as_bytes(text);
  return connection.send_some({&piece, 1});
}

TEST_CASE("an endpoint as text") {
  CHECK(Endpoint{"nn", 8020}.to_string() == "nn:8020");
  CHECK(Endpoint{"10.0.0.1", 1}.to_string() == "10.0.0.1:1");
  CHECK(Endpoint{"::1", 65535}.to_string() == "[::1]:65535");
}

TEST_CASE("connects to a number and to a name") {
  Rig rig;
  const Listener listener;
  for (const std::string host : {"127.0.0.1", "localhost"}) {
    CAPTURE(host);
    const auto owner = std::make_shared<Owner>();
    const Endpoint endpoint{host, listener.endpoint().port};
    const auto connection = rig.connect(endpoint, owner);
    CHECK(connection->endpoint() == endpoint);
    Peer peer = listener.accept();
    REQUIRE(owner->wait_for_connection());
    CHECK(send_text(*connection, "hello") == 5);
    CHECK(peer.receive(5) == "hello");
    connection->close();
    CHECK(peer.ends());
  }
}

TEST_CASE("without a thread to look it up, a name is a failure, a number is not") {
  Rig rig;
  NoWorkers none;
  const Listener listener;
  const std::uint16_t port = listener.endpoint().port;
  const auto unnamed = std::make_shared<Owner>();
  const auto connection = rig.loop.connect(none, {"127.0.0.1", port}, {}, unnamed);
  CHECK(unnamed->wait_for_connection());
  connection->close();
  const auto named = std::make_shared<Owner>();
  rig.loop.connect(none, {"localhost", port}, {}, named);
  const Status failure = named->wait_for_failure();
  CHECK(failure.error_number() == EAGAIN);
  CHECK(failure.message().starts_with("resolve host of localhost:" + std::to_string(port) + ": "));
}

TEST_CASE("options reach the socket") {
  Rig rig;
  TcpConnection::Options options;
  options.send_buffer_bytes = 4096;
  const Connected small(rig, std::make_shared<Receiver>(), options);
  const Connected usual(rig);
  const std::string text(std::size_t{256} << 10U, 'x');
  // Nobody receives: what is taken fits into the two buffers of the kernel.
  CHECK(send_text(*small.connection, text) < send_text(*usual.connection, text));
}

TEST_CASE("a port where nobody listens refuses, by name and number") {
  Rig rig;
  const testing::DeafPort deaf;
  const auto owner = std::make_shared<Owner>();
  const auto connection = rig.connect(deaf.endpoint(), owner);
  const Status failure = owner->wait_for_failure();
  CHECK(failure.code() == StatusCode::kIo);
  CHECK(failure.error_number() == ECONNREFUSED);
  CHECK(failure.message() == "connect to " + deaf.endpoint().to_string() + ": Connection refused");
  CHECK(send_text(*connection, "x") == -ENOTCONN);
  std::byte byte{};
  CHECK(connection->receive_some({&byte, 1}) == -ENOTCONN);
  connection->want_writable();
  connection->close();
}

TEST_CASE("a host that has no address") {
  Rig rig;
  for (const std::string& host : {std::string(), std::string(64, 'a') + ".invalid"}) {
    const auto owner = std::make_shared<Owner>();
    rig.connect(Endpoint{host, 8020}, owner);
    const Status failure = owner->wait_for_failure();
    CHECK(failure.code() == StatusCode::kIo);
    CHECK(failure.error_number() == EHOSTUNREACH);
    CHECK(failure.message().starts_with("resolve host of " + host + ":8020: "));
  }
}

TEST_CASE("a peer that never answers: the timeout, in time") {
  Rig rig;
  const testing::FullListener full;
  TcpConnection::Options options;
  options.connect_timeout = milliseconds(100);
  const auto owner = std::make_shared<Owner>();
  const TimePoint start = steady_clock().now();
  rig.connect(full.endpoint(), owner, options);
  const Status failure = owner->wait_for_failure();
  CHECK(steady_clock().now() - start >= milliseconds(100));
  CHECK(failure.code() == StatusCode::kTimedOut);
  CHECK(failure.error_number() == ETIMEDOUT);
  CHECK(failure.message() ==
        "connect to " + full.endpoint().to_string() + ": timed out after 100 ms");
}

TEST_CASE("the timeout includes a resolver that does not answer") {
  Rig rig;
  struct StuckExecutor final : Executor {
    bool run(Task task) override {
      kept = std::move(task);
      return true;
    }
    Task kept;
  } stuck;
  const auto owner = std::make_shared<Owner>();
  TcpConnection::Options options;
  options.connect_timeout = milliseconds(10);
  const auto connection = rig.loop.connect(stuck, Endpoint{"localhost", 1}, options, owner);
  const Status failure = owner->wait_for_failure();
  CHECK(failure.code() == StatusCode::kTimedOut);
  CHECK(failure.message() == "resolve host of localhost:1: timed out after 10 ms");
  stuck.kept();  // the answer comes too late
  stuck.kept = nullptr;
  drain(rig.loop);
  CHECK(connection.use_count() == 1);
}

TEST_CASE("before it is connected, nothing is sent and nothing is there") {
  Rig rig;
  const testing::FullListener full;
  const auto owner = std::make_shared<Owner>();
  const auto connection = rig.connect(full.endpoint(), owner);
  drain(rig.loop);
  drain(rig.loop);
  CHECK(send_text(*connection, "x") == 0);
  std::byte byte{};
  CHECK(connection->receive_some({&byte, 1}) == -EAGAIN);
  connection->close();
}

TEST_CASE("close() while connecting: nothing is told, and all is let go") {
  Rig rig;
  const testing::FullListener full;
  for (const std::string& host : {full.endpoint().host, std::string("localhost")}) {
    for (int i = 0; i < 50; ++i) {
      auto owner = std::make_shared<Owner>();
      auto connection = rig.connect(Endpoint{host, full.endpoint().port}, owner);
      if (i % 2 == 0) drain(rig.loop);
      connection->close();
      connection->close();
      const std::weak_ptr<TcpConnection> watched = connection;
      connection = nullptr;
      CHECK(owner.use_count() <= 2);  // a call under way may hold it
      const auto told = owner->told.get();
      CHECK(told.connected == 0);
      CHECK(told.failure.value_or(Status()).message() == "");
      const auto deadline = steady_clock().now() + testing::kPatience;
      while (!watched.expired() && steady_clock().now() < deadline) drain(rig.loop);
      CHECK(watched.expired());
      CHECK(owner.use_count() == 1);
    }
  }
}

TEST_CASE("a wish made before the connection stands is kept") {
  Rig rig;
  const Listener listener;
  const auto owner = std::make_shared<Owner>();
  const auto connection = rig.connect(listener.endpoint(), owner);
  connection->want_writable();
  Peer peer = listener.accept();
  CHECK(owner->told.wait_until([](const auto& told) { return told.writable == 1; }));
  drain(rig.loop);
  drain(rig.loop);
  CHECK(owner->told.get().writable == 1);
  connection->close();
}

TEST_CASE("a wish does not disturb connecting") {
  Rig rig;
  const Listener listener;
  const auto owner = std::make_shared<Owner>();
  // One task after the other, before the loop looks at sockets: connecting has begun, no more.
  std::shared_ptr<TcpConnection> connection;
  Shared<bool> started;
  rig.loop.post([&] {
    connection = rig.connect(listener.endpoint(), owner);
    rig.loop.post([&] {
      connection->want_writable();
      started.update([](bool& value) { value = true; });
    });
  });
  REQUIRE(started.wait_until([](bool value) { return value; }));
  CHECK(owner->wait_for_connection());
  connection->close();
}

// Sends a pattern as fast as the kernel takes it, on the loop thread, and checks what comes back.
class EchoClient final : public Receiver {
 public:
  static constexpr std::size_t kSize = std::size_t{32} << 20U;

  void on_connected(TcpConnection& standing) override {
    send();
    Owner::on_connected(standing);
  }
  void on_writable() override {
    send();
    Owner::on_writable();
  }

 private:
  void send() {
    const auto target = connection.get();
    while (sent_ < kSize) {
      const std::string next = pattern(sent_, std::min<std::size_t>(kSize - sent_, 300'001));
      const ByteView bytes = as_bytes(next);
      const std::array<ByteView, 3> pieces{bytes.first(1), {}, bytes.subspan(1)};
      const std::ptrdiff_t taken = target->send_some(pieces);
      if (taken == 0) return target->want_writable();
      REQUIRE(taken > 0);
      sent_ += static_cast<std::size_t>(taken);
    }
  }

  std::size_t sent_ = 0;
};

TEST_CASE("large transfers both ways at once, waiting for room as often as needed") {
  Rig rig;
  const Listener listener;
  const auto owner = std::make_shared<EchoClient>();
  // The loop is kept busy until the owner knows its connection.
  Shared<bool> ready;
  rig.loop.post([&] { CHECK(ready.wait_until([](bool value) { return value; })); });
  owner->use(rig.connect(listener.endpoint(), owner));
  ready.update([](bool& value) { value = true; });
  const Peer peer = listener.accept();
  std::thread echo([&] {
    std::array<char, 100'000> buffer;
    for (std::size_t done = 0; done < EchoClient::kSize;) {
      const ssize_t received = ::recv(peer.descriptor(), buffer.data(), buffer.size(), 0);
      if (received <= 0) break;
      peer.send(std::string(buffer.data(), static_cast<std::size_t>(received)));
      done += static_cast<std::size_t>(received);
    }
  });
  CHECK(owner->text.wait_until(
      [](const auto& text) { return text.bytes.size() >= EchoClient::kSize; }));
  owner->connection.get()->close();
  echo.join();
  CHECK(owner->text.get().bytes == pattern(0, EchoClient::kSize));
  CHECK(owner->told.get().writable > 0);
  owner->use(nullptr);
}

TEST_CASE("no more pieces than the system takes at once") {
  Rig rig;
  const Connected it(rig);
  const std::string text = "ab";
  const std::vector<ByteView> pieces(1000, as_bytes(text));
  CHECK(it.connection->send_some(pieces) == TcpConnection::kMaxPieces * 2);
  CHECK(it.connection->send_some({}) == 0);
  CHECK(it.peer->receive(128).size() == 128);
}

TEST_CASE("half-close: the end is told once, and sending goes on") {
  Rig rig;
  const Connected it(rig);
  it.peer->send("last");
  it.peer->end_of_stream();
  REQUIRE(it.owner->text.wait_until([](const auto& text) { return text.end.has_value(); }));
  CHECK(it.owner->text.get().bytes == "last");
  CHECK(it.owner->text.get().end == 0);
  drain(rig.loop);
  const int readable = it.owner->told.get().readable;
  CHECK(send_text(*it.connection, "more") == 4);
  CHECK(it.peer->receive(4) == "more");
  it.connection->want_writable();
  CHECK(it.owner->told.wait_until([](const auto& told) { return told.writable == 1; }));
  CHECK(it.owner->told.get().readable == readable);
}

TEST_CASE("a reset shows in receiving, and then in sending, without a signal") {
  Rig rig;
  Connected it(rig);
  it.peer->reset();
  REQUIRE(it.owner->text.wait_until([](const auto& text) { return text.end.has_value(); }));
  CHECK(it.owner->text.get().end == -ECONNRESET);
  CHECK(send_text(*it.connection, "x") == -EPIPE);
}

TEST_CASE("a peer that closes: sending fails in the end") {
  Rig rig;
  Connected it(rig);
  it.peer->close();
  const auto deadline = steady_clock().now() + testing::kPatience;
  std::ptrdiff_t sent = 0;
  while (sent >= 0 && steady_clock().now() < deadline) sent = send_text(*it.connection, "x");
  CHECK((sent == -EPIPE || sent == -ECONNRESET));
}

TEST_CASE("close() in the middle of a call to its owner: no call follows") {
  Rig rig;
  class Closer final : public Receiver {
    void on_readable() override {
      connection.get()->close();
      Owner::on_readable();
    }
  };
  const auto owner = std::make_shared<Closer>();
  const Connected it(rig, owner);
  // While the loop is busy, the connection becomes both readable and writable.
  Shared<int> step;
  rig.loop.post([&] {
    step.update([](int& value) { value = 1; });
    CHECK(step.wait_until([](int value) { return value == 2; }));
  });
  REQUIRE(step.wait_until([](int value) { return value == 1; }));
  it.connection->want_writable();
  it.peer->send("x");
  step.update([](int& value) { value = 2; });
  REQUIRE(owner->told.wait_until([](const auto& told) { return told.readable == 1; }));
  drain(rig.loop);
  drain(rig.loop);
  CHECK(owner->told.get().writable == 0);
  CHECK(owner->told.get().readable == 1);
}

TEST_CASE("close() under traffic: no call meets another file's descriptor") {
  Rig rig;
  const std::string text(std::size_t{64} << 10U, 'x');
  for (int round = 0; round < 100; ++round) {
    Connected it(rig);
    std::atomic<bool> started = false;
    std::set<std::ptrdiff_t> failures;
    std::thread sender([&] {
      while (true) {
        const std::ptrdiff_t sent = send_text(*it.connection, text);
        started = true;
        if (sent >= 0) continue;
        failures.insert(sent);
        if (sent == -ENOTCONN) return;
      }
    });
    std::thread reader([&] {
      std::array<char, 65536> buffer;
      while (::recv(it.peer->descriptor(), buffer.data(), buffer.size(), 0) > 0) {
      }
    });
    it.peer->send("some bytes for the loop thread");
    while (!started) std::this_thread::yield();
    it.connection->close();
    // Files that would get the number, were it free too early. None is a socket.
    std::array<int, 16> pipes{};
    for (std::size_t i = 0; i < pipes.size(); i += 2) {
      REQUIRE(::pipe2(&pipes[i], O_CLOEXEC | O_NONBLOCK) == 0);
    }
    sender.join();
    reader.join();
    for (const std::ptrdiff_t failure : failures) {
      CHECK((failure == -ENOTCONN || failure == -EPIPE || failure == -ECONNRESET));
    }
    for (const int end : pipes) ::close(end);
  }
}

TEST_CASE("two threads close at once, while the loop reads") {
  Rig rig;
  for (int round = 0; round < 100; ++round) {
    const Connected it(rig);
    it.peer->send(std::string(10'000, 'x'));
    std::vector<std::thread> closers;
    for (int i = 0; i < 2; ++i) closers.emplace_back([&] { it.connection->close(); });
    for (std::thread& closer : closers) closer.join();
    std::string rest = it.peer->receive(1);
    CHECK(rest.empty());
  }
}

TEST_CASE("the owner is let go by close()") {
  Rig rig;
  std::weak_ptr<Receiver> watched;
  {
    Connected it(rig);
    watched = it.owner;
  }
  drain(rig.loop);
  CHECK(watched.expired());
}

TEST_CASE("a forked child leaves the parent's connection alone; close() ends it all the same") {
  Rig rig;
  static_cast<void>(Process::current());  // counts the forks
  const Connected it(rig);
  std::cout << std::flush;
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    std::byte byte{};
    it.connection->close();
    it.connection->want_writable();
    const bool good = send_text(*it.connection, "x") == -ENOTCONN &&
                      it.connection->receive_some({&byte, 1}) == -ENOTCONN;
    if (!good) ::_exit(1);
    ::pause();  // holds its copy of the descriptor until it is killed
  }
  it.peer->send("still there");
  CHECK(it.owner->text.wait_until([](const auto& text) { return text.bytes == "still there"; }));
  CHECK(send_text(*it.connection, "too") == 3);
  CHECK(it.peer->receive(3) == "too");
  it.connection->close();
  CHECK(it.peer->ends());  // though the child still has the descriptor
  REQUIRE(::kill(child, SIGKILL) == 0);
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(WIFSIGNALED(status));
}

}  // namespace
}  // namespace hflush::env
