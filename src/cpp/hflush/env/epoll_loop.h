// EpollLoop: the event loop of the machine: a thread that waits for sockets, timers and tasks.
//
// The thread starts with the first thing to do; if the system refuses a thread or descriptor,
// start() and watch() say so, and the rest waits for the next attempt. loop_turns.h decides when a
// guest runs the loop instead. In a forked child, which gets a loop of its own (process.h), every
// function does nothing: start() and watch() answer kForked. There it is never destroyed.
// Thread-safe.
#pragma once

#include <signal.h>

#include <atomic>
#include <compare>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <thread>
#include <unordered_map>
#include <vector>

#include "hflush/base/mutex.h"
#include "hflush/env/event_loop.h"
#include "hflush/env/loop_turns.h"
#include "hflush/env/own_process.h"
#include "hflush/env/short_waits.h"

struct epoll_event;
struct pollfd;

namespace hflush::env {

class EpollLoop final : public EventLoop {
 public:
  // `processors`: that this process may use.
  explicit EpollLoop(const Clock& clock, unsigned processors = 1)
      : EventLoop(clock), short_waits_(processors) {}
  ~EpollLoop() override;

  Status start() override HFLUSH_EXCLUDES(mutex_);
  void post(Task task) override HFLUSH_EXCLUDES(mutex_);
  TimerId run_at(TimePoint when, Task task) override HFLUSH_EXCLUDES(mutex_);
  void cancel(TimerId timer) override HFLUSH_EXCLUDES(mutex_);
  // Over a socket of the machine: in tcp_connection.cc.
  std::shared_ptr<TcpConnection> connect(Executor& resolver, Endpoint endpoint,
                                         TcpConnection::Options options,
                                         std::shared_ptr<TcpConnection::Events> events) override;
  Status watch(int descriptor, Interest interest, std::shared_ptr<Handler> handler) override
      HFLUSH_EXCLUDES(mutex_);
  void change(int descriptor, Interest interest) override HFLUSH_EXCLUDES(mutex_);
  void unwatch(int descriptor) override HFLUSH_EXCLUDES(mutex_);
  bool answers_at_once() const noexcept override { return short_waits_.finds(); }
  bool on_loop_thread() const noexcept override;
  void stop() override HFLUSH_EXCLUDES(mutex_);

 private:
  enum class State : std::uint8_t { kNotStarted, kRunning, kStopped };
  using Turn = LoopTurns::Turn;

  // Timers by time, then by age.
  struct Due {
    TimePoint when;
    TimerId id;
    auto operator<=>(const Due&) const = default;
  };
  struct Watch {
    std::uint32_t serial;  // tells a descriptor number's watches apart
    Interest interest;
    std::shared_ptr<Handler> handler;

    // Whether something is under way that goes on without a guest that waits for it.
    bool is_busy() const noexcept {
      if (interest == Interest::kNone) return false;
      return interest != Interest::kRead || !handler->is_patient();
    }
  };

  bool enter() override HFLUSH_EXCLUDES(mutex_);
  void leave() override HFLUSH_EXCLUDES(mutex_);
  bool take_turn() override HFLUSH_EXCLUDES(mutex_);
  void run_turn(TimePoint deadline, const std::atomic<bool>& notified) noexcept override
      HFLUSH_EXCLUDES(mutex_);
  void nudge() override HFLUSH_EXCLUDES(mutex_);
  bool waits_for_errands() const noexcept override { return !origin_.is_parent(); }
  void wait_for_errands(Errands& errands, TimePoint deadline) noexcept override;
  int wait_for_any(std::span<pollfd> polled, TimePoint now, TimePoint until) noexcept;

  static std::uint64_t key(int descriptor, std::uint32_t serial) noexcept {
    return std::uint64_t{serial} << 32U | static_cast<std::uint32_t>(descriptor);
  }

  // In a forked child the mutex may be locked for ever, and epoll is shared with the parent: what
  // the child would change there, the parent would lose.

  Status start_locked() HFLUSH_REQUIRES(mutex_);
  Status open_locked() HFLUSH_REQUIRES(mutex_);
  TimePoint next_due_locked() const HFLUSH_REQUIRES(mutex_) {
    return timers_.empty() ? TimePoint::max() : timers_.begin()->first.when;
  }
  // Whether the loop sleeps beyond `when` and has to be woken by wake().
  bool must_wake_locked(TimePoint when) HFLUSH_REQUIRES(mutex_);
  void wake() const noexcept;
  // From its rest.
  void wake_thread_locked(bool needed) HFLUSH_REQUIRES(mutex_);
  int control_locked(int operation, int descriptor, const Watch& watch) const
      HFLUSH_REQUIRES(mutex_);
  // A watch begins, changes or ends.
  void count_busy_locked(bool was, bool is) HFLUSH_REQUIRES(mutex_);

  // The loop's own thread.
  void run();
  bool rest();

  // The loop thread, which is the one whose turn it is.
  bool run_tasks();  // false: stopped
  void run_timers();
  Task next_timer(TimePoint now, TimerId first_new);
  // `blocked`: the signals that are blocked while it waits; null: unchanged.
  void wait_and_dispatch(Duration at_most, const std::atomic<bool>* notified,
                         const sigset_t* blocked);
  Duration fall_asleep(const std::atomic<bool>* notified);
  void dispatch(const epoll_event& event);

  const Origin origin_;

  // Never held across a task, a timer or a handler.
  Mutex mutex_;
  State state_ HFLUSH_GUARDED_BY(mutex_) = State::kNotStarted;
  std::thread thread_ HFLUSH_GUARDED_BY(mutex_);
  // Made before the thread starts, constant from then on.
  int epoll_ = -1;
  int wake_ = -1;

  std::vector<Task> tasks_ HFLUSH_GUARDED_BY(mutex_);
  std::vector<Task> running_;  // the loop thread's; with tasks_ in turn, for its memory
  std::map<Due, Task> timers_ HFLUSH_GUARDED_BY(mutex_);
  std::unordered_map<TimerId, TimePoint> when_ HFLUSH_GUARDED_BY(mutex_);  // of each timer
  TimerId next_timer_ HFLUSH_GUARDED_BY(mutex_) = 1;
  std::unordered_map<int, Watch> watches_ HFLUSH_GUARDED_BY(mutex_);
  std::uint32_t next_serial_ HFLUSH_GUARDED_BY(mutex_) = 1;
  // When the loop will look at tasks and timers by itself; none while it is awake, or about to be.
  std::optional<TimePoint> asleep_until_ HFLUSH_GUARDED_BY(mutex_);

  LoopTurns turns_ HFLUSH_GUARDED_BY(mutex_);
  CondVar turn_changed_;
  ShortWaits short_waits_;  // for errands
};

}  // namespace hflush::env
