// Renames into one directory, of all processes, wait for each other.
#include "hflush/local/directory_turn.h"

#include <fcntl.h>
#include <sys/file.h>

#include <chrono>
#include <optional>
#include <vector>

#include "local/testing.h"

namespace hflush::local {
namespace {

using testing::TemporaryDirectory;

constexpr std::chrono::milliseconds kShort{20};

TEST_CASE("local: a turn at a directory ends when its owner does") {
  const TemporaryDirectory directory;
  {
    const auto first = DirectoryTurn::at(directory.path(), kShort);
    REQUIRE(first.ok());
    const auto second = DirectoryTurn::at(directory.path(), kShort);
    CHECK(second.status().code() == StatusCode::kTimedOut);
    CHECK(second.status().path() == directory.path());
  }
  CHECK(DirectoryTurn::at(directory.path(), kShort).ok());
}

TEST_CASE("local: a turn ends although a forked child has its descriptor") {
  const TemporaryDirectory directory;
  std::optional<Result<DirectoryTurn>> turn(DirectoryTurn::at(directory.path(), kShort));
  REQUIRE(turn->ok());
  // What a child inherits: another descriptor of the same open file.
  std::vector<Descriptor> inherited;
  inherited.reserve(64);
  for (int number = 0; number < 64; ++number) {
    inherited.emplace_back(::fcntl(number, F_DUPFD_CLOEXEC, 100));
  }
  turn.reset();
  CHECK(DirectoryTurn::at(directory.path(), kShort).ok());
}

TEST_CASE("local: a directory that cannot be opened is nobody's turn") {
  const TemporaryDirectory directory;
  CHECK(DirectoryTurn::at(directory.path() + "/missing", kShort).ok());
}

}  // namespace
}  // namespace hflush::local
