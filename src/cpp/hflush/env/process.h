// Process: what all streams of one process share.
//
// Made on first use. A forked child has none of its parent's threads and may have inherited locked
// locks, so it gets a Process of its own on its first use; the parent's copy is left alone there.
// Thread-safe.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <new>
#include <utility>

#include "hflush/base/buffer_pool.h"
#include "hflush/env/clock.h"
#include "hflush/env/event_loop.h"
#include "hflush/env/executor.h"
#include "hflush/env/host.h"
#include "hflush/env/resolver.h"

namespace hflush::env {

class Process {
 public:
  static Process& current();
  // How many forks lie between the program's start and this process: what was made under another
  // generation belongs to a parent.
  static std::uint32_t generation() noexcept {
    return generation_.load(
        std::memory_order_relaxed);  // only a fork changes it, before any thread runs
  }

  Executor& executor() noexcept { return executor_; }
  // For lookups of names, and nothing else.
  Executor& resolver() noexcept { return resolver_; }
  BufferPool& buffers() noexcept { return buffers_; }
  // The one I/O thread of the process; it starts when there is something to do.
  EventLoop& loop() noexcept { return *loop_; }
  Host host() noexcept { return {loop(), resolver()}; }

  // Ends the threads of the current Process, if any, as exit does. For code that loads a library
  // with exit handlers of its own: a handler that is registered after those, and calls this, runs
  // before them. Idempotent.
  static void end() noexcept;

  static constexpr std::size_t kMaxWorkers = 4;
  static constexpr std::size_t kMaxLookups = 4;
  static constexpr std::size_t kMaxCachedBytes = 8U << 20U;

 private:
  Process();

  static std::atomic<std::uint32_t> generation_;
  static std::atomic<Process*> current_;
  static const int registered_;

  BufferPool buffers_{kMaxCachedBytes};
  const std::unique_ptr<EventLoop> loop_;
  WorkerPool executor_{kMaxWorkers};  // ends before the loop, to which its tasks report
  Resolver resolver_{kMaxLookups};
};

// In a forked child: abandons an object of the parent without its destructor, which would take
// locks that no thread of this process will release. Without memory for that it is destroyed after
// all. OwnProcess (own_process.h) calls this.
template <typename T>
void leave_to_parent(std::shared_ptr<T> held) noexcept {
  if (held != nullptr) static_cast<void>(new (std::nothrow) std::shared_ptr<T>(std::move(held)));
}

// How many processors this process may use: 1 makes helping threads pointless.
unsigned usable_processors() noexcept;

}  // namespace hflush::env
