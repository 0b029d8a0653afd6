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

Process::Process() : loop_(std::make_unique<EpollLoop>(steady_clock(), usable_processors())) {}

Process& Process::current() {
  if (Process* existing = current_.load()) return *existing;

  // In a child the parent's Process is leaked on purpose: its locks may never be released.
  static const int registered = pthread_atfork(nullptr, nullptr, [] {
    generation_.fetch_add(1, std::memory_order_relaxed);
    current_.store(nullptr);
  });
  static_cast<void>(registered);

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

unsigned usable_processors() noexcept {
  // Without memory for that the process goes by its affinity alone.
  static const unsigned limit = [] {
    try {
      return group_processor_limit().value_or(CPU_SETSIZE);
    } catch (const std::bad_alloc&) {
      return static_cast<unsigned>(CPU_SETSIZE);
    }
  }();
  cpu_set_t usable;
  const int count = sched_getaffinity(0, sizeof usable, &usable) == 0 ? CPU_COUNT(&usable) : 1;
  return std::min(static_cast<unsigned>(count), limit);
}

}  // namespace hflush::env
