// Parts of uploads, as Python has them: number, etag, size, CRC32C.
#pragma once

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <cstdint>
#include <tuple>
#include <vector>

#include "hflush/s3/upload/block_upload.h"
#include "text.h"

namespace hflush::bindings {

using Part = std::tuple<std::uint32_t, pybind11::str, std::uint64_t, std::uint32_t>;

inline std::vector<s3::PartReceipt> receipts_of(const std::vector<Part>& parts) {
  std::vector<s3::PartReceipt> receipts;
  receipts.reserve(parts.size());
  for (const auto& [number, etag, size, crc32c] : parts) {
    receipts.push_back({number, to_utf8(etag), size, crc32c});
  }
  return receipts;
}

}  // namespace hflush::bindings
