// The writer of a file against a simulated NameNode and simulated DataNodes, in random schedules:
// answers late, sends split anywhere, acks in bunches, nodes that refuse or die. The servers check
// what real ones would only mind later. HFLUSH_SIMULATION_SEEDS: how many schedules of each kind.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>

#include "hdfs/write_harness.h"
#include "hflush/crc/checksum.h"
#include "hflush/hdfs/wire/wire.h"

namespace hflush::hdfs {
namespace {

using namespace std::chrono_literals;  // NOLINT(google-build-using-namespace)
using stream::Cut;
using stream::Level;

// A replica on its DataNode, as FsDatasetImpl has it.
struct Stored {
  std::vector<std::byte> content;
  std::uint64_t stamp = 0;
  std::uint64_t acked = 0;   // what a recovery cuts it to
  std::uint64_t synced = 0;  // what a power failure leaves
  std::uint64_t synced_stamp = 0;
  bool finalized = false;

  void sync() {
    synced = content.size();
    synced_stamp = stamp;
  }
};

struct StoredBlock {
  ExtendedBlock block;  // length: what the NameNode was told last
  std::uint64_t start = 0;
  std::uint64_t first_byte = 0;            // that this stream may write: an append's length
  std::map<std::string, Stored> replicas;  // by IP address, those that left the pipeline too
  std::vector<std::string> pipeline;       // as the NameNode was told last
  bool committed = false;

  // The one of them that has most: all have what is acknowledged.
  std::uint64_t size() const {
    std::uint64_t most = first_byte;
    for (const std::string& node : pipeline) {
      const auto found = replicas.find(node);
      if (found != replicas.end()) {
        most = std::max<std::uint64_t>(most, found->second.content.size());
      }
    }
    return most;
  }
  bool is_finalized() const {
    return !pipeline.empty() && std::ranges::all_of(pipeline, [this](const std::string& node) {
      return replicas.at(node).finalized;
    });
  }
};

// WRITE_BLOCK, or TRANSFER_BLOCK: what a DataNode looks at.
struct Operation {
  bool transfers = false;
  std::uint64_t stamp = 0;
  std::vector<std::string> targets;
  WriteStage stage = WriteStage::kSetupCreate;
  std::uint32_t nodes = 0;
  std::uint64_t min_bytes = 0;
  std::uint64_t max_bytes = 0;
  std::uint64_t latest_stamp = 0;
};

std::uint64_t stamp_in(wire::Reader header) {
  std::uint64_t stamp = 0;
  while (header.next()) {
    if (header.field() != 1) {
      header.skip();
      continue;
    }
    wire::Reader base = header.message("BaseHeaderProto");
    while (base.next()) {
      if (base.field() != 1) {
        base.skip();
        continue;
      }
      wire::Reader block = base.message("ExtendedBlockProto");
      while (block.next()) {
        if (block.field() == 3) {
          stamp = block.uint64();
        } else {
          block.skip();
        }
      }
    }
  }
  return stamp;
}

Operation read_operation(wire::Reader from) {
  Operation operation;
  while (from.next()) {
    switch (from.field()) {
      case 1:
        operation.stamp = stamp_in(from.message("ClientOperationHeaderProto"));
        break;
      case 2:
        operation.targets.push_back(from.text());
        break;
      case 4:
        operation.stage = static_cast<WriteStage>(from.uint64());
        break;
      case 5:
        operation.nodes = from.uint32();
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
      default:
        from.skip();
    }
  }
  return operation;
}

Operation read_transfer(wire::Reader from) {
  Operation operation;
  operation.transfers = true;
  while (from.next()) {
    if (from.field() == 1) {
      operation.stamp = stamp_in(from.message("ClientOperationHeaderProto"));
    } else if (from.field() == 2) {
      operation.targets.push_back(from.text());
    } else {
      from.skip();
    }
  }
  return operation;
}

// Splits what a connection sends into the operation and the packets behind it.
class Receiver {
 public:
  void take(ByteView bytes) { bytes_.append(as_text(bytes)); }

  // The operation, once it has arrived.
  const std::optional<Operation>& operation() {
    if (operation_ || bytes_.size() < 4) return operation_;
    REQUIRE(bytes_.starts_with(std::string("\x00\x1c", 2)));
    const Result<std::size_t> size = delimited_size(as_bytes(bytes_).subspan(3), 1U << 20U);
    REQUIRE(size.ok());
    if (*size == 0 || bytes_.size() < 3 + *size) return operation_;
    const std::size_t length =
        (std::to_integer<unsigned>(as_bytes(bytes_)[3]) & 0x80U) == 0 ? 1 : 2;
    const ByteView message = as_bytes(bytes_).subspan(3 + length, *size - length);
    const bool transfers = bytes_[2] == '\x56';
    REQUIRE((transfers || bytes_[2] == '\x50'));
    const Result<Operation> read = wire::read_whole<Operation>(
        "operation", "Op", message, transfers ? &read_transfer : &read_operation);
    REQUIRE(read.ok());
    operation_ = *read;
    bytes_.erase(0, 3 + *size);
    return operation_;
  }

