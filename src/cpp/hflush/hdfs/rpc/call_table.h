// CallTable: the calls of one RPC client: which server each is sent to, what happens when an
// attempt fails, and what the caller is answered. A state machine without I/O, clock or lock.
//
// Each event appends the actions that it asks for. A call is in one of these stages:
//
//   kConnecting     is sent when the connection to its server stands, and both agree who calls
//   kSent           waits for its response
//   kRetryPause     is sent to the same server again when the pause is over
//   kFailoverPause  is sent to the next server then, unless another call has gone there already
//
//   event           kConnecting         kSent               kRetryPause, kFailoverPause
//   connected       Send, kSent; or Send, if there is something to prove (sasl_handshake.h)
//   connect_failed  Disconnect, failed  -                   -
//   received
//     response      -                   Answer              -
//     error         -                   failed              -
//     fatal, other  Disconnect, failed  Disconnect, failed  Disconnect
//     agreement     Send, kSent         -                   -
//   lost            Disconnect, failed  Disconnect, failed  Disconnect
//   time_passed
//     no answer     -                   failed              -
//     pause over    -                   -                   Send, kSent; or Connect, kConnecting
//   cancel          forgotten           forgotten           forgotten
//   disown          goes on as a question if it was ever sent, else forgotten
//   close           Answer (kClosed), Disconnect
//
//   failed: the attempt has; RetryPolicy says Answer, kRetryPause or kFailoverPause.
//
// A new call is kSent if the connection to the server whose turn it is stands, else kConnecting.
// One connection for each server, made when a call needs it, and closed when RpcChannel finds it
// idle or dead. Events of a connection that the table has given up mean nothing. Thread-compatible.
#pragma once

#include <cstdint>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "hflush/base/bytes.h"
#include "hflush/base/result.h"
#include "hflush/env/clock.h"
#include "hflush/env/socket.h"
#include "hflush/hdfs/rpc/retry_policy.h"
#include "hflush/hdfs/rpc/rpc_channel.h"
#include "hflush/hdfs/rpc/rpc_failure.h"
#include "hflush/hdfs/rpc/rpc_target.h"
#include "hflush/hdfs/rpc/sasl_handshake.h"
#include "hflush/hdfs/rpc/sasl_layer.h"
#include "hflush/hdfs/sasl/token_file.h"
#include "hflush/hdfs/settings.h"
#include "hflush/hdfs/wire/name_node_requests.h"

namespace hflush::hdfs {

class CallTable {
 public:
  using CallId = std::int32_t;
  // A connection to one server; the serial tells it from earlier ones.
  struct LinkId {
    std::size_t server = 0;
    std::uint64_t serial = 0;
    bool operator==(const LinkId&) const = default;
  };

  // Connects; then connected() or connect_failed().
  struct Connect {
    LinkId link;
    env::Endpoint endpoint;
  };
  // Sends the bytes, after all that was to be sent before.
  struct Send {
    LinkId link;
    std::string bytes;
  };
  struct Disconnect {
    LinkId link;
  };
  // The end of a call.
  struct Answer {
    CallId call;
    Result<std::string> body;
  };
  using Action = std::variant<Connect, Send, Disconnect, Answer>;
  using Actions = std::vector<Action>;

  enum class Stage : std::uint8_t { kConnecting, kSent, kRetryPause, kFailoverPause };

  struct Counts {
    std::int64_t calls = 0;
    std::int64_t retries = 0;
    std::int64_t failovers = 0;
    std::int64_t connections = 0;
    std::int64_t failures = 0;
  };

  // `seed`: of the servers' order, and of the pauses.
  CallTable(RpcTarget target, std::string user, RpcSettings settings, const ClientId& client_id,
            std::uint64_t seed);

  // --- calls

  // A call that is refused is answered at once.
  CallId start(std::string_view method, Repetition repetition, std::string body, std::string path,
               env::TimePoint now, Actions& actions);
  // The call is not answered any more. Whether it was known.
  bool cancel(CallId call, env::TimePoint now);
  // No thread waits for the call any more; see RpcClient::disown(). Whether it goes on.
  bool disown(CallId call, std::string question, env::TimePoint now);
  // Answers every call, and all that come. Idempotent.
  void close(Actions& actions);

  // --- connections

