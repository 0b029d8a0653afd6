#include "hflush/hdfs/lease_renewer.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "hflush/env/process.h"
#include "hflush/hdfs/name_node_requests.h"

namespace hflush::hdfs {

LeaseRenewal::LeaseRenewal(env::Duration rpc_timeout, env::Duration hard_limit) noexcept
    : period_(rpc_timeout > env::Duration::zero() ? std::min(kSoftLimit, rpc_timeout) / 2
                                                  : kSoftLimit / 2),
      hard_limit_(hard_limit) {}

LeaseRenewal::Step LeaseRenewal::opened(env::TimePoint now) {
  switch (state_) {
    case State::kIdle:
      last_renewed_ = now;
      return wait_until(now + period_);
    case State::kFinishing:
      last_renewed_ = now;
      state_ = State::kRenewing;
      break;
    case State::kWaiting:
    case State::kRenewing:
      break;
  }
  return {};
}

LeaseRenewal::Step LeaseRenewal::emptied() {
  switch (state_) {
    case State::kWaiting:
      state_ = State::kIdle;
      return {Action::kDisarm, {}};
    case State::kRenewing:
      state_ = State::kFinishing;
      break;
    case State::kIdle:
    case State::kFinishing:
      break;
  }
  return {};
}

LeaseRenewal::Step LeaseRenewal::timer_fired() {
  if (state_ != State::kWaiting) return {};
  state_ = State::kRenewing;
  return {Action::kRenew, {}};
}

LeaseRenewal::Step LeaseRenewal::renewed(env::TimePoint now) {
  if (state_ == State::kRenewing) {
    last_renewed_ = now;
    return wait_until(now + period_);
  }
  if (state_ == State::kFinishing) state_ = State::kIdle;
  return {};
}

LeaseRenewal::Step LeaseRenewal::failed(env::TimePoint now, const Status& failure) {
  if (state_ == State::kFinishing) state_ = State::kIdle;
  if (state_ != State::kRenewing) return {};
  // As the Java client: a NameNode that does not answer in time is taken for gone.
  const bool final = failure.code() == StatusCode::kTimedOut ||
                     failure.code() == StatusCode::kLeaseLost ||
                     failure.code() == StatusCode::kClosed;
  if (!final && now - last_renewed_ <= hard_limit_) return wait_until(now + kRetryPause);
  state_ = State::kIdle;
  return {Action::kGiveUp, {}};
}

LeaseRenewal::Step LeaseRenewal::wait_until(env::TimePoint when) {
  state_ = State::kWaiting;
  return {Action::kArm, when};
}

namespace {

using Action = LeaseRenewal::Action;

class Renewer final : public LeaseRenewer {
 public:
  Renewer(env::EventLoop& loop, std::shared_ptr<RpcClient> rpc, std::string client_name,
          env::Duration rpc_timeout, env::Duration hard_limit)
      : loop_(loop),
        rpc_(std::move(rpc)),
        client_name_(std::move(client_name)),
        renewal_(rpc_timeout, hard_limit) {}
  ~Renewer() override {
    if (!is_of_parent()) loop_.cancel(timer_);
  }

  void begin(std::uint64_t file_id, std::string name_space,
             std::weak_ptr<LeaseHolder> holder) override;
  void end(std::uint64_t file_id, const LeaseHolder* holder) override;
  std::int64_t renewals() const override;
  void close() override;

 private:
  enum class State : std::uint8_t { kOpen, kClosed };
  using FileKey = std::pair<std::uint64_t, const LeaseHolder*>;
  struct File {
    std::string name_space;
    std::weak_ptr<LeaseHolder> holder;
  };

  void perform_locked(const LeaseRenewal::Step& step) HFLUSH_REQUIRES(mutex_);
  void on_timer(std::uint64_t arming);
  void on_answer(const Status& status);
  RenewLease request_locked() const HFLUSH_REQUIRES(mutex_);
  bool is_of_parent() const noexcept { return generation_ != env::Process::generation(); }

  env::EventLoop& loop_;
  const std::shared_ptr<RpcClient> rpc_;
  const std::string client_name_;
  const std::uint32_t generation_ = env::Process::generation();

