// Recursive deletion removes a tree and nothing else (DELETE-5), whatever it looks like.
#include "hflush/local/remove_tree.h"

#include <fcntl.h>
#include <sys/resource.h>

#include <atomic>
#include <thread>
#include <vector>

#include "hflush/local/descriptor.h"
#include "local/testing.h"

namespace hflush::local {
namespace {

using testing::code_of;
using testing::exists;
using testing::make_directory;
using testing::TemporaryDirectory;
using testing::write_file;

TEST_CASE("files, directories and links below are removed, what links lead to is not") {
  const TemporaryDirectory root;
  make_directory(root / "outside");
  write_file(root / "outside/kept", "kept");
  make_directory(root / "tree/a/b");
  make_directory(root / "tree/empty");
  write_file(root / "tree/a/file", "x");
  write_file(root / "tree/a/b/file", "x");
  REQUIRE(::symlink("../outside", (root / "tree/link").c_str()) == 0);
  REQUIRE(::symlink("nowhere", (root / "tree/a/dangling").c_str()) == 0);
  REQUIRE(::mkfifo((root / "tree/pipe").c_str(), 0600) == 0);

  CHECK(remove_tree(root / "tree").ok());
  CHECK_FALSE(exists(root / "tree"));
  CHECK(testing::read_file(root / "outside/kept") == "kept");
}

TEST_CASE("the top must be a directory, not a link to one") {
  const TemporaryDirectory root;
  make_directory(root / "real/x");
  REQUIRE(::symlink("real", (root / "link").c_str()) == 0);
  CHECK_FALSE(remove_tree(root / "link").ok());
  CHECK(exists(root / "real/x"));
  CHECK(code_of(remove_tree(root / "missing")) == StatusCode::kNotFound);
}

TEST_CASE("a tree deeper than there are descriptors is removed") {
  const TemporaryDirectory root;
  constexpr int kDepth = 100;
  const std::string name(200, 'd');  // longer, as a path, than any path may be
  Descriptor current = open_descriptor(root.path().c_str(), O_RDONLY | O_DIRECTORY);
  for (int i = 0; i < kDepth; ++i) {
    REQUIRE(::mkdirat(current.get(), name.c_str(), 0755) == 0);
    current = open_descriptor_at(current.get(), name.c_str(), O_RDONLY | O_DIRECTORY);
    REQUIRE(static_cast<bool>(current));
  }
  rlimit before;
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &before) == 0);
  const rlimit few{32, before.rlim_max};
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &few) == 0);
  const Status removed = remove_tree(root / name);
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &before) == 0);
  CHECK_MESSAGE(removed.ok(), removed.to_string());
  CHECK(testing::names_in(root.path()).empty());
}

TEST_CASE("a wide tree is removed") {
  const TemporaryDirectory root;
  make_directory(root / "wide");
  for (int i = 0; i < 200; ++i) {
    const std::string child = root / ("wide/" + std::to_string(i));
    REQUIRE(::mkdir(child.c_str(), 0755) == 0);
    write_file(child + "/file", "");
  }
  CHECK(remove_tree(root / "wide").ok());
  CHECK_FALSE(exists(root / "wide"));
}

TEST_CASE("a failure names the entry, and what is above and beside it stays") {
  const TemporaryDirectory root;
  make_directory(root / "tree/locked/inner");
  REQUIRE(::chmod(root.path().c_str(), 0777) == 0);
  REQUIRE(::chmod((root / "tree").c_str(), 0777) == 0);
  REQUIRE(::chmod((root / "tree/locked").c_str(), 0555) == 0);
  {
    const testing::Unprivileged nobody;
    const Status removed = remove_tree(root / "tree");
    CHECK(code_of(removed) == StatusCode::kPermissionDenied);
    CHECK(removed.path() == root / "tree/locked/inner");
  }
  CHECK(exists(root / "tree/locked/inner"));
}

TEST_CASE("several threads may remove the same tree") {
  for (int round = 0; round < 8; ++round) {
    const TemporaryDirectory root;
    for (int i = 0; i < 20; ++i) make_directory(root / ("tree/" + std::to_string(i) + "/a/b"));
    std::vector<std::thread> removers;
    std::atomic<int> failures = 0;
    for (int i = 0; i < 4; ++i) {
      removers.emplace_back([&] {
        const Status removed = remove_tree(root / "tree");
        if (!removed.ok() && removed.code() != StatusCode::kNotFound) ++failures;
      });
    }
    for (std::thread& remover : removers) remover.join();
    CHECK(failures == 0);
    CHECK_FALSE(exists(root / "tree"));
  }
}

}  // namespace
}  // namespace hflush::local
