// SaslHandshake: from the first byte of a connection to the one before its calls: who calls, and
// how what follows is protected. A state machine without I/O.
//
//   kNegotiating   the server is asked what it accepts
//   kResponding    a token was chosen; challenges are answered
//   kAgreed        the connection is what Agreed says
//   kRefused       and is to be closed
//
//   event                     kNegotiating                        kResponding
//   NEGOTIATE, a token fits   INITIATE with its response: kResponding   kRefused
//   NEGOTIATE, simple only    INITIATE: kAgreed, or kRefused       kRefused
//   SUCCESS                   as simple                            kAgreed, if the server has
//                                                                  proven what it knows
//   CHALLENGE                 kRefused                             RESPONSE
//   an exception, garbage     kRefused                             kRefused
//
// The first way of the server's list that this client can go is taken, as Hadoop's client does. A
// server that wants no authentication is talked to only where the settings allow it. Frames are
// untrusted, and nothing is sent after one that is refused. What a server says before it has proven
// who it is counts as a refusal, or as "ask another, or later" (a standby), and as nothing else.
// No message has a secret in it. Thread-compatible.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "hflush/base/bytes.h"
#include "hflush/hdfs/rpc/rpc_failure.h"
#include "hflush/hdfs/rpc/rpc_frames.h"
#include "hflush/hdfs/rpc/sasl_messages.h"
#include "hflush/hdfs/sasl/credentials.h"
#include "hflush/hdfs/sasl/mechanism.h"

namespace hflush::hdfs {

class SaslHandshake {
 public:
  struct Options {
    std::optional<sasl::Token> token;           // for this server
    std::string token_origin;                   // the file of tokens, for messages; may be empty
    bool allows_simple = false;                 // a server that does not ask who calls
    std::vector<sasl::Protection> protections;  // hadoop.rpc.protection
    std::string client_nonce;
    std::uint32_t max_response_bytes = 0;
  };

  struct Continues {};
  struct Agreed {
    bool is_simple = false;                      // the connection context says who calls
    std::unique_ptr<sasl::Mechanism> mechanism;  // protects what follows; null: nothing does
    std::string rest;                            // that came after it
  };
  using Outcome = std::variant<Continues, Agreed, RpcFailure>;

  explicit SaslHandshake(Options options);

  // The first bytes of the connection.
  static std::string greeting();
  // Appends to `to_send` what is to be sent. Requires: it has not ended.
  Outcome receive(ByteView bytes, std::string& to_send);
  bool has_answered() const noexcept { return frames_.count() > 0; }

 private:
  enum class State : std::uint8_t { kNegotiating, kResponding, kAgreed, kRefused };

  Outcome take(RpcEvent event, std::string& to_send);
  Outcome negotiate(const SaslMessage& message, std::string& to_send);
  Outcome respond(const SaslMessage& message, std::string& to_send);
  Outcome succeed(const SaslMessage& message);
  Outcome simple();
  Outcome agree(bool is_simple);
  Outcome refuse(RpcFailure why);
  // The server's exception, and whose token it was about.
  Outcome refuse_remote(RemoteException exception);
  // " (the token of …, of /run/tokens)".
  std::string about_token() const;

  const Options options_;
  State state_ = State::kNegotiating;
  RpcFrames frames_;
  std::unique_ptr<sasl::Mechanism> mechanism_;
};

}  // namespace hflush::hdfs
