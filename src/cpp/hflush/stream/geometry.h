// Geometry: the sizes at which a sink wants its bytes cut, and the window it may leave
// unacknowledged.
#pragma once

#include <cstddef>
#include <cstdint>

#include "hflush/crc/checksum.h"

namespace hflush::stream {

struct Geometry {
  // One sum for each chunk, or none.
  crc::Kind checksum = crc::Kind::kNone;
  // The size of a chunk. A packet begins where a chunk begins, or ends the chunk in which it
  // begins; a store may need that without sums too (HDFS does). 0: no chunks and so no sums,
  // packets end anywhere, and the sink may take a caller's bytes as they are.
  std::size_t bytes_per_checksum = 0;
  // Data bytes of a full packet: a whole number of chunks.
  std::size_t packet_bytes = 64U << 10U;
  // Sealed bytes that are worth one hand-over: waking a thread costs more than copying a packet.
  std::size_t batch_bytes = 1U << 20U;
  // Bytes written and not acknowledged; a writer waits beyond that (WRITE-22).
  std::size_t window_bytes = 5U << 20U;
  // No packet crosses the end of a block: blocks of this size follow on each other from
  // `block_start` on; 0: the rest of the file is one block.
  std::uint64_t block_bytes = 0;
  // Packets may be references to the caller's memory (packet.h): for a sink that writes no headers,
  // and to which chunks are what a packet's sums are of, wherever it begins.
  bool takes_references = false;
  // The file's length when the stream was opened.
  std::uint64_t start = 0;
  // Where the block begins that holds, or will hold, the byte at `start`. Chunks are counted from
  // the start of their block: after a short block (NEW_BLOCK) the file's own offsets do not align.
  std::uint64_t block_start = 0;

  bool has_checksums() const noexcept { return checksum != crc::Kind::kNone; }
  bool has_chunks() const noexcept { return bytes_per_checksum != 0; }

  // The default sizes around chunks of `bytes_per_checksum`. Requires: bytes_per_checksum > 0.
  static Geometry with_checksums(crc::Kind kind, std::size_t bytes_per_checksum) noexcept;

  // What the packetizer and the stream rely on.
  bool valid() const noexcept;
};

}  // namespace hflush::stream
