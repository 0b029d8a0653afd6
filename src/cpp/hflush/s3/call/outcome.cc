#include "hflush/s3/call/outcome.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <utility>

#include "hflush/base/ascii.h"
#include "hflush/s3/call/documents.h"
#include "hflush/s3/call/xml.h"

namespace hflush::s3 {
namespace {

// What a message quotes of what a server said.
constexpr std::size_t kMaxQuoted = 512;

struct KnownCode {
  std::string_view code;
  FailureKind kind;
};

// Codes that are not simply final. Those that throttle are spelled by AWS's SDKs, MinIO's by MinIO.
constexpr KnownCode kKnownCodes[] = {
    {"AuthorizationHeaderMalformed", FailureKind::kAddress},
    {"BadDigest", FailureKind::kTransit},
    {"BandwidthLimitExceeded", FailureKind::kThrottled},
    {"ConditionalRequestConflict", FailureKind::kConflict},
    {"EC2ThrottledException", FailureKind::kThrottled},
    {"ExpiredToken", FailureKind::kCredentials},
    {"ExpiredTokenException", FailureKind::kCredentials},
    {"IllegalLocationConstraintException", FailureKind::kAddress},
    {"IncompleteBody", FailureKind::kTransient},
    {"InternalError", FailureKind::kAmbiguous},
    {"InvalidToken", FailureKind::kCredentials},
    {"LimitExceededException", FailureKind::kThrottled},
    {"NoSuchUpload", FailureKind::kGone},
    {"OperationAborted", FailureKind::kTransient},
    {"PermanentRedirect", FailureKind::kAddress},
    {"PreconditionFailed", FailureKind::kPrecondition},
    {"PriorRequestNotComplete", FailureKind::kThrottled},
    {"ProvisionedThroughputExceededException", FailureKind::kThrottled},
    {"Redirect", FailureKind::kAddress},
    {"RequestExpired", FailureKind::kCredentials},
    {"RequestLimitExceeded", FailureKind::kThrottled},
    {"RequestThrottled", FailureKind::kThrottled},
    {"RequestThrottledException", FailureKind::kThrottled},
    {"RequestTimeTooSkewed", FailureKind::kClock},
    {"RequestTimeout", FailureKind::kTransient},
    {"ServiceUnavailable", FailureKind::kThrottled},
    {"SlowDown", FailureKind::kThrottled},
    {"SlowDownRead", FailureKind::kThrottled},
    {"SlowDownWrite", FailureKind::kThrottled},
    {"TemporaryRedirect", FailureKind::kAddress},
    {"TokenRefreshRequired", FailureKind::kCredentials},
    {"TooManyRequests", FailureKind::kThrottled},
    {"TooManyRequestsException", FailureKind::kThrottled},
    {"TransactionInProgressException", FailureKind::kThrottled},
    {"XAmzContentChecksumMismatch", FailureKind::kTransit},
    {"XAmzContentSHA256Mismatch", FailureKind::kTransit},
};

// By which Ceph's InternalError tells that it holds the upload for an earlier Complete.
constexpr std::string_view kInProgress = "completion is already in progress";

// MinIO forgets the keys of a session when it ends.
constexpr std::string_view kForgottenKey = "InvalidAccessKeyId";

bool is_success(int status) noexcept { return status >= 200 && status < 300; }

std::optional<FailureKind> kind_of_code(std::string_view code) noexcept {
  if (code.starts_with("Throttl")) return FailureKind::kThrottled;
  const auto* found = std::ranges::find_if(
      kKnownCodes, [code](const KnownCode& known) { return known.code == code; });
  if (found == std::end(kKnownCodes)) return std::nullopt;
  return found->kind;
}

// Where no code says more.
FailureKind kind_of_status(int status) noexcept {
  switch (status) {
    case 408:
    case 443:  // these three come of proxies, whose server has not answered
    case 444:
    case 499:
      return FailureKind::kAmbiguous;
    case 412:
      return FailureKind::kPrecondition;
    case 429:
    case 503:
      return FailureKind::kThrottled;
    case 501:
    case 505:
    case 507:
      return FailureKind::kFinal;
    default:
      return status >= 500 ? FailureKind::kAmbiguous : FailureKind::kFinal;
  }
}

bool is_redirect(int status) noexcept {
  return status == 301 || status == 302 || status == 307 || status == 308;
}

bool is_skewed(const Failure& failure, const Signing& signing) {
  if (!failure.server_time_s || !signing.time) return false;
  const SystemTime theirs{std::chrono::seconds(*failure.server_time_s)};
  return theirs - *signing.time > kMaxSkew || *signing.time - theirs > kMaxSkew;
}

// What a document would have said, most likely, that there is no room for, as in answers to HEAD.
std::optional<FailureKind> kind_without_document(const Failure& failure, bool has_body,
                                                 const Signing& signing) {
  const int status = failure.http_status;
  if (status == 400 && !failure.region.empty() && failure.region != signing.region) {
    return FailureKind::kAddress;
  }
  if (has_body) return std::nullopt;
  if (status == 400 && signing.may_have_expired) return FailureKind::kCredentials;
  if (status == 403 && is_skewed(failure, signing)) return FailureKind::kClock;
  return std::nullopt;
}

// Scheme and host of a URL: the rest may be secret.
std::string_view origin_of(std::string_view url) noexcept {
  const std::size_t scheme = url.find("://");
  if (scheme == std::string_view::npos) return "another path";
  const std::size_t end = url.find_first_of("/?#@", scheme + 3);
  return url.substr(0, end);
}

// One line of printable text, not too long.
std::string printable(std::string_view text) {
  std::string result(text.substr(0, kMaxQuoted));
  for (char& c : result) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) c = ' ';
  }
  if (text.size() > kMaxQuoted) result += "...";
  return result;
}

