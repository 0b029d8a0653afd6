// MemoryBudget: how much memory all streams and readers of a process may hold together.
//
// Each has a share. What one needs to go on at all it holds without asking (hold()), so that
// however many there are, each moves; what makes it faster it asks for (try_hold()). Those who are
// refused stand in line, and what others give back goes to them in that order: none starves.
//
// Thread-safe. Its mutex is taken under any other and held across nothing; `on_room` is called
// without it.
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

  // That of this process; a forked child has one of its own, of the same size.
  static MemoryBudget& of_process();
  // Of the process, and of children to come: the least that anybody has asked for, or, until then,
  // 512 MiB or an eighth of the machine's memory. Returns what holds now.
  static std::uint64_t limit_process_to(std::uint64_t bytes);

  std::uint64_t total() const HFLUSH_EXCLUDES(mutex_);
  std::uint64_t held() const HFLUSH_EXCLUDES(mutex_);

 private:
  void set_total(std::uint64_t bytes) HFLUSH_EXCLUDES(mutex_);
  void hold(Share& share, std::uint64_t bytes) HFLUSH_EXCLUDES(mutex_);
  bool try_hold(Share& share, std::uint64_t bytes, bool waits) HFLUSH_EXCLUDES(mutex_);
  // Whether there is now something for those in line.
  bool hold_locked(Share& share, std::uint64_t bytes) noexcept HFLUSH_REQUIRES(mutex_);
  void leave(Share& share) noexcept HFLUSH_EXCLUDES(mutex_);
  void serve() HFLUSH_EXCLUDES(mutex_);
  Share* first_served_locked() HFLUSH_REQUIRES(mutex_);

  // Before the loop's: a caller that gets more hears of it from a task of the loop.
  mutable Mutex mutex_;
  std::uint64_t total_ HFLUSH_GUARDED_BY(mutex_);
  std::uint64_t held_ HFLUSH_GUARDED_BY(mutex_) = 0;
  std::deque<Share*> line_ HFLUSH_GUARDED_BY(mutex_);
};

// One stream's or reader's part. Its calls are serialised by its owner.
class MemoryBudget::Share {
 public:
  // `on_room`, on any thread: what was asked for in vain is held now, and try_hold() succeeds. It
  // may come when the share has ended.
  explicit Share(MemoryBudget& budget, std::function<void()> on_room = {})
      : budget_(budget),
        on_room_(std::make_shared<const std::function<void()>>(std::move(on_room))) {}
  ~Share() { budget_.leave(*this); }
  Share(const Share&) = delete;
  Share& operator=(const Share&) = delete;

  // Just so much, whatever the others have. What was held beyond goes to those in line.
  void hold(std::uint64_t bytes) { budget_.hold(*this, bytes); }
  // The same if there is room for it; else nothing changes, and one that waits is in line.
  bool try_hold(std::uint64_t bytes, bool waits) { return budget_.try_hold(*this, bytes, waits); }

 private:
  friend class MemoryBudget;

  MemoryBudget& budget_;
  const std::shared_ptr<const std::function<void()>> on_room_;
  // The budget's, under its mutex.
  std::uint64_t held_ = 0;
  std::uint64_t wanted_ = 0;  // in line
  bool in_line_ = false;
};

}  // namespace hflush::s3
