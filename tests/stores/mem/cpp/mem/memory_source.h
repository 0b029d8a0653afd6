// MemorySource: the bytes of a file in memory, as they are at each read.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "hflush/env/own_process.h"
#include "hflush/stream/source.h"
#include "mem/memory_files.h"

namespace hflush::mem {

class MemorySource final : public stream::Source {
 public:
  static Result<std::unique_ptr<stream::Source>> open(const std::shared_ptr<MemoryFiles>& files,
                                                      const std::string& path);
  MemorySource(std::shared_ptr<MemoryFiles> files, MemoryFiles::File file, std::string path);

  const std::string& path() const noexcept override { return path_; }
  // kForked in a child: the lock of the files may be held by a thread that it does not have.
  Result<std::size_t> read_at(std::uint64_t position, MutableByteView out,
                              env::Interrupt& interrupt) override;
  Result<std::uint64_t> length() const override;
  void close() override { closed_.store(true); }
  bool verified() const noexcept override { return false; }

 private:
  Status check_usable() const;

  const env::OwnProcess<MemoryFiles> files_;
  const env::OwnProcess<MemoryFiles::Node> file_;
  const std::string path_;
  std::atomic<bool> closed_{false};
};

}  // namespace hflush::mem
