// LoopTurns: which thread runs an event loop: the loop's own, or a guest that waits for its work.
//
// Guests that come alone and soon after each other run the loop themselves, while its own thread
// rests: no thread is woken for a request, nor for its answer. The thread is called from its rest
// when there is work that no guest waits for, and it looks after each kRest whether guests still
// come.
//
//            called    left               takes    gave_back   looks
//  kThread   -         wakes it to rest¹  no       .           kNobody¹, or kThread
//  kNobody   kCalled   kCalled²           kGuest   .           kNobody³, or kThread
//  kCalled   -         -                  no       .           kThread
//  kGuest    -         -                  no       kNobody     kGuest
//
// "-": nothing; ".": does not happen. called: something was posted, becomes due within kRest, or is
// under way on a socket, and not by a guest. ¹ if there is no guest, no task and nothing under way,
// the last guest left within kRest and within kRest of the one before, and no two were there at
// once within kRest. ² if there is another guest, a task, something under way, or a timer due
// within kRest. ³ if a guest took the turn since the last look, and there is no task, no timer that
// is due and nothing under way.
//
// Pure: the time comes in, decisions go out. Thread-compatible: the loop's mutex guards it.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

#include "hflush/env/clock.h"

namespace hflush::env {

class LoopTurns {
 public:
  // Whose turn it is to run tasks, timers and handlers, and to wait for them. In kCalled it is
  // no thread's either, but the loop's own is about to take it.
  enum class Turn : std::uint8_t { kThread, kNobody, kCalled, kGuest };
  // What the loop's own thread has to be woken for.
  enum class Wake : std::uint8_t { kNot, kFromRest, kToRest };

  static constexpr Duration kRest = std::chrono::milliseconds(10);

  Turn turn() const noexcept { return turn_; }

  // A guest.
  void entered(TimePoint now) noexcept;
  Wake left(TimePoint now, bool has_tasks, TimePoint next_due) noexcept;
  // Whether the turn is the guest's now; then gave_back() has to follow.
  bool takes() noexcept;
  void gave_back() noexcept { turn_ = Turn::kNobody; }

  // Work for the loop; true: its own thread has to be woken from its rest for it.
  bool called() noexcept;
  bool posted(bool by_guest) noexcept { return !by_guest && called(); }
  bool due(TimePoint when, TimePoint now, bool by_guest) noexcept {
    return !by_guest && when < now + kRest && called();
  }
  // Something is under way on one more socket, or on one less.
  bool busy(bool by_guest) noexcept {
    ++busy_;
    return !by_guest && called();
  }
  void idle() noexcept { --busy_; }

  // The loop's own thread, in its turn: whether it rests now.
  bool rests(TimePoint now, bool has_tasks) noexcept;
  // It looks, after kRest or when it was woken: whether it goes on resting; if not, the turn is its
  // own. `has_work`: a task, or a timer that is due.
  bool goes_on_resting(bool has_work) noexcept;

 private:
  bool may_rest(TimePoint now, bool has_tasks) const noexcept;

  Turn turn_ = Turn::kThread;
  bool has_guest_come_ = false;  // and taken the turn, since the last look
  std::size_t guests_ = 0;       // at present
  std::size_t busy_ = 0;         // sockets on which something is under way
  TimePoint last_left_;
  TimePoint last_crowd_;              // when there was more than one guest
  Duration pause_ = Duration::max();  // between the last two that left
};

}  // namespace hflush::env
