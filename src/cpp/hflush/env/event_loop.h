// EventLoop: one thread that waits for sockets, timers and tasks, for all streams of a process.
//
// Thread-safe: every function may be called from any thread, also from the loop's own. Tasks,
// timers and handlers run on the loop thread, one at a time, and never throw or block: what blocks
// belongs to an Executor. The thread starts with the first thing to do; if the system has no thread
// or descriptor for it, start() and watch() say so, and the rest waits for the next attempt. In a
// forked child, which gets a loop of its own (process.h), every function does nothing: start() and
// watch() answer kForked. There it is never destroyed.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "hflush/base/status.h"
#include "hflush/env/clock.h"

namespace hflush::env {

class EventLoop {
 public:
  using Task = std::function<void()>;

  // Told when a watched descriptor can be read or written, or has failed or been hung up (then both
  // are set, whatever the interest). May still be called once after unwatch() returned on another
  // thread.
  class Handler {
   public:
    virtual ~Handler() = default;
    virtual void on_ready(bool readable, bool writable) = 0;
  };

  // kNone: not told even of failures.
  enum class Interest : std::uint8_t { kNone = 0, kRead = 1, kWrite = 2, kReadAndWrite = 3 };
  // 0 is no timer.
  using TimerId = std::uint64_t;

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
  class Impl;
  const std::unique_ptr<Impl> impl_;
};

}  // namespace hflush::env
