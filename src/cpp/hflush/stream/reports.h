// Reports: what a sink reports to its stream, which may not be there yet or not any more.
//
// The end (finished or failed) is reported once, and nothing after it. A failure that comes before
// the stream's first call is kept for that. After stop() nothing is reported.
//
// Thread-safe. No lock is held during a report. The caller of stop() itself waits for a report
// under way, as Driven does.
#pragma once

#include <cstdint>

#include "hflush/base/mutex.h"
#include "hflush/base/status.h"
#include "hflush/stream/sink.h"

namespace hflush::stream {

class Reports final : public SinkEvents {
 public:
  // A call of the stream says where reports go.
  void listen(SinkEvents& stream) HFLUSH_EXCLUDES(mutex_);
  void stop() noexcept HFLUSH_EXCLUDES(mutex_);

  void acknowledged(std::uint64_t offset) override HFLUSH_EXCLUDES(mutex_);
  void reached(Level level, std::uint64_t offset) override HFLUSH_EXCLUDES(mutex_);
  void not_reached(Level level, std::uint64_t offset, Status why) override HFLUSH_EXCLUDES(mutex_);
  void finished() override HFLUSH_EXCLUDES(mutex_);
  void failed(Status failure) override HFLUSH_EXCLUDES(mutex_);

 private:
  SinkEvents* listener() const HFLUSH_EXCLUDES(mutex_);

  // Never held across a report.
  mutable Mutex mutex_;
  SinkEvents* stream_ HFLUSH_GUARDED_BY(mutex_) = nullptr;  // none before its first call
  bool over_ HFLUSH_GUARDED_BY(mutex_) = false;             // the end is reported, or kept
  Status kept_ HFLUSH_GUARDED_BY(mutex_);                   // for the first call
};

}  // namespace hflush::stream
