#include "hflush/hdfs/rpc/sasl_handshake.h"

#include <algorithm>
#include <cerrno>
#include <initializer_list>
#include <utility>

#include "hflush/base/binary_text.h"
#include "hflush/base/check.h"
#include "hflush/hdfs/sasl/digest_md5.h"

namespace hflush::hdfs {
namespace {

constexpr std::string_view kTokenMethod = "TOKEN";
constexpr std::string_view kSimpleMethod = "SIMPLE";
constexpr std::string_view kDigestMd5 = "DIGEST-MD5";

}  // namespace

SaslHandshake::SaslHandshake(Options options)
    : options_(std::move(options)), frames_(options_.max_response_bytes) {}

std::string SaslHandshake::greeting() {
  return rpc_preamble(RpcAuthentication::kSasl) + sasl_frame(SaslState::kNegotiate, {});
}

SaslHandshake::Outcome SaslHandshake::receive(ByteView bytes, std::string& to_send) {
  HFLUSH_DCHECK(state_ == State::kNegotiating || state_ == State::kResponding);
  frames_.feed(bytes);
  std::string answers;
  while (std::optional<RpcEvent> event = frames_.next()) {
    Outcome outcome = take(*std::move(event), answers);
    if (std::holds_alternative<RpcFailure>(outcome)) return outcome;
    if (std::holds_alternative<Agreed>(outcome)) {
      to_send += answers;
      return outcome;
    }
  }
  to_send += answers;
  return Continues{};
}

SaslHandshake::Outcome SaslHandshake::take(RpcEvent event, std::string& to_send) {
  if (auto* error = std::get_if<rpc_event::Error>(&event)) {
    return refuse_remote(std::move(error->exception));
  }
  if (auto* fatal = std::get_if<rpc_event::Fatal>(&event)) {
    return refuse_remote(std::move(fatal->exception));
  }
  if (auto* garbage = std::get_if<rpc_event::Garbage>(&event)) {
    return refuse(RpcFailure::broken(EPROTO, std::move(garbage->what)));
  }
  const auto& response = std::get<rpc_event::Response>(event);
  if (response.call_id != kSaslCallId) {
    return refuse(
        RpcFailure::broken(EPROTO, "answered a call before the SASL handshake had ended"));
  }
  const Result<SaslMessage> message = decode_sasl_message(response.body);
  if (!message.ok()) return refuse(RpcFailure::broken(EPROTO, message.status().message()));
  const bool is_answer = state_ == State::kNegotiating;
  if (message->state == SaslState::kNegotiate && is_answer) return negotiate(*message, to_send);
  if (message->state == SaslState::kSuccess) return is_answer ? simple() : succeed(*message);
  if (message->state == SaslState::kChallenge && !is_answer) return respond(*message, to_send);
  return refuse(RpcFailure::broken(EPROTO, "sent a message out of turn in the SASL handshake"));
}

// The first of the server's ways that can be gone.
SaslHandshake::Outcome SaslHandshake::negotiate(const SaslMessage& message, std::string& to_send) {
  std::string offered;
  for (const SaslAuth& auth : message.auths) {
    offered += (offered.empty() ? "" : ", ") + auth.method;
    if (auth.method == kSimpleMethod) {
      Outcome outcome = simple();
      if (std::holds_alternative<Agreed>(outcome)) {
        to_send += sasl_frame(SaslState::kInitiate, {}, auth.chosen());
      }
      return outcome;
    }
    if (auth.method != kTokenMethod || auth.mechanism != kDigestMd5 || !options_.token) continue;
    auto mechanism = sasl::make_digest_md5(
        {.user = to_base64(as_bytes(options_.token->identifier)),
         .password = to_base64(as_bytes(options_.token->password)),
         .digest_uri = auth.protocol.value_or("") + '/' + auth.server_id.value_or(""),
         .protections = options_.protections,
         .client_nonce = options_.client_nonce});
    if (!mechanism.ok()) {
      RpcFailure failure = RpcFailure::unauthenticated(mechanism.status().message());
      failure.code = mechanism.status().code();  // there is no MD5 on this machine
      return refuse(std::move(failure));
    }
    mechanism_ = *std::move(mechanism);
    const Result<std::string> response = mechanism_->respond(auth.challenge);
    if (!response.ok()) return refuse(RpcFailure::unauthenticated(response.status().message()));
    to_send += sasl_frame(SaslState::kInitiate, *response, auth.chosen());
    state_ = State::kResponding;
    return Continues{};
  }
  const std::string missing =
      options_.token
          ? "this client has a token for DIGEST-MD5"
          : "there is no token for it in the file of HADOOP_TOKEN_FILE_LOCATION" +
                (options_.token_origin.empty() ? "" : " (" + options_.token_origin + ")");
  return refuse(RpcFailure::unauthenticated(
      "wants to know who calls, by " + (offered.empty() ? "no way at all" : "one of " + offered) +
      ": " + missing + ", and Kerberos is not supported yet"));
}

SaslHandshake::Outcome SaslHandshake::respond(const SaslMessage& message, std::string& to_send) {
  const Result<std::string> response = mechanism_->respond(message.token);
  if (!response.ok()) return refuse(RpcFailure::unauthenticated(response.status().message()));
  to_send += sasl_frame(SaslState::kResponse, *response);
  return Continues{};
}

SaslHandshake::Outcome SaslHandshake::succeed(const SaslMessage& message) {
  if (!mechanism_->is_complete() || !message.token.empty()) {
    const Result<std::string> response = mechanism_->respond(message.token);
    if (!response.ok()) return refuse(RpcFailure::unauthenticated(response.status().message()));
  }
  if (!mechanism_->is_complete()) {
    return refuse(RpcFailure::unauthenticated("ended the SASL handshake before its turn"));
  }
  return agree(false);
}

SaslHandshake::Outcome SaslHandshake::simple() {
  if (options_.allows_simple) return agree(true);
  return refuse(RpcFailure::unauthenticated(
      "does not ask who calls: hadoop.security.authentication says that servers do, and "
      "ipc.client.fallback-to-simple-auth-allowed is false"));
}

SaslHandshake::Outcome SaslHandshake::agree(bool is_simple) {
  state_ = State::kAgreed;
  const bool protects = mechanism_ && mechanism_->protection() != sasl::Protection::kAuth;
  if (!protects) mechanism_.reset();
  return Agreed{is_simple, std::move(mechanism_), frames_.take_rest()};
}

SaslHandshake::Outcome SaslHandshake::refuse(RpcFailure why) {
  state_ = State::kRefused;
  if (why.kind == AttemptFailure::kUnauthenticated && mechanism_) why.what += about_token();
  return why;
}

SaslHandshake::Outcome SaslHandshake::refuse_remote(RemoteException exception) {
  const auto is_one_of = [&](std::initializer_list<std::string_view> names) {
    return std::ranges::any_of(
        names, [&](std::string_view name) { return is_class(exception.class_name, name); });
  };
  if (is_one_of({"StandbyException", "RetriableException", "VersionMismatch"})) {
    return refuse(RpcFailure::remote(std::move(exception)));
  }
  if (!is_one_of(
          {"InvalidToken", "SaslException", "AccessControlException", "AuthorizationException"})) {
    return refuse(RpcFailure::unauthenticated("refuses the connection: " + exception.class_name +
                                              ": " + exception.message));
  }
  if (mechanism_) exception.message += about_token();
  return refuse(RpcFailure::remote(std::move(exception)));
}

std::string SaslHandshake::about_token() const {
  return " (" + sasl::describe(*options_.token) +
         (options_.token_origin.empty() ? "" : ", of " + options_.token_origin) + ")";
}

}  // namespace hflush::hdfs
