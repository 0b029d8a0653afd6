#include "hflush/hdfs/read/visible_length.h"

#include <algorithm>
#include <cerrno>
#include <memory>
#include <utility>
#include <vector>

#include "hflush/env/answer.h"
#include "hflush/env/process.h"
#include "hflush/hdfs/rpc/rpc_client.h"
#include "hflush/hdfs/wire/name_node_requests.h"
#include "hflush/hdfs/wire/remote_exception.h"

namespace hflush::hdfs {
namespace {

constexpr env::Duration kStartingPause = std::chrono::milliseconds(500);

enum class State : std::uint8_t { kToAsk, kNoReplica, kFailed };

struct Asked {
  const DatanodeInfo* node;
  State state = State::kToAsk;
  Status failure;
};

State state_after(const Status& failure) {
  if (is_class(failure.remote_class(), "ReplicaNotFoundException")) return State::kNoReplica;
  if (is_class(failure.remote_class(), "RetriableException")) return State::kToAsk;
  return State::kFailed;
}

bool all_are(const std::vector<Asked>& nodes, State state) {
  return std::ranges::all_of(nodes, [&](const Asked& one) { return one.state == state; });
}

bool any_is(const std::vector<Asked>& nodes, State state) {
  return std::ranges::any_of(nodes, [&](const Asked& one) { return one.state == state; });
}

Status nobody_knows(const LocatedBlock& block, const std::vector<Asked>& nodes) {
  std::string message =
      "no DataNode tells the length of " + block.block.to_string() + ", which is being written";
  char separator = ':';
  for (const Asked& one : nodes) {
    message += separator + (" " + one.node->transfer_address()) + ": " + one.failure.message();
    separator = ';';
  }
  return Status(StatusCode::kIo, std::move(message), {}, EIO);
}

}  // namespace

Result<std::uint64_t> visible_length(const LocatedBlock& block, const ReadSettings& settings,
                                     const AskVisibleLength& ask, env::Interrupt& interrupt) {
  std::vector<Asked> nodes;
  nodes.reserve(block.replicas.size());
  for (const Replica& replica : block.replicas) nodes.push_back({&replica.node, State::kToAsk, {}});
  const auto deadline = CondVar::Clock::now() + settings.socket_timeout;
  while (true) {
    for (Asked& one : nodes) {
      if (one.state != State::kToAsk) continue;
      const auto length = ask(*one.node, block.block, interrupt);
      if (length.ok() && *length >= 0) return static_cast<std::uint64_t>(*length);
      if (length.status().code() == StatusCode::kInterrupted) return length.status();
      one.failure = length.ok() ? Status(StatusCode::kIo, "restarted since the block was begun")
                                : length.status();
      one.state = state_after(one.failure);
    }
    if (all_are(nodes, State::kNoReplica)) return std::uint64_t{0};
    if (!any_is(nodes, State::kToAsk) || CondVar::Clock::now() >= deadline) {
      return nobody_knows(block, nodes);
    }
    HFLUSH_RETURN_IF_ERROR(env::pause(kStartingPause, interrupt));
  }
}

AskVisibleLength ask_datanode(const Settings& settings) {
  return [user = settings.user, rpc = settings.rpc, read = settings.read](
             const DatanodeInfo& node, const ExtendedBlock& block,
             env::Interrupt& interrupt) -> Result<std::int64_t> {
    RpcSettings once = rpc;
    once.connect_timeout = read.socket_timeout;
    once.connect_retries = 0;
    once.connect_retries_on_timeouts = 0;
    once.rpc_timeout = read.socket_timeout;
    once.retry_policy_enabled = false;
    const env::Endpoint datanode = node.rpc_endpoint(read.use_datanode_hostname);
    RpcTarget target;
    target.protocol = "org.apache.hadoop.hdfs.protocol.ClientDatanodeProtocol";
    target.servers = {datanode};
    env::Process& process = env::Process::current();
    const std::shared_ptr<RpcClient> client =
        RpcClient::make(process.loop(), process.resolver(), target, user, once);
    auto length = client->call(GetReplicaVisibleLength{block}, {}, interrupt);
    client->close();
    return length;
  };
}

}  // namespace hflush::hdfs
