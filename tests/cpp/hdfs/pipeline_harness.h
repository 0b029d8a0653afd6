// A WritePipeline under test: a hand-moved clock, the packets of a real packetizer, and what the
// machine asked for.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "hflush/base/buffer_pool.h"
#include "hflush/hdfs/write/write_pipeline.h"
#include "hflush/stream/packetizer.h"
#include "testing/bytes.h"

namespace hflush::hdfs::testing {

inline Replica replica(int number) {
  Replica replica;
  replica.node.ip = "10.0.0." + std::to_string(number);
  replica.node.host = "dn" + std::to_string(number);
  replica.node.uuid = "uuid-" + std::to_string(number);
  replica.node.transfer_port = 9866;
  replica.storage_id = "DS-" + std::to_string(number);
  return replica;
}

inline LocatedBlock located(std::uint64_t id, std::uint64_t stamp, int replicas) {
  LocatedBlock block;
  block.block = {"BP-1", id, stamp, 0};
  for (int i = 1; i <= replicas; ++i) block.replicas.push_back(replica(i));
  return block;
}

inline WriteTarget small_target() {
  WriteTarget target;
  target.path = "/f";
  target.file_id = 7;
  target.client_name = "C1";
  target.block_size = 4096;
  target.bytes_per_checksum = 512;
  return target;
}

inline stream::Geometry geometry_of(const WriteTarget& target) {
  stream::Geometry geometry;
  geometry.checksum = target.checksum;
  geometry.bytes_per_checksum = target.bytes_per_checksum;
  geometry.packet_bytes = 2 * target.bytes_per_checksum;
  geometry.batch_bytes = geometry.packet_bytes;
  geometry.window_bytes = 64U << 20U;
  geometry.block_bytes = target.block_size;
  geometry.start = target.start;
  geometry.block_start = target.partial_block ? target.partial_block->offset : target.start;
  return geometry;
}

inline Status remote(std::string class_name, StatusCode code = StatusCode::kIo) {
  return Status(code, "refused", "/f").with_remote_class(std::move(class_name));
}

class Harness {
 public:
  explicit Harness(WriteTarget target = small_target(), WriteSettings settings = {})
      : machine(target, settings), packetizer(geometry_of(target), pool) {}

  // Appends bytes of the pattern, continued.
  std::vector<stream::Packet> packets(std::size_t bytes, stream::Cut cut) {
    std::vector<stream::Packet> sealed;
    const auto data = hflush::testing::pattern(written + bytes);
    packetizer.append(ByteView(data).subspan(written), sealed);
    written += bytes;
    packetizer.cut(cut, sealed);
    return sealed;
  }
  void write(std::size_t bytes, stream::Cut cut = stream::Cut::kFinal) {
    std::vector<stream::Packet> sealed = packets(bytes, cut);
    machine.put(sealed, now, actions);
  }
  void flush(stream::Level level, std::size_t bytes = 0) {
    std::vector<stream::Packet> sealed = packets(bytes, stream::Cut::kEverything);
    machine.sync(level, sealed, now, actions);
  }

  // The first action of this kind, taken out of the list.
  template <typename T>
  std::optional<T> take() {
    for (auto at = actions.begin(); at != actions.end(); ++at) {
      if (T* found = std::get_if<T>(&*at)) {
        T taken = std::move(*found);
        actions.erase(at);
        return taken;
      }
    }
    return std::nullopt;
  }
  template <typename T>
  bool has() const {
    for (const Action& action : actions) {
      if (std::holds_alternative<T>(action)) return true;
    }
    return false;
  }

  // All that the connection has to send, gone out.
  std::string send_all(ConnectionNumber connection) {
    std::string sent;
    std::vector<ByteView> pieces(100);
    while (const std::size_t count = machine.output(connection, pieces)) {
      std::size_t bytes = 0;
      for (std::size_t i = 0; i < count; ++i) {
        sent += as_text(pieces[i]);
        bytes += pieces[i].size();
      }
      machine.sent(connection, bytes, now);
    }
    return sent;
  }
  std::string send_all() { return send_all(machine.pipeline_connection()); }

  // From kAllocating to a standing pipeline whose packets are sent.
  void build(LocatedBlock block) {
    machine.allocated(std::move(block), now, actions);
    machine.connected(machine.pipeline_connection(), now);
    static_cast<void>(send_all());
    machine.replied(machine.pipeline_connection(), {}, now, actions);
    static_cast<void>(send_all());
  }
  void ack(std::int64_t sequence_number, int replicas = 3) {
    PipelineAck ack;
    ack.sequence_number = sequence_number;
    for (int i = 0; i < replicas; ++i) ack.replies.push_back(TransferStatus::kSuccess);
    machine.acked(machine.pipeline_connection(), ack, now, actions);
    static_cast<void>(send_all());
  }

  // The NameNode's answer to where a block is that it was asked for.
  void locate(LocatedBlock block) {
    LocatedBlocks answer;
    answer.blocks.push_back(std::move(block));
    machine.located(answer, now, actions);
  }
  // A replica of a finished block is opened, and its DataNode does as told.
  void sync_replica(TransferStatus status = TransferStatus::kSuccess) {
    const ConnectionNumber connection = machine.sync_connection();
    machine.connected(connection, now);
    static_cast<void>(send_all(connection));
    machine.replied(connection, {}, now, actions);
    machine.acked(connection, {0, {status}}, now, actions);
  }

  BufferPool pool{0};
  WritePipeline machine;
  stream::Packetizer packetizer;
  env::TimePoint now = env::TimePoint(std::chrono::hours(1));
  Actions actions;
  std::size_t written = 0;
};

}  // namespace hflush::hdfs::testing
