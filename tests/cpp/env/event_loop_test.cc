// The event loop: order, timers and their cancellation, descriptors, its thread's life.
#include <doctest/doctest.h>
#include <sys/eventfd.h>
#include <sys/wait.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "env/loopback.h"
#include "hflush/env/epoll_loop.h"
#include "hflush/env/process.h"
#include "hflush/env/timer.h"

namespace hflush::env {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::drain;
using testing::kPatience;
using testing::Peer;
using testing::Shared;
using Interest = EventLoop::Interest;

#if defined(__SANITIZE_THREAD__)
constexpr bool kThreadSanitizer = true;  // starts no threads in the child of a process with threads
#else
constexpr bool kThreadSanitizer = false;
#endif

class ManualClock final : public Clock {
 public:
  TimePoint now() const noexcept override { return now_.load(); }
  void advance(Duration by) { now_.store(now_.load() + by); }

 private:
  std::atomic<TimePoint> now_{TimePoint(std::chrono::hours(1))};
};

class RecordingHandler final : public EventLoop::Handler {
 public:
  explicit RecordingHandler(std::function<void(bool, bool)> then = {}) : then_(std::move(then)) {}
  void on_ready(bool readable, bool writable) override {
    if (then_) then_(readable, writable);
    calls.update([&](auto& list) { list.emplace_back(readable, writable); });
  }
  bool is_patient() const noexcept override { return false; }
  bool wait_for_calls(std::size_t count) {
    return calls.wait_until([&](const auto& list) { return list.size() >= count; });
  }

  Shared<std::vector<std::pair<bool, bool>>> calls;

 private:
  std::function<void(bool, bool)> then_;
};

struct SocketPair {
  SocketPair() { REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0); }
  ~SocketPair() {
    for (const int end : ends) {
      if (end >= 0) ::close(end);
    }
  }
  SocketPair(const SocketPair&) = delete;
  SocketPair& operator=(const SocketPair&) = delete;

  int ends[2];
};

// Their ids. One that has ended may still be listed when it has been joined.
std::set<std::string> threads_named(const std::string& name) {
  std::set<std::string> ids;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::string comm;
    std::getline(std::ifstream(task.path() / "comm"), comm);
    if (comm == name) ids.insert(task.path().filename());
  }
  return ids;
}

std::set<std::string> new_threads_named(const std::string& name,
                                        const std::set<std::string>& before) {
  std::set<std::string> added;
  std::ranges::set_difference(threads_named(name), before, std::inserter(added, added.end()));
  return added;
}

bool wait_until_ended(const std::string& thread) {
  const auto deadline = CondVar::Clock::now() + kPatience;
  while (std::filesystem::exists("/proc/self/task/" + thread)) {
    if (CondVar::Clock::now() >= deadline) return false;
    std::this_thread::yield();
  }
  return true;
}

// How often event loops of this process were woken by hand: nobody reads their eventfds.
std::uint64_t wake_ups() {
  std::uint64_t sum = 0;
  for (const auto& info : std::filesystem::directory_iterator("/proc/self/fdinfo")) {
    std::ifstream lines(info.path());
    for (std::string line; std::getline(lines, line);) {
      const std::string key = "eventfd-count:";
      if (line.starts_with(key)) sum += std::stoull(line.substr(key.size()), nullptr, 16);
    }
  }
  return sum;
}

TEST_CASE("the thread starts with the first thing to do, has a name, and ends with stop()") {
  const std::set<std::string> before = threads_named("hflush-net");
  EpollLoop loop(steady_clock());
  CHECK(new_threads_named("hflush-net", before).empty());
  CHECK_FALSE(loop.on_loop_thread());
  CHECK(loop.start().ok());
  CHECK(loop.start().ok());
  Shared<bool> there;
  loop.post([&] { there.update([&](bool& value) { value = loop.on_loop_thread(); }); });
  CHECK(there.wait_until([](bool value) { return value; }));
  const std::set<std::string> added = new_threads_named("hflush-net", before);
  REQUIRE(added.size() == 1);
  loop.stop();
  CHECK(wait_until_ended(*added.begin()));
}

TEST_CASE("tasks run one at a time, in the order of each poster") {
  EpollLoop loop(steady_clock());
  constexpr int kPosters = 4;
  constexpr int kTasks = 5000;
  std::vector<std::vector<int>> seen(kPosters);  // touched by the loop thread only
  std::vector<std::thread> posters;
  for (std::size_t poster = 0; poster < kPosters; ++poster) {
    posters.emplace_back([&, poster] {
      for (int i = 0; i < kTasks; ++i) loop.post([&, poster, i] { seen[poster].push_back(i); });
    });
  }
  for (std::thread& poster : posters) poster.join();
  drain(loop);
  loop.stop();
  for (const std::vector<int>& order : seen) {
    REQUIRE(order.size() == kTasks);
    CHECK(std::is_sorted(order.begin(), order.end()));
  }
}

