// Who calls: files that somebody else may have written, and what a server says before it has proven
// who it is.
#include <string>

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

void digest_md5_challenge(ByteView input) {
  using enum sasl::Protection;
  const std::string_view challenge = as_text(input);
  for (const sasl::Protection protection : {kAuth, kAuthInt, kAuthConf}) {
    const auto mechanism = sasl::make_digest_md5({.user = "dXNlcg==",
                                                  .password = "cGFzcw==",
                                                  .digest_uri = "/default",
                                                  .protections = {protection},
                                                  .client_nonce = "nonce"});
    require(mechanism.ok());
    const auto response = (*mechanism)->respond(challenge);
    if (!response.ok()) {
      require(response.status().code() == StatusCode::kPermissionDenied);
      continue;
    }
    require(response->find("cGFzcw==") == std::string::npos);
    require(!(*mechanism)->is_complete());
    // A challenge is no proof.
    require(!(*mechanism)->respond(challenge).ok());
    require(!(*mechanism)->is_complete());
  }
}

}  // namespace hflush::fuzz
