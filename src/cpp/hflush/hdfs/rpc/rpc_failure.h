// RpcFailure: why one attempt of a call failed, for the retry policy and for the reader of the
// message. Values; thread-compatible.
#pragma once

#include <string>
#include <string_view>

#include "hflush/base/status.h"
#include "hflush/env/clock.h"
#include "hflush/env/socket.h"
#include "hflush/hdfs/rpc/retry_policy.h"
#include "hflush/hdfs/wire/remote_exception.h"

namespace hflush::hdfs {

struct RpcFailure {
  AttemptFailure kind = AttemptFailure::kBroken;
  StatusCode code = StatusCode::kIo;
  int error_number = 0;
  std::string what;           // without method and server
  RemoteException exception;  // of kRemote, which has no other text

  // The server answered with an exception.
  static RpcFailure remote(RemoteException exception);
  // An established connection failed.
  static RpcFailure broken(int error_number, std::string what);
  // The server ended it; `has_answered` something before.
  static RpcFailure closed(bool has_answered);
  // `status` is what env::TcpConnection says of an attempt to connect to `endpoint`.
  static RpcFailure connecting(const Status& status, const env::Endpoint& endpoint);
  // Nothing came for as long as a call may take: of a call that waited for so long, and of one that
  // was lost with the connection for that reason.
  static RpcFailure timed_out(env::Duration timeout);
  static RpcFailure given_up();
  // The server and this client do not agree about who calls, or the server did not prove who it is.
  static RpcFailure unauthenticated(std::string what);

  // "getFileInfo: NameNode nn:8020: connect: Connection refused (3 attempts in 2.0 s)". A first
  // attempt that the server answered is given without its number. `server`: "NameNode nn:8020".
  Status to_status(std::string_view method, std::string_view server, const std::string& path,
                   int attempt_count, env::Duration time) const;
};

}  // namespace hflush::hdfs
