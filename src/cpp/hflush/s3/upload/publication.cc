#include "hflush/s3/upload/publication.h"

#include <cerrno>
#include <utility>

namespace hflush::s3 {
namespace {

std::string_view to_string(Seen::What what) noexcept {
  switch (what) {
    case Seen::What::kOurs:
      return "this object";
    case Seen::What::kAnother:
      return "another object";
    case Seen::What::kNothing:
      return "no object";
    case Seen::What::kHidden:
      return "something hidden";
    case Seen::What::kCannotTell:
      return "something unknown";
  }
  return "?";
}

std::string not_seen(const Seen& seen) {
  return "the key cannot be looked at: " + seen.failure.message();
}

}  // namespace

std::string_view to_string(Publication::Step step) noexcept {
  switch (step) {
    case Publication::Step::kAsk:
      return "ask";
    case Publication::Step::kLookAtKey:
      return "look at the key";
    case Publication::Step::kLookAtUpload:
      return "look at the upload";
    case Publication::Step::kFence:
      return "fence";
    case Publication::Step::kPublished:
      return "published";
    case Publication::Step::kNotPublished:
      return "not published";
    case Publication::Step::kUnknown:
      return "unknown";
  }
  return "?";
}

bool Publication::is_condition_broken() const noexcept {
  return last_.kind == FailureKind::kConflict || last_.kind == FailureKind::kPrecondition;
}

// Another request for the key was under way, perhaps one that has removed an object.
bool Publication::is_undecided() const noexcept {
  return last_.kind == FailureKind::kConflict && options_.condition.if_absent;
}

// The last failure was of a kind that may pass.
bool Publication::may_help() const noexcept {
  const bool is_refusal = last_.kind == FailureKind::kFinal || is_condition_broken();
  return last_.ambiguous && !is_refusal && (is_in_progress() || silences_ <= kSilenceLimit);
}

void Publication::succeeded(std::string etag) {
  step_ = Step::kPublished;
  etag_ = std::move(etag);
}

void Publication::failed(const CallFailure& failure) {
  const bool is_gone = failure.kind == FailureKind::kGone;
  last_ = failure;
  last_.ambiguous =
      failure.ambiguous || failure.kind == FailureKind::kAmbiguous || is_in_progress();
  key_ = Seen::What::kCannotTell;
  // The answer to a repetition after a success, also to one by libcurl or a proxy.
  if (is_gone && (options_.holders == Holders::kOne || in_doubt_)) last_.ambiguous = true;
  if (failure.status.code() == StatusCode::kTimedOut) ++silences_;
  if (is_in_progress()) ++in_progress_;
  in_doubt_ = in_doubt_ || last_.ambiguous;
  if (in_doubt_) return look_at_key(Look::kInDoubt);
  const bool is_refusal = is_gone || is_condition_broken() || failure.kind == FailureKind::kFinal ||
                          failure.kind == FailureKind::kTransit;
  const bool may_be_another = options_.holders == Holders::kEqual && is_refusal;
  if (may_be_another || is_undecided()) return look_at_key(Look::kAfterRefusal);
  step_ = Step::kNotPublished;
}

// The failure of the last call as the caller gets it.
Status Publication::refusal() const {
  const Condition& condition = options_.condition;
  if (is_undecided() && key_ != Seen::What::kAnother) {
    return refused_by(StatusCode::kIo, EBUSY,
                      "the store has not decided between this object and another request, and the "
                      "key holds " +
                          std::string(to_string(key_)) + ". Write it again");
  }
  if (is_condition_broken() && condition.if_absent) {
    return refused_by(StatusCode::kAlreadyExists, EEXIST, "an object exists");
  }
  if (is_condition_broken() && condition.any()) {
    return refused_by(StatusCode::kPreconditionFailed, ESTALE,
                      "the object is not " + condition.if_match);
  }
  if (last_.kind == FailureKind::kGone && options_.holders != Holders::kOne) {
    return Status(StatusCode::kNotFound,
                  options_.operation + ": no such upload: " + options_.upload_id, options_.path,
                  ENOENT)
        .with_cause(last_.status);
  }
  return last_.status;
}

Status Publication::refused_by(StatusCode code, int error_number, const std::string& why) const {
  return Status(code, options_.operation + ": " + why + ": " + last_.status.message(),
                options_.path, error_number)
      .with_remote_class(last_.status.remote_class());
}

void Publication::look_at_key(Look why) noexcept {
  step_ = Step::kLookAtKey;
  look_ = why;
}

void Publication::key_seen(const Seen& seen) {
  key_ = seen.what;
  if (seen.what == Seen::What::kOurs) return succeeded(seen.etag);
  // These refusals may come of another holder's publication; any other one is final.
  const bool may_be_published =
      look_ != Look::kAfterRefusal || (options_.holders == Holders::kEqual &&
                                       (last_.kind == FailureKind::kGone || is_condition_broken()));
  const bool is_hidden = seen.what == Seen::What::kHidden;
  const bool tells_more = is_hidden && look_ == Look::kInDoubt;  // the upload, or a repetition
  if ((is_hidden || seen.what == Seen::What::kCannotTell) && may_be_published && !tells_more) {
    return unknown(not_seen(seen));
  }
  switch (look_) {
    case Look::kAfterRefusal:
    case Look::kAfterFence:
      step_ = Step::kNotPublished;
      return;
    case Look::kAfterEnd:
      return unknown("upload " + options_.upload_id + " is gone and the key holds " +
                     std::string(to_string(seen.what)));
    case Look::kInDoubt:
      if (is_put()) return put_not_found(seen);
      step_ = Step::kLookAtUpload;
  }
}

// The condition keeps a repetition from replacing anything: the store says whether it holds.
// Without one the call has been repeated already, as often as makes sense.
void Publication::put_not_found(const Seen& seen) {
  const Condition& condition = options_.condition;
  const bool is_hidden = seen.what == Seen::What::kHidden;
  const bool may_be_another = is_hidden || seen.what == Seen::What::kAnother;
  if ((condition.if_absent || (condition.any() && may_be_another)) && ask_again()) return;
  unknown(is_hidden ? not_seen(seen) : "the key holds " + std::string(to_string(seen.what)));
}

bool Publication::ask_again() noexcept {
  if (!may_ask_ || !may_help() || asked_again_ >= options_.limit + in_progress_) return false;
  ++asked_again_;
  step_ = Step::kAsk;
  return true;
}

// The upload is there, and is not asked for again. Where the store has said that it is completing
// it, an abort would remove the parts of what is about to be published.
void Publication::end_in_doubt(Step otherwise) {
  if (in_progress_ > 0) {
    return unknown("the store may still be completing upload " + options_.upload_id);
  }
  step_ = otherwise;
}

void Publication::upload_seen(UploadSeen seen) {
  const bool is_ours = options_.holders == Holders::kOne;
  switch (seen) {
    case UploadSeen::kThere:
      if (ask_again()) return;
      return end_in_doubt(is_ours ? Step::kFence : Step::kNotPublished);
    case UploadSeen::kGone:  // completed since the key was looked at, perhaps
      return look_at_key(Look::kAfterEnd);
    case UploadSeen::kHidden:
      if (last_.kind == FailureKind::kGone) return look_at_key(Look::kAfterEnd);
      if (ask_again()) return;
      if (is_ours) return end_in_doubt(Step::kFence);
      [[fallthrough]];
    case UploadSeen::kCannotTell:
      return unknown("upload " + options_.upload_id + " cannot be looked at");
  }
}

void Publication::fenced() { look_at_key(Look::kAfterFence); }

void Publication::fence_failed() {
  unknown("upload " + options_.upload_id + " could not be aborted");
}

void Publication::unknown(std::string reason) {
  step_ = Step::kUnknown;
  reason_ = std::move(reason);
}

// A conditional PutObject that was not answered at first, and then refused because of the object
// at the key: the caller gets the refusal. Our object may have been there for a moment.
Status Publication::failure() const {
  const bool is_lost_race =
      is_put() && options_.condition.any() && is_condition_broken() && key_ == Seen::What::kAnother;
  if (step_ == Step::kUnknown && !is_lost_race) return unknown_because(reason_, refusal());
  return refusal();
}

Status Publication::unknown_because(const std::string& reason, const Status& cause) const {
  const bool expired = cause.code() == StatusCode::kTimedOut;
  return Status(expired ? StatusCode::kTimedOut : StatusCode::kIo,
                options_.operation + ": outcome unknown: " + reason + ": " + cause.message(),
                options_.path, expired ? ETIMEDOUT : EIO)
      .with_cause(cause);
}

}  // namespace hflush::s3
