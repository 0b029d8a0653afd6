#include "hflush/hdfs/rpc/rpc_failure.h"

#include <array>
#include <cerrno>
#include <cstdio>
#include <utility>

namespace hflush::hdfs {

RpcFailure RpcFailure::remote(RemoteException exception) {
  RpcFailure failure;
  failure.kind = AttemptFailure::kRemote;
  failure.exception = std::move(exception);
  return failure;
}

RpcFailure RpcFailure::broken(int error_number, std::string what) {
  RpcFailure failure;
  failure.error_number = error_number;
  failure.what = std::move(what);
  return failure;
}

RpcFailure RpcFailure::closed(bool has_answered) {
  RpcFailure failure = broken(
      ECONNRESET, has_answered ? "closed the connection"
                               : "closed the connection without an answer: is this an RPC port?");
  failure.kind = AttemptFailure::kClosed;
  return failure;
}

RpcFailure RpcFailure::connecting(const Status& status, const env::Endpoint& endpoint) {
  RpcFailure failure = broken(status.error_number(), status.message());
  failure.code = status.code();
  failure.kind = status.code() == StatusCode::kTimedOut ? AttemptFailure::kConnectTimedOut
                                                        : AttemptFailure::kConnectRefused;
  // The message around it has the server's name.
  const std::string resolving = env::resolve_operation(endpoint);
  const std::string connecting = env::connect_operation(endpoint);
  if (failure.what.starts_with(resolving)) {
    failure.kind = AttemptFailure::kUnknownHost;
    failure.what.replace(0, resolving.size(), "resolve host");
  } else if (failure.what.starts_with(connecting)) {
    failure.what.replace(0, connecting.size(), "connect");
  }
  return failure;
}

RpcFailure RpcFailure::timed_out(env::Duration timeout) {
  const auto milliseconds = std::chrono::duration_cast<std::chrono::milliseconds>(timeout).count();
  RpcFailure failure =
      broken(ETIMEDOUT, "no answer within " + std::to_string(milliseconds) + " ms");
  failure.kind = AttemptFailure::kTimedOut;
  failure.code = StatusCode::kTimedOut;
  return failure;
}

RpcFailure RpcFailure::given_up() {
  RpcFailure failure = broken(ETIMEDOUT, "closed, because nothing came from it any more");
  failure.code = StatusCode::kTimedOut;
  return failure;
}

RpcFailure RpcFailure::unauthenticated(std::string what) {
  RpcFailure failure = broken(EACCES, std::move(what));
  failure.kind = AttemptFailure::kUnauthenticated;
  failure.code = StatusCode::kPermissionDenied;
  return failure;
}

Status RpcFailure::to_status(std::string_view method, std::string_view server,
                             const std::string& path, int attempt_count, env::Duration time) const {
  std::string effort;
  if (kind != AttemptFailure::kRemote || attempt_count > 1) {
    std::array<char, 64> text;
    std::snprintf(text.data(), text.size(), " (%d attempt%s in %.1f s)", attempt_count,
                  attempt_count == 1 ? "" : "s", std::chrono::duration<double>(time).count());
    effort = text.data();
  }
  if (kind == AttemptFailure::kRemote) {
    return hdfs::to_status(exception, method, server, path, effort);
  }
  std::string message(method);
  message += ": ";
  message += server;
  message += ": ";
  message += what;
  message += effort;
  return Status(code, std::move(message), path, error_number);
}

}  // namespace hflush::hdfs