// What a server says that is not S3: its words, but no page.
std::string without_document(std::string_view body) {
  std::string message = "answered without an error document";
  const std::string_view text = trimmed(body, " \t\r\n");
  const bool is_plain = std::ranges::all_of(
      text, [](char c) { return (c >= 0x20 && c < 0x7F) || c == '\n' || c == '\r' || c == '\t'; });
  if (is_plain && !text.empty() && !text.starts_with('<')) message += ": " + printable(text);
  return message;
}

std::optional<SystemTime> date_of(const env::HttpHead& head) {
  return parse_http_date(head.header("date"));
}

// Seconds, or a date, which counts from the server's own.
std::optional<env::Duration> retry_after_of(const env::HttpHead& head) {
  const std::string_view text = head.header("retry-after");
  if (text.empty()) return std::nullopt;
  if (text.find_first_not_of("0123456789") == std::string_view::npos) {
    std::int64_t seconds = 0;
    const std::int64_t limit =
        std::chrono::duration_cast<std::chrono::seconds>(kMaxRetryAfter).count();
    for (const char c : text) seconds = std::min(seconds * 10 + (c - '0'), limit);
    return std::chrono::seconds(seconds);
  }
  const std::optional<SystemTime> until = parse_http_date(text);
  const std::optional<SystemTime> now = date_of(head);
  if (!until || !now) return std::nullopt;
  return std::clamp(env::Duration(*until - *now), env::Duration::zero(), kMaxRetryAfter);
}

std::string request_id_of(std::string_view request, std::string_view host) {
  std::string id = printable(request);
  if (!id.empty() && !host.empty()) id += " / ";
  return id + printable(host);
}

// By what GCS, and Cloudflare for R2, know a request.
constexpr std::string_view kOtherIds[] = {"x-guploader-uploadid", "cf-ray"};

// What the head says, whatever became of the body.
Failure failure_of_head(const env::HttpHead& head) {
  Failure failure;
  failure.http_status = head.status;
  failure.request_id = request_id_of(head.header("x-amz-request-id"), head.header("x-amz-id-2"));
  for (const std::string_view other : kOtherIds) {
    if (failure.request_id.empty()) failure.request_id = printable(head.header(other));
  }
  failure.region = printable(head.header("x-amz-bucket-region"));
  failure.location = head.header("location");
  failure.retry_after = retry_after_of(head);
  if (const std::optional<SystemTime> date = date_of(head)) {
    failure.server_time_s =
        std::chrono::duration_cast<std::chrono::seconds>(date->time_since_epoch()).count();
  }
  return failure;
}

void add_document(const XmlElement& error, Failure& failure) {
  failure.code = printable(error.value("Code"));
  failure.message = printable(error.value("Message"));
  if (failure.request_id.empty()) {
    failure.request_id = request_id_of(error.value("RequestId"), error.value("HostId"));
  }
  if (failure.region.empty()) failure.region = printable(error.value("Region"));
}

