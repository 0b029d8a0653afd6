#include "sim/data_node.h"

#include <algorithm>
#include <deque>
#include <optional>
#include <utility>

#include "hdfs/loopback_node.h"
#include "hflush/crc/checksum.h"
#include "hflush/hdfs/wire/shared_messages.h"
#include "hflush/hdfs/wire/wire.h"

namespace hflush::sim {
namespace {

using hdfs::PacketHeader;
using hdfs::PipelineAck;
using hdfs::TransferStatus;
using hdfs::WriteStage;
namespace wire = hdfs::wire;
using State = StoredReplica::State;

constexpr std::size_t kOperationHead = 3;
constexpr char kWriteBlock = 80;
constexpr char kTransferBlock = 86;
constexpr std::int64_t kNoPacket = -2;  // of an ack that answers none

std::string reply(TransferStatus status, std::string_view first_bad_link) {
  std::string message;
  wire::Writer writer(message);
  writer.add_enum(1, static_cast<std::int32_t>(status));
  writer.add_string(2, first_bad_link.data(), first_bad_link.size());
  return wire::delimited(message);
}

std::string encoded(const PipelineAck& ack) {
  std::string message;
  wire::Writer writer(message);
  writer.add_sint64(1, ack.sequence_number);
  std::vector<std::uint32_t> flags;
  for (std::size_t i = 0; i < ack.replies.size(); ++i) {
    writer.add_enum(2, static_cast<std::int32_t>(ack.replies[i]));
    flags.push_back(static_cast<std::uint32_t>(ack.replies[i]));
  }
  writer.add_packed_uint32(4, flags.begin(), flags.end());
  return wire::delimited(message);
}

PipelineAck behind(const PipelineAck& ack) {
  PipelineAck whole{ack.sequence_number, {TransferStatus::kSuccess}};
  for (std::size_t i = 0; i < ack.replies.size(); ++i) whole.replies.push_back(ack.replies[i]);
  return whole;
}

bool is_success(const PipelineAck& ack) {
  for (std::size_t i = 0; i < ack.replies.size(); ++i) {
    if (ack.replies[i] != TransferStatus::kSuccess) return false;
  }
  return true;
}

hdfs::DatanodeInfo node_info(int number) {
  hdfs::DatanodeInfo node = hdfs::loopback_node(9866);
  node.ip = "10.0.0." + std::to_string(number);
  node.host = "dn" + std::to_string(number);
  node.uuid = "uuid-" + std::to_string(number);
  node.encoded_id.clear();
  wire::Writer id(node.encoded_id);
  id.add_string(1, node.ip);
  id.add_string(2, node.host);
  id.add_string(3, node.uuid);
  id.add_uint32(4, node.transfer_port);
  id.add_uint32(5, 0);
  id.add_uint32(6, node.rpc_port);
  node.encoded.clear();
  wire::Writer info(node.encoded);
  info.add_message(1, node.encoded_id);
  return node;
}

std::string ip_of(wire::Reader node) {
  std::string ip;
  while (node.next()) {
    if (node.field() != 1) {
      node.skip();
      continue;
    }
    wire::Reader id = node.message("DatanodeIDProto");
    while (id.next()) id.field() == 1 ? static_cast<void>(ip = id.text()) : id.skip();
  }
  return ip;
}

}  // namespace

// OpWriteBlock; of OpTransferBlock, header and targets.
struct DataNode::Operation {
  hdfs::ExtendedBlock block;
  std::string client_name;
  std::vector<std::string> targets;
  WriteStage stage = WriteStage::kSetupCreate;
  std::uint32_t pipeline_size = 0;
  std::uint64_t min_bytes = 0;
  std::uint64_t max_bytes = 0;
  std::uint64_t latest_stamp = 0;
  hdfs::ChecksumParameters checksum;

  static Result<Operation> decode(char code, ByteView message) {
    return wire::read_whole<Operation>("operation", "Op", message, [code](wire::Reader from) {
      return code == kWriteBlock ? read(from) : read_transfer(from);
    });
  }

