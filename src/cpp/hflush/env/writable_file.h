// WritableFile: an open file as a sink needs it, and write_fully(), which finishes what one system
// call leaves undone.
//
// The interface is as thin as the system calls, so that a fault-injecting file below a sink can
// give every answer a kernel gives: short writes, EINTR, ENOSPC, a failed sync. Thread-compatible:
// one caller at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "hflush/base/bytes.h"
#include "hflush/base/result.h"

namespace hflush::env {

class WritableFile {
 public:
  virtual ~WritableFile() = default;

  // One attempt to write `pieces` at the file's position: the number of bytes taken, or -errno.
  // Requires: at most kMaxPieces pieces.
  virtual std::ptrdiff_t write_some(std::span<const ByteView> pieces) noexcept = 0;
  // Data, and the metadata needed to read it, to the disk device: 0 or errno.
  virtual int sync() noexcept = 0;
  // Waits until the file takes bytes again, after write_some() answered -EAGAIN: 0 or errno.
  virtual int wait_writable() noexcept = 0;
  // Ends such waits, soon, with ECANCELED, and those to come. Thread-safe.
  virtual void give_up() noexcept {}
  // Cuts the file to `size` bytes: 0 or errno. Nothing is written after it.
  virtual int truncate(std::uint64_t size) noexcept = 0;
  // Releases the descriptor whatever it answers: 0 or errno. Called once.
  virtual int close() noexcept = 0;

  static constexpr std::size_t kMaxPieces = 64;
};

// A file of the operating system. Owns `descriptor`; the destructor closes it if close() did not
// run. `is_private`: forked children close it, so that neither a lock of the open file
// (F_OFD_SETLK) nor its space is theirs; close() ends the lock also of one that is being forked.
// May throw std::bad_alloc.
std::unique_ptr<WritableFile> make_posix_file(int descriptor, bool is_private = false);

// Writes all of `pieces`, in order, however many system calls that takes. After a failure an
// unknown prefix is written. `path` and the offset go into the failure's message.
Status write_fully(WritableFile& file, std::span<const ByteView> pieces, const std::string& path);

}  // namespace hflush::env
