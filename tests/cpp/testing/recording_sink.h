// RecordingSink: a store in memory whose answers the test decides.
//
// In `Answer::kAtOnce` it behaves as a local file (every call is answered before it returns); in
// `Answer::kLater` as a network store: nothing is answered until the test lets it, from whatever
// thread the test likes. Thread-safe.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "hflush/base/mutex.h"
#include "hflush/stream/sink.h"

namespace hflush::testing {

enum class Answer { kAtOnce, kLater };

// What the test looks at; it outlives the stream that owns the sink.
struct Store {
  explicit Store(Answer how, stream::Geometry sizes = {}) : answer(how), geometry(sizes) {}

  const Answer answer;
  const stream::Geometry geometry;
  bool syncable = true;
  bool ends_blocks = false;
  bool abortable = false;
  bool takes_tails = false;

  Mutex mutex;
  CondVar changed;
  std::vector<std::byte> file HFLUSH_GUARDED_BY(mutex);
  int puts HFLUSH_GUARDED_BY(mutex) = 0;
  int tails HFLUSH_GUARDED_BY(mutex) = 0;  // offered
  std::vector<stream::Level> syncs HFLUSH_GUARDED_BY(mutex);
  std::vector<std::uint64_t> block_ends HFLUSH_GUARDED_BY(mutex);  // as they were asked for
  int finishes HFLUSH_GUARDED_BY(mutex) = 0;
  int abandons HFLUSH_GUARDED_BY(mutex) = 0;
  Status next_failure HFLUSH_GUARDED_BY(mutex);  // what the next call answers with
  stream::SinkEvents* events HFLUSH_GUARDED_BY(mutex) = nullptr;

  std::uint64_t length() {
    MutexLock lock(mutex);
    return geometry.start + file.size();
  }
};

class RecordingSink final : public stream::Sink {
 public:
  explicit RecordingSink(Store& store) : store_(store) {}

  stream::SinkTraits traits() const override {
    stream::SinkTraits traits;
    traits.geometry = store_.geometry;
    if (store_.syncable) traits.capabilities.push_back("hsync");
    if (store_.ends_blocks) traits.capabilities.push_back(stream::kEndBlock);
    if (store_.abortable) traits.capabilities.push_back("fs.capability.outputstream.abortable");
    return traits;
  }

  std::size_t put(stream::Batch batch, std::optional<stream::Level> level,
                  stream::SinkEvents& events) override {
    const std::size_t taken = batch.empty() ? 0 : append(batch, events);
    if (level) sync(*level, events);
    return taken;
  }

  void finish(stream::SinkEvents& events) override {
    {
      MutexLock lock(store_.mutex);
      ++store_.finishes;
    }
    if (!fail(events) && answers_now(events)) events.finished();
  }

  Status abandon() noexcept override {
    MutexLock lock(store_.mutex);
    ++store_.abandons;
    store_.events = nullptr;
    return {};
  }

  void add_statistics(Statistics& statistics) const override { statistics["puts"] = 1; }

 private:
  std::size_t append(stream::Batch batch, stream::SinkEvents& events) {
    std::size_t taken = 0;
    {
      MutexLock lock(store_.mutex);
      ++store_.puts;
      if (!batch.tail.empty()) ++store_.tails;
      for (const stream::Packet& packet : batch.packets) {
        store_.file.resize(packet.offset() - store_.geometry.start);  // a replayed chunk overlaps
        store_.file.insert(store_.file.end(), packet.data().begin(), packet.data().end());
      }
      if (store_.takes_tails) taken = batch.tail.size();
      const ByteView tail = batch.tail.first(taken);
      store_.file.insert(store_.file.end(), tail.begin(), tail.end());
    }
    if (!fail(events) && answers_now(events)) events.acknowledged(store_.length());
    return taken;
  }

  void sync(stream::Level level, stream::SinkEvents& events) {
    {
      MutexLock lock(store_.mutex);
      store_.syncs.push_back(level);
      if (level == stream::Level::kBlockEnded) {
        store_.block_ends.push_back(store_.geometry.start + store_.file.size());
      }
    }
    if (!fail(events) && answers_now(events)) events.reached(level, store_.length());
  }

  bool answers_now(stream::SinkEvents& events) {
    MutexLock lock(store_.mutex);
    store_.events = &events;
    store_.changed.notify_all();
    return store_.answer == Answer::kAtOnce;
  }
  bool fail(stream::SinkEvents& events) {
    Status failure;
    {
      MutexLock lock(store_.mutex);
      failure = std::exchange(store_.next_failure, Status());
    }
    if (failure.ok()) return false;
    events.failed(std::move(failure));
    return true;
  }

  Store& store_;
};

}  // namespace hflush::testing
