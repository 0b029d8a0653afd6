// A file in memory on scripted DataNodes and a scripted NameNode, as the readers of hdfs/ see it.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "hdfs/scripted_datanode.h"
#include "hflush/env/clock.h"
#include "hflush/env/epoll_loop.h"
#include "hflush/env/event_loop.h"
#include "hflush/env/interrupt.h"
#include "hflush/hdfs/read/datanode_connections.h"
#include "hflush/hdfs/read/hdfs_source.h"
#include "hflush/hdfs/read/read_context.h"
#include "hflush/hdfs/settings.h"
#include "testing/patience.h"

namespace hflush::hdfs::testing {

using Bytes = std::vector<std::byte>;

inline constexpr std::uint64_t kFirstId = 1001;

// A file of blocks of `block_size` bytes, each with a replica on every DataNode.
class Cluster {
 public:
  Cluster(std::size_t nodes, const Bytes& bytes, std::size_t block_size) : file(bytes) {
    settings.client_name = "reader";
    settings.read.retry_window = std::chrono::milliseconds(1);
    settings.read.socket_timeout = hflush::testing::kPatience;
    for (std::size_t i = 0; i < nodes; ++i) {
      datanodes.push_back(std::make_unique<ScriptedDatanode>());
    }
    for (std::size_t at = 0; at < bytes.size(); at += block_size) {
      const std::size_t size = std::min(block_size, bytes.size() - at);
      const auto begin = bytes.begin() + static_cast<std::ptrdiff_t>(at);
      LocatedBlock block;
      block.block = {"pool", kFirstId + located.blocks.size(), 1, size};
      block.offset = at;
      for (const auto& datanode : datanodes) {
        datanode->store(block.block.id,
                        StoredReplica({begin, begin + static_cast<std::ptrdiff_t>(size)}));
        block.replicas.push_back({datanode->node(), StorageType::kDisk, {}});
      }
      located.blocks.push_back(block);
    }
    located.file_length = bytes.size();
    located.last_block_complete = true;
    if (!located.blocks.empty()) located.last_block = located.blocks.back();
  }

  // Of the first block, on one DataNode.
  void damage(std::size_t node, std::size_t at) {
    const std::size_t size = located.blocks[0].block.length;
    StoredReplica bad({file.begin(), file.begin() + static_cast<std::ptrdiff_t>(size)});
    bad.bytes[at] ^= std::byte{0x80};
    datanodes[node]->store(kFirstId, std::move(bad));
  }

  ReadContext context() {
    return {nullptr, name_node, *connections, settings,
            [this](const auto& node, const auto& block, const auto&, const auto& answered) {
              answered(visible_length(node, block));
              return nullptr;
            }};
  }

  std::unique_ptr<HdfsSource> open(bool verify = true) {
    auto opened = HdfsSource::open(context(), "/file", verify, interrupt);
    REQUIRE(opened.ok());
    return *std::move(opened);
  }

  Bytes part(std::size_t position, std::size_t size) const {
    const auto begin = file.begin() + static_cast<std::ptrdiff_t>(position);
    return {begin, begin + static_cast<std::ptrdiff_t>(size)};
  }

  std::size_t operations() const {
    std::size_t count = 0;
    for (const auto& datanode : datanodes) count += datanode->operations().size();
    return count;
  }

  Bytes file;
  Settings settings;
  LocatedBlocks located;
  std::vector<std::unique_ptr<ScriptedDatanode>> datanodes;
  std::function<Result<std::int64_t>(const DatanodeInfo& node, const ExtendedBlock& block)>
      visible_length = [](const auto&, const auto&) -> Result<std::int64_t> {
    return Status(StatusCode::kIo, "the file is not being written");
  };
  ScriptedNameNode::Locate locate = [this](int) { return Result<LocatedBlocks>(located); };
  ScriptedNameNode name_node{[this](int call) { return locate(call); }};
  env::EpollLoop loop{env::steady_clock()};
  std::shared_ptr<DatanodeConnections> connections =
      DatanodeConnections::make(loop, 16, std::chrono::seconds(3));
  env::Uninterrupted interrupt;
};

}  // namespace hflush::hdfs::testing
