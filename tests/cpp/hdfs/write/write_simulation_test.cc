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
#include <string>

#include "hdfs/write_harness.h"
#include "hflush/crc/checksum.h"

namespace hflush::hdfs {
namespace {

using namespace std::chrono_literals;  // NOLINT(google-build-using-namespace)
using stream::Cut;
using stream::Level;

// One replica's disk; all replicas of a pipeline get the same packets.
struct StoredBlock {
  ExtendedBlock block;  // length: what the NameNode was told last
  std::uint64_t start = 0;
  std::uint64_t first_byte = 0;  // that this stream may write: an append's length
  std::vector<std::byte> content;
  std::vector<std::uint64_t> synced;  // by replica
  bool finalized = false;
  bool committed = false;
};

// Splits what a connection sends into the operation and the packets behind it.
class Receiver {
 public:
  void take(ByteView bytes) { bytes_.append(as_text(bytes)); }

  // Whether the operation has arrived.
  bool has_operation() {
    if (has_operation_) return true;
    if (bytes_.size() < 4) return false;
    REQUIRE(bytes_.starts_with(std::string("\x00\x1c\x50", 3)));
    const Result<std::size_t> size = delimited_size(as_bytes(bytes_).subspan(3), 1U << 20U);
    REQUIRE(size.ok());
    if (*size == 0 || bytes_.size() < 3 + *size) return false;
    bytes_.erase(0, 3 + *size);
    return has_operation_ = true;
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
  bool has_operation_ = false;
};

struct Faults {
  int refuse_one_set_up_in = 0;  // 0: never
  int kill_one_connection_in = 0;
  bool not_yet = false;  // NotReplicatedYet and complete() = false, now and then
};

class Simulation {
 public:
  Simulation(unsigned seed, WriteTarget target, Faults faults)
      : random_(seed),
        target_(target),
        faults_(faults),
        replicas_(1 + static_cast<int>(below(3))),
        h_(target, settings()) {
    if (target.partial_block) {
      StoredBlock& first = blocks_.emplace_back();
      first.block = target.partial_block->block;
      first.start = target.partial_block->offset;
      first.first_byte = first.block.length;
      first.content.resize(first.block.length);  // someone else's bytes
      first.synced.assign(static_cast<std::size_t>(replicas_), first.block.length);
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
    std::size_t replica = 0;  // of a connection that syncs a finished block
    bool syncs_finished = false;
    bool answered = false;
    bool dead = false;
    std::deque<std::function<void()>> to_client;  // in order
  };

  static WriteSettings settings() {
    WriteSettings settings;
    settings.max_packets_in_flight = 6;
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
    const Cut cut = count == left   ? Cut::kFinal
                    : below(2) == 0 ? Cut::kEverything
                                    : Cut::kWholeChunks;
    std::vector<stream::Packet> sealed = h_.packets(count, cut);
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

  void serve(ConnectionNumber number, Connection& connection) {
    if (connection.dead || !connection.receiver.has_operation()) return;
    if (!connection.answered) {
      connection.answered = true;
      OperationReply reply;
      if (one_in(faults_.refuse_one_set_up_in)) {
        reply.status = TransferStatus::kError;
        reply.first_bad_link =
            testing::replica(1 + static_cast<int>(below(static_cast<unsigned>(replicas_))))
                .node.transfer_address();
      }
      connection.to_client.push_back(
          [this, number, reply] { h_.machine.replied(number, reply, h_.now, h_.actions); });
      connection.dead = reply.status != TransferStatus::kSuccess;
      if (connection.dead) return;
    }
    while (const auto packet = connection.receiver.next_packet()) {
      if (one_in(faults_.kill_one_connection_in)) {
        connection.dead = true;
        connection.to_client.push_back([this, number] {
          h_.machine.connection_lost(number, Status(StatusCode::kIo, "end of stream"), h_.now,
                                     h_.actions);
        });
        return;
      }
      if (connection.syncs_finished) {
        sync_finished(number, connection, *packet);
      } else {
        store(number, connection, *packet);
      }
    }
  }

  void store(ConnectionNumber number, Connection& connection, const Receiver::Received& packet) {
    PipelineAck ack;
    ack.sequence_number = packet.header.sequence_number;
    for (int i = 0; i < replicas_; ++i) ack.replies.push_back(TransferStatus::kSuccess);
    if (packet.header.sequence_number != PipelineAck::kHeartbeat) {
      StoredBlock& block = *connection.block;
      CHECK(packet.header.sequence_number == next_sequence_number_++);
      CHECK_FALSE(block.finalized);
      apply(block, packet);
      if (packet.header.last_in_block) {
        CHECK(packet.data.empty());
        CHECK(packet.header.offset_in_block == block.content.size());
        CHECK(acks_under_way_ == 0);  // only after all earlier packets are acknowledged
        block.finalized = true;
      }
      if (packet.header.sync_block) {
        for (std::uint64_t& synced : block.synced) synced = block.content.size();
      }
      ++acks_under_way_;
    }
    connection.to_client.push_back([this, number, ack] {
      if (ack.sequence_number >= 0) --acks_under_way_;
      h_.machine.acked(number, ack, h_.now, h_.actions);
    });
  }

  void apply(StoredBlock& block, const Receiver::Received& packet) {
    const std::uint64_t offset = packet.header.offset_in_block;
    const std::size_t chunk = target_.bytes_per_checksum;
    CHECK(offset <= block.content.size());
    CHECK(offset >= block.first_byte);
    CHECK(offset + packet.data.size() <= target_.block_size);
    if (offset % chunk != 0) CHECK(packet.data.size() <= chunk - offset % chunk);
    std::vector<std::byte> sums(packet.sums.size());
    REQUIRE(sums.size() == crc::checksum_count(packet.data.size(), chunk) * crc::kSumSize);
    crc::chunk_sums(target_.checksum, as_bytes(packet.data), chunk, sums.data());
    CHECK(as_text(ByteView(sums)) == packet.sums);
    const ByteView data = as_bytes(packet.data);
    for (std::size_t i = 0; i < data.size(); ++i) {
      if (offset + i < block.content.size()) {
        CHECK(block.content[offset + i] == data[i]);  // a replay is identical
      } else {
        block.content.push_back(data[i]);
      }
    }
  }

  void sync_finished(ConnectionNumber number, Connection& connection,
                     const Receiver::Received& packet) {
    StoredBlock& block = *connection.block;
    CHECK(block.finalized);
    CHECK(packet.header.last_in_block);
    CHECK(packet.header.sync_block);
    CHECK(packet.header.offset_in_block == block.content.size());
    block.synced[connection.replica] = block.content.size();
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
    CHECK(last->length == block.content.size());
    block.block.length = last->length;
    block.committed = true;
  }

  void ask(std::function<void()> answer) {
    REQUIRE_FALSE(answer_);  // one call at a time
    answer_ = std::move(answer);
  }

  void operator()(const action::AddBlock& add) {
    if (faults_.not_yet && one_in(4)) {
      return ask([this] {
        h_.machine.allocated(testing::remote("NotReplicatedYetException"), h_.now, h_.actions);
      });
    }
    commit(add.previous);
    StoredBlock& block = blocks_.emplace_back();
    block.block = {"BP-1", ++last_id_, 1000 + last_id_, 0};
    block.start = blocks_.size() == 1 ? target_.start
                                      : blocks_[blocks_.size() - 2].start +
                                            blocks_[blocks_.size() - 2].content.size();
    block.synced.assign(static_cast<std::size_t>(replicas_), 0);
    LocatedBlock answer = testing::located(block.block.id, block.block.generation_stamp, replicas_);
    ask([this, answer] { h_.machine.allocated(answer, h_.now, h_.actions); });
  }
  void operator()(const action::AbandonBlock& abandon) {
    REQUIRE_FALSE(blocks_.empty());
    CHECK(abandon.block.id == blocks_.back().block.id);
    CHECK(blocks_.back().content.empty());
    blocks_.pop_back();
    ask([this] { h_.machine.block_abandoned({}, h_.now, h_.actions); });
  }
  void operator()(const action::UpdateBlockForPipeline& update) {
    CHECK(update.block == blocks_.back().block);
    LocatedBlock answer;
    answer.block = update.block;
    answer.block.generation_stamp = 5000;
    ask([this, answer] { h_.machine.reserved(answer, h_.now, h_.actions); });
  }
  void operator()(const action::UpdatePipeline& update) {
    CHECK(update.old_block == blocks_.back().block);
    CHECK(update.new_block.generation_stamp == 5000);
    CHECK(update.replicas.size() == static_cast<std::size_t>(replicas_));
    blocks_.back().block = update.new_block;
    ask([this] { h_.machine.registered({}, h_.now, h_.actions); });
  }
  void operator()(const action::Fsync& fsync) {
    REQUIRE_FALSE(blocks_.empty());
    CHECK(fsync.block_length > 0);
    CHECK(fsync.block_length <= blocks_.back().content.size());
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
    CHECK(found->finalized);
    CHECK(locate.length == found->content.size());
    located_ = &*found;
    LocatedBlocks answer;
    answer.blocks.push_back(
        testing::located(found->block.id, found->block.generation_stamp, replicas_));
    location_ = [this, answer] { h_.machine.located(answer, h_.now, h_.actions); };
  }
  void operator()(const action::RecoverLease&) { FAIL("nobody asked for it"); }

  // --- connections, and the stream above

  void operator()(const action::Connect& connect) {
    Connection& connection = connections_[connect.connection];
    const ConnectionNumber number = connect.connection;
    if (number == h_.sync_connection()) {
      connection.syncs_finished = true;
      connection.replica = static_cast<std::size_t>(connect.node.ip.back() - '1');
      connection.block = located_;
    } else {
      connection.block = &blocks_.back();
      if (one_in(faults_.refuse_one_set_up_in)) {
        connection.to_client.push_back([this, number] {
          h_.machine.connection_lost(number, Status::from_errno(ECONNREFUSED, "connect", ""),
                                     h_.now, h_.actions);
        });
        return;
      }
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
      const std::uint64_t needed =
          std::min<std::uint64_t>(reached.offset - block.start, target_.block_size);
      CHECK(block.content.size() >= needed);
      const bool is_new = needed > block.first_byte;
      if (is_new) CHECK(block.block.length > block.first_byte);  // the NameNode knows something
      if (reached.level != Level::kDurable) continue;
      // One at least of an earlier block, if some could not be; all without faults.
      const bool is_current = &block == &blocks_.back() && !block.finalized;
      const auto durable = std::ranges::count_if(
          block.synced, [needed](std::uint64_t synced) { return synced >= needed; });
      const bool may_miss =
          !is_current && (faults_.kill_one_connection_in > 0 || faults_.refuse_one_set_up_in > 0);
      CHECK(durable >= (may_miss ? 1 : std::ssize(block.synced)));
      if (is_new && target_.update_length) CHECK(block.block.length >= needed);
    }
  }
  void operator()(const action::NotReached& not_reached) {
    CHECK((faults_.kill_one_connection_in > 0 || faults_.refuse_one_set_up_in > 0));
    CHECK(not_reached.level == Level::kDurable);
    CHECK(not_reached.why.path() == "/f");
    for (const std::uint64_t synced : located_->synced) CHECK(synced < located_->content.size());
  }
  void operator()(const action::Finished&) { over_ = true; }
  void operator()(const action::Failed& failed) {
    CHECK((faults_.kill_one_connection_in > 0 || faults_.refuse_one_set_up_in > 0));
    CHECK(failed.failure.path() == "/f");
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
    return blocks_.empty() ? target_.start : blocks_.back().start + blocks_.back().content.size();
  }

  void check_file(std::size_t total) const {
    CHECK(stored_end() == target_.start + total);
    std::vector<std::byte> written;
    for (const StoredBlock& block : blocks_) {
      CHECK(block.committed);
      const bool is_last = &block == &blocks_.back();
      if (!is_last) CHECK(block.content.size() == target_.block_size);
      written.insert(written.end(),
                     block.content.begin() + static_cast<std::ptrdiff_t>(block.first_byte),
                     block.content.end());
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
  std::int64_t next_sequence_number_ = 0;
  int acks_under_way_ = 0;
  std::uint64_t acknowledged_ = 0;
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

TEST_CASE("simulation: a node that dies is a clean failure, and nothing acknowledged was untrue") {
  Faults faults;
  faults.kill_one_connection_in = 60;
  const int seeds = static_cast<int>(seeds_or(1000));
  const int failed = simulate(seeds_or(1000), faults);
  CHECK(failed > seeds / 10);
  CHECK(failed < seeds);
}

}  // namespace
}  // namespace hflush::hdfs
