// WriteFailure: what is known of a failed stream beyond the message, for programs: the DataNodes
// that failed, the block, and what happened last. FailureRecord: what a stream keeps for that while
// it works. Values; thread-compatible.
#pragma once

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
  std::string reason;        // continues after the address
  std::uint64_t offset = 0;  // in the file: every byte below was acknowledged
  env::TimePoint when;
};

// The detail of a Status (Status::detail()).
struct WriteFailure {
  std::vector<FailedNode> failed_nodes;          // oldest first
  std::string block;                             // that was written last: "blk_1_1001"
  std::vector<std::uint64_t> generation_stamps;  // of it, oldest first
  std::uint64_t acknowledged = 0;                // bytes of the file
  stream::PastEvents history;
};

class FailureRecord {
 public:
  // Beyond these the oldest are forgotten.
  static constexpr std::size_t kMaxNodes = 64;
  static constexpr std::size_t kMaxStamps = 64;

  // A block is written, under the stamp that it has now. Cheap: for every event.
  void writes(const ExtendedBlock& block) {
    if (block.id == block_.id && block.generation_stamp == block_.generation_stamp) return;
    if (block.id != block_.id) stamps_.clear();
    block_ = block;
    append(stamps_, block.generation_stamp, kMaxStamps);
  }
  void node_failed(FailedNode node) { append(nodes_, std::move(node), kMaxNodes); }

  // "blk_1_1001"; empty if none has been written.
  std::string block() const { return stamps_.empty() ? std::string() : block_.to_string(); }
  WriteFailure failure(std::uint64_t acknowledged, stream::PastEvents history) const {
    return {nodes_, block(), stamps_, acknowledged, std::move(history)};
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
};

}  // namespace hflush::hdfs
