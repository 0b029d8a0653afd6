// DIGEST-MD5 against vectors of a Java server, and against itself.
#include "hflush/hdfs/sasl/digest_md5.h"

#include <doctest/doctest.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "hflush/base/binary_text.h"

namespace hflush::hdfs::sasl {
namespace {

constexpr std::string_view kNonce = "JBSkVGTkLsg6NbI6eSGVDYhtM/3FGTs3S3g+UeRi";

DigestMd5Options options(std::vector<Protection> protections = {Protection::kAuth}) {
  return {.user = "dXNlcg==",
          .password = "cGFzcw==",
          .digest_uri = "/default",
          .protections = std::move(protections),
          .client_nonce = "bI9ajt37Sh348Cv+iIRRqhxzpgIyrB7fYZzS4UZk"};
}

std::unique_ptr<Mechanism> make(DigestMd5Options with) {
  Result<std::unique_ptr<Mechanism>> made = make_digest_md5(std::move(with));
  REQUIRE(made.ok());
  return *std::move(made);
}

std::string challenge(std::string_view more, std::string_view nonce = kNonce,
                      std::string_view realm = "default") {
  std::string text = "realm=\"" + std::string(realm) + "\",nonce=\"" + std::string(nonce) + "\",";
  return text + std::string(more) + ",charset=utf-8,algorithm=md5-sess";
}

std::string directive(std::string_view message, std::string_view name) {
  const std::size_t at = message.find("," + std::string(name) + "=");
  REQUIRE(at != std::string_view::npos);
  const std::string_view value = message.substr(at + name.size() + 2);
  return std::string(value.substr(0, value.find(',')));
}

// A mechanism with a layer, as data transfer has it, that has just been completed.
struct Layer {
  std::unique_ptr<Mechanism> mechanism;
  std::string response;