TEST_CASE("a task that is posted from the loop thread runs after the one that posts it") {
  EpollLoop loop(steady_clock());
  Shared<std::vector<int>> order;
  loop.post([&] {
    loop.post([&] { order.update([](auto& list) { list.push_back(2); }); });
    order.update([](auto& list) { list.push_back(1); });
  });
  REQUIRE(order.wait_until([](const auto& list) { return list.size() == 2; }));
  CHECK(order.get() == std::vector{1, 2});
}

TEST_CASE("wake-ups are coalesced: none from the loop thread, none while it is awake") {
  EpollLoop loop(steady_clock());
  Shared<int> step;
  loop.post([&] {
    step.update([](int& value) { value = 1; });
    CHECK(step.wait_until([](int value) { return value == 2; }));
    for (int i = 0; i < 100; ++i) loop.post([] {});
  });
  REQUIRE(step.wait_until([](int value) { return value == 1; }));
  const std::uint64_t before = wake_ups();
  for (int i = 0; i < 1000; ++i) loop.post([] {});
  loop.run_after(Duration::zero(), [] {});
  step.update([](int& value) { value = 2; });
  Shared<bool> last;
  loop.post([&] { last.update([](bool& value) { value = true; }); });
  REQUIRE(last.wait_until([](bool value) { return value; }));
  CHECK(wake_ups() - before <= 1);  // of the last post, if the loop slept again by then
}

TEST_CASE("timers run in order of time, then of age, and never early") {
  ManualClock clock;
  EpollLoop loop(clock);
  const TimePoint start = clock.now();
  std::vector<int> order;  // the loop thread's, read after drain()
  const auto note = [&](int number) { return [&, number] { order.push_back(number); }; };
  loop.run_at(start + seconds(3), note(4));
  loop.run_at(start + seconds(2), note(2));
  loop.run_after(seconds(2), note(3));
  loop.run_at(start + seconds(1), note(1));
  loop.run_after(kNoTimeout, note(9));
  drain(loop);
  CHECK(order.empty());
  clock.advance(seconds(1) - Duration(1));
  drain(loop);
  drain(loop);
  CHECK(order.empty());
  clock.advance(Duration(1));
  drain(loop);
  drain(loop);  // timers follow tasks
  CHECK(order == std::vector{1});
  clock.advance(seconds(5));
  drain(loop);
  drain(loop);
  CHECK(order == std::vector{1, 2, 3, 4});
  loop.stop();
}

// Its timer is the loop thread's, or that of the test while the loop is drained.
struct TimerOwner : std::enable_shared_from_this<TimerOwner> {
  explicit TimerOwner(EventLoop& loop) : timer(loop) {}
  void call(Timer::Arming arming) { calls.push_back(timer.fired(arming)); }

  Timer timer;
  std::vector<bool> calls;  // whether each was in time
};

TEST_CASE("a timer of an owner: at one time, the last one or the earliest, and not after it") {
  ManualClock clock;
  EpollLoop loop(clock);
  const TimePoint start = clock.now();
  const auto owner = std::make_shared<TimerOwner>(loop);
  Timer& timer = owner->timer;
  const auto calls_after = [&](Duration time) {
    clock.advance(start + time - clock.now());
    drain(loop);
    drain(loop);  // timers follow tasks
    return owner->calls.size();
  };
  timer.arm_by(start + seconds(2), *owner, &TimerOwner::call);
  timer.arm_by(start + seconds(3), *owner, &TimerOwner::call);  // it stays as it is
  timer.arm_by(TimePoint::max(), *owner, &TimerOwner::call);
  CHECK(calls_after(seconds(1)) == 0);
  CHECK(calls_after(seconds(2)) == 1);
  timer.arm_by(start + seconds(9), *owner, &TimerOwner::call);
  timer.arm_by(start + seconds(4), *owner, &TimerOwner::call);
  CHECK(calls_after(seconds(4)) == 2);
  timer.arm(start + seconds(5), *owner, &TimerOwner::call);
  timer.arm(start + seconds(6), *owner, &TimerOwner::call);
  CHECK(calls_after(seconds(5)) == 2);
  CHECK(calls_after(seconds(6)) == 3);
  timer.arm(start + seconds(7), *owner, &TimerOwner::call);
  timer.cancel();
  CHECK(calls_after(seconds(9)) == 3);
  CHECK(owner->calls == std::vector<bool>(3, true));
}

