// Files with sidecars, made byte by byte and independently of the code under test but for the sums.
#pragma once

#include <string>
#include <string_view>

#include "hflush/base/endian.h"
#include "hflush/crc/checksum.h"
#include "local/testing.h"

namespace hflush::local::testing {

inline std::string sidecar_of(const std::string& path) {
  const std::size_t slash = path.rfind('/') + 1;
  return path.substr(0, slash) + "." + path.substr(slash) + ".crc";
}

inline std::string sidecar_content(std::string_view data, std::size_t bytes_per_checksum = 512) {
  std::string content("crc\0", 4);
  content.resize(8);
  store_be32(reinterpret_cast<std::byte*>(content.data() + 4),
             static_cast<std::uint32_t>(bytes_per_checksum));
  for (std::size_t at = 0; at < data.size(); at += bytes_per_checksum) {
    std::byte sum[4];
    store_be32(sum,
               crc::extend(crc::Kind::kCrc32, 0, as_bytes(data.substr(at, bytes_per_checksum))));
    content += as_text(sum);
  }
  return content;
}

inline void write_checksummed(const std::string& path, std::string_view data,
                              std::size_t bytes_per_checksum = 512) {
  write_file(path, data);
  write_file(sidecar_of(path), sidecar_content(data, bytes_per_checksum));
}

// Bytes that differ from chunk to chunk.
inline std::string pattern(std::size_t size, unsigned seed = 1) {
  std::string text(size, '\0');
  std::uint32_t state = seed;
  for (char& byte : text) {
    state = state * 1664525U + 1013904223U;
    byte = static_cast<char>(state >> 24U);
  }
  return text;
}

}  // namespace hflush::local::testing