  struct Received {
    PacketHeader header;
    std::string sums;
    std::string data;
  };
  std::optional<Received> next_packet() {
    const auto header = decode_packet_header(as_bytes(bytes_));
    REQUIRE(header.ok());
    if (!*header) return std::nullopt;
    const PacketHeader& found = (*header)->header;
    const std::size_t total = (*header)->size + found.sums_size + found.data_size;
    if (bytes_.size() < total) return std::nullopt;
    Received packet{found, bytes_.substr((*header)->size, found.sums_size),
                    bytes_.substr((*header)->size + found.sums_size, found.data_size)};
    bytes_.erase(0, total);
    return packet;
  }

 private:
  std::string bytes_;
  std::optional<Operation> operation_;
};

struct Faults {
  int refuse_one_set_up_in = 0;  // 0: never
  int break_one_packet_in = 0;   // a node dies, or its connection, or it restarts
  bool best_effort = false;      // a stream goes on where no other DataNode is found
  bool not_yet = false;          // NotReplicatedYet and complete() = false, now and then
};

constexpr int kDataNodes = 8;

class Simulation {
 public:
  Simulation(unsigned seed, WriteTarget target, Faults faults)
      : random_(seed),
        target_(target),
        faults_(faults),
        replicas_(1 + static_cast<int>(below(3))),
        h_(target, settings(faults, seed)) {
    if (target.partial_block) {
      StoredBlock& first = blocks_.emplace_back();
      first.block = target.partial_block->block;
      first.start = target.partial_block->offset;
      first.first_byte = first.block.length;
      for (const Replica& replica : target.partial_block->replicas) {
        Stored& stored = first.replicas[replica.node.ip];
        stored.content.resize(first.block.length);  // another writer's bytes
        stored.stamp = first.block.generation_stamp;
        stored.acked = stored.synced = first.block.length;
        stored.finalized = true;
        first.pipeline.push_back(replica.node.ip);
      }
    }
  }

  void run(std::size_t total) {
    std::size_t steps = 0;
    while (!over_) {
      REQUIRE(++steps < 200000);
      step(total);
      if (h_.machine.state() == FileWriter::State::kFailed) REQUIRE(over_);
    }
    if (!failed_) check_file(total);
  }

  bool failed() const { return failed_; }
  const WriteCounters& counters() const { return h_.machine.counters(); }

 private:
  struct Connection {
    Receiver receiver;
    StoredBlock* block = nullptr;
    std::string node;  // that is connected to
    std::vector<std::string> pipeline;
    bool syncs_finished = false;
    bool answered = false;
    bool dead = false;
    std::int64_t next_sequence_number = 0;
    int acks_under_way = 0;
    std::deque<std::function<void()>> to_client;  // in order
  };

  static WriteSettings settings(const Faults& faults, unsigned seed) {
    WriteSettings settings = testing::patient();
    settings.max_packets_in_flight = 6;
    settings.replacement_best_effort = faults.best_effort;
    if (seed % 3 == 0) settings.replacement_policy = ReplacementPolicy::kAlways;
    if (seed % 5 == 0) settings.replacement_policy = ReplacementPolicy::kNever;
    // A stream that has bad luck is no failure of the client.
    if (faults.break_one_packet_in > 0) settings.pipeline_recovery_retries = 10000;
    return settings;
  }

  unsigned below(unsigned bound) {
    return std::uniform_int_distribution<unsigned>(0, bound - 1)(random_);
  }
  bool one_in(int count) { return count > 0 && below(static_cast<unsigned>(count)) == 0; }

  void step(std::size_t total) {
    switch (below(6)) {
      case 0:
        use(total);
        break;
      case 1:
        if (std::function<void()>& due = below(2) == 0 ? answer_ : location_) {
          const std::function<void()> answer = std::exchange(due, nullptr);
          answer();
        }
        break;
      case 2:
        send(h_.pipeline());
        send(copying());
        send(h_.sync_connection());
        break;
      case 3:
      case 4:
        receive();
        break;
      default:
        pass_time();
    }
    perform();
  }

  // What the stream does: it writes, cuts and flushes as it likes, and closes at the end.
  void use(std::size_t total) {
    if (finished_asked_) return;
    const std::size_t left = total - h_.written;
    if (left == 0) {
      finished_asked_ = true;
      h_.machine.finish(h_.now, h_.actions);
      return;
    }
    const std::size_t count = std::min<std::size_t>(left, 1 + below(below(4) == 0 ? 4000 : 300));
    const bool ends_block = below(10) == 0;
    const Cut cut = ends_block      ? Cut::kBlock
                    : count == left ? Cut::kFinal
                    : below(2) == 0 ? Cut::kEverything
                                    : Cut::kWholeChunks;
    std::vector<stream::Packet> sealed = h_.packets(count, cut);
    if (ends_block) {
      ends_.insert(target_.start + h_.written);
      return h_.machine.sync(Level::kBlockEnded, sealed, h_.now, h_.actions);
    }
    const unsigned what = cut == Cut::kWholeChunks ? below(2) : below(5);
    if (what == 0) {
      h_.machine.put(sealed, h_.now, h_.actions);
    } else {
      const Level level = what == 1   ? Level::kHandedOver
                          : what == 2 ? Level::kDurable
                                      : Level::kVisible;
      h_.machine.sync(level, sealed, h_.now, h_.actions);
    }
  }

