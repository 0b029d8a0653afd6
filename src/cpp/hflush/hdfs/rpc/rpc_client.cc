#include "hflush/hdfs/rpc/rpc_client.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <limits>
#include <optional>
#include <random>
#include <system_error>
#include <unordered_map>

#include "hflush/base/mutex.h"
#include "hflush/env/own_process.h"
#include "hflush/env/tcp_connection.h"
#include "hflush/hdfs/rpc/retry_policy.h"
#include "hflush/hdfs/rpc/rpc_channel.h"
#include "hflush/hdfs/rpc/rpc_failure.h"

namespace hflush::hdfs {
namespace {

using env::TcpConnection;

class Shell;

// One connection's events, for the client if that is still there.
class NameNodeLink final : public TcpConnection::Events {
 public:
  NameNodeLink(std::weak_ptr<Shell> client, std::size_t server, std::uint64_t serial)
      : client_(std::move(client)), server_(server), serial_(serial) {}

  void on_connected() override;
  void on_readable() override;
  void on_writable() override;
  void on_connect_failed(Status failure) override;

 private:
  const std::weak_ptr<Shell> client_;
  const std::size_t server_;
  const std::uint64_t serial_;
};

class Shell final : public RpcClient {
 public:
  Shell(env::EventLoop& loop, env::Executor& resolver, Target target, std::string user,
        RpcSettings settings);
  ~Shell() override;

  using RpcClient::start;
  CallId start(std::string_view method, Repeat repeat, std::string body, std::string path,
               Done done) override;
  void cancel(CallId call) override;
  void disown(CallId call, std::string question) override;
  void close() override;
  env::EventLoop* loop() const noexcept override { return &loop_; }
  void add_statistics(Statistics& statistics) const override;

  // Of the connection `serial` to a server; they mean nothing if that is another one by now. On the
  // loop thread.
  void on_connected(std::size_t server, std::uint64_t serial);
  void on_connect_failed(std::size_t server, std::uint64_t serial, const Status& failure);
  void on_readable(std::size_t server, std::uint64_t serial);
  void on_writable(std::size_t server, std::uint64_t serial);
  void on_timer(std::size_t server, std::uint64_t serial);
  void on_pause_over(std::int32_t call_id);

 private:
  enum class State : std::uint8_t { kOpen, kClosed };

  enum class CallStage : std::uint8_t {
    kConnecting,     // goes out when its server's connection stands
    kSent,           // waits for its response
    kRetryPause,     // goes to the same server again when its timer fires
    kFailoverPause,  // goes to the next one
  };
  struct Call {
    std::string method;
    Repeat repeat;
    std::string body;
    std::string path;
    Done done;
    env::TimePoint started;
    CallStage stage = CallStage::kConnecting;
    bool disowned = false;    // nobody waits for it
    std::size_t server = 0;   // that was asked last
    std::uint64_t epoch = 0;  // when that was
    int attempt_count = 0;    // attempts that failed
    Attempts attempts;
    std::int32_t send_count = 0;
    env::TimePoint first_sent;
    env::EventLoop::TimerId timer = 0;
    std::vector<std::pair<std::size_t, Status>> failures;  // the last one of each server
  };

  using Calls = std::unordered_map<std::int32_t, Call>;

  struct Connection {
    std::size_t server = 0;
    std::uint64_t serial = 0;            // tells it from earlier ones to the same server
    std::shared_ptr<TcpConnection> tcp;  // null for a moment at first
    std::optional<RpcChannel> channel;   // when it stands
    std::string outgoing;                // what the kernel has not taken, from `sent` on
    std::size_t sent = 0;
    int send_error = 0;  // told when everything that was received is read
    env::EventLoop::TimerId timer = 0;
    env::TimePoint timer_at;
  };
  struct Server {
    env::Endpoint endpoint;
    std::unique_ptr<Connection> connection;  // null: nobody has asked for one
  };

