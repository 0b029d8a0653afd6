#include "hflush/s3/call/request.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "hflush/base/binary_text.h"
#include "hflush/base/bytes.h"
#include "hflush/base/result.h"
#include "hflush/crypto/digest.h"
#include "hflush/s3/call/encoding.h"

namespace hflush::s3 {
namespace {

// A smaller body is sent as fast as the question whether it is wanted.
constexpr std::uint64_t kExpectContinueAbove = std::uint64_t{1} << 20U;
// Of a body that is hashed.
constexpr std::uint64_t kPieceBytes = std::uint64_t{64} << 10U;
// Of a call that is to end now: it has been sent, and its answer may be on its way.
constexpr env::Duration kLeastTimeout = std::chrono::milliseconds(100);

std::string encoded_path(const Settings& settings, const Call& call, bool names_bucket) {
  std::string path = encode_key(settings.base_path) + "/";
  if (names_bucket && !call.bucket.empty()) {
    path += encode_component(call.bucket);
    if (call.key.empty()) return path;
    path += '/';
  }
  return path += encode_key(call.key);
}

// As the signature has it.
std::string_view payload_sha256(const Call& call) noexcept {
  if (call.body == nullptr) return kEmptySha256;
  return call.body_sha256.empty() ? kUnsignedPayload : std::string_view(call.body_sha256);
}

// In hex; or why the body cannot be read.
Result<std::string> sha256_of(const env::HttpBody& body) {
  std::vector<std::byte> piece(std::min<std::uint64_t>(body.size(), kPieceBytes));
  crypto::RunningDigest digest(crypto::RunningDigest::Kind::kSha256);
  for (std::uint64_t offset = 0; offset < body.size();) {
    const std::ptrdiff_t count = body.read_at(offset, piece);
    if (count < 0) return Status::from_errno(static_cast<int>(-count), "read of a body", {});
    if (count == 0) return Status::from_errno(EIO, "read of a body that has been cut", {});
    digest.update(ByteView(piece).first(static_cast<std::size_t>(count)));
    offset += static_cast<std::uint64_t>(count);
  }
  return to_hex(as_bytes(digest.finish()));
}

void limit(const Settings& settings, const Call& call, const Attempt& attempt,
           env::HttpRequest& request) {
  request.connect_timeout = settings.connect_timeout;
  request.stall_timeout = call.stall_timeout.value_or(settings.stall_timeout);
  if (call.ends) {
    const env::Duration left = std::max<env::Duration>(*call.ends - attempt.begins, kLeastTimeout);
    request.connect_timeout = std::min(request.connect_timeout, left);
    request.stall_timeout = std::min(request.stall_timeout, left);
  }
  if (attempt.is_download) {
    // It ends by itself, but an error that goes on and on is nothing to wait for.
    request.max_error_bytes = call.max_response_bytes;
  } else {
    request.max_response_bytes = call.max_response_bytes;
    request.total_timeout = call.is_upload ? settings.upload_timeout : settings.request_timeout;
  }
}

}  // namespace

bool has_large_body(const Call& call) noexcept {
  return call.body != nullptr && call.body->size() > kExpectContinueAbove;
}

env::HttpRequest make_request(const Settings& settings, const Call& call, const Attempt& attempt,
                              const Credentials& credentials) {
  const Target& target = attempt.target;
  const std::string path = encoded_path(settings, call, target.names_bucket);
  env::HttpRequest request;
  request.method = call.method;
  request.url = settings.scheme + "://" + target.authority + path;
  if (const std::string query = canonical_query(call.query); !query.empty()) {
    request.url.append(1, '?').append(query);
  }
  request.headers = sign({.method = call.method,
                          .host = target.authority,
                          .encoded_path = path,
                          .query = call.query,
                          .headers = call.headers,
                          .payload_sha256 = payload_sha256(call)},
                         credentials, target.region, attempt.time, attempt.key);
  // What is signed, however libcurl would spell it ("127.1", ":443").
  request.headers.push_back({"Host", target.authority});
  request.headers.insert(request.headers.end(), call.headers.begin(), call.headers.end());
  request.body = call.body;
  request.fresh_connection = call.fresh_connection;
  request.expect_continue = settings.expect_continue && attempt.asks_first && has_large_body(call);
  request.is_awaited = attempt.by_caller && (!attempt.is_download || call.is_awaited);
  limit(settings, call, attempt, request);
  return request;
}

Signing signing_of(const Call& call, const Attempt& attempt, const Credentials& credentials) {
  const bool has_token = !credentials.session_token.empty();
  return {.has_token = has_token,
          .may_have_expired = call.guesses_expiry && has_token,
          .time = credentials.anonymous() ? std::nullopt : std::optional(attempt.time),
          .region = attempt.target.region};
}

Status hash_body(const Settings& settings, Call& call, bool is_wanted) {
  if (call.body == nullptr || !call.body_sha256.empty()) return {};
  if (settings.payload_signing == PayloadSigning::kNever) return {};
  const bool is_protected = call.is_upload && !settings.signs_payload();
  if (is_protected && !is_wanted && call.body->size() != 0) return {};
  HFLUSH_ASSIGN_OR_RETURN(call.body_sha256, sha256_of(*call.body));
  return {};
}

}  // namespace hflush::s3
