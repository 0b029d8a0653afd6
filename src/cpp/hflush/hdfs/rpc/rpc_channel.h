// RpcChannel: what goes over one connection of Hadoop's RPC. A state machine without I/O.
//
// The owner sends what greeting(), call() and ping() give it, in this order, hands over whatever it
// receives, cut anywhere, and asks check() now and then, at the latest at the time that check()
// named before. A frame that does not fit (rpc_frames.h) ends the channel with the reason. Who the
// server is and who calls has been settled before, by SASL, or the connection context says it.
//
//   kOpen    calls go out, responses come in
//   kEnded   the server has refused the connection, or sent what is not RPC; nothing is read any
//   more
//
// Thread-compatible: its owner locks.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "hflush/base/bytes.h"
#include "hflush/env/clock.h"
#include "hflush/hdfs/rpc/rpc_frames.h"
#include "hflush/hdfs/settings.h"

namespace hflush::hdfs {

class RpcChannel {
 public:
  struct Options {
    std::string protocol;
    // Empty: what SASL has proven. Never so without it: the server would take the call for its own.
    std::string user;
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

  // The connection context, which comes before everything else here.
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
    return frames_.count() > 0 && !outstanding_.empty() && last_received_ <= busy_since_;
  }
  bool has_answered() const noexcept { return frames_.count() > 0; }

  // How long a call may take; kNoTimeout if there is no limit.
  env::Duration call_timeout() const noexcept;
  // How long after a call check() may be left alone.
  env::Duration patience() const noexcept;

  static constexpr std::size_t kMaxHeaderBytes = 1024;  // of a call, around its request

 private:
  enum class State : std::uint8_t { kOpen, kEnded };

  std::string header(std::int32_t call_id, std::int32_t retry_count) const;
  void take(RpcEvent event, env::TimePoint now, std::vector<RpcEvent>& events);
  void end(RpcEvent reason, std::vector<RpcEvent>& events);
  // Whether the call was outstanding.
  bool settle(std::int32_t call_id, env::TimePoint now);

  const Options options_;
  State state_ = State::kOpen;
  RpcFrames frames_;
  std::unordered_map<std::int32_t, env::TimePoint> outstanding_;  // when each was sent
  env::TimePoint last_received_;
  env::TimePoint last_ping_;
  env::TimePoint busy_since_;  // the first of the outstanding calls was sent
  env::TimePoint idle_since_;  // no call is outstanding
};

}  // namespace hflush::hdfs
