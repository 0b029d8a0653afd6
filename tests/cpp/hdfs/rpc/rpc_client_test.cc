// RpcClient against servers that do as they are told: what goes over the wire, and what becomes of
// each call when servers fail.
#include "hflush/hdfs/rpc/rpc_client.h"

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <memory>
#include <optional>
#include <set>
#include <thread>
#include <vector>

#include "env/loopback.h"
#include "hdfs/scripted_name_node.h"
#include "hflush/env/epoll_loop.h"
#include "hflush/env/process.h"

namespace hflush::hdfs {
namespace {

using env::testing::DeafPort;
using env::testing::drain;
using env::testing::FullListener;
using env::testing::Shared;
using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::ReceivedCall;
using testing::ScriptedConnection;
using testing::ScriptedNameNode;

constexpr std::string_view kStandby = "org.apache.hadoop.ipc.StandbyException";
constexpr std::string_view kRetriable = "org.apache.hadoop.ipc.RetriableException";

// Patient with a slow machine, quick where it would only wait.
RpcSettings quick_settings() {
  RpcSettings settings;
  settings.connect_retries = 2;
  settings.connect_retries_on_timeouts = 1;
  settings.connect_retry_interval = milliseconds(5);
  settings.failover_base = milliseconds(1);
  settings.failover_cap = milliseconds(5);
  settings.random_order = false;
  return settings;
}

// A request that is its bytes, and has a response that is its bytes.
struct Echo {
  static constexpr std::string_view kMethod = "echo";
  static constexpr Repeat kRepeat = Repeat::kAtMostOnce;
  using Response = std::string;

  std::string text;

  std::string encode() const { return text; }
  static Result<Response> decode(ByteView body) {
    if (body.empty()) return Status(StatusCode::kIo, "an empty echo");
    return std::string(as_text(body));
  }
};

// The outcome of a call that was started.
class Outcome {
 public:
  RpcClient::Done taker() {
    return [told = told_](Result<std::string> body) {
      told->update([&](Told& value) {
        ++value.count;
        value.answer.emplace(std::move(body));
      });
    };
  }
  Result<std::string> wait() {
    REQUIRE(told_->wait_until([](const Told& value) { return value.count > 0; }));
    return *told_->get().answer;
  }
  Status failure() {
    const Result<std::string> answer = wait();
    REQUIRE_FALSE(answer.ok());
    return answer.status();
  }
  std::string body() {
    Result<std::string> answer = wait();
    CAPTURE(answer.status().to_string());
    REQUIRE(answer.ok());
    return *answer;
  }
  int count() { return told_->get().count; }

 private:
  struct Told {
    int count = 0;
    std::optional<Result<std::string>> answer;
  };
  std::shared_ptr<Shared<Told>> told_ = std::make_shared<Shared<Told>>();
};

struct Fixture {
  env::EpollLoop loop{env::steady_clock()};
  env::WorkerPool workers{2};
  RpcSettings settings = quick_settings();
  std::shared_ptr<RpcClient> client;

  ~Fixture() { client.reset(); }

