#include "sim/scenario.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "hflush/env/host.h"
#include "hflush/env/interrupt.h"
#include "hflush/hdfs/client.h"
#include "sim/content.h"
#include "sim/data_node.h"
#include "sim/name_node.h"
#include "sim/network.h"
#include "sim/sim_loop.h"

namespace hflush::sim {
namespace {

using namespace std::chrono_literals;  // NOLINT(google-build-using-namespace)
using stream::OutputStream;

// Nothing of a simulated process runs on a thread of its own.
class NoThreads final : public env::Executor {
 public:
  explicit NoThreads(World& world) : world_(world) {}
  bool run(Task /*task*/) override {
    world_.breach("a thread is asked for");
    return false;
  }

 private:
  World& world_;
};

// What a writer was promised.
struct Journal {
  std::uint64_t number = 0;
  std::string path;
  std::uint64_t block_size = 0;
  std::uint64_t written = 0;       // accepted
  std::uint64_t acknowledged = 0;  // by hflush
  std::uint64_t durable = 0;       // by hsync
  enum class End : std::uint8_t { kOpen, kPublished, kFailed, kAbandoned } end = End::kOpen;
};

class Run final : public DataNode::Cluster {
 public:
  Run(std::uint64_t seed, World::Trace trace)
      : world_(seed, trace),
        network_(world_),
        chance_(seed, "run"),
        name_node_(world_, network_, nodes_) {
    const int count = static_cast<int>(chance_.between(1, 5));
    for (int i = 1; i <= count; ++i) {
      nodes_.push_back(std::make_unique<DataNode>(world_, network_, *this, i));
    }
  }

  Outcome play() {
    const std::uint64_t clients = chance_.between(1, 3);
    for (std::uint64_t i = 1; i <= clients; ++i) start_client(i);
    if (!chance_.one_in(3)) plan_faults();
    world_.run([this] { return world_.is_idle(); });
    if (world_.breached().empty()) check_end();
    return outcome();
  }

 private:
  // One process that writes.
  struct Process {
    Process(World& world, Network& network, const std::string& host)
        : loop(world, network, host), threads(world), chance(world.seed(), host) {}
    SimLoop loop;
    NoThreads threads;
    Chance chance;
  };

  // --- the cluster

  DataNode* node_at(const std::string& ip) override {
    const auto found =
        std::ranges::find_if(nodes_, [&](const auto& node) { return node->ip() == ip; });
    return found == nodes_.end() ? nullptr : found->get();
  }
  std::string expected(std::uint64_t block, std::uint64_t place, std::size_t size) override {
    const NameNode::File* const file = name_node_.file_of_block(block);
    if (file == nullptr) return {};
    return content(journal_of(file->path).number, file->start_of(block) + place, size);
  }
  std::uint64_t block_size(std::uint64_t block) override {
    const NameNode::File* const file = name_node_.file_of_block(block);
    return file == nullptr ? 0 : file->block_size;
  }
  void finalized(DataNode& node, std::uint64_t block, std::uint64_t stamp,
                 std::uint64_t length) override {
    name_node_.finalized(node, block, stamp, length);
  }

  Journal& journal_of(const std::string& path) {
    return **std::ranges::find_if(journals_, [&](const auto& one) { return one->path == path; });
  }

  // --- faults

  void plan_faults() {
    if (chance_.one_in(3)) {
      NameNode::Faults faults;
      if (chance_.one_in(2)) faults.lost_calls = chance_.between(5, 50);
      if (chance_.one_in(2)) faults.lost_answers = chance_.between(5, 50);
      if (chance_.one_in(2)) faults.late_answers = chance_.between(5, 50);
      name_node_.suffer(faults);
    }
    const std::uint64_t count = chance_.between(0, 3);
    for (std::uint64_t i = 0; i < count; ++i) {
      world_.after(chance_.up_to(chance_.one_in(2) ? 20ms : 3s), [this] { fault(); });
    }
  }

