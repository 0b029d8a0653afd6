// ReadContext: what reading needs of a client. A view: readers keep what it points to alive with
// `owner`.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "hflush/base/result.h"
#include "hflush/env/interrupt.h"
#include "hflush/hdfs/read/datanode_connections.h"
#include "hflush/hdfs/rpc/rpc_client.h"
#include "hflush/hdfs/settings.h"
#include "hflush/hdfs/wire/types.h"

namespace hflush::hdfs {

// How many bytes of a replica that is being written the DataNode shows to readers. Negative: it
// does not know.
using AskVisibleLength = std::function<Result<std::int64_t>(
    const DatanodeInfo& node, const ExtendedBlock& block, env::Interrupt& interrupt)>;

struct ReadContext {
  std::shared_ptr<void> owner;
  RpcClient& name_node;
  DatanodeConnections& connections;
  const Settings& settings;
  AskVisibleLength ask_visible_length;
};

}  // namespace hflush::hdfs
