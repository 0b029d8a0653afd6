// EventLoop: one thread that waits for sockets, timers and tasks, for all streams of a process.
//
// Thread-safe: every function may be called from any thread, also from the loop's own. Tasks,
// timers and handlers run on the loop thread, one at a time, and never throw or block: what blocks
// belongs to an Executor. The thread starts with the first thing to do; if the system has no thread
// or descriptor for it, start() and watch() say so, and the rest waits for the next attempt. In a
// forked child, which gets a loop of its own (process.h), every function does nothing: start() and
// watch() answer kForked. There it is never destroyed.
//
// A thread that waits for the loop's work may do that work meanwhile: as a Guest, which waits with
// a LoopCondVar. In a guest's turn its thread is the loop thread, and no thread has to be woken for
// a request or for its answer. loop_turns.h decides whose turn it is.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>

#include "hflush/base/status.h"
#include "hflush/env/clock.h"

namespace hflush::env {

class EventLoop {
 public:
  using Task = std::function<void()>;

  // Called when a watched descriptor can be read or written, or has failed or been hung up (then
  // both are set, whatever the interest). May still be called once after unwatch() returned on
  // another thread.
  class Handler {
   public:
    virtual ~Handler() = default;
    virtual void on_ready(bool readable, bool writable) = 0;
    // Whether what can be read may lie for up to 20 ms unless a guest waits for it.
    // Constant.
    virtual bool is_patient() const noexcept = 0;
  };

  // kNone: failures are not reported either.
  enum class Interest : std::uint8_t { kNone = 0, kRead = 1, kWrite = 2, kReadAndWrite = 3 };
  // 0 is not a timer.
  using TimerId = std::uint64_t;

  // For the length of a call that asks the loop for something and then waits for it: what the
  // calling thread posts may wait until it waits itself. Guests of a thread may nest.
  class Guest {
   public:
    // Null: no effect. `loop` outlives it.
    explicit Guest(EventLoop* loop) noexcept;
    ~Guest();
    Guest(const Guest&) = delete;
    Guest& operator=(const Guest&) = delete;

   private:
    EventLoop* loop_ = nullptr;  // none if the thread is its guest already
    const void* const before_;   // whose guest it was
  };

  explicit EventLoop(const Clock& clock);
  ~EventLoop();
  EventLoop(const EventLoop&) = delete;
  EventLoop& operator=(const EventLoop&) = delete;

  // Starts the thread now, for callers that can report a failure (kIo with errno). Idempotent.
  Status start();

  // Runs `task` on the loop thread, after the tasks that were posted before.
  void post(Task task);
  // Runs `task` on the loop thread, never before its time. Timers due at one time run in the order
  // in which they were made. 0 after stop().
  TimerId run_at(TimePoint when, Task task);
  TimerId run_after(Duration delay, Task task);
  // The task will not start any more, unless it is running now on the loop thread.
  void cancel(TimerId timer);

  // Level-triggered. The loop keeps `handler` alive until unwatch(). Requires: `descriptor` is not
  // watched.
  Status watch(int descriptor, Interest interest, std::shared_ptr<Handler> handler);
  // No effect on what is not watched.
  void change(int descriptor, Interest interest);
  // Call before closing the descriptor: a forked child that shares it would keep it watched.
  void unwatch(int descriptor);

  bool on_loop_thread() const noexcept;
  const Clock& clock() const noexcept;
  // Joins the thread (unless called on it); what has not run is dropped, and so is all that comes
  // later. Idempotent.
  void stop();

 private:
  friend class LoopCondVar;
  class Impl;

  // For LoopCondVar. Whether it is this thread's turn now; then run_turn() has to follow.
  bool take_turn();
  // Does what there is to do, waiting for it until `deadline`, unless `notified`. Without memory
  // for it the process ends, as on the loop's own thread.
  void run_turn(TimePoint deadline, const std::atomic<bool>& notified) noexcept;
  // A thread whose turn it may be has been notified.
  void nudge();

  const std::unique_ptr<Impl> impl_;
};

}  // namespace hflush::env
