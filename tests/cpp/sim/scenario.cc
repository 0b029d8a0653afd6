#include "sim/scenario.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "hflush/env/host.h"
#include "hflush/env/interrupt.h"
#include "hflush/hdfs/client.h"
#include "hflush/hdfs/open_for_write.h"
#include "hflush/hdfs/read/hdfs_source.h"
#include "hflush/hdfs/read/read_context.h"
#include "hflush/stream/source.h"
#include "sim/balancer.h"
#include "sim/callers.h"
#include "sim/content.h"
#include "sim/data_node.h"
#include "sim/faults.h"
#include "sim/journal.h"
#include "sim/name_node.h"
#include "sim/name_space.h"
#include "sim/network.h"
#include "sim/promises.h"
#include "sim/sim_connector.h"
#include "sim/sim_loop.h"
#include "sim/texts.h"

namespace hflush::sim {
namespace {

using namespace std::chrono_literals;  // NOLINT(google-build-using-namespace)
using stream::OutputStream;

// What must hold at any time is looked at so often.
constexpr std::uint64_t kStepsBetweenLooks = 61;

// A run with more blocks takes long, and shows nothing new.
constexpr std::uint64_t kBlocksOfAWrite = 40;

// Numbers of processes beside the writers.
constexpr std::uint64_t kRival = 50;
constexpr std::uint64_t kReader = 51;
constexpr std::uint64_t kHeir = 60;

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

class Run final : public DataNode::Cluster {
 public:
  Run(std::uint64_t seed, World::Trace trace)
      : world_(seed, trace),
        network_(world_),
        chance_(seed, "run"),
        nodes_(make_nodes()),
        hard_limit_(chance_.one_in(2) ? Duration(20min) : Duration(3min)),
        space_(world_, network_, nodes_, hard_limit_),
        name_nodes_(world_, network_, space_, chance_.one_in(2) ? 2 : 1),
        faults_(world_, network_, nodes_, name_nodes_),
        balancer_(world_, network_, nodes_, space_),
        promises_(world_, space_, faults_, texts_) {}

  Outcome play() {
    const std::uint64_t clients = chance_.between(1, 3);
    std::vector<std::string> hosts;
    for (std::uint64_t i = 1; i <= clients; ++i) hosts.push_back(start_client(i));
    if (chance_.one_in(3)) start_rival();
    if (chance_.one_in(2)) start_reader();
    faults_.on_death = [this](const std::string& host) { start_heir(host); };
    if (!chance_.one_in(3)) faults_.plan(hosts);
    balancer_.plan();
    world_.watch([this] {
      if (world_.steps() % kStepsBetweenLooks != 0) return;
      promises_.look(journals_);
      for (const auto& node : nodes_) node->check();
    });
    world_.run([this] { return world_.is_idle(); });
    if (world_.breached().empty()) check_end();
    if (world_.breached().empty() && chance_.one_in(2)) lose_power();
    return outcome();
  }

 private:
  // One process that writes.
  struct Process {
    Process(World& world, Network& network, std::uint64_t number, const std::string& at)
        : host(at),
          name("client-" + std::to_string(number)),
          loop(world, network, host),
          threads(world),
          connector(world, network, host),
          chance(world.seed(), host) {}
    const std::string host;
    const std::string name;
    SimLoop loop;
    NoThreads threads;
    SimConnector connector;
    Chance chance;
    std::shared_ptr<hdfs::Client> client;
    bool goes_on_with_fewer = false;  // than the file's replicas
    int recovery_retries = 0;
    std::uint64_t programs = 0;
    std::uint64_t files = 0;
  };

  // --- the cluster

