// Guests of the event loop: who waits does the loop's work meanwhile, and nobody's is left undone.
#include "hflush/env/loop_cond_var.h"

#include <doctest/doctest.h>
#include <sys/socket.h>

#include <atomic>
#include <csignal>
#include <memory>
#include <thread>
#include <vector>

#include "env/loopback.h"
#include "hflush/env/blocked_signals.h"
#include "hflush/env/epoll_loop.h"

namespace hflush::env {
namespace {

using namespace std::chrono_literals;  // NOLINT(google-build-using-namespace)
using testing::kPatience;

// Something to wait for.
class Answer {
 public:
  void give() {
    const MutexLock lock(mutex_);  // to the end: who hears of it may let this go
    given_ = true;
    by_ = std::this_thread::get_id();
    changed_.notify_all();
  }
  // Who gave it; nobody within patience.
  std::thread::id wait(EventLoop* loop) {
    const TimePoint deadline = CondVar::Clock::now() + kPatience;
    const MutexLock lock(mutex_);
    while (!given_ && CondVar::Clock::now() < deadline) {
      changed_.wait_until(mutex_, deadline, loop);
    }
    return by_;
  }
  bool is_given() {
    const MutexLock lock(mutex_);
    return given_;
  }

 private:
  Mutex mutex_;
  LoopCondVar changed_;
  bool given_ HFLUSH_GUARDED_BY(mutex_) = false;
  std::thread::id by_ HFLUSH_GUARDED_BY(mutex_);
};

// Which thread runs what a guest posts.
std::thread::id ask(EventLoop& loop) {
  const auto answer = std::make_shared<Answer>();
  const EventLoop::Guest guest(&loop);
  loop.post([answer] { answer->give(); });
  return answer->wait(&loop);
}

// Until the loop's own thread rests: then this thread has run what it asked for.
void come_often(EventLoop& loop) {
  const TimePoint deadline = CondVar::Clock::now() + kPatience;
  while (ask(loop) != std::this_thread::get_id()) REQUIRE(CondVar::Clock::now() < deadline);
}

// Sends back what it gets.
class Echo final : public EventLoop::Handler {
 public:
  Echo(int descriptor, bool is_patient) : descriptor_(descriptor), is_patient_(is_patient) {}
  void on_ready(bool readable, bool /*writable*/) override {
    char bytes[64];
    const ssize_t got = readable ? ::recv(descriptor_, bytes, sizeof bytes, MSG_DONTWAIT) : 0;
    if (got > 0) CHECK(::send(descriptor_, bytes, static_cast<std::size_t>(got), 0) == got);
  }
  bool is_patient() const noexcept override { return is_patient_; }

 private:
  const int descriptor_;
  const bool is_patient_;
};

struct Pair {
  Pair() { REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0); }
  ~Pair() {
    for (const int end : ends) ::close(end);
  }
  Pair(const Pair&) = delete;
  Pair& operator=(const Pair&) = delete;

