#include "sim/cluster_conversation.h"

#include <algorithm>
#include <functional>
#include <random>
#include <set>
#include <sstream>
#include <utility>

#include "hflush/hdfs/rpc/rpc_target.h"
#include "sim/content.h"
#include "sim/data_node.h"
#include "sim/name_node.h"
#include "sim/name_space.h"
#include "sim/network.h"
#include "sim/world.h"

namespace hflush::sim {
namespace {

using namespace std::chrono_literals;  // NOLINT(google-build-using-namespace)
using hdfs::ExtendedBlock;
using hdfs::LocatedBlock;

constexpr std::uint32_t kLongestResponse = 1U << 20U;
constexpr env::TimePoint kNow{};  // no call is timed
constexpr int kDataNodes = 3;

// --- the clusters --------------------------------------------------------------------------------

class ModelCluster final : public PeerCluster, private DataNode::Cluster {
 public:
  ModelCluster() {
    DataNode::Cluster& own = *this;
    for (int i = 1; i <= kDataNodes; ++i) {
      nodes_.push_back(std::make_unique<DataNode>(world_, network_, own, i));
    }
    name_node_.start(NameNode::Role::kActive);
    space_.serve(false);
  }
  Lines& lines() override { return *lines_; }
  env::Endpoint name_node() const override { return name_node_.endpoint(); }
  std::string reported(std::uint64_t block) override {
    pass(world_, kLongestLag);
    const NameSpace::File* const file = space_.file_of_block(block);
    if (file == nullptr) return "none";
    const auto found = std::ranges::find(file->blocks, block, &NameSpace::Block::id);
    return std::to_string(found->reported.size());
  }
  std::string recovered(const std::string& path) override {
    space_.serve(true);
    const auto is_closed = [&] {
      const NameSpace::File* const file = space_.find(path);
      return file == nullptr || file->holder.empty();
    };
    pass(world_, kRecovery, is_closed);
    space_.serve(false);
    return is_closed() ? "closed" : "open";
  }
  void lapse() override { pass(world_, NameSpace::kSoftLimit + 1s); }
  std::string breach() const override { return world_.breached(); }

 private:
  // Of a report, and of a recovery with the attempts that failed while nobody heard of it.
  static constexpr Duration kLongestLag = 2100ms;
  static constexpr Duration kRecovery = 10min;

  DataNode* node_at(const std::string& ip) override {
    const auto found =
        std::ranges::find_if(nodes_, [&](const auto& node) { return node->ip() == ip; });
    return found == nodes_.end() ? nullptr : found->get();
  }
  bool accepts(std::uint64_t block, std::uint64_t place, std::string_view bytes) override {
    return content(block, place, bytes.size()) == bytes;
  }
  std::uint64_t block_size(std::uint64_t block) override {
    const NameSpace::File* const file = space_.file_of_block(block);
    return file == nullptr ? 0 : file->block_size;
  }
  void finalized(DataNode& node, std::uint64_t block, std::uint64_t stamp,
                 std::uint64_t length) override {
    space_.finalized(node, block, stamp, length);
  }
  void is_to_copy(std::uint64_t block, const std::string& target_ip) override {
    space_.is_to_copy(block, node_at(target_ip));
  }
  void is_set_up(std::uint64_t block) override { space_.is_set_up(block); }

  World world_{1, World::Trace::kDigest};
  Network network_{world_};
  std::vector<std::unique_ptr<DataNode>> nodes_;
  NameSpace space_{world_, network_, nodes_, 24h};
  NameNode name_node_{world_, network_, space_, 1, false};
  const std::unique_ptr<Lines> lines_ = simulated_lines(world_, network_);
};

class HadoopCluster final : public PeerCluster {
 public:
  explicit HadoopCluster(std::uint16_t port) : port_(port) {}
  Lines& lines() override { return *lines_; }
  env::Endpoint name_node() const override { return {"127.0.0.1", port_}; }
  std::string reported(std::uint64_t block) override { return std::to_string(block); }
  std::string recovered(const std::string& /*path*/) override { return "ask it"; }
  void lapse() override {}
  std::string breach() const override { return {}; }