  DataNode* node_at(const std::string& ip) override {
    const auto found =
        std::ranges::find_if(nodes_, [&](const auto& node) { return node->ip() == ip; });
    return found == nodes_.end() ? nullptr : found->get();
  }
  bool accepts(std::uint64_t block, std::uint64_t place, std::string_view bytes) override {
    const NameSpace::File* const file = space_.file_of_block(block);
    return file != nullptr &&
           texts_.accept(file_number(file->path), file->start_of(block) + place, bytes);
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

  std::vector<std::unique_ptr<DataNode>> make_nodes() {
    std::vector<std::unique_ptr<DataNode>> nodes;
    const int count = static_cast<int>(chance_.between(1, 5));
    for (int i = 1; i <= count; ++i) {
      nodes.push_back(std::make_unique<DataNode>(world_, network_, *this, i));
    }
    return nodes;
  }

  static std::string path_of(std::uint64_t number) { return "/file-" + std::to_string(number); }
  static std::uint64_t file_number(const std::string& path) {
    return std::stoull(path.substr(path.rfind('-') + 1));
  }

  // --- processes

  Process& make_process(std::uint64_t number) {
    const std::string host = "10.0.2." + std::to_string(number);
    return *processes_.emplace_back(std::make_unique<Process>(world_, network_, number, host));
  }

  // Runs `body` in the process, which has a client while one of these runs.
  void start_program(Process& process, std::function<void(hdfs::Client&)> body) {
    ++process.programs;
    world_.start([this, &process, body = std::move(body)] {
      if (!process.client) {
        auto made = hdfs::Client::make(settings(process), {.loop = process.loop,
                                                           .resolver = process.threads,
                                                           .randomness = process.chance,
                                                           .connector = process.connector,
                                                           .is_local = [](const std::string& ip) {
                                                             return ip == "10.0.0.1";
                                                           }});
        world_.require(made.ok(), "no client: ", made.status().message());
        if (!made.ok()) return;
        process.client = *std::move(made);
      }
      body(*process.client);
      if (--process.programs == 0) process.client.reset();
    });
  }

  hdfs::Settings settings(Process& process) const {
    Chance& chance = process.chance;
    hdfs::Settings settings;
    settings.user = "alice";
    settings.client_name = process.name;
    settings.name_nodes = name_nodes_.endpoints();
    settings.service = settings.name_nodes.front().to_string();
    settings.lease_hard_limit = hard_limit_;
    hdfs::WriteSettings& write = settings.write;
    write.bytes_per_checksum = static_cast<std::uint32_t>(1) << chance.between(4, 9);
    write.packet_size = static_cast<std::uint32_t>(chance.between(100, 4096));
    write.max_packets_in_flight = static_cast<std::uint32_t>(chance.between(1, 20));
    write.block_size =
        write.bytes_per_checksum * chance.between(1, 1 + 16384 / write.bytes_per_checksum);
    write.replication = static_cast<std::uint32_t>(chance.between(1, 3));
    write.recover_lease_on_close_failure = chance.one_in(4);
    write.replacement_best_effort = chance.one_in(2);
    process.goes_on_with_fewer = write.replacement_best_effort;
    Chance limits(world_.seed(), process.host + " limits");
    if (limits.one_in(2)) write.pipeline_recovery_retries = 1;
    if (limits.one_in(4)) write.silence_probe = {};
    process.recovery_retries = write.pipeline_recovery_retries;
    return settings;
  }

  std::string start_client(std::uint64_t number) {
    Process& process = make_process(number);
    const std::uint64_t programs = process.chance.one_in(4) ? process.chance.between(2, 3) : 1;
    for (std::uint64_t i = 0; i < programs; ++i) {
      start_program(process, [this, &process, number](hdfs::Client& client) {
        const std::uint64_t files = process.chance.between(1, 3);
        for (std::uint64_t j = 0; j < files; ++j) {
          const std::string path = path_of(number * 100 + ++process.files);
          write_file(process, client, path);
          while (process.chance.one_in(3)) append(process, client, path);
        }
      });
    }
    return process.host;
  }

  // Tries to write files that others write.
  void start_rival() {
    Process& process = make_process(kRival);
    start_program(process, [this, &process](hdfs::Client& client) {
      for (int i = 0; i < 3; ++i) {
        world_.clock().sleep_until(world_.now() + process.chance.up_to(i == 0 ? 5ms : 20s));
        if (journals_.empty()) continue;
        const Journal& journal = *process.chance.one_of(journals_);
        if (journal.session > 0) rival(process, client, journal);
      }
    });
  }

  void rival(Process& process, hdfs::Client& client, const Journal& journal) {
    hdfs::CreateOptions options;
    options.overwrite = false;
    env::Uninterrupted interrupt(world_.clock());
    const std::string path = journal.path;
    world_.note(process.name, " wants ", path);
    const auto created = hdfs::create(client, path, options, interrupt);
    world_.require(!created.ok(), path, " is given to a second writer");
    if (!created.ok()) world_.note(process.name, ": ", created.status().to_string());
  }

  // Reads files that are written meanwhile.
  void start_reader() {
    Process& process = make_process(kReader);
    start_program(process, [this, &process](hdfs::Client& client) {
      for (int i = 0; i < 6; ++i) {
        world_.clock().sleep_until(world_.now() + process.chance.up_to(i < 3 ? 20ms : 10s));
        if (journals_.empty()) continue;
        const Journal& journal = *process.chance.one_of(journals_);
        if (journal.session > 0) read(process, client, journal.path);
      }
    });
  }

  void read(Process& process, hdfs::Client& client, const std::string& path) {
    env::Uninterrupted interrupt(world_.clock());
    const std::uint64_t promised = promises_.visible_length(journals_, path);
    world_.note(process.name, " opens ", path, ", which has ", promised, " bytes at least");
    const auto opened = hdfs::HdfsSource::open(client.read_context(), path, true, interrupt);
    if (!opened.ok()) {
      // The length of a block that is being written is what its nodes say, while they are set up.
      world_.note(path, " is not opened: ", opened.status().to_string());
      world_.require(faults_.any(), path, " is not opened: ", opened.status().to_string());
      return;
    }
    stream::Source& source = **opened;
    const auto length = source.length();
    if (!length.ok()) return not_read(path, promised, promised, length.status());
    const std::uint64_t left = std::min(promised, promises_.visible_length(journals_, path));
    world_.require(*length >= left, process.name, " sees ", *length, " bytes of ", path, ", ", left,
                   " are promised");
    std::string bytes(process.chance.between(1, 30000), '\0');
    const bool is_careful = process.chance.one_in(2);  // no read goes beyond what was promised
    for (std::uint64_t at = process.chance.below(*length + 1); at < *length;) {
      const std::uint64_t end = is_careful && at < promised ? promised : *length;
      const std::size_t wanted = std::min<std::uint64_t>(bytes.size(), end - at);
      const auto size =
          source.read_at(at, std::as_writable_bytes(std::span(bytes).first(wanted)), interrupt);
      if (!size.ok()) return not_read(path, promised, at + wanted, size.status());
      world_.require(texts_.at(file_number(path), at, *size) == bytes.substr(0, *size),
                     process.name, " reads wrong bytes of ", path, " at ", at);
      if (*size == 0) break;
      at += *size;
      // What it knows of the replicas becomes old.
      const bool rests = process.chance.one_in(4);
      if (rests) world_.clock().sleep_until(world_.now() + process.chance.up_to(3s));
    }
    world_.note(process.name, " has read ", path, " of ", *length);
  }

  // Bytes beyond those that were promised at the beginning may be gone, with their block: nobody
  // had acknowledged them. `end` of what was asked for.
  void not_read(const std::string& path, std::uint64_t promised, std::uint64_t end,
                const Status& status) {
    world_.note(path, " is not read up to ", end, ": ", status.to_string());
    const std::uint64_t left = std::min(promised, promises_.visible_length(journals_, path));
    world_.require(end > left || !read_excuse(path).empty(), path,
                   " is not read: ", status.to_string());
  }

  // Why a file may not be read: each byte is as long as one good replica has it.
  std::string_view read_excuse(const std::string& path) const {
    if (name_nodes_.hits() > 0) return "the NameNode did not answer";
    const NameSpace::File& file = *space_.find(path);
    if (file.recoveries > 0) return "it was recovered, and may be shorter";
    for (const NameSpace::Block& block : file.blocks) {
      const bool is_complete = block.state == NameSpace::Block::State::kComplete;
      if (!any_good(is_complete ? block.reported : block.pipeline)) {
        return "no good DataNode has a block";
      }
    }
    return {};
  }

  bool any_good(const std::vector<DataNode*>& some) const {
    return std::ranges::any_of(some,
                               [this](const DataNode* node) { return faults_.is_good(*node); });
  }

  // Takes the files of a client that has died.
  void start_heir(const std::string& host) {
    const std::string holder = process_at(host).name;
    Process& process = make_process(kHeir + processes_.size());
    start_program(process, [this, &process, holder](hdfs::Client& client) {
      world_.clock().sleep_until(world_.now() + process.chance.up_to(90s));
      for (std::size_t i = 0; i < journals_.size(); ++i) {
        const Journal& journal = *journals_[i];
        if (journal.holder != holder || journal.end == Journal::End::kPublished) continue;
        const std::string path = journal.path;
        if (recover(client, journal)) append(process, client, path);
      }
    });
  }

  Process& process_at(const std::string& host) {
    return **std::ranges::find_if(processes_, [&](const auto& one) { return one->host == host; });
  }

  // Whether the file is closed in the end.
  bool recover(hdfs::Client& client, const Journal& journal) {
    const std::string path = journal.path;
    world_.note(client.settings().client_name, " recovers ", path);
    env::Uninterrupted interrupt(world_.clock());
    for (int i = 0; i < 60; ++i) {
      const auto closed =
          i % 10 == 0 ? client.rpc().call(hdfs::RecoverLease{path, client.settings().client_name},
                                          path, interrupt)
                      : client.rpc().call(hdfs::IsFileClosed{path}, path, interrupt);
      if (closed.ok() && *closed) {
        promises_.check_survival(journal);
        return true;
      }
      world_.clock().sleep_until(world_.now() + 1s);
    }
    return false;
  }

  // --- writers

  Journal& new_journal(const Process& process, const std::string& path) {
    Journal& journal = *journals_.emplace_back(std::make_unique<Journal>());
    journal.file = file_number(path);
    journal.path = path;
    journal.holder = process.name;
    journal.host = process.host;
    return journal;
  }

  // Goes on where another stream has ended.
  void append(Process& process, hdfs::Client& client, const std::string& path) {
    const NameSpace::File* const before = space_.find(path);
    if (before == nullptr) return;
    const std::uint64_t seizures = before->seizures;  // another may come before the answer
    const bool was_closed = before->holder.empty();
    env::Uninterrupted interrupt(world_.clock());
    hdfs::AppendOptions options;
    options.new_block = process.chance.one_in(4);
    world_.note(process.name, " appends to ", path);
    auto opened = hdfs::append(client, path, options, interrupt);
    if (!opened.ok()) {
      world_.note(path, " is not appended to: ", opened.status().to_string());
      const bool is_closed = was_closed && space_.find(path)->holder.empty();
      world_.require(!is_closed || !append_excuse(process, client, path).empty(), path,
                     " is not appended to: ", opened.status().to_string());
      return;
    }
    Journal& journal = new_journal(process, path);
    const NameSpace::File* const file = space_.find(path);
    journal.session = file->sessions;
    journal.seizures = seizures;
    journal.block_size = file->block_size;
    journal.begin = (*opened)->position();
    journal.written = journal.begin;
    texts_.end_sharing(journal.file, journal.begin);
    for (const auto& other : journals_) {
      if (other->path != path || other.get() == &journal) continue;
      if (file->seizures != seizures) continue;  // what was promised since then is another's
      const std::uint64_t promised = file->left_of(
          faults_.any_power_cut() ? other->durable : other->acknowledged, other->session);
      world_.require(promised <= journal.begin, path, ": an append begins at ", journal.begin, ", ",
                     promised, " bytes are promised");
    }
    go_on(process, **opened, journal);
  }

  void write_file(Process& process, hdfs::Client& client, const std::string& path) {
    Journal& journal = new_journal(process, path);
    journal.block_size = client.settings().write.block_size;
    env::Uninterrupted interrupt(world_.clock());
    hdfs::CreateOptions options;
    options.sync_block = process.chance.one_in(8);
    options.update_length = process.chance.one_in(8);
    auto created = hdfs::create(client, journal.path, options, interrupt);
    if (!created.ok()) {
      world_.require(!open_excuse(process).empty(), journal.path,
                     " is not created: ", created.status().to_string());
      return failed(journal, created.status());
    }
    if (const NameSpace::File* const file = space_.find(journal.path))
      journal.session = file->sessions;
    Chance shares(world_.seed(), "shares of " + path);
    if (shares.one_in(6)) return share(process, **created, journal);
    go_on(process, **created, journal);
  }

  // Several callers write to it.
  void share(Process& process, OutputStream& stream, Journal& journal) {
    texts_.share(journal.file);
    const auto refused = [&](const Status& status, TimePoint began) {
      may_be_refused(process, journal, status, began);
    };
    const auto ended = [&] {
      const bool is_first = !journal.excuse && stream.state() == stream::State::kFailed;
      if (is_first) journal.excuse = excuse(process, journal);
    };
    Callers callers(world_, promises_, texts_, stream, journal, refused, ended);
    const std::optional<Status> closed = callers.run();
    if (!closed) {
      journal.end = Journal::End::kAbandoned;
    } else if (closed->ok()) {
      published(journal);
    } else {
      end_with_failure(process, stream, journal, *closed);
    }
  }

  void go_on(Process& process, OutputStream& stream, Journal& journal) {
    const std::uint64_t operations = process.chance.between(0, 40);
    for (std::uint64_t i = 0; i < operations; ++i) {
      const bool goes_on = operate(process, stream, journal);
      check_found_silent(process, stream, journal);
      if (!goes_on) {
        return end_with_failure(process, stream, journal, close(stream));
      }
      if (process.chance.one_in(200)) return abandon(stream, journal);
    }
    const Status closed = close(stream);
    check_found_silent(process, stream, journal);
    if (!closed.ok()) return end_with_failure(process, stream, journal, closed);
    published(journal);
  }

  void published(Journal& journal) {
    journal.end = Journal::End::kPublished;
    journal.acknowledged = journal.written;
    world_.note(journal.path, " is published with ", journal.written);
    promises_.check_published(journal);
  }

  Status close(OutputStream& stream) {
    env::Uninterrupted interrupt(world_.clock());
    return stream.close(interrupt);
  }

  void failed(Journal& journal, const Status& status) {
    world_.note(journal.path, " has failed: ", status.to_string());
    world_.require(!status.ok(), journal.path, " failed before, and its close hides it");
    journal.end = Journal::End::kFailed;
  }

  static std::int64_t recoveries(const OutputStream& stream) {
    return stream.statistics()["hdfs_pipeline_recoveries"];
  }

  void end_with_failure(Process& process, const OutputStream& stream, Journal& journal,
                        const Status& status) {
    failed(journal, status);
    if (status.message().find("broke again after") != std::string::npos) {
      const std::int64_t without_ack = recoveries(stream) - journal.recoveries_at_ack;
      world_.require(without_ack > process.recovery_retries, journal.path, " gives up after ",
                     without_ack, " recoveries since the last acknowledgement, at most");
      return;
    }
    const std::string_view why = journal.excuse.value_or(excuse(process, journal));
    world_.note(journal.path, " may fail: ", why);
    world_.require(!why.empty(), journal.path,
                   " fails although it could go on: ", status.to_string());
  }

  // Why a call of the NameNode may fail; empty: it may not.
  std::string_view call_excuse(const Process& process) const {
    if (faults_.is_dead(process.host)) return "its client is dead";
    if (faults_.partition(process.host) > 20s) return "its client was cut off";
    if (name_nodes_.bad_luck() > 2) return "a call was lost again and again";
    if (name_nodes_.outage() > 90s) return "there was no NameNode for too long";
    return {};
  }

  // Why a call that opens a file may fail: to the only NameNode it is not repeated.
  std::string_view open_excuse(const Process& process) const {
    if (!name_nodes_.are_two() && name_nodes_.hits() > 0) return "the NameNode did not answer";
    return call_excuse(process);
  }

  // Why a closed file may not be appended to. Sums go on as those of its last block, which a
  // DataNode says; without a block they are this client's.
  std::string_view append_excuse(const Process& process, const hdfs::Client& client,
                                 const std::string& path) const {
    const std::string_view of_calls = open_excuse(process);
    if (!of_calls.empty()) return of_calls;
    const NameSpace::File& file = *space_.find(path);
    const bool has_good_sums = file.block_size % client.settings().write.bytes_per_checksum == 0;
    if (file.blocks.empty()) return has_good_sums ? "" : "its blocks are no multiple of a chunk";
    // The others may not have reported it when the append was answered.
    const bool is_known = any_good(file.blocks.back().pipeline);
    return is_known ? "" : "no good DataNode was known to have its last block";
  }

  // Why a stream may fail; empty: it may not.
  std::string_view excuse(const Process& process, const Journal& journal) const {
    const std::string_view of_calls = call_excuse(process);
    if (!of_calls.empty()) return of_calls;
    // It waits 5 s longer for each DataNode behind the one that waits, but not for when that began.
    if (faults_.partition(process.host) > 4s && faults_.hit_nodes() > 0) {
      return "its client was cut off, and then blames a good DataNode for another's silence";
    }
    if (faults_.any_damage()) return "damage, for which others are blamed";
    const NameSpace::File* const file = space_.find(journal.path);
    if (file == nullptr || file->sessions != journal.session) return "the file is another's";
    if (file->seizures != journal.seizures) return "another client has taken the file";
    if (file->has_lost_block) return "no DataNode of its pipeline was good";
    std::size_t good = 0;
    for (const auto& node : nodes_) good += faults_.is_good(*node) ? 1U : 0U;
    // dfs.client.block.write.retries. An addBlock that was executed late has made a block on nodes
    // that may have failed since, and the next one is given that block.
    const std::size_t may_fail = faults_.hit_nodes() + (name_nodes_.hits() > 0 ? 1U : 0U);
    if (good == 0 || may_fail > 3) return "no DataNode is good";
    for (const NameSpace::Block& block : file->blocks) {
      std::size_t left = 0;
      for (const DataNode* const node : block.pipeline) left += faults_.is_good(*node) ? 1U : 0U;
      if (left == 0) return "no DataNode of its pipeline is good";
      const bool may_want_another = file->replication >= 3 && !process.goes_on_with_fewer;
      const bool is_short = good < file->replication || faults_.hit_nodes() > 2;
      if (may_want_another && is_short && !faults_.is_one_upgrade()) {
        return "no other DataNode";
      }
    }
    return {};
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
    const TimePoint began = world_.now();
    Status status;
    const std::uint64_t kind = chance.below(12);
    if (kind < 6) {
      static constexpr std::uint64_t kSizes[] = {1, 20, 300, 2000, 20000};
      const std::uint64_t most =
          std::min(chance.one_of(kSizes), kBlocksOfAWrite * journal.block_size);
      const std::string bytes = content(journal.file, journal.written, chance.between(1, most));
      world_.note(journal.path, " write ", bytes.size(), " at ", journal.written);
      const ByteView data = as_bytes(bytes);
      if (!stream.try_write(data)) status = stream.write(data, interrupt);
      if (status.ok()) {
        journal.written += bytes.size();
        journal.recoveries_at_write = recoveries(stream);
      }
    } else if (kind < 8) {
      status = sync(process, stream, journal, Sync::kHflush, interrupt);
    } else if (kind < 9) {
      status = sync(process, stream, journal,
                    chance.one_in(4) ? Sync::kHsyncAndEndBlock : Sync::kHsync, interrupt);
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
    if (stream.state() != stream::State::kOpen) return false;
    may_be_refused(process, journal, status, began);
    return true;
  }

  // A refused hsync of earlier blocks breaks nothing. While it was under way a balancer may have
  // deleted each replica that the NameNode had listed for it.
  void may_be_refused(const Process& process, const Journal& journal, const Status& status,
                      TimePoint began) {
    const NameSpace::File* const file = space_.find(journal.path);
    const bool is_moved =
        file != nullptr && std::ranges::any_of(file->blocks, [&](const auto& one) {
          return one.last_deletion >= began;
        });
    const bool may_fail =
        faults_.any_of_data_nodes() || is_moved || !excuse(process, journal).empty();
    world_.require(may_fail, journal.path, " is not synced: ", status.to_string());
  }

  enum class Sync : std::uint8_t { kHflush, kHsync, kHsyncAndEndBlock };

  Status sync(const Process& process, OutputStream& stream, Journal& journal, Sync kind,
              env::Interrupt& interrupt) {
    const bool durable = kind != Sync::kHflush;
    const std::string_view name = durable ? "hsync" : "hflush";
    world_.note(journal.path, " ", name, " at ", journal.written,
                kind == Sync::kHsyncAndEndBlock ? ", and the block ends" : "");
    if (durable) journal.hsync_begins(journal.written, world_.now());
    Status status;
    switch (kind) {
      case Sync::kHflush:
        status = stream.hflush(interrupt);
        break;
      case Sync::kHsync:
        status = stream.hsync(interrupt);
        break;
      case Sync::kHsyncAndEndBlock:
        journal.ends_blocks = true;
        status = stream.hsync_and_end_block(interrupt);
        break;
    }
    if (!status.ok()) return status;
    world_.note(journal.path, " ", name, " of ", journal.written, " returns");
    if (journal.written > journal.acknowledged) {
      journal.recoveries_at_ack = journal.recoveries_at_write;
    }
    journal.acknowledged = journal.written;
    if (durable && journal.written > journal.begin) journal.durable = journal.written;
    promises_.check_kept(journal);
    check_lease(process, journal);
    return status;
  }

  // A client renews the lease of a stream that goes on, whatever happens to its pipeline.
  void check_lease(const Process& process, const Journal& journal) {
    const NameSpace::File* const file = space_.find(journal.path);
    const bool is_its_own = file != nullptr && file->holder == journal.holder;
    const bool has_name_node = name_nodes_.hits() == 0 && name_nodes_.outage() == Duration{};
    const bool is_there =
        !faults_.is_dead(process.host) && faults_.partition(process.host) == Duration{};
    if (!is_its_own || !has_name_node || !is_there) return;
    const std::optional<TimePoint> renewed = space_.renewed(journal.holder);
    world_.require(renewed && world_.now() - *renewed <= NameSpace::kSoftLimit, "the lease of ",
                   journal.path, " is not renewed");
  }

  // --- what must hold

  // Only a node to which something has happened is found silent by its answers, however slow the
  // others are. A client that is cut off for a while hears some of them before others.
  void check_found_silent(const Process& process, const OutputStream& stream,
                          const Journal& journal) {
    const auto statistics = stream.statistics();
    world_.require(
        statistics.at("hdfs_datanodes_found_silent") <= statistics.at("hdfs_silence_probes"),
        journal.path, ": two DataNodes are blamed in one round");
    if (faults_.is_dead(process.host) || faults_.partition(process.host) > Duration{}) return;
    if (faults_.may_hide_reset()) return;
    for (const stream::PastEvent& event : stream.history()) {
      if (event.what.find("getReplicaVisibleLength") == std::string::npos) continue;
      const bool is_good = std::ranges::any_of(nodes_, [&](const auto& node) {
        return faults_.is_good(*node) &&
               event.what.starts_with("DataNode " + node->info().transfer_address() + " ");
      });
      world_.require(!is_good, journal.path, ": a good node is blamed: ", event.what);
    }
  }

  void check_end() {
    for (const auto& process : processes_) {
      const std::string& host = process->loop.host();
      world_.require(network_.open_ends(host) == 0, host, " has ", network_.open_ends(host),
                     " open connections at its end");
      world_.require(process->loop.timers() == 0, host, " has ", process->loop.timers(),
                     " timers at its end");
    }
    promises_.check_rest();
    for (const auto& journal : journals_) {
      world_.require(journal->end != Journal::End::kOpen, journal->path, " has no end");
      if (journal->end == Journal::End::kPublished) {
        promises_.check_published(*journal);
      } else {
        // A failure may also be what is heard of a success: then all of it is there.
        promises_.check_survival(*journal);
      }
    }
  }

  // Every machine at once. What hsync has acknowledged is there when all are back, and all files
  // are recovered.
  void lose_power() {
    promises_.remember_unsynced(journals_);
    faults_.cut_all_power();
    world_.run([this] { return world_.is_idle(); });
    space_.recover_all();
    world_.run([this] { return world_.is_idle(); });
    if (!world_.breached().empty()) return;
    for (const auto& journal : journals_) {
      if (space_.find(journal->path) != nullptr) promises_.check_durable(*journal);
    }
  }

  Outcome outcome() {
    Outcome outcome;
    outcome.seed = world_.seed();
    outcome.breach = world_.breached();
    outcome.digest = world_.digest();
    outcome.trace = world_.text();
    outcome.steps = world_.steps();
    outcome.faults = faults_.count() + name_nodes_.hits();
    for (const auto& journal : journals_) {
      ++outcome.streams;
      outcome.acknowledged_bytes += journal->acknowledged;
      if (journal->end == Journal::End::kPublished) ++outcome.published;
      if (journal->end == Journal::End::kFailed) ++outcome.failed;
      if (journal->end == Journal::End::kAbandoned) ++outcome.abandoned;
      if (const NameSpace::File* const file = space_.find(journal->path)) {
        outcome.blocks += file->blocks.size();
      }
    }
    return outcome;
  }

  World world_;
  Network network_;
  Chance chance_;
  std::vector<std::unique_ptr<DataNode>> nodes_;
  const Duration hard_limit_;
  NameSpace space_;
  NameNodes name_nodes_;
  Faults faults_;
  Balancer balancer_;
  Texts texts_;
  Promises promises_;
  std::vector<std::unique_ptr<Process>> processes_;
  std::vector<std::unique_ptr<Journal>> journals_;
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
