#include "hflush/hdfs/rpc/ask_visible_length.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "hflush/hdfs/rpc/rpc_client.h"
#include "hflush/hdfs/sasl/token_file.h"
#include "hflush/hdfs/wire/name_node_requests.h"

namespace hflush::hdfs {

AskVisibleLength ask_datanode(const Settings& settings, const env::Host& host) {
  return [user = settings.user, rpc = settings.rpc, read = settings.read, host](
             const DatanodeInfo& node, const ExtendedBlock& block, const Token& token,
             std::function<void(Result<std::int64_t>)> answered) -> std::shared_ptr<void> {
    RpcSettings once = rpc;
    once.connect_timeout = read.socket_timeout;
    once.connect_retries = 0;
    once.connect_retries_on_timeouts = 0;
    once.rpc_timeout = read.socket_timeout;
    once.retry_policy_enabled = false;
    RpcTarget target;
    target.protocol = "org.apache.hadoop.hdfs.protocol.ClientDatanodeProtocol";
    target.servers = {node.rpc_endpoint(read.use_datanode_hostname)};
    if (auto held = sasl::from_wire(token); held.ok()) {
      target.tokens =
          std::make_shared<sasl::TokenFile>(std::vector{*std::move(held)}, std::string());
    }
    const std::shared_ptr<RpcClient> client = RpcClient::make(host, target, user, once);
    client->start(GetReplicaVisibleLength{block}, {}, std::move(answered));
    return {client.get(), [client](void*) { client->close(); }};
  };
}

}  // namespace hflush::hdfs