  mutable Mutex mutex_;  // before the loop's own; never held across a call or a holder's function
  State state_ HFLUSH_GUARDED_BY(mutex_) = State::kOpen;
  LeaseRenewal renewal_ HFLUSH_GUARDED_BY(mutex_);
  std::map<FileKey, File> files_ HFLUSH_GUARDED_BY(mutex_);
  env::EventLoop::TimerId timer_ HFLUSH_GUARDED_BY(mutex_) = 0;
  std::uint64_t arming_ HFLUSH_GUARDED_BY(mutex_) = 0;  // a timer of an earlier one comes too late
  std::int64_t renewals_ HFLUSH_GUARDED_BY(mutex_) = 0;
};

void Renewer::begin(std::uint64_t file_id, std::string name_space,
                    std::weak_ptr<LeaseHolder> holder) {
  if (is_of_parent()) return;
  const FileKey key(file_id, holder.lock().get());
  const MutexLock lock(mutex_);
  if (state_ == State::kClosed) return;
  files_.insert_or_assign(key, File{std::move(name_space), std::move(holder)});
  perform_locked(renewal_.opened(loop_.clock().now()));
}

void Renewer::end(std::uint64_t file_id, const LeaseHolder* holder) {
  if (is_of_parent()) return;
  const MutexLock lock(mutex_);
  if (files_.erase({file_id, holder}) == 0) return;
  if (files_.empty()) perform_locked(renewal_.emptied());
}

std::int64_t Renewer::renewals() const {
  if (is_of_parent()) return 0;
  const MutexLock lock(mutex_);
  return renewals_;
}

void Renewer::close() {
  if (is_of_parent()) return;
  std::map<FileKey, File> forgotten;  // destroyed without the lock
  const MutexLock lock(mutex_);
  state_ = State::kClosed;
  forgotten.swap(files_);
  if (!forgotten.empty()) perform_locked(renewal_.emptied());
}

void Renewer::perform_locked(const LeaseRenewal::Step& step) {
  if (step.action == Action::kArm) {
    timer_ = loop_.run_at(step.when, [weak = weak_from_this(), arming = ++arming_] {
      if (const auto self = weak.lock()) static_cast<Renewer&>(*self).on_timer(arming);
    });
  } else if (step.action == Action::kDisarm) {
    ++arming_;
    loop_.cancel(timer_);
  }
}

// One request for all files.
RenewLease Renewer::request_locked() const {
  std::set<std::string> name_spaces;
  for (const auto& [key, file] : files_) name_spaces.insert(file.name_space);
  // A file without a name space makes the router ask all of them.
  if (name_spaces.contains("")) name_spaces.clear();
  return {.client_name = client_name_, .name_spaces = {name_spaces.begin(), name_spaces.end()}};
}

void Renewer::on_timer(std::uint64_t arming) {
  RenewLease request;
  {
    const MutexLock lock(mutex_);
    if (arming != arming_ || renewal_.timer_fired().action != Action::kRenew) return;
    request = request_locked();
    ++renewals_;
  }
  rpc_->start(request, {}, [weak = weak_from_this()](const Result<Nothing>& answer) {
    if (const auto self = weak.lock()) static_cast<Renewer&>(*self).on_answer(answer.status());
  });
}

void Renewer::on_answer(const Status& status) {
  std::map<FileKey, File> lost;
  {
    const MutexLock lock(mutex_);
    const env::TimePoint now = loop_.clock().now();
    const LeaseRenewal::Step step =
        status.ok() ? renewal_.renewed(now) : renewal_.failed(now, status);
    perform_locked(step);
    if (step.action == Action::kGiveUp) lost.swap(files_);
  }
  for (const auto& [key, file] : lost) {
    if (const auto holder = file.holder.lock()) holder->lease_lost(status);
  }
}

}  // namespace

std::shared_ptr<LeaseRenewer> LeaseRenewer::make(env::EventLoop& loop,
                                                 std::shared_ptr<RpcClient> rpc,
                                                 std::string client_name, env::Duration rpc_timeout,
                                                 env::Duration hard_limit) {
  return std::make_shared<Renewer>(loop, std::move(rpc), std::move(client_name), rpc_timeout,
                                   hard_limit);
}

}  // namespace hflush::hdfs
