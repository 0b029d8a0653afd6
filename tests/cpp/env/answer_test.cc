// Waiting with an interrupt: a value reaches exactly one taker, whoever comes first.
#include "hflush/env/answer.h"

#include <doctest/doctest.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "env/loopback.h"
#include "hflush/env/epoll_loop.h"

namespace hflush::env {
namespace {

using namespace std::chrono_literals;  // NOLINT(google-build-using-namespace)
using testing::kPatience;

// Fails at the check with this number.
class FailsAt final : public Interrupt {
 public:
  explicit FailsAt(int check) : failing_(check) {}
  int checks() const { return checks_; }

 private:
  Status check() override {
    return ++checks_ < failing_ ? Status() : Status(StatusCode::kInterrupted, "enough");
  }

  const int failing_;
  int checks_ = 0;
};

TimePoint patience() { return CondVar::Clock::now() + kPatience; }

TEST_CASE("answer: a value that is set already is taken, deadline and interrupt notwithstanding") {
  Answer<std::string> answer;
  answer.set("value");
  FailsAt interrupt(1);
  const TimePoint due = interrupt.next_check();
  std::this_thread::sleep_until(due);
  CHECK(answer.wait(interrupt, nullptr, due).ok());
  CHECK(answer.take() == "value");
  CHECK(interrupt.checks() == 0);
}

TEST_CASE("answer: a value that another thread sets ends the wait") {
  const auto answer = std::make_shared<Answer<std::unique_ptr<int>>>();
  Uninterrupted interrupt;
  std::thread other([answer] { answer->set(std::make_unique<int>(7)); });
  CHECK(answer->wait(interrupt, nullptr, patience()).ok());
  CHECK(*answer->take() == 7);
  other.join();
}

TEST_CASE("answer: a guest of the loop that brings the value runs it meanwhile") {
  EpollLoop loop(steady_clock());
  Uninterrupted interrupt;
  for (int i = 0; i < 200; ++i) {
    const EventLoop::Guest guest(&loop);
    const auto answer = std::make_shared<Answer<int>>();
    loop.post([answer, i] { answer->set(i); });
    REQUIRE(answer->wait(interrupt, &loop, patience()).ok());
    REQUIRE(answer->take() == i);
  }
}

TEST_CASE("answer: the wait ends with its deadline, or with the interrupt's failure") {
  Answer<int> answer;
  Uninterrupted uninterrupted;
  CHECK(answer.wait(uninterrupted, nullptr, CondVar::Clock::now()).code() == StatusCode::kTimedOut);
  CHECK(answer.wait(uninterrupted, nullptr, CondVar::Clock::now() + 1ms).code() ==
        StatusCode::kTimedOut);
  FailsAt interrupt(2);
  const Status interrupted = answer.wait(interrupt, nullptr);
  CHECK(interrupted.code() == StatusCode::kInterrupted);
  CHECK(interrupted.message() == "enough");
  CHECK(interrupt.checks() == 2);
}

TEST_CASE("answer: after an interrupted wait the value goes to the taker, early or late") {
  const auto answer = std::make_shared<Answer<std::string>>();
  FailsAt interrupt(1);
  REQUIRE_FALSE(answer->wait(interrupt, nullptr).ok());
  std::vector<std::string> taken;
  const auto take = [&taken](std::string value) { taken.push_back(std::move(value)); };
  SUBCASE("set before") {
    answer->set("value");
    CHECK(taken.empty());
    answer->leave_to(take);
  }
  SUBCASE("set after") {
    answer->leave_to(take);
    CHECK(taken.empty());
    answer->set("value");
  }
  CHECK(taken == std::vector<std::string>{"value"});
}

TEST_CASE("answer: a taker that is never needed is destroyed with the answer") {
  const auto watched = std::make_shared<int>(0);
  {
    Answer<int> answer;
    answer.leave_to([watched](int) { FAIL("there is no value"); });
    CHECK(watched.use_count() == 2);
  }
  CHECK(watched.use_count() == 1);
}

TEST_CASE("answer: threads that set, wait and give up at once: each value is taken once") {
  constexpr int kPairs = 8;
  constexpr int kRounds = 300;
  std::atomic<int> waited = 0;
  std::atomic<int> left = 0;
  std::vector<std::thread> threads;
  for (int pair = 0; pair < kPairs; ++pair) {
    threads.emplace_back([&waited, &left] {
      for (int round = 0; round < kRounds; ++round) {
        auto answer = std::make_shared<Answer<std::string>>();
        std::thread setter([answer] { answer->set("value"); });
        Uninterrupted interrupt;
        // Every other one gives up at once.
        const TimePoint deadline = round % 2 == 0 ? patience() : CondVar::Clock::now();
        if (answer->wait(interrupt, nullptr, deadline).ok()) {
          if (answer->take() == "value") ++waited;
        } else {
          answer->leave_to([&left](const std::string& value) {
            if (value == "value") ++left;
          });
        }
        answer.reset();
        setter.join();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(waited + left == kPairs * kRounds);
  CHECK(waited >= kPairs * kRounds / 2);
}

TEST_CASE("wait_until: the interrupt is asked without the mutex, and the predicate comes first") {
  Mutex mutex;
  LoopCondVar changed;
  bool holds = false;
  class Sets final : public Interrupt {
   public:
    Sets(Mutex& mutex, bool& holds) : mutex_(mutex), holds_(holds) {}

   private:
    Status check() override {
      const MutexLock lock(mutex_);  // would wait for itself
      holds_ = true;
      return {};
    }

    Mutex& mutex_;
    bool& holds_;
  };
  Sets interrupt(mutex, holds);
  const MutexLock lock(mutex);
  Status waited;
  while (!holds && waited.ok()) waited = wait_until(mutex, changed, patience(), interrupt);
  CHECK(waited.ok());
  CHECK(holds);
}

TEST_CASE("pause: its time passes, unless the interrupt fails") {
  Uninterrupted uninterrupted;
  const TimePoint start = CondVar::Clock::now();
  CHECK(pause(120ms, uninterrupted).ok());
  CHECK(CondVar::Clock::now() - start >= 120ms);
  CHECK(pause(0ms, uninterrupted).ok());
  FailsAt interrupt(2);
  CHECK(pause(kNoTimeout, interrupt).code() == StatusCode::kInterrupted);
  CHECK(interrupt.checks() == 2);
}

}  // namespace
}  // namespace hflush::env