  // `peer_address`: the server's, as a number; its tokens may be known by that. `tokens`: the
  // caller's, for this server and others.
  void connected(LinkId link, std::string_view peer_address, const sasl::HeldTokens& tokens,
                 env::TimePoint now, Actions& actions);
  void connect_failed(LinkId link, const Status& why, env::TimePoint now, Actions& actions);
  void received(LinkId link, ByteView bytes, env::TimePoint now, Actions& actions);
  // The connection has ended: with `error_number`, or 0 if the server has closed it.
  void lost(LinkId link, int error_number, env::TimePoint now, Actions& actions);

  // --- time

  // When time_passed() is to be called; TimePoint::max(): no need.
  env::TimePoint due() const noexcept;
  // What has arrived by now is given to received() before.
  void time_passed(env::TimePoint now, Actions& actions);

  std::optional<Stage> stage(CallId call) const;
  const Counts& counts() const noexcept { return counts_; }

 private:
  struct Call {
    std::string method;
    Repetition repetition;
    std::string body;
    std::string path;
    env::TimePoint started;
    Stage stage = Stage::kConnecting;
    bool disowned = false;
    std::size_t server = 0;   // that was asked last
    std::uint64_t epoch = 0;  // when that was
    int attempt_count = 0;    // attempts that failed
    env::TimePoint first_failed;
    Attempts attempts;
    std::int32_t send_count = 0;
    env::TimePoint first_sent;
    env::TimePoint pause_ends;                             // in a pause
    std::vector<std::pair<std::size_t, Status>> failures;  // the last one of each server
  };
  struct Connection {
    explicit Connection(std::uint64_t its_serial) : serial(its_serial) {}

    std::uint64_t serial;
    // At most one of both: while client and server find out who calls, and when the connection
    // stands.
    std::optional<SaslHandshake> handshake;
    std::optional<RpcChannel> channel;
    std::optional<SaslLayer> layer;  // protects what the channel sends and receives
    env::TimePoint check_at = env::TimePoint::max();
  };
  struct Server {
    env::Endpoint endpoint;
    std::optional<Connection> connection;
  };

  // The connection, unless it has been given up.
  Connection* find(LinkId link);
  std::optional<sasl::Token> token_for(const env::Endpoint& endpoint, std::string_view peer_address,
                                       const std::vector<sasl::Token>& tokens) const;
  // Who calls is settled, or `user` says it. `opening` goes out first.
  void open(LinkId link, std::string opening, const std::string& user, env::TimePoint now,
            Actions& actions);
  void negotiated(LinkId link, ByteView bytes, env::TimePoint now, Actions& actions);
  // The bytes of frames, without protection.
  void take_frames(LinkId link, ByteView bytes, env::TimePoint now, Actions& actions);
  static void send_bytes(LinkId link, Connection& connection, std::string bytes, Actions& actions);
  CallId next_call_id();
  void dispatch(CallId call_id, env::TimePoint now, Actions& actions);
  void send(Connection& connection, CallId call_id, Call& call, env::TimePoint now,
            Actions& actions);
  void check(std::size_t server, env::TimePoint now, Actions& actions);
  void pause_over(CallId call_id, env::TimePoint now, Actions& actions);
  void forget(CallId call_id, env::TimePoint now);
  // Gives up the connection; every call that was sent over it, or was to be, has failed once.
  void lose(std::size_t server, const RpcFailure& why, env::TimePoint now, Actions& actions);
  void disconnect(std::size_t server, Actions& actions);
  void attempt_failed(CallId call_id, const RpcFailure& why, env::TimePoint now, Actions& actions);
  void answer(CallId call_id, Result<std::string> body, Actions& actions);
  std::vector<CallId> calls_at(std::size_t server, bool sent_too) const;
  Status status_of(const Call& call, const RpcFailure& why, env::TimePoint now) const;

  const RpcTarget target_;
  const std::string user_;
  const RpcSettings settings_;
  const RetryPolicy policy_;
  const ClientId client_id_;

  bool closed_ = false;
  std::mt19937_64 random_;
  std::vector<Server> servers_;
  std::uint64_t epoch_ = 0;  // failovers so far: they say which server's turn it is
  std::uint64_t next_serial_ = 1;
  CallId next_call_id_ = 0;
  std::unordered_map<CallId, Call> calls_;
  std::set<std::pair<env::TimePoint, CallId>> pauses_;
  Counts counts_;
};

}  // namespace hflush::hdfs
