// The server's side of DIGEST-MD5 and of the SASL handshake of Hadoop's RPC, for tests: frames, and
// the proof that it knows the secret.
#pragma once

#include <doctest/doctest.h>

#include <string>
#include <string_view>

#include "hdfs/scripted_name_node.h"
#include "hflush/base/binary_text.h"
#include "hflush/base/bytes.h"
#include "hflush/crypto/digest.h"
#include "hflush/hdfs/rpc/sasl_messages.h"
#include "hflush/hdfs/sasl/credentials.h"

namespace hflush::testing {

inline constexpr std::string_view kNonce = "JBSkVGTkLsg6NbI6eSGVDYhtM/3FGTs3S3g+UeRi";

inline std::string challenge(std::string_view qop = "auth") {
  return "realm=\"default\",nonce=\"" + std::string(kNonce) + "\",qop=\"" + std::string(qop) +
         "\",charset=utf-8,algorithm=md5-sess";
}

// What a server sends: a message of the handshake.
inline std::string sasl_message(hdfs::SaslState state, const std::string& rest = {}) {
  return rpc_success(hdfs::kSaslCallId, number(2, static_cast<std::uint64_t>(state)) + rest);
}
inline std::string sasl_token(hdfs::SaslState state, std::string_view token) {
  return sasl_message(state, length_delimited(3, token));
}
// Ways that it offers.
inline std::string token_auth(std::string_view of_challenge) {
  return length_delimited(4, length_delimited(1, "TOKEN") + length_delimited(2, "DIGEST-MD5") +
                                 length_delimited(3, "") + length_delimited(4, "default") +
                                 length_delimited(5, of_challenge));
}
inline std::string simple_auth() {
  return length_delimited(4, length_delimited(1, "SIMPLE") + length_delimited(2, ""));
}
inline std::string kerberos_auth() {
  return length_delimited(4, length_delimited(1, "KERBEROS") + length_delimited(2, "GSSAPI") +
                                 length_delimited(3, "nn") + length_delimited(4, "host"));
}

// The value of a directive of the client's response.
inline std::string directive(std::string_view response, std::string_view name) {
  const std::size_t at = response.find(std::string(name) + "=\"");
  REQUIRE(at != std::string_view::npos);
  const std::string_view value = response.substr(at + name.size() + 2);
  return std::string(value.substr(0, value.find('"')));
}

inline std::string hashed(const std::string& text) {
  return std::string(as_text(crypto::md5(as_bytes(text))));
}

// What proves to the client that this server knows the token: the answer to its response.
inline std::string proof(std::string_view response, const hdfs::sasl::Token& token) {
  const std::string tail = ":" + std::string(kNonce) + ":";
  const std::string cnonce = directive(response, "cnonce");
  const std::string secret = hashed(to_base64(as_bytes(token.identifier)) +
                                    ":default:" + to_base64(as_bytes(token.password)));
  const std::string session = to_hex(as_bytes(hashed(secret + tail + cnonce)));
  const std::string second = to_hex(as_bytes(hashed(":/default")));
  return "rspauth=" +
         to_hex(as_bytes(hashed(session + tail + "00000001:" + cnonce + ":auth:" + second)));
}

}  // namespace hflush::testing