  // The connection that copies a block to another DataNode.
  ConnectionNumber copying() const {
    const BlockRecovery* const recovery = h_.machine.recovery();
    return recovery == nullptr ? 0 : recovery->connection().value_or(0);
  }

  void pass_time() {
    const std::optional<env::TimePoint> deadline = h_.machine.deadline();
    if (deadline && below(3) == 0) {
      // To what is due, unless the servers owe something: they are not that slow.
      const bool servers_are_at_work =
          answer_ || location_ || std::ranges::any_of(connections_, [](const auto& connection) {
            return !connection.second.to_client.empty();
          });
      std::vector<ByteView> pieces(1);
      const bool client_is = h_.machine.output(h_.pipeline(), pieces) > 0 ||
                             h_.machine.output(copying(), pieces) > 0 ||
                             h_.machine.output(h_.sync_connection(), pieces) > 0;
      h_.now = servers_are_at_work || client_is ? h_.now + 1ms : std::max(h_.now, *deadline);
    } else {
      h_.now += std::chrono::microseconds(below(500));
    }
    h_.machine.tick(h_.now, h_.actions);
  }

  void send(ConnectionNumber number) {
    const auto found = connections_.find(number);
    if (found == connections_.end()) return;
    std::vector<ByteView> pieces(1 + below(4));
    const std::size_t count = h_.machine.output(number, pieces);
    std::size_t budget = below(3) == 0 ? 1 + below(40) : 100000;
    std::size_t sent = 0;
    for (std::size_t i = 0; i < count && budget > 0; ++i) {
      const ByteView part = pieces[i].first(std::min(budget, pieces[i].size()));
      found->second.receiver.take(part);
      budget -= part.size();
      sent += part.size();
    }
    h_.machine.sent(number, sent, h_.now);
    serve(number, found->second);
  }

  void receive() {
    for (auto& [number, connection] : connections_) {
      for (unsigned i = 1 + below(4); i > 0 && !connection.to_client.empty(); --i) {
        const std::function<void()> event = std::move(connection.to_client.front());
        connection.to_client.pop_front();
        event();
      }
    }
  }

  // --- DataNodes

  static std::string address_of(const std::string& ip) { return ip + ":9866"; }
  bool is_dead(const std::string& node) const { return dead_.contains(node); }
  std::size_t alive() const { return kDataNodes - dead_.size(); }

  void lose(ConnectionNumber number, Connection& connection) {
    connection.dead = true;
    connection.to_client.push_back([this, number] {
      h_.machine.connection_lost(number, Status(StatusCode::kIo, "end of stream"), h_.now,
                                 h_.actions);
    });
  }
  void answer(ConnectionNumber number, Connection& connection, OperationReply reply) {
    connection.to_client.push_back([this, number, reply = std::move(reply)] {
      h_.machine.replied(number, reply, h_.now, h_.actions);
    });
  }
  void complain(ConnectionNumber number, Connection& connection, std::size_t node,
                TransferStatus status) {
    connection.dead = true;
    PipelineAck ack;
    ack.sequence_number = -2;
    for (std::size_t i = 0; i < node; ++i) ack.replies.push_back(TransferStatus::kSuccess);
    ack.replies.push_back(status);
    connection.to_client.push_back(
        [this, number, ack] { h_.machine.acked(number, ack, h_.now, h_.actions); });
  }

  void serve(ConnectionNumber number, Connection& connection) {
    if (connection.dead) return;
    const std::optional<Operation>& operation = connection.receiver.operation();
    if (!operation) return;
    if (!std::exchange(connection.answered, true)) {
      if (operation->transfers) {
        transfer(number, connection, *operation);
      } else if (connection.syncs_finished) {
        answer(number, connection, {});
      } else {
        set_up(number, connection, *operation);
      }
      if (connection.dead) return;
    }
    while (const auto packet = connection.receiver.next_packet()) {
      if (connection.syncs_finished) {
        if (one_in(faults_.break_one_packet_in)) return lose(number, connection);
        sync_finished(number, connection, *packet);
      } else {
        store(number, connection, *packet);
      }
      if (connection.dead) return;
    }
  }

