// A NameNode for tests, that says what the test tells it to: a listening socket, the connections it
// accepts, and the calls that come over them. Blocking; belongs to the test's thread.
#pragma once

#include <doctest/doctest.h>

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "env/loopback.h"
#include "hdfs/messages.h"
#include "hflush/base/endian.h"

namespace hflush::testing {

inline std::string rpc_frame(const std::string& body) {
  std::string frame(4, '\0');
  store_be32(reinterpret_cast<std::byte*>(frame.data()), static_cast<std::uint32_t>(body.size()));
  return frame + body;
}

inline std::string rpc_delimited(const std::string& message) {
  return varint(message.size()) + message;
}

// What a server sends.
inline std::string rpc_success(std::int32_t call_id, const std::string& response) {
  const auto id = static_cast<std::uint32_t>(call_id);
  return rpc_frame(rpc_delimited(number(1, id) + number(2, 0)) + rpc_delimited(response));
}
inline std::string rpc_exception(std::int32_t call_id, std::string_view class_name,
                                 std::string_view message, std::uint64_t status = 1) {
  const auto id = static_cast<std::uint32_t>(call_id);
  return rpc_frame(rpc_delimited(number(1, id) + number(2, status) +
                                 length_delimited(4, class_name) + length_delimited(5, message)));
}

// What it receives.
struct ReceivedCall {
  std::int32_t call_id = 0;
  std::int32_t retry_count = 0;
  std::string client_id;
  std::string method;
  std::string protocol;
  std::string request;
};

class ScriptedConnection {
 public:
  explicit ScriptedConnection(env::testing::Peer peer) : peer_(std::move(peer)) {}

  env::testing::Peer& peer() { return peer_; }

  // Preamble and context; the effective user.
  std::string receive_greeting() {
    CHECK(peer_.receive(7) == std::string("hrpc\x09\x00\x00", 7));
    std::string body = receive_frame();
    CHECK(zigzag(header_of(body).at(3)) == -3);
    const auto context = split(take(body));
    REQUIRE(context.size() == 2);
    std::string user = context[0].bytes.substr(2);
    return user.substr(2);
  }

  // The next call or ping (which has no method).
  ReceivedCall receive_call() {
    std::string body = receive_frame();
    const auto header = header_of(body);
    ReceivedCall call;
    call.call_id = zigzag(header.at(3));
    call.client_id = header.at(4);
    call.retry_count = zigzag(header.at(5));
    if (body.empty()) return call;
    const auto request_header = fields_of(take(body));
    call.method = request_header.at(1);
    call.protocol = request_header.at(2);
    call.request = take(body);
    CHECK(body.empty());
    return call;
  }

  void answer(const ReceivedCall& call, const std::string& response) {
    peer_.send(rpc_success(call.call_id, response));
  }
  void refuse(const ReceivedCall& call, std::string_view class_name, std::string_view message) {
    peer_.send(rpc_exception(call.call_id, class_name, message));
  }
  // Answers `count` calls with their requests, or as many as come.
  void echo(int count) {
    if (peer_.receive(7).size() < 7) return;
    for (int i = -1; i < count; ++i) {
      const std::string length = peer_.receive(4);
      if (length.size() < 4) return;
      std::string body =
          peer_.receive(load_be32(reinterpret_cast<const std::byte*>(length.data())));
      if (i < 0) continue;  // the context
      const std::int32_t call_id = zigzag(header_of(body).at(3));
      take(body);
      peer_.send(rpc_success(call_id, take(body)));
    }
  }
  // The client has closed, or closes now.
  bool at_end() { return peer_.receive(1).empty(); }

 private:
  static std::uint64_t varint_at(const std::string& bytes, std::size_t& at) {
    std::uint64_t value = 0;
    for (unsigned shift = 0;; shift += 7) {
      const auto byte = static_cast<unsigned char>(bytes.at(at++));
      value |= std::uint64_t{byte & 0x7FU} << shift;
      if (byte < 0x80) return value;
    }
  }
  static std::int32_t zigzag(const std::string& value) {
    std::size_t at = 0;
    const std::uint64_t coded = varint_at(value, at);
    return static_cast<std::int32_t>((coded >> 1U) ^ (~(coded & 1U) + 1));
  }
  // A message with its length in front.
  static std::string take(std::string& bytes) {
    std::size_t at = 0;
    const std::uint64_t size = varint_at(bytes, at);
    REQUIRE(size <= bytes.size() - at);
    std::string message = bytes.substr(at, size);
    bytes.erase(0, at + size);
    return message;
  }
  // Values by field number: a number's varint, or what is length-delimited.
  static std::map<std::uint32_t, std::string> fields_of(const std::string& message) {
    std::map<std::uint32_t, std::string> fields;
    for (const Field& field : split(message)) {
      std::size_t at = 0;
      const std::uint64_t key = varint_at(field.bytes, at);
      if ((key & 7U) == 2) varint_at(field.bytes, at);
      fields[field.number] = field.bytes.substr(at);
    }
    return fields;
  }
  static std::map<std::uint32_t, std::string> header_of(std::string& body) {
    return fields_of(take(body));
  }
  std::string receive_frame() {
    const std::string length = peer_.receive(4);
    REQUIRE(length.size() == 4);
    const std::uint32_t size = load_be32(reinterpret_cast<const std::byte*>(length.data()));
    std::string body = peer_.receive(size);
    REQUIRE(body.size() == size);
    return body;
  }

  env::testing::Peer peer_;
};

class ScriptedNameNode {
 public:
  env::Endpoint endpoint() const { return listener_.endpoint(); }
  // The next connection, greeted.
  ScriptedConnection accept() {
    ScriptedConnection connection(listener_.accept());
    CHECK(connection.receive_greeting() == "alice");
    return connection;
  }
  bool is_called() const {
    return env::testing::wait_readable(listener_.descriptor(), std::chrono::milliseconds(20));
  }
  ScriptedConnection accept_silently() { return ScriptedConnection(listener_.accept()); }

 private:
  env::testing::Listener listener_;
};

}  // namespace hflush::testing