  // What is to be done when the lock is free again.
  struct Outbox {
    struct Connect {
      std::size_t server;
      std::uint64_t serial;
    };
    std::vector<Connect> connects;
    std::vector<std::shared_ptr<TcpConnection>> closes;
    std::vector<std::pair<Done, Result<std::string>>> answers;
  };
  void carry_out(Outbox outbox) HFLUSH_EXCLUDES(mutex_);
  void connect(const Outbox::Connect& request) HFLUSH_EXCLUDES(mutex_);

  // The connection to a server, if it still is `serial`; else null.
  Connection* connection_locked(std::size_t server, std::uint64_t serial) HFLUSH_REQUIRES(mutex_);
  std::int32_t next_call_id_locked() HFLUSH_REQUIRES(mutex_);
  // The call, to be destroyed without the lock.
  Calls::node_type cancel_locked(CallId call) HFLUSH_REQUIRES(mutex_);
  void dispatch_locked(std::int32_t call_id, Outbox& outbox) HFLUSH_REQUIRES(mutex_);
  void send_locked(Connection& connection, std::int32_t call_id, Call& call)
      HFLUSH_REQUIRES(mutex_);
  void write_locked(Connection& connection, std::string_view bytes) HFLUSH_REQUIRES(mutex_);
  void flush_locked(Connection& connection) HFLUSH_REQUIRES(mutex_);
  void set_timer_locked(Connection& connection, env::TimePoint when) HFLUSH_REQUIRES(mutex_);
  void receive_locked(Connection& connection, ByteView bytes, Outbox& outbox)
      HFLUSH_REQUIRES(mutex_);
  // Destroys the connection; every call that went over it, or was to, has failed once.
  void lose_locked(Connection& connection, const RpcFailure& why, Outbox& outbox)
      HFLUSH_REQUIRES(mutex_);
  void disconnect_locked(Server& server, Outbox& outbox) HFLUSH_REQUIRES(mutex_);
  void attempt_failed_locked(std::int32_t call_id, const RpcFailure& why, Outbox& outbox)
      HFLUSH_REQUIRES(mutex_);
  void answer_locked(std::int32_t call_id, Result<std::string> body, Outbox& outbox)
      HFLUSH_REQUIRES(mutex_);
  Status status_locked(const Call& call, const RpcFailure& why) HFLUSH_REQUIRES(mutex_);
  static RpcFailure end_of(const Connection& connection, std::ptrdiff_t received);

  std::weak_ptr<Shell> weak_shell() {
    return std::static_pointer_cast<Shell>(weak_from_this().lock());
  }

  env::EventLoop& loop_;
  env::Executor& resolver_;
  const Target target_;
  const std::string user_;
  const RpcSettings settings_;
  const RetryPolicy policy_;
  const ClientId client_id_;
  const env::Origin origin_;