  // What a DataNode that has accepted the operation has.
  bool accepts(const std::string& node, StoredBlock& block, const Operation& operation) {
    const auto found = block.replicas.find(node);
    if (operation.stage == WriteStage::kSetupCreate) {
      if (found != block.replicas.end()) return false;
      block.replicas[node].stamp = block.block.generation_stamp;
      return true;
    }
    if (found == block.replicas.end()) return false;
    Stored& stored = found->second;
    if (stored.stamp < operation.stamp || stored.stamp > operation.latest_stamp) return false;
    switch (operation.stage) {
      case WriteStage::kSetupAppend:
        if (!stored.finalized || stored.content.size() != operation.min_bytes) return false;
        stored.finalized = false;
        break;
      case WriteStage::kSetupStreamingRecovery:
        if (stored.finalized || stored.acked < operation.min_bytes) return false;
        if (stored.content.size() > operation.max_bytes) return false;
        stored.content.resize(stored.acked);
        break;
      default:  // of an append, or at the end
        if (stored.content.size() != operation.min_bytes) return false;
        if (!stored.finalized && stored.acked != stored.content.size()) return false;
        stored.finalized = operation.stage == WriteStage::kCloseRecovery;
    }
    stored.stamp = operation.latest_stamp;
    stored.synced = std::min<std::uint64_t>(stored.synced, stored.content.size());
    return true;
  }

  void set_up(ConnectionNumber number, Connection& connection, const Operation& operation) {
    StoredBlock& block = *connection.block;
    std::vector<std::string>& nodes = connection.pipeline;
    nodes = {connection.node};
    nodes.insert(nodes.end(), operation.targets.begin(), operation.targets.end());
    CHECK(operation.nodes == nodes.size());
    CHECK(operation.stamp == block.block.generation_stamp);
    const bool is_new = operation.stage == WriteStage::kSetupCreate;
    CHECK(operation.latest_stamp == (is_new ? 0 : last_stamp_));
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      // A new block is given up with its pipeline; another one keeps a node.
      const bool may_refuse = is_new || nodes.size() > 1;
      const bool refuses = is_dead(nodes[i]) ||
                           (may_refuse && one_in(faults_.refuse_one_set_up_in)) ||
                           (restarting_ > 0 && nodes.size() == 1 && restarting_-- > 0);
      if (!refuses) {
        const bool accepted = accepts(nodes[i], block, operation);
        CHECK((accepted || uncopied_.contains(nodes[i])));
        if (accepted) continue;
      }
      if (i == 0) return lose(number, connection);
      connection.dead = true;
      OperationReply reply;
      reply.status = TransferStatus::kError;
      reply.first_bad_link = address_of(nodes[i]);
      return answer(number, connection, reply);
    }
    answer(number, connection, {});
    connection.next_sequence_number = acknowledged_number_ + 1;
    if (operation.stage == WriteStage::kCloseRecovery) return lose(number, connection);
    if (!is_new && nodes.size() > 1 && one_in(faults_.break_one_packet_in)) {
      break_one(number, connection);  // while the NameNode is told
    }
  }

  // SUCCESS only says that the source tried.
  void transfer(ConnectionNumber number, Connection& connection, const Operation& operation) {
    StoredBlock& block = *connection.block;
    REQUIRE(operation.targets.size() == 1);
    const std::string& target = operation.targets[0];
    const bool copies = !is_dead(target) && !block.replicas.contains(target) && !one_in(5);
    const bool has_it = block.replicas.contains(connection.node);
    if (!has_it || one_in(6)) return lose(number, connection);
    CHECK(operation.stamp == block.block.generation_stamp);
    if (copies) {
      const Stored& source = block.replicas.at(connection.node);
      Stored copy = source;
      copy.content.resize(source.acked);
      copy.acked = source.acked;
      copy.synced = copy.synced_stamp = 0;
      block.replicas[target] = copy;
      uncopied_.erase(target);
    } else {
      uncopied_.insert(target);
    }
    answer(number, connection, {});
    connection.dead = true;
  }

  // One node of several fails, for ever or for this pipeline; returns which.
  std::size_t break_one(ConnectionNumber number, Connection& connection) {
    const std::vector<std::string>& nodes = connection.pipeline;
    const std::size_t node = below(static_cast<unsigned>(nodes.size()));
    const unsigned how = below(4);
    if (how < 2 && alive() > 4) dead_.insert(nodes[node]);
    if (node == 0 && how != 3) {
      lose(number, connection);
    } else {
      complain(number, connection, node,
               how == 3 ? TransferStatus::kOobRestart : TransferStatus::kError);
    }
    return node;
  }

