// AskVisibleLength: getReplicaVisibleLength, which only DataNodes answer.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "hflush/base/result.h"
#include "hflush/env/host.h"
#include "hflush/hdfs/settings.h"
#include "hflush/hdfs/wire/types.h"

namespace hflush::hdfs {

// Asks how many bytes of a replica that is being written the DataNode shows to readers. `token`: of
// a reader of the block, for a DataNode that wants one. `answered` runs once, on any thread, or
// before this returns; negative: the DataNode does not know. What is returned keeps the question
// under way; without it, the answer may be a failure.
using AskVisibleLength = std::function<std::shared_ptr<void>(
    const DatanodeInfo& node, const ExtendedBlock& block, const Token& token,
    std::function<void(Result<std::int64_t>)> answered)>;

// Asks once: the others are asked already. With a token over a connection that is made for the one
// call; without, over one that the questions share that come at about the same time.
AskVisibleLength ask_datanode(const Settings& settings, const env::Host& host);

}  // namespace hflush::hdfs
