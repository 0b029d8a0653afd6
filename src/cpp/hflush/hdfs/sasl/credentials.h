// Tokens, and the files that carry them (HADOOP_TOKEN_FILE_LOCATION): Hadoop's Credentials.
//
// Values, and pure functions: a file's bytes are untrusted, and no message has a token's identifier
// or password in it.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "hflush/base/bytes.h"
#include "hflush/base/result.h"
#include "hflush/hdfs/wire/types.h"

namespace hflush::hdfs::sasl {

// What a NameNode gives to a client that has authenticated otherwise; it speaks for its owner.
inline constexpr std::string_view kDelegationToken = "HDFS_DELEGATION_TOKEN";

struct Token {
  std::string identifier;
  std::string password;
  std::string kind;     // kDelegationToken, and other services' own
  std::string service;  // "10.0.0.1:8020", "nn.example.com:8020", "ha-hdfs:nameservice"

  bool operator==(const Token&) const = default;
};

struct Credentials {
  std::map<std::string, Token, std::less<>> tokens;         // by alias
  std::map<std::string, std::string, std::less<>> secrets;  // likewise

  bool operator==(const Credentials&) const = default;
};

// The two formats of a token file. Hadoop writes the first, unless asked for the other.
enum class TokenFileFormat : std::uint8_t { kWritable = 0, kProtobuf = 1 };

// For messages: "the token of olga for nn:8020, issued 2026-11-24 02:35:27 UTC and good until
// 2026-12-01 02:35:27 UTC at most"; less where its identifier does not say.
std::string describe(const Token& token);

std::string encode(const Credentials& credentials, TokenFileFormat format);
// kInvalidArgument: it is no token file, or cut off; what and at which byte.
Result<Credentials> decode_credentials(ByteView file);

// As it travels in calls. `spelled` is a TokenProto: malformed if it is not.
hdfs::Token to_wire(const Token& token);
Result<Token> from_wire(const hdfs::Token& spelled);

// One token as Hadoop's Writable has it; Hadoop's URL form is its base64, for URLs and unpadded.
std::string encode(const Token& token);
Result<Token> decode_token(ByteView bytes);

}  // namespace hflush::hdfs::sasl
