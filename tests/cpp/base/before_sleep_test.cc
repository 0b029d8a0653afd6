#include "hflush/base/before_sleep.h"

#include <doctest/doctest.h>

#include <atomic>
#include <thread>

#include "hflush/base/mutex.h"

namespace hflush {
namespace {

class Count final : public BeforeSleep {
 public:
  int times() const { return times_; }

 private:
  void before_sleep() noexcept override { ++times_; }

  int times_ = 0;
};

TEST_CASE("a lock that is free is no sleep, and a wait is one, once") {
  Mutex mutex;
  CondVar never;
  const Count count;
  {
    const MutexLock lock(mutex);
    CHECK(count.times() == 0);
    never.wait_until(mutex, CondVar::Clock::now());
    CHECK(count.times() == 1);
    never.wait_until(mutex, CondVar::Clock::now());
  }
  CHECK(count.times() == 1);
}

TEST_CASE("before a thread waits for a lock that another one holds it is done") {
  // What the holder needs, as another thread needs the GIL: without it the lock is never free.
  class GivesUp final : public BeforeSleep {
   public:
    bool is_given_up() const { return is_given_up_; }

   private:
    void before_sleep() noexcept override { is_given_up_ = true; }

    std::atomic<bool> is_given_up_ = false;
  };
  Mutex mutex;
  GivesUp kept;
  std::atomic<bool> is_held = false;
  std::thread holder([&] {
    const MutexLock lock(mutex);
    is_held = true;
    while (!kept.is_given_up()) std::this_thread::yield();
  });
  while (!is_held) std::this_thread::yield();
  {
    const MutexLock lock(mutex);
  }
  CHECK(kept.is_given_up());
  holder.join();
}

TEST_CASE("it is of its own thread, and of its own life") {
  {
    const Count count;
    std::thread(&BeforeSleep::run).join();
    CHECK(count.times() == 0);
  }
  BeforeSleep::run();
}

}  // namespace
}  // namespace hflush