TEST_CASE("a timer that was on its way when it was armed anew or cancelled has not fired") {
  ManualClock clock;
  EpollLoop loop(clock);
  const auto owner = std::make_shared<TimerOwner>(loop);
  Timer& timer = owner->timer;
  const TimePoint later = clock.now() + seconds(1);
  timer.arm(later, *owner, &TimerOwner::call);  // its first arming
  timer.arm(later, *owner, &TimerOwner::call);
  owner->call(1);
  timer.cancel();
  owner->call(2);
  timer.arm(later, *owner, &TimerOwner::call);
  clock.advance(seconds(1));
  drain(loop);
  drain(loop);  // timers follow tasks
  CHECK(owner->calls == std::vector<bool>{false, false, true});
}

TEST_CASE("a timer calls no owner that is gone, and keeps nothing of it until its time") {
  ManualClock clock;
  EpollLoop loop(clock);
  const auto kept = std::make_shared<int>();
  std::shared_ptr<TimerOwner> owner(new TimerOwner(loop),
                                    [kept](const TimerOwner* gone) { delete gone; });
  owner->timer.arm(clock.now() + seconds(1), *owner, &TimerOwner::call);
  owner.reset();
  CHECK(kept.use_count() == 1);
  clock.advance(seconds(2));
  drain(loop);
  drain(loop);  // AddressSanitizer sees a call
}

TEST_CASE("an earlier timer shortens the sleep, on the real clock") {
  EpollLoop loop(steady_clock());
  Shared<TimePoint> ran;
  loop.run_after(seconds(3600), [] {});
  drain(loop);
  const TimePoint asked = steady_clock().now();
  loop.run_after(milliseconds(5),
                 [&] { ran.update([](TimePoint& when) { when = steady_clock().now(); }); });
  REQUIRE(ran.wait_until([](TimePoint when) { return when != TimePoint(); }));
  CHECK(ran.get() - asked >= milliseconds(5));
}

TEST_CASE("a cancelled timer does not start, not even one that is due already") {
  ManualClock clock;
  EpollLoop loop(clock);
  std::vector<int> order;
  std::vector<EventLoop::TimerId> timers(3);
  timers[0] = loop.run_after(seconds(1), [&] {
    order.push_back(0);
    loop.cancel(timers[1]);  // due at the same time
    loop.cancel(timers[0]);  // running now
  });
  timers[1] = loop.run_after(seconds(1), [&] { order.push_back(1); });
  timers[2] = loop.run_after(seconds(1), [&] { order.push_back(2); });
  const EventLoop::TimerId other = loop.run_after(seconds(1), [&] { order.push_back(3); });
  drain(loop);
  loop.cancel(other);
  loop.cancel(other);
  loop.cancel(0);
  clock.advance(seconds(1));
  drain(loop);
  drain(loop);
  loop.stop();
  CHECK(order == std::vector{0, 2});
}

TEST_CASE("cancel() against the loop: a timer runs at most once, and not after cancel() returned") {
  EpollLoop loop(steady_clock());
  for (int i = 0; i < 2000; ++i) {
    auto state = std::make_shared<std::atomic<int>>(0);  // how often it ran
    const EventLoop::TimerId timer =
        loop.run_after(std::chrono::microseconds(i % 50), [state] { ++*state; });
    if (i % 3 == 0) std::this_thread::yield();
    loop.cancel(timer);
    drain(loop);  // what ran meanwhile has ended
    const int before = state->load();
    CHECK(before <= 1);
    drain(loop);
    CHECK(state->load() == before);
    CHECK(state.use_count() == 1);
  }
}

TEST_CASE("a timer that makes itself anew does not keep others waiting") {
  ManualClock clock;
  EpollLoop loop(clock);
  std::atomic<bool> enough = false;
  std::function<void()> again = [&] {
    if (!enough) loop.run_after(Duration::zero(), again);
  };
  loop.run_after(Duration::zero(), again);
  drain(loop);
  SocketPair pair;
  const auto handler = std::make_shared<RecordingHandler>();
  REQUIRE(loop.watch(pair.ends[0], Interest::kWrite, handler).ok());
  CHECK(handler->wait_for_calls(1));
  enough = true;
  loop.stop();
}

