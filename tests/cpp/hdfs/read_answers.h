// What a DataNode sends in answer to READ_BLOCK, made from a replica's bytes.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "hflush/base/bytes.h"
#include "hflush/crc/checksum.h"
#include "hflush/hdfs/wire/data_transfer.h"
#include "hflush/hdfs/wire/wire.h"

namespace hflush::hdfs::testing {

// A replica on a DataNode's disk: its bytes, and the sums that were made of them once.
struct StoredReplica {
  explicit StoredReplica(std::vector<std::byte> content, ChecksumParameters parameters = {},
                         std::size_t packet_bytes = std::size_t{64} << 10U)
      : bytes(std::move(content)), checksum(parameters), packet_size(packet_bytes) {
    const std::size_t chunk = checksum.bytes_per_checksum;
    sums.resize(crc::checksum_count(bytes.size(), chunk) * crc::kSumSize);
    crc::chunk_sums(checksum.kind, bytes, chunk, sums.data());
  }

  std::vector<std::byte> bytes;
  std::vector<std::byte> sums;
  ChecksumParameters checksum;
  std::size_t packet_size;  // data bytes in a packet, a multiple of a chunk
};

inline std::string delimited_reply(const std::string& message) { return wire::delimited(message); }

inline std::string accepting_reply(ChecksumParameters checksum, std::uint64_t chunk_offset) {
  std::string message;
  wire::Writer reply(message);
  reply.add_enum(1, 0);
  {
    wire::Writer info(reply, 4);
    {
      wire::Writer parameters(info, 1);
      parameters.add_enum(1, static_cast<std::int32_t>(checksum.kind));
      parameters.add_uint32(2, checksum.bytes_per_checksum);
    }
    info.add_uint64(2, chunk_offset);
  }
  return delimited_reply(message);
}

inline std::string refusing_reply(TransferStatus status, std::string_view why) {
  std::string message;
  wire::Writer reply(message);
  reply.add_enum(1, static_cast<std::int32_t>(status));
  reply.add_string(5, why.data(), why.size());
  return delimited_reply(message);
}

inline std::string packet(const PacketHeader& header, ByteView sums, ByteView data) {
  std::string bytes(header.encoded_size(), '\0');
  header.encode_to(std::as_writable_bytes(std::span(bytes)));
  bytes += as_text(sums);
  bytes += as_text(data);
  return bytes;
}

inline std::string last_packet(std::int64_t sequence_number, std::uint64_t offset) {
  PacketHeader header;
  header.sequence_number = sequence_number;
  header.offset_in_block = offset;
  header.last_in_block = true;
  return packet(header, {}, {});
}

// All that comes for `length` bytes from `offset` on: reply, packets, the empty last one.
// `packet_size(n)`: data bytes of packet n, a multiple of a chunk.
template <typename PacketSize>
std::string answer_in_packets(const StoredReplica& replica, std::uint64_t offset,
                              std::uint64_t length, bool send_checksums,
                              const PacketSize& packet_size) {
  ChecksumParameters checksum = replica.checksum;
  if (!send_checksums) checksum.kind = crc::Kind::kNone;
  const std::uint64_t chunk = checksum.bytes_per_checksum;
  std::uint64_t at = offset / chunk * chunk;
  const std::uint64_t end =
      std::min<std::uint64_t>(replica.bytes.size(), (offset + length + chunk - 1) / chunk * chunk);
  std::string answer = accepting_reply(checksum, at);
  PacketHeader header;
  while (at < end) {
    const std::size_t size = std::min<std::uint64_t>(packet_size(header.sequence_number), end - at);
    ByteView sums;
    if (checksum.kind != crc::Kind::kNone) {
      sums = ByteView(replica.sums)
                 .subspan(at / chunk * crc::kSumSize,
                          crc::checksum_count(size, chunk) * crc::kSumSize);
    }
    header.offset_in_block = at;
    header.sums_size = static_cast<std::uint32_t>(sums.size());
    header.data_size = static_cast<std::uint32_t>(size);
    answer += packet(header, sums, ByteView(replica.bytes).subspan(at, size));
    ++header.sequence_number;
    at += size;
  }
  return answer + last_packet(header.sequence_number, end);
}

inline std::string answer_to_read(const StoredReplica& replica, std::uint64_t offset,
                                  std::uint64_t length, bool send_checksums = true) {
  return answer_in_packets(replica, offset, length, send_checksums,
                           [&](std::int64_t) { return replica.packet_size; });
}

}  // namespace hflush::hdfs::testing
