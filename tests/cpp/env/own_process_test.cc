// What a process made is its own: a forked child does not use it, does not destroy it, and makes
// another one where there is to be one for each process.
#include "hflush/env/own_process.h"

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <memory>
#include <thread>
#include <utility>
#include <vector>

namespace hflush::env {
namespace {

// Whether `holds` is true in a forked child.
template <typename Predicate>
bool in_child(const Predicate& holds) {
  Process::current();  // counts forks from now on
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) ::_exit(holds() ? 0 : 1);
  int status = -1;
  REQUIRE(::waitpid(child, &status, 0) == child);
  return status == 0;
}

// Counts the ends of its kind.
struct Counted {
  explicit Counted(int& count) : ends(count) {}
  ~Counted() { ++ends; }
  Counted(const Counted&) = delete;
  Counted& operator=(const Counted&) = delete;

  int& ends;
};

TEST_CASE("own process: an origin is a parent's in the child alone, in copies too") {
  const Origin origin;
  CHECK_FALSE(origin.is_parent());
  CHECK(in_child([&] {
    const Origin copy = origin;
    return origin.is_parent() && copy.is_parent() && !Origin().is_parent();
  }));
  CHECK_FALSE(origin.is_parent());
}

TEST_CASE("own process: what is held is here, until it is replaced, moved or destroyed") {
  int ends = 0;
  OwnProcess<Counted> held;
  CHECK(held.here() == nullptr);
  CHECK(held.shared() == nullptr);
  held = OwnProcess(std::make_shared<Counted>(ends));
  CHECK(held.here() == &held.anywhere());
  CHECK(held.shared().use_count() == 2);
  held = OwnProcess(std::make_shared<Counted>(ends));
  CHECK(ends == 1);
  OwnProcess<Counted> moved = std::move(held);
  CHECK(held.here() == nullptr);  // NOLINT(bugprone-use-after-move): that is the promise
  CHECK(moved.here() != nullptr);
  moved = {};
  CHECK(ends == 2);
  {
    const OwnProcess<Counted> last(std::make_shared<Counted>(ends));
  }
  CHECK(ends == 3);
}

TEST_CASE("own process: a child sees nothing, destroys nothing, and holds what it makes itself") {
  int ends = 0;
  OwnProcess<Counted> replaced(std::make_shared<Counted>(ends));
  auto destroyed = std::make_unique<OwnProcess<Counted>>(std::make_shared<Counted>(ends));
  CHECK(in_child([&] {
    const bool is_hidden = replaced.here() == nullptr && replaced.shared() == nullptr;
    const bool is_readable = replaced.anywhere().ends == 0;
    destroyed.reset();
    replaced = OwnProcess(std::make_shared<Counted>(ends));
    const bool is_left = ends == 0;
    const bool is_own = replaced.here() != nullptr;
    replaced = {};
    return is_hidden && is_readable && is_left && is_own && ends == 1;
  }));
  CHECK(replaced.here() != nullptr);
  CHECK(destroyed->here() != nullptr);
  CHECK(ends == 0);
}

TEST_CASE("own process: one for each process, whichever thread asks first") {
  struct Number {
    int value = 1;
  };
  static PerProcess<Number> numbers;
  constexpr int kThreads = 16;
  std::vector<Number*> seen(kThreads);
  std::vector<std::thread> threads;
  threads.reserve(kThreads);
  for (Number*& mine : seen) threads.emplace_back([&] { mine = &numbers.get(); });
  for (std::thread& thread : threads) thread.join();
  CHECK(std::vector<Number*>(kThreads, seen.front()) == seen);
  numbers.get().value = 2;
  CHECK(in_child([&] {
    Number& own = numbers.get();
    return &own != seen.front() && own.value == 1 && &numbers.get() == &own;
  }));
  CHECK(&numbers.get() == seen.front());
  CHECK(numbers.get().value == 2);
}

}  // namespace
}  // namespace hflush::env
