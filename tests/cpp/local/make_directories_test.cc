// Rules MKDIR-1 … MKDIR-4, MKDIR-6, MKDIR-7, MKDIR-9 and ROOT-1 below the bindings.
#include "hflush/local/make_directories.h"

#include <atomic>
#include <thread>
#include <vector>

#include "local/testing.h"

namespace hflush::local {
namespace {

using testing::code_of;
using testing::is_directory;
using testing::mode_of;
using testing::names_in;
using testing::read_file;
using testing::TemporaryDirectory;
using testing::write_file;

TEST_CASE("a directory is made with the parents it lacks, and once made it stays as it is") {
  const TemporaryDirectory root;
  CHECK(make_directories(root / "a/b/c", 0750, Parents::kCreate).ok());
  CHECK(is_directory(root / "a/b/c"));
  CHECK(make_directories(root / "a/b/c", 0777, Parents::kCreate).ok());
  CHECK(mode_of(root / "a/b/c") == 0750);
  CHECK(make_directories("/", 0700, Parents::kCreate).ok());
}

TEST_CASE("the permission is exact, whatever the umask is") {
  const TemporaryDirectory root;
  const testing::Umask everything(0777);
  CHECK(make_directories(root / "new", 0715, Parents::kRequire).ok());
  CHECK(mode_of(root / "new") == 0715);
}

TEST_CASE("parents get the permission too, and always let their owner in") {
  const TemporaryDirectory root;
  CHECK(make_directories(root / "p/q/leaf", 0444, Parents::kCreate).ok());
  CHECK(mode_of(root / "p/q/leaf") == 0444);
  CHECK(mode_of(root / "p") == 0744);
  CHECK(mode_of(root / "p/q") == 0744);
}

TEST_CASE("without a permission the umask decides") {
  const TemporaryDirectory root;
  const testing::Umask some(027);
  CHECK(make_directories(root / "p/q", std::nullopt, Parents::kCreate).ok());
  CHECK(mode_of(root / "p") == 0750);
  CHECK(mode_of(root / "p/q") == 0750);
  const testing::Umask owner(0377);
  CHECK(make_directories(root / "r/s", std::nullopt, Parents::kCreate).ok());
  CHECK(mode_of(root / "r") == 0700);
  CHECK(mode_of(root / "r/s") == 0400);
}

TEST_CASE("an inherited set-group-id bit is kept") {
  const TemporaryDirectory root;
  REQUIRE(::chmod(root.path().c_str(), 02755) == 0);
  CHECK(make_directories(root / "new", 0700, Parents::kRequire).ok());
  CHECK(mode_of(root / "new") == 02700);
}

TEST_CASE("over a file nothing is made, and the file is intact") {
  const TemporaryDirectory root;
  write_file(root / "file", "content");
  CHECK(code_of(make_directories(root / "file", 0755, Parents::kCreate)) ==
        StatusCode::kAlreadyExists);
  CHECK(read_file(root / "file") == "content");
}

TEST_CASE("below a file nothing is made, however deep") {
  const TemporaryDirectory root;
  write_file(root / "file", "content");
  for (const char* name : {"file/x", "file/x/y/z"}) {
    for (const Parents parents : {Parents::kCreate, Parents::kRequire}) {
      CAPTURE(name);
      CHECK(code_of(make_directories(root / name, 0755, parents)) ==
            StatusCode::kParentNotDirectory);
    }
  }
  CHECK(names_in(root.path()) == std::set<std::string>{"file"});
}

TEST_CASE("below a link that leads nowhere nothing is made") {
  const TemporaryDirectory root;
  REQUIRE(::symlink("nowhere", (root / "link").c_str()) == 0);
  CHECK(code_of(make_directories(root / "link", 0755, Parents::kCreate)) ==
        StatusCode::kAlreadyExists);
  CHECK(code_of(make_directories(root / "link/x", 0755, Parents::kCreate)) ==
        StatusCode::kParentNotDirectory);
  CHECK(names_in(root.path()) == std::set<std::string>{"link"});
}

TEST_CASE("a link to a directory is a directory") {
  const TemporaryDirectory root;
  testing::make_directory(root / "real");
  REQUIRE(::symlink("real", (root / "link").c_str()) == 0);
  CHECK(make_directories(root / "link", 0755, Parents::kCreate).ok());
  CHECK(make_directories(root / "link/x", 0755, Parents::kCreate).ok());
  CHECK(is_directory(root / "real/x"));
}

TEST_CASE("where parents are required a missing one is an error and nothing is made") {
  const TemporaryDirectory root;
  CHECK(code_of(make_directories(root / "a/b", 0755, Parents::kRequire)) == StatusCode::kNotFound);
  CHECK(names_in(root.path()).empty());
}

TEST_CASE("without permission on the parent the directory is refused") {
  const TemporaryDirectory root;
  REQUIRE(::chmod(root.path().c_str(), 0555) == 0);
  const testing::Unprivileged nobody;
  CHECK(code_of(make_directories(root / "a/b", 0755, Parents::kCreate)) ==
        StatusCode::kPermissionDenied);
  CHECK(names_in(root.path()).empty());
}

TEST_CASE("of many threads that make the same chain all succeed") {
  const TemporaryDirectory root;
  std::atomic<int> failures = 0;
  std::vector<std::thread> makers;
  for (int i = 0; i < 8; ++i) {
    makers.emplace_back([&] {
      for (int round = 0; round < 50; ++round) {
        const std::string path = root / ("r" + std::to_string(round) + "/a/b/c");
        if (!make_directories(path, 0755, Parents::kCreate).ok()) ++failures;
      }
    });
  }
  for (std::thread& maker : makers) maker.join();
  CHECK(failures == 0);
  CHECK(names_in(root.path()).size() == 50);
}

}  // namespace
}  // namespace hflush::local
