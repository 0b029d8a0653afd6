// ReadContext: what reading needs of a client. A view: readers keep what it points to alive with
// `owner`.
#pragma once

#include <memory>

#include "hflush/env/blocking_socket.h"
#include "hflush/env/clock.h"
#include "hflush/env/randomness.h"
#include "hflush/hdfs/read/datanode_connections.h"
#include "hflush/hdfs/rpc/ask_visible_length.h"
#include "hflush/hdfs/rpc/rpc_client.h"
#include "hflush/hdfs/settings.h"

namespace hflush::hdfs {

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
