#include "hflush/base/ascii.h"

#include <doctest/doctest.h>

namespace hflush {
namespace {

TEST_CASE("letters of ASCII have another case, nothing else has") {
  CHECK(to_lower("Content-MD5 @[`{ 09") == "content-md5 @[`{ 09");
  CHECK(to_lower("\xC3\x84") == "\xC3\x84");
  CHECK(equals_ignoring_case("ETag", "eTAG"));
  CHECK_FALSE(equals_ignoring_case("ETag", "ETags"));
  CHECK_FALSE(equals_ignoring_case("[", "{"));
  CHECK(equals_ignoring_case("", ""));
}

TEST_CASE("blanks are taken from the ends, not from within") {
  CHECK(trimmed(" \ta b\t ", " \t") == "a b");
  CHECK(trimmed("a\r", " \t") == "a\r");
  CHECK(trimmed(" \t", " \t").empty());
  CHECK(trimmed("", " \t").empty());
}

}  // namespace
}  // namespace hflush
