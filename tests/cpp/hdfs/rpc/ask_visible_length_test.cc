// How a DataNode is asked for the visible length of a replica: on which connections.
#include "hflush/hdfs/rpc/ask_visible_length.h"

#include <doctest/doctest.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "env/loopback.h"
#include "hdfs/scripted_name_node.h"
#include "hflush/env/epoll_loop.h"
#include "hflush/env/executor.h"

namespace hflush::hdfs {
namespace {

using namespace std::chrono_literals;  // NOLINT(google-build-using-namespace)

using Lengths = std::vector<std::int64_t>;

struct Asking {
  explicit Asking(env::Duration silence_probe)
      : asker(ask_datanode(settings(silence_probe), {loop, workers})) {
    node.ip = data_node.endpoint().host;
    node.rpc_port = data_node.endpoint().port;
    REQUIRE(loop.start().ok());
  }
  static Settings settings(env::Duration silence_probe) {
    Settings settings;
    settings.write.silence_probe = silence_probe;
    settings.user = "alice";
    settings.read.use_datanode_hostname = false;
    return settings;
  }
  std::shared_ptr<void> ask() {
    return asker(node, {}, {}, [told = told](Result<std::int64_t> length) {
      told->update([&](Lengths& lengths) { lengths.push_back(length.ok() ? *length : -1); });
    });
  }

  env::EpollLoop loop{env::steady_clock()};
  env::WorkerPool workers{1};
  testing::ScriptedNameNode data_node;
  DatanodeInfo node;
  AskVisibleLength asker;
  std::shared_ptr<env::testing::Shared<Lengths>> told =
      std::make_shared<env::testing::Shared<Lengths>>();
};

TEST_CASE("questions that come at about the same time share a connection, which ends with them") {
  Asking h(1h);
  std::shared_ptr<void> first = h.ask();
  std::shared_ptr<void> second = h.ask();
  testing::ScriptedConnection connection = h.data_node.accept();
  CHECK(connection.receive_call().method == "getReplicaVisibleLength");
  const testing::ReceivedCall call = connection.receive_call();
  first.reset();
  connection.answer(call, testing::number(1, 7));
  CHECK(h.told->wait_until([](const Lengths& lengths) { return lengths == Lengths{7}; }));
  std::shared_ptr<void> third = h.ask();
  CHECK(connection.receive_call().method == "getReplicaVisibleLength");
  second.reset();
  third.reset();
  CHECK(connection.at_end());
  CHECK(h.told->get() == Lengths{7});
  const std::shared_ptr<void> fourth = h.ask();
  CHECK(h.data_node.accept().receive_call().method == "getReplicaVisibleLength");
}

TEST_CASE("a later question has a connection of its own: the earlier one may be lost") {
  Asking h(0s);
  const std::shared_ptr<void> first = h.ask();
  testing::ScriptedConnection lost = h.data_node.accept();
  const std::shared_ptr<void> second = h.ask();
  CHECK(h.data_node.accept().receive_call().method == "getReplicaVisibleLength");
}

}  // namespace
}  // namespace hflush::hdfs
