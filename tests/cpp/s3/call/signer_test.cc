// Signatures: AWS's published examples, vectors that two other implementations agree on, and what
// of a request is signed.
#include "hflush/s3/call/signer.h"

#include <doctest/doctest.h>

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "hflush/base/binary_text.h"
#include "hflush/crypto/digest.h"

namespace hflush::s3 {
namespace {

namespace chrono = std::chrono;
using Headers = std::vector<env::HttpHeader>;

// 2026-01-02T03:04:05Z
const SystemTime kTime{chrono::seconds(1767323045)};

struct Request {
  std::string method = "GET";
  std::string host = "h";
  std::string path = "/";
  Query query;
  Headers headers;
  std::string sha256 = std::string(kUnsignedPayload);

  RequestToSign to_sign() const { return {method, host, path, query, headers, sha256}; }
};

std::string header(const Headers& headers, std::string_view name) {
  for (const env::HttpHeader& one : headers) {
    if (one.name == name) return one.value;
  }
  return "(none)";
}

std::string part_of(const std::string& authorization, std::string_view name) {
  const std::size_t at = authorization.find(name);
  if (at == std::string::npos) return "(none)";
  const std::size_t begin = at + name.size();
  return authorization.substr(begin, authorization.find(',', begin) - begin);
}

std::string signature(const Headers& added) {
  return part_of(header(added, "Authorization"), "Signature=");
}

std::string signed_names(const Headers& added) {
  return part_of(header(added, "Authorization"), "SignedHeaders=");
}

// Without what signing added at last.
std::string canonical_sha256(const Request& request, Headers added) {
  REQUIRE(added.back().name == "Authorization");
  added.pop_back();
  return to_hex(crypto::sha256(as_bytes(canonical_request(request.to_sign(), added))));
}

void require_digests() {
  const Status status = crypto::load_digests();
  REQUIRE_MESSAGE(status.ok(), status.message());
}

TEST_CASE("AWS's published examples of S3") {
  // "Signature Calculations for the Authorization Header: Transferring Payload in a Single Chunk".
  require_digests();
  const Credentials credentials{"AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
                                ""};
  const SystemTime time{chrono::sys_days(chrono::year(2013) / 5 / 24)};
  struct Case {
    Request request;
    std::string_view signed_headers;
    std::string_view signature;
  };
  const std::string host = "examplebucket.s3.amazonaws.com";
  const std::string empty(kEmptySha256);
  const Case cases[] = {
      {{"GET", host, "/test.txt", {}, {{"Range", "bytes=0-9"}}, empty},
       "host;range;x-amz-content-sha256;x-amz-date",
       "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41"},
      {{"PUT",
        host,
        encode_key("/test$file.text"),
        {},
        {{"Date", "Fri, 24 May 2013 00:00:00 GMT"}, {"x-amz-storage-class", "REDUCED_REDUNDANCY"}},
        to_hex(crypto::sha256(as_bytes("Welcome to Amazon S3.")))},
       "date;host;x-amz-content-sha256;x-amz-date;x-amz-storage-class",
       "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd"},
      {{"GET", host, "/", {{"lifecycle", ""}}, {}, empty},
       "host;x-amz-content-sha256;x-amz-date",
       "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543"},
      {{"GET", host, "/", {{"prefix", "J"}, {"max-keys", "2"}}, {}, empty},
       "host;x-amz-content-sha256;x-amz-date",
       "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7"},
  };
  for (const Case& one : cases) {
    CAPTURE(one.request.path);
    const Headers added = sign(one.request.to_sign(), credentials, "us-east-1", time);
    CHECK(header(added, "x-amz-date") == "20130524T000000Z");
    CHECK(header(added, "Authorization") ==
          "AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request, "
          "SignedHeaders=" +
              std::string(one.signed_headers) + ", Signature=" + std::string(one.signature));
  }
}

TEST_CASE("vectors of an upload") {
  require_digests();
  const std::string secret = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY";
  struct Case {
    Request request;
    std::string session_token;
    std::string_view canonical;
    std::string_view signature;
  };
  const Case cases[] = {
      {{"PUT",
        "127.0.0.1:9000",
        "/bkt/" + encode_key("dt=2024/a+b"),
        {{"uploadId", "abc=="}, {"partNumber", "1"}},
        {{"x-amz-checksum-crc32c", "mnG7TA=="}},
        std::string(kUnsignedPayload)},
       "",
       "343025c1c4c711a2f3764792f85ccc78a34924630bb2967ac8acacbf614a4815",
       "a36ae079b67fc96e59c04f74666f84aa26a9ad034bdf49cd1807aaad6c170c98"},
      {{"POST",
        "bkt.s3.us-east-1.amazonaws.com",
        "/k",
        {{"uploads", ""}},
        {{"x-amz-server-side-encryption-aws-kms-key-id", "k1"},
         {"x-amz-server-side-encryption", "aws:kms"},
         {"x-amz-checksum-algorithm", "CRC32C"}},
        std::string(kEmptySha256)},
       "TOKEN",
       "cbab9d325093fb2d05cfc02f5d2994f88c29dd9584b5ac54bb1cb71b3d40ea15",
       "123325d333eb4ab1418e6dd3e729b93934d7d821f19c165e7116317ec0cb531a"},
      {{"GET",
        "s3.example.com",
        "/bkt",
        {{"prefix", "a b/c"}, {"list-type", "2"}, {"delimiter", "/"}},
        {},
        std::string(kUnsignedPayload)},
       "",
       "22bc4ef31bb6dd62d5136506764ef25cdeccad658ecd91bb0d97c3d2c3b43db3",
       "e5ad9bc45410c8cf34278c038f778276ce1e53440e91a7438da2ca2edf19c8ac"},
  };
  for (const Case& one : cases) {
    CAPTURE(one.request.path);
    const Headers added =
        sign(one.request.to_sign(), {"AKIDEXAMPLE", secret, one.session_token}, "us-east-1", kTime);
    CHECK(header(added, "x-amz-content-sha256") == one.request.sha256);
    CHECK(header(added, "x-amz-security-token") ==
          (one.session_token.empty() ? "(none)" : one.session_token));
    CHECK(canonical_sha256(one.request, added) == one.canonical);
    CHECK(signature(added) == one.signature);
  }
}

TEST_CASE("a canonical request, in full") {
  const Request request{"PUT",
                        " h:9000 ",
                        "",
                        {{"b", "2"}, {"a", ""}},
                        {{"X-Amz-Meta-B", "  two   words\t here "},
                         {"x-amz-meta-a-b", "1"},
                         {"x-amz-meta-a", "2"},
                         {"X-AMZ-META-B", "again"},
                         {"Content-Type", "text/plain"},
                         {"CONTENT-MD5", "bWQ1"},
                         {"If-None-Match", "*"},
                         {"If-Match", "\"e\""},
                         {"Range", "bytes=0-9"},
                         {"x-amz-meta-empty", ""},
                         {"x-amz-meta-utf8", "\xC3\xA9"},
                         {"User-Agent", "u"},
                         {"Expect", "100-continue"},
                         {"Content-Length", "5"},
                         {"Authorization", "old"},
                         {"xx-amz-no", "n"}},
                        "hash"};
  CHECK(canonical_request(request.to_sign(), {{"x-amz-date", "now"}}) ==
        "PUT\n"
        "/\n"
        "a=&b=2\n"
        "content-md5:bWQ1\n"
        "content-type:text/plain\n"
        "host:h:9000\n"
        "if-match:\"e\"\n"
        "if-none-match:*\n"
        "range:bytes=0-9\n"
        "x-amz-date:now\n"
        "x-amz-meta-a:2\n"
        "x-amz-meta-a-b:1\n"
        "x-amz-meta-b:two words here,again\n"
        "x-amz-meta-empty:\n"
        "x-amz-meta-utf8:\xC3\xA9\n"
        "\n"
        "content-md5;content-type;host;if-match;if-none-match;range;x-amz-date;x-amz-meta-a;"
        "x-amz-meta-a-b;x-amz-meta-b;x-amz-meta-empty;x-amz-meta-utf8\n"
        "hash");
}

TEST_CASE("whatever is signed changes the signature, and nothing else does") {
  require_digests();
  const Credentials credentials{"AK", "SK", "T"};
  const Request request{"PUT", "h", "/b/k", {{"a", "1"}}, {{"x-amz-acl", "private"}}, "hash"};
  const auto signed_as = [](const Request& one, const Credentials& with = {"AK", "SK", "T"},
                            std::string_view region = "r", SystemTime now = kTime) {
    return signature(sign(one.to_sign(), with, region, now));
  };
  const std::string original = signed_as(request);
  CHECK(original.size() == 64);
  CHECK(signed_as(request, credentials) == original);
  const auto changed = [&](auto change) {
    Request other = request;
    change(other);
    return signed_as(other) != original;
  };
  CHECK(changed([](Request& other) { other.method = "GET"; }));
  CHECK(changed([](Request& other) { other.host = "i"; }));
  CHECK(changed([](Request& other) { other.path = "/b/K"; }));
  CHECK(changed([](Request& other) { other.query[0].second = "2"; }));
  CHECK(changed([](Request& other) { other.headers[0].value = "public-read"; }));
  CHECK(changed([](Request& other) { other.headers.push_back({"Content-Type", "x"}); }));
  CHECK(changed([](Request& other) { other.sha256 = "other"; }));
  CHECK_FALSE(changed([](Request& other) { other.headers.push_back({"User-Agent", "x"}); }));
  CHECK(signed_as(request, {"AL", "SK", "T"}) == original);  // names the key, is not hashed
  CHECK(signed_as(request, {"AK", "SL", "T"}) != original);
  CHECK(signed_as(request, {"AK", "SK", "U"}) != original);
  CHECK(signed_as(request, {"AK", "SK", ""}) != original);
  CHECK(signed_as(request, credentials, "q") != original);
  CHECK(signed_as(request, credentials, "r", kTime + chrono::seconds(1)) != original);
  CHECK(signed_as(request, credentials, "r", kTime + chrono::hours(24)) != original);
}

TEST_CASE("keys are made once for each day, region and generation of credentials") {
  require_digests();
  const Credentials credentials{"AK", "SK", ""};
  const Credentials unlike{"AK", "never looked at where the key is known", ""};
  SigningKeys keys;
  const auto tomorrow = kTime + chrono::hours(24);
  const SigningKey first = keys.of(credentials, 1, "r", kTime);
  CHECK(first == signing_key(credentials, "r", kTime));
  CHECK(keys.of(unlike, 1, "r", kTime + chrono::hours(1)) == first);
  CHECK(keys.of(credentials, 1, "q", kTime) == signing_key(credentials, "q", kTime));
  CHECK(keys.of(credentials, 1, "r", tomorrow) == signing_key(credentials, "r", tomorrow));
  CHECK(keys.of(unlike, 2, "r", kTime) == signing_key(unlike, "r", kTime));
  CHECK(keys.of(credentials, 1, "r", kTime) == first);
  for (std::uint64_t newer = 3; newer < 9; ++newer) keys.of(credentials, newer, "r", kTime);
  CHECK(keys.of(unlike, 1, "r", kTime) == signing_key(unlike, "r", kTime));  // was forgotten

  const Request request;
  CHECK(sign(request.to_sign(), credentials, "r", kTime, first).back().value ==
        sign(request.to_sign(), credentials, "r", kTime).back().value);
}

TEST_CASE("what is added, and not the secret") {
  require_digests();
  const Request request;
  const Headers added = sign(request.to_sign(), {"AK", "SECRET", "TOKEN"}, "eu-west-1", kTime);
  REQUIRE(added.size() == 4);
  CHECK(added[0].name == "x-amz-date");
  CHECK(added[0].value == "20260102T030405Z");
  CHECK(added[1].name == "x-amz-content-sha256");
  CHECK(added[1].value == "UNSIGNED-PAYLOAD");
  CHECK(added[2].name == "x-amz-security-token");
  CHECK(added[2].value == "TOKEN");
  CHECK(added[3].value.starts_with(
      "AWS4-HMAC-SHA256 Credential=AK/20260102/eu-west-1/s3/aws4_request, SignedHeaders="));
  CHECK(signed_names(added) == "host;x-amz-content-sha256;x-amz-date;x-amz-security-token");
  for (const env::HttpHeader& one : added) {
    CHECK(one.value.find("SECRET") == std::string::npos);
  }
}

TEST_CASE("anonymous requests are left as they are") {
  CHECK(sign(Request().to_sign(), {}, "r", kTime).empty());
  CHECK(sign(Request().to_sign(), {"", "SK", "T"}, "r", kTime).empty());
}

TEST_CASE("dates, as they are signed") {
  const auto at = [](std::int64_t seconds) {
    return amz_date(SystemTime(chrono::seconds(seconds) + chrono::milliseconds(999)));
  };
  CHECK(at(0) == "19700101T000000Z");
  CHECK(at(951'868'799) == "20000229T235959Z");
  CHECK(at(1'767'323'045) == "20260102T030405Z");
  CHECK(at(4'102'444'799) == "20991231T235959Z");
}

TEST_CASE("dates, as servers send them") {
  const auto seconds = [](std::string_view text) -> std::int64_t {
    const auto time = parse_http_date(text);
    if (!time) return -1;
    return chrono::duration_cast<chrono::seconds>(time->time_since_epoch()).count();
  };
  CHECK(seconds("Fri, 02 Jan 2026 03:04:05 GMT") == 1'767'323'045);
  CHECK(seconds("Thu, 01 Jan 1970 00:00:00 GMT") == 0);
  CHECK(seconds("Tue, 29 Feb 2000 23:59:59 GMT") == 951'868'799);
  CHECK(seconds("Wed, 31 Dec 2200 23:59:59 GMT") == 7'289'654'399);
  for (const std::string_view none : {"",
                                      "Fri",
                                      "Fri, 02 Jan 2026 03:04:05",
                                      "Fri, 02 Jan 2026 03:04:05 UTC",
                                      "Fri, 02 Jan 2026 03:04:05 GMT ",
                                      " Fri, 02 Jan 2026 03:04:05 GMT",
                                      "Fri, 2 Jan 2026 03:04:05 GMT",
                                      "fri, 02 Jan 2026 03:04:05 GMT",
                                      "Fri, 02 jan 2026 03:04:05 GMT",
                                      "Fri, 02 Jan 26 03:04:05 GMT",
                                      "Fri, 00 Jan 2026 03:04:05 GMT",
                                      "Fri, 32 Jan 2026 03:04:05 GMT",
                                      "Sun, 29 Feb 2026 03:04:05 GMT",
                                      "Fri, 02 Jan 2026 24:04:05 GMT",
                                      "Fri, 02 Jan 2026 03:60:05 GMT",
                                      "Fri, 02 Jan 2026 03:04:60 GMT",
                                      "Fri, 02 Jan 2026 03:04:-5 GMT",
                                      "Fri, 02 Jan 1969 03:04:05 GMT",
                                      "Fri, 02 Jan 9999 03:04:05 GMT",
                                      "Friday, 02-Jan-26 03:04:05 GMT",
                                      "Fri Jan  2 03:04:05 2026",
                                      "1767323045"}) {
    CAPTURE(none);
    CHECK_FALSE(parse_http_date(none).has_value());
  }
}

}  // namespace
}  // namespace hflush::s3