  void store(ConnectionNumber number, Connection& connection, const Receiver::Received& packet) {
    PipelineAck ack;
    ack.sequence_number = packet.header.sequence_number;
    const std::vector<std::string>& nodes = connection.pipeline;
    std::size_t reached = nodes.size();  // so many nodes have it
    if (one_in(faults_.break_one_packet_in)) {
      if (nodes.size() > 1) {
        const std::size_t failed = break_one(number, connection);
        reached = below(2) == 0 ? failed : nodes.size();
      } else if (restarting_ == 0) {
        complain(number, connection, 0, TransferStatus::kOobRestart);
        restarting_ = static_cast<int>(below(5));
        reached = below(2);
      }
    }
    const bool is_of_set_up = h_.block_is(BlockWriter::State::kSyncing);
    if (is_of_set_up && packet.header.sequence_number != PipelineAck::kHeartbeat) {
      CHECK(connection.next_sequence_number == acknowledged_number_ + 1);
      CHECK(packet.header.sequence_number == std::max<std::int64_t>(0, acknowledged_number_));
      CHECK(packet.header.sync_block);
      CHECK(packet.data.empty());
      for (std::size_t i = 0; i < reached; ++i) {
        Stored& stored = connection.block->replicas.at(nodes[i]);
        CHECK(packet.header.offset_in_block <= stored.content.size());
        stored.sync();
      }
    } else if (packet.header.sequence_number != PipelineAck::kHeartbeat) {
      CHECK(packet.header.sequence_number == connection.next_sequence_number++);
      StoredBlock& block = *connection.block;
      const auto [sent, is_new] = sent_.try_emplace(packet.header.sequence_number, packet.data);
      CHECK(sent->second == packet.data);  // one that is sent again is as it was
      for (std::size_t i = 0; i < reached; ++i) {
        Stored& stored = block.replicas.at(nodes[i]);
        CHECK_FALSE(stored.finalized);
        const std::size_t before = stored.content.size();
        apply(block, stored, packet);
        const bool passes_over = !packet.data.empty() && stored.content.size() == before;
        if (i + 1 == nodes.size() || below(4) == 0) stored.acked = stored.content.size();
        if (packet.header.last_in_block) {
          CHECK(packet.data.empty());
          CHECK(packet.header.offset_in_block == stored.content.size());
          CHECK(connection.acks_under_way == 0);  // only after all earlier ones are acknowledged
          stored.finalized = true;
        }
        if (packet.header.sync_block && !passes_over) stored.sync();
      }
    }
    if (connection.dead) return;
    ++connection.acks_under_way;
    for (std::size_t i = 0; i < nodes.size(); ++i) ack.replies.push_back(TransferStatus::kSuccess);
    const std::uint64_t end = packet.header.offset_in_block + packet.data.size();
    connection.to_client.push_back([this, number, ack, end, is_of_set_up] {
      Connection& from = connections_.at(number);
      --from.acks_under_way;
      if (ack.sequence_number >= 0) {
        if (!is_of_set_up) acknowledged_number_ = ack.sequence_number;
        for (const std::string& node : from.pipeline) {
          Stored& stored = from.block->replicas.at(node);
          stored.acked = std::max(stored.acked, end);
        }
      }
      h_.machine.acked(number, ack, h_.now, h_.actions);
    });
  }

  void apply(StoredBlock& block, Stored& stored, const Receiver::Received& packet) {
    const std::uint64_t offset = packet.header.offset_in_block;
    const std::size_t chunk = target_.bytes_per_checksum;
    CHECK(offset <= stored.content.size());
    CHECK(offset >= block.first_byte);
    CHECK(offset + packet.data.size() <= target_.block_size);
    if (offset % chunk != 0) CHECK(packet.data.size() <= chunk - offset % chunk);
    std::vector<std::byte> sums(packet.sums.size());
    REQUIRE(sums.size() == crc::checksum_count(packet.data.size(), chunk) * crc::kSumSize);
    crc::chunk_sums(target_.checksum, as_bytes(packet.data), chunk, sums.data());
    CHECK(as_text(ByteView(sums)) == packet.sums);
    const ByteView data = as_bytes(packet.data);
    for (std::size_t i = 0; i < data.size(); ++i) {
      if (offset + i < stored.content.size()) {
        CHECK(stored.content[offset + i] == data[i]);  // a replay is identical
      } else {
        stored.content.push_back(data[i]);
      }
    }
  }

  void sync_finished(ConnectionNumber number, Connection& connection,
                     const Receiver::Received& packet) {
    StoredBlock& block = *connection.block;
    Stored& stored = block.replicas.at(connection.node);
    CHECK(stored.finalized);
    CHECK(packet.header.last_in_block);
    CHECK(packet.header.sync_block);
    CHECK(packet.header.offset_in_block == stored.content.size());
    stored.sync();
    connection.to_client.push_back([this, number] {
      h_.machine.acked(number, {0, {TransferStatus::kSuccess}}, h_.now, h_.actions);
    });
  }

  // --- the NameNode

  void commit(const std::optional<ExtendedBlock>& last) {
    if (blocks_.empty()) {
      CHECK(last == target_.previous_block);
      return;
    }
    StoredBlock& block = blocks_.back();
    REQUIRE(last);
    CHECK(last->id == block.block.id);
    CHECK(last->generation_stamp == block.block.generation_stamp);
    for (const std::string& node : block.pipeline) {
      const Stored& stored = block.replicas.at(node);
      CHECK(stored.finalized);
      CHECK(stored.content.size() == last->length);
      CHECK(stored.stamp == last->generation_stamp);
    }
    block.block.length = last->length;
    block.committed = true;
  }

  void ask(std::function<void()> answer) {
    REQUIRE_FALSE(answer_);  // one call at a time
    answer_ = std::move(answer);
  }

  static int number_of(const std::string& node) { return node.back() - '0'; }

