// CredentialStore: the newest credentials of a client, and the calls that wait for newer ones.
//
// Credentials are set from outside (by Python); every attempt of a call is signed with the newest.
// Generations count from 1. Thread-safe; callbacks run on the thread that sets, without a lock, and
// may call the store. A callback that throws std::bad_alloc has done nothing; the others run.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "hflush/base/mutex.h"
#include "hflush/env/clock.h"
#include "hflush/env/interrupt.h"
#include "hflush/env/loop_cond_var.h"
#include "hflush/s3/call/signer.h"

namespace hflush::s3 {

class CredentialStore {
 public:
  struct Current {
    Credentials credentials;
    std::uint64_t generation = 0;
  };
  // 0 is none.
  using WantId = std::uint64_t;

  explicit CredentialStore(Credentials first);

  Current current() const;
  // Newer ones: runs the callbacks that wait for a newer generation. Throws std::bad_alloc, with
  // the credentials set, where one of these did.
  void set(Credentials credentials);

  // `generation` was refused as expired: newer ones are wanted until they are set. `on_newer` runs
  // then, or at once if they are set already (0 is returned).
  WantId want_newer_than(std::uint64_t generation, std::function<void()> on_newer);
  // `on_newer` is not run any more, unless it is running now.
  void stop_waiting(WantId want);
  // Waits until newer ones are wanted. False after `timeout` or an interruption.
  bool wait_until_wanted(env::Duration timeout, env::Interrupt& interrupt);

 private:
  struct Want {
    WantId id;
    std::uint64_t newer_than;
    std::function<void()> on_newer;
  };

  // The callback of a want that is met; empty if there is none.
  std::function<void()> take_met();

  // Never held across the function of a call that waits.
  mutable Mutex mutex_;
  env::LoopCondVar wanted_changed_;
  Current current_ HFLUSH_GUARDED_BY(mutex_);
  bool wanted_ HFLUSH_GUARDED_BY(mutex_) = false;
  WantId last_want_ HFLUSH_GUARDED_BY(mutex_) = 0;
  std::vector<Want> wants_ HFLUSH_GUARDED_BY(mutex_);
};

}  // namespace hflush::s3
