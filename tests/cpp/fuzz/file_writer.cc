#include "hflush/hdfs/write/file_writer.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "fuzz/targets.h"
#include "hflush/base/buffer_pool.h"
#include "hflush/hdfs/wire/name_node_requests.h"
#include "hflush/stream/packetizer.h"

namespace hflush::fuzz {
namespace {

using namespace hdfs;  // NOLINT(google-build-using-namespace): all of its requests
using stream::Cut;
using stream::Level;

constexpr std::size_t kMaxMessage = std::size_t{64} << 10U;
constexpr std::uint64_t kBlock = 4096;
constexpr std::uint32_t kChunk = 512;
constexpr std::uint64_t kAppendStart = 100;

// The bytes of an input, from its front.
class Input {
 public:
  explicit Input(ByteView bytes) : bytes_(bytes) {}

  bool empty() const { return bytes_.empty(); }
  std::uint8_t byte() {
    if (bytes_.empty()) return 0;
    const auto value = std::to_integer<std::uint8_t>(bytes_.front());
    bytes_ = bytes_.subspan(1);
    return value;
  }
  // As many bytes as the next one says, or as are left.
  ByteView message() {
    const std::size_t asked = byte();
    const std::size_t size = std::min(asked, bytes_.size());
    const ByteView taken = bytes_.first(size);
    bytes_ = bytes_.subspan(size);
    return taken;
  }

 private:
  ByteView bytes_;
};

Replica replica(int number) {
  Replica replica;
  replica.node.ip = "10.0.0." + std::to_string(number);
  replica.node.uuid = "u" + std::to_string(number);
  replica.node.transfer_port = 9866;
  replica.node.encoded = replica.node.encoded_id = replica.node.ip;
  return replica;
}

WriteTarget target_of(std::uint8_t choice) {
  WriteTarget target;
  target.path = "/f";
  target.file_id = 7;
  target.client_name = "C1";
  target.replication = 1 + (choice & 3U);
  target.block_size = kBlock;
  target.bytes_per_checksum = kChunk;
  if ((choice & 4U) != 0) {
    target.start = kAppendStart;
    target.partial_block.emplace();
    target.partial_block->block = {"BP", 5, 50, kAppendStart};
    for (int i = 1; i <= 3; ++i) target.partial_block->replicas.push_back(replica(i));
  }
  if ((choice & 8U) != 0) target.is_local = [](const std::string&) { return true; };
  return target;
}

WriteSettings settings_of(std::uint8_t choice) {
  WriteSettings settings;
  settings.replacement_policy = static_cast<ReplacementPolicy>((choice >> 4U) % 3);
  settings.replacement_best_effort = (choice & 64U) != 0;
  settings.replacement_min_replication = (choice & 128U) != 0 ? 1 : 0;
  return settings;
}

stream::Geometry geometry_of(const WriteTarget& target) {
  stream::Geometry geometry;
  geometry.checksum = target.checksum;
  geometry.bytes_per_checksum = kChunk;
  geometry.packet_bytes = std::size_t{2} * kChunk;
  geometry.batch_bytes = geometry.packet_bytes;
  geometry.window_bytes = std::size_t{64} << 20U;
  geometry.block_bytes = target.block_size;
  geometry.start = target.start;
  geometry.block_start = target.partial_block ? target.partial_block->offset : target.start;
  return geometry;
}

// A machine, and what it has asked for and not been answered.
class Run {
 public:
  explicit Run(std::uint8_t choice)
      : machine_(target_of(choice), settings_of(choice)),
        packetizer_(geometry_of(machine_.target()), pool_),
        acknowledged_(machine_.target().start) {}

  void step(Input& input) {
    switch (input.byte() % 12) {
      case 0:
        return put(std::size_t{16} * input.byte());
      case 1:
        return flush(Level::kVisible);
      case 2:
        return flush(Level::kDurable);
      case 3:
        return finish();
      case 4:
        return name_node_answers(Answer(input));
      case 5:
        return located(input.message());
      case 6:
        machine_.connected(connection(input), now_);
        return;
      case 7: {
        const ConnectionNumber on = connection(input);
        return replied(on, input.message());
      }
      case 8: {
        const ConnectionNumber on = connection(input);
        return acked(on, input.message());
      }
      case 9:
        return lost(connection(input), Status(StatusCode::kEndOfFile, "closed"));
      case 10:
        return pass_time(input.byte());
      default:
        return send(connection(input));
    }
  }

