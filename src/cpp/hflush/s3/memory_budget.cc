#include "hflush/s3/memory_budget.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "hflush/env/control_groups.h"
#include "hflush/env/own_process.h"

namespace hflush::s3 {
namespace {

constexpr std::uint64_t kUsual = std::uint64_t{512} << 20U;
constexpr std::uint64_t kNobodyAsked = UINT64_MAX;

std::atomic<std::uint64_t> asked{kNobodyAsked};

std::uint64_t usual_total() { return std::min(kUsual, env::usable_memory() / 8); }

}  // namespace

MemoryBudget& MemoryBudget::of_process() {
  struct Holder {
    MemoryBudget budget{asked == kNobodyAsked ? usual_total() : asked.load()};
  };
  static env::PerProcess<Holder> holder;
  return holder.get().budget;
}

std::uint64_t MemoryBudget::limit_process_to(std::uint64_t bytes) {
  std::uint64_t least = asked.load();
  while (bytes < least && !asked.compare_exchange_weak(least, bytes)) {
  }
  least = asked.load();
  of_process().set_total(least);
  return least;
}

std::uint64_t MemoryBudget::total() const {
  const MutexLock lock(mutex_);
  return total_;
}

std::uint64_t MemoryBudget::held() const {
  const MutexLock lock(mutex_);
  return held_;
}

void MemoryBudget::set_total(std::uint64_t bytes) {
  {
    const MutexLock lock(mutex_);
    total_ = bytes;
  }
  serve();
}

void MemoryBudget::hold(Share& share, std::uint64_t bytes) {
  bool gives_back = false;
  {
    const MutexLock lock(mutex_);
    gives_back = hold_locked(share, bytes);
  }
  if (gives_back) serve();
}

bool MemoryBudget::hold_locked(Share& share, std::uint64_t bytes) noexcept {
  const bool gives_back = bytes < share.held_ && !line_.empty();
  held_ = held_ - share.held_ + bytes;
  share.held_ = bytes;
  return gives_back;
}

bool MemoryBudget::try_hold(Share& share, std::uint64_t bytes, bool waits) {
  bool gives_back = false;
  {
    const MutexLock lock(mutex_);
    if (bytes > share.held_) {
      const std::uint64_t more = bytes - share.held_;
      if (share.in_line_ || !line_.empty() || held_ > total_ || more > total_ - held_) {
        share.wanted_ = bytes;
        if (waits && !share.in_line_ && bytes <= total_) {
          line_.push_back(&share);
          share.in_line_ = true;
        }
        return false;
      }
    }
    gives_back = hold_locked(share, bytes);
  }
  if (gives_back) serve();
  return true;
}

void MemoryBudget::leave(Share& share) noexcept {
  {
    const MutexLock lock(mutex_);
    held_ -= std::exchange(share.held_, 0);
    if (share.in_line_) std::erase(line_, &share);
    if (line_.empty()) return;
  }
  serve();
}

// Gives what is free to those in line.
void MemoryBudget::serve() {
  while (true) {
    std::shared_ptr<const std::function<void()>> on_room;
    {
      const MutexLock lock(mutex_);
      const Share* const served = first_served_locked();
      if (served == nullptr) return;
      on_room = served->on_room_;
    }
    if (*on_room) (*on_room)();
  }
}

MemoryBudget::Share* MemoryBudget::first_served_locked() {
  // The budget may have become less.
  while (!line_.empty() && line_.front()->wanted_ > total_) {
    line_.front()->in_line_ = false;
    line_.pop_front();
  }
  if (line_.empty()) return nullptr;
  Share& first = *line_.front();
  const std::uint64_t more = first.wanted_ - std::min(first.wanted_, first.held_);
  if (more > 0 && (held_ > total_ || more > total_ - held_)) return nullptr;
  line_.pop_front();
  first.in_line_ = false;
  first.held_ += more;
  held_ += more;
  return &first;
}

}  // namespace hflush::s3
