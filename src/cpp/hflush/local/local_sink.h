// LocalSink: the sink of a local file, raw or checksummed.
//
// put() writes on the caller's thread, or queues the batch for a worker, as DrainPolicy decides;
// put() with a level and finish() take back what no worker has begun, so that a sync costs no
// thread switch. What is asked while a worker writes is left to it: only abandon() waits for a
// system call of another thread. Of a file that takes bytes only as somebody else reads them (a
// pipe) the worker does it all, so that the caller's waits can be interrupted. One thread at a
// time drives the destination: the caller, or a worker that writes.
//
// Thread-safe where Sink asks for it: the stream calls put() and finish() from one thread at a
// time; a worker task is the other party, and the queue's mutex is between the two. It is
// never held across a system call or an event.
#pragma once

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "hflush/base/mutex.h"
#include "hflush/env/clock.h"
#include "hflush/env/executor.h"
#include "hflush/local/destination.h"
#include "hflush/local/drain_policy.h"
#include "hflush/stream/sink.h"

namespace hflush::local {

struct LocalSinkOptions {
  stream::Geometry geometry;
  // hflush() and hsync() are true: nothing is kept back (contract: raw yes, checksummed no).
  bool syncable = true;
  // finish() syncs like hsync() before it closes (CLOSE-12).
  bool sync_on_close = false;
  // Directories whose entries lead to a file that was created: made durable by the first durable
  // sync (HSYNC-14), the file's own first.
  std::vector<std::string> directories_to_sync;
  std::uint64_t inode = 0;        // of the file
  bool waits_for_reader = false;  // a pipe, a socket or a terminal
};

class LocalSink final : public stream::Sink {
 public:
  // `executor` and `clock` outlive the sink.
  LocalSink(std::unique_ptr<Destination> destination, LocalSinkOptions options,
            env::Executor& executor, const env::Clock& clock, unsigned usable_processors);
  ~LocalSink() override;

  stream::SinkTraits traits() const override;
  std::size_t put(stream::Batch batch, std::optional<stream::Level> level,
                  stream::SinkEvents& events) override;
  void finish(stream::SinkEvents& events) override;
  void give_up() noexcept override;
  Status abandon() noexcept override;
  void add_statistics(Statistics& statistics) const override;

 private:
  // Where a worker is with the queue.
  enum class Worker : std::uint8_t { kIdle, kCalled, kWriting };
  // In this order.
  struct Asked {
    std::span<stream::Packet> packets;
    std::optional<stream::Level> level;
    bool finishes = false;
  };
  struct Work {
    std::vector<stream::Packet> packets;
    std::optional<stream::Level> level;
    bool finishes = false;
  };
  // Shared with the tasks that call a worker: one that comes late may outlive the sink.
  struct Queue {
    // Before that of the worker pool. Never held across a system call or an event.
    Mutex mutex;
    CondVar changed;
    std::vector<Work> work HFLUSH_GUARDED_BY(mutex);
    Worker worker HFLUSH_GUARDED_BY(mutex) = Worker::kIdle;
  };

  bool suits_worker(stream::Batch batch, std::optional<stream::Level> level);
  std::optional<std::vector<Work>> take_back_or_queue(const Asked& asked, bool to_worker,
                                                      stream::SinkEvents& events);
  bool call_worker(stream::SinkEvents& events);
  void drain(Queue& queue, stream::SinkEvents& events) HFLUSH_REQUIRES(queue.mutex);
  std::int64_t perform(std::span<const Work> queued, stream::SinkEvents& events);
  std::vector<Work> wait_and_take_back();
  bool write(std::span<const stream::Packet> packets, ByteView tail, stream::SinkEvents& events);
  void sync(stream::Level level, stream::SinkEvents& events);
  void publish(stream::SinkEvents& events);
  Status durable_or_refused();
  Status make_durable();

  const LocalSinkOptions options_;
  const Status out_of_memory_ =
      Status::from_errno(ENOMEM, "write", {});  // made while there is memory
  env::Executor& executor_;
  const env::Clock& clock_;

  // Used by the thread that drives the destination: a worker while it is kWriting, else the caller;
  // and by who gives up.
  const std::unique_ptr<Destination> destination_;
  std::uint64_t written_;
  bool broken_ = false;  // a write or sync failed: nothing more is written
  Status cannot_sync_;   // the mount has no sync, and said so
  bool entries_are_durable_;
  bool closed_ = false;

  DrainPolicy policy_;  // used by the caller only

  const std::shared_ptr<Queue> queue_ = std::make_shared<Queue>();

  // Read by add_statistics() from any thread; each is a number on its own, so no order is needed.
  std::atomic<std::int64_t> writes_{0};
  std::atomic<std::int64_t> worker_writes_{0};
  std::atomic<std::int64_t> syncs_{0};
  std::atomic<std::int64_t> directory_syncs_{0};
};

}  // namespace hflush::local
