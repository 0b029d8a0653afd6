// SaslHandshake: every message in every state, and servers that are not who they say.
#include "hflush/hdfs/rpc/sasl_handshake.h"

#include <doctest/doctest.h>

#include <cerrno>
#include <string>
#include <string_view>
#include <vector>

#include "hdfs/sasl_server.h"

namespace hflush::hdfs {
namespace {

using namespace testing;  // NOLINT(google-build-using-namespace): what a server sends

const sasl::Token kToken{"user", "pass", std::string(sasl::kDelegationToken), "10.0.0.1:8020"};
// Of that token, kNonce and the client's nonce below: a vector of Java.
constexpr std::string_view kProof = "rspauth=42fb8e16f1e1d600ac627fe6b328845f";
constexpr std::string_view kWrongProof = "rspauth=00000000000000000000000000000000";
constexpr std::string_view kClientResponse = "response=67d2c62e91d913a34116c8f4438a8d28";

SaslHandshake::Options options() {
  SaslHandshake::Options options;
  options.token = kToken;
  options.token_origin = "/run/tokens";
  options.protections = {sasl::Protection::kAuth};
  options.client_nonce = "bI9ajt37Sh348Cv+iIRRqhxzpgIyrB7fYZzS4UZk";
  options.max_response_bytes = 1U << 20U;
  return options;
}

// What came of it: "continues", "agreed", "simple", or the kind of failure.
std::string_view name_of(const SaslHandshake::Outcome& outcome) {
  if (std::holds_alternative<SaslHandshake::Continues>(outcome)) return "continues";
  if (const auto* agreed = std::get_if<SaslHandshake::Agreed>(&outcome)) {
    return agreed->is_simple ? "simple" : "agreed";
  }
  switch (std::get<RpcFailure>(outcome).kind) {
    case AttemptFailure::kUnauthenticated:
      return "unauthenticated";
    case AttemptFailure::kBroken:
      return "broken";
    case AttemptFailure::kRemote:
      return "remote";
    default:
      return "another failure";
  }
}

struct Handshake {
  explicit Handshake(SaslHandshake::Options with = options()) : machine(std::move(with)) {}

  // Whole, or a byte at a time: it means the same.
  std::string_view receive(const std::string& bytes, std::size_t piece = std::string::npos) {
    sent.clear();
    std::string_view rest = bytes;
    do {
      outcome = machine.receive(as_bytes(rest.substr(0, piece)), sent);
      rest.remove_prefix(std::min(piece, rest.size()));
    } while (!rest.empty() && name_of(outcome) == "continues");
    return name_of(outcome);
  }
  Status failure() const {
    return std::get<RpcFailure>(outcome).to_status("getFileInfo", "NameNode nn:8020", "/f", 1, {});
  }

