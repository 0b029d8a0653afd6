#include "hflush/hdfs/rpc/rpc_channel.h"

#include <algorithm>
#include <optional>
#include <protozero/varint.hpp>
#include <utility>

#include "hflush/base/check.h"
#include "hflush/base/endian.h"
#include "hflush/hdfs/wire/wire.h"

namespace hflush::hdfs {
namespace {

constexpr std::size_t kLengthSize = 4;
constexpr std::string_view kPreamble("hrpc\x09\x00\x00", 7);  // version 9, no service class, SIMPLE
constexpr std::int32_t kContextCallId = -3;
constexpr std::int32_t kPingCallId = -4;
constexpr std::int32_t kNoRetryCount = -1;
// Of both protocols, for all of Hadoop 2 and 3.
constexpr std::uint64_t kProtocolVersion = 1;

enum class ResponseStatus : std::uint8_t { kSuccess = 0, kError = 1, kFatal = 2 };

struct ResponseHeader {
  std::int32_t call_id = 0;
  ResponseStatus status = ResponseStatus::kSuccess;
  RemoteException exception;
};

void append_delimited(std::string& to, std::string_view message) {
  protozero::add_varint_to_buffer(&to, message.size());
  to += message;
}

std::string framed(const std::string& body) {
  std::string frame(kLengthSize, '\0');
  store_be32(reinterpret_cast<std::byte*>(frame.data()), static_cast<std::uint32_t>(body.size()));
  frame += body;
  return frame;
}

std::uint32_t load_length(std::string_view bytes) noexcept {
  return load_be32(as_bytes(bytes).data());
}

// Takes a message with its length in front from the start of `bytes`.
std::optional<std::string_view> take_delimited(std::string_view& bytes) noexcept {
  std::uint64_t size = 0;
  for (std::size_t i = 0; i < bytes.size() && i < 5; ++i) {
    const auto byte = static_cast<unsigned char>(bytes[i]);
    size |= static_cast<std::uint64_t>(byte & 0x7FU) << (7 * i);
    if ((byte & 0x80U) != 0) continue;
    bytes.remove_prefix(i + 1);
    if (size > bytes.size()) return std::nullopt;
    const std::string_view message = bytes.substr(0, size);
    bytes.remove_prefix(size);
    return message;
  }
  return std::nullopt;
}

ResponseHeader read_header(wire::Reader reader) {
  ResponseHeader header;
  while (reader.next()) {
    switch (reader.field()) {
      case 1:
        header.call_id = static_cast<std::int32_t>(reader.uint32());
        break;
      case 2:
        header.status = reader.enumerator(ResponseStatus::kSuccess, ResponseStatus::kFatal);
        break;
      case 4:
        header.exception.class_name = reader.text();
        break;
      case 5:
        header.exception.message = without_stack_trace(reader.bytes());
        break;
      case 6:
        header.exception.error_detail = reader.int32();
        break;
      default:
        reader.skip();
    }
  }
  reader.require({{1, "callId"}, {2, "status"}});
  return header;
}

// What a frame means, without its length.
RpcEvent read_frame(std::string_view frame) {
  const std::optional<std::string_view> message = take_delimited(frame);
  if (!message) return rpc_event::Garbage{"sent a response whose header is longer than itself"};
  Result<ResponseHeader> read = wire::read_whole<ResponseHeader>(
      "the header of a response", "RpcResponseHeaderProto", as_bytes(*message), read_header);
  if (!read.ok()) {
    return rpc_event::Garbage{"sent something other than a response: " + read.status().message()};
  }
  ResponseHeader& header = *read;
  if (header.status == ResponseStatus::kFatal) return rpc_event::Fatal{std::move(header.exception)};
  std::optional<std::string_view> body = std::string_view();
  if (header.status == ResponseStatus::kSuccess) body = take_delimited(frame);
  if (!body) return rpc_event::Garbage{"sent a response that is shorter than it says"};
  if (!frame.empty()) {
    return rpc_event::Garbage{"sent a response with " + std::to_string(frame.size()) +
                              " bytes after its end"};
  }
  if (header.status == ResponseStatus::kSuccess) {
    return rpc_event::Response{header.call_id, std::string(*body)};
  }
  return rpc_event::Error{header.call_id, std::move(header.exception)};
}

// What a peer speaks whose first bytes are no length of a frame; empty if they may be one.
std::string other_protocol(std::string_view bytes) {
  constexpr std::size_t kMaxQuoted = 60;
  // A record of TLS: an alert or a handshake, and the major version.
  if (bytes.starts_with("\x15\x03") || bytes.starts_with("\x16\x03")) {
    return "answers TLS: the RPC of Hadoop does not use it; is this the port of a web server?";
  }
  if (bytes.size() < kLengthSize || load_length(bytes) == 0xFFFFFFFFU) return {};
  const bool is_text = std::ranges::all_of(
      bytes.substr(0, kLengthSize), [](char c) { return (c >= ' ' && c <= '~') || c == '\t'; });
  if (!is_text) return {};
  const std::string_view line = bytes.substr(0, std::min(bytes.find_first_of("\r\n"), kMaxQuoted));
  std::string text = line.starts_with("HTTP") ? "answers HTTP (" : "answers text (";
  for (const char c : line) text += c >= ' ' && c <= '~' ? c : '?';
  text += line.starts_with("HTTP") ? "): is this the web port?" : "): is this an RPC port?";
  return text;
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
      last_received_(now),
      last_ping_(now),
      busy_since_(now),
      idle_since_(now) {}

// --- to the server -------------------------------------------------------------------------------

// A message with its length in front: RpcRequestHeaderProto.
std::string RpcChannel::header(std::int32_t call_id, std::int32_t retry_count) const {
  constexpr std::int32_t kProtocolBuffer = 2;
  constexpr std::int32_t kFinalPacket = 0;
  std::string message;
  wire::Writer writer(message);
  writer.add_enum(1, kProtocolBuffer);
  writer.add_enum(2, kFinalPacket);
  writer.add_sint32(3, call_id);
  writer.add_bytes(4, options_.client_id.data(), options_.client_id.size());
  writer.add_sint32(5, retry_count);
  return wire::delimited(message);
}

std::string RpcChannel::greeting() const {
  std::string user;
  wire::Writer information(user);
  information.add_string(1, options_.user);
  if (!options_.real_user.empty()) information.add_string(2, options_.real_user);
  std::string context;
  wire::Writer writer(context);
  writer.add_message(2, user);
  writer.add_string(3, options_.protocol);
  std::string body = header(kContextCallId, kNoRetryCount);
  append_delimited(body, context);
  return std::string(kPreamble) + framed(body);
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
  return framed(body);
}

std::string RpcChannel::ping(env::TimePoint now) {
  last_ping_ = now;
  return framed(header(kPingCallId, kNoRetryCount));
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
  // Whole frames are read where they are; only the start of one is kept.
  const bool continues = !received_.empty();
  if (continues) received_ += as_text(bytes);
  const std::string_view all = continues ? std::string_view(received_) : as_text(bytes);
  std::string_view rest = all;
  for (std::size_t size = frame_size(rest, events); size > 0; size = frame_size(rest, events)) {
    ++frames_;
    take(read_frame(rest.substr(kLengthSize, size - kLengthSize)), now, events);
    rest.remove_prefix(size);
  }
  if (state_ == State::kEnded) rest = {};
  if (!continues || rest.size() != all.size()) received_ = std::string(rest);
}

std::size_t RpcChannel::frame_size(std::string_view bytes, std::vector<RpcEvent>& events) {
  if (state_ == State::kEnded) return 0;
  if (frames_ == 0) {
    if (std::string what = other_protocol(bytes); !what.empty()) {
      end(rpc_event::Garbage{std::move(what)}, events);
      return 0;
    }
  }
  if (bytes.size() < kLengthSize) return 0;
  const auto length = static_cast<std::int32_t>(load_length(bytes));
  if (frames_ == 0 && length == -1) {
    // What servers up to Hadoop 1 say, before an exception in a format of their own.
    end(rpc_event::Garbage{"speaks another version of Hadoop's RPC than 9"}, events);
    return 0;
  }
  if (length <= 0) {
    end(rpc_event::Garbage{"sent a response of " + std::to_string(length) + " bytes"}, events);
    return 0;
  }
  if (std::cmp_greater(length, options_.max_response_bytes)) {
    end(rpc_event::Garbage{"sent a response of " + std::to_string(length) + " bytes, more than " +
                           std::to_string(options_.max_response_bytes) +
                           " (ipc.maximum.response.length)"},
        events);
    return 0;
  }
  const std::size_t size = kLengthSize + static_cast<std::size_t>(length);
  return bytes.size() < size ? 0 : size;
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
  return std::min({call_timeout(), silence, options_.idle_time});
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
