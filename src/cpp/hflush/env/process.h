// Process: what all streams of one process share.
//
// Made on first use. A forked child has none of its parent's threads and may have inherited locked
// locks, so it gets a Process of its own on its first use; the parent's copy is left alone there.
// Thread-safe.
#pragma once

#include <atomic>
#include <cstdint>

#include "hflush/base/buffer_pool.h"
#include "hflush/env/executor.h"

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
  BufferPool& buffers() noexcept { return buffers_; }

  static constexpr std::size_t kMaxWorkers = 4;
  static constexpr std::size_t kMaxCachedBytes = 8U << 20U;

 private:
  Process() = default;

  static std::atomic<std::uint32_t> generation_;
  static std::atomic<Process*> current_;

  BufferPool buffers_{kMaxCachedBytes};
  WorkerPool executor_{kMaxWorkers};
};

// How many processors this process may use: 1 makes helping threads pointless.
unsigned usable_processors() noexcept;

}  // namespace hflush::env
