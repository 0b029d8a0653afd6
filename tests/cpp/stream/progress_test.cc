// What a stream knows of its bytes, from what its sink reports.
#include "hflush/stream/progress.h"

#include <doctest/doctest.h>

namespace hflush::stream {
namespace {

TEST_CASE("a level includes the ones before it, and beyond handing over an acknowledgement") {
  Progress progress(100);
  CHECK_FALSE(progress.has_reached(Level::kHandedOver, 0));
  CHECK(progress.acknowledged() == 100);
  progress.reached(Level::kHandedOver, 200);
  CHECK(progress.has_reached(Level::kHandedOver, 200));
  CHECK_FALSE(progress.has_reached(Level::kHandedOver, 201));
  CHECK_FALSE(progress.has_reached(Level::kVisible, 0));
  CHECK(progress.acknowledged() == 100);
  progress.reached(Level::kDurable, 150);
  CHECK(progress.has_reached(Level::kVisible, 150));
  CHECK(progress.has_reached(Level::kHandedOver, 200));
  CHECK(progress.acknowledged() == 150);
}

TEST_CASE("nothing goes backward") {
  Progress progress(0);
  progress.reached(Level::kDurable, 50);
  progress.reached(Level::kDurable, 20);
  progress.acknowledged(10);
  CHECK(progress.has_reached(Level::kDurable, 50));
  CHECK(progress.acknowledged() == 50);
}

TEST_CASE("a request is answered when its level covers it, or when it is refused") {
  Progress progress(0);
  for (const Level level : {Level::kHandedOver, Level::kVisible, Level::kDurable}) {
    CHECK(progress.is_answered(level));
    progress.requested(level, 0);
    CHECK_FALSE(progress.is_answered(level));  // also for nothing: it was never reported
  }
  progress.reached(Level::kVisible, 0);
  CHECK(progress.is_answered(Level::kHandedOver));
  CHECK(progress.is_answered(Level::kVisible));
  CHECK_FALSE(progress.is_answered(Level::kDurable));
  progress.refused(Level::kDurable, 0, Status(StatusCode::kIo, "no disk now"));
  CHECK(progress.is_answered(Level::kDurable));
  CHECK_FALSE(progress.has_reached(Level::kDurable, 0));
  CHECK(progress.refusal(Level::kDurable).number == 1);
  CHECK(progress.refusal(Level::kDurable).why.message() == "no disk now");
  CHECK(progress.refusal(Level::kVisible).number == 0);
  progress.requested(Level::kDurable, 7);
  CHECK_FALSE(progress.is_answered(Level::kDurable));
  progress.reached(Level::kDurable, 6);
  CHECK_FALSE(progress.is_answered(Level::kDurable));
}

TEST_CASE("a writer is woken when it has all the room that it needs") {
  Progress progress(0);
  CHECK_FALSE(progress.acknowledged(10));  // none waits
  progress.need(20);
  CHECK_FALSE(progress.acknowledged(19));
  CHECK(progress.acknowledged(20));
  progress.need(std::nullopt);
  CHECK_FALSE(progress.acknowledged(30));
}

TEST_CASE("the end is reported once for all") {
  Progress progress(0);
  CHECK_FALSE(progress.is_finished());
  progress.finished();
  CHECK(progress.is_finished());
}

}  // namespace
}  // namespace hflush::stream