// The error document that the body is, if it is one.
std::optional<XmlElement> error_document(std::string_view body) {
  const Result<std::string> root = parse_xml_root(body);
  if (!root.ok() || *root != "Error") return std::nullopt;
  Result<XmlElement> document = parse_xml(body);
  if (!document.ok()) return std::nullopt;
  return *std::move(document);
}

// The final response has come in part, or not at all.
Failure broken(const env::HttpResult& result) {
  Failure failure = failure_of_head(result.head);
  failure.transport = result.end.failure;
  failure.message = result.end.failure.message();
  failure.may_be_executed = result.end.may_be_executed;
  if (result.end.is_unreadable || result.end.failure.error_number() == EMSGSIZE) {
    failure.kind = FailureKind::kFinal;  // it would be the same again
  } else if (failure.http_status == 503 || failure.http_status == 429) {
    failure.kind = FailureKind::kThrottled;
  } else if (result.end.may_be_executed) {
    failure.kind = FailureKind::kAmbiguous;
  } else {
    switch (result.end.failure.code()) {
      case StatusCode::kInvalidArgument:
      case StatusCode::kUnsupported:
      case StatusCode::kClosed:
      case StatusCode::kForked:
      case StatusCode::kInterrupted:
      case StatusCode::kInternal:
        failure.kind = FailureKind::kFinal;  // of our own making
        break;
      default:
        // A certificate that is no good now will be none at the next attempt.
        failure.kind = result.end.failure.error_number() == EKEYREJECTED ? FailureKind::kFinal
                                                                         : FailureKind::kNotSent;
    }
  }
  return failure;
}

// By the code of an error document, or by the status without one.
Failure refused(const env::HttpResult& result, const std::optional<XmlElement>& document,
                const Signing& signing) {
  Failure failure = failure_of_head(result.head);
  if (document) add_document(*document, failure);
  failure.is_of_store = !failure.code.empty() || is_of_store(result.head);
  std::optional<FailureKind> known = kind_of_code(failure.code);
  if (failure.code.empty()) known = kind_without_document(failure, !result.body.empty(), signing);
  if (signing.has_token && failure.code == kForgottenKey) known = FailureKind::kCredentials;
  if (known == FailureKind::kAmbiguous && failure.message.find(kInProgress) != std::string::npos) {
    known = FailureKind::kInProgress;
  }
  // A proxy or a portal may redirect to anywhere; what S3 redirects it explains.
  if (!known && is_redirect(failure.http_status) && !failure.region.empty()) {
    known = FailureKind::kAddress;
  }
  failure.is_temporary = failure.http_status == 302 || failure.http_status == 307 ||
                         failure.code == "TemporaryRedirect";
  if (known) {
    failure.kind = *known;
  } else if (is_redirect(failure.http_status)) {
    failure.kind = FailureKind::kFinal;
    failure.message = "redirected to " + printable(origin_of(failure.location)) +
                      ", but not by S3: not followed. Is there a proxy or a login page in between?";
  } else if (!is_success(failure.http_status)) {
    failure.kind = kind_of_status(failure.http_status);
  } else {
    failure.kind = failure.code.empty() ? FailureKind::kAmbiguous : FailureKind::kFinal;
  }
  if (failure.message.empty() && failure.code.empty()) {
    failure.message = without_document(result.body);
  }
  return failure;
}

Failure ambiguous(const env::HttpHead& head, std::string message) {
  Failure failure = failure_of_head(head);
  failure.kind = FailureKind::kAmbiguous;
  failure.message = std::move(message);
  return failure;
}

// A 2xx that has to have that root.
std::optional<Failure> judge_root(const env::HttpResult& result, std::string_view expected,
                                  const Signing& signing) {
  const std::string wanted = " instead of <" + std::string(expected) + ">";
  if (result.body.empty()) return ambiguous(result.head, "an empty answer" + wanted);
  const Result<std::string> root = parse_xml_root(result.body);
  if (!root.ok()) return ambiguous(result.head, root.status().message() + wanted);
  if (is_same_root(*root, expected)) return std::nullopt;
  if (*root == "Error") return refused(result, error_document(result.body), signing);
  return ambiguous(result.head, "<" + printable(*root) + ">" + wanted);
}