  mutable Mutex mutex_;  // before those of connections and of the loop
  State state_ HFLUSH_GUARDED_BY(mutex_) = State::kOpen;
  std::mt19937_64 random_ HFLUSH_GUARDED_BY(mutex_);
  std::vector<Server> servers_ HFLUSH_GUARDED_BY(mutex_);
  std::uint64_t epoch_ HFLUSH_GUARDED_BY(mutex_) = 0;  // failovers so far: they say who is asked
  std::uint64_t next_serial_ HFLUSH_GUARDED_BY(mutex_) = 1;
  std::int32_t next_call_id_ HFLUSH_GUARDED_BY(mutex_) = 0;
  Calls calls_ HFLUSH_GUARDED_BY(mutex_);
  std::int64_t call_count_ HFLUSH_GUARDED_BY(mutex_) = 0;
  std::int64_t retry_count_ HFLUSH_GUARDED_BY(mutex_) = 0;
  std::int64_t failover_count_ HFLUSH_GUARDED_BY(mutex_) = 0;
  std::int64_t connection_count_ HFLUSH_GUARDED_BY(mutex_) = 0;
  std::int64_t failure_count_ HFLUSH_GUARDED_BY(mutex_) = 0;
};

void NameNodeLink::on_connected() {
  if (const auto client = client_.lock()) client->on_connected(server_, serial_);
}
void NameNodeLink::on_readable() {
  if (const auto client = client_.lock()) client->on_readable(server_, serial_);
}
void NameNodeLink::on_writable() {
  if (const auto client = client_.lock()) client->on_writable(server_, serial_);
}
void NameNodeLink::on_connect_failed(Status failure) {
  if (const auto client = client_.lock()) client->on_connect_failed(server_, serial_, failure);
}

ClientId make_client_id() {
  std::random_device random;
  ClientId id;
  std::ranges::generate(id, [&random] { return static_cast<char>(random()); });
  return id;
}

Shell::Shell(env::EventLoop& loop, env::Executor& resolver, Target target, std::string user,
             RpcSettings settings)
    : loop_(loop),
      resolver_(resolver),
      target_(std::move(target)),
      user_(std::move(user)),
      settings_(std::move(settings)),
      policy_(settings_, target_.servers.size() > 1),
      client_id_(make_client_id()),
      random_(std::random_device()()) {
  const MutexLock lock(mutex_);
  for (const env::Endpoint& endpoint : target_.servers) servers_.push_back({endpoint, nullptr});
  if (settings_.random_order) std::shuffle(servers_.begin(), servers_.end(), random_);
}

Shell::~Shell() {
  if (!origin_.is_parent()) Shell::close();
}

// --- from any thread -----------------------------------------------------------------------------

RpcClient::CallId Shell::start(std::string_view method, Repeat repeat, std::string body,
                               std::string path, Done done) {
  const auto refuse = [&](StatusCode code, const std::string& why) {
    done(Status(code, std::string(method) + ": " + why, path));
    return kNoCall;
  };
  if (origin_.is_parent()) {
    return refuse(StatusCode::kForked, "the client was made before this process was forked");
  }
  if (body.size() + RpcChannel::kMaxHeaderBytes > settings_.max_request_bytes) {
    return refuse(StatusCode::kInvalidArgument,
                  "a request of " + std::to_string(body.size()) + " bytes is longer than " +
                      std::to_string(settings_.max_request_bytes) + " (ipc.maximum.data.length)");
  }
  if (Status started = loop_.start(); !started.ok()) {
    return refuse(started.code(), started.message());
  }
  Outbox outbox;
  CallId id = kNoCall;
  {
    const MutexLock lock(mutex_);
    ++call_count_;
    if (state_ == State::kClosed) {
      ++failure_count_;
      outbox.answers.emplace_back(
          std::move(done),
          Status(StatusCode::kClosed, std::string(method) + ": the client is closed", path));
    } else {
      const std::int32_t call_id = next_call_id_locked();
      Call& call = calls_[call_id];
      call.method = method;
      call.repeat = repeat;
      call.body = std::move(body);
      call.path = std::move(path);
      call.done = std::move(done);
      call.started = loop_.clock().now();
      dispatch_locked(call_id, outbox);
      id = static_cast<CallId>(call_id) + 1;
    }
  }
  carry_out(std::move(outbox));
  return id;
}

void Shell::cancel(CallId call) {
  if (origin_.is_parent() || call == kNoCall) return;
  Calls::node_type cancelled;
  const MutexLock lock(mutex_);
  cancelled = cancel_locked(call);
}

void Shell::disown(CallId call, std::string question) {
  if (origin_.is_parent() || call == kNoCall) return;
  Calls::node_type cancelled;
  const MutexLock lock(mutex_);
  const auto found = calls_.find(static_cast<std::int32_t>(call - 1));
  if (found == calls_.end()) return;
  if (found->second.send_count == 0) {
    cancelled = cancel_locked(call);
  } else {
    found->second.disowned = true;
    found->second.body = std::move(question);
  }
}

void Shell::close() {
  if (origin_.is_parent()) return;
  Outbox outbox;
  {
    const MutexLock lock(mutex_);
    if (state_ == State::kClosed) return;
    state_ = State::kClosed;
    for (Server& server : servers_) disconnect_locked(server, outbox);
    while (!calls_.empty()) {
      const auto& [call_id, call] = *calls_.begin();
      loop_.cancel(call.timer);
      answer_locked(call_id,
                    Status(StatusCode::kClosed, call.method + ": the client was closed", call.path),
                    outbox);
    }
  }
  carry_out(std::move(outbox));
}

void Shell::add_statistics(Statistics& statistics) const {
  if (origin_.is_parent()) return;
  const MutexLock lock(mutex_);
  statistics["rpc_calls"] += call_count_;
  statistics["rpc_retries"] += retry_count_;
  statistics["rpc_failovers"] += failover_count_;
  statistics["rpc_connections"] += connection_count_;
  statistics["rpc_failures"] += failure_count_;
}

void Shell::carry_out(Outbox outbox) {
  for (const std::shared_ptr<TcpConnection>& tcp : outbox.closes) tcp->close();
  for (const Outbox::Connect& request : outbox.connects) connect(request);
  for (auto& [done, body] : outbox.answers) done(std::move(body));
}

// Without the lock, because a lookup may start a thread. Meanwhile the connection may stand
// already, or have been given up.
void Shell::connect(const Outbox::Connect& request) {
  env::Endpoint endpoint;
  {
    const MutexLock lock(mutex_);
    endpoint = servers_[request.server].endpoint;
  }
  TcpConnection::Options options;
  options.no_delay = settings_.tcp_no_delay;
  options.connect_timeout = settings_.connect_timeout;
  const auto tcp = TcpConnection::connect(
      loop_, resolver_, std::move(endpoint), options,
      std::make_shared<NameNodeLink>(weak_shell(), request.server, request.serial));
  {
    const MutexLock lock(mutex_);
    if (Connection* connection = connection_locked(request.server, request.serial)) {
      connection->tcp = tcp;
      flush_locked(*connection);
      return;
    }
  }
  tcp->close();
}

// --- calls, with the lock ------------------------------------------------------------------------

Shell::Connection* Shell::connection_locked(std::size_t server, std::uint64_t serial) {
  Connection* connection = servers_[server].connection.get();
  return connection != nullptr && connection->serial == serial ? connection : nullptr;
}

Shell::Calls::node_type Shell::cancel_locked(CallId call) {
  const auto call_id = static_cast<std::int32_t>(call - 1);
  Calls::node_type cancelled = calls_.extract(call_id);
  if (cancelled.empty()) return cancelled;
  loop_.cancel(cancelled.mapped().timer);
  const auto& connection = servers_[cancelled.mapped().server].connection;
  if (connection && connection->channel) {
    connection->channel->forget(call_id, loop_.clock().now());
  }
  return cancelled;
}

// 31 bits, and never one of a call that is under way: the retry cache knows calls by it.
std::int32_t Shell::next_call_id_locked() {
  std::int32_t call_id = 0;
  do {
    call_id = next_call_id_;
    next_call_id_ = call_id == std::numeric_limits<std::int32_t>::max() ? 0 : call_id + 1;
  } while (calls_.contains(call_id));
  return call_id;
}

// Asks the NameNode whose turn it is.
void Shell::dispatch_locked(std::int32_t call_id, Outbox& outbox) {
  Call& call = calls_.at(call_id);
  call.epoch = epoch_;
  call.server = epoch_ % servers_.size();
  call.timer = 0;
  std::unique_ptr<Connection>& connection = servers_[call.server].connection;
  if (connection && connection->channel) {
    send_locked(*connection, call_id, call);
    return;
  }
  call.stage = CallStage::kConnecting;
  if (connection) return;
  connection = std::make_unique<Connection>();
  connection->server = call.server;
  connection->serial = next_serial_++;
  ++connection_count_;
  outbox.connects.push_back({connection->server, connection->serial});
}

void Shell::send_locked(Connection& connection, std::int32_t call_id, Call& call) {
  RpcChannel& channel = *connection.channel;
  const env::TimePoint now = loop_.clock().now();
  if (call.send_count == 0) call.first_sent = now;
  call.stage = CallStage::kSent;
  write_locked(connection, channel.call(call_id, call.send_count++, call.method, call.body, now));
  const env::TimePoint check_at = env::deadline_after(now, channel.patience());
  if (connection.timer == 0 || check_at < connection.timer_at) {
    set_timer_locked(connection, check_at);
  }
}

void Shell::write_locked(Connection& connection, std::string_view bytes) {
  const bool waits = !connection.outgoing.empty();
  connection.outgoing += bytes;
  if (!waits) flush_locked(connection);
}

void Shell::flush_locked(Connection& connection) {
  if (!connection.channel || !connection.tcp || connection.send_error != 0) return;
  while (connection.sent < connection.outgoing.size()) {
    const ByteView piece = as_bytes(std::string_view(connection.outgoing).substr(connection.sent));
    const std::ptrdiff_t taken = connection.tcp->send_some(std::span(&piece, 1));
    if (taken == 0) {
      connection.tcp->want_writable();
      return;
    }
    if (taken < 0) {
      // The server may have said why before it closed: the loop thread reads that first.
      connection.send_error = static_cast<int>(-taken);
      loop_.post([client = weak_shell(), server = connection.server, serial = connection.serial] {
        if (const auto self = client.lock()) self->on_readable(server, serial);
      });
      return;
    }
    connection.sent += static_cast<std::size_t>(taken);
  }
  connection.outgoing.clear();
  connection.sent = 0;
}

void Shell::set_timer_locked(Connection& connection, env::TimePoint when) {
  loop_.cancel(connection.timer);
  connection.timer = 0;
  connection.timer_at = when;
  if (when == env::TimePoint::max()) return;
  connection.timer = loop_.run_at(
      when, [client = weak_shell(), server = connection.server, serial = connection.serial] {
        if (const auto self = client.lock()) self->on_timer(server, serial);
      });
}

void Shell::receive_locked(Connection& connection, ByteView bytes, Outbox& outbox) {
  std::vector<RpcEvent> events;
  connection.channel->receive(bytes, loop_.clock().now(), events);
  for (RpcEvent& event : events) {
    if (auto* response = std::get_if<rpc_event::Response>(&event)) {
      answer_locked(response->call_id, std::move(response->body), outbox);
    } else if (auto* error = std::get_if<rpc_event::Error>(&event)) {
      attempt_failed_locked(error->call_id, RpcFailure::remote(std::move(error->exception)),
                            outbox);
    } else if (auto* fatal = std::get_if<rpc_event::Fatal>(&event)) {
      lose_locked(connection, RpcFailure::remote(std::move(fatal->exception)),
                  outbox);  // the last event
    } else if (auto* garbage = std::get_if<rpc_event::Garbage>(&event)) {
      lose_locked(connection, RpcFailure::broken(EPROTO, std::move(garbage->what)), outbox);
    }
  }
}

void Shell::lose_locked(Connection& connection, const RpcFailure& why, Outbox& outbox) {
  const std::size_t server = connection.server;
  RpcFailure of_calls = why;
  const bool ended = why.kind == AttemptFailure::kClosed || why.kind == AttemptFailure::kBroken;
  if (ended && connection.channel && connection.channel->silent_since_idle()) {
    of_calls.kind = AttemptFailure::kIdleLost;
  }
  disconnect_locked(servers_[server], outbox);
  std::vector<std::int32_t> lost;
  for (const auto& [call_id, call] : calls_) {
    const bool waits = call.stage == CallStage::kConnecting || call.stage == CallStage::kSent;
    if (waits && call.server == server) lost.push_back(call_id);
  }
  std::ranges::sort(lost);  // they go out again in the order in which they came
  for (const std::int32_t call_id : lost) attempt_failed_locked(call_id, of_calls, outbox);
}

void Shell::disconnect_locked(Server& server, Outbox& outbox) {
  if (!server.connection) return;
  loop_.cancel(server.connection->timer);
  if (server.connection->tcp) outbox.closes.push_back(std::move(server.connection->tcp));
  server.connection.reset();
}

void Shell::attempt_failed_locked(std::int32_t call_id, const RpcFailure& why, Outbox& outbox) {
  Call& call = calls_.at(call_id);
  const env::TimePoint now = loop_.clock().now();
  ++call.attempt_count;
  const FailedAttempt failed{
      .failure = why.kind,
      .remote_class = why.exception.class_name,
      .repeat = call.repeat,
      .was_sent = call.send_count > 0,
      .since_sent = call.send_count == 0 ? env::Duration::zero() : now - call.first_sent};
  const double random = std::uniform_real_distribution<double>(0.0, 1.0)(random_);
  const RetryDecision decision = call.disowned
                                     ? policy_.decide_disowned(failed, random, call.attempts)
                                     : policy_.decide(failed, random, call.attempts);
  Status status = status_locked(call, why);
  if (decision.action == RetryDecision::Action::kFail) {
    for (const auto& [server, earlier] : call.failures) {
      if (server != call.server) status = status.with_other(earlier);
    }
    answer_locked(call_id, std::move(status), outbox);
    return;
  }
  std::erase_if(call.failures, [&](const auto& known) { return known.first == call.server; });
  call.failures.emplace_back(call.server, std::move(status));
  ++retry_count_;
  call.stage = decision.action == RetryDecision::Action::kFailover ? CallStage::kFailoverPause
                                                                   : CallStage::kRetryPause;
  // Even without a pause by a timer: what else has failed with it is dealt with first.
  call.timer = loop_.run_after(decision.delay, [client = weak_shell(), call_id] {
    if (const auto self = client.lock()) self->on_pause_over(call_id);
  });
}

void Shell::answer_locked(std::int32_t call_id, Result<std::string> body, Outbox& outbox) {
  auto answered = calls_.extract(call_id);
  if (!body.ok()) ++failure_count_;
  outbox.answers.emplace_back(std::move(answered.mapped().done), std::move(body));
}

Status Shell::status_locked(const Call& call, const RpcFailure& why) {
  const bool is_name_node = !target_.protocol.ends_with("ClientDatanodeProtocol");
  std::string server = servers_.size() > 1 ? "nameservice " + target_.name + ": " : std::string();
  server += is_name_node ? "NameNode " : "DataNode ";
  server += servers_[call.server].endpoint.to_string();
  RpcFailure told = why;
  if (why.kind == AttemptFailure::kUnknownHost) told.what += target_.unknown_host_hint;
  return told.to_status(call.method, server, call.path, call.attempt_count,
                        loop_.clock().now() - call.started);
}

// Why a connection is over, of which receive_some() said so.
RpcFailure Shell::end_of(const Connection& connection, std::ptrdiff_t received) {
  if (received == 0) return RpcFailure::closed(connection.channel->has_answered());
  const int error_number =
      received == -EAGAIN ? connection.send_error : static_cast<int>(-received);
  return RpcFailure::broken(error_number, std::generic_category().message(error_number));
}

// --- on the loop thread --------------------------------------------------------------------------

void Shell::on_connected(std::size_t server, std::uint64_t serial) {
  const MutexLock lock(mutex_);
  Connection* connection = connection_locked(server, serial);
  if (connection == nullptr) return;
  const env::TimePoint now = loop_.clock().now();
  RpcChannel& channel = connection->channel.emplace(
      RpcChannel::options(settings_, target_.protocol, user_, target_.real_user, client_id_), now);
  std::vector<std::int32_t> waiting;
  for (const auto& [call_id, call] : calls_) {
    if (call.stage == CallStage::kConnecting && call.server == server) waiting.push_back(call_id);
  }
  std::ranges::sort(waiting);
  set_timer_locked(*connection, env::deadline_after(now, channel.patience()));
  connection->outgoing = channel.greeting();  // goes out with what waits, in one segment most often
  for (const std::int32_t call_id : waiting) send_locked(*connection, call_id, calls_.at(call_id));
  flush_locked(*connection);
}

void Shell::on_connect_failed(std::size_t server, std::uint64_t serial, const Status& failure) {
  Outbox outbox;
  {
    const MutexLock lock(mutex_);
    Connection* connection = connection_locked(server, serial);
    if (connection == nullptr) return;
    lose_locked(*connection, RpcFailure::connecting(failure, servers_[server].endpoint), outbox);
  }
  carry_out(std::move(outbox));
}

void Shell::on_readable(std::size_t server, std::uint64_t serial) {
  constexpr std::size_t kAtOnce = 8U << 10U;  // the stack may be a small one
  std::array<std::byte, kAtOnce> buffer;
  for (std::ptrdiff_t received = kAtOnce; std::cmp_equal(received, kAtOnce);) {
    Outbox outbox;
    {
      const MutexLock lock(mutex_);
      Connection* connection = connection_locked(server, serial);
      if (connection == nullptr || !connection->tcp || !connection->channel) return;
      received = connection->tcp->receive_some(buffer);
      if (received > 0) {
        const ByteView bytes(buffer);
        receive_locked(*connection, bytes.first(static_cast<std::size_t>(received)), outbox);
      } else if (received != -EAGAIN || connection->send_error != 0) {
        lose_locked(*connection, end_of(*connection, received), outbox);
      }
    }
    carry_out(std::move(outbox));
  }
}

void Shell::on_writable(std::size_t server, std::uint64_t serial) {
  const MutexLock lock(mutex_);
  if (Connection* connection = connection_locked(server, serial)) flush_locked(*connection);
}

// After the process was stopped for a while there may be answers that nobody has read yet: they
// come before the conclusion that nobody answers.
void Shell::on_timer(std::size_t server, std::uint64_t serial) {
  on_readable(server, serial);
  Outbox outbox;
  {
    const MutexLock lock(mutex_);
    Connection* connection = connection_locked(server, serial);
    if (connection == nullptr || !connection->channel) return;
    RpcChannel& channel = *connection->channel;
    const env::TimePoint now = loop_.clock().now();
    const RpcChannel::Due due = channel.check(now);
    const RpcFailure silence = RpcFailure::timed_out(channel.call_timeout());
    for (const std::int32_t call_id : due.timed_out) {
      attempt_failed_locked(call_id, silence, outbox);
    }
    if (due.dead) {
      lose_locked(*connection, RpcFailure::given_up(), outbox);
    } else if (due.idle) {
      disconnect_locked(servers_[server], outbox);
    } else {
      if (due.ping) write_locked(*connection, channel.ping(now));
      const env::TimePoint again = env::deadline_after(now, channel.patience());
      set_timer_locked(*connection, std::min(due.next, again));
    }
  }
  carry_out(std::move(outbox));
}

void Shell::on_pause_over(std::int32_t call_id) {
  Outbox outbox;
  {
    const MutexLock lock(mutex_);
    const auto found = calls_.find(call_id);
    if (found == calls_.end()) return;
    // Another call may have failed over meanwhile.
    if (found->second.stage == CallStage::kFailoverPause && found->second.epoch == epoch_) {
      ++epoch_;
      ++failover_count_;
    }
    dispatch_locked(call_id, outbox);
  }
  carry_out(std::move(outbox));
}

}  // namespace

std::shared_ptr<RpcClient> RpcClient::make(env::EventLoop& loop, env::Executor& resolver,
                                           Target target, std::string user, RpcSettings settings) {
  return std::make_shared<Shell>(loop, resolver, std::move(target), std::move(user),
                                 std::move(settings));
}

Result<std::string> RpcClient::call(std::string_view method, Repeat repeat, std::string body,
                                    const std::string& path, env::Interrupt& interrupt,
                                    const Leave& leave) {
  const env::EventLoop::Guest guest(loop());
  const auto answer = std::make_shared<BodyAnswer>();
  const CallId id = start(method, repeat, std::move(body), path,
                          [answer](Result<std::string> found) { answer->set(std::move(found)); });
  const Status interrupted = answer->wait(interrupt, loop());
  if (interrupted.ok()) return answer->take();
  leave(id, *answer);
  return interrupted.with_path(path);
}

}  // namespace hflush::hdfs
