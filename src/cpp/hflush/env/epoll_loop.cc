#include "hflush/env/epoll_loop.h"

#include <poll.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <ctime>
#include <span>
#include <system_error>
#include <utility>

#include "hflush/base/before_sleep.h"
#include "hflush/env/blocked_signals.h"
#include "hflush/env/standard_streams.h"

namespace hflush::env {
namespace {

// The loop that this thread runs.
thread_local const EventLoop* running_here = nullptr;

constexpr std::size_t kEventsAtOnce = 64;
// For as long a guest looks at its errands alone.
constexpr Duration kLongestErrand = std::chrono::milliseconds(50);
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

EpollLoop::~EpollLoop() {
  EpollLoop::stop();
  if (epoll_ >= 0) ::close(epoll_);
  if (wake_ >= 0) ::close(wake_);
}

bool EpollLoop::on_loop_thread() const noexcept { return running_here == this; }

Status EpollLoop::start() {
  if (origin_.is_parent()) return made_before_fork();
  const MutexLock lock(mutex_);
  return start_locked();
}

Status EpollLoop::start_locked() {
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

Status EpollLoop::open_locked() {
  if (epoll_ < 0) epoll_ = beside_standard_streams(::epoll_create1(EPOLL_CLOEXEC));
  if (epoll_ < 0) return Status::from_errno(errno, "epoll_create", {});
  if (wake_ >= 0) return {};
  const int made = beside_standard_streams(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
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

bool EpollLoop::must_wake_locked(TimePoint when) {
  if (!asleep_until_ || when >= *asleep_until_) return false;
  asleep_until_.reset();
  return true;
}

void EpollLoop::wake() const noexcept {
  const std::uint64_t one = 1;
  // Fails only when 2^64 - 2 wake-ups are unread, and then the loop is awake.
  static_cast<void>(::write(wake_, &one, sizeof one));
}

void EpollLoop::post(Task task) {
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

EventLoop::TimerId EpollLoop::run_at(TimePoint when, Task task) {
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

void EpollLoop::cancel(TimerId timer) {
  if (origin_.is_parent()) return;
  std::map<Due, Task>::node_type cancelled;  // destroyed without the lock
  const MutexLock lock(mutex_);
  const auto found = when_.find(timer);
  if (found == when_.end()) return;
  cancelled = timers_.extract(Due{found->second, timer});
  when_.erase(found);
}

int EpollLoop::control_locked(int operation, int descriptor, const Watch& watch) const {
  epoll_event event{events_of(watch.interest), {.u64 = key(descriptor, watch.serial)}};
  return ::epoll_ctl(epoll_, operation, descriptor, &event) == 0 ? 0 : errno;
}

Status EpollLoop::watch(int descriptor, Interest interest, std::shared_ptr<Handler> handler) {
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

void EpollLoop::change(int descriptor, Interest interest) {
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

void EpollLoop::unwatch(int descriptor) {
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

void EpollLoop::stop() {
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

void EpollLoop::run() {
  running_here = this;
  while (run_tasks()) {
    run_timers();
    if (!rest()) wait_and_dispatch(Duration::max(), nullptr, nullptr);
  }
}

// --- guests --------------------------------------------------------------------------------------

bool EpollLoop::enter() {
  if (origin_.is_parent()) return false;
  const MutexLock lock(mutex_);
  turns_.entered(CondVar::Clock::now());
  return true;
}

void EpollLoop::leave() {
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

void EpollLoop::wake_thread_locked(bool needed) {
  if (needed) turn_changed_.notify_all();
}

void EpollLoop::count_busy_locked(bool was, bool is) {
  if (was && !is) turns_.idle();
  if (is && !was) wake_thread_locked(turns_.busy(by_guest()));
}

// Leaves the turn to guests as long as they come; false if the thread may not rest.
bool EpollLoop::rest() {
  const MutexLock lock(mutex_);
  if (state_ != State::kRunning || !turns_.rests(CondVar::Clock::now(), !tasks_.empty())) {
    return false;
  }
  do {
    const TimePoint look = CondVar::Clock::now() + LoopTurns::kRest;
    const bool guest_runs_timers = turns_.turn() == Turn::kGuest;
    turn_changed_.wait_until(mutex_, guest_runs_timers ? look : std::min(look, next_due_locked()));
  } while (turns_.goes_on_resting(!tasks_.empty() || clock().now() >= next_due_locked()));
  return true;
}

bool EpollLoop::take_turn() {
  if (origin_.is_parent()) return false;
  const MutexLock lock(mutex_);
  return state_ == State::kRunning && turns_.takes();
}

void EpollLoop::run_turn(TimePoint deadline, const std::atomic<bool>& notified) noexcept {
  BeforeSleep::run();  // what others have asked of the loop may be anything
  const EventLoop* const before = std::exchange(running_here, this);
  {
    // A signal that comes ends the wait, and never comes to a thread that is started in here.
    const BlockedSignals blocked;
    const NoBrokenPipe no_broken_pipe;
    sigset_t waiting = blocked.previous();
    sigaddset(&waiting, SIGPIPE);  // a write of this loop may have caused it
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

void EpollLoop::nudge() {
  if (origin_.is_parent() || on_loop_thread()) return;
  bool asleep = false;
  {
    const MutexLock lock(mutex_);
    asleep = must_wake_locked(TimePoint::min());
  }
  if (asleep) wake();
}

void EpollLoop::wait_for_errands(Errands& errands, TimePoint deadline) noexcept {
  static constexpr std::size_t kPolledAtOnce = 32;  // the others have their turn after these
  const std::size_t count = std::min(errands.size(), kPolledAtOnce);
  std::array<pollfd, kPolledAtOnce> polled;
  const TimePoint now = CondVar::Clock::now();
  TimePoint until = std::min(deadline, now + kLongestErrand);
  for (std::size_t i = 0; i < count; ++i) {
    const Errand::Wanted wanted = errands[i]->wanted();
    until = wanted.descriptor < 0 ? now : std::min(until, wanted.due);
    polled[i] = {wanted.descriptor, static_cast<short>(events_of(wanted.interest)), 0};
  }
  const bool may_be_due = wait_for_any(std::span(polled).first(count), now, until) <= 0;
  for (std::size_t i = 0; i < count; ++i) {
    if (polled[i].revents != 0 ||
        (may_be_due && errands[i]->wanted().due <= CondVar::Clock::now())) {
      errands[i]->carry_on();  // it may begin others: they are added to these
    }
  }
  std::erase_if(errands, [](const auto& errand) { return errand->wanted().descriptor < 0; });
  if (errands.size() > count) {
    std::shared_ptr<Errand> first = std::move(errands.front());
    errands.erase(errands.begin());
    errands.push_back(std::move(first));
  }
}

// As poll(2).
int EpollLoop::wait_for_any(std::span<pollfd> polled, TimePoint now, TimePoint until) noexcept {
  int ready = 0;
  if (now < until && short_waits_.may_look()) {
    const TimePoint end = std::min(until, now + ShortWaits::kLook);
    do {
      ready = ::poll(polled.data(), polled.size(), 0);
    } while (ready == 0 && CondVar::Clock::now() < end);
    short_waits_.stops_looking(ready != 0);
  }
  if (ready == 0) {
    BeforeSleep::run();
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - now).count();
    ready = ::poll(polled.data(), polled.size(), static_cast<int>(std::max<std::int64_t>(left, 0)));
  }
  if (now < until) short_waits_.took(CondVar::Clock::now() - now);
  return ready;
}

// --- the turn ------------------------------------------------------------------------------------

void EpollLoop::wait_and_dispatch(Duration at_most, const std::atomic<bool>* notified,
                                  const sigset_t* blocked) {
  std::array<epoll_event, kEventsAtOnce> events;
  int count = wait_for_events(epoll_, events, std::min(fall_asleep(notified), at_most), blocked);
  // The process may have been stopped for long: what has come meanwhile goes before timers.
  if (count < 0) count = wait_for_events(epoll_, events, Duration::zero(), blocked);
  for (int i = 0; i < count; ++i) dispatch(events[static_cast<std::size_t>(i)]);
}

bool EpollLoop::run_tasks() {
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

void EpollLoop::run_timers() {
  const TimePoint now = clock().now();
  TimerId first_new = 0;
  {
    const MutexLock lock(mutex_);
    first_new = next_timer_;
  }
  while (Task task = next_timer(now, first_new)) task();
}

// The next task that is due; empty if there is none. Timers that are made meanwhile have to wait
// for the next round, so that one that makes itself anew does not keep sockets waiting.
EventLoop::Task EpollLoop::next_timer(TimePoint now, TimerId first_new) {
  const MutexLock lock(mutex_);
  const auto first = timers_.begin();
  if (first == timers_.end() || first->first.when > now || first->first.id >= first_new) return {};
  Task task = std::move(first->second);
  when_.erase(first->first.id);
  timers_.erase(first);
  return task;
}

// How long there is nothing to do, if no thread wakes the loop.
Duration EpollLoop::fall_asleep(const std::atomic<bool>* notified) {
  const TimePoint now = clock().now();
  const MutexLock lock(mutex_);
  const bool is_notified = notified != nullptr && *notified;
  if (is_notified || !tasks_.empty() || state_ == State::kStopped) return Duration::zero();
  const TimePoint until = next_due_locked();
  if (until <= now) return Duration::zero();
  asleep_until_ = until;
  return until - now;
}

void EpollLoop::dispatch(const epoll_event& event) {
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

}  // namespace hflush::env
