// Geometry: the sizes at which a sink wants its bytes cut, and the window it may leave
// unacknowledged.
#pragma once

#include <cstddef>
#include <cstdint>

#include "hflush/crc/checksum.h"

namespace hflush::stream {

struct Geometry {
  // Checksums: one for each `bytes_per_checksum` of the file, or none.
  crc::Kind checksum = crc::Kind::kNone;
  std::size_t bytes_per_checksum = 512;
  // Data bytes of a full packet: a whole number of chunks.
  std::size_t packet_bytes = 64U << 10U;
  // Sealed bytes that are worth one hand-over: waking a thread costs more than copying a packet.
  std::size_t batch_bytes = 1U << 20U;
  // Bytes written and not acknowledged; a writer waits beyond that (WRITE-22).
  std::size_t window_bytes = 5U << 20U;
  // No packet crosses a multiple of this; 0: the file is one block.
  std::uint64_t block_bytes = 0;
  // The file's length when the stream was opened.
  std::uint64_t start = 0;

  bool has_checksums() const noexcept { return checksum != crc::Kind::kNone; }

  // The default sizes around chunks of `bytes_per_checksum`. Requires: bytes_per_checksum > 0.
  static Geometry with_checksums(crc::Kind kind, std::size_t bytes_per_checksum) noexcept;

  // What the packetizer and the stream rely on.
  bool valid() const noexcept;
};

}  // namespace hflush::stream