 private:
  const std::uint16_t port_;
  const std::unique_ptr<Lines> lines_ = real_lines();
};

// --- what is said --------------------------------------------------------------------------------

hdfs::ClientId fresh_client_id() {
  hdfs::ClientId id{};
  std::random_device chance;
  for (char& byte : id) byte = static_cast<char>(chance());
  return id;
}

hdfs::RpcChannel::Options options(std::string user) {
  hdfs::RpcChannel::Options options;
  options.protocol = hdfs::RpcTarget{}.protocol;
  options.user = std::move(user);
  options.client_id = fresh_client_id();
  options.max_response_bytes = kLongestResponse;
  return options;
}

std::string simple(const std::string& class_name) {
  return class_name.substr(class_name.find_last_of('.') + 1);
}

}  // namespace

std::unique_ptr<PeerCluster> model_cluster() { return std::make_unique<ModelCluster>(); }

std::unique_ptr<PeerCluster> hadoop_cluster(std::uint16_t port) {
  return std::make_unique<HadoopCluster>(port);
}

std::uint64_t ClusterConversation::Numbers::known(std::uint64_t number) {
  if (!first) first = number;
  return number - *first + 1;
}

// The rest of a step.
class ClusterConversation::Words {
 public:
  Words(ClusterConversation& conversation, std::string_view step)
      : own_(conversation), words_(std::string(step)) {}

  bool ok() const { return !failed_; }
  std::istream& stream() { return words_; }
  std::string text() {
    std::string word;
    if (!(words_ >> word)) failed_ = true;
    return word;
  }
  std::int64_t number() {
    std::int64_t value = 0;
    if (!(words_ >> value)) failed_ = true;
    return value;
  }
  std::uint64_t natural() { return static_cast<std::uint64_t>(number()); }
  // 0: by the path.
  std::uint64_t file() {
    const std::uint64_t known = natural();
    return known == 0 ? 0 : own_.files_.real(known);
  }
  std::optional<ExtendedBlock> block() {
    std::istringstream parts(text());
    if (parts.str() == "-") return std::nullopt;
    std::uint64_t id = 0;
    std::uint64_t stamp = 0;
    ExtendedBlock block;
    char colon = 0;
    if (!(parts >> id >> colon >> stamp >> colon >> block.length)) failed_ = true;
    block.pool = own_.pool_;
    block.id = own_.blocks_.real(id);
    block.generation_stamp = own_.stamps_.real(stamp);
    return block;
  }
  // Of the block's pipeline.
  std::vector<hdfs::Replica> nodes(const std::optional<ExtendedBlock>& block) {
    std::vector<hdfs::Replica> chosen;
    std::istringstream places(text());
    if (places.str() == "-") return chosen;
    if (!block) failed_ = true;
    for (std::string place; block && std::getline(places, place, ',');) {
      const auto& pipeline = own_.known_[block->id].pipeline;
      const auto at = static_cast<std::size_t>(std::stoul(place));
      if (at < pipeline.size()) chosen.push_back(pipeline[at]);
      failed_ = failed_ || at >= pipeline.size();
    }
    return chosen;
  }