 private:
  static Operation read_transfer(wire::Reader from) {
    Operation operation;
    while (from.next()) {
      if (from.field() == 1) {
        operation.read_header(from.message("header"));
      } else if (from.field() == 2) {
        operation.targets.push_back(ip_of(from.message("target")));
      } else {
        from.skip();
      }
    }
    from.require({{1, "header"}});
    return operation;
  }
  static Operation read(wire::Reader from) {
    Operation operation;
    while (from.next()) {
      switch (from.field()) {
        case 1:
          operation.read_header(from.message("header"));
          break;
        case 2:
          operation.targets.push_back(ip_of(from.message("target")));
          break;
        case 4:
          operation.stage = static_cast<WriteStage>(from.uint32());
          break;
        case 5:
          operation.pipeline_size = from.uint32();
          break;
        case 6:
          operation.min_bytes = from.uint64();
          break;
        case 7:
          operation.max_bytes = from.uint64();
          break;
        case 8:
          operation.latest_stamp = from.uint64();
          break;
        case 9:
          operation.read_checksum(from.message("checksum"));
          break;
        default:
          from.skip();
      }
    }
    from.require({{1, "header"},
                  {4, "stage"},
                  {5, "pipelineSize"},
                  {6, "minBytesRcvd"},
                  {7, "maxBytesRcvd"},
                  {8, "latestGenerationStamp"},
                  {9, "requestedChecksum"}});
    return operation;
  }
  void read_header(wire::Reader from) {
    while (from.next()) {
      if (from.field() == 1) {
        wire::Reader base = from.message("base header");
        while (base.next()) {
          if (base.field() == 1) {
            block = wire::read_block(base.message("block"));
          } else {
            base.skip();
          }
        }
      } else if (from.field() == 2) {
        client_name = from.text();
      } else {
        from.skip();
      }
    }
  }
  void read_checksum(wire::Reader from) {
    while (from.next()) {
      if (from.field() == 1) {
        checksum.kind = wire::read_checksum_type(from);
      } else if (from.field() == 2) {
        checksum.bytes_per_checksum = from.uint32();
      } else {
        from.skip();
      }
    }
  }
};

// One WRITE_BLOCK, from its operation to the last packet's ack.
class DataNode::Receiver : public std::enable_shared_from_this<DataNode::Receiver> {
 public:
  Receiver(DataNode& node, std::shared_ptr<End> upstream)
      : node_(node), world_(node.world_), upstream_(std::move(upstream)) {}

  void start() {
    upstream_->on_arrival = [self = shared_from_this()] { self->arrived(); };
  }
  // Both connections; the replica stays as it is.
  void stop() {
    if (std::exchange(phase_, Phase::kEnded) == Phase::kEnded) return;
    upstream_->close();
    if (mirror_) mirror_->close();
    pending_.clear();
  }

 private:
  enum class Phase : std::uint8_t { kOperation, kMirror, kStreaming, kBroken, kEnded };

  struct Pending {
    std::int64_t sequence_number;
    std::uint64_t end;
    bool is_last;
    bool is_stored = false;
    std::optional<PipelineAck> behind;  // of the nodes behind
  };

  std::string name() const { return node_.info_.host; }
  StoredReplica& replica() { return node_.replicas_.at(operation_.block.id); }

  void arrived() {
    const auto self = shared_from_this();
    if (upstream_->error() != 0 || (upstream_->is_at_end() && upstream_->inbox().empty())) {
      return stop();
    }
    if (phase_ == Phase::kOperation && !begin()) return;
    while (phase_ == Phase::kStreaming && take_packet()) {
    }
    if (phase_ == Phase::kBroken) upstream_->taken(upstream_->inbox().size());
    if (upstream_->is_at_end() && phase_ != Phase::kMirror) stop();
  }

  // --- the operation

  bool begin() {
    const std::string& bytes = upstream_->inbox();
    if (bytes.size() <= kOperationHead) return false;
    const char code = bytes[2];
    world_.require(bytes.starts_with(std::string("\x00\x1c", 2)) &&
                       (code == kWriteBlock || code == kTransferBlock),
                   name(), ": not a WRITE_BLOCK or TRANSFER_BLOCK of version 28");
    const auto size = hdfs::delimited_size(as_bytes(bytes).subspan(kOperationHead), 1U << 20U);
    world_.require(size.ok(), name(), ": the operation is malformed");
    if (!size.ok() || *size == 0) return false;
    const std::size_t prefix = *size < 129 ? 1 : 2;
    const auto decoded =
        Operation::decode(code, as_bytes(bytes).subspan(kOperationHead + prefix, *size - prefix));
    world_.require(decoded.ok(), name(), ": ", decoded.ok() ? "" : decoded.status().message());
    if (!decoded.ok()) return false;
    operation_ = *decoded;
    upstream_->taken(kOperationHead + *size);
    world_.require(!operation_.client_name.empty(), name(), ": the client has no name");
    if (code == kTransferBlock) {
      transfer();
      return false;
    }
    const std::string refusal = node_.open_replica(operation_);
    world_.note(name(), " WRITE_BLOCK ", operation_.block.to_string(), " stage ",
                static_cast<int>(operation_.stage), " min ", operation_.min_bytes, " max ",
                operation_.max_bytes, " stamp ", operation_.latest_stamp, " behind ",
                operation_.targets.size(), refusal.empty() ? "" : " refused: ", refusal);
    if (!refusal.empty()) {
      stop();
      return false;
    }
    node_.writers_[operation_.block.id] = weak_from_this();
    if (operation_.targets.empty()) return set_up(TransferStatus::kSuccess, {});
    phase_ = Phase::kMirror;
    connect_mirror();
    return false;
  }

