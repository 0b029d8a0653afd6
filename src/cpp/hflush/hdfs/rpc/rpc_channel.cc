#include "hflush/hdfs/rpc/rpc_channel.h"

#include <algorithm>
#include <optional>
#include <protozero/varint.hpp>
#include <utility>

#include "hflush/base/check.h"
#include "hflush/hdfs/wire/wire.h"

namespace hflush::hdfs {
namespace {

constexpr std::int32_t kContextCallId = -3;
constexpr std::int32_t kPingCallId = -4;
// Of both protocols, for all of Hadoop 2 and 3.
constexpr std::uint64_t kProtocolVersion = 1;
// While calls wait a connection is looked after no more often, however short its idle time is.
constexpr env::Duration kShortestPatience = std::chrono::milliseconds(10);

void append_delimited(std::string& to, std::string_view message) {
  protozero::add_varint_to_buffer(&to, message.size());
  to += message;
}

}  // namespace

RpcChannel::Options RpcChannel::options(const RpcSettings& settings, std::string protocol,
                                        std::string user, std::string real_user,
                                        const ClientId& client_id) {
  return {.protocol = std::move(protocol),
          .user = std::move(user),
          .real_user = std::move(real_user),
          .client_id = client_id,
          .rpc_timeout = settings.rpc_timeout,
          .ping = settings.ping,
          .ping_interval = settings.ping_interval,
          .idle_time = settings.idle_time,
          .max_response_bytes = settings.max_response_bytes};
}

RpcChannel::RpcChannel(Options options, env::TimePoint now)
    : options_(std::move(options)),
      frames_(options_.max_response_bytes),
      last_received_(now),
      last_ping_(now),
      busy_since_(now),
      idle_since_(now) {}

// --- to the server -------------------------------------------------------------------------------

std::string RpcChannel::header(std::int32_t call_id, std::int32_t retry_count) const {
  return rpc_header(call_id, retry_count, {options_.client_id.data(), options_.client_id.size()});
}

std::string RpcChannel::greeting() const {
  std::string user;
  wire::Writer information(user);
  if (!options_.user.empty()) information.add_string(1, options_.user);
  if (!options_.real_user.empty()) information.add_string(2, options_.real_user);
  std::string context;
  wire::Writer writer(context);
  writer.add_message(2, user);
  writer.add_string(3, options_.protocol);
  std::string body = header(kContextCallId, kNoRetryCount);
  append_delimited(body, context);
  return rpc_frame(body);
}

std::string RpcChannel::call(std::int32_t call_id, std::int32_t retry_count,
                             std::string_view method, std::string_view request,
                             env::TimePoint now) {
  HFLUSH_DCHECK(!outstanding_.contains(call_id));
  if (outstanding_.empty()) busy_since_ = now;
  outstanding_.emplace(call_id, now);
  std::string request_header;
  wire::Writer writer(request_header);
  writer.add_string(1, method.data(), method.size());
  writer.add_string(2, options_.protocol);
  writer.add_uint64(3, kProtocolVersion);
  std::string body = header(call_id, retry_count);
  body.reserve(body.size() + request_header.size() + request.size() +
               2 * std::size_t{protozero::max_varint_length});
  append_delimited(body, request_header);
  append_delimited(body, request);
  return rpc_frame(body);
}

std::string RpcChannel::ping(env::TimePoint now) {
  last_ping_ = now;
  return rpc_frame(header(kPingCallId, kNoRetryCount));
}

void RpcChannel::forget(std::int32_t call_id, env::TimePoint now) { settle(call_id, now); }

bool RpcChannel::settle(std::int32_t call_id, env::TimePoint now) {
  if (outstanding_.erase(call_id) == 0) return false;
  if (outstanding_.empty()) idle_since_ = now;
  return true;
}

// --- from the server -----------------------------------------------------------------------------

void RpcChannel::receive(ByteView bytes, env::TimePoint now, std::vector<RpcEvent>& events) {
  if (bytes.empty() || state_ == State::kEnded) return;
  last_received_ = now;
  frames_.feed(bytes);
  while (std::optional<RpcEvent> event = frames_.next()) {
    take(*std::move(event), now, events);
    if (state_ == State::kEnded) return;
  }
}

void RpcChannel::take(RpcEvent event, env::TimePoint now, std::vector<RpcEvent>& events) {
  const auto* response = std::get_if<rpc_event::Response>(&event);
  const auto* error = std::get_if<rpc_event::Error>(&event);
  if (response == nullptr && error == nullptr) {
    end(std::move(event), events);
  } else if (settle(response != nullptr ? response->call_id : error->call_id, now)) {
    events.push_back(std::move(event));
  }
}

void RpcChannel::end(RpcEvent reason, std::vector<RpcEvent>& events) {
  state_ = State::kEnded;
  events.push_back(std::move(reason));
}

// --- time ----------------------------------------------------------------------------------------

// As Hadoop: without pings, silence is a timeout.
env::Duration RpcChannel::call_timeout() const noexcept {
  if (options_.rpc_timeout > env::Duration::zero()) return options_.rpc_timeout;
  return options_.ping ? env::kNoTimeout : options_.ping_interval;
}

env::Duration RpcChannel::patience() const noexcept {
  const env::Duration silence = options_.ping ? options_.ping_interval : env::kNoTimeout;
  return std::min({call_timeout(), silence, std::max(options_.idle_time, kShortestPatience)});
}

RpcChannel::Due RpcChannel::check(env::TimePoint now) {
  Due due;
  if (outstanding_.empty()) {
    due.next = env::deadline_after(idle_since_, options_.idle_time);
    due.idle = due.next <= now;
    return due;
  }
  for (const auto& [call_id, sent] : outstanding_) {
    const env::TimePoint deadline = env::deadline_after(sent, call_timeout());
    if (deadline > now) {
      due.next = std::min(due.next, deadline);
    } else {
      due.timed_out.push_back(call_id);
      due.dead = due.dead || last_received_ <= sent;
    }
  }
  for (const std::int32_t call_id : due.timed_out) settle(call_id, now);
  if (due.dead) return due;
  if (outstanding_.empty()) {
    due.next = env::deadline_after(now, options_.idle_time);
  } else if (options_.ping) {
    const env::TimePoint silent_since = std::max({last_received_, last_ping_, busy_since_});
    const env::TimePoint ping_at = env::deadline_after(silent_since, options_.ping_interval);
    due.ping = ping_at <= now;
    due.next =
        std::min(due.next, due.ping ? env::deadline_after(now, options_.ping_interval) : ping_at);
  }
  return due;
}

}  // namespace hflush::hdfs
