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
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "hflush/hdfs/wire/data_transfer.h"
#include "hflush/hdfs/wire/types.h"
#include "sim/network.h"
#include "sim/rpc_call.h"
#include "sim/world.h"

namespace hflush::sim {

class RpcConnection;

struct StoredReplica {
  enum class State : std::uint8_t {  // the best first
    kFinalized,
    kBeingWritten,  // RBW
    kWaiting,       // to be recovered: its DataNode died while it was written
    kDamaged,       // finalized, and shorter since a power cut
  };
  State state = State::kBeingWritten;
  std::uint64_t stamp = 0;
  hdfs::ChecksumParameters checksum;
  std::uint64_t recovery = 0;          // the stamp of the last recovery that it took part in
  std::string bytes;                   // received
  std::uint64_t stored = 0;            // written to the file system: outlive the process
  std::uint64_t acknowledged = 0;      // by this node and all behind it
  std::uint64_t synced = 0;            // on the disk device: outlive the machine
  std::uint64_t synced_stamp = 0;      // with them; a later one may be lost with the power
  std::uint64_t synced_elsewhere = 0;  // where it was copied from
  bool has_lost_chunk = false;         // it has acknowledged more than its DataNode has found again

  // What readers are shown; none of one that cannot be read.
  std::optional<std::uint64_t> visible_length() const;
  // What is left of it.
  void cut_to(std::uint64_t length);
  // Its DataNode ended between the bytes of a packet that goes on in the last chunk, and their sum:
  // when it is back the chunk does not match, and only those before it are kept, though part of it
  // was acknowledged (BlockReceiver.receivePacket, BlockPoolSlice.validateIntegrityAndSetLength).
  void lose_partial_chunk();
};

class DataNode {
 public:
  // The NameNode gives it for a copy, and no other: a TokenProto.
  static constexpr const char* kCopyToken =
      "\x0a\x04"
      "COPY";

  // What the cluster knows, and wants to know.
  class Cluster {
   public:
    virtual ~Cluster() = default;
    virtual DataNode* node_at(const std::string& ip) = 0;
    // Whether these bytes belong at this place of the block.
    virtual bool accepts(std::uint64_t block, std::uint64_t place, std::string_view bytes) = 0;
    virtual std::uint64_t block_size(std::uint64_t block) = 0;
    // The NameNode hears of a finalized replica.
    virtual void finalized(DataNode& node, std::uint64_t block, std::uint64_t stamp,
                           std::uint64_t length) = 0;
    // A DataNode is told to copy a block to that one.
    virtual void is_to_copy(std::uint64_t block, const std::string& target_ip) = 0;
    // Its client is told that the block's pipeline is set up.
    virtual void is_set_up(std::uint64_t block) = 0;
  };

  DataNode(World& world, Network& network, Cluster& cluster, int number);

  const hdfs::DatanodeInfo& info() const noexcept { return info_; }
  const std::string& ip() const noexcept { return info_.ip; }
  bool is_up() const noexcept { return process_ != Process::kGone; }
  const StoredReplica* replica(std::uint64_t block) const;

  // The process dies; the machine, and what its kernel holds, lives on. A partial chunk that a
  // packet was about to go on in may be lost.
  void crash();
  // The machine dies: what was not synced is lost, from some byte on.
  void cut_power();
  // As if for an upgrade: it says so to those who write, takes no operation from then on, and its
  // replicas stay what they are; a partial chunk may be lost as in a crash.
  void restart_for_upgrade(Duration absence);
  // The same as soon as a packet goes on in a partial chunk, whose sum it does not live to write.
  void restart_in_a_chunk(Duration absence) { restarts_in_a_chunk_ = absence; }
  void restart();
  // From now on each packet takes up to so long to store.
  void slow_down(Duration longest) { longest_store_ = longest; }
  // From now on nothing can be stored.
  void fill_disk() { is_full_ = true; }
  // From now on it answers questions of these hosts about replicas in another way.
  enum class Answering : std::uint8_t { kWell, kNever, kLate, kWrong, kWithoutReplica, kFailure };
  void answer(Answering how, std::vector<std::string> hosts) {
    answering_ = how;
    misled_ = std::move(hosts);
  }
  // From now on one packet in so many is damaged when it is stored.
  void damage_one_in(std::uint64_t packets) { damage_one_in_ = packets; }
  bool has_lost_power() const noexcept { return has_lost_power_; }
  // How much it had of a block when it had lost a chunk of it; the least.
  std::optional<std::uint64_t> cut(std::uint64_t block) const;
  // It has restarted for an upgrade: a client may ask for it again.
  bool may_return() const noexcept { return may_return_; }
  // What must hold at any time.
  void check() const;

  // What another node has acknowledged. False if this one is down, full or has the replica.
  bool take_copy(std::uint64_t block, const StoredReplica& original);
  // Deletes the replica, unless it has another stamp by now.
  void invalidate(std::uint64_t block, std::uint64_t stamp);

  // --- block recovery, as its primary DataNode would have it

  // Ends the writer of the replica; null if there is none to recover.
  const StoredReplica* begin_recovery(std::uint64_t block, std::uint64_t recovery);
  void finish_recovery(std::uint64_t block, std::uint64_t recovery, std::uint64_t length);

 private:
  class Receiver;
  struct Operation;

  void listen();
  void answer(const std::shared_ptr<RpcConnection>& from, const RpcCall& call);
  RpcAnswer visible_length(const RpcCall& call) const;
  // Why the replica cannot be opened; empty if it is.
  std::string open_replica(const Operation& operation);
  void finalize(std::uint64_t block);
  // To the NameNode, when that can be reached.
  void report(std::uint64_t block, Duration delay);
  void go_down();

  World& world_;
  Network& network_;
  Cluster& cluster_;
  Chance chance_;
  hdfs::DatanodeInfo info_;
  // Of an ack with two complaints, the one that is furthest down is about the node that failed.
  const bool complains_of_itself_;
  enum class Process : std::uint8_t { kRuns, kEnds, kGone };  // kEnds: it has said that it restarts
  Process process_ = Process::kRuns;
  bool is_full_ = false;
  bool has_lost_power_ = false;
  bool may_return_ = false;
  Answering answering_ = Answering::kWell;
  std::vector<std::string> misled_;
  std::optional<Duration> restarts_in_a_chunk_;
  bool is_stuck_ = false;  // between the bytes of a packet and their sum, until it ends
  std::uint64_t damage_one_in_ = 0;
  Duration longest_store_;
  std::map<std::uint64_t, StoredReplica> replicas_;
  std::map<std::uint64_t, std::uint64_t> cuts_;               // by block
  std::map<std::uint64_t, std::weak_ptr<Receiver>> writers_;  // of replicas being written
};

}  // namespace hflush::sim
