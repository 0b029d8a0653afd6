#include "hflush/hdfs/read/hdfs_source.h"

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "hdfs/scripted_cluster.h"
#include "hflush/env/process.h"
#include "testing/bytes.h"
#include "testing/patience.h"

namespace hflush::hdfs {
namespace {

using hflush::testing::kPatience;
using hflush::testing::pattern;
using testing::Bytes;
using testing::Cluster;
using testing::kFirstId;
using testing::Operation;
using testing::refusing_reply;
using testing::Reply;
using testing::StoredReplica;
using namespace std::chrono_literals;

Bytes read(Cluster& cluster, HdfsSource& file, std::uint64_t position, std::size_t size) {
  Bytes out(size);
  const auto got = file.read_at(position, out, cluster.interrupt);
  INFO(got.status().to_string());
  REQUIRE(got.ok());
  out.resize(*got);
  return out;
}

Status failure_of(Cluster& cluster, HdfsSource& file, std::uint64_t position, std::size_t size) {
  Bytes out(size);
  const auto got = file.read_at(position, out, cluster.interrupt);
  REQUIRE_FALSE(got.ok());
  CHECK(got.status().path() == "/file");
  return got.status();
}

std::int64_t statistic(const HdfsSource& file, std::string_view name) {
  Statistics statistics;
  file.add_statistics(statistics);
  REQUIRE(statistics.contains(name));
  return statistics.at(name);
}

bool has(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

// --- reads in order, and others

TEST_CASE("hdfs source: in order, one request a block, whatever the size of the reads") {
  const Bytes bytes = pattern(700'000);
  for (const std::size_t piece : {std::size_t{1000}, std::size_t{8192}, std::size_t{65536},
                                  std::size_t{300'000}, std::size_t{1'000'000}}) {
    CAPTURE(piece);
    Cluster cluster(1, bytes, 262'144);
    const auto file = cluster.open();
    REQUIRE(*file->length() == bytes.size());
    Bytes all;
    while (true) {
      const Bytes part = read(cluster, *file, all.size(), piece);
      if (part.empty()) break;
      CHECK(part.size() == std::min(piece, bytes.size() - all.size()));
      all.insert(all.end(), part.begin(), part.end());
    }
    CHECK(all == bytes);
    const auto operations = cluster.datanodes[0]->operations();
    REQUIRE(operations.size() == 3);
    CHECK(operations[0].length == 262'144);
    CHECK(operations[2].length == 700'000 - 2 * 262'144);
    CHECK(operations[0].client_name == "reader");
    CHECK(cluster.datanodes[0]->connections() == 1);  // read to the end, and used again
    CHECK(operations[0].read_status == std::string("\x08\x06", 2));  // CHECKSUM_OK
    CHECK(statistic(*file, "read_block_requests") == 3);
    CHECK(statistic(*file, "read_connections_opened") == 1);
    CHECK(statistic(*file, "read_connections_reused") == 2);
    CHECK(statistic(*file, "read_location_calls") == 1);
    CHECK(statistic(*file, "read_replica_failures") == 0);
  }
}

TEST_CASE("hdfs source: packets may be as large as the settings say") {
  const std::size_t chunk = 17U << 20U;
  Cluster cluster(1, pattern(chunk), chunk);
  const ChecksumParameters sums{crc::Kind::kCrc32c, static_cast<std::uint32_t>(chunk)};
  cluster.datanodes[0]->store(kFirstId, StoredReplica(cluster.file, sums, chunk));
  CHECK(has(failure_of(cluster, *cluster.open(), 0, chunk).message(), "a packet of"));
  cluster.settings.read.max_packet_size = 20U << 20U;
  CHECK(read(cluster, *cluster.open(), 0, chunk) == cluster.file);
}

TEST_CASE("hdfs source: a read elsewhere asks for its own range only") {
  Cluster cluster(1, pattern(300'000), 131'072);
  const auto file = cluster.open();
  CHECK(read(cluster, *file, 100'000, 500) == cluster.part(100'000, 500));
  CHECK(read(cluster, *file, 7, 50) == cluster.part(7, 50));
  CHECK(read(cluster, *file, 131'000, 200) == cluster.part(131'000, 200));
  CHECK(read(cluster, *file, 299'990, 100) == cluster.part(299'990, 10));
  CHECK(read(cluster, *file, 300'000, 100).empty());
  CHECK(read(cluster, *file, 1ULL << 62U, 100).empty());
  CHECK(read(cluster, *file, 100, 0).empty());
  const auto operations = cluster.datanodes[0]->operations();
  REQUIRE(operations.size() == 5);
  CHECK(operations[0].offset == 100'000);
  CHECK(operations[0].length == 500);
  CHECK(operations[2].offset == 131'000);
  CHECK(operations[2].length == 72);
  CHECK(operations[3].offset == 0);
  CHECK(operations[3].length == 128);
  CHECK(cluster.datanodes[0]->connections() == 1);
}

TEST_CASE("hdfs source: a small step forward stays on the connection, others do not") {
  Cluster cluster(1, pattern(2'000'000), 1'500'000);
  const auto file = cluster.open();
  CHECK(read(cluster, *file, 0, 1000) == cluster.part(0, 1000));
  CHECK(read(cluster, *file, 50'001, 1000) == cluster.part(50'001, 1000));
  CHECK(cluster.operations() == 1);
  const std::size_t far = 51'001 + HdfsSource::kSkipWindow + 1;
  CHECK(read(cluster, *file, far, 1000) == cluster.part(far, 1000));
  CHECK(cluster.operations() == 2);
  CHECK(read(cluster, *file, 51'001, 1000) == cluster.part(51'001, 1000));  // still there
  CHECK(cluster.operations() == 2);
  CHECK(read(cluster, *file, 10, 1000) == cluster.part(10, 1000));
  CHECK(cluster.operations() == 3);
  CHECK(read(cluster, *file, 1010, 1000) == cluster.part(1010, 1000));  // the second in a row
  CHECK(cluster.datanodes[0]->operations()[3].length == 1'500'000 - 1010);
}

TEST_CASE("hdfs source: an empty file has nothing to read and asks nobody") {
  Cluster cluster(1, {}, 1000);
  const auto file = cluster.open();
  CHECK(*file->length() == 0);
  CHECK(read(cluster, *file, 0, 10).empty());
  CHECK(cluster.operations() == 0);
}

TEST_CASE("hdfs source: locations beyond the first batch are asked as they are needed") {
  Cluster cluster(1, pattern(10'000), 1000);
  const LocatedBlocks all = cluster.located;
  cluster.locate = [&all](int call) {
    LocatedBlocks some = all;
    some.blocks.clear();
    for (int i = 4 * call; i < std::min(4 * call + 4, 10); ++i) {
      some.blocks.push_back(all.blocks[static_cast<std::size_t>(i)]);
    }
    return Result<LocatedBlocks>(some);
  };
  const auto file = cluster.open();
  CHECK(read(cluster, *file, 0, 10'000) == cluster.file);
  CHECK(cluster.name_node.location_calls() == 3);
  CHECK(file->locations().size() == 10);
}

TEST_CASE("hdfs source: closed, it reads nothing") {
  Cluster cluster(1, pattern(100'000), 100'000);
  const auto file = cluster.open();
  read(cluster, *file, 0, 10);
  file->close();
  file->close();
  CHECK(failure_of(cluster, *file, 0, 10).code() == StatusCode::kClosed);
  CHECK(file->length().status().code() == StatusCode::kClosed);
  file->unbuffer();
}

TEST_CASE("hdfs source: unbuffer lets the connection go, and reading goes on") {
  Cluster cluster(1, pattern(100'000), 100'000);
  const auto file = cluster.open();
  CHECK(read(cluster, *file, 0, 10) == cluster.part(0, 10));
  file->unbuffer();
  file->unbuffer();
  CHECK(read(cluster, *file, 10, 10) == cluster.part(10, 10));
  file->advise(stream::Source::DropBehind{true});
  file->advise(stream::Source::Readahead{4096});
  CHECK(read(cluster, *file, 20, 10) == cluster.part(20, 10));
  const auto operations = cluster.datanodes[0]->operations();
  REQUIRE(operations.size() == 3);
  CHECK_FALSE(operations[1].drop_behind.has_value());
  CHECK_FALSE(operations[1].readahead.has_value());
  CHECK(operations[2].drop_behind == true);
  CHECK(operations[2].readahead == 4096);
}

// --- replicas that fail

TEST_CASE("hdfs source: a dead DataNode is passed over, and remembered") {
  Cluster cluster(3, pattern(10'000), 4096);
  cluster.datanodes[0]->stop();
  const auto file = cluster.open();
  CHECK(read(cluster, *file, 0, 10'000) == cluster.file);
  CHECK(cluster.datanodes[1]->operations().size() == 3);
  CHECK(cluster.datanodes[2]->operations().empty());
  CHECK(statistic(*file, "read_replica_failures") == 1);
  CHECK(cluster.name_node.location_calls() == 1);
}

TEST_CASE("hdfs source: a connection that ends goes on at the next replica, where it broke") {
  Cluster cluster(2, pattern(500'000), 500'000);
  cluster.datanodes[0]->follow([&](const Operation& operation) {
    std::string all =
        testing::answer_to_read(StoredReplica(cluster.file), operation.offset, operation.length);
    return Reply{all.substr(0, 200'000), Reply::Then::kClose};
  });
  const auto file = cluster.open();
  CHECK(read(cluster, *file, 0, 500'000) == cluster.file);
  const auto operations = cluster.datanodes[1]->operations();
  REQUIRE(operations.size() == 1);
  CHECK(operations[0].offset == 3 * 65536);  // what had come whole is not asked again
}

TEST_CASE("hdfs source: a read that goes on comes to its end, however often its connection ends") {
  Cluster cluster(1, pattern(500'000), 500'000);
  cluster.datanodes[0]->follow([&](const Operation& operation) {
    const std::string all =
        testing::answer_to_read(StoredReplica(cluster.file), operation.offset, operation.length);
    return Reply{all.substr(0, 70'000), Reply::Then::kClose};  // a packet and a part of the next
  });
  const auto file = cluster.open();
  CHECK(read(cluster, *file, 0, 500'000) == cluster.file);
}

TEST_CASE("hdfs source: a replica that is refused, broken or silent is followed by the next") {
  const Reply replies[] = {
      {refusing_reply(TransferStatus::kError, "meta file is gone"), Reply::Then::kClose},
      {refusing_reply(TransferStatus::kErrorInvalid, "no"), Reply::Then::kClose},
      {"", Reply::Then::kClose},
      {"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n", Reply::Then::kClose},
      {std::string(100, '\xff'), Reply::Then::kSilence},
      {"", Reply::Then::kSilence},
  };
  for (const Reply& reply : replies) {
    Cluster cluster(2, pattern(10'000), 10'000);
    cluster.settings.read.socket_timeout = 1s;  // of good answers, too
    cluster.datanodes[0]->follow([&](const Operation&) { return reply; });
    const auto file = cluster.open();
    CHECK(read(cluster, *file, 0, 10'000) == cluster.file);
    CHECK(cluster.datanodes[0]->operations().size() == 1);
    CHECK(cluster.datanodes[1]->operations().size() == 1);
  }
}

TEST_CASE("hdfs source: no replica at all says what each one answered") {
  Cluster cluster(3, pattern(10'000), 5'000);
  cluster.settings.read.socket_timeout = 1s;  // of the refusals, too
  cluster.datanodes[0]->stop();
  cluster.datanodes[1]->follow([](const Operation&) {
    return Reply{refusing_reply(TransferStatus::kError, "out of order"), Reply::Then::kClose};
  });
  cluster.datanodes[2]->follow([](const Operation&) { return Reply{"", Reply::Then::kSilence}; });
  const auto file = cluster.open();
  const Status failure = failure_of(cluster, *file, 5'100, 100);
  CAPTURE(failure.message());
  CHECK(failure.code() == StatusCode::kIo);
  CHECK(failure.error_number() == EIO);
  CHECK(has(failure.message(), "read at 5100"));
  CHECK(has(failure.message(), "blk_1002_1"));
  CHECK(has(failure.message(), "3 replicas"));
  CHECK(has(failure.message(), "4 rounds"));
  for (const auto& datanode : cluster.datanodes) {
    CHECK(has(failure.message(), "127.0.0.1:" + std::to_string(datanode->port())));
  }
  CHECK(has(failure.message(), "refused with ERROR: out of order"));
  // The first locations, those asked anew at once, and dfs.client.max.block.acquire.failures more.
  CHECK(cluster.name_node.location_calls() == 5);
  CHECK(cluster.datanodes[1]->operations().size() == 4);
}

TEST_CASE("hdfs source: a DataNode that comes back is found again") {
  Cluster cluster(1, pattern(10'000), 10'000);
  std::atomic<int> calls = 0;
  cluster.datanodes[0]->follow([&](const Operation&) -> std::optional<Reply> {
    if (++calls < 3) return Reply{"", Reply::Then::kClose};
    return std::nullopt;
  });
  const auto file = cluster.open();
  CHECK(read(cluster, *file, 100, 1000) == cluster.part(100, 1000));
  CHECK(calls == 3);
  CHECK(cluster.name_node.location_calls() == 4);
}

// Two replicas, of which the file knows the first one when it is opened, and the NameNode the
// second one by then.
LocatedBlocks moved(const Cluster& cluster) {
  LocatedBlocks located = cluster.located;
  for (LocatedBlock& block : located.blocks) block.replicas.erase(block.replicas.begin());
  located.last_block = located.blocks.back();
  return located;
}

TEST_CASE("hdfs source: a replica that was moved is found at once, in the middle of a block") {
  Cluster cluster(2, pattern(3'000'000), 3'000'000);
  cluster.settings.read.retry_window = 1h;  // a pause would be noticed
  const LocatedBlocks after = moved(cluster);
  for (LocatedBlock& block : cluster.located.blocks) block.replicas.pop_back();
  cluster.located.last_block = cluster.located.blocks.back();
  const auto file = cluster.open();
  SUBCASE("between two reads") {
    CHECK(read(cluster, *file, 0, 1000) == cluster.part(0, 1000));
    cluster.datanodes[0]->stop();
  }
  SUBCASE("in a read") {
    cluster.datanodes[0]->follow([&](const Operation& operation) {
      if (operation.offset > 0) {
        return Reply{refusing_reply(TransferStatus::kError, "Replica not found"),
                     Reply::Then::kClose};
      }
      const std::string all = testing::answer_to_read(StoredReplica(cluster.file), 0, 3'000'000);
      return Reply{all.substr(0, 1'000'000), Reply::Then::kClose};
    });
    cluster.located = after;
    CHECK(read(cluster, *file, 0, 3'000'000) == cluster.file);
  }
  SUBCASE("before the first read, and what is left there is damaged") { cluster.damage(0, 5'000); }
  cluster.located = after;
  CHECK(read(cluster, *file, 1000, 2'999'000) == cluster.part(1000, 2'999'000));
  CHECK(read(cluster, *file, 0, 1000) == cluster.part(0, 1000));
  CHECK(cluster.name_node.location_calls() == 2);
}

TEST_CASE("hdfs source: a block without replicas is asked for again, then is an error") {
  Cluster cluster(1, pattern(1000), 1000);
  const LocatedBlocks good = cluster.located;
  cluster.located.blocks[0].replicas.clear();
  cluster.located.last_block = cluster.located.blocks[0];
  const auto file = cluster.open();
  const Status failure = failure_of(cluster, *file, 0, 10);
  CHECK(has(failure.message(), "no replica on any DataNode"));
  cluster.located = good;
  CHECK(read(cluster, *file, 0, 10) == cluster.part(0, 10));
}

TEST_CASE("hdfs source: a token that is refused is renewed once, without blame") {
  Cluster cluster(2, pattern(10'000), 10'000);
  for (const auto& datanode : cluster.datanodes) {
    datanode->follow([](const Operation& operation) -> std::optional<Reply> {
      if (operation.token == "new") return std::nullopt;
      return Reply{refusing_reply(TransferStatus::kErrorAccessToken, ""), Reply::Then::kClose};
    });
  }
  cluster.locate = [&](int call) {
    LocatedBlocks located = cluster.located;
    located.blocks[0].token.encoded = call == 0 ? "old" : "new";
    located.last_block = located.blocks[0];
    return Result<LocatedBlocks>(located);
  };
  // The tokens are no messages here.
  const auto file = cluster.open();
  CHECK(read(cluster, *file, 0, 10'000) == cluster.file);
  CHECK(cluster.datanodes[0]->operations().size() == 2);
  CHECK(cluster.datanodes[1]->operations().empty());
  CHECK(cluster.name_node.location_calls() == 2);
}

TEST_CASE("hdfs source: tokens that no DataNode accepts are a failure that says so") {
  Cluster cluster(2, pattern(10'000), 10'000);
  for (const auto& datanode : cluster.datanodes) {
    datanode->follow([](const Operation&) {
      return Reply{refusing_reply(TransferStatus::kErrorAccessToken, ""), Reply::Then::kClose};
    });
  }
  const auto file = cluster.open();
  const Status failure = failure_of(cluster, *file, 0, 100);
  CHECK(failure.code() == StatusCode::kPermissionDenied);
  CHECK(has(failure.message(), "ERROR_ACCESS_TOKEN"));
}

// --- checksums

TEST_CASE("hdfs source: a damaged replica is masked by another one, and reported") {
  for (const std::size_t at : {0U, 5'000U, 9'999U}) {
    for (const std::size_t piece : {100U, 4096U, 10'000U}) {
      Cluster cluster(2, pattern(10'000), 10'000);
      cluster.damage(0, at);
      const auto file = cluster.open();
      for (std::size_t position = 0; position < 10'000; position += piece) {
        const std::size_t size = std::min<std::size_t>(piece, 10'000 - position);
        CHECK(read(cluster, *file, position, size) == cluster.part(position, size));
      }
      const auto reports = cluster.name_node.reports();
      REQUIRE(reports.size() == 1);
      CHECK(has(reports[0], cluster.datanodes[0]->node().encoded));
      CHECK_FALSE(has(reports[0], cluster.datanodes[1]->node().encoded));
      CHECK(statistic(*file, "read_corrupt_replicas") == 1);
    }
  }
}

TEST_CASE(
    "READ-16: a replica that lost its checksums is passed over; if all have none they count") {
  Cluster cluster(3, pattern(3000), 3000);
  const auto lose_sums = [&](std::size_t node, const Bytes& bytes) {
    cluster.datanodes[node]->store(kFirstId, StoredReplica(bytes, {crc::Kind::kNone, 512}));
  };
  Bytes wrong = cluster.file;
  wrong[7] ^= std::byte{1};
  lose_sums(0, wrong);
  lose_sums(1, wrong);
  SUBCASE("one is whole") {
    const auto file = cluster.open();
    CHECK(read(cluster, *file, 0, 3000) == cluster.file);
    CHECK(read(cluster, *file, 0, 10) == cluster.part(0, 10));
    CHECK(statistic(*file, "read_replica_failures") == 2);
  }
  SUBCASE("one cannot be asked") {
    cluster.datanodes[2]->stop();
    const auto file = cluster.open();
    const Status failure = failure_of(cluster, *file, 0, 3000);
    CHECK(failure.code() == StatusCode::kIo);
    CHECK(has(failure.message(), "no checksums"));
    CHECK(read(cluster, *cluster.open(false), 0, 3000) == wrong);
  }
  SUBCASE("none has any: the block was written so") {
    lose_sums(2, wrong);
    const auto file = cluster.open();
    CHECK(read(cluster, *file, 0, 3000) == wrong);
    const std::size_t operations = cluster.operations();
    CHECK(operations == 4);
    CHECK(read(cluster, *file, 0, 10).size() == 10);
    CHECK(cluster.operations() == operations + 1);  // it is known by now
  }
}

TEST_CASE("hdfs source: every replica damaged is a checksum error with its position") {
  Cluster cluster(3, pattern(10'000), 5'000);
  for (std::size_t node = 0; node < 3; ++node) {
    StoredReplica bad(cluster.part(5'000, 5'000));
    bad.bytes[1'100] ^= std::byte{4};
    cluster.datanodes[node]->store(kFirstId + 1, std::move(bad));
  }
  const auto file = cluster.open();
  const Status failure = failure_of(cluster, *file, 6'000, 1'000);
  CHECK(failure.code() == StatusCode::kChecksum);
  REQUIRE(failure.checksum_mismatch() != nullptr);
  CHECK(failure.checksum_mismatch()->position == 5'000 + 1'024);
  CHECK(failure.checksum_mismatch()->expected != failure.checksum_mismatch()->actual);
  CHECK(has(failure.message(), "blk_1002_1"));
  // All of several: rather this machine is at fault. And no pause would have helped.
  CHECK(cluster.name_node.reports().empty());
  CHECK(cluster.name_node.location_calls() == 2);
  // Nor does a NameNode that is gone make it another failure.
  cluster.locate = [](int) {
    return Result<LocatedBlocks>(Status(StatusCode::kIo, "no NameNode", {}, ECONNREFUSED));
  };
  CHECK(failure_of(cluster, *file, 6'000, 1'000).code() == StatusCode::kChecksum);
  CHECK(read(cluster, *file, 0, 5'000) == cluster.part(0, 5'000));
}

TEST_CASE("hdfs source: the only replica, damaged, is reported and fails") {
  Cluster cluster(1, pattern(10'000), 10'000);
  cluster.damage(0, 600);
  const auto file = cluster.open();
  CHECK(failure_of(cluster, *file, 512, 1).code() == StatusCode::kChecksum);
  CHECK(cluster.name_node.reports().size() == 1);
  CHECK(read(cluster, *file, 1024, 100) == cluster.part(1024, 100));
}

TEST_CASE("hdfs source: without verification the bytes come as they are") {
  Cluster cluster(2, pattern(10'000), 10'000);
  cluster.damage(0, 600);
  const auto file = cluster.open(false);
  CHECK_FALSE(file->verified());
  Bytes expected = cluster.file;
  expected[600] ^= std::byte{0x80};
  CHECK(read(cluster, *file, 0, 10'000) == expected);
  const auto operations = cluster.datanodes[0]->operations();
  REQUIRE(operations.size() == 1);
  CHECK_FALSE(operations[0].send_checksums);
  CHECK(cluster.name_node.reports().empty());
}

// --- connections that were used before

TEST_CASE("hdfs source: an idle connection that was closed is no failure of the DataNode") {
  Cluster cluster(2, pattern(10'000), 10'000);
  const auto file = cluster.open();
  CHECK(read(cluster, *file, 100, 100) == cluster.part(100, 100));
  REQUIRE(cluster.connections->idle() == 1);
  SUBCASE("before it is taken") {
    cluster.datanodes[0]->disconnect();
    CHECK(read(cluster, *file, 5000, 100) == cluster.part(5000, 100));
  }
  SUBCASE("with the operation under way") {
    cluster.datanodes[0]->follow([](const Operation& operation) -> std::optional<Reply> {
      if (operation.number == 0) return std::nullopt;
      return Reply{"", Reply::Then::kClose};
    });
    CHECK(read(cluster, *file, 5000, 100) == cluster.part(5000, 100));
  }
  CHECK(cluster.datanodes[0]->connections() == 2);
  CHECK(cluster.datanodes[1]->operations().empty());
  CHECK(statistic(*file, "read_replica_failures") == 0);
}

TEST_CASE("hdfs source: of many idle connections no more than a few are tried") {
  Cluster cluster(1, pattern(10'000), 10'000);
  for (int i = 0; i < 5; ++i) {
    auto socket = env::BlockingSocket::connect(
        cluster.located.blocks[0].replicas[0].node.transfer_endpoint(false), kPatience,
        cluster.interrupt);
    REQUIRE(socket.ok());
    cluster.connections->give_back(*std::move(socket));
  }
  cluster.datanodes[0]->follow([](const Operation& operation) -> std::optional<Reply> {
    if (operation.connection >= 5) return std::nullopt;
    return Reply{"", Reply::Then::kClose};
  });
  const auto file = cluster.open();
  CHECK(read(cluster, *file, 10, 100) == cluster.part(10, 100));
  CHECK(cluster.datanodes[0]->operations().size() == 4);  // dfs.client.cached.conn.retry, and one
  CHECK(statistic(*file, "read_replica_failures") == 0);
}

TEST_CASE("hdfs source: a connection that broke between two reads is replaced, without blame") {
  Cluster cluster(2, pattern(3'000'000), 3'000'000);
  cluster.datanodes[0]->follow([&](const Operation& operation) -> std::optional<Reply> {
    if (operation.connection > 0) return std::nullopt;
    const std::string all = testing::answer_to_read(StoredReplica(cluster.file), 0, 3'000'000);
    return Reply{all.substr(0, 100'000), Reply::Then::kSilence};
  });
  const auto file = cluster.open();
  CHECK(read(cluster, *file, 0, 1000) == cluster.part(0, 1000));
  cluster.datanodes[0]->disconnect();
  CHECK(read(cluster, *file, 1000, 2'999'000) == cluster.part(1000, 2'999'000));
  CHECK(cluster.datanodes[0]->operations().size() == 2);
  CHECK(cluster.datanodes[1]->operations().empty());
  CHECK(statistic(*file, "read_replica_failures") == 0);
}

TEST_CASE("hdfs source: bytes that have come are returned though the end of the read is missing") {
  Cluster cluster(1, pattern(10'000), 10'000);
  cluster.datanodes[0]->follow([&](const Operation& operation) {
    std::string all =
        testing::answer_to_read(StoredReplica(cluster.file), operation.offset, operation.length);
    return Reply{all.substr(0, all.size() - 31), Reply::Then::kClose};
  });
  const auto file = cluster.open();
  CHECK(read(cluster, *file, 100, 1000) == cluster.part(100, 1000));
  CHECK(cluster.connections->idle() == 0);
}

// --- waiting

// Interrupts once it is asked for the n-th time.
class Interruption final : public env::Interrupt {
 public:
  explicit Interruption(int checks) : left_(checks) {}

 private:
  Status check() override {
    if (--left_ > 0) return {};
    return Status(StatusCode::kInterrupted, "interrupted");
  }
  int left_;
};

TEST_CASE("hdfs source: an interrupted read leaves the file usable") {
  Cluster cluster(1, pattern(500'000), 500'000);
  std::atomic<bool> silent = true;
  cluster.datanodes[0]->follow([&](const Operation& operation) -> std::optional<Reply> {
    if (!silent) return std::nullopt;
    std::string all =
        testing::answer_to_read(StoredReplica(cluster.file), operation.offset, operation.length);
    return Reply{all.substr(0, 100'000), Reply::Then::kSilence};
  });
  const auto file = cluster.open();
  Bytes out(500'000);
  for (const std::uint64_t position : {0U, 7U}) {
    Interruption interruption(2);
    const auto got = file->read_at(position, out, interruption);
    CHECK(got.status().code() == StatusCode::kInterrupted);
  }
  silent = false;
  CHECK(read(cluster, *file, 0, 500'000) == cluster.file);
  CHECK(statistic(*file, "read_replica_failures") == 0);
}

TEST_CASE("hdfs source: Ctrl-C ends the wait for the end of a read, whose bytes are there") {
  Cluster cluster(1, pattern(10'000), 10'000);
  std::atomic<bool> silent = true;
  cluster.datanodes[0]->follow([&](const Operation& operation) -> std::optional<Reply> {
    if (!silent) return std::nullopt;
    std::string all =
        testing::answer_to_read(StoredReplica(cluster.file), operation.offset, operation.length);
    return Reply{all.substr(0, all.size() - 31), Reply::Then::kSilence};
  });
  const auto file = cluster.open();
  Bytes out(10'000);
  Interruption interruption(2);
  CHECK(file->read_at(0, out, interruption).status().code() == StatusCode::kInterrupted);
  // Without an interrupt the wait comes to its end, and the read succeeds.
  CHECK(read(cluster, *file, 0, 10'000) == cluster.file);
  silent = false;
  CHECK(read(cluster, *file, 0, 10'000) == cluster.file);
}

TEST_CASE("hdfs source: the pause between rounds can be interrupted") {
  Cluster cluster(1, pattern(1000), 1000);
  cluster.settings.read.retry_window = 1h;
  cluster.datanodes[0]->stop();
  const auto file = cluster.open();
  Interruption interruption(2);
  Bytes out(10);
  CHECK(file->read_at(5, out, interruption).status().code() == StatusCode::kInterrupted);
}

TEST_CASE("hdfs source: many threads read at once, each its own") {
  Cluster cluster(3, pattern(2'000'000), 262'144);
  cluster.damage(0, 100'000);
  const auto file = cluster.open();
  std::vector<std::thread> threads;
  threads.reserve(16);
  std::atomic<int> wrong = 0;
  for (unsigned seed = 0; seed < 16; ++seed) {
    threads.emplace_back([&, seed] {
      std::mt19937 random(seed);
      env::Uninterrupted interrupt;
      std::uint64_t position = 0;
      for (int i = 0; i < 40; ++i) {
        const std::size_t size = 1 + random() % 100'000;
        if (seed != 0) position = random() % cluster.file.size();
        Bytes out(size);
        const auto got = file->read_at(position, out, interrupt);
        if (!got.ok() || *got != std::min<std::size_t>(size, cluster.file.size() - position)) {
          ++wrong;
          continue;
        }
        out.resize(*got);
        if (out != cluster.part(position, *got)) ++wrong;
        position += *got;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == 0);
  CHECK(statistic(*file, "read_corrupt_replicas") >= 1);
}

TEST_CASE("hdfs source: closed while others read, it lets them finish") {
  Cluster cluster(1, pattern(5'000'000), 5'000'000);
  const auto file = cluster.open();
  std::atomic<bool> begun = false;
  cluster.datanodes[0]->follow([&](const Operation&) -> std::optional<Reply> {
    begun = true;
    return std::nullopt;
  });
  std::thread reader([&] { CHECK(read(cluster, *file, 0, 5'000'000) == cluster.file); });
  while (!begun) std::this_thread::yield();
  file->close();
  reader.join();
  CHECK(failure_of(cluster, *file, 0, 1).code() == StatusCode::kClosed);
}

TEST_CASE("hdfs source: a forked child is refused, and the parent reads on") {
  env::Process::current();  // counts forks from now on
  Cluster cluster(1, pattern(3'000'000), 3'000'000);
  const auto file = cluster.open();
  CHECK(read(cluster, *file, 0, 1000) == cluster.part(0, 1000));
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    Bytes out(10);
    env::Uninterrupted interrupt;
    const bool refused =
        file->read_at(1000, out, interrupt).status().code() == StatusCode::kForked &&
        file->length().status().code() == StatusCode::kForked;
    file->unbuffer();
    file->close();
    ::_exit(refused ? 0 : 1);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(status == 0);
  CHECK(read(cluster, *file, 1000, 2'999'000) == cluster.part(1000, 2'999'000));
  CHECK(cluster.operations() == 1);
}

// --- opening

TEST_CASE("hdfs source: what cannot be opened says why") {
  Cluster cluster(1, pattern(1000), 1000);
  const auto refused = [&] {
    const auto opened = HdfsSource::open(cluster.context(), "/file", true, cluster.interrupt);
    REQUIRE_FALSE(opened.ok());
    CHECK(opened.status().path() == "/file");
    return opened.status();
  };
  SUBCASE("missing") {
    cluster.locate = [](int) {
      return Result<LocatedBlocks>(Status(StatusCode::kNotFound, "no such file", "/file", ENOENT));
    };
    CHECK(refused().code() == StatusCode::kNotFound);
  }
  SUBCASE("no locations") {
    cluster.name_node.without_locations = true;
    CHECK(refused().code() == StatusCode::kNotFound);
  }
  SUBCASE("erasure coded") {
    cluster.located.erasure_coded = true;
    const Status failure = refused();
    CHECK(failure.code() == StatusCode::kUnsupported);
    CHECK(has(failure.message(), "erasure coded"));
  }
  SUBCASE("encrypted") {
    cluster.located.encrypted = true;
    const Status failure = refused();
    CHECK(failure.code() == StatusCode::kUnsupported);
    CHECK(has(failure.message(), "encryption zone"));
  }
}

TEST_CASE("hdfs source: another file in its place is noticed") {
  Cluster cluster(1, pattern(1000), 1000);
  const auto file = cluster.open();
  cluster.datanodes[0]->stop();
  cluster.located.blocks[0].block.id = 77;
  cluster.located.last_block = cluster.located.blocks[0];
  const Status failure = failure_of(cluster, *file, 0, 10);
  CHECK(failure.error_number() == ESTALE);
  CHECK(has(failure.message(), "replaced"));
}

// Of `bytes` in blocks of `block_size`, none of them a block of `cluster`.
LocatedBlocks another_file(const Cluster& cluster, std::uint64_t bytes, std::uint64_t block_size) {
  LocatedBlocks other = cluster.located;
  other.blocks.clear();
  for (std::uint64_t at = 0; at < bytes; at += block_size) {
    LocatedBlock block = cluster.located.blocks[0];
    block.block = {"pool", 7000 + at, 2, std::min(block_size, bytes - at)};
    block.offset = at;
    other.blocks.push_back(block);
  }
  other.file_length = bytes;
  other.last_block = other.blocks.back();
  return other;
}

// What holds the byte at `position` and what follows, as the NameNode answers, but no more than
// `blocks` of it.
LocatedBlocks from(LocatedBlocks file, std::uint64_t position, std::size_t blocks) {
  std::erase_if(file.blocks, [&](const auto& block) { return block.end() <= position; });
  if (file.blocks.size() > blocks) file.blocks.resize(blocks);
  return file;
}

TEST_CASE("hdfs source: another file is noticed whatever the sizes of its blocks") {
  Cluster cluster(1, pattern(14'000), 1000);
  const LocatedBlocks before = from(cluster.located, 0, 10);
  std::uint64_t position = 10'500;
  LocatedBlocks after;
  SUBCASE("a known block precedes the read, and is longer in the new file") {
    after = from(another_file(cluster, 14'000, 4250), position, 10);
  }
  SUBCASE("the new block begins inside a known one") {
    position = 13'500;
    after = another_file(cluster, 20'000, 13'250);
    after.blocks.erase(after.blocks.begin());
  }
  SUBCASE("the new block ends inside a known one") {
    after = from(another_file(cluster, 20'000, 10'250), position, 1);
    after.blocks[0].offset = 10'250;
    after.blocks[0].block.length = 3000;
  }
  SUBCASE("one block of the new file is all of the old one") {
    after = another_file(cluster, 50'000, 50'000);
  }
  SUBCASE("a block that is known, elsewhere") {
    after = another_file(cluster, 14'000, 7000);
    after.blocks.erase(after.blocks.begin());
    after.blocks[0].block.id = kFirstId + 13;
    after.last_block = after.blocks[0];
  }
  cluster.locate = [&](int call) { return Result<LocatedBlocks>(call == 0 ? before : after); };
  const auto file = cluster.open();
  if (position > 13'000) cluster.datanodes[0]->stop();  // that block is known
  const Status failure = failure_of(cluster, *file, position, 10);
  CHECK(failure.error_number() == ESTALE);
  CHECK(has(failure.message(), "replaced"));
}

TEST_CASE("hdfs source: another file is noticed where no block of it meets a known one") {
  Cluster cluster(1, pattern(40'000), 1000);
  std::uint64_t length = 0;
  SUBCASE("a longer one") { length = 50'000; }
  SUBCASE("a shorter one") { length = 25'000; }
  const LocatedBlocks other = another_file(cluster, length, 1000);
  cluster.locate = [&](int call) {
    if (call == 0) return Result<LocatedBlocks>(from(cluster.located, 0, 10));
    return Result<LocatedBlocks>(call % 2 == 1 ? from(other, 10'500, 10) : from(other, 0, 1));
  };
  const auto file = cluster.open();
  for (int i = 0; i < 2; ++i) {  // nothing of it is kept
    const Status failure = failure_of(cluster, *file, 10'500, 10);
    CHECK(failure.error_number() == ESTALE);
    CHECK(has(failure.message(), "replaced"));
  }
  CHECK(read(cluster, *file, 0, 10'000) == cluster.part(0, 10'000));
}

TEST_CASE("hdfs source: a file that was appended to is read on, for one more call") {
  Cluster cluster(1, pattern(40'000), 1000);
  LocatedBlocks longer = cluster.located;
  longer.last_block->block = {"pool", 7000, 1, 1000};
  longer.last_block->offset = 40'000;
  longer.file_length = 41'000;
  const std::vector<std::uint64_t> asked = {0, 10'000, 0, 20'000, 30'000};
  cluster.locate = [&](int call) {
    return Result<LocatedBlocks>(from(call == 0 ? cluster.located : longer,
                                      asked.at(static_cast<std::size_t>(call)),
                                      call == 2 ? 1 : 10));
  };
  const auto file = cluster.open();
  CHECK(read(cluster, *file, 0, 50'000) == cluster.file);
  CHECK(cluster.name_node.location_calls() == 5);
}

TEST_CASE("hdfs source: blocks without bytes, and those after its end, are not its business") {
  Cluster cluster(1, pattern(2000), 1000);
  LocatedBlocks all = cluster.located;
  LocatedBlock last = all.blocks[1];
  last.offset = 2000;
  last.block = {"pool", 7000, 1, 0};
  last.replicas.clear();  // of a writer that has just begun it
  all.last_block = last;
  all.last_block_complete = false;
  all.under_construction = true;
  cluster.locate = [&](int call) {
    LocatedBlocks some = all;
    some.blocks.resize(call == 0 ? 1 : 2);
    if (call > 0) {  // the writer has given it up for another one, and filled that
      some.last_block->block = {"pool", 7001, 1, 500};
    }
    LocatedBlock empty = all.blocks[1];
    empty.block = {"pool", 7002, 1, 0};
    some.blocks.push_back(empty);  // such as a close without a byte leaves behind
    return Result<LocatedBlocks>(some);
  };
  const auto file = cluster.open();
  CHECK(*file->length() == 2000);
  CHECK(read(cluster, *file, 0, 5000) == cluster.part(0, 2000));
  CHECK(cluster.name_node.location_calls() == 3);  // its first block, as the last is another one
  CHECK(file->locations().size() == 2);
}

TEST_CASE("hdfs source: a file that was cut short is noticed") {
  Cluster cluster(1, pattern(2000), 1000);
  const auto file = cluster.open();
  cluster.datanodes[0]->stop();
  cluster.located.blocks.pop_back();
  cluster.located.last_block = cluster.located.blocks[0];
  cluster.located.file_length = 1000;
  const Status failure = failure_of(cluster, *file, 1500, 10);
  CHECK(has(failure.message(), "2000 bytes when it was opened"));
}

// Two blocks: one complete, one of which the NameNode knows no length.
Cluster& begin_last_block(Cluster& cluster) {
  LocatedBlock& last = cluster.located.blocks[1];
  last.block.length = 0;
  cluster.located.last_block = last;
  cluster.located.last_block_complete = false;
  cluster.located.under_construction = true;
  cluster.located.file_length = 1000;
  return cluster;
}

TEST_CASE("hdfs source: of a file that was recovered shorter, what is left is read") {
  Cluster cluster(2, pattern(1700), 1000);
  cluster.settings.read.retry_window = 1h;  // a pause would be noticed
  begin_last_block(cluster);
  cluster.visible_length = [](const auto&, const auto&) { return std::int64_t{700}; };
  const auto file = cluster.open();
  LocatedBlock& last = cluster.located.blocks[1];
  last.block.length = 300;
  last.block.generation_stamp = 2;
  cluster.located.last_block = last;
  cluster.located.last_block_complete = true;
  cluster.located.under_construction = false;
  cluster.located.file_length = 1300;
  for (const auto& datanode : cluster.datanodes) {
    datanode->store(kFirstId + 1, StoredReplica(cluster.part(1000, 300)));
  }
  SUBCASE("up to there") {
    CHECK(read(cluster, *file, 0, 1300) == cluster.part(0, 1300));
    CHECK(cluster.name_node.location_calls() == 2);
  }
  SUBCASE("not beyond") {
    const Status failure = failure_of(cluster, *file, 1200, 300);
    CHECK(has(failure.message(), "1700 bytes when it was opened"));
    CHECK(has(failure.message(), "recovered shorter"));
    CHECK(read(cluster, *file, 1200, 100) == cluster.part(1200, 100));
  }
}

// --- files that are being written

TEST_CASE("hdfs source: of a file being written, what a replica shows is read") {
  Cluster cluster(2, pattern(1700), 1000);
  begin_last_block(cluster);
  cluster.visible_length = [&](const DatanodeInfo& node,
                               const ExtendedBlock& block) -> Result<std::int64_t> {
    CHECK(block.id == kFirstId + 1);
    if (node.transfer_port == cluster.datanodes[0]->port()) return std::int64_t{-1};
    return std::int64_t{650};
  };
  const auto file = cluster.open();
  CHECK(*file->length() == 1650);
  CHECK(read(cluster, *file, 0, 5000) == cluster.part(0, 1650));
  CHECK(read(cluster, *file, 1649, 10) == cluster.part(1649, 1));
  CHECK(read(cluster, *file, 1650, 10).empty());
}

TEST_CASE("hdfs source: a block that no DataNode has yet has no bytes") {
  Cluster cluster(2, pattern(1700), 1000);
  begin_last_block(cluster);
  cluster.visible_length = [](const auto&, const auto&) -> Result<std::int64_t> {
    return Status(StatusCode::kIo, "no replica")
        .with_remote_class("org.apache.hadoop.hdfs.server.datanode.ReplicaNotFoundException");
  };
  CHECK(*cluster.open()->length() == 1000);
}

// Seed 5032932 of the simulator: the NameNode's answer was old, and a balancer had been there
// since.
TEST_CASE(
    "hdfs source: a last block with recorded bytes that nobody has any more is located anew") {
  Cluster cluster(2, pattern(1700), 1000);
  begin_last_block(cluster);
  cluster.located.last_block->block.length = 607;
  cluster.settings.read.last_block_length_interval = 1ms;
  bool is_there = false;
  cluster.visible_length = [&](const auto&, const auto&) -> Result<std::int64_t> {
    if (is_there) return std::int64_t{700};
    return Status(StatusCode::kIo, "no replica").with_remote_class("x.ReplicaNotFoundException");
  };
  SUBCASE("and found") {
    cluster.locate = [&](int call) {
      is_there = call == 2;
      return Result<LocatedBlocks>(cluster.located);
    };
    CHECK(*cluster.open()->length() == 1700);
  }
  SUBCASE("or not: it is not taken for empty") {
    const auto opened = HdfsSource::open(cluster.context(), "/file", true, cluster.interrupt);
    REQUIRE_FALSE(opened.ok());
    CHECK(has(opened.status().message(), "has 607 bytes or more and no replica with them on any"));
  }
}

TEST_CASE("hdfs source: without an answer from any DataNode there is no length") {
  Cluster cluster(2, pattern(1700), 1000);
  begin_last_block(cluster);
  cluster.visible_length = [&](const DatanodeInfo& node, const auto&) -> Result<std::int64_t> {
    if (node.transfer_port == cluster.datanodes[0]->port()) {
      return Status(StatusCode::kIo, "no replica").with_remote_class("x.ReplicaNotFoundException");
    }
    return Status(StatusCode::kIo, "connection refused", {}, ECONNREFUSED);
  };
  const auto opened = HdfsSource::open(cluster.context(), "/file", true, cluster.interrupt);
  REQUIRE_FALSE(opened.ok());
  CHECK(opened.status().path() == "/file");
  CHECK(has(opened.status().message(), "blk_1002_1"));
  CHECK(has(opened.status().message(), "connection refused"));
}

TEST_CASE("hdfs source: a DataNode that is starting is asked again") {
  Cluster cluster(2, pattern(1700), 1000);
  begin_last_block(cluster);
  int asked = 0;
  cluster.visible_length = [&](const DatanodeInfo& node, const auto&) -> Result<std::int64_t> {
    if (node.transfer_port == cluster.datanodes[0]->port()) {
      return Status(StatusCode::kIo, "no replica").with_remote_class("x.ReplicaNotFoundException");
    }
    if (++asked == 1) {
      return Status(StatusCode::kIo, "starting").with_remote_class("x.RetriableException");
    }
    return std::int64_t{3};
  };
  CHECK(*cluster.open()->length() == 1003);
  CHECK(asked == 2);
}

TEST_CASE("hdfs source: a last block that nobody has is waited for") {
  Cluster cluster(2, pattern(1700), 1000);
  begin_last_block(cluster);
  const LocatedBlock begun = *cluster.located.last_block;
  cluster.settings.read.last_block_length_interval = 1ms;
  cluster.visible_length = [](const auto&, const auto&) { return std::int64_t{700}; };
  cluster.located.last_block->replicas.clear();
  CHECK(*cluster.open()->length() == 1000);  // of 0 bytes: nothing is missing
  cluster.located.last_block->block.length = 5;
  SUBCASE("in vain") {
    const auto opened = HdfsSource::open(cluster.context(), "/file", true, cluster.interrupt);
    REQUIRE_FALSE(opened.ok());
    CHECK(has(opened.status().message(), "no replica with them on any DataNode, asked 4 times"));
  }
  SUBCASE("until it comes") {
    cluster.locate = [&](int call) {
      if (call == 3) cluster.located.last_block = begun;
      return Result<LocatedBlocks>(cluster.located);
    };
    CHECK(*cluster.open()->length() == 1700);
  }
}

TEST_CASE("hdfs source: what is written after the open belongs to the next one") {
  Cluster cluster(1, pattern(1700), 1000);
  begin_last_block(cluster);
  std::int64_t shown = 100;
  cluster.visible_length = [&](const auto&, const auto&) { return shown; };
  const auto before = cluster.open();
  shown = 700;
  const auto after = cluster.open();
  CHECK(*before->length() == 1100);
  CHECK(read(cluster, *before, 1000, 5000) == cluster.part(1000, 100));
  CHECK(*after->length() == 1700);
  CHECK(read(cluster, *after, 1000, 5000) == cluster.part(1000, 700));
}

TEST_CASE("hdfs source: locations asked anew keep the length that a replica told") {
  Cluster cluster(2, pattern(1700), 1000);
  begin_last_block(cluster);
  cluster.visible_length = [](const auto&, const auto&) { return std::int64_t{700}; };
  const auto file = cluster.open();
  std::atomic<int> refused = 0;
  for (const auto& datanode : cluster.datanodes) {
    datanode->follow([&](const Operation&) -> std::optional<Reply> {
      if (++refused > 2) return std::nullopt;
      return Reply{"", Reply::Then::kClose};
    });
  }
  CHECK(read(cluster, *file, 1000, 700) == cluster.part(1000, 700));
  CHECK(cluster.name_node.location_calls() == 3);
}

}  // namespace
}  // namespace hflush::hdfs
