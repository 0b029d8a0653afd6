// ShortWaits: whether a thread that waits for an answer looks again and again for a moment, before
// it sleeps.
//
// Where a store is near, an answer comes sooner than a thread that sleeps can be woken, and who has
// slept begins with cold caches. So after a wait that was short the next one begins with a look
// that does not sleep, by one thread at a time, and no longer than an answer from nearby takes: a
// wait that turns out to be long ends that, until one is short again. Nothing of it where there is
// one processor, which would keep the other side from answering.
//
// Pure: the caller says how long a wait took. Thread-safe; it is a guess, so nothing is ordered.
#pragma once

#include <atomic>
#include <chrono>

#include "hflush/env/clock.h"

namespace hflush::env {

class ShortWaits {
 public:
  // For so long it is looked at most.
  static constexpr Duration kLook = std::chrono::microseconds(60);
  // A wait is short up to here, the time to be woken included.
  static constexpr Duration kShort = std::chrono::microseconds(150);

  explicit ShortWaits(unsigned processors) noexcept : are_possible_(processors > 1) {}

  // True: this thread looks first, then stops looking.
  bool may_look() noexcept {
    return are_possible_ && was_short_.load(std::memory_order_relaxed) &&
           !is_looked_.exchange(true, std::memory_order_relaxed);
  }
  void stops_looking(bool found) noexcept {
    finds_.store(found, std::memory_order_relaxed);
    is_looked_.store(false, std::memory_order_relaxed);
  }
  // Whether the last look has found the answer.
  bool finds() const noexcept { return finds_.load(std::memory_order_relaxed); }

  // A wait, with the look at its beginning, if there was one.
  void took(Duration wait) noexcept { was_short_.store(wait <= kShort, std::memory_order_relaxed); }

 private:
  const bool are_possible_;
  std::atomic<bool> was_short_ = false;
  std::atomic<bool> is_looked_ = false;  // a thread does it
  std::atomic<bool> finds_ = false;
};

}  // namespace hflush::env
