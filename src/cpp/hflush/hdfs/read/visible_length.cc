#include "hflush/hdfs/read/visible_length.h"

#include <algorithm>
#include <cerrno>
#include <memory>
#include <string>
#include <utility>

#include "hflush/base/check.h"
#include "hflush/base/mutex.h"
#include "hflush/env/answer.h"
#include "hflush/env/loop_cond_var.h"
#include "hflush/env/socket.h"
#include "hflush/hdfs/wire/remote_exception.h"

namespace hflush::hdfs {
namespace {

constexpr env::Duration kStartingPause = std::chrono::milliseconds(500);

// What the DataNodes answer, for the thread that waits. Thread-safe.
class LengthAnswers {
 public:
  struct Answer {
    std::size_t replica;
    Result<std::int64_t> length;
  };

  void add(std::size_t replica, Result<std::int64_t> length) HFLUSH_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    answers_.push_back({replica, std::move(length)});
    changed_.notify_all();
  }
  // One answer at least. kTimedOut after `deadline`, or the failure of `interrupt`. `loop` brings
  // the answers; null: none does.
  Result<std::vector<Answer>> wait(env::TimePoint deadline, env::Interrupt& interrupt,
                                   env::EventLoop* loop) HFLUSH_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    while (answers_.empty()) {
      HFLUSH_RETURN_IF_ERROR(env::wait_until(mutex_, changed_, deadline, interrupt, loop));
    }
    return std::exchange(answers_, {});
  }

 private:
  // Before the loop's. Never held across a call.
  Mutex mutex_;
  env::LoopCondVar changed_;
  std::vector<Answer> answers_ HFLUSH_GUARDED_BY(mutex_);
};

}  // namespace

LengthSearch::LengthSearch(const LocatedBlock& block)
    : block_(block), nodes_(block.replicas.size()) {
  HFLUSH_DCHECK(!block.replicas.empty());
}

void LengthSearch::answered(std::size_t replica, const Result<std::int64_t>& length) {
  Asked& node = nodes_[replica];
  if (!length.ok()) {
    node = {state_after(length.status()), length.status()};
  } else if (*length < 0) {
    const char* const what = "restarted since the block was begun; recover_lease closes the file";
    node = {State::kFailed, Status(StatusCode::kIo, what)};
  } else if (const auto shown = static_cast<std::uint64_t>(*length); shown < block_.block.length) {
    node = {State::kWithout, Status(StatusCode::kIo, "shows " + std::to_string(shown) + " of the " +
                                                         std::to_string(block_.block.length) +
                                                         " bytes that the NameNode has recorded")};
  } else if (!length_) {
    length_ = shown;
  }
}

LengthSearch::State LengthSearch::state_after(const Status& failure) {
  if (is_class(failure.remote_class(), "ReplicaNotFoundException")) return State::kWithout;
  if (is_class(failure.remote_class(), "RetriableException")) return State::kStarting;
  return State::kFailed;
}

std::optional<Result<std::uint64_t>> LengthSearch::outcome() const {
  if (length_) return *length_;
  const auto are = [&](State state) {
    return std::ranges::count(nodes_, state, [](const Asked& node) { return node.state; });
  };
  if (are(State::kAsked) + are(State::kStarting) > 0) return std::nullopt;
  if (are(State::kFailed) == 0) return std::uint64_t{0};
  return failure({});
}

bool LengthSearch::any_is_starting() const noexcept {
  return std::ranges::any_of(nodes_,
                             [](const Asked& node) { return node.state == State::kStarting; });
}

std::vector<std::size_t> LengthSearch::take_starting() {
  std::vector<std::size_t> starting;
  for (std::size_t replica = 0; replica < nodes_.size(); ++replica) {
    if (nodes_[replica].state != State::kStarting) continue;
    nodes_[replica].state = State::kAsked;
    starting.push_back(replica);
  }
  return starting;
}

Status LengthSearch::timed_out(env::Duration timeout) const {
  return failure(env::timed_out("getReplicaVisibleLength", timeout));
}

Status LengthSearch::failure(const Status& unanswered) const {
  std::string message =
      "no DataNode knows the length of " + block_.block.to_string() + ", which is being written";
  char separator = ':';
  for (std::size_t replica = 0; replica < nodes_.size(); ++replica) {
    const Status& said = nodes_[replica].failure;
    message += separator + (" " + block_.replicas[replica].node.transfer_address()) + ": " +
               (said.ok() ? unanswered : said).message();
    separator = ';';
  }
  return Status(StatusCode::kIo, std::move(message), {}, EIO);
}

Result<std::uint64_t> visible_length(const ReadContext& context, const LocatedBlock& block,
                                     env::Interrupt& interrupt) {
  const env::Duration timeout = context.settings.read.socket_timeout;
  const env::TimePoint deadline = env::deadline_after(context.clock.now(), timeout);
  const auto answers = std::make_shared<LengthAnswers>();
  std::vector<std::shared_ptr<void>> questions(block.replicas.size());
  const auto ask = [&](std::size_t replica) {
    questions[replica] =
        context.ask_visible_length(block.replicas[replica].node, block.block, block.token,
                                   [answers, replica](Result<std::int64_t> length) {
                                     answers->add(replica, std::move(length));
                                   });
  };
  for (std::size_t replica = 0; replica < questions.size(); ++replica) ask(replica);
  LengthSearch search(block);
  while (!search.outcome()) {
    const env::TimePoint pause_ends = context.clock.now() + kStartingPause;
    const auto came =
        answers->wait(search.any_is_starting() ? std::min(deadline, pause_ends) : deadline,
                      interrupt, context.name_node.loop());
    if (came.ok()) {
      for (const auto& [replica, length] : *came) search.answered(replica, length);
    } else if (came.status().code() != StatusCode::kTimedOut) {
      return came.status();
    } else if (context.clock.now() >= deadline) {
      return search.timed_out(timeout);
    } else {
      for (const std::size_t replica : search.take_starting()) ask(replica);
    }
  }
  return *search.outcome();
}

}  // namespace hflush::hdfs
