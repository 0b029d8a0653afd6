// RpcChannel: what goes over one connection of Hadoop's RPC. A state machine without I/O.
//
// The owner sends what greeting(), call() and ping() give it, in this order, hands over whatever it
// receives, cut anywhere, and asks check() now and then, at the latest at the time that check()
// named before. Frames are untrusted: none is longer than what has arrived, or than
// ipc.maximum.response.length, and one that does not fit ends the channel with the reason. The
// channel is for SIMPLE authentication: the connection context says who calls.
//
//   kOpen    calls go out, responses come in
//   kEnded   the server has refused the connection, or sent what is not RPC; nothing is read any
//   more
//
// Thread-compatible: its owner locks.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <variant>
#include <vector>

#include "hflush/base/bytes.h"
#include "hflush/env/clock.h"
#include "hflush/hdfs/settings.h"
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

class RpcChannel {
 public:
  struct Options {
    std::string protocol;
    std::string user;         // never empty: the server would take the call for its own
    std::string real_user{};  // who acts as the user; empty: the user itself
    ClientId client_id{};
    env::Duration rpc_timeout{};  // 0: as long as pings get through
    bool ping = true;
    env::Duration ping_interval{};
    env::Duration idle_time{};
    std::uint32_t max_response_bytes = 0;
  };
  static Options options(const RpcSettings& settings, std::string protocol, std::string user,
                         std::string real_user, const ClientId& client_id);

  RpcChannel(Options options, env::TimePoint now);

  // The first bytes of the connection: preamble and connection context.
  std::string greeting() const;
  // The bytes of a call, which is outstanding from now on. Requires: no call with this id is.
  std::string call(std::int32_t call_id, std::int32_t retry_count, std::string_view method,
                   std::string_view request, env::TimePoint now);
  // No thread waits for the call any more; its response will be dropped.
  void forget(std::int32_t call_id, env::TimePoint now);
  std::string ping(env::TimePoint now);

  // Appends what the bytes mean. Responses to calls that are not outstanding mean nothing.
  void receive(ByteView bytes, env::TimePoint now, std::vector<RpcEvent>& events);

  // What is to be done now.
  struct Due {
    std::vector<std::int32_t> timed_out;  // these calls; they are not outstanding any more
    bool dead = false;  // nothing came while one of them waited: close the connection
    bool ping = false;
    bool idle = false;                            // close the connection
    env::TimePoint next = env::TimePoint::max();  // when to ask again
  };
  Due check(env::TimePoint now);

  // Whether the connection had served calls, fell silent when it had none, and has said nothing to
  // those that came since: if it is lost now, then most likely because the server had closed it.
  bool silent_since_idle() const noexcept {
    return frames_ > 0 && !outstanding_.empty() && last_received_ <= busy_since_;
  }
  bool has_answered() const noexcept { return frames_ > 0; }

  // How long a call may take; kNoTimeout if there is no limit.
  env::Duration call_timeout() const noexcept;
  // How long after a call check() may be left alone.
  env::Duration patience() const noexcept;

  static constexpr std::size_t kMaxHeaderBytes = 1024;  // of a call, around its request

 private:
  enum class State : std::uint8_t { kOpen, kEnded };

  std::string header(std::int32_t call_id, std::int32_t retry_count) const;
  // The bytes of the frame at the front of `bytes`, its length included; 0 if that has not all
  // come, or is no frame's.
  std::size_t frame_size(std::string_view bytes, std::vector<RpcEvent>& events);
  void take(RpcEvent event, env::TimePoint now, std::vector<RpcEvent>& events);
  void end(RpcEvent reason, std::vector<RpcEvent>& events);
  // Whether the call was outstanding.
  bool settle(std::int32_t call_id, env::TimePoint now);

  const Options options_;
  State state_ = State::kOpen;
  std::string received_;                                          // the start of a frame
  std::uint64_t frames_ = 0;                                      // that were received
  std::unordered_map<std::int32_t, env::TimePoint> outstanding_;  // when each was sent
  env::TimePoint last_received_;
  env::TimePoint last_ping_;
  env::TimePoint busy_since_;  // the first of the outstanding calls was sent
  env::TimePoint idle_since_;  // no call is outstanding
};

}  // namespace hflush::hdfs
