#include "hflush/hdfs/rpc/lease_renewer.h"

#include <algorithm>
#include <map>
#include <new>
#include <optional>
#include <set>
#include <utility>

#include "hflush/env/own_process.h"
#include "hflush/env/timer.h"
#include "hflush/hdfs/wire/name_node_requests.h"
#include "hflush/hdfs/wire/remote_exception.h"

namespace hflush::hdfs {

namespace {

using Action = LeaseRenewal::Action;

// Returns whether the NameNode has decided nothing: it did not answer, or cannot decide now.
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
        renewal_(rpc_timeout, hard_limit),
        timer_(loop) {}

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
    // Of one that was given up:
    env::TimePoint due{};      // when it is given back
    bool is_asked = false;     // the NameNode has been, and will answer
    std::uint64_t number = 0;  // tells it from one that is given up later
  };
  using Files = std::map<FileKey, File>;
  struct GivenUp {
    std::uint64_t file_id = 0;
    std::uint64_t number = 0;
  };

  static FileKey key_of(std::uint64_t file_id) noexcept { return {file_id, nullptr}; }
  // Keeps a file until it is given back. Returns nothing if it is not kept: it is still written, or
  // the NameNode cannot be asked about it.
  std::optional<GivenUp> keep_given_up_locked(Files::node_type file, env::TimePoint due) noexcept
      HFLUSH_REQUIRES(mutex_);
  Files::iterator find_given_up_locked(const GivenUp& file) HFLUSH_REQUIRES(mutex_);
  // Those that are due now; they are asked about from here on.
  std::vector<GivenUp> due_locked(env::TimePoint now) HFLUSH_REQUIRES(mutex_);
  void give_back(const GivenUp& file) HFLUSH_EXCLUDES(mutex_);
  void recover(const GivenUp& file) HFLUSH_EXCLUDES(mutex_);
  // The outcome: done with, or asked about again.
  void given_back(const GivenUp& file, const Status& answer) HFLUSH_EXCLUDES(mutex_);
  void ask_again(const GivenUp& file) noexcept HFLUSH_EXCLUDES(mutex_);
  // Gives up all files; answers whom to tell.
  std::vector<std::weak_ptr<LeaseHolder>> lose_files_locked(env::TimePoint now)
      HFLUSH_REQUIRES(mutex_);
  void perform_locked(const LeaseRenewal::Step& step) HFLUSH_REQUIRES(mutex_);
  void on_timer(env::Timer::Arming arming);
  void on_answer(const Status& status);
  RenewLease request_locked() const HFLUSH_REQUIRES(mutex_);

  env::EventLoop& loop_;
  const std::shared_ptr<RpcClient> rpc_;
  const std::string client_name_;
  const env::Origin origin_;

  // Before the loop's. Never held across a call or a holder's function.
  mutable Mutex mutex_;
  State state_ HFLUSH_GUARDED_BY(mutex_) = State::kOpen;
  LeaseRenewal renewal_ HFLUSH_GUARDED_BY(mutex_);
  Files files_ HFLUSH_GUARDED_BY(mutex_);
  Files given_up_ HFLUSH_GUARDED_BY(mutex_);  // known by their ids only
  std::uint64_t last_given_up_ HFLUSH_GUARDED_BY(mutex_) = 0;
  env::Timer timer_ HFLUSH_GUARDED_BY(mutex_);
  std::int64_t renewals_ HFLUSH_GUARDED_BY(mutex_) = 0;
};

void Renewer::begin(std::uint64_t file_id, std::string name_space,
                    std::weak_ptr<LeaseHolder> holder) {
  if (origin_.is_parent()) return;
  const FileKey key(file_id, holder.lock().get());
  std::vector<GivenUp> due;
  {
    const MutexLock lock(mutex_);
    if (state_ == State::kClosed) return;
    given_up_.erase(key_of(file_id));  // it is written again
    files_.insert_or_assign(key, File{std::move(name_space), std::move(holder)});
    const env::TimePoint now = loop_.clock().now();
    perform_locked(renewal_.opened(now));
    due = due_locked(now);  // files that live shortly renew the lease without a renewal
  }
  for (const GivenUp& file : due) give_back(file);
}

void Renewer::end(std::uint64_t file_id, const LeaseHolder* holder) noexcept {
  if (origin_.is_parent()) return;
  const MutexLock lock(mutex_);
  if (files_.erase({file_id, holder}) == 0) return;
  if (files_.empty()) perform_locked(renewal_.emptied());
}

// Moves the entry: there may be no memory left.
void Renewer::give_up(std::uint64_t file_id, const LeaseHolder* holder, GiveBack when) noexcept {
  if (origin_.is_parent()) return;
  std::optional<GivenUp> kept;
  {
    const MutexLock lock(mutex_);
    Files::node_type file = files_.extract({file_id, holder});
    if (file.empty()) return;
    if (files_.empty()) perform_locked(renewal_.emptied());
    const env::TimePoint now = loop_.clock().now();
    const bool is_now = when == GiveBack::kNow;
    kept = keep_given_up_locked(std::move(file), is_now ? now : now + renewal_.soft_limit());
    if (!kept || !is_now) return;
    given_up_.find(key_of(file_id))->second.is_asked = true;
  }
  give_back(*kept);
}

