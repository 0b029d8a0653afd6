// CredentialStore: the newest credentials of a client, and who waits for newer ones.
//
// Whoever knows how to get credentials (Python) sets them; every attempt of a call is signed with
// the newest. Generations count from 1. Thread-safe; callbacks run on the thread that sets, without
// a lock, and may call the store.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "hflush/base/mutex.h"
#include "hflush/base/status.h"
#include "hflush/env/clock.h"
#include "hflush/env/interrupt.h"
#include "hflush/s3/call/signer.h"

namespace hflush::s3 {

class CredentialStore {
 public:
  struct Current {
    Credentials credentials;
    std::uint64_t generation = 0;
  };
  // 0 is none.
  using WaiterId = std::uint64_t;

  explicit CredentialStore(Credentials first);

  Current current() const;
  // Newer ones: everybody who waits for a newer generation is told.
  void set(Credentials credentials);

  // The store refused `generation` as expired: wanted() is true until there are newer ones. `told`
  // runs once there are, at once if there are already (then 0 is returned).
  WaiterId want_newer_than(std::uint64_t generation, std::function<void()> told);
  // `told` is not run any more, unless it is running now.
  void stop_waiting(WaiterId waiter);
  // Waits until newer ones are wanted, for whoever gets them. False after `timeout` or an
  // interruption.
  bool wait_until_wanted(env::Duration timeout, env::Interrupt& interrupt);

 private:
  struct Waiter {
    WaiterId id;
    std::uint64_t newer_than;
    std::function<void()> told;
  };

  // What a waiter that can be told now has to run; empty without one.
  std::function<void()> take_waiter();

  mutable Mutex mutex_;
  CondVar wanted_changed_;
  Current current_ HFLUSH_GUARDED_BY(mutex_);
  bool wanted_ HFLUSH_GUARDED_BY(mutex_) = false;
  WaiterId last_waiter_ HFLUSH_GUARDED_BY(mutex_) = 0;
  std::vector<Waiter> waiters_ HFLUSH_GUARDED_BY(mutex_);
};

}  // namespace hflush::s3
