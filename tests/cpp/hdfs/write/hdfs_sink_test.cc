// The sink below a real output stream, over sockets, against a cluster that does what the test
// says.
#include "hflush/hdfs/write/hdfs_sink.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "hdfs/writable_cluster.h"
#include "hflush/base/mutex.h"
#include "hflush/env/process.h"
#include "hflush/stream/output_stream.h"
#include "testing/bytes.h"
#include "testing/no_descriptors.h"

namespace hflush::hdfs {
namespace {

using namespace std::chrono_literals;  // NOLINT(google-build-using-namespace)
using hflush::testing::NoDescriptors;
using hflush::testing::pattern;
using stream::OutputStream;
using testing::eventually;
using testing::WritableDatanode;
using testing::WrittenReplica;

// Gives up when the test says so.
class Impatient final : public env::Interrupt {
 public:
  std::atomic<bool> enough{false};

 private:
  Status check() override {
    return enough ? Status(StatusCode::kInterrupted, "interrupted") : Status();
  }
};

// What the DataNodes of a pipeline are asked beside it, and what they answer: a length, or nothing.
class Questions {
 public:
  AskVisibleLength asker() {
    return
        [this](const DatanodeInfo& /*node*/, const ExtendedBlock& /*block*/, const Token& /*token*/,
               const std::function<void(Result<std::int64_t>)>& answered) {
          const auto under_way = std::make_shared<int>();
          std::optional<std::int64_t> length;
          {
            const MutexLock lock(mutex_);
            questions_.emplace_back(under_way);
            length = length_;
          }
          if (length) answered(*length);
          return under_way;
        };
  }
  void answer(std::int64_t length) {
    const MutexLock lock(mutex_);
    length_ = length;
  }
  std::size_t count() {
    const MutexLock lock(mutex_);
    return questions_.size();
  }
  bool any_is_under_way() {
    const MutexLock lock(mutex_);
    return !std::ranges::all_of(questions_, &std::weak_ptr<int>::expired);
  }

 private:
  Mutex mutex_;
  std::vector<std::weak_ptr<int>> questions_ HFLUSH_GUARDED_BY(mutex_);
  std::optional<std::int64_t> length_ HFLUSH_GUARDED_BY(mutex_);
};

class Cluster {
 public:
  Cluster() { name_node_->offer({datanode.node()}); }

  WriteTarget target() const {
    WriteTarget target;
    target.path = "/f";
    target.file_id = 7;
    target.client_name = "C1";
    target.block_size = 1U << 20U;
    return target;
  }
  std::unique_ptr<OutputStream> open(const WriteTarget& target) {
    auto sink = std::make_unique<HdfsSink>(
        WriteContext{name_node_, loop(), env::Process::current().resolver(), *name_node_, *leases_,
                     settings, asker_},
        target, "");
    return std::make_unique<OutputStream>(target.path, std::move(sink),
                                          env::Process::current().buffers(), env::steady_clock());
  }
  std::unique_ptr<OutputStream> open() { return open(target()); }

  // What is in the file by now.
  std::vector<std::byte> content() {
    std::vector<std::byte> bytes;
    for (const std::uint64_t id : name_node_->blocks()) {
      const WrittenReplica replica = datanode.replica(id);
      bytes.insert(bytes.end(), replica.bytes.begin(), replica.bytes.end());
    }
    return bytes;
  }
  static env::EventLoop& loop() { return env::Process::current().loop(); }
  testing::WritableNameNode& name_node() { return *name_node_; }
  testing::CountingRenewer& leases() { return *leases_; }

  WriteSettings settings;
  Questions questions;
  WritableDatanode datanode;