  int ends[2];
};

TEST_CASE("guests that come one after the other do the loop's work themselves") {
  EpollLoop loop(steady_clock());
  come_often(loop);
  CHECK_FALSE(loop.on_loop_thread());
  Answer answer;
  const EventLoop::Guest guest(&loop);
  std::atomic<bool> on_loop_thread{false};
  loop.post([&] {
    on_loop_thread = loop.on_loop_thread();
    loop.run_after(2ms, [&] { answer.give(); });
  });
  CHECK(answer.wait(&loop) != std::thread::id());
  CHECK(on_loop_thread);
}

TEST_CASE("what is asked for in a guest's turn is no errand of the guest") {
  EpollLoop loop(steady_clock());
  const TimePoint deadline = CondVar::Clock::now() + kPatience;
  for (bool was_by_guest = false; !was_by_guest;) {
    REQUIRE(CondVar::Clock::now() < deadline);
    come_often(loop);
    Answer answer;
    std::atomic<bool> takes_errands{true};
    const EventLoop::Guest guest(&loop);
    CHECK(loop.takes_errands());
    std::thread other([&] {
      loop.post([&] {
        takes_errands = loop.takes_errands();
        answer.give();
      });
    });
    was_by_guest = answer.wait(&loop) == std::this_thread::get_id();
    other.join();
    CHECK_FALSE(takes_errands);
  }
}

TEST_CASE("whoever is no guest is served while the thread rests") {
  EpollLoop loop(steady_clock());
  for (const bool has_task : {true, false}) {
    CAPTURE(has_task);
    come_often(loop);
    Answer answer;
    if (has_task) {
      loop.post([&] { answer.give(); });
    } else {
      loop.run_after(3ms, [&] { answer.give(); });
    }
    CHECK(answer.wait(nullptr) != std::this_thread::get_id());
    CHECK(answer.is_given());
  }
}

TEST_CASE("a socket is served while the thread rests, patient or not") {
  for (const bool is_patient : {false, true}) {
    CAPTURE(is_patient);
    EpollLoop loop(steady_clock());
    const Pair pair;
    REQUIRE(loop.watch(pair.ends[0], EventLoop::Interest::kRead,
                       std::make_shared<Echo>(pair.ends[0], is_patient))
                .ok());
    for (int i = 0; i < 50; ++i) {
      for (int often = 0; often < 3; ++often) REQUIRE(ask(loop) != std::thread::id());
      REQUIRE(::send(pair.ends[1], "x", 1, 0) == 1);
      REQUIRE(testing::wait_readable(pair.ends[1]));
      char byte = 0;
      REQUIRE(::recv(pair.ends[1], &byte, 1, 0) == 1);
    }
    loop.unwatch(pair.ends[0]);
  }
}

TEST_CASE("what a guest posts is done though it never waits") {
  EpollLoop loop(steady_clock());
  come_often(loop);
  Answer answer;
  {
    const EventLoop::Guest guest(&loop);
    loop.post([&] { answer.give(); });
  }
  CHECK(answer.wait(nullptr) != std::this_thread::get_id());
  CHECK(answer.is_given());
}

TEST_CASE("a guest that stays away from its wait keeps nobody waiting") {
  EpollLoop loop(steady_clock());
  come_often(loop);
  Answer answer;
  const EventLoop::Guest guest(&loop);
  loop.post([&] { answer.give(); });
  CHECK(answer.wait(nullptr) != std::this_thread::get_id());  // not the loop's
  CHECK(answer.is_given());
}

TEST_CASE("a guest at the loop hears at once what another thread tells it") {
  EpollLoop loop(steady_clock());
  come_often(loop);
  Answer answer;
  std::thread other([&] {
    const TimePoint deadline = CondVar::Clock::now() + kPatience;
    Answer posted;
    loop.post([&] { posted.give(); });  // has the guest's turn, or the thread's, begun?
    CHECK(posted.wait(nullptr) != std::thread::id());
    CHECK(CondVar::Clock::now() < deadline);
    answer.give();
  });
  const TimePoint start = CondVar::Clock::now();
  CHECK(answer.wait(&loop) == other.get_id());
  CHECK(CondVar::Clock::now() - start < kPatience / 2);
  other.join();
}

TEST_CASE("guests of many threads and others are all served") {
  EpollLoop loop(steady_clock());
  constexpr int kThreads = 8;
  std::atomic<int> served{0};
  std::vector<std::thread> threads;
  for (int thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&, thread] {
      const Pair pair;
      const bool watches = thread % 2 == 0;
      if (watches) {
        CHECK(loop.watch(pair.ends[0], EventLoop::Interest::kRead,
                         std::make_shared<Echo>(pair.ends[0], thread % 4 == 0))
                  .ok());
      }
      for (int i = 0; i < 1000; ++i) {
        if (thread == 7) {
          const auto answer = std::make_shared<Answer>();
          loop.post([answer] { answer->give(); });
          if (answer->wait(nullptr) != std::thread::id()) ++served;
        } else if (ask(loop) != std::thread::id()) {
          ++served;
        }
        if (watches && i % 16 == 0) {
          char byte = 'x';
          CHECK(::send(pair.ends[1], &byte, 1, 0) == 1);
          CHECK(testing::wait_readable(pair.ends[1]));
          CHECK(::recv(pair.ends[1], &byte, 1, 0) == 1);
        }
      }
      if (watches) loop.unwatch(pair.ends[0]);
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(served == kThreads * 1000);
}

TEST_CASE("guests that wait for each other hear of each other") {
  EpollLoop loop(steady_clock());
  come_often(loop);
  constexpr int kThreads = 3;
  constexpr int kRounds = 2000;
  Mutex mutex;
  LoopCondVar changed;
  int token = 0;  // guarded by `mutex`
  std::atomic<int> missed{0};
  std::vector<std::thread> threads;
  for (int thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&, thread] {
      for (int round = 0; round < kRounds && missed == 0; ++round) {
        const TimePoint deadline = CondVar::Clock::now() + kPatience;
        const MutexLock lock(mutex);
        while (token % kThreads != thread && missed == 0) {
          if (CondVar::Clock::now() >= deadline) ++missed;
          changed.wait_until(mutex, deadline, &loop);
        }
        ++token;
        changed.notify_all();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(missed == 0);
  CHECK(token == kThreads * kRounds);
}

TEST_CASE("the end of the loop ends a guest's turn") {
  EpollLoop loop(steady_clock());
  come_often(loop);
  Answer answer;
  std::thread stopper([&] {
    loop.stop();
    answer.give();
  });
  CHECK(answer.wait(&loop) == stopper.get_id());
  stopper.join();
}

TEST_CASE("in a guest's turn nobody dies of a broken pipe, nor afterwards") {
  struct sigaction before{};
  struct sigaction deadly{};
  deadly.sa_handler = SIG_DFL;
  REQUIRE(::sigaction(SIGPIPE, &deadly, &before) == 0);
  {
    EpollLoop loop(steady_clock());
    come_often(loop);
    const EventLoop::Guest guest(&loop);
    Answer answer;
    loop.post([&] {
      int ends[2];
      CHECK(::pipe(ends) == 0);
      ::close(ends[0]);
      CHECK(::write(ends[1], "x", 1) == -1);
      ::close(ends[1]);
      answer.give();
    });
    CHECK(answer.wait(&loop) != std::thread::id());
  }
  sigset_t pending;
  CHECK(::sigpending(&pending) == 0);
  CHECK(sigismember(&pending, SIGPIPE) == 0);
  REQUIRE(::sigaction(SIGPIPE, &before, nullptr) == 0);
}

}  // namespace
}  // namespace hflush::env
