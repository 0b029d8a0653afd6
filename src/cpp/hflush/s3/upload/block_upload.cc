#include "hflush/s3/upload/block_upload.h"

#include <algorithm>
#include <cerrno>
#include <utility>

namespace hflush::s3 {
namespace {

// How often an upload is aborted before it is reported as left.
constexpr std::uint32_t kAbortLimit = 4;
// How often a publication whose time ran out is asked for again.
constexpr std::uint32_t kSilenceLimit = 1;

std::string_view to_string(Seen::What what) noexcept {
  switch (what) {
    case Seen::What::kOurs:
      return "this object";
    case Seen::What::kAnother:
      return "another object";
    case Seen::What::kNothing:
      return "no object";
    case Seen::What::kCannotTell:
      return "something unknown";
  }
  return "?";
}

}  // namespace

std::string_view to_string(UploadState state) noexcept {
  switch (state) {
    case UploadState::kWriting:
      return "writing";
    case UploadState::kFinishing:
      return "finishing";
    case UploadState::kLooking:
      return "looking";
    case UploadState::kPublished:
      return "published";
    case UploadState::kPending:
      return "pending";
    case UploadState::kFailed:
      return "failed";
    case UploadState::kUnknown:
      return "unknown";
    case UploadState::kAbandoned:
      return "abandoned";
  }
  return "?";
}

BlockUpload::BlockUpload(UploadOptions options) : options_(std::move(options)) {
  options_.active_parts =
      std::clamp<std::size_t>(options_.active_parts, 1, options_.sizes.max_parts());
  options_.always_multipart = options_.always_multipart || options_.delayed;
}

bool BlockUpload::is_over() const noexcept {
  return state_ != UploadState::kWriting && state_ != UploadState::kFinishing &&
         state_ != UploadState::kLooking;
}

bool BlockUpload::busy() const noexcept {
  return upload_ == UploadIs::kCreating || upload_ == UploadIs::kAborting ||
         upload_ == UploadIs::kConfirming || !active_.empty() || publishing_ != Publishing::kNone;
}

std::vector<PartReceipt> BlockUpload::parts() const {
  std::vector<PartReceipt> parts;
  parts.reserve(receipts_.size());
  for (const auto& [number, receipt] : receipts_) parts.push_back(receipt);
  return parts;
}

std::uint64_t BlockUpload::begin_of(std::uint32_t number) const noexcept {
  const PartSizes& sizes = options_.sizes;
  return number <= sizes.max_parts() ? sizes.begin(number) : sizes.max_bytes();
}

std::uint64_t BlockUpload::part_bytes(std::uint32_t number) const noexcept {
  if (number == 0) return 0;
  return std::min(end_, begin_of(number + 1)) - std::min(end_, begin_of(number));
}

// Parts 1..n have all their bytes. An empty object has one, if it has parts at all.
std::uint32_t BlockUpload::ready_parts() const noexcept {
  if (state_ == UploadState::kWriting) return options_.sizes.at(end_) - 1;
  return end_ == 0 ? 1 : options_.sizes.at(end_ - 1);
}

// --- from the stream

void BlockUpload::put(std::uint64_t end, UploadActions& actions) {
  if (state_ != UploadState::kWriting || end <= end_) return;
  if (end > options_.sizes.max_bytes()) {
    return fail(
        Status(StatusCode::kIo,
               "write: an object of " + std::to_string(end) + " bytes is too large: at most " +
                   std::to_string(options_.sizes.max_bytes()) + " fit in " +
                   std::to_string(options_.sizes.max_parts()) + " parts",
               options_.path, EFBIG),
        actions);
  }
  end_ = end;
  advance(actions);
  acknowledge(actions);
}

void BlockUpload::stored(std::uint64_t offset, UploadActions& actions) {
  stored_ = std::max(stored_, offset);
  acknowledge(actions);
}

void BlockUpload::finish(UploadActions& actions) {
  if (state_ != UploadState::kWriting) return;
  state_ = UploadState::kFinishing;
  advance(actions);
}

void BlockUpload::abandon(UploadActions& actions) {
  if (!listening_) return;
  listening_ = false;
  give_up(UploadState::kAbandoned, actions);
}

void BlockUpload::broke(Status failure, UploadActions& actions) {
  fail(std::move(failure), actions);
}

// --- what is to be done next

// Asks for what can be asked for. Does nothing after the end, and while something is looked at.
void BlockUpload::advance(UploadActions& actions) {
  if (state_ != UploadState::kWriting && state_ != UploadState::kFinishing) return;
  if (upload_ == UploadIs::kNone && publishing_ == Publishing::kNone) {
    const bool is_multipart = options_.always_multipart || end_ >= options_.sizes.end(1);
    if (!is_multipart) {
      if (state_ == UploadState::kFinishing) publish(actions);
    } else if (ready_parts() > 0) {
      upload_ = UploadIs::kCreating;
      actions.emplace_back(upload_action::Create{});
    }
  }
  if (upload_ != UploadIs::kOpen) return;
  ask_for_parts(actions);
  if (state_ != UploadState::kFinishing || receipts_.size() != ready_parts()) return;
  if (options_.delayed) {
    state_ = UploadState::kPending;
    listening_ = false;
    actions.emplace_back(upload_action::Finished{});
  } else {
    publish(actions);
  }
}

void BlockUpload::ask_for_parts(UploadActions& actions) {
  const std::uint32_t ready = ready_parts();
  while (active_.size() < options_.active_parts && next_part_ <= ready) {
    active_.insert(next_part_);
    actions.emplace_back(upload_action::UploadPart{next_part_});
    ++next_part_;
  }
}

// Unfinished are the active parts, and all from next_part_ on.
void BlockUpload::acknowledge(UploadActions& actions) {
  if (!listening_) return;
  const std::uint32_t lowest = active_.empty() ? next_part_ : *active_.begin();
  const auto tolerated = static_cast<std::uint32_t>(options_.active_parts - active_.size());
  const std::uint64_t bound = begin_of(next_part_ + tolerated);
  const std::uint64_t offset = std::min(end_, std::max(begin_of(lowest), std::min(stored_, bound)));
  if (offset <= acknowledged_) return;
  acknowledged_ = offset;
  actions.emplace_back(upload_action::Acknowledge{offset});
}

// --- Create and parts

void BlockUpload::created(std::string upload_id, UploadActions& actions, bool maybe_another) {
  if (upload_ != UploadIs::kCreating) return;
  if (maybe_another) {
    leave(Status(StatusCode::kIo,
                 "another upload may be left whose id is not known: the first request to create it "
                 "was not answered",
                 options_.path, EIO));
  }
  if (upload_id.empty()) {  // an Abort with it would delete the object
    return create_failed(
        {FailureKind::kAmbiguous, true,
         Status(StatusCode::kIo, "create multipart upload: empty upload id", options_.path, EIO)},
        actions);
  }
  upload_ = UploadIs::kOpen;
  upload_id_ = std::move(upload_id);
  advance(actions);
  clean_up(actions);
}

void BlockUpload::create_failed(CallFailure failure, UploadActions& actions) {
  if (upload_ != UploadIs::kCreating) return;
  upload_ = UploadIs::kGone;
  if (failure.ambiguous || failure.kind == FailureKind::kAmbiguous) {
    leave(Status(StatusCode::kIo, "an upload may be left whose id is not known", options_.path, EIO)
              .with_cause(failure.status));
  }
  fail(std::move(failure.status), actions);
}

void BlockUpload::create_cancelled(UploadActions& actions) {
  create_failed(
      {FailureKind::kAmbiguous, true,
       Status(StatusCode::kInterrupted, "create multipart upload: cancelled", options_.path)},
      actions);
}

void BlockUpload::part_done(PartReceipt receipt, UploadActions& actions) {
  const std::uint32_t number = receipt.number;
  if (active_.erase(number) == 0) return;
  if (is_over()) return clean_up(actions);
  if (receipt.size != part_bytes(number)) {
    return fail(
        Status(StatusCode::kInternal,
               "upload part " + std::to_string(number) + ": " + std::to_string(receipt.size) +
                   " bytes sent of " + std::to_string(part_bytes(number)),
               options_.path, EIO),
        actions);
  }
  receipts_.emplace(number, std::move(receipt));
  actions.emplace_back(upload_action::Forget{number});
  acknowledge(actions);
  advance(actions);
}

void BlockUpload::part_failed(std::uint32_t number, CallFailure failure, UploadActions& actions) {
  if (active_.erase(number) == 0) return;
  if (failure.ambiguous || failure.kind == FailureKind::kAmbiguous) parts_may_land_ = true;
  fail(std::move(failure.status), actions);
  clean_up(actions);
}

void BlockUpload::part_cancelled(std::uint32_t number, UploadActions& actions) {
  if (active_.erase(number) == 0) return;
  parts_may_land_ = true;
  if (listening_) {
    return fail(Status(StatusCode::kInterrupted,
                       "upload part " + std::to_string(number) + ": cancelled", options_.path),
                actions);
  }
  clean_up(actions);
}

// --- publication

void BlockUpload::publish(UploadActions& actions) {
  if (upload_ == UploadIs::kNone) {
    publishing_ = Publishing::kPut;
    actions.emplace_back(upload_action::PutObject{end_, asked_again_});
  } else {
    publishing_ = Publishing::kComplete;
    actions.emplace_back(upload_action::Complete{asked_again_});
  }
}

void BlockUpload::put_done(std::string etag, UploadActions& actions, const Status& otherwise) {
  if (publishing_ == Publishing::kPut) published(std::move(etag), actions, otherwise);
}

void BlockUpload::completed(std::string etag, UploadActions& actions) {
  if (publishing_ == Publishing::kComplete) published(std::move(etag), actions);
}

void BlockUpload::put_failed(const CallFailure& failure, UploadActions& actions) {
  if (publishing_ == Publishing::kPut) publication_failed(failure, actions);
}

void BlockUpload::complete_failed(const CallFailure& failure, UploadActions& actions) {
  if (publishing_ == Publishing::kComplete) publication_failed(failure, actions);
}

void BlockUpload::publication_cancelled(UploadActions& actions) {
  switch (publishing_) {
    case Publishing::kNone:
      return upload_seen(UploadSeen::kCannotTell, actions);  // if that is what was looked at
    case Publishing::kPut:
    case Publishing::kComplete:
      return publication_failed(
          {FailureKind::kAmbiguous, true,
           Status(StatusCode::kInterrupted, "close: cancelled after sending", options_.path)},
          actions);
    case Publishing::kLookAtKey:
      return key_seen({Seen::What::kCannotTell, "",
                       Status(StatusCode::kInterrupted, "cancelled", options_.path)},
                      actions);
    case Publishing::kLookAtUpload:
      return upload_seen(UploadSeen::kCannotTell, actions);
  }
}

void BlockUpload::publication_failed(const CallFailure& failure, UploadActions& actions) {
  // NoSuchUpload may be what a repetition finds after success, also one that nobody here asked for.
  const bool is_ambiguous = failure.ambiguous || failure.kind == FailureKind::kAmbiguous ||
                            failure.kind == FailureKind::kGone;
  const bool is_refusal = failure.kind == FailureKind::kFinal ||
                          failure.kind == FailureKind::kConflict ||
                          failure.kind == FailureKind::kPrecondition;
  publishing_ = Publishing::kNone;
  publication_failure_ = refusal(failure);
  condition_broken_ =
      failure.kind == FailureKind::kConflict || failure.kind == FailureKind::kPrecondition;
  if (failure.status.code() == StatusCode::kTimedOut) ++silences_;
  may_ask_again_ = is_ambiguous && !is_refusal && silences_ <= kSilenceLimit;
  in_doubt_ = in_doubt_ || is_ambiguous;
  if (in_doubt_) return look(actions);
  not_published(actions);
}

// What a failed publication is to the caller.
Status BlockUpload::refusal(const CallFailure& failure) const {
  const bool is_condition =
      failure.kind == FailureKind::kPrecondition || failure.kind == FailureKind::kConflict;
  if (!is_condition || !options_.condition.any()) return failure.status;
  const bool exists = options_.condition.if_absent;
  return Status(exists ? StatusCode::kAlreadyExists : StatusCode::kPreconditionFailed,
                (exists ? "close: an object exists: "
                        : "close: the object is not " + options_.condition.if_match + ": ") +
                    failure.status.message(),
                options_.path, exists ? EEXIST : ESTALE)
      .with_remote_class(failure.status.remote_class());
}

// --- what became of a publication that was not answered

void BlockUpload::time_is_up() { is_late_ = true; }

void BlockUpload::look(UploadActions& actions) {
  state_ = UploadState::kLooking;
  publishing_ = Publishing::kLookAtKey;
  actions.emplace_back(upload_action::LookAtKey{});
}

void BlockUpload::key_seen(Seen seen, UploadActions& actions) {
  if (publishing_ != Publishing::kLookAtKey) return;
  publishing_ = Publishing::kNone;
  key_seen_ = seen.what;
  if (seen.what == Seen::What::kOurs) {
    return published(std::move(seen.etag), actions, seen.otherwise);
  }
  if (seen.what == Seen::What::kCannotTell) {
    return unknown("the key cannot be looked at: " + seen.failure.message(), actions);
  }
  switch (upload_) {
    case UploadIs::kNone: {
      // The condition keeps a repetition from replacing anything: the store says whether it holds.
      // Without one the call has been repeated already, as often as makes sense.
      const bool is_another = seen.what == Seen::What::kAnother;
      const Condition& condition = options_.condition;
      if ((condition.if_absent || (condition.any() && is_another)) && ask_again(actions)) return;
      // Another was first, says the store, and shows it.
      if (condition.any() && is_another && condition_broken_) return lost_the_race(actions);
      return unknown("the key holds " + std::string(to_string(seen.what)), actions);
    }
    case UploadIs::kGone:  // aborted since: what was under way at the store cannot succeed any more
      return not_published(actions);
    default:
      publishing_ = Publishing::kLookAtUpload;
      actions.emplace_back(upload_action::LookAtUpload{});
  }
}

bool BlockUpload::ask_again(UploadActions& actions) {
  if (!listening_ || !may_ask_again_ || is_late_) return false;
  if (asked_again_ >= options_.reconcile_limit) return false;
  ++asked_again_;
  state_ = UploadState::kFinishing;
  publish(actions);
  return true;
}

void BlockUpload::upload_seen(UploadSeen seen, UploadActions& actions) {
  if (upload_ == UploadIs::kConfirming) return abort_confirmed(seen, actions);
  if (publishing_ != Publishing::kLookAtUpload) return;
  publishing_ = Publishing::kNone;
  switch (seen) {
    case UploadSeen::kThere:
      // Not published so far. An abort makes that final, then the key is looked at again: the store
      // may still have been at it.
      if (!ask_again(actions)) abort(actions);
      return;
    case UploadSeen::kGone:
      upload_ = UploadIs::kGone;
      return unknown("upload " + upload_id_ + " is gone and the key holds " +
                         std::string(to_string(key_seen_)),
                     actions);
    case UploadSeen::kCannotTell:
      return unknown("upload " + upload_id_ + " cannot be looked at", actions);
  }
}

void BlockUpload::published(std::string etag, UploadActions& actions, const Status& otherwise) {
  if (!otherwise.ok() && listening_) tell_failed(otherwise, actions);
  publishing_ = Publishing::kNone;
  state_ = UploadState::kPublished;
  if (upload_ != UploadIs::kNone) upload_ = UploadIs::kGone;
  etag_ = std::move(etag);
  if (!std::exchange(listening_, false)) return;
  if (acknowledged_ < end_) actions.emplace_back(upload_action::Acknowledge{end_});
  actions.emplace_back(upload_action::Finished{});
}

void BlockUpload::not_published(UploadActions& actions) {
  if (listening_) tell_failed(publication_failure_, actions);
  state_ = otherwise_;
  clean_up(actions);
}

// Of a PutObject that was not answered at first. The caller is told what is so; whether ours was
// there for a moment nobody can say.
void BlockUpload::lost_the_race(UploadActions& actions) {
  if (listening_) tell_failed(publication_failure_, actions);
  state_ = UploadState::kUnknown;
}

void BlockUpload::unknown(const std::string& why, UploadActions& actions) {
  if (listening_) tell_failed(outcome_unknown(why, publication_failure_), actions);
  state_ = UploadState::kUnknown;
  if (upload_ != UploadIs::kOpen) return;
  upload_ = UploadIs::kLeft;
  leave(
      Status(StatusCode::kIo, "upload " + upload_id_ + " may be left: " + why, options_.path, EIO));
}

Status BlockUpload::outcome_unknown(const std::string& why, const Status& cause) const {
  const bool expired = cause.code() == StatusCode::kTimedOut;
  return Status(expired ? StatusCode::kTimedOut : StatusCode::kIo,
                "close: outcome unknown: " + why + ": " + cause.message(), options_.path,
                expired ? ETIMEDOUT : EIO)
      .with_cause(cause);
}

// --- failures

// The first one ends the upload; the others are attached to it.
void BlockUpload::fail(Status failure, UploadActions& actions) {
  if (!listening_) {
    if (failure_.ok()) return;
    failure_ = failure_.with_other(std::move(failure));
    for (UploadAction& action : actions) {  // not told yet
      if (auto* failed = std::get_if<upload_action::Failed>(&action)) failed->status = failure_;
    }
    return;
  }
  const bool was_sent = in_doubt_ || publishing_ != Publishing::kNone;
  tell_failed(
      was_sent ? outcome_unknown("the publication was under way", failure) : std::move(failure),
      actions);
  give_up(UploadState::kFailed, actions);
}

void BlockUpload::tell_failed(Status failure, UploadActions& actions) {
  listening_ = false;
  failure_ = std::move(failure);
  actions.emplace_back(upload_action::Failed{failure_});
}

// Nobody listens any more. What may have been published is still found out.
void BlockUpload::give_up(UploadState otherwise, UploadActions& actions) {
  otherwise_ = otherwise;
  if (state_ == UploadState::kLooking) return;
  const bool was_sent = publishing_ != Publishing::kNone;
  state_ = was_sent ? UploadState::kLooking : otherwise;
  if (was_sent || !active_.empty()) actions.emplace_back(upload_action::Cancel{});
  clean_up(actions);
}

// --- clean-up

// Parts in flight would bring an aborted upload back: they are waited for.
void BlockUpload::clean_up(UploadActions& actions) {
  const bool is_dropped = state_ == UploadState::kFailed || state_ == UploadState::kAbandoned;
  if (is_dropped && upload_ == UploadIs::kOpen && active_.empty()) abort(actions);
}

void BlockUpload::abort(UploadActions& actions) {
  ++aborts_;
  upload_ = UploadIs::kAborting;
  actions.emplace_back(upload_action::Abort{upload_id_});
}

void BlockUpload::aborted(UploadActions& actions) {
  if (upload_ != UploadIs::kAborting) return;
  if (parts_may_land_) {
    upload_ = UploadIs::kConfirming;
    actions.emplace_back(upload_action::LookAtUpload{});
    return;
  }
  upload_ = UploadIs::kGone;
  if (state_ == UploadState::kLooking) look(actions);
}

void BlockUpload::abort_confirmed(UploadSeen seen, UploadActions& actions) {
  if (seen == UploadSeen::kThere && aborts_ < kAbortLimit) return abort(actions);
  upload_ = seen == UploadSeen::kGone ? UploadIs::kGone : UploadIs::kLeft;
  if (upload_ == UploadIs::kGone) return;
  leave(Status(StatusCode::kIo,
               "upload " + upload_id_ +
                   (seen == UploadSeen::kThere ? " is still there" : " cannot be looked at") +
                   " after aborts: " + std::to_string(aborts_),
               options_.path, EIO));
}

void BlockUpload::abort_failed(Status failure, UploadActions& actions) {
  if (upload_ != UploadIs::kAborting) return;
  upload_ = UploadIs::kLeft;
  leave(Status(StatusCode::kIo, "upload " + upload_id_ + " may be left: " + failure.message(),
               options_.path, EIO)
            .with_cause(std::move(failure)));
  if (state_ == UploadState::kLooking) {
    unknown("upload " + upload_id_ + " could not be aborted", actions);
  }
}

void BlockUpload::leave(Status why) {
  cleanup_failure_ = first_failure(cleanup_failure_, std::move(why));
}

}  // namespace hflush::s3
