// A FileWriter under test, with its BlockWriter and Promises: a hand-moved clock, the packets of a
// real packetizer, and what the machine asked for.
#pragma once

#include <doctest/doctest.h>

#include <cerrno>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "hflush/base/buffer_pool.h"
#include "hflush/hdfs/write/file_writer.h"
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
  replica.node.encoded = replica.node.encoded_id = replica.node.ip;  // a server keeps it as it is
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
  target.replication = 3;
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

inline const Status kRefused = remote("java.io.IOException");
inline const Status kNoDescriptor = Status::from_errno(EMFILE, "connect to 10.0.0.1:9866", {});
inline const Status kLeaseGone =
    remote("org.apache.hadoop.hdfs.server.namenode.LeaseExpiredException", StatusCode::kLeaseLost);
inline const Status kNotReplicated =
    remote("org.apache.hadoop.hdfs.server.namenode.NotReplicatedYetException");
inline const Status kNoNode =
    Status(StatusCode::kIo, "File /f could only be written to 0 of the 1 minReplication nodes.",
           "/f")
        .with_remote_class("java.io.IOException");
inline const Status kOverQuota = remote("org.apache.hadoop.hdfs.protocol.DSQuotaExceededException");

inline WriteTarget append_target() {
  WriteTarget target = small_target();
  target.start = 100;
  target.partial_block = located(5, 50, 3);
  target.partial_block->block.length = 100;
  return target;
}

inline std::string hex(std::string_view bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  for (const char byte : bytes) {
    text += kDigits[static_cast<unsigned char>(byte) >> 4U];
    text += kDigits[static_cast<unsigned char>(byte) & 15U];
  }
  return text;
}

inline std::string unhex(std::string_view text) {
  std::string bytes;
  std::string digits;
  for (const char digit : text) {
    if (digit != ' ') digits += digit;
  }
  for (std::size_t i = 0; i < digits.size(); i += 2) {
    bytes += static_cast<char>(std::stoi(digits.substr(i, 2), nullptr, 16));
  }
  return bytes;
}

// The first action of this kind, taken out of the list.
template <typename T>
std::optional<T> take_from(Actions& actions) {
  for (auto at = actions.begin(); at != actions.end(); ++at) {
    if (T* found = std::get_if<T>(&*at)) {
      T taken = std::move(*found);
      actions.erase(at);
      return taken;
    }
  }
  return std::nullopt;
}

// Of the packet that these bytes begin with.
inline PacketHeader first_header(std::string_view bytes) {
  const auto decoded = decode_packet_header(as_bytes(bytes));
  REQUIRE(decoded.ok());
  REQUIRE(*decoded);
  return (*decoded)->header;
}

// As Hadoop: DataNodes are not asked why they are silent.
inline WriteSettings patient() {
  WriteSettings settings;
  settings.silence_probe = {};
  return settings;
}

class Harness {
 public:
  explicit Harness(WriteTarget target = small_target(), WriteSettings settings = patient())
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
  void write_up_to(std::size_t total) {
    if (written < total) write(total - written);
  }
  void flush(stream::Level level, std::size_t bytes = 0) {
    const bool ends_block = level == stream::Level::kBlockEnded;
    std::vector<stream::Packet> sealed =
        packets(bytes, ends_block ? stream::Cut::kBlock : stream::Cut::kEverything);
    machine.sync(level, sealed, now, actions);
  }

  // The connections that are open or being opened; 0: none.
  ConnectionNumber pipeline() const {
    const BlockWriter* const block = machine.block();
    const bool has_connection =
        block != nullptr && block->state() != BlockWriter::State::kReserving;
    return has_connection ? block->number() : 0;
  }
  ConnectionNumber sync_connection() const { return machine.promises().connection().value_or(0); }
  // Whether a block is being written, and is in that state.
  bool block_is(BlockWriter::State state) const {
    const BlockWriter* const block = machine.block();
    return block != nullptr && block->state() == state;
  }