  void operator()(const action::AddBlock& add) {
    if (faults_.not_yet && one_in(4)) {
      return ask([this] {
        h_.machine.allocated(testing::remote("NotReplicatedYetException"), h_.now, h_.actions);
      });
    }
    commit(add.previous);
    const std::uint64_t start =
        blocks_.empty() ? target_.start : blocks_.back().start + blocks_.back().size();
    StoredBlock& block = blocks_.emplace_back();
    block.block = {"BP-1", ++last_id_, ++last_stamp_, 0};
    block.start = start;
    uncopied_.clear();
    LocatedBlock answer = testing::located(block.block.id, block.block.generation_stamp, 0);
    const int first = static_cast<int>(below(kDataNodes));
    for (int i = 0; i < kDataNodes && std::ssize(answer.replicas) < replicas_; ++i) {
      const Replica replica = testing::replica(1 + (first + i) % kDataNodes);
      if (is_dead(replica.node.ip)) continue;
      answer.replicas.push_back(replica);
      block.pipeline.push_back(replica.node.ip);
    }
    ask([this, answer] { h_.machine.allocated(answer, h_.now, h_.actions); });
  }
  void operator()(const action::AbandonBlock& abandon) {
    REQUIRE_FALSE(blocks_.empty());
    CHECK(abandon.block.id == blocks_.back().block.id);
    CHECK(acknowledged_ <= blocks_.back().start);  // nothing of it
    blocks_.pop_back();
    ask([this] { h_.machine.block_abandoned({}, h_.now, h_.actions); });
  }
  void operator()(const action::UpdateBlockForPipeline& update) {
    CHECK(update.block.id == blocks_.back().block.id);
    CHECK(update.block.generation_stamp == blocks_.back().block.generation_stamp);
    LocatedBlock answer;
    answer.block = update.block;
    answer.block.generation_stamp = ++last_stamp_;
    ask([this, answer] { h_.machine.reserved(answer, h_.now, h_.actions); });
  }
  void operator()(const action::UpdatePipeline& update) {
    StoredBlock& block = blocks_.back();
    CHECK(update.old_block.generation_stamp == block.block.generation_stamp);
    CHECK(update.new_block.generation_stamp == last_stamp_);
    CHECK(update.new_block.generation_stamp > update.old_block.generation_stamp);
    block.pipeline.clear();
    bool closes = true;
    for (const Replica& replica : update.replicas) {
      const Stored& stored = block.replicas.at(replica.node.ip);
      CHECK(stored.stamp == last_stamp_);
      CHECK(stored.content.size() >= update.new_block.length);
      if (synced_ > block.start + block.first_byte) {  // under the stamp that the NameNode gets
        CHECK(stored.synced >= std::min(synced_ - block.start, target_.block_size));
        CHECK(stored.synced_stamp == stored.stamp);
      }
      closes = closes && stored.finalized;
      block.pipeline.push_back(replica.node.ip);
    }
    block.block = update.new_block;
    if (closes) ++acknowledged_number_;  // the last packet is not sent again
    ask([this] { h_.machine.registered({}, h_.now, h_.actions); });
  }
  void operator()(const action::GetAdditionalDatanode& find) {
    CHECK(find.block.generation_stamp == blocks_.back().block.generation_stamp);
    LocatedBlock answer;
    answer.replicas = find.replicas;
    const int first = static_cast<int>(below(kDataNodes));
    for (int i = 0; i < kDataNodes && !one_in(10); ++i) {
      const Replica replica = testing::replica(1 + (first + i) % kDataNodes);
      const auto is_it = [&](const DatanodeInfo& node) { return node.ip == replica.node.ip; };
      if (std::ranges::any_of(find.excluded, is_it)) continue;
      if (std::ranges::any_of(find.replicas, is_it, &Replica::node)) continue;
      answer.replicas.insert(
          answer.replicas.begin() + below(static_cast<unsigned>(answer.replicas.size() + 1)),
          replica);
      break;
    }
    ask([this, answer] { h_.machine.found(answer, h_.now, h_.actions); });
  }
  void operator()(const action::Fsync& fsync) {
    REQUIRE_FALSE(blocks_.empty());
    CHECK(fsync.block_length > 0);
    for (const std::string& node : blocks_.back().pipeline) {
      CHECK(fsync.block_length <= blocks_.back().replicas.at(node).acked);
    }
    blocks_.back().block.length = fsync.block_length;
    ask([this] { h_.machine.fsynced({}, h_.now, h_.actions); });
  }
  void operator()(const action::Complete& complete) {
    if (faults_.not_yet && one_in(2)) {
      return ask([this] { h_.machine.completed(false, h_.now, h_.actions); });
    }
    commit(complete.last);
    ask([this] { h_.machine.completed(true, h_.now, h_.actions); });
  }
  // Beside the others. What the NameNode lists is where the replicas are.
  void operator()(const action::GetBlockLocations& locate) {
    REQUIRE_FALSE(location_);
    const auto found = std::ranges::find_if(
        blocks_, [&](const StoredBlock& block) { return block.start == locate.offset; });
    REQUIRE(found != blocks_.end());
    CHECK(found->is_finalized());
    CHECK(locate.length == found->size());
    located_ = &*found;
    LocatedBlocks answer;
    answer.blocks.push_back(testing::located(found->block.id, found->block.generation_stamp, 0));
    for (const std::string& node : found->pipeline) {
      answer.blocks[0].replicas.push_back(testing::replica(number_of(node)));
    }
    location_ = [this, answer] { h_.machine.located(answer, h_.now, h_.actions); };
  }
  void operator()(const action::RecoverLease&) { FAIL("nobody asked for it"); }
  void operator()(const action::AskReplicas&) { FAIL("nobody asked for it"); }
  void operator()(const action::DropQuestions&) { FAIL("nobody asked for it"); }

