// Exchanges without libcurl: by the thread that waits for them, without the loop; and on it where
// that thread does not stay, or for much memory from the start. What holds for every exchange is in
// http_client_test.cc.
#include "hflush/env/direct_exchanges.h"

#include <doctest/doctest.h>
#include <sys/wait.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "env/http_server.h"
#include "hflush/env/answer.h"
#include "hflush/env/direct_connections.h"
#include "hflush/env/epoll_loop.h"
#include "hflush/env/http_client.h"
#include "hflush/env/interrupt.h"
#include "hflush/env/process.h"

namespace hflush::env {
namespace {

using std::chrono::milliseconds;
using testing::Gate;
using testing::HttpServer;
using testing::kPatience;
using testing::pattern;
using testing::Shared;

// What has come, the thread that the end came on, and what happens at each event.
class Events final : public HttpEvents {
 public:
  struct Came {
    HttpHead head;
    std::string body;
    std::optional<HttpEnd> end;
    std::thread::id thread;
  };
  explicit Events(std::function<bool(const std::string&)> act = {}) : act_(std::move(act)) {}

  void on_head(HttpHead head) override {
    change([&](Came& came) { came.head = std::move(head); });
    if (act_) static_cast<void>(act_("head"));
  }
  bool on_body(ByteView bytes) override {
    if (act_ && !act_("body")) return false;
    change([&](Came& came) { came.body.append(as_text(bytes)); });
    return true;
  }
  void on_end(HttpEnd end) override {
    change([&](Came& came) {
      came.end = std::move(end);
      came.thread = std::this_thread::get_id();
    });
  }
  // As a guest that waits for it; false if the interrupt ends the wait, or patience does.
  bool wait(EventLoop* loop, Interrupt& interrupt) {
    const MutexLock lock(mutex_);
    const TimePoint deadline = steady_clock().now() + kPatience;
    while (!came_.end) {
      if (!wait_until(mutex_, changed_, deadline, interrupt, loop).ok()) return false;
    }
    return true;
  }
  Came get() {
    const MutexLock lock(mutex_);
    return came_;
  }

 private:
  template <typename Change>
  void change(const Change& change) {
    const MutexLock lock(mutex_);
    change(came_);
    changed_.notify_all();
  }

  const std::function<bool(const std::string&)> act_;
  Mutex mutex_;
  LoopCondVar changed_;
  Came came_ HFLUSH_GUARDED_BY(mutex_);
};

// Asks `ask` every 50 ms.
class Asking final : public Interrupt {
 public:
  explicit Asking(std::function<Status()> ask) : ask_(std::move(ask)) {}

 private:
  Status check() override { return ask_(); }

  const std::function<Status()> ask_;
};

HttpRequest awaited(std::string method, std::string url, std::optional<std::string> body = {}) {
  HttpRequest request;
  request.method = std::move(method);
  request.url = std::move(url);
  if (body) request.body = text_body(*std::move(body));
  request.is_awaited = true;
  return request;
}

struct Bench {
  explicit Bench(HttpSettings settings = {}) {
    settings.no_proxy = "*";
    Result<std::shared_ptr<HttpClient>> made = HttpClient::make(loop, std::move(settings));
    REQUIRE_MESSAGE(made.ok(), made.status().message());
    client = *std::move(made);
  }
  ~Bench() { free_loop(); }

  // From here on nothing comes from the loop.
  void block_loop() {
    Gate is_blocked;
    loop.post([this, &is_blocked] {
      is_blocked.open();
      CHECK(freed.wait());
    });
    REQUIRE(is_blocked.wait());
  }
  void free_loop() { freed.open(); }

  Events::Came fetch(HttpRequest wanted) {
    const EventLoop::Guest guest(&loop);
    const auto events = std::make_shared<Events>();
    client->start(std::move(wanted), events);
    Uninterrupted uninterrupted;
    REQUIRE(events->wait(&loop, uninterrupted));
    return events->get();
  }