  void connect_to(std::vector<env::Endpoint> servers) {
    client = RpcClient::make({loop, workers}, {.servers = std::move(servers), .name = "ns1"},
                             "alice", settings);
  }
  RpcClient::CallId start(Outcome& outcome, std::string_view method, std::string body = "body",
                          Repeat repeat = Repeat::kIdempotent) {
    return client->start(method, {repeat, {}}, std::move(body), "/path", outcome.taker());
  }
  std::int64_t statistic(std::string_view name) const {
    Statistics statistics;
    client->add_statistics(statistics);
    return statistics.at(name);
  }
};

void check_first(const ReceivedCall& call, std::string_view method, std::int32_t call_id) {
  CHECK(call.method == method);
  CHECK(call.call_id == call_id);
  CHECK(call.retry_count == 0);
  CHECK(call.client_id.size() == 16);
  CHECK(call.protocol == "org.apache.hadoop.hdfs.protocol.ClientProtocol");
  CHECK(call.request == "body");
}

TEST_CASE("calls share one connection, and get their answers in any order") {
  Fixture f;
  ScriptedNameNode name_node;
  f.connect_to({name_node.endpoint()});
  Outcome one;
  Outcome two;
  Outcome three;
  f.start(one, "getFileInfo");
  f.start(two, "mkdirs");
  ScriptedConnection connection = name_node.accept();
  const ReceivedCall first = connection.receive_call();
  const ReceivedCall second = connection.receive_call();
  check_first(first, "getFileInfo", 0);
  check_first(second, "mkdirs", 1);
  CHECK(first.client_id == second.client_id);
  connection.answer(second, "2");
  CHECK(two.body() == "2");
  f.start(three, "delete");
  const ReceivedCall third = connection.receive_call();
  check_first(third, "delete", 2);
  connection.peer().send(testing::rpc_success(third.call_id, "3") +
                         testing::rpc_success(first.call_id, "1"));
  CHECK(one.body() == "1");
  CHECK(three.body() == "3");
  CHECK(f.statistic("rpc_calls") == 3);
  CHECK(f.statistic("rpc_connections") == 1);
  CHECK(f.statistic("rpc_failures") == 0);
}

TEST_CASE("typed calls wait for their answers and decode them") {
  Fixture f;
  ScriptedNameNode name_node;
  f.connect_to({name_node.endpoint()});
  std::thread server([&] {
    ScriptedConnection connection = name_node.accept();
    for (int i = 0; i < 2; ++i) {
      const ReceivedCall call = connection.receive_call();
      connection.answer(call, call.request);
    }
    connection.refuse(connection.receive_call(), "java.io.FileNotFoundException",
                      "File does not exist: /path\n\tat X.y(X.java:1)");
  });
  env::Uninterrupted interrupt;
  Result<std::string> answer = f.client->call(Echo{"hello"}, "/path", interrupt);
  REQUIRE(answer.ok());
  CHECK(*answer == "hello");
  CHECK(f.client->call(Echo{""}, "/path", interrupt).status().message() == "an empty echo");
  const Status missing = f.client->call(Echo{"?"}, "/path", interrupt).status();
  server.join();
  CHECK(missing.code() == StatusCode::kNotFound);
  CHECK(missing.path() == "/path");
  CHECK(missing.remote_class() == "java.io.FileNotFoundException");
  CHECK(missing.message() ==
        "echo: NameNode " + name_node.endpoint().to_string() + ": File does not exist: /path");
}

TEST_CASE("an interrupt ends the wait; the call may go on, its answer means nothing") {
  class Stop final : public env::Interrupt {
   public:
    Status check() override {
      return ++checks_ < 3 ? Status() : Status(StatusCode::kInterrupted, "stopped");
    }

   private:
    int checks_ = 0;
  };
  Fixture f;
  ScriptedNameNode name_node;
  f.connect_to({name_node.endpoint()});
  Stop stop;
  const Status status = f.client->call(Echo{"x"}, "/path", stop).status();
  CHECK(status.code() == StatusCode::kInterrupted);
  ScriptedConnection connection = name_node.accept();
  Outcome next;
  f.start(next, "next");
  const ReceivedCall first = connection.receive_call();
  // The interrupted call had perhaps not been sent yet.
  const ReceivedCall call = first.method == "next" ? first : connection.receive_call();
  connection.peer().send(testing::rpc_success(0, "late"));
  connection.answer(call, "on");
  CHECK(next.body() == "on");
}

TEST_CASE("FAIL-10: a disowned call that was sent goes on as a question until it is answered") {
  Fixture f;
  ScriptedNameNode name_node;
  f.connect_to({name_node.endpoint()});
  Outcome outcome;
  const RpcClient::CallId call = f.start(outcome, "x", "body", Repeat::kAtMostOnce);
  std::optional<ScriptedConnection> connection(name_node.accept());
  const ReceivedCall received = connection->receive_call();
  CHECK(received.request == "body");
  SUBCASE("answered") {
    f.client->disown(call, "question");
    connection->answer(received, "done");
    CHECK(outcome.body() == "done");
    CHECK(f.statistic("rpc_retries") == 0);
  }
  SUBCASE("answered before it is disowned") {
    connection->answer(received, "done");
    CHECK(outcome.body() == "done");
    f.client->disown(call, "question");
  }
  SUBCASE("lost, by a NameNode that is asked but once otherwise") {
    f.client->disown(call, "question");
    for (int repeat = 1; repeat <= 3; ++repeat) {
      connection.reset();
      connection.emplace(name_node.accept());
      const ReceivedCall again = connection->receive_call();
      CHECK(again.method == "x");
      CHECK(again.request == "question");
      CHECK(again.call_id == received.call_id);
      CHECK(again.client_id == received.client_id);
      CHECK(again.retry_count == repeat);
      if (repeat < 3) continue;
      connection->answer(again, "done");
    }
    CHECK(outcome.body() == "done");
  }
  SUBCASE("a NameNode that has not done it says so") {
    f.client->disown(call, "question");
    connection.reset();
    connection.emplace(name_node.accept());
    connection->refuse(connection->receive_call(), "java.io.FileNotFoundException", "nothing");
    CHECK(outcome.failure().code() == StatusCode::kNotFound);
  }
  CHECK(outcome.count() == 1);
}

TEST_CASE("a call that is disowned in a pause goes on if an attempt was sent") {
  Fixture f;
  ScriptedNameNode first;
  ScriptedNameNode second;
  f.connect_to({first.endpoint(), second.endpoint()});
  Outcome outcome;
  const RpcClient::CallId call = f.start(outcome, "x", "body", Repeat::kAtMostOnce);
  std::optional<ScriptedConnection> connection(first.accept());
  const ReceivedCall received = connection->receive_call();
  bool fails_over = true;
  const auto disown = [&] {
    while (f.statistic("rpc_retries") == 0) std::this_thread::yield();
    f.client->disown(call, "question");
  };
  SUBCASE("for a retry") {
    fails_over = false;
    connection->refuse(received, kRetriable, "later");
    disown();
  }
  SUBCASE("for a failover") {
    connection->refuse(received, kStandby, "not here");
    disown();
  }
  SUBCASE("for a failover, as nobody has answered") {
    connection.reset();
    disown();
  }
  if (fails_over) connection.emplace(second.accept());
  const ReceivedCall again = connection->receive_call();
  CHECK(again.method == "x");
  CHECK(again.call_id == received.call_id);
  CHECK(again.client_id == received.client_id);
  connection->answer(again, "done");
  CHECK(outcome.body() == "done");
}

TEST_CASE("a disowned call that was not sent is cancelled") {
  Fixture f;
  ScriptedNameNode name_node;
  f.connect_to({name_node.endpoint()});
  Outcome outcome;
  Shared<bool> go;  // until then the loop cannot connect
  f.loop.post([&] { CHECK(go.wait_until([](bool value) { return value; })); });
  f.client->disown(f.start(outcome, "x"), "question");
  Outcome next;
  f.start(next, "next");
  go.update([](bool& value) { value = true; });
  ScriptedConnection connection = name_node.accept();
  const ReceivedCall received = connection.receive_call();
  CHECK(received.method == "next");
  connection.answer(received, "on");
  CHECK(next.body() == "on");
  CHECK(outcome.count() == 0);
}

TEST_CASE("cancelled calls are not answered, sent or not") {
  Fixture f;
  ScriptedNameNode name_node;
  f.connect_to({name_node.endpoint()});
  Outcome unsent;
  Outcome sent;
  Outcome kept;
  Shared<bool> go;  // until then the loop cannot connect
  f.loop.post([&] { CHECK(go.wait_until([](bool value) { return value; })); });
  const RpcClient::CallId first = f.start(unsent, "unsent");
  CHECK(first != RpcClient::kNoCall);
  f.client->cancel(first);
  const RpcClient::CallId second = f.start(sent, "sent");
  go.update([](bool& value) { value = true; });
  ScriptedConnection connection = name_node.accept();
  const ReceivedCall call = connection.receive_call();
  CHECK(call.method == "sent");
  f.client->cancel(second);
  f.client->cancel(second);
  f.client->cancel(RpcClient::kNoCall);
  connection.answer(call, "late");
  f.start(kept, "kept");
  connection.answer(connection.receive_call(), "on");
  CHECK(kept.body() == "on");
  CHECK(unsent.count() == 0);
  CHECK(sent.count() == 0);
}

TEST_CASE("close answers what is under way, once, and everything after") {
  Fixture f;
  ScriptedNameNode name_node;
  f.connect_to({name_node.endpoint()});
  Outcome sent;
  f.start(sent, "sent");
  ScriptedConnection connection = name_node.accept();
  connection.receive_call();
  f.client->close();
  f.client->close();
  const Status status = sent.failure();
  CHECK(status.code() == StatusCode::kClosed);
  CHECK(status.path() == "/path");
  CHECK(connection.at_end());
  Outcome after;
  CHECK(f.start(after, "after") == RpcClient::kNoCall);
  CHECK(after.count() == 1);
  CHECK(after.failure().code() == StatusCode::kClosed);
  CHECK(sent.count() == 1);
}

TEST_CASE("a client may be closed while it connects") {
  Fixture f;
  const FullListener full;
  f.connect_to({full.endpoint()});
  Outcome outcome;
  f.start(outcome, "m");
  drain(f.loop);
  f.client->close();
  CHECK(outcome.failure().code() == StatusCode::kClosed);
  drain(f.loop);
  CHECK(outcome.count() == 1);
}

TEST_CASE("the last reference may go anywhere: calls under way are answered") {
  Fixture f;
  ScriptedNameNode name_node;
  SUBCASE("on the caller's thread") {
    f.connect_to({name_node.endpoint()});
    Outcome outcome;
    f.start(outcome, "m");
    f.client.reset();
    CHECK(outcome.failure().code() == StatusCode::kClosed);
  }
  SUBCASE("on the loop thread, within an answer") {
    f.connect_to({name_node.endpoint()});
    Outcome other;
    Shared<bool> gone;
    f.client->start("first", {}, "body", "/path", [&](const Result<std::string>& body) {
      CHECK(body.ok());
      f.client.reset();
      gone.update([](bool& value) { value = true; });
    });
    f.start(other, "second");
    ScriptedConnection connection = name_node.accept();
    connection.answer(connection.receive_call(), "x");
    REQUIRE(gone.wait_until([](bool value) { return value; }));
    CHECK(other.failure().code() == StatusCode::kClosed);
  }
}

TEST_CASE("a call from within an answer works") {
  Fixture f;
  ScriptedNameNode name_node;
  f.connect_to({name_node.endpoint()});
  Outcome second;
  f.client->start("first", {}, "body", "/path",
                  [&](const Result<std::string>&) { f.start(second, "second"); });
  ScriptedConnection connection = name_node.accept();
  connection.answer(connection.receive_call(), "1");
  connection.answer(connection.receive_call(), "2");
  CHECK(second.body() == "2");
}

TEST_CASE("a response may come in any pieces, and a request be longer than the socket takes") {
  Fixture f;
  f.settings.max_request_bytes = 64U << 20U;
  ScriptedNameNode name_node;
  f.connect_to({name_node.endpoint()});
  const std::string large = env::testing::pattern(0, 24U << 20U);
  Outcome outcome;
  Outcome behind;
  f.start(outcome, "large", large);
  f.start(behind, "behind");
  ScriptedConnection connection = name_node.accept();
  const ReceivedCall call = connection.receive_call();
  CHECK(call.request == large);
  const ReceivedCall next = connection.receive_call();
  const std::string response = testing::rpc_success(call.call_id, large);
  for (std::size_t at = 0; at < response.size();) {
    const std::size_t size = at < 64 ? 1 : 1'000'003;
    connection.peer().send(response.substr(at, size));
    at += size;
  }
  CHECK(outcome.body() == large);
  connection.answer(next, "2");
  CHECK(behind.body() == "2");
}

TEST_CASE("a request that no server would take is refused before it is sent") {
  Fixture f;
  f.settings.max_request_bytes = 10'000;
  ScriptedNameNode name_node;
  f.connect_to({name_node.endpoint()});
  Outcome outcome;
  CHECK(f.start(outcome, "m", std::string(10'000, 'x')) == RpcClient::kNoCall);
  const Status status = outcome.failure();
  CHECK(status.code() == StatusCode::kInvalidArgument);
  CHECK(status.message().find("ipc.maximum.data.length") != std::string::npos);
}

// --- one NameNode: failures ----------------------------------------------------------------------

TEST_CASE("a refused connection is tried as often as configured, then told with numbers") {
  Fixture f;
  const DeafPort nobody;
  f.connect_to({nobody.endpoint()});
  Outcome outcome;
  f.start(outcome, "getFileInfo");
  const Status status = outcome.failure();
  CHECK(status.error_number() == ECONNREFUSED);
  CHECK(status.path() == "/path");
  const std::string expected = "getFileInfo: NameNode " + nobody.endpoint().to_string() +
                               ": connect: Connection refused (3 attempts in ";
  CAPTURE(status.message());
  CHECK(status.message().starts_with(expected));
  CHECK(f.statistic("rpc_retries") == 2);
  CHECK(f.statistic("rpc_connections") == 3);
  CHECK(f.statistic("rpc_failures") == 1);
}

TEST_CASE("a server that comes up meanwhile is found") {
  Fixture f;
  f.settings.connect_retries = 10'000;
  std::optional<DeafPort> nobody(std::in_place);
  const env::Endpoint endpoint = nobody->endpoint();
  f.connect_to({endpoint});
  Outcome outcome;
  f.start(outcome, "m");
  nobody.reset();
  env::testing::Listener listener(16, "127.0.0.1", endpoint.port);
  ScriptedConnection connection(listener.accept());
  CHECK(connection.receive_greeting() == "alice");
  const ReceivedCall call = connection.receive_call();
  CHECK(call.retry_count == 0);  // it was never sent before
  connection.answer(call, "up");
  CHECK(outcome.body() == "up");
}

TEST_CASE("connecting that takes too long is tried again, then told") {
  Fixture f;
  const FullListener full;
  f.settings.connect_timeout = milliseconds(40);
  f.connect_to({full.endpoint()});
  Outcome outcome;
  f.start(outcome, "m");
  const Status status = outcome.failure();
  CHECK(status.code() == StatusCode::kTimedOut);
  CAPTURE(status.message());
  CHECK(status.message().find("connect: timed out after 40 ms (2 attempts in ") !=
        std::string::npos);
}

TEST_CASE("a name that nobody knows fails at once") {
  Fixture f;
  f.connect_to({{"", 8020}});  // asks no name server
  Outcome outcome;
  f.start(outcome, "m");
  const Status status = outcome.failure();
  CAPTURE(status.message());
  CHECK(status.message().starts_with("m: NameNode :8020: resolve host: "));
  CHECK(status.message().find("(1 attempt in ") != std::string::npos);
}

TEST_CASE("a connection that is lost under a call fails it") {
  Fixture f;
  ScriptedNameNode name_node;
  f.connect_to({name_node.endpoint()});
  Outcome outcome;
  f.start(outcome, "m");
  ScriptedConnection connection = name_node.accept();
  SUBCASE("before any answer") {
    connection.receive_call();
    connection.peer().close();
    const Status status = outcome.failure();
    CHECK(status.error_number() == ECONNRESET);
    CHECK(status.message().find("closed the connection without an answer: is this an RPC port?") !=
          std::string::npos);
  }
  SUBCASE("by a reset") {
    connection.receive_call();
    connection.peer().reset();
    CHECK(outcome.failure().error_number() == ECONNRESET);
  }
  SUBCASE("in the middle of the answer") {
    const ReceivedCall call = connection.receive_call();
    connection.peer().send(testing::rpc_success(call.call_id, "abc").substr(0, 9));
    connection.peer().close();
    CHECK(outcome.failure().error_number() == ECONNRESET);
  }
  SUBCASE("while others still got theirs") {
    Outcome second;
    f.start(second, "n");
    connection.answer(connection.receive_call(), "1");
    connection.receive_call();
    connection.peer().close();
    CHECK(outcome.body() == "1");
    CHECK(second.failure().message().find("closed the connection (1 attempt") != std::string::npos);
  }
  // The next call makes a new connection.
  Outcome next;
  f.start(next, "next");
  ScriptedConnection again = name_node.accept();
  again.answer(again.receive_call(), "on");
  CHECK(next.body() == "on");
}

TEST_CASE("what is no NameNode is told by its name") {
  Fixture f;
  ScriptedNameNode name_node;
  f.connect_to({name_node.endpoint()});
  struct Case {
    std::string received;
    std::string_view expected;
  };
  const std::vector<Case> cases = {
      {"HTTP/1.1 404 Not Found\r\n",
       "answers HTTP (HTTP/1.1 404 Not Found): is this the web port?"},
      {std::string("\x15\x03\x03\x00\x02\x02\x46", 7), "answers TLS"},
      {std::string("\xff\xff\xff\xff", 4), "speaks another version of Hadoop's RPC"},
      {std::string("\x7f\xff\xff\xff", 4), "(ipc.maximum.response.length)"},
  };
  for (const Case& one : cases) {
    Outcome outcome;
    f.start(outcome, "m");
    ScriptedConnection connection = name_node.accept();
    connection.peer().send(one.received);
    connection.peer().close();
    const Status status = outcome.failure();
    CAPTURE(status.message());
    CHECK(status.error_number() == EPROTO);
    CHECK(status.message().find(one.expected) != std::string::npos);
  }
}

TEST_CASE("FATAL fails every call on the connection with what the server says") {
  Fixture f;
  ScriptedNameNode name_node;
  f.connect_to({name_node.endpoint()});
  Outcome one;
  Outcome two;
  f.start(one, "one");
  f.start(two, "two");
  ScriptedConnection connection = name_node.accept();
  connection.peer().send(testing::rpc_exception(
      -3, "org.apache.hadoop.security.AccessControlException",
      "SIMPLE authentication is not enabled. Available:[TOKEN, KERBEROS]", 2));
  for (Outcome* outcome : {&one, &two}) {
    const Status status = outcome->failure();
    CHECK(status.code() == StatusCode::kPermissionDenied);
    CHECK(status.remote_class() == "org.apache.hadoop.security.AccessControlException");
    CHECK(status.message().find("SIMPLE authentication is not enabled") != std::string::npos);
  }
  while (!connection.at_end()) {
  }
}

TEST_CASE("a server's pause is bridged by pings; no answer in time is a timeout") {
  Fixture f;
  f.settings.ping_interval = milliseconds(30);
  SUBCASE("pings") {
    ScriptedNameNode name_node;
    f.connect_to({name_node.endpoint()});
    Outcome outcome;
    f.start(outcome, "slow");
    ScriptedConnection connection = name_node.accept();
    const ReceivedCall call = connection.receive_call();
    for (int i = 0; i < 3; ++i) {
      const ReceivedCall ping = connection.receive_call();
      CHECK(ping.call_id == -4);
      CHECK(ping.retry_count == -1);
      CHECK(ping.method == "");
    }
    connection.answer(call, "at last");
    CHECK(outcome.body() == "at last");
  }
  SUBCASE("timeout") {
    f.settings.rpc_timeout = seconds(1);
    ScriptedNameNode name_node;
    f.connect_to({name_node.endpoint()});
    Outcome outcome;
    f.start(outcome, "never");
    ScriptedConnection connection = name_node.accept();
    connection.receive_call();
    const Status status = outcome.failure();
    CHECK(status.code() == StatusCode::kTimedOut);
    CAPTURE(status.message());
    CHECK(status.message().starts_with("never: NameNode " + name_node.endpoint().to_string() +
                                       ": no answer within 1000 ms (1 attempt in "));
    // Nothing was heard at all: the next call is not given to this connection.
    Outcome next;
    f.start(next, "next");
    CHECK(name_node.accept().receive_call().method == "next");
  }
}

TEST_CASE("an answer that has come in time counts, however late the loop gets to it") {
  class LeapingClock final : public env::Clock {
   public:
    env::TimePoint now() const noexcept override { return env::steady_clock().now() + leap.load(); }
    std::atomic<env::Duration> leap{env::Duration::zero()};
  } clock;
  env::EpollLoop loop(clock);
  env::WorkerPool workers(1);
  ScriptedNameNode name_node;
  RpcSettings settings = quick_settings();
  settings.rpc_timeout = seconds(60);
  const auto client = RpcClient::make(
      {loop, workers}, {.servers = {name_node.endpoint()}, .name = "ns1"}, "alice", settings);
  Outcome outcome;
  client->start("renewLease", {}, "body", "/path", outcome.taker());
  ScriptedConnection connection = name_node.accept();
  const ReceivedCall call = connection.receive_call();
  Shared<bool> busy;
  Shared<bool> go;
  loop.post([&] {
    busy.update([](bool& value) { value = true; });
    CHECK(go.wait_until([](bool value) { return value; }));
  });
  REQUIRE(busy.wait_until([](bool value) { return value; }));
  connection.answer(call, "in time");
  clock.leap = settings.rpc_timeout;
  go.update([](bool& value) { value = true; });
  CHECK(outcome.body() == "in time");
}

TEST_CASE("an answer that makes no sense fails with the path") {
  Fixture f;
  ScriptedNameNode name_node;
  f.connect_to({name_node.endpoint()});
  Outcome outcome;
  f.client->start(Echo{""}, "/path", outcome.taker());
  ScriptedConnection connection = name_node.accept();
  connection.answer(connection.receive_call(), "");
  const Status status = outcome.failure();
  CHECK(status.message() == "an empty echo");
  CHECK(status.path() == "/path");
}

TEST_CASE("a connection from which nothing comes any more is given up with all its calls") {
  Fixture f;
  f.settings.rpc_timeout = milliseconds(2000);
  f.settings.ping_interval = milliseconds(1000);
  ScriptedNameNode name_node;
  f.connect_to({name_node.endpoint()});
  Outcome first;
  Outcome second;
  f.start(first, "first");
  ScriptedConnection connection = name_node.accept();
  connection.receive_call();
  CHECK(connection.receive_call().call_id == -4);  // half of its time is over
  f.start(second, "second");
  CHECK(first.failure().message().find("no answer within 2000 ms") != std::string::npos);
  const Status status = second.failure();
  CHECK(status.code() == StatusCode::kTimedOut);
  CAPTURE(status.message());
  CHECK(status.message().find(": closed, because nothing came from it any more (1 attempt in ") !=
        std::string::npos);
}

TEST_CASE("an idle connection is closed, and the next call makes another") {
  Fixture f;
  f.settings.idle_time = milliseconds(20);
  ScriptedNameNode name_node;
  f.connect_to({name_node.endpoint()});
  for (int i = 0; i < 2; ++i) {
    Outcome outcome;
    f.start(outcome, "m");
    ScriptedConnection connection = name_node.accept();
    connection.answer(connection.receive_call(), "1");
    CHECK(outcome.body() == "1");
    CHECK(connection.at_end());
  }
  CHECK(f.statistic("rpc_connections") == 2);
  CHECK(f.statistic("rpc_retries") == 0);
}

TEST_CASE("HDFS-25: a connection that the server had closed while idle is made anew, once") {
  Fixture f;
  ScriptedNameNode name_node;
  f.connect_to({name_node.endpoint()});
  Outcome first;
  f.start(first, "first");
  std::optional<ScriptedConnection> connection(name_node.accept());
  const ReceivedCall answered = connection->receive_call();
  connection->answer(answered, "1");
  CHECK(first.body() == "1");

  Outcome second;
  f.start(second, "second", "body", Repeat::kAtMostOnce);
  const ReceivedCall call = connection->receive_call();
  connection.reset();  // the server is restarted just now
  ScriptedConnection again = name_node.accept();
  const ReceivedCall repeat = again.receive_call();
  CHECK(repeat.method == "second");
  CHECK(repeat.call_id == call.call_id);
  CHECK(repeat.client_id == call.client_id);
  CHECK(repeat.client_id == answered.client_id);
  CHECK(repeat.request == call.request);
  CHECK(call.retry_count == 0);
  CHECK(repeat.retry_count == 1);
  SUBCASE("answered") {
    again.answer(repeat, "2");
    CHECK(second.body() == "2");
  }
  SUBCASE("and lost again") {
    again.peer().close();
    CHECK(second.failure().message().find("(2 attempts in ") != std::string::npos);
  }
}

TEST_CASE("a closed idle connection is noticed before anybody calls") {
  Fixture f;
  ScriptedNameNode name_node;
  f.connect_to({name_node.endpoint()});
  Outcome first;
  f.start(first, "first");
  {
    ScriptedConnection connection = name_node.accept();
    connection.answer(connection.receive_call(), "1");
    CHECK(first.body() == "1");
    connection.peer().end_of_stream();
    CHECK(connection.at_end());
  }
  Outcome second;
  f.start(second, "second");
  ScriptedConnection again = name_node.accept();
  const ReceivedCall call = again.receive_call();
  CHECK(call.retry_count == 0);
  again.answer(call, "2");
  CHECK(second.body() == "2");
}

TEST_CASE("dfs.client.retry.policy repeats what is worth it, with one NameNode") {
  Fixture f;
  f.settings.retry_policy_enabled = true;
  f.settings.retry_policy = {{milliseconds(1), 2}};
  ScriptedNameNode name_node;
  f.connect_to({name_node.endpoint()});
  Outcome outcome;
  f.start(outcome, "m");
  ScriptedConnection connection = name_node.accept();
  for (std::int32_t i = 0; i < 3; ++i) {
    const ReceivedCall call = connection.receive_call();
    CHECK(call.call_id == 0);
    CHECK(call.retry_count == i);
    connection.refuse(call, "org.apache.hadoop.hdfs.server.namenode.SafeModeException",
                      "Cannot create file/x. Name node is in safe mode.");
  }
  const Status status = outcome.failure();
  CHECK(status.error_number() == EROFS);
  CHECK(status.message().find("safe mode. (3 attempts in ") != std::string::npos);
}

// --- a nameservice -------------------------------------------------------------------------------

TEST_CASE("HDFS-25: a standby sends the call to the next NameNode, with the same ids") {
  Fixture f;
  ScriptedNameNode standby;
  ScriptedNameNode active;
  f.connect_to({standby.endpoint(), active.endpoint()});
  Outcome outcome;
  f.start(outcome, "create", "body", Repeat::kAtMostOnce);
  ScriptedConnection one = standby.accept();
  const ReceivedCall call = one.receive_call();
  one.refuse(call, kStandby, "Operation category WRITE is not supported in state standby");
  ScriptedConnection two = active.accept();
  const ReceivedCall repeat = two.receive_call();
  CHECK(repeat.call_id == call.call_id);
  CHECK(repeat.client_id == call.client_id);
  CHECK(repeat.retry_count == 1);
  two.answer(repeat, "made");
  CHECK(outcome.body() == "made");
  CHECK(f.statistic("rpc_failovers") == 1);
  // Everybody stays with the active one.
  Outcome next;
  f.start(next, "next");
  two.answer(two.receive_call(), "on");
  CHECK(next.body() == "on");
}

TEST_CASE("a NameNode that is gone is left at once") {
  Fixture f;
  const DeafPort gone;
  ScriptedNameNode active;
  f.connect_to({gone.endpoint(), active.endpoint()});
  Outcome outcome;
  f.start(outcome, "m");
  ScriptedConnection connection = active.accept();
  connection.answer(connection.receive_call(), "on");
  CHECK(outcome.body() == "on");
  CHECK(f.statistic("rpc_failovers") == 1);
}

TEST_CASE("a lost connection and a timeout fail over, too") {
  Fixture f;
  f.settings.rpc_timeout = seconds(10);
  ScriptedNameNode failing;
  ScriptedNameNode active;
  SUBCASE("lost") {
    f.connect_to({failing.endpoint(), active.endpoint()});
    Outcome outcome;
    f.start(outcome, "m");
    std::optional<ScriptedConnection> lost(failing.accept());
    lost->receive_call();
    lost.reset();
    ScriptedConnection connection = active.accept();
    const ReceivedCall call = connection.receive_call();
    CHECK(call.retry_count == 1);
    connection.answer(call, "on");
    CHECK(outcome.body() == "on");
  }
  SUBCASE("timeout") {
    f.settings.rpc_timeout = seconds(1);
    f.connect_to({failing.endpoint(), active.endpoint()});
    Outcome outcome;
    f.start(outcome, "m");
    ScriptedConnection silent = failing.accept();
    silent.receive_call();
    ScriptedConnection connection = active.accept();
    connection.answer(connection.receive_call(), "on");
    CHECK(outcome.body() == "on");
  }
}

TEST_CASE("several calls on one standby make one failover") {
  Fixture f;
  ScriptedNameNode standby;
  ScriptedNameNode active;
  f.connect_to({standby.endpoint(), active.endpoint()});
  Outcome outcomes[5];
  for (Outcome& outcome : outcomes) f.start(outcome, "m");
  ScriptedConnection one = standby.accept();
  for (int i = 0; i < 5; ++i) one.refuse(one.receive_call(), kStandby, "standby");
  ScriptedConnection two = active.accept();
  std::set<std::int32_t> ids;
  for (int i = 0; i < 5; ++i) {
    const ReceivedCall call = two.receive_call();
    ids.insert(call.call_id);
    two.answer(call, "on");
  }
  CHECK(ids == std::set<std::int32_t>{0, 1, 2, 3, 4});
  for (Outcome& outcome : outcomes) CHECK(outcome.body() == "on");
  CHECK(f.statistic("rpc_failovers") == 1);
  CHECK(f.statistic("rpc_retries") == 5);
}

TEST_CASE("RetriableException asks the same NameNode again, and other exceptions nobody") {
  Fixture f;
  ScriptedNameNode active;
  ScriptedNameNode other;
  f.connect_to({active.endpoint(), other.endpoint()});
  Outcome outcome;
  f.start(outcome, "m");
  ScriptedConnection connection = active.accept();
  for (std::int32_t i = 0; i < 3; ++i) {
    const ReceivedCall call = connection.receive_call();
    CHECK(call.retry_count == i);
    connection.refuse(call, kRetriable, "busy");
  }
  connection.refuse(connection.receive_call(),
                    "org.apache.hadoop.hdfs.protocol.NSQuotaExceededException", "too many");
  const Status status = outcome.failure();
  CHECK(status.error_number() == EDQUOT);
  CHECK(status.message().starts_with("m: nameservice ns1: NameNode " +
                                     active.endpoint().to_string() + ": too many (4 attempts in "));
  CHECK(f.statistic("rpc_failovers") == 0);
}

TEST_CASE("when no NameNode is left the call says what each one said last") {
  Fixture f;
  f.settings.max_failovers = 3;
  const DeafPort gone;
  ScriptedNameNode standby;
  f.connect_to({gone.endpoint(), standby.endpoint()});
  Outcome outcome;
  f.start(outcome, "m");
  ScriptedConnection connection = standby.accept();
  connection.refuse(connection.receive_call(), kStandby, "not me");
  connection.refuse(connection.receive_call(), kStandby, "still not me");
  const Status status = outcome.failure();
  CAPTURE(status.message());
  CHECK(status.remote_class() == kStandby);
  CHECK(status.message().find(standby.endpoint().to_string() + ": still not me (4 attempts in ") !=
        std::string::npos);
  REQUIRE(status.others().size() == 1);
  CHECK(status.others()[0].error_number() == ECONNREFUSED);
  CHECK(f.statistic("rpc_failovers") == 3);
}

TEST_CASE("with dfs.client.failover.random.order any NameNode may be the first") {
  Fixture f;
  f.settings.random_order = true;
  ScriptedNameNode one;
  ScriptedNameNode two;
  std::set<std::uint16_t> first;
  for (int i = 0; i < 200 && first.size() < 2; ++i) {
    f.connect_to({one.endpoint(), two.endpoint()});
    Outcome outcome;
    f.start(outcome, "m");
    REQUIRE(f.statistic("rpc_connections") == 1);
    // The one that is called has a connection to accept.
    for (ScriptedNameNode* name_node : {&one, &two}) {
      if (!name_node->is_called()) continue;
      first.insert(name_node->endpoint().port);
      name_node->accept_silently();
    }
  }
  CHECK(first.size() == 2);
}

TEST_CASE("a DataNode is called by its own protocol and name") {
  Fixture f;
  ScriptedNameNode data_node;
  const std::string protocol = "org.apache.hadoop.hdfs.protocol.ClientDatanodeProtocol";
  f.client = RpcClient::make(
      {f.loop, f.workers}, {.protocol = protocol, .servers = {data_node.endpoint()}, .name = "dn"},
      "alice", f.settings);
  Outcome outcome;
  f.start(outcome, "getReplicaVisibleLength");
  ScriptedConnection connection = data_node.accept();
  const ReceivedCall call = connection.receive_call();
  CHECK(call.protocol == protocol);
  connection.refuse(call, "java.io.IOException", "no such replica");
  CHECK(outcome.failure().message() == "getReplicaVisibleLength: DataNode " +
                                           data_node.endpoint().to_string() + ": no such replica");
}

// --- many threads, many processes
// --------------------------------------------------------------------------------

TEST_CASE("a forked child can neither call nor harm, and its parent goes on") {
  Fixture f;
  env::Process::current();  // counts forks
  ScriptedNameNode name_node;
  f.connect_to({name_node.endpoint()});
  Outcome outcome;
  f.start(outcome, "m");
  ScriptedConnection connection = name_node.accept();
  const ReceivedCall call = connection.receive_call();
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    bool refused = false;
    f.client->start("child", {}, "", "/path", [&refused](const Result<std::string>& body) {
      refused = body.status().code() == StatusCode::kForked;
    });
    f.client->cancel(1);
    f.client->close();
    f.client.reset();
    ::_exit(refused ? 0 : 1);
  }
  int status = -1;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(status == 0);
  connection.answer(call, "on");
  CHECK(outcome.body() == "on");
}

TEST_CASE("many threads call, cancel and lose connections; each call is answered at most once") {
  Fixture f;
  f.settings.connect_retries = 1000;
  ScriptedNameNode name_node;
  f.connect_to({name_node.endpoint()});
  constexpr int kThreads = 4;
  constexpr int kCalls = 300;
  std::atomic<bool> done{false};
  std::thread server([&] {
    while (!done) {
      if (!name_node.is_called()) continue;
      ScriptedConnection connection = name_node.accept_silently();
      connection.echo(57);
    }
  });
  std::atomic<int> answers{0};
  std::atomic<int> cancelled{0};
  std::vector<std::thread> callers;
  for (int t = 0; t < kThreads; ++t) {
    callers.emplace_back([&, t] {
      for (int i = 0; i < kCalls; ++i) {
        Outcome outcome;
        const auto id = f.start(outcome, "m", std::to_string(t) + "/" + std::to_string(i));
        if (i % 7 == t) {
          f.client->cancel(id);
          ++cancelled;
          continue;
        }
        const Result<std::string> answer = outcome.wait();
        if (answer.ok()) CHECK(*answer == std::to_string(t) + "/" + std::to_string(i));
        CHECK(outcome.count() == 1);
        ++answers;
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  CHECK(answers + cancelled == kThreads * kCalls);
  CHECK(f.statistic("rpc_calls") == kThreads * kCalls);
  f.client->close();
  done = true;
  server.join();
}

}  // namespace
}  // namespace hflush::hdfs