  void fault() {
    if (chance_.one_in(5)) return name_node_.restart(chance_.up_to(chance_.one_in(2) ? 1s : 60s));
    DataNode& node = **(nodes_.begin() + static_cast<std::ptrdiff_t>(chance_.below(nodes_.size())));
    ++faults_;
    switch (chance_.below(4)) {
      case 0:
        node.crash();
        if (chance_.one_in(2)) world_.after(chance_.up_to(100s), [&node] { node.restart(); });
        break;
      case 1: {
        const Duration length = chance_.up_to(chance_.one_in(2) ? 1s : 200s);
        world_.note(node.info().host, " is cut off for ", length.count() / 1'000'000, " ms");
        network_.cut_off(node.ip(), world_.now() + length);
        break;
      }
      case 2:
        world_.note(node.info().host, " becomes slow");
        node.slow_down(chance_.up_to(2s));
        break;
      default:
        world_.note("the connections of ", node.info().host, " are reset");
        network_.reset_connections(node.ip());
        break;
    }
  }
  bool has_fault() const noexcept { return has_node_fault() || name_node_.hits() > 0; }
  bool has_node_fault() const noexcept { return faults_ > 0; }

  // --- writers

  void start_client(std::uint64_t number) {
    const std::string host = "10.0.2." + std::to_string(number);
    Process& process = *processes_.emplace_back(std::make_unique<Process>(world_, network_, host));
    world_.start([this, &process, number] {
      const std::uint64_t files = process.chance.between(1, 3);
      const auto client = hdfs::Client::make(
          settings(process.chance, number),
          {.loop = process.loop, .resolver = process.threads, .randomness = process.chance});
      world_.require(client.ok(), "no client: ", client.status().message());
      for (std::uint64_t i = 1; i <= files && client.ok(); ++i) {
        write_file(process, **client, number * 100 + i);
      }
    });
  }

  hdfs::Settings settings(Chance& chance, std::uint64_t number) const {
    hdfs::Settings settings;
    settings.user = "alice";
    settings.client_name = "client-" + std::to_string(number);
    settings.service = name_node_.endpoint().to_string();
    settings.name_nodes = {name_node_.endpoint()};
    hdfs::WriteSettings& write = settings.write;
    write.bytes_per_checksum = static_cast<std::uint32_t>(1) << chance.between(4, 9);
    write.packet_size = static_cast<std::uint32_t>(chance.between(100, 4096));
    write.max_packets_in_flight = static_cast<std::uint32_t>(chance.between(1, 20));
    write.block_size =
        write.bytes_per_checksum * chance.between(1, 1 + 16384 / write.bytes_per_checksum);
    write.replication = static_cast<std::uint32_t>(chance.between(1, 3));
    write.recover_lease_on_close_failure = chance.one_in(4);
    return settings;
  }

  void write_file(Process& process, hdfs::Client& client, std::uint64_t number) {
    Journal& journal = *journals_.emplace_back(std::make_unique<Journal>());
    journal.number = number;
    journal.path = "/file-" + std::to_string(number);
    journal.block_size = client.settings().write.block_size;
    env::Uninterrupted interrupt(world_.clock());
    hdfs::CreateOptions options;
    options.sync_block = process.chance.one_in(8);
    options.update_length = process.chance.one_in(8);
    auto created = client.create(journal.path, options, interrupt);
    if (!created.ok()) return failed(journal, "create", created.status());
    OutputStream& stream = **created;
    const std::uint64_t operations = process.chance.between(0, 40);
    for (std::uint64_t i = 0; i < operations; ++i) {
      if (!operate(process, stream, journal)) return failed(journal, "close", close(stream));
      if (process.chance.one_in(200)) return abandon(stream, journal);
    }
    const Status closed = close(stream);
    if (!closed.ok()) return failed(journal, "close", closed);
    journal.end = Journal::End::kPublished;
    world_.note(journal.path, " is published with ", journal.written);
    check_published(journal);
  }

  Status close(OutputStream& stream) {
    env::Uninterrupted interrupt(world_.clock());
    return stream.close(interrupt);
  }

  void failed(Journal& journal, std::string_view operation, const Status& status) {
    world_.note(journal.path, " fails at ", operation, ": ", status.to_string());
    // What a stream asks the NameNode for outlives its faults; but a file without a block has none
    // by which the NameNode knows a complete() that is repeated.
    const bool is_known = operation != "create" && journal.written > 0;
    const bool may_fail = is_known ? has_node_fault() : has_fault();
    world_.require(may_fail, journal.path, " fails without a fault: ", status.to_string());
    world_.require(!status.ok(), journal.path, " failed before, and its close hides it");
    journal.end = Journal::End::kFailed;
  }

  void abandon(OutputStream& stream, Journal& journal) {
    world_.note(journal.path, " is abandoned at ", journal.written);
    stream.abandon();
    journal.end = Journal::End::kAbandoned;
  }

