// HTTP exchanges against a server that does what a script says: what goes out, what comes back, and
// what is left when either side breaks off.
#include "hflush/env/http_client.h"

#include <doctest/doctest.h>
#include <signal.h>
#include <sys/wait.h>

#include <algorithm>
#include <atomic>
#include <cstdarg>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <optional>
#include <set>
#include <thread>

#include "env/http_server.h"
#include "env/names.h"
#include "hflush/env/answer.h"
#include "hflush/env/curl_library.h"
#include "hflush/env/epoll_loop.h"
#include "hflush/env/http_exchange.h"
#include "hflush/env/interrupt.h"
#include "hflush/env/process.h"
#include "testing/no_descriptors.h"

namespace hflush::env {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::drain;
using testing::Gate;
using testing::HangingLookups;
using testing::HttpServer;
using testing::kPatience;
using testing::lookups;
using testing::Lookups;
using testing::pattern;
using testing::Shared;

#if defined(__SANITIZE_THREAD__)
constexpr bool kThreadSanitizer = true;  // starts no threads in the child of a process with threads
#else
constexpr bool kThreadSanitizer = false;
#endif

const std::string kHangs = std::string("http://") + testing::kHangs + "/";

constexpr std::size_t kMiB = std::size_t{1} << 20U;

// What the test has the server say next.
class Said {
 public:
  Said& operator=(std::string text) {
    text_.update([&](std::string& value) { value = std::move(text); });
    return *this;
  }
  std::string get() { return text_.get(); }

 private:
  Shared<std::string> text_;
};

std::string times(const std::string& line, int count) {
  std::string text;
  for (int i = 0; i < count; ++i) text += line;
  return text;
}

// Fails, or ends too early, from an offset on; gives little at a time before it.
class BrokenBody final : public HttpBody {
 public:
  BrokenBody(std::uint64_t size, std::uint64_t good, std::ptrdiff_t then)
      : size_(size), good_(good), then_(then) {}
  std::uint64_t size() const noexcept override { return size_; }
  std::ptrdiff_t read_at(std::uint64_t offset, MutableByteView out) const noexcept override {
    if (offset >= good_) return then_;
    const std::size_t count = std::min<std::size_t>({out.size(), 999, good_ - offset});
    std::memset(out.data(), 'b', count);
    return static_cast<std::ptrdiff_t>(count);
  }

 private:
  const std::uint64_t size_;
  const std::uint64_t good_;
  const std::ptrdiff_t then_;
};

HttpSettings without_proxy() {
  HttpSettings settings;
  settings.no_proxy = "*";
  return settings;
}

HttpRequest request(std::string method, std::string url,
                    std::shared_ptr<const HttpBody> body = {}) {
  HttpRequest made;
  made.method = std::move(method);
  made.url = std::move(url);
  made.body = std::move(body);
  return made;
}

// What an exchange tells, in order; `act` answers on_body, and may do things at each event.
class Recorder final : public HttpEvents {
 public:
  struct Told {
    std::vector<std::string> events;  // "head", "body" once, "end"
    HttpHead head;
    std::string body;
    std::optional<HttpEnd> end;
  };
  explicit Recorder(std::function<bool(const std::string& event)> act = {})
      : act_(std::move(act)) {}

  void on_head(HttpHead head) override {
    told.update([&](Told& value) {
      value.events.emplace_back("head");
      value.head = std::move(head);
    });
    if (act_) act_("head");
  }
  bool on_body(ByteView bytes) override {
    if (act_ && !act_("body")) return false;
    told.update([&](Told& value) {
      if (value.events.back() != "body") value.events.emplace_back("body");
      value.body.append(as_text(bytes));
    });
    return true;
  }
  void on_end(HttpEnd end) override {
    told.update([&](Told& value) {
      value.events.emplace_back("end");
      value.end = std::move(end);
    });
    if (act_) act_("end");
  }
  bool wait_for(const std::string& event) {
    return told.wait_until([&](const Told& value) {
      return std::find(value.events.begin(), value.events.end(), event) != value.events.end();
    });
  }
  bool wait_for_end() { return wait_for("end"); }

  Shared<Told> told;

 private:
  const std::function<bool(const std::string& event)> act_;
};

// A response as a whole, of `max_bytes` at most.
class Collector final : public HttpEvents {
 public:
  using Done = std::function<void(HttpResult)>;
  explicit Collector(Done done) : done_(std::move(done)) {}
  void on_head(HttpHead head) override { result_.head = std::move(head); }
  bool on_body(ByteView bytes) override {
    result_.body.append(as_text(bytes));
    return true;
  }
  void on_end(HttpEnd end) override {
    result_.end = std::move(end);
    done_(std::move(result_));
  }

 private:
  const Done done_;
  HttpResult result_;
};

void fetch(HttpClient& client, HttpRequest wanted, std::size_t max_bytes, Collector::Done done) {
  wanted.max_response_bytes = max_bytes;
  client.start(std::move(wanted), std::make_shared<Collector>(std::move(done)));
}

// Small requests go two ways, bodies in memory three: what holds for one holds for the others.
enum class Way { kLibcurl, kByGuest, kByLoop };

Way small_way() {
  Way way = Way::kLibcurl;
  SUBCASE("over libcurl, on the loop") {}
  SUBCASE("directly, by the thread that waits") { way = Way::kByGuest; }
  return way;
}

Way loop_way() {
  Way way = Way::kByLoop;
  SUBCASE("over libcurl") { way = Way::kLibcurl; }
  SUBCASE("directly") {}
  return way;
}

Way large_way() {
  Way way = Way::kByLoop;
  SUBCASE("over libcurl, on the loop") { way = Way::kLibcurl; }
  SUBCASE("directly, by the thread that waits") { way = Way::kByGuest; }
  SUBCASE("directly, on the loop") {}
  return way;
}

// A loop with a client on it, and a way to wait for a whole response.
struct Bench {
  explicit Bench(HttpSettings settings = {}) : Bench(Way::kByLoop, std::move(settings)) {}
  explicit Bench(Way way, HttpSettings settings = {}) : is_guest(way == Way::kByGuest) {
    settings.direct = way != Way::kLibcurl;
    // Whatever the environment of the tests says.
    if (settings.proxy.empty() && settings.no_proxy.empty()) settings.no_proxy = "*";
    if (settings.user_agent.empty()) settings.user_agent = "hflush-test";
    Result<std::shared_ptr<HttpClient>> made = HttpClient::make(loop, std::move(settings));
    REQUIRE_MESSAGE(made.ok(), made.status().message());
    client = *std::move(made);
  }

  HttpResult fetch(HttpRequest wanted, std::size_t max_bytes = 64 * kMiB) {
    if (is_guest) return fetch_as_guest(std::move(wanted), max_bytes);
    auto done = std::make_shared<Shared<std::optional<HttpResult>>>();
    env::fetch(*client, std::move(wanted), max_bytes, [done](HttpResult result) {
      done->update([&](auto& value) { value = std::move(result); });
    });
    REQUIRE(done->wait_until([](const auto& value) { return value.has_value(); }));
    return *done->get();
  }
  HttpResult fetch_as_guest(HttpRequest wanted, std::size_t max_bytes) {
    const EventLoop::Guest guest(&loop);
    auto answer = std::make_shared<Answer<HttpResult>>();
    wanted.is_awaited = true;
    env::fetch(*client, std::move(wanted), max_bytes,
               [answer](HttpResult result) { answer->set(std::move(result)); });
    Uninterrupted uninterrupted;
    REQUIRE(answer->wait(uninterrupted, &loop, steady_clock().now() + kPatience).ok());
    return answer->take();
  }
  std::shared_ptr<Recorder> start(HttpRequest wanted, HttpClient::ExchangeId* id = nullptr,
                                  std::function<bool(const std::string&)> act = {}) {
    auto recorder = std::make_shared<Recorder>(std::move(act));
    const HttpClient::ExchangeId started = client->start(std::move(wanted), recorder);
    if (id != nullptr) *id = started;
    return recorder;
  }
  // Cancels, and waits until the exchange is out of the network.
  void cancel(HttpClient::ExchangeId exchange) {
    auto gone = std::make_shared<Gate>();
    client->cancel(exchange, [gone] { gone->open(); });
    REQUIRE(gone->wait());
  }

