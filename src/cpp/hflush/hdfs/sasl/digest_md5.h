// DIGEST-MD5 (RFC 2831), as Java's servers speak it: how a client proves that it has a token.
//
// Of the ciphers of auth-conf only 3DES is used: RC4 and single DES are not offered.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "hflush/hdfs/sasl/mechanism.h"

namespace hflush::hdfs::sasl {

struct DigestMd5Options {
  std::string user;
  std::string password;
  std::string digest_uri;               // "/default" of RPC, "hdfs/0" of data transfer
  std::vector<Protection> protections;  // at least one; the first that the server offers
  std::string client_nonce;             // never used before; printable, without quotes
};

// kUnsupported where libcrypto has no MD5.
Result<std::unique_ptr<Mechanism>> make_digest_md5(DigestMd5Options options);

}  // namespace hflush::hdfs::sasl
