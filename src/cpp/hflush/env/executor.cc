#include "hflush/env/executor.h"

#include <pthread.h>

#include <system_error>
#include <utility>

#include "hflush/env/blocked_signals.h"

namespace hflush::env {

bool WorkerPool::run(Task task) {
  MutexLock lock(mutex_);
  if (stopping_ || (idle_ <= tasks_.size() && !start_thread_locked())) return false;
  tasks_.push_back(std::move(task));
  wake_.notify_one();
  return true;
}

bool WorkerPool::start_thread_locked() {
  if (threads_.size() == max_threads_) return false;
  try {
    const BlockedSignals blocked;
    threads_.emplace_back([this] { work(); });
  } catch (const std::system_error&) {
    return false;  // the system refuses a thread
  }
  pthread_setname_np(threads_.back().native_handle(), "hflush-io");
  ++idle_;
  return true;
}

void WorkerPool::work() {
  MutexLock lock(mutex_);
  while (true) {
    while (tasks_.empty() && !stopping_) wake_.wait(mutex_);
    if (tasks_.empty()) return;  // stopping
    --idle_;
    Task task = std::move(tasks_.front());
    tasks_.pop_front();
    {
      const MutexUnlock unlock(mutex_);
      task();
      task = nullptr;
    }
    ++idle_;
  }
}

void WorkerPool::stop() {
  std::vector<std::thread> threads;
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    threads.swap(threads_);
    wake_.notify_all();
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace hflush::env
