// Requests: what an attempt sends, and with which limits.
#include "hflush/s3/call/request.h"

#include <doctest/doctest.h>

#include <cerrno>
#include <chrono>
#include <cstddef>
#include <limits>
#include <memory>
#include <string>

#include "hflush/base/binary_text.h"
#include "hflush/crypto/digest.h"

namespace hflush::s3 {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

Settings settings() {
  Settings settings;
  settings.host = "s3.example";
  settings.connect_timeout = seconds(10);
  settings.stall_timeout = seconds(60);
  settings.upload_timeout = minutes(7);
  settings.request_timeout = minutes(5);
  return settings;
}

Call get() {
  Call call;
  call.method = "GET";
  call.bucket = "b";
  call.key = "a b";
  call.max_response_bytes = 1000;
  return call;
}

Attempt attempt() {
  Attempt attempt;
  attempt.target = {.authority = "b.s3.example", .region = "eu-west-1", .names_bucket = false};
  attempt.time = SystemTime(seconds(1'700'000'000));
  attempt.begins = env::TimePoint() + minutes(1);
  return attempt;
}

const Credentials kCredentials{"AK", "secret", "token"};

std::string header(const env::HttpRequest& request, std::string_view name) {
  for (const env::HttpHeader& header : request.headers) {
    if (header.name == name) return header.value;
  }
  return {};
}

TEST_CASE("requests: the address, the headers and the signature") {
  REQUIRE(crypto::load_digests().ok());
  Call call = get();
  call.query = {{"uploadId", "x/y"}, {"partNumber", "1"}};
  call.headers = {{"Range", "bytes=0-9"}};
  Attempt with = attempt();
  const env::HttpRequest request = make_request(settings(), call, with, kCredentials);
  CHECK(request.url == "https://b.s3.example/a%20b?partNumber=1&uploadId=x%2Fy");
  CHECK(header(request, "Host") == "b.s3.example");
  CHECK(header(request, "Range") == "bytes=0-9");
  CHECK(header(request, "x-amz-date") == "20231114T221320Z");
  CHECK(header(request, "x-amz-content-sha256") == kEmptySha256);
  CHECK(header(request, "Authorization").find("/20231114/eu-west-1/s3/") != std::string::npos);
  with.target.names_bucket = true;
  CHECK(make_request(settings(), call, with, kCredentials).url ==
        "https://b.s3.example/b/a%20b?partNumber=1&uploadId=x%2Fy");
  call.key.clear();
  call.query.clear();
  CHECK(make_request(settings(), call, with, kCredentials).url == "https://b.s3.example/b");
  CHECK(make_request(settings(), call, with, {}).headers.size() == 2);  // anonymous

  // A server below a path: it comes before the bucket, in the signature too.
  Settings below = settings();
  below.base_path = "/storage v1/s3";
  const env::HttpRequest deeper = make_request(below, get(), with, kCredentials);
  CHECK(deeper.url == "https://b.s3.example/storage%20v1/s3/b/a%20b");
  Call same = get();
  same.bucket = "storage v1";
  same.key = "s3/b/a b";
  CHECK(header(deeper, "Authorization") ==
        header(make_request(settings(), same, with, kCredentials), "Authorization"));
}

TEST_CASE("requests: which the thread that makes the call may wait for") {
  REQUIRE(crypto::load_digests().ok());
  Call call = get();
  Attempt with = attempt();
  const auto is_awaited = [&] {
    return make_request(settings(), call, with, kCredentials).is_awaited;
  };
  CHECK_FALSE(is_awaited());  // begun by another call's end
  with.by_caller = true;
  CHECK(is_awaited());
  with.is_download = true;
  CHECK_FALSE(is_awaited());
  call.is_awaited = true;
  CHECK(is_awaited());
  with.by_caller = false;
  CHECK_FALSE(is_awaited());
}

TEST_CASE("requests: the limits of a call, of an upload and of a download") {
  REQUIRE(crypto::load_digests().ok());
  constexpr auto kUnlimited = std::numeric_limits<std::uint64_t>::max();
  Call call = get();
  const env::HttpRequest plain = make_request(settings(), call, attempt(), kCredentials);
  CHECK(plain.connect_timeout == seconds(10));
  CHECK(plain.stall_timeout == seconds(60));
  CHECK(plain.total_timeout == minutes(5));
  CHECK(plain.max_response_bytes == 1000);
  CHECK(plain.max_error_bytes == kUnlimited);

  Attempt streams = attempt();
  streams.is_download = true;
  const env::HttpRequest download = make_request(settings(), call, streams, kCredentials);
  CHECK(download.total_timeout == env::kNoTimeout);
  CHECK(download.max_response_bytes == kUnlimited);
  CHECK(download.max_error_bytes == 1000);

  call.is_upload = true;
  call.stall_timeout = seconds(90);
  const env::HttpRequest upload = make_request(settings(), call, attempt(), kCredentials);
  CHECK(upload.total_timeout == minutes(7));
  CHECK(upload.stall_timeout == seconds(90));

  // Not silent for longer than it may last.
  call.ends = attempt().begins + seconds(3);
  const env::HttpRequest ending = make_request(settings(), call, attempt(), kCredentials);
  CHECK(ending.connect_timeout == seconds(3));
  CHECK(ending.stall_timeout == seconds(3));
  call.ends = attempt().begins - seconds(3);
  CHECK(make_request(settings(), call, attempt(), kCredentials).stall_timeout == milliseconds(100));
}

TEST_CASE("requests: a body is asked about before it is sent if it is large") {
  REQUIRE(crypto::load_digests().ok());
  Call call = get();
  const auto asks = [&](std::size_t size, bool allowed = true) {
    Settings with = settings();
    with.expect_continue = allowed;
    call.body = env::text_body(std::string(size, 'x'));
    const env::HttpRequest request = make_request(with, call, attempt(), kCredentials);
    CHECK(request.body == call.body);
    CHECK(header(request, "x-amz-content-sha256") == kUnsignedPayload);
    return request.expect_continue;
  };
  CHECK_FALSE(asks(std::size_t{1} << 20U));
  CHECK(asks((std::size_t{1} << 20U) + 1));
  CHECK_FALSE(asks((std::size_t{1} << 20U) + 1, false));
}

TEST_CASE("requests: what the response is judged by") {
  Call call = get();
  const Signing signing = signing_of(call, attempt(), kCredentials);
  CHECK(signing.has_token);
  CHECK_FALSE(signing.may_have_expired);
  CHECK(signing.time == attempt().time);
  CHECK(signing.region == "eu-west-1");
  call.guesses_expiry = true;
  CHECK(signing_of(call, attempt(), kCredentials).may_have_expired);
  CHECK_FALSE(signing_of(call, attempt(), {"AK", "secret", ""}).may_have_expired);
  CHECK_FALSE(signing_of(call, attempt(), {"AK", "secret", ""}).has_token);
  CHECK_FALSE(signing_of(call, attempt(), {}).time);
}

// A body of 10 bytes whose reads end so.
class BrokenBody final : public env::HttpBody {
 public:
  explicit BrokenBody(std::ptrdiff_t result) : result_(result) {}
  std::uint64_t size() const noexcept override { return 10; }
  std::ptrdiff_t read_at(std::uint64_t /*offset*/,
                         MutableByteView /*out*/) const noexcept override {
    return result_;
  }

 private:
  const std::ptrdiff_t result_;
};

TEST_CASE("requests: a body that cannot be hashed is a failure") {
  REQUIRE(crypto::load_digests().ok());
  Call call = get();
  CHECK(hash_body(settings(), call).ok());  // without a body
  CHECK(call.body_sha256.empty());
  call.body = std::make_shared<BrokenBody>(-EIO);
  CHECK(hash_body(settings(), call).error_number() == EIO);
  call.body = std::make_shared<BrokenBody>(0);
  CHECK(hash_body(settings(), call).message().find("has been cut") != std::string::npos);
  call.body = env::text_body("hello");
  CHECK(hash_body(settings(), call).ok());
  CHECK(call.body_sha256 == to_hex(crypto::sha256(as_bytes("hello"))));
}

}  // namespace
}  // namespace hflush::s3
