#include "hflush/stream/reports.h"

#include <utility>

namespace hflush::stream {

void Reports::listen(SinkEvents& stream) {
  Status kept;
  {
    MutexLock lock(mutex_);
    if (!over_) stream_ = &stream;
    kept = std::exchange(kept_, Status());
  }
  if (!kept.ok()) stream.failed(std::move(kept));
}

void Reports::stop() noexcept {
  MutexLock lock(mutex_);
  over_ = true;
  stream_ = nullptr;
  kept_ = Status();
}

SinkEvents* Reports::listener() const {
  MutexLock lock(mutex_);
  return over_ ? nullptr : stream_;
}

void Reports::acknowledged(std::uint64_t offset) {
  if (SinkEvents* const stream = listener()) stream->acknowledged(offset);
}

void Reports::reached(Level level, std::uint64_t offset) {
  if (SinkEvents* const stream = listener()) stream->reached(level, offset);
}

void Reports::not_reached(Level level, std::uint64_t offset, Status why) {
  if (SinkEvents* const stream = listener()) stream->not_reached(level, offset, std::move(why));
}

void Reports::finished() {
  SinkEvents* stream = nullptr;
  {
    MutexLock lock(mutex_);
    if (std::exchange(over_, true)) return;
    stream = stream_;
  }
  if (stream != nullptr) stream->finished();
}

void Reports::failed(Status failure) {
  SinkEvents* stream = nullptr;
  {
    MutexLock lock(mutex_);
    if (std::exchange(over_, true)) return;
    if (stream_ == nullptr) {
      kept_ = std::move(failure);
      return;
    }
    stream = stream_;
  }
  stream->failed(std::move(failure));
}

}  // namespace hflush::stream
