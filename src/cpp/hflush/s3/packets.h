// Packets: the pieces in which an object's bytes lie in memory, on their way in either direction.
//
// One size for writers and readers: what one releases the other takes from the pool.
#pragma once

#include <cstddef>

#include "hflush/crc/checksum.h"
#include "hflush/stream/packet.h"

namespace hflush::s3 {

inline constexpr std::size_t kChunkBytes = std::size_t{64} << 10U;
// Small: a short object holds no more, and the pool keeps those of many streams.
inline constexpr std::size_t kPacketBytes = std::size_t{256} << 10U;
// The size of a packet's buffer: its head is a whole number of cache lines.
inline constexpr std::size_t kPacketHead =
    (stream::Packet::kHeaderRoom + kPacketBytes / kChunkBytes * crc::kSumSize + 63) / 64 * 64;
inline constexpr std::size_t kBufferBytes = kPacketHead + kPacketBytes;

}  // namespace hflush::s3
