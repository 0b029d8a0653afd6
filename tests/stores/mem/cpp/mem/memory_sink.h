// MemorySink: the sink of a file in memory. The caller's thread copies; every new reader sees what
// was put. Nothing is durable, so it has no hsync, and with that no hflush.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "hflush/stream/sink.h"
#include "mem/memory_files.h"

namespace hflush::mem {

class MemorySink final : public stream::Sink {
 public:
  // Appends to `file`, which `path` names in messages.
  MemorySink(std::shared_ptr<MemoryFiles> files, MemoryFiles::File file, std::string path);

  stream::SinkTraits traits() const override;
  std::size_t put(stream::Batch batch, std::optional<stream::Level> level,
                  stream::SinkEvents& events) override;
  void finish(stream::SinkEvents& events) override;
  Status abandon() noexcept override;
  void add_statistics(Statistics& statistics) const override;

 private:
  const std::shared_ptr<MemoryFiles> files_;
  const MemoryFiles::File file_;
  const std::string path_;
  const std::uint64_t start_;

  // Of the thread that puts.
  std::uint64_t written_;
  bool broken_ = false;  // failed() was reported

  // Read by any thread, a number on its own.
  std::atomic<std::int64_t> appends_{0};
};

}  // namespace hflush::mem
