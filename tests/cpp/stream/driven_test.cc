// One driver at a time, whatever the threads do: order, re-entrance, the end for want of memory,
// and a stream that hears of its end once.
#include "hflush/stream/driven.h"

#include <doctest/doctest.h>

#include <atomic>
#include <cerrno>
#include <functional>
#include <latch>
#include <string>
#include <thread>
#include <vector>

#include "testing/scarce_memory.h"

namespace hflush::stream {
namespace {

using testing::ScarceMemory;

// What the stream has heard, in words.
class Heard final : public SinkEvents {
 public:
  void acknowledged(std::uint64_t offset) override {
    add("acknowledged " + std::to_string(offset));
  }
  void reached(Level /*level*/, std::uint64_t offset) override {
    add("reached " + std::to_string(offset));
  }
  void not_reached(Level /*level*/, std::uint64_t offset, Status /*why*/) override {
    add("not reached " + std::to_string(offset));
  }
  void finished() override { add("finished"); }
  void failed(Status failure) override { add("failed " + std::to_string(failure.error_number())); }

  std::vector<std::string> words() const {
    MutexLock lock(mutex_);
    return words_;
  }

 private:
  void add(std::string word) {
    MutexLock lock(mutex_);
    words_.push_back(std::move(word));
  }

  mutable Mutex mutex_;
  std::vector<std::string> words_ HFLUSH_GUARDED_BY(mutex_);
};

using Words = std::vector<std::string>;

struct Call {
  std::function<void()> what;
};
struct Say {
  std::uint64_t offset;
};
struct Finish {};
struct Fail {
  Status failure;
};

// A state that does what its events say, and whose fields are bare: the thread sanitizer sees two
// threads that touch them.
struct Toy {
  explicit Toy(Reports& its_reports) : reports(its_reports) {}

  void perform(const Call& call) { call.what(); }
  void perform(const Say& say) { reports.acknowledged(say.offset); }
  void perform(const Finish& /*finish*/) { reports.finished(); }
  void perform(const Fail& fail) { reports.failed(fail.failure); }
  void settled() { ++rounds; }
  void release() noexcept { ++releases; }

  Reports& reports;
  std::vector<std::variant<Call, Say, Finish, Fail>> actions;
  std::vector<int> seen;
  std::int64_t events = 0;
  int rounds = 0;
  int releases = 0;
};

struct Fixture {
  using Shell = Driven<Toy>;

  // The driver's, asked for by an event.
  template <typename Ask>
  auto ask(Ask question) {
    decltype(question(std::declval<Toy&>())) answer{};
    shell.drive([&](Toy& toy) { answer = question(toy); });
    return answer;
  }
  void act(auto action) {
    shell.drive_for(stream, [&](Toy& toy) { toy.actions.emplace_back(std::move(action)); });
  }

  Shell shell{Status::from_errno(ENOMEM, "write", "/file")};
  Heard stream;
};

// A thread that drives, and is inside an action until `go_on`.
class Driver {
 public:
  explicit Driver(Fixture& fixture)
      : thread_([this, &fixture] {
          fixture.act(Call{[this] {
            inside_.count_down();
            go_on_.wait();
          }});
        }) {
    inside_.wait();
  }
  void go_on() {
    go_on_.count_down();
    thread_.join();
  }
  std::thread::id id() const { return thread_.get_id(); }

