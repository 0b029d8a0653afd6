// For the threads of this library. BlockedSignals: no signal reaches this thread, nor a thread that
// it starts, for the length of a scope. Signals are for the interpreter's threads, so this library
// starts its threads inside such a scope.
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
  // Those that were blocked before.
  const sigset_t& previous() const noexcept { return previous_; }
  BlockedSignals(const BlockedSignals&) = delete;
  BlockedSignals& operator=(const BlockedSignals&) = delete;

 private:
  sigset_t previous_;
};

// NoBrokenPipe: takes away a SIGPIPE that this scope has caused, before signals are unblocked. For
// a thread of the program that does this library's work. Requires: signals are blocked.
class NoBrokenPipe {
 public:
  NoBrokenPipe() noexcept {
    struct sigaction action{};
    is_deadly_ = ::sigaction(SIGPIPE, nullptr, &action) != 0 || action.sa_handler != SIG_IGN;
    if (is_deadly_) was_pending_ = is_pending();
  }
  ~NoBrokenPipe() {
    if (!is_deadly_ || was_pending_ || !is_pending()) return;
    sigset_t pipe;
    sigemptyset(&pipe);
    sigaddset(&pipe, SIGPIPE);
    constexpr timespec kNow{};
    sigtimedwait(&pipe, nullptr, &kNow);
  }
  NoBrokenPipe(const NoBrokenPipe&) = delete;
  NoBrokenPipe& operator=(const NoBrokenPipe&) = delete;

 private:
  static bool is_pending() noexcept {
    sigset_t pending;
    return sigpending(&pending) == 0 && sigismember(&pending, SIGPIPE) == 1;
  }

  bool is_deadly_ = false;
  bool was_pending_ = false;
};

}  // namespace hflush::env
