// Users and groups have the names of the system's databases, or their numbers.
#include "hflush/local/owners.h"

#include "local/testing.h"

namespace hflush::local {
namespace {

constexpr unsigned kUnknown = 3'999'999'999U;

TEST_CASE("number 0 is root, and root is number 0") {
  CHECK(user_name(0) == "root");
  auto user = find_user("root");
  REQUIRE(user.ok());
  CHECK(*user == 0);
  auto group = find_group(group_name(0));
  REQUIRE(group.ok());
  CHECK(*group == 0);
}

TEST_CASE("a number without a name is shown and accepted in digits") {
  CHECK(user_name(kUnknown) == std::to_string(kUnknown));
  CHECK(group_name(kUnknown) == std::to_string(kUnknown));
  auto user = find_user(std::to_string(kUnknown));
  REQUIRE(user.ok());
  CHECK(*user == kUnknown);
}

TEST_CASE("a name that nobody has is the caller's mistake") {
  for (const char* name : {"no such user", "", "-1", "12x", "99999999999"}) {
    CAPTURE(name);
    CHECK(testing::code_of(find_user(name)) == StatusCode::kInvalidArgument);
    CHECK(testing::code_of(find_group(name)) == StatusCode::kInvalidArgument);
  }
}

}  // namespace
}  // namespace hflush::local
