// RpcFrames: what a server of Hadoop's RPC sends, cut into responses; and the frames it is sent.
//
// Frames are untrusted: none is longer than what has arrived, or than ipc.maximum.response.length,
// and one that does not fit is Garbage, with the reason; nothing is read after that. Without I/O.
// Thread-compatible.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "hflush/base/bytes.h"
#include "hflush/hdfs/wire/remote_exception.h"

namespace hflush::hdfs {

// Tells the calls of one client object from those of all others: with a call's id, the key of the
// NameNode's retry cache.
using ClientId = std::array<char, 16>;

namespace rpc_event {

// The call has its response message.
struct Response {
  std::int32_t call_id;
  std::string body;
};
// The call has failed at the server; the channel goes on.
struct Error {
  std::int32_t call_id;
  RemoteException exception;
};
// The server refuses the connection: every call fails, and the connection is to be closed.
struct Fatal {
  RemoteException exception;
};
// What came is not the protocol: likewise.
struct Garbage {
  std::string what;  // "answers HTTP (HTTP/1.1 404 Not Found): is this a web port?"
};

}  // namespace rpc_event

using RpcEvent =
    std::variant<rpc_event::Response, rpc_event::Error, rpc_event::Fatal, rpc_event::Garbage>;

class RpcFrames {
 public:
  explicit RpcFrames(std::uint32_t max_bytes) : max_bytes_(max_bytes) {}

  // The next bytes; they live until next() has returned nullopt.
  void feed(ByteView bytes);
  // What the next whole frame means; nullopt: it has not all come.
  std::optional<RpcEvent> next();
  // How many frames there were.
  std::uint64_t count() const noexcept { return count_; }
  // What came and is not read yet, after next() has returned something; nothing is left here.
  std::string take_rest();

 private:
  void keep_rest();
  std::optional<RpcEvent> refuse(std::string what);

  const std::uint32_t max_bytes_;
  std::uint64_t count_ = 0;
  bool is_garbage_ = false;
  std::string kept_;       // the start of a frame, from earlier
  std::string_view rest_;  // what is to be read: of `kept_`, or of what was fed
};

// The first bytes of a connection.
enum class RpcAuthentication : std::uint8_t { kNone = 0, kSasl = 0xDF };
std::string rpc_preamble(RpcAuthentication authentication);
// What goes to a server: a header (RpcRequestHeaderProto) with its length in front, and a frame
// around a body.
std::string rpc_header(std::int32_t call_id, std::int32_t retry_count, std::string_view client_id);
std::string rpc_frame(std::string_view body);
// Of headers that belong to no call.
inline constexpr std::int32_t kNoRetryCount = -1;

}  // namespace hflush::hdfs
