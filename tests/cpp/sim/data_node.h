// DataNode: a model of one, written from the protocol: replicas with their states, stamps and
// bytes, pipelines hop by hop, acks in the order of packets.
//
// It is stricter than a real one: what a real DataNode would only mind later, or never, is a breach
// of the world here (a packet beyond the end, the last one before all others are acknowledged, a
// wrong sum, a wrong byte).
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "hflush/hdfs/wire/data_transfer.h"
#include "hflush/hdfs/wire/types.h"
#include "sim/network.h"
#include "sim/world.h"

namespace hflush::sim {

struct StoredReplica {
  enum class State : std::uint8_t {
    kBeingWritten,  // RBW
    kFinalized,
    kWaiting,  // to be recovered: its DataNode died while it was written
  };
  State state = State::kBeingWritten;
  std::uint64_t stamp = 0;
  std::string bytes;               // received
  std::uint64_t acknowledged = 0;  // by this node and all behind it
  std::uint64_t synced = 0;        // on the disk device
};

class DataNode {
 public:
  // What the cluster knows, and wants to know.
  class Cluster {
   public:
    virtual ~Cluster() = default;
    virtual DataNode* node_at(const std::string& ip) = 0;
    // The bytes that belong at this place of the block.
    virtual std::string expected(std::uint64_t block, std::uint64_t place, std::size_t size) = 0;
    virtual std::uint64_t block_size(std::uint64_t block) = 0;
    // The NameNode hears of a finalized replica.
    virtual void finalized(DataNode& node, std::uint64_t block, std::uint64_t stamp,
                           std::uint64_t length) = 0;
  };

  DataNode(World& world, Network& network, Cluster& cluster, int number);

  const hdfs::DatanodeInfo& info() const noexcept { return info_; }
  const std::string& ip() const noexcept { return info_.ip; }
  bool is_up() const noexcept { return is_up_; }
  const StoredReplica* replica(std::uint64_t block) const;

  // The process dies; the machine, and what its kernel holds, lives on.
  void crash();
  void restart();
  // From now on each packet takes up to so long to store.
  void slow_down(Duration longest) { longest_store_ = longest; }

 private:
  class Receiver;
  struct Operation;

  void listen();
  // What another node has acknowledged, unless this one is down or has the replica.
  void take_copy(std::uint64_t block, const StoredReplica& original);
  // Why the replica cannot be opened; empty if it is.
  std::string open_replica(const Operation& operation);
  void finalize(std::uint64_t block);

  World& world_;
  Network& network_;
  Cluster& cluster_;
  Chance chance_;
  hdfs::DatanodeInfo info_;
  bool is_up_ = true;
  Duration longest_store_;
  std::map<std::uint64_t, StoredReplica> replicas_;
  std::map<std::uint64_t, std::weak_ptr<Receiver>> writers_;  // of replicas being written
};

}  // namespace hflush::sim