// An older server's file has no id, and a router knows none: there is no asking about those.
std::optional<Renewer::GivenUp> Renewer::keep_given_up_locked(Files::node_type file,
                                                              env::TimePoint due) noexcept {
  const std::uint64_t file_id = file.key().first;
  if (file_id == 0 || !file.mapped().name_space.empty()) return {};
  const auto written = files_.lower_bound(key_of(file_id));
  if (written != files_.end() && written->first.first == file_id) return {};
  const GivenUp kept{file_id, ++last_given_up_};
  file.key() = key_of(file_id);
  file.mapped().holder.reset();
  file.mapped().due = due;
  file.mapped().is_asked = false;
  file.mapped().number = kept.number;
  given_up_.erase(key_of(file_id));
  given_up_.insert(std::move(file));
  return kept;
}

Renewer::Files::iterator Renewer::find_given_up_locked(const GivenUp& file) {
  const auto found = given_up_.find(key_of(file.file_id));
  return found != given_up_.end() && found->second.number == file.number ? found : given_up_.end();
}

// Without others the lease ends by itself.
std::vector<Renewer::GivenUp> Renewer::due_locked(env::TimePoint now) {
  std::vector<GivenUp> due;
  if (files_.empty()) return due;
  due.reserve(given_up_.size());  // none is marked and then not asked about
  for (auto& [key, file] : given_up_) {
    if (file.is_asked || file.due > now) continue;
    due.push_back({key.first, file.number});
    file.is_asked = true;
  }
  return due;
}

void Renewer::give_back(const GivenUp& file) {
  try {
    const std::string path = inode_path(file.file_id);
    rpc_->start(Fsync{path, client_name_, -1, file.file_id}, path,
                [weak = weak_from_this(), file](const Result<Nothing>& answer) {
                  const auto self = weak.lock();
                  if (!self) return;
                  auto& renewer = static_cast<Renewer&>(*self);
                  if (answer.ok()) return renewer.recover(file);
                  renewer.given_back(file, answer.status());
                });
  } catch (const std::bad_alloc&) {
    ask_again(file);
  }
}

void Renewer::recover(const GivenUp& file) {
  {
    const MutexLock lock(mutex_);
    if (find_given_up_locked(file) == given_up_.end()) return;  // written again
  }
  const std::string path = inode_path(file.file_id);
  rpc_->start(RecoverLease::kMethod, {Repeat::kNever, {}},
              RecoverLease{path, recovery_name(client_name_)}.encode(), path,
              [weak = weak_from_this(), file](const Result<std::string>& answer) {
                const auto self = weak.lock();
                if (self) static_cast<Renewer&>(*self).given_back(file, answer.status());
              });
}

void Renewer::given_back(const GivenUp& file, const Status& answer) {
  if (!answer.ok() && is_transient(answer)) return ask_again(file);
  const MutexLock lock(mutex_);
  const auto found = find_given_up_locked(file);
  if (found != given_up_.end()) given_up_.erase(found);
}

void Renewer::ask_again(const GivenUp& file) noexcept {
  const MutexLock lock(mutex_);
  const auto found = find_given_up_locked(file);
  if (found != given_up_.end()) found->second.is_asked = false;
}

std::int64_t Renewer::renewals() const {
  if (origin_.is_parent()) return 0;
  const MutexLock lock(mutex_);
  return renewals_;
}

void Renewer::close() {
  if (origin_.is_parent()) return;
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
    timer_.arm(step.when, *this, &Renewer::on_timer);
  } else if (step.action == Action::kDisarm) {
    timer_.cancel();
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

void Renewer::on_timer(env::Timer::Arming arming) {
  RenewLease request;
  {
    const MutexLock lock(mutex_);
    if (!timer_.fired(arming) || renewal_.timer_fired().action != Action::kRenew) return;
    request = request_locked();
    ++renewals_;
  }
  rpc_->start(request, {}, [weak = weak_from_this()](const Result<Nothing>& answer) {
    if (const auto self = weak.lock()) static_cast<Renewer&>(*self).on_answer(answer.status());
  });
}

void Renewer::on_answer(const Status& status) {
  std::vector<std::weak_ptr<LeaseHolder>> losers;
  std::vector<GivenUp> due;
  {
    const MutexLock lock(mutex_);
    const env::TimePoint now = loop_.clock().now();
    const LeaseRenewal::Step step =
        status.ok() ? renewal_.renewed(now) : renewal_.failed(now, status);
    perform_locked(step);
    if (step.action == Action::kGiveUp) losers = lose_files_locked(now);
    if (status.ok()) due = due_locked(now);
  }
  for (const GivenUp& file : due) give_back(file);
  for (const auto& loser : losers) {
    if (const auto holder = loser.lock()) holder->lease_lost(status);
  }
}

// Their streams end. The NameNode may see it otherwise, or not have been there: once there are
// other files, it is asked whether these are open still.
std::vector<std::weak_ptr<LeaseHolder>> Renewer::lose_files_locked(env::TimePoint now) {
  std::vector<std::weak_ptr<LeaseHolder>> losers;
  losers.reserve(files_.size());
  while (!files_.empty()) {
    losers.push_back(files_.begin()->second.holder);
    keep_given_up_locked(files_.extract(files_.begin()), now + renewal_.soft_limit());
  }
  return losers;
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
