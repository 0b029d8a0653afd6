// The resolver: lookups are queued, and one that hangs is in the way of nothing else.
#include "hflush/env/resolver.h"

#include <doctest/doctest.h>

#include <memory>
#include <set>
#include <thread>

#include "env/loopback.h"
#include "hflush/env/blocking_socket.h"
#include "hflush/env/process.h"
#include "hflush/env/tcp_connection.h"

namespace hflush::env {
namespace {

using std::chrono::milliseconds;
using testing::Shared;

// Lookups that hang until the end of the scope, on all threads of a resolver.
class Hanging {
 public:
  Hanging(Executor& resolver, int threads) : threads_(threads) {
    for (int i = 0; i < threads; ++i) {
      REQUIRE(resolver.run([state = state_] {
        state->update([](State& value) { ++value.hanging; });
        CHECK(state->wait_until([](const State& value) { return value.released; }));
        state->update([](State& value) { --value.hanging; });
      }));
    }
    REQUIRE(state_->wait_until([&](const State& value) { return value.hanging == threads_; }));
  }
  ~Hanging() {
    state_->update([](State& value) { value.released = true; });
    CHECK(state_->wait_until([](const State& value) { return value.hanging == 0; }));
  }
  Hanging(const Hanging&) = delete;
  Hanging& operator=(const Hanging&) = delete;

 private:
  struct State {
    int hanging = 0;
    bool released = false;
  };
  const int threads_;
  const std::shared_ptr<Shared<State>> state_ = std::make_shared<Shared<State>>();
};

struct Failure final : TcpConnection::Events {
  void on_connected(TcpConnection& /*connection*/) override {}
  void on_readable() override {}
  void on_writable() override {}
  void on_connect_failed(Status failure) override {
    told.update([&](Status& value) { value = std::move(failure); });
  }
  Shared<Status> told;
};

TEST_CASE("every task is taken, and runs on another thread, on few of them") {
  struct Done {
    int count = 0;
    std::set<std::thread::id> threads;
  };
  const auto done = std::make_shared<Shared<Done>>();
  Resolver resolver(3);
  for (int i = 0; i < 300; ++i) {
    REQUIRE(resolver.run([done] {
      done->update([](Done& value) {
        ++value.count;
        value.threads.insert(std::this_thread::get_id());
      });
    }));
  }
  REQUIRE(done->wait_until([](const Done& value) { return value.count == 300; }));
  const Done all = done->get();
  CHECK(all.threads.size() <= 3);
  CHECK_FALSE(all.threads.contains(std::this_thread::get_id()));
}

TEST_CASE("a lookup that hangs keeps back those behind it, and not the end") {
  const auto ran = std::make_shared<Shared<int>>();
  const auto kept = std::make_shared<int>(0);
  Resolver resolver(2);
  const Hanging hanging(resolver, 2);
  REQUIRE(resolver.run([ran, kept] { ran->update([](int& value) { ++value; }); }));
  CHECK(kept.use_count() == 2);
  resolver.stop();
  CHECK(kept.use_count() == 1);  // dropped
  CHECK(ran->get() == 0);
  CHECK_FALSE(resolver.run([] {}));
  resolver.stop();
}

TEST_CASE("lookups that hang: a connection's own timeout is in time, and the loop goes on") {
  Process& process = Process::current();
  REQUIRE(process.loop().start().ok());
  const Hanging hanging(process.resolver(), static_cast<int>(Process::kMaxLookups));
  const auto events = std::make_shared<Failure>();
  Shared<bool> ticked;
  process.loop().post([&] {
    TcpConnection::Options options;
    options.connect_timeout = milliseconds(50);
    process.loop().connect(process.resolver(), {"localhost", 1}, options, events);
    process.loop().post([&] { ticked.update([](bool& value) { value = true; }); });
  });
  CHECK(ticked.wait_until([](bool value) { return value; }));
  REQUIRE(events->told.wait_until([](const Status& status) { return !status.ok(); }));
  CHECK(events->told.get().message() == "resolve host of localhost:1: timed out after 50 ms");

  Uninterrupted uninterrupted;
  const Status late =
      BlockingSocket::connect({"localhost", 1}, milliseconds(50), uninterrupted).status();
  CHECK(late.code() == StatusCode::kTimedOut);
  CHECK(late.message() == "resolve host of localhost:1: timed out after 50 ms");

  class Impatient final : public Interrupt {
    Status check() override { return Status(StatusCode::kInterrupted, "enough"); }
  } impatient;
  CHECK(BlockingSocket::connect({"localhost", 1}, kNoTimeout, impatient).status().code() ==
        StatusCode::kInterrupted);
}

TEST_CASE("busy workers are in no lookup's way") {
  Process& process = Process::current();
  const testing::Listener listener;
  const Endpoint endpoint{"localhost", listener.endpoint().port};
  const auto released = std::make_shared<Shared<bool>>();
  // They may outlive the test case: no CHECK in them.
  while (process.executor().run(
      [released] { static_cast<void>(released->wait_until([](bool value) { return value; })); })) {
  }
  Uninterrupted uninterrupted;
  CHECK(BlockingSocket::connect(endpoint, testing::kPatience, uninterrupted).ok());
  released->update([](bool& value) { value = true; });
}

}  // namespace
}  // namespace hflush::env
