// Token files: vectors of Java, what is cut off, and what claims too much.
#include "hflush/hdfs/sasl/credentials.h"

#include <doctest/doctest.h>

#include <string>
#include <string_view>

#include "hdfs/messages.h"

namespace hflush::hdfs::sasl {
namespace {

std::string bytes(std::string_view hex) {
  std::string text;
  std::string digits;
  for (const char c : hex) {
    if (c == ' ') continue;
    digits += c;
    if (digits.size() < 2) continue;
    text += static_cast<char>(std::stoi(digits, nullptr, 16));
    digits.clear();
  }
  return text;
}

const std::string kWritable = bytes(
    "48445453 00 01 0a68612d686466733a6e73 024944 025057"
    "15484446535f44454c45474154494f4e5f544f4b454e 0a68612d686466733a6e73 01 016b 020908");
const std::string kProtobuf = bytes(
    "48445453 01 44 0a390a0a68612d686466733a6e73122b0a024944120250571a15484446535f44454c454741"
    "54494f4e5f544f4b454e220a68612d686466733a6e73 12070a016b1a020908");

Credentials one_token() {
  const std::string service = "ha-hdfs:ns";
  Credentials credentials;
  credentials.tokens[service] = {"ID", "PW", std::string(kDelegationToken), service};
  credentials.secrets["k"] = "\x09\x08";
  return credentials;
}

Result<Credentials> decoded(const std::string& file) { return decode_credentials(as_bytes(file)); }

// As Java has it: identifiers of a token of HDFS.
Token token_of(std::string_view owner, std::string_view real_user) {
  std::string identifier(1, '\0');
  for (const std::string_view text : {owner, std::string_view("yarn"), real_user}) {
    identifier += static_cast<char>(text.size());
    identifier += text;
  }
  // 2023-11-14 22:13:20 UTC, and a week later; numbers of the token and of its key.
  identifier += bytes("8a018bcfe56800 8a018bf3f1ec00 01 02");
  return {identifier, "the password", std::string(kDelegationToken), "10.0.0.1:8020"};
}

TEST_CASE("both formats are written and read as Java has them") {
  CHECK(encode(one_token(), TokenFileFormat::kWritable) == kWritable);
  CHECK(encode(one_token(), TokenFileFormat::kProtobuf) == kProtobuf);
  for (const std::string& file : {kWritable, kProtobuf}) {
    const auto found = decoded(file);
    REQUIRE(found.ok());
    CHECK(*found == one_token());
  }
  for (const auto format : {TokenFileFormat::kWritable, TokenFileFormat::kProtobuf}) {
    CHECK(*decoded(encode({}, format)) == Credentials{});
  }
}

TEST_CASE("lengths of every size are written as Java has them") {
  struct Row {
    std::size_t size;
    std::string_view length;
  };
  constexpr Row kRows[] = {{0, "00"},       {127, "7f"},        {128, "8f80"},       {255, "8fff"},
                           {256, "8e0100"}, {65'535, "8effff"}, {65'536, "8d010000"}};
  for (const Row& row : kRows) {
    CAPTURE(row.size);
    const Token token{std::string(row.size, 'i'), "", "k", "s"};
    const std::string encoded = encode(token);
    CHECK(encoded.starts_with(bytes(row.length) + token.identifier));
    CHECK(*decode_token(as_bytes(encoded)) == token);
    Credentials credentials;
    credentials.tokens["a"] = token;
    for (const auto format : {TokenFileFormat::kWritable, TokenFileFormat::kProtobuf}) {
      CHECK(*decoded(encode(credentials, format)) == credentials);
    }
  }
}

TEST_CASE("a file that is cut off anywhere is none, and says so") {
  for (const std::string& file : {kWritable, kProtobuf}) {
    for (std::size_t size = 0; size < file.size(); ++size) {
      CAPTURE(size);
      const Status refused = decoded(file.substr(0, size)).status();
      CHECK(refused.code() == StatusCode::kInvalidArgument);
      CHECK(refused.message().find("token file") != std::string::npos);
    }
  }
}

TEST_CASE("a file that was changed is read, or refused: never more than it has") {
  for (const std::string& file : {kWritable, kProtobuf}) {
    testing::each_bit_flip(file, [](const std::string& changed) {
      const auto found = decoded(changed);
      if (!found.ok()) CHECK(found.status().code() == StatusCode::kInvalidArgument);
    });
  }
}

TEST_CASE("what claims to be huge or negative is refused without memory for it") {
  constexpr std::string_view kFiles[] = {
      "48445453 00 887fffffffffffffff",           // tokens
      "48445453 00 ff",                           // minus one of them
      "48445453 00 01 887fffffffffffffff",        // an alias
      "48445453 00 01 807fffffffffffffff",        // a length below all
      "48445453 00 01 0161 8c7fffffff",           // an identifier
      "48445453 00 01 0161 0169 8c7fffffff",      // a password
      "48445453 00 00 8b0fffffffff",              // secrets
      "48445453 00 00 01 016b 8d7fffffff",        // a secret
      "48445453 01 ffffffff0f",                   // the message
      "48445453 01 ffffffffffffffffff01",         // more than 32 bits can say
      "48445453 01 06 0affffffff0f",              // an entry
      "48445453 01 0a 0a08 0a0161 12ffffffff0f",  // a token
  };
  for (const std::string_view file : kFiles) {
    CAPTURE(file);
    CHECK(decoded(bytes(file)).status().code() == StatusCode::kInvalidArgument);
  }
}

TEST_CASE("other files are none") {
  for (const std::string_view file : {"", "HDT", "HDTS", "hdts\x01", "{\"a\": 1}", "HDTS\x02"}) {
    CAPTURE(file);
    CHECK(decoded(std::string(file)).status().code() == StatusCode::kInvalidArgument);
  }
  CHECK(decoded(bytes("48445453 07")).status().message().find("version is 7") != std::string::npos);
}

TEST_CASE("one token: its own form, and that of calls") {
  const Token token = one_token().tokens.begin()->second;
  CHECK(encode(token) == bytes("024944 025057 15484446535f44454c45474154494f4e5f544f4b454e"
                               "0a68612d686466733a6e73"));
  CHECK(*decode_token(as_bytes(encode(token))) == token);
  CHECK(*from_wire(to_wire(token)) == token);
  CHECK_FALSE(decode_token(as_bytes(encode(token) + "x")).ok());
  CHECK_FALSE(decode_token({}).ok());
  CHECK_FALSE(from_wire({"x"}).ok());
}

TEST_CASE("whose token, for whom, since when and until when; and no part of its secret") {
  CHECK(describe(token_of("olga", "")) ==
        "the token of olga for 10.0.0.1:8020, issued 2023-11-14 22:13:20 UTC and good until "
        "2023-11-21 22:13:20 UTC at most");
  CHECK(describe(token_of("olga", "oozie"))
            .starts_with("the token of olga, as whom oozie acts, for 10.0.0.1:8020, issued"));
  Token token = token_of("olga", "");
  for (std::size_t size = 0; size + 2 < token.identifier.size(); ++size) {
    CAPTURE(size);
    Token cut = token;
    cut.identifier.resize(size);
    CHECK(describe(cut).find("the password") == std::string::npos);
  }
  token.identifier.resize(3);
  CHECK(describe(token) == "the token for 10.0.0.1:8020");
  token = token_of("olga", "");
  token.kind = "kms-dt";
  CHECK(describe(token) == "the token for 10.0.0.1:8020");
  token.service.clear();
  CHECK(describe(token) == "the token");
}

}  // namespace
}  // namespace hflush::hdfs::sasl
