// For threads that do work of ours. BlockedSignals: no signal reaches this thread, nor a thread
// that it starts, for the length of a scope. Signals are for the interpreter's threads: ours are
// started inside one of these.
#pragma once

#include <signal.h>

#include <ctime>

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

// NoBrokenPipe: nor does SIGPIPE come of what a thread of the program's does for us, if the program
// wants to die of it.
class NoBrokenPipe {
 public:
  NoBrokenPipe() noexcept {
    struct sigaction action{};
    is_needed_ = ::sigaction(SIGPIPE, nullptr, &action) != 0 || action.sa_handler != SIG_IGN;
    if (!is_needed_) return;
    sigemptyset(&pipe_);
    sigaddset(&pipe_, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &pipe_, &previous_);
    was_pending_ = is_pending();
  }
  ~NoBrokenPipe() {
    if (!is_needed_) return;
    constexpr timespec kNow{};
    if (!was_pending_ && is_pending()) sigtimedwait(&pipe_, nullptr, &kNow);
    pthread_sigmask(SIG_SETMASK, &previous_, nullptr);
  }
  NoBrokenPipe(const NoBrokenPipe&) = delete;
  NoBrokenPipe& operator=(const NoBrokenPipe&) = delete;

 private:
  static bool is_pending() noexcept {
    sigset_t pending;
    return sigpending(&pending) == 0 && sigismember(&pending, SIGPIPE) == 1;
  }

  bool is_needed_ = false;
  bool was_pending_ = false;
  sigset_t pipe_;
  sigset_t previous_;
};

}  // namespace hflush::env
