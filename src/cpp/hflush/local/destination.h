// Destination: the open files behind one local stream, as its sink drives them.
//
// Two exist: a raw file, and a file with its checksum sidecar. Every function blocks in system
// calls. Thread-compatible: the sink lets one thread in at a time. After a failure only close() is
// called.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "hflush/base/bytes.h"
#include "hflush/base/status.h"
#include "hflush/env/writable_file.h"
#include "hflush/stream/packet.h"

namespace hflush::local {

class Destination {
 public:
  virtual ~Destination() = default;

  // Appends the packets' data and then `tail`. On return the operating system has the data.
  virtual Status write(std::span<const stream::Packet> packets, ByteView tail) = 0;
  // Passes on what write() may have kept back for efficiency (checksums).
  virtual Status flush() = 0;
  // flush(), and everything to the disk device.
  virtual Status sync() = 0;
  // Ends waits for what a pipe leads to. Thread-safe.
  virtual void give_up() noexcept = 0;
  // flush(), and releases the files whatever happens. After a failure, then or before, what is left
  // is a prefix that its checksums cover, as far as the system lets us. Called once.
  virtual Status close() = 0;
};

// A file without checksums.
std::unique_ptr<Destination> make_raw_destination(std::unique_ptr<env::WritableFile> file,
                                                  std::string path);

// A file and its sidecar `.name.crc`: the header is written by the first flush().
std::unique_ptr<Destination> make_checksummed_destination(
    std::unique_ptr<env::WritableFile> file, std::string path,
    std::unique_ptr<env::WritableFile> sidecar, std::string sidecar_path,
    std::uint32_t bytes_per_checksum);

}  // namespace hflush::local
