// LocalSource: the bytes of a local file as they are.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "hflush/base/bytes.h"
#include "hflush/base/mutex.h"
#include "hflush/base/result.h"
#include "hflush/local/descriptor.h"
#include "hflush/stream/source.h"

namespace hflush::local {

class LocalSource final : public stream::Source {
 public:
  // kNotAFile of a directory, kUnsupported of what is neither that nor a file.
  static Result<std::unique_ptr<LocalSource>> open(const std::string& path);
  LocalSource(std::string path, Descriptor file)
      : path_(std::move(path)), file_(std::make_shared<const Descriptor>(std::move(file))) {}

  // read_at() of a file that needs no interrupt: it waits for a disk at most.
  Result<std::size_t> pread(std::uint64_t position, MutableByteView out) const;

  const std::string& path() const noexcept override { return path_; }
  Result<std::size_t> read_at(std::uint64_t position, MutableByteView out,
                              env::Interrupt& /*interrupt*/) override {
    return pread(position, out);
  }
  Result<std::uint64_t> length() const override;
  void close() override;
  bool verified() const noexcept override { return false; }
  Result<int> fileno() const override;

 private:
  // Shared with the calls under way, so that its number is not given to another file before the
  // last of them has returned.
  Result<std::shared_ptr<const Descriptor>> file() const;

  const std::string path_;
  // Innermost.
  mutable Mutex mutex_;
  std::shared_ptr<const Descriptor> file_ HFLUSH_GUARDED_BY(mutex_);  // null: closed
};

// Opens a regular file, and nothing else: a pipe is not even opened for a moment, which its other
// end would notice. kNotFound, kNotAFile of a directory, kUnsupported of anything else.
Result<Descriptor> open_regular(const std::string& path, int flags);

}  // namespace hflush::local
