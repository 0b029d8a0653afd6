// Mutex, MutexLock and CondVar: the standard ones, visible to clang's thread-safety analysis.
//
// Every lock of the core is a Mutex; `std::mutex` would be invisible to the check. Thread-safe.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>

#include "hflush/base/before_sleep.h"
#include "hflush/base/thread_annotations.h"

namespace hflush {

class CondVar;

class HFLUSH_CAPABILITY("mutex") Mutex {
 public:
  Mutex() = default;
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;

  void lock() HFLUSH_ACQUIRE() {
    if (mutex_.try_lock()) return;
    BeforeSleep::run();
    mutex_.lock();
  }
  void unlock() HFLUSH_RELEASE() { mutex_.unlock(); }
  bool try_lock() HFLUSH_TRY_ACQUIRE(true) { return mutex_.try_lock(); }

 private:
  friend class CondVar;
  std::mutex mutex_;
};

class HFLUSH_SCOPED_CAPABILITY MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) HFLUSH_ACQUIRE(mutex) : mutex_(mutex) { mutex_.lock(); }
  ~MutexLock() HFLUSH_RELEASE() { mutex_.unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex& mutex_;
};

// The reverse of MutexLock: releases a held mutex for the length of a scope, and takes it again.
class HFLUSH_SCOPED_CAPABILITY MutexUnlock {
 public:
  explicit MutexUnlock(Mutex& mutex) HFLUSH_RELEASE(mutex) : mutex_(mutex) { mutex_.unlock(); }
  // For the analysis a scope's end undoes what its start did, which is spelled "release" here too.
  ~MutexUnlock() HFLUSH_RELEASE() { mutex_.lock(); }
  MutexUnlock(const MutexUnlock&) = delete;
  MutexUnlock& operator=(const MutexUnlock&) = delete;

 private:
  Mutex& mutex_;
};

class CondVar {
 public:
  using Clock = std::chrono::steady_clock;

  CondVar() = default;
  CondVar(const CondVar&) = delete;
  CondVar& operator=(const CondVar&) = delete;

  // May wake spuriously: callers re-check their predicate.
  void wait_until(Mutex& mutex, Clock::time_point deadline) HFLUSH_REQUIRES(mutex) {
    BeforeSleep::run();
    std::unique_lock<std::mutex> held(mutex.mutex_, std::adopt_lock);
    condition_.wait_until(held, deadline);
    held.release();
  }
  void wait(Mutex& mutex) HFLUSH_REQUIRES(mutex) {
    BeforeSleep::run();
    std::unique_lock<std::mutex> held(mutex.mutex_, std::adopt_lock);
    condition_.wait(held);
    held.release();
  }
  void notify_one() noexcept { condition_.notify_one(); }
  void notify_all() noexcept { condition_.notify_all(); }

 private:
  std::condition_variable condition_;
};

}  // namespace hflush