  // Whether the stream goes on.
  bool operate(Process& process, OutputStream& stream, Journal& journal) {
    Chance& chance = process.chance;
    env::Uninterrupted interrupt(world_.clock());
    Status status;
    const std::uint64_t kind = chance.below(12);
    if (kind < 6) {
      static constexpr std::uint64_t kSizes[] = {1, 20, 300, 2000, 20000};
      const std::string bytes =
          content(journal.number, journal.written, chance.between(1, chance.one_of(kSizes)));
      world_.note(journal.path, " write ", bytes.size(), " at ", journal.written);
      const ByteView data = as_bytes(bytes);
      if (!stream.try_write(data)) status = stream.write(data, interrupt);
      if (status.ok()) journal.written += bytes.size();
    } else if (kind < 8) {
      status = sync(stream, journal, false, interrupt);
    } else if (kind < 9) {
      status = sync(stream, journal, true, interrupt);
    } else if (kind < 10) {
      status = stream.flush(interrupt);
    } else {
      world_.clock().sleep_until(world_.now() + chance.up_to(chance.one_in(10) ? 100s : 5ms));
    }
    if (status.ok()) {
      world_.require(stream.position() == journal.written, journal.path, ": position ",
                     stream.position(), " after ", journal.written, " bytes");
      return true;
    }
    world_.note(journal.path, " fails: ", status.to_string());
    world_.require(has_node_fault(), journal.path,
                   " fails without a fault of a DataNode: ", status.to_string());
    // A refused hsync of earlier blocks breaks nothing.
    return stream.state() == stream::State::kOpen;
  }

  Status sync(OutputStream& stream, Journal& journal, bool durable, env::Interrupt& interrupt) {
    const std::string_view name = durable ? "hsync" : "hflush";
    world_.note(journal.path, " ", name, " at ", journal.written);
    Status status = durable ? stream.hsync(interrupt) : stream.hflush(interrupt);
    if (!status.ok()) return status;
    world_.note(journal.path, " ", name, " of ", journal.written, " returns");
    journal.acknowledged = journal.written;
    if (durable) journal.durable = journal.written;
    check_promises(journal);
    return status;
  }

  // --- what must hold

  // What hflush and hsync have promised, on every node that is up and that the NameNode counts on.
  void check_promises(const Journal& journal) {
    const NameNode::File* const file = name_node_.find(journal.path);
    world_.require(file != nullptr, journal.path, " is not in the name space");
    if (file == nullptr) return;
    std::uint64_t start = 0;
    for (const NameNode::Block& block : file->blocks) {
      const bool is_last = &block == &file->blocks.back();
      const std::uint64_t end = is_last ? journal.written : start + block.length;
      check_block(journal, block, start, end);
      start = end;
    }
    world_.require(start >= journal.acknowledged, journal.path, ": ", journal.acknowledged,
                   " bytes are acknowledged, the blocks have ", start);
  }

  void check_block(const Journal& journal, const NameNode::Block& block, std::uint64_t start,
                   std::uint64_t end) {
    const std::uint64_t acknowledged = share(journal.acknowledged, start, end);
    const std::uint64_t durable = share(journal.durable, start, end);
    if (acknowledged == 0) return;
    std::size_t holders = 0;
    std::size_t synced = 0;
    for (const DataNode* const node : block.pipeline) {
      const StoredReplica* const replica = node->replica(block.id);
      const bool holds = replica != nullptr && replica->bytes.size() >= acknowledged &&
                         replica->acknowledged >= acknowledged;
      if (holds) ++holders;
      if (holds && replica->synced >= durable) ++synced;
      world_.require(holds || !node->is_up(), node->info().host, " has not ", acknowledged,
                     " acknowledged bytes of ", block.id);
    }
    world_.require(holders > 0, "no node has ", acknowledged, " acknowledged bytes of ", block.id);
    // Of an earlier block: on the replicas that were reported by then.
    const bool is_on_all = synced == block.pipeline.size();
    const bool may_lack = has_fault() || block.state != NameNode::Block::State::kBeingWritten;
    world_.require(is_on_all || (may_lack && synced > 0), "only ", synced, " of ",
                   block.pipeline.size(), " nodes have synced ", durable, " bytes of ", block.id);
  }

  // How much of [0, total) lies in [start, end), from start on. A write that failed may have begun
  // a block behind all that was accepted.
  static std::uint64_t share(std::uint64_t total, std::uint64_t start, std::uint64_t end) {
    return std::min(std::max(total, start), std::max(end, start)) - start;
  }