std::optional<Failure> judge_no_body(const env::HttpResult& result, const Signing& signing) {
  if (result.body.empty()) return std::nullopt;
  if (const auto document = error_document(result.body)) return refused(result, document, signing);
  return ambiguous(result.head, "a page instead of an answer without a body");
}

// Web servers give their pages ETags, too. OpenStack Swift gives answers without a body that type.
std::optional<Failure> judge_etag(const env::HttpResult& result, const Signing& signing) {
  if (const auto document = error_document(result.body)) return refused(result, document, signing);
  if (result.head.header("etag").empty()) return ambiguous(result.head, "an answer without ETag");
  if (result.body.empty() || !result.head.header("content-type").starts_with("text/html")) {
    return std::nullopt;
  }
  return ambiguous(result.head, "a page of a web server, with an ETag: not a store's answer");
}

std::optional<Failure> judge_head(const env::HttpResult& result) {
  if (is_of_store(result.head)) return std::nullopt;
  return ambiguous(result.head, "an answer without ETag and x-amz-request-id: not a store's");
}

struct Meaning {
  StatusCode code = StatusCode::kIo;
  int error_number = EIO;
};

struct CodeMeaning {
  std::string_view code;
  Meaning meaning;
};

// Codes that mean more, or something else, than their status.
constexpr CodeMeaning kCodeMeanings[] = {
    {"BucketAlreadyExists", {StatusCode::kAlreadyExists, EEXIST}},
    {"BucketAlreadyOwnedByYou", {StatusCode::kAlreadyExists, EEXIST}},
    {"BucketNotEmpty", {StatusCode::kNotEmpty, ENOTEMPTY}},
    {"EntityTooLarge", {StatusCode::kIo, EFBIG}},
    // versitygw: its objects are files.
    {"ErrDirectoryNotEmpty", {StatusCode::kNotEmpty, ENOTEMPTY}},
    {"ExistingObjectIsDirectory", {StatusCode::kPathIsDirectory, EISDIR}},
    {"InvalidBucketName", {StatusCode::kInvalidPath, EINVAL}},
    {"InvalidObjectName", {StatusCode::kInvalidPath, EINVAL}},
    {"KeyTooLongError", {StatusCode::kInvalidPath, ENAMETOOLONG}},
    {"NoSuchBucket", {StatusCode::kNotFound, ENOENT}},
    {"NoSuchKey", {StatusCode::kNotFound, ENOENT}},
    {"NoSuchUpload", {StatusCode::kNotFound, ENOENT}},
    {"NoSuchVersion", {StatusCode::kNotFound, ENOENT}},
    {"NotImplemented", {StatusCode::kUnsupported, ENOTSUP}},
    {"ObjectParentIsFile", {StatusCode::kParentNotDirectory, ENOTDIR}},
    {"QuotaExceeded", {StatusCode::kIo, EDQUOT}},
    {"RequestTimeout", {StatusCode::kTimedOut, ETIMEDOUT}},
    {"XMinioAdminBucketQuotaExceeded", {StatusCode::kIo, EDQUOT}},
    {"XMinioInvalidObjectName", {StatusCode::kInvalidPath, EINVAL}},
    {"XMinioInvalidResourceName", {StatusCode::kInvalidPath, EINVAL}},
    {"XMinioObjectExistsAsDirectory", {StatusCode::kPathIsDirectory, EISDIR}},
    {"XMinioParentIsObject", {StatusCode::kParentNotDirectory, ENOTDIR}},
    {"XMinioStorageFull", {StatusCode::kIo, ENOSPC}},
};

Meaning meaning_of_status(int status) noexcept {
  switch (status) {
    case 401:
    case 403:
      return {StatusCode::kPermissionDenied, EACCES};
    case 404:
    case 410:
      return {StatusCode::kNotFound, ENOENT};
    case 405:
    case 501:
      return {StatusCode::kUnsupported, ENOTSUP};
    case 408:
    case 504:
      return {StatusCode::kTimedOut, ETIMEDOUT};
    case 413:
      return {StatusCode::kIo, EFBIG};
    case 416:
      return {StatusCode::kEndOfFile, ENODATA};
    case 507:
      return {StatusCode::kIo, ENOSPC};
    default:
      return {};
  }
}