 private:
  ClusterConversation& own_;
  std::istringstream words_;
  bool failed_ = false;
};

ClusterConversation::ClusterConversation(PeerCluster& cluster, std::string user)
    : cluster_(cluster), channel_(options(std::move(user)), kNow), dialogue_(cluster.lines()) {}

std::optional<std::string> ClusterConversation::answer(std::string_view step) {
  std::optional<std::string> answered = carry_out(step);
  const std::string breach = cluster_.breach();
  return breach.empty() ? answered : "breach: " + breach;
}

std::optional<std::string> ClusterConversation::carry_out(std::string_view step) {
  Words words(*this, step);
  const std::string what = words.text();
  if (what == "set-up") return set_up(words);
  if (what == "packet") {
    const auto header = packet_header(words.stream());
    if (!header) return std::nullopt;
    return dialogue_.packet(*header);
  }
  if (what == "leave") {
    dialogue_.leave();
    return "left";
  }
  if (what == "reported") {
    const auto block = words.block();
    if (!words.ok() || !block) return std::nullopt;
    return cluster_.reported(block->id);
  }
  if (what == "recovered") return cluster_.recovered(words.text());
  if (what == "lapse") {
    cluster_.lapse();
    return carry_out(step.substr(what.size() + 1));
  }
  return call(what, words);
}

std::optional<std::string> ClusterConversation::set_up(Words& words) {
  hdfs::WriteBlockOperation operation;
  const auto stage = stage_called(words.text());
  const auto block = words.block();
  operation.latest_generation_stamp = words.natural();
  operation.min_bytes_received = words.natural();
  operation.max_bytes_received = words.natural();
  const std::vector<hdfs::Replica> pipeline = words.nodes(block);
  if (!words.ok() || !stage || !block || pipeline.empty()) return std::nullopt;
  operation.stage = *stage;
  operation.block = *block;
  const bool has_latest = operation.latest_generation_stamp != 0;
  if (has_latest) {
    operation.latest_generation_stamp = stamps_.real(operation.latest_generation_stamp);
  }
  operation.token = known_[block->id].token;
  operation.pipeline = pipeline;
  return dialogue_.set_up(operation);
}

// --- calls ---------------------------------------------------------------------------------------

template <hdfs::Request T, typename Show>
std::string ClusterConversation::ask(const T& request, Show show) {
  last_ = {last_.id + 1, std::string(T::kMethod), request.encode()};
  show_ = [show = std::move(show)](const std::string& body) -> std::string {
    const auto response = T::decode(as_bytes(body));
    if (!response.ok()) return response.status().to_string();
    return show(*response);
  };
  const auto answered = response(false);
  const auto* const thrown = std::get_if<hdfs::RemoteException>(&answered);
  return thrown != nullptr ? simple(thrown->class_name) : show_(std::get<std::string>(answered));
}

std::variant<std::string, hdfs::RemoteException> ClusterConversation::response(bool is_again) {
  if (!line_) {
    line_ = cluster_.lines().connect(cluster_.name_node());
    if (!line_) return hdfs::RemoteException{"no NameNode", {}};
    line_->send(hdfs::rpc_preamble(hdfs::RpcAuthentication::kNone) + channel_.greeting());
  }
  line_->send(channel_.call(last_.id, is_again ? 1 : 0, last_.method, last_.request, kNow));
  while (const std::optional<std::string> bytes = line_->receive()) {
    std::vector<hdfs::RpcEvent> events;
    channel_.receive(as_bytes(*bytes), kNow, events);
    for (hdfs::RpcEvent& event : events) {
      if (auto* const got = std::get_if<hdfs::rpc_event::Response>(&event)) return got->body;
      if (auto* const error = std::get_if<hdfs::rpc_event::Error>(&event)) return error->exception;
      return hdfs::RemoteException{"not Hadoop's RPC", {}};
    }
  }
  return hdfs::RemoteException{"no answer", {}};
}

std::optional<std::string> ClusterConversation::call(const std::string& method, Words& words) {
  const auto nothing = [](const auto& /*response*/) { return std::string("done"); };
  const auto truth = [](bool value) { return std::string(value ? "true" : "false"); };
  if (method == "again") {
    const auto answered = response(true);
    const auto* const thrown = std::get_if<hdfs::RemoteException>(&answered);
    return thrown != nullptr ? simple(thrown->class_name) : show_(std::get<std::string>(answered));
  }
  if (method == "create") {
    hdfs::Create request;
    request.path = words.text();
    request.client_name = words.text();
    request.flags = static_cast<std::uint32_t>(words.natural());
    request.replication = static_cast<std::uint32_t>(words.natural());
    request.block_size = BlockDialogue::kBlockSize;
    if (!words.ok()) return std::nullopt;
    return ask(request, [this](const hdfs::FileStatus& status) { return shown(status); });
  }
  if (method == "append") {
    hdfs::Append request;
    request.path = words.text();
    request.client_name = words.text();
    request.flags = static_cast<std::uint32_t>(words.natural());
    if (!words.ok()) return std::nullopt;
    return ask(request, [this](const hdfs::Append::Response& response) {
      if (response.block && !response.block->replicas.empty()) keep(*response.block);
      return (response.block ? shown(*response.block) : "no block") + ", " +
             (response.status ? shown(*response.status) : "no status");
    });
  }
  if (method == "complete") {
    hdfs::Complete request;
    request.path = words.text();
    request.client_name = words.text();
    request.file_id = words.file();
    request.last = words.block();
    if (!words.ok()) return std::nullopt;
    return ask(request, truth);
  }
  if (method == "fsync") {
    hdfs::Fsync request;
    request.path = words.text();
    request.client_name = words.text();
    request.file_id = words.file();
    request.last_block_length = words.number();
    if (!words.ok()) return std::nullopt;
    return ask(request, nothing);
  }
  if (method == "renewLease") return ask(hdfs::RenewLease{words.text(), {}}, nothing);
  if (method == "isFileClosed") return ask(hdfs::IsFileClosed{words.text()}, truth);
  if (method == "recoverLease") {
    const std::string path = words.text();
    const std::string client = words.text();
    if (!words.ok()) return std::nullopt;
    return ask(hdfs::RecoverLease{path, client}, truth);
  }
  if (method == "getFileInfo") {
    return ask(hdfs::GetFileInfo{words.text()}, [this](const auto& status) {
      return status ? shown(*status) : std::string("none");
    });
  }
  if (method == "getBlockLocations") {
    hdfs::GetBlockLocations request{words.text()};
    request.offset = words.natural();
    request.length = words.natural();
    if (!words.ok()) return std::nullopt;
    return ask(request, [this](const auto& blocks) {
      return blocks ? shown(*blocks) : std::string("none");
    });
  }
  return call_for_block(method, words);
}

std::optional<std::string> ClusterConversation::call_for_block(const std::string& method,
                                                               Words& words) {
  const auto nothing = [](const auto& /*response*/) { return std::string("done"); };
  if (method == "addBlock") {
    hdfs::AddBlock request;
    request.path = words.text();
    request.client_name = words.text();
    request.file_id = words.file();
    request.previous = words.block();
    for (const hdfs::Replica& replica : words.nodes(request.previous)) {
      request.excluded.push_back(replica.node);
    }
    if (!words.ok()) return std::nullopt;
    std::set<std::string> excluded;
    for (const hdfs::DatanodeInfo& node : request.excluded) excluded.insert(node.uuid);
    return ask(request, [this, excluded](const LocatedBlock& block) {
      keep(block);
      const bool is_wrong = std::ranges::any_of(block.replicas, [&](const hdfs::Replica& replica) {
        return excluded.contains(replica.node.uuid);
      });
      return shown(block) + (is_wrong ? "!" : "");
    });
  }
  if (method == "updateBlockForPipeline") {
    const std::string client = words.text();
    const auto block = words.block();
    if (!words.ok() || !block) return std::nullopt;
    return ask(hdfs::UpdateBlockForPipeline{*block, client}, [this](const LocatedBlock& reserved) {
      known_[reserved.block.id].token = reserved.token;
      return shown(reserved);
    });
  }
  if (method == "abandonBlock") {
    hdfs::AbandonBlock request;
    request.path = words.text();
    request.client_name = words.text();
    request.file_id = words.file();
    const auto block = words.block();
    if (!words.ok() || !block) return std::nullopt;
    request.block = *block;
    return ask(request, nothing);
  }
  if (method == "updatePipeline") {
    const std::string client = words.text();
    const auto before = words.block();
    const auto after = words.block();
    const std::vector<hdfs::Replica> nodes = words.nodes(before);
    if (!words.ok() || !before || !after) return std::nullopt;
    return ask(hdfs::UpdatePipeline{client, *before, *after, nodes}, nothing);
  }
  if (method != "getAdditionalDatanode") return std::nullopt;
  hdfs::GetAdditionalDatanode request;
  request.path = words.text();
  request.client_name = words.text();
  request.file_id = words.file();
  const auto block = words.block();
  request.existing = words.nodes(block);
  for (const hdfs::Replica& replica : words.nodes(block)) {
    request.excluded.push_back(replica.node);
  }
  if (!words.ok() || !block) return std::nullopt;
  request.block = *block;
  return ask(request, [this, request](const LocatedBlock& extended) {
    const auto is_in = [](const auto& nodes, const hdfs::Replica& one) {
      return std::ranges::any_of(
          nodes, [&](const hdfs::Replica& other) { return other.node.uuid == one.node.uuid; });
    };
    bool is_wrong = false;
    for (const hdfs::Replica& one : request.existing) {
      is_wrong = is_wrong || !is_in(extended.replicas, one);
    }
    auto& pipeline = known_[extended.block.id].pipeline;
    for (const hdfs::Replica& one : extended.replicas) {
      is_wrong = is_wrong || std::ranges::any_of(request.excluded, [&](const auto& node) {
                   return node.uuid == one.node.uuid;
                 });
      if (!is_in(pipeline, one)) pipeline.push_back(one);
    }
    return shown(extended) + (is_wrong ? "!" : "");
  });
}

// --- answers -------------------------------------------------------------------------------------

void ClusterConversation::keep(const LocatedBlock& block) {
  pool_ = block.block.pool;
  known_[block.block.id] = {block.replicas, block.token};
}

std::string ClusterConversation::shown(const hdfs::FileStatus& status) {
  return "file " + std::to_string(files_.known(status.file_id)) + " length " +
         std::to_string(status.length) + " replication " + std::to_string(status.replication) +
         " block-size " + std::to_string(status.block_size);
}

std::string ClusterConversation::shown(const LocatedBlock& block) {
  return "block " + std::to_string(blocks_.known(block.block.id)) + ":" +
         std::to_string(stamps_.known(block.block.generation_stamp)) + ":" +
         std::to_string(block.block.length) + " at " + std::to_string(block.offset) + " on " +
         std::to_string(block.replicas.size());
}

std::string ClusterConversation::shown(const hdfs::LocatedBlocks& blocks) {
  std::string text = "length " + std::to_string(blocks.file_length);
  text += blocks.under_construction ? ", open" : ", closed";
  for (const LocatedBlock& block : blocks.blocks) text += ", " + shown(block);
  if (blocks.last_block) text += ", last: " + shown(*blocks.last_block);
  return text + (blocks.last_block_complete ? ", complete" : "");
}

}  // namespace hflush::sim
