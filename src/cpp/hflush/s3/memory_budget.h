// MemoryBudget: how much memory all streams and readers of a process may hold together.
//
// Each has a share. A stream or reader holds the memory without which it could not go on without
// asking (hold()), so that each goes on however many there are; it asks for memory that makes it
// faster (try_hold()). Shares that are refused stand in line, and returned memory goes to them in
// that order: none starves.
//
// Thread-safe. `on_room` is called without a lock.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>

#include "hflush/base/mutex.h"

namespace hflush::s3 {

class MemoryBudget {
 public:
  class Share;

  explicit MemoryBudget(std::uint64_t total) noexcept : total_(total) {}
  MemoryBudget(const MemoryBudget&) = delete;
  MemoryBudget& operator=(const MemoryBudget&) = delete;

  // The budget of this process; a forked child has its own, of the same size.
  static MemoryBudget& of_process();
  // Limits the process, and later children, to the least that was passed here; before the first
  // call to 512 MiB or an eighth of what the process may use. Returns the limit that holds now.
  static std::uint64_t limit_process_to(std::uint64_t bytes);

  std::uint64_t total() const HFLUSH_EXCLUDES(mutex_);
  std::uint64_t held() const HFLUSH_EXCLUDES(mutex_);

 private:
  void set_total(std::uint64_t bytes) HFLUSH_EXCLUDES(mutex_);
  void hold(Share& share, std::uint64_t bytes) HFLUSH_EXCLUDES(mutex_);
  bool try_hold(Share& share, std::uint64_t bytes, bool waits) HFLUSH_EXCLUDES(mutex_);
  // Whether memory is now free for the shares in line.
  bool hold_locked(Share& share, std::uint64_t bytes) noexcept HFLUSH_REQUIRES(mutex_);
  void leave(Share& share) noexcept HFLUSH_EXCLUDES(mutex_);
  void serve() HFLUSH_EXCLUDES(mutex_);
  Share* first_served_locked() HFLUSH_REQUIRES(mutex_);

  // Innermost. Never held across `on_room`.
  mutable Mutex mutex_;
  std::uint64_t total_ HFLUSH_GUARDED_BY(mutex_);
  std::uint64_t held_ HFLUSH_GUARDED_BY(mutex_) = 0;
  std::deque<Share*> line_ HFLUSH_GUARDED_BY(mutex_);
};

// One stream's or reader's part. Its calls are serialised by its owner.
class MemoryBudget::Share {
 public:
  // `on_room` is called on any thread when memory that was refused is held, so that try_hold()
  // succeeds. It may be called after the share has ended.
  explicit Share(MemoryBudget& budget, std::function<void()> on_room = {})
      : budget_(budget),
        on_room_(std::make_shared<const std::function<void()>>(std::move(on_room))) {}
  ~Share() { budget_.leave(*this); }
  Share(const Share&) = delete;
  Share& operator=(const Share&) = delete;

  // Holds exactly `bytes`, whatever the others have. Memory held beyond that goes to those in line.
  void hold(std::uint64_t bytes) { budget_.hold(*this, bytes); }
  // The same if the budget has room; otherwise nothing changes, and a share that waits is in line.
  bool try_hold(std::uint64_t bytes, bool waits) { return budget_.try_hold(*this, bytes, waits); }

 private:
  friend class MemoryBudget;

  MemoryBudget& budget_;
  const std::shared_ptr<const std::function<void()>> on_room_;
  // Guarded by the budget's mutex.
  std::uint64_t held_ = 0;
  std::uint64_t wanted_ = 0;  // in line
  bool in_line_ = false;
};

}  // namespace hflush::s3
