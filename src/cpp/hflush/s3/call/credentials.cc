#include "hflush/s3/call/credentials.h"

#include <algorithm>
#include <utility>

namespace hflush::s3 {

CredentialStore::CredentialStore(Credentials first) : current_{std::move(first), 1} {}

CredentialStore::Current CredentialStore::current() const {
  MutexLock lock(mutex_);
  return current_;
}

void CredentialStore::set(Credentials credentials) {
  {
    MutexLock lock(mutex_);
    current_.credentials = std::move(credentials);
    ++current_.generation;
    wanted_ = false;
  }
  // One at a time: whoever is stopped meanwhile is not told.
  while (const std::function<void()> told = take_waiter()) told();
}

std::function<void()> CredentialStore::take_waiter() {
  MutexLock lock(mutex_);
  const auto found =
      std::ranges::find_if(waiters_, [generation = current_.generation](const Waiter& waiter) {
        return waiter.newer_than < generation;
      });
  if (found == waiters_.end()) return {};
  std::function<void()> told = std::move(found->told);
  waiters_.erase(found);
  return told;
}

CredentialStore::WaiterId CredentialStore::want_newer_than(std::uint64_t generation,
                                                           std::function<void()> told) {
  {
    MutexLock lock(mutex_);
    if (current_.generation <= generation) {
      wanted_ = true;
      wanted_changed_.notify_all();
      waiters_.push_back({++last_waiter_, generation, std::move(told)});
      return last_waiter_;
    }
  }
  told();
  return 0;
}

void CredentialStore::stop_waiting(WaiterId waiter) {
  std::function<void()> dropped;  // what it holds is let go without the lock
  MutexLock lock(mutex_);
  const auto found =
      std::ranges::find_if(waiters_, [waiter](const Waiter& one) { return one.id == waiter; });
  if (found == waiters_.end()) return;
  dropped = std::move(found->told);
  waiters_.erase(found);
}

bool CredentialStore::wait_until_wanted(env::Duration timeout, env::Interrupt& interrupt) {
  const auto deadline = env::deadline_after(CondVar::Clock::now(), timeout);
  MutexLock lock(mutex_);
  for (;;) {
    if (wanted_) return true;
    const auto now = CondVar::Clock::now();
    if (now >= deadline) return false;
    if (now >= interrupt.next_check()) {
      const MutexUnlock unlock(mutex_);
      if (!interrupt.check_now().ok()) return false;
      continue;
    }
    wanted_changed_.wait_until(mutex_, std::min(deadline, interrupt.next_check()));
  }
}

}  // namespace hflush::s3
