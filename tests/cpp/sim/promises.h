// Promises: whether what writers were promised is there, on the DataNodes and in the name space.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "sim/data_node.h"
#include "sim/faults.h"
#include "sim/journal.h"
#include "sim/name_space.h"
#include "sim/texts.h"
#include "sim/world.h"

namespace hflush::sim {

class Promises {
 public:
  Promises(World& world, const NameSpace& space, const Faults& faults, const Texts& texts)
      : world_(world), space_(space), faults_(faults), texts_(texts) {}

  // Of an hflush or hsync that has returned: on every node that is up and that the NameNode counts
  // on.
  void check_kept(const Journal& journal);
  // Of a stream that was closed.
  void check_published(const Journal& journal);
  // Of one that was not, at the end of the run.
  void check_survival(const Journal& journal);

  // What readers have to see of it.
  std::uint64_t visible_length(const std::vector<std::unique_ptr<Journal>>& journals,
                               const std::string& path) const;

  // What must hold at any time.
  void look(const std::vector<std::unique_ptr<Journal>>& journals);
  // Nothing is left over at the end of a run.
  void check_rest();

  // Which blocks have replicas that need not all be synced now: a recovery has added a node whose
  // first packet would have carried the sync, or a balancer has left none that was synced.
  void remember_unsynced(const std::vector<std::unique_ptr<Journal>>& journals);
  // After all nodes have lost their power, and all files were recovered.
  void check_durable(const Journal& journal);

 private:
  using Block = NameSpace::Block;

  void check_block(const NameSpace::File& file, const Journal& journal, const Block& block,
                   std::uint64_t start, std::uint64_t end);
  void check_readable(const Journal& journal, const Block& block, std::uint64_t start);
  const NameSpace::File* file_of(const Journal& journal);
  // Whether a balancer has moved the block there, and it is for the servers to sync what hsync has
  // acknowledged, which they do not: they have copied it from where it was synced, or have listed
  // the copy since, or this node failed when it was asked for the sync, and the replica that was
  // synced in its stead is deleted.
  bool is_for_servers(const Journal& journal, const Block& block, const DataNode* node,
                      std::uint64_t start, std::uint64_t durable) const;

  World& world_;
  const NameSpace& space_;
  const Faults& faults_;
  const Texts& texts_;
  std::set<std::uint64_t> unsynced_;
  std::set<std::uint64_t> moved_unsynced_;
  std::map<std::uint64_t, std::uint64_t> stamps_;  // of blocks, when last seen
};

}  // namespace hflush::sim
