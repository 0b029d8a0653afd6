// RpcChannel against recorded conversations cut in every way, every kind of wrong peer, and time.
#include "hflush/hdfs/rpc/rpc_channel.h"

#include <doctest/doctest.h>

#include <numeric>
#include <random>

#include "hdfs/golden.h"
#include "hdfs/messages.h"

namespace hflush::hdfs {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::length_delimited;
using testing::number;
using testing::varint;
using testing::golden::bytes;
using testing::golden::hex;

const env::TimePoint kStart = env::TimePoint() + std::chrono::hours(1);

RpcChannel::Options options() {
  RpcSettings settings;
  settings.max_response_bytes = 4096;
  ClientId client_id;
  std::iota(client_id.begin(), client_id.end(), '\0');
  return RpcChannel::options(settings, "org.apache.hadoop.hdfs.protocol.ClientProtocol", "alice",
                             "", client_id);
}

std::string frame(const std::string& body) {
  std::string result;
  for (int shift = 24; shift >= 0; shift -= 8) {
    result += static_cast<char>(body.size() >> static_cast<unsigned>(shift));
  }
  return result + body;
}

std::string delimited(const std::string& message) { return varint(message.size()) + message; }

std::string success(std::uint64_t call_id, const std::string& response) {
  return frame(delimited(number(1, call_id) + number(2, 0)) + delimited(response));
}

std::string exception(std::uint64_t call_id, std::uint64_t status, const std::string& class_name,
                      const std::string& message) {
  return frame(delimited(number(1, call_id) + number(2, status) + length_delimited(4, class_name) +
                         length_delimited(5, message)));
}

// What the events say, one line each.
std::string told(const std::vector<RpcEvent>& events) {
  std::string text;
  for (const RpcEvent& event : events) {
    if (const auto* response = std::get_if<rpc_event::Response>(&event)) {
      text += "response " + std::to_string(response->call_id) + " " + hex(response->body);
    } else if (const auto* error = std::get_if<rpc_event::Error>(&event)) {
      text += "error " + std::to_string(error->call_id) + " " + error->exception.class_name + " " +
              error->exception.message + " " + std::to_string(error->exception.error_detail);
    } else if (const auto* fatal = std::get_if<rpc_event::Fatal>(&event)) {
      text += "fatal " + fatal->exception.class_name + " " + fatal->exception.message;
    } else {
      text += "garbage " + std::get<rpc_event::Garbage>(event).what;
    }
    text += "\n";
  }
  return text;
}

std::string told_of(RpcChannel& channel, const std::string& received) {
  std::vector<RpcEvent> events;
  channel.receive(as_bytes(received), kStart, events);
  return told(events);
}

// A channel that waits for the answers to calls 0, 1, 2.
RpcChannel waiting_channel() {
  RpcChannel channel(options(), kStart);
  for (const std::int32_t call_id : {0, 1, 2}) {
    channel.call(call_id, 0, "getFileInfo", "", kStart);
  }
  return channel;
}

TEST_CASE("greeting, calls and pings are what a cluster was seen to take") {
  RpcChannel channel(options(), kStart);
  CHECK(hex(rpc_preamble(RpcAuthentication::kNone) + channel.greeting()) ==
        hex(bytes("68727063 09 00 00 00000055 1a 0802 1000 1805 2210 [ID] 2801"
                  "39 1207 0a05 616c696365 1a2e [CPNAME]")));
  CHECK(hex(channel.call(0, 0, "getFileInfo", bytes("0a02 2f64"), kStart)) ==
        hex(bytes("00000060 1a 0802 1000 1800 2210 [ID] 2800 3f 0a0b67657446696c65496e666f [CP]"
                  "04 0a02 2f64")));
  CHECK(hex(channel.call(1, 0, "getFileInfo", bytes("0a05 2f6e6f6e65"), kStart)) ==
        hex(bytes("00000063 1a 0802 1000 1802 2210 [ID] 2800 3f 0a0b67657446696c65496e666f [CP]"
                  "07 0a05 2f6e6f6e65")));
  // A message without fields is there all the same; a repeat says so.
  CHECK(hex(channel.call(2, 3, "getServerDefaults", "", kStart)) ==
        hex(bytes("00000062 1a 0802 1000 1804 2210 [ID] 2806"
                  "45 0a11 67657453657276657244656661756c7473 [CP] 00")));
  CHECK(hex(channel.ping(kStart)) == hex(bytes("0000001b 1a 0802 1000 1807 2210 [ID] 2801")));
}

TEST_CASE("a recorded conversation means the same however it is cut") {
  const std::string trace = "\n\tat org.apache.hadoop.hdfs.server.namenode.X.f(X.java:1)\n\tat Y";
  const std::string answers =
      bytes("00000050 1a 0800 1000 1809 3a10 [ID] 4000 34 [GET_FILE_INFO]") +
      bytes("0000001c 1a 0801 1000 1809 3a10 [ID] 4000 00") +
      frame(delimited(bytes("0802 1001 1809 221d"
                            "6a6176612e696f2e46696c654e6f74466f756e64457863657074696f6e") +
                      length_delimited(5, "File does not exist: /none\nreally" + trace) +
                      bytes("3001 3a10 [ID] 4000")));
  const std::string expected =
      "response 0 " + hex(bytes("[GET_FILE_INFO]")) +
      "\nresponse 1 \nerror 2 java.io.FileNotFoundException File does not exist: /none\nreally 1\n";

  SUBCASE("in two, anywhere") {
    for (std::size_t cut = 0; cut <= answers.size(); ++cut) {
      CAPTURE(cut);
      RpcChannel channel = waiting_channel();
      const std::string text = told_of(channel, answers.substr(0, cut));
      CHECK(text + told_of(channel, answers.substr(cut)) == expected);
    }
  }
  SUBCASE("in pieces of every size") {
    for (std::size_t size = 1; size <= answers.size(); ++size) {
      CAPTURE(size);
      RpcChannel channel = waiting_channel();
      std::string text;
      for (std::size_t at = 0; at < answers.size(); at += size) {
        text += told_of(channel, answers.substr(at, size));
      }
      CHECK(text == expected);
    }
  }
}

TEST_CASE("answers come in any order; those that nobody waits for mean nothing") {
  RpcChannel channel = waiting_channel();
  channel.forget(1, kStart);
  CHECK(told_of(channel, success(2, "c") + success(1, "b") + success(7, "x") + success(0, "a")) ==
        "response 2 63\nresponse 0 61\n");
  CHECK(told_of(channel, success(0, "a")) == "");
}

TEST_CASE("an exception without a name or a message is one all the same") {
  RpcChannel channel = waiting_channel();
  CHECK(told_of(channel, frame(delimited(number(1, 0) + number(2, 1)))) == "error 0   0\n");
}

TEST_CASE("FATAL ends the channel, whatever call it names") {
  for (const std::uint64_t call_id : {0ULL, 0xFFFFFFFFULL, 0xFFFFFFFDULL, 0xFFFFFFDFULL}) {
    RpcChannel channel = waiting_channel();
    CHECK(told_of(channel, exception(call_id, 2, "org.apache.hadoop.ipc.RPC$VersionMismatch",
                                     "Server IPC version 9 cannot communicate") +
                               success(1, "b")) ==
          "fatal org.apache.hadoop.ipc.RPC$VersionMismatch Server IPC version 9 cannot "
          "communicate\n");
    CHECK(told_of(channel, success(1, "b")) == "");
  }
}

TEST_CASE("what is no RPC is told by its name, and ends the channel") {
  struct Case {
    std::string received;
    std::string_view expected;
  };
  const std::vector<Case> cases = {
      {"HTTP/1.1 404 Not Found\r\nServer: x\r\n\r\n",
       "answers HTTP (HTTP/1.1 404 Not Found): is this the web port?"},
      {"HTTP", "answers HTTP (HTTP): is this the web port?"},
      {"SSH-2.0-OpenSSH_9.2\r\n", "answers text (SSH-2.0-OpenSSH_9.2): is this an RPC port?"},
      {"220 mail\x01 ready\r\n", "answers text (220 mail? ready): is this an RPC port?"},
      {std::string("\x15\x03\x03\x00\x02\x02\x46", 7), "answers TLS"},
      {std::string("\x16\x03\x01\x00", 4), "answers TLS"},
      {std::string("\xff\xff\xff\xff\xff\xff\xff\xff", 8),
       "speaks another version of Hadoop's RPC than 9"},
      {std::string("\0\0\0\0", 4), "sent a response of 0 bytes"},
      {std::string("\x80\0\0\0", 4), "sent a response of -2147483648 bytes"},
      {std::string("\xff\xff\xff\xfe", 4), "sent a response of -2 bytes"},
      {std::string("\0\0\x10\x01", 4),
       "sent a response of 4097 bytes, more than 4096 (ipc.maximum.response.length)"},
      {std::string("\x7f\xff\xff\xff", 4), "sent a response of 2147483647 bytes, more than 4096"},
      {frame("\x05\x08"), "sent a response whose header is longer than itself"},
      {frame("\xff\xff\xff\xff\xff\xff"), "sent a response whose header is longer than itself"},
      {frame(delimited(number(1, 0))), "has no status"},
      {frame(delimited(number(2, 0))), "has no callId"},
      {frame(delimited(number(1, 0) + number(2, 3))), "sent something other than a response"},
      {frame(delimited(number(1, 1ULL << 40U) + number(2, 0))),
       "sent something other than a response"},
      {frame(delimited(number(1, 0) + number(2, 0))), "shorter than it says"},
      {frame(delimited(number(1, 0) + number(2, 0)) + "\x05xy"), "shorter than it says"},
      {frame(delimited(number(1, 0) + number(2, 0)) + delimited("a") + "bc"),
       "sent a response with 2 bytes after its end"},
      {frame(delimited(number(1, 0) + number(2, 1)) + "b"),
       "sent a response with 1 bytes after its end"},
  };
  for (const Case& one : cases) {
    CAPTURE(hex(one.received));
    RpcChannel channel = waiting_channel();
    const std::string text = told_of(channel, one.received);
    CAPTURE(text);
    CHECK(text.starts_with("garbage "));
    CHECK(text.find(one.expected) != std::string::npos);
    CHECK(text.find('\n') == text.size() - 1);
    CHECK(told_of(channel, success(1, "b")) == "");
  }
}

TEST_CASE("other protocols are looked for in the first bytes only") {
  RpcChannel channel = waiting_channel();
  CHECK(told_of(channel, success(0, "a")) == "response 0 61\n");
  CHECK(told_of(channel, "HTTP/1.1") ==
        "garbage sent a response of 1213486160 bytes, more than 4096 "
        "(ipc.maximum.response.length)\n");
}

TEST_CASE("no damaged frame does more than end the channel") {
  const std::string sound = bytes("00000050 1a 0800 1000 1809 3a10 [ID] 4000 34 [GET_FILE_INFO]");
  testing::each_bit_flip(sound, [](const std::string& flipped) {
    RpcChannel channel = waiting_channel();
    std::vector<RpcEvent> events;
    channel.receive(as_bytes(flipped), kStart, events);
    CHECK(events.size() <= 1);
  });
  testing::each_truncation(sound, [](const std::string& cut) {
    RpcChannel channel = waiting_channel();
    CHECK(told_of(channel, cut) == "");
  });
}

TEST_CASE("no bytes do more than end the channel, however they come") {
  const std::vector<std::string> sound = {
      bytes("00000050 1a 0800 1000 1809 3a10 [ID] 4000 34 [GET_FILE_INFO]"),
      exception(1, 1, "java.io.IOException", "no"), success(2, std::string(3000, 'x')),
      exception(0xFFFFFFFF, 2, "java.io.IOException", "over")};
  std::mt19937 random(1);
  const auto below = [&random](std::size_t limit) { return random() % limit; };
  for (int round = 0; round < 20'000; ++round) {
    CAPTURE(round);
    std::string stream;
    for (std::size_t i = 0; i < 1 + below(4); ++i) stream += sound[below(sound.size())];
    for (std::size_t i = 0; i < below(4); ++i) {
      const std::size_t at = below(stream.size());
      switch (below(3)) {
        case 0:
          stream[at] = static_cast<char>(random());
          break;
        case 1:
          stream.erase(at, 1 + below(8));
          break;
        default:
          stream.insert(at, 1 + below(8), static_cast<char>(random()));
      }
      if (stream.empty()) break;
    }
    RpcChannel channel = waiting_channel();
    std::vector<RpcEvent> events;
    for (std::size_t at = 0; at < stream.size();) {
      const std::size_t size = 1 + below(stream.size());
      channel.receive(as_bytes(stream.substr(at, size)), kStart, events);
      at += size;
    }
    // Each of the three calls at most once, and nothing after the end.
    std::size_t ends = 0;
    for (const RpcEvent& event : events) {
      CHECK(ends == 0);
      if (std::holds_alternative<rpc_event::Fatal>(event)) ++ends;
      if (std::holds_alternative<rpc_event::Garbage>(event)) ++ends;
    }
    CHECK(events.size() - ends <= 3);
  }
}

// --- time ----------------------------------------------------------------------------------------

TEST_CASE("an idle channel is to be closed after the idle time") {
  RpcChannel channel(options(), kStart);
  RpcChannel::Due due = channel.check(kStart + seconds(9));
  CHECK_FALSE(due.idle);
  CHECK(due.next == kStart + seconds(10));
  channel.call(0, 0, "m", "", kStart + seconds(9));
  CHECK_FALSE(channel.check(kStart + seconds(20)).idle);
  std::vector<RpcEvent> events;
  channel.receive(as_bytes(success(0, "")), kStart + seconds(21), events);
  CHECK_FALSE(channel.check(kStart + seconds(30)).idle);
  due = channel.check(kStart + seconds(31));
  CHECK(due.idle);
  CHECK_FALSE(due.dead);
}

TEST_CASE("a ping goes out when nothing came for the interval and a call waits") {
  RpcChannel channel(options(), kStart);
  CHECK_FALSE(channel.check(kStart + seconds(5)).ping);
  channel.call(0, 0, "m", "", kStart + seconds(50));
  // Silence before the call does not count.
  RpcChannel::Due due = channel.check(kStart + seconds(70));
  CHECK_FALSE(due.ping);
  CHECK(due.next == kStart + seconds(110));
  // Any byte does.
  std::vector<RpcEvent> events;
  channel.receive(as_bytes(std::string(1, '\0')), kStart + seconds(100), events);
  CHECK_FALSE(channel.check(kStart + seconds(110)).ping);
  due = channel.check(kStart + seconds(160));
  CHECK(due.ping);
  channel.ping(kStart + seconds(160));
  CHECK_FALSE(channel.check(kStart + seconds(161)).ping);
  CHECK(channel.check(kStart + seconds(161)).next == kStart + seconds(170));  // the call's timeout
}

TEST_CASE("each call has its timeout; the connection is dead if nothing came while one waited") {
  RpcChannel channel(options(), kStart);
  channel.call(0, 0, "slow", "", kStart);
  channel.call(1, 0, "quick", "", kStart + seconds(60));
  std::vector<RpcEvent> events;
  channel.receive(as_bytes(success(1, "")), kStart + seconds(61), events);
  channel.call(2, 0, "later", "", kStart + seconds(100));
  CHECK(channel.check(kStart + seconds(119)).timed_out.empty());
  const RpcChannel::Due due = channel.check(kStart + seconds(120));
  CHECK(due.timed_out == std::vector<std::int32_t>{0});
  CHECK_FALSE(due.dead);
  CHECK(due.next == kStart + seconds(121));  // a ping
  const RpcChannel::Due last = channel.check(kStart + seconds(220));
  CHECK(last.timed_out == std::vector<std::int32_t>{2});
  CHECK(last.dead);
  // The answer to a call that timed out means nothing.
  CHECK(told_of(channel, success(0, "")) == "");
}

TEST_CASE("without a call timeout pings keep a call waiting; without both, silence is a timeout") {
  RpcChannel::Options asked = options();
  asked.rpc_timeout = env::Duration::zero();
  RpcChannel patient(asked, kStart);
  patient.call(0, 0, "m", "", kStart);
  CHECK(patient.check(kStart + std::chrono::hours(9)).timed_out.empty());
  CHECK(patient.call_timeout() == env::kNoTimeout);
  CHECK(patient.patience() == seconds(10));

  asked.ping = false;
  RpcChannel silent(asked, kStart);
  silent.call(0, 0, "m", "", kStart);
  CHECK(silent.check(kStart + seconds(59)).next == kStart + seconds(60));
  CHECK_FALSE(silent.check(kStart + seconds(59)).ping);
  CHECK(silent.check(kStart + seconds(60)).timed_out.size() == 1);
}

TEST_CASE("silence since idleness: only what was used before, and has said nothing since") {
  RpcChannel channel(options(), kStart);
  channel.call(0, 0, "m", "", kStart);
  CHECK_FALSE(channel.silent_since_idle());  // new
  CHECK_FALSE(channel.has_answered());
  std::vector<RpcEvent> events;
  channel.receive(as_bytes(success(0, "")), kStart + seconds(1), events);
  CHECK(channel.has_answered());
  CHECK_FALSE(channel.silent_since_idle());  // no call would be lost
  channel.call(1, 0, "m", "", kStart + seconds(2));
  channel.call(2, 0, "m", "", kStart + seconds(3));
  CHECK(channel.silent_since_idle());
  channel.receive(as_bytes(success(1, "")), kStart + seconds(4), events);
  CHECK_FALSE(channel.silent_since_idle());  // busy
}

}  // namespace
}  // namespace hflush::hdfs
