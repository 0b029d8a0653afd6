#include "hflush/s3/call/first_key.h"

#include <doctest/doctest.h>

#include <string>
#include <string_view>

namespace hflush::s3 {
namespace {

std::optional<bool> answered(std::string_view body) {
  CallResult answer;
  answer.body = "<ListBucketResult>" + std::string(body) + "</ListBucketResult>";
  return has_first_key(answer);
}

TEST_CASE("one key is asked for") {
  const Call call = first_key_call("bucket", "a b/", {{"x-more", "1"}});
  CHECK(call.operation == "ListObjectsV2");
  CHECK(call.method == "GET");
  CHECK(call.bucket == "bucket");
  CHECK(call.key.empty());
  CHECK(canonical_query(call.query) == "encoding-type=url&list-type=2&max-keys=1&prefix=a%20b%2F");
  REQUIRE(call.headers.size() == 1);
  CHECK(call.headers[0].name == "x-more");
}

TEST_CASE("a page with a key, without one, and what takes a closer look") {
  constexpr std::string_view kKey =
      "<Contents><Key>a</Key><LastModified>2026-11-21T17:52:46Z</LastModified><Size>5</Size>"
      "</Contents>";
  CHECK(answered(kKey) == true);
  CHECK(answered(std::string(kKey) + "<IsTruncated>true</IsTruncated>"
                                     "<NextContinuationToken>t</NextContinuationToken>") == true);
  CHECK(answered("<KeyCount>0</KeyCount>") == false);
  CHECK(answered("<IsTruncated>true</IsTruncated>"
                 "<NextContinuationToken>t</NextContinuationToken>") == std::nullopt);

  CallResult broken;
  broken.body = "<html>";
  CHECK(has_first_key(broken) == std::nullopt);
  CallResult refused;
  refused.failure.emplace();
  refused.body = "<ListBucketResult></ListBucketResult>";
  CHECK(has_first_key(refused) == std::nullopt);
}

}  // namespace
}  // namespace hflush::s3
