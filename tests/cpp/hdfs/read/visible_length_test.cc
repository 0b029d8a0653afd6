#include "hflush/hdfs/read/visible_length.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "hdfs/loopback_node.h"
#include "hdfs/scripted_cluster.h"
#include "hflush/base/mutex.h"

namespace hflush::hdfs {
namespace {

using namespace std::chrono_literals;
using testing::Cluster;

using Answered = std::function<void(Result<std::int64_t>)>;

LocatedBlock block_of(std::size_t replicas, std::uint64_t recorded = 0) {
  LocatedBlock block;
  block.block = {"pool", 7, 3, recorded};
  for (std::size_t i = 0; i < replicas; ++i) {
    block.replicas.push_back(
        {loopback_node(static_cast<std::uint16_t>(9001 + i)), StorageType::kDisk, {}});
  }
  return block;
}

Status remote(const std::string& name) {
  return Status(StatusCode::kIo, name).with_remote_class("org.apache.hadoop." + name);
}

// An answer by one letter: a digit is a length, r a restart since, n no replica, s a DataNode that
// is starting, f another failure.
Result<std::int64_t> answer(char letter) {
  switch (letter) {
    case 'r':
      return std::int64_t{-1};
    case 'n':
      return remote("hdfs.server.datanode.ReplicaNotFoundException");
    case 's':
      return remote("ipc.RetriableException");
    case 'f':
      return Status(StatusCode::kIo, "connection refused", {}, ECONNREFUSED);
    default:
      return std::int64_t{letter - '0'};
  }
}

// What a search says after these answers, by replica, '.' for one that has not come: the length,
// "due", or "unknown"; "again" if DataNodes are to be asked again.
std::string after(const std::string& answers, std::uint64_t recorded = 0) {
  const LocatedBlock block = block_of(answers.size(), recorded);
  LengthSearch search(block);
  for (std::size_t replica = 0; replica < answers.size(); ++replica) {
    if (answers[replica] != '.') search.answered(replica, answer(answers[replica]));
  }
  const auto outcome = search.outcome();
  if (outcome) return outcome->ok() ? std::to_string(**outcome) : "unknown";
  return search.any_is_starting() ? "again" : "due";
}

TEST_CASE("visible length: the first one that comes counts, and none only if all say so") {
  CHECK(after("...") == "due");
  CHECK(after(".7.") == "7");
  CHECK(after("r7f") == "7");
  CHECK(after("57.") == "5");
  CHECK(after("0..") == "0");
  CHECK(after("nn.") == "due");
  CHECK(after("nnn") == "0");
  CHECK(after("nnf") == "unknown");
  CHECK(after("nnr") == "unknown");
  CHECK(after("f") == "unknown");
  CHECK(after("ff.") == "due");
  CHECK(after("ffs") == "again");
  CHECK(after("s.n") == "again");
  CHECK(after("s3") == "3");
}

TEST_CASE("READ-12: a DataNode that has lost recorded bytes does not say how long a block is") {
  CHECK(after("57.", 7) == "7");
  CHECK(after("08.", 7) == "8");
  CHECK(after("5..", 7) == "due");
  CHECK(after("5n0", 7) == "0");  // none for now
  CHECK(after("5f", 7) == "unknown");
}

TEST_CASE("visible length: a DataNode that is starting is asked again, once for each answer") {
  const LocatedBlock block = block_of(2);
  LengthSearch search(block);
  search.answered(0, answer('f'));
  search.answered(1, answer('s'));
  CHECK(search.take_starting() == std::vector<std::size_t>{1});
  CHECK(search.take_starting().empty());
  CHECK_FALSE(search.outcome().has_value());
  search.answered(1, answer('n'));
  REQUIRE(search.outcome().has_value());
  const std::string message = search.outcome()->status().message();
  CHECK(message.find("blk_7_3") != std::string::npos);
  CHECK(message.find("127.0.0.1:9001: connection refused") != std::string::npos);
  CHECK(message.find("127.0.0.1:9002: hdfs.server.datanode.Rep") != std::string::npos);
}

TEST_CASE("visible length: a failure says which DataNode did not answer, and what helps") {
  const LocatedBlock block = block_of(2);
  LengthSearch search(block);
  search.answered(0, answer('r'));
  const std::string message = search.timed_out(1500ms).message();
  CHECK(message.find("127.0.0.1:9001: restarted since") != std::string::npos);
  CHECK(message.find("recover_lease") != std::string::npos);
  CHECK(message.find("127.0.0.1:9002: getReplicaVisibleLength: timed out after 1500 ms") !=
        std::string::npos);
}

// Questions that stay open until the test answers them; each knows whether it is under way.
class Questions {
 public:
  AskVisibleLength asker() {
    return [this](const DatanodeInfo& node, const ExtendedBlock&, const Token& token,
                  Answered answered) {
      const auto under_way = std::make_shared<int>();
      const MutexLock lock(mutex_);
      open_.push_back({node.transfer_port, token, std::move(answered), under_way});
      return under_way;
    };
  }
  std::size_t count() const {
    const MutexLock lock(mutex_);
    return open_.size();
  }
  std::size_t under_way() const {
    const MutexLock lock(mutex_);
    return static_cast<std::size_t>(
        std::ranges::count_if(open_, [](const Open& one) { return !one.handle.expired(); }));
  }
  bool all_have(const Token& token) const {
    const MutexLock lock(mutex_);
    return std::ranges::all_of(open_, [&](const Open& one) { return one.token == token; });
  }
  void answer(std::size_t number, Result<std::int64_t> length) {
    Answered answered;
    {
      const MutexLock lock(mutex_);
      answered = open_.at(number).answered;
    }
    answered(std::move(length));
  }

