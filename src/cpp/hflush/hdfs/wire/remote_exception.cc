#include "hflush/hdfs/wire/remote_exception.h"

#include <algorithm>
#include <array>
#include <cerrno>

namespace hflush::hdfs {
namespace {

struct Meaning {
  StatusCode code = StatusCode::kIo;
  int error_number = 0;
};

struct Row {
  std::string_view class_name;
  Meaning meaning;
};

// Found by the whole name first, then by what follows the last '.' or '$'.
constexpr auto kRows = std::to_array<Row>({
    {"java.io.FileNotFoundException", {StatusCode::kNotFound}},
    {"java.io.InterruptedIOException", {StatusCode::kIo, EINTR}},
    {"java.lang.IllegalArgumentException", {StatusCode::kInvalidArgument}},
    {"java.lang.UnsupportedOperationException", {StatusCode::kUnsupported}},
    {"java.net.SocketTimeoutException", {StatusCode::kTimedOut}},
    {"javax.security.sasl.SaslException", {StatusCode::kPermissionDenied}},
    {"org.apache.hadoop.HadoopIllegalArgumentException", {StatusCode::kInvalidArgument}},
    {"org.apache.hadoop.fs.FileAlreadyExistsException", {StatusCode::kAlreadyExists}},
    {"org.apache.hadoop.fs.InvalidPathException", {StatusCode::kInvalidPath}},
    {"org.apache.hadoop.fs.InvalidRequestException", {StatusCode::kInvalidArgument}},
    {"org.apache.hadoop.fs.ParentNotDirectoryException", {StatusCode::kParentNotDirectory}},
    {"org.apache.hadoop.fs.PathAccessDeniedException", {StatusCode::kPermissionDenied}},
    {"org.apache.hadoop.fs.PathExistsException", {StatusCode::kAlreadyExists}},
    {"org.apache.hadoop.fs.PathIsDirectoryException", {StatusCode::kPathIsDirectory}},
    {"org.apache.hadoop.fs.PathIsNotDirectoryException", {StatusCode::kParentNotDirectory}},
    {"org.apache.hadoop.fs.PathIsNotEmptyDirectoryException", {StatusCode::kNotEmpty}},
    {"org.apache.hadoop.fs.PathNotFoundException", {StatusCode::kNotFound}},
    {"org.apache.hadoop.fs.PathPermissionException", {StatusCode::kPermissionDenied}},
    {"org.apache.hadoop.fs.UnresolvedLinkException", {StatusCode::kIo, ELOOP}},
    {"org.apache.hadoop.hdfs.protocol.AlreadyBeingCreatedException", {StatusCode::kLeaseHeld}},
    {"org.apache.hadoop.hdfs.protocol.DSQuotaExceededException", {StatusCode::kIo, EDQUOT}},
    {"org.apache.hadoop.hdfs.protocol.FSLimitException$MaxDirectoryItemsExceededException",
     {StatusCode::kIo, EDQUOT}},
    {"org.apache.hadoop.hdfs.protocol.FSLimitException$PathComponentTooLongException",
     {StatusCode::kIo, ENAMETOOLONG}},
    {"org.apache.hadoop.hdfs.protocol.NSQuotaExceededException", {StatusCode::kIo, EDQUOT}},
    {"org.apache.hadoop.hdfs.protocol.QuotaByStorageTypeExceededException",
     {StatusCode::kIo, EDQUOT}},
    {"org.apache.hadoop.hdfs.protocol.QuotaExceededException", {StatusCode::kIo, EDQUOT}},
    {"org.apache.hadoop.hdfs.protocol.RecoveryInProgressException", {StatusCode::kLeaseHeld}},
    {"org.apache.hadoop.hdfs.protocol.RecoveryInProgressException"
     "$NonAbortingRecoveryInProgressException",
     {StatusCode::kLeaseHeld}},
    {"org.apache.hadoop.hdfs.protocol.SnapshotAccessControlException",
     {StatusCode::kPermissionDenied}},
    {"org.apache.hadoop.hdfs.protocol.UnresolvedPathException", {StatusCode::kIo, ELOOP}},
    {"org.apache.hadoop.hdfs.server.namenode.LeaseExpiredException", {StatusCode::kLeaseLost}},
    {"org.apache.hadoop.hdfs.server.namenode.SafeModeException", {StatusCode::kIo, EROFS}},
    {"org.apache.hadoop.ipc.RpcNoSuchMethodException", {StatusCode::kIo, ENOSYS}},
    {"org.apache.hadoop.ipc.RpcNoSuchProtocolException", {StatusCode::kIo, EPROTONOSUPPORT}},
    {"org.apache.hadoop.ipc.RPC$VersionMismatch", {StatusCode::kIo, EPROTONOSUPPORT}},
    {"org.apache.hadoop.security.AccessControlException", {StatusCode::kPermissionDenied}},
    {"org.apache.hadoop.security.authorize.AuthorizationException",
     {StatusCode::kPermissionDenied}},
    {"org.apache.hadoop.security.token.SecretManager$InvalidToken",
     {StatusCode::kPermissionDenied}},
});

std::string_view last_name(std::string_view class_name) noexcept {
  const std::size_t separator = class_name.find_last_of(".$");
  return separator == std::string_view::npos ? class_name : class_name.substr(separator + 1);
}

// RpcErrorCodeProto.
Meaning meaning_of_detail(int error_detail) noexcept {
  switch (error_detail) {
    case 2:  // ERROR_NO_SUCH_METHOD
      return {StatusCode::kIo, ENOSYS};
    case 3:   // ERROR_NO_SUCH_PROTOCOL
    case 6:   // ERROR_RPC_VERSION_MISMATCH
    case 14:  // FATAL_VERSION_MISMATCH
      return {StatusCode::kIo, EPROTONOSUPPORT};
    case 15:  // FATAL_UNAUTHORIZED
      return {StatusCode::kPermissionDenied};
    default:
      return {};
  }
}

Meaning meaning_of_class(const RemoteException& exception) noexcept {
  const std::string_view class_name = exception.class_name;
  const auto exact = std::ranges::find(kRows, class_name, &Row::class_name);
  if (exact != kRows.end()) return exact->meaning;
  const auto alike = std::ranges::find_if(
      kRows, [&](const Row& row) { return last_name(row.class_name) == last_name(class_name); });
  return alike == kRows.end() ? meaning_of_detail(exception.error_detail) : alike->meaning;
}

// Where one class has several meanings the server's text decides.
Meaning meaning_of(const RemoteException& exception, std::string_view method) noexcept {
  const std::string_view text = exception.message;
  const Meaning meaning = meaning_of_class(exception);
  const auto says = [text](std::string_view words) {
    return text.find(words) != std::string_view::npos;
  };
  const bool is_of_own_block = method == "updateBlockForPipeline" || method == "updatePipeline";
  switch (meaning.code) {
    case StatusCode::kAlreadyExists:
      if (says("already exists as a directory") || says("Cannot append to directory")) {
        return {StatusCode::kPathIsDirectory};
      }
      break;
    case StatusCode::kNotFound:
      if (text.starts_with("Path is not a file") || text.starts_with("Is not a file")) {
        return {StatusCode::kNotAFile};
      }
      break;
    case StatusCode::kPermissionDenied:
      if (says(" (is not a directory)") && !text.starts_with("Permission denied")) {
        return {StatusCode::kParentNotDirectory};
      }
      break;
    case StatusCode::kLeaseHeld:
      // A create that may overwrite takes the file away from its writer: this one might not.
      if (method == "create") return {StatusCode::kLeaseHeldExists};
      break;
    case StatusCode::kIo:
      // In a nameservice safe mode comes wrapped, and a lost lease may show in the block only.
      if (is_class(exception.class_name, "RetriableException") && says("SafeModeException")) {
        return {StatusCode::kIo, EROFS};
      }
      if (text.starts_with("Unexpected BlockUCState")) return {StatusCode::kLeaseLost};
      if (is_of_own_block &&
          (says(" does not exist.") || says("does not exist or it is not under construction"))) {
        return {StatusCode::kLeaseLost};  // the file was deleted, and its block with it
      }
      if (text.starts_with("rename destination directory is not empty")) {
        return {StatusCode::kNotEmpty};
      }
      if (says("Pathname too long")) return {StatusCode::kIo, ENAMETOOLONG};
      if (says("cannot be the root") || says("is a directory or file under source")) {
        return {StatusCode::kIo, EINVAL};
      }
      if (is_class(exception.class_name, "AssertionError") &&
          text.starts_with("Absolute path required")) {
        return {StatusCode::kInvalidPath};
      }
      break;
    default:
      break;
  }
  return meaning;
}

}  // namespace

std::string_view without_stack_trace(std::string_view message) noexcept {
  return message.substr(0, message.find("\n\tat "));
}

bool is_class(std::string_view class_name, std::string_view simple) noexcept {
  if (!class_name.ends_with(simple)) return false;
  if (class_name.size() == simple.size()) return true;
  const char before = class_name[class_name.size() - simple.size() - 1];
  return before == '.' || before == '$';
}

Status to_status(const RemoteException& exception, std::string_view method, std::string_view server,
                 std::string path, std::string_view effort) {
  const Meaning meaning = meaning_of(exception, method);
  std::string message(method);
  message += ": ";
  message += server;
  message += ": ";
  if (!exception.message.empty()) {
    message += exception.message;
  } else {
    message += exception.class_name.empty() ? "an exception without a name" : exception.class_name;
  }
  message += effort;
  return Status(meaning.code, std::move(message), std::move(path), meaning.error_number)
      .with_remote_class(exception.class_name);
}

}  // namespace hflush::hdfs
