// SaslLayer: what arrives is what was sent, once and in order, or the connection is over.
#include "hflush/hdfs/rpc/sasl_layer.h"

#include <doctest/doctest.h>

#include <memory>
#include <string>
#include <string_view>

#include "hdfs/sasl_server.h"
#include "hflush/hdfs/sasl/digest_md5.h"

namespace hflush::hdfs {
namespace {

using testing::rpc_exception;
using testing::rpc_frame;
using testing::rpc_success;
using testing::sasl_message;
using testing::sasl_token;

constexpr std::uint32_t kMaxResponse = 200'000;

// "world", as the first message of a server of Java, with integrity.
std::string world() {
  return std::string("world\xea\xef\xd8\x70\x6e\x1d\x23\xef\xef\x6a\x00\x01\x00\x00\x00\x00", 21);
}

// The exchange of that server's vectors, done.
SaslLayer layer() {
  auto mechanism =
      *sasl::make_digest_md5({.user = "dXNlcg==",
                              .password = "cGFzcw==",
                              .digest_uri = "hdfs/0",
                              .protections = {sasl::Protection::kAuthInt},
                              .client_nonce = "5jyfvhT0TZzB5o0wPmX4xEvvjM2+Hv10ti9RIebl"});
  REQUIRE(mechanism
              ->respond("realm=\"0\",nonce=\"kzHv+VWunmxEyMzP1etqOg5+3Z8rSplNsh9zYlYI\","
                        "qop=\"auth-int\",charset=utf-8,algorithm=md5-sess")
              .ok());
  REQUIRE(mechanism->respond("rspauth=c88d9c606596ed6e806adb3509231f0b").ok());
  return {std::move(mechanism), kMaxResponse};
}

std::string wrapped(std::string_view token) { return sasl_token(SaslState::kWrap, token); }

TEST_CASE("layer: what is wrapped by the server comes out, however it is cut") {
  const std::string bytes = wrapped(world());
  for (std::size_t cut = 0; cut <= bytes.size(); ++cut) {
    CAPTURE(cut);
    SaslLayer it = layer();
    std::string frames;
    CHECK_FALSE(it.unwrap(as_bytes(bytes).first(cut), frames));
    CHECK_FALSE(it.unwrap(as_bytes(bytes).subspan(cut), frames));
    CHECK(frames == "world");
  }
}

TEST_CASE("layer: a message of the client is cut where the server's buffer ends") {
  SaslLayer it = layer();
  CHECK(it.wrap("").empty());
  const std::string first = it.wrap("hello");
  CHECK(first.find("hello") != std::string::npos);
  const std::string content(200'000, 'c');
  const std::string sent = it.wrap(content);
  std::size_t frames = 0;
  for (std::size_t at = 0; at < sent.size(); ++frames) {
    const std::size_t size = load_be32(as_bytes(sent).data() + at);
    CHECK(size < 65536 + 64);  // a message of 64 KiB, and what is around it
    at += 4 + size;
  }
  CHECK(frames == 4);
  CHECK(sent.size() > content.size());
}

TEST_CASE("layer: what is not as it was sent ends the connection") {
  const std::string good = world();
  std::string next = good;
  next.back() = '\x01';  // the second of its messages
  std::string later = good;
  later[15] = '\x02';  // another type
  SaslLayer other = layer();
  const std::string mirrored = other.wrap("hello");
  const std::string call = rpc_success(0, "response");
  const std::string bad[] = {
      wrapped(next),
      wrapped(later),
      wrapped(""),
      wrapped(good.substr(1)),
      wrapped(good.substr(0, good.size() - 1)),
      wrapped(good + "x"),
      wrapped(std::string(15, '\0')),
      wrapped(std::string(100'000, 'x')),
      sasl_message(SaslState::kWrap),
      sasl_token(SaslState::kSuccess, good),
      sasl_token(SaslState::kChallenge, good),
      mirrored,  // what this client has sent itself
      call,      // without protection
      rpc_success(0, good),
      // Whoever is in the middle may say that there is no such file.
      rpc_exception(-33, "java.io.FileNotFoundException", "none", 1),
      rpc_exception(-1, "java.io.FileNotFoundException", "none", 2),
      rpc_frame(std::string(kMaxResponse + 1, 'x')),
      std::string("\x7f\xff\xff\xff", 4),
      std::string("\x00\x00\x00\x00", 4),
      std::string("\x80\x00\x00\x00", 4),
  };
  for (const std::string& bytes : bad) {
    CAPTURE(&bytes - bad);
    SaslLayer it = layer();
    std::string frames;
    const auto failure = it.unwrap(as_bytes(bytes), frames);
    REQUIRE(failure);
    CHECK(failure->kind != AttemptFailure::kRemote);
    CHECK(frames.empty());
  }
}

TEST_CASE("layer: each bit of a protected message counts") {
  testing::each_bit_flip(world(), [](const std::string& changed) {
    SaslLayer it = layer();
    std::string frames;
    CHECK(it.unwrap(as_bytes(wrapped(changed)), frames));
    CHECK(frames.empty());
  });
}

TEST_CASE("layer: a message that comes again is refused; what came before it is kept") {
  SaslLayer it = layer();
  std::string frames;
  const auto failure = it.unwrap(as_bytes(wrapped(world()) + wrapped(world())), frames);
  REQUIRE(failure);
  CHECK(failure->kind == AttemptFailure::kUnauthenticated);
  CHECK(failure->code == StatusCode::kPermissionDenied);
  CHECK(frames == "world");
}

}  // namespace
}  // namespace hflush::hdfs