  // SUCCESS says no more than that it was tried.
  void transfer() {
    const StoredReplica* const own = node_.replica(operation_.block.id);
    const bool can = own != nullptr && own->stamp >= operation_.block.generation_stamp &&
                     own->state != State::kWaiting && operation_.targets.size() == 1;
    world_.note(name(), " TRANSFER_BLOCK ", operation_.block.to_string(), can ? "" : " refused");
    if (!can) return stop();
    phase_ = Phase::kMirror;
    const auto self = shared_from_this();
    world_.after(std::chrono::microseconds(1) + node_.chance_.up_to(node_.longest_store_), [self] {
      if (self->phase_ != Phase::kMirror) return;
      DataNode* const target = self->node_.cluster_.node_at(self->operation_.targets.front());
      if (target != nullptr) target->take_copy(self->operation_.block.id, self->replica());
      self->upstream_->send_all(reply(TransferStatus::kSuccess, {}));
      self->stop();
    });
  }

  void connect_mirror() {
    DataNode* const next = node_.cluster_.node_at(operation_.targets.front());
    world_.require(next != nullptr, name(), ": no such target");
    if (next == nullptr) return;
    const env::Endpoint at = next->info_.transfer_endpoint(false);
    const auto self = shared_from_this();
    // A DataNode gives its mirror 60 s, and 5 s for each node behind it.
    mirror_timer_ = world_.after(std::chrono::seconds(60), [self] { self->mirror_failed(); });
    node_.network_.connect(node_.ip(), at, [self](const std::shared_ptr<End>& end, int /*error*/) {
      if (self->phase_ != Phase::kMirror) {
        if (end) end->close();
        return;
      }
      if (!end) return self->mirror_failed();
      self->mirror_ = end;
      end->on_arrival = [self] { self->mirror_arrived(); };
      end->send_all(self->forwarded());
    });
  }

  std::string forwarded() const {
    std::vector<hdfs::Replica> pipeline;
    for (const std::string& ip : operation_.targets) {
      pipeline.push_back({node_.cluster_.node_at(ip)->info_, hdfs::StorageType::kDisk, {}});
    }
    hdfs::WriteBlockOperation next;
    next.block = operation_.block;
    next.client_name = operation_.client_name;
    next.pipeline = pipeline;
    next.stage = operation_.stage;
    next.min_bytes_received = operation_.min_bytes;
    next.max_bytes_received = operation_.max_bytes;
    next.latest_generation_stamp = operation_.latest_stamp;
    next.checksum = operation_.checksum;
    return next.encode();
  }

  void mirror_failed() {
    world_.cancel(std::exchange(mirror_timer_, 0));
    if (phase_ == Phase::kMirror) {
      const DataNode* const next = node_.cluster_.node_at(operation_.targets.front());
      set_up(TransferStatus::kError, next->info_.transfer_address());
      return;
    }
    if (phase_ == Phase::kStreaming) {
      // To no packet, or to the one that it waited with.
      const bool answers = !pending_.empty() && node_.chance_.one_in(2);
      complain({answers ? pending_.front().sequence_number : kNoPacket,
                {TransferStatus::kSuccess, TransferStatus::kError}});
    }
  }

