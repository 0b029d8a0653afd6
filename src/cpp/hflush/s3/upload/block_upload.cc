#include "hflush/s3/upload/block_upload.h"

#include <algorithm>
#include <cerrno>
#include <utility>

namespace hflush::s3 {
namespace {

// How often an upload is aborted before it is reported as left.
constexpr std::uint32_t kAbortLimit = 4;

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

std::uint64_t BegunUpload::bytes() const noexcept {
  std::uint64_t bytes = 0;
  for (const PartReceipt& part : parts) bytes += part.size;
  return bytes;
}

Status check_begun(const BegunUpload& begun, const PartSizes& sizes) {
  const auto refused = [](const std::string& why) {
    return Status(StatusCode::kInvalidArgument, "an upload cannot go on like that: " + why);
  };
  if (begun.upload_id.empty()) return refused("it has no id");
  if (begun.parts.size() > sizes.max_parts()) {
    return refused("it has " + std::to_string(begun.parts.size()) + " parts of " +
                   std::to_string(sizes.max_parts()));
  }
  std::uint32_t number = 0;
  for (const PartReceipt& part : begun.parts) {
    ++number;
    if (part.number != number) {
      return refused("part " + std::to_string(part.number) + " is in the place of part " +
                     std::to_string(number));
    }
    if (part.size != sizes.size(number) || part.etag.empty()) {
      return refused("part " + std::to_string(number) + " has " + std::to_string(part.size) +
                     " bytes of " + std::to_string(sizes.size(number)) + " and the etag '" +
                     part.etag + "'");
    }
  }
  return {};
}

BlockUpload::BlockUpload(UploadOptions options) : options_(std::move(options)) {
  options_.active_parts =
      std::clamp<std::size_t>(options_.active_parts, 1, options_.sizes.max_parts());
  options_.always_multipart = options_.always_multipart || options_.delayed;
  if (!options_.begun) return;
  BegunUpload begun = *std::exchange(options_.begun, std::nullopt);
  upload_ = UploadIs::kOpen;
  holders_ = Holders::kFirst;
  upload_id_ = std::move(begun.upload_id);
  end_ = acknowledged_ = begun.bytes();
  for (PartReceipt& part : begun.parts) receipts_.emplace(part.number, std::move(part));
  next_part_ = static_cast<std::uint32_t>(receipts_.size()) + 1;
}

bool BlockUpload::is_over() const noexcept {
  return state_ != UploadState::kWriting && state_ != UploadState::kFinishing &&
         state_ != UploadState::kLooking;
}

bool BlockUpload::busy() const noexcept {
  return upload_ == UploadIs::kCreating || upload_ == UploadIs::kAborting ||
         upload_ == UploadIs::kConfirming || !active_.empty() ||
         (publication_ && !publication_->is_over());
}

std::string_view BlockUpload::etag() const noexcept {
  return publication_ ? std::string_view(publication_->etag()) : std::string_view();
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

void BlockUpload::keep(std::uint32_t parts, UploadActions& actions) {
  if (state_ != UploadState::kWriting) return;
  keeping_ = parts;
  advance(actions);
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
  if (upload_ == UploadIs::kNone && !publication_) {
    const bool has_parts = options_.sizes.max_parts() > 1 && end_ >= options_.sizes.end(1);
    const bool is_multipart = options_.always_multipart || keeping_ || has_parts;
    if (!is_multipart) {
      if (state_ == UploadState::kFinishing) publish(actions);
    } else if (ready_parts() > 0 || keeping_) {
      upload_ = UploadIs::kCreating;
      actions.emplace_back(upload_action::Create{});
    }
  }
  if (upload_ != UploadIs::kOpen) return;
  ask_for_parts(actions);
  tell_kept(actions);
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

void BlockUpload::tell_kept(UploadActions& actions) {
  if (!keeping_ || lowest_unfinished() <= *keeping_) return;
  holders_ = Holders::kFirst;
  actions.emplace_back(upload_action::Kept{*std::exchange(keeping_, std::nullopt)});
}

// Unfinished are the active parts, and all from next_part_ on.
std::uint32_t BlockUpload::lowest_unfinished() const noexcept {
  return active_.empty() ? next_part_ : *active_.begin();
}

void BlockUpload::acknowledge(UploadActions& actions) {
  if (!listening_) return;
  const auto tolerated = static_cast<std::uint32_t>(options_.active_parts - active_.size());
  const std::uint64_t bound = begin_of(next_part_ + tolerated);
  const std::uint64_t offset =
      std::min(end_, std::max(begin_of(lowest_unfinished()), std::min(stored_, bound)));
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

void BlockUpload::part_done(PartReceipt receipt, UploadActions& actions, bool maybe_twice) {
  const std::uint32_t number = receipt.number;
  if (active_.erase(number) == 0) return;
  parts_may_land_ = parts_may_land_ || maybe_twice;
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
  publication_.emplace(Publication::Options{.path = options_.path,
                                            .upload_id = upload_id_,
                                            .condition = options_.condition,
                                            .holders = holders_,
                                            .limit = options_.reconcile_limit});
  go_on(actions);
}

bool BlockUpload::awaits(Publication::Step step) const noexcept {
  return publication_ && publication_->step() == step;
}

bool BlockUpload::awaits_put() const noexcept {
  return awaits(Publication::Step::kAsk) && upload_ == UploadIs::kNone;
}

bool BlockUpload::awaits_complete() const noexcept {
  return awaits(Publication::Step::kAsk) && upload_ != UploadIs::kNone;
}

// Asks for what the publication wants next, or ends.
void BlockUpload::go_on(UploadActions& actions, const Status& otherwise) {
  const std::uint32_t again = publication_->asked_again();
  switch (publication_->step()) {
    case Publication::Step::kAsk:
      state_ = UploadState::kFinishing;
      if (awaits_put()) {
        actions.emplace_back(upload_action::PutObject{end_, again});
      } else {
        actions.emplace_back(upload_action::Complete{again});
      }
      return;
    case Publication::Step::kLookAtKey:
      state_ = UploadState::kLooking;
      actions.emplace_back(upload_action::LookAtKey{});
      return;
    case Publication::Step::kLookAtUpload:
      actions.emplace_back(upload_action::LookAtUpload{});
      return;
    case Publication::Step::kFence:
      return abort(actions);
    case Publication::Step::kPublished:
      published(otherwise, actions);
      break;
    case Publication::Step::kNotPublished:
      not_published(actions);
      break;
    case Publication::Step::kUnknown:
      unknown(actions);
  }
  confirm_abort(actions);
}

void BlockUpload::put_done(std::string etag, UploadActions& actions, const Status& otherwise) {
  if (!awaits_put()) return;
  publication_->succeeded(std::move(etag));
  go_on(actions, otherwise);
}

void BlockUpload::completed(std::string etag, UploadActions& actions) {
  if (!awaits_complete()) return;
  publication_->succeeded(std::move(etag));
  go_on(actions);
}

void BlockUpload::put_failed(const CallFailure& failure, UploadActions& actions) {
  if (!awaits_put()) return;
  publication_->failed(failure);
  go_on(actions);
}

void BlockUpload::complete_failed(const CallFailure& failure, UploadActions& actions) {
  if (!awaits_complete()) return;
  publication_->failed(failure);
  go_on(actions);
}

void BlockUpload::publication_cancelled(UploadActions& actions) {
  if (awaits(Publication::Step::kAsk)) {
    publication_->failed(
        {FailureKind::kAmbiguous, true,
         Status(StatusCode::kInterrupted, "close: cancelled after sending", options_.path)});
    return go_on(actions);
  }
  key_seen(
      {Seen::What::kCannotTell, "", Status(StatusCode::kInterrupted, "cancelled", options_.path)},
      actions);
  upload_seen(UploadSeen::kCannotTell, actions);
}

void BlockUpload::time_is_up() {
  if (publication_) publication_->stop_asking();
}

void BlockUpload::key_seen(const Seen& seen, UploadActions& actions) {
  if (!awaits(Publication::Step::kLookAtKey)) return;
  publication_->key_seen(seen);
  go_on(actions, seen.otherwise);
}

void BlockUpload::upload_seen(UploadSeen seen, UploadActions& actions) {
  if (upload_ == UploadIs::kConfirming) return abort_confirmed(seen, actions);
  if (!awaits(Publication::Step::kLookAtUpload)) return;
  if (seen == UploadSeen::kGone) upload_ = UploadIs::kGone;
  publication_->upload_seen(seen);
  go_on(actions);
}

void BlockUpload::published(const Status& otherwise, UploadActions& actions) {
  if (!otherwise.ok() && listening_) tell_failed(otherwise, actions);
  state_ = UploadState::kPublished;
  if (upload_ != UploadIs::kNone) upload_ = UploadIs::kGone;
  if (!std::exchange(listening_, false)) return;
  if (acknowledged_ < end_) actions.emplace_back(upload_action::Acknowledge{end_});
  actions.emplace_back(upload_action::Finished{});
}

void BlockUpload::not_published(UploadActions& actions) {
  // Nothing fences the Complete of an upload that goes on: it may still be executed. One that has
  // ended was perhaps completed by it, and perhaps by another holder.
  if (holders_ != Holders::kOne && publication_->is_in_doubt()) {
    if (listening_) {
      tell_failed(publication_->unknown_because("others may go on with the upload",
                                                publication_->failure()),
                  actions);
    }
    state_ = UploadState::kUnknown;
    return;
  }
  if (listening_) tell_failed(publication_->failure(), actions);
  state_ = otherwise_;
  clean_up(actions);
}

void BlockUpload::unknown(UploadActions& actions) {
  if (listening_) tell_failed(publication_->failure(), actions);
  state_ = UploadState::kUnknown;
  if (upload_ != UploadIs::kOpen) return;
  upload_ = UploadIs::kLeft;
  leave(Status(StatusCode::kIo, "upload " + upload_id_ + " may be left: " + publication_->reason(),
               options_.path, EIO));
}

// --- failures

// The first one ends the upload; the others are attached to it.
void BlockUpload::fail(Status failure, UploadActions& actions) {
  if (!listening_) {
    if (failure_.ok()) return;
    failure_ = failure_.with_other(std::move(failure));
    for (UploadAction& action : actions) {  // not reported yet
      if (auto* failed = std::get_if<upload_action::Failed>(&action)) failed->status = failure_;
    }
    return;
  }
  tell_failed(publication_ ? publication_->unknown_because("the publication was under way", failure)
                           : std::move(failure),
              actions);
  give_up(UploadState::kFailed, actions);
}

void BlockUpload::tell_failed(Status failure, UploadActions& actions) {
  listening_ = false;
  failure_ = std::move(failure);
  actions.emplace_back(upload_action::Failed{failure_});
}

// The stream listens no more. What may have been published is still found out.
void BlockUpload::give_up(UploadState otherwise, UploadActions& actions) {
  otherwise_ = otherwise;
  if (publication_) publication_->stop_asking();
  if (state_ == UploadState::kLooking) return;
  state_ = publication_ ? UploadState::kLooking : otherwise;
  if (publication_ || !active_.empty()) actions.emplace_back(upload_action::Cancel{});
  clean_up(actions);
}

// --- clean-up

// Parts in flight would bring an aborted upload back: they are waited for. One that others may go
// on with stays.
void BlockUpload::clean_up(UploadActions& actions) {
  const bool is_dropped = state_ == UploadState::kFailed || state_ == UploadState::kAbandoned;
  const bool is_ours = holders_ == Holders::kOne;
  if (is_dropped && is_ours && upload_ == UploadIs::kOpen && active_.empty()) abort(actions);
}

void BlockUpload::abort(UploadActions& actions) {
  ++aborts_;
  upload_ = UploadIs::kAborting;
  actions.emplace_back(upload_action::Abort{upload_id_});
}

void BlockUpload::aborted(UploadActions& actions) {
  if (upload_ != UploadIs::kAborting) return;
  upload_ = UploadIs::kGone;
  if (!awaits(Publication::Step::kFence)) return confirm_abort(actions);
  publication_->fenced();
  go_on(actions);
}

// A part that was given up may have brought the upload back.
void BlockUpload::confirm_abort(UploadActions& actions) {
  if (aborts_ == 0 || !parts_may_land_ || upload_ != UploadIs::kGone) return;
  upload_ = UploadIs::kConfirming;
  actions.emplace_back(upload_action::LookAtUpload{});
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
  if (!awaits(Publication::Step::kFence)) return;
  publication_->fence_failed();
  go_on(actions);
}

void BlockUpload::leave(Status why) {
  cleanup_failure_ = first_failure(cleanup_failure_, std::move(why));
}

}  // namespace hflush::s3
