// A Status carries what an operator needs, and keeps the first failure first.
#include "hflush/base/status.h"

#include <doctest/doctest.h>

#include <cerrno>

#include "hflush/base/result.h"

namespace hflush {
namespace {

TEST_CASE("fine costs nothing and says nothing") {
  const Status fine;
  CHECK(fine.ok());
  CHECK(fine.code() == StatusCode::kOk);
  CHECK(fine.message().empty());
  CHECK(fine.with_path("/x").ok());
  CHECK(sizeof(Status) == sizeof(std::shared_ptr<int>));
}

TEST_CASE("errno picks the code; operation, reason and path are in the text") {
  const Status missing = Status::from_errno(ENOENT, "open", "/a/b");
  CHECK(missing.code() == StatusCode::kNotFound);
  CHECK(missing.error_number() == ENOENT);
  CHECK(missing.to_string() == "not found: open: No such file or directory: '/a/b'");
  CHECK(Status::from_errno(ENOSPC, "write", "/a").code() == StatusCode::kIo);
}

TEST_CASE("FAIL-13, CLOSE-9: causes and companions stay attached") {
  const Status first = Status::from_errno(EIO, "write", "/a");
  const Status second = Status::from_errno(ENOSPC, "close", "/a");
  const Status both = first_failure(first, second);
  CHECK(both.error_number() == EIO);
  REQUIRE(both.others().size() == 1);
  CHECK(both.others()[0].error_number() == ENOSPC);
  CHECK(first_failure({}, second).error_number() == ENOSPC);
  CHECK(first_failure(first, {}).others().empty());
  const Status closed =
      Status(StatusCode::kClosed, "write: the stream is failed").with_cause(first);
  REQUIRE(closed.cause() != nullptr);
  CHECK(closed.cause()->error_number() == EIO);
}

Result<int> half(int value) {
  if (value % 2 != 0) return Status(StatusCode::kInvalidArgument, "odd");
  return value / 2;
}

Result<int> quarter(int value) {
  HFLUSH_ASSIGN_OR_RETURN(const int halved, half(value));
  return half(halved);
}

TEST_CASE("a result is a value or a failure, never neither") {
  CHECK(*quarter(8) == 2);
  CHECK(quarter(6).status().message() == "odd");
  CHECK(Result<int>(Status()).status().code() == StatusCode::kInternal);
}

TEST_CASE("a detail is found by its type, and stays when more is added") {
  struct Story {
    int chapters = 0;
  };
  const Status plain(StatusCode::kPipeline, "all nodes failed", "/f");
  CHECK(plain.detail<Story>() == nullptr);
  const Status told =
      plain.with_detail(Story{3}).with_path("/g").with_other(Status(StatusCode::kIo, "too"));
  REQUIRE(told.detail<Story>() != nullptr);
  CHECK(told.detail<Story>()->chapters == 3);
  CHECK(told.detail<int>() == nullptr);
  CHECK(told.checksum_mismatch() == nullptr);
  CHECK(told.to_string() == "pipeline failed: all nodes failed: '/g'");
  CHECK(Status().with_detail(Story{1}).ok());
}

}  // namespace
}  // namespace hflush