  bool set_up(TransferStatus status, const std::string& first_bad_link) {
    world_.cancel(std::exchange(mirror_timer_, 0));
    world_.note(name(), " replies ", hdfs::to_string(status), " ", first_bad_link);
    upstream_->send_all(reply(status, first_bad_link));
    const bool ends = operation_.stage == WriteStage::kCloseRecovery;
    if (status == TransferStatus::kSuccess && ends) node_.finalize(operation_.block.id);
    if (status != TransferStatus::kSuccess || ends) {
      stop();
      return false;
    }
    phase_ = Phase::kStreaming;
    received_ = replica().bytes.size();
    arrived();
    return true;
  }

  // --- packets

  bool take_packet() {
    const std::string& bytes = upstream_->inbox();
    const auto decoded = hdfs::decode_packet_header(as_bytes(bytes));
    world_.require(decoded.ok(), name(), ": a malformed packet");
    if (!decoded.ok() || !*decoded) return false;
    const PacketHeader header = (*decoded)->header;
    const std::size_t size = (*decoded)->size + header.sums_size + header.data_size;
    if (bytes.size() < size) return false;
    const std::string packet = bytes.substr(0, size);
    upstream_->taken(size);
    const std::string_view sums =
        std::string_view(packet).substr((*decoded)->size, header.sums_size);
    const std::string_view data = std::string_view(packet).substr(size - header.data_size);
    world_.note(name(), " packet ", header.sequence_number, " at ", header.offset_in_block, " of ",
                header.data_size, header.sync_block ? " sync" : "",
                header.last_in_block ? " last" : "");
    if (header.sequence_number != PipelineAck::kHeartbeat) {
      check(header, sums, data);
      keep(header, data);
    }
    if (mirror_) mirror_->send_all(packet);
    pending_.push_back({header.sequence_number, header.offset_in_block + header.data_size,
                        header.last_in_block, false, std::nullopt});
    store(header.sync_block);
    return true;
  }

  void check(const PacketHeader& header, std::string_view sums, std::string_view data) {
    const std::uint64_t offset = header.offset_in_block;
    const std::size_t chunk = operation_.checksum.bytes_per_checksum;
    world_.require(header.sequence_number > last_sequence_number_, name(), ": packet ",
                   header.sequence_number, " comes after ", last_sequence_number_);
    last_sequence_number_ = header.sequence_number;
    world_.require(!is_last_received_, name(), ": a packet after the last one");
    world_.require(offset <= received_, name(), ": a packet at ", offset, " leaves a hole behind ",
                   received_);
    world_.require(offset % chunk == 0 || data.size() <= chunk - offset % chunk, name(),
                   ": a packet at ", offset, " crosses the end of a partial chunk");
    world_.require(offset + data.size() <= node_.cluster_.block_size(operation_.block.id), name(),
                   ": a packet at ", offset, " of ", data.size(), " ends beyond its block");
    const std::size_t count = crc::checksum_count(data.size(), chunk);
    world_.require(sums.size() == count * crc::kSumSize, name(), ": ", sums.size(),
                   " bytes of sums for ", data.size(), " bytes");
    const bool matches = sums.size() == count * crc::kSumSize &&
                         !crc::first_mismatch(operation_.checksum.kind, as_bytes(data), chunk,
                                              as_bytes(sums).data());
    world_.require(matches, name(), ": a wrong sum at ", offset);
    world_.require(node_.cluster_.expected(operation_.block.id, offset, data.size()) == data,
                   name(), ": wrong bytes at ", offset, " of ", operation_.block.to_string());
    if (!header.last_in_block) return;
    is_last_received_ = true;
    world_.require(data.empty(), name(), ": the last packet has data");
    world_.require(offset == received_, name(), ": the last packet at ", offset, " of ", received_,
                   " bytes");
    world_.require(received_ > 0, name(), ": an empty block is ended");
    const bool all_acknowledged = std::ranges::all_of(pending_, [](const Pending& one) {
      return one.sequence_number == PipelineAck::kHeartbeat;
    });
    world_.require(all_acknowledged, name(), ": the last packet comes before all are acknowledged");
  }

  void keep(const PacketHeader& header, std::string_view data) {
    std::string& bytes = replica().bytes;
    bytes.resize(std::max<std::size_t>(bytes.size(), header.offset_in_block + data.size()));
    bytes.replace(header.offset_in_block, data.size(), data);
    received_ = bytes.size();
  }