  // --- connections, and the stream above

  void operator()(const action::Connect& connect) {
    Connection& connection = connections_[connect.connection];
    const ConnectionNumber number = connect.connection;
    connection.node = connect.node.ip;
    connection.syncs_finished = number == h_.sync_connection();
    connection.block = connection.syncs_finished ? located_ : &blocks_.back();
    if (is_dead(connection.node)) {
      return connection.to_client.push_back([this, number] {
        h_.machine.connection_lost(number, Status::from_errno(ECONNREFUSED, "connect", ""), h_.now,
                                   h_.actions);
      });
    }
    connection.to_client.push_back([this, number] { h_.machine.connected(number, h_.now); });
  }
  void operator()(const action::Disconnect& disconnect) {
    CHECK(connections_.erase(disconnect.connection) == 1);
  }
  void operator()(const action::Acknowledged& acknowledged) {
    CHECK(acknowledged.offset > acknowledged_);
    CHECK(acknowledged.offset <= stored_end());
    acknowledged_ = acknowledged.offset;
  }
  void operator()(const action::Reached& reached) {
    if (reached.level == Level::kHandedOver) return;
    CHECK(reached.offset <= acknowledged_);
    for (const StoredBlock& block : blocks_) {
      if (block.start >= reached.offset) continue;
      const bool is_newest = &block == &blocks_.back();
      const std::uint64_t needed = std::min<std::uint64_t>(
          reached.offset - block.start, is_newest ? target_.block_size : block.size());
      for (const std::string& node : block.pipeline) {
        CHECK(block.replicas.at(node).acked >= needed);
      }
      const bool is_new = needed > block.first_byte;
      if (is_new) CHECK(block.block.length > block.first_byte);  // the NameNode knows something
      if (reached.level < Level::kDurable) continue;
      // One at least of an earlier block, if some could not be; all without faults.
      const bool is_current = is_newest && !block.is_finalized();
      const bool may_miss = !is_current && has_faults();
      CHECK(durable(block, needed) >= (may_miss ? 1 : std::ssize(block.pipeline)));
      if (is_new && target_.update_length) CHECK(block.block.length >= needed);
    }
    if (reached.level == Level::kBlockEnded) CHECK(ends_.contains(reached.offset));
    if (reached.level >= Level::kDurable) synced_ = std::max(synced_, reached.offset);
  }
  static std::ptrdiff_t durable(const StoredBlock& block, std::uint64_t needed) {
    return std::ranges::count_if(block.pipeline, [&](const std::string& node) {
      return block.replicas.at(node).synced >= needed;
    });
  }
  bool has_faults() const {
    return faults_.break_one_packet_in > 0 || faults_.refuse_one_set_up_in > 0;
  }
  void operator()(const action::NotReached& not_reached) {
    CHECK(has_faults());
    CHECK(not_reached.level >= Level::kDurable);
    CHECK(not_reached.why.path() == "/f");
  }
  void operator()(const action::Finished&) { over_ = true; }
  void operator()(const action::Failed& failed) {
    CHECK(has_faults());
    CAPTURE(failed.failure.message());
    CHECK(failed.failure.path() == "/f");
    CHECK_FALSE((faults_.best_effort && faults_.refuse_one_set_up_in == 0));
    over_ = failed_ = true;
  }

  void perform() {
    Actions actions;
    actions.swap(h_.actions);
    for (const Action& action : actions) {
      REQUIRE_FALSE(over_);  // nothing after the end
      std::visit([this](const auto& what) { (*this)(what); }, action);
    }
  }

  std::uint64_t stored_end() const {
    return blocks_.empty() ? target_.start : blocks_.back().start + blocks_.back().size();
  }

  void check_file(std::size_t total) const {
    CHECK(stored_end() == target_.start + total);
    std::vector<std::byte> written;
    for (const StoredBlock& block : blocks_) {
      CHECK(block.committed);
      const bool is_last = &block == &blocks_.back();
      const std::uint64_t end = block.start + block.size();
      CHECK(block.size() > 0);
      CHECK((is_last || block.size() == target_.block_size || ends_.contains(end)));
      const auto next_end = ends_.upper_bound(block.start);
      if (next_end != ends_.end()) CHECK(end <= *next_end);
      const Stored& one = block.replicas.at(block.pipeline.front());
      for (const std::string& node : block.pipeline) {
        CHECK(block.replicas.at(node).content == one.content);
      }
      if (block.start < synced_) {
        const std::uint64_t needed = std::min(synced_ - block.start, block.size());
        CHECK(durable(block, needed) >= 1);
      }
      written.insert(written.end(),
                     one.content.begin() + static_cast<std::ptrdiff_t>(block.first_byte),
                     one.content.end());
    }
    CHECK(written == hflush::testing::pattern(total));
  }

