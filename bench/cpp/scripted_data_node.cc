#include "scripted_data_node.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "hflush/base/bytes.h"
#include "hflush/hdfs/wire/data_transfer.h"
#include "hflush/hdfs/wire/wire.h"

namespace scripted {
namespace {

using hflush::hdfs::PacketHeader;
using hflush::hdfs::wire::Fault;
using hflush::hdfs::wire::Reader;
using hflush::hdfs::wire::Writer;

constexpr std::size_t kSinkPiece = std::size_t{1} << 20U;
// Acks wait for each other while packets are there to be read, as they would in the kernel.
constexpr std::size_t kMostAcksAtOnce = 16;
constexpr std::size_t kMaxOperation = std::size_t{1} << 20U;
constexpr std::array kWriteBlock{std::byte{0}, std::byte{28}, std::byte{80}};  // version, opcode

struct WriteBlock {
  std::uint32_t nodes = 0;
  std::uint32_t stage = 0;
};
constexpr std::uint32_t kCloseRecovery = 5;  // ends with its reply

std::optional<WriteBlock> read_write_block(const Stream& stream) {
  std::array<std::byte, kWriteBlock.size()> start;
  std::size_t size = 0;
  if (!stream.read(start) || start != kWriteBlock) return std::nullopt;
  if (!stream.read_length(size) || size > kMaxOperation) return std::nullopt;
  std::string message(size, '\0');
  if (!stream.read(std::as_writable_bytes(std::span(message)))) return std::nullopt;

  WriteBlock operation;
  Fault fault;
  Reader reader("OpWriteBlockProto", hflush::as_bytes(message), fault);
  while (reader.next()) {
    switch (reader.field()) {
      case 4:
        operation.stage = reader.uint32();
        break;
      case 5:
        operation.nodes = reader.uint32();
        break;
      default:
        reader.skip();
    }
  }
  reader.require({{1, "header"}, {4, "stage"}, {5, "pipelineSize"}});
  if (fault.any() || operation.nodes == 0 || operation.nodes > 512) return std::nullopt;
  return operation;
}

std::optional<PacketHeader> read_packet_header(const Stream& stream) {
  std::array<std::byte, PacketHeader::kMaxReceivedSize> bytes;
  std::size_t have = 0;
  std::size_t want = PacketHeader{}.encoded_size();
  while (want <= bytes.size()) {
    if (!stream.read(std::span(bytes).subspan(have, want - have))) return std::nullopt;
    have = want;
    const auto decoded = hflush::hdfs::decode_packet_header(std::span(bytes).first(have));
    if (!decoded.ok()) return std::nullopt;
    if (*decoded) return (*decoded)->header;
    // The header's own length, two bytes, stands behind the packet's.
    want =
        6 + (std::to_integer<std::size_t>(bytes[4]) << 8U) + std::to_integer<std::size_t>(bytes[5]);
    if (want <= have) return std::nullopt;
  }
  return std::nullopt;
}

// PipelineAckProto with its length in front: every node has the packet.
std::string ack_of(std::int64_t sequence_number, std::uint32_t nodes) {
  std::string message;
  Writer writer(message);
  writer.add_sint64(1, sequence_number);
  for (std::uint32_t node = 0; node < nodes; ++node) writer.add_enum(2, 0);
  writer.add_uint64(3, 0);
  writer.add_bytes(4, std::string(nodes, '\0'));  // packed flags: plain success
  return hflush::hdfs::wire::delimited(message);
}

}  // namespace

void serve_data_transfer(const Stream& stream) {
  const std::optional<WriteBlock> operation = read_write_block(stream);
  if (!operation) return;
  static constexpr std::array kReady{std::byte{4}, std::byte{8}, std::byte{0}, std::byte{0x12},
                                     std::byte{0}};  // SUCCESS, no bad link
  if (!stream.write(kReady) || operation->stage == kCloseRecovery) return;
  std::string acks;
  for (std::size_t waiting = 1;; ++waiting) {
    const std::optional<PacketHeader> packet = read_packet_header(stream);
    if (!packet) return;
    if (!stream.discard(std::size_t{packet->sums_size} + packet->data_size)) return;
    acks += ack_of(packet->sequence_number, operation->nodes);
    if (!packet->last_in_block && waiting < kMostAcksAtOnce && stream.has_more()) continue;
    if (!stream.write(hflush::as_bytes(acks)) || packet->last_in_block) return;
    acks.clear();
    waiting = 0;
  }
}

void serve_sink(const Stream& stream) {
  while (stream.discard_some(kSinkPiece)) {
  }
}

}  // namespace scripted
