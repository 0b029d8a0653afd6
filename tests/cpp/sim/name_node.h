// NameNode: a model of one server: Hadoop RPC over simulated connections. It is active, standby, in
// safe mode or gone; what it knows is in the journal (name_space.h), which it shares with the other
// one of a nameservice.
//
// NameNodes: one alone, or the two of a nameservice, and who of them is active.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "hflush/env/socket.h"
#include "sim/name_space.h"
#include "sim/network.h"
#include "sim/rpc_server.h"
#include "sim/world.h"

namespace hflush::sim {

class NameNode {
 public:
  // How calls fare, one in so many; 0: all of them well.
  struct Faults {
    std::uint64_t lost_calls = 0;    // the connection is reset before the call is carried out
    std::uint64_t lost_answers = 0;  // or after it
    std::uint64_t late_answers = 0;
    std::uint64_t late_calls = 0;  // the connection is reset, and the call carried out long after
  };
  enum class Role : std::uint8_t { kActive, kStandby, kGone };

  NameNode(World& world, Network& network, NameSpace& space, int number, bool has_other);

  env::Endpoint endpoint() const { return {ip_, kPort}; }
  Role role() const noexcept { return role_; }
  void suffer(Faults faults) { faults_ = faults; }
  // Calls that a fault has hit.
  std::uint64_t hits() const noexcept { return hits_; }
  // The most for one call.
  std::uint64_t bad_luck() const noexcept { return bad_luck_; }

  // Its connections are reset, and it takes none; what it has not carried out is forgotten.
  void stop();
  void start(Role role);
  void become(Role role);
  void stay_in_safe_mode(Duration length) { safe_until_ = world_.now() + length; }

 private:
  static constexpr std::uint16_t kPort = 8020;

  void serve(const std::shared_ptr<RpcConnection>& from, RpcCall call);
  RpcAnswer carry_out(const RpcCall& call);

  World& world_;
  Network& network_;
  NameSpace& space_;
  const std::string name_;
  const std::string ip_;
  const bool has_other_;
  Chance chance_;
  Role role_ = Role::kGone;
  TimePoint safe_until_{};
  std::uint64_t life_ = 0;  // each start begins another one
  Faults faults_;
  std::uint64_t hits_ = 0;
  std::map<decltype(RpcCall::key), std::uint64_t> hits_of_;
  std::uint64_t bad_luck_ = 0;
};

class NameNodes {
 public:
  NameNodes(World& world, Network& network, NameSpace& space, int count);

  std::vector<env::Endpoint> endpoints() const;
  void suffer(NameNode::Faults faults);
  // Gone, all of them, and then in safe mode.
  void restart(Duration absence, Duration safe_mode);
  // The other one becomes active after a while, and this one a standby: at once, or when it is
  // back. Requires: two.
  void fail_over(Duration gap, bool dies, Duration absence);
  bool are_two() const noexcept { return nodes_.size() == 2; }

  std::uint64_t hits() const noexcept;
  std::uint64_t bad_luck() const noexcept;
  // For how long there was none to carry out a call, in all.
  Duration outage() const noexcept { return outage_; }

 private:
  NameNode& active() noexcept { return *nodes_[active_]; }
  void serve_after(Duration gap);

  World& world_;
  NameSpace& space_;
  std::vector<std::unique_ptr<NameNode>> nodes_;
  std::size_t active_ = 0;
  std::uint64_t changes_ = 0;
  Duration outage_{};
};

}  // namespace hflush::sim
