// Faults: what happens to the machines of a run, and what it excuses.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "sim/data_node.h"
#include "sim/name_node.h"
#include "sim/network.h"
#include "sim/world.h"

namespace hflush::sim {

class Faults {
 public:
  Faults(World& world, Network& network, const std::vector<std::unique_ptr<DataNode>>& nodes,
         NameNodes& name_nodes)
      : world_(world),
        network_(network),
        nodes_(nodes),
        name_nodes_(name_nodes),
        chance_(world.seed(), "faults") {}

  // A few, at random times. `hosts`: of the clients.
  void plan(std::vector<std::string> hosts);
  // All DataNodes lose their power, and come back.
  void cut_all_power();

  std::uint64_t count() const noexcept { return count_; }
  bool any() const noexcept { return count_ > 0 || name_nodes_.hits() > 0; }
  bool any_of_data_nodes() const noexcept { return !hit_.empty() || !slowed_.empty(); }
  // A good node answers, keeps what it has, and is not cut off.
  bool is_good(const DataNode& node) const { return !hit_.contains(&node); }
  std::size_t hit_nodes() const noexcept { return hit_.size(); }
  // DataNodes are good, but for one that restarts for an upgrade and is back in seconds.
  bool is_one_upgrade() const noexcept { return hit_.size() == 1 && hit_ == upgraded_; }
  bool any_power_cut() const;
  // How much was left of a block where a chunk was lost; the least.
  std::optional<std::uint64_t> cut(std::uint64_t block) const;
  // A node that is damaged has another one blamed.
  bool any_damage() const noexcept { return has_damage_; }
  // A node whose connections were reset may have been cut off from the one in front of it, which
  // goes on waiting: as far as its client can see, the one behind it has not been reached.
  bool may_hide_reset() const noexcept { return has_reset_ && has_cut_link_; }
  bool is_dead(const std::string& host) const { return dead_.contains(host); }
  Duration partition(const std::string& host) const;

  // A client has died.
  std::function<void(const std::string& host)> on_death;

 private:
  void one();
  void of_name_node();
  void of_client();
  void of_data_node(DataNode& node);
  void of_silence();
  Duration short_or(Duration longest);

  World& world_;
  Network& network_;
  const std::vector<std::unique_ptr<DataNode>>& nodes_;
  NameNodes& name_nodes_;
  Chance chance_;
  Chance silence_{world_.seed(), "silence"};
  std::vector<std::string> hosts_;
  std::uint64_t count_ = 0;
  std::set<const DataNode*> hit_;
  std::set<const DataNode*> upgraded_;  // of these
  std::set<const DataNode*> slowed_;
  bool has_damage_ = false;
  bool has_reset_ = false;
  bool has_cut_link_ = false;
  std::set<std::string> dead_;
  std::map<std::string, Duration> partitions_;
};

}  // namespace hflush::sim
