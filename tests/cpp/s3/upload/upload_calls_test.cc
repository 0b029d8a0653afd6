// What goes with the calls of an upload, and what their answers are compared with.
#include "hflush/s3/upload/upload_calls.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "hflush/base/ascii.h"
#include "hflush/crypto/digest.h"

namespace hflush::s3 {
namespace {

using Headers = std::vector<env::HttpHeader>;

const std::string kPrefix = "x-amz-server-side-encryption";

std::string difference(const Headers& asked, const Headers& answered) {
  return encryption_difference(asked, env::HttpHead{200, answered});
}

TEST_CASE("encryption is what was asked for, or said to be something else") {
  const Headers none = {{"etag", "\"e\""}, {"x-amz-request-id", "1"}};
  CHECK(difference({}, none).empty());
  CHECK(difference({{"Content-Type", "text/plain"}}, none).empty());
  // What nobody has asked for may be done.
  CHECK(difference({}, {{kPrefix, "AES256"}}).empty());

  const Headers s3 = {{kPrefix, "AES256"}};
  CHECK(difference(s3, {{kPrefix, "AES256"}}).empty());
  CHECK(difference(s3, {{kPrefix, "aws:kms"}}) ==
        "encryption is not what was asked for: x-amz-server-side-encryption is 'aws:kms' instead "
        "of 'AES256'. Does this store encrypt? (hflush.s3.encryption.verify)");
  CHECK(difference(s3, none).find("is not answered instead of 'AES256'") != std::string::npos);

  const Headers customer = {{kPrefix + "-customer-algorithm", "AES256"},
                            {kPrefix + "-customer-key", "hush"},
                            {kPrefix + "-customer-key-MD5", "abc="}};
  CHECK(difference(customer, {{kPrefix + "-customer-algorithm", "AES256"},
                              {kPrefix + "-customer-key-md5", "abc="}})
            .empty());
  CHECK_FALSE(difference(customer, {{kPrefix + "-customer-algorithm", "AES256"}}).empty());
  CHECK_FALSE(difference(customer, {{kPrefix + "-customer-algorithm", "AES256"},
                                    {kPrefix + "-customer-key-md5", "other"}})
                  .empty());
  CHECK(difference(customer, none).find("hush") == std::string::npos);
}

TEST_CASE("keys of KMS are compared where they can be") {
  const auto is_same = [](const char* asked, const char* answered) {
    const std::string key = kPrefix + "-aws-kms-key-id";
    return difference({{kPrefix, "aws:kms"}, {key, asked}}, {{kPrefix, "aws:kms"}, {key, answered}})
        .empty();
  };
  const char* const arn = "arn:aws:kms:eu-west-1:1:key/1234-abcd";
  CHECK(is_same(arn, arn));
  CHECK(is_same("1234-abcd", arn));
  CHECK(is_same("hflush", "arn:aws:kms:hflush"));  // MinIO
  CHECK(is_same("alias/mine", arn));
  CHECK(is_same("arn:aws:kms:eu-west-1:1:alias/mine", arn));
  CHECK(is_same(arn, ""));
  CHECK_FALSE(is_same("abcd", arn));
  CHECK_FALSE(is_same("5678", arn));
  CHECK_FALSE(is_same(arn, "arn:aws:kms:eu-west-1:1:key/5678"));
  CHECK_FALSE(is_same(arn, "1234-abcd"));
}

TEST_CASE("an etag is sent back without the mark of a proxy") {
  CHECK(strong_etag("\"a\"") == "\"a\"");
  CHECK(strong_etag("W/\"a\"") == "\"a\"");
  CHECK(strong_etag("").empty());
}

struct Calls {
  bool has(const Call& call, std::string_view name) const {
    return std::ranges::any_of(call.headers, [name](const env::HttpHeader& header) {
      return equals_ignoring_case(header.name, name);
    });
  }

  Settings settings;
  ObjectOptions options;
  UploadCalls calls{settings, options, "token", 1};
};

TEST_CASE("a part in memory is protected by what the store knows and this system has") {
  const Calls fixture;
  const bool has_md5 = crypto::load_md5().ok();
  for (const bool checksums : {false, true}) {
    CAPTURE(checksums);
    const Call part = fixture.calls.upload_part("id", 7, std::string("bytes"), checksums);
    CHECK(part.query == Query{{"partNumber", "7"}, {"uploadId", "id"}});
    CHECK(part.is_upload);
    CHECK(fixture.has(part, "Content-MD5") == (!checksums && has_md5));
    CHECK(fixture.has(part, "x-amz-checksum-crc32c") == (checksums || !has_md5));
  }
}

TEST_CASE("an object needs an etag, but the marker of a directory has nothing to lose") {
  Calls fixture;
  const auto expect = [&](std::string key, std::string bytes) {
    fixture.options.key = std::move(key);
    return fixture.calls.put_object(body_of(std::move(bytes), false)).expect;
  };
  CHECK(expect("d/", "") == Expect::kNoBody);
  CHECK(expect("d/", "x") == Expect::kETag);
  CHECK(expect("d", "") == Expect::kETag);
}

TEST_CASE("an object is ours by its token, also where its length is not answered") {
  const Calls fixture;
  const auto is_ours = [&](Headers headers) {
    return fixture.calls.is_ours(env::HttpHead{200, std::move(headers)}, 5);
  };
  const env::HttpHeader token{std::string(UploadCalls::kTokenHeader), "token"};
  CHECK(is_ours({token}));
  CHECK(is_ours({token, {"content-length", "5"}}));
  CHECK_FALSE(is_ours({token, {"content-length", "6"}}));
  CHECK_FALSE(is_ours({{"content-length", "5"}}));
}

TEST_CASE("an upload whose checksums are not repeated is known by what was sent and answered") {
  Calls fixture;
  const auto unechoed = [&](Headers sent, Headers answered, std::string id = "u") {
    CallResult created;
    created.sent = std::move(sent);
    created.head.headers = std::move(answered);
    created.body = "<InitiateMultipartUploadResult><UploadId>" + std::move(id) +
                   "</UploadId></InitiateMultipartUploadResult>";
    return fixture.calls.unechoed_upload(created);
  };
  const env::HttpHeader declared{"x-amz-checksum-algorithm", "CRC32C"};
  const Headers sent = fixture.calls.create().headers;
  CHECK(unechoed(sent, {}) == "u");
  CHECK(unechoed(sent, {{"x-amz-checksum-algorithm", "SHA256"}}) == "u");
  CHECK(unechoed(sent, {declared}).empty());
  CHECK(unechoed(sent, {}, "").empty());  // to abort it would delete the object
  CHECK(unechoed(fixture.calls.create({}).headers, {}).empty());
  fixture.settings.host = "s3.eu-west-1.amazonaws.com";
  CHECK(unechoed(sent, {}).empty());
}

TEST_CASE("an abort is tried as often as its caller wants") {
  const Calls fixture;
  CHECK(fixture.calls.abort("id").retry_limit == UploadCalls::kBackgroundRetries);
  CHECK_FALSE(fixture.calls.abort("id", std::nullopt).retry_limit.has_value());
  CHECK(fixture.calls.abort("id").expect == Expect::kNoBody);
}

}  // namespace
}  // namespace hflush::s3
