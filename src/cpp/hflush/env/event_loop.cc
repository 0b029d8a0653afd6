#include "hflush/env/event_loop.h"

#include <pthread.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <compare>
#include <ctime>
#include <map>
#include <optional>
#include <span>
#include <system_error>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "hflush/base/mutex.h"
#include "hflush/env/blocked_signals.h"
#include "hflush/env/loop_turns.h"
#include "hflush/env/own_process.h"

namespace hflush::env {
namespace {

// The loop that this thread runs, and the one whose guest it is.
thread_local const void* running_here = nullptr;
thread_local const void* guest_here = nullptr;

constexpr std::size_t kEventsAtOnce = 64;
// No watch has this key, because no descriptor is -1.
constexpr std::uint64_t kWakeKey = ~std::uint64_t{0};

std::uint32_t events_of(EventLoop::Interest interest) noexcept {
  const auto bits = static_cast<unsigned>(interest);
  std::uint32_t events = 0;
  if ((bits & static_cast<unsigned>(EventLoop::Interest::kRead)) != 0) events |= EPOLLIN;
  if ((bits & static_cast<unsigned>(EventLoop::Interest::kWrite)) != 0) events |= EPOLLOUT;
  return events;
}

// epoll_pwait(2), but to the nanosecond where the kernel can.
int wait_for_events(int epoll, std::span<epoll_event> events, Duration timeout,
                    const sigset_t* blocked) noexcept {
  const auto limit = static_cast<int>(events.size());
#ifdef SYS_epoll_pwait2
  static constexpr Duration kLongest = std::chrono::hours(24);
  const Duration slice = std::min(timeout, kLongest);
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(slice);
  const timespec exact{seconds.count(), static_cast<long>((slice - seconds).count())};
  const long count =
      ::syscall(SYS_epoll_pwait2, epoll, events.data(), limit, &exact, blocked, _NSIG / 8);
  if (count >= 0 || errno == EINTR) return static_cast<int>(count);
#endif
  // Before Linux 5.11, or in a sandbox that does not know the call: rounded up, never early.
  const auto milliseconds = std::chrono::ceil<std::chrono::milliseconds>(
      std::min<Duration>(timeout, std::chrono::hours(24)));
  return ::epoll_pwait(epoll, events.data(), limit, static_cast<int>(milliseconds.count()),
                       blocked);
}

Status made_before_fork() {
  return {StatusCode::kForked, "the event loop belongs to the parent process"};
}

}  // namespace

class EventLoop::Impl {
 public:
  explicit Impl(const Clock& clock) : clock_(clock) {}
  ~Impl() {
    stop();
    if (epoll_ >= 0) ::close(epoll_);
    if (wake_ >= 0) ::close(wake_);
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  Status start();
  void post(Task task);
  TimerId run_at(TimePoint when, Task task);
  void cancel(TimerId timer);
  Status watch(int descriptor, Interest interest, std::shared_ptr<Handler> handler);
  void change(int descriptor, Interest interest);
  void unwatch(int descriptor);
  void stop();

  void enter();
  void leave();
  bool take_turn();
  void run_turn(TimePoint deadline, const std::atomic<bool>& notified) noexcept;
  void nudge();

  bool on_loop_thread() const noexcept { return running_here == this; }
  const Clock& clock() const noexcept { return clock_; }

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
  bool by_guest() const noexcept { return guest_here == this; }
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
  // `blocked`: the signals that are while it waits; null: as ever.
  void wait_and_dispatch(Duration at_most, const std::atomic<bool>* notified,
                         const sigset_t* blocked);
  Duration fall_asleep(const std::atomic<bool>* notified);
  void dispatch(const epoll_event& event);

  const Clock& clock_;
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
};

Status EventLoop::Impl::start() {
  if (origin_.is_parent()) return made_before_fork();
  const MutexLock lock(mutex_);
  return start_locked();
}

Status EventLoop::Impl::start_locked() {
  if (state_ == State::kRunning) return {};
  if (state_ == State::kStopped) {
    return Status::from_errno(ECANCELED, "use of the event loop after its end", {});
  }
  HFLUSH_RETURN_IF_ERROR(open_locked());
  try {
    const BlockedSignals blocked;
    thread_ = std::thread([this] { run(); });
  } catch (const std::system_error& error) {
    return Status::from_errno(error.code().value(), "start of the i/o thread", {});
  }
  pthread_setname_np(thread_.native_handle(), "hflush-net");
  state_ = State::kRunning;
  return {};
}

Status EventLoop::Impl::open_locked() {
  if (epoll_ < 0) epoll_ = ::epoll_create1(EPOLL_CLOEXEC);
  if (epoll_ < 0) return Status::from_errno(errno, "epoll_create", {});
  if (wake_ >= 0) return {};
  const int made = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (made < 0) return Status::from_errno(errno, "eventfd", {});
  // Edge-triggered: each write is one event, and no thread has to read it away.
  epoll_event event{EPOLLIN | EPOLLET, {.u64 = kWakeKey}};
  if (::epoll_ctl(epoll_, EPOLL_CTL_ADD, made, &event) != 0) {
    const int error_number = errno;
    ::close(made);
    return Status::from_errno(error_number, "watch of an eventfd", {});
  }
  wake_ = made;
  return {};
}

bool EventLoop::Impl::must_wake_locked(TimePoint when) {
  if (!asleep_until_ || when >= *asleep_until_) return false;
  asleep_until_.reset();
  return true;
}

void EventLoop::Impl::wake() const noexcept {
  const std::uint64_t one = 1;
  // Fails only when 2^64 - 2 wake-ups are unread, and then the loop is awake.
  static_cast<void>(::write(wake_, &one, sizeof one));
}

void EventLoop::Impl::post(Task task) {
  if (origin_.is_parent()) return;
  bool asleep = false;
  {
    const MutexLock lock(mutex_);
    if (state_ == State::kStopped) return;
    tasks_.push_back(std::move(task));
    static_cast<void>(start_locked());
    asleep = must_wake_locked(TimePoint::min());
    wake_thread_locked(turns_.posted(by_guest()));
  }
  if (asleep) wake();
}

EventLoop::TimerId EventLoop::Impl::run_at(TimePoint when, Task task) {
  if (origin_.is_parent()) return 0;
  TimerId timer = 0;
  bool asleep = false;
  {
    const MutexLock lock(mutex_);
    if (state_ == State::kStopped) return 0;
    timer = next_timer_++;
    when_.emplace(timer, when);
    timers_.emplace(Due{when, timer}, std::move(task));
    static_cast<void>(start_locked());
    asleep = must_wake_locked(when);
    wake_thread_locked(turns_.due(when, CondVar::Clock::now(), by_guest()));
  }
  if (asleep) wake();
  return timer;
}

void EventLoop::Impl::cancel(TimerId timer) {
  if (origin_.is_parent()) return;
  std::map<Due, Task>::node_type cancelled;  // destroyed without the lock
  const MutexLock lock(mutex_);
  const auto found = when_.find(timer);
  if (found == when_.end()) return;
  cancelled = timers_.extract(Due{found->second, timer});
  when_.erase(found);
}

int EventLoop::Impl::control_locked(int operation, int descriptor, const Watch& watch) const {
  epoll_event event{events_of(watch.interest), {.u64 = key(descriptor, watch.serial)}};
  return ::epoll_ctl(epoll_, operation, descriptor, &event) == 0 ? 0 : errno;
}

Status EventLoop::Impl::watch(int descriptor, Interest interest, std::shared_ptr<Handler> handler) {
  if (origin_.is_parent()) return made_before_fork();
  const MutexLock lock(mutex_);
  HFLUSH_RETURN_IF_ERROR(start_locked());
  const Watch watch{next_serial_++, interest, std::move(handler)};
  // Not in epoll at all without interest: failures are reported whatever is asked for, for ever.
  if (interest != Interest::kNone) {
    const int error_number = control_locked(EPOLL_CTL_ADD, descriptor, watch);
    if (error_number != 0) return Status::from_errno(error_number, "watch of a descriptor", {});
  }
  const auto stale = watches_.find(descriptor);
  const bool was_busy = stale != watches_.end() && stale->second.is_busy();
  watches_.insert_or_assign(descriptor, watch);
  count_busy_locked(was_busy, watch.is_busy());
  return {};
}

void EventLoop::Impl::change(int descriptor, Interest interest) {
  if (origin_.is_parent()) return;
  const MutexLock lock(mutex_);
  const auto found = watches_.find(descriptor);
  if (found == watches_.end() || found->second.interest == interest) return;
  const bool was_busy = found->second.is_busy();
  const Interest before = std::exchange(found->second.interest, interest);
  count_busy_locked(was_busy, found->second.is_busy());
  int operation = EPOLL_CTL_MOD;
  if (interest == Interest::kNone) operation = EPOLL_CTL_DEL;
  if (before == Interest::kNone) operation = EPOLL_CTL_ADD;
  static_cast<void>(control_locked(operation, descriptor, found->second));
}

void EventLoop::Impl::unwatch(int descriptor) {
  if (origin_.is_parent()) return;
  std::unordered_map<int, Watch>::node_type ended;  // destroyed without the lock
  const MutexLock lock(mutex_);
  const auto found = watches_.find(descriptor);
  if (found == watches_.end()) return;
  if (found->second.interest != Interest::kNone) {
    static_cast<void>(control_locked(EPOLL_CTL_DEL, descriptor, found->second));
  }
  count_busy_locked(found->second.is_busy(), false);
  ended = watches_.extract(found);
}

void EventLoop::Impl::stop() {
  if (origin_.is_parent()) return;
  std::thread thread;
  bool asleep = false;
  {
    const MutexLock lock(mutex_);
    state_ = State::kStopped;
    if (!on_loop_thread()) thread = std::move(thread_);
    asleep = must_wake_locked(TimePoint::min());
    wake_thread_locked(turns_.called());
  }
  if (asleep) wake();
  if (thread.joinable()) thread.join();

  std::vector<Task> tasks;  // all destroyed without the lock: they may call back
  std::map<Due, Task> timers;
  std::unordered_map<int, Watch> watches;
  const MutexLock lock(mutex_);
  while (turns_.turn() == Turn::kGuest && !on_loop_thread()) turn_changed_.wait(mutex_);
  tasks.swap(tasks_);
  timers.swap(timers_);
  watches.swap(watches_);
  when_.clear();
}

void EventLoop::Impl::run() {
  running_here = this;
  while (run_tasks()) {
    run_timers();
    if (!rest()) wait_and_dispatch(Duration::max(), nullptr, nullptr);
  }
}

// --- guests --------------------------------------------------------------------------------------

void EventLoop::Impl::enter() {
  if (origin_.is_parent()) return;
  const MutexLock lock(mutex_);
  turns_.entered(CondVar::Clock::now());
}

void EventLoop::Impl::leave() {
  if (origin_.is_parent()) return;
  bool asleep = false;
  {
    const MutexLock lock(mutex_);
    const LoopTurns::Wake needed =
        turns_.left(CondVar::Clock::now(), !tasks_.empty(), next_due_locked());
    wake_thread_locked(needed == LoopTurns::Wake::kFromRest);
    if (needed == LoopTurns::Wake::kToRest) asleep = must_wake_locked(TimePoint::min());
  }
  if (asleep) wake();
}

void EventLoop::Impl::wake_thread_locked(bool needed) {
  if (needed) turn_changed_.notify_all();
}

void EventLoop::Impl::count_busy_locked(bool was, bool is) {
  if (was && !is) turns_.idle();
  if (is && !was) wake_thread_locked(turns_.busy(by_guest()));
}

// Leaves the turn to guests as long as they come; false if there is no reason to.
bool EventLoop::Impl::rest() {
  const MutexLock lock(mutex_);
  if (state_ != State::kRunning || !turns_.rests(CondVar::Clock::now(), !tasks_.empty())) {
    return false;
  }
  do {
    const TimePoint look = CondVar::Clock::now() + LoopTurns::kRest;
    const bool guest_runs_timers = turns_.turn() == Turn::kGuest;
    turn_changed_.wait_until(mutex_, guest_runs_timers ? look : std::min(look, next_due_locked()));
  } while (turns_.goes_on_resting(!tasks_.empty() || clock_.now() >= next_due_locked()));
  return true;
}

bool EventLoop::Impl::take_turn() {
  if (origin_.is_parent()) return false;
  const MutexLock lock(mutex_);
  return state_ == State::kRunning && turns_.takes();
}

void EventLoop::Impl::run_turn(TimePoint deadline, const std::atomic<bool>& notified) noexcept {
  const void* const before = std::exchange(running_here, this);
  {
    // A signal that comes ends the wait, and never comes to a thread that is started in here.
    const BlockedSignals blocked;
    const NoBrokenPipe no_broken_pipe;
    sigset_t waiting = blocked.previous();
    sigaddset(&waiting, SIGPIPE);  // one of our own writes may have caused it
    if (run_tasks()) {
      run_timers();
      wait_and_dispatch(std::max(deadline - CondVar::Clock::now(), Duration::zero()), &notified,
                        &waiting);
    }
  }
  running_here = before;
  const MutexLock lock(mutex_);
  asleep_until_.reset();
  turns_.gave_back();
  if (state_ == State::kStopped) wake_thread_locked(turns_.called());
}

void EventLoop::Impl::nudge() {
  if (origin_.is_parent() || on_loop_thread()) return;
  bool asleep = false;
  {
    const MutexLock lock(mutex_);
    asleep = must_wake_locked(TimePoint::min());
  }
  if (asleep) wake();
}

// --- the turn ------------------------------------------------------------------------------------

void EventLoop::Impl::wait_and_dispatch(Duration at_most, const std::atomic<bool>* notified,
                                        const sigset_t* blocked) {
  std::array<epoll_event, kEventsAtOnce> events;
  const int count =
      wait_for_events(epoll_, events, std::min(fall_asleep(notified), at_most), blocked);
  for (int i = 0; i < count; ++i) dispatch(events[static_cast<std::size_t>(i)]);
}

bool EventLoop::Impl::run_tasks() {
  {
    const MutexLock lock(mutex_);
    asleep_until_.reset();
    if (state_ == State::kStopped) return false;
    running_.swap(tasks_);
  }
  for (Task& task : running_) {
    task();
    task = nullptr;  // what it holds is released now, not after the others
  }
  running_.clear();
  return true;
}

void EventLoop::Impl::run_timers() {
  const TimePoint now = clock_.now();
  TimerId first_new = 0;
  {
    const MutexLock lock(mutex_);
    first_new = next_timer_;
  }
  while (Task task = next_timer(now, first_new)) task();
}

// The next task that is due; empty if there is none. Timers that are made meanwhile have to wait
// for the next round, so that one that makes itself anew does not keep sockets waiting.
EventLoop::Task EventLoop::Impl::next_timer(TimePoint now, TimerId first_new) {
  const MutexLock lock(mutex_);
  const auto first = timers_.begin();
  if (first == timers_.end() || first->first.when > now || first->first.id >= first_new) return {};
  Task task = std::move(first->second);
  when_.erase(first->first.id);
  timers_.erase(first);
  return task;
}

// How long there is nothing to do, if no thread wakes the loop.
Duration EventLoop::Impl::fall_asleep(const std::atomic<bool>* notified) {
  const TimePoint now = clock_.now();
  const MutexLock lock(mutex_);
  const bool is_notified = notified != nullptr && *notified;
  if (is_notified || !tasks_.empty() || state_ == State::kStopped) return Duration::zero();
  const TimePoint until = next_due_locked();
  if (until <= now) return Duration::zero();
  asleep_until_ = until;
  return until - now;
}

void EventLoop::Impl::dispatch(const epoll_event& event) {
  if (event.data.u64 == kWakeKey) return;
  const int descriptor = static_cast<int>(event.data.u64 & 0xffffffffU);
  std::shared_ptr<Handler> handler;
  {
    const MutexLock lock(mutex_);
    asleep_until_.reset();
    const auto found = watches_.find(descriptor);
    if (found == watches_.end() || key(descriptor, found->second.serial) != event.data.u64) return;
    handler = found->second.handler;
  }
  const bool failed = (event.events & (EPOLLERR | EPOLLHUP)) != 0;
  handler->on_ready(failed || (event.events & EPOLLIN) != 0,
                    failed || (event.events & EPOLLOUT) != 0);
}

EventLoop::EventLoop(const Clock& clock) : impl_(std::make_unique<Impl>(clock)) {}
EventLoop::~EventLoop() = default;
Status EventLoop::start() { return impl_->start(); }
void EventLoop::post(Task task) { impl_->post(std::move(task)); }
EventLoop::TimerId EventLoop::run_at(TimePoint when, Task task) {
  return impl_->run_at(when, std::move(task));
}
EventLoop::TimerId EventLoop::run_after(Duration delay, Task task) {
  return impl_->run_at(deadline_after(clock().now(), delay), std::move(task));
}
void EventLoop::cancel(TimerId timer) { impl_->cancel(timer); }
Status EventLoop::watch(int descriptor, Interest interest, std::shared_ptr<Handler> handler) {
  return impl_->watch(descriptor, interest, std::move(handler));
}
void EventLoop::change(int descriptor, Interest interest) { impl_->change(descriptor, interest); }
void EventLoop::unwatch(int descriptor) { impl_->unwatch(descriptor); }
bool EventLoop::on_loop_thread() const noexcept { return impl_->on_loop_thread(); }
const Clock& EventLoop::clock() const noexcept { return impl_->clock(); }
void EventLoop::stop() { impl_->stop(); }
bool EventLoop::take_turn() { return impl_->take_turn(); }
void EventLoop::run_turn(TimePoint deadline, const std::atomic<bool>& notified) noexcept {
  impl_->run_turn(deadline, notified);
}
void EventLoop::nudge() { impl_->nudge(); }

EventLoop::Guest::Guest(EventLoop* loop) noexcept : before_(guest_here) {
  if (loop == nullptr || guest_here == loop->impl_.get()) return;
  loop_ = loop;
  guest_here = loop->impl_.get();
  loop->impl_->enter();
}

EventLoop::Guest::~Guest() {
  if (loop_ == nullptr) return;
  guest_here = before_;
  loop_->impl_->leave();
}

}  // namespace hflush::env
