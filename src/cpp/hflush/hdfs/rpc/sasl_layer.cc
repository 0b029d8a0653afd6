#include "hflush/hdfs/rpc/sasl_layer.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "hflush/hdfs/rpc/sasl_messages.h"

namespace hflush::hdfs {

SaslLayer::SaslLayer(std::unique_ptr<sasl::Mechanism> mechanism, std::uint32_t max_response_bytes)
    : mechanism_(std::move(mechanism)), frames_(max_response_bytes) {}

std::string SaslLayer::wrap(std::string_view bytes) {
  std::string wrapped;
  while (!bytes.empty()) {
    const std::size_t size = std::min(bytes.size(), mechanism_->max_wrapped());
    wrapped += sasl_frame(SaslState::kWrap, mechanism_->wrap(bytes.substr(0, size)));
    bytes.remove_prefix(size);
  }
  return wrapped;
}

std::optional<RpcFailure> SaslLayer::unwrap(ByteView bytes, std::string& frames) {
  frames_.feed(bytes);
  while (std::optional<RpcEvent> event = frames_.next()) {
    if (auto* garbage = std::get_if<rpc_event::Garbage>(&*event)) {
      return RpcFailure::broken(EPROTO, std::move(garbage->what));
    }
    const auto* response = std::get_if<rpc_event::Response>(&*event);
    const bool is_sasl = response != nullptr && response->call_id == kSaslCallId;
    const Result<SaslMessage> message =
        is_sasl ? decode_sasl_message(response->body) : Result<SaslMessage>(SaslMessage{});
    if (!message.ok() || message->state != SaslState::kWrap) {
      return RpcFailure::broken(EPROTO, "sent a response without the protection that was agreed");
    }
    const Result<std::string> unwrapped = mechanism_->unwrap(message->token);
    if (!unwrapped.ok()) return RpcFailure::unauthenticated(unwrapped.status().message());
    frames += *unwrapped;
  }
  return std::nullopt;
}

}  // namespace hflush::hdfs
