// The rows of RENAME-1 … RENAME-26 that hold below the bindings.
#include "hflush/local/rename.h"

#include <atomic>
#include <thread>
#include <vector>

#include "local/testing.h"

namespace hflush::local {
namespace {

using testing::code_of;
using testing::exists;
using testing::facts_of;
using testing::is_directory;
using testing::make_directory;
using testing::names_in;
using testing::read_file;
using testing::TemporaryDirectory;
using testing::write_file;

// Where rename_into() says the source went; fails the test if it did not go.
std::string renamed(const std::string& source, const std::string& destination) {
  auto moved = rename_into(source, destination);
  REQUIRE_MESSAGE(moved.ok(), moved.status().to_string());
  return *moved;
}

constexpr Existing kBoth[] = {Existing::kRefuse, Existing::kReplace};

// --- FileSystem.rename -------------------------------------------------------------------------

TEST_CASE("rename: a file takes a free name and keeps its time") {
  const TemporaryDirectory root;
  write_file(root / "a", "content");
  make_directory(root / "dir");
  const timespec before = facts_of(root / "a").st_mtim;
  CHECK(renamed(root / "a", root / "b") == root / "b");
  CHECK(renamed(root / "b", root / "dir/c") == root / "dir/c");
  CHECK(read_file(root / "dir/c") == "content");
  CHECK(names_in(root.path()) == std::set<std::string>{"dir"});
  const timespec after = facts_of(root / "dir/c").st_mtim;
  CHECK(after.tv_sec == before.tv_sec);
  CHECK(after.tv_nsec == before.tv_nsec);
}

TEST_CASE("rename: a missing source is an error, and makes nothing") {
  const TemporaryDirectory root;
  write_file(root / "file", "x");
  CHECK(code_of(rename_into(root / "missing", root / "p/q/b")) == StatusCode::kNotFound);
  CHECK(code_of(rename_into(root / "missing", root / "missing")) == StatusCode::kNotFound);
  CHECK(code_of(rename_into(root / "file/below", root / "b")) == StatusCode::kNotFound);
  CHECK(names_in(root.path()) == std::set<std::string>{"file"});
}

TEST_CASE("rename: an existing file is replaced") {
  const TemporaryDirectory root;
  write_file(root / "a", "new");
  write_file(root / "b", "old");
  CHECK(renamed(root / "a", root / "b") == root / "b");
  CHECK(read_file(root / "b") == "new");
  CHECK_FALSE(exists(root / "a"));
}

TEST_CASE("rename: a file goes into a directory, empty or not, and replaces its namesake there") {
  const TemporaryDirectory root;
  make_directory(root / "dir");
  write_file(root / "a", "one");
  CHECK(renamed(root / "a", root / "dir") == root / "dir/a");
  write_file(root / "a", "two");
  CHECK(renamed(root / "a", root / "dir") == root / "dir/a");
  CHECK(read_file(root / "dir/a") == "two");
}

TEST_CASE("rename: a file does not replace a directory of its name in the destination") {
  const TemporaryDirectory root;
  make_directory(root / "dir/a");
  write_file(root / "a", "content");
  CHECK(code_of(rename_into(root / "a", root / "dir")) == StatusCode::kPathIsDirectory);
  CHECK(read_file(root / "a") == "content");
  CHECK(is_directory(root / "dir/a"));
}

TEST_CASE("rename: a directory goes into one that is not empty") {
  const TemporaryDirectory root;
  make_directory(root / "src/sub");
  write_file(root / "src/sub/file", "x");
  make_directory(root / "dst");
  write_file(root / "dst/kept", "kept");
  CHECK(renamed(root / "src", root / "dst") == root / "dst/src");
  CHECK(read_file(root / "dst/src/sub/file") == "x");
  CHECK(read_file(root / "dst/kept") == "kept");
  CHECK_FALSE(exists(root / "src"));
}

TEST_CASE("rename: a directory of that name in the destination must be empty") {
  const TemporaryDirectory root;
  make_directory(root / "src/sub");
  make_directory(root / "dst/src/full");
  CHECK(code_of(rename_into(root / "src", root / "dst")) == StatusCode::kNotEmpty);
  CHECK(exists(root / "src/sub"));
  CHECK(exists(root / "dst/src/full"));
}

TEST_CASE("rename: a directory replaces an empty one") {
  const TemporaryDirectory root;
  make_directory(root / "src/sub");
  make_directory(root / "dst");
  CHECK(renamed(root / "src", root / "dst") == root / "dst");
  CHECK(names_in(root / "dst") == std::set<std::string>{"sub"});
  CHECK_FALSE(exists(root / "src"));
}

TEST_CASE("rename: missing parents of the destination are made") {
  const TemporaryDirectory root;
  write_file(root / "a", "x");
  CHECK(renamed(root / "a", root / "p/q/a") == root / "p/q/a");
  CHECK(read_file(root / "p/q/a") == "x");
}

TEST_CASE("rename: nothing goes below a file") {
  const TemporaryDirectory root;
  write_file(root / "a", "a");
  write_file(root / "file", "file");
  make_directory(root / "dir");
  for (const char* source : {"a", "dir"}) {
    CHECK(code_of(rename_into(root / source, root / "file/x")) == StatusCode::kParentNotDirectory);
    CHECK(code_of(rename_into(root / source, root / "file/x/y")) ==
          StatusCode::kParentNotDirectory);
  }
  CHECK(code_of(rename_into(root / "a", root / "a/b")) == StatusCode::kParentNotDirectory);
  CHECK(read_file(root / "a") == "a");
  CHECK(read_file(root / "file") == "file");
  CHECK(is_directory(root / "dir"));
}

TEST_CASE("rename: a directory does not go below itself, but beside a longer name") {
  const TemporaryDirectory root;
  make_directory(root / "a/b");
  for (const char* below : {"a/b", "a/c", "a/b/c", "a/x/y"}) {
    CAPTURE(below);
    const auto moved = rename_into(root / "a", root / below);
    CHECK(code_of(moved) == StatusCode::kIo);
    CHECK(moved.status().error_number() == EINVAL);
  }
  CHECK(names_in(root / "a") == std::set<std::string>{"b"});
  CHECK(names_in(root / "a/b").empty());
  CHECK(renamed(root / "a", root / "ab") == root / "ab");
}

TEST_CASE("rename: a directory does not replace a file") {
  const TemporaryDirectory root;
  make_directory(root / "dir/sub");
  write_file(root / "file", "content");
  CHECK(code_of(rename_into(root / "dir", root / "file")) == StatusCode::kAlreadyExists);
  CHECK(is_directory(root / "dir/sub"));
  CHECK(read_file(root / "file") == "content");
}

TEST_CASE("rename: the root stays where it is") {
  const TemporaryDirectory root;
  CHECK(code_of(rename_into("/", root / "x")) == StatusCode::kPermissionDenied);
  CHECK(names_in(root.path()).empty());
}

TEST_CASE("rename: to itself, or into where it is, changes nothing") {
  const TemporaryDirectory root;
  make_directory(root / "dir/sub");
  write_file(root / "dir/file", "x");
  CHECK(renamed(root / "dir/file", root / "dir/file") == root / "dir/file");
  CHECK(renamed(root / "dir/sub", root / "dir/sub") == root / "dir/sub");
  CHECK(renamed(root / "dir/file", root / "dir") == root / "dir/file");
  CHECK(renamed(root / "dir/sub", root / "dir") == root / "dir/sub");
  CHECK(names_in(root / "dir") == std::set<std::string>{"file", "sub"});
}

TEST_CASE("rename: a link moves as a link, and a link to a directory is a destination") {
  const TemporaryDirectory root;
  make_directory(root / "real");
  REQUIRE(::symlink("real", (root / "link").c_str()) == 0);
  write_file(root / "a", "x");
  CHECK(renamed(root / "a", root / "link") == root / "link/a");
  CHECK(read_file(root / "real/a") == "x");
  CHECK(renamed(root / "link", root / "moved") == root / "moved");
  CHECK(S_ISLNK(facts_of(root / "moved").st_mode));
  CHECK(exists(root / "real/a"));
}

TEST_CASE("rename: a directory onto a link to a directory goes into what it leads to") {
  const TemporaryDirectory root;
  make_directory(root / "real");
  make_directory(root / "src/sub");
  REQUIRE(::symlink("real", (root / "link").c_str()) == 0);
  CHECK(renamed(root / "src", root / "link") == root / "link/src");
  CHECK(is_directory(root / "real/src/sub"));
}

TEST_CASE("rename: without permission nothing changes") {
  const TemporaryDirectory root;
  write_file(root / "a", "x");
  REQUIRE(::chmod(root.path().c_str(), 0555) == 0);
  {
    const testing::Unprivileged nobody;
    CHECK(code_of(rename_into(root / "a", root / "b")) == StatusCode::kPermissionDenied);
    for (const Existing existing : kBoth) {
      CHECK(code_of(rename_exactly(root / "a", root / "b", existing)) ==
            StatusCode::kPermissionDenied);
    }
  }
  CHECK(names_in(root.path()) == std::set<std::string>{"a"});
}

TEST_CASE("both renames refuse to put a link in the place of the file that it leads to") {
  const TemporaryDirectory root;
  make_directory(root / "dir");
  write_file(root / "dir/link", "content");
  REQUIRE(::symlink("dir/link", (root / "link").c_str()) == 0);
  for (const std::string& destination : {root / "dir/link", root / "dir"}) {
    CHECK(code_of(rename_into(root / "link", destination)) == StatusCode::kAlreadyExists);
  }
  for (const Existing existing : kBoth) {
    CHECK(code_of(rename_exactly(root / "link", root / "dir/link", existing)) ==
          StatusCode::kAlreadyExists);
  }
  CHECK(read_file(root / "link") == "content");
}

TEST_CASE("both renames refuse to cross file systems and keep the source") {
  const TemporaryDirectory root;
  if (!is_directory("/dev/shm") || ::access("/dev/shm", W_OK) != 0 ||
      facts_of("/dev/shm").st_dev == facts_of(root.path()).st_dev) {
    MESSAGE("not run: there is no second file system at /dev/shm");
    return;
  }
  const TemporaryDirectory other("/dev/shm");
  write_file(root / "a", "content");
  const auto moved = rename_into(root / "a", other / "a");
  CHECK(code_of(moved) == StatusCode::kIo);
  CHECK(moved.status().error_number() == EXDEV);
  for (const Existing existing : kBoth) {
    CHECK(rename_exactly(root / "a", other / "a", existing).error_number() == EXDEV);
  }
  CHECK(read_file(root / "a") == "content");
  CHECK(names_in(other.path()).empty());
}

// --- FileContext.rename ------------------------------------------------------------------------

TEST_CASE("exact rename: a file and a directory take a free name in both modes") {
  for (const Existing existing : kBoth) {
    const TemporaryDirectory root;
    write_file(root / "a", "content");
    make_directory(root / "dir/sub");
    CHECK(rename_exactly(root / "a", root / "b", existing).ok());
    CHECK(rename_exactly(root / "dir", root / "moved", existing).ok());
    CHECK(read_file(root / "b") == "content");
    CHECK(names_in(root.path()) == std::set<std::string>{"b", "moved"});
    CHECK(is_directory(root / "moved/sub"));
  }
}

TEST_CASE("exact rename: an existing file is refused, or replaced if that is asked for") {
  const TemporaryDirectory root;
  write_file(root / "a", "new");
  write_file(root / "b", "old");
  const Status refused = rename_exactly(root / "a", root / "b", Existing::kRefuse);
  CHECK(code_of(refused) == StatusCode::kAlreadyExists);
  CHECK(refused.path() == root / "b");
  CHECK(read_file(root / "a") == "new");
  CHECK(read_file(root / "b") == "old");
  CHECK(rename_exactly(root / "a", root / "b", Existing::kReplace).ok());
  CHECK(read_file(root / "b") == "new");
  CHECK_FALSE(exists(root / "a"));
}

TEST_CASE("exact rename: a missing source is an error in both modes") {
  const TemporaryDirectory root;
  write_file(root / "b", "old");
  for (const Existing existing : kBoth) {
    CHECK(code_of(rename_exactly(root / "a", root / "b", existing)) == StatusCode::kNotFound);
    CHECK(code_of(rename_exactly(root / "a", root / "a", existing)) == StatusCode::kNotFound);
  }
  CHECK(read_file(root / "b") == "old");
}

TEST_CASE("exact rename: the parent must exist and be a directory") {
  const TemporaryDirectory root;
  write_file(root / "a", "content");
  write_file(root / "file", "x");
  for (const Existing existing : kBoth) {
    const Status missing = rename_exactly(root / "a", root / "p/a", existing);
    CHECK(code_of(missing) == StatusCode::kNotFound);
    CHECK(missing.path() == root / "p");
    CHECK(code_of(rename_exactly(root / "a", root / "file/a", existing)) ==
          StatusCode::kParentNotDirectory);
    CHECK(code_of(rename_exactly(root / "a", root / "a/b", existing)) ==
          StatusCode::kParentNotDirectory);
  }
  CHECK(read_file(root / "a") == "content");
  CHECK(names_in(root.path()) == std::set<std::string>{"a", "file"});
}

TEST_CASE("exact rename: to itself is refused in both modes, for files and directories") {
  const TemporaryDirectory root;
  write_file(root / "a", "content");
  make_directory(root / "dir/sub");
  for (const Existing existing : kBoth) {
    CHECK(code_of(rename_exactly(root / "a", root / "a", existing)) == StatusCode::kAlreadyExists);
    CHECK(code_of(rename_exactly(root / "dir", root / "dir", existing)) ==
          StatusCode::kAlreadyExists);
  }
  CHECK(read_file(root / "a") == "content");
  CHECK(is_directory(root / "dir/sub"));
}

TEST_CASE("exact rename: a file and a directory never replace each other") {
  const TemporaryDirectory root;
  write_file(root / "file", "content");
  make_directory(root / "dir");
  CHECK(code_of(rename_exactly(root / "file", root / "dir", Existing::kRefuse)) ==
        StatusCode::kAlreadyExists);
  CHECK(code_of(rename_exactly(root / "dir", root / "file", Existing::kRefuse)) ==
        StatusCode::kAlreadyExists);
  CHECK(code_of(rename_exactly(root / "file", root / "dir", Existing::kReplace)) ==
        StatusCode::kPathIsDirectory);
  CHECK(code_of(rename_exactly(root / "dir", root / "file", Existing::kReplace)) ==
        StatusCode::kAlreadyExists);
  CHECK(read_file(root / "file") == "content");
  CHECK(names_in(root / "dir").empty());
}

TEST_CASE("exact rename: a directory onto an empty one, and onto a full one") {
  const TemporaryDirectory root;
  make_directory(root / "src/sub");
  make_directory(root / "empty");
  make_directory(root / "full/kept");
  CHECK(code_of(rename_exactly(root / "src", root / "empty", Existing::kRefuse)) ==
        StatusCode::kAlreadyExists);
  CHECK(code_of(rename_exactly(root / "src", root / "full", Existing::kRefuse)) ==
        StatusCode::kAlreadyExists);
  CHECK(code_of(rename_exactly(root / "src", root / "full", Existing::kReplace)) ==
        StatusCode::kNotEmpty);
  CHECK(exists(root / "full/kept"));
  CHECK(rename_exactly(root / "src", root / "empty", Existing::kReplace).ok());
  CHECK(names_in(root / "empty") == std::set<std::string>{"sub"});
}

TEST_CASE("exact rename: neither from nor to the root, and never below itself") {
  const TemporaryDirectory root;
  make_directory(root / "dir/sub");
  for (const Existing existing : kBoth) {
    CHECK(code_of(rename_exactly("/", root / "x", existing)) == StatusCode::kPermissionDenied);
    CHECK(code_of(rename_exactly(root / "dir", "/", existing)) == StatusCode::kPermissionDenied);
    CHECK(rename_exactly(root / "dir", root / "dir/x", existing).error_number() == EINVAL);
    CHECK(rename_exactly(root / "dir", root / "dir/sub/x", existing).error_number() == EINVAL);
  }
  CHECK(names_in(root / "dir") == std::set<std::string>{"sub"});
}

TEST_CASE("of many threads that rename to one name without replacing, one wins") {
  const TemporaryDirectory root;
  constexpr int kThreads = 8;
  for (int round = 0; round < 25; ++round) {
    const std::string destination = root / ("winner" + std::to_string(round));
    for (int i = 0; i < kThreads; ++i) write_file(root / std::to_string(i), std::to_string(i));
    std::atomic<int> wins = 0;
    std::atomic<int> refusals = 0;
    std::atomic<int> winner = -1;
    std::vector<std::thread> renamers;
    for (int i = 0; i < kThreads; ++i) {
      renamers.emplace_back([&, i] {
        const Status done =
            rename_exactly(root / std::to_string(i), destination, Existing::kRefuse);
        if (done.ok()) {
          ++wins;
          winner = i;
        } else if (done.code() == StatusCode::kAlreadyExists) {
          ++refusals;
        }
      });
    }
    for (std::thread& renamer : renamers) renamer.join();
    CHECK(wins == 1);
    CHECK(refusals == kThreads - 1);
    CHECK(read_file(destination) == std::to_string(winner));
  }
}

TEST_CASE("replacing leaves no instant without a file, nor with a part of one") {
  const TemporaryDirectory root;
  const std::string contents[] = {std::string(9000, 'a'), std::string(9000, 'b')};
  write_file(root / "target", contents[0]);
  std::atomic<bool> done = false;
  std::atomic<int> faults = 0;
  std::thread reader([&] {
    while (!done) {
      std::ifstream file(root / "target", std::ios::binary);
      const std::string seen{std::istreambuf_iterator<char>(file), {}};
      if (seen != contents[0] && seen != contents[1]) ++faults;
    }
  });
  for (int i = 0; i < 200; ++i) {
    write_file(root / "next", contents[i % 2]);
    if (!rename_exactly(root / "next", root / "target", Existing::kReplace).ok()) ++faults;
  }
  done = true;
  reader.join();
  CHECK(faults == 0);
}

TEST_CASE("in steps: what a file system without a refusing rename gets") {
  const TemporaryDirectory root;
  write_file(root / "a", "a");
  write_file(root / "b", "b");
  make_directory(root / "dir");
  CHECK(code_of(rename_in_steps(root / "a", root / "b")) == StatusCode::kAlreadyExists);
  CHECK(code_of(rename_in_steps(root / "a", root / "dir")) == StatusCode::kAlreadyExists);
  CHECK(code_of(rename_in_steps(root / "missing", root / "c")) == StatusCode::kNotFound);
  CHECK(code_of(rename_in_steps(root / "a", root / "p/c")) == StatusCode::kNotFound);
  CHECK(read_file(root / "a") == "a");
  CHECK(read_file(root / "b") == "b");
  CHECK(rename_in_steps(root / "a", root / "c").ok());
  CHECK(read_file(root / "c") == "a");
  CHECK(names_in(root.path()) == std::set<std::string>{"b", "c", "dir"});
}

TEST_CASE("in steps: a directory replaces only what was made for it") {
  const TemporaryDirectory root;
  make_directory(root / "dir/below");
  make_directory(root / "empty");
  write_file(root / "file", "x");
  CHECK(code_of(rename_in_steps(root / "dir", root / "empty")) == StatusCode::kAlreadyExists);
  CHECK(code_of(rename_in_steps(root / "dir", root / "file")) == StatusCode::kAlreadyExists);
  CHECK(code_of(rename_in_steps(root / "dir", root / "p/c")) == StatusCode::kNotFound);
  CHECK_FALSE(rename_in_steps(root / "dir", root / "dir/below/c").ok());
  CHECK(names_in(root / "dir/below").empty());
  CHECK(rename_in_steps(root / "dir", root / "c").ok());
  CHECK(is_directory(root / "c/below"));
  CHECK(names_in(root.path()) == std::set<std::string>{"c", "empty", "file"});
}

}  // namespace
}  // namespace hflush::local