 private:
  std::latch inside_{1};
  std::latch go_on_{1};
  std::thread thread_;  // last: it uses the others
};

TEST_CASE("events of many threads are handled one at a time, each thread's in order") {
  constexpr int kThreads = 4;
  constexpr int kEvents = 5000;
  Fixture fixture;
  std::vector<int> last(kThreads, -1);
  bool ordered = true;
  std::latch start(kThreads);
  std::vector<std::thread> threads;
  for (int number = 0; number < kThreads; ++number) {
    threads.emplace_back([&, number] {
      start.arrive_and_wait();
      for (int i = 0; i < kEvents; ++i) {
        fixture.shell.drive_for(fixture.stream, [&, number, i](Toy& toy) {
          const auto index = static_cast<std::size_t>(number);
          ordered = ordered && i == last[index] + 1;
          last[index] = i;
          ++toy.events;
          if (i % 100 == 0) toy.actions.emplace_back(Say{static_cast<std::uint64_t>(toy.events)});
        });
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(ordered);
  CHECK(fixture.ask([](Toy& toy) { return toy.events; }) == kThreads * kEvents);
  CHECK(fixture.stream.words().size() == kThreads * kEvents / 100);
}

TEST_CASE("an event that comes while another thread drives is handled by that thread") {
  Fixture fixture;
  Driver driver(fixture);
  std::thread::id handled_by;
  fixture.shell.drive([&](Toy& toy) {
    handled_by = std::this_thread::get_id();
    toy.seen.push_back(1);
  });
  fixture.shell.drive([](Toy& toy) { toy.seen.push_back(2); });
  CHECK(handled_by == std::thread::id());  // drive() does not wait
  const std::thread::id driving = driver.id();
  driver.go_on();
  CHECK(handled_by == driving);
  CHECK(fixture.ask([](Toy& toy) { return toy.seen; }) == std::vector<int>{1, 2});
}

TEST_CASE("an event from within an action is handled after the actions before it") {
  Fixture fixture;
  fixture.shell.drive([&](Toy& toy) {
    toy.actions.emplace_back(Call{[&] {
      fixture.shell.drive([](Toy& later) { later.seen.push_back(3); });
      toy.seen.push_back(1);
      toy.actions.emplace_back(Call{[&toy] { toy.seen.push_back(2); }});
    }});
  });
  // Two rounds of the first event, one of the second.
  CHECK(fixture.ask([](Toy& toy) { return toy.rounds; }) == 3);
  CHECK(fixture.ask([](Toy& toy) { return toy.seen; }) == std::vector<int>{1, 2, 3});
}

// What is left of a stream whose memory has run out.
void check_ended(Fixture& fixture, const Words& heard) {
  CHECK(fixture.stream.words() == heard);
  bool fed = false;
  fixture.shell.drive_for(fixture.stream, [&](Toy& toy) { fed = toy.events >= 0; });
  CHECK_FALSE(fed);
  fixture.shell.event_lost();
  fixture.shell.abandon([&](Toy& toy) { fed = toy.events >= 0; });
  CHECK_FALSE(fed);
  CHECK(fixture.stream.words() == heard);
}

const Words kOutOfMemory{"failed " + std::to_string(ENOMEM)};

TEST_CASE("no memory for an event: the thread that drives ends the stream, once") {
  Fixture fixture;
  int releases = 0;
  Driver driver(fixture);
  fixture.shell.drive([&](Toy& /*toy*/) { ++releases; });  // left in the inbox, and dropped
  {
    const ScarceMemory scarce(0);
    fixture.shell.drive([&](Toy& /*toy*/) { ++releases; });
    CHECK(scarce.has_failed());
  }
  driver.go_on();
  CHECK(releases == 0);
  check_ended(fixture, kOutOfMemory);
}

TEST_CASE("no memory for what an event or an action does ends the stream") {
  SUBCASE("an event") {
    Fixture fixture;
    fixture.shell.drive_for(fixture.stream, [](Toy& /*toy*/) { throw std::bad_alloc(); });
    check_ended(fixture, kOutOfMemory);
  }
  SUBCASE("an action") {
    Fixture fixture;
    fixture.act(Call{[] { throw std::bad_alloc(); }});
    check_ended(fixture, kOutOfMemory);
  }
  SUBCASE("an event that was lost before it could be fed") {
    Fixture fixture;
    fixture.act(Say{5});
    fixture.shell.event_lost();
    check_ended(fixture, {"acknowledged 5", kOutOfMemory.front()});
  }
  SUBCASE("one that was lost while another thread drives") {
    Fixture fixture;
    Driver driver(fixture);
    fixture.shell.event_lost();
    CHECK(fixture.stream.words().empty());
    driver.go_on();
    check_ended(fixture, kOutOfMemory);
  }
}

TEST_CASE("the state is released once, by the thread that drives") {
  struct Counts {
    int releases = 0;
  };
  struct Released {
    Released(Reports& /*reports*/, Counts& its_counts) : counts(its_counts) {}
    void perform(const Finish& /*finish*/) {}
    void settled() {}
    void release() noexcept { ++counts.releases; }
    Counts& counts;
    std::vector<std::variant<Finish>> actions;
  };
  Counts counts;
  Driven<Released> shell(Status::from_errno(ENOMEM, "write", {}), counts);
  shell.drive([&](Released& /*state*/) {
    shell.event_lost();
    shell.event_lost();
    CHECK(counts.releases == 0);
  });
  shell.event_lost();
  CHECK(counts.releases == 1);
}

TEST_CASE("a failure that comes before the stream's first call is reported by that, once") {
  Fixture fixture;
  SUBCASE("of the state") {
    fixture.shell.drive([](Toy& toy) {
      toy.actions.emplace_back(Fail{Status::from_errno(EIO, "write", {})});
      toy.actions.emplace_back(Say{1});
    });
    CHECK(fixture.stream.words().empty());
    fixture.act(Say{2});
    fixture.act(Say{3});
    CHECK(fixture.stream.words() == Words{"failed " + std::to_string(EIO)});
  }
  SUBCASE("of memory") {
    fixture.shell.event_lost();
    CHECK(fixture.stream.words().empty());
    fixture.act(Say{2});
    check_ended(fixture, kOutOfMemory);
  }
}

TEST_CASE("the end is reported once, and nothing after it") {
  Fixture fixture;
  const Status failure = Status::from_errno(EIO, "write", {});
  SUBCASE("finished") {
    fixture.act(Finish{});
    fixture.act(Fail{failure});
    fixture.act(Say{1});
    fixture.shell.event_lost();
    CHECK(fixture.stream.words() == Words{"finished"});
  }
  SUBCASE("failed") {
    fixture.act(Fail{failure});
    fixture.act(Fail{failure});
    fixture.act(Finish{});
    fixture.shell.event_lost();
    CHECK(fixture.stream.words() == Words{"failed " + std::to_string(EIO)});
  }
}

TEST_CASE("abandon() waits for the thread that drives, and nothing is reported after it") {
  Fixture fixture;
  Driver driver(fixture);
  fixture.act(Say{1});  // left in the inbox: it is handled, and not reported
  std::atomic<bool> abandoned{false};
  std::thread::id last_by;
  std::latch asked(1);
  std::thread dropping([&] {
    asked.count_down();
    fixture.shell.abandon([&](Toy& toy) {
      last_by = std::this_thread::get_id();
      toy.seen.push_back(1);
      toy.actions.emplace_back(Say{2});
    });
    abandoned = true;
  });
  const std::thread::id dropping_id = dropping.get_id();
  asked.wait();
  CHECK_FALSE(abandoned);
  driver.go_on();
  dropping.join();
  CHECK(last_by == dropping_id);
  const Words heard = fixture.stream.words();
  CHECK((heard.empty() || heard == Words{"acknowledged 1"}));

  fixture.act(Say{3});
  fixture.act(Finish{});
  fixture.shell.abandon([](Toy& toy) { toy.seen.push_back(2); });
  CHECK(fixture.stream.words() == heard);
  CHECK(fixture.ask([](Toy& toy) { return toy.seen; }) == std::vector<int>{1, 2});
}

TEST_CASE("abandoned while another thread has events: no report comes after that") {
  for (int round = 0; round < 100; ++round) {
    Fixture fixture;
    std::latch start(2);
    std::thread busy([&] {
      start.arrive_and_wait();
      for (std::uint64_t i = 0; i < 200; ++i) {
        fixture.shell.drive([i](Toy& toy) { toy.actions.emplace_back(Say{i}); });
      }
    });
    fixture.act(Say{0});
    start.arrive_and_wait();
    fixture.shell.abandon([](Toy& /*toy*/) {});
    const std::size_t heard = fixture.stream.words().size();
    fixture.shell.drive([](Toy& toy) { toy.actions.emplace_back(Say{2}); });
    busy.join();
    CHECK(fixture.stream.words().size() == heard);
  }
}

}  // namespace
}  // namespace hflush::stream
