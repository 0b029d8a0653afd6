// The data transfer protocol between a client and a DataNode: operations, packets, acks. Encoding
// and decoding only; decoders take untrusted bytes, never allocate more than those justify, and say
// what is wrong.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "hflush/base/bytes.h"
#include "hflush/base/check.h"
#include "hflush/base/result.h"
#include "hflush/crc/checksum.h"
#include "hflush/hdfs/wire/types.h"

namespace hflush::hdfs {

enum class TransferStatus : std::uint8_t {
  kSuccess = 0,
  kError = 1,
  kErrorChecksum = 2,
  kErrorInvalid = 3,
  kErrorExists = 4,
  kErrorAccessToken = 5,
  kChecksumOk = 6,
  kErrorUnsupported = 7,
  kOobRestart = 8,
  kOobReserved1 = 9,
  kOobReserved2 = 10,
  kOobReserved3 = 11,
  kInProgress = 12,
  kErrorBlockPinned = 13,
};
std::string_view to_string(TransferStatus status) noexcept;  // "ERROR_CHECKSUM"; never empty

enum class WriteStage : std::uint8_t {
  kSetupAppend = 0,
  kSetupAppendRecovery = 1,
  kSetupStreamingRecovery = 3,
  kCloseRecovery = 5,
  kSetupCreate = 6,
};

struct ChecksumParameters {
  crc::Kind kind = crc::Kind::kCrc32c;
  std::uint32_t bytes_per_checksum = 512;
  bool operator==(const ChecksumParameters&) const = default;
};

struct WriteBlockOperation {
  ExtendedBlock block;  // length: the file's block size
  Token token;
  std::string client_name;
  std::span<const Replica> pipeline;  // all nodes; the first, never missing, is the one asked
  WriteStage stage = WriteStage::kSetupCreate;
  std::uint64_t min_bytes_received = 0;
  std::uint64_t max_bytes_received = 0;
  std::uint64_t latest_generation_stamp = 0;
  ChecksumParameters checksum;
  std::optional<bool> drop_behind;
  bool lazy_persist = false;
  std::span<const std::string> favored_nodes;  // those nodes' replicas are pinned

  std::string encode() const;  // version, opcode and message
};

struct ReadBlockOperation {
  ExtendedBlock block;
  Token token;
  std::string client_name;
  std::uint64_t offset = 0;  // in the block
  std::uint64_t length = 0;  // > 0
  bool send_checksums = true;
  std::optional<bool> drop_behind;
  std::optional<std::int64_t> readahead;

  std::string encode() const;
};

// Asks the node that has a replica to copy it to another one.
struct TransferBlockOperation {
  ExtendedBlock block;
  Token token;  // of getAdditionalDatanode: one that allows copying
  std::string client_name;
  std::span<const Replica> targets;

  std::string encode() const;
};

enum class BlockChecksumType : std::uint8_t { kMd5Crc = 1, kCompositeCrc = 2 };

struct BlockChecksumOperation {
  ExtendedBlock block;  // length: the bytes to sum
  Token token;
  BlockChecksumType type = BlockChecksumType::kMd5Crc;

  std::string encode() const;
};

struct BlockChecksumAnswer {
  std::uint32_t bytes_per_crc = 0;
  std::uint64_t crcs_per_block = 0;
  std::string checksum;  // 16 bytes of MD5, or 4 of CRC
  std::optional<crc::Kind> kind;
};

struct OperationReply {
  TransferStatus status = TransferStatus::kSuccess;
  std::string first_bad_link;  // "ip:port"
  std::string message;
  std::optional<ChecksumParameters> read_checksum;
  std::uint64_t chunk_offset = 0;
  std::optional<BlockChecksumAnswer> block_checksum;
};

// What each node of a pipeline says; the first is the nearest. May be shorter than the pipeline.
class NodeReplies {
 public:
  NodeReplies() = default;
  NodeReplies(std::initializer_list<TransferStatus> replies) {
    for (const TransferStatus reply : replies) push_back(reply);
  }

  bool empty() const noexcept { return replies_.empty(); }
  std::size_t size() const noexcept { return replies_.size(); }
  // Requires: node < size().
  TransferStatus operator[](std::size_t node) const noexcept {
    HFLUSH_DCHECK(node < size());
    return static_cast<TransferStatus>(replies_[node]);
  }
  void push_back(TransferStatus reply) { replies_.push_back(static_cast<char>(reply)); }
  bool operator==(const NodeReplies&) const = default;

 private:
  std::string replies_;  // a byte each: no pipeline of ordinary length needs the heap
};

struct PipelineAck {
  static constexpr std::int64_t kHeartbeat = -1;

  std::int64_t sequence_number = 0;
  NodeReplies replies;
  bool congested = false;  // some node is
  std::uint64_t slow = 0;  // bit i: node i is, among the first 64
};

// A delimited message at the front of `bytes`: how many bytes it takes with its length, 0 if it has
// not all arrived, or what is wrong with it. No message is longer than `max_bytes`.
Result<std::size_t> delimited_size(ByteView bytes, std::size_t max_bytes);
// `message` is one delimited message, as measured by delimited_size().
Result<OperationReply> decode_operation_reply(ByteView message);
Result<PipelineAck> decode_pipeline_ack(ByteView message);

// The default of dfs.data.transfer.max.packet.size: no packet is longer, header and all.
inline constexpr std::size_t kMaxPacketSize = 16U << 20U;

struct PacketHeader {
  std::uint64_t offset_in_block = 0;
  std::int64_t sequence_number = 0;
  bool last_in_block = false;
  bool sync_block = false;
  std::uint32_t sums_size = 0;
  std::uint32_t data_size = 0;

  static constexpr std::size_t kMaxSize = 33;  // of one that we know
  // Of one that is received: a later Hadoop may add fields.
  static constexpr std::size_t kMaxReceivedSize = 1024;
  // Bytes that encode_to() writes: 31, or 33 with sync_block.
  std::size_t encoded_size() const noexcept { return sync_block ? 33 : 31; }
  // Requires: out.size() == encoded_size().
  void encode_to(MutableByteView out) const noexcept;
  bool operator==(const PacketHeader&) const = default;
};

// The header at the front of what a DataNode sends: the header and the bytes it takes; nullopt if
// it has not all arrived. Refuses sizes that no packet has, and packets of more than `max_size`.
struct DecodedPacketHeader {
  PacketHeader header;
  std::size_t size = 0;
};
Result<std::optional<DecodedPacketHeader>> decode_packet_header(
    ByteView bytes, std::size_t max_size = kMaxPacketSize);

std::string encode_client_read_status(TransferStatus status);

}  // namespace hflush::hdfs
