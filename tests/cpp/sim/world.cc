#include "sim/world.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "sim/fiber.h"

namespace hflush::sim {
namespace {

constexpr std::uint64_t kMaxSteps = 2'000'000;

constexpr std::uint64_t kFnvPrime = 0x100000001b3U;

std::uint64_t fnv(std::uint64_t digest, std::string_view text) noexcept {
  for (const char c : text) digest = (digest ^ static_cast<unsigned char>(c)) * kFnvPrime;
  return digest;
}

}  // namespace

class World::Program {
 public:
  explicit Program(Task body) : fiber(std::move(body)) {}

  Fiber fiber;
  EventId wakes = 0;  // when it goes on
  TimePoint wakes_at{};
};

TimePoint WorldClock::now() const noexcept { return world_.now(); }
void WorldClock::sleep_until(TimePoint when) const {
  while (world_.now() < when) world_.wait_until(when);
}

Chance::Chance(std::uint64_t seed, std::string_view part)
    : engine_(fnv(0xcbf29ce484222325U ^ (seed * 0x9e3779b97f4a7c15U), part)) {}

World::World(std::uint64_t seed, Trace trace) : seed_(seed), trace_(trace) {}
World::~World() = default;

// --- events --------------------------------------------------------------------------------------

World::EventId World::at(TimePoint when, Task task) {
  const EventId id = ++last_event_;
  when = std::max(when, now_);
  events_.emplace(Key{when, id}, std::move(task));
  when_.emplace(id, when);
  return id;
}

void World::cancel(EventId event) {
  const auto found = when_.find(event);
  if (found == when_.end()) return;
  const auto cancelled = events_.extract(Key{found->second, event});
  when_.erase(found);
}

void World::run(const std::function<bool()>& over) {
  while (breach_.empty() && !over()) {
    if (events_.empty()) return breach("nothing is left to do, and the run is not over");
    if (++steps_ > kMaxSteps) return breach("the run does not end");
    const auto first = events_.begin();
    now_ = first->first.when;
    const Task task = std::move(first->second);
    when_.erase(first->first.id);
    events_.erase(first);
    task();
    if (look_) look_();
  }
}

// --- programs ------------------------------------------------------------------------------------

void World::start(Task body) {
  Program& program = *programs_.emplace_back(std::make_unique<Program>(std::move(body)));
  at(now_, [this, &program] { resume(program); });
}

void World::resume(Program& program) {
  cancel(std::exchange(program.wakes, 0));
  running_ = &program;
  program.fiber.resume();
  running_ = nullptr;
  if (!program.fiber.has_ended()) return;
  std::erase_if(programs_, [&](const auto& one) { return one.get() == &program; });
}

void World::wait_until(TimePoint when) {
  Program* const program = running_;
  if (program == nullptr) {  // and nothing could end that wait
    std::fprintf(stderr, "an event waits: it would block the thread of the loop\n");
    std::abort();
  }
  if (when != TimePoint::max()) {
    program->wakes_at = when;
    program->wakes = at(when, [this, program] { resume(*program); });
  }
  program->fiber.yield();
}

void World::wake(Program* program) {
  if (program->wakes != 0 && program->wakes_at <= now_) return;
  cancel(program->wakes);
  program->wakes_at = now_;
  program->wakes = at(now_, [this, program] { resume(*program); });
}

// --- the trace -----------------------------------------------------------------------------------

void World::breach(const std::string& what) {
  if (!breach_.empty()) return;
  breach_ = what;
  add_line("BREACH " + what);
}

void World::add_line(std::string_view line) {
  std::array<char, 32> time;
  const auto since = now_.time_since_epoch() - std::chrono::hours(1);
  const long long ns = std::chrono::duration_cast<std::chrono::nanoseconds>(since).count();
  const int size = std::snprintf(time.data(), time.size(), "%6lld.%06lld  ", ns / 1'000'000'000,
                                 ns / 1'000 % 1'000'000);
  const std::string_view stamp(time.data(), static_cast<std::size_t>(size));
  digest_ = fnv(fnv(digest_, stamp), line);
  if (trace_ == Trace::kDigest) return;
  text_ += stamp;
  text_ += line;
  text_ += '\n';
}

}  // namespace hflush::sim
