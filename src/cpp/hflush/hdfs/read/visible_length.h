// The length of a block that is being written, which only its DataNodes know.
#pragma once

#include <cstdint>
#include <string>

#include "hflush/base/result.h"
#include "hflush/env/interrupt.h"
#include "hflush/hdfs/read/read_context.h"
#include "hflush/hdfs/settings.h"
#include "hflush/hdfs/wire/types.h"

namespace hflush::hdfs {

// Asks the replicas of `block` one after the other for the bytes that they show to readers, until
// one knows. 0 if no DataNode has its replica yet. A DataNode that is still starting is asked again
// while dfs.client.socket-timeout lasts. The failure says what each of them answered. Requires:
// replicas.
Result<std::uint64_t> visible_length(const LocatedBlock& block, const ReadSettings& settings,
                                     const AskVisibleLength& ask, env::Interrupt& interrupt);

// Asks over a connection that is made for the one call: no retries, the next DataNode is better.
AskVisibleLength ask_datanode(const Settings& settings);

}  // namespace hflush::hdfs
