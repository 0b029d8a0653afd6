#include "hflush/hdfs/lease_renewer.h"

#include <algorithm>
#include <map>
#include <new>
#include <set>
#include <utility>

#include "hflush/env/process.h"
#include "hflush/hdfs/name_node_requests.h"
#include "hflush/hdfs/remote_exception.h"

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
  const bool final =
      failure.code() == StatusCode::kLeaseLost || failure.code() == StatusCode::kClosed;
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

// Whether the NameNode has not spoken its mind.
bool is_transient(const Status& failure) noexcept {
  const std::string& remote = failure.remote_class();
  return remote.empty() || is_class(remote, "SafeModeException") ||
         is_class(remote, "RetriableException") || is_class(remote, "StandbyException");
}

class Renewer final : public LeaseRenewer {
 public:
  Renewer(env::EventLoop& loop, std::shared_ptr<RpcClient> rpc, std::string client_name,
          env::Duration rpc_timeout, env::Duration hard_limit)
      : loop_(loop),
        rpc_(std::move(rpc)),
        client_name_(std::move(client_name)),
        hard_limit_(hard_limit),
        renewal_(rpc_timeout, hard_limit) {}
  ~Renewer() override {
    if (!is_of_parent()) loop_.cancel(timer_);
  }

  void begin(std::uint64_t file_id, std::string name_space,
             std::weak_ptr<LeaseHolder> holder) override;
  void end(std::uint64_t file_id, const LeaseHolder* holder) noexcept override;
  void give_up(std::uint64_t file_id, const LeaseHolder* holder, GiveBack when) noexcept override;
  std::int64_t renewals() const override;
  void close() override;

 private:
  enum class State : std::uint8_t { kOpen, kClosed };
  using FileKey = std::pair<std::uint64_t, const LeaseHolder*>;
  struct File {
    std::string name_space;
    std::weak_ptr<LeaseHolder> holder;
    env::TimePoint due{};   // of one that was given up: when it is given back
    bool is_asked = false;  // the NameNode has been, and will answer
  };
  using Files = std::map<FileKey, File>;

  // Those that are due now; they are asked about from here on.
  std::vector<std::uint64_t> due_locked(env::TimePoint now) HFLUSH_REQUIRES(mutex_);
  Files::node_type take_given_up_locked(std::uint64_t file_id) HFLUSH_REQUIRES(mutex_);
  void give_back(std::uint64_t file_id) HFLUSH_EXCLUDES(mutex_);
  void recover(std::uint64_t file_id) HFLUSH_EXCLUDES(mutex_);
  // What came of it: done with, or asked about again.
  void given_back(std::uint64_t file_id, const Status& answer) HFLUSH_EXCLUDES(mutex_);
  void perform_locked(const LeaseRenewal::Step& step) HFLUSH_REQUIRES(mutex_);
  void on_timer(std::uint64_t arming);
  void on_answer(const Status& status);
  RenewLease request_locked() const HFLUSH_REQUIRES(mutex_);
  bool is_of_parent() const noexcept { return generation_ != env::Process::generation(); }

  env::EventLoop& loop_;
  const std::shared_ptr<RpcClient> rpc_;
  const std::string client_name_;
  const env::Duration hard_limit_;
  const std::uint32_t generation_ = env::Process::generation();

  mutable Mutex mutex_;  // before the loop's own; never held across a call or a holder's function
  State state_ HFLUSH_GUARDED_BY(mutex_) = State::kOpen;
  LeaseRenewal renewal_ HFLUSH_GUARDED_BY(mutex_);
  Files files_ HFLUSH_GUARDED_BY(mutex_);
  Files given_up_ HFLUSH_GUARDED_BY(mutex_);
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
  take_given_up_locked(file_id);  // it is written again
  files_.insert_or_assign(key, File{std::move(name_space), std::move(holder)});
  perform_locked(renewal_.opened(loop_.clock().now()));
}

void Renewer::end(std::uint64_t file_id, const LeaseHolder* holder) noexcept {
  if (is_of_parent()) return;
  const MutexLock lock(mutex_);
  if (files_.erase({file_id, holder}) == 0) return;
  if (files_.empty()) perform_locked(renewal_.emptied());
}

