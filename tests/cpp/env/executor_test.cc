// The worker pool: what is taken is done, on few threads, also when it stops.
#include "hflush/env/executor.h"

#include <doctest/doctest.h>

#include <atomic>
#include <set>

namespace hflush::env {
namespace {

TEST_CASE("every task runs once, on at most as many threads as allowed") {
  std::atomic<int> done = 0;
  Mutex mutex;
  std::set<std::thread::id> threads;
  {
    WorkerPool pool(3);
    for (int i = 0; i < 500; ++i) {
      CHECK(pool.run([&] {
        ++done;
        MutexLock lock(mutex);
        threads.insert(std::this_thread::get_id());
      }));
    }
    pool.stop();
    CHECK(done == 500);
    CHECK_FALSE(pool.run([&] { ++done; }));
    pool.stop();
  }
  CHECK(done == 500);
  CHECK(threads.size() <= 3);
  CHECK(threads.count(std::this_thread::get_id()) == 0);
}

}  // namespace
}  // namespace hflush::env