Meaning meaning_of_transport(const Status& transport) noexcept {
  switch (transport.code()) {
    case StatusCode::kTimedOut:
      return {StatusCode::kTimedOut, ETIMEDOUT};
    case StatusCode::kInvalidArgument:
    case StatusCode::kUnsupported:
    case StatusCode::kClosed:
    case StatusCode::kForked:
    case StatusCode::kInterrupted:
    case StatusCode::kInternal:
      return {transport.code(), transport.error_number()};
    default:
      return {StatusCode::kIo, transport.error_number() != 0 ? transport.error_number() : EIO};
  }
}

Meaning meaning_of(const Failure& failure) noexcept {
  if (!failure.transport.ok()) return meaning_of_transport(failure.transport);
  switch (failure.kind) {
    case FailureKind::kPrecondition:
    case FailureKind::kConflict:
      return {StatusCode::kPreconditionFailed, ESTALE};
    case FailureKind::kCredentials:
    case FailureKind::kClock:
      return {StatusCode::kPermissionDenied, EACCES};
    case FailureKind::kThrottled:
      return {StatusCode::kIo, EBUSY};
    default:
      break;
  }
  // A gateway that finds no server behind it says nothing of what the store has.
  if (failure.http_status == 404 && !failure.is_of_store) return {};
  const auto* found = std::ranges::find_if(
      kCodeMeanings, [&failure](const CodeMeaning& row) { return row.code == failure.code; });
  return found != std::end(kCodeMeanings) ? found->meaning : meaning_of_status(failure.http_status);
}

}  // namespace

std::string_view to_string(FailureKind kind) noexcept {
  switch (kind) {
    case FailureKind::kNotSent:
      return "not_sent";
    case FailureKind::kAmbiguous:
      return "ambiguous";
    case FailureKind::kInProgress:
      return "in_progress";
    case FailureKind::kThrottled:
      return "throttled";
    case FailureKind::kTransient:
      return "transient";
    case FailureKind::kCredentials:
      return "credentials";
    case FailureKind::kTransit:
      return "transit";
    case FailureKind::kClock:
      return "clock";
    case FailureKind::kAddress:
      return "address";
    case FailureKind::kConflict:
      return "conflict";
    case FailureKind::kPrecondition:
      return "precondition";
    case FailureKind::kGone:
      return "gone";
    case FailureKind::kExtra:
      return "extra";
    case FailureKind::kFinal:
      return "final";
  }
  return "unknown";
}

bool is_of_store(const env::HttpHead& head) noexcept {
  return std::ranges::any_of(head.headers, [](const env::HttpHeader& header) {
    return header.name == "etag" || header.name == "content-range" ||
           header.name.starts_with("x-amz-");
  });
}

Expect usual_expect(std::string_view method) noexcept {
  if (method == "DELETE") return Expect::kNoBody;
  return method == "HEAD" ? Expect::kHead : Expect::kNothing;
}

std::optional<Failure> judge(const env::HttpResult& result, Expect expect, std::string_view root,
                             const Signing& signing) {
  if (!result.end.failure.ok()) return broken(result);
  if (!is_success(result.head.status)) return refused(result, error_document(result.body), signing);
  switch (expect) {
    case Expect::kNothing:
      break;
    case Expect::kNoBody:
      return judge_no_body(result, signing);
    case Expect::kHead:
      return judge_head(result);
    case Expect::kETag:
      return judge_etag(result, signing);
    case Expect::kRoot:
      return judge_root(result, root, signing);
    case Expect::kRootOrNothing:
      return result.body.empty() ? std::nullopt : judge_root(result, root, signing);
  }
  return std::nullopt;
}

Status to_status(const Failure& failure, std::string_view operation, std::string_view endpoint,
                 const std::string& path, int attempts) {
  const Meaning meaning = meaning_of(failure);
  std::string message(operation);
  message += ": ";
  message += endpoint;
  message += ": ";
  if (!failure.code.empty()) message += failure.code + ": ";
  message += failure.message.empty() ? "no message" : failure.message;
  message += " (";
  if (failure.http_status != 0) message += "HTTP " + std::to_string(failure.http_status) + ", ";
  if (!failure.request_id.empty()) message += "request " + failure.request_id + ", ";
  message += std::to_string(attempts) + (attempts == 1 ? " attempt)" : " attempts)");
  return Status(meaning.code, std::move(message), path, meaning.error_number)
      .with_remote_class(failure.code);
}

}  // namespace hflush::s3