  EpollLoop loop{steady_clock()};
  std::shared_ptr<HttpClient> client;
  const bool is_guest;  // that waits for what it fetches
};

void echo(HttpServer::Exchange& exchange) {
  if (exchange.read_body()) exchange.respond(200, exchange.request().body);
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// A failure names the server.
void check_failure(const HttpEnd& end, const Endpoint& endpoint, int error_number,
                   bool may_be_executed) {
  CHECK_FALSE(end.failure.ok());
  CHECK_MESSAGE(end.failure.error_number() == error_number, end.failure.message());
  CHECK_MESSAGE(has(end.failure.message(), endpoint.to_string()), end.failure.message());
  CHECK_MESSAGE(end.may_be_executed == may_be_executed, end.failure.message());
}

std::set<std::string> names_of(const HttpServer::Request& request) {
  std::set<std::string> names;
  for (const HttpHeader& header : request.headers) names.insert(header.name);
  CHECK(names.size() == request.headers.size());
  return names;
}

// --- what goes out

TEST_CASE("a request is what it says, and the response what was sent") {
  HttpServer server([](HttpServer::Exchange& exchange) {
    exchange.respond(207, "some bytes", {{"ETag", "\"x\""}, {"X-A", "1"}, {"x-a", "2"}});
  });
  Bench bench(small_way());
  HttpRequest wanted = request("GET", server.url("/b/a/../b/./c//d%2f%2F?x=&y=%20~"));
  wanted.headers = {{"X-Amz-Date", "now"}, {"x-empty", ""}, {"Accept", "text/*"}};
  const HttpResult result = bench.fetch(wanted);
  CHECK(result.end.failure.ok());
  CHECK(result.head.status == 207);
  CHECK(result.head.header("etag") == "\"x\"");
  CHECK(result.head.header("x-a") == "1");
  CHECK(result.head.headers.size() == 4);
  CHECK(result.body == "some bytes");

  REQUIRE(server.wait_for_requests(1));
  const HttpServer::Request seen = server.requests()[0];
  CHECK(seen.method == "GET");
  CHECK(seen.target == "/b/a/../b/./c//d%2f%2F?x=&y=%20~");
  CHECK(names_of(seen) ==
        std::set<std::string>{"host", "user-agent", "x-amz-date", "x-empty", "accept"});
  CHECK(seen.header("host") == server.endpoint().to_string());
  CHECK(seen.header("user-agent") == "hflush-test");
  CHECK(seen.header("x-amz-date") == "now");
  CHECK(seen.header("x-empty").empty());
  CHECK(seen.header("accept") == "text/*");
}

TEST_CASE("no header is added but host, user-agent and the length, whatever the method") {
  HttpServer server(echo);
  Bench bench(small_way());
  const std::set<std::string> bare{"host", "user-agent"};
  const std::set<std::string> with_length{"content-length", "host", "user-agent"};
  std::vector<std::set<std::string>> expected;
  const auto send = [&](const std::string& method, std::shared_ptr<const HttpBody> body,
                        const std::set<std::string>& names) {
    const HttpResult result = bench.fetch(request(method, server.url("/k"), std::move(body)));
    CHECK(result.end.failure.ok());
    CHECK(result.head.status == 200);
    expected.push_back(names);
  };
  for (const char* method : {"GET", "HEAD", "DELETE"}) send(method, {}, bare);
  for (const char* method : {"PUT", "POST"}) {
    send(method, {}, with_length);
    for (const std::size_t size : {std::size_t{0}, std::size_t{1}, std::size_t{64 * 1024 - 1},
                                   std::size_t{64 * 1024}, std::size_t{64 * 1024 + 1}, 2 * kMiB}) {
      send(method, text_body(pattern(size, size)), with_length);
    }
  }
  REQUIRE(server.wait_for_requests(expected.size()));
  const auto requests = server.requests();
  for (std::size_t i = 0; i < expected.size(); ++i) CHECK(names_of(requests[i]) == expected[i]);
  CHECK(requests[3].content_length() == 0);
  CHECK(requests[5].body == pattern(1, 1));
  CHECK(requests[9].content_length() == 2 * kMiB);
  CHECK(server.connections() == 1);
}

TEST_CASE("a request that cannot be one fails, and nothing is sent") {
  HttpServer server(echo);
  Bench bench(small_way());
  std::vector<HttpRequest> bad;
  for (const std::string& url :
       {std::string("ftp://127.0.0.1/x"), std::string("file:///etc/hostname"), std::string(),
        server.url("/a b"), server.url("/a\r\nX: 1"), std::string("http://127.0.0.1:99999/")}) {
    bad.push_back(request("GET", url));
  }
  for (const std::string& method :
       {std::string(), std::string("GET / HTTP/1.1\r\nX: 1\r\n\r\nGET")}) {
    bad.push_back(request(method, server.url("/")));
  }
  for (const HttpHeader& header :
       {HttpHeader{"", "v"}, HttpHeader{"A\r\nB", "v"}, HttpHeader{"A", "v\r\nB: w"},
        HttpHeader{"A", std::string(1, '\0')}, HttpHeader{"A:", "v"}}) {
    bad.push_back(request("GET", server.url("/")));
    bad.back().headers = {header};
  }
  for (const HttpRequest& wanted : bad) {
    const HttpResult result = bench.fetch(wanted);
    CHECK(result.end.failure.code() == StatusCode::kInvalidArgument);
    CHECK_FALSE(result.end.may_be_executed);
    CHECK(result.head.status == 0);
  }
  CHECK(server.connections() == 0);
  CHECK(bench.fetch(request("GET", server.url("/"))).end.failure.ok());
}

// --- connections

TEST_CASE("connections are reused, but for requests that want their own") {
  HttpServer server(echo);
  Bench bench(small_way());
  for (int i = 0; i < 10; ++i) {
    CHECK(bench.fetch(request("PUT", server.url("/k"), text_body("x"))).body == "x");
  }
  CHECK(server.connections() == 1);
  CHECK(bench.client->open_connections() == 1);
  HttpRequest fresh = request("POST", server.url("/k"), text_body("y"));
  fresh.fresh_connection = true;
  CHECK(bench.fetch(fresh).body == "y");
  CHECK(server.connections() == 2);
  CHECK(bench.client->open_connections() == 2);
  CHECK(bench.fetch(request("GET", server.url("/k"))).end.failure.ok());
  CHECK(server.connections() == 2);
}

TEST_CASE("idle connections are closed when they are too old, though nothing is asked for") {
  HttpServer server(echo);
  HttpSettings settings;
  settings.idle_timeout = milliseconds(20);
  Bench bench(small_way(), settings);
  for (int i = 0; i < 2; ++i) {
    CHECK(bench.fetch(request("PUT", server.url("/k"), text_body("x"))).body == "x");
    const TimePoint deadline = steady_clock().now() + kPatience;
    while (bench.client->open_connections() > 0 && steady_clock().now() < deadline) {
      drain(bench.loop);
    }
    CHECK(bench.client->open_connections() == 0);
  }
  CHECK(server.connections() == 2);
}

TEST_CASE("a connection that the server closes between two requests is not used again") {
  HttpServer server([](HttpServer::Exchange& exchange) {
    exchange.respond(200, "x");
    exchange.close();
  });
  Bench bench(small_way());
  for (std::size_t i = 1; i <= 20; ++i) {
    const HttpResult result = bench.fetch(request("PUT", server.url("/k"), text_body("x")));
    CHECK(result.end.failure.ok());
    REQUIRE(server.wait_for_requests(i));
  }
  CHECK(server.connections() == 20);
}

TEST_CASE("many exchanges at once, no more than allowed at a time, in the order of their start") {
  constexpr std::size_t kExchanges = 60;
  constexpr std::size_t kConnections = 4;
  Shared<std::pair<std::size_t, std::size_t>> under_way;  // now, most
  Shared<std::vector<std::string>> begun;
  Shared<bool> go;
  HttpServer server([&](HttpServer::Exchange& exchange) {
    under_way.update([](auto& value) { value.second = std::max(value.second, ++value.first); });
    begun.update([&](auto& targets) { targets.push_back(exchange.request().target); });
    static_cast<void>(go.wait_until([](bool value) { return value; }));
    under_way.update([](auto& value) { --value.first; });
    echo(exchange);
  });
  HttpSettings settings;
  settings.max_connections = kConnections;
  Bench bench(settings);
  std::vector<std::shared_ptr<Recorder>> recorders;
  for (std::size_t i = 0; i < kExchanges; ++i) {
    recorders.push_back(bench.start(
        request("PUT", server.url("/" + std::to_string(i)), text_body(pattern(i, 100 * i)))));
  }
  REQUIRE(under_way.wait_until([](const auto& value) { return value.first == kConnections; }));
  drain(bench.loop);
  go.update([](bool& value) { value = true; });
  for (std::size_t i = 0; i < kExchanges; ++i) {
    REQUIRE(recorders[i]->wait_for_end());
    const Recorder::Told told = recorders[i]->told.get();
    CHECK(told.end->failure.ok());
    CHECK(told.body == pattern(i, 100 * i));
  }
  CHECK(under_way.get().second == kConnections);
  CHECK(server.connections() == kConnections);
  // Each was sent when one of the kConnections before it had ended.
  const std::vector<std::string> targets = begun.get();
  REQUIRE(targets.size() == kExchanges);
  for (std::size_t i = 0; i < kExchanges; ++i) {
    CHECK(static_cast<std::size_t>(std::stoi(targets[i].substr(1))) < i + kConnections);
  }
}

// --- uploads

TEST_CASE("an upload of 20 MiB arrives, byte for byte, several at once") {
  HttpServer server([](HttpServer::Exchange& exchange) {
    if (exchange.read_body()) exchange.respond(200);
  });
  Bench bench(loop_way());
  std::vector<std::shared_ptr<Recorder>> recorders;
  for (std::size_t i = 0; i < 3; ++i) {
    HttpRequest wanted = request(i == 1 ? "POST" : "PUT", server.url("/" + std::to_string(i)),
                                 text_body(pattern(i, 20 * kMiB)));
    recorders.push_back(bench.start(wanted));
  }
  for (const auto& recorder : recorders) {
    REQUIRE(recorder->wait_for_end());
    CHECK(recorder->told.get().end->failure.ok());
  }
  REQUIRE(server.wait_for_requests(3));
  for (const HttpServer::Request& seen : server.requests()) {
    const auto i = static_cast<std::size_t>(std::stoi(seen.target.substr(1)));
    CHECK((seen.body == pattern(i, 20 * kMiB)));
    CHECK(seen.method == (i == 1 ? "POST" : "PUT"));
    CHECK(names_of(seen) == std::set<std::string>{"content-length", "host", "user-agent"});
  }
}

void ask_first(Way way) {
  HttpRequest wanted = request("PUT", "", text_body(pattern(0, 3 * kMiB)));
  wanted.expect_continue = true;
  Bench bench(way);

  SUBCASE("told to go on") {
    std::atomic<std::size_t> before = 1;
    HttpServer server([&](HttpServer::Exchange& exchange) {
      before = exchange.request().body.size();
      exchange.respond_continue();
      if (exchange.read_body()) exchange.respond(200, "fine");
    });
    wanted.url = server.url("/");
    const HttpResult result = bench.fetch(wanted);
    CHECK(result.end.failure.ok());
    CHECK(result.head.status == 200);
    CHECK(result.body == "fine");
    REQUIRE(server.wait_for_requests(1));
    CHECK(server.requests()[0].header("expect") == "100-continue");
    CHECK((server.requests()[0].body == pattern(0, 3 * kMiB)));
  }
  SUBCASE("refused") {
    HttpServer server([](HttpServer::Exchange& exchange) {
      exchange.respond(403, "no");
      CHECK(exchange.wait_until_gone());
    });
    wanted.url = server.url("/");
    const HttpResult result = bench.fetch(wanted);
    CHECK(result.end.failure.ok());
    CHECK(result.head.status == 403);
    CHECK(result.body == "no");
    REQUIRE(server.wait_for_requests(1));
    CHECK(server.requests()[0].body.empty());
  }
  SUBCASE("ignored") {
    HttpServer server([](HttpServer::Exchange& exchange) { echo(exchange); });
    wanted.url = server.url("/");
    const TimePoint start = steady_clock().now();
    const HttpResult result = bench.fetch(wanted);
    CHECK(result.end.failure.ok());
    CHECK((result.body == pattern(0, 3 * kMiB)));
    CHECK(steady_clock().now() - start >= milliseconds(190));
  }
  SUBCASE("not understood, by a server that closes the connection") {
    HttpServer server([](HttpServer::Exchange& exchange) {
      exchange.respond(417, "what?", {{"Connection", "close"}});
      CHECK(exchange.wait_until_gone());  // else a reset may overtake the answer
    });
    wanted.url = server.url("/");
    const HttpResult result = bench.fetch(wanted);
    CHECK(result.end.failure.ok());
    CHECK(result.head.status == 417);
    CHECK(result.body == "what?");
  }
  SUBCASE("not understood") {
    HttpServer server([](HttpServer::Exchange& exchange) {
      if (!exchange.request().header("expect").empty()) {
        exchange.respond(417, "what?");
        exchange.expect_no_body();
        return;
      }
      echo(exchange);
    });
    wanted.url = server.url("/");
    const auto recorder = bench.start(wanted);
    REQUIRE(recorder->wait_for_end());
    const Recorder::Told told = recorder->told.get();
    CHECK(told.end->failure.ok());
    CHECK(told.head.status == 200);
    CHECK((told.body == pattern(0, 3 * kMiB)));
    CHECK(told.events == std::vector<std::string>{"head", "body", "end"});
  }
}

TEST_CASE("a body that asks first: told to go on, refused, ignored, not understood; over libcurl") {
  ask_first(Way::kLibcurl);
}

TEST_CASE("a body that asks first: told to go on, refused, ignored, not understood; directly") {
  ask_first(Way::kByLoop);
}

TEST_CASE("a body that asks first: told to go on, refused, ignored, not understood; by a guest") {
  ask_first(Way::kByGuest);
}

TEST_CASE("an answer before the end of the body ends the exchange with that answer") {
  HttpServer server([](HttpServer::Exchange& exchange) {
    CHECK(exchange.read_body(kMiB));
    exchange.respond(403, "denied");
    CHECK(exchange.wait_until_gone());
  });
  Bench bench(large_way());
  const HttpResult result =
      bench.fetch(request("PUT", server.url("/"), text_body(pattern(0, 40 * kMiB))));
  CHECK(result.end.failure.ok());
  CHECK(result.head.status == 403);
  CHECK(result.body == "denied");
}

TEST_CASE("success before the end of the body is none") {
  const Way way = large_way();
  HttpServer server([way](HttpServer::Exchange& exchange) {
    CHECK(exchange.read_body(kMiB));
    exchange.respond(200, "done");
    if (way == Way::kLibcurl) {  // which goes on sending
      exchange.close();
    } else {
      CHECK(exchange.wait_until_gone());
    }
  });
  Bench bench(way);
  const HttpEnd end =
      bench.fetch(request("PUT", server.url("/"), text_body(pattern(0, 40 * kMiB)))).end;
  CHECK_FALSE(end.failure.ok());
  CHECK_FALSE(end.may_be_executed);
}

TEST_CASE("success before the end of the body is none where the connection is to be closed") {
  HttpServer server([](HttpServer::Exchange& exchange) {
    CHECK(exchange.read_body(kMiB));
    exchange.respond(200, "done", {{"Connection", "close"}});
    CHECK(exchange.wait_until_gone());
  });
  Bench bench(large_way());
  const HttpEnd end =
      bench.fetch(request("PUT", server.url("/"), text_body(pattern(0, 40 * kMiB)))).end;
  check_failure(end, server.endpoint(), EPROTO, false);
  CHECK(has(end.failure.message(), "it came before all of the request was sent"));
}

TEST_CASE("a body that cannot be read fails the request, which is not whole then") {
  HttpServer server(echo);
  Bench bench(small_way());
  for (const std::uint64_t size : {std::uint64_t{2000}, std::uint64_t{3 * kMiB}}) {
    const auto failed = std::make_shared<BrokenBody>(size, 1500, -ENOSPC);
    check_failure(bench.fetch(request("PUT", server.url("/"), failed)).end, server.endpoint(),
                  ENOSPC, false);
    const auto shorter = std::make_shared<BrokenBody>(size, 1500, 0);
    check_failure(bench.fetch(request("PUT", server.url("/"), shorter)).end, server.endpoint(), EIO,
                  false);
    const auto slow = std::make_shared<BrokenBody>(size, size, 0);
    const HttpResult result = bench.fetch(request("PUT", server.url("/"), slow));
    CHECK((result.body == std::string(size, 'b')));
  }
}

TEST_CASE("a body is read as a whole, however little comes at a time") {
  std::string bytes(5000, 'a');
  const MutableByteView all = std::as_writable_bytes(std::span(bytes));
  CHECK(read_fully(BrokenBody(6000, 6000, 0), 1000, all) == 0);
  CHECK((bytes == std::string(5000, 'b')));
  CHECK(read_fully(BrokenBody(5000, 4000, 0), 0, all) == EIO);
  CHECK(read_fully(BrokenBody(5000, 4000, -ENOSPC), 0, all) == ENOSPC);
  CHECK(read_fully(BrokenBody(0, 0, 0), 0, {}) == 0);
}

// --- what breaks

TEST_CASE("a connection that is reset: whether the request may be executed") {
  std::atomic<std::size_t> read = 0;
  std::atomic<bool> ends = false;
  HttpServer server([&](HttpServer::Exchange& exchange) {
    CHECK(exchange.read_body(read));
    if (ends) {
      exchange.close();
    } else {
      exchange.reset();
    }
  });
  Bench bench(large_way());
  const auto check = [&](HttpRequest wanted, bool may_be_executed) {
    const HttpResult result = bench.fetch(std::move(wanted));
    CHECK(result.head.status == 0);
    CHECK(result.end.failure.code() == StatusCode::kIo);
    const int error_number = result.end.failure.error_number();
    CHECK_MESSAGE((error_number == ECONNRESET || error_number == EPIPE), error_number);
    check_failure(result.end, server.endpoint(), error_number, may_be_executed);
  };
  for (const bool properly : {false, true}) {
    ends = properly;
    read = 0;
    check(request("GET", server.url("/")), true);
    // More than the system's buffers take.
    check(request("PUT", server.url("/"), text_body(pattern(0, 40 * kMiB))), false);
    read = kMiB;
    check(request("PUT", server.url("/"), text_body(pattern(0, 40 * kMiB))), false);
    read = 40 * kMiB;
    check(request("PUT", server.url("/"), text_body(pattern(0, 40 * kMiB))), true);
    read = 10;
    check(request("POST", server.url("/"), text_body("0123456789")), true);
  }
  CHECK(server.connections() == 10);  // nothing was sent twice
}

TEST_CASE("a reused connection that dies: another one is tried, unless it was to be a fresh one") {
  std::atomic<int> answers = 0;
  HttpServer server([&](HttpServer::Exchange& exchange) {
    if (exchange.request().target == "/good") return echo(exchange);
    CHECK(exchange.read_body());
    exchange.reset();
  });
  Bench bench(small_way());
  CHECK(bench.fetch(request("GET", server.url("/good"))).end.failure.ok());
  HttpRequest wanted = request("POST", server.url("/bad"), text_body("x"));
  wanted.fresh_connection = true;
  check_failure(bench.fetch(wanted).end, server.endpoint(), ECONNRESET, true);
  REQUIRE(server.wait_for_requests(2));
  CHECK(server.connections() == 2);

  wanted.fresh_connection = false;
  const HttpResult result = bench.fetch(wanted);
  CHECK_FALSE(result.end.failure.ok());
  CHECK(result.end.may_be_executed);
  REQUIRE(server.wait_for_requests(4));
  CHECK(server.connections() == 3);
  CHECK(answers == 0);
}

TEST_CASE("a response that is cut off is a failure, with what had come before") {
  Said text;
  HttpServer server([&](HttpServer::Exchange& exchange) {
    exchange.send(text.get());
    exchange.close();
  });
  Bench bench(small_way());
  struct Case {
    const char* text;
    int status;
    const char* body;
  };
  for (const Case& cut :
       {Case{"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n01234", 200, "01234"},
        Case{"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n", 200, ""},
        Case{"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n01234\r\n", 200, "01234"},
        Case{"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n012", 200, "012"}}) {
    text = cut.text;
    HttpRequest wanted = request("GET", server.url("/"));
    wanted.fresh_connection = true;
    const HttpResult result = bench.fetch(wanted);
    CHECK(result.head.status == cut.status);
    CHECK(result.body == cut.body);
    check_failure(result.end, server.endpoint(), ECONNRESET, true);
  }
  for (const char* cut : {"HTTP/1.1 200 OK\r\nContent-Le", "HTTP/1.1 2"}) {
    text = cut;
    const HttpResult result = bench.fetch(request("GET", server.url("/")));
    CHECK_FALSE(result.end.failure.ok());
    CHECK(result.head.status == 0);
    CHECK(result.end.may_be_executed);
  }
}

TEST_CASE("responses in every form") {
  Said text;
  HttpServer server([&](HttpServer::Exchange& exchange) {
    exchange.send(text.get());
    if (!has(text.get(), "Content-Length") && !has(text.get(), "chunked")) exchange.close();
  });
  Bench bench(small_way());
  text =
      "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X\r\n\r\n"
      "5;name=value\r\n01234\r\n1\r\n5\r\n0\r\nX: trailer\r\n\r\n";
  HttpResult result = bench.fetch(request("GET", server.url("/")));
  CHECK(result.end.failure.ok());
  CHECK(result.body == "012345");
  CHECK(result.head.header("x").empty());

  text = "HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n\r\n";
  result = bench.fetch(request("DELETE", server.url("/")));
  CHECK(result.end.failure.ok());
  CHECK(result.head.status == 204);

  text =
      "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 102 Processing\r\n\r\n"
      "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx";
  result = bench.fetch(request("GET", server.url("/")));
  CHECK(result.head.status == 200);
  CHECK(result.body == "x");

  text = "HTTP/1.1 307 Elsewhere\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 2\r\n\r\nno";
  result = bench.fetch(request("GET", server.url("/")));
  CHECK(result.end.failure.ok());
  CHECK(result.head.status == 307);
  CHECK(result.head.header("location") == "http://127.0.0.1:1/");
  CHECK(result.body == "no");

  text = "HTTP/1.1 401 Who\r\nWWW-Authenticate: Basic\r\nContent-Length: 2\r\n\r\nno";
  CHECK(bench.fetch(request("GET", server.url("/"))).head.status == 401);
  CHECK(server.connections() == 1);

  text = "HTTP/1.0 200 OK\r\n\r\nuntil the end";
  result = bench.fetch(request("GET", server.url("/")));
  CHECK(result.end.failure.ok());
  CHECK(result.body == "until the end");

  text = "nonsense\r\n\r\n";
  result = bench.fetch(request("GET", server.url("/")));
  check_failure(result.end, server.endpoint(), EPROTO, true);
}

TEST_CASE("heads and bodies that are too long are failures") {
  Said status;
  status = "HTTP/1.1 200 OK\r\n";
  Said extra;
  HttpServer server([&](HttpServer::Exchange& exchange) {
    exchange.send(status.get() + extra.get() + "Content-Length: 1000\r\n\r\n" +
                  std::string(1000, 'x'));
  });
  Bench bench(small_way());
  const std::string line = "X: " + std::string(995, 'x') + "\r\n";
  extra = extra.get() + times(line, 250);
  HttpResult result = bench.fetch(request("GET", server.url("/")));
  CHECK(result.end.failure.ok());
  CHECK(result.head.headers.size() == 251);
  extra = extra.get() + times(line, 50);
  result = bench.fetch(request("GET", server.url("/")));
  check_failure(result.end, server.endpoint(), EMSGSIZE, true);
  CHECK(result.head.status == 0);
  extra = "X: " + std::string(200'000, 'x') + "\r\n";
  result = bench.fetch(request("GET", server.url("/")));
  CHECK_FALSE(result.end.failure.ok());
  CHECK(result.head.status == 0);

  extra = "";
  CHECK(bench.fetch(request("GET", server.url("/")), 1000).end.failure.ok());
  result = bench.fetch(request("GET", server.url("/")), 999);
  check_failure(result.end, server.endpoint(), EMSGSIZE, true);
  CHECK(result.head.status == 200);
  CHECK(result.body.size() <= 999);
  CHECK(bench.fetch(request("HEAD", server.url("/")), 0).end.failure.ok());

  HttpRequest wanted = request("GET", server.url("/"));
  wanted.max_error_bytes = 999;
  CHECK(bench.fetch(wanted).end.failure.ok());
  status = "HTTP/1.1 403 No\r\n";
  result = bench.fetch(wanted);
  check_failure(result.end, server.endpoint(), EMSGSIZE, true);
  CHECK(result.head.status == 403);
  wanted.max_error_bytes = 1000;
  CHECK(bench.fetch(wanted).end.failure.ok());
}

TEST_CASE("nobody listens; nobody answers; nobody of that name; no tls") {
  Bench bench(small_way());
  const testing::DeafPort closed;
  HttpResult result = bench.fetch(request("GET", "http://" + closed.endpoint().to_string() + "/"));
  check_failure(result.end, closed.endpoint(), ECONNREFUSED, false);
  CHECK(has(result.end.failure.message(), "connect to"));

  const testing::FullListener full;
  HttpRequest wanted =
      request("PUT", "http://" + full.endpoint().to_string() + "/", text_body("x"));
  wanted.connect_timeout = milliseconds(50);
  result = bench.fetch(wanted);
  check_failure(result.end, full.endpoint(), ETIMEDOUT, false);
  CHECK(result.end.failure.code() == StatusCode::kTimedOut);
  CHECK(has(result.end.failure.message(), "50 ms"));

  const std::string no_name = std::string(64, 'a') + ".invalid";  // too long: nobody is asked
  result = bench.fetch(request("GET", "http://" + no_name + ":81/"));
  check_failure(result.end, {no_name, 81}, EHOSTUNREACH, false);

  const testing::Listener plain;
  std::thread answer([&] {
    const testing::Peer peer = plain.accept();
    peer.send("HTTP/1.1 400 Bad Request\r\n\r\n");
    while (!peer.receive(1).empty()) {
    }
  });
  result = bench.fetch(request("GET", "https://" + plain.endpoint().to_string() + "/"));
  answer.join();
  check_failure(result.end, plain.endpoint(), EPROTO, false);
  CHECK(has(result.end.failure.message(), "tls handshake"));
}

TEST_CASE("for want of descriptors no server is blamed") {
  Bench bench(small_way());
  const HttpServer server(echo);
  for (const std::string host : {"127.0.0.1", "localhost"}) {
    HttpResult result;
    {
      const hflush::testing::NoDescriptors shortage;
      const std::string port = std::to_string(server.endpoint().port);
      result = bench.fetch(request("GET", "http://" + host + ":" + port + "/"));
    }
    check_failure(result.end, {host, server.endpoint().port}, EMFILE, false);
    CHECK(has(result.end.failure.message(), "no more descriptors"));
  }
}

TEST_CASE("of two addresses the second is asked when the first does not answer") {
  const testing::FullListener full;
  const std::uint16_t port = full.endpoint().port;
  HttpServer server(echo, "127.0.0.2", port);
  Bench bench;
  HttpRequest wanted =
      request("PUT", "http://two.invalid:" + std::to_string(port) + "/", text_body("x"));
  wanted.connect_timeout = seconds(2);  // of both: the first one may not take all of it
  const HttpResult result = bench.fetch(wanted);
  CHECK_MESSAGE(result.end.failure.ok(), result.end.failure.message());
  CHECK(result.body == "x");
  CHECK(bench.client->open_connections() == 1);
}

TEST_CASE("paused exchanges do not keep others from their turn") {
  HttpServer server(
      [](HttpServer::Exchange& exchange) { exchange.respond(200, pattern(0, 4 * kMiB)); });
  HttpSettings settings;
  settings.max_connections = 1;
  Bench bench(settings);
  HttpClient::ExchangeId ids[2];
  std::shared_ptr<Recorder> recorders[2];
  std::atomic<bool> takes = false;
  for (int i = 0; i < 2; ++i) {
    recorders[i] = bench.start(request("GET", server.url("/")), &ids[i],
                               [&](const std::string& event) { return event != "body" || takes; });
  }
  for (const auto& recorder : recorders) REQUIRE(recorder->wait_for("head"));
  CHECK((bench.fetch(request("GET", server.url("/"))).body == pattern(0, 4 * kMiB)));
  takes = true;
  for (const HttpClient::ExchangeId id : ids) bench.client->resume(id);
  for (const auto& recorder : recorders) {
    REQUIRE(recorder->wait_for_end());
    CHECK((recorder->told.get().body == pattern(0, 4 * kMiB)));
  }
}

TEST_CASE("silence is a failure, before, in and after the body; bytes of any kind are not") {
  Gate over;
  std::atomic<std::size_t> read = 0;
  Said before;
  HttpServer server([&](HttpServer::Exchange& exchange) {
    CHECK(exchange.read_body(read));
    exchange.send(before.get());
    static_cast<void>(over.wait());
  });
  Bench bench(large_way());
  HttpRequest wanted = request("PUT", server.url("/"), text_body(std::string(20 * kMiB, 'x')));
  wanted.stall_timeout = seconds(1);
  wanted.fresh_connection = true;
  const auto check = [&](bool may_be_executed) {
    const HttpResult result = bench.fetch(wanted);
    check_failure(result.end, server.endpoint(), ETIMEDOUT, may_be_executed);
    CHECK(result.end.failure.code() == StatusCode::kTimedOut);
    CHECK(has(result.end.failure.message(), "1000 ms"));
    return result;
  };
  check(false);
  read = 20 * kMiB;
  check(true);
  before = "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n<a>";
  const HttpResult result = check(true);
  CHECK(result.head.status == 200);
  CHECK(result.body == "<a>");
  over.open();
}

TEST_CASE("a server that sends a blank now and then is alive") {
  HttpServer server([](HttpServer::Exchange& exchange) {
    exchange.send("HTTP/1.1 200 OK\r\nContent-Length: 25\r\n\r\n");
    // In steps, so that the whole takes longer than the limit and each step does not.
    for (int i = 0; i < 25; ++i) {
      CHECK_FALSE(testing::wait_readable(exchange.descriptor(), milliseconds(100)));
      exchange.send(" ");
    }
  });
  Bench bench(small_way());
  HttpRequest wanted = request("POST", server.url("/"));
  wanted.stall_timeout = seconds(2);
  const HttpResult result = bench.fetch(wanted);
  CHECK(result.end.failure.ok());
  CHECK(result.body == std::string(25, ' '));
}

TEST_CASE("a server that takes a body slowly is alive, although all of it has been sent") {
  const testing::Listener never;  // nobody comes
  HttpServer server([&](HttpServer::Exchange& exchange) {
    const int buffer = 64 << 10;
    REQUIRE(::setsockopt(exchange.descriptor(), SOL_SOCKET, SO_RCVBUF, &buffer, sizeof buffer) ==
            0);
    exchange.respond_continue();
    // Likewise in steps: the rest lies in the sender's buffer, and libcurl has nothing to do.
    for (std::size_t taken = 0; taken < kMiB; taken += 64U << 10U) {
      CHECK_FALSE(testing::wait_readable(never.descriptor(), milliseconds(150)));
      CHECK(exchange.read_body(taken + (64U << 10U)));
    }
    exchange.respond(200, "thanks");
  });
  Bench bench(large_way());
  HttpRequest wanted = request("PUT", server.url("/"), text_body(pattern(0, kMiB)));
  wanted.stall_timeout = seconds(2);
  wanted.expect_continue = true;
  const HttpResult result = bench.fetch(wanted);
  CHECK_MESSAGE(result.end.failure.ok(), result.end.failure.message());
  CHECK(result.body == "thanks");
  // On a connection that has been used before, it is seen, too.
  CHECK(bench.fetch(wanted).body == "thanks");
  CHECK(server.connections() == 1);
}

TEST_CASE("an answer that trickles is alive, until its time in all is over") {
  HttpServer server([](HttpServer::Exchange& exchange) {
    exchange.send("HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n");
    // Readable: the client has gone.
    while (!testing::wait_readable(exchange.descriptor(), milliseconds(50))) exchange.send(" ");
  });
  Bench bench(small_way());
  HttpRequest wanted = request("POST", server.url("/"));
  wanted.stall_timeout = seconds(1);
  wanted.total_timeout = milliseconds(2500);
  const TimePoint begun = std::chrono::steady_clock::now();
  const HttpResult result = bench.fetch(wanted);
  const auto took = std::chrono::steady_clock::now() - begun;
  CHECK(result.end.failure.code() == StatusCode::kTimedOut);
  CHECK_MESSAGE(
      result.end.failure.message().find("timed out after 2500 ms in all") != std::string::npos,
      result.end.failure.message());
  CHECK(result.end.may_be_executed);
  CHECK(took >= milliseconds(2500));
  CHECK(took < kPatience);
}

// --- pause and resume

TEST_CASE("a body that is not taken comes again after resume(), from any thread") {
  HttpServer server(
      [](HttpServer::Exchange& exchange) { exchange.respond(200, pattern(0, 4 * kMiB)); });
  Bench bench;
  std::atomic<HttpClient::ExchangeId> id = 0;
  std::atomic<int> calls = 0;
  Shared<int> refused;
  std::atomic<bool> over = false;
  std::thread resumer([&] {
    for (int seen = 0; !over;) {
      if (refused.get() == seen) {
        std::this_thread::yield();
        continue;
      }
      ++seen;
      bench.client->resume(id);
    }
  });
  Gate known;
  HttpClient::ExchangeId started = 0;
  HttpRequest wanted = request("GET", server.url("/"));
  wanted.stall_timeout = kPatience;
  const auto recorder = bench.start(wanted, &started, [&](const std::string& event) {
    if (event != "body") return true;
    if (!known.wait()) return false;
    const int call = ++calls;
    if (call % 3 != 0) return true;
    if (call % 2 == 0) {
      bench.client->resume(id);  // from within: it is not paused yet, and yet it goes on
    } else {
      refused.update([](int& value) { ++value; });
    }
    return false;
  });
  id = started;
  known.open();
  REQUIRE(recorder->wait_for_end());
  over = true;
  resumer.join();
  CHECK(recorder->told.get().end->failure.ok());
  CHECK((recorder->told.get().body == pattern(0, 4 * kMiB)));
  CHECK(calls > 100);
  bench.client->resume(started);  // no effect
}

TEST_CASE("while nothing is taken nothing comes, and time does not count") {
  const std::string body = pattern(0, 4 * kMiB);
  HttpServer server([&](HttpServer::Exchange& exchange) { exchange.respond(200, body); });
  Bench bench;
  std::atomic<bool> takes = false;
  std::atomic<int> calls = 0;
  HttpClient::ExchangeId id = 0;
  HttpRequest wanted = request("GET", server.url("/"));
  wanted.stall_timeout = seconds(2);
  const auto recorder = bench.start(wanted, &id, [&](const std::string& event) {
    if (event == "body") ++calls;
    return event != "body" || takes;
  });
  REQUIRE(recorder->wait_for("head"));
  Gate later;
  bench.loop.run_after(milliseconds(2600), [&] { later.open(); });
  REQUIRE(later.wait());
  CHECK(calls == 1);
  CHECK_FALSE(recorder->told.get().end.has_value());
  bench.client->resume(id);  // once more for nothing
  bench.loop.run_after(milliseconds(100), [&] {
    takes = true;
    bench.client->resume(id);
  });
  REQUIRE(recorder->wait_for_end());
  CHECK(recorder->told.get().end->failure.ok());
  CHECK((recorder->told.get().body == body));
}

// --- cancel

void cancel_at_every_stage(Way way) {
  Gate over;
  Shared<int> arrived;
  HttpServer server([&](HttpServer::Exchange& exchange) {
    const std::string target = exchange.request().target;
    arrived.update([](int& value) { ++value; });
    if (target == "/unread") static_cast<void>(over.wait());
    static_cast<void>(exchange.read_body());
    if (target == "/head") exchange.send("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n");
    if (target == "/body") exchange.send("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nx");
    if (target == "/whole") return exchange.respond(200, "x");
    static_cast<void>(over.wait());
  });
  const testing::FullListener full;
  HttpSettings settings;
  settings.max_connections = 2;
  Bench bench(way, settings);
  const auto begin = [&](const std::string& url, HttpClient::ExchangeId& id,
                         std::weak_ptr<const HttpBody>& body) {
    auto made = text_body(std::string(20 * kMiB, 'x'));
    body = made;
    return bench.start(request("PUT", url, std::move(made)), &id);
  };
  HttpClient::ExchangeId id = 0;
  std::weak_ptr<const HttpBody> body;
  const auto cancel = [&](const std::shared_ptr<Recorder>& recorder) {
    Gate gone;
    std::weak_ptr<Recorder> events = recorder;
    const std::size_t told = recorder->told.get().events.size();
    bench.client->cancel(id, [&] {
      CHECK(body.expired());
      CHECK(events.use_count() <= 2);  // the tests' own
      CHECK(recorder->told.get().events.size() == told);
      gone.open();
    });
    REQUIRE(gone.wait());
    drain(bench.loop);
    CHECK(recorder->told.get().events.size() == told);
    bench.cancel(id);  // it has ended
  };

  SUBCASE("before anything was done") {
    bench.loop.post([&] {
      const auto recorder = begin(server.url("/whole"), id, body);
      bench.client->cancel(id);
    });
    drain(bench.loop);
    drain(bench.loop);
    CHECK(body.expired());
    CHECK(bench.client->open_connections() == 0);
  }
  SUBCASE("waiting for a connection") {
    HttpClient::ExchangeId others[2];
    std::weak_ptr<const HttpBody> bodies[2];
    for (int i = 0; i < 2; ++i) begin(server.url("/unread"), others[i], bodies[i]);
    REQUIRE(arrived.wait_until([](int value) { return value == 2; }));
    const auto recorder = begin(server.url("/whole"), id, body);
    drain(bench.loop);
    cancel(recorder);
    CHECK(server.connections() == 2);
  }
  SUBCASE("connecting") {
    const auto recorder = begin("http://" + full.endpoint().to_string() + "/", id, body);
    drain(bench.loop);
    cancel(recorder);
    CHECK(bench.client->open_connections() == 0);
  }
  SUBCASE("sending") {
    const auto recorder = begin(server.url("/unread"), id, body);
    REQUIRE(arrived.wait_until([](int value) { return value == 1; }));
    cancel(recorder);
    CHECK(bench.client->open_connections() == 0);
  }
  SUBCASE("waiting for the head") {
    const auto recorder = begin(server.url("/silent"), id, body);
    REQUIRE(arrived.wait_until([](int value) { return value == 1; }));
    drain(bench.loop);
    cancel(recorder);
    CHECK(bench.client->open_connections() == 0);
  }
  SUBCASE("waiting for the body") {
    const auto recorder = begin(server.url("/body"), id, body);
    REQUIRE(recorder->wait_for("body"));
    cancel(recorder);
    CHECK(bench.client->open_connections() == 0);
  }
  SUBCASE("after the end") {
    const auto recorder = begin(server.url("/whole"), id, body);
    REQUIRE(recorder->wait_for_end());
    cancel(recorder);
    CHECK(bench.client->open_connections() == 1);
  }
  over.open();
}

TEST_CASE(
    "cancel at every stage: out of the network, the body let go, no event after it; over libcurl") {
  cancel_at_every_stage(Way::kLibcurl);
}

TEST_CASE(
    "cancel at every stage: out of the network, the body let go, no event after it; directly") {
  cancel_at_every_stage(Way::kByLoop);
}

TEST_CASE("cancel from within each event") {
  HttpServer server(
      [](HttpServer::Exchange& exchange) { exchange.respond(200, pattern(0, kMiB)); });
  Bench bench;
  for (const std::string at : {"head", "body", "end"}) {
    HttpClient::ExchangeId id = 0;
    Gate known;
    Gate gone;
    const auto recorder =
        bench.start(request("GET", server.url("/")), &id, [&](const std::string& event) {
          if (!known.wait()) return false;
          if (event == at) bench.client->cancel(id, [&] { gone.open(); });
          return true;
        });
    known.open();
    REQUIRE(gone.wait());
    drain(bench.loop);
    CHECK(recorder->told.get().events.back() == at);
    CHECK(recorder.use_count() == 1);
  }
  CHECK(bench.fetch(request("GET", server.url("/"))).end.failure.ok());
}

TEST_CASE("cancel() and resume() against the loop, from several threads") {
  HttpServer server(
      [](HttpServer::Exchange& exchange) { exchange.respond(200, pattern(0, 100'000)); });
  Bench bench;
  std::vector<std::thread> threads;
  std::atomic<int> ended = 0;
  std::atomic<int> cancelled = 0;
  for (int number = 0; number < 3; ++number) {
    threads.emplace_back([&, number] {
      for (int i = 0; i < 60; ++i) {
        HttpClient::ExchangeId id = 0;
        const auto recorder = bench.start(request("GET", server.url("/")), &id,
                                          [count = 0](const std::string& event) mutable {
                                            return event != "body" || ++count % 2 == 0;
                                          });
        while ((i + number) % 3 == 0 && recorder->told.get().events.empty()) {
          std::this_thread::yield();
        }
        if (i % 2 == 0) {
          Gate gone;
          bench.client->cancel(id, [&] { gone.open(); });
          if (gone.wait()) ++cancelled;
        } else {
          while (!recorder->told.get().end) bench.client->resume(id);
          if (recorder->told.get().end->failure.ok()) ++ended;
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(ended == 90);
  CHECK(cancelled == 90);
}

// --- the end of the client

void destroy_while_busy(Way way) {
  Gate over;
  Shared<int> arrived;
  HttpServer server([&](HttpServer::Exchange& exchange) {
    arrived.update([](int& value) { ++value; });
    if (exchange.request().target == "/body") {
      exchange.send("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nx");
    }
    static_cast<void>(over.wait());
  });
  const testing::FullListener full;
  HttpSettings settings;
  settings.max_connections = 6;
  Bench bench(way, settings);
  std::vector<std::shared_ptr<Recorder>> recorders;
  std::vector<std::weak_ptr<const HttpBody>> bodies;
  const auto begin = [&](const std::string& url) {
    auto body = text_body(std::string(20 * kMiB, 'x'));
    bodies.push_back(body);
    recorders.push_back(bench.start(request("PUT", url, std::move(body))));
  };
  for (int i = 0; i < 2; ++i) {
    begin(server.url("/body"));
    begin(server.url("/unread"));
    begin("http://" + full.endpoint().to_string() + "/");
  }
  for (int i = 0; i < 4; ++i) begin(server.url("/waits"));
  REQUIRE(arrived.wait_until([](int value) { return value == 4; }));

  SUBCASE("here") { bench.client.reset(); }
  SUBCASE("on the loop thread") {
    Gate gone;
    bench.loop.post([&] {
      bench.client.reset();
      gone.open();
    });
    REQUIRE(gone.wait());
  }
  SUBCASE("after the end of the loop") {
    bench.loop.stop();
    bench.client.reset();
  }
  SUBCASE("before the end of the loop") {
    bench.client.reset();
    bench.loop.stop();
  }
  std::vector<std::size_t> told;
  for (const auto& recorder : recorders) told.push_back(recorder->told.get().events.size());
  Gate drained;
  bench.loop.post([&] { drained.open(); });
  bench.loop.stop();
  for (std::size_t i = 0; i < recorders.size(); ++i) {
    CHECK(recorders[i]->told.get().events.size() == told[i]);
    CHECK(recorders[i].use_count() == 1);
    CHECK(bodies[i].expired());
  }
  over.open();
}

TEST_CASE(
    "a client that is destroyed while busy: no event after it, everything let go; over libcurl") {
  destroy_while_busy(Way::kLibcurl);
}

TEST_CASE("a client that is destroyed while busy: no event after it, everything let go; directly") {
  destroy_while_busy(Way::kByLoop);
}

TEST_CASE("a client that is destroyed by the event that ends an exchange") {
  HttpServer server(echo);
  Bench bench;
  Gate gone;
  HttpClient* client = bench.client.get();
  fetch(*client, request("GET", server.url("/")), 100,
        [&gone, owner = std::move(bench.client)](const HttpResult& result) mutable {
          CHECK(result.end.failure.ok());
          owner.reset();
          gone.open();
        });
  REQUIRE(gone.wait());
  drain(bench.loop);
}

TEST_CASE("several clients on one loop keep their connections apart") {
  HttpServer server(echo);
  Bench bench;
  Result<std::shared_ptr<HttpClient>> other = HttpClient::make(bench.loop, without_proxy());
  REQUIRE(other.ok());
  CHECK(bench.fetch(request("GET", server.url("/"))).end.failure.ok());
  std::swap(bench.client, *other);
  CHECK(bench.fetch(request("GET", server.url("/"))).end.failure.ok());
  CHECK(server.connections() == 2);
  CHECK(bench.client->open_connections() == 1);
}

TEST_CASE("a loop that has ended has no clients") {
  EpollLoop loop(steady_clock());
  loop.stop();
  CHECK(HttpClient::make(loop, {}).status().error_number() == ECANCELED);
}

TEST_CASE("in a forked child the parent's client does nothing, and its connections live on") {
  Gate go;
  HttpServer server([&](HttpServer::Exchange& exchange) {
    static_cast<void>(exchange.read_body());
    if (exchange.request().target == "/waits") static_cast<void>(go.wait());
    exchange.respond(200, exchange.request().target);
  });
  static_cast<void>(Process::current());  // counts forks from here on
  Bench bench;
  CHECK(bench.fetch(request("GET", server.url("/first"))).end.failure.ok());
  HttpClient::ExchangeId id = 0;
  const auto recorder = bench.start(request("PUT", server.url("/waits"), text_body("x")), &id);
  const auto idle = bench.start(request("GET", server.url("/second")));
  REQUIRE(idle->wait_for_end());
  const std::string url = server.url("/child");

  std::cout << std::flush;  // or the child would write it too
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    ::alarm(static_cast<unsigned>(kPatience.count()));
    bench.client->cancel(id, [] { ::_exit(3); });
    bench.client->resume(id);
    const auto events = std::make_shared<Recorder>();
    bool good = bench.client->start(request("GET", url), events) == 0;
    good = good && events.use_count() == 1 && bench.client->open_connections() == 0;
    bench.client.reset();
    if (!kThreadSanitizer) {
      Result<std::shared_ptr<HttpClient>> own =
          HttpClient::make(Process::current().loop(), without_proxy());
      Shared<int> status;
      if (own.ok()) {
        fetch(**own, request("GET", url), 100, [&](const HttpResult& result) {
          status.update([&](int& value) { value = result.head.status; });
        });
      }
      good = good && own.ok() && status.wait_until([](int value) { return value == 200; });
    }
    ::_exit(good ? 0 : 1);
  }
  int status = -1;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
  go.open();
  REQUIRE(recorder->wait_for_end());
  CHECK(recorder->told.get().body == "/waits");
  CHECK(bench.fetch(request("GET", server.url("/again"))).body == "/again");
  CHECK(server.connections() == (kThreadSanitizer ? 2 : 3));
}

TEST_CASE("a connection ends for the server although a forked child still has it") {
  Shared<int> arrived;
  Gate gone;
  HttpServer server([&](HttpServer::Exchange& exchange) {
    arrived.update([](int& value) { ++value; });
    if (exchange.wait_until_gone()) gone.open();
  });
  Bench bench;
  HttpClient::ExchangeId id = 0;
  const auto recorder = bench.start(request("GET", server.url("/")), &id);
  REQUIRE(arrived.wait_until([](int value) { return value == 1; }));
  int ends[2] = {-1, -1};
  REQUIRE(::pipe2(ends, O_CLOEXEC) == 0);
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    ::alarm(2 * static_cast<unsigned>(kPatience.count()));  // longer than the test waits
    ::close(ends[1]);
    char byte = 0;
    static_cast<void>(::read(ends[0], &byte, 1));
    ::_exit(0);
  }
  bench.cancel(id);
  CHECK(gone.wait());
  ::close(ends[1]);
  ::close(ends[0]);
  int status = -1;
  REQUIRE(::waitpid(child, &status, 0) == child);
}

// --- proxies

TEST_CASE("a proxy is used, with its password, unless the host is an exception") {
  HttpServer proxy([](HttpServer::Exchange& exchange) { exchange.respond(200, "by proxy"); });
  HttpServer server(echo);
  HttpSettings settings;
  settings.proxy = proxy.url("");
  settings.proxy_user = "us:er";
  settings.proxy_password = "pass";
  Bench bench(settings);
  HttpResult result = bench.fetch(request("GET", server.url("/a/../b")));
  CHECK(result.body == "by proxy");
  REQUIRE(proxy.wait_for_requests(1));
  const HttpServer::Request seen = proxy.requests()[0];
  CHECK(seen.target == server.url("/a/../b"));
  CHECK(seen.header("proxy-authorization") == "Basic dXM6ZXI6cGFzcw==");
  CHECK(seen.header("host") == server.endpoint().to_string());
  CHECK(server.connections() == 0);

  settings.no_proxy = "example.com,127.0.0.1";
  CHECK(Bench(settings).fetch(request("PUT", server.url("/"), text_body("direct"))).body ==
        "direct");
  CHECK_FALSE(goes_through_proxy(settings, "http", "127.0.0.1"));
  settings.no_proxy = "*";
  CHECK(Bench(settings).fetch(request("PUT", server.url("/"), text_body("direct"))).body ==
        "direct");
  CHECK_FALSE(goes_through_proxy(settings, "http", "127.0.0.1"));
  // In a list it is a name like others.
  settings.no_proxy = "example.com,*";
  CHECK(Bench(settings).fetch(request("GET", server.url("/"))).body == "by proxy");
  CHECK(goes_through_proxy(settings, "http", "127.0.0.1"));
  settings.proxy.clear();
  ::setenv("http_proxy", proxy.url("").c_str(), 1);
  settings.no_proxy.clear();
  ::setenv("no_proxy", "*", 1);
  CHECK_FALSE(goes_through_proxy(settings, "http", "127.0.0.1"));
  ::setenv("no_proxy", "*,example.com", 1);
  CHECK(goes_through_proxy(settings, "http", "127.0.0.1"));
  ::unsetenv("http_proxy");
  ::unsetenv("no_proxy");
}

TEST_CASE("a proxy without a scheme stays in between; what is secret of its url is not shown") {
  HttpServer proxy([](HttpServer::Exchange& exchange) { exchange.respond(200, "by proxy"); });
  HttpSettings settings;
  settings.proxy = proxy.endpoint().to_string();
  Bench bench(settings);
  for (const std::size_t exchanges : {1U, 2U, 3U}) {  // the first may teach an address
    CHECK(bench.fetch(request("GET", "http://store.invalid/key")).body == "by proxy");
    REQUIRE(proxy.wait_for_requests(exchanges));
    CHECK(proxy.requests().back().target == "http://store.invalid/key");
  }
  for (const char* const password : {"hidden", "hid/den", "hid#den@"}) {
    settings.proxy = "http://user:" + std::string(password) + "@127.0.0.1:1";
    const Status failure =
        Bench(settings).fetch(request("GET", "http://store.invalid/")).end.failure;
    CHECK_FALSE(has(failure.message(), "hid"));
    CHECK(has(failure.message(), "(proxy 127.0.0.1:1)"));
  }
}

TEST_CASE("the environment's proxies, as they are when the client is made") {
  HttpServer proxy([](HttpServer::Exchange& exchange) { exchange.respond(200, "by proxy"); });
  HttpServer server(echo);
  EpollLoop loop(steady_clock());
  ::setenv("http_proxy", proxy.url("").c_str(), 1);
  ::setenv("no_proxy", "elsewhere", 1);
  HttpSettings settings;
  settings.no_proxy = "example.com";  // else the bench would ask for none
  Bench bench(settings);
  ::setenv("no_proxy", "127.0.0.1", 1);
  CHECK(bench.fetch(request("GET", server.url("/"))).body == "by proxy");
  ::unsetenv("http_proxy");
  ::unsetenv("no_proxy");
  CHECK(bench.fetch(request("GET", server.url("/"))).body == "by proxy");
}

TEST_CASE("a proxy that refuses, or is not there: named, without its password") {
  HttpServer proxy([](HttpServer::Exchange& exchange) { exchange.respond(407, "no"); });
  const testing::DeafPort closed;
  HttpSettings settings;
  settings.proxy = "http://user:secret@" + proxy.endpoint().to_string();
  {
    Bench bench(settings);
    const HttpResult result = bench.fetch(request("GET", "https://s3.invalid/"));
    check_failure(result.end, {"s3.invalid", 443}, ECONNREFUSED, false);
    CHECK(has(result.end.failure.message(), "407"));
    CHECK(has(result.end.failure.message(), proxy.endpoint().to_string()));
    CHECK_FALSE(has(result.end.failure.message(), "secret"));
  }
  settings.proxy = "http://user:secret@" + closed.endpoint().to_string();
  {
    Bench bench(settings);
    const HttpResult result = bench.fetch(request("GET", "http://s3.invalid/"));
    check_failure(result.end, {"s3.invalid", 80}, ECONNREFUSED, false);
    CHECK(has(result.end.failure.message(), closed.endpoint().to_string()));
    CHECK_FALSE(has(result.end.failure.message(), "secret"));
  }
  settings.no_proxy = closed.endpoint().host;
  {
    Bench bench(settings);
    const HttpResult result =
        bench.fetch(request("GET", "http://" + closed.endpoint().to_string()));
    check_failure(result.end, closed.endpoint(), ECONNREFUSED, false);
    CHECK_FALSE(has(result.end.failure.message(), "proxy"));
  }
  settings.proxy = "nonsense://user:secret@host";
  Bench bench(settings);
  const HttpResult result = bench.fetch(request("GET", "http://s3.invalid/"));
  CHECK_FALSE(result.end.failure.ok());
  CHECK_FALSE(has(result.end.failure.message(), "secret"));
}

std::set<CURLoption>& taken_away() {  // options that were set to null
  static std::set<CURLoption> options;
  return options;
}

// libcurl has declared it so.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wvarargs"
CURLcode note_option(CURL* /*easy*/, CURLoption option, ...) {  // NOLINT(cert-dcl50-cpp)
  va_list values;
  va_start(values, option);
  const bool is_pointer = option / 10'000 == 1;
  if (is_pointer && va_arg(values, const char*) == nullptr) taken_away().insert(option);
  va_end(values);
  return CURLE_OK;
}
#pragma GCC diagnostic pop

TEST_CASE("the authorities of a file stand for the system's, those of its directory, too") {
  const Result<const CurlLibrary*> real = CurlLibrary::load();
  REQUIRE(real.ok());
  CurlLibrary curl = **real;
  curl.easy_setopt = &note_option;
  CURL* const easy = curl.easy_init();
  for (const char* const ca_file : {"", "/etc/own.pem"}) {
    HttpSettings settings;
    settings.ca_file = ca_file;
    HttpExchange exchange(1, request("GET", "https://s3.invalid/"), nullptr);
    REQUIRE(exchange.set_up(curl, easy, settings, {}, TimePoint{}).ok());
    CHECK(taken_away().contains(CURLOPT_CAPATH) == !settings.ca_file.empty());
  }
  curl.easy_cleanup(easy);
}

// --- names

TEST_CASE(
    "a lookup that hangs holds up nothing: neither its own end, nor others, nor the client's") {
  // Before libcurl 7.87 its end waits for the lookup.
  const HangingLookups hanging;
  HttpServer server(echo);
  Bench bench;
  HttpClient::ExchangeId id = 0;
  const auto recorder = bench.start(request("GET", kHangs), &id);
  REQUIRE(lookups().wait_until([](const Lookups& value) { return value.begun == 1; }));
  CHECK(bench.fetch(request("GET", server.url("/"))).end.failure.ok());
  HttpRequest impatient = request("GET", kHangs);
  impatient.connect_timeout = milliseconds(50);
  check_failure(bench.fetch(impatient).end, {"hangs.invalid", 80}, ETIMEDOUT, false);
  bench.cancel(id);
  bench.start(request("GET", kHangs));
  REQUIRE(lookups().wait_until([](const Lookups& value) { return value.begun == 3; }));
  bench.client.reset();
  drain(bench.loop);
  CHECK(lookups().get().ended == 0);
  CHECK(lookups().get().without_signals == 3);
}

}  // namespace
}  // namespace hflush::env
