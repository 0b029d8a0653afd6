// SpinLock: a lock that costs one atomic exchange, for work that takes nanoseconds.
//
// Not fair: use it where few threads wait at a time. Thread-safe. A thread that holds it must not
// wait for anything.
#pragma once

#include <atomic>
#include <chrono>
#include <thread>

#include "hflush/base/thread_annotations.h"

namespace hflush {

class HFLUSH_CAPABILITY("mutex") SpinLock {
 public:
  SpinLock() = default;
  SpinLock(const SpinLock&) = delete;
  SpinLock& operator=(const SpinLock&) = delete;

  bool try_lock() noexcept HFLUSH_TRY_ACQUIRE(true) { return take(); }
  void lock() noexcept HFLUSH_ACQUIRE() {
    for (int tries = 0; !take(); ++tries) pause(tries);
  }
  void unlock() noexcept HFLUSH_RELEASE() { is_held_.store(false, std::memory_order_release); }

 private:
  bool take() noexcept { return !is_held_.exchange(true, std::memory_order_acquire); }

  // The holder may have lost its processor: a thread of higher priority must leave it one.
  static void pause(int tries) noexcept {
    constexpr int kYields = 64;
    if (tries < kYields) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
  }

  std::atomic<bool> is_held_{false};
};

class HFLUSH_SCOPED_CAPABILITY SpinLockHolder {
 public:
  explicit SpinLockHolder(SpinLock& lock) noexcept HFLUSH_ACQUIRE(lock) : lock_(lock) {
    lock_.lock();
  }
  ~SpinLockHolder() HFLUSH_RELEASE() { lock_.unlock(); }
  SpinLockHolder(const SpinLockHolder&) = delete;
  SpinLockHolder& operator=(const SpinLockHolder&) = delete;

 private:
  SpinLock& lock_;
};

}  // namespace hflush
