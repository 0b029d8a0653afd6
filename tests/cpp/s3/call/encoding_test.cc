// Keys and queries as URLs, digests and checksums as headers.
#include "hflush/s3/call/encoding.h"

#include <doctest/doctest.h>

#include <string>
#include <string_view>
#include <utility>

#include "hflush/base/binary_text.h"

namespace hflush::s3 {
namespace {

TEST_CASE("a key is encoded byte by byte, and nothing in it is normalised") {
  struct Case {
    std::string_view key;
    std::string_view encoded;
  };
  const Case cases[] = {
      {"", ""},
      {"plain", "plain"},
      {"AZaz09-._~", "AZaz09-._~"},
      {"a+b", "a%2Bb"},
      {"a=b", "a%3Db"},
      {"a:b@c", "a%3Ab%40c"},
      {"a!b'(c)*d,e;f$g", "a%21b%27%28c%29%2Ad%2Ce%3Bf%24g"},
      {"a&b?c#d", "a%26b%3Fc%23d"},
      {"a b", "a%20b"},
      {"a%2Fb", "a%252Fb"},
      {"dt=2024/x", "dt%3D2024/x"},
      {"x/../y", "x/../y"},
      {"x/./y", "x/./y"},
      {"x//y", "x//y"},
      {"x/", "x/"},
      {"/lead", "/lead"},
      {"\xC3\xA9/\xE6\x97\xA5\xE6\x9C\xAC", "%C3%A9/%E6%97%A5%E6%9C%AC"},
      {"\x01\x7F\xFF", "%01%7F%FF"},
      {"back\\slash\"", "back%5Cslash%22"},
  };
  for (const Case& one : cases) {
    CAPTURE(one.key);
    CHECK(encode_key(one.key) == one.encoded);
  }
  CHECK(encode_key(std::string_view("a\0b", 3)) == "a%00b");
}

TEST_CASE("every byte is itself if unreserved, and else two upper-case digits") {
  const std::string unreserved =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~";
  const std::string digits = "0123456789ABCDEF";
  for (unsigned byte = 0; byte < 256; ++byte) {
    CAPTURE(byte);
    const std::string text(1, static_cast<char>(byte));
    const bool plain = unreserved.find(text) != std::string::npos;
    const std::string escaped = std::string("%") + digits[byte / 16] + digits[byte % 16];
    CHECK(encode_component(text) == (plain ? text : escaped));
    CHECK(encode_key(text) == (plain || text == "/" ? text : escaped));
  }
}

TEST_CASE("a query is sorted as it is encoded, always with '='") {
  CHECK(canonical_query({}).empty());
  CHECK(canonical_query({{"uploads", ""}}) == "uploads=");
  CHECK(canonical_query({{"uploadId", "2~a+b/c=="}, {"partNumber", "1"}}) ==
        "partNumber=1&uploadId=2~a%2Bb%2Fc%3D%3D");
  CHECK(canonical_query({{"prefix", "a b/c"}, {"list-type", "2"}, {"delimiter", "/"}}) ==
        "delimiter=%2F&list-type=2&prefix=a%20b%2Fc");
  // By name first: "a" before "a-b", whose '-' comes before '='.
  CHECK(canonical_query({{"a-b", "1"}, {"a", "2"}}) == "a=2&a-b=1");
  // By what is sent, not by what it means: '%' comes before letters, '}' would come after them.
  CHECK(canonical_query({{"a", "1"}, {"}", "2"}}) == "%7D=2&a=1");
  CHECK(canonical_query({{"a", "2"}, {"a", "10"}, {"a", ""}}) == "a=&a=10&a=2");
}

TEST_CASE("what headers may be") {
  for (const char* name : {"x-amz-meta-a", "A", "0", "!#$%&'*+-.^_`|~"}) {
    CAPTURE(name);
    CHECK(is_header_name(name));
  }
  for (const char* name : {"", " ", "a b", "a:", "a\r", "\xC3\xA9", "(", "a/b", "{}", "\x7F"}) {
    CAPTURE(name);
    CHECK_FALSE(is_header_name(name));
  }
  for (const char* value : {"", "a b", "\tx", "\xC3\xA9", "~"}) {
    CAPTURE(value);
    CHECK(is_header_value(value));
  }
  for (const char* value : {"a\r\nHost: b", "\n", "\x7F", "\x01"}) {
    CAPTURE(value);
    CHECK_FALSE(is_header_value(value));
  }
  CHECK_FALSE(is_header_value(std::string_view("\0", 1)));
  CHECK(check_header("a", "b").ok());
  CHECK(check_header("a b", "c").code() == StatusCode::kInvalidArgument);
  CHECK(check_header("a b", "c").message() == "not a header name: a b");
  CHECK(check_header("a", "hush\n").message() == "control characters in the value of header a");
}

TEST_CASE("hex and base64") {
  CHECK(to_hex({}).empty());
  CHECK(to_hex(as_bytes(std::string_view("\x00\x0F\xA0\xFF", 4))) == "000fa0ff");
  // RFC 4648, section 10.
  const std::pair<std::string_view, std::string_view> cases[] = {{"", ""},
                                                                 {"f", "Zg=="},
                                                                 {"fo", "Zm8="},
                                                                 {"foo", "Zm9v"},
                                                                 {"foob", "Zm9vYg=="},
                                                                 {"fooba", "Zm9vYmE="},
                                                                 {"foobar", "Zm9vYmFy"}};
  for (const auto& [text, encoded] : cases) CHECK(to_base64(as_bytes(text)) == encoded);
  CHECK(to_base64(as_bytes("\xFB\xEF\xBE\xFF\xFF\xFF")) == "++++////");
}

TEST_CASE("a CRC32C is sent big-endian, in base64") {
  CHECK(crc_header(0) == "AAAAAA==");
  CHECK(crc_header(0x9a71bb4c) == "mnG7TA==");  // "hello"
  CHECK(crc_header(0xe3069283) == "4waSgw==");  // "123456789"
  CHECK(crc_header(0x8a9136aa) == "ipE2qg==");  // 32 zero bytes
}

}  // namespace
}  // namespace hflush::s3
