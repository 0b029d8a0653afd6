// What an attempt at a call of S3 came to, and what a call came to at last.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "hflush/base/status.h"
#include "hflush/env/clock.h"
#include "hflush/env/http_client.h"
#include "hflush/s3/call/signer.h"

namespace hflush::s3 {

// The kinds of failure that call for different things; docs/s3-client.md has the table.
enum class FailureKind : std::uint8_t {
  kNotSent,       // no connection, no name, no TLS: the server has seen nothing
  kAmbiguous,     // the server may have executed it: lost, reset, 5xx, an empty or broken 200
  kInProgress,    // Ceph of a Complete: an earlier one of the same upload is being executed
  kThrottled,     // 503, 429, SlowDown and kin
  kTransient,     // RequestTimeout, OperationAborted: not executed, try again
  kCredentials,   // expired: try again with newer ones
  kTransit,       // the body did not arrive as it was sent: BadDigest and kin
  kClock,         // RequestTimeTooSkewed
  kAddress,       // another region or host has to be asked, in S3's own words
  kConflict,      // 409 ConditionalRequestConflict
  kPrecondition,  // 412
  kGone,          // 404 NoSuchUpload
  kExtra,         // refused for something that the request can do without: again, without it
  kFinal,         // everything else: trying again changes nothing
};

std::string_view to_string(FailureKind kind) noexcept;

// What a successful response must have; a 2xx without it is ambiguous.
enum class Expect : std::uint8_t {
  kNothing,  // its status says it all; its body is not looked at
  kNoBody,   // DELETE: what has one is the page of a proxy
  kHead,     // is_of_store(), without which it is the page of somebody in between
  kETag,     // the header
  kRoot,     // a document whose root has the expected name, or one that means it: is_same_root()
  kRootOrNothing,  // the same, or an empty body: the caller looks for what was done
};

// Whether a head has what a page has not: an ETag, a range, or a header of S3's own.
bool is_of_store(const env::HttpHead& head) noexcept;
// What an answer to that method must have where nothing else is said: a 200 alone is not an answer,
// for a login page has it, too.
Expect usual_expect(std::string_view method) noexcept;

struct Failure {
  FailureKind kind = FailureKind::kFinal;
  int http_status = 0;           // 0: no response
  std::string code;              // S3's error code; empty without an error document
  std::string message;           // S3's, or ours
  std::string request_id;        // "x-amz-request-id / x-amz-id-2", as far as they came
  std::string region;            // kAddress: where to ask, if it was said
  std::string location;          // kAddress: the URL of a redirect, if it was said
  bool is_temporary = false;     // kAddress: for this call only
  bool may_be_executed = false;  // without a whole response: it was sent, whatever the kind
  bool is_of_store = true;  // of a response: what has neither a code nor a header of S3's is not
  std::optional<env::Duration> retry_after;
  std::optional<std::int64_t> server_time_s;  // the Date header, seconds since 1970
  Status transport;                           // without a response: what broke
};

// How the request was signed: what a refusal without a document (of HEAD) is judged by.
struct Signing {
  bool has_token = false;          // of a session
  bool may_have_expired = false;   // the same; 400 is taken for its end
  std::optional<SystemTime> time;  // none: it was not signed
  std::string region;
};

// Further apart than this may clocks of client and server not be.
inline constexpr std::chrono::minutes kMaxSkew{15};
// The longest that a Retry-After is taken for.
inline constexpr env::Duration kMaxRetryAfter = std::chrono::seconds(60);

// Judges one attempt: nullopt means success. Pure. S3's error code decides, also in a 200; the
// status only where there is no error document (HEAD, proxies), or an unknown code.
// `root`: the name that Expect::kRoot and kRootOrNothing want.
std::optional<Failure> judge(const env::HttpResult& result, Expect expect, std::string_view root,
                             const Signing& signing = {});

// As the caller gets it: code, errno and a message that names the operation, the endpoint, S3's
// code and status, the request ids and how many attempts were made; S3's code is its
// remote_class(). Lost conditions (412, 409) are kPreconditionFailed.
Status to_status(const Failure& failure, std::string_view operation, std::string_view endpoint,
                 const std::string& path, int attempts);

}  // namespace hflush::s3
