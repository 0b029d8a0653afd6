#include "hflush/env/resolver.h"

#include <pthread.h>

#include <deque>
#include <system_error>
#include <thread>
#include <utility>

#include "hflush/base/mutex.h"
#include "hflush/env/blocked_signals.h"

namespace hflush::env {

struct Resolver::Queue {
  explicit Queue(std::size_t limit) : max_threads(limit) {}

  // One thread's life.
  void work() HFLUSH_EXCLUDES(mutex);

  const std::size_t max_threads;

  // Never held across a lookup.
  Mutex mutex;
  CondVar wake;
  std::deque<Task> tasks HFLUSH_GUARDED_BY(mutex);
  std::size_t threads HFLUSH_GUARDED_BY(mutex) = 0;
  std::size_t idle HFLUSH_GUARDED_BY(mutex) = 0;  // of them, including those that just start
  bool stopping HFLUSH_GUARDED_BY(mutex) = false;
};

Resolver::Resolver(std::size_t max_threads) : queue_(std::make_shared<Queue>(max_threads)) {}

Resolver::~Resolver() { stop(); }

bool Resolver::run(Task task) {
  const MutexLock lock(queue_->mutex);
  if (queue_->stopping) return false;
  const bool wants_thread = queue_->idle <= queue_->tasks.size();
  if (wants_thread && queue_->threads < queue_->max_threads) {
    try {
      const BlockedSignals blocked;
      std::thread thread([queue = queue_] { queue->work(); });
      pthread_setname_np(thread.native_handle(), "hflush-dns");
      thread.detach();
      ++queue_->threads;
      ++queue_->idle;
    } catch (const std::system_error&) {
      if (queue_->threads == 0) return false;
    }
  }
  queue_->tasks.push_back(std::move(task));
  queue_->wake.notify_one();
  return true;
}

void Resolver::Queue::work() {
  MutexLock lock(mutex);
  while (true) {
    while (tasks.empty() && !stopping) wake.wait(mutex);
    if (stopping) return;
    --idle;
    Task task = std::move(tasks.front());
    tasks.pop_front();
    {
      const MutexUnlock unlock(mutex);
      task();
      task = nullptr;
    }
    ++idle;
  }
}

void Resolver::stop() {
  std::deque<Task> dropped;  // destroyed without the lock
  const MutexLock lock(queue_->mutex);
  queue_->stopping = true;
  dropped.swap(queue_->tasks);
  queue_->wake.notify_all();
}

}  // namespace hflush::env