 private:
  std::shared_ptr<testing::WritableNameNode> name_node_ =
      std::make_shared<testing::WritableNameNode>(loop());
  std::shared_ptr<testing::CountingRenewer> leases_ = std::make_shared<testing::CountingRenewer>();
  const AskVisibleLength asker_ = questions.asker();
};

TEST_CASE("geometry: packets of whole chunks that fit, a window of 80 of them") {
  WriteTarget target;
  target.block_size = 128U << 20U;
  const stream::Geometry usual = write_geometry(target, {});
  CHECK(usual.packet_bytes == 126 * 512);
  CHECK(usual.window_bytes == 80 * 126 * 512);
  CHECK(usual.block_bytes == 128U << 20U);
  for (const std::uint32_t packet_size : {1U, 33U, 549U, 550U, 65536U, 1U << 30U}) {
    for (const std::uint32_t chunk : {1U, 512U, 400U, 65536U, 1U << 20U}) {
      for (const std::uint32_t packets : {1U, 2U, 80U}) {
        CAPTURE(packet_size);
        CAPTURE(chunk);
        WriteSettings settings;
        settings.packet_size = packet_size;
        settings.max_packets_in_flight = packets;
        target.bytes_per_checksum = chunk;
        target.block_size = std::uint64_t{16} * chunk;
        const stream::Geometry geometry = write_geometry(target, settings);
        CHECK(geometry.valid());
        const std::size_t chunks = geometry.packet_bytes / chunk;
        const std::size_t wire = PacketHeader::kMaxSize + chunks * (chunk + 4);
        if (chunks > 1) CHECK(wire <= std::min(packet_size, settings.max_packet_size));
      }
    }
  }
}

TEST_CASE("what is written is what arrives, whatever the pieces and the flushes") {
  Cluster cluster;
  env::Uninterrupted none;
  const auto data = pattern(5'000'000);
  for (const std::size_t piece : {700U, 64512U, 1U << 20U, 5'000'000U}) {
    CAPTURE(piece);
    Cluster fresh;
    const auto stream = fresh.open();
    CHECK(fresh.leases().open() == 1);
    std::size_t done = 0;
    for (int i = 0; done < data.size(); ++i) {
      const std::size_t count = std::min(piece, data.size() - done);
      REQUIRE(stream->write(ByteView(data).subspan(done, count), none).ok());
      done += count;
      if (i % 997 == 3) {
        REQUIRE(stream->hflush(none).ok());
        CHECK(fresh.content().size() == done);
      }
      if (i % 1009 == 5) REQUIRE(stream->flush(none).ok());
    }
    REQUIRE(stream->close(none).ok());
    CHECK(fresh.content() == data);
    CHECK(fresh.leases().open() == 0);
    CHECK(fresh.name_node().count("complete") == 1);
    CHECK(fresh.name_node().count("addBlock") == 5);
    const Statistics statistics = stream->statistics();
    CHECK(statistics.at("hdfs_blocks") == 5);
    CHECK(statistics.at("hdfs_acks") == statistics.at("hdfs_packets_sent"));
    CHECK(statistics.at("hdfs_ack_latency.samples") == statistics.at("hdfs_acks"));
    CHECK(eventually([&] { return fresh.datanode.open_connections() == 0; }));
  }
}

TEST_CASE("packets obey the alignment rule of a DataNode whether there are sums or not") {
  env::Uninterrupted none;
  const auto data = pattern(2'000'000);
  for (const crc::Kind kind : {crc::Kind::kNone, crc::Kind::kCrc32c}) {
    Cluster cluster;
    std::atomic<int> unaligned = 0;
    cluster.datanode.follow([&](const PacketHeader& header) {
      const std::uint64_t into_chunk = header.offset_in_block % 512;
      if (into_chunk != 0 && header.data_size > 512 - into_chunk) ++unaligned;
      return WritableDatanode::Deed::kAcknowledge;
    });
    WriteTarget target = cluster.target();
    target.checksum = kind;
    const auto stream = cluster.open(target);
    std::size_t done = 0;
    for (const std::size_t piece : {100U, 1U, 20'000U, 411U, 101U, 600'000U, 1'379'387U}) {
      REQUIRE(stream->write(ByteView(data).subspan(done, piece), none).ok());
      done += piece;
      if (piece < 20'001) REQUIRE(stream->hflush(none).ok());
    }
    REQUIRE(done == data.size());
    REQUIRE(stream->close(none).ok());
    CHECK(cluster.content() == data);
    CHECK(unaligned == 0);
  }
}

TEST_CASE("HFLUSH-4, HFLUSH-12: a flush waits for the ack; an interrupt breaks nothing") {
  Cluster cluster;
  env::Uninterrupted none;
  const auto stream = cluster.open();
  cluster.datanode.hold_acks(true);
  REQUIRE(stream->write(pattern(1000), none).ok());
  Impatient impatient;
  impatient.enough = true;
  CHECK(stream->hflush(impatient).code() == StatusCode::kInterrupted);
  CHECK(stream->state() == stream::State::kOpen);
  cluster.datanode.hold_acks(false);
  CHECK(stream->hflush(none).ok());
  CHECK(cluster.content() == pattern(1000));
  CHECK(cluster.name_node().count("fsync") == 1);
  CHECK(stream->close(none).ok());
}

TEST_CASE("abandon: nothing more is sent, published, renewed or waited for") {
  Cluster cluster;
  env::Uninterrupted none;
  auto stream = cluster.open();
  SUBCASE("acks are outstanding") {
    cluster.datanode.hold_acks(true);
    REQUIRE(stream->write(pattern(3'000'000), none).ok());
    REQUIRE(stream->flush(none).ok());
    CHECK(eventually([&] { return cluster.datanode.packets() > 0; }));
  }
  SUBCASE("the NameNode does not answer") {
    cluster.name_node().hold("addBlock");
    REQUIRE(stream->write(pattern(100'000), none).ok());
    REQUIRE(stream->flush(none).ok());
    CHECK(eventually([&] { return cluster.name_node().held() == 1; }));
  }
  SUBCASE("complete is under way") {
    cluster.name_node().hold("complete");
    Impatient impatient;
    impatient.enough = true;
    CHECK(stream->close(impatient).code() == StatusCode::kInterrupted);
    CHECK(cluster.name_node().held() == 0);
  }
  SUBCASE("nothing was written") {}
  stream.reset();
  CHECK(cluster.leases().open() == 0);
  CHECK(cluster.name_node().held() == 0);
  cluster.datanode.hold_acks(false);
  CHECK(eventually([&] { return cluster.datanode.open_connections() == 0; }));
  CHECK(cluster.name_node().count("complete") <= 1);
  // Nothing on the loop keeps the sink.
  CHECK(eventually([&] { return cluster.leases().holder() == nullptr; }));
}

TEST_CASE("a pipeline that dies ends the stream with the node, the block and the numbers") {
  Cluster cluster;
  cluster.settings.pipeline_recovery_retries = 0;  // else it is tried again
  env::Uninterrupted none;
  const auto stream = cluster.open();
  WritableDatanode::Deed deed = WritableDatanode::Deed::kDie;
  std::string_view what;
  SUBCASE("it closes the connection") { what = "is lost"; }
  SUBCASE("it complains without end") {
    deed = WritableDatanode::Deed::kComplain;
    what = "answered [SUCCESS, ERROR] to packet -2";
  }
  SUBCASE("it talks nonsense") {
    deed = WritableDatanode::Deed::kTalkNonsense;
    what = "is lost";
  }
  cluster.datanode.follow([deed](const PacketHeader& header) {
    return header.sequence_number == 3 ? deed : WritableDatanode::Deed::kAcknowledge;
  });
  REQUIRE(stream->write(pattern(180'000), none).ok());
  REQUIRE(stream->hflush(none).ok());
  Status failed = stream->write(pattern(100'000), none);
  if (failed.ok()) failed = stream->hflush(none);
  CHECK(failed.code() == StatusCode::kPipeline);
  CHECK(failed.path() == "/f");
  CAPTURE(failed.to_string());
  CHECK(failed.message().find(what) != std::string::npos);
  const auto* const story = failed.detail<WriteFailure>();
  REQUIRE(story != nullptr);
  REQUIRE(story->failed_nodes.size() == 1);
  CHECK(story->failed_nodes[0].address == cluster.datanode.node().transfer_address());
  CHECK(story->failed_nodes[0].reason.find(what) != std::string::npos);
  CHECK(story->failed_nodes[0].offset >= 180'000);
  CHECK(story->failed_nodes[0].offset == story->acknowledged);
  CHECK(story->block == "blk_100_1100");
  CHECK(story->generation_stamps == std::vector<std::uint64_t>{1100});
  const auto says = [&](std::string_view text) {
    return std::ranges::any_of(story->history, [&](const stream::PastEvent& event) {
      return event.what.find(text) != std::string::npos;
    });
  };
  CHECK(says("allocating; 0 bytes acknowledged"));
  CHECK(says("connecting to DataNode " + story->failed_nodes[0].address));
  CHECK(says("writing blk_100_1100: streaming"));
  CHECK(says("DataNode " + story->failed_nodes[0].address + " (number 1 of its pipeline) " +
             story->failed_nodes[0].reason));
  CHECK(failed.message().starts_with(story->history.back().what));
  CHECK(stream->history().size() >= story->history.size());
  CHECK(failed.message().find("blk_100_1100, ") != std::string::npos);
  CHECK(failed.message().find("bytes acknowledged") != std::string::npos);
  CHECK(stream->write(pattern(1), none).code() == StatusCode::kClosed);
  CHECK_FALSE(stream->close(none).ok());
  CHECK(stream->close(none).ok());
  CHECK(cluster.leases().open() == 0);
  CHECK(cluster.name_node().count("complete") == 0);
  CHECK(eventually([&] { return cluster.datanode.open_connections() == 0; }));
}

TEST_CASE("a DataNode of a silent pipeline is asked, and blamed by what it answers") {
  Cluster cluster;
  cluster.settings.silence_probe = 20ms;
  cluster.settings.pipeline_recovery_retries = 0;  // else it is tried again
  env::Uninterrupted none;
  auto stream = cluster.open();
  cluster.datanode.follow([](const PacketHeader& header) {
    return header.sequence_number > 0 ? WritableDatanode::Deed::kSayNothing
                                      : WritableDatanode::Deed::kAcknowledge;
  });
  REQUIRE(stream->write(pattern(1000), none).ok());
  REQUIRE(stream->hflush(none).ok());
  SUBCASE("it has acknowledged what is waited for: the acks are lost") {
    cluster.questions.answer(2000);
    REQUIRE(stream->write(pattern(1000), none).ok());
    const Status failed = stream->hflush(none);
    const auto* const story = failed.detail<WriteFailure>();
    REQUIRE(story != nullptr);
    REQUIRE(story->failed_nodes.size() == 1);
    CHECK(story->failed_nodes[0].reason.starts_with("is lost: it has acknowledged what this"));
    CHECK(std::ranges::any_of(story->history, [](const stream::PastEvent& event) {
      return event.what.starts_with("asking DataNodes about blk_100_1100");
    }));
    // Two questions; where this machine was late for the second one, it is another probe's.
    const auto probes = static_cast<std::size_t>(stream->statistics().at("hdfs_silence_probes"));
    CHECK(probes >= 1);
    CHECK(cluster.questions.count() > probes);
    CHECK(cluster.questions.count() <= 2 * probes);
    CHECK(stream->statistics().at("hdfs_datanodes_found_silent") == 1);
  }
  SUBCASE("it says nothing, and is the only one: the wait goes on, until the stream is dropped") {
    REQUIRE(stream->write(pattern(1000), none).ok());
    REQUIRE(stream->flush(none).ok());
    CHECK(eventually([&] { return cluster.questions.count() > 2; }));
    CHECK(cluster.questions.any_is_under_way());
    CHECK(stream->state() == stream::State::kOpen);
    stream.reset();
  }
  CHECK_FALSE(cluster.questions.any_is_under_way());
}

TEST_CASE("HDFS-11: a node that takes no connection is replaced before any byte is lost") {
  Cluster cluster;
  env::Uninterrupted none;
  DatanodeInfo refusing;
  {
    WritableDatanode gone;
    refusing = gone.node();
  }
  const auto stream = cluster.open();
  SUBCASE("a better one is found") {
    cluster.name_node().offer({refusing, refusing, cluster.datanode.node()});
    REQUIRE(stream->write(pattern(70'000), none).ok());
    CHECK(stream->hflush(none).ok());
    CHECK(stream->statistics().at("hdfs_block_retries") == 2);
    CHECK(stream->close(none).ok());
    CHECK(cluster.content() == pattern(70'000));
    CHECK(cluster.name_node().count("abandonBlock") == 2);
  }
  SUBCASE("none is") {
    cluster.name_node().offer({refusing});
    REQUIRE(stream->write(pattern(10), none).ok());
    const Status failed = stream->hflush(none);
    CHECK(failed.message().find("unable to create new block after 4 attempts") !=
          std::string::npos);
    CHECK(failed.message().find("refused") != std::string::npos);
    CHECK(cluster.name_node().blocks().empty());
  }
}

TEST_CASE("a process without descriptors waits for one, and blames no DataNode") {
  Cluster cluster;
  env::Uninterrupted none;
  REQUIRE(Cluster::loop().start().ok());
  SUBCASE("there is one in time") {
    const auto stream = cluster.open();
    std::optional<NoDescriptors> shortage(std::in_place);
    REQUIRE(stream->write(pattern(1000), none).ok());
    REQUIRE(stream->flush(none).ok());
    CHECK(eventually([&] { return cluster.name_node().count("addBlock") == 1; }));
    for (int turn = 0; turn < 3; ++turn) {  // behind the first attempt
      std::atomic<bool> done = false;
      Cluster::loop().post([&] { done = true; });
      CHECK(eventually([&] { return done.load(); }));
    }
    shortage.reset();
    CHECK(stream->hflush(none).ok());
    CHECK(stream->close(none).ok());
    CHECK(cluster.content() == pattern(1000));
    CHECK(stream->statistics().at("hdfs_block_retries") == 0);
  }
  SUBCASE("there is none") {
    cluster.settings.locate_following_block_retries = 0;
    const auto stream = cluster.open();
    const NoDescriptors shortage;
    REQUIRE(stream->write(pattern(1000), none).ok());
    const Status failed = stream->hflush(none);
    CHECK(failed.code() == StatusCode::kIo);
    CHECK(failed.error_number() == EMFILE);
    CHECK(failed.message().starts_with("write: no connection can be made, for want of"));
    CHECK(failed.detail<WriteFailure>()->failed_nodes.empty());
    CHECK(cluster.name_node().count("addBlock") == 1);
  }
}

TEST_CASE("HDFS-8: back-pressure: the writer waits when the window is full, and goes on") {
  Cluster cluster;
  env::Uninterrupted none;
  cluster.datanode.hold_reading(true);
  WriteTarget target = cluster.target();
  target.block_size = 64U << 20U;
  const auto stream = cluster.open(target);
  const auto data = pattern(12'000'000);
  Impatient impatient;
  impatient.enough = true;
  std::size_t written = 0;
  while (written < data.size()) {
    if (!stream->write(ByteView(data).subspan(written, 100'000), impatient).ok()) break;
    written += 100'000;
  }
  CHECK(written < data.size());
  CHECK(written <= 80 * 64512);
  CHECK(stream->state() == stream::State::kOpen);
  cluster.datanode.hold_reading(false);
  REQUIRE(stream->write(ByteView(data).subspan(written), none).ok());
  REQUIRE(stream->close(none).ok());
  CHECK(cluster.content() == data);
}

TEST_CASE("CONC-1, CONC-2: many threads on one stream: every record once, in one piece") {
  Cluster cluster;
  const auto stream = cluster.open();
  constexpr int kThreads = 8;
  constexpr int kRecords = 200;
  std::vector<std::thread> threads;
  for (int thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&, thread] {
      env::Uninterrupted none;
      for (int i = 0; i < kRecords; ++i) {
        // Thread, number, and as many bytes as the number says.
        std::vector<std::byte> record(3 + static_cast<std::size_t>(i * 7 % 1500),
                                      static_cast<std::byte>(thread));
        record[1] = static_cast<std::byte>(i);
        record[2] = static_cast<std::byte>(i >> 8);
        CHECK(stream->write(record, none).ok());
        if (i % 3 == 0) CHECK(stream->hflush(none).ok());
        if (i % 7 == 0) CHECK(stream->hsync(none).ok());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  env::Uninterrupted none;
  REQUIRE(stream->close(none).ok());
  const std::vector<std::byte> content = cluster.content();
  std::array<int, kThreads> next{};
  std::size_t at = 0;
  while (at < content.size()) {
    const auto thread = std::to_integer<std::size_t>(content[at]);
    REQUIRE(thread < kThreads);
    const int number =
        std::to_integer<int>(content[at + 1]) + 256 * std::to_integer<int>(content[at + 2]);
    REQUIRE(number == next[thread]++);
    const std::size_t size = static_cast<std::size_t>(number * 7 % 1500);
    for (std::size_t i = 3; i < 3 + size; ++i) REQUIRE(content[at + i] == content[at]);
    at += 3 + size;
  }
  for (const int count : next) CHECK(count == kRecords);
}

TEST_CASE("HSYNC-17: many threads end blocks: no record is in two of them, none is opened again") {
  Cluster cluster;
  const auto stream = cluster.open();
  CHECK(stream->has_capability(stream::kEndBlock));
  constexpr std::size_t kThreads = 8;
  constexpr std::size_t kRecords = 60;
  std::vector<std::thread> threads;
  for (std::size_t thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&, thread] {
      env::Uninterrupted none;
      for (std::size_t i = 0; i < kRecords; ++i) {
        std::vector<std::byte> record(1 + (i * 131 + thread) % 3000,
                                      static_cast<std::byte>(thread + 1));
        record.front() = std::byte{0};
        CHECK((stream->try_write(record) || stream->write(record, none).ok()));
        if (i % 7 == thread) CHECK(stream->hsync_and_end_block(none).ok());
        if (i % 5 == thread) CHECK(stream->hflush(none).ok());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  env::Uninterrupted none;
  REQUIRE(stream->hsync_and_end_block(none).ok());
  const std::vector<std::uint64_t> blocks = cluster.name_node().blocks();
  CHECK(blocks.size() > 3);
  for (const std::uint64_t id : blocks) {
    const WrittenReplica replica = cluster.datanode.replica(id);
    CHECK(replica.finalized);
    CHECK(replica.syncs == 1);
    REQUIRE_FALSE(replica.bytes.empty());
    CHECK(replica.bytes.front() == std::byte{0});  // a record begins
  }
  const std::vector<std::byte> content = cluster.content();
  CHECK(content.size() == stream->position());
  CHECK(std::ranges::count(content, std::byte{0}) == kThreads * kRecords);
  CHECK(cluster.datanode.operations().size() == blocks.size());
  REQUIRE(stream->close(none).ok());
  CHECK(cluster.name_node().blocks().size() == blocks.size());
}

TEST_CASE("hsync syncs the current block, and those that ended before the first hsync") {
  Cluster cluster;
  env::Uninterrupted none;
  const auto stream = cluster.open();
  REQUIRE(stream->write(pattern(2'500'000), none).ok());
  REQUIRE(stream->hflush(none).ok());
  for (const std::uint64_t id : cluster.name_node().blocks()) {
    CHECK(cluster.datanode.replica(id).syncs == 0);
  }
  REQUIRE(stream->hsync(none).ok());
  for (const std::uint64_t id : cluster.name_node().blocks()) {
    CHECK(cluster.datanode.replica(id).syncs == 1);
  }
  CHECK(stream->statistics().at("hdfs_replicas_synced_afterwards") == 2);
  const std::vector<testing::WriteOperation> operations = cluster.datanode.operations();
  REQUIRE(operations.size() == 5);
  CHECK(operations[3].stage == 0);
  CHECK(operations[3].pipeline_size == 1);
  CHECK(operations[3].min_bytes == 1U << 20U);
  CHECK(operations[3].latest_stamp == 1000 + operations[3].block_id);
  REQUIRE(stream->close(none).ok());
  CHECK(cluster.content() == pattern(2'500'000));
}

TEST_CASE(
    "HSYNC-7: earlier blocks are synced where they are now; a node that is gone fails nothing") {
  Cluster cluster;
  WritableDatanode elsewhere;
  DatanodeInfo gone;
  {
    const WritableDatanode short_lived;
    gone = short_lived.node();
  }
  env::Uninterrupted none;
  const auto stream = cluster.open();
  REQUIRE(stream->write(pattern(2'500'000), none).ok());
  REQUIRE(stream->hflush(none).ok());

  // Where they were written they are deleted.
  cluster.datanode.follow([](const PacketHeader& header) {
    using enum WritableDatanode::Deed;
    const bool opens_again = header.last_in_block && header.sequence_number == 0;
    return opens_again ? kDie : kAcknowledge;
  });
  cluster.name_node().list({gone});
  const Status failed = stream->hsync(none);
  CHECK(failed.code() == StatusCode::kIo);
  CHECK(failed.path() == "/f");
  CAPTURE(failed.message());
  CHECK(failed.message().find(gone.transfer_address() + " is lost: connect") != std::string::npos);
  CHECK(stream->state() == stream::State::kOpen);
  REQUIRE(stream->hflush(none).ok());

  cluster.name_node().list({gone, elsewhere.node()});
  REQUIRE(stream->hsync(none).ok());
  const auto blocks = cluster.name_node().blocks();
  REQUIRE(blocks.size() == 3);
  CHECK(elsewhere.replica(blocks[0]).syncs == 1);
  CHECK(elsewhere.replica(blocks[1]).syncs == 1);
  CHECK(cluster.datanode.replica(blocks[2]).syncs >= 1);  // twice, if the first was through
  CHECK(stream->statistics().at("hdfs_replicas_synced_afterwards") == 2);
  CHECK(stream->statistics().at("hdfs_replicas_left_unsynced") == 2);
  // A name that a rename leaves as it is.
  CHECK(cluster.name_node().located_paths() == std::vector<std::string>(3, "/.reserved/.inodes/7"));
  REQUIRE(stream->close(none).ok());
  CHECK(cluster.content() == pattern(2'500'000));
}

TEST_CASE("HSYNC-7: a router that the file's id leads elsewhere is asked by its path") {
  Cluster cluster;
  env::Uninterrupted none;
  const auto stream = cluster.open();
  REQUIRE(stream->write(pattern(1'500'000), none).ok());
  REQUIRE(stream->hflush(none).ok());
  SUBCASE("to a file of another namespace") { cluster.name_node().lead_to("BP-2"); }
  SUBCASE("to none") {
    cluster.name_node().fail_once("getBlockLocations",
                                  Status(StatusCode::kNotFound, "no such file"));
  }
  SUBCASE("nowhere") {
    cluster.name_node().fail_once("getBlockLocations",
                                  Status(StatusCode::kIo, "Cannot find locations")
                                      .with_remote_class("resolver.RouterResolveException"));
  }
  REQUIRE(stream->hsync(none).ok());
  CHECK(cluster.name_node().located_paths() ==
        std::vector<std::string>{"/.reserved/.inodes/7", "/f"});
  CHECK(stream->statistics().at("hdfs_replicas_synced_afterwards") == 1);
  REQUIRE(stream->close(none).ok());
}

TEST_CASE("HSYNC-7: an hsync that is interrupted while it asks where blocks are breaks nothing") {
  Cluster cluster;
  env::Uninterrupted none;
  Impatient impatient;
  const auto stream = cluster.open();
  REQUIRE(stream->write(pattern(1'500'000), none).ok());
  REQUIRE(stream->hflush(none).ok());
  cluster.name_node().hold("getBlockLocations");
  std::thread interrupting([&] {
    CHECK(eventually([&] { return cluster.name_node().held() == 1; }));
    impatient.enough = true;
  });
  CHECK(stream->hsync(impatient).code() == StatusCode::kInterrupted);
  interrupting.join();
  CHECK(stream->abandon());  // with the call still under way
  CHECK(cluster.name_node().held() == 0);
}

TEST_CASE("CONC-5: close while others wait in hsync") {
  for (int round = 0; round < 20; ++round) {
    Cluster cluster;
    const auto stream = cluster.open();
    std::vector<std::thread> flushers;
    std::atomic<int> flushed{0};
    for (int i = 0; i < 4; ++i) {
      flushers.emplace_back([&] {
        env::Uninterrupted none;
        while (true) {
          Status status = stream->write(pattern(600), none);
          if (status.ok()) status = stream->hsync(none);
          if (!status.ok()) {
            CHECK(status.code() == StatusCode::kClosed);
            return;
          }
          ++flushed;
        }
      });
    }
    env::Uninterrupted none;
    CHECK(eventually([&] { return flushed > 3; }));
    CHECK(stream->close(none).ok());
    for (std::thread& flusher : flushers) flusher.join();
    CHECK(cluster.content().size() >= 600U * static_cast<unsigned>(flushed.load()));
  }
}

TEST_CASE("HDFS-4: a lost lease wakes who waits, and is told to a stream that asked nothing yet") {
  Cluster cluster;
  env::Uninterrupted none;
  const auto stream = cluster.open();
  const Status lost(StatusCode::kLeaseLost, "renewLease: the lease is lost", "/f");
  SUBCASE("while hflush waits") {
    cluster.datanode.hold_acks(true);
    REQUIRE(stream->write(pattern(1000), none).ok());
    std::thread server([&] {
      CHECK(eventually([&] { return cluster.datanode.packets() == 1; }));
      cluster.leases().holder()->lease_lost(lost);
    });
    CHECK(stream->hflush(none).code() == StatusCode::kLeaseLost);
    server.join();
  }
  SUBCASE("before the first write") {
    cluster.leases().holder()->lease_lost(lost);
    Status told = stream->write(pattern(1000), none);
    if (told.ok()) told = stream->hflush(none);
    CHECK(told.code() == StatusCode::kLeaseLost);
  }
  CHECK(cluster.leases().open() == 0);
}

TEST_CASE("HDFS-17: complete() that is not true yet is asked again soon") {
  Cluster cluster;
  env::Uninterrupted none;
  cluster.name_node().complete_later(3);
  const auto stream = cluster.open();
  REQUIRE(stream->write(pattern(10), none).ok());
  const auto start = std::chrono::steady_clock::now();
  CHECK(stream->close(none).ok());
  CHECK(std::chrono::steady_clock::now() - start >= 14ms);
  CHECK(cluster.name_node().count("complete") == 4);
  CHECK(stream->statistics().at("hdfs_complete_retries") == 3);
}

TEST_CASE("HDFS-18: a slow writer keeps its pipeline; a silent DataNode ends it") {
  Cluster cluster;
  cluster.settings.socket_timeout = 1s;  // twice the pause before a heartbeat
  env::Uninterrupted none;
  const auto stream = cluster.open();
  REQUIRE(stream->write(pattern(10), none).ok());
  REQUIRE(stream->hflush(none).ok());
  CHECK(eventually([&] { return stream->statistics().at("hdfs_heartbeats") >= 3; }));
  CHECK(stream->hflush(none).ok());
  CHECK(stream->close(none).ok());
}

TEST_CASE("DROP-1: set_drop_behind() reaches the DataNodes of the next block") {
  Cluster cluster;
  env::Uninterrupted none;
  const auto stream = cluster.open();
  CHECK(stream->has_capability("dropbehind"));
  CHECK(stream->has_capability("hflush"));
  CHECK_FALSE(stream->has_capability("fs.capability.outputstream.abortable"));
  CHECK(stream->set_drop_behind(true).ok());
  REQUIRE(stream->write(pattern(1U << 20U), none).ok());
  REQUIRE(stream->hflush(none).ok());
  CHECK(stream->set_drop_behind(std::nullopt).ok());
  REQUIRE(stream->write(pattern(10), none).ok());
  REQUIRE(stream->close(none).ok());
  CHECK(stream->set_drop_behind(true).code() == StatusCode::kClosed);
  const std::vector<testing::WriteOperation> operations = cluster.datanode.operations();
  REQUIRE(operations.size() == 2);
  CHECK(operations[0].drop_behind == true);
  CHECK_FALSE(operations[1].drop_behind);
}

TEST_CASE("a failure of the NameNode reaches the caller as it was said") {
  Cluster cluster;
  env::Uninterrupted none;
  const auto stream = cluster.open();
  cluster.name_node().fail_once("addBlock", Status(StatusCode::kIo, "over quota", "", EDQUOT));
  REQUIRE(stream->write(pattern(10), none).ok());
  const Status failed = stream->hflush(none);
  CHECK(failed.error_number() == EDQUOT);
  CHECK(failed.path() == "/f");
}

TEST_CASE("a file that the NameNode has closed is not given up, whatever became of its stream") {
  Cluster cluster;
  env::Uninterrupted none;
  const auto stream = cluster.open();
  cluster.name_node().fail_once("addBlock", Status(StatusCode::kIo, "over quota", "", EDQUOT)
                                                .with_remote_class("x.DSQuotaExceededException"));
  REQUIRE(stream->write(pattern(10), none).ok());
  CHECK(stream->hflush(none).error_number() == EDQUOT);
  CHECK(cluster.leases().open() == 0);
  CHECK(cluster.leases().given_up() == 0);
}

TEST_CASE("many open streams: no threads of their own, and each gets its own bytes") {
  Cluster cluster;
  env::Uninterrupted none;
  std::vector<std::unique_ptr<OutputStream>> streams;
  constexpr int kStreams = 64;
  for (int i = 0; i < kStreams; ++i) {
    streams.push_back(cluster.open());
    REQUIRE(streams.back()->write(pattern(static_cast<std::size_t>(100 + i)), none).ok());
    REQUIRE(streams.back()->hflush(none).ok());
  }
  CHECK(cluster.leases().open() == kStreams);
  std::vector<std::thread> closers;
  for (int t = 0; t < 4; ++t) {
    closers.emplace_back([&, t] {
      env::Uninterrupted patient;
      for (int i = t; i < kStreams; i += 4) {
        CHECK(streams[static_cast<std::size_t>(i)]->close(patient).ok());
      }
    });
  }
  for (std::thread& closer : closers) closer.join();
  const std::vector<std::uint64_t> blocks = cluster.name_node().blocks();
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    CHECK(cluster.datanode.replica(blocks[i]).bytes == pattern(100 + i));
    CHECK(cluster.datanode.replica(blocks[i]).finalized);
  }
}

}  // namespace
}  // namespace hflush::hdfs
