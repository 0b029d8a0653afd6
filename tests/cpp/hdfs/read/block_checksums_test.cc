#include "hflush/hdfs/read/block_checksums.h"

#include <doctest/doctest.h>

#include <cerrno>
#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "hdfs/scripted_cluster.h"
#include "hflush/hdfs/read/stored_checksum.h"
#include "testing/bytes.h"

namespace hflush::hdfs {
namespace {

using hflush::testing::pattern;
using testing::Cluster;
using testing::kFirstId;
using testing::Operation;
using testing::refusing_reply;
using testing::Reply;

constexpr std::uint64_t kAll = ~0ULL;

// What a DataNode says of a block; `kind` is missing from old ones.
std::string checksum_reply(const std::string& checksum, std::optional<crc::Kind> kind) {
  std::string message;
  wire::Writer reply(message);
  reply.add_enum(1, 0);
  {
    wire::Writer answer(reply, 3);
    answer.add_uint32(1, 512);
    answer.add_uint64(2, 256);
    answer.add_bytes(3, checksum);
    if (kind) answer.add_enum(4, static_cast<std::int32_t>(*kind));
  }
  return testing::delimited_reply(message);
}

// DataNodes whose checksum of a block is its id and length, 16 bytes of text.
void answer_with_length(Cluster& cluster, std::optional<crc::Kind> kind = crc::Kind::kCrc32c) {
  for (const auto& datanode : cluster.datanodes) {
    datanode->follow([kind](const Operation& operation) -> std::optional<Reply> {
      if (operation.code != testing::kBlockChecksum) return std::nullopt;
      std::string sum = std::to_string(operation.block_id) + ":" + std::to_string(operation.length);
      sum.resize(16, '.');
      return Reply{checksum_reply(sum, kind), Reply::Then::kClose};
    });
  }
}

TEST_CASE("block checksums: one of each block, with its length") {
  Cluster cluster(2, pattern(2500), 1000);
  answer_with_length(cluster);
  const auto sums = block_checksums(cluster.context(), "/file", kAll, BlockChecksumType::kMd5Crc,
                                    cluster.interrupt);
  REQUIRE(sums.ok());
  REQUIRE(sums->size() == 3);
  CHECK((*sums)[0].checksum == "1001:1000.......");
  CHECK((*sums)[2].checksum == "1003:500........");
  CHECK((*sums)[2].size == 500);
  CHECK((*sums)[0].bytes_per_crc == 512);
  CHECK((*sums)[0].crcs_per_block == 256);
  CHECK((*sums)[0].kind == crc::Kind::kCrc32c);
  CHECK(cluster.datanodes[1]->operations().empty());
}

TEST_CASE("block checksums: of a prefix") {
  Cluster cluster(1, pattern(2500), 1000);
  answer_with_length(cluster);
  const auto count = [&](std::uint64_t length) {
    const auto sums = block_checksums(cluster.context(), "/file", length,
                                      BlockChecksumType::kMd5Crc, cluster.interrupt);
    REQUIRE(sums.ok());
    std::uint64_t size = 0;
    for (const BlockChecksum& sum : *sums) size += sum.size;
    CHECK(size == std::min<std::uint64_t>(length, 2500));
    return sums->size();
  };
  CHECK(count(0) == 0);
  CHECK(count(1) == 1);
  CHECK(count(1000) == 1);
  CHECK(count(1001) == 2);
  CHECK(count(2500) == 3);
  CHECK(count(2501) == 3);
}

TEST_CASE("block checksums: an empty file has none") {
  Cluster cluster(1, {}, 1000);
  const auto sums = block_checksums(cluster.context(), "/file", kAll, BlockChecksumType::kMd5Crc,
                                    cluster.interrupt);
  REQUIRE(sums.ok());
  CHECK(sums->empty());
}

TEST_CASE("block checksums: of a file that is closed while its last block is not reported") {
  Cluster cluster(1, pattern(100), 1000);
  answer_with_length(cluster);
  cluster.located.file_length = 0;
  cluster.located.last_block_complete = false;
  const auto sums = block_checksums(cluster.context(), "/file", kAll, BlockChecksumType::kMd5Crc,
                                    cluster.interrupt);
  REQUIRE(sums.ok());
  REQUIRE(sums->size() == 1);
  CHECK((*sums)[0].checksum == "1001:100........");
  CHECK(cluster.datanodes[0]->operations().size() == 1);
}

TEST_CASE("block checksums: the next replica answers for one that does not") {
  Cluster cluster(3, pattern(500), 1000);
  answer_with_length(cluster);
  cluster.datanodes[0]->stop();
  cluster.datanodes[1]->follow([](const Operation&) {
    return Reply{refusing_reply(TransferStatus::kError, "busy"), Reply::Then::kClose};
  });
  const auto sums = block_checksums(cluster.context(), "/file", kAll, BlockChecksumType::kMd5Crc,
                                    cluster.interrupt);
  REQUIRE(sums.ok());
  CHECK((*sums)[0].checksum == "1001:500........");
  cluster.datanodes[2]->follow([](const Operation&) {
    return Reply{checksum_reply("short", crc::Kind::kCrc32), Reply::Then::kClose};
  });
  const Status failure = block_checksums(cluster.context(), "/file", kAll,
                                         BlockChecksumType::kMd5Crc, cluster.interrupt)
                             .status();
  CAPTURE(failure.message());
  CHECK(failure.code() == StatusCode::kIo);
  CHECK(failure.path() == "/file");
  CHECK(failure.message().find("refused with ERROR: busy") != std::string::npos);
  CHECK(failure.message().find("without a checksum of 16 bytes") != std::string::npos);
}

TEST_CASE("block checksums: a DataNode that failed one block comes last for the others") {
  Cluster cluster(2, pattern(2500), 1000);
  answer_with_length(cluster);
  cluster.datanodes[0]->follow([](const Operation&) { return Reply{"", Reply::Then::kClose}; });
  const auto sums = block_checksums(cluster.context(), "/file", kAll, BlockChecksumType::kMd5Crc,
                                    cluster.interrupt);
  REQUIRE(sums.ok());
  CHECK(sums->size() == 3);
  CHECK(cluster.datanodes[0]->operations().size() == 1);
  CHECK(cluster.datanodes[1]->operations().size() == 3);
}

TEST_CASE("block checksums: a token that is refused is renewed") {
  Cluster cluster(1, pattern(500), 1000);
  answer_with_length(cluster);
  int asked = 0;
  cluster.datanodes[0]->follow([&](const Operation&) {
    if (++asked == 1) {
      return Reply{refusing_reply(TransferStatus::kErrorAccessToken, ""), Reply::Then::kClose};
    }
    return Reply{checksum_reply("\x01\x02\x03\x04", crc::Kind::kCrc32), Reply::Then::kClose};
  });
  const auto sums = block_checksums(cluster.context(), "/file", kAll,
                                    BlockChecksumType::kCompositeCrc, cluster.interrupt);
  REQUIRE(sums.ok());
  CHECK((*sums)[0].checksum == "\x01\x02\x03\x04");
  CHECK(cluster.name_node.location_calls() == 2);
}

TEST_CASE("block checksums: a DataNode that does not say the kind is asked for a byte") {
  Cluster cluster(1, pattern(500), 1000);
  answer_with_length(cluster, std::nullopt);
  const auto sums = block_checksums(cluster.context(), "/file", kAll, BlockChecksumType::kMd5Crc,
                                    cluster.interrupt);
  REQUIRE(sums.ok());
  CHECK((*sums)[0].kind == crc::Kind::kCrc32c);
  CHECK(cluster.datanodes[0]->operations().size() == 2);
}

TEST_CASE("block checksums: none of a file that is being written") {
  Cluster cluster(1, pattern(500), 1000);
  cluster.located.under_construction = true;
  const Status failure = block_checksums(cluster.context(), "/file", kAll,
                                         BlockChecksumType::kMd5Crc, cluster.interrupt)
                             .status();
  CHECK(failure.error_number() == EBUSY);
}

TEST_CASE("stored checksum: what the first replica that answers says") {
  Cluster cluster(2, pattern(500), 1000);
  cluster.datanodes[0]->stop();
  testing::StoredReplica replica(cluster.file, {crc::Kind::kCrc32, 128});
  cluster.datanodes[1]->store(kFirstId, std::move(replica));
  const auto stored =
      stored_checksum(cluster.context(), "/file", cluster.located.blocks[0], cluster.interrupt);
  REQUIRE(stored.ok());
  CHECK(*stored == ChecksumParameters{crc::Kind::kCrc32, 128});
  const auto operations = cluster.datanodes[1]->operations();
  REQUIRE(operations.size() == 1);
  CHECK(operations[0].offset == 0);
  CHECK(operations[0].length == 1);
}

TEST_CASE("stored checksum: who can do without waits for none, and does not pause") {
  Cluster cluster(6, pattern(500), 1000);
  const auto ask = [&](env::Duration patience) {
    return stored_checksum_within(patience, cluster.context(), "/file", cluster.located.blocks[0],
                                  cluster.interrupt);
  };
  const auto is_silent = [](const Operation&) { return Reply{"", Reply::Then::kSilence}; };
  cluster.datanodes[0]->follow(is_silent);
  CHECK(ask(std::chrono::seconds(2)).ok());
  for (const auto& datanode : cluster.datanodes) datanode->follow(is_silent);
  CHECK(ask(std::chrono::milliseconds(300)).status().code() == StatusCode::kTimedOut);
  CHECK(cluster.datanodes[5]->operations().empty());
  CHECK(cluster.name_node.location_calls() == 0);
  for (const auto& datanode : cluster.datanodes) datanode->stop();
  CHECK(ask(hflush::testing::kPatience).status().error_number() == ECONNREFUSED);
  CHECK(cluster.name_node.location_calls() == 2);
}

TEST_CASE("stored checksum: nobody to ask says who did not answer") {
  Cluster cluster(2, pattern(500), 1000);
  cluster.datanodes[0]->stop();
  cluster.datanodes[1]->stop();
  const Status failure =
      stored_checksum(cluster.context(), "/file", cluster.located.blocks[0], cluster.interrupt)
          .status();
  CHECK(failure.path() == "/file");
  CHECK(failure.error_number() == ECONNREFUSED);
  CHECK(failure.message().find("blk_1001_1") != std::string::npos);
}

}  // namespace
}  // namespace hflush::hdfs
