// The memory that streams and readers share: each goes on, nobody is passed by, nothing is lost.
#include "hflush/s3/memory_budget.h"

#include <doctest/doctest.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

namespace hflush::s3 {
namespace {

using Share = MemoryBudget::Share;

TEST_CASE("what is needed is held whatever the others have") {
  MemoryBudget budget(100);
  Share first(budget);
  Share second(budget);
  first.hold(90);
  second.hold(30);
  CHECK(budget.held() == 120);
  CHECK_FALSE(second.try_hold(31, false));
  CHECK(second.try_hold(30, false));
  CHECK(second.try_hold(20, false));
  CHECK(budget.held() == 110);
  first.hold(0);
  CHECK(second.try_hold(100, false));
  CHECK_FALSE(second.try_hold(101, false));
  CHECK(budget.held() == 100);
}

TEST_CASE("what is given back goes to those in line, in order") {
  MemoryBudget budget(100);
  Share holder(budget);
  CHECK(holder.try_hold(100, false));
  std::vector<int> told;
  Share first(budget, [&told] { told.push_back(1); });
  Share second(budget, [&told] { told.push_back(2); });
  CHECK_FALSE(first.try_hold(60, true));
  CHECK_FALSE(second.try_hold(10, true));
  CHECK_FALSE(first.try_hold(50, true));  // it stands where it stood, and wants less
  holder.hold(70);
  CHECK(told.empty());  // the second does not pass by the first
  Share late(budget);
  CHECK_FALSE(late.try_hold(10, false));  // nor does anybody else
  holder.hold(45);
  CHECK(told == std::vector<int>{1});
  CHECK(budget.held() == 95);  // given, not only promised
  CHECK(first.try_hold(50, true));
  holder.hold(40);
  CHECK(told == std::vector<int>{1, 2});
  CHECK(budget.held() == 100);
}

TEST_CASE("a share that ends gives back all, and is in line no more") {
  MemoryBudget budget(100);
  auto holder = std::make_unique<Share>(budget);
  holder->hold(100);
  int told = 0;
  auto gone = std::make_unique<Share>(budget, [&told] { told += 100; });
  Share waiting(budget, [&told] { ++told; });
  CHECK_FALSE(gone->try_hold(80, true));
  CHECK_FALSE(waiting.try_hold(80, true));
  gone.reset();
  CHECK(told == 0);
  holder.reset();
  CHECK(told == 1);
  CHECK(budget.held() == 80);
}

TEST_CASE("more than there is at all is never given, and keeps nobody from what they need") {
  MemoryBudget budget(100);
  Share greedy(budget);
  Share other(budget);
  CHECK_FALSE(greedy.try_hold(101, true));
  CHECK(other.try_hold(100, false));
  CHECK(budget.held() == 100);
  other.hold(0);
  greedy.hold(5);
  CHECK(budget.held() == 5);
}

TEST_CASE("the least that was asked for is the process's") {
  const std::uint64_t before = MemoryBudget::of_process().total();
  CHECK(before >= std::uint64_t{16} << 20U);
  CHECK(before <= std::uint64_t{512} << 20U);
}

TEST_CASE("what is asked for at once is not given twice") {
  constexpr std::uint64_t kTotal = 100;
  MemoryBudget budget(kTotal);
  std::atomic<std::uint64_t> most{0};
  std::vector<std::thread> threads;
  threads.reserve(4);
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&] {
      Share share(budget);
      for (int round = 0; round < 50'000; ++round) {
        if (!share.try_hold(60, false)) continue;
        const std::uint64_t held = budget.held();
        std::uint64_t before = most.load();
        while (held > before && !most.compare_exchange_weak(before, held)) {
        }
        share.hold(0);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(most.load() == 60);
  CHECK(budget.held() == 0);
}

TEST_CASE("many threads hold, wait and go") {
  constexpr std::uint64_t kTotal = 1000;
  constexpr std::uint64_t kNeeded = 10;
  MemoryBudget budget(kTotal);
  std::vector<std::thread> threads;
  threads.reserve(8);
  std::atomic<std::uint64_t> given{0};
  for (int thread = 0; thread < 8; ++thread) {
    threads.emplace_back([&] {
      for (int round = 0; round < 300; ++round) {
        const auto has_room = std::make_shared<std::atomic<bool>>(false);
        {
          Share share(budget, [has_room, &given] {
            *has_room = true;
            ++given;
          });
          share.hold(kNeeded);
          if (!share.try_hold(400, round % 2 == 0) && round % 2 == 0) {
            while (round % 4 == 0 && !*has_room) std::this_thread::yield();
          }
          CHECK(budget.held() <= kTotal + 8 * kNeeded);
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(budget.held() == 0);
}

}  // namespace
}  // namespace hflush::s3
