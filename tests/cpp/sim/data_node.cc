#include "sim/data_node.h"

#include <algorithm>
#include <deque>
#include <limits>
#include <optional>
#include <utility>

#include "hdfs/loopback_node.h"
#include "hdfs/read_answers.h"
#include "hflush/crc/checksum.h"
#include "hflush/hdfs/wire/shared_messages.h"
#include "hflush/hdfs/wire/wire.h"
#include "sim/request_fields.h"
#include "sim/rpc_server.h"

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
constexpr char kReadBlock = 81;
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

bool says_restart(const PipelineAck& ack) {
  for (std::size_t i = 0; i < ack.replies.size(); ++i) {
    if (ack.replies[i] == TransferStatus::kOobRestart) return true;
  }
  return false;
}

hdfs::DatanodeInfo node_info(int number) {
  hdfs::DatanodeInfo node = hdfs::loopback_node(9866);
  node.ip = "10.0.0." + std::to_string(number);
  node.host = "dn" + std::to_string(number);
  node.uuid = "uuid-" + std::to_string(number);
  node.rpc_port = 9867;
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

// OpWriteBlock; of OpTransferBlock, header and targets; of OpReadBlock, header and range.
struct DataNode::Operation {
  hdfs::ExtendedBlock block;
  std::string token;
  std::string client_name;
  std::vector<std::string> targets;
  WriteStage stage = WriteStage::kSetupCreate;
  std::uint32_t pipeline_size = 0;
  std::uint64_t min_bytes = 0;
  std::uint64_t max_bytes = 0;
  std::uint64_t latest_stamp = 0;
  hdfs::ChecksumParameters checksum;
  std::uint64_t offset = 0;
  std::uint64_t length = 0;
  bool send_checksums = true;

  static Result<Operation> decode(char code, ByteView message) {
    return wire::read_whole<Operation>("operation", "Op", message, [code](wire::Reader from) {
      if (code == kReadBlock) return read_range(from);
      return code == kWriteBlock ? read(from) : read_transfer(from);
    });
  }

 private:
  static Operation read_range(wire::Reader from) {
    Operation operation;
    while (from.next()) {
      if (from.field() == 1) {
        operation.read_header(from.message("header"));
      } else if (from.field() == 2) {
        operation.offset = from.uint64();
      } else if (from.field() == 3) {
        operation.length = from.uint64();
      } else if (from.field() == 4) {
        operation.send_checksums = from.boolean();
      } else {
        from.skip();
      }
    }
    from.require({{1, "header"}, {2, "offset"}, {3, "len"}});
    return operation;
  }
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
          } else if (base.field() == 2) {
            token = base.text();
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
    world_.cancel(std::exchange(mirror_timer_, 0));
    world_.cancel(std::exchange(upstream_timer_, 0));
    pending_.clear();
  }
  // Before its DataNode restarts for an upgrade: a pipeline that is not set up yet is given up
  // (DataXceiverServer.restartNotifyPeers interrupts its thread).
  void announce_restart() {
    if (phase_ == Phase::kMirror) return stop();
    if (phase_ != Phase::kStreaming) return;
    upstream_->send_all(encoded({kNoPacket, {TransferStatus::kOobRestart}}));
  }

 private:
  enum class Phase : std::uint8_t {
    kOperation,
    kMirror,
    kStreaming,
    kBroken,
    kReading,  // a range is being sent
    kRead,     // the reader's word is waited for
    kEnded
  };

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
    if (phase_ == Phase::kRead && !take_status()) return;
    if (phase_ == Phase::kOperation && !begin()) return;
    if (phase_ == Phase::kStreaming) watch_upstream();
    while (phase_ == Phase::kStreaming && take_packet()) {
    }
    if (phase_ == Phase::kBroken) upstream_->taken(upstream_->inbox().size());
    if (upstream_->is_at_end() && phase_ != Phase::kMirror) stop();
  }

  // --- the operation

  bool begin() {
    if (node_.process_ != Process::kRuns) {
      stop();
      return false;
    }
    const std::string& bytes = upstream_->inbox();
    if (bytes.size() <= kOperationHead) return false;
    const char code = bytes[2];
    world_.require(bytes.starts_with(std::string("\x00\x1c", 2)) &&
                       (code == kWriteBlock || code == kTransferBlock || code == kReadBlock),
                   name(), ": an unknown operation, or not of version 28");
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
    if (code == kReadBlock) {
      read_range();
      return false;
    }
    const bool may_copy = operation_.token == kCopyToken;
    world_.require(may_copy == (code == kTransferBlock), name(),
                   ": the token is for another operation");
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

  // --- reading

  void read_range() {
    const StoredReplica* const own = node_.replica(operation_.block.id);
    const std::uint64_t visible = own == nullptr ? 0 : own->visible_length().value_or(0);
    const bool can = own != nullptr && own->stamp >= operation_.block.generation_stamp &&
                     operation_.length > 0 && operation_.offset + operation_.length <= visible;
    world_.note(name(), " READ_BLOCK ", operation_.block.to_string(), " at ", operation_.offset,
                " of ", operation_.length, can ? "" : " refused");
    if (!can) {
      upstream_->send_all(
          hdfs::testing::refusing_reply(TransferStatus::kError, "the replica cannot be read"));
      return stop();
    }
    const ByteView bytes = as_bytes(own->bytes).first(visible);
    const std::size_t packet =
        own->checksum.bytes_per_checksum * node_.chance_.between(1, kMostChunksOfRead);
    const hdfs::testing::StoredReplica shown({bytes.begin(), bytes.end()}, own->checksum, packet);
    unsent_ = hdfs::testing::answer_to_read(shown, operation_.offset, operation_.length,
                                            operation_.send_checksums);
    phase_ = Phase::kReading;
    send_on();
  }

  void send_on() {
    if (phase_ != Phase::kReading) return;
    const std::size_t size = node_.chance_.between(1, unsent_.size());
    upstream_->send_all(std::string_view(unsent_).substr(0, size));
    unsent_.erase(0, size);
    if (unsent_.empty()) {
      phase_ = Phase::kRead;
      return arrived();
    }
    world_.after(node_.chance_.up_to(node_.longest_store_),
                 [self = shared_from_this()] { self->send_on(); });
  }

  // The connection may be used again, or not.
  bool take_status() {
    const auto size = hdfs::delimited_size(as_bytes(upstream_->inbox()), 1U << 20U);
    if (!size.ok() || *size == 0) return false;
    upstream_->taken(*size);
    if (node_.chance_.one_in(3)) {
      stop();
      return false;
    }
    phase_ = Phase::kOperation;
    return true;
  }

  // SUCCESS says no more than that it was tried.
  void transfer() {
    const StoredReplica* const own = node_.replica(operation_.block.id);
    const bool can = own != nullptr && own->stamp >= operation_.block.generation_stamp &&
                     own->state != State::kWaiting && operation_.targets.size() == 1;
    world_.note(name(), " TRANSFER_BLOCK ", operation_.block.to_string(), can ? "" : " refused");
    for (const std::string& target : operation_.targets) {
      node_.cluster_.is_to_copy(operation_.block.id, target);
    }
    if (!can) return stop();
    phase_ = Phase::kMirror;
    DataNode* const target = node_.cluster_.node_at(operation_.targets.front());
    const TimePoint given_up = world_.now() + patience();
    TimePoint copied =
        world_.now() + std::chrono::microseconds(1) + node_.chance_.up_to(node_.longest_store_);
    if (target != nullptr) {
      copied = std::max(copied, node_.network_.silent_until(node_.ip(), target->ip()));
    }
    const auto self = shared_from_this();
    world_.at(std::min(copied, given_up), [self, target, is_copied = copied <= given_up] {
      if (self->phase_ != Phase::kMirror) return;
      const StoredReplica* const source = self->node_.replica(self->operation_.block.id);
      if (!self->node_.is_up() || source == nullptr) return self->stop();
      if (is_copied && target != nullptr) target->take_copy(self->operation_.block.id, *source);
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
    mirror_timer_ = world_.after(patience(), [self] { self->mirror_failed(); });
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
      const TransferStatus own =
          node_.complains_of_itself_ ? TransferStatus::kError : TransferStatus::kSuccess;
      complain(
          {answers ? pending_.front().sequence_number : kNoPacket, {own, TransferStatus::kError}});
    }
  }

  bool set_up(TransferStatus status, const std::string& first_bad_link) {
    world_.cancel(std::exchange(mirror_timer_, 0));
    world_.note(name(), " replies ", hdfs::to_string(status), " ", first_bad_link);
    upstream_->send_all(reply(status, first_bad_link));
    const bool is_first = node_.cluster_.node_at(upstream_->peer_host()) == nullptr;
    if (status == TransferStatus::kSuccess && is_first) {
      node_.cluster_.is_set_up(operation_.block.id);
    }
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

  // A pipeline without packets and heartbeats is given up (BlockReceiver.receivePacket).
  void watch_upstream() {
    world_.cancel(upstream_timer_);
    upstream_timer_ = world_.after(kLongestSilence, [self = shared_from_this()] {
      self->upstream_timer_ = 0;
      self->world_.note(self->name(), " gets nothing from ", self->upstream_->peer_host());
      self->stop();
    });
  }

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
    bool passes_over = false;
    if (header.sequence_number != PipelineAck::kHeartbeat) {
      check(header, sums, data);
      if (node_.is_full_) {
        stop();
        return false;
      }
      // The last node is the one that looks at the sums.
      if (!mirror_ && node_.damage_one_in_ != 0 && node_.chance_.one_in(node_.damage_one_in_)) {
        complain({header.sequence_number, {TransferStatus::kErrorChecksum}});
        return false;
      }
      passes_over = keep(header, data);
      const StoredReplica& own = replica();
      const bool is_partial = own.stored % own.checksum.bytes_per_checksum != 0;
      if (node_.restarts_in_a_chunk_ && is_partial && own.bytes.size() > own.stored) {
        node_.is_stuck_ = true;
        node_.restart_for_upgrade(*std::exchange(node_.restarts_in_a_chunk_, std::nullopt));
      }
    }
    if (mirror_) {
      mirror_->send_all(packet);
      if (mirror_timer_ == 0) watch_mirror();
    }
    world_.require(pending_.size() < kMostInFlight, name(), ": ", pending_.size() + 1,
                   " packets are under way");
    pending_.push_back({header.sequence_number, header.offset_in_block + header.data_size,
                        header.last_in_block, false, std::nullopt});
    store(header.sync_block && !passes_over);
    return true;
  }

  // What comes from behind is waited for, for less long than the one in front waits for this node.
  void watch_mirror() {
    world_.cancel(std::exchange(mirror_timer_, 0));
    const auto self = shared_from_this();
    mirror_timer_ = world_.after(patience(), [self] {
      self->mirror_timer_ = 0;
      self->world_.note(self->name(), " hears nothing from the node behind it");
      self->mirror_failed();
    });
  }
  Duration patience() const {
    return kLongestSilence + std::chrono::seconds(5) * static_cast<int>(operation_.targets.size());
  }

  void check(const PacketHeader& header, std::string_view sums, std::string_view data) {
    const std::uint64_t offset = header.offset_in_block;
    const std::size_t chunk = operation_.checksum.bytes_per_checksum;
    world_.require(header.sequence_number >= next_sequence_number_, name(), ": packet ",
                   header.sequence_number, " comes where ", next_sequence_number_, " is expected");
    // Before the first packet of a block there may be an empty one that syncs, with the same
    // number.
    const bool is_extra = next_sequence_number_ < 0 && header.sync_block && data.empty() &&
                          header.sequence_number == 0 && operation_.max_bytes > 0;
    next_sequence_number_ = header.sequence_number + (is_extra ? 0 : 1);
    world_.require(!is_last_received_, name(), ": a packet after the last one");
    world_.require(offset <= received_, name(), ": a packet at ", offset, " leaves a hole behind ",
                   received_);
    world_.require(offset % chunk == 0 || data.size() <= chunk - offset % chunk, name(),
                   ": a packet at ", offset, " crosses the end of a partial chunk");
    if (node_.cluster_.block_size(operation_.block.id) == 0) return;  // it was abandoned since
    world_.require(offset + data.size() <= node_.cluster_.block_size(operation_.block.id), name(),
                   ": a packet at ", offset, " of ", data.size(), " ends beyond its block");
    const std::size_t count = crc::checksum_count(data.size(), chunk);
    world_.require(sums.size() == count * crc::kSumSize, name(), ": ", sums.size(),
                   " bytes of sums for ", data.size(), " bytes");
    const bool matches = sums.size() == count * crc::kSumSize &&
                         !crc::first_mismatch(operation_.checksum.kind, as_bytes(data), chunk,
                                              as_bytes(sums).data());
    world_.require(matches, name(), ": a wrong sum at ", offset);
    world_.require(node_.cluster_.accepts(operation_.block.id, offset, data), name(),
                   ": wrong bytes at ", offset, " of ", operation_.block.to_string());
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

  // Whether it has all of the data already: then it takes no notice of a sync either.
  bool keep(const PacketHeader& header, std::string_view data) {
    std::string& bytes = replica().bytes;
    const std::size_t before = bytes.size();
    bytes.resize(std::max<std::size_t>(bytes.size(), header.offset_in_block + data.size()));
    bytes.replace(header.offset_in_block, data.size(), data);
    received_ = bytes.size();
    return !data.empty() && received_ == before;
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
      if (self->phase_ != Phase::kStreaming || self->node_.is_stuck_) return;
      const auto found = std::ranges::find_if(self->pending_, [number](const Pending& one) {
        return one.sequence_number == number && !one.is_stored;
      });
      if (found == self->pending_.end()) return;
      found->is_stored = true;
      self->replica().stored = std::max(self->replica().stored, end);
      if (sync) {
        self->replica().synced = std::max(self->replica().synced, end);
        self->replica().synced_stamp = self->replica().stamp;
      }
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
      if (pending_.empty()) world_.cancel(std::exchange(mirror_timer_, 0));
      if (is_last) node_.finalize(operation_.block.id);
      world_.note(name(), " acks ", ack.sequence_number);
      upstream_->send_all(encoded(ack));
      if (is_last) return stop();
    }
  }

  // --- the node behind

  void mirror_arrived() {
    const auto self = shared_from_this();
    if (phase_ == Phase::kStreaming && mirror_timer_ != 0) watch_mirror();
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
    if (ack->replies.size() > 0 && ack->replies[0] == TransferStatus::kErrorChecksum) {
      stop();  // as if the damage were its own
      return false;
    }
    if (!is_success(*ack)) {
      complain(behind(*ack), says_restart(*ack) ? 1 : kMaxComplaints);
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
  void complain(const PipelineAck& ack, int at_most = kMaxComplaints) {
    if (phase_ == Phase::kEnded || complaints_ >= at_most) return;
    phase_ = Phase::kBroken;
    pending_.clear();
    if (mirror_) mirror_->close();
    if (complaints_++ == 0) world_.note(name(), " complains about ", ack.sequence_number);
    upstream_->send_all(encoded(ack));
    world_.cancel(std::exchange(mirror_timer_, 0));
    world_.after(std::chrono::milliseconds(1), [self = shared_from_this(), ack, at_most] {
      if (self->phase_ == Phase::kBroken) self->complain(ack, at_most);
    });
  }

  static constexpr Duration kLongestSilence =
      std::chrono::seconds(60);  // dfs.client.socket-timeout
  static constexpr int kMaxComplaints = 20;
  static constexpr std::uint64_t kMostChunksOfRead = 16;
  // What the settings of a run allow (dfs.client.write.max-packets-in-flight), and what ends a
  // block.
  static constexpr std::size_t kMostInFlight = 24;

  DataNode& node_;
  World& world_;
  const std::shared_ptr<End> upstream_;
  Phase phase_ = Phase::kOperation;
  Operation operation_;
  std::shared_ptr<End> mirror_;
  World::EventId mirror_timer_ = 0;
  World::EventId upstream_timer_ = 0;
  std::deque<Pending> pending_;
  std::uint64_t received_ = 0;
  std::int64_t next_sequence_number_ = -1;  // -1: before the first packet
  bool is_last_received_ = false;
  bool is_mirror_done_ = false;  // it has acknowledged the last packet, and may close
  TimePoint stored_at_{};
  int complaints_ = 0;
  std::string unsent_;  // of a range
};

DataNode::DataNode(World& world, Network& network, Cluster& cluster, int number)
    : world_(world),
      network_(network),
      cluster_(cluster),
      chance_(world.seed(), "datanode " + std::to_string(number)),
      info_(node_info(number)),
      complains_of_itself_(
          Chance(world.seed(), "habit of datanode " + std::to_string(number)).one_in(4)),
      longest_store_(std::chrono::microseconds(10) * (1 << chance_.below(8))) {
  listen();
}

void DataNode::listen() {
  network_.listen(info_.transfer_endpoint(false), [this](std::shared_ptr<End> end) {
    std::make_shared<Receiver>(*this, std::move(end))->start();
  });
  network_.listen(info_.rpc_endpoint(false), [this](std::shared_ptr<End> end) {
    RpcConnection::accept(world_, std::move(end), info_.host,
                          [this](const auto& from, const RpcCall& call) { answer(from, call); });
  });
}

const StoredReplica* DataNode::replica(std::uint64_t block) const {
  const auto found = replicas_.find(block);
  return found == replicas_.end() ? nullptr : &found->second;
}

void DataNode::answer(const std::shared_ptr<RpcConnection>& from, const RpcCall& call) {
  const bool is_misled = std::ranges::count(misled_, from->peer_host()) > 0;
  switch (is_misled ? answering_ : Answering::kWell) {
    case Answering::kWell:
      return from->answer(call, visible_length(call));
    case Answering::kNever:
      return;
    case Answering::kLate:
      return from->answer(call, visible_length(call), chance_.up_to(std::chrono::seconds(5)));
    case Answering::kWrong: {
      std::string body;
      wire::Writer(body).add_uint64(1, chance_.below(20'000));
      return from->answer(call, body);
    }
    case Answering::kWithoutReplica:
      return from->answer(
          call, RpcException{"org.apache.hadoop.hdfs.server.datanode.ReplicaNotFoundException",
                             "no such replica"});
    case Answering::kFailure:
      return from->answer(call, RpcException{"java.io.IOException", "Block token with ..."});
  }
}

// getReplicaVisibleLength.
RpcAnswer DataNode::visible_length(const RpcCall& call) const {
  world_.require(call.method == "getReplicaVisibleLength", info_.host, ": a call of ", call.method);
  const Fields fields = read_fields(as_bytes(call.request), "m");
  const auto block = block_in(fields, 1);
  const StoredReplica* const stored = block ? replica(block->id) : nullptr;
  if (stored == nullptr) {
    return RpcException{"org.apache.hadoop.hdfs.server.datanode.ReplicaNotFoundException",
                        "no such replica"};
  }
  const auto length = stored->visible_length();
  if (stored->stamp < block->generation_stamp) {
    return RpcException{"java.io.IOException",
                        "replica.getGenerationStamp() < block.getGenerationStamp(), replica=\n  "
                        "getNumBytes()     = " +
                            std::to_string(stored->bytes.size()) + "\n  getVisibleLength()= " +
                            (length ? std::to_string(*length) : "-1") + "\n"};
  }
  world_.note(info_.host, " shows ", length.value_or(0), " bytes of ", block->to_string());
  std::string body;
  wire::Writer(body).add_uint64(1, length.value_or(std::numeric_limits<std::uint64_t>::max()));
  return body;
}

std::optional<std::uint64_t> StoredReplica::visible_length() const {
  if (state == State::kFinalized) return bytes.size();
  if (state == State::kBeingWritten) return acknowledged;
  return std::nullopt;
}

void StoredReplica::cut_to(std::uint64_t length) {
  bytes.resize(std::min<std::uint64_t>(bytes.size(), length));
  const std::uint64_t size = bytes.size();
  stored = std::min(stored, size);
  acknowledged = std::min(acknowledged, size);
  synced = std::min(synced, size);
}

void StoredReplica::lose_partial_chunk() {
  const std::uint64_t whole = stored - stored % checksum.bytes_per_checksum;
  has_lost_chunk = has_lost_chunk || whole < acknowledged;
  cut_to(whole);
}

std::optional<std::uint64_t> DataNode::cut(std::uint64_t block) const {
  const auto found = cuts_.find(block);
  return found == cuts_.end() ? std::nullopt : std::optional(found->second);
}

void DataNode::go_down() {
  process_ = Process::kGone;
  network_.crash(ip());
  for (const auto& [block, writer] : writers_) {
    if (const auto receiver = writer.lock()) receiver->stop();
  }
  writers_.clear();
  const bool loses_chunks = std::exchange(is_stuck_, false) || chance_.one_in(3);
  for (auto& [block, replica] : replicas_) {
    const bool has_more_to_store = replica.bytes.size() > replica.stored;
    if (loses_chunks && has_more_to_store) replica.lose_partial_chunk();
    replica.cut_to(replica.stored);
    if (!replica.has_lost_chunk) continue;
    const auto cut = cuts_.try_emplace(block, replica.stored).first;
    cut->second = std::min(cut->second, replica.stored);
    world_.note(info_.host, " has ", replica.stored, " bytes left of ", block);
  }
}

void DataNode::crash() {
  if (is_up()) {
    world_.note(info_.host, " crashes");
    go_down();
  }
  for (auto& [block, replica] : replicas_) {
    if (replica.state == State::kBeingWritten) replica.state = State::kWaiting;
  }
}

void DataNode::cut_power() {
  crash();
  world_.note(info_.host, " has no power");
  has_lost_power_ = true;
  for (auto& [block, replica] : replicas_) {
    const std::uint64_t size = replica.bytes.size();
    const std::uint64_t left = chance_.between(replica.synced, size);
    if (left < size && replica.state == State::kFinalized) replica.state = State::kDamaged;
    replica.cut_to(left);
    const bool is_old_stamp_left = replica.synced > 0 && replica.synced_stamp < replica.stamp;
    if (is_old_stamp_left && chance_.one_in(2)) replica.stamp = replica.synced_stamp;
  }
  // A file that was never synced may have no name; what has lost a chunk may have been.
  std::erase_if(replicas_, [&](const auto& one) {
    return one.second.synced == 0 && !one.second.has_lost_chunk && chance_.one_in(2);
  });
}

void DataNode::restart_for_upgrade(Duration absence) {
  if (process_ != Process::kRuns) return;
  world_.note(info_.host, " restarts for an upgrade");
  may_return_ = true;
  process_ = Process::kEnds;
  network_.stop_listening(ip());
  for (const auto& [block, writer] : writers_) {
    if (const auto receiver = writer.lock()) receiver->announce_restart();
  }
  // What was said is on its way.
  world_.after(std::chrono::milliseconds(100), [this, absence] {
    if (process_ != Process::kEnds) return;
    go_down();
    for (auto& [block, replica] : replicas_) {
      if (replica.state == State::kBeingWritten) replica.acknowledged = replica.stored;
    }
    world_.after(absence, [this] { restart(); });
  });
}

void DataNode::restart() {
  if (is_up()) return;
  process_ = Process::kRuns;
  world_.note(info_.host, " is back");
  listen();
  for (const auto& [block, replica] : replicas_) {
    if (replica.state == State::kFinalized) {
      report(block, chance_.up_to(std::chrono::seconds(1)));
    }
  }
}

const StoredReplica* DataNode::begin_recovery(std::uint64_t block, std::uint64_t recovery) {
  const auto found = replicas_.find(block);
  if (found == replicas_.end()) return nullptr;
  StoredReplica& replica = found->second;
  if (replica.recovery >= recovery || replica.state == State::kDamaged) return nullptr;
  if (const auto writer = writers_[block].lock()) writer->stop();
  writers_.erase(block);
  replica.recovery = recovery;
  replica.cut_to(replica.stored);
  world_.require(replica.stored >= replica.acknowledged, info_.host, " has acknowledged ",
                 replica.acknowledged, " bytes of ", block, ", and stored ", replica.stored);
  return &replica;
}

void DataNode::finish_recovery(std::uint64_t block, std::uint64_t recovery, std::uint64_t length) {
  StoredReplica& replica = replicas_.at(block);
  replica.cut_to(length);
  replica.acknowledged = length;
  replica.stamp = replica.synced_stamp = recovery;  // as if it were synced: no client could do that
  replica.state = State::kFinalized;
  replica.has_lost_chunk = false;
}

void DataNode::check() const {
  for (const auto& [block, replica] : replicas_) {
    const bool holds = replica.synced <= replica.stored && replica.acknowledged <= replica.stored &&
                       replica.stored <= replica.bytes.size();
    world_.require(holds, info_.host, ": of ", block, " are ", replica.bytes.size(),
                   " bytes received, ", replica.stored, " stored, ", replica.acknowledged,
                   " acknowledged, ", replica.synced, " synced");
  }
}

bool DataNode::take_copy(std::uint64_t block, const StoredReplica& original) {
  const StoredReplica* const known = replica(block);
  if (process_ != Process::kRuns || is_full_ ||
      (known != nullptr && known->stamp >= original.stamp))
    return false;
  if (const auto writer = writers_[block].lock()) writer->stop();
  StoredReplica copy;
  copy.state = original.state;
  copy.stamp = original.stamp;
  copy.checksum = original.checksum;
  copy.bytes = original.bytes.substr(0, original.acknowledged);
  copy.acknowledged = copy.bytes.size();
  copy.stored = copy.bytes.size();
  copy.synced_elsewhere = std::max(original.synced, original.synced_elsewhere);
  replicas_[block] = copy;
  return true;
}

void DataNode::invalidate(std::uint64_t block, std::uint64_t stamp) {
  const auto found = replicas_.find(block);
  if (found == replicas_.end() || found->second.stamp != stamp) return;
  world_.note(info_.host, " deletes ", block);
  if (const auto writer = writers_[block].lock()) writer->stop();
  writers_.erase(block);
  replicas_.erase(found);
}

// The table of OpWriteBlock's stages.
std::string DataNode::open_replica(const Operation& operation) {
  const std::uint64_t id = operation.block.id;
  const auto found = replicas_.find(id);
  if (operation.stage == WriteStage::kSetupCreate) {
    if (is_full_) return "the disk is full";
    // A DataNode takes one, and then refuses packets.
    world_.require(operation.latest_stamp == 0, info_.host, ": a new replica with a later stamp");
    if (found != replicas_.end()) return "the replica exists";
    replicas_[id] = {};
    replicas_[id].stamp = operation.block.generation_stamp;
    replicas_[id].checksum = operation.checksum;
    return {};
  }
  if (found == replicas_.end()) return "no such replica";
  StoredReplica& replica = found->second;
  if (replica.stamp < operation.block.generation_stamp || replica.stamp > operation.latest_stamp) {
    return "another stamp";
  }
  if (replica.state == State::kWaiting) return "the replica waits to be recovered";
  if (replica.state == State::kDamaged) return "the replica is damaged";
  if (replica.recovery > operation.latest_stamp) return "a recovery is newer";
  if (replica.checksum.bytes_per_checksum != operation.checksum.bytes_per_checksum) {
    return "another chunk size";
  }
  const bool is_finalized = replica.state == State::kFinalized;
  const std::uint64_t length = replica.bytes.size();
  switch (operation.stage) {
    case WriteStage::kSetupAppend:
      if (replica.stamp != operation.block.generation_stamp) return "another stamp";
      if (!is_finalized || length != operation.min_bytes) return "not as long, or being written";
      break;
    case WriteStage::kSetupStreamingRecovery:
      if (is_finalized) return "the replica is finalized";
      if (replica.acknowledged < operation.min_bytes || length > operation.max_bytes) {
        return "not as long";
      }
      replica.cut_to(replica.acknowledged);
      break;
    default:
      if (length != operation.min_bytes) return "not as long";
      if (!is_finalized && replica.acknowledged != length) return "a tail is not acknowledged";
  }
  if (const auto writer = writers_[id].lock()) writer->stop();
  replica.stamp = operation.latest_stamp;
  replica.state = State::kBeingWritten;
  replica.acknowledged = replica.bytes.size();
  replica.has_lost_chunk = false;
  return {};
}

void DataNode::finalize(std::uint64_t block) {
  StoredReplica& replica = replicas_.at(block);
  replica.state = State::kFinalized;
  writers_.erase(block);
  world_.note(info_.host, " finalizes ", block, " of ", replica.bytes.size());
  const bool lags = chance_.one_in(20);
  report(block, chance_.up_to(lags ? Duration(std::chrono::seconds(2))
                                   : Duration(std::chrono::milliseconds(3))));
}

// What was finalized is reported also if it was opened again meanwhile, under the same stamp.
void DataNode::report(std::uint64_t block, Duration delay) {
  const StoredReplica* const finalized = replica(block);
  const std::uint64_t stamp = finalized == nullptr ? 0 : finalized->stamp;
  const TimePoint when = std::max(world_.now() + delay, network_.silent_until(ip()));
  world_.at(when, [this, block, stamp] {
    const StoredReplica* const stored = replica(block);
    if (!is_up() || stored == nullptr) return;
    const bool is_open = stored->state == State::kBeingWritten && stored->stamp == stamp;
    if (stored->state != State::kFinalized && !is_open) return;
    if (network_.is_silent(ip())) return report(block, {});
    cluster_.finalized(*this, block, stored->stamp, stored->bytes.size());
  });
}

}  // namespace hflush::sim
