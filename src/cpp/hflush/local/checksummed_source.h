// ChecksummedSource: reads that are checked against the file's sidecar (sidecar.h).
//
// Every chunk that a read touches is verified before a byte of it is returned, long runs of them at
// once. kChecksum, with the chunk's position, if a chunk differs from its sum or has none, if the
// file ends before its sums do, and on every read if the sidecar is not one (LOCAL-6). What
// cannot be verified because the file is still being written is returned as it is. Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "hflush/local/local_source.h"
#include "hflush/stream/source.h"

namespace hflush::local {

// The file at `path`, verified if it has a sidecar and as it is if not. A sidecar that is
// unreadable for want of permission fails; a sidecar with a fault in it fails the reads.
Result<std::unique_ptr<stream::Source>> open_checksummed(const std::string& path);

class ChecksummedSource final : public stream::Source {
 public:
  ChecksummedSource(std::unique_ptr<LocalSource> data, std::unique_ptr<LocalSource> sums)
      : data_(std::move(data)), sums_(std::move(sums)) {}

  const std::string& path() const noexcept override { return data_->path(); }
  Result<std::size_t> read_at(std::uint64_t position, MutableByteView out,
                              env::Interrupt& interrupt) override;
  Result<std::uint64_t> length() const override { return data_->length(); }
  void close() override;
  bool verified() const noexcept override { return true; }

 private:
  Result<std::size_t> read_verified(std::uint64_t position, MutableByteView out);
  // Reads whole chunks into `out` and verifies them. Requires: position and out.size() are
  // multiples of the chunk's size.
  Result<std::size_t> read_chunks(std::uint64_t position, std::size_t chunk, MutableByteView out);
  // The same for any position and size, through a buffer; at most `out.size()` bytes, at least one
  // unless the file ends.
  Result<std::size_t> read_part(std::uint64_t position, std::size_t chunk, MutableByteView out);
  Status verify(std::uint64_t position, std::size_t chunk, ByteView bytes);
  // Fine if the sums end where the file does.
  Status verify_length(std::uint32_t bytes_per_checksum);
  Status mismatch(const std::string& message, std::uint64_t position, std::uint32_t expected,
                  std::uint32_t actual) const;

  const std::unique_ptr<LocalSource> data_;
  const std::unique_ptr<LocalSource> sums_;
};

}  // namespace hflush::local
