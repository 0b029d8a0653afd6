// Operations, packets and acks are spelled as the reference client and real DataNodes spell them,
// and bytes that are none are refused, whatever they are.
#include "hflush/hdfs/wire/data_transfer.h"

#include <doctest/doctest.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "hdfs/golden.h"
#include "hdfs/messages.h"
#include "hflush/hdfs/wire/name_node_requests.h"

namespace hflush::hdfs {
namespace {

using testing::check_refused;
using testing::each_bit_flip;
using testing::each_truncation;
using testing::length_delimited;
using testing::number;
using testing::unknown_fields;
using testing::varint;
using testing::golden::bytes;
using testing::golden::hex;

using Reply = TransferStatus;

std::string delimited(const std::string& message) { return varint(message.size()) + message; }

LocatedBlock located(std::string_view golden) {
  auto result = AddBlock::decode(as_bytes(length_delimited(1, bytes(golden))));
  REQUIRE_MESSAGE(result.ok(), result.status().to_string());
  return *std::move(result);
}

// Operations.

WriteBlockOperation recorded_write(const LocatedBlock& block) {
  WriteBlockOperation write;
  write.block = block.block;
  write.block.length = 1048576;
  write.token = block.token;
  write.client_name = "C1";
  write.pipeline = block.replicas;
  return write;
}

constexpr std::string_view kWriteHeader =
    "0a46 0a40 0a34 0a25 [POOL] 108180808004 18e907 20808040 1208 [TOK0] 1202 4331";

TEST_CASE("WRITE_BLOCK of a new block, as recorded") {
  const LocatedBlock block = located("[LOCATED_NEW]");
  CHECK(hex(recorded_write(block).encode()) ==
        hex(bytes("001c 50 8901 " + std::string(kWriteHeader) +
                  "2006 2801 3000 3800 4000 4a05 0802 108004 5200 5801 6800 820127 [SID]")));
}

TEST_CASE("WRITE_BLOCK of an append, as recorded") {
  const LocatedBlock block = located("[LOCATED_1025]");
  WriteBlockOperation write = recorded_write(block);
  write.stage = WriteStage::kSetupAppend;
  write.min_bytes_received = 1025;
  write.max_bytes_received = 1025;
  write.latest_generation_stamp = 1002;
  CHECK(hex(write.encode()) ==
        hex(bytes("001c 50 8c01 " + std::string(kWriteHeader) +
                  "2000 2801 308108 388108 40ea07 4a05 0802 108004 5200 5801 6800 820127 [SID]")));
}

TEST_CASE("WRITE_BLOCK names the nodes after the first, and how each stores") {
  LocatedBlock block = located("[LOCATED_NEW]");
  block.replicas.push_back(block.replicas[0]);
  block.replicas.push_back(block.replicas[0]);
  block.replicas[1].storage_type = StorageType::kSsd;
  block.replicas[1].storage_id = "S2";
  block.replicas[2].storage_id.clear();
  block.replicas[2].node.host = "dn3";
  WriteBlockOperation write = recorded_write(block);
  write.stage = WriteStage::kSetupStreamingRecovery;
  write.checksum = {crc::Kind::kCrc32, 4096};
  write.drop_behind = true;
  write.lazy_persist = true;
  const std::string scalars = "2003 2803 3000 3800 4000 4a05 0801 108020 5202 0801 5801";
  const auto expected = [&](const std::string& pinnings) {
    return hex(bytes("001c 50") +
               delimited(bytes(std::string(kWriteHeader) + "12a301 [DN] 12a301 [DN]" + scalars +
                               "6002 6001 6801" + pinnings + "820127 [SID] 8a0102 5332 8a0100")));
  };
  CHECK(hex(write.encode()) == expected(""));
  // By name or by number, and with the port.
  const std::vector<std::string> favored = {"127.0.0.1:42079"};
  write.favored_nodes = favored;
  CHECK(hex(write.encode()) == expected("7001 7801 7801"));
  block.replicas[0].node.ip = "127.0.0.2";
  block.replicas[0].node.host = "dn1";
  CHECK(hex(write.encode()) == expected("7000 7801 7801"));
  const std::vector<std::string> by_name = {"dn3:42079", "dn1:1"};
  write.favored_nodes = by_name;
  CHECK(hex(write.encode()) == expected("7000 7800 7801"));
}

TEST_CASE("READ_BLOCK, as recorded, and with a caching strategy") {
  const LocatedBlock block = located("[LOCATED_1032]");
  ReadBlockOperation read;
  read.block = block.block;
  read.token = block.token;
  read.client_name = "C1";
  read.offset = 1020;
  read.length = 10;
  const std::string header = "0a45 0a3f 0a33 [BLOCK_1032] 1208 [TOK0] 1202 4331";
  CHECK(hex(read.encode()) == hex(bytes("001c 51 50" + header + "10fc07 180a 2001 2a00")));
  read.send_checksums = false;
  read.drop_behind = false;
  read.readahead = -1;
  CHECK(hex(read.encode()) == hex(bytes("001c 51 5d" + header + "10fc07 180a 2000") +
                                  bytes("2a0d 0800 10ffffffffffffffffff01")));
}

TEST_CASE("BLOCK_CHECKSUM asks for a kind of checksum") {
  BlockChecksumOperation checksum;
  checksum.block = located("[LOCATED_1032]").block;
  const std::string header = "0a3f 0a33 [BLOCK_1032] 1208 [TOK0]";
  CHECK(hex(checksum.encode()) == hex(bytes("001c 55 45" + header + "1202 0801")));
  checksum.type = BlockChecksumType::kCompositeCrc;
  CHECK(hex(checksum.encode()) == hex(bytes("001c 55 45" + header + "1202 0802")));
}

TEST_CASE("the end of a read, as recorded") {
  CHECK(hex(encode_client_read_status(Reply::kChecksumOk)) == "020806");
  CHECK(hex(encode_client_read_status(Reply::kSuccess)) == "020800");
}

TEST_CASE("every status has its name of the protocol") {
  CHECK(to_string(Reply::kSuccess) == "SUCCESS");
  CHECK(to_string(Reply::kErrorAccessToken) == "ERROR_ACCESS_TOKEN");
  CHECK(to_string(Reply::kErrorBlockPinned) == "ERROR_BLOCK_PINNED");
  for (int status = 0; status < 256; ++status) {
    CHECK_FALSE(to_string(static_cast<Reply>(status)).empty());
  }
}

// Delimited messages.

TEST_CASE("a delimited message is measured as soon as its length is there") {
  const std::string message = bytes("0e 0800 220a 0a05 0802 108004 108004");
  each_truncation(message, [](const std::string& part) {
    const auto size = delimited_size(as_bytes(part), 100);
    REQUIRE(size.ok());
    CHECK(*size == 0);
  });
  for (const std::string& more : {std::string(), std::string("next")}) {
    const auto size = delimited_size(as_bytes(message + more), 14);
    REQUIRE(size.ok());
    CHECK(*size == message.size());
  }
  const auto empty = delimited_size(as_bytes(bytes("00")), 0);
  REQUIRE(empty.ok());
  CHECK(*empty == 1);
  const std::string large = delimited(std::string(300, 'x'));
  const auto size = delimited_size(as_bytes(large), 300);
  REQUIRE(size.ok());
  CHECK(*size == 302);
}

TEST_CASE("a delimited message that is too long is refused before it has come") {
  const auto refused = [](const std::string& front, std::size_t max, std::string_view part) {
    const auto size = delimited_size(as_bytes(front), max);
    REQUIRE_FALSE(size.ok());
    check_refused(size.status(), part);
  };
  refused(bytes("0e"), 13, "a length of 14 bytes, at most 13");
  refused(bytes("ffffffff0f"), 1 << 20, "a length of 4294967295 bytes, at most 1048576");
  refused(bytes("ffffffffffffffffff01"), 1 << 20, "its length has more than 5 bytes");
  refused(bytes("8080808080"), 1 << 20, "its length has more than 5 bytes");
  CHECK(delimited_size(as_bytes(bytes("80808080")), 1 << 20).ok());
}

// Replies.

OperationReply reply(std::string_view golden) {
  auto result = decode_operation_reply(as_bytes(bytes(golden)));
  REQUIRE_MESSAGE(result.ok(), result.status().to_string());
  return *std::move(result);
}

void refuses_reply(const std::string& message, std::string_view part) {
  const auto result = decode_operation_reply(as_bytes(delimited(message)));
  REQUIRE_FALSE(result.ok());
  check_refused(result.status(), "malformed reply to an operation");
  check_refused(result.status(), part);
}

constexpr std::string_view kReadReply = "0e 0800 220a 0a05 0802 108004 108004";
constexpr std::string_view kRefusedSetup = "0f 0801 120b 3132372e302e302e313a31";

TEST_CASE("replies to operations, as recorded") {
  CHECK(reply("04 0800 1200").status == Reply::kSuccess);
  CHECK(reply("04 0800 1200").first_bad_link.empty());
  CHECK(reply("02 0800").status == Reply::kSuccess);

  const OperationReply refused = reply(kRefusedSetup);
  CHECK(refused.status == Reply::kError);
  CHECK(refused.first_bad_link == "127.0.0.1:1");

  const OperationReply read = reply(kReadReply);
  CHECK(read.read_checksum == ChecksumParameters{crc::Kind::kCrc32c, 512});
  CHECK(read.chunk_offset == 512);
  CHECK_FALSE(read.block_checksum.has_value());
}

TEST_CASE("a reply's message, and a block's checksum with and without its kind") {
  const OperationReply refused = reply("09 0805 2a05 746f6b656e");
  CHECK(refused.status == Reply::kErrorAccessToken);
  CHECK(refused.message == "token");

  const OperationReply summed = reply("0f 0800 1a0b 088004 1003 1a02 abcd 2001");
  REQUIRE(summed.block_checksum.has_value());
  CHECK(summed.block_checksum->bytes_per_crc == 512);
  CHECK(summed.block_checksum->crcs_per_block == 3);
  CHECK(summed.block_checksum->checksum == "\xab\xcd");
  CHECK(summed.block_checksum->kind == crc::Kind::kCrc32);
  CHECK_FALSE(reply("0d 0800 1a09 088004 1003 1a02 abcd").block_checksum->kind.has_value());
}

TEST_CASE("replies that are none") {
  refuses_reply("", "BlockOpResponseProto has no status");
  refuses_reply(bytes("080e"), "BlockOpResponseProto field 1 has the value 14");
  refuses_reply(bytes("08ffffffffffffffffff01"), "BlockOpResponseProto field 1 has the value -1");
  refuses_reply(bytes("0d 00000000"), "BlockOpResponseProto field 1 is of wire type 5, not 0");
  refuses_reply(bytes("0800 2207 0a05 0802 108004"), "ReadOpChecksumInfoProto has no chunkOffset");
  refuses_reply(bytes("0800 2202 1000"), "ReadOpChecksumInfoProto has no checksum");
  refuses_reply(bytes("0800 2206 0a02 0802 1000"), "ChecksumProto has no bytesPerChecksum");
  refuses_reply(bytes("0800 2206 0a02 1001 1000"), "ChecksumProto has no type");
  refuses_reply(bytes("0800 2208 0a04 0802 1000 1000"), "ChecksumProto field 2 is 0");
  refuses_reply(bytes("0800 2208 0a04 0803 1001 1000"), "ChecksumProto field 1 has the value 3");
  refuses_reply(bytes("0800 1a02 0800"), "OpBlockChecksumResponseProto has no crcPerBlock");
  refuses_reply(bytes("0800 12ff01"), "field 2 is 255 bytes long where 0 are left");
  // Not what was measured: longer, shorter, no length at all.
  for (const std::string& message :
       {bytes("02 0800 00"), bytes("03 0800"), bytes("80"), bytes("")}) {
    const auto result = decode_operation_reply(as_bytes(message));
    REQUIRE_FALSE(result.ok());
    check_refused(result.status(), "it has not the length that it says");
  }
  CHECK(decode_operation_reply(as_bytes(delimited(bytes("0800") + unknown_fields()))).ok());
}

// Acks.

PipelineAck ack(std::string_view golden) {
  auto result = decode_pipeline_ack(as_bytes(bytes(golden)));
  REQUIRE_MESSAGE(result.ok(), result.status().to_string());
  return *std::move(result);
}

void check_ack(const PipelineAck& ack, std::int64_t sequence_number, const NodeReplies& replies,
               bool congested = false) {
  CHECK(ack.sequence_number == sequence_number);
  CHECK(ack.replies == replies);
  CHECK(ack.congested == congested);
}

constexpr Reply kOk = Reply::kSuccess;
constexpr std::int64_t kUnknownPacket = -2;  // of an ack about the pipeline, not a packet

TEST_CASE("nodes that are slow say so in bits 7 and 8 of their flags") {
  // 0x100, 0x80 and 0x101: slow; not; slow, with an error.
  const PipelineAck one = ack("10 0800 1000 1000 1001 2206 8002 8001 8102");
  check_ack(one, 0, {kOk, kOk, Reply::kError});
  CHECK(one.slow == 5);
  CHECK(ack("0f 080a 1000 1000 1000 1800 2203 006000").slow == 0);
}

TEST_CASE("a node is asked to copy a block to another one") {
  Replica target;
  target.node.encoded = "N";
  target.storage_id = "DS";
  TransferBlockOperation transfer;
  transfer.block = {"P", 7, 50, 100};
  transfer.token.encoded = "T";
  transfer.client_name = "C";
  transfer.targets = std::span<const Replica>(&target, 1);
  CHECK(transfer.encode() ==
        bytes("001c 56 1e 0a13 0a0e 0a09 0a0150 1007 1832 2064 1201 54 1201 43 1201 4e 1801 2202 "
              "4453"));
}

TEST_CASE("acks of one node, as recorded") {
  check_ack(ack("09 0800 1000 1800 2201 00"), 0, {kOk});
  check_ack(ack("09 0801 1000 1800 2201 00"), PipelineAck::kHeartbeat, {kOk});
  check_ack(ack("09 0802 1000 1800 2201 00"), 1, {kOk});
  check_ack(ack("09 0803 1008 1800 2201 08"), kUnknownPacket, {Reply::kOobRestart});
  check_ack(ack("09 0800 1002 1800 2201 02"), 0, {Reply::kErrorChecksum});
}

TEST_CASE("acks of several nodes, as recorded") {
  check_ack(ack("12 0800 1000 1000 1000 18c2c98501 2203 000000"), 0, {kOk, kOk, kOk});
  check_ack(ack("11 0801 1000 1000 1000 188dfb17 2203 000000"), PipelineAck::kHeartbeat,
            {kOk, kOk, kOk});
  check_ack(ack("0c 0803 1000 1001 1800 2202 0001"), kUnknownPacket, {kOk, Reply::kError});
  check_ack(ack("0c 0803 1000 1008 1800 2202 0008"), kUnknownPacket, {kOk, Reply::kOobRestart});
  check_ack(ack("0e 0802 1000 1000 18cd8e13 2202 0000"), 1, {kOk, kOk});
}

TEST_CASE("congestion is told by flags, which are no errors") {
  check_ack(ack("15 0800 1000 1000 1000 18a1ffc901 2206 a001a001a001"), 0, {kOk, kOk, kOk});
  check_ack(ack("15 0800 1000 1000 1000 18e8e88001 2206 e001e001e001"), 0, {kOk, kOk, kOk}, true);
  check_ack(ack("0f 080a 1000 1000 1000 1800 2203 006000"), 5, {kOk, kOk, kOk}, true);
}

TEST_CASE("flags count where there are any, replies where there are none") {
  check_ack(ack("0b 0800 1000 1000 2203 000100"), 0, {kOk, Reply::kError, kOk});
  check_ack(ack("0b 0800 2203 000100 1000 1000"), 0, {kOk, Reply::kError, kOk});
  check_ack(ack("06 0800 1000 1001"), 0, {kOk, Reply::kError});
  check_ack(ack("06 0800 1202 0001"), 0, {kOk, Reply::kError});  // packed
  check_ack(ack("06 0800 2000 2001"), 0, {kOk, Reply::kError});  // not packed
  check_ack(ack("02 0800"), 0, {});
}

TEST_CASE("a pipeline may be longer than any ordinary one") {
  const std::string flags(300, '\x00');
  const std::string message = number(1, 2) + length_delimited(4, flags);
  const auto result = decode_pipeline_ack(as_bytes(delimited(message)));
  REQUIRE(result.ok());
  CHECK(result->replies.size() == 300);
}

TEST_CASE("acks that are none") {
  const auto refused = [](const std::string& message, std::string_view part) {
    const auto result = decode_pipeline_ack(as_bytes(delimited(message)));
    REQUIRE_FALSE(result.ok());
    check_refused(result.status(), "malformed pipeline ack");
    check_refused(result.status(), part);
  };
  refused("", "PipelineAckProto has no seqno");
  refused(bytes("0800 100e"), "PipelineAckProto field 2 has the unknown status 14");
  refused(bytes("0800 10ffffffffffffffffff01"), "has the unknown status 18446744073709551615");
  refused(bytes("0800 2201 0f"), "PipelineAckProto field 4 has the unknown status 15");
  refused(bytes("0800 2202 0080"), "PipelineAckProto field 4 ends within a number");
  refused(bytes("0800 2203 0000"), "PipelineAckProto field 4 is 3 bytes long where 2 are left");
  refused(bytes("0d 00000000"), "PipelineAckProto field 1 is of wire type 5, not 0");
}

// Packets.

struct HeaderGolden {
  std::string_view bytes;
  PacketHeader header;
};

const HeaderGolden kHeaders[] = {
    {"00000208 0019 09 0004000000000000 11 0700000000000000 18 00 25 00020000",
     {1024, 7, false, false, 4, 512}},
    {"00000208 001b 09 0004000000000000 11 0700000000000000 18 00 25 00020000 28 01",
     {1024, 7, false, true, 4, 512}},
    {"00000004 0019 09 0000000000000000 11 ffffffffffffffff 18 00 25 00000000",
     {0, PipelineAck::kHeartbeat, false, false, 0, 0}},
    {"00000004 0019 09 0010000000000000 11 0900000000000000 18 01 25 00000000",
     {4096, 9, true, false, 0, 0}},
    {"00000011 0019 09 0000000000000000 11 0000000000000000 18 00 25 09000000",
     {0, 0, false, false, 4, 9}},
    {"00000411 0019 09 0000000000000000 11 0000000000000000 1800 25 01040000",
     {0, 0, false, false, 12, 1025}},
    {"00000004 0019 09 0104000000000000 11 0100000000000000 1801 25 00000000",
     {1025, 1, true, false, 0, 0}},
    {"0000000d 0019 09 0104000000000000 11 0000000000000000 1800 25 05000000",
     {1025, 0, false, false, 4, 5}},
    {"00000214 0019 09 0002000000000000 11 0000000000000000 1800 25 08020000",
     {512, 0, false, false, 8, 520}},
    {"00000320 0019 09 0002000000000000 11 0100000000000000 1800 25 14030000",
     {512, 1, false, false, 8, 788}},
};

void check_equal(const PacketHeader& a, const PacketHeader& b) {
  CHECK(a.offset_in_block == b.offset_in_block);
  CHECK(a.sequence_number == b.sequence_number);
  CHECK(a.last_in_block == b.last_in_block);
  CHECK(a.sync_block == b.sync_block);
  CHECK(a.sums_size == b.sums_size);
  CHECK(a.data_size == b.data_size);
}

DecodedPacketHeader header_of(const std::string& packet) {
  const auto result = decode_packet_header(as_bytes(packet));
  REQUIRE_MESSAGE(result.ok(), result.status().to_string());
  REQUIRE(result->has_value());
  return **result;
}

void refuses_header(const std::string& packet, std::string_view part) {
  CAPTURE(hex(packet));
  const auto result = decode_packet_header(as_bytes(packet));
  REQUIRE_FALSE(result.ok());
  check_refused(result.status(), "malformed packet header");
  check_refused(result.status(), part);
}

TEST_CASE("packet headers, as recorded, are written") {
  for (const HeaderGolden& golden : kHeaders) {
    CAPTURE(golden.bytes);
    std::string out(golden.header.encoded_size(), '\xee');
    golden.header.encode_to(std::as_writable_bytes(std::span(out)));
    CHECK(hex(out) == hex(bytes(golden.bytes)));
  }
}

TEST_CASE("packet headers, as recorded, are read, with and without what follows") {
  for (const HeaderGolden& golden : kHeaders) {
    CAPTURE(golden.bytes);
    for (const std::string& more : {std::string(), std::string("data")}) {
      const DecodedPacketHeader decoded = header_of(bytes(golden.bytes) + more);
      check_equal(decoded.header, golden.header);
      CHECK(decoded.size == golden.header.encoded_size());
    }
  }
}

TEST_CASE("a packet header that has not all arrived is none yet") {
  each_truncation(bytes(kHeaders[1].bytes), [](const std::string& part) {
    const auto result = decode_packet_header(as_bytes(part));
    REQUIRE(result.ok());
    CHECK_FALSE(result->has_value());
  });
}

// `message` with its two lengths in front.
std::string packet_front(std::uint32_t size, const std::string& message) {
  std::string front;
  for (int shift = 24; shift >= 0; shift -= 8) front += static_cast<char>(size >> shift);
  front += static_cast<char>(message.size() >> 8U);
  front += static_cast<char>(message.size());
  return front + message;
}

const std::string kOffset = bytes("09 0004000000000000");
const std::string kSequence = bytes("11 0700000000000000");
const std::string kLast = bytes("1801");
const std::string kData = bytes("25 00020000");
const std::string kSync = bytes("2801");

TEST_CASE("a header in another order, with other fields or spelled at length means the same") {
  const PacketHeader expected{1024, 7, true, true, 4, 512};
  const std::string messages[] = {
      kSync + kData + kLast + kSequence + kOffset,
      kOffset + kSequence + kLast + kData + kSync + unknown_fields(),
      unknown_fields() + kOffset + kSequence + kLast + kData + kSync,
      kOffset + kSequence + bytes("188100") + kData + bytes("288100"),
      kOffset + kSequence + bytes("1802") + kData + bytes("2803"),
  };
  for (const std::string& message : messages) {
    CAPTURE(hex(message));
    const DecodedPacketHeader decoded = header_of(packet_front(520, message));
    check_equal(decoded.header, expected);
    CHECK(decoded.size == 6 + message.size());
  }
  // As long as the usual ones, but not in their order.
  check_equal(header_of(packet_front(520, kSequence + kOffset + kLast + kData)).header,
              {1024, 7, true, false, 4, 512});
}

TEST_CASE("a packet header without a field that it must have is refused") {
  refuses_header(packet_front(520, kSequence + kLast + kData), "has no offsetInBlock");
  refuses_header(packet_front(520, kOffset + kLast + kData), "has no seqno");
  refuses_header(packet_front(520, kOffset + kSequence + kData), "has no lastPacketInBlock");
  refuses_header(packet_front(520, kOffset + kSequence + kLast), "has no dataLen");
  refuses_header(packet_front(4, ""), "has no offsetInBlock");
  refuses_header(packet_front(520, bytes("0801") + kSequence + kLast + kData),
                 "PacketHeaderProto field 1 is of wire type 0, not 1");
  refuses_header(packet_front(520, kOffset + kSequence + kLast + bytes("25 000200")),
                 "PacketHeaderProto field 4 is 4 bytes long where 3 are left");
}

TEST_CASE("sizes that no packet has are refused as soon as they are there") {
  const std::string usual = kOffset + kSequence + kLast + kData;
  refuses_header(packet_front(3, usual).substr(0, 6), "a packet of 3 bytes");
  refuses_header(packet_front(0xffffffff, usual).substr(0, 6), "a packet of 4294967295 bytes");
  const auto largest = static_cast<std::uint32_t>(kMaxPacketSize - usual.size());
  CHECK(decode_packet_header(as_bytes(packet_front(largest, usual))).ok());
  refuses_header(packet_front(largest + 1, usual), "a packet of 16777192 bytes");
  CHECK(decode_packet_header(as_bytes(packet_front(largest + 1, usual)), kMaxPacketSize + 1).ok());
  refuses_header(bytes("00000004 ffff"), "a header of 65535 bytes");
  refuses_header(bytes("00000004 03fb"), "a header of 1019 bytes");
  CHECK(decode_packet_header(as_bytes(bytes("00000004 03fa"))).ok());
  refuses_header("HTTP/1.1 400 Bad Request", "a packet of 1213486160 bytes");
  refuses_header(packet_front(515, usual), "512 bytes of data in a packet of 515 bytes");
  CHECK(header_of(packet_front(516, usual)).header.sums_size == 0);
  refuses_header(packet_front(520, kOffset + kSequence + kLast + bytes("25 ffffffff")),
                 "4294967295 bytes of data");
  refuses_header(packet_front(520, bytes("09 ffffffffffffffff") + kSequence + kLast + kData),
                 "a negative offset");
}

// All of it, damaged.

template <typename Decode>
void check_damaged(std::string_view golden, Decode decode) {
  const std::string message = bytes(golden);
  const auto check = [&](const std::string& damaged) {
    const auto result = decode(as_bytes(damaged));
    if (!result.ok()) check_refused(result.status(), "malformed");
  };
  each_truncation(message, check);
  each_bit_flip(message, check);
}

TEST_CASE("recorded answers of DataNodes, cut off at each byte and with each bit turned over") {
  check_damaged(kReadReply, decode_operation_reply);
  check_damaged(kRefusedSetup, decode_operation_reply);
  check_damaged("0f 0800 1a0b 088004 1003 1a02 abcd 2001", decode_operation_reply);
  check_damaged("15 0800 1000 1000 1000 18a1ffc901 2206 a001a001a001", decode_pipeline_ack);
  check_damaged("0c 0803 1000 1001 1800 2202 0001", decode_pipeline_ack);
  for (const HeaderGolden& golden : kHeaders) {
    check_damaged(golden.bytes, [](ByteView bytes) { return decode_packet_header(bytes); });
  }
}

TEST_CASE("a cut-off reply or ack is no shorter one") {
  for (const std::string_view golden : {kReadReply, kRefusedSetup}) {
    each_truncation(bytes(golden), [](const std::string& part) {
      CHECK_FALSE(decode_operation_reply(as_bytes(part)).ok());
    });
  }
}

}  // namespace
}  // namespace hflush::hdfs
