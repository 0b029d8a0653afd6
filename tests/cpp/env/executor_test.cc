// The worker pool: what is taken is done, on few threads, also when it stops.
#include "hflush/env/executor.h"

#include <doctest/doctest.h>

#include <atomic>
#include <set>

namespace hflush::env {
namespace {

TEST_CASE("what is taken runs once, on at most as many threads as allowed") {
  std::atomic<int> taken = 0;
  std::atomic<int> done = 0;
  Mutex mutex;
  std::set<std::thread::id> threads;
  WorkerPool pool(3);
  while (taken < 300) {
    const bool took = pool.run([&] {
      ++done;
      MutexLock lock(mutex);
      threads.insert(std::this_thread::get_id());
    });
    if (took) ++taken;
  }
  pool.stop();
  CHECK(done == taken);
  CHECK_FALSE(pool.run([&] { ++done; }));
  pool.stop();
  CHECK(done == taken);
  MutexLock lock(mutex);
  CHECK(threads.size() <= 3);
  CHECK(threads.count(std::this_thread::get_id()) == 0);
}

TEST_CASE("CONC-13: nothing waits behind a task that is stuck") {
  Mutex mutex;
  CondVar changed;
  bool released = false;
  WorkerPool pool(2);
  for (int i = 0; i < 2; ++i) {
    REQUIRE(pool.run([&] {
      MutexLock lock(mutex);
      while (!released) changed.wait(mutex);
    }));
  }
  CHECK_FALSE(pool.run([] {}));
  {
    MutexLock lock(mutex);
    released = true;
    changed.notify_all();
  }
  pool.stop();
}

}  // namespace
}  // namespace hflush::env