TEST_CASE("a watched descriptor: level-triggered, by interest") {
  EpollLoop loop(steady_clock());
  SocketPair pair;
  const auto handler = std::make_shared<RecordingHandler>();
  REQUIRE(loop.watch(pair.ends[0], Interest::kRead, handler).ok());
  drain(loop);
  CHECK(handler->calls.get().empty());
  REQUIRE(::write(pair.ends[1], "x", 1) == 1);
  CHECK(handler->wait_for_calls(3));  // nobody reads it
  CHECK(handler->calls.get().front() == std::pair(true, false));

  loop.change(pair.ends[0], Interest::kNone);
  drain(loop);
  const std::size_t paused = handler->calls.get().size();
  drain(loop);
  drain(loop);
  CHECK(handler->calls.get().size() == paused);

  loop.change(pair.ends[0], Interest::kReadAndWrite);
  CHECK(handler->wait_for_calls(paused + 1));
  CHECK(handler->calls.get().back() == std::pair(true, true));

  char byte = 0;
  REQUIRE(::read(pair.ends[0], &byte, 1) == 1);
  loop.change(pair.ends[0], Interest::kWrite);
  drain(loop);
  const std::size_t before = handler->calls.get().size();
  CHECK(handler->wait_for_calls(before + 2));
  CHECK(handler->calls.get().back() == std::pair(false, true));

  loop.unwatch(pair.ends[0]);
  loop.unwatch(pair.ends[0]);
  loop.change(pair.ends[0], Interest::kRead);  // no effect
  drain(loop);
  const std::size_t after = handler->calls.get().size();
  REQUIRE(::write(pair.ends[1], "x", 1) == 1);
  drain(loop);
  CHECK(handler->calls.get().size() == after);
}

TEST_CASE("a hang-up counts as readable and writable, and as nothing without interest") {
  EpollLoop loop(steady_clock());
  SocketPair pair;
  const auto handler = std::make_shared<RecordingHandler>();
  REQUIRE(loop.watch(pair.ends[0], Interest::kNone, handler).ok());
  ::close(std::exchange(pair.ends[1], -1));
  drain(loop);
  drain(loop);
  CHECK(handler->calls.get().empty());
  loop.change(pair.ends[0], Interest::kWrite);
  CHECK(handler->wait_for_calls(1));
  CHECK(handler->calls.get().front() == std::pair(true, true));
  loop.unwatch(pair.ends[0]);
}

TEST_CASE("what cannot be watched is refused") {
  EpollLoop loop(steady_clock());
  const auto handler = std::make_shared<RecordingHandler>();
  const Status failure = loop.watch(-1, Interest::kRead, handler);
  CHECK(failure.error_number() == EBADF);
  CHECK(handler.use_count() == 1);
}

TEST_CASE("a handler lives until unwatch(), and is let go of without the loop's lock") {
  EpollLoop loop(steady_clock());
  SocketPair pair;
  Shared<bool> destroyed;
  struct Token {
    EventLoop* loop;
    Shared<bool>* destroyed;
    ~Token() {
      loop->post([] {});  // would deadlock under the lock
      destroyed->update([](bool& value) { value = true; });
    }
  };
  auto token = std::make_shared<Token>(Token{&loop, &destroyed});
  Shared<bool> called;
  auto handler =
      std::make_shared<RecordingHandler>([token = std::move(token), &called](bool, bool) {
        called.update([](bool& value) { value = true; });
      });
  destroyed.update([](bool& value) { value = false; });  // of the temporary above
  REQUIRE(loop.watch(pair.ends[0], Interest::kWrite, std::move(handler)).ok());
  REQUIRE(called.wait_until([](bool value) { return value; }));
  CHECK_FALSE(destroyed.get());
  loop.unwatch(pair.ends[0]);
  CHECK(destroyed.wait_until([](bool value) { return value; }));
}

TEST_CASE(
    "events of one wait: what a handler unwatches is not called, nor its number's next user") {
  EpollLoop loop(steady_clock());
  SocketPair pairs[2];
  const auto newcomer = std::make_shared<RecordingHandler>();
  std::shared_ptr<RecordingHandler> handlers[2];
  int next = -1;
  Shared<int> first;
  for (int i = 0; i < 2; ++i) {
    handlers[i] = std::make_shared<RecordingHandler>([&, i](bool, bool) {
      const int other = pairs[1 - i].ends[0];
      loop.unwatch(pairs[i].ends[0]);
      loop.unwatch(other);
      ::close(std::exchange(pairs[1 - i].ends[0], -1));
      next = ::eventfd(0, EFD_CLOEXEC);
      CHECK(next == other);  // the lowest free number
      CHECK(loop.watch(next, Interest::kRead, newcomer).ok());
      first.update([&](int& value) { value = i + 1; });
    });
  }
  loop.post([&] {  // both are ready when the loop waits next
    for (int i = 0; i < 2; ++i) {
      CHECK(loop.watch(pairs[i].ends[0], Interest::kWrite, handlers[i]).ok());
    }
  });
  REQUIRE(first.wait_until([](int value) { return value != 0; }));
  drain(loop);
  const auto winner = static_cast<std::size_t>(first.get() - 1);
  CHECK(handlers[winner]->calls.get().size() == 1);
  CHECK(handlers[1 - winner]->calls.get().empty());
  CHECK(newcomer->calls.get().empty());
  const std::uint64_t one = 1;
  REQUIRE(::write(next, &one, sizeof one) == sizeof one);
  CHECK(newcomer->wait_for_calls(1));
  loop.unwatch(next);
  ::close(next);
}