  Gate freed;
  EpollLoop loop{steady_clock(), 2};
  std::shared_ptr<HttpClient> client;
};

void echo(HttpServer::Exchange& exchange) {
  if (exchange.read_body()) {
    exchange.respond(200, exchange.request().method + " " + exchange.request().target + " " +
                              exchange.request().body);
  }
}

TEST_CASE("what a guest waits for needs no loop") {
  HttpServer server(echo);
  Bench bench;
  bench.block_loop();
  for (int i = 0; i < 3; ++i) {
    CHECK(bench.fetch(awaited("GET", server.url("/a?b"))).body == "GET /a?b ");
    CHECK(bench.fetch(awaited("PUT", server.url("/k"), "bytes")).body == "PUT /k bytes");
    CHECK(bench.fetch(awaited("HEAD", server.url("/k"))).head.status == 200);
  }
  const std::string most = pattern(0, 64 * 1024 - 1);
  CHECK(bench.fetch(awaited("PUT", server.url("/k"), most)).body == "PUT /k " + most);
  CHECK(server.connections() == 1);
  CHECK(bench.client->open_connections() == 1);
}

TEST_CASE("a response ends with its last bytes, however many come at once") {
  Shared<std::size_t> sent;
  HttpServer server([&](HttpServer::Exchange& exchange) {
    const std::size_t size = std::stoul(exchange.request().target.substr(1));
    exchange.respond(200, pattern(0, size));
    sent.update([&](std::size_t& value) { value = size; });
  });
  Bench bench;
  bench.block_loop();
  for (std::size_t size = 2000; size < 300'000; size += 4096) {
    const EventLoop::Guest guest(&bench.loop);
    const auto events = std::make_shared<Events>();
    bench.client->start(awaited("DELETE", server.url("/" + std::to_string(size))), events);
    REQUIRE(sent.wait_until([&](std::size_t value) { return value == size; }));
    Uninterrupted uninterrupted;
    REQUIRE(events->wait(&bench.loop, uninterrupted));
    CHECK(events->get().body.size() == size);
  }
}

TEST_CASE("a name is looked up by libcurl; then its address is known") {
  HttpServer server(echo);
  Bench bench;
  const std::string url = "http://localhost:" + std::to_string(server.endpoint().port) + "/";
  CHECK(bench.fetch(awaited("GET", url)).body == "GET / ");
  bench.block_loop();
  CHECK(bench.fetch(awaited("PUT", url, "x")).body == "PUT / x");
  CHECK(server.connections() == 2);
}

TEST_CASE("a connection that is not there at once is waited for, with what is sent over it") {
  testing::FullListener full;
  HttpRequest wanted = awaited("PUT", "http://" + full.endpoint().to_string() + "/", "");
  bool is_guest = false;
  SUBCASE("nothing, by a guest") { is_guest = true; }
  SUBCASE("much, by a guest") {
    is_guest = true;
    wanted.body = text_body(pattern(0, 3 << 20));
  }
  SUBCASE("much, on the loop") { wanted.body = text_body(pattern(0, 3 << 20)); }
  Bench bench;
  if (is_guest) bench.block_loop();
  const EventLoop::Guest guest(is_guest ? &bench.loop : nullptr);
  const std::uint64_t size = wanted.body->size();
  const auto events = std::make_shared<Events>();
  bench.client->start(std::move(wanted), events);
  std::string received;
  std::thread server([&] {
    const testing::Peer peer = full.accept();
    while (!received.ends_with("\r\n\r\n")) {
      const std::string more = peer.receive(1);
      if (more.empty()) return;
      received += more;
    }
    received = peer.receive(static_cast<std::size_t>(size));
    peer.send("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nfine");
  });
  Uninterrupted uninterrupted;
  CHECK(events->wait(is_guest ? &bench.loop : nullptr, uninterrupted));
  server.join();
  CHECK(events->get().body == "fine");
  CHECK((received == pattern(0, size)));
  CHECK(bench.client->open_connections() == 1);
}

TEST_CASE("who is no guest, does not wait, or has said no, is served on the loop") {
  HttpServer server(echo);
  HttpSettings settings;
  bool is_awaited = true;
  bool is_guest = true;
  SUBCASE("no guest") { is_guest = false; }
  SUBCASE("not awaited") { is_awaited = false; }
  SUBCASE("switched off") { settings.direct = false; }
  Bench bench(settings);
  const auto events = std::make_shared<Events>();
  {
    const EventLoop::Guest guest(is_guest ? &bench.loop : nullptr);
    HttpRequest wanted = awaited("GET", server.url("/"));
    wanted.is_awaited = is_awaited;
    bench.client->start(std::move(wanted), events);
  }
  Uninterrupted uninterrupted;
  REQUIRE(events->wait(nullptr, uninterrupted));
  CHECK(events->get().thread != std::this_thread::get_id());
  CHECK(events->get().body == "GET / ");
}

TEST_CASE("an exchange goes on when its guest leaves, or asks the loop for something else") {
  Gate go;
  HttpServer server([&](HttpServer::Exchange& exchange) {
    CHECK(go.wait());
    echo(exchange);
  });
  Bench bench;
  const auto events = std::make_shared<Events>();
  const auto other = std::make_shared<Events>();
  Uninterrupted uninterrupted;
  SUBCASE("leaves") {
    {
      const EventLoop::Guest guest(&bench.loop);
      bench.client->start(awaited("GET", server.url("/x")), events);
    }
    go.open();
    REQUIRE(events->wait(nullptr, uninterrupted));
    CHECK(events->get().thread != std::this_thread::get_id());
  }
  SUBCASE("asks") {
    const EventLoop::Guest guest(&bench.loop);
    bench.client->start(awaited("GET", server.url("/x")), events);
    HttpRequest of_loop = awaited("GET", server.url("/y"));
    of_loop.is_awaited = false;
    bench.client->start(std::move(of_loop), other);
    go.open();
    REQUIRE(other->wait(&bench.loop, uninterrupted));
    REQUIRE(events->wait(&bench.loop, uninterrupted));
    CHECK(other->get().end->failure.ok());
  }
  CHECK(events->get().body == "GET /x ");
  CHECK(bench.fetch(awaited("GET", server.url("/z"))).body == "GET /z ");
}

TEST_CASE("several that a guest waits for are under way at once") {
  Shared<int> arrived;
  HttpServer server([&](HttpServer::Exchange& exchange) {
    arrived.update([](int& value) { ++value; });
    CHECK(arrived.wait_until([](int value) { return value >= 40; }));
    echo(exchange);
  });
  Bench bench;
  bench.block_loop();
  const EventLoop::Guest guest(&bench.loop);
  std::vector<std::shared_ptr<Events>> all;
  for (int i = 0; i < 40; ++i) {
    bench.client->start(awaited("GET", server.url("/" + std::to_string(i))),
                        all.emplace_back(std::make_shared<Events>()));
  }
  Uninterrupted uninterrupted;
  for (int i = 39; i >= 0; --i) {
    REQUIRE(all[static_cast<std::size_t>(i)]->wait(&bench.loop, uninterrupted));
    CHECK(all[static_cast<std::size_t>(i)]->get().body == "GET /" + std::to_string(i) + " ");
  }
}

TEST_CASE("many threads, each with its own exchanges; those that find no room wait on the loop") {
  constexpr std::size_t kConnections = 4;
  Shared<std::pair<int, int>> under_way;  // now, most
  HttpServer server([&](HttpServer::Exchange& exchange) {
    under_way.update([](auto& value) { value.second = std::max(value.second, ++value.first); });
    CHECK(exchange.read_body());
    under_way.update([](auto& value) { --value.first; });
    exchange.respond(200, exchange.request().target + exchange.request().body);
  });
  HttpSettings settings;
  settings.max_connections = kConnections;
  Bench bench(settings);
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 16; ++thread) {
    threads.emplace_back([&, thread] {
      for (int i = 0; i < 50; ++i) {
        const std::string target = "/" + std::to_string(thread) + "/" + std::to_string(i);
        CHECK(bench.fetch(awaited("PUT", server.url(target), "x")).body == target + "x");
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(under_way.get().second <= static_cast<int>(kConnections));
  CHECK(bench.client->open_connections() <= 2 * kConnections);
}

TEST_CASE("a body that is not taken comes again after resume(), on the loop") {
  HttpServer server(
      [](HttpServer::Exchange& exchange) { exchange.respond(200, pattern(0, 1 << 20)); });
  Bench bench;
  std::atomic<HttpClient::ExchangeId> id = 0;
  std::atomic<int> refusals = 0;
  const auto events = std::make_shared<Events>([&](const std::string& event) {
    if (event != "body" || refusals.fetch_add(1) % 3 != 0) return true;
    std::thread([&] { bench.client->resume(id); }).join();
    return false;
  });
  const EventLoop::Guest guest(&bench.loop);
  id = bench.client->start(awaited("GET", server.url("/")), events);
  Uninterrupted uninterrupted;
  REQUIRE(events->wait(&bench.loop, uninterrupted));
  CHECK(events->get().end->failure.ok());
  CHECK((events->get().body == pattern(0, 1 << 20)));
}

TEST_CASE("cancelled by another thread, from within an event, after the wait, with its client") {
  Gate has_come;
  HttpServer server([&](HttpServer::Exchange& exchange) {
    has_come.open();
    if (exchange.request().target == "/answers") return exchange.respond(200, "x");
    CHECK(exchange.wait_until_gone());
  });
  Bench bench;
  Gate gone;
  const auto tell = [&gone] { gone.open(); };
  std::atomic<HttpClient::ExchangeId> id = 0;
  const std::weak_ptr<const HttpBody> body = [&] {
    HttpRequest wanted = awaited("PUT", server.url("/hangs"), "body");
    std::weak_ptr<const HttpBody> kept = wanted.body;
    std::shared_ptr<Events> events;
    std::thread canceller;
    SUBCASE("by another thread") {
      canceller = std::thread([&] {
        REQUIRE(has_come.wait());
        while (id == 0) std::this_thread::yield();  // the request comes before start() returns
        bench.client->cancel(id, tell);
      });
      events = std::make_shared<Events>();
    }
    SUBCASE("within an event") {
      wanted.url = server.url("/answers");
      events = std::make_shared<Events>([&](const std::string& /*event*/) {
        bench.client->cancel(id, tell);
        return true;
      });
    }
    SUBCASE("after the wait, by its own thread") { events = std::make_shared<Events>(); }
    SUBCASE("with its client") {
      canceller = std::thread([&] {
        REQUIRE(has_come.wait());
        bench.client.reset();
        tell();
      });
      events = std::make_shared<Events>();
    }
    {
      const EventLoop::Guest guest(&bench.loop);
      id = bench.client->start(std::move(wanted), events);
      Asking interrupted([&] {
        const bool waits = canceller.joinable() && !gone.is_open();
        return waits ? Status() : Status(StatusCode::kInterrupted, "enough");
      });
      CHECK_FALSE(events->wait(&bench.loop, interrupted));
      if (!canceller.joinable() && !gone.is_open()) bench.client->cancel(id, tell);
    }
    if (canceller.joinable()) canceller.join();
    CHECK(gone.wait());
    CHECK_FALSE(events->get().end.has_value());
    return kept;
  }();
  testing::drain(bench.loop);
  CHECK(body.expired());
}

TEST_CASE("one that is cancelled while it begins does not wait for its response") {
  struct Owner final : DirectExchange::Owner {
    void direct_ended(HttpClient::ExchangeId, const std::string&, Socket) noexcept override {}
    bool direct_fails(DirectExchange&) noexcept override { return false; }
  };
  Gate go;
  HttpServer server([&](HttpServer::Exchange&) { CHECK(go.wait()); });
  const std::string authority = http_authority(server.url("/"));
  EpollLoop loop{steady_clock()};
  DirectConnections connections(milliseconds(1000), 1);
  std::optional<DirectConnections::Taken> taken =
      connections.take(authority, true, loop.clock().now());
  REQUIRE(taken.has_value());
  const auto exchange = std::make_shared<DirectExchange>(
      std::make_shared<Owner>(), loop, 1, authority, awaited("GET", server.url("/")),
      std::make_shared<Events>(), "GET / HTTP/1.1\r\n\r\n");
  Gate is_done;
  std::function<void()> done = [&] { is_done.open(); };
  CHECK(exchange->cancel(done));
  CHECK(exchange->begin(*taken, loop.clock().now()));
  CHECK(testing::wait_readable(exchange->wanted().descriptor));
  exchange->carry_on();
  CHECK(exchange->wanted().descriptor < 0);
  CHECK(is_done.wait());
  go.open();
}

TEST_CASE("a guest that forks in its wait: the child leaves the exchange to its parent") {
  Gate go;
  HttpServer server([&](HttpServer::Exchange& exchange) {
    CHECK(go.wait());
    echo(exchange);
  });
  static_cast<void>(Process::current());  // counts forks from here on
  Bench bench;
  const auto events = std::make_shared<Events>();
  pid_t child = 0;
  {
    const EventLoop::Guest guest(&bench.loop);
    bench.client->start(awaited("GET", server.url("/x")), events);
    Asking forks([&] {
      if (child != 0) return Status();
      std::cout << std::flush;  // or the child would write it too
      child = ::fork();
      REQUIRE(child >= 0);
      if (child == 0) return Status(StatusCode::kInterrupted, "the child");
      go.open();
      return Status();
    });
    const bool has_ended = events->wait(&bench.loop, forks);
    CHECK((has_ended || child == 0));
    if (child == 0) child = -1;
  }
  if (child == -1) ::_exit(events->get().end.has_value() ? 1 : 0);
  int status = -1;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
  CHECK(events->get().body == "GET /x ");
}

TEST_CASE("connections: the last one first, none that is old, closed or too many") {
  testing::Listener listener;
  const std::string authority = listener.endpoint().to_string();
  const TimePoint now = steady_clock().now();
  DirectConnections connections(milliseconds(1000), 2);
  std::vector<testing::Peer> peers;
  std::vector<DirectConnections::Taken> taken;
  for (int i = 0; i < 3; ++i) {
    std::optional<DirectConnections::Taken> one = connections.take(authority, false, now);
    REQUIRE(one.has_value());
    CHECK_FALSE(one->was_used);
    taken.push_back(*std::move(one));
    peers.push_back(listener.accept());
  }
  for (int i = 0; i < 3; ++i) {
    connections.give_back(authority, std::move(taken[static_cast<std::size_t>(i)].socket),
                          now + milliseconds(i));
  }
  CHECK(connections.count() == 2);
  CHECK(peers[2].ends());  // too many

  std::optional<DirectConnections::Taken> last = connections.take(authority, false, now);
  REQUIRE(last.has_value());
  CHECK(last->was_used);
  peers[1].send("x");
  std::byte byte{};
  CHECK(testing::wait_readable(last->socket.descriptor()));
  CHECK(last->socket.receive_some(MutableByteView(&byte, 1)) == 1);
  connections.give_back(authority, std::move(last->socket), now + milliseconds(5));

  // One that has sent what nobody asked for, and one that has closed.
  peers[1].send("x");
  peers[0].close();
  std::optional<DirectConnections::Taken> other = connections.take(authority, false, now);
  REQUIRE(other.has_value());
  CHECK_FALSE(other->was_used);
  CHECK(connections.count() == 0);
  peers.push_back(listener.accept());
  connections.give_back(authority, std::move(other->socket), now);

  CHECK_FALSE(connections.take(authority, true, now)->was_used);
  CHECK_FALSE(connections.take(authority, false, now + milliseconds(1000))->was_used);
  CHECK(peers.back().ends());  // too old
  CHECK_FALSE(connections.take("name:80", false, now).has_value());
  connections.close_all();
  CHECK(connections.count() == 0);
}

}  // namespace
}  // namespace hflush::env
