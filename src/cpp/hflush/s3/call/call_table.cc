#include "hflush/s3/call/call_table.h"

#include <algorithm>
#include <new>

#include "hflush/base/check.h"

namespace hflush::s3 {
namespace {

// What Hadoop calls the counters of a store; of calls, not of attempts.
struct OperationCounter {
  std::string_view operation;
  std::string_view name;
};
constexpr std::array kOperationCounters = {
    OperationCounter{"GetObject", "action_http_get_request"},
    OperationCounter{"HeadObject", "object_metadata_request"},
    OperationCounter{"PutObject", "object_put_request"},
    OperationCounter{"CopyObject", "object_copy_requests"},
    OperationCounter{"DeleteObject", "object_delete_request"},
    OperationCounter{"DeleteObjects", "object_bulk_delete_request"},
    OperationCounter{"ListObjectsV2", "object_list_request"},
    OperationCounter{"ListObjects", "object_list_request"},
    OperationCounter{"CreateMultipartUpload", "object_multipart_initiated"},
    OperationCounter{"UploadPart", "multipart_upload_part_put"},
    OperationCounter{"CompleteMultipartUpload", "multipart_upload_completed"},
    OperationCounter{"AbortMultipartUpload", "object_multipart_aborted"},
    OperationCounter{"ListMultipartUploads", "multipart_upload_list"},
};

}  // namespace

CallTable::CallTable(const Settings& settings, std::uint64_t seed)
    : settings_(settings),
      addresses_(settings),
      random_(seed),
      // One that waits for a connection is signed already, and a store takes that for 15 minutes.
      rate_(std::min(settings.max_uploads, settings.http.max_connections)) {}

// --- calls ---------------------------------------------------------------------------------------

CallTable::CallId CallTable::start(CallRef call, Actions& actions) {
  const CallId id = last_id_ + 1;
  const CallAttempts attempts(retry_settings(*call), call->repeat);
  const auto found = calls_.emplace(id, Entry{std::move(call), attempts, WaitingForTurn{}}).first;
  Entry& entry = found->second;
  try {
    ready(id, entry, actions);
  } catch (const std::bad_alloc&) {
    turns_.remove(upload_of(id, entry));
    calls_.erase(found);
    throw;
  }
  last_id_ = id;
  const auto* const counter =
      std::ranges::find(kOperationCounters, entry.call->operation, &OperationCounter::operation);
  if (entry.call->is_counted && counter != kOperationCounters.end()) {
    ++operation_counts_[static_cast<std::size_t>(counter - kOperationCounters.begin())];
  }
  return id;
}

RetrySettings CallTable::retry_settings(const Call& call) const noexcept {
  RetrySettings retry = settings_.retry;
  if (call.retry_limit) {
    retry.limit = std::min(retry.limit, *call.retry_limit);
    retry.throttle_limit = std::min(retry.throttle_limit, *call.retry_limit);
  }
  return retry;
}

CallTable::CallRef CallTable::find(CallId id) const {
  const auto found = calls_.find(id);
  return found == calls_.end() ? nullptr : found->second.call;
}

// Its slot is free for another upload at once.
CallTable::CallRef CallTable::cancel(CallId id, Actions& actions) {
  const auto found = calls_.find(id);
  if (found == calls_.end() || std::holds_alternative<Stopping>(found->second.state)) return {};
  reserve(actions, 3);  // StopWanting, End, and the upload that gets its slot
  CallRef call = found->second.call;
  std::optional<End> end = leave(found, actions);
  start_uploads(actions);
  if (end) actions.emplace_back(*std::move(end));
  return call;
}

void CallTable::close(Actions& actions) {
  actions.reserve(2 * calls_.size());
  for (auto next = calls_.begin(); next != calls_.end();) {
    const auto found = next++;
    if (std::holds_alternative<Stopping>(found->second.state)) continue;
    if (std::optional<End> end = leave(found, actions)) actions.emplace_back(*std::move(end));
  }
}

std::optional<CallTable::End> CallTable::leave(Calls::iterator found, Actions& actions) {
  auto& [id, entry] = *found;
  if (entry.call->is_upload && entry.is_with_network()) --uploads_;
  if (std::holds_alternative<Starting>(entry.state)) {
    entry.state = Stopping{};
    return {};
  }
  leave_line(id, entry, actions);
  const auto* const sent = std::get_if<Sent>(&entry.state);
  End end{std::move(entry.call), sent != nullptr ? sent->exchange : 0};
  calls_.erase(found);
  return end;
}

void CallTable::leave_line(CallId id, const Entry& entry, Actions& actions) {
  if (std::holds_alternative<WaitingForTurn>(entry.state)) {
    turns_.remove(upload_of(id, entry));
  } else if (const auto* pausing = std::get_if<Pausing>(&entry.state)) {
    waits_.erase({pausing->until, id});
  } else if (const auto* in_line = std::get_if<InLine>(&entry.state)) {
    waits_.erase({in_line->until, id});
    budget_.leave(id);
  } else if (const auto* expired = std::get_if<Expired>(&entry.state)) {
    waits_.erase({expired->until, id});
    if (expired->want != 0) actions.emplace_back(StopWanting{expired->want});
  }
}

CallTable::ExchangeId CallTable::resume(CallId id) {
  const auto found = calls_.find(id);
  if (found == calls_.end()) return 0;
  if (auto* const starting = std::get_if<Starting>(&found->second.state)) starting->resumes = true;
  const auto* const sent = std::get_if<Sent>(&found->second.state);
  return sent != nullptr ? sent->exchange : 0;
}

// --- an attempt begins ---------------------------------------------------------------------------

void CallTable::ready(CallId id, Entry& entry, Actions& actions) {
  if (!entry.call->is_upload) return begin(entry, actions);
  entry.state = WaitingForTurn{};
  turns_.add(upload_of(id, entry), entry.attempt > 0);
  start_uploads(actions);
}

void CallTable::begin(Entry& entry, Actions& actions) {
  actions.emplace_back(Send{entry.call, entry.attempt + 1});
  ++entry.attempt;
  ++attempt_count_;
  entry.state = Starting{};
}

void CallTable::reserve(Actions& actions, std::size_t others) const {
  const std::size_t room = std::max(rate_.allowed(), uploads_) - uploads_;
  actions.reserve(actions.size() + std::min(room, calls_.size()) + others);
}

// What has its turn is sent: nothing fails between the two.
void CallTable::start_uploads(Actions& actions) {
  if (turns_.empty() || uploads_ >= rate_.allowed()) return;
  reserve(actions, 1);
  while (uploads_ < rate_.allowed()) {
    const std::optional<CallId> next = turns_.next();
    if (!next) return;
    ++uploads_;
    begin(calls_.at(*next), actions);
  }
}

Target CallTable::target(CallId id) const {
  HFLUSH_DCHECK(calls_.contains(id));
  const Entry& entry = calls_.at(id);
  return addresses_.target(entry.call->bucket, entry.address);
}

void CallTable::sent(CallId id, std::uint64_t attempt, ExchangeId exchange, Actions& actions) {
  const auto found = calls_.find(id);
  if (found == calls_.end() || found->second.attempt != attempt) return;
  Entry& entry = found->second;
  if (const auto* starting = std::get_if<Starting>(&entry.state)) {
    if (starting->resumes && exchange != 0) actions.emplace_back(Resume{exchange});
    entry.state = Sent{exchange};
  } else if (std::holds_alternative<Stopping>(entry.state)) {
    actions.emplace_back(End{std::move(entry.call), exchange});
    calls_.erase(found);
  }
}

// --- an attempt is over --------------------------------------------------------------------------

CallTable::Calls::iterator CallTable::find_with_network(CallId id) {
  const auto found = calls_.find(id);
  return found != calls_.end() && found->second.is_with_network() ? found : calls_.end();
}

void CallTable::succeeded(CallId id, env::TimePoint now, Actions& actions) {
  const auto found = find_with_network(id);
  if (found == calls_.end()) return;
  const Entry& entry = found->second;
  budget_.succeeded(entry.attempts.spent(), now);
  if (entry.call->is_upload) {
    --uploads_;
    rate_.succeeded();
  }
  start_retries(now, actions);
  start_uploads(actions);
  answer(found, actions);
}

void CallTable::failed(CallId id, const FailedAttempt& attempt, env::TimePoint now,
                       Actions& actions) {
  const auto found = find_with_network(id);
  if (found == calls_.end()) return;
  Entry& entry = found->second;
  const bool is_throttled = attempt.failure.kind == FailureKind::kThrottled;
  if (is_throttled) ++throttled_count_;
  if (entry.call->is_upload) {
    --uploads_;
    if (is_throttled) rate_.throttled(now);
  }
  addresses_.learn(entry.call->bucket, attempt.failure, attempt.time, entry.address);
  const Decision decision = decide(entry, attempt, now);
  switch (decision.what) {
    case Decision::What::kGiveUp:
      start_uploads(actions);
      return answer(found, actions);
    case Decision::What::kRetryWithNewer:
      wait(id, entry, Expired{decision.when});
      start_uploads(actions);
      actions.emplace_back(WantCredentials{entry.call, entry.attempt});
      return;
    case Decision::What::kRetry:
      ++retry_count_;
      if (decision.when > now) {
        wait(id, entry, Pausing{decision.when, decision.cost});
      } else {
        pay(id, entry, decision.cost, now, actions);
      }
      return start_uploads(actions);
  }
}

Decision CallTable::decide(Entry& entry, const FailedAttempt& attempt, env::TimePoint now) {
  if (!attempt.may_repeat) return {};
  Decision decision = entry.attempts.failed(attempt.failure, random_, now);
  if (const std::optional<env::TimePoint> ends = entry.call->ends) {
    if (decision.what == Decision::What::kRetry && decision.when >= *ends) return {};
    decision.when = std::min(decision.when, *ends);
  }
  return decision;
}

void CallTable::answer(Calls::iterator found, Actions& actions) {
  Entry& entry = found->second;
  const CallAttempts& attempts = entry.attempts;
  Answer answer{std::move(entry.call), static_cast<int>(entry.attempt), attempts.ambiguous(), {}};
  if (attempts.made() > 0) answer.deadline = attempts.deadline();
  calls_.erase(found);
  actions.emplace_back(std::move(answer));
}

// --- between two attempts ------------------------------------------------------------------------

template <typename State>
void CallTable::wait(CallId id, Entry& entry, State state) {
  waits_.emplace(state.until, id);
  entry.state = state;
}

void CallTable::pay(CallId id, Entry& entry, int cost, env::TimePoint now, Actions& actions) {
  if (budget_.start(id, cost, now)) return ready(id, entry, actions);
  const env::TimePoint ends = entry.call->ends.value_or(env::TimePoint::max());
  wait(id, entry, InLine{std::min(entry.attempts.deadline(), ends)});
  start_retries(now, actions);
}

void CallTable::start_retries(env::TimePoint now, Actions& actions) {
  while (const std::optional<CallId> next = budget_.next(now)) {
    Entry& entry = calls_.at(*next);
    waits_.erase({std::get<InLine>(entry.state).until, *next});
    ready(*next, entry, actions);
  }
}

void CallTable::wanted(CallId id, std::uint64_t attempt, WantId want, Actions& actions) {
  const auto found = calls_.find(id);
  if (found != calls_.end() && found->second.attempt == attempt) {
    if (auto* const expired = std::get_if<Expired>(&found->second.state)) {
      expired->want = want;
      return;
    }
  }
  if (want != 0) actions.emplace_back(StopWanting{want});
}

void CallTable::credentials_newer(CallId id, std::uint64_t attempt, Actions& actions) {
  const auto found = calls_.find(id);
  if (found == calls_.end() || found->second.attempt != attempt) return;
  Entry& entry = found->second;
  const auto* const state = std::get_if<Expired>(&entry.state);
  if (state == nullptr) return;
  const Expired expired = *state;
  try {
    ready(id, entry, actions);
  } catch (const std::bad_alloc&) {
    turns_.remove(upload_of(id, entry));
    entry.state = expired;
    throw;
  }
  waits_.erase({expired.until, id});
  ++retry_count_;
}

env::TimePoint CallTable::due() const noexcept {
  const env::TimePoint first = waits_.empty() ? env::TimePoint::max() : waits_.begin()->first;
  return std::min(first, budget_.next_at().value_or(env::TimePoint::max()));
}

void CallTable::time_passed(env::TimePoint now, Actions& actions) {
  start_retries(now, actions);
  while (!waits_.empty() && waits_.begin()->first <= now) {
    if (waited(waits_.extract(waits_.begin()).value().second, now, actions)) return;
  }
}

bool CallTable::waited(CallId id, env::TimePoint now, Actions& actions) {
  const auto found = calls_.find(id);
  Entry& entry = found->second;
  if (const auto* pausing = std::get_if<Pausing>(&entry.state)) {
    pay(id, entry, pausing->cost, now, actions);
    return false;
  }
  leave_line(id, entry, actions);
  answer(found, actions);
  return true;
}

// --- what is known -------------------------------------------------------------------------------

std::optional<CallTable::Stage> CallTable::stage(CallId id) const {
  const auto found = calls_.find(id);
  if (found == calls_.end()) return {};
  return static_cast<Stage>(found->second.state.index());
}

void CallTable::add_statistics(Statistics& statistics) const {
  static_assert(kOperationCounters.size() == kOperationCount);
  statistics["store_io_request"] += attempt_count_;
  statistics["store_io_retry"] += retry_count_;
  statistics["store_io_throttled"] += throttled_count_;
  for (std::size_t i = 0; i < kOperationCounters.size(); ++i) {
    statistics[kOperationCounters[i].name] += operation_counts_[i];
  }
}

}  // namespace hflush::s3
