// AWS Signature Version 4 for S3, header form. Pure, but for the digests (load_digests() has to
// have worked, unless the credentials are anonymous).
//
// libcurl's own signer is not used: released versions sign ordinary S3 calls wrongly
// (docs/s3-client.md). Checked against AWS's published vectors and servers that verify.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "hflush/base/mutex.h"
#include "hflush/crypto/digest.h"
#include "hflush/env/http_client.h"
#include "hflush/s3/call/encoding.h"

namespace hflush::s3 {

struct Credentials {
  std::string access_key;
  std::string secret_key;
  std::string session_token;  // empty: none

  // Unsigned requests.
  bool anonymous() const noexcept { return access_key.empty(); }
};

inline constexpr std::string_view kUnsignedPayload = "UNSIGNED-PAYLOAD";
inline constexpr std::string_view kEmptySha256 =
    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

struct RequestToSign {
  std::string_view method;
  std::string_view host;          // as the Host header has it, with a port that is not the default
  std::string_view encoded_path;  // "/bucket/a%2Bb"; "/" if empty
  const Query& query;
  const std::vector<env::HttpHeader>& headers;  // those the request has; Host not among them
  std::string_view payload_sha256;              // hex, or kUnsignedPayload
};

using SystemTime = std::chrono::system_clock::time_point;

// What requests to a region are signed with for a day.
using SigningKey = crypto::Sha256;
SigningKey signing_key(const Credentials& credentials, std::string_view region, SystemTime now);

// The keys that were made last: one takes four of the five HMACs of a signature. Thread-safe.
class SigningKeys {
 public:
  // `generation`: of the credentials, which are others where it is another one.
  SigningKey of(const Credentials& credentials, std::uint64_t generation, std::string_view region,
                SystemTime now) HFLUSH_EXCLUDES(mutex_);

 private:
  static constexpr std::size_t kMost = 4;  // regions, and days around midnight
  struct Known {
    std::uint64_t generation;
    std::chrono::sys_days day;
    std::string region;
    SigningKey key;
  };

  // Innermost. Never held while a key is made.
  Mutex mutex_;
  std::vector<Known> known_ HFLUSH_GUARDED_BY(mutex_);  // the oldest first
};

// The headers that a request needs to be taken as signed: x-amz-date, x-amz-content-sha256,
// x-amz-security-token with a session, Authorization. Signed are Host, every x-amz-*, and
// Content-Type, Content-MD5, Date, Range, If-Match and If-None-Match where present. Of anonymous
// credentials: none. Headers of one name count as one, with their values in order. `key`: that of
// the credentials, region and day; made here where there is none.
std::vector<env::HttpHeader> sign(const RequestToSign& request, const Credentials& credentials,
                                  std::string_view region, SystemTime now,
                                  const std::optional<SigningKey>& key = {});

// For tests: what is hashed and signed.
std::string canonical_request(const RequestToSign& request,
                              const std::vector<env::HttpHeader>& added);

std::string amz_date(SystemTime time);  // "20260102T030405Z"
// The time of a Date header (RFC 9110: "Fri, 02 Jan 2026 03:04:05 GMT"), from 1970 to 2200; nullopt
// if it is none.
std::optional<SystemTime> parse_http_date(std::string_view text);

}  // namespace hflush::s3
