#include "errors.h"

#include <pybind11/stl.h>

#include <cerrno>
#include <string>
#include <string_view>

#include "hflush/base/check.h"
#include "hflush/hdfs/write/write_failure.h"
#include "history.h"

namespace py = pybind11;

namespace hflush::bindings {
namespace {

// The class in hflush.errors or builtins, and the errno it carries where the system gave none.
struct Exception {
  const char* module;
  const char* name;
  int error_number;
};

constexpr const char* kBuiltins = "builtins";
constexpr const char* kErrors = "hflush.errors";

Exception exception_of(StatusCode code) noexcept {
  switch (code) {
    case StatusCode::kNotFound:
      return {kBuiltins, "FileNotFoundError", ENOENT};
    case StatusCode::kAlreadyExists:
      return {kBuiltins, "FileExistsError", EEXIST};
    case StatusCode::kPathIsDirectory:
      return {kErrors, "PathIsDirectoryError", EISDIR};
    case StatusCode::kNotAFile:
      return {kErrors, "NotAFileError", EISDIR};
    case StatusCode::kParentNotDirectory:
      return {kErrors, "ParentNotDirectoryError", ENOTDIR};
    case StatusCode::kNotEmpty:
      return {kBuiltins, "OSError", ENOTEMPTY};
    case StatusCode::kPermissionDenied:
      return {kBuiltins, "PermissionError", EACCES};
    case StatusCode::kInvalidPath:
      return {kErrors, "InvalidPathError", EINVAL};
    case StatusCode::kInvalidArgument:
      return {kBuiltins, "ValueError", 0};
    case StatusCode::kOutOfRange:
      return {kBuiltins, "IndexError", 0};
    case StatusCode::kEndOfFile:
      return {kErrors, "EndOfFileError", ENODATA};
    case StatusCode::kBadSeek:
      return {kErrors, "SeekError", EINVAL};
    case StatusCode::kClosed:
    case StatusCode::kForked:
      return {kErrors, "StreamClosedError", EBADF};
    case StatusCode::kUnsupported:
      return {"io", "UnsupportedOperation", ENOTSUP};
    case StatusCode::kChecksum:
      return {kErrors, "ChecksumError", EIO};
    case StatusCode::kLeaseHeld:
      return {kErrors, "LeaseHeldError", EBUSY};
    case StatusCode::kLeaseHeldExists:
      return {kErrors, "FileLeaseHeldError", EBUSY};
    case StatusCode::kLeaseLost:
      return {kErrors, "LeaseLostError", ESTALE};
    case StatusCode::kPipeline:
      return {kErrors, "PipelineError", EIO};
    case StatusCode::kPreconditionFailed:
      return {kErrors, "PreconditionFailedError", ESTALE};
    case StatusCode::kTimedOut:
      return {kBuiltins, "TimeoutError", ETIMEDOUT};
    case StatusCode::kInterrupted:
      return {kBuiltins, "InterruptedError", EINTR};
    case StatusCode::kReentered:
      return {kBuiltins, "RuntimeError", 0};
    case StatusCode::kOk:
    case StatusCode::kInternal:
      return {kErrors, "InternalError", 0};
    case StatusCode::kIo:
      break;
  }
  return {kBuiltins, "OSError", EIO};
}

py::object construct(const py::object& type, const Exception& exception, const Status& status) {
  if (exception.error_number == 0) {
    const std::string where = status.path().empty() ? "" : ": '" + status.path() + "'";
    return type(text_of(status.message() + where));
  }
  const int error_number =
      status.error_number() != 0 ? status.error_number() : exception.error_number;
  const py::str message = text_of(status.message());
  if (status.path().empty()) return type(error_number, message);
  return type(error_number, message, text_of(status.path()));
}

void add_story(const py::object& made, StatusCode code, const hdfs::WriteFailure& failure) {
  made.attr("history") = to_list(failure.history);
  if (code != StatusCode::kPipeline) return;
  const py::object failed_node = py::module_::import("hflush.status").attr("FailedNode");
  py::list nodes;
  for (const hdfs::FailedNode& node : failure.failed_nodes) {
    nodes.append(failed_node(text_of(node.address), node.place, text_of(node.reason), node.offset,
                             seconds_since_epoch(node.when)));
  }
  made.attr("failed_nodes") = py::tuple(nodes);
  made.attr("block") = text_of(failure.block);
  made.attr("generation_stamps") = py::tuple(py::cast(failure.generation_stamps));
  made.attr("acknowledged") = failure.acknowledged;
}

}  // namespace

py::str text_of(std::string_view bytes) {
  return py::reinterpret_steal<py::str>(
      PyUnicode_DecodeFSDefaultAndSize(bytes.data(), static_cast<Py_ssize_t>(bytes.size())));
}

py::object make_exception(const Status& status) {
  HFLUSH_DCHECK(!status.ok());
  const Exception exception = exception_of(status.code());
  const py::object type = py::module_::import(exception.module).attr(exception.name);
  py::object made = construct(type, exception, status);
  if (const ChecksumMismatch* mismatch = status.checksum_mismatch()) {
    made.attr("position") = mismatch->position;
    made.attr("expected") = mismatch->expected;
    made.attr("actual") = mismatch->actual;
  }
  if (const auto* failure = status.detail<hdfs::WriteFailure>()) {
    add_story(made, status.code(), *failure);
  }
  if (!status.remote_class().empty()) made.attr("remote_class") = text_of(status.remote_class());
  if (const Status* cause = status.cause()) made.attr("__cause__") = make_exception(*cause);
  for (const Status& other : status.others()) {
    const py::str note = text_of("also: " + other.to_string());
    // add_note() exists since Python 3.11; the attribute is what it sets.
    if (!py::hasattr(made, "__notes__")) made.attr("__notes__") = py::list();
    py::list(made.attr("__notes__")).append(note);
  }
  return made;
}

void set_exception(const Status& status) {
  if (status.code() == StatusCode::kInterrupted && PyErr_Occurred() != nullptr) return;
  try {
    const PendingError raised;  // by a signal handler, where that did not end the wait
    const py::object exception = make_exception(status);
    if (const py::object before = raised.value(); !before.is_none()) {
      PyException_SetContext(exception.ptr(), before.inc_ref().ptr());
    }
    PyErr_SetObject(py::type::of(exception).ptr(), exception.ptr());
  } catch (py::error_already_set& error) {
    error.restore();
  }
}

void check(const Status& status) {
  if (status.ok()) return;
  set_exception(status);
  throw py::error_already_set();
}

}  // namespace hflush::bindings