  // In order, one after the other.
  void store(bool sync) {
    Duration takes = std::chrono::microseconds(1) + node_.chance_.up_to(node_.longest_store_);
    if (sync) takes += node_.chance_.up_to(10 * node_.longest_store_);
    stored_at_ = std::max(stored_at_, world_.now()) + takes;
    const std::int64_t number = pending_.back().sequence_number;
    const std::uint64_t end = received_;
    const auto self = shared_from_this();
    world_.at(stored_at_, [self, number, end, sync] {
      if (self->phase_ != Phase::kStreaming) return;
      const auto found = std::ranges::find_if(self->pending_, [number](const Pending& one) {
        return one.sequence_number == number && !one.is_stored;
      });
      if (found == self->pending_.end()) return;
      found->is_stored = true;
      if (sync) self->replica().synced = std::max(self->replica().synced, end);
      self->acknowledge();
    });
  }

  void acknowledge() {
    while (phase_ == Phase::kStreaming && !pending_.empty()) {
      Pending& first = pending_.front();
      if (!first.is_stored || (mirror_ && !first.behind)) return;
      PipelineAck ack{first.sequence_number, {TransferStatus::kSuccess}};
      if (first.behind) ack = behind(*first.behind);
      StoredReplica& stored = replica();
      if (first.sequence_number != PipelineAck::kHeartbeat) {
        stored.acknowledged = std::max(stored.acknowledged, first.end);
      }
      const bool is_last = first.is_last;
      pending_.pop_front();
      if (is_last) node_.finalize(operation_.block.id);
      world_.note(name(), " acks ", ack.sequence_number);
      upstream_->send_all(encoded(ack));
      if (is_last) return stop();
    }
  }

  // --- the node behind

  void mirror_arrived() {
    const auto self = shared_from_this();
    if (phase_ == Phase::kMirror && !take_mirror_reply()) return;
    while (phase_ == Phase::kStreaming && take_mirror_ack()) {
    }
    const bool is_lost = mirror_->is_at_end() || mirror_->error() != 0;
    if (is_lost && !is_mirror_done_) mirror_failed();
  }

  bool take_mirror_reply() {
    if (mirror_->inbox().empty() && (mirror_->is_at_end() || mirror_->error() != 0)) {
      mirror_failed();
      return false;
    }
    const auto size = hdfs::delimited_size(as_bytes(mirror_->inbox()), 1U << 20U);
    if (!size.ok() || *size == 0) return false;
    const auto answer = hdfs::decode_operation_reply(as_bytes(mirror_->inbox()).first(*size));
    mirror_->taken(*size);
    if (!answer.ok()) return false;
    set_up(answer->status, answer->first_bad_link);
    return phase_ == Phase::kStreaming;
  }

  bool take_mirror_ack() {
    const auto size = hdfs::delimited_size(as_bytes(mirror_->inbox()), 1U << 20U);
    if (!size.ok() || *size == 0) return false;
    const auto ack = hdfs::decode_pipeline_ack(as_bytes(mirror_->inbox()).first(*size));
    mirror_->taken(*size);
    if (!ack.ok()) return false;
    if (!is_success(*ack)) {
      complain(behind(*ack));
      return false;
    }
    const auto waiting =
        std::ranges::find_if(pending_, [](const Pending& one) { return !one.behind; });
    world_.require(waiting != pending_.end() && waiting->sequence_number == ack->sequence_number,
                   name(), ": an ack from behind for a packet that was not sent");
    if (waiting == pending_.end()) return false;
    waiting->behind = *ack;
    is_mirror_done_ = waiting->is_last;
    acknowledge();
    return true;
  }

  // Again and again, until the client closes.
  void complain(const PipelineAck& ack) {
    if (phase_ == Phase::kEnded || complaints_ == kMaxComplaints) return;
    phase_ = Phase::kBroken;
    pending_.clear();
    if (mirror_) mirror_->close();
    if (complaints_++ == 0) world_.note(name(), " complains about ", ack.sequence_number);
    upstream_->send_all(encoded(ack));
    world_.after(std::chrono::milliseconds(1), [self = shared_from_this(), ack] {
      if (self->phase_ == Phase::kBroken) self->complain(ack);
    });
  }

  static constexpr int kMaxComplaints = 20;