  Layer(Protection protection, std::string_view offered, std::string_view proof) {
    DigestMd5Options with = options({protection});
    with.digest_uri = "hdfs/0";
    with.client_nonce = "5jyfvhT0TZzB5o0wPmX4xEvvjM2+Hv10ti9RIebl";
    mechanism = make(with);
    const auto answer =
        mechanism->respond(challenge(offered, "kzHv+VWunmxEyMzP1etqOg5+3Z8rSplNsh9zYlYI", "0"));
    REQUIRE(answer.ok());
    response = directive(*answer, "response");
    REQUIRE(mechanism->respond("rspauth=" + std::string(proof)).ok());
    REQUIRE(mechanism->is_complete());
    CHECK(mechanism->protection() == protection);
  }
};

std::string bytes(std::string_view hex) {
  std::string text;
  for (std::size_t i = 0; i < hex.size(); i += 2) {
    text += static_cast<char>(std::stoi(std::string(hex.substr(i, 2)), nullptr, 16));
  }
  return text;
}

// What a server sends is taken once, in its turn, and as it was sent.
void check_unwrap(Mechanism& mechanism, const std::string& wrapped, std::string_view content) {
  for (std::size_t at = 0; at < wrapped.size(); ++at) {
    CAPTURE(at);
    std::string changed = wrapped;
    changed[at] = static_cast<char>(changed[at] ^ 1);
    // One that was changed breaks the chain of a cipher: this one is not used any more.
    if (mechanism.protection() == Protection::kAuthInt) CHECK_FALSE(mechanism.unwrap(changed).ok());
  }
  CHECK_FALSE(mechanism.unwrap("").ok());
  CHECK_FALSE(mechanism.unwrap(std::string(15, 'x')).ok());
  const auto unwrapped = mechanism.unwrap(wrapped);
  REQUIRE(unwrapped.ok());
  CHECK(*unwrapped == content);
  CHECK_FALSE(mechanism.unwrap(wrapped).ok());
}

TEST_CASE("a response and the server's proof, as Java has them") {
  auto mechanism = make(options());
  const auto response = mechanism->respond(challenge("qop=\"auth\""));
  REQUIRE(response.ok());
  CHECK(*response ==
        "charset=utf-8,username=\"dXNlcg==\",realm=\"default\",nonce=\"" + std::string(kNonce) +
            "\",nc=00000001,cnonce=\"bI9ajt37Sh348Cv+iIRRqhxzpgIyrB7fYZzS4UZk\","
            "digest-uri=\"/default\",maxbuf=65536,response=67d2c62e91d913a34116c8f4438a8d28,"
            "qop=auth");
  CHECK_FALSE(mechanism->is_complete());
  const auto end = mechanism->respond("rspauth=42fb8e16f1e1d600ac627fe6b328845f");
  REQUIRE(end.ok());
  CHECK(end->empty());
  CHECK(mechanism->is_complete());
  CHECK(mechanism->protection() == Protection::kAuth);
  CHECK_FALSE(mechanism->respond("rspauth=42fb8e16f1e1d600ac627fe6b328845f").ok());
}

TEST_CASE("a server that does not know the secret is refused, and no secret is told") {
  auto mechanism = make(options());
  REQUIRE(mechanism->respond(challenge("qop=\"auth\"")).ok());
  const Status refused = mechanism->respond("rspauth=00000000000000000000000000000000").status();
  CHECK(refused.code() == StatusCode::kPermissionDenied);
  CHECK(refused.message().find("cGFzcw") == std::string::npos);
  CHECK_FALSE(mechanism->is_complete());
}

TEST_CASE("integrity: what is wrapped is as Java wraps it") {
  const Layer layer(Protection::kAuthInt, "qop=\"auth-int\"", "c88d9c606596ed6e806adb3509231f0b");
  CHECK(layer.response == "53756842004ed1a23dcbfb19d00a7829");
  CHECK(to_hex(as_bytes(layer.mechanism->wrap("hello"))) ==
        "68656c6c6fbd035a5a81c7b6e04c39000100000000");
  CHECK(layer.mechanism->wrap("hello") != layer.mechanism->wrap("hello"));
  check_unwrap(*layer.mechanism, bytes("776f726c64eaefd8706e1d23efef6a000100000000"), "world");
}

TEST_CASE("confidentiality: 3DES, one message after the other") {
  const std::string_view offered = R"(qop="auth-conf",cipher="3des,rc4")";
  const std::string_view proof = "8ea943f10a264847b5972898c11d2c7c";
  const Layer layer(Protection::kAuthConf, offered, proof);
  CHECK(layer.response == "0104ecfc0f0fa4f51cb35ec39d203260");
  CHECK(to_hex(as_bytes(layer.mechanism->wrap("hello"))) ==
        "4c9c474f668b5578d7700075c6897ec4000100000000");
  check_unwrap(*layer.mechanism, bytes("c14bcfb2327a3e9857fcc6be83497465000100000000"), "world");
  for (std::size_t at = 0; at < 22; ++at) {
    CAPTURE(at);
    const Layer other(Protection::kAuthConf, offered, proof);
    std::string changed = bytes("c14bcfb2327a3e9857fcc6be83497465000100000000");
    changed[at] = static_cast<char>(changed[at] ^ 1);
    CHECK_FALSE(other.mechanism->unwrap(changed).ok());
  }
}

TEST_CASE("the first protection of ours that the server offers") {
  struct Row {
    std::vector<Protection> wanted;
    std::string_view offered;
    std::string_view chosen;  // empty: refused
  };
  using enum Protection;
  const Row rows[] = {
      {{kAuth}, "qop=\"auth\"", "auth"},
      {{kAuth}, "x=y", "auth"},  // a server that does not say offers auth
      {{kAuthConf, kAuth}, "qop=\"auth\"", "auth"},
      {{kAuthInt, kAuth}, "qop=\"auth,auth-int\"", "auth-int"},
      {{kAuthConf}, R"(qop="auth-conf , auth",cipher="rc4,3des")", "auth-conf"},
      {{kAuthConf}, R"(qop="auth-conf",cipher="rc4,des")", ""},  // no cipher that is offered here
      {{kAuthConf, kAuthInt}, R"(qop="auth-int,auth-conf",cipher="rc4")", "auth-int"},
      {{kAuthConf}, "qop=\"auth,auth-int\"", ""},
      {{kAuthInt}, "qop=\"auth\"", ""},
  };
  for (const Row& row : rows) {
    CAPTURE(row.offered);
    auto mechanism = make(options(row.wanted));
    const auto response = mechanism->respond(challenge(row.offered));
    CHECK(response.ok() == !row.chosen.empty());
    if (response.ok()) CHECK(directive(*response, "qop") == row.chosen);
  }
}

TEST_CASE("challenges that are none") {
  for (const std::string_view bad :
       {"", "nonce=\"a\"", "nonce=\"a\",algorithm=md5", "algorithm=md5-sess", "=x", "nonce",
        "nonce=\"a", "nonce=\"a\\", "nonce=\"\",algorithm=md5-sess",
        "nonce=\"a\",algorithm=md5-sess,maxbuf=12", "nonce=\"a\",algorithm=md5-sess,maxbuf=x",
        "nonce=\"a\",algorithm=md5-sess,maxbuf=99999999999"}) {
    CAPTURE(bad);
    CHECK(make(options())->respond(bad).status().code() == StatusCode::kPermissionDenied);
  }
}

TEST_CASE("quotes within values are kept") {
  DigestMd5Options with = options();
  with.user = "a\"b\\c";
  const auto response = make(with)->respond(R"(nonce="n\"1",algorithm=md5-sess,realm="r")");
  REQUIRE(response.ok());
  CHECK(response->find("username=\"a\\\"b\\\\c\"") != std::string::npos);
  CHECK(response->find("nonce=\"n\\\"1\"") != std::string::npos);
}

}  // namespace
}  // namespace hflush::hdfs::sasl
