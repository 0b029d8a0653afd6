// Status: the outcome of an operation, as a value.
//
// One pointer, null when fine, so success costs nothing. A failed Status says what, where and which
// number: a code for programs, the operating system's errno where there is one, the path, and a
// message in lower case that carries the operation and its numbers. Immutable and cheap to copy;
// several threads may hold copies of one failure. The core throws nothing (allocation failure
// passes through); src/cpp/bindings/errors.cc turns a Status into the Python exception, and nothing
// else does.
#pragma once

#include <any>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace hflush {

enum class StatusCode : std::uint8_t {
  kOk,
  kIo,                  // an operating system error that has no code of its own; see error_number()
  kNotFound,            // ENOENT
  kAlreadyExists,       // EEXIST
  kPathIsDirectory,     // a file was to be created where a directory is
  kNotAFile,            // a file was to be opened where a directory is
  kParentNotDirectory,  // an ancestor is a file
  kNotEmpty,            // ENOTEMPTY
  kPermissionDenied,    // EACCES, EPERM
  kInvalidPath,         // the name itself is not allowed
  kInvalidArgument,     // a caller's value is out of range: Python's ValueError
  kOutOfRange,          // an index or length outside its buffer: Python's IndexError
  kEndOfFile,           // fewer bytes than asked for: Python's EOFError
  kBadSeek,             // a position that cannot be sought
  kClosed,              // the stream is not open any more
  kUnsupported,         // this store cannot do that
  kChecksum,            // stored bytes do not match their checksum
  kLeaseHeld,           // another client is writing the file: EBUSY
  kLeaseHeldExists,     // a file to be created anew exists, and is being written
  kLeaseLost,           // this client does not hold the file open any more: ESTALE
  kPipeline,            // the servers that were to hold the bytes have failed
  kPreconditionFailed,  // the file is not the one that the caller meant: ESTALE
  kTimedOut,            // a deadline passed
  kInterrupted,         // the wait was interrupted; nothing is broken
  kForked,              // the object belongs to the parent process
  kReentered,           // called from within a call of the same thread: Python's RuntimeError
  kInternal,            // a broken invariant of this library
};

std::string_view to_string(StatusCode code) noexcept;

// Where a checksum failed: byte offset of the chunk, and both sums.
struct ChecksumMismatch {
  std::uint64_t position = 0;
  std::uint32_t expected = 0;
  std::uint32_t actual = 0;
};

class [[nodiscard]] Status {
 public:
  Status() noexcept = default;  // fine
  Status(StatusCode code, std::string message, std::string path = {}, int error_number = 0);

  // A failed system call: `operation` names it ("fdatasync", "open for append"); errno picks the
  // code.
  static Status from_errno(int error_number, std::string_view operation, std::string path);

  bool ok() const noexcept { return failure_ == nullptr; }
  StatusCode code() const noexcept { return failure_ ? failure_->code : StatusCode::kOk; }
  int error_number() const noexcept { return failure_ ? failure_->error_number : 0; }
  const std::string& message() const noexcept;
  const std::string& path() const noexcept;
  // What the layer that failed knows beyond the message, for programs; null if it is not a T.
  template <typename T>
  const T* detail() const noexcept {
    return failure_ && failure_->detail ? std::any_cast<T>(failure_->detail.get()) : nullptr;
  }
  const ChecksumMismatch* checksum_mismatch() const noexcept { return detail<ChecksumMismatch>(); }
  // The class of the exception that a Hadoop server answered with; empty if none did.
  const std::string& remote_class() const noexcept;
  // The failure that caused this one, if any (FAIL-13).
  const Status* cause() const noexcept;
  // Failures that happened beside this one (CLOSE-9).
  const std::vector<Status>& others() const noexcept;

  [[nodiscard]] Status with_path(std::string path) const;
  [[nodiscard]] Status with_cause(Status cause) const;
  [[nodiscard]] Status with_other(Status other) const;
  template <typename T>
  [[nodiscard]] Status with_detail(T detail) const {
    return with_any(std::make_shared<const std::any>(std::move(detail)));
  }
  [[nodiscard]] Status with_mismatch(ChecksumMismatch mismatch) const {
    return with_detail(mismatch);
  }
  [[nodiscard]] Status with_remote_class(std::string name) const;

  std::string to_string() const;

 private:
  struct Failure;
  explicit Status(std::shared_ptr<const Failure> failure) noexcept : failure_(std::move(failure)) {}
  Status with_any(std::shared_ptr<const std::any> detail) const;

  struct Failure {
    StatusCode code;
    int error_number;
    std::string message;
    std::string path;
    std::string remote_class;
    std::shared_ptr<const std::any> detail;
    std::shared_ptr<const Status> cause;
    std::vector<Status> others;
  };
  std::shared_ptr<const Failure> failure_;
};

// The first failure of two, with the second attached to it.
Status first_failure(const Status& first, Status second);

}  // namespace hflush

#define HFLUSH_CONCAT_INNER(a, b) a##b
#define HFLUSH_CONCAT(a, b) HFLUSH_CONCAT_INNER(a, b)

#define HFLUSH_RETURN_IF_ERROR(expression)                                    \
  do {                                                                        \
    if (::hflush::Status hflush_status = (expression); !hflush_status.ok()) { \
      return hflush_status;                                                   \
    }                                                                         \
  } while (false)