 private:
  struct Open {
    std::uint32_t port;
    Token token;
    Answered answered;
    std::weak_ptr<int> handle;
  };
  mutable Mutex mutex_;
  std::vector<Open> open_ HFLUSH_GUARDED_BY(mutex_);
};

struct Asking {
  Asking() { context.ask_visible_length = questions.asker(); }

  Questions questions;
  Cluster cluster{1, testing::Bytes(10), 10};
  ReadContext context = cluster.context();
};

TEST_CASE("visible length: all are asked at once; those that hang are not waited for") {
  Asking asking;
  LocatedBlock block = block_of(3);
  block.token = {"the NameNode's for this block"};
  std::thread datanode([&] {
    while (asking.questions.count() < 3) std::this_thread::yield();
    asking.questions.answer(1, answer('f'));
    asking.questions.answer(2, answer('7'));
  });
  const auto length = visible_length(asking.context, block, asking.cluster.interrupt);
  datanode.join();
  REQUIRE(length.ok());
  CHECK(*length == 7);
  CHECK(asking.questions.all_have(block.token));
  CHECK(asking.questions.under_way() == 0);
  asking.questions.answer(0, answer('9'));  // too late, which does no harm
}

TEST_CASE("visible length: with nothing but silence it fails after one socket timeout") {
  Asking asking;
  asking.cluster.settings.read.socket_timeout = 100ms;
  const LocatedBlock block = block_of(3);
  const auto began = std::chrono::steady_clock::now();
  const auto length = visible_length(asking.context, block, asking.cluster.interrupt);
  CHECK(std::chrono::steady_clock::now() - began >= 100ms);
  REQUIRE_FALSE(length.ok());
  CHECK(length.status().message().find("timed out after 100 ms") != std::string::npos);
  CHECK(asking.questions.count() == 3);
  CHECK(asking.questions.under_way() == 0);
}

TEST_CASE("visible length: one that is starting is asked again, while others are silent") {
  Asking asking;
  const LocatedBlock block = block_of(2);
  std::thread datanode([&] {
    while (asking.questions.count() < 2) std::this_thread::yield();
    asking.questions.answer(1, answer('s'));
    while (asking.questions.count() < 3) std::this_thread::yield();
    asking.questions.answer(2, answer('4'));
  });
  const auto length = visible_length(asking.context, block, asking.cluster.interrupt);
  datanode.join();
  REQUIRE(length.ok());
  CHECK(*length == 4);
}

class Interruption final : public env::Interrupt {
 private:
  Status check() override { return Status(StatusCode::kInterrupted, "interrupted"); }
};

TEST_CASE("visible length: an interrupt ends the wait, and the questions") {
  Asking asking;
  const LocatedBlock block = block_of(2);
  Interruption interruption;
  const auto length = visible_length(asking.context, block, interruption);
  CHECK(length.status().code() == StatusCode::kInterrupted);
  CHECK(asking.questions.count() == 2);
  CHECK(asking.questions.under_way() == 0);
}

TEST_CASE("visible length: answers of many threads at once, and after the end") {
  for (int round = 0; round < 50; ++round) {
    Asking asking;
    const LocatedBlock block = block_of(6);
    std::vector<std::thread> datanodes;
    datanodes.reserve(6);
    for (std::size_t i = 0; i < 6; ++i) {
      datanodes.emplace_back([&asking, i] {
        while (asking.questions.count() < 6) std::this_thread::yield();
        asking.questions.answer(i, answer(i % 2 == 0 ? 'f' : '8'));
      });
    }
    const auto length = visible_length(asking.context, block, asking.cluster.interrupt);
    for (std::thread& datanode : datanodes) datanode.join();
    REQUIRE(length.ok());
    CHECK(*length == 8);
  }
}

}  // namespace
}  // namespace hflush::hdfs
