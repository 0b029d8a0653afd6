#include "hflush/env/process.h"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <new>

#include "hflush/env/control_groups.h"
#include "hflush/env/epoll_loop.h"

namespace hflush::env {

std::atomic<std::uint32_t> Process::generation_{0};
std::atomic<Process*> Process::current_{nullptr};
// When the library is loaded: a child would wait for ever for what a thread that it has not got is
// doing for the first time. In a child the parent's Process is leaked on purpose: its locks may
// never be released.
const int Process::registered_ = pthread_atfork(nullptr, nullptr, [] {
  generation_.fetch_add(1, std::memory_order_relaxed);
  current_.store(nullptr);
});

Process::Process() : loop_(std::make_unique<EpollLoop>(steady_clock(), usable_processors())) {}

Process& Process::current() {
  if (Process* existing = current_.load()) return *existing;

  std::unique_ptr<Process> fresh(new Process);
  Process* expected = nullptr;
  if (!current_.compare_exchange_strong(expected, fresh.get())) return *expected;
  // The object stays: daemon threads may still use it, and a lookup that hangs reports to it.
  std::atexit(&Process::end);
  return *fresh.release();
}

void Process::end() noexcept {
  Process* ending = current_.load();
  if (ending == nullptr) return;
  ending->resolver_.stop();
  // The workers finish and end, then the loop to which they report.
  ending->executor_.stop();
  ending->loop_->stop();
}

namespace {

// Without memory for that the process goes by its affinity alone.
unsigned limit_of_group() noexcept {
  try {
    return group_processor_limit().value_or(CPU_SETSIZE);
  } catch (const std::bad_alloc&) {
    return CPU_SETSIZE;
  }
}

}  // namespace

unsigned usable_processors() noexcept {
  // 0: not looked for yet. Threads may do so at once: none waits for another, which a forked child
  // may not have.
  static constinit std::atomic<unsigned> known{0};
  unsigned limit = known.load(std::memory_order_relaxed);
  if (limit == 0) {
    limit = limit_of_group();
    known.store(limit, std::memory_order_relaxed);
  }
  cpu_set_t usable;
  const int count = sched_getaffinity(0, sizeof usable, &usable) == 0 ? CPU_COUNT(&usable) : 1;
  return std::min(static_cast<unsigned>(count), limit);
}

}  // namespace hflush::env
