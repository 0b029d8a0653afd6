#include "hflush/s3/call/credentials.h"

#include <algorithm>
#include <new>
#include <utility>

#include "hflush/env/answer.h"

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
  // One at a time: a callback may stop another one's wait.
  bool lacked_memory = false;
  while (const std::function<void()> on_newer = take_met()) {
    try {
      on_newer();
    } catch (const std::bad_alloc&) {  // its call waits until its time is over
      lacked_memory = true;
    }
  }
  if (lacked_memory) throw std::bad_alloc();
}

std::function<void()> CredentialStore::take_met() {
  MutexLock lock(mutex_);
  const auto met =
      std::ranges::find_if(wants_, [generation = current_.generation](const Want& want) {
        return want.newer_than < generation;
      });
  if (met == wants_.end()) return {};
  std::function<void()> on_newer = std::move(met->on_newer);
  wants_.erase(met);
  return on_newer;
}

CredentialStore::WantId CredentialStore::want_newer_than(std::uint64_t generation,
                                                         std::function<void()> on_newer) {
  {
    MutexLock lock(mutex_);
    if (current_.generation <= generation) {
      wanted_ = true;
      wanted_changed_.notify_all();
      wants_.push_back({++last_want_, generation, std::move(on_newer)});
      return last_want_;
    }
  }
  on_newer();
  return 0;
}

void CredentialStore::stop_waiting(WantId want) {
  std::function<void()> dropped;  // destroyed without the lock
  MutexLock lock(mutex_);
  const auto found = std::ranges::find(wants_, want, &Want::id);
  if (found == wants_.end()) return;
  dropped = std::move(found->on_newer);
  wants_.erase(found);
  if (wants_.empty()) wanted_ = false;
}

bool CredentialStore::wait_until_wanted(env::Duration timeout, env::Interrupt& interrupt) {
  const auto deadline = env::deadline_after(CondVar::Clock::now(), timeout);
  MutexLock lock(mutex_);
  while (!wanted_) {
    if (!env::wait_until(mutex_, wanted_changed_, deadline, interrupt).ok()) return false;
  }
  return true;
}

}  // namespace hflush::s3
