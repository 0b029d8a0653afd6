// Origin, OwnProcess, PerProcess: which process an object belongs to.
//
// A forked child has a copy of its parent's memory, but none of its threads, and its connections
// only to share; a lock that was held stays held. So the child neither uses nor destroys what the
// parent made: it leaves it alone, or makes its own.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

#include "hflush/base/check.h"
#include "hflush/env/process.h"

namespace hflush::env {

// The process in which an object was made, as a member of that object. Immutable; thread-safe.
class Origin {
 public:
  // Whether that was a parent of this process.
  bool is_parent() const noexcept { return generation_ != Process::generation(); }

 private:
  std::uint32_t generation_ = Process::generation();
};

// Shared ownership of an object that only the process that made it may use: for the front of what
// has locks, threads or connections behind it. Thread-compatible, as std::shared_ptr is.
template <typename T>
class OwnProcess {
 public:
  OwnProcess() = default;
  explicit OwnProcess(std::shared_ptr<T> held) noexcept : held_(std::move(held)) {}
  // Without a destructor of the object in a forked child.
  ~OwnProcess() { release(); }
  OwnProcess(OwnProcess&& other) noexcept = default;
  OwnProcess& operator=(OwnProcess&& other) noexcept {
    if (this == &other) return *this;
    release();
    origin_ = other.origin_;
    held_ = std::move(other.held_);
    return *this;
  }

  // The object; null in a forked child, and where there is none.
  T* here() const noexcept { return origin_.is_parent() ? nullptr : held_.get(); }
  std::shared_ptr<T> shared() const noexcept { return origin_.is_parent() ? nullptr : held_; }
  // The object in any process, for what never changes. Requires: there is one.
  const T& anywhere() const noexcept {
    HFLUSH_DCHECK(held_ != nullptr);
    return *held_;
  }

 private:
  void release() noexcept {
    if (origin_.is_parent()) {
      leave_to_parent(std::move(held_));
    } else {
      held_.reset();
    }
  }

  Origin origin_;
  std::shared_ptr<T> held_;
};

// One T for each process: made on first use, again in a forked child, and never destroyed. For
// static objects. Thread-safe; get() may throw std::bad_alloc.
template <typename T>
class PerProcess {
 public:
  T& get() {
    Made* existing = current_.load();
    while (existing == nullptr || existing->origin.is_parent()) {
      auto fresh = std::make_unique<Made>();
      if (current_.compare_exchange_strong(existing, fresh.get())) existing = fresh.release();
    }
    return existing->value;
  }

 private:
  struct Made {
    const Origin origin{};
    T value;
  };

  std::atomic<Made*> current_{nullptr};
};

}  // namespace hflush::env
