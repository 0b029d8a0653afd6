#include "hflush/env/short_waits.h"

#include <doctest/doctest.h>

namespace hflush::env {
namespace {

TEST_CASE("after a short wait one thread looks, and after a long one none") {
  ShortWaits waits(2);
  CHECK_FALSE(waits.may_look());
  waits.took(ShortWaits::kShort);
  CHECK(waits.may_look());
  CHECK_FALSE(waits.may_look());  // another does
  CHECK_FALSE(waits.finds());
  waits.stops_looking(true);
  CHECK(waits.finds());
  CHECK(waits.may_look());
  waits.stops_looking(false);
  CHECK_FALSE(waits.finds());
  waits.took(ShortWaits::kShort + Duration(1));
  CHECK_FALSE(waits.may_look());
  waits.took(Duration(0));
  CHECK(waits.may_look());
}

TEST_CASE("nobody looks where there is one processor") {
  ShortWaits waits(1);
  waits.took(Duration(0));
  CHECK_FALSE(waits.may_look());
}

}  // namespace
}  // namespace hflush::env