  template <typename T>
  std::optional<T> take() {
    return take_from<T>(actions);
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
  std::string send_all() { return send_all(pipeline()); }

  // From kAllocating to a standing pipeline whose packets are sent.
  void build(LocatedBlock block) {
    machine.allocated(std::move(block), now, actions);
    static_cast<void>(set_up());
  }
  // A pipeline that connects and replies well; what it is sent then.
  std::string set_up() {
    machine.connected(pipeline(), now);
    static_cast<void>(send_all());
    machine.replied(pipeline(), {}, now, actions);
    return send_all();
  }
  // The same of an append's block, which its nodes sync; and that the NameNode knows then.
  std::string set_up_append(int nodes = 3) {
    const PacketHeader sync = first_header(set_up());
    CHECK(sync.sync_block);
    CHECK(sync.data_size == 0);
    CHECK_FALSE(take<action::UpdatePipeline>());
    ack(0, nodes);
    CHECK(send_all().empty());  // not before the NameNode knows
    CHECK(take<action::UpdatePipeline>());
    machine.registered({}, now, actions);
    return send_all();
  }
  // A block is open, so many bytes of it are visible to all, and nothing is under way.
  void open_block(std::size_t bytes, LocatedBlock block) {
    flush(stream::Level::kVisible, bytes);
    build(std::move(block));
    ack(0);
    machine.fsynced({}, now, actions);
    actions.clear();
  }
  void ack(std::int64_t sequence_number, int replicas = 3) {
    PipelineAck ack;
    ack.sequence_number = sequence_number;
    for (int i = 0; i < replicas; ++i) ack.replies.push_back(TransferStatus::kSuccess);
    machine.acked(pipeline(), ack, now, actions);
    static_cast<void>(send_all());
  }

  // All packets of a file's first block.
  void ack_block() {
    std::int64_t number = 0;
    do {
      ack(number++);
    } while (machine.block() != nullptr && number < 10);
  }

  // The NameNode's answer to where a block is that it was asked for.
  void locate(LocatedBlock block) {
    LocatedBlocks answer;
    answer.blocks.push_back(std::move(block));
    machine.located(answer, now, actions);
  }
  // A replica of a finished block is opened, and its DataNode does as told.
  void sync_replica(TransferStatus status = TransferStatus::kSuccess) {
    const ConnectionNumber connection = sync_connection();
    machine.connected(connection, now);
    static_cast<void>(send_all(connection));
    machine.replied(connection, {}, now, actions);
    machine.acked(connection, {0, {status}}, now, actions);
  }

  BufferPool pool{0};
  FileWriter machine;
  stream::Packetizer packetizer;
  env::TimePoint now = env::TimePoint(std::chrono::hours(1));
  Actions actions;
  std::size_t written = 0;
};

// The states of a file and of the block that it writes. "again": of a block that exists.
inline const std::vector<std::string> kStates = {"idle",
                                                 "idle, append",
                                                 "allocating",
                                                 "allocate delay",
                                                 "reserving",
                                                 "connecting, new",
                                                 "connecting, again",
                                                 "setting up, new",
                                                 "setting up, again",
                                                 "syncing",
                                                 "registering",
                                                 "streaming",
                                                 "draining",
                                                 "ending",
                                                 "recovering",
                                                 "abandoning",
                                                 "completing",
                                                 "complete delay",
                                                 "checking",
                                                 "done",
                                                 "failed",
                                                 "abandoned"};

// A file on its way, with 1,000 bytes in one packet where a block is written, brought to `state`.
inline std::unique_ptr<Harness> in_state(const std::string& state) {
  const bool append = state.ends_with("append") || state.ends_with("again") ||
                      state == "reserving" || state == "syncing" || state == "registering";
  WriteSettings settings;
  if (state == "recovering") settings.replacement_policy = ReplacementPolicy::kAlways;
  auto h = std::make_unique<Harness>(append ? append_target() : small_target(), settings);
  const auto set_up_until = [&](std::string_view last) {
    if (last.starts_with("connecting")) return;
    h->machine.connected(h->pipeline(), h->now);
    static_cast<void>(h->send_all());
    if (last.starts_with("setting up")) return;
    h->machine.replied(h->pipeline(), {}, h->now, h->actions);
    static_cast<void>(h->send_all());
    if (append && last != "syncing") h->ack(0);
  };
  if (state == "completing" || state == "complete delay" || state == "checking" ||
      state == "done") {
    h->machine.finish(h->now, h->actions);
    if (state == "checking") {
      h->machine.completed(kLeaseGone, h->now, h->actions);
    } else if (state != "completing") {
      h->machine.completed(state == "done", h->now, h->actions);
    }
  } else if (!state.starts_with("idle")) {
    h->write(1000);
  }
  if (append && !state.starts_with("idle") && state != "reserving") {
    h->machine.reserved(located(5, 51, 0), h->now, h->actions);
    set_up_until(state);
  } else if (state == "allocate delay" || state == "failed") {
    h->machine.allocated(state == "failed" ? kRefused : kNotReplicated, h->now, h->actions);
  } else if (state == "abandoned") {
    h->machine.abandon(h->now, h->actions);
  } else if (state == "abandoning") {
    h->machine.allocated(located(1, 10, 3), h->now, h->actions);
    h->machine.connection_lost(h->pipeline(), kRefused, h->now, h->actions);
  } else if (h->machine.state() == FileWriter::State::kAllocating && state != "allocating") {
    h->machine.allocated(located(1, 10, 3), h->now, h->actions);
    set_up_until(state);
    if (state == "draining" || state == "ending") h->machine.finish(h->now, h->actions);
    if (state == "ending" || state == "recovering") h->ack(0);
    if (state == "recovering") {  // getAdditionalDatanode asked
      h->write(24);
      h->machine.connection_lost(h->pipeline(), kRefused, h->now, h->actions);
    }
  }
  h->actions.clear();
  const BlockWriter* const block = h->machine.block();
  const std::string_view reached =
      block == nullptr ? to_string(h->machine.state()) : to_string(block->state());
  REQUIRE(state.starts_with(reached));
  return h;
}

inline bool is_over(const Harness& h) { return h.machine.state() >= FileWriter::State::kDone; }

}  // namespace hflush::hdfs::testing
