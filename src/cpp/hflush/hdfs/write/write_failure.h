// WriteFailure: what is known of a failed stream beyond the message, for programs: the DataNodes
// that failed, the block, and what happened last. FailureRecord: what a stream keeps for that while
// it works. Values; thread-compatible.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "hflush/env/clock.h"
#include "hflush/hdfs/wire/types.h"
#include "hflush/stream/sink.h"

namespace hflush::hdfs {

struct FailedNode {
  std::string address;       // "10.0.0.1:9866"
  std::size_t place = 0;     // in its pipeline, from 0
  std::size_t nodes = 0;     // of that pipeline
  std::string reason;        // continues after the address
  std::uint64_t offset = 0;  // in the file: every byte below was acknowledged
  env::TimePoint when;
};

// The detail of a Status (Status::detail()).
struct WriteFailure {
  std::vector<FailedNode> failed_nodes;          // oldest first
  std::string block;                             // that was written last: "blk_1_1001"
  std::vector<std::uint64_t> generation_stamps;  // of all its pipelines, oldest first
  std::uint64_t acknowledged = 0;                // bytes of the file
  stream::PastEvents history;
};

class FailureRecord {
 public:
  // Beyond these the oldest are forgotten, or left out of a message.
  static constexpr std::size_t kMaxNodes = 64;
  static constexpr std::size_t kMaxStamps = 64;
  static constexpr std::size_t kMaxText = 2048;

  // A block is written, under the stamp that it has now. Cheap: for every event.
  void writes(const ExtendedBlock& block) {
    if (block.id == block_.id && block.generation_stamp == block_.generation_stamp) return;
    if (block.id != block_.id) stamps_.clear();
    block_ = block;
    may_have(block.generation_stamp);
  }
  // The stamp of a pipeline that is set up, whether or not that succeeds.
  void may_have(std::uint64_t stamp) {
    if (std::ranges::find(stamps_, stamp) == stamps_.end()) append(stamps_, stamp, kMaxStamps);
  }
  // The search for the first pipeline of a block begins.
  void block_begins() noexcept { of_block_ = 0; }
  void node_failed(FailedNode node) {
    append(nodes_, std::move(node), kMaxNodes);
    of_block_ = std::min(of_block_ + 1, kMaxNodes);
    ++failed_;
  }
  // The DataNodes that failed, oldest first, and how many have failed so far.
  const std::vector<FailedNode>& nodes() const noexcept { return nodes_; }
  std::uint64_t failed() const noexcept { return failed_; }

  // The nodes that have failed since the block began, for a message: "DataNode 10.0.0.1:9866 (2 of
  // 3) is lost; DataNode ...".
  std::string faults() const;
  // That is, or was, written last; none if none has been.
  const ExtendedBlock* block() const { return stamps_.empty() ? nullptr : &block_; }
  WriteFailure failure(std::uint64_t acknowledged, stream::PastEvents history) const {
    std::string name = stamps_.empty() ? std::string() : block_.to_string();
    return {nodes_, std::move(name), stamps_, acknowledged, std::move(history)};
  }

 private:
  template <typename T>
  static void append(std::vector<T>& values, T value, std::size_t limit) {
    if (values.size() == limit) values.erase(values.begin());
    values.push_back(std::move(value));
  }

  ExtendedBlock block_;
  std::vector<std::uint64_t> stamps_;
  std::vector<FailedNode> nodes_;
  std::uint64_t failed_ = 0;
  std::size_t of_block_ = 0;  // the newest of them
};

}  // namespace hflush::hdfs
