// Balancer: HDFS moves finalized replicas between DataNodes on its own account, of closed files and
// of finished blocks of open ones.
//
// The target copies the replica and reports it. From then on the NameNode lists both and counts on
// the new one; it tells the old DataNode with a later heartbeat to delete its own, and hears still
// later that it has. An append that comes before the heartbeat keeps the old replica; one that
// comes after it may be sent to a DataNode that has none. A copy that is late, of a block that was
// opened again, is deleted. Nothing of a copy is synced.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "sim/data_node.h"
#include "sim/name_space.h"
#include "sim/network.h"
#include "sim/world.h"

namespace hflush::sim {

class Balancer {
 public:
  Balancer(World& world, Network& network, const std::vector<std::unique_ptr<DataNode>>& nodes,
           NameSpace& space)
      : world_(world),
        network_(network),
        nodes_(nodes),
        space_(space),
        chance_(world.seed(), "balancer") {}

  // In some runs, a few moves at random times.
  void plan();

 private:
  struct Move {
    std::uint64_t block;
    std::uint64_t stamp;
    DataNode* source;
    DataNode* target;
  };

  void begin();
  void copy(const Move& move);
  void report(const Move& move);
  void delete_old(const Move& move, int tries);
  void report_deleted(const Move& move);
  Duration lag();
  bool is_reached(const DataNode& node) const;

  World& world_;
  Network& network_;
  const std::vector<std::unique_ptr<DataNode>>& nodes_;
  NameSpace& space_;
  Chance chance_;
};

}  // namespace hflush::sim
