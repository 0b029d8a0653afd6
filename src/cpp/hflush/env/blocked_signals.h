// BlockedSignals: no signal reaches this thread, nor a thread that it starts, for the length of a
// scope. Signals are for the interpreter's threads: ours are started inside one of these.
#pragma once

#include <signal.h>

namespace hflush::env {

class BlockedSignals {
 public:
  BlockedSignals() noexcept {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &previous_);
  }
  ~BlockedSignals() { pthread_sigmask(SIG_SETMASK, &previous_, nullptr); }
  BlockedSignals(const BlockedSignals&) = delete;
  BlockedSignals& operator=(const BlockedSignals&) = delete;

 private:
  sigset_t previous_;
};

}  // namespace hflush::env
