// The newest credentials: who waits for newer ones is told once, from any thread.
#include "hflush/s3/call/credentials.h"

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <new>
#include <string>
#include <thread>
#include <vector>

#include "testing/patience.h"

namespace hflush::s3 {
namespace {

using std::chrono::milliseconds;
using testing::kPatience;

Credentials numbered(int number) {
  return {"AK" + std::to_string(number), "SK" + std::to_string(number),
          "T" + std::to_string(number)};
}

class Refuses final : public env::Interrupt {
 public:
  int asked() const noexcept { return asked_; }

 private:
  Status check() override {
    ++asked_;
    return Status(StatusCode::kInterrupted, "interrupted");
  }
  int asked_ = 0;
};

TEST_CASE("the newest are current, under a new generation") {
  CredentialStore store(numbered(0));
  const CredentialStore::Current first = store.current();
  CHECK(first.credentials.access_key == "AK0");
  store.set(numbered(1));
  const CredentialStore::Current second = store.current();
  CHECK(second.credentials.access_key == "AK1");
  CHECK(second.credentials.secret_key == "SK1");
  CHECK(second.credentials.session_token == "T1");
  CHECK(second.generation > first.generation);
  CHECK_FALSE(second.credentials.anonymous());
  CHECK(CredentialStore({}).current().credentials.anonymous());
}

TEST_CASE("a callback without memory keeps no other from running, and the credentials are set") {
  CredentialStore store(numbered(0));
  const std::uint64_t generation = store.current().generation;
  std::string told;
  store.want_newer_than(generation, [&] { told += 'a'; });
  store.want_newer_than(generation, [] { throw std::bad_alloc(); });
  store.want_newer_than(generation, [&] { told += 'c'; });
  CHECK_THROWS_AS(store.set(numbered(1)), std::bad_alloc);
  CHECK(told == "ac");
  CHECK(store.current().credentials.access_key == "AK1");
  store.set(numbered(2));
  CHECK(told == "ac");
}

TEST_CASE("who waits is told once, in order; who comes late at once") {
  CredentialStore store(numbered(0));
  const std::uint64_t generation = store.current().generation;
  std::string told;
  CHECK(store.want_newer_than(generation, [&] { told += 'a'; }) != 0);
  const auto stopped = store.want_newer_than(generation, [&] { told += 'b'; });
  CHECK(store.want_newer_than(generation, [&] { told += 'c'; }) != stopped);
  store.stop_waiting(stopped);
  store.stop_waiting(stopped);
  store.stop_waiting(0);
  CHECK(told.empty());
  store.set(numbered(1));
  CHECK(told == "ac");
  store.set(numbered(2));
  CHECK(told == "ac");
  CHECK(store.want_newer_than(generation, [&] { told += 'd'; }) == 0);
  CHECK(told == "acd");
  // The same credentials again are newer, too: only the store knows whether they do.
  CHECK(store.want_newer_than(store.current().generation, [&] { told += 'e'; }) != 0);
  store.set(numbered(2));
  CHECK(told == "acde");
}

TEST_CASE("who is told may use the store") {
  CredentialStore store(numbered(0));
  const std::uint64_t generation = store.current().generation;
  int told = 0;
  CredentialStore::WantId other = 0;
  store.want_newer_than(generation, [&] {
    ++told;
    CHECK(store.current().credentials.access_key == "AK1");
    store.stop_waiting(other);
    CHECK(store.want_newer_than(store.current().generation, [&] { told += 10; }) != 0);
  });
  other = store.want_newer_than(generation, [&] { told += 1000; });
  store.set(numbered(1));
  CHECK(told == 1);
  store.set(numbered(2));
  CHECK(told == 11);
}

TEST_CASE("wanted: from the first who wants newer ones until there are, or nobody waits") {
  CredentialStore store(numbered(0));
  env::Uninterrupted uninterrupted;
  CHECK_FALSE(store.wait_until_wanted(env::Duration::zero(), uninterrupted));
  CHECK_FALSE(store.wait_until_wanted(milliseconds(5), uninterrupted));
  const auto waiter = store.want_newer_than(store.current().generation, [] {});
  const auto other = store.want_newer_than(store.current().generation, [] {});
  store.stop_waiting(waiter);
  CHECK(store.wait_until_wanted(env::Duration::zero(), uninterrupted));
  store.stop_waiting(other);
  CHECK_FALSE(store.wait_until_wanted(env::Duration::zero(), uninterrupted));
  store.want_newer_than(store.current().generation, [] {});
  CHECK(store.wait_until_wanted(env::kNoTimeout, uninterrupted));
  store.set(numbered(1));
  CHECK_FALSE(store.wait_until_wanted(env::Duration::zero(), uninterrupted));
  CHECK(store.want_newer_than(store.current().generation - 1, [] {}) == 0);
  CHECK_FALSE(store.wait_until_wanted(env::Duration::zero(), uninterrupted));
}

TEST_CASE("an interruption ends the wait") {
  CredentialStore store(numbered(0));
  Refuses refuses;
  CHECK_FALSE(store.wait_until_wanted(env::kNoTimeout, refuses));
  CHECK(refuses.asked() == 1);
}

TEST_CASE("a wait on another thread ends when newer ones are wanted") {
  CredentialStore store(numbered(0));
  std::atomic<bool> wanted = false;
  std::thread provider([&] {
    env::Uninterrupted uninterrupted;
    wanted = store.wait_until_wanted(kPatience, uninterrupted);
    store.set(numbered(1));
  });
  Mutex mutex;
  CondVar changed;
  bool told = false;
  store.want_newer_than(store.current().generation, [&] {
    MutexLock lock(mutex);
    told = true;
    changed.notify_all();
  });
  {
    const auto deadline = CondVar::Clock::now() + kPatience;
    MutexLock lock(mutex);
    while (!told && CondVar::Clock::now() < deadline) changed.wait_until(mutex, deadline);
    CHECK(told);
  }
  provider.join();
  CHECK(wanted);
  CHECK(store.current().credentials.access_key == "AK1");
}

TEST_CASE("many threads: nobody is forgotten, nobody told twice, no triple is mixed") {
  constexpr int kThreads = 4;
  constexpr int kRounds = 300;
  CredentialStore store(numbered(0));
  std::atomic<int> running = kThreads;
  std::atomic<int> mixed = 0;
  std::atomic<int> told = 0;
  std::atomic<int> stopped = 0;
  std::thread provider([&] {
    env::Uninterrupted uninterrupted;
    for (int number = 1; running > 0; ++number) {
      if (store.wait_until_wanted(milliseconds(10), uninterrupted)) store.set(numbered(number));
    }
  });
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] {
      Mutex mutex;
      CondVar changed;
      for (int round = 0; round < kRounds; ++round) {
        const CredentialStore::Current current = store.current();
        const Credentials& has = current.credentials;
        if (has.access_key.substr(2) != has.secret_key.substr(2)) ++mixed;
        if (has.access_key.substr(2) != has.session_token.substr(1)) ++mixed;
        if ((round + i) % 5 == 0) {
          // Told or stopped, as it comes; what it would use is still there either way.
          const auto count = std::make_shared<std::atomic<int>>(0);
          const auto waiter = store.want_newer_than(current.generation, [count] { ++*count; });
          store.stop_waiting(waiter);
          if (*count > 1) ++mixed;
          ++stopped;
          continue;
        }
        int times = 0;
        store.want_newer_than(current.generation, [&] {
          MutexLock lock(mutex);
          ++times;
          changed.notify_all();
        });
        const auto deadline = CondVar::Clock::now() + kPatience;
        MutexLock lock(mutex);
        while (times == 0 && CondVar::Clock::now() < deadline) changed.wait_until(mutex, deadline);
        if (times == 1) ++told;
      }
      --running;
    });
  }
  for (std::thread& thread : threads) thread.join();
  provider.join();
  CHECK(mixed == 0);
  CHECK(told + stopped == kThreads * kRounds);
  CHECK(stopped == kThreads * kRounds / 5);
}

}  // namespace
}  // namespace hflush::s3
