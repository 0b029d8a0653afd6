// pause(): a wait for nothing but time.
#pragma once

#include <algorithm>
#include <thread>

#include "hflush/base/mutex.h"
#include "hflush/base/status.h"
#include "hflush/env/clock.h"
#include "hflush/env/interrupt.h"

namespace hflush::hdfs {

// Returns after `duration`, or with the failure of `interrupt`. Holds no lock.
inline Status pause(env::Duration duration, env::Interrupt& interrupt) {
  const auto end = CondVar::Clock::now() + duration;
  while (true) {
    const auto now = CondVar::Clock::now();
    if (now >= end) return {};
    if (now >= interrupt.next_check()) HFLUSH_RETURN_IF_ERROR(interrupt.check_now());
    std::this_thread::sleep_until(std::min(end, interrupt.next_check()));
  }
}

}  // namespace hflush::hdfs
