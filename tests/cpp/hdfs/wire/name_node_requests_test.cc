// Requests and responses are spelled as the reference client and a real NameNode spell them, and
// bytes that are no response are refused, whatever they are.
#include "hflush/hdfs/wire/name_node_requests.h"

#include <doctest/doctest.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "hdfs/golden.h"
#include "hdfs/messages.h"

namespace hflush::hdfs {
namespace {

using testing::check_refused;
using testing::each_bit_flip;
using testing::each_truncation;
using testing::Field;
using testing::length_delimited;
using testing::number;
using testing::split;
using testing::unknown_fields;
using testing::varint;
using testing::without;
using testing::golden::bytes;
using testing::golden::hex;

constexpr std::string_view kPool = "BP-1883142029-127.0.0.1-1795246286436";
constexpr std::uint64_t kMillion = 1048576;
constexpr std::uint64_t kFileId = 16387;
constexpr std::uint64_t kNegative = 1ULL << 63U;

ExtendedBlock block_of(std::uint64_t generation_stamp, std::uint64_t length) {
  return {std::string(kPool), 1073741825, generation_stamp, length};
}

template <Request T>
auto decoded(const std::string& body) {
  return T::decode(as_bytes(body));
}

// The answer to golden bytes.
template <Request T>
typename T::Response answer(std::string_view golden) {
  auto result = decoded<T>(bytes(golden));
  REQUIRE_MESSAGE(result.ok(), result.status().to_string());
  return *std::move(result);
}

template <Request T>
void refuses(const std::string& body, std::string_view part) {
  CAPTURE(hex(body));
  auto result = decoded<T>(body);
  REQUIRE_FALSE(result.ok());
  CHECK(result.status().message().starts_with(std::string(T::kMethod) + ": "));
  check_refused(result.status(), part);
}

#define CHECK_BYTES(request, expected) CHECK(hex((request).encode()) == hex(bytes(expected)))

// What a client says.

TEST_CASE("create, as recorded") {
  Create create;
  create.path = "/d/g";
  create.client_name = "C1";
  create.create_parent = false;
  create.replication = 1;
  create.block_size = kMillion;
  CHECK_BYTES(create, "0a04 2f642f67 1203 08a403 1a02 4331 2001 2800 3001 38808040 4a03 08b603");
}

TEST_CASE("create: policies travel only if there are some") {
  Create create;
  create.path = "/d/g";
  create.client_name = "C1";
  create.flags = kFlagCreate | kFlagOverwrite | kFlagShouldReplicate;
  create.block_size = kMillion;
  create.ec_policy = "RS";
  create.storage_policy = "HOT";
  CHECK_BYTES(create,
              "0a04 2f642f67 1203 08a403 1a02 4331 208301 2801 3003 38808040 4a03 08b603"
              "5202 5253 5a03 484f54");
}

TEST_CASE("the other recorded requests of a write") {
  AddBlock add;
  add.path = "/d/g";
  add.client_name = "C1";
  add.file_id = kFileId;
  CHECK_BYTES(add, "0a04 2f642f67 1202 4331 28838001");

  Complete complete;
  complete.path = "/d/g";
  complete.client_name = "C1";
  complete.last = block_of(1001, 1025);
  complete.file_id = kFileId;
  CHECK_BYTES(complete, "0a04 2f642f67 1202 4331 1a33 [BLOCK_1025] 20838001");
  complete.last = block_of(1002, 1032);
  CHECK_BYTES(complete, "0a04 2f642f67 1202 4331 1a33 [BLOCK_1032] 20838001");
  complete.last.reset();
  CHECK_BYTES(complete, "0a04 2f642f67 1202 4331 20838001");

  Fsync fsync;
  fsync.path = "/d/g";
  fsync.client_name = "C1";
  fsync.last_block_length = 1032;
  fsync.file_id = kFileId;
  CHECK_BYTES(fsync, "0a04 2f642f67 1202 4331 189010 20838001");
  fsync.last_block_length = -1;
  CHECK_BYTES(fsync, "0a04 2f642f67 1202 4331 1801 20838001");
}

TEST_CASE("addBlock names the previous block, refused nodes, favoured nodes and flags") {
  const LocatedBlock located = answer<AddBlock>("[ADD_BLOCK]");
  AddBlock add;
  add.path = "/d/g";
  add.client_name = "C1";
  add.previous = block_of(1001, 1025);
  add.excluded = {located.replicas.at(0).node, located.replicas.at(0).node};
  add.favored_nodes = {"a:1", "b:2"};
  add.no_local_write = true;
  add.ignore_client_locality = true;
  CHECK_BYTES(add,
              "0a04 2f642f67 1202 4331 1a33 [BLOCK_1025] 22a301 [DN] 22a301 [DN] 2800"
              "3203 613a31 3203 623a32 3801 3802");
}

TEST_CASE("the recorded requests of an append") {
  Append append;
  append.path = "/d/g";
  append.client_name = "C1";
  CHECK_BYTES(append, "0a04 2f642f67 1202 4331 1804");
  append.flags = kFlagAppend | kFlagNewBlock;
  CHECK_BYTES(append, "0a04 2f642f67 1202 4331 1824");

  UpdateBlockForPipeline reserve;
  reserve.block = block_of(1001, 1025);
  reserve.client_name = "C1";
  CHECK_BYTES(reserve, "0a33 [BLOCK_1025] 1202 4331");

  UpdatePipeline update;
  update.client_name = "C1";
  update.old_block = block_of(1001, 1025);
  update.new_block = block_of(1002, 1025);
  update.replicas = answer<Append>("[APPEND]").block.value().replicas;
  CHECK_BYTES(update, "0a02 4331 1233 [BLOCK_1025] 1a33 [BLOCK_1025_NEXT] 224a [DNID] 2a27 [SID]");
}

TEST_CASE("nodes and storages go back in parallel, unknown storages as empty names") {
  Replica replica = answer<AddBlock>("[ADD_BLOCK]").replicas.at(0);
  Replica unknown = replica;
  unknown.storage_id.clear();

  GetAdditionalDatanode more;
  more.path = "/d/g";
  more.block = block_of(1001, 1025);
  more.existing = {replica, unknown};
  more.excluded = {replica.node};
  more.client_name = "C1";
  more.file_id = kFileId;
  CHECK_BYTES(more,
              "0a04 2f642f67 1233 [BLOCK_1025] 1aa301 [DN] 1aa301 [DN] 22a301 [DN] 2801"
              "3202 4331 3a27 [SID] 3a00 40838001");
}

TEST_CASE("abandonBlock, and what keeps or ends a lease") {
  AbandonBlock abandon;
  abandon.block = block_of(1001, 1025);
  abandon.path = "/d/g";
  abandon.client_name = "C1";
  abandon.file_id = kFileId;
  CHECK_BYTES(abandon, "0a33 [BLOCK_1025] 1204 2f642f67 1a02 4331 20838001");

  RenewLease renew;
  renew.client_name = "C1";
  CHECK_BYTES(renew, "0a02 4331");
  renew.name_spaces = {"ns1", "ns2"};
  CHECK_BYTES(renew, "0a02 4331 1203 6e7331 1203 6e7332");

  RecoverLease recover;
  recover.path = "/d/g";
  recover.client_name = "C1";
  CHECK_BYTES(recover, "0a04 2f642f67 1202 4331");
  CHECK_BYTES(IsFileClosed{"/d/g"}, "0a04 2f642f67");
}

TEST_CASE("reportBadBlocks lists the bad replicas, each node as it came") {
  LocatedBlock bad = answer<GetBlockLocations>("[GET_BLOCK_LOCATIONS]").value().blocks.at(0);
  bad.cached.clear();
  CHECK_BYTES(ReportBadBlocks{{bad}},
              "0a9402 0a33 [BLOCK_1032] 1000 1aa301 [DN] 2000 2a08 [TOK0] 3801 4227 [SID]");
}

TEST_CASE("the recorded questions about files") {
  CHECK_BYTES(GetFileInfo{"/d"}, "0a02 2f64");
  CHECK_BYTES(GetFileInfo{"/none"}, "0a05 2f6e6f6e65");
  GetBlockLocations locations;
  locations.path = "/none";
  locations.length = 1;
  CHECK_BYTES(locations, "0a05 2f6e6f6e65 1000 1801");
  locations.path = "/d/g";
  locations.length = 1099511627776;
  CHECK_BYTES(locations, "0a04 2f642f67 1000 18808080808020");
}

TEST_CASE("a request without fields has no bytes") {
  CHECK(GetServerDefaults{}.encode().empty());
  CHECK(GetFsStats{}.encode().empty());
  CHECK(Msync{}.encode().empty());
}

TEST_CASE("the other questions about files") {
  CHECK_BYTES((GetListing{"/d", "", false}), "0a02 2f64 1200 1800");
  CHECK_BYTES((GetListing{"/d", "g", true}), "0a02 2f64 1201 67 1801");
  CHECK_BYTES(GetContentSummary{"/d"}, "0a02 2f64");
  CHECK_BYTES(GetEZForPath{"/d"}, "0a02 2f64");
  CHECK_BYTES(GetEnclosingRoot{"/d"}, "0a02 2f64");
  CHECK_BYTES(GetReplicaVisibleLength{block_of(1001, 1025)}, "0a33 [BLOCK_1025]");
}

TEST_CASE("changes of the name space") {
  Mkdirs mkdirs;
  mkdirs.path = "/d";
  CHECK_BYTES(mkdirs, "0a02 2f64 1203 08ed03 1801 2203 08ff03");
  mkdirs.masked = 0;
  mkdirs.unmasked = 0;
  mkdirs.create_parent = false;
  CHECK_BYTES(mkdirs, "0a02 2f64 1202 0800 1800 2202 0800");
  CHECK_BYTES((Delete{"/d", true}), "0a02 2f64 1001");
  CHECK_BYTES((Delete{"/d", false}), "0a02 2f64 1000");
  CHECK_BYTES((Rename{"/a", "/b"}), "0a02 2f61 1202 2f62");
  CHECK_BYTES((Rename2{"/a", "/b", true, false}), "0a02 2f61 1202 2f62 1801 2000");
  CHECK_BYTES((Rename2{"/a", "/b", false, true}), "0a02 2f61 1202 2f62 1800 2001");
  CHECK_BYTES((Truncate{"/a", 300, "C1"}), "0a02 2f61 10ac02 1a02 4331");
  CHECK_BYTES((Concat{"/a", {"/b", "/c"}}), "0a02 2f61 1202 2f62 1202 2f63");
}

TEST_CASE("changes of a file's attributes") {
  CHECK_BYTES((SetPermission{"/a", 01777}), "0a02 2f61 1203 08ff07");
  CHECK_BYTES((SetOwner{"/a", "bob", std::nullopt}), "0a02 2f61 1203 626f62");
  CHECK_BYTES((SetOwner{"/a", std::nullopt, "staff"}), "0a02 2f61 1a05 7374616666");
  CHECK_BYTES((SetTimes{"/a", 1, -1}), "0a02 2f61 1001 18ffffffffffffffffff01");
  CHECK_BYTES((SetReplication{"/a", 2}), "0a02 2f61 1002");
  CHECK_BYTES((SetStoragePolicy{"/a", "HOT"}), "0a02 2f61 1203 484f54");
  CHECK_BYTES((SetQuota{"/a", 10, SetQuota::kNone, std::nullopt}),
              "0a02 2f61 100a 18ffffffffffffffffff01");
  CHECK_BYTES((SetQuota{"/a", SetQuota::kUnchanged, 5, StorageType::kSsd}),
              "0a02 2f61 10ffffffffffffffff7f 1805 2002");
  CHECK_BYTES((SetSafeMode{SafeModeAction::kGet, false}), "0803 1000");
  CHECK_BYTES((SetSafeMode{SafeModeAction::kForceExit, true}), "0804 1001");
}

TEST_CASE("what may be repeated only with its first id") {
  CHECK(Create::kRepeat == Repeat::kAtMostOnce);
  CHECK(Append::kRepeat == Repeat::kAtMostOnce);
  CHECK(UpdatePipeline::kRepeat == Repeat::kAtMostOnce);
  CHECK(Delete::kRepeat == Repeat::kAtMostOnce);
  CHECK(Rename::kRepeat == Repeat::kAtMostOnce);
  CHECK(Rename2::kRepeat == Repeat::kAtMostOnce);
  CHECK(Concat::kRepeat == Repeat::kAtMostOnce);
  CHECK(AddBlock::kRepeat == Repeat::kIdempotent);
  CHECK(Complete::kRepeat == Repeat::kIdempotent);
}

// What a NameNode says.

TEST_CASE("getFileInfo, as recorded: a directory") {
  const auto status = answer<GetFileInfo>("[GET_FILE_INFO]");
  REQUIRE(status.has_value());
  CHECK(status->kind == FileKind::kDirectory);
  CHECK(status->name.empty());
  CHECK(status->length == 0);
  CHECK(status->permission == 0755);
  CHECK(status->owner == "alice");
  CHECK(status->group == "staff");
  CHECK(status->modification_time == 1700000000000);
  CHECK(status->access_time == 0);
  CHECK(status->replication == 0);
  CHECK(status->block_size == 0);
  CHECK(status->file_id == 16386);
  CHECK(status->children == 0);
  CHECK(status->storage_policy == 0);
  CHECK(status->flags == 0);
  CHECK_FALSE(status->locations.has_value());
  CHECK_FALSE(status->encrypted);
  CHECK_FALSE(status->erasure_coded);
}

TEST_CASE("a missing path has no status, listing or locations") {
  CHECK_FALSE(answer<GetFileInfo>("").has_value());
  CHECK_FALSE(answer<GetListing>("").has_value());
  CHECK_FALSE(answer<GetBlockLocations>("").has_value());
}

TEST_CASE("create, as recorded: the new file") {
  const FileStatus status = answer<Create>("[CREATE]");
  CHECK(status.kind == FileKind::kFile);
  CHECK(status.permission == 0644);
  CHECK(status.modification_time == 1795246292793);
  CHECK(status.access_time == 1795246292793);
  CHECK(status.replication == 1);
  CHECK(status.block_size == kMillion);
  CHECK(status.file_id == kFileId);
}

void check_replica(const Replica& replica) {
  CHECK(replica.node.ip == "127.0.0.1");
  CHECK(replica.node.host == "127.0.0.1");
  CHECK(replica.node.uuid == "4676f982-9aff-4622-9885-115adaff6e4d");
  CHECK(replica.node.transfer_port == 42079);
  CHECK(replica.node.rpc_port == 42633);
  CHECK(replica.node.location == "/default-rack");
  CHECK(replica.node.encoded == bytes("[DN]"));
  CHECK(replica.node.encoded_id == bytes("[DNID]"));
  CHECK(replica.storage_type == StorageType::kDisk);
  CHECK(replica.storage_id == "DS-f9b9dfc1-8767-4225-9d1e-d4bde96823d8");
}

TEST_CASE("addBlock, as recorded: one replica") {
  const LocatedBlock located = answer<AddBlock>("[ADD_BLOCK]");
  CHECK(located.block == block_of(1001, 0));
  CHECK(located.offset == 0);
  CHECK_FALSE(located.corrupt);
  CHECK_FALSE(located.is_striped);
  CHECK(located.token == Token());
  CHECK(located.cached == std::vector{false});
  REQUIRE(located.replicas.size() == 1);
  check_replica(located.replicas[0]);
}

TEST_CASE("append, as recorded: the partial block, and the file") {
  const auto appended = answer<Append>("[APPEND]");
  REQUIRE(appended.block.has_value());
  CHECK(appended.block->block == block_of(1001, 1025));
  REQUIRE(appended.block->replicas.size() == 1);
  check_replica(appended.block->replicas[0]);
  REQUIRE(appended.status.has_value());
  CHECK(appended.status->length == 1025);
  CHECK(appended.status->modification_time == 1795246293408);
  const auto at_boundary = answer<Append>("123a [STATUS_G_APPEND]");
  CHECK_FALSE(at_boundary.block.has_value());
}

TEST_CASE("updateBlockForPipeline, as recorded: an offset that means nothing is 0") {
  const LocatedBlock located = answer<UpdateBlockForPipeline>("[UPDATE_BLOCK_FOR_PIPELINE]");
  CHECK(located.block == block_of(1002, 1025));
  CHECK(located.offset == 0);
  CHECK(located.replicas.empty());
}

TEST_CASE("getBlockLocations, as recorded") {
  const auto locations = answer<GetBlockLocations>("[GET_BLOCK_LOCATIONS]");
  REQUIRE(locations.has_value());
  CHECK(locations->file_length == 1032);
  CHECK_FALSE(locations->under_construction);
  CHECK(locations->last_block_complete);
  CHECK_FALSE(locations->encrypted);
  CHECK_FALSE(locations->erasure_coded);
  REQUIRE(locations->blocks.size() == 1);
  CHECK(locations->blocks[0].block == block_of(1002, 1032));
  CHECK(locations->blocks[0].end() == 1032);
  REQUIRE(locations->last_block.has_value());
  CHECK(locations->last_block->block == block_of(1002, 1032));
}

TEST_CASE("complete, as recorded, and the other answers that are yes or no") {
  CHECK(answer<Complete>("[COMPLETE]"));
  CHECK_FALSE(answer<Complete>("0800"));
  CHECK(answer<Mkdirs>("0801"));
  CHECK(answer<Delete>("0801"));
  CHECK(answer<Rename>("0801"));
  CHECK(answer<Truncate>("0801"));
  CHECK(answer<SetReplication>("0801"));
  CHECK(answer<RecoverLease>("0801"));
  CHECK(answer<IsFileClosed>("0801"));
  CHECK(answer<SetSafeMode>("0801"));
}

TEST_CASE("calls that answer nothing take an empty message") {
  answer<AbandonBlock>("");
  answer<UpdatePipeline>("");
  answer<Fsync>("");
  answer<RenewLease>("");
  answer<ReportBadBlocks>("");
  answer<Rename2>("");
  answer<Concat>("");
  answer<SetPermission>("");
  answer<SetOwner>("");
  answer<SetTimes>("");
  answer<SetStoragePolicy>("");
  answer<SetQuota>("");
  answer<Msync>("");
  refuses<Msync>(bytes("08"), "ends within a number");
}

TEST_CASE("server defaults: the checksum is CRC32 where none is told") {
  ServerDefaults defaults =
      answer<GetServerDefaults>("0a17 08808040 108004 18808004 2003 28808001 3001 380a 4002");
  CHECK(defaults.block_size == kMillion);
  CHECK(defaults.bytes_per_checksum == 512);
  CHECK(defaults.write_packet_size == 65536);
  CHECK(defaults.replication == 3);
  CHECK(defaults.file_buffer_size == 16384);
  CHECK(defaults.encrypt_data_transfer);
  CHECK(defaults.trash_interval_minutes == 10);
  CHECK(defaults.checksum == crc::Kind::kCrc32c);
  defaults = answer<GetServerDefaults>("0a11 08808040 108004 18808004 2003 28808001");
  CHECK(defaults.checksum == crc::Kind::kCrc32);
  CHECK_FALSE(defaults.encrypt_data_transfer);
}

TEST_CASE("a listing: entries in order, and how many are left") {
  const std::string entries = length_delimited(1, bytes("[STATUS_G] 120167")) +
                              length_delimited(1, bytes("[STATUS_D] 1202c3a9"));
  const auto result = decoded<GetListing>(length_delimited(1, entries + number(2, 5)));
  REQUIRE_MESSAGE(result.ok(), result.status().to_string());
  REQUIRE(result->has_value());
  REQUIRE((*result)->entries.size() == 2);
  CHECK((*result)->entries[0].name == "g");
  CHECK((*result)->entries[0].kind == FileKind::kFile);
  CHECK((*result)->entries[1].name == "\xc3\xa9");
  CHECK((*result)->entries[1].kind == FileKind::kDirectory);
  CHECK((*result)->remaining == 5);
  refuses<GetListing>(length_delimited(1, entries), "DirectoryListingProto has no remaining");
}

TEST_CASE("the rest of a file's status") {
  const std::string rest =
      length_delimited(9, "/target") + length_delimited(12, bytes("0800 1800 2801")) +
      number(14, static_cast<std::uint64_t>(-1)) + length_delimited(15, "key") +
      number(16, FileStatus::kLazyPersistPolicy) + bytes("8a0102 2002") + number(18, 15) +
      length_delimited(19, "ns1") + number(1, 3) + length_delimited(4, number(1, 0177777));
  const auto result = decoded<GetFileInfo>(length_delimited(1, bytes("[STATUS_G]") + rest));
  REQUIRE_MESSAGE(result.ok(), result.status().to_string());
  const FileStatus status = result->value();
  CHECK(status.kind == FileKind::kSymlink);
  CHECK(status.symlink == "/target");
  CHECK(status.permission == 01777);
  REQUIRE(status.locations.has_value());
  CHECK(status.locations->blocks.empty());
  CHECK_FALSE(status.locations->last_block.has_value());
  CHECK(status.children == -1);
  CHECK(status.encrypted);
  CHECK(status.storage_policy == 15);
  CHECK(status.erasure_coded);
  CHECK(status.flags == 15);
  CHECK(status.name_space == "ns1");
}

TEST_CASE("locations of an encrypted or erasure-coded file say so") {
  const auto locations = answer<GetBlockLocations>("0a 0c 0800 1801 2800 3200 3a02 2002");
  REQUIRE(locations.has_value());
  CHECK(locations->under_construction);
  CHECK_FALSE(locations->last_block_complete);
  CHECK(locations->encrypted);
  CHECK(locations->erasure_coded);
}

TEST_CASE("replicas: storages that are not told are unknown disks, in any order of fields") {
  const std::string block = length_delimited(1, bytes("[BLOCK_NEW]"));
  const std::string node = length_delimited(3, bytes("[DN]"));
  const std::string rest = number(2, 1024) + number(4, 1) + length_delimited(5, "token");
  const std::string storages = number(7, 2) + length_delimited(8, "DS-1");
  const auto check = [](const std::string& located) {
    const auto result = decoded<AddBlock>(length_delimited(1, located));
    REQUIRE_MESSAGE(result.ok(), result.status().to_string());
    REQUIRE(result->replicas.size() == 2);
    CHECK(result->offset == 1024);
    CHECK(result->corrupt);
    CHECK(result->token.encoded == "token");
    CHECK(result->replicas[0].storage_type == StorageType::kSsd);
    CHECK(result->replicas[0].storage_id == "DS-1");
    CHECK(result->replicas[1].storage_type == StorageType::kDisk);
    CHECK(result->replicas[1].storage_id.empty());
    CHECK(result->cached == std::vector{true, false, true});
    CHECK(result->is_striped);
  };
  const std::string more = bytes("3203 010001 4a01 00");
  check(block + node + node + rest + storages + more);
  check(more + storages + rest + node + node + block);
  // Packed or not is the same.
  check(block + node + node + rest + bytes("3a01 02 3001 3000 3001 4a00") +
        length_delimited(8, "DS-1"));
  // More storages than nodes: the others have no replica.
  check(block + node + node + rest + storages + more + number(7, 1) + number(7, 1) +
        length_delimited(8, "") + length_delimited(8, "DS-3"));
}

TEST_CASE("content summary: no quota is -1") {
  const auto summary = answer<GetContentSummary>(
      "0a1e 0801 1002 1803 20ffffffffffffffffff01 2804 30ffffffffffffffffff01");
  CHECK(summary.length == 1);
  CHECK(summary.file_count == 2);
  CHECK(summary.directory_count == 3);
  CHECK(summary.quota == -1);
  CHECK(summary.space_consumed == 4);
  CHECK(summary.space_quota == -1);
}

TEST_CASE("file system statistics") {
  const FsStats stats = answer<GetFsStats>("0801 1002 1803 2004 2805 3006 3807 4008 4809");
  CHECK(stats.capacity == 1);
  CHECK(stats.used == 2);
  CHECK(stats.remaining == 3);
  CHECK(stats.under_replicated == 4);
  CHECK(stats.corrupt_blocks == 5);
  CHECK(stats.missing_blocks == 6);
}

TEST_CASE("the remaining answers") {
  CHECK(answer<GetEZForPath>("0a0f 0807 1202 2f7a 1802 2002 2a03 6b6579") == "/z");
  CHECK_FALSE(answer<GetEZForPath>(""));
  CHECK(answer<GetEnclosingRoot>("0a012f") == "/");
  CHECK(answer<GetAdditionalDatanode>("[ADD_BLOCK]").replicas.size() == 1);
}

TEST_CASE("getReplicaVisibleLength is signed: -1 is a DataNode that does not know") {
  CHECK(answer<GetReplicaVisibleLength>("0807") == 7);
  CHECK(answer<GetReplicaVisibleLength>("08ffffffffffffffffff01") == -1);
}

// What is no response.

// `message` at some place inside a response, as `wrap` puts it there: without each of its fields it
// is refused by that field's name if it is required, and taken if not.
template <Request T, typename Wrap>
void check_required(const std::string& message, Wrap wrap,
                    const std::map<std::uint32_t, std::string>& required) {
  REQUIRE(decoded<T>(wrap(message)).ok());
  for (const Field& field : split(message)) {
    CAPTURE(field.number);
    const std::string body = wrap(without(message, field.number));
    const auto name = required.find(field.number);
    if (name == required.end()) {
      CHECK(decoded<T>(body).ok());
    } else {
      refuses<T>(body, name->second);
    }
  }
  for (const auto& [number, name] : required) CHECK(without(message, number) != message);
}

std::string in_field_1(const std::string& message) { return length_delimited(1, message); }

TEST_CASE("a required field that is missing is named, any other may be") {
  check_required<Create>(bytes("[STATUS_G]"), in_field_1,
                         {{1, "HdfsFileStatusProto has no fileType"},
                          {2, "HdfsFileStatusProto has no path"},
                          {3, "HdfsFileStatusProto has no length"},
                          {4, "HdfsFileStatusProto has no permission"},
                          {5, "HdfsFileStatusProto has no owner"},
                          {6, "HdfsFileStatusProto has no group"},
                          {7, "HdfsFileStatusProto has no modification_time"},
                          {8, "HdfsFileStatusProto has no access_time"}});
  check_required<AddBlock>(bytes("[LOCATED_NEW]"), in_field_1,
                           {{1, "LocatedBlockProto has no b"},
                            {2, "LocatedBlockProto has no offset"},
                            {4, "LocatedBlockProto has no corrupt"},
                            {5, "LocatedBlockProto has no blockToken"}});
  const auto as_block = [](const std::string& block) {
    return in_field_1(length_delimited(1, block) + without(bytes("[LOCATED_NEW]"), 1));
  };
  check_required<AddBlock>(bytes("[BLOCK_NEW]"), as_block,
                           {{1, "ExtendedBlockProto has no poolId"},
                            {2, "ExtendedBlockProto has no blockId"},
                            {3, "ExtendedBlockProto has no generationStamp"}});
  const auto as_node = [](const std::string& node) {
    return in_field_1(bytes("[LOCATED_NEW]") + length_delimited(3, node));
  };
  check_required<AddBlock>(bytes("[DN]"), as_node, {{1, "DatanodeInfoProto has no id"}});
  const auto as_id = [&](const std::string& id) { return as_node(length_delimited(1, id)); };
  check_required<AddBlock>(bytes("[DNID]"), as_id,
                           {{1, "DatanodeIDProto has no ipAddr"},
                            {2, "DatanodeIDProto has no hostName"},
                            {3, "DatanodeIDProto has no datanodeUuid"},
                            {4, "DatanodeIDProto has no xferPort"},
                            {5, "DatanodeIDProto has no infoPort"},
                            {6, "DatanodeIDProto has no ipcPort"}});
  check_required<GetBlockLocations>(
      bytes("088808 129702 [LOCATED_1032] 1800 229702 [LOCATED_1032] 2801"), in_field_1,
      {{1, "LocatedBlocksProto has no fileLength"},
       {3, "LocatedBlocksProto has no underConstruction"},
       {5, "LocatedBlocksProto has no isLastBlockComplete"}});
  check_required<GetServerDefaults>(bytes("08808040 108004 18808004 2003 28808001 3001"),
                                    in_field_1,
                                    {{1, "FsServerDefaultsProto has no blockSize"},
                                     {2, "FsServerDefaultsProto has no bytesPerChecksum"},
                                     {3, "FsServerDefaultsProto has no writePacketSize"},
                                     {4, "FsServerDefaultsProto has no replication"},
                                     {5, "FsServerDefaultsProto has no fileBufferSize"}});
  check_required<GetContentSummary>(bytes("0801 1002 1803 2004 2805 3006 3a00"), in_field_1,
                                    {{1, "ContentSummaryProto has no length"},
                                     {2, "ContentSummaryProto has no fileCount"},
                                     {3, "ContentSummaryProto has no directoryCount"},
                                     {4, "ContentSummaryProto has no quota"},
                                     {5, "ContentSummaryProto has no spaceConsumed"},
                                     {6, "ContentSummaryProto has no spaceQuota"}});
  const auto as_is = [](const std::string& message) { return message; };
  check_required<GetFsStats>(bytes("0801 1002 1803 2004 2805 3006 3807"), as_is,
                             {{1, "the response has no capacity"},
                              {2, "the response has no used"},
                              {3, "the response has no remaining"},
                              {4, "the response has no under_replicated"},
                              {5, "the response has no corrupt_blocks"},
                              {6, "the response has no missing_blocks"}});
}

TEST_CASE("a response without its one field is refused") {
  refuses<Create>("", "the response has no fs");
  refuses<AddBlock>("", "the response has no block");
  refuses<GetAdditionalDatanode>("", "the response has no block");
  refuses<UpdateBlockForPipeline>("", "the response has no block");
  refuses<Complete>("", "the response has no result");
  refuses<RecoverLease>("", "the response has no result");
  refuses<IsFileClosed>("", "the response has no result");
  refuses<GetServerDefaults>("", "the response has no serverDefaults");
  refuses<GetContentSummary>("", "the response has no summary");
  refuses<GetReplicaVisibleLength>("", "the response has no length");
  refuses<GetEnclosingRoot>("", "the response has no enclosingRootPath");
  refuses<GetEZForPath>(bytes("0a02 0807"), "EncryptionZoneProto has no path");
}

TEST_CASE("fields that a later server may add are passed over") {
  const std::string status = bytes("[STATUS_G]") + unknown_fields();
  const std::string node = bytes("[DN]") + unknown_fields();
  const std::string located = length_delimited(1, bytes("[BLOCK_NEW]") + unknown_fields()) +
                              length_delimited(3, node) + unknown_fields() +
                              without(without(bytes("[LOCATED_NEW]"), 1), 3);
  const auto created = decoded<Create>(length_delimited(1, status) + unknown_fields());
  REQUIRE_MESSAGE(created.ok(), created.status().to_string());
  CHECK(created->file_id == kFileId);
  const auto added = decoded<AddBlock>(unknown_fields() + length_delimited(1, located));
  REQUIRE_MESSAGE(added.ok(), added.status().to_string());
  // What only travels on keeps what we do not know.
  CHECK(added->replicas.at(0).node.encoded == node);
  CHECK(decoded<Msync>(unknown_fields()).ok());
}

TEST_CASE("fields of another wire type are refused") {
  refuses<Complete>(bytes("0a00"), "the response field 1 is of wire type 2, not 0");
  refuses<Complete>(bytes("0d 01000000"), "is of wire type 5, not 0");
  refuses<AddBlock>(bytes("0801"), "the response field 1 is of wire type 0, not 2");
  refuses<GetFileInfo>(bytes("09 0000000000000000"), "is of wire type 1, not 2");
  refuses<Create>(in_field_1(bytes("[STATUS_G] 2804")), "HdfsFileStatusProto field 5");
}

TEST_CASE("wire types and field numbers that do not exist are refused") {
  for (const int type : {3, 4, 6, 7}) {
    refuses<Msync>(std::string(1, static_cast<char>(8 | type)),
                   "field 1 is of the unknown wire type " + std::to_string(type));
  }
  refuses<Msync>(bytes("0000"), "a field with an invalid number");
  refuses<Msync>(varint(1ULL << 32U) + varint(0), "a field with an invalid number");
}

TEST_CASE("a length over the rest is refused, however large, and nothing is allocated for it") {
  for (const std::uint64_t size : {std::uint64_t{3}, std::uint64_t{1} << 31U,
                                   (std::uint64_t{1} << 32U) + 2, kNegative, ~std::uint64_t{0}}) {
    CAPTURE(size);
    const std::string what = std::to_string(size) + " bytes long where 2 are left";
    refuses<GetEnclosingRoot>(bytes("0a") + varint(size) + "/d", "field 1 is " + what);
    refuses<Msync>(bytes("0a") + varint(size) + "/d", "field 1 is " + what);
    const std::string owner = bytes("2a") + varint(size) + "/d";
    refuses<Create>(in_field_1(owner), "HdfsFileStatusProto field 5 is " + what);
  }
}

TEST_CASE("numbers of more than 10 bytes are refused, and of 10 bytes taken") {
  const std::string longest(10, '\x80');
  refuses<GetReplicaVisibleLength>("\x08" + longest + '\x01', "a number of more than 10 bytes");
  refuses<Msync>("\x08" + longest + '\x01', "a number of more than 10 bytes");
  refuses<Msync>(longest + '\x01', "a number of more than 10 bytes");
  // 0, the long way.
  CHECK(decoded<GetReplicaVisibleLength>("\x08" + longest.substr(1) + '\x00').ok());
}

TEST_CASE("numbers out of their range are refused") {
  const auto in_status = [](const std::string& field) {
    return in_field_1(bytes("[STATUS_G]") + field);
  };
  const std::uint64_t minus_one = ~std::uint64_t{0};
  refuses<Create>(in_status(number(3, minus_one)), "HdfsFileStatusProto field 3 has the value -1");
  refuses<Create>(in_status(number(11, kNegative)), "field 11 has the value -9223372036854775808");
  refuses<Create>(in_status(number(10, 1ULL << 32U)), "field 10 has the value 4294967296");
  refuses<Create>(in_status(number(14, 1ULL << 31U)), "field 14 has the value 2147483648");
  refuses<Create>(in_status(number(14, static_cast<std::uint64_t>(-2147483649LL))),
                  "field 14 has the value -2147483649");
  CHECK(decoded<Create>(in_status(number(14, static_cast<std::uint64_t>(-2147483648LL)))).ok());
  refuses<Create>(in_status(number(1, 0)), "field 1 has the value 0");
  refuses<Create>(in_status(number(1, 4)), "field 1 has the value 4");

  const auto in_located = [](const std::string& field) {
    return in_field_1(bytes("[LOCATED_NEW]") + field);
  };
  refuses<AddBlock>(in_located(number(2, kNegative)), "LocatedBlockProto field 2 is negative");
  refuses<AddBlock>(in_located(number(7, 0)), "LocatedBlockProto field 7 names no storage type");
  refuses<AddBlock>(in_located(number(7, 256)), "LocatedBlockProto field 7 names no storage type");
  const auto later =
      decoded<AddBlock>(in_field_1(without(bytes("[LOCATED_NEW]"), 7) + number(7, 7)));
  REQUIRE(later.ok());
  CHECK(later->replicas.at(0).storage_type == static_cast<StorageType>(7));
  refuses<AddBlock>(in_located(length_delimited(1, bytes("[BLOCK_NEW]") + number(4, kNegative))),
                    "ExtendedBlockProto field 4 has the value -9223372036854775808");
  const std::string port = length_delimited(1, bytes("[DNID]") + number(4, 65536));
  refuses<AddBlock>(in_located(length_delimited(3, port)),
                    "DatanodeIDProto field 4 has the value 65536");
  refuses<GetServerDefaults>(in_field_1(number(8, 3)),
                             "FsServerDefaultsProto field 8 has the value 3");
  // Signed times may lie before the epoch.
  const auto old = decoded<Create>(in_status(number(7, minus_one)));
  REQUIRE(old.ok());
  CHECK(old->modification_time == -1);
}

TEST_CASE("a packed field that is cut off or ends within a number is refused") {
  refuses<AddBlock>(in_field_1(bytes("[LOCATED_NEW] 3201 80")),
                    "LocatedBlockProto field 6 ends within a number");
  refuses<AddBlock>(in_field_1(bytes("[LOCATED_NEW] 3202 00")),
                    "LocatedBlockProto field 6 is 2 bytes long where 1 are left");
  CHECK(decoded<AddBlock>(in_field_1(bytes("[LOCATED_NEW] 3200"))).ok());
}

// Every recorded response, damaged: no crash, and if it is refused, by a Status that says so.
template <Request T>
void check_damaged(std::string_view golden) {
  const std::string body = bytes(golden);
  each_truncation(body, [](const std::string& damaged) {
    // Field 1 is cut off, or missing.
    if (!damaged.empty()) refuses<T>(damaged, T::kMethod);
  });
  std::size_t refused = 0;
  each_bit_flip(body, [&](const std::string& damaged) {
    const auto result = decoded<T>(damaged);
    if (result.ok()) return;
    ++refused;
    check_refused(result.status(), T::kMethod);
  });
  CHECK(refused > 0);
}

TEST_CASE("recorded responses, cut off at each byte and with each bit turned over") {
  check_damaged<GetFileInfo>("[GET_FILE_INFO]");
  check_damaged<Create>("[CREATE]");
  check_damaged<AddBlock>("[ADD_BLOCK]");
  check_damaged<GetAdditionalDatanode>("[ADD_BLOCK]");
  check_damaged<Complete>("[COMPLETE]");
  check_damaged<UpdateBlockForPipeline>("[UPDATE_BLOCK_FOR_PIPELINE]");
  check_damaged<GetBlockLocations>("[GET_BLOCK_LOCATIONS]");
}

TEST_CASE("an append's response cut off between its two fields is one with the first") {
  const std::string body = bytes("[APPEND]");
  const std::size_t first = 3 + bytes("[LOCATED_1025]").size();
  each_truncation(body, [&](const std::string& damaged) {
    const auto result = decoded<Append>(damaged);
    CHECK(result.ok() == (damaged.empty() || damaged.size() == first));
  });
  each_bit_flip(body, [](const std::string& damaged) {
    const auto result = decoded<Append>(damaged);
    if (!result.ok()) check_refused(result.status(), "append");
  });
}

}  // namespace
}  // namespace hflush::hdfs