  void check_published(const Journal& journal) {
    const NameNode::File* const file = name_node_.find(journal.path);
    world_.require(file != nullptr && file->holder.empty(), journal.path, " is not closed");
    if (file == nullptr) return;
    world_.require(file->length() == journal.written, journal.path, ": ", file->length(),
                   " bytes are published of ", journal.written);
    std::uint64_t start = 0;
    for (const NameNode::Block& block : file->blocks) {
      world_.require(block.length > 0, journal.path, " has an empty block");
      world_.require(start + block.length == journal.written || block.length == journal.block_size,
                     journal.path, " has a short block in its middle");
      check_readable(journal, block, start);
      start += block.length;
    }
  }

  // Some node has all of it, finalized; or about to be, if it was opened again for an hsync and a
  // fault came in between (hdfs/write/finished_blocks.h).
  void check_readable(const Journal& journal, const NameNode::Block& block, std::uint64_t start) {
    const std::string wanted = content(journal.number, start, block.length);
    const bool is_there = std::ranges::any_of(block.reported, [&](const DataNode* node) {
      const StoredReplica* const replica = node->replica(block.id);
      return replica != nullptr && replica->stamp == block.stamp && replica->bytes == wanted &&
             (replica->state == StoredReplica::State::kFinalized || has_fault());
    });
    world_.require(is_there, "no replica of ", block.id, " is as it was published");
  }

  void check_end() {
    for (const auto& process : processes_) {
      const std::string& host = process->loop.host();
      world_.require(network_.open_ends(host) == 0, host, " has ", network_.open_ends(host),
                     " open connections at its end");
      world_.require(process->loop.timers() == 0, host, " has ", process->loop.timers(),
                     " timers at its end");
    }
    for (const auto& journal : journals_) {
      world_.require(journal->end != Journal::End::kOpen, journal->path, " has no end");
      const bool is_published = journal->end == Journal::End::kPublished;
      if (is_published) check_published(*journal);
      // A failure may also be what is heard of a success: then all of it is there.
      if (!is_published && name_node_.find(journal->path) != nullptr) check_survival(*journal);
    }
  }

  // Of a stream that did not publish its file: what it was promised is on the nodes still.
  void check_survival(const Journal& journal) {
    const NameNode::File& file = *name_node_.find(journal.path);
    std::uint64_t start = 0;
    for (const NameNode::Block& block : file.blocks) {
      const bool is_last = &block == &file.blocks.back();
      const std::uint64_t end = is_last && block.state == NameNode::Block::State::kBeingWritten
                                    ? journal.written
                                    : start + block.length;
      check_block(journal, block, start, end);
      start = end;
    }
    world_.require(start >= journal.acknowledged, journal.path, ": ", journal.acknowledged,
                   " bytes were acknowledged, ", start, " are left");
  }

  Outcome outcome() {
    Outcome outcome;
    outcome.seed = world_.seed();
    outcome.breach = world_.breached();
    outcome.digest = world_.digest();
    outcome.trace = world_.text();
    outcome.steps = world_.steps();
    outcome.faults = faults_ + name_node_.hits();
    for (const auto& journal : journals_) {
      ++outcome.streams;
      outcome.acknowledged_bytes += journal->acknowledged;
      if (journal->end == Journal::End::kPublished) ++outcome.published;
      if (journal->end == Journal::End::kFailed) ++outcome.failed;
      if (journal->end == Journal::End::kAbandoned) ++outcome.abandoned;
      if (const NameNode::File* const file = name_node_.find(journal->path)) {
        outcome.blocks += file->blocks.size();
      }
    }
    return outcome;
  }

  World world_;
  Network network_;
  Chance chance_;
  std::vector<std::unique_ptr<DataNode>> nodes_;
  NameNode name_node_;
  std::vector<std::unique_ptr<Process>> processes_;
  std::vector<std::unique_ptr<Journal>> journals_;
  std::uint64_t faults_ = 0;
};

}  // namespace

Outcome run_seed(std::uint64_t seed, World::Trace trace) {
  // After a breach programs are left where they wait, with all that they hold.
  auto run = std::make_unique<Run>(seed, trace);
  Outcome outcome = run->play();
  if (!outcome.breach.empty()) static_cast<void>(run.release());
  return outcome;
}

}  // namespace hflush::sim