  // What has just happened kept every promise.
  void check() {
    for (Action& action : actions_) {
      require(!over_);
      std::visit([this](auto& of) { asked(of); }, action);
    }
    actions_.clear();
    require(machine_.acknowledged_offset() >= acknowledged_);
    acknowledged_ = machine_.acknowledged_offset();
    require(acknowledged_ <= packetizer_.position());
    require(over_ == (machine_.state() >= FileWriter::State::kDone));
    if (over_) require(open_.empty() && !asking_);
  }

 private:
  using Call = std::variant<std::monostate, action::AddBlock, action::AbandonBlock,
                            action::UpdateBlockForPipeline, action::UpdatePipeline,
                            action::GetAdditionalDatanode, action::Fsync, action::Complete>;

  // --- the stream

  void put(std::size_t size) {
    if (finishing_) return;
    std::vector<stream::Packet> sealed;
    packetizer_.append(std::vector<std::byte>(size), sealed);
    packetizer_.cut(Cut::kWholeChunks, sealed);
    machine_.put(sealed, now_, actions_);
  }
  void flush(Level level) {
    if (finishing_) return;
    std::vector<stream::Packet> sealed;
    packetizer_.cut(Cut::kEverything, sealed);
    machine_.sync(level, sealed, now_, actions_);
  }
  void finish() {
    if (std::exchange(finishing_, true)) return;
    std::vector<stream::Packet> sealed;
    packetizer_.cut(Cut::kFinal, sealed);
    machine_.put(sealed, now_, actions_);
    machine_.finish(now_, actions_);
  }

  // --- the NameNode

  static Status refusal(std::uint8_t which) {
    constexpr auto kClasses = std::to_array<std::string_view>(
        {"java.io.IOException", "org.apache.hadoop.hdfs.server.namenode.NotReplicatedYetException",
         "org.apache.hadoop.hdfs.protocol.DSQuotaExceededException",
         "org.apache.hadoop.hdfs.server.namenode.LeaseExpiredException"});
    const std::size_t index = which % kClasses.size();
    const bool has_lost_lease = index + 1 == kClasses.size();
    return Status(has_lost_lease ? StatusCode::kLeaseLost : StatusCode::kIo, "refused", "/f")
        .with_remote_class(std::string(kClasses[index]));
  }

  // A refusal, or else a message.
  struct Answer {
    explicit Answer(Input& input) : refused(input.byte()) {
      if (refused == 0) message = input.message();
    }
    template <Request T>
    Result<typename T::Response> as() const {
      if (refused != 0) return refusal(refused);
      return T::decode(message);
    }
    std::uint8_t refused;
    ByteView message;
  };

  void name_node_answers(const Answer& answer) {
    const Call call = std::exchange(call_, {});
    if (std::holds_alternative<action::AddBlock>(call)) {
      machine_.allocated(answer.as<AddBlock>(), now_, actions_);
    } else if (std::holds_alternative<action::AbandonBlock>(call)) {
      machine_.block_abandoned(answer.as<AbandonBlock>().status(), now_, actions_);
    } else if (std::holds_alternative<action::UpdateBlockForPipeline>(call)) {
      machine_.reserved(answer.as<UpdateBlockForPipeline>(), now_, actions_);
    } else if (std::holds_alternative<action::UpdatePipeline>(call)) {
      machine_.registered(answer.as<UpdatePipeline>().status(), now_, actions_);
    } else if (std::holds_alternative<action::GetAdditionalDatanode>(call)) {
      machine_.found(answer.as<GetAdditionalDatanode>(), now_, actions_);
    } else if (std::holds_alternative<action::Fsync>(call)) {
      machine_.fsynced(answer.as<Fsync>().status(), now_, actions_);
    } else if (std::holds_alternative<action::Complete>(call)) {
      machine_.completed(answer.as<Complete>(), now_, actions_);
    }
  }

  // Or a DataNode that was asked.
  void located(ByteView body) {
    if (!std::exchange(locating_, false)) return replica_answered(body);
    Result<std::optional<LocatedBlocks>> blocks = GetBlockLocations::decode(body);
    if (blocks.ok() && *blocks) {
      machine_.located(**blocks, now_, actions_);
    } else {
      machine_.located(refusal(0), now_, actions_);
    }
  }

  void replica_answered(ByteView body) {
    Input of(body);
    const std::size_t node = of.byte();
    const std::int64_t length = 16 * std::int64_t{of.byte()};
    machine_.replica_answered(question_, node,
                              node >= 0x80 ? Result<std::int64_t>(refusal(0)) : length);
  }

  // --- connections