TEST_CASE("stop() drops what has not run, lets go of everything, and is final") {
  EpollLoop loop(steady_clock());
  SocketPair pair;
  const auto held = std::make_shared<int>();
  const auto handler = std::make_shared<RecordingHandler>();
  std::atomic<bool> ran = false;
  REQUIRE(loop.watch(pair.ends[0], Interest::kRead, handler).ok());
  loop.run_after(seconds(3600), [held, &ran] { ran = true; });
  loop.stop();
  loop.stop();
  CHECK(held.use_count() == 1);
  CHECK(handler.use_count() == 1);
  loop.post([held, &ran] { ran = true; });
  CHECK(loop.run_after(Duration::zero(), [held, &ran] { ran = true; }) == 0);
  CHECK(held.use_count() == 1);
  CHECK(loop.watch(pair.ends[0], Interest::kRead, handler).error_number() == ECANCELED);
  CHECK(loop.start().error_number() == ECANCELED);
  loop.unwatch(pair.ends[0]);
  CHECK_FALSE(ran);
}

TEST_CASE("stop() on the loop thread ends the loop without waiting for itself") {
  EpollLoop loop(steady_clock());
  Shared<bool> stopped;
  std::atomic<bool> ran = false;
  loop.post([&] {
    loop.post([&] { ran = true; });
    loop.stop();
    stopped.update([](bool& value) { value = true; });
  });
  REQUIRE(stopped.wait_until([](bool value) { return value; }));
  loop.stop();
  CHECK_FALSE(ran);
}

TEST_CASE("a loop that did nothing stops and ends") {
  EpollLoop loop(steady_clock());
  loop.stop();
  EpollLoop unused(steady_clock());
}

TEST_CASE("a forked child has a loop of its own; exit() ends it") {
  if (kThreadSanitizer) {
    MESSAGE("skipped: the thread sanitizer allows no threads in the child of a threaded process");
    return;
  }
  EventLoop& loop = Process::current().loop();
  SocketPair pair;
  const auto handler = std::make_shared<RecordingHandler>();
  REQUIRE(loop.watch(pair.ends[0], Interest::kRead, handler).ok());
  const EventLoop::TimerId timer = loop.run_after(seconds(3600), [] {});
  drain(loop);
  const std::uint32_t generation = Process::generation();

  std::cout << std::flush;  // or the child would write it too
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    // Waiting in the child is bounded by the alarm: its end by a signal fails the test.
    ::alarm(static_cast<unsigned>(kPatience.count()));
    // Runs after what Process registers: its threads have ended by then.
    std::atexit([] {
      if (!threads_named("hflush-net").empty() || !threads_named("hflush-io").empty()) ::_exit(2);
    });
    // The parent's is out of reach; else this would take the parent's watch away.
    loop.unwatch(pair.ends[0]);
    loop.change(pair.ends[0], Interest::kNone);
    loop.cancel(timer);
    loop.post([] {});
    loop.stop();
    const bool refused =
        loop.run_after(Duration::zero(), [] {}) == 0 &&
        loop.start().code() == StatusCode::kForked &&
        loop.watch(pair.ends[1], Interest::kRead, handler).code() == StatusCode::kForked;
    EventLoop& own = Process::current().loop();
    Shared<bool> ran;
    own.post([&] { ran.update([&](bool& value) { value = own.on_loop_thread(); }); });
    const bool good = refused && &own != &loop && Process::generation() == generation + 1 &&
                      ran.wait_until([](bool value) { return value; }) &&
                      Process::current().executor().run([] {});
    std::exit(good ? 0 : 1);  // not _exit(): at exit the child's own threads end
  }
  int status = -1;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);

  REQUIRE(::write(pair.ends[1], "x", 1) == 1);
  CHECK(handler->wait_for_calls(1));
  loop.unwatch(pair.ends[0]);
  loop.cancel(timer);
  CHECK(Process::generation() == generation);
}

}  // namespace
}  // namespace hflush::env
