// EventLoop: one thread at a time that runs tasks, timers and the events of connections, for all
// streams of a process. Where the core writes to HDFS it reaches time, threads and connections
// through it alone: EpollLoop (epoll_loop.h) is the machine's, and a simulation has its own
// (docs/architecture.md).
//
// Thread-safe: every function may be called from any thread, also from the loop's own. Tasks,
// timers and handlers run on the loop thread, one at a time, and never throw or block: what blocks
// belongs to an Executor.
//
// A thread that waits for the loop's work may do that work itself: as a Guest, which waits with
// a LoopCondVar. In a guest's turn its thread is the loop thread, and no thread has to be woken for
// a request or for its answer. What a guest waits for on a connection of its own is an Errand: no
// loop takes part, however many threads do so at once.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "hflush/base/status.h"
#include "hflush/env/clock.h"
#include "hflush/env/executor.h"
#include "hflush/env/tcp_connection.h"

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

  // What a guest waits for by itself: a descriptor that concerns no other thread. Belongs to the
  // guest's thread until leave_to_loop(), which ends that: where the guest leaves, or has asked the
  // loop for something else. Nothing here is called in a forked child.
  class Errand {
   public:
    struct Wanted {
      int descriptor = -1;  // -1: it is over
      Interest interest = Interest::kNone;
      TimePoint due;  // carry_on() by then whatever comes
    };
    virtual ~Errand() = default;
    virtual Wanted wanted() const noexcept = 0;
    virtual void carry_on() noexcept = 0;
    virtual void leave_to_loop() noexcept = 0;
  };
  using Errands = std::vector<std::shared_ptr<Errand>>;

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
    friend class EventLoop;

    void leave_errands() noexcept;

    EventLoop* loop_ = nullptr;  // none if it has no guests, or the thread is one already
    Guest* const before_;        // the one that is the thread's again
    bool has_asked_ = false;     // the loop for something
    Errands errands_;
  };

  virtual ~EventLoop() = default;
  EventLoop(const EventLoop&) = delete;
  EventLoop& operator=(const EventLoop&) = delete;

  // Starts what runs the loop now, for callers that can report a failure (kIo with errno).
  // Idempotent.
  virtual Status start() = 0;

  // Runs `task` on the loop thread, after the tasks that were posted before.
  virtual void post(Task task) = 0;
  // Runs `task` on the loop thread, never before its time. Timers due at one time run in the order
  // in which they were made. 0 after stop().
  virtual TimerId run_at(TimePoint when, Task task) = 0;
  TimerId run_after(Duration delay, Task task) {
    return run_at(deadline_after(clock_.now(), delay), std::move(task));
  }
  // The task will not start any more, unless it is running now on the loop thread.
  virtual void cancel(TimerId timer) = 0;

  // A connection whose events come on the loop thread. Starts at once; never calls `events` before
  // it returns. The connection keeps `events` alive until close() or on_connect_failed(). Nothing
  // is ever reported if the loop does not run: call start() before the first one. The loop outlives
  // what `resolver` runs.
  virtual std::shared_ptr<TcpConnection> connect(Executor& resolver, Endpoint endpoint,
                                                 TcpConnection::Options options,
                                                 std::shared_ptr<TcpConnection::Events> events) = 0;

  // Level-triggered. The loop keeps `handler` alive until unwatch(). Requires: `descriptor` is not
  // watched.
  virtual Status watch(int descriptor, Interest interest, std::shared_ptr<Handler> handler) = 0;
  // No effect on what is not watched.
  virtual void change(int descriptor, Interest interest) = 0;
  // Call before closing the descriptor: a forked child that shares it would keep it watched.
  virtual void unwatch(int descriptor) = 0;

  // Whether this thread is a guest that can have errands, has asked the loop for nothing yet, and
  // does not run it now: what is asked for in its turn may be anybody's.
  bool takes_errands() const noexcept;
  // Requires: takes_errands(). Throws std::bad_alloc before anything has happened.
  void add_errand(std::shared_ptr<Errand> errand) const;

  // Whether the last guest that looked for an answer before it would sleep has found it. A guess.
  virtual bool answers_at_once() const noexcept { return false; }

  virtual bool on_loop_thread() const noexcept = 0;
  const Clock& clock() const noexcept { return clock_; }
  // What has not run is dropped, and so is all that comes later. On any other thread than the
  // loop's, nothing runs any more after it. Idempotent.
  virtual void stop() = 0;

 protected:
  explicit EventLoop(const Clock& clock) noexcept : clock_(clock) {}

  // Whether this thread is a guest; then it has asked for something.
  bool by_guest() const noexcept;

 private:
  friend class LoopCondVar;

  // For LoopCondVar. Waits for this guest's errands and carries them on, once; or leaves them to
  // the loop. Requires: has_errands().
  void run_errands(TimePoint deadline) noexcept;
  bool has_errands() const noexcept;
  // False: guests of this loop have none, or had them before a fork.
  virtual bool waits_for_errands() const noexcept { return false; }
  virtual void wait_for_errands(Errands& /*errands*/, TimePoint /*deadline*/) noexcept {}
  // A guest, as long as it lives. False: this loop has no guests, and leave() does not follow.
  virtual bool enter() = 0;
  virtual void leave() = 0;
  // For LoopCondVar. Whether it is this thread's turn now; then run_turn() has to follow.
  virtual bool take_turn() = 0;
  // Does what there is to do, waiting for it until `deadline`, unless `notified`. Without memory
  // for it the process ends, as on the loop's own thread.
  virtual void run_turn(TimePoint deadline, const std::atomic<bool>& notified) noexcept = 0;
  // A thread whose turn it may be has been notified.
  virtual void nudge() = 0;

  const Clock& clock_;
};

}  // namespace hflush::env
