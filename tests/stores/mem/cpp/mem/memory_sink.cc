#include "mem/memory_sink.h"

#include <utility>
#include <vector>

namespace hflush::mem {

MemorySink::MemorySink(std::shared_ptr<MemoryFiles> files, MemoryFiles::File file, std::string path)
    : files_(std::move(files)),
      file_(std::move(file)),
      path_(std::move(path)),
      start_(files_->length(*file_)),
      written_(start_) {}

stream::SinkTraits MemorySink::traits() const {
  stream::SinkTraits traits;
  traits.geometry.start = start_;
  return traits;
}

std::size_t MemorySink::put(stream::Batch batch, std::optional<stream::Level> level,
                            stream::SinkEvents& events) {
  if (broken_) return 0;
  if (!batch.empty()) {
    std::vector<ByteView> pieces;
    for (const stream::Packet& packet : batch.packets) pieces.push_back(packet.data());
    pieces.push_back(batch.tail);
    if (Status appended = files_->append(*file_, pieces); !appended.ok()) {
      broken_ = true;
      events.failed(appended.with_path(path_));
      return 0;
    }
    for (const ByteView piece : pieces) written_ += piece.size();
    appends_.fetch_add(1, std::memory_order_relaxed);
    events.acknowledged(written_);
  }
  if (level) events.reached(*level, written_);
  return batch.tail.size();
}

void MemorySink::finish(stream::SinkEvents& events) {
  if (!broken_) events.finished();
}

Status MemorySink::abandon() noexcept { return {}; }

void MemorySink::add_statistics(Statistics& statistics) const {
  statistics["memory_appends"] = appends_.load(std::memory_order_relaxed);
}

}  // namespace hflush::mem