  std::mt19937 random_;
  const WriteTarget target_;
  const Faults faults_;
  const int replicas_;
  testing::Harness h_;
  std::deque<StoredBlock> blocks_;  // stable: connections point at them
  std::map<ConnectionNumber, Connection> connections_;
  std::function<void()> answer_;
  std::function<void()> location_;  // another answer of the NameNode
  StoredBlock* located_ = nullptr;  // what it is about
  std::uint64_t last_id_ = 100;
  std::uint64_t last_stamp_ = 1000;
  std::set<std::string> dead_;      // nodes
  std::set<std::string> uncopied_;  // that a source said it had copied to
  int restarting_ = 0;              // so often a single node refuses
  std::int64_t acknowledged_number_ = -1;
  std::map<std::int64_t, std::string> sent_;  // packets' data
  std::uint64_t acknowledged_ = 0;
  std::uint64_t synced_ = 0;      // an hsync has promised
  std::set<std::uint64_t> ends_;  // of blocks, that were asked for
  bool finished_asked_ = false;
  bool over_ = false;
  bool failed_ = false;
};

WriteTarget random_target(unsigned seed) {
  WriteTarget target = testing::small_target();
  std::mt19937 random(seed);
  target.bytes_per_checksum = 1U << (4U + random() % 4);
  target.block_size = target.bytes_per_checksum * (1 + random() % 12);
  target.sync_every_block = random() % 4 == 0;
  target.update_length = random() % 4 == 0;
  switch (random() % 4) {
    case 0: {  // append to a partial block
      target.partial_block = testing::located(5, 50, 3);
      target.partial_block->offset = 3 * target.block_size;
      target.partial_block->block.length = 1 + random() % target.block_size;
      if (target.partial_block->block.length == target.block_size) {
        --target.partial_block->block.length;
      }
      target.start = target.partial_block->end();
      break;
    }
    case 1:  // append with NEW_BLOCK
      target.start = 1 + random() % (3 * target.block_size);
      target.previous_block = ExtendedBlock{"BP-1", 5, 50, 1};
      break;
    default:
      break;
  }
  return target;
}

int simulate(unsigned seeds, Faults faults) {
  int failed = 0;
  for (unsigned seed = 1; seed <= seeds; ++seed) {
    CAPTURE(seed);
    WriteTarget target = random_target(seed);
    if (target.partial_block) {
      // As many replicas as the simulation will have.
      target.partial_block->replicas.clear();
      std::mt19937 random(seed);
      const auto count = 1 + std::uniform_int_distribution<unsigned>(0, 2)(random);
      for (unsigned i = 1; i <= count; ++i) {
        target.partial_block->replicas.push_back(testing::replica(static_cast<int>(i)));
      }
    }
    Simulation simulation(seed, target, faults);
    simulation.run(seed * 37 % 9000);
    failed += simulation.failed() ? 1 : 0;
  }
  return failed;
}

unsigned seeds_or(unsigned usual) {
  const char* set = std::getenv("HFLUSH_SIMULATION_SEEDS");  // NOLINT(concurrency-mt-unsafe)
  return set == nullptr ? usual : static_cast<unsigned>(std::stoul(set));
}

TEST_CASE("simulation: whatever the schedule, the file is what was written") {
  CHECK(simulate(seeds_or(1500), {}) == 0);
}

TEST_CASE("simulation: reports that lag") {
  Faults faults;
  faults.not_yet = true;
  CHECK(simulate(seeds_or(500), faults) == 0);
}

TEST_CASE("simulation: pipelines that cannot be built are replaced") {
  Faults faults;
  faults.refuse_one_set_up_in = 12;
  const int seeds = static_cast<int>(seeds_or(1000));
  CHECK(simulate(seeds_or(1000), faults) < seeds * 7 / 10);
}

TEST_CASE("simulation: a stream ends well while a DataNode is left") {
  Faults faults;
  faults.best_effort = true;
  for (const int one_in : {100, 20, 6}) {
    CAPTURE(one_in);
    faults.break_one_packet_in = one_in;
    CHECK(simulate(seeds_or(500), faults) == 0);
  }
}

TEST_CASE("simulation: a failure is clean, and nothing acknowledged was untrue") {
  Faults faults;
  faults.break_one_packet_in = 20;
  faults.refuse_one_set_up_in = 20;
  const int seeds = static_cast<int>(seeds_or(500));
  const int failed = simulate(seeds_or(500), faults);
  CHECK(failed > 0);
  CHECK(failed < seeds);
}

}  // namespace
}  // namespace hflush::hdfs
