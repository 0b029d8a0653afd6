#include "hflush/base/status.h"

#include <cerrno>
#include <system_error>
#include <utility>

namespace hflush {
namespace {

const std::string kEmpty;
const std::vector<Status> kNone;

StatusCode code_of(int error_number) noexcept {
  switch (error_number) {
    case ENOENT:
      return StatusCode::kNotFound;
    case EEXIST:
      return StatusCode::kAlreadyExists;
    case EISDIR:
      return StatusCode::kPathIsDirectory;
    case ENOTDIR:
      return StatusCode::kParentNotDirectory;
    case ENOTEMPTY:
      return StatusCode::kNotEmpty;
    case EACCES:
    case EPERM:
      return StatusCode::kPermissionDenied;
    case ETIMEDOUT:
      return StatusCode::kTimedOut;
    case ENOSYS:
    case ENOTSUP:
      return StatusCode::kUnsupported;
    default:
      return StatusCode::kIo;
  }
}

}  // namespace

std::string_view to_string(StatusCode code) noexcept {
  switch (code) {
    case StatusCode::kOk:
      return "ok";
    case StatusCode::kIo:
      return "i/o error";
    case StatusCode::kNotFound:
      return "not found";
    case StatusCode::kAlreadyExists:
      return "already exists";
    case StatusCode::kPathIsDirectory:
      return "path is a directory";
    case StatusCode::kNotAFile:
      return "not a file";
    case StatusCode::kParentNotDirectory:
      return "parent is not a directory";
    case StatusCode::kNotEmpty:
      return "directory not empty";
    case StatusCode::kPermissionDenied:
      return "permission denied";
    case StatusCode::kInvalidPath:
      return "invalid path";
    case StatusCode::kInvalidArgument:
      return "invalid argument";
    case StatusCode::kOutOfRange:
      return "out of range";
    case StatusCode::kEndOfFile:
      return "end of file";
    case StatusCode::kBadSeek:
      return "bad seek";
    case StatusCode::kClosed:
      return "stream closed";
    case StatusCode::kUnsupported:
      return "unsupported";
    case StatusCode::kChecksum:
      return "checksum error";
    case StatusCode::kLeaseHeld:
      return "lease held";
    case StatusCode::kLeaseHeldExists:
      return "already exists and lease held";
    case StatusCode::kLeaseLost:
      return "lease lost";
    case StatusCode::kPipeline:
      return "pipeline failed";
    case StatusCode::kPreconditionFailed:
      return "precondition failed";
    case StatusCode::kTimedOut:
      return "timed out";
    case StatusCode::kInterrupted:
      return "interrupted";
    case StatusCode::kForked:
      return "opened before fork";
    case StatusCode::kReentered:
      return "reentrant call";
    case StatusCode::kInternal:
      return "internal error";
  }
  return "unknown";
}

Status::Status(StatusCode code, std::string message, std::string path, int error_number)
    : failure_(std::make_shared<const Failure>(
          Failure{code, error_number, std::move(message), std::move(path), {}, {}, {}, {}})) {}

Status Status::from_errno(int error_number, std::string_view operation, std::string path) {
  std::string message(operation);
  message += ": ";
  message += std::generic_category().message(error_number);
  return Status(code_of(error_number), std::move(message), std::move(path), error_number);
}

const std::string& Status::message() const noexcept {
  return failure_ ? failure_->message : kEmpty;
}

const std::string& Status::path() const noexcept { return failure_ ? failure_->path : kEmpty; }

const std::string& Status::remote_class() const noexcept {
  return failure_ ? failure_->remote_class : kEmpty;
}

const Status* Status::cause() const noexcept { return failure_ ? failure_->cause.get() : nullptr; }

const std::vector<Status>& Status::others() const noexcept {
  return failure_ ? failure_->others : kNone;
}

Status Status::with_path(std::string path) const {
  if (ok()) return *this;
  Failure changed = *failure_;
  changed.path = std::move(path);
  return Status(std::make_shared<const Failure>(std::move(changed)));
}

Status Status::with_cause(Status cause) const {
  if (ok() || cause.ok()) return *this;
  Failure changed = *failure_;
  changed.cause = std::make_shared<const Status>(std::move(cause));
  return Status(std::make_shared<const Failure>(std::move(changed)));
}

Status Status::with_other(Status other) const {
  if (ok() || other.ok()) return *this;
  Failure changed = *failure_;
  changed.others.push_back(std::move(other));
  return Status(std::make_shared<const Failure>(std::move(changed)));
}

Status Status::with_any(std::shared_ptr<const std::any> detail) const {
  if (ok()) return *this;
  Failure changed = *failure_;
  changed.detail = std::move(detail);
  return Status(std::make_shared<const Failure>(std::move(changed)));
}

Status Status::with_remote_class(std::string name) const {
  if (ok()) return *this;
  Failure changed = *failure_;
  changed.remote_class = std::move(name);
  return Status(std::make_shared<const Failure>(std::move(changed)));
}

std::string Status::to_string() const {
  if (ok()) return "ok";
  std::string text(hflush::to_string(failure_->code));
  text += ": " + failure_->message;
  if (!failure_->path.empty()) text += ": '" + failure_->path + "'";
  return text;
}

Status first_failure(const Status& first, Status second) {
  return first.ok() ? second : first.with_other(std::move(second));
}

}  // namespace hflush
