#include "sim/conversation.h"

#include <iostream>
#include <sstream>
#include <utility>
#include <vector>

#include "hdfs/loopback_node.h"
#include "sim/content.h"
#include "sim/data_node.h"
#include "sim/network.h"
#include "sim/world.h"

namespace hflush::sim {
namespace {

constexpr Duration kDealtWith = std::chrono::seconds(5);

class ModelPeer final : public Peer, private DataNode::Cluster {
 public:
  hdfs::DatanodeInfo info() const override { return node_.info(); }
  Lines& lines() override { return *lines_; }
  std::string replica(std::uint64_t block) override {
    pass(world_, kDealtWith);
    if (!world_.breached().empty()) return "breach: " + world_.breached();
    const StoredReplica* const found = node_.replica(block);
    if (found == nullptr) return "none";
    const bool is_finalized = found->state == StoredReplica::State::kFinalized;
    return (is_finalized ? "FINALIZED " : "RBW ") + std::to_string(found->stamp) + " " +
           std::to_string(found->bytes.size()) + " " +
           std::to_string(found->visible_length().value_or(0));
  }

 private:
  DataNode* node_at(const std::string& ip) override { return ip == node_.ip() ? &node_ : nullptr; }
  bool accepts(std::uint64_t block, std::uint64_t place, std::string_view bytes) override {
    return content(block, place, bytes.size()) == bytes;
  }
  std::uint64_t block_size(std::uint64_t /*block*/) override { return BlockDialogue::kBlockSize; }
  void finalized(DataNode& /*node*/, std::uint64_t /*block*/, std::uint64_t /*stamp*/,
                 std::uint64_t /*length*/) override {}
  void is_to_copy(std::uint64_t /*block*/, const std::string& /*target_ip*/) override {}
  void is_set_up(std::uint64_t /*block*/) override {}

  World world_{1, World::Trace::kDigest};
  Network network_{world_};
  DataNode node_{world_, network_, *this, 1};
  const std::unique_ptr<Lines> lines_ = simulated_lines(world_, network_);
};

class HadoopPeer final : public Peer {
 public:
  explicit HadoopPeer(std::uint16_t port) : port_(port) {}
  hdfs::DatanodeInfo info() const override { return hdfs::loopback_node(port_); }
  Lines& lines() override { return *lines_; }
  std::string replica(std::uint64_t /*block*/) override { return "ask its cluster"; }

 private:
  const std::uint16_t port_;
  const std::unique_ptr<Lines> lines_ = real_lines();
};

}  // namespace

std::unique_ptr<Peer> model_peer() { return std::make_unique<ModelPeer>(); }

std::unique_ptr<Peer> hadoop_peer(std::uint16_t port) { return std::make_unique<HadoopPeer>(port); }

std::optional<std::string> Conversation::answer(std::string_view step) {
  std::istringstream words{std::string(step)};
  std::string what;
  words >> what;
  if (what == "set-up") {
    std::string stage;
    hdfs::WriteBlockOperation operation;
    words >> stage >> operation.block.id >> operation.block.generation_stamp >>
        operation.latest_generation_stamp >> operation.min_bytes_received >>
        operation.max_bytes_received;
    const auto found = stage_called(stage);
    if (!words || !found) return std::nullopt;
    const std::vector<hdfs::Replica> pipeline = {{peer_.info(), hdfs::StorageType::kDisk, {}}};
    operation.stage = *found;
    operation.block.pool = pool_;
    operation.pipeline = pipeline;
    return dialogue_.set_up(operation);
  }
  if (what == "packet") {
    const auto header = packet_header(words);
    if (!header) return std::nullopt;
    return dialogue_.packet(*header);
  }
  if (what == "replica") {
    std::uint64_t block = 0;
    words >> block;
    return peer_.replica(block);
  }
  if (what != "leave") return std::nullopt;
  dialogue_.leave();
  return "left";
}

int converse(const std::function<std::optional<std::string>(std::string_view step)>& answer) {
  for (std::string step; std::getline(std::cin, step);) {
    const std::optional<std::string> answered = answer(step);
    if (!answered) {
      std::cerr << "not a step: " << step << "\n";
      return 2;
    }
    std::cout << *answered << std::endl;
  }
  return 0;
}

}  // namespace hflush::sim
