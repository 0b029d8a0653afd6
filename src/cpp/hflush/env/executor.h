// Executor: runs tasks on threads of its own. WorkerPool: the one for blocking system calls.
//
// A fixed, small number of threads per process whatever the number of open streams. Thread-safe.
#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <thread>
#include <vector>

#include "hflush/base/mutex.h"

namespace hflush::env {

class Executor {
 public:
  using Task = std::function<void()>;

  virtual ~Executor() = default;
  // Takes `task` to run it on another thread; false if it cannot.
  virtual bool run(Task task) = 0;
};

class WorkerPool final : public Executor {
 public:
  // Threads start when there is work that no idle thread can take, up to `max_threads`.
  explicit WorkerPool(std::size_t max_threads) : max_threads_(max_threads) {}
  ~WorkerPool() override { stop(); }

  // At once, or not at all: if no thread is free the caller does it. So no task ever waits for
  // another one that is stuck.
  bool run(Task task) override;
  // Finishes what was taken, then joins every thread. Idempotent; run() answers false from here on.
  void stop();

 private:
  void work();
  bool start_thread_locked() HFLUSH_REQUIRES(mutex_);

  const std::size_t max_threads_;

  // Never held across a task.
  Mutex mutex_;
  CondVar wake_;
  std::deque<Task> tasks_ HFLUSH_GUARDED_BY(mutex_);
  std::vector<std::thread> threads_ HFLUSH_GUARDED_BY(mutex_);
  std::size_t idle_ HFLUSH_GUARDED_BY(mutex_) = 0;  // including those that just start
  bool stopping_ HFLUSH_GUARDED_BY(mutex_) = false;
};

}  // namespace hflush::env
