// What an answer of a store, or none, comes to: every row of docs/s3-client.md.
#include "hflush/s3/call/outcome.h"

#include <doctest/doctest.h>

#include <cerrno>
#include <chrono>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace hflush::s3 {
namespace {

using std::chrono::seconds;
using Headers = std::vector<env::HttpHeader>;

std::string error_document(std::string_view code, std::string_view more = {}) {
  std::string text = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<Error><Code>";
  text += code;
  text += "</Code><Message>It is so.</Message>";
  text += more;
  return text + "<Resource>/b/k</Resource><RequestId>R1</RequestId><HostId>H1</HostId></Error>";
}

env::HttpResult answer(int status, std::string body = {}, Headers headers = {}) {
  env::HttpResult result;
  result.head.status = status;
  result.head.headers = std::move(headers);
  result.body = std::move(body);
  return result;
}

env::HttpResult lost(bool may_be_executed, Status failure) {
  env::HttpResult result;
  result.end = {std::move(failure), may_be_executed};
  return result;
}

Failure failure_of(const env::HttpResult& result, Expect expect = Expect::kNothing,
                   std::string_view root = {}) {
  const auto failure = judge(result, expect, root);
  REQUIRE(failure.has_value());
  return *failure;
}

FailureKind kind_of(int status, std::string body = {}, Headers headers = {}) {
  return failure_of(answer(status, std::move(body), std::move(headers))).kind;
}

constexpr std::string_view kRoot = "CompleteMultipartUploadResult";

TEST_CASE("a success has what it must have") {
  for (const int status : {200, 201, 202, 204, 206}) {
    CAPTURE(status);
    CHECK_FALSE(judge(answer(status), Expect::kNothing, "").has_value());
    CHECK_FALSE(judge(answer(status, error_document("InternalError")), Expect::kNothing, ""));
    CHECK_FALSE(judge(answer(status, "", {{"etag", "\"x\""}}), Expect::kETag, "").has_value());
    CHECK_FALSE(judge(answer(status,
                             "<?xml version='1.0'?>\n  <CompleteMultipartUploadResult "
                             "xmlns='u'><ETag/></CompleteMultipartUploadResult>"),
                      Expect::kRoot, kRoot)
                    .has_value());
  }
  CHECK_FALSE(judge(answer(200, "<ListPartsResponse/>"), Expect::kRoot, "ListPartsResult"));
  CHECK(judge(answer(200, "<ListResponse/>"), Expect::kRoot, "ListPartsResult"));
  CHECK(judge(answer(200, "<ListPartsResult/>"), Expect::kRoot, "ListPartsResponse"));
}

TEST_CASE("what no repetition changes is final") {
  env::HttpResult unreadable = lost(false, Status::from_errno(EIO, "read of what is sent", {}));
  CHECK(failure_of(unreadable).kind == FailureKind::kNotSent);
  unreadable.end.is_unreadable = true;
  CHECK(failure_of(unreadable).kind == FailureKind::kFinal);
  const Status too_long = Status::from_errno(EMSGSIZE, "longer than", {});
  for (const bool may_be_executed : {true, false}) {
    const Failure failure = failure_of(lost(may_be_executed, too_long));
    CHECK(failure.kind == FailureKind::kFinal);
    CHECK(failure.may_be_executed == may_be_executed);
  }
}

TEST_CASE("what an answer must have by the method that was asked with") {
  CHECK(usual_expect("DELETE") == Expect::kNoBody);
  CHECK(usual_expect("HEAD") == Expect::kHead);
  CHECK(usual_expect("GET") == Expect::kNothing);
  CHECK(usual_expect("PUT") == Expect::kNothing);
}

TEST_CASE("OBJ-10: a 2xx without what it must have is no success") {
  const std::string bodies[] = {
      "",
      "   \n ",
      "ok",
      "<html><body>200</body></html>",
      "<!DOCTYPE html><html></html>",
      "<CompleteMultipartUploadResult><ETag>x</ETag></CompleteMultipartUploadRes",
      "<CompleteMultipartUploadResult>",
      "<?xml version=\"1.0\"?>",
      "<Error>",
      "<Error><Message>no code</Message></Error>",
      "<ListPartsResult/>",
      "<CompleteMultipartUploadResult/><CompleteMultipartUploadResult/>",
  };
  for (const int status : {200, 204}) {
    for (const std::string& body : bodies) {
      CAPTURE(body);
      const Failure failure = failure_of(answer(status, body), Expect::kRoot, kRoot);
      CHECK(failure.kind == FailureKind::kAmbiguous);
      CHECK(failure.http_status == status);
      CHECK_FALSE(failure.message.empty());
      CHECK(failure.transport.ok());
    }
    CHECK(failure_of(answer(status, ""), Expect::kETag).kind == FailureKind::kAmbiguous);
    CHECK(failure_of(answer(status, "", {{"etag", ""}}), Expect::kETag).kind ==
          FailureKind::kAmbiguous);
    const Headers page = {{"etag", "\"x\""}, {"content-type", "text/html"}};
    CHECK(failure_of(answer(status, "<p/>", page), Expect::kETag).kind == FailureKind::kAmbiguous);
    CHECK_FALSE(judge(answer(status, "", page), Expect::kETag, "").has_value());  // Swift's
  }
}

TEST_CASE("a 200 that carries an error is judged by its code") {
  const std::pair<std::string_view, FailureKind> cases[] = {
      {"InternalError", FailureKind::kAmbiguous},
      {"SlowDown", FailureKind::kThrottled},
      {"PreconditionFailed", FailureKind::kPrecondition},
      {"NoSuchUpload", FailureKind::kGone},
      {"ExpiredToken", FailureKind::kCredentials},
      {"InvalidPart", FailureKind::kFinal},
      {"AccessDenied", FailureKind::kFinal},
      {"SomethingNew", FailureKind::kFinal},
  };
  for (const auto& one : cases) {
    const std::string_view code = one.first;
    const FailureKind kind = one.second;
    CAPTURE(code);
    const Failure of_root =
        failure_of(answer(200, "  \n " + error_document(code)), Expect::kRoot, kRoot);
    CHECK(of_root.kind == kind);
    CHECK(of_root.code == code);
    CHECK(of_root.message == "It is so.");
    CHECK(failure_of(answer(200, error_document(code)), Expect::kETag).kind == kind);
  }
}

TEST_CASE("a Complete that finds an earlier one being executed, as Ceph says it") {
  CHECK(kind_of(500,
                "<Error><Code>InternalError</Code><Message>This multipart completion is "
                "already in progress</Message></Error>") == FailureKind::kInProgress);
}

TEST_CASE("every code of the table, whatever status it comes with") {
  const std::pair<FailureKind, std::vector<std::string_view>> cases[] = {
      {FailureKind::kAmbiguous, {"InternalError"}},
      {FailureKind::kThrottled,
       {"SlowDown", "SlowDownRead", "SlowDownWrite", "ServiceUnavailable", "Throttling",
        "ThrottlingException", "ThrottledException", "Throttled", "TooManyRequests",
        "TooManyRequestsException", "RequestLimitExceeded", "RequestThrottled",
        "RequestThrottledException", "BandwidthLimitExceeded", "LimitExceededException",
        "ProvisionedThroughputExceededException", "TransactionInProgressException",
        "EC2ThrottledException", "PriorRequestNotComplete"}},
      {FailureKind::kTransient, {"RequestTimeout", "OperationAborted", "IncompleteBody"}},
      {FailureKind::kCredentials,
       {"ExpiredToken", "ExpiredTokenException", "TokenRefreshRequired", "RequestExpired",
        "InvalidToken"}},
      {FailureKind::kTransit,
       {"BadDigest", "XAmzContentSHA256Mismatch", "XAmzContentChecksumMismatch"}},
      {FailureKind::kClock, {"RequestTimeTooSkewed"}},
      {FailureKind::kAddress,
       {"AuthorizationHeaderMalformed", "IllegalLocationConstraintException", "PermanentRedirect",
        "TemporaryRedirect", "Redirect"}},
      {FailureKind::kConflict, {"ConditionalRequestConflict"}},
      {FailureKind::kPrecondition, {"PreconditionFailed"}},
      {FailureKind::kGone, {"NoSuchUpload"}},
  };
  for (const auto& [kind, codes] : cases) {
    for (const std::string_view code : codes) {
      for (const int status : {301, 400, 403, 404, 409, 412, 429, 500, 503}) {
        CAPTURE(code);
        CAPTURE(status);
        CHECK(kind_of(status, error_document(code)) == kind);
      }
    }
  }
}

TEST_CASE("codes that nothing is to be done about") {
  for (const std::string_view code :
       {"AccessDenied", "SignatureDoesNotMatch", "InvalidAccessKeyId", "NoSuchBucket", "NoSuchKey",
        "InvalidDigest", "EntityTooSmall", "EntityTooLarge", "InvalidPart", "InvalidPartOrder",
        "MalformedXML", "QuotaExceeded", "MissingContentLength", "BucketNotEmpty"}) {
    for (const int status : {400, 403, 404, 405, 409, 411, 413, 501, 507}) {
      CAPTURE(code);
      CAPTURE(status);
      const Failure failure = failure_of(answer(status, error_document(code)));
      CHECK(failure.kind == FailureKind::kFinal);
      CHECK(failure.code == code);
    }
  }
}

TEST_CASE("the status decides where there is no code, or an unknown one") {
  const std::string documents[] = {"",
                                   "<html><body><h1>no</h1></body></html>",
                                   "<!DOCTYPE html><html></html>",
                                   "{\"a\": 1}",
                                   "<Error><Code>Cut",
                                   error_document(""),
                                   error_document("SomethingNew")};
  for (const std::string& body : documents) {
    CAPTURE(body);
    for (const int status : {301, 302, 307, 308}) {
      CHECK(kind_of(status, body) == FailureKind::kFinal);
      CHECK(kind_of(status, body, {{"location", "http://login.example/"}}) == FailureKind::kFinal);
      CHECK(kind_of(status, body, {{"x-amz-bucket-region", "eu-west-1"}}) == FailureKind::kAddress);
    }
    for (const int status : {500, 502, 504, 508, 520, 599, 408, 443, 444, 499}) {
      CAPTURE(status);
      CHECK(kind_of(status, body) == FailureKind::kAmbiguous);
    }
    for (const int status : {429, 503}) CHECK(kind_of(status, body) == FailureKind::kThrottled);
    CHECK(kind_of(412, body) == FailureKind::kPrecondition);
    for (const int status :
         {300, 304, 400, 401, 403, 404, 405, 409, 410, 411, 413, 416, 417, 501, 505, 507}) {
      CAPTURE(status);
      CHECK(kind_of(status, body) == FailureKind::kFinal);
    }
  }
}

TEST_CASE("another address") {
  const Headers region = {{"x-amz-bucket-region", "eu-west-1"}};
  const Failure moved = failure_of(
      answer(301, error_document("PermanentRedirect"), {{"x-amz-bucket-region", "eu-west-1"}}));
  CHECK(moved.kind == FailureKind::kAddress);
  CHECK(moved.region == "eu-west-1");
  CHECK(moved.location.empty());
  const Failure temporary = failure_of(answer(307, error_document("TemporaryRedirect"),
                                              {{"location", "http://b.s3.other.example/k?x=1"}}));
  CHECK(temporary.kind == FailureKind::kAddress);
  CHECK(temporary.is_temporary);
  CHECK_FALSE(moved.is_temporary);
  CHECK(temporary.location == "http://b.s3.other.example/k?x=1");
  const Failure malformed = failure_of(
      answer(400, error_document("AuthorizationHeaderMalformed", "<Region>ap-1</Region>")));
  CHECK(malformed.kind == FailureKind::kAddress);
  CHECK(malformed.region == "ap-1");
  // The header is the bucket's; HEAD has nothing else.
  CHECK(failure_of(answer(400, error_document("AuthorizationHeaderMalformed", "<Region>x</Region>"),
                          region))
            .region == "eu-west-1");
  CHECK(failure_of(answer(400, error_document("IllegalLocationConstraintException"), region))
            .region == "eu-west-1");
  CHECK(kind_of(400, "", region) == FailureKind::kAddress);
  CHECK(kind_of(400, error_document("InvalidRequest"), region) == FailureKind::kFinal);
  CHECK(kind_of(403, "", region) == FailureKind::kFinal);
}

TEST_CASE("a redirect that is not S3's is not followed, and told without its secrets") {
  const Failure portal = failure_of(answer(
      302, "<html>login</html>", {{"location", "https://login.example:8443/in?token=hush#hush"}}));
  CHECK(portal.kind == FailureKind::kFinal);
  CHECK(portal.message ==
        "redirected to https://login.example:8443, but not by S3: not followed. "
        "Is there a proxy or a login page in between?");
  CHECK(failure_of(answer(302, "", {{"location", "/login"}}))
            .message.starts_with("redirected to another path"));
  CHECK(failure_of(answer(301)).kind == FailureKind::kFinal);
}

TEST_CASE("a page is no answer to DELETE, nor one without S3's headers to HEAD") {
  CHECK_FALSE(judge(answer(204), Expect::kNoBody, "").has_value());
  CHECK_FALSE(judge(answer(200), Expect::kNoBody, "").has_value());
  CHECK(failure_of(answer(200, "<html>login</html>"), Expect::kNoBody).kind ==
        FailureKind::kAmbiguous);
  CHECK(failure_of(answer(200, error_document("AccessDenied")), Expect::kNoBody).kind ==
        FailureKind::kFinal);
  CHECK_FALSE(judge(answer(200, "", {{"etag", "\"e\""}}), Expect::kHead, "").has_value());
  CHECK_FALSE(judge(answer(200, "", {{"x-amz-request-id", "1"}}), Expect::kHead, "").has_value());
  CHECK(failure_of(answer(200, "", {{"content-type", "text/html"}}), Expect::kHead).kind ==
        FailureKind::kAmbiguous);
}

TEST_CASE("the request's ids, from the headers or the document") {
  const Headers both = {{"x-amz-request-id", "A"}, {"x-amz-id-2", "B"}};
  CHECK(failure_of(answer(403, error_document("AccessDenied"), both)).request_id == "A / B");
  CHECK(failure_of(answer(403, "", {{"x-amz-request-id", "A"}})).request_id == "A");
  CHECK(failure_of(answer(403, "", {{"x-amz-id-2", "B"}})).request_id == "B");
  CHECK(failure_of(answer(403, error_document("AccessDenied"))).request_id == "R1 / H1");
  CHECK(failure_of(answer(403, "", {{"cf-ray", "C"}})).request_id == "C");
  CHECK(failure_of(answer(404, "", {{"x-guploader-uploadid", "G"}})).request_id == "G");
  CHECK(failure_of(answer(403, "", {{"cf-ray", "C"}, {"x-amz-request-id", "A"}})).request_id ==
        "A");
  CHECK(failure_of(answer(403)).request_id.empty());
  CHECK(failure_of(answer(200, "", both), Expect::kETag).request_id == "A / B");
}

TEST_CASE("Retry-After: seconds or a date, a minute at most") {
  const std::string now = "Fri, 02 Jan 2026 03:04:05 GMT";
  const auto after = [&](std::string_view text, bool date = true) {
    Headers headers = {{"retry-after", std::string(text)}};
    if (date) headers.push_back({"date", now});
    return failure_of(answer(503, error_document("SlowDown"), headers)).retry_after;
  };
  CHECK(after("0") == seconds(0));
  CHECK(after("7", false) == seconds(7));
  CHECK(after("60") == seconds(60));
  CHECK(after("61") == seconds(60));
  CHECK(after("99999999999999999999999999") == seconds(60));
  CHECK(after("Fri, 02 Jan 2026 03:04:25 GMT") == seconds(20));
  CHECK(after("Fri, 02 Jan 2026 04:04:25 GMT") == seconds(60));
  CHECK(after("Fri, 02 Jan 2026 03:04:00 GMT") == seconds(0));
  for (const std::string_view none : {"", "-1", "1.5", "soon", "7 ", "2026-01-02T03:04:05Z"}) {
    CAPTURE(none);
    CHECK_FALSE(after(none).has_value());
  }
  CHECK_FALSE(after("Fri, 02 Jan 2026 03:04:25 GMT", false).has_value());
  CHECK_FALSE(failure_of(answer(503)).retry_after.has_value());
}

TEST_CASE("the server's time comes with a skewed clock") {
  const Failure skewed = failure_of(answer(403, error_document("RequestTimeTooSkewed"),
                                           {{"date", "Fri, 02 Jan 2026 03:04:05 GMT"}}));
  CHECK(skewed.kind == FailureKind::kClock);
  CHECK(skewed.server_time_s == 1767323045);
  CHECK_FALSE(failure_of(answer(403, error_document("RequestTimeTooSkewed"), {{"date", "now"}}))
                  .server_time_s.has_value());
}

TEST_CASE("a key that is not known is that of a session which has ended, if it had one") {
  const env::HttpResult forgotten = answer(403, error_document("InvalidAccessKeyId"));
  const Signing with_token = {.has_token = true, .time = {}, .region = {}};
  CHECK(judge(forgotten, Expect::kNothing, "", with_token)->kind == FailureKind::kCredentials);
  CHECK(failure_of(forgotten).kind == FailureKind::kFinal);
}

TEST_CASE("HEAD has no document: 400 is an expired token if one was sent") {
  const Signing with_token = {
      .may_have_expired = true, .time = SystemTime{}, .region = "us-east-1"};
  const auto kind = [](const env::HttpResult& result, const Signing& signing) {
    const auto failure = judge(result, Expect::kNothing, "", signing);
    REQUIRE(failure.has_value());
    return failure->kind;
  };
  CHECK(kind(answer(400), with_token) == FailureKind::kCredentials);
  CHECK(kind(answer(400), {}) == FailureKind::kFinal);
  // What was said counts.
  CHECK(kind(answer(400, "", {{"x-amz-bucket-region", "eu-west-1"}}), with_token) ==
        FailureKind::kAddress);
  CHECK(kind(answer(400, "", {{"x-amz-bucket-region", "us-east-1"}}), with_token) ==
        FailureKind::kCredentials);  // it was asked there
  CHECK(kind(answer(400, error_document("InvalidRequest")), with_token) == FailureKind::kFinal);
  CHECK(kind(answer(400, "<html></html>"), with_token) == FailureKind::kFinal);
  for (const int status : {401, 403, 404, 405}) {
    CHECK(kind(answer(status), with_token) == FailureKind::kFinal);
  }
}

TEST_CASE("HEAD has no document: 403 is a skewed clock if the times are far apart") {
  const std::string date = "Fri, 02 Jan 2026 03:04:05 GMT";
  const SystemTime there{seconds(1767323045)};
  const auto kind = [&](SystemTime::duration away, const std::string& body = {}) {
    const auto failure = judge(answer(403, body, {{"date", date}}), Expect::kNothing, "",
                               {.may_have_expired = false, .time = there + away, .region = {}});
    REQUIRE(failure.has_value());
    CHECK(failure->server_time_s == 1767323045);
    return failure->kind;
  };
  for (const auto away : {kMaxSkew + seconds(1), -kMaxSkew - seconds(1)}) {
    CHECK(kind(away) == FailureKind::kClock);
    CHECK(kind(away, error_document("AccessDenied")) == FailureKind::kFinal);
    CHECK(kind(away, "<html></html>") == FailureKind::kFinal);
  }
  for (const auto away : {seconds(0), seconds(kMaxSkew), -seconds(kMaxSkew)}) {
    CHECK(kind(away) == FailureKind::kFinal);
  }
  // Not signed, or not told.
  CHECK(kind_of(403, "", {{"date", date}}) == FailureKind::kFinal);
  const auto untold = judge(answer(403), Expect::kNothing, "",
                            {.may_have_expired = true, .time = there, .region = {}});
  CHECK(untold->kind == FailureKind::kFinal);
}

TEST_CASE("without a whole response the transport decides") {
  const Status reset = Status::from_errno(ECONNRESET, "receive", "");
  const Failure ambiguous = failure_of(lost(true, reset), Expect::kRoot, kRoot);
  CHECK(ambiguous.kind == FailureKind::kAmbiguous);
  CHECK(ambiguous.http_status == 0);
  CHECK(ambiguous.transport.error_number() == ECONNRESET);
  CHECK(failure_of(lost(false, Status::from_errno(ECONNREFUSED, "connect", ""))).kind ==
        FailureKind::kNotSent);
  CHECK(failure_of(lost(false, Status(StatusCode::kTimedOut, "connect"))).kind ==
        FailureKind::kNotSent);
  CHECK(failure_of(lost(false, Status::from_errno(EKEYREJECTED, "tls handshake", ""))).kind ==
        FailureKind::kFinal);
  for (const StatusCode ours :
       {StatusCode::kInvalidArgument, StatusCode::kUnsupported, StatusCode::kClosed,
        StatusCode::kForked, StatusCode::kInterrupted, StatusCode::kInternal}) {
    CHECK(failure_of(lost(false, Status(ours, "x"))).kind == FailureKind::kFinal);
    CHECK(failure_of(lost(true, Status(ours, "x"))).kind == FailureKind::kAmbiguous);
  }
  // The head has come, the body broke off.
  for (const int status : {200, 400, 403, 404, 412, 500}) {
    env::HttpResult cut = lost(true, reset);
    cut.head.status = status;
    cut.body = "<CompleteMultipartUploadResult/>";
    CAPTURE(status);
    CHECK(failure_of(cut, Expect::kRoot, kRoot).kind == FailureKind::kAmbiguous);
    CHECK(failure_of(cut).http_status == status);
  }
  for (const int status : {429, 503}) {
    env::HttpResult refused_early = lost(true, reset);
    refused_early.head.status = status;
    refused_early.head.headers = {{"retry-after", "3"}};
    CHECK(failure_of(refused_early).kind == FailureKind::kThrottled);
    CHECK(failure_of(refused_early).retry_after == seconds(3));
  }
}

TEST_CASE("what is quoted is one line, and not too long") {
  std::string code(3000, 'c');
  code[1] = '\n';
  const Failure failure = failure_of(
      answer(400, "<Error><Code>" + code + "</Code><Message>a\r\nb&#27;[2J</Message></Error>"));
  CHECK(failure.code.size() < 600);
  CHECK(failure.code.find('\n') == std::string::npos);
  CHECK(failure.message == "a  b [2J");
}

// ---

Status status_of(int http_status, std::string_view code = {},
                 FailureKind kind = FailureKind::kFinal) {
  Failure failure;
  failure.kind = kind;
  failure.http_status = http_status;
  failure.code = code;
  failure.message = "It is so.";
  return to_status(failure, "UploadPart", "http://h:9000", "s3://b/k", 2);
}

TEST_CASE("what the caller is told") {
  Failure failure;
  failure.http_status = 403;
  failure.code = "AccessDenied";
  failure.message = "Access Denied.";
  failure.request_id = "A / B";
  const Status status = to_status(failure, "UploadPart", "http://h:9000", "s3://b/k", 1);
  CHECK(status.message() ==
        "UploadPart: http://h:9000: AccessDenied: Access Denied. (HTTP 403, request A / B, "
        "1 attempt)");
  CHECK(status.code() == StatusCode::kPermissionDenied);
  CHECK(status.error_number() == EACCES);
  CHECK(status.path() == "s3://b/k");
  CHECK(status.remote_class() == "AccessDenied");
  CHECK(to_status(failure_of(answer(404)), "HeadObject", "https://h", "", 3).message() ==
        "HeadObject: https://h: answered without an error document (HTTP 404, 3 attempts)");
  const std::string words = "Client sent an HTTP request to an HTTPS server.\n";
  CHECK(failure_of(answer(400, words)).message ==
        "answered without an error document: Client sent an HTTP request to an HTTPS server.");
  for (const char* const page : {"<html>no</html>", "\x1F\x8B\x08", " \n"}) {
    CHECK(failure_of(answer(400, page)).message == "answered without an error document");
  }
}

TEST_CASE("code and errno, by S3's code or by the status") {
  struct Case {
    int http_status;
    std::string_view code;
    StatusCode expected;
    int error_number;
  };
  const Case cases[] = {
      {400, "InvalidArgument", StatusCode::kIo, EIO},
      {400, "EntityTooLarge", StatusCode::kIo, EFBIG},
      {400, "KeyTooLongError", StatusCode::kInvalidPath, ENAMETOOLONG},
      {400, "InvalidBucketName", StatusCode::kInvalidPath, EINVAL},
      {400, "XMinioInvalidObjectName", StatusCode::kInvalidPath, EINVAL},
      {400, "XMinioInvalidResourceName", StatusCode::kInvalidPath, EINVAL},
      {400, "XMinioAdminBucketQuotaExceeded", StatusCode::kIo, EDQUOT},
      {400, "SomethingNew", StatusCode::kIo, EIO},
      {400, "InvalidObjectName", StatusCode::kInvalidPath, EINVAL},
      {400, "RequestTimeout", StatusCode::kTimedOut, ETIMEDOUT},
      {401, "", StatusCode::kPermissionDenied, EACCES},
      {403, "", StatusCode::kPermissionDenied, EACCES},
      {403, "SignatureDoesNotMatch", StatusCode::kPermissionDenied, EACCES},
      {403, "QuotaExceeded", StatusCode::kIo, EDQUOT},
      {404, "", StatusCode::kNotFound, ENOENT},
      {404, "NoSuchKey", StatusCode::kNotFound, ENOENT},
      {500, "NoSuchUpload", StatusCode::kNotFound, ENOENT},
      {404, "NoSuchBucket", StatusCode::kNotFound, ENOENT},
      {410, "", StatusCode::kNotFound, ENOENT},
      {405, "MethodNotAllowed", StatusCode::kUnsupported, ENOTSUP},
      {501, "NotImplemented", StatusCode::kUnsupported, ENOTSUP},
      {408, "", StatusCode::kTimedOut, ETIMEDOUT},
      {504, "", StatusCode::kTimedOut, ETIMEDOUT},
      {409, "BucketAlreadyOwnedByYou", StatusCode::kAlreadyExists, EEXIST},
      {409, "BucketAlreadyExists", StatusCode::kAlreadyExists, EEXIST},
      {409, "BucketNotEmpty", StatusCode::kNotEmpty, ENOTEMPTY},
      {409, "ErrDirectoryNotEmpty", StatusCode::kNotEmpty, ENOTEMPTY},
      {409, "ExistingObjectIsDirectory", StatusCode::kPathIsDirectory, EISDIR},
      {409, "ObjectParentIsFile", StatusCode::kParentNotDirectory, ENOTDIR},
      {409, "XMinioObjectExistsAsDirectory", StatusCode::kPathIsDirectory, EISDIR},
      {400, "XMinioParentIsObject", StatusCode::kParentNotDirectory, ENOTDIR},
      {409, "OperationAborted", StatusCode::kIo, EIO},
      {411, "", StatusCode::kIo, EIO},
      {413, "", StatusCode::kIo, EFBIG},
      {416, "InvalidRange", StatusCode::kEndOfFile, ENODATA},
      {500, "InternalError", StatusCode::kIo, EIO},
      {502, "", StatusCode::kIo, EIO},
      {507, "", StatusCode::kIo, ENOSPC},
      {507, "XMinioStorageFull", StatusCode::kIo, ENOSPC},
      {200, "", StatusCode::kIo, EIO},
  };
  for (const Case& one : cases) {
    CAPTURE(one.http_status);
    CAPTURE(one.code);
    const Status status = status_of(one.http_status, one.code);
    CHECK(status.code() == one.expected);
    CHECK(status.error_number() == one.error_number);
    CHECK(status.remote_class() == one.code);
  }
}

TEST_CASE("a 404 of a gateway says nothing of what the store has") {
  const auto code = [](const env::HttpResult& result) {
    return to_status(failure_of(result), "PutObject", "http://h", "p", 1).code();
  };
  CHECK(code(answer(404, "default backend - 404")) == StatusCode::kIo);
  CHECK(code(answer(404)) == StatusCode::kIo);
  CHECK(code(answer(404, "", {{"x-amz-request-id", "1"}})) == StatusCode::kNotFound);
  CHECK(code(answer(404, error_document("NoSuchKey"))) == StatusCode::kNotFound);
}

TEST_CASE("code and errno, by the kind of failure") {
  const auto check = [](const Status& status, StatusCode code, int error_number) {
    CHECK(status.code() == code);
    CHECK(status.error_number() == error_number);
  };
  check(status_of(412, "PreconditionFailed", FailureKind::kPrecondition),
        StatusCode::kPreconditionFailed, ESTALE);
  check(status_of(409, "ConditionalRequestConflict", FailureKind::kConflict),
        StatusCode::kPreconditionFailed, ESTALE);
  check(status_of(400, "ExpiredToken", FailureKind::kCredentials), StatusCode::kPermissionDenied,
        EACCES);
  check(status_of(403, "RequestTimeTooSkewed", FailureKind::kClock), StatusCode::kPermissionDenied,
        EACCES);
  check(status_of(503, "SlowDown", FailureKind::kThrottled), StatusCode::kIo, EBUSY);
  check(status_of(400, "BadDigest", FailureKind::kTransit), StatusCode::kIo, EIO);
}

TEST_CASE("without a response: what the transport says") {
  const auto told = [](Status transport) {
    return to_status(failure_of(lost(true, std::move(transport))), "PutObject", "http://h", "p", 4);
  };
  const Status reset = told(Status::from_errno(ECONNRESET, "receive", ""));
  CHECK(reset.code() == StatusCode::kIo);
  CHECK(reset.error_number() == ECONNRESET);
  CHECK(reset.message() == "PutObject: http://h: receive: Connection reset by peer (4 attempts)");
  CHECK(reset.remote_class().empty());
  CHECK(told(Status(StatusCode::kTimedOut, "nothing for 60 s")).code() == StatusCode::kTimedOut);
  CHECK(told(Status(StatusCode::kTimedOut, "nothing")).error_number() == ETIMEDOUT);
  // Nothing of ours is missing where the network says so.
  CHECK(told(Status::from_errno(ENOENT, "resolve", "")).code() == StatusCode::kIo);
  CHECK(told(Status(StatusCode::kIo, "TLS")).error_number() == EIO);
  CHECK(told(Status(StatusCode::kForked, "forked")).code() == StatusCode::kForked);
  CHECK(told(Status(StatusCode::kInvalidArgument, "url")).code() == StatusCode::kInvalidArgument);
}

TEST_CASE("every kind has a name of its own") {
  std::set<std::string_view> names;
  for (int kind = 0; kind <= static_cast<int>(FailureKind::kFinal); ++kind) {
    names.insert(to_string(static_cast<FailureKind>(kind)));
  }
  CHECK(names.size() == static_cast<std::size_t>(FailureKind::kFinal) + 1);
  CHECK(names.count("unknown") == 0);
  CHECK(to_string(FailureKind::kNotSent) == "not_sent");
}

}  // namespace
}  // namespace hflush::s3
