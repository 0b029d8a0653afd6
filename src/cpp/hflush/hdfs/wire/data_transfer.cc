#include "hflush/hdfs/wire/data_transfer.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <utility>

#include "hflush/base/check.h"
#include "hflush/base/endian.h"
#include "hflush/hdfs/wire/shared_messages.h"
#include "hflush/hdfs/wire/wire.h"

namespace hflush::hdfs {
namespace {

using wire::Reader;
using wire::Writer;

constexpr std::string_view kVersion{"\x00\x1c", 2};  // 28
constexpr char kWriteBlock = 80;
constexpr char kReadBlock = 81;
constexpr char kBlockChecksum = 85;
constexpr char kTransferBlock = 86;

// Packets start with two lengths of their own, big-endian, in front of the message.
constexpr std::size_t kLengthsSize = 6;
// What the first of them counts besides checksums and data: itself.
constexpr std::uint32_t kCounted = 4;

std::string operation(char code, std::string_view message) {
  return std::string(kVersion) + code + wire::delimited(message);
}

void add_base_header(Writer& to, const ExtendedBlock& block, const Token& token) {
  Writer header(to, 1);
  wire::add_block(header, 1, block);
  header.add_message(2, token.encoded);
}

void add_client_header(Writer& to, const ExtendedBlock& block, const Token& token,
                       const std::string& client_name) {
  Writer header(to, 1);
  add_base_header(header, block, token);
  header.add_string(2, client_name);
}

// There even if it is empty, as in Hadoop.
void add_caching_strategy(Writer& to, std::uint32_t field, std::optional<bool> drop_behind,
                          std::optional<std::int64_t> readahead) {
  std::string strategy;
  Writer message(strategy);
  if (drop_behind) message.add_bool(1, *drop_behind);
  if (readahead) message.add_int64(2, *readahead);
  to.add_message(field, strategy);
}

bool is_favored(const DatanodeInfo& node, std::span<const std::string> favored_nodes) {
  const std::string by_name = node.host + ":" + std::to_string(node.transfer_port);
  const std::string by_number = node.transfer_address();
  return std::ranges::any_of(favored_nodes, [&](const std::string& favored) {
    return favored == by_name || favored == by_number;
  });
}

TransferStatus read_status(Reader& from) {
  return from.enumerator(TransferStatus::kSuccess, TransferStatus::kErrorBlockPinned);
}

ChecksumParameters read_checksum(Reader from) {
  ChecksumParameters checksum;
  while (from.next()) {
    switch (from.field()) {
      case 1:
        checksum.kind = wire::read_checksum_type(from);
        break;
      case 2:
        checksum.bytes_per_checksum = from.uint32();
        if (checksum.bytes_per_checksum == 0) from.refuse("is 0");
        break;
      default:
        from.skip();
    }
  }
  from.require({{1, "type"}, {2, "bytesPerChecksum"}});
  return checksum;
}

void read_read_checksum(Reader from, OperationReply& reply) {
  while (from.next()) {
    switch (from.field()) {
      case 1:
        reply.read_checksum = read_checksum(from.message("ChecksumProto"));
        break;
      case 2:
        reply.chunk_offset = from.natural();
        break;
      default:
        from.skip();
    }
  }
  from.require({{1, "checksum"}, {2, "chunkOffset"}});
}

BlockChecksumAnswer read_block_checksum(Reader from) {
  BlockChecksumAnswer answer;
  while (from.next()) {
    switch (from.field()) {
      case 1:
        answer.bytes_per_crc = from.uint32();
        break;
      case 2:
        answer.crcs_per_block = from.natural();
        break;
      case 3:
        answer.checksum = from.text();
        break;
      case 4:
        answer.kind = wire::read_checksum_type(from);
        break;
      default:
        from.skip();
    }
  }
  from.require({{1, "bytesPerCrc"}, {2, "crcPerBlock"}, {3, "blockChecksum"}});
  return answer;
}

OperationReply read_operation_reply(Reader from) {
  OperationReply reply;
  while (from.next()) {
    switch (from.field()) {
      case 1:
        reply.status = read_status(from);
        break;
      case 2:
        reply.first_bad_link = from.text();
        break;
      case 3:
        reply.block_checksum = read_block_checksum(from.message("OpBlockChecksumResponseProto"));
        break;
      case 4:
        read_read_checksum(from.message("ReadOpChecksumInfoProto"), reply);
        break;
      case 5:
        reply.message = from.text();
        break;
      default:
        from.skip();
    }
  }
  from.require({{1, "status"}});
  return reply;
}

// A flag of an ack: the status in bits 0-3, congestion (ECN) in 5-6, slowness in 7-8.
constexpr std::uint64_t kFlagStatus = 0x0F;
constexpr std::uint64_t kFlagEcn = 0x60;
constexpr std::uint64_t kFlagCongested = 0x60;
constexpr std::uint64_t kFlagSlowness = 0x180;
constexpr std::uint64_t kFlagSlow = 0x100;

void add_reply(Reader& from, NodeReplies& replies, std::uint64_t status) {
  if (status > static_cast<std::uint64_t>(TransferStatus::kErrorBlockPinned)) {
    from.refuse("has the unknown status " + std::to_string(status));
    return;
  }
  replies.push_back(static_cast<TransferStatus>(status));
}

PipelineAck read_pipeline_ack(Reader from) {
  PipelineAck ack;
  NodeReplies flags;  // what counts, where a DataNode sends them
  while (from.next()) {
    switch (from.field()) {
      case 1:
        ack.sequence_number = from.sint64();
        break;
      case 2:
        from.each_number([&](std::uint64_t status) { add_reply(from, ack.replies, status); });
        break;
      case 4:
        from.each_number([&](std::uint64_t flag) {
          const std::size_t node = flags.size();
          add_reply(from, flags, flag & kFlagStatus);
          ack.congested = ack.congested || (flag & kFlagEcn) == kFlagCongested;
          if ((flag & kFlagSlowness) == kFlagSlow && node < 64) ack.slow |= 1ULL << node;
        });
        break;
      default:
        from.skip();
    }
  }
  from.require({{1, "seqno"}});
  if (!flags.empty()) ack.replies = std::move(flags);
  return ack;
}

// The length in front of a message.
struct Length {
  std::size_t size = 0;  // of itself; 0: it has not all arrived
  std::size_t value = 0;
};

Result<Length> read_length(ByteView bytes) {
  constexpr std::size_t kLongest = 5;  // of a 32-bit number
  std::size_t value = 0;
  for (std::size_t i = 0; i < kLongest; ++i) {
    if (i == bytes.size()) return Length();
    const auto byte = std::to_integer<std::size_t>(bytes[i]);
    value |= (byte & 0x7FU) << (7 * i);
    if ((byte & 0x80U) == 0) return Length{.size = i + 1, .value = value};
  }
  return wire::malformed("malformed message", "its length has more than 5 bytes");
}

template <typename T, typename Read>
Result<T> read_delimited(std::string_view subject, std::string_view message, ByteView delimited,
                         Read read) {
  HFLUSH_ASSIGN_OR_RETURN(const Length length, read_length(delimited));
  if (length.size == 0 || delimited.size() - length.size != length.value) {
    return wire::malformed(subject, "it has not the length that it says");
  }
  return wire::read_whole<T>(subject, message, delimited.subspan(length.size), read);
}

template <typename T>
T to_little_endian(T value) noexcept {
  if constexpr (std::endian::native == std::endian::little) {
    return value;
  } else if constexpr (sizeof(T) == 8) {
    return __builtin_bswap64(value);
  } else {
    return __builtin_bswap32(value);
  }
}

template <typename T>
void store_le(std::byte* at, T value) noexcept {
  const T wire = to_little_endian(value);
  std::memcpy(at, &wire, sizeof wire);
}

template <typename T>
T load_le(const std::byte* at) noexcept {
  T wire;
  std::memcpy(&wire, at, sizeof wire);
  return to_little_endian(wire);
}

// The one form in which Hadoop writes a PacketHeaderProto, as offsets of keys and values:
//   09 offset(8)  11 seqno(8)  18 last(1)  25 size(4)  [28 sync(1)]
struct UsualHeader {
  static constexpr std::size_t kSize = 25;
  static constexpr std::size_t kSizeWithSync = 27;
  static constexpr std::size_t kOffset = 1;
  static constexpr std::size_t kSequenceNumber = 10;
  static constexpr std::size_t kLast = 19;
  static constexpr std::size_t kDataSize = 21;
  static constexpr std::size_t kSync = 26;
};

// Of a header, whose data size is not checked yet.
struct HeaderFields {
  std::uint64_t offset = 0;
  std::int64_t sequence_number = 0;
  bool last = false;
  std::uint32_t data_size = 0;
  bool sync = false;
};

std::optional<HeaderFields> usual_header(ByteView message) noexcept {
  using Usual = UsualHeader;
  const auto key_is = [&](std::size_t value_at, unsigned char key) {
    return message[value_at - 1] == std::byte{key};
  };
  const auto is_boolean = [&](std::size_t at) { return message[at] <= std::byte{1}; };
  const bool with_sync = message.size() == Usual::kSizeWithSync;
  if (!with_sync && message.size() != Usual::kSize) return std::nullopt;
  if (!key_is(Usual::kOffset, 0x09) || !key_is(Usual::kSequenceNumber, 0x11) ||
      !key_is(Usual::kLast, 0x18) || !key_is(Usual::kDataSize, 0x25) || !is_boolean(Usual::kLast)) {
    return std::nullopt;
  }
  if (with_sync && (!key_is(Usual::kSync, 0x28) || !is_boolean(Usual::kSync))) return std::nullopt;
  HeaderFields fields;
  fields.offset = load_le<std::uint64_t>(&message[Usual::kOffset]);
  fields.sequence_number =
      static_cast<std::int64_t>(load_le<std::uint64_t>(&message[Usual::kSequenceNumber]));
  fields.last = message[Usual::kLast] == std::byte{1};
  fields.data_size = load_le<std::uint32_t>(&message[Usual::kDataSize]);
  fields.sync = with_sync && message[Usual::kSync] == std::byte{1};
  return fields;
}

HeaderFields read_header(Reader from) {
  HeaderFields fields;
  while (from.next()) {
    switch (from.field()) {
      case 1:
        fields.offset = from.fixed64();
        break;
      case 2:
        fields.sequence_number = static_cast<std::int64_t>(from.fixed64());
        break;
      case 3:
        fields.last = from.boolean();
        break;
      case 4:
        fields.data_size = from.fixed32();
        break;
      case 5:
        fields.sync = from.boolean();
        break;
      default:
        from.skip();
    }
  }
  from.require({{1, "offsetInBlock"}, {2, "seqno"}, {3, "lastPacketInBlock"}, {4, "dataLen"}});
  return fields;
}

constexpr std::string_view kPacketHeader = "malformed packet header";

Status packet_size_refused(std::uint32_t packet_size, std::size_t header_size) {
  return wire::malformed(kPacketHeader, "a packet of " + std::to_string(packet_size) +
                                            " bytes with a header of " +
                                            std::to_string(header_size) + " bytes");
}

}  // namespace

std::string_view to_string(TransferStatus status) noexcept {
  switch (status) {
    case TransferStatus::kSuccess:
      return "SUCCESS";
    case TransferStatus::kError:
      return "ERROR";
    case TransferStatus::kErrorChecksum:
      return "ERROR_CHECKSUM";
    case TransferStatus::kErrorInvalid:
      return "ERROR_INVALID";
    case TransferStatus::kErrorExists:
      return "ERROR_EXISTS";
    case TransferStatus::kErrorAccessToken:
      return "ERROR_ACCESS_TOKEN";
    case TransferStatus::kChecksumOk:
      return "CHECKSUM_OK";
    case TransferStatus::kErrorUnsupported:
      return "ERROR_UNSUPPORTED";
    case TransferStatus::kOobRestart:
      return "OOB_RESTART";
    case TransferStatus::kOobReserved1:
      return "OOB_RESERVED1";
    case TransferStatus::kOobReserved2:
      return "OOB_RESERVED2";
    case TransferStatus::kOobReserved3:
      return "OOB_RESERVED3";
    case TransferStatus::kInProgress:
      return "IN_PROGRESS";
    case TransferStatus::kErrorBlockPinned:
      return "ERROR_BLOCK_PINNED";
  }
  return "UNKNOWN";
}

std::string WriteBlockOperation::encode() const {
  std::string body;
  Writer to(body);
  add_client_header(to, block, token, client_name);
  const std::span<const Replica> targets = pipeline.subspan(1);
  for (const Replica& target : targets) to.add_message(2, target.node.encoded);
  to.add_enum(4, static_cast<std::int32_t>(stage));
  to.add_uint32(5, static_cast<std::uint32_t>(pipeline.size()));
  to.add_uint64(6, min_bytes_received);
  to.add_uint64(7, max_bytes_received);
  to.add_uint64(8, latest_generation_stamp);
  {
    Writer requested(to, 9);
    requested.add_enum(1, static_cast<std::int32_t>(checksum.kind));
    requested.add_uint32(2, checksum.bytes_per_checksum);
  }
  add_caching_strategy(to, 10, drop_behind, std::nullopt);
  to.add_enum(11, static_cast<std::int32_t>(pipeline[0].storage_type));
  for (const Replica& target : targets) {
    to.add_enum(12, static_cast<std::int32_t>(target.storage_type));
  }
  to.add_bool(13, lazy_persist);
  if (!favored_nodes.empty()) {
    to.add_bool(14, is_favored(pipeline[0].node, favored_nodes));
    for (const Replica& target : targets) to.add_bool(15, is_favored(target.node, favored_nodes));
  }
  to.add_string(16, pipeline[0].storage_id);
  for (const Replica& target : targets) to.add_string(17, target.storage_id);
  return operation(kWriteBlock, body);
}

std::string TransferBlockOperation::encode() const {
  std::string body;
  Writer to(body);
  add_client_header(to, block, token, client_name);
  for (const Replica& target : targets) to.add_message(2, target.node.encoded);
  for (const Replica& target : targets) {
    to.add_enum(3, static_cast<std::int32_t>(target.storage_type));
  }
  for (const Replica& target : targets) to.add_string(4, target.storage_id);
  return operation(kTransferBlock, body);
}

std::string ReadBlockOperation::encode() const {
  std::string body;
  Writer to(body);
  add_client_header(to, block, token, client_name);
  to.add_uint64(2, offset);
  to.add_uint64(3, length);
  to.add_bool(4, send_checksums);
  add_caching_strategy(to, 5, drop_behind, readahead);
  return operation(kReadBlock, body);
}

std::string BlockChecksumOperation::encode() const {
  std::string body;
  Writer to(body);
  add_base_header(to, block, token);
  {
    Writer options(to, 2);
    options.add_enum(1, static_cast<std::int32_t>(type));
  }
  return operation(kBlockChecksum, body);
}

Result<std::size_t> delimited_size(ByteView bytes, std::size_t max_bytes) {
  HFLUSH_ASSIGN_OR_RETURN(const Length length, read_length(bytes));
  if (length.value > max_bytes) {
    return wire::malformed("malformed message", "a length of " + std::to_string(length.value) +
                                                    " bytes, at most " + std::to_string(max_bytes));
  }
  const std::size_t size = length.size + length.value;
  return length.size != 0 && size <= bytes.size() ? size : std::size_t{0};
}

Result<OperationReply> decode_operation_reply(ByteView message) {
  return read_delimited<OperationReply>("malformed reply to an operation", "BlockOpResponseProto",
                                        message, read_operation_reply);
}

Result<PipelineAck> decode_pipeline_ack(ByteView message) {
  return read_delimited<PipelineAck>("malformed pipeline ack", "PipelineAckProto", message,
                                     read_pipeline_ack);
}

void PacketHeader::encode_to(MutableByteView out) const noexcept {
  HFLUSH_DCHECK(out.size() == encoded_size());
  using Usual = UsualHeader;
  std::byte* const message = out.data() + kLengthsSize;
  const std::size_t message_size = sync_block ? Usual::kSizeWithSync : Usual::kSize;
  store_be32(out.data(), kCounted + sums_size + data_size);
  out[4] = std::byte{0};
  out[5] = static_cast<std::byte>(message_size);
  message[Usual::kOffset - 1] = std::byte{0x09};
  store_le(message + Usual::kOffset, offset_in_block);
  message[Usual::kSequenceNumber - 1] = std::byte{0x11};
  store_le(message + Usual::kSequenceNumber, static_cast<std::uint64_t>(sequence_number));
  message[Usual::kLast - 1] = std::byte{0x18};
  message[Usual::kLast] = static_cast<std::byte>(last_in_block);
  message[Usual::kDataSize - 1] = std::byte{0x25};
  store_le(message + Usual::kDataSize, data_size);
  if (!sync_block) return;
  message[Usual::kSync - 1] = std::byte{0x28};
  message[Usual::kSync] = std::byte{1};
}

Result<std::optional<DecodedPacketHeader>> decode_packet_header(ByteView bytes,
                                                                std::size_t max_size) {
  using Answer = std::optional<DecodedPacketHeader>;
  if (bytes.size() < kLengthsSize) return Answer();
  const std::uint32_t packet_size = load_be32(bytes.data());
  const std::size_t header_size =
      std::to_integer<std::size_t>(bytes[4]) << 8U | std::to_integer<std::size_t>(bytes[5]);
  const std::size_t size = kLengthsSize + header_size;
  if (packet_size < kCounted || packet_size + header_size > max_size ||
      size > PacketHeader::kMaxReceivedSize) {
    return packet_size_refused(packet_size, header_size);
  }
  if (bytes.size() < size) return Answer();
  const ByteView message = bytes.subspan(kLengthsSize, header_size);
  std::optional<HeaderFields> fields = usual_header(message);
  if (!fields) {
    HFLUSH_ASSIGN_OR_RETURN(fields, wire::read_whole<HeaderFields>(
                                        kPacketHeader, "PacketHeaderProto", message, read_header));
  }
  if (fields->offset > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
    return wire::malformed(kPacketHeader, "a negative offset in the block");
  }
  if (fields->data_size > packet_size - kCounted) {
    return wire::malformed(kPacketHeader, std::to_string(fields->data_size) +
                                              " bytes of data in a packet of " +
                                              std::to_string(packet_size) + " bytes");
  }
  const PacketHeader header{.offset_in_block = fields->offset,
                            .sequence_number = fields->sequence_number,
                            .last_in_block = fields->last,
                            .sync_block = fields->sync,
                            .sums_size = packet_size - kCounted - fields->data_size,
                            .data_size = fields->data_size};
  return Answer({header, size});
}

std::string encode_client_read_status(TransferStatus status) {
  std::string body;
  Writer(body).add_enum(1, static_cast<std::int32_t>(status));
  return wire::delimited(body);
}

}  // namespace hflush::hdfs
