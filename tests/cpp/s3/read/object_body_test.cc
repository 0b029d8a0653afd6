// The table of object_body.h, and how the bytes of a body are divided.
#include "hflush/s3/read/object_body.h"

#include <doctest/doctest.h>

#include <array>
#include <string>

#include "hflush/s3/call/encoding.h"

namespace hflush::s3 {
namespace {

constexpr ByteRange kAsked{10, 30};

ReadOptions opened() {
  ReadOptions options;
  options.path = "s3a://b/k";
  options.size = 100;
  options.etag = "\"e1\"";
  return options;
}

struct Row {
  const char* what;
  env::HttpHead head;
  StatusCode refused;  // kOk: accepted
  std::uint64_t size = 0;
  std::uint64_t before = 0;
  crc::Kind sum_kind = crc::Kind::kNone;
};

env::HttpHead ranged(const std::string& range) { return {206, {{"content-range", range}}}; }

env::HttpHead whole(std::vector<env::HttpHeader> headers) { return {200, std::move(headers)}; }

TEST_CASE("every head is accepted or refused as the table has it") {
  using enum StatusCode;
  const std::array rows{
      Row{"the range", ranged("bytes 10-29/100"), kOk, 20},
      Row{"of a total that is not said", ranged("bytes 10-29/*"), kOk, 20},
      Row{"a shorter one", ranged("bytes 10-12/100"), kOk, 3},
      Row{"a longer one", ranged("bytes 10-30/100"), kIo},
      Row{"one that begins later", ranged("bytes 11-29/100"), kIo},
      Row{"one that begins earlier", ranged("bytes 9-29/100"), kIo},
      Row{"of another total", ranged("bytes 10-29/101"), kPreconditionFailed},
      Row{"of another total, another range", ranged("bytes 0-5/6"), kPreconditionFailed},
      Row{"backwards", ranged("bytes 29-10/100"), kIo},
      Row{"of other units", ranged("lines 10-29/100"), kIo},
      Row{"without an end", ranged("bytes 10-/100"), kIo},
      Row{"with something behind", ranged("bytes 10-29/100 "), kIo},
      Row{"an end beyond all numbers", ranged("bytes 10-18446744073709551615/100"), kIo},
      Row{"no content-range", {206, {}}, kIo},
      Row{"the object", whole({{"content-length", "100"}}), kOk, 100, 10},
      Row{"of a length that is not said", whole({}), kOk, 100, 10},
      Row{"of a length that is not a number", whole({{"content-length", "1x"}}), kOk, 100, 10},
      Row{"of another length", whole({{"content-length", "99"}}), kPreconditionFailed},
      Row{"with its CRC32C", whole({{"x-amz-checksum-crc32c", "AAAAAA=="}}), kOk, 100, 10,
          crc::Kind::kCrc32c},
      Row{"with its CRC32",
          whole({{"x-amz-checksum-type", "FULL_OBJECT"}, {"x-amz-checksum-crc32", "AAAAAA=="}}),
          kOk, 100, 10, crc::Kind::kCrc32},
      Row{"with one of its parts",
          whole({{"x-amz-checksum-type", "COMPOSITE"}, {"x-amz-checksum-crc32c", "AAAAAA=="}}), kOk,
          100, 10},
      Row{"with one of so many parts", whole({{"x-amz-checksum-crc32c", "AAAAAA==-3"}}), kOk, 100,
          10},
      Row{"another etag", whole({{"etag", "\"e2\""}}), kPreconditionFailed},
      Row{"the same, weak", whole({{"etag", "W/\"e1\""}}), kOk, 100, 10},
      Row{"the same, unquoted", whole({{"etag", "e1"}}), kOk, 100, 10},
      Row{"another status", {204, {}}, kIo},
  };
  for (const Row& row : rows) {
    CAPTURE(row.what);
    const auto body = expected_body(row.head, opened(), kAsked);
    CHECK(body.status().code() == row.refused);
    if (!body.ok()) continue;
    CHECK(body->size == row.size);
    CHECK(body->before == row.before);
    CHECK(body->sum_kind == row.sum_kind);
  }
}

TEST_CASE("an object that is not pinned may have any etag") {
  ReadOptions options = opened();
  options.etag.clear();
  CHECK(expected_body(whole({{"etag", "\"e2\""}}), options, kAsked).ok());
}

TEST_CASE("a sum of no type is that of the whole, unless the etag is that of parts") {
  struct Tagged {
    const char* etag;
    bool has_type;
    bool is_of_whole;
  };
  for (const Tagged& row : {
           Tagged{"\"0a1b-2\"", false, false},
           Tagged{"\"0a1b-2\"", true, true},
           Tagged{"W/\"0a1b-17\"", false, false},
           Tagged{"\"0a1b\"", false, true},
           Tagged{"\"12\"", false, true},
           Tagged{"\"0a1b-\"", false, true},
           Tagged{"\"0a1b-2c\"", false, true},
       }) {
    CAPTURE(row.etag);
    ReadOptions options = opened();
    options.etag = row.etag;
    env::HttpHead head = whole({{"etag", row.etag}, {"x-amz-checksum-crc32c", "AAAAAA=="}});
    if (row.has_type) head.headers.push_back({"x-amz-checksum-type", "FULL_OBJECT"});
    const auto body = expected_body(head, options, kAsked);
    REQUIRE(body.ok());
    CHECK((body->sum_kind == crc::Kind::kCrc32c) == row.is_of_whole);
  }
}

std::string text_of(ByteView bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::string take(ObjectBody& body, std::string_view bytes) {
  const auto wanted = body.take(as_bytes(bytes));
  REQUIRE_MESSAGE(wanted.ok(), wanted.status().to_string());
  return text_of(*wanted);
}

TEST_CASE("what lies before the range, and what is skipped, is not for the reader") {
  ObjectBody body({3, 10});
  body.begin({.size = 12, .before = 3});
  CHECK(take(body, "ab").empty());
  CHECK(take(body, "cdef") == "def");
  body.skip(4);
  CHECK(take(body, "gh").empty());
  CHECK_FALSE(body.is_complete());
  CHECK(take(body, "ijkl") == "kl");
  CHECK(body.is_complete());
  CHECK(body.received() == 12);
  CHECK(body.received_of_range() == 9);
}

TEST_CASE("more than was expected is refused, of the range also before a head says how much") {
  ObjectBody body({0, 4});
  CHECK(take(body, "abcd") == "abcd");
  const auto more = body.take(as_bytes(std::string_view("e")));
  CHECK(more.status().code() == StatusCode::kIo);
  CHECK(more.status().message() == "read of bytes 0 to 4: the store sent more");
}

TEST_CASE("the whole is compared with its sum, by its last byte") {
  const std::string sum =
      crc_header(crc::extend(crc::Kind::kCrc32c, 0, as_bytes(std::string_view("hello"))));
  ObjectBody body({0, 5});
  body.begin({.size = 5, .sum_kind = crc::Kind::kCrc32c, .sum = sum});
  CHECK(take(body, "he") == "he");
  const auto damaged = body.take(as_bytes(std::string_view("ll0")));
  CHECK(damaged.status().code() == StatusCode::kChecksum);
  CHECK(damaged.status().message().find(sum) != std::string::npos);
  body.begin({.size = 5, .sum_kind = crc::Kind::kCrc32c, .sum = sum});  // another attempt
  CHECK(take(body, "hello") == "hello");
}

}  // namespace
}  // namespace hflush::s3
