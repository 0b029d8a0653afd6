#include "hflush/local/local_sink.h"

#include <cerrno>
#include <iterator>
#include <new>
#include <utility>

#include "hflush/local/paths.h"

namespace hflush::local {
namespace {

std::size_t bytes_of(std::span<const stream::Packet> packets) noexcept {
  std::size_t bytes = 0;
  for (const stream::Packet& packet : packets) bytes += packet.data().size();
  return bytes;
}

}  // namespace

LocalSink::LocalSink(std::unique_ptr<Destination> destination, LocalSinkOptions options,
                     env::Executor& executor, const env::Clock& clock, unsigned usable_processors)
    : options_(std::move(options)),
      executor_(executor),
      clock_(clock),
      destination_(std::move(destination)),
      written_(options_.geometry.start),
      entries_are_durable_(options_.directories_to_sync.empty()),
      policy_(usable_processors) {}

LocalSink::~LocalSink() { static_cast<void>(abandon()); }

stream::SinkTraits LocalSink::traits() const {
  stream::SinkTraits traits;
  traits.geometry = options_.geometry;
  traits.file_id = options_.inode;
  if (options_.syncable) traits.capabilities = {"hsync"};
  return traits;
}

std::size_t LocalSink::put(stream::Batch batch, std::optional<stream::Level> level,
                           stream::SinkEvents& events) {
  const bool to_worker = suits_worker(batch, level);
  // The caller copies its bytes, and comes back with packets.
  if (to_worker && batch.packets.empty() && !level) return 0;
  std::size_t taken = 0;
  if (const auto queued = take_back_or_queue({batch.packets, level}, to_worker, events)) {
    perform(*queued, events);
    if (!batch.empty() && write(batch.packets, batch.tail, events)) taken = batch.tail.size();
    if (level) sync(*level, events);
  }
  if (!batch.empty()) policy_.caller_left(clock_.now());
  return taken;
}

bool LocalSink::suits_worker(stream::Batch batch, std::optional<stream::Level> level) {
  if (options_.waits_for_reader) return true;
  if (batch.empty()) return false;
  const std::size_t size = bytes_of(batch.packets) + batch.tail.size();
  return policy_.decide(clock_.now(), size) == Drainer::kWorker && !level;
}

void LocalSink::finish(stream::SinkEvents& events) {
  const Asked asked{.packets = {}, .level = {}, .finishes = true};
  if (const auto queued = take_back_or_queue(asked, options_.waits_for_reader, events)) {
    perform(*queued, events);
    publish(events);
  }
}

// None: a worker will do what is asked. Else the caller does it, after what no worker has begun. A
// worker that was called a whole batch ago and has not begun finds no processor to run on.
std::optional<std::vector<LocalSink::Work>> LocalSink::take_back_or_queue(
    const Asked& asked, bool to_worker, stream::SinkEvents& events) {
  MutexLock lock(queue_->mutex);
  std::vector<Work>& queued = queue_->work;
  if (queue_->worker != Worker::kWriting) {
    const bool is_called = queue_->worker == Worker::kCalled;
    const bool will_come = is_called ? options_.waits_for_reader : to_worker && call_worker(events);
    if (!will_come) {
      queue_->worker = Worker::kIdle;
      return std::exchange(queued, {});
    }
    queue_->worker = Worker::kCalled;
  }
  if (queued.empty() || queued.back().level || queued.back().finishes) queued.emplace_back();
  Work& last = queued.back();
  last.packets.insert(last.packets.end(), std::make_move_iterator(asked.packets.begin()),
                      std::make_move_iterator(asked.packets.end()));
  last.level = asked.level;
  last.finishes = asked.finishes;
  return std::nullopt;
}

// While a worker is kWriting the sink waits for it, so that only then the task may use the sink.
bool LocalSink::call_worker(stream::SinkEvents& events) {
  return executor_.run([this, &events, queue = queue_] {
    MutexLock lock(queue->mutex);
    if (queue->worker == Worker::kCalled) drain(*queue, events);
  });
}

void LocalSink::drain(Queue& queue, stream::SinkEvents& events) {
  queue.worker = Worker::kWriting;
  while (!queue.work.empty()) {
    std::vector<Work> begun;
    begun.swap(queue.work);
    const MutexUnlock unlock(queue.mutex);
    try {
      const std::int64_t writes = perform(begun, events);
      worker_writes_.fetch_add(writes, std::memory_order_relaxed);
    } catch (const std::bad_alloc&) {
      broken_ = true;
      events.failed(out_of_memory_);
    }
    begun.clear();
  }
  queue.worker = Worker::kIdle;
  queue.changed.notify_all();
}

// How many writes that took.
std::int64_t LocalSink::perform(std::span<const Work> queued, stream::SinkEvents& events) {
  std::int64_t writes = 0;
  for (const Work& work : queued) {
    if (!work.packets.empty() && write(work.packets, {}, events)) ++writes;
    if (work.level) sync(*work.level, events);
    if (work.finishes) publish(events);
  }
  return writes;
}

std::vector<LocalSink::Work> LocalSink::wait_and_take_back() {
  MutexLock lock(queue_->mutex);
  while (queue_->worker == Worker::kWriting) queue_->changed.wait(queue_->mutex);
  queue_->worker = Worker::kIdle;
  return std::exchange(queue_->work, {});
}

bool LocalSink::write(std::span<const stream::Packet> packets, ByteView tail,
                      stream::SinkEvents& events) {
  if (broken_) return false;
  Status written;
  try {
    written = destination_->write(packets, tail);
  } catch (const std::bad_alloc&) {
    written = out_of_memory_;
  }
  if (!written.ok()) {
    broken_ = true;
    events.failed(std::move(written));
    return false;
  }
  written_ += bytes_of(packets) + tail.size();
  writes_.fetch_add(1, std::memory_order_relaxed);
  events.acknowledged(written_);
  return true;
}

void LocalSink::sync(stream::Level level, stream::SinkEvents& events) {
  if (broken_) return;  // failed() was reported when it broke
  Status done;
  switch (level) {
    case stream::Level::kHandedOver:
      done = destination_->flush();
      break;
    case stream::Level::kVisible:
      break;  // every new reader asks the operating system, which has it all
    case stream::Level::kDurable:
    case stream::Level::kBlockEnded:  // not asked of this sink
      done = durable_or_refused();
      break;
  }
  if (done.ok()) {
    events.reached(level, written_);
  } else if (level == stream::Level::kDurable && !cannot_sync_.ok()) {
    events.not_reached(level, written_, std::move(done));
  } else {
    broken_ = true;
    events.failed(std::move(done));
  }
}

// A mount without sync is not asked again: it could then say of earlier bytes that they are on the
// disk (HSYNC-12).
Status LocalSink::durable_or_refused() {
  if (!cannot_sync_.ok()) return cannot_sync_;
  Status done = make_durable();
  if (done.code() == StatusCode::kUnsupported) cannot_sync_ = done;
  return done;
}

Status LocalSink::make_durable() {
  HFLUSH_RETURN_IF_ERROR(destination_->sync());
  syncs_.fetch_add(1, std::memory_order_relaxed);
  if (entries_are_durable_) return {};
  for (const std::string& directory : options_.directories_to_sync) {
    HFLUSH_ASSIGN_OR_RETURN(const bool synced, sync_directory(directory));
    if (synced) directory_syncs_.fetch_add(1, std::memory_order_relaxed);
  }
  entries_are_durable_ = true;
  return {};
}

void LocalSink::publish(stream::SinkEvents& events) {
  if (broken_) return;
  Status outcome = options_.sync_on_close ? durable_or_refused() : Status();
  closed_ = true;
  outcome = first_failure(outcome, destination_->close());
  if (outcome.ok()) {
    events.finished();
  } else {
    broken_ = true;
    events.failed(std::move(outcome));
  }
}

void LocalSink::give_up() noexcept { destination_->give_up(); }

// Its worker may be waiting for a reader.
Status LocalSink::abandon() noexcept {
  give_up();
  wait_and_take_back();
  if (std::exchange(closed_, true)) return {};
  try {
    return destination_->close();
  } catch (const std::bad_alloc&) {
    return out_of_memory_;
  }
}

void LocalSink::add_statistics(Statistics& statistics) const {
  statistics["file_writes"] += writes_.load(std::memory_order_relaxed);
  statistics["file_writes_by_worker"] += worker_writes_.load(std::memory_order_relaxed);
  statistics["file_syncs"] += syncs_.load(std::memory_order_relaxed);
  statistics["directory_syncs"] += directory_syncs_.load(std::memory_order_relaxed);
}

}  // namespace hflush::local
