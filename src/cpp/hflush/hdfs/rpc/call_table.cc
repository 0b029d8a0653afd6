#include "hflush/hdfs/rpc/call_table.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <limits>
#include <system_error>

#include "hflush/base/ascii.h"
#include "hflush/base/binary_text.h"

namespace hflush::hdfs {
namespace {

// What a DataNode takes for a token is that of the block.
constexpr std::string_view kBlockToken = "HDFS_BLOCK_TOKEN";

bool is_datanode(const RpcTarget& target) noexcept {
  return target.protocol.ends_with("ClientDatanodeProtocol");
}

// Nothing is pinged before it is known who calls: silence is bounded always.
env::Duration handshake_timeout(const RpcSettings& settings) {
  if (settings.rpc_timeout <= env::Duration::zero()) return settings.ping_interval;
  return settings.ping ? std::min(settings.rpc_timeout, settings.ping_interval)
                       : settings.rpc_timeout;
}

}  // namespace

CallTable::CallTable(RpcTarget target, std::string user, RpcSettings settings,
                     const ClientId& client_id, std::uint64_t seed)
    : target_(std::move(target)),
      user_(std::move(user)),
      settings_(std::move(settings)),
      policy_(settings_, target_.servers.size() > 1),
      client_id_(client_id),
      random_(seed) {
  std::vector<env::Endpoint> endpoints = target_.servers;
  if (settings_.random_order) std::ranges::shuffle(endpoints, random_);
  for (env::Endpoint& endpoint : endpoints) servers_.push_back({std::move(endpoint), {}});
}

// --- calls ---------------------------------------------------------------------------------------

CallTable::CallId CallTable::start(std::string_view method, Repetition repetition, std::string body,
                                   std::string path, env::TimePoint now, Actions& actions) {
  const CallId call_id = next_call_id();
  const auto refuse = [&](StatusCode code, const std::string& why) {
    actions.emplace_back(Answer{call_id, Status(code, std::string(method) + ": " + why, path)});
    return call_id;
  };
  if (body.size() + RpcChannel::kMaxHeaderBytes > settings_.max_request_bytes) {
    return refuse(StatusCode::kInvalidArgument,
                  "a request of " + std::to_string(body.size()) + " bytes is longer than " +
                      std::to_string(settings_.max_request_bytes) + " (ipc.maximum.data.length)");
  }
  ++counts_.calls;
  if (closed_) {
    ++counts_.failures;
    return refuse(StatusCode::kClosed, "the client is closed");
  }
  Call& call = calls_[call_id];
  call.method = method;
  call.repetition = repetition;
  call.body = std::move(body);
  call.path = std::move(path);
  call.started = now;
  dispatch(call_id, now, actions);
  return call_id;
}

// 31 bits, and never one of a call that is under way: the retry cache knows calls by it.
CallTable::CallId CallTable::next_call_id() {
  CallId call_id = 0;
  do {
    call_id = next_call_id_;
    next_call_id_ = call_id == std::numeric_limits<CallId>::max() ? 0 : call_id + 1;
  } while (calls_.contains(call_id));
  return call_id;
}

bool CallTable::cancel(CallId call, env::TimePoint now) {
  if (!calls_.contains(call)) return false;
  forget(call, now);
  return true;
}

bool CallTable::disown(CallId call, std::string question, env::TimePoint now) {
  const auto found = calls_.find(call);
  if (found == calls_.end()) return false;
  if (found->second.send_count == 0) {
    forget(call, now);
    return false;
  }
  found->second.disowned = true;
  found->second.body = std::move(question);
  return true;
}

void CallTable::forget(CallId call_id, env::TimePoint now) {
  const auto found = calls_.find(call_id);
  const Call& call = found->second;
  pauses_.erase({call.pause_ends, call_id});
  const std::optional<Connection>& connection = servers_[call.server].connection;
  if (connection && connection->channel)
    servers_[call.server].connection->channel->forget(call_id, now);
  calls_.erase(found);
}

void CallTable::close(Actions& actions) {
  if (closed_) return;
  closed_ = true;
  for (std::size_t server = 0; server < servers_.size(); ++server) disconnect(server, actions);
  pauses_.clear();
  while (!calls_.empty()) {
    const auto& [call_id, call] = *calls_.begin();
    answer(call_id, Status(StatusCode::kClosed, call.method + ": the client was closed", call.path),
           actions);
  }
}

// Asks the server whose turn it is.
void CallTable::dispatch(CallId call_id, env::TimePoint now, Actions& actions) {
  Call& call = calls_.at(call_id);
  call.epoch = epoch_;
  call.server = epoch_ % servers_.size();
  Server& server = servers_[call.server];
  if (server.connection && server.connection->channel) {
    send(*server.connection, call_id, call, now, actions);
    return;
  }
  call.stage = Stage::kConnecting;
  if (server.connection) return;
  server.connection.emplace(next_serial_++);
  ++counts_.connections;
  actions.emplace_back(Connect{{call.server, server.connection->serial}, server.endpoint});
}

void CallTable::send(Connection& connection, CallId call_id, Call& call, env::TimePoint now,
                     Actions& actions) {
  RpcChannel& channel = *connection.channel;
  if (call.send_count == 0) call.first_sent = now;
  call.stage = Stage::kSent;
  send_bytes({call.server, connection.serial}, connection,
             channel.call(call_id, call.send_count++, call.method, call.body, now), actions);
  connection.check_at = std::min(connection.check_at, env::deadline_after(now, channel.patience()));
}

void CallTable::attempt_failed(CallId call_id, const RpcFailure& why, env::TimePoint now,
                               Actions& actions) {
  Call& call = calls_.at(call_id);
  if (call.attempt_count++ == 0) call.first_failed = now;
  const FailedAttempt failed{
      .failure = why.kind,
      .remote_class = why.exception.class_name,
      .repeat = call.repetition.repeat,
      .was_sent = call.send_count > 0,
      .since_sent = call.send_count == 0 ? env::Duration::zero() : now - call.first_sent,
      .patience = call.repetition.patience,
      .since_failed = now - call.first_failed};
  const double random = std::uniform_real_distribution<double>(0.0, 1.0)(random_);
  const RetryDecision decision = call.disowned
                                     ? policy_.decide_disowned(failed, random, call.attempts)
                                     : policy_.decide(failed, random, call.attempts);
  Status status = status_of(call, why, now);
  if (decision.action == RetryDecision::Action::kFail) {
    for (const auto& [server, earlier] : call.failures) {
      if (server != call.server) status = status.with_other(earlier);
    }
    return answer(call_id, std::move(status), actions);
  }
  std::erase_if(call.failures, [&](const auto& known) { return known.first == call.server; });
  call.failures.emplace_back(call.server, std::move(status));
  ++counts_.retries;
  call.stage = decision.action == RetryDecision::Action::kFailover ? Stage::kFailoverPause
                                                                   : Stage::kRetryPause;
  // Even a pause of no length ends with time_passed(): what has failed at the same time comes
  // first.
  call.pause_ends = env::deadline_after(now, decision.delay);
  pauses_.emplace(call.pause_ends, call_id);
}

void CallTable::pause_over(CallId call_id, env::TimePoint now, Actions& actions) {
  const Call& call = calls_.at(call_id);
  // Another call may have failed over meanwhile.
  if (call.stage == Stage::kFailoverPause && call.epoch == epoch_) {
    ++epoch_;
    ++counts_.failovers;
  }
  dispatch(call_id, now, actions);
}

void CallTable::answer(CallId call_id, Result<std::string> body, Actions& actions) {
  if (!body.ok()) ++counts_.failures;
  actions.emplace_back(Answer{call_id, std::move(body)});
  calls_.erase(call_id);
}

Status CallTable::status_of(const Call& call, const RpcFailure& why, env::TimePoint now) const {
  std::string server = servers_.size() > 1 ? "nameservice " + target_.name + ": " : std::string();
  server += is_datanode(target_) ? "DataNode " : "NameNode ";
  server += servers_[call.server].endpoint.to_string();
  RpcFailure explained = why;
  if (why.kind == AttemptFailure::kUnknownHost) explained.what += target_.unknown_host_hint;
  return explained.to_status(call.method, server, call.path, call.attempt_count,
                             now - call.started);
}

// --- connections ---------------------------------------------------------------------------------

CallTable::Connection* CallTable::find(LinkId link) {
  std::optional<Connection>& connection = servers_[link.server].connection;
  return connection && connection->serial == link.serial ? &*connection : nullptr;
}

// In the order in which they came.
std::vector<CallTable::CallId> CallTable::calls_at(std::size_t server, bool sent_too) const {
  std::vector<CallId> found;
  for (const auto& [call_id, call] : calls_) {
    const bool is_sent = sent_too && call.stage == Stage::kSent;
    if ((is_sent || call.stage == Stage::kConnecting) && call.server == server) {
      found.push_back(call_id);
    }
  }
  std::ranges::sort(found);
  return found;
}

void CallTable::connected(LinkId link, std::string_view peer_address,
                          const sasl::HeldTokens& tokens, env::TimePoint now, Actions& actions) {
  Connection* const connection = find(link);
  if (connection == nullptr || connection->handshake || connection->channel) return;
  std::optional<sasl::Token> token =
      token_for(servers_[link.server].endpoint, peer_address, tokens.tokens);
  if (!token && !settings_.requires_authentication) {
    return open(link, rpc_preamble(RpcAuthentication::kNone), user_, now, actions);
  }
  std::array<std::byte, 16> nonce;
  std::ranges::generate(nonce, [&] { return static_cast<std::byte>(random_()); });
  connection->handshake.emplace(SaslHandshake::Options{
      .token = std::move(token),
      .token_origin = tokens.origin,
      .allows_simple = !settings_.requires_authentication || settings_.fallback_to_simple,
      .protections = settings_.protections,
      .client_nonce = to_base64(nonce),
      .max_response_bytes = settings_.max_response_bytes});
  connection->check_at = env::deadline_after(now, handshake_timeout(settings_));
  actions.emplace_back(Send{link, SaslHandshake::greeting()});
}

// A nameservice's is for all of its NameNodes, another one for one address; a block's names none.
std::optional<sasl::Token> CallTable::token_for(const env::Endpoint& endpoint,
                                                std::string_view peer_address,
                                                const std::vector<sasl::Token>& tokens) const {
  const std::string port = ':' + std::to_string(endpoint.port);
  const std::vector<std::string> services = {
      to_lower(endpoint.host) + port, std::string(peer_address) + port, "ha-hdfs:" + target_.name};
  const auto found = std::ranges::find_if(tokens, [&](const sasl::Token& token) {
    if (is_datanode(target_)) return token.kind == kBlockToken;
    return token.kind == sasl::kDelegationToken &&
           std::ranges::find(services, token.service) != services.end();
  });
  return found == tokens.end() ? std::nullopt : std::optional(*found);
}

void CallTable::open(LinkId link, std::string opening, const std::string& user, env::TimePoint now,
                     Actions& actions) {
  Connection& connection = *find(link);
  const RpcChannel& channel = connection.channel.emplace(
      RpcChannel::options(settings_, target_.protocol, user,
                          user.empty() ? std::string() : target_.real_user, client_id_),
      now);
  connection.check_at = env::deadline_after(now, channel.patience());
  send_bytes(link, connection, std::move(opening) + channel.greeting(), actions);
  for (const CallId call_id : calls_at(link.server, false)) {
    send(connection, call_id, calls_.at(call_id), now, actions);
  }
}

void CallTable::send_bytes(LinkId link, Connection& connection, std::string bytes,
                           Actions& actions) {
  actions.emplace_back(
      Send{link, connection.layer ? connection.layer->wrap(bytes) : std::move(bytes)});
}

void CallTable::negotiated(LinkId link, ByteView bytes, env::TimePoint now, Actions& actions) {
  Connection& connection = *find(link);
  std::string to_send;
  SaslHandshake::Outcome outcome = connection.handshake->receive(bytes, to_send);
  if (const auto* const refused = std::get_if<RpcFailure>(&outcome)) {
    return lose(link.server, *refused, now, actions);
  }
  if (!to_send.empty()) actions.emplace_back(Send{link, std::move(to_send)});
  auto* const agreed = std::get_if<SaslHandshake::Agreed>(&outcome);
  if (agreed == nullptr) return;
  connection.handshake.reset();
  if (agreed->mechanism) {
    connection.layer.emplace(std::move(agreed->mechanism), settings_.max_response_bytes);
  }
  open(link, {}, agreed->is_simple ? user_ : std::string(), now, actions);
  received(link, as_bytes(agreed->rest), now, actions);
}

void CallTable::connect_failed(LinkId link, const Status& why, env::TimePoint now,
                               Actions& actions) {
  const Connection* const connection = find(link);
  if (connection == nullptr || connection->handshake || connection->channel) return;
  lose(link.server, RpcFailure::connecting(why, servers_[link.server].endpoint), now, actions);
}

void CallTable::received(LinkId link, ByteView bytes, env::TimePoint now, Actions& actions) {
  Connection* const connection = find(link);
  if (connection == nullptr) return;
  if (connection->handshake) return negotiated(link, bytes, now, actions);
  if (!connection->channel) return;
  if (!connection->layer) return take_frames(link, bytes, now, actions);
  std::string frames;
  const std::optional<RpcFailure> failure = connection->layer->unwrap(bytes, frames);
  take_frames(link, as_bytes(frames), now, actions);
  if (failure && find(link) != nullptr) lose(link.server, *failure, now, actions);
}

void CallTable::take_frames(LinkId link, ByteView bytes, env::TimePoint now, Actions& actions) {
  std::vector<RpcEvent> events;
  find(link)->channel->receive(bytes, now, events);
  for (RpcEvent& event : events) {
    if (auto* response = std::get_if<rpc_event::Response>(&event)) {
      answer(response->call_id, std::move(response->body), actions);
    } else if (auto* error = std::get_if<rpc_event::Error>(&event)) {
      attempt_failed(error->call_id, RpcFailure::remote(std::move(error->exception)), now, actions);
    } else if (auto* fatal = std::get_if<rpc_event::Fatal>(&event)) {  // the last event
      lose(link.server, RpcFailure::remote(std::move(fatal->exception)), now, actions);
    } else if (auto* garbage = std::get_if<rpc_event::Garbage>(&event)) {
      lose(link.server, RpcFailure::broken(EPROTO, std::move(garbage->what)), now, actions);
    }
  }
}

void CallTable::lost(LinkId link, int error_number, env::TimePoint now, Actions& actions) {
  const Connection* const connection = find(link);
  if (connection == nullptr || (!connection->handshake && !connection->channel)) return;
  const bool has_answered = connection->handshake ? connection->handshake->has_answered()
                                                  : connection->channel->has_answered();
  const RpcFailure why =
      error_number == 0
          ? RpcFailure::closed(has_answered)
          : RpcFailure::broken(error_number, std::generic_category().message(error_number));
  lose(link.server, why, now, actions);
}

void CallTable::lose(std::size_t server, const RpcFailure& why, env::TimePoint now,
                     Actions& actions) {
  const std::optional<RpcChannel>& channel = servers_[server].connection->channel;
  RpcFailure of_calls = why;
  const bool has_ended = why.kind == AttemptFailure::kClosed || why.kind == AttemptFailure::kBroken;
  if (has_ended && channel && channel->silent_since_idle()) {
    of_calls.kind = AttemptFailure::kIdleLost;
  }
  disconnect(server, actions);
  for (const CallId call_id : calls_at(server, true)) {
    attempt_failed(call_id, of_calls, now, actions);
  }
}

void CallTable::disconnect(std::size_t server, Actions& actions) {
  std::optional<Connection>& connection = servers_[server].connection;
  if (!connection) return;
  actions.emplace_back(Disconnect{{server, connection->serial}});
  connection.reset();
}

// --- time ----------------------------------------------------------------------------------------

env::TimePoint CallTable::due() const noexcept {
  env::TimePoint first = pauses_.empty() ? env::TimePoint::max() : pauses_.begin()->first;
  for (const Server& server : servers_) {
    if (server.connection) first = std::min(first, server.connection->check_at);
  }
  return first;
}

void CallTable::time_passed(env::TimePoint now, Actions& actions) {
  for (std::size_t server = 0; server < servers_.size(); ++server) {
    const std::optional<Connection>& connection = servers_[server].connection;
    if (connection && connection->check_at <= now) check(server, now, actions);
  }
  while (!pauses_.empty() && pauses_.begin()->first <= now) {
    pause_over(pauses_.extract(pauses_.begin()).value().second, now, actions);
  }
}

void CallTable::check(std::size_t server, env::TimePoint now, Actions& actions) {
  Connection& connection = *servers_[server].connection;
  if (connection.handshake) {
    return lose(server, RpcFailure::timed_out(handshake_timeout(settings_)), now, actions);
  }
  RpcChannel& channel = *connection.channel;
  const RpcChannel::Due due = channel.check(now);
  const RpcFailure silence = RpcFailure::timed_out(channel.call_timeout());
  for (const CallId call_id : due.timed_out) attempt_failed(call_id, silence, now, actions);
  if (due.dead) return lose(server, RpcFailure::given_up(), now, actions);
  if (due.idle) return disconnect(server, actions);
  if (due.ping) send_bytes({server, connection.serial}, connection, channel.ping(now), actions);
  connection.check_at = std::min(due.next, env::deadline_after(now, channel.patience()));
}

std::optional<CallTable::Stage> CallTable::stage(CallId call) const {
  const auto found = calls_.find(call);
  if (found == calls_.end()) return {};
  return found->second.stage;
}

}  // namespace hflush::hdfs
