#include "hflush/hdfs/rpc/rpc_frames.h"

#include <algorithm>
#include <utility>

#include "hflush/base/endian.h"
#include "hflush/hdfs/wire/wire.h"

namespace hflush::hdfs {
namespace {

constexpr std::size_t kLengthSize = 4;

enum class ResponseStatus : std::uint8_t { kSuccess = 0, kError = 1, kFatal = 2 };

struct ResponseHeader {
  std::int32_t call_id = 0;
  ResponseStatus status = ResponseStatus::kSuccess;
  RemoteException exception;
};

std::uint32_t load_length(std::string_view bytes) noexcept {
  return load_be32(as_bytes(bytes).data());
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
  const std::optional<std::string_view> message = wire::take_delimited(frame);
  if (!message) return rpc_event::Garbage{"sent a response whose header is longer than itself"};
  Result<ResponseHeader> read = wire::read_whole<ResponseHeader>(
      "the header of a response", "RpcResponseHeaderProto", as_bytes(*message), read_header);
  if (!read.ok()) {
    return rpc_event::Garbage{"sent something other than a response: " + read.status().message()};
  }
  ResponseHeader& header = *read;
  if (header.status == ResponseStatus::kFatal) return rpc_event::Fatal{std::move(header.exception)};
  std::optional<std::string_view> body = std::string_view();
  if (header.status == ResponseStatus::kSuccess) body = wire::take_delimited(frame);
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

void RpcFrames::feed(ByteView bytes) {
  if (kept_.empty()) {
    rest_ = as_text(bytes);
    return;
  }
  kept_ += as_text(bytes);
  rest_ = kept_;
}

// Whole frames are read where they are; only the start of one is kept.
std::optional<RpcEvent> RpcFrames::next() {
  if (is_garbage_) return std::nullopt;
  if (count_ == 0) {
    if (std::string what = other_protocol(rest_); !what.empty()) return refuse(std::move(what));
  }
  if (rest_.size() >= kLengthSize) {
    const auto length = static_cast<std::int32_t>(load_length(rest_));
    if (count_ == 0 && length == -1) {
      // What servers up to Hadoop 1 say, before an exception in a format of their own.
      return refuse("speaks another version of Hadoop's RPC than 9");
    }
    if (length <= 0) return refuse("sent a response of " + std::to_string(length) + " bytes");
    if (std::cmp_greater(length, max_bytes_)) {
      return refuse("sent a response of " + std::to_string(length) + " bytes, more than " +
                    std::to_string(max_bytes_) + " (ipc.maximum.response.length)");
    }
    const std::size_t size = kLengthSize + static_cast<std::size_t>(length);
    if (rest_.size() >= size) {
      ++count_;
      RpcEvent event = read_frame(rest_.substr(kLengthSize, size - kLengthSize));
      rest_.remove_prefix(size);
      return event;
    }
  }
  keep_rest();
  return std::nullopt;
}

// Without a copy if that is all of what was kept and has just grown.
void RpcFrames::keep_rest() {
  const std::string_view rest = std::exchange(rest_, {});
  if (rest.data() != kept_.data() || rest.size() != kept_.size()) kept_ = std::string(rest);
}

std::string RpcFrames::take_rest() {
  keep_rest();
  return std::exchange(kept_, {});
}

std::optional<RpcEvent> RpcFrames::refuse(std::string what) {
  is_garbage_ = true;
  rest_ = {};
  kept_.clear();
  return rpc_event::Garbage{std::move(what)};
}

std::string rpc_preamble(RpcAuthentication authentication) {
  constexpr std::string_view kVersion9("hrpc\x09\x00", 6);  // and no service class
  return std::string(kVersion9) + static_cast<char>(authentication);
}

std::string rpc_header(std::int32_t call_id, std::int32_t retry_count, std::string_view client_id) {
  constexpr std::int32_t kProtocolBuffer = 2;
  constexpr std::int32_t kFinalPacket = 0;
  std::string message;
  wire::Writer writer(message);
  writer.add_enum(1, kProtocolBuffer);
  writer.add_enum(2, kFinalPacket);
  writer.add_sint32(3, call_id);
  writer.add_bytes(4, client_id.data(), client_id.size());
  writer.add_sint32(5, retry_count);
  return wire::delimited(message);
}

std::string rpc_frame(std::string_view body) {
  std::string frame(kLengthSize, '\0');
  store_be32(reinterpret_cast<std::byte*>(frame.data()), static_cast<std::uint32_t>(body.size()));
  frame += body;
  return frame;
}

}  // namespace hflush::hdfs
