// World: a simulated one: its time, its chance, and who acts when. One thread, no real clock, sleep
// or socket: the same seed gives the same run, to the last line of the trace.
//
// What happens is an event: a function that is due at a time. Events of one time happen in the
// order in which they were made. Programs are what a user's threads would be: each has a stack of
// its own, runs until it waits, and goes on when it is woken or when its time has come.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "hflush/env/clock.h"
#include "hflush/env/randomness.h"

namespace hflush::sim {

using env::Duration;
using env::TimePoint;
using Task = std::function<void()>;

class World;

// The world's time. Whoever sleeps lets the others act.
class WorldClock final : public env::Clock {
 public:
  explicit WorldClock(World& world) noexcept : world_(world) {}
  TimePoint now() const noexcept override;
  void sleep_until(TimePoint when) const override;

 private:
  World& world_;
};

// The world's chance, of its own for each part, so that what one draws changes no other's luck.
class Chance final : public env::Randomness {
 public:
  Chance(std::uint64_t seed, std::string_view part);

  std::uint64_t next() override { return engine_(); }
  // Less than `bound`, which is not 0.
  std::uint64_t below(std::uint64_t bound) { return engine_() % bound; }
  std::uint64_t between(std::uint64_t first, std::uint64_t last) {
    return first + below(last - first + 1);
  }
  bool one_in(std::uint64_t count) { return below(count) == 0; }
  Duration up_to(Duration longest) {
    return Duration(
        static_cast<Duration::rep>(below(static_cast<std::uint64_t>(longest.count()) + 1)));
  }
  template <typename Choices>
  const auto& one_of(const Choices& choices) {
    return choices[below(std::size(choices))];
  }

 private:
  std::mt19937_64 engine_;
};

class World {
 public:
  using EventId = std::uint64_t;  // 0 is none
  class Program;

  enum class Trace : std::uint8_t { kDigest, kText };

  World(std::uint64_t seed, Trace trace);
  ~World();
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  std::uint64_t seed() const noexcept { return seed_; }
  TimePoint now() const noexcept { return now_; }
  const env::Clock& clock() const noexcept { return clock_; }

  // --- events

  EventId at(TimePoint when, Task task);
  EventId after(Duration delay, Task task) { return at(now_ + delay, std::move(task)); }
  void cancel(EventId event);

  // --- programs

  // Starts now.
  void start(Task body);
  // The one that runs; null in an event.
  Program* running() const noexcept { return running_; }
  // Of the one that runs: others act until wake(), or `when`.
  void wait_until(TimePoint when);
  void wake(Program* program);
  // No program is left, and nothing is to come.
  bool is_idle() const noexcept { return programs_.empty() && events_.empty(); }

  // --- the run

  // Acts until `over`, looking after each event; a breach, too many events, or nothing left to do
  // while `over` is false, ends it as well.
  void run(const std::function<bool()>& over);
  // Called after each event.
  void watch(Task look) { look_ = std::move(look); }
  std::uint64_t steps() const noexcept { return steps_; }

  // What must not be: the first of them ends the run.
  void breach(const std::string& what);
  const std::string& breached() const noexcept { return breach_; }
  template <typename... Parts>
  void require(bool holds, const Parts&... parts) {
    if (!holds) breach(joined(parts...));
  }

  // --- the trace

  template <typename... Parts>
  void note(const Parts&... parts) {
    add_line(joined(parts...));
  }
  std::uint64_t digest() const noexcept { return digest_; }
  const std::string& text() const noexcept { return text_; }

 private:
  struct Key {
    TimePoint when;
    EventId id;
    auto operator<=>(const Key&) const = default;
  };

  template <typename Part>
  static void join(std::string& line, const Part& part) {
    if constexpr (std::is_integral_v<Part>) {
      line += std::to_string(part);
    } else {
      line += part;
    }
  }
  template <typename... Parts>
  static std::string joined(const Parts&... parts) {
    std::string line;
    (join(line, parts), ...);
    return line;
  }
  void add_line(std::string_view line);
  void resume(Program& program);

  const std::uint64_t seed_;
  const Trace trace_;
  WorldClock clock_{*this};
  TimePoint now_{std::chrono::hours(1)};
  std::map<Key, Task> events_;
  std::map<EventId, TimePoint> when_;
  EventId last_event_ = 0;
  std::uint64_t steps_ = 0;
  Task look_;

  std::vector<std::unique_ptr<Program>> programs_;
  Program* running_ = nullptr;

  std::string breach_;
  std::uint64_t digest_ = 0xcbf29ce484222325U;
  std::string text_;
};

}  // namespace hflush::sim
