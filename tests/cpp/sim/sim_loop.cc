#include "sim/sim_loop.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace hflush::sim {
namespace {

using env::TcpConnection;

// What a TcpConnection is, over one end of a simulated one.
class SimConnection final : public TcpConnection {
 public:
  SimConnection(SimLoop& loop, env::Endpoint endpoint, Options options,
                std::shared_ptr<Events> events)
      : TcpConnection(std::move(endpoint)),
        loop_(loop),
        options_(options),
        events_(std::move(events)) {}

  void start() {
    const auto self = shared();
    timer_ = loop_.run_after(options_.connect_timeout, [self] {
      self->give_up(
          env::timed_out(env::connect_operation(self->endpoint()), self->options_.connect_timeout));
    });
    loop_.network().connect(loop_.host(), endpoint(),
                            [self](const std::shared_ptr<End>& end, int error_number) {
                              self->loop_.post([self, end, error_number] {
                                if (end) return self->opened(end);
                                self->give_up(env::connect_failure(self->endpoint(), error_number));
                              });
                            });
  }

  std::ptrdiff_t send_some(std::span<const ByteView> pieces) noexcept override {
    if (state_ == State::kConnecting) return 0;
    if (state_ == State::kEnded) return -ENOTCONN;
    std::string bytes;
    for (const ByteView piece : pieces) bytes += as_text(piece);
    return end_->send(bytes);
  }

  std::ptrdiff_t receive_some(MutableByteView out) noexcept override {
    if (state_ == State::kConnecting) return -EAGAIN;
    if (state_ == State::kEnded) return -ENOTCONN;
    if (const std::size_t size = std::min(out.size(), end_->inbox().size()); size > 0) {
      std::memcpy(out.data(), end_->inbox().data(), size);
      end_->taken(size);
      return static_cast<std::ptrdiff_t>(size);
    }
    if (end_->error() != 0) return ended(-end_->error());
    return end_->is_at_end() ? ended(0) : -EAGAIN;
  }

  std::string peer_address() const override { return endpoint().host; }

  void want_writable() override {
    wants_writable_ = true;
    room();
  }

  void close() noexcept override {
    if (state_ == State::kEnded) return;
    state_ = State::kEnded;
    loop_.cancel(timer_);
    if (end_) end_->close();
    events_.reset();
  }

 private:
  enum class State : std::uint8_t { kConnecting, kOpen, kEnded };

  std::shared_ptr<SimConnection> shared() {
    return std::static_pointer_cast<SimConnection>(shared_from_this());
  }

  void opened(const std::shared_ptr<End>& end) {
    if (state_ != State::kConnecting) return end->close();
    loop_.cancel(timer_);
    state_ = State::kOpen;
    end_ = end;
    end_->on_arrival = [weak = std::weak_ptr(shared())] {
      if (const auto self = weak.lock()) self->arrived();
    };
    end_->on_room = [weak = std::weak_ptr(shared())] {
      if (const auto self = weak.lock()) self->room();
    };
    const auto events = events_;
    events->on_connected(*this);
    arrived();
  }

  void give_up(Status failure) {
    if (state_ != State::kConnecting) return;
    loop_.cancel(timer_);
    state_ = State::kEnded;
    const auto events = std::move(events_);
    events->on_connect_failed(std::move(failure));
  }

  // As with a level-triggered poll: reported again until all of it is received.
  void arrived() {
    if (state_ != State::kOpen || is_posted_ || has_ended_) return;
    if (end_->inbox().empty() && !end_->is_at_end() && end_->error() == 0) return;
    is_posted_ = true;
    loop_.post([self = shared()] {
      self->is_posted_ = false;
      if (self->state_ != State::kOpen || self->has_ended_) return;
      const auto events = self->events_;
      events->on_readable();
      self->arrived();
    });
  }

  std::ptrdiff_t ended(int with) {
    has_ended_ = true;
    return with;
  }

  void room() {
    if (!wants_writable_ || state_ != State::kOpen) return;
    loop_.post([self = shared()] {
      if (!self->wants_writable_ || self->state_ != State::kOpen) return;
      if (!self->end_->has_room()) return;  // on_room comes
      self->wants_writable_ = false;
      const auto events = self->events_;
      events->on_writable();
    });
  }

  SimLoop& loop_;
  const Options options_;
  std::shared_ptr<Events> events_;
  State state_ = State::kConnecting;
  env::EventLoop::TimerId timer_ = 0;
  std::shared_ptr<End> end_;
  bool is_posted_ = false;
  bool has_ended_ = false;  // the end of the stream, or a failure, is received
  bool wants_writable_ = false;
};

}  // namespace

SimLoop::SimLoop(World& world, Network& network, std::string host)
    : EventLoop(world.clock()),
      world_(world),
      network_(network),
      host_(std::move(host)),
      chance_(world.seed(), "loop of " + host_) {}

void SimLoop::post(Task task) {
  if (stopped_) return;
  tasks_.push_back(std::move(task));
  if (std::exchange(has_scheduled_tasks_, true)) return;
  world_.after(chance_.up_to(std::chrono::microseconds(30)), [this] { run_tasks(); });
}

void SimLoop::run_tasks() {
  has_scheduled_tasks_ = false;
  std::vector<Task> tasks;
  tasks.swap(tasks_);
  for (Task& task : tasks) {
    if (stopped_) return;
    task();
    task = nullptr;
  }
}

env::EventLoop::TimerId SimLoop::run_at(TimePoint when, Task task) {
  if (stopped_) return 0;
  const TimerId timer = ++last_timer_;
  if (when == TimePoint::max()) return timer;  // never
  timers_[timer] = world_.at(when, [this, timer, task = std::move(task)] {
    timers_.erase(timer);
    task();
  });
  return timer;
}

void SimLoop::cancel(TimerId timer) {
  const auto found = timers_.find(timer);
  if (found == timers_.end()) return;
  world_.cancel(found->second);
  timers_.erase(found);
}

std::shared_ptr<TcpConnection> SimLoop::connect(env::Executor& /*resolver*/, env::Endpoint endpoint,
                                                TcpConnection::Options options,
                                                std::shared_ptr<TcpConnection::Events> events) {
  auto connection =
      std::make_shared<SimConnection>(*this, std::move(endpoint), options, std::move(events));
  connection->start();
  return connection;
}

Status SimLoop::watch(int /*descriptor*/, Interest /*interest*/,
                      std::shared_ptr<Handler> /*handler*/) {
  world_.breach("a descriptor of the machine is watched");
  return {};
}
void SimLoop::change(int /*descriptor*/, Interest /*interest*/) {}
void SimLoop::unwatch(int /*descriptor*/) {}

void SimLoop::stop() {
  stopped_ = true;
  tasks_.clear();
  for (const auto& [timer, event] : timers_) world_.cancel(event);
  timers_.clear();
}

void SimLoop::run_turn(TimePoint deadline, const std::atomic<bool>& notified) noexcept {
  if (notified) return;
  waiting_.push_back(world_.running());
  world_.wait_until(deadline);
  std::erase(waiting_, world_.running());
}

// More than one may be woken: a wait may end spuriously.
void SimLoop::nudge() {
  for (World::Program* const program : waiting_) world_.wake(program);
}

}  // namespace hflush::sim
