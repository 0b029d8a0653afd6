// What a request can do without: which refusals are about it, and which are about what it guards.
#include "hflush/s3/call/extras.h"

#include <doctest/doctest.h>

#include <string>
#include <utility>
#include <vector>

namespace hflush::s3 {
namespace {

Call call(std::string operation, std::string method, std::vector<env::HttpHeader> headers) {
  Call call;
  call.operation = std::move(operation);
  call.method = std::move(method);
  call.headers = std::move(headers);
  return call;
}

const env::HttpHeader kSum{"x-amz-checksum-crc32c", "AAAAAA=="};
const env::HttpHeader kSize{"x-amz-mp-object-size", "5"};

Call put() { return call("PutObject", "PUT", {{"Content-Type", "text/plain"}, kSum}); }
Call complete() { return call("CompleteMultipartUpload", "POST", {kSize, kSum}); }

Call copy(std::string operation) {
  return call(std::move(operation), "PUT",
              {{"x-amz-copy-source", "/b/k"}, {"x-amz-copy-source-if-match", "\"e\""}});
}

Call listing() {
  Call list = call("ListObjectsV2", "GET", {});
  list.query = {{"list-type", "2"}, {"encoding-type", "url"}};
  return list;
}

Failure failure(int status, std::string code = "", std::string message = "") {
  Failure failure;
  failure.http_status = status;
  failure.code = std::move(code);
  failure.message = std::move(message);
  return failure;
}

Settings settings() {
  Settings settings;
  settings.host = "s3.example";
  return settings;
}

TEST_CASE("extras of calls") {
  Settings insists = settings();
  insists.insists_on_checksums = true;
  const Call get =
      call("GetObject", "GET", {{"If-Match", "e"}, {"x-amz-checksum-mode", "ENABLED"}});
  CHECK(extras_of(put(), settings()) == kSentChecksums);
  CHECK(extras_of(put(), insists) == kNoExtras);
  CHECK(extras_of(complete(), settings()) == kObjectSize);
  CHECK(extras_of(get, insists) == (kAskedChecksums | kConditionOfRead));
  CHECK(extras_of(listing(), settings()) == kEncodedKeys);
  CHECK(extras_of(copy("CopyObject"), settings()) == kConditionOfCopy);
  CHECK(extras_of(copy("UploadPartCopy"), settings()) == kNoExtras);
  // What was asked for, and what has to be there.
  CHECK(extras_of(call("PutObject", "PUT", {{"If-Match", "e"}, {"x-amz-acl", "private"}}),
                  settings()) == kNoExtras);
  CHECK(extras_of(call("DeleteObjects", "POST", {kSum}), settings()) == kNoExtras);
  CHECK(extras_of(call("UploadPart", "PUT", {kSum}), settings()) == kNoExtras);

  Call without = put();
  leave_out(kSentChecksums, without);
  REQUIRE(without.headers.size() == 1);
  CHECK(without.headers[0].name == "Content-Type");
  without = listing();
  leave_out(kEncodedKeys, without);
  CHECK(without.query == Query{{"list-type", "2"}});
}

TEST_CASE("what is refused by name is left out") {
  const auto refused = [](const Failure& why, const Call& call) {
    return refused_extras(why, call, settings());
  };
  const std::string named = "Unsupported header 'X-Amz-Checksum-CRC32C' received";
  CHECK(refused(failure(501, "NotImplemented"), put()) == kSentChecksums);
  CHECK(refused(failure(400, "NotImplemented"), put()) == kSentChecksums);
  CHECK(refused(failure(501), put()) == kSentChecksums);
  CHECK(refused(failure(400), put()) == kSentChecksums);
  CHECK(refused(failure(400, "InvalidArgument", named), put()) == kSentChecksums);
  CHECK(refused(failure(400, "InvalidRequest"), put()) == kSentChecksums);
  CHECK(refused(failure(403, "SignatureDoesNotMatch"), put()) == kSentChecksums);
  CHECK(refused(failure(501, "NotImplemented", "x-amz-mp-object-size"), complete()) == kObjectSize);
  CHECK(refused(failure(400, "NotImplemented"), complete()) == kObjectSize);
  CHECK(refused(failure(400, "InvalidArgument", "encoding-type"), listing()) == kEncodedKeys);
  const std::string of_copies = "X-Amz-Copy-Source-If-Match is not supported";
  CHECK(refused(failure(400, "InvalidArgument", of_copies), copy("CopyObject")) ==
        kConditionOfCopy);
}

TEST_CASE("what is refused for its content is not") {
  const auto refused = [](const Failure& why, const Call& call) {
    return refused_extras(why, call, settings());
  };
  CHECK(refused(failure(400, "InvalidRequest",
                        "The provided 'x-amz-mp-object-size' header value 5 does not match"),
                complete()) == kNoExtras);
  CHECK(
      refused(failure(400, "InvalidRequest", "Value for x-amz-checksum-crc32c header is invalid."),
              put()) == kNoExtras);
  CHECK(refused(
            failure(400, "InvalidArgument", "x-amz-copy-source-if-match: the etag does not match"),
            copy("CopyObject")) == kNoExtras);
  CHECK(refused(failure(400, "InvalidRequest"), complete()) == kNoExtras);
  CHECK(refused(failure(400), call("UploadPart", "PUT", {kSum})) == kNoExtras);
  CHECK(refused(failure(400, "EntityTooLarge"), put()) == kNoExtras);
  CHECK(refused(failure(403, "AccessDenied"), put()) == kNoExtras);
  CHECK(refused(failure(404, "NoSuchBucket"), put()) == kNoExtras);
  Failure corrupt = failure(400, "BadDigest");
  corrupt.kind = FailureKind::kTransit;
  CHECK(refused(corrupt, put()) == kNoExtras);
  Settings aws = settings();
  aws.host = "s3.eu-west-1.amazonaws.com";
  CHECK(refused_extras(failure(501, "NotImplemented"), put(), aws) == kNoExtras);
  CHECK(refused(failure(501, "NotImplemented"), call("PutObject", "PUT", {})) == kNoExtras);
}

TEST_CASE("what cannot be left out has a key that turns it off") {
  const Call conditional =
      call("PutObject", "PUT", {{"If-None-Match", "*"}, {"x-amz-acl", "private"}});
  CHECK(advice(failure(501, "NotImplemented", "Header If-None-Match is not implemented"),
               conditional) ==
        "if-none-match is sent unless fs.s3a.create.conditional.enabled=false");
  CHECK(advice(failure(501, "NotImplemented"), conditional) ==
        "if-none-match is sent unless fs.s3a.create.conditional.enabled=false, x-amz-acl is sent "
        "because of fs.s3a.acl.default");
  CHECK(advice(failure(403, "AccessDenied"), conditional).empty());
  CHECK(advice(failure(501, "NotImplemented"), put()) ==
        "x-amz-checksum-crc32c is sent unless fs.s3a.create.checksum.algorithm=NONE");
  CHECK(advice(failure(403, "SecondLevelDomainForbidden"), put()) ==
        "the bucket is in the path unless fs.s3a.path.style.access=false");

  CHECK(advice(failure(400, "InvalidArgument", "Part number must be an integer from 1 to 1000"),
               call("UploadPart", "PUT", {})) ==
        "how many parts the store takes is set by hflush.s3.multipart.parts");

  // Of a resumed stream, at Ceph's gateway.
  CHECK(advice(failure(400, "InvalidPart"), complete()) ==
        "some stores complete an upload only with all parts that it has: where more were put after "
        "persist(), resume it and write at least as far, or abort");
  CHECK(advice(failure(400, "InvalidPart"), put()).empty());

  // What is not sent, and has to be.
  Call upload = put();
  upload.is_upload = true;
  const Failure wanting = failure(400, "InvalidRequest", "Content-MD5 HTTP header is required");
  CHECK(advice(wanting, upload) == "it is sent where fs.s3a.request.md5.header=true");
  CHECK(refused_extras(wanting, upload, settings()) == kNoExtras);
}

}  // namespace
}  // namespace hflush::s3
