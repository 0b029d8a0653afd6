// InputFile: positioned reads of one open file.
//
// Holds no position, so that any number of threads may read at once (READ-11). close() may be
// called while others read: they finish, later calls are kClosed. Thread-safe.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "hflush/base/bytes.h"
#include "hflush/base/mutex.h"
#include "hflush/base/result.h"
#include "hflush/local/descriptor.h"

namespace hflush::local {

class InputFile {
 public:
  virtual ~InputFile() = default;

  // Fills `out` from `position` on and returns how many bytes that were: fewer than asked for only
  // if the file ends there, 0 at or past its end. After a failure `out` holds anything.
  virtual Result<std::size_t> read_at(std::uint64_t position, MutableByteView out) = 0;
  // Bytes the file has now.
  virtual Result<std::uint64_t> length() = 0;
  virtual void close() = 0;
  virtual bool closed() = 0;
  // The data file's descriptor; it stays this object's.
  virtual Result<int> fileno() = 0;
  // Are the bytes checked against stored sums?
  virtual bool verified() const noexcept = 0;
};

// The bytes as they are.
class RawInputFile final : public InputFile {
 public:
  // kNotAFile of a directory, kUnsupported of what is neither that nor a file.
  static Result<std::unique_ptr<RawInputFile>> open(const std::string& path);
  RawInputFile(std::string path, Descriptor file)
      : path_(std::move(path)), file_(std::make_shared<const Descriptor>(std::move(file))) {}

  Result<std::size_t> read_at(std::uint64_t position, MutableByteView out) override;
  Result<std::uint64_t> length() override;
  void close() override;
  bool closed() override;
  Result<int> fileno() override;
  bool verified() const noexcept override { return false; }

  const std::string& path() const noexcept { return path_; }

 private:
  // Shared with the calls under way, so that its number is not given to another file before the
  // last of them has returned.
  Result<std::shared_ptr<const Descriptor>> file();

  const std::string path_;
  Mutex mutex_;
  std::shared_ptr<const Descriptor> file_ HFLUSH_GUARDED_BY(mutex_);  // null: closed
};

// Opens a regular file, and nothing else: a pipe is not even opened for a moment, which its other
// end would notice. kNotFound, kNotAFile of a directory, kUnsupported of anything else.
Result<Descriptor> open_regular(const std::string& path, int flags);

}  // namespace hflush::local