  // Mostly one that is open, the newest or another; else any.
  ConnectionNumber connection(Input& input) const {
    const std::uint8_t which = input.byte();
    if (open_.empty() || which >= 0x80) return which & 0x7FU;
    return open_[open_.size() - 1 - which % open_.size()];
  }
  // As DataNodeLink does with what is no message.
  void replied(ConnectionNumber connection, ByteView bytes) {
    const Result<std::size_t> size = delimited_size(bytes, kMaxMessage);
    if (!size.ok() || *size == 0) return lost(connection, size.status());
    const Result<OperationReply> reply = decode_operation_reply(bytes.first(*size));
    if (!reply.ok()) return lost(connection, reply.status());
    machine_.replied(connection, *reply, now_, actions_);
  }
  void acked(ConnectionNumber connection, ByteView bytes) {
    const Result<std::size_t> size = delimited_size(bytes, kMaxMessage);
    if (!size.ok() || *size == 0) return lost(connection, size.status());
    const Result<PipelineAck> ack = decode_pipeline_ack(bytes.first(*size));
    if (!ack.ok()) return lost(connection, ack.status());
    machine_.acked(connection, *ack, now_, actions_);
  }
  void lost(ConnectionNumber connection, Status why) {
    if (why.ok()) why = Status(StatusCode::kEndOfFile, "closed inside a message");
    machine_.connection_lost(connection, why, now_, actions_);
  }
  void send(ConnectionNumber connection) {
    std::array<ByteView, 8> pieces;
    while (const std::size_t count = machine_.output(connection, pieces)) {
      require(count <= pieces.size());
      std::size_t bytes = 0;
      for (std::size_t i = 0; i < count; ++i) bytes += pieces[i].size();
      require(bytes > 0);
      machine_.sent(connection, bytes, now_);
    }
  }

  void pass_time(std::uint8_t seconds) {
    now_ += std::chrono::seconds(4 * seconds);
    machine_.tick(now_, actions_);
    const std::optional<env::TimePoint> deadline = machine_.deadline();
    require(!deadline || *deadline > now_);  // or the timer would fire for ever
  }

  // --- what the machine asks for

  template <typename T>
  void asked(const T& of) {
    if constexpr (std::is_constructible_v<Call, const T&>) {
      require(std::holds_alternative<std::monostate>(call_));  // one at a time
      call_ = of;
    } else if constexpr (std::is_same_v<T, action::GetBlockLocations>) {
      require(!std::exchange(locating_, true));
    } else if constexpr (std::is_same_v<T, action::AskReplicas>) {
      require(std::exchange(question_, of.question) < of.question && !of.nodes.empty());
      asking_ = true;
    } else if constexpr (std::is_same_v<T, action::DropQuestions>) {
      require(std::exchange(asking_, false));
    } else if constexpr (std::is_same_v<T, action::Connect>) {
      require(open_.size() < 2 && std::ranges::find(open_, of.connection) == open_.end());
      open_.push_back(of.connection);
    } else if constexpr (std::is_same_v<T, action::Disconnect>) {
      require(std::erase(open_, of.connection) == 1);
    } else if constexpr (std::is_same_v<T, action::Acknowledged>) {
      require(of.offset <= packetizer_.position());
    } else if constexpr (std::is_same_v<T, action::Reached>) {
      require(of.offset <= packetizer_.position());
      require(of.level == Level::kHandedOver || of.offset <= machine_.acknowledged_offset());
    } else if constexpr (std::is_same_v<T, action::NotReached>) {
      require(!of.why.ok());
    } else if constexpr (std::is_same_v<T, action::Finished>) {
      require(finishing_ && machine_.acknowledged_offset() == packetizer_.position());
      over_ = true;
    } else if constexpr (std::is_same_v<T, action::Failed>) {
      require(!of.failure.ok());
      over_ = true;
    }
  }

  BufferPool pool_{0};
  FileWriter machine_;
  stream::Packetizer packetizer_;
  env::TimePoint now_ = env::TimePoint(std::chrono::hours(1));
  Actions actions_;

  Call call_;  // under way
  bool locating_ = false;
  QuestionNumber question_ = 0;  // the last one
  bool asking_ = false;
  std::vector<ConnectionNumber> open_;
  std::uint64_t acknowledged_;
  bool finishing_ = false;
  bool over_ = false;  // Finished or Failed
};

}  // namespace

void file_writer(ByteView input) {
  Input bytes(input);
  Run run(bytes.byte());
  while (!bytes.empty()) {
    run.step(bytes);
    run.check();
  }
}

}  // namespace hflush::fuzz
