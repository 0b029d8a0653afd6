#include "hflush/stream/geometry.h"

#include <algorithm>

#include "hflush/base/check.h"

namespace hflush::stream {

Geometry Geometry::with_checksums(crc::Kind kind, std::size_t bytes_per_checksum) noexcept {
  HFLUSH_DCHECK(bytes_per_checksum > 0);
  Geometry geometry;
  geometry.checksum = kind;
  geometry.bytes_per_checksum = bytes_per_checksum;
  const std::size_t chunks = std::max<std::size_t>(1, geometry.packet_bytes / bytes_per_checksum);
  geometry.packet_bytes = chunks * bytes_per_checksum;
  geometry.batch_bytes = std::max(geometry.batch_bytes, geometry.packet_bytes);
  geometry.window_bytes = std::max(geometry.window_bytes, 4 * geometry.packet_bytes);
  return geometry;
}

bool Geometry::valid() const noexcept {
  const bool whole_chunks =
      has_chunks() ? packet_bytes % bytes_per_checksum == 0 && block_bytes % bytes_per_checksum == 0
                   : !has_checksums();
  return packet_bytes > 0 && whole_chunks && window_bytes / 2 >= packet_bytes && batch_bytes > 0 &&
         batch_bytes <= window_bytes && block_start <= start;
}

}  // namespace hflush::stream
