// Source: what a store implements to give the bytes of one open file.
//
// Positioned reads: a source has no position of its own, so any number of threads may read at once
// (READ-11). Position, buffering and lines are the stream's, above it. A read runs on the caller's
// thread; one that waits for a network can be interrupted, and leaves the source as it was.
// Thread-safe.
#pragma once

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>

#include "hflush/base/bytes.h"
#include "hflush/base/result.h"
#include "hflush/base/statistics.h"
#include "hflush/base/status.h"
#include "hflush/env/interrupt.h"

namespace hflush::stream {

class Source {
 public:
  // What the store is asked to do with the bytes of the next requests; nullopt: as configured.
  struct DropBehind {
    std::optional<bool> value;  // drop them from its cache
  };
  struct Readahead {
    std::optional<std::int64_t> bytes;  // read this many more into its cache
  };
  using Advice = std::variant<DropBehind, Readahead>;

  Source() = default;
  virtual ~Source() = default;
  Source(const Source&) = delete;
  Source& operator=(const Source&) = delete;

  // The file's name in messages.
  virtual const std::string& path() const noexcept = 0;

  // Fills `out` from `position` on and returns the number of bytes: fewer than asked for only
  // if the file ends there, 0 at or past its end. After a failure the content of `out` is
  // undefined.
  virtual Result<std::size_t> read_at(std::uint64_t position, MutableByteView out,
                                      env::Interrupt& interrupt) = 0;
  // In bytes; 0 also for a file of unknown length, as in /proc. Does not wait for a network.
  virtual Result<std::uint64_t> length() const = 0;
  // Calls under way finish, later ones are kClosed. Idempotent.
  virtual void close() = 0;
  // Every byte is compared with stored checksums before it is returned.
  virtual bool verified() const noexcept = 0;

  // Releases what waits for the next read in order: a connection, bytes that were sent ahead.
  virtual void unbuffer() {}
  // A hint; a store without such a choice ignores it.
  virtual void advise(const Advice& /*advice*/) {}
  // The descriptor whose bytes are the file's, if there is one; the source keeps it.
  virtual Result<int> fileno() const {
    return Status(StatusCode::kUnsupported,
                  "fileno is not supported by a stream that is not a plain local file", path(),
                  ENOTSUP);
  }

  // Adds the source's own counters. Never waits for I/O.
  virtual void add_statistics(Statistics& /*statistics*/) const {}
};

}  // namespace hflush::stream