// Moves the entry: there may be no memory left.
void Renewer::give_up(std::uint64_t file_id, const LeaseHolder* holder, GiveBack when) noexcept {
  if (is_of_parent()) return;
  {
    const MutexLock lock(mutex_);
    Files::node_type file = files_.extract({file_id, holder});
    if (file.empty()) return;
    if (files_.empty()) perform_locked(renewal_.emptied());
    if (file_id == 0) return;  // an older server's: there is no asking about it
    const env::TimePoint now = loop_.clock().now();
    std::erase_if(given_up_, [&](const auto& known) {  // closed by the NameNode long ago
      return known.second.due + hard_limit_ < now;
    });
    file.mapped().holder.reset();
    file.mapped().due = when == GiveBack::kNow ? now : now + renewal_.soft_limit();
    file.mapped().is_asked = when == GiveBack::kNow;
    given_up_.insert(std::move(file));
  }
  if (when == GiveBack::kAfterSoftLimit) return;
  try {
    give_back(file_id);
  } catch (const std::bad_alloc&) {
    given_back(file_id, Status());
  }
}

// Without others the lease ends by itself.
std::vector<std::uint64_t> Renewer::due_locked(env::TimePoint now) {
  std::vector<std::uint64_t> due;
  if (files_.empty()) return due;
  for (auto& [key, file] : given_up_) {
    if (file.is_asked || file.due > now) continue;
    file.is_asked = true;
    due.push_back(key.first);
  }
  return due;
}

Renewer::Files::node_type Renewer::take_given_up_locked(std::uint64_t file_id) {
  const auto found = given_up_.lower_bound({file_id, nullptr});
  if (found == given_up_.end() || found->first.first != file_id) return {};
  return given_up_.extract(found);
}

void Renewer::give_back(std::uint64_t file_id) {
  const std::string path = inode_path(file_id);
  rpc_->start(Fsync{path, client_name_, -1, file_id}, path,
              [weak = weak_from_this(), file_id](const Result<Nothing>& answer) {
                const auto self = weak.lock();
                if (!self) return;
                auto& renewer = static_cast<Renewer&>(*self);
                if (answer.ok()) return renewer.recover(file_id);
                renewer.given_back(file_id, answer.status());
              });
}

void Renewer::recover(std::uint64_t file_id) {
  {
    const MutexLock lock(mutex_);
    const auto found = given_up_.lower_bound({file_id, nullptr});
    if (found == given_up_.end() || found->first.first != file_id) return;  // written again
  }
  const std::string path = inode_path(file_id);
  rpc_->start(RecoverLease::kMethod, Repeat::kNever,
              RecoverLease{path, recovery_name(client_name_)}.encode(), path,
              [weak = weak_from_this(), file_id](const Result<std::string>& answer) {
                const auto self = weak.lock();
                if (self) static_cast<Renewer&>(*self).given_back(file_id, answer.status());
              });
}

void Renewer::given_back(std::uint64_t file_id, const Status& answer) {
  Files::node_type done;  // destroyed without the lock
  const MutexLock lock(mutex_);
  if (answer.ok() || !is_transient(answer)) {
    done = take_given_up_locked(file_id);
    return;
  }
  const auto found = given_up_.lower_bound({file_id, nullptr});
  if (found != given_up_.end() && found->first.first == file_id) found->second.is_asked = false;
}

std::int64_t Renewer::renewals() const {
  if (is_of_parent()) return 0;
  const MutexLock lock(mutex_);
  return renewals_;
}

void Renewer::close() {
  if (is_of_parent()) return;
  Files forgotten;  // destroyed without the lock
  Files given_up;
  const MutexLock lock(mutex_);
  state_ = State::kClosed;
  forgotten.swap(files_);
  given_up.swap(given_up_);
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
  Files lost;
  std::vector<std::uint64_t> due;
  {
    const MutexLock lock(mutex_);
    const env::TimePoint now = loop_.clock().now();
    const LeaseRenewal::Step step =
        status.ok() ? renewal_.renewed(now) : renewal_.failed(now, status);
    perform_locked(step);
    if (step.action == Action::kGiveUp) lost.swap(files_);
    if (status.ok()) due = due_locked(now);
  }
  for (const std::uint64_t file_id : due) give_back(file_id);
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
