// ReadContext: what reading needs of a client. A view: readers keep what it points to alive with
// `owner`.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "hflush/base/result.h"
#include "hflush/env/blocking_socket.h"
#include "hflush/env/clock.h"
#include "hflush/env/randomness.h"
#include "hflush/hdfs/read/datanode_connections.h"
#include "hflush/hdfs/rpc/rpc_client.h"
#include "hflush/hdfs/settings.h"
#include "hflush/hdfs/wire/types.h"

namespace hflush::hdfs {

// Asks how many bytes of a replica that is being written the DataNode shows to readers. `answered`
// runs once, on any thread, or before this returns; negative: the DataNode does not know. What is
// returned keeps the question under way; without it, the answer may be a failure.
using AskVisibleLength =
    std::function<std::shared_ptr<void>(const DatanodeInfo& node, const ExtendedBlock& block,
                                        std::function<void(Result<std::int64_t>)> answered)>;

struct ReadContext {
  std::shared_ptr<void> owner;
  RpcClient& name_node;
  DatanodeConnections& connections;
  const Settings& settings;
  AskVisibleLength ask_visible_length;
  env::BlockingConnector& connector = env::machine_connector();
  const env::Clock& clock = env::steady_clock();
  env::Randomness& randomness = env::system_randomness();
};

}  // namespace hflush::hdfs