  DataNode& node_;
  World& world_;
  const std::shared_ptr<End> upstream_;
  Phase phase_ = Phase::kOperation;
  Operation operation_;
  std::shared_ptr<End> mirror_;
  World::EventId mirror_timer_ = 0;
  std::deque<Pending> pending_;
  std::uint64_t received_ = 0;
  std::int64_t last_sequence_number_ = -1;
  bool is_last_received_ = false;
  bool is_mirror_done_ = false;  // it has acknowledged the last packet, and may close
  TimePoint stored_at_{};
  int complaints_ = 0;
};

DataNode::DataNode(World& world, Network& network, Cluster& cluster, int number)
    : world_(world),
      network_(network),
      cluster_(cluster),
      chance_(world.seed(), "datanode " + std::to_string(number)),
      info_(node_info(number)),
      longest_store_(std::chrono::microseconds(10) * (1 << chance_.below(8))) {
  listen();
}

void DataNode::listen() {
  network_.listen(info_.transfer_endpoint(false), [this](std::shared_ptr<End> end) {
    std::make_shared<Receiver>(*this, std::move(end))->start();
  });
}

const StoredReplica* DataNode::replica(std::uint64_t block) const {
  const auto found = replicas_.find(block);
  return found == replicas_.end() ? nullptr : &found->second;
}

void DataNode::crash() {
  if (!std::exchange(is_up_, false)) return;
  world_.note(info_.host, " crashes");
  network_.crash(ip());
  for (const auto& [block, writer] : writers_) {
    if (const auto receiver = writer.lock()) receiver->stop();
  }
  writers_.clear();
  for (auto& [block, replica] : replicas_) {
    if (replica.state == State::kBeingWritten) replica.state = State::kWaiting;
  }
}

void DataNode::restart() {
  if (std::exchange(is_up_, true)) return;
  world_.note(info_.host, " is back");
  listen();
}

void DataNode::take_copy(std::uint64_t block, const StoredReplica& original) {
  if (!is_up_ || replicas_.contains(block)) return;
  StoredReplica copy;
  copy.state = original.state;
  copy.stamp = original.stamp;
  copy.bytes = original.bytes.substr(0, original.acknowledged);
  copy.acknowledged = copy.bytes.size();
  replicas_[block] = copy;
}

// The table of OpWriteBlock's stages.
std::string DataNode::open_replica(const Operation& operation) {
  const std::uint64_t id = operation.block.id;
  const auto found = replicas_.find(id);
  if (operation.stage == WriteStage::kSetupCreate) {
    if (found != replicas_.end() && operation.latest_stamp == 0) return "the replica exists";
    const std::uint64_t stamp =
        operation.latest_stamp == 0 ? operation.block.generation_stamp : operation.latest_stamp;
    replicas_[id] = {};
    replicas_[id].stamp = stamp;
    return {};
  }
  if (found == replicas_.end()) return "no such replica";
  StoredReplica& replica = found->second;
  if (replica.stamp < operation.block.generation_stamp || replica.stamp > operation.latest_stamp) {
    return "another stamp";
  }
  if (replica.state == State::kWaiting) return "the replica waits to be recovered";
  const bool is_finalized = replica.state == State::kFinalized;
  const std::uint64_t length = replica.bytes.size();
  switch (operation.stage) {
    case WriteStage::kSetupAppend:
      if (!is_finalized || length != operation.min_bytes) return "not as long, or being written";
      break;
    case WriteStage::kSetupStreamingRecovery:
      if (is_finalized) return "the replica is finalized";
      if (replica.acknowledged < operation.min_bytes || length > operation.max_bytes) {
        return "not as long";
      }
      replica.bytes.resize(replica.acknowledged);
      break;
    default:
      if (length != operation.min_bytes) return "not as long";
      if (!is_finalized && replica.acknowledged != length) return "a tail is not acknowledged";
  }
  if (const auto writer = writers_[id].lock()) writer->stop();
  replica.stamp = operation.latest_stamp;
  replica.state = State::kBeingWritten;
  replica.synced = std::min(replica.synced, static_cast<std::uint64_t>(replica.bytes.size()));
  replica.acknowledged = replica.bytes.size();
  return {};
}

void DataNode::finalize(std::uint64_t block) {
  StoredReplica& replica = replicas_.at(block);
  replica.state = State::kFinalized;
  writers_.erase(block);
  world_.note(info_.host, " finalizes ", block, " of ", replica.bytes.size());
  const bool lags = chance_.one_in(20);
  const Duration delay = chance_.up_to(lags ? Duration(std::chrono::seconds(2))
                                            : Duration(std::chrono::milliseconds(3)));
  world_.after(delay, [this, block, stamp = replica.stamp, length = replica.bytes.size()] {
    if (is_up_) cluster_.finalized(*this, block, stamp, length);
  });
}

}  // namespace hflush::sim
