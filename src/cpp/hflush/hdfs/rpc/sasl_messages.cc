#include "hflush/hdfs/rpc/sasl_messages.h"

#include "hflush/base/bytes.h"
#include "hflush/hdfs/rpc/rpc_frames.h"
#include "hflush/hdfs/wire/wire.h"

namespace hflush::hdfs {
namespace {

SaslAuth read_auth(wire::Reader reader) {
  SaslAuth auth;
  while (reader.next()) {
    switch (reader.field()) {
      case 1:
        auth.method = reader.text();
        break;
      case 2:
        auth.mechanism = reader.text();
        break;
      case 3:
        auth.protocol = reader.text();
        break;
      case 4:
        auth.server_id = reader.text();
        break;
      case 5:
        auth.challenge = reader.text();
        break;
      default:
        reader.skip();
    }
  }
  reader.require({{1, "method"}, {2, "mechanism"}});
  return auth;
}

SaslMessage read_message(wire::Reader reader) {
  SaslMessage message;
  while (reader.next()) {
    switch (reader.field()) {
      case 2:
        message.state = reader.enumerator(SaslState::kSuccess, SaslState::kWrap);
        break;
      case 3:
        message.token = reader.text();
        break;
      case 4:
        message.auths.push_back(read_auth(reader.message("SaslAuth")));
        break;
      default:
        reader.skip();
    }
  }
  reader.require({{2, "state"}});
  return message;
}

}  // namespace

std::string SaslAuth::chosen() const {
  std::string message;
  wire::Writer writer(message);
  writer.add_string(1, method);
  writer.add_string(2, mechanism);
  if (protocol) writer.add_string(3, *protocol);
  if (server_id) writer.add_string(4, *server_id);
  return message;
}

Result<SaslMessage> decode_sasl_message(std::string_view body) {
  return wire::read_whole<SaslMessage>("a message of the SASL handshake", "RpcSaslProto",
                                       as_bytes(body), read_message);
}

std::string sasl_frame(SaslState state, std::optional<std::string_view> token,
                       std::string_view auth) {
  std::string message;
  wire::Writer writer(message);
  writer.add_enum(2, static_cast<std::int32_t>(state));
  if (token) writer.add_bytes(3, token->data(), token->size());
  if (!auth.empty()) writer.add_message(4, auth.data(), auth.size());
  return rpc_frame(rpc_header(kSaslCallId, kNoRetryCount, {}) + wire::delimited(message));
}

}  // namespace hflush::hdfs
