// NameNodeLink: bytes of many threads leave whole and in order, however slowly the server reads.
#include "hflush/hdfs/rpc/name_node_link.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "env/loopback.h"
#include "hflush/base/endian.h"
#include "hflush/env/epoll_loop.h"

namespace hflush::hdfs {
namespace {

using env::testing::Listener;
using env::testing::Peer;
using env::testing::Shared;

constexpr CallTable::LinkId kLink{0, 7};

// What the link reports.
struct Seen {
  bool connected = false;
  std::string peer_address;
  std::string connect_failure;
  std::string bytes;
  std::vector<int> ends;
};

class Recorder final : public NameNodeLink::Owner {
 public:
  void connected(CallTable::LinkId link, const std::string& peer_address) override {
    CHECK(link == kLink);
    seen.update([&](Seen& value) {
      value.connected = true;
      value.peer_address = peer_address;
    });
  }
  void connect_failed(CallTable::LinkId /*link*/, const Status& why) override {
    seen.update([&](Seen& value) { value.connect_failure = why.message(); });
  }
  void received(CallTable::LinkId /*link*/, ByteView bytes) override {
    seen.update([&](Seen& value) { value.bytes += as_text(bytes); });
  }
  void lost(CallTable::LinkId link, int error_number) override {
    CHECK(link == kLink);
    seen.update([&](Seen& value) { value.ends.push_back(error_number); });
  }

  Shared<Seen> seen;
};

struct Fixture {
  ~Fixture() { link->close(); }

  void connect(env::Endpoint endpoint) { link->connect(workers, std::move(endpoint), {}); }
  void send(std::string bytes) {
    link->queue(std::move(bytes));
    link->flush();
  }
  template <typename Predicate>
  void expect(const Predicate& holds) {
    REQUIRE(recorder->seen.wait_until(holds));
  }

  env::EpollLoop loop{env::steady_clock()};
  env::WorkerPool workers{1};
  std::shared_ptr<Recorder> recorder = std::make_shared<Recorder>();
  std::shared_ptr<NameNodeLink> link = std::make_shared<NameNodeLink>(loop, recorder, kLink);
};

TEST_CASE("link: what many threads queue leaves whole, each thread's in order") {
  constexpr std::uint32_t kThreads = 8;
  constexpr std::uint32_t kMessages = 400;
  constexpr std::size_t kSize = 3000;  // more in all than sockets hold
  Listener listener;
  Fixture f;
  f.connect(listener.endpoint());
  const Peer peer = listener.accept();
  f.expect([](const Seen& seen) { return seen.connected; });
  std::vector<std::thread> threads;
  for (std::uint32_t thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&f, thread] {
      for (std::uint32_t i = 0; i < kMessages; ++i) {
        std::string message(kSize, static_cast<char>(thread));
        store_be32(reinterpret_cast<std::byte*>(message.data()), thread);
        store_be32(reinterpret_cast<std::byte*>(message.data()) + 4, i);
        f.send(std::move(message));
      }
    });
  }
  std::vector<std::uint32_t> next(kThreads);
  for (std::uint32_t i = 0; i < kThreads * kMessages; ++i) {
    const std::string message = peer.receive(kSize);
    REQUIRE(message.size() == kSize);
    const auto* const bytes = reinterpret_cast<const std::byte*>(message.data());
    const std::uint32_t thread = load_be32(bytes);
    REQUIRE(thread < kThreads);
    REQUIRE(load_be32(bytes + 4) == next[thread]++);
    REQUIRE(std::all_of(message.begin() + 8, message.end(),
                        [thread](char c) { return c == static_cast<char>(thread); }));
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_CASE("link: what is queued before it connects is sent when it stands") {
  Listener listener;
  Fixture f;
  f.link->queue("one, ");
  f.link->flush();
  f.connect(listener.endpoint());
  const Peer peer = listener.accept();
  f.expect([](const Seen& seen) { return seen.connected; });
  f.send("two");
  CHECK(peer.receive(8) == "one, two");
}

// The events of a connection, without a link.
class Connected final : public env::TcpConnection::Events {
 public:
  void on_connected(env::TcpConnection& /*connection*/) override {
    is_connected.update([](bool& value) { value = true; });
  }
  void on_readable() override {}
  void on_writable() override {}
  void on_connect_failed(Status /*failure*/) override {}

  Shared<bool> is_connected;
};

TEST_CASE("link: a connection that stands before connect() has returned is reported") {
  Listener listener;
  Fixture f;
  const auto events = std::make_shared<Connected>();
  const auto connection = f.loop.connect(f.workers, listener.endpoint(), {}, events);
  REQUIRE(events->is_connected.wait_until([](bool value) { return value; }));
  f.link->on_connected(*connection);  // as the loop thread does while connect() is under way
  CHECK(f.recorder->seen.get().connected);
  CHECK(f.recorder->seen.get().peer_address == "127.0.0.1");
  connection->close();
}

TEST_CASE("link: what the server has said comes before the end, however that is noticed") {
  Listener listener;
  Fixture f;
  f.connect(listener.endpoint());
  Peer peer = listener.accept();
  f.expect([](const Seen& seen) { return seen.connected; });
  const std::string last = env::testing::pattern(0, 100'000);
  peer.send(last);
  SUBCASE("closed") {
    peer.close();
    f.expect([](const Seen& seen) { return !seen.ends.empty() && seen.ends.front() == 0; });
  }
  SUBCASE("a send fails") {
    f.expect([&](const Seen& seen) { return seen.bytes.size() == last.size(); });
    peer.reset();
    f.send("x");
    f.expect([](const Seen& seen) { return !seen.ends.empty(); });
  }
  CHECK(f.recorder->seen.get().bytes == last);
}

TEST_CASE("link: a refused connection is reported; a closed one is silent") {
  Fixture f;
  SUBCASE("refused") {
    const env::testing::DeafPort port;
    f.connect(port.endpoint());
    f.expect([](const Seen& seen) { return !seen.connect_failure.empty(); });
  }
  SUBCASE("closed before it connects") {
    Listener listener;
    f.link->close();
    f.connect(listener.endpoint());
    f.send("x");
    env::testing::drain(f.loop);
    CHECK(f.recorder->seen.get().ends.empty());
  }
  SUBCASE("the client is gone") {
    Listener listener;
    f.connect(listener.endpoint());
    const Peer peer = listener.accept();
    f.recorder.reset();
    peer.send("x");
    env::testing::drain(f.loop);
    f.link->close();
    CHECK(peer.ends());
  }
}

}  // namespace
}  // namespace hflush::hdfs
