// The messages of a SASL handshake of Hadoop's RPC (RpcSaslProto), which are also what carries
// protected frames afterwards. Values, and pure functions: what comes is untrusted.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "hflush/base/result.h"

namespace hflush::hdfs {

enum class SaslState : std::uint8_t {
  kSuccess,
  kNegotiate,
  kInitiate,
  kChallenge,
  kResponse,
  kWrap
};

// A way to authenticate that the server offers.
struct SaslAuth {
  std::string method;     // "TOKEN"
  std::string mechanism;  // "DIGEST-MD5"
  std::optional<std::string> protocol;
  std::optional<std::string> server_id;
  std::string challenge;  // of a mechanism that begins with one

  // As it goes back to the server, which compares the fields that it gave: without the challenge.
  std::string chosen() const;
};

struct SaslMessage {
  SaslState state = SaslState::kSuccess;
  std::string token;
  std::vector<SaslAuth> auths;
};

// The body of a response whose call has this id.
inline constexpr std::int32_t kSaslCallId = -33;
Result<SaslMessage> decode_sasl_message(std::string_view body);

// A whole frame; `token`: nullopt if the field is not to be there; `auth`: chosen().
std::string sasl_frame(SaslState state, std::optional<std::string_view> token,
                       std::string_view auth = {});

}  // namespace hflush::hdfs
