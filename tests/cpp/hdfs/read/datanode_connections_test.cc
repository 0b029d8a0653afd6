#include "hflush/hdfs/read/datanode_connections.h"

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <memory>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "hdfs/scripted_datanode.h"
#include "hflush/env/clock.h"
#include "hflush/env/epoll_loop.h"
#include "hflush/env/process.h"
#include "testing/patience.h"

namespace hflush::hdfs {
namespace {

using hflush::testing::kPatience;
using testing::ScriptedDatanode;
using namespace std::chrono_literals;

struct Pool {
  Pool(std::size_t capacity, env::Duration expiry)
      : connections(DatanodeConnections::make(loop, capacity, expiry)) {}

  env::BlockingSocket connect(const ScriptedDatanode& datanode) {
    auto socket = env::BlockingSocket::connect(at(datanode), kPatience, interrupt);
    REQUIRE(socket.ok());
    return *std::move(socket);
  }
  static env::Endpoint at(const ScriptedDatanode& datanode) {
    return datanode.node().transfer_endpoint(false);
  }

  env::Uninterrupted interrupt;
  env::EpollLoop loop{env::steady_clock()};
  std::shared_ptr<DatanodeConnections> connections;
};

template <typename Predicate>
bool soon(const Predicate& predicate) {
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  while (!predicate()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::yield();
  }
  return true;
}

TEST_CASE("datanode connections: what is given back is taken again, each DataNode's own") {
  ScriptedDatanode one;
  ScriptedDatanode other;
  Pool pool(16, 1h);
  CHECK_FALSE(pool.connections->take(Pool::at(one)).has_value());
  pool.connections->give_back(pool.connect(one));
  pool.connections->give_back(pool.connect(other));
  CHECK(pool.connections->idle() == 2);
  const auto taken = pool.connections->take(Pool::at(one));
  REQUIRE(taken.has_value());
  CHECK(taken->endpoint() == Pool::at(one));
  CHECK_FALSE(pool.connections->take(Pool::at(one)).has_value());
  CHECK(pool.connections->take(Pool::at(other)).has_value());
  CHECK(pool.connections->idle() == 0);
}

TEST_CASE("datanode connections: the oldest makes room") {
  ScriptedDatanode one;
  ScriptedDatanode other;
  Pool pool(2, 1h);
  pool.connections->give_back(pool.connect(one));
  pool.connections->give_back(pool.connect(other));
  pool.connections->give_back(pool.connect(other));
  CHECK(pool.connections->idle() == 2);
  CHECK_FALSE(pool.connections->take(Pool::at(one)).has_value());
}

TEST_CASE("datanode connections: none are kept where none are wanted") {
  ScriptedDatanode datanode;
  Pool pool(0, 1h);
  pool.connections->give_back(pool.connect(datanode));
  CHECK(pool.connections->idle() == 0);
}

TEST_CASE("datanode connections: one that the DataNode has closed is not handed out") {
  ScriptedDatanode datanode;
  Pool pool(16, 1h);
  for (int i = 0; i < 3; ++i) pool.connections->give_back(pool.connect(datanode));
  REQUIRE(soon([&] { return datanode.connections() == 3; }));
  datanode.disconnect();
  // The end of a connection arrives when it arrives.
  CHECK(soon([&] {
    auto taken = pool.connections->take(Pool::at(datanode));
    if (!taken) return true;
    pool.connections->give_back(*std::move(taken));
    return false;
  }));
  CHECK(pool.connections->idle() == 0);
}

TEST_CASE("datanode connections: what nobody takes is closed in time") {
  ScriptedDatanode datanode;
  Pool pool(16, 20ms);
  for (int round = 0; round < 2; ++round) {
    pool.connections->give_back(pool.connect(datanode));
    pool.connections->give_back(pool.connect(datanode));
    CHECK(soon([&] { return pool.connections->idle() == 0; }));
  }
}

TEST_CASE("datanode connections: the pool may end before its timer") {
  ScriptedDatanode datanode;
  auto pool = std::make_unique<Pool>(16, 1ms);
  pool->connections->give_back(pool->connect(datanode));
  pool->connections.reset();
  pool.reset();
}

TEST_CASE("datanode connections: many threads use one pool") {
  ScriptedDatanode datanode;
  Pool pool(4, 5ms);
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] {
      env::Uninterrupted interrupt;
      for (int round = 0; round < 50; ++round) {
        auto taken = pool.connections->take(Pool::at(datanode));
        if (!taken) {
          auto fresh = env::BlockingSocket::connect(Pool::at(datanode), kPatience, interrupt);
          if (!fresh.ok()) continue;
          taken = *std::move(fresh);
        }
        pool.connections->give_back(*std::move(taken));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(pool.connections->idle() <= 4);
}

TEST_CASE("datanode connections: a forked child leaves its parent's alone") {
  env::Process::current();  // counts forks from now on
  ScriptedDatanode datanode;
  Pool pool(16, 1h);
  pool.connections->give_back(pool.connect(datanode));
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    const bool empty =
        pool.connections->idle() == 0 && !pool.connections->take(Pool::at(datanode)).has_value();
    ::_exit(empty ? 0 : 1);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(status == 0);
  CHECK(pool.connections->take(Pool::at(datanode)).has_value());
}

}  // namespace
}  // namespace hflush::hdfs
