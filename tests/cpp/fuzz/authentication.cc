// Who calls: files that somebody else may have written, and what a server says before it has proven
// who it is.
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "fuzz/targets.h"
#include "hflush/hdfs/sasl/credentials.h"
#include "hflush/hdfs/sasl/digest_md5.h"

namespace hflush::fuzz {

namespace sasl = hdfs::sasl;

void credentials(ByteView input) {
  const Result<sasl::Credentials> found = sasl::decode_credentials(input);
  if (!found.ok()) {
    require(found.status().code() == StatusCode::kInvalidArgument);
    return;
  }
  for (const auto& [alias, token] : found->tokens) {
    require(!sasl::describe(token).empty());
    require(*sasl::from_wire(sasl::to_wire(token)) == token);
    require(*sasl::decode_token(as_bytes(sasl::encode(token))) == token);
  }
  for (const auto format : {sasl::TokenFileFormat::kWritable, sasl::TokenFileFormat::kProtobuf}) {
    const auto again = sasl::decode_credentials(as_bytes(sasl::encode(*found, format)));
    require(again.ok());
    require(*again == *found);
  }
}

namespace {

std::unique_ptr<sasl::Mechanism> client(sasl::Protection protection, std::string password) {
  auto mechanism = sasl::make_digest_md5({.user = "dXNlcg==",
                                          .password = std::move(password),
                                          .digest_uri = "/default",
                                          .protections = {protection},
                                          .client_nonce = "nonce"});
  require(mechanism.ok());
  return *std::move(mechanism);
}

std::string without_digest(std::string response) {
  constexpr std::string_view kBefore = ",response=";
  constexpr std::size_t kDigits = 32;
  const std::size_t found = response.rfind(kBefore);  // realm and nonce are the server's own
  require(found != std::string::npos);
  const std::size_t begin = found + kBefore.size();
  require(response.find_first_not_of("0123456789abcdef", begin) == begin + kDigits);
  return response.erase(begin, kDigits);
}

}  // namespace

// Two clients that differ in their secrets: a fuzzer finds out what an input is compared with, so
// one of the secrets, and its proof, may be in the input.
void digest_md5_challenge(ByteView input) {
  using enum sasl::Protection;
  const std::string_view challenge = as_text(input);
  for (const sasl::Protection protection : {kAuth, kAuthInt, kAuthConf}) {
    const auto one = client(protection, "cGFzcw==");
    const auto other = client(protection, "c2VjcmV0");
    const Result<std::string> response = one->respond(challenge);
    const Result<std::string> others = other->respond(challenge);
    require(response.ok() == others.ok());
    if (!response.ok()) {
      require(response.status().code() == StatusCode::kPermissionDenied);
      require(response.status().message() == others.status().message());
      continue;
    }
    // Only the digest depends on the secret.
    require(without_digest(*response) == without_digest(*others));
    require(!one->is_complete() && !other->is_complete());
    // No challenge proves both secrets.
    const bool proves_one = one->respond(challenge).ok();
    const bool proves_other = other->respond(challenge).ok();
    require(!proves_one || !proves_other);
    require(one->is_complete() == proves_one && other->is_complete() == proves_other);
  }
}

}  // namespace hflush::fuzz