  SaslHandshake machine;
  SaslHandshake::Outcome outcome = SaslHandshake::Continues{};
  std::string sent;
};

const std::string kOffer =
    sasl_message(SaslState::kNegotiate, token_auth(challenge()) + simple_auth());

TEST_CASE("handshake: with a token, in the order of Java") {
  CHECK(SaslHandshake::greeting().starts_with(std::string("hrpc\x09\x00\xdf", 7)));
  Handshake it;
  REQUIRE(it.receive(kOffer) == "continues");
  CHECK(it.sent.find(kClientResponse) != std::string::npos);
  CHECK(it.sent.find("TOKEN") != std::string::npos);
  CHECK(it.sent.find("nonce=\"JBSk") != std::string::npos);
  CHECK(it.sent.find("realm=\"default\",nonce=\"JBSkVGTkLsg6NbI6eSGVDYhtM/3FGTs3S3g+UeRi\",qop") ==
        std::string::npos);  // the challenge does not go back
  REQUIRE(it.receive(sasl_token(SaslState::kSuccess, kProof) + "rest") == "agreed");
  CHECK(it.sent.empty());
  const auto& agreed = std::get<SaslHandshake::Agreed>(it.outcome);
  CHECK(agreed.mechanism == nullptr);  // of auth: nothing is protected
  CHECK(agreed.rest == "rest");
}

struct Message {
  std::string_view name;
  std::string bytes;
  // Before anything came; after the first answer; when the server has proven itself by a challenge.
  std::string_view negotiating;
  std::string_view responding;
  std::string_view proven;
};

std::vector<Message> messages() {
  using enum SaslState;
  const auto auths = [](const std::string& list) { return sasl_message(kNegotiate, list); };
  const auto refused = [](std::string_view class_name, std::uint64_t status) {
    return rpc_exception(kSaslCallId, class_name, "why", status);
  };
  constexpr std::string_view kUnproven = "unauthenticated";
  constexpr std::string_view kSasl = "javax.security.sasl.SaslException";
  return {
      {"a token's way", kOffer, "continues", "broken", "broken"},
      {"another order", auths(kerberos_auth() + token_auth(challenge())), "continues", "broken",
       "broken"},
      {"simple first", auths(simple_auth() + token_auth(challenge())), kUnproven, "broken",
       "broken"},
      {"only Kerberos", auths(kerberos_auth()), kUnproven, "broken", "broken"},
      {"no way", auths({}), kUnproven, "broken", "broken"},
      {"a way without a mechanism", auths(length_delimited(4, length_delimited(1, "TOKEN"))),
       "broken", "broken", "broken"},
      {"a token by another mechanism",
       auths(length_delimited(4, length_delimited(1, "TOKEN") + length_delimited(2, "PLAIN"))),
       kUnproven, "broken", "broken"},
      {"no challenge", auths(token_auth("")), kUnproven, "broken", "broken"},
      {"another algorithm", auths(token_auth("nonce=\"n\",algorithm=md5")), kUnproven, "broken",
       "broken"},
      {"another quality", auths(token_auth(challenge("auth-int,auth-conf"))), kUnproven, "broken",
       "broken"},
      {"SUCCESS alone", sasl_message(kSuccess), kUnproven, kUnproven, "agreed"},
      {"SUCCESS with the proof", sasl_token(kSuccess, kProof), kUnproven, "agreed", kUnproven},
      {"SUCCESS with a wrong proof", sasl_token(kSuccess, kWrongProof), kUnproven, kUnproven,
       kUnproven},
      {"SUCCESS with our own response", sasl_token(kSuccess, kClientResponse), kUnproven, kUnproven,
       kUnproven},
      {"the proof as a challenge", sasl_token(kChallenge, kProof), "broken", "continues",
       kUnproven},
      {"a wrong proof as a challenge", sasl_token(kChallenge, kWrongProof), "broken", kUnproven,
       kUnproven},
      {"the challenge again", sasl_token(kChallenge, challenge()), "broken", kUnproven, kUnproven},
      {"a challenge that is none", sasl_token(kChallenge, "nonce=\""), "broken", kUnproven,
       kUnproven},
      {"INITIATE", sasl_message(kInitiate), "broken", "broken", "broken"},
      {"RESPONSE", sasl_token(kResponse, "x"), "broken", "broken", "broken"},
      {"WRAP", sasl_token(kWrap, "x"), "broken", "broken", "broken"},
      {"an unknown state", rpc_success(kSaslCallId, number(2, 6)), "broken", "broken", "broken"},
      {"no state", rpc_success(kSaslCallId, {}), "broken", "broken", "broken"},
      {"a call's answer", rpc_success(0, number(2, 0)), "broken", "broken", "broken"},
      {"the mechanism refuses", refused(kSasl, 2), "remote", "remote", "remote"},
      {"an error", refused("org.apache.hadoop.security.token.SecretManager$InvalidToken", 1),
       "remote", "remote", "remote"},
      {"a standby", refused("org.apache.hadoop.ipc.StandbyException", 2), "remote", "remote",
       "remote"},
      // Nobody has proven that it is the NameNode that says so.
      {"no file", refused("java.io.FileNotFoundException", 2), kUnproven, kUnproven, kUnproven},
      {"an answer of HTTP", "HTTP/1.1 404 Not Found\r\n\r\n", "broken", "", ""},
      {"a negative length", std::string("\xff\xff\xff\x00", 4), "broken", "broken", "broken"},
      {"a huge length", std::string("\x7f\xff\xff\xff", 4), "broken", "broken", "broken"},
      {"a header that is none", rpc_frame("\x02\xff\xff"), "broken", "broken", "broken"},
  };
}

TEST_CASE("handshake: every message in every state, whole and in pieces") {
  for (const Message& message : messages()) {
    for (const std::size_t piece : {std::string::npos, std::size_t{1}}) {
      CAPTURE(message.name);
      CAPTURE(piece);
      const std::string_view expected[] = {message.negotiating, message.responding, message.proven};
      for (std::size_t state = 0; state < 3; ++state) {
        if (expected[state].empty()) continue;
        CAPTURE(state);
        Handshake it;
        if (state > 0) REQUIRE(it.receive(kOffer) == "continues");
        if (state > 1)
          REQUIRE(it.receive(sasl_token(SaslState::kChallenge, kProof)) == "continues");
        CHECK(it.receive(message.bytes, piece) == expected[state]);
        CHECK(it.sent.empty() == (expected[state] != "continues"));
        if (!std::holds_alternative<RpcFailure>(it.outcome)) continue;
        const std::string text = it.failure().to_string();
        CHECK(text.find("pass") == std::string::npos);
        CHECK(text.find("cGFzcw") == std::string::npos);
      }
    }
  }
}

TEST_CASE("handshake: nothing is sent if something that came with it is refused") {
  Handshake it;
  CHECK(it.receive(kOffer + sasl_token(SaslState::kSuccess, kWrongProof)) == "unauthenticated");
  CHECK(it.sent.empty());
}

TEST_CASE("handshake: a server that asks nobody is talked to where that is allowed") {
  for (const bool has_token : {false, true}) {
    for (const bool allows : {false, true}) {
      CAPTURE(has_token);
      SaslHandshake::Options with = options();
      with.allows_simple = allows;
      if (!has_token) with.token.reset();
      const std::string_view expected = allows ? "simple" : "unauthenticated";
      Handshake success(with);
      CHECK(success.receive(sasl_message(SaslState::kSuccess)) == expected);
      CHECK(success.sent.empty());
      Handshake simple(with);
      CHECK(simple.receive(sasl_message(SaslState::kNegotiate, simple_auth())) == expected);
      // The way as the server gave it, without the fields that it has not given.
      const std::string chosen = length_delimited(1, "SIMPLE") + length_delimited(2, "");
      CHECK(simple.sent == (allows ? sasl_frame(SaslState::kInitiate, {}, chosen) : ""));
      if (!allows) {
        CHECK(simple.failure().message().find("ipc.client.fallback-to-simple-auth-allowed") !=
              std::string::npos);
      }
    }
  }
}

TEST_CASE("handshake: without a token the server's ways are named") {
  SaslHandshake::Options with = options();
  with.token.reset();
  Handshake it(with);
  CHECK(it.receive(sasl_message(SaslState::kNegotiate,
                                token_auth(challenge()) + kerberos_auth())) == "unauthenticated");
  const std::string text = it.failure().to_string();
  for (const std::string_view part :
       {"TOKEN, KERBEROS", "HADOOP_TOKEN_FILE_LOCATION", "/run/tokens", "nn:8020"}) {
    CAPTURE(part);
    CHECK(text.find(part) != std::string::npos);
  }
}

TEST_CASE("handshake: whose token was refused, of which service, since when") {
  SaslHandshake::Options with = options();
  std::string identifier("\0\x04olga\x04yarn\0", 12);
  identifier += std::string("\x8a\x01\x8b\xcf\xe5\x68\0\x8a\x01\x8b\xf3\xf1\xec\0\x01\x02", 16);
  with.token->identifier = identifier;
  Handshake it(with);
  REQUIRE(it.receive(kOffer) == "continues");
  REQUIRE(it.receive(rpc_exception(kSaslCallId,
                                   "org.apache.hadoop.security.token.SecretManager$InvalidToken",
                                   "token is expired", 2)) == "remote");
  const std::string text = it.failure().to_string();
  CAPTURE(text);
  for (const std::string_view part :
       {"token is expired", "olga", "10.0.0.1:8020", "2023-11-14 22:13:20 UTC", "/run/tokens"}) {
    CAPTURE(part);
    CHECK(text.find(part) != std::string::npos);
  }
}

TEST_CASE("handshake: a quality of protection that only one side wants is refused") {
  SaslHandshake::Options with = options();
  with.protections = {sasl::Protection::kAuthConf, sasl::Protection::kAuthInt};
  Handshake it(with);
  CHECK(it.receive(kOffer) == "unauthenticated");
  CHECK(it.sent.empty());
  CHECK(it.failure().message().find("offers auth") != std::string::npos);
}

}  // namespace
}  // namespace hflush::hdfs
