// The raw name space: status, listing, deletion, attributes, truncation (DELETE, STATUS, TIME,
// EXTRA-2).
#include "hflush/local/namespace.h"

#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

#include "hflush/local/owners.h"
#include "local/testing.h"

namespace hflush::local {
namespace {

using testing::code_of;
using testing::exists;
using testing::facts_of;
using testing::make_directory;
using testing::mode_of;
using testing::names_in;
using testing::read_file;
using testing::TemporaryDirectory;
using testing::Unprivileged;
using testing::write_file;

const Namespace names;

LocalStatus status_of(const std::string& path) {
  auto status = names.status(path);
  REQUIRE_MESSAGE(status.ok(), status.status().to_string());
  return *std::move(status);
}

std::vector<LocalStatus> listed(const std::string& path) {
  auto entries = names.list(path);
  REQUIRE_MESSAGE(entries.ok(), entries.status().to_string());
  std::sort(entries->begin(), entries->end(),
            [](const LocalStatus& a, const LocalStatus& b) { return a.path < b.path; });
  return *std::move(entries);
}

bool equal(const LocalStatus& a, const LocalStatus& b) {
  return a.path == b.path && a.length == b.length && a.kind == b.kind && a.mode == b.mode &&
         a.mtime_ns == b.mtime_ns && a.owner == b.owner && a.group == b.group &&
         a.device == b.device && a.inode == b.inode;
}

TEST_CASE("status of a file and of a directory") {
  const TemporaryDirectory root;
  write_file(root / "file", "12345");
  REQUIRE(::chmod((root / "file").c_str(), 0640) == 0);
  const LocalStatus file = status_of(root / "file");
  CHECK(file.path == root / "file");
  CHECK(file.length == 5);
  CHECK(to_string(file.kind) == "file");
  CHECK(file.mode == 0640);
  CHECK(file.owner == user_name(::geteuid()));
  CHECK(file.inode == facts_of(root / "file").st_ino);

  make_directory(root / "dir/sub");
  const LocalStatus directory = status_of(root / "dir");
  CHECK(directory.kind == Kind::kDirectory);
  CHECK(directory.length == 0);
  CHECK(status_of("/").kind == Kind::kDirectory);
}

TEST_CASE("status of what is missing, below a file too, is not found") {
  const TemporaryDirectory root;
  write_file(root / "file", "x");
  for (const char* path : {"missing", "missing/x", "file/x"}) {
    CAPTURE(path);
    CHECK(code_of(names.status(root / path)) == StatusCode::kNotFound);
    CHECK(code_of(names.list(root / path)) == StatusCode::kNotFound);
  }
}

TEST_CASE("links are followed; one that cannot be is reported as a link") {
  const TemporaryDirectory root;
  write_file(root / "file", "12345");
  REQUIRE(::symlink("file", (root / "link").c_str()) == 0);
  REQUIRE(::symlink("nowhere", (root / "dangling").c_str()) == 0);
  REQUIRE(::symlink("loop", (root / "loop").c_str()) == 0);
  CHECK(status_of(root / "link").kind == Kind::kFile);
  CHECK(status_of(root / "link").length == 5);
  CHECK(status_of(root / "dangling").kind == Kind::kSymlink);
  CHECK(status_of(root / "dangling").length == 0);
  CHECK(status_of(root / "loop").kind == Kind::kSymlink);
  CHECK(listed(root.path()).size() == 4);
  CHECK(listed(root / "dangling").size() == 1);
}

TEST_CASE("a pipe has a status of its own and is never opened") {
  const TemporaryDirectory root;
  REQUIRE(::mkfifo((root / "pipe").c_str(), 0600) == 0);
  CHECK(status_of(root / "pipe").kind == Kind::kOther);
  CHECK(listed(root / "pipe").size() == 1);
  CHECK(listed(root.path()).size() == 1);
  CHECK(code_of(names.open(root / "pipe")) == StatusCode::kUnsupported);
  CHECK(code_of(names.truncate(root / "pipe", 0)) == StatusCode::kUnsupported);
  CHECK(status_of("/dev/null").kind == Kind::kOther);
}

TEST_CASE("a listing has the children with their statuses, a file lists itself") {
  const TemporaryDirectory root;
  CHECK(listed(root.path()).empty());
  write_file(root / "a", "1");
  write_file(root / ".b.crc", "22");
  make_directory(root / "c/below");
  const auto entries = listed(root.path());
  REQUIRE(entries.size() == 3);
  for (const LocalStatus& entry : entries) CHECK(equal(entry, status_of(entry.path)));
  const auto own = listed(root / "a");
  REQUIRE(own.size() == 1);
  CHECK(equal(own[0], status_of(root / "a")));
  CHECK(std::any_of(entries.begin(), entries.end(),
                    [&](const LocalStatus& entry) { return entry.path == root / ".b.crc"; }));
}

TEST_CASE("names survive byte by byte") {
  const TemporaryDirectory root;
  const std::set<std::string> odd = {"a:b", "a b%20", "\xff\xfe", "日本", "#?*[]", "line\nbreak"};
  for (const std::string& name : odd) write_file(root / name, "x");
  std::set<std::string> seen;
  for (const LocalStatus& entry : listed(root.path())) {
    seen.insert(entry.path.substr(root.path().size() + 1));
  }
  CHECK(seen == odd);
}

TEST_CASE("a listing survives entries that come and go") {
  const TemporaryDirectory root;
  write_file(root / "stays", "x");
  std::atomic<bool> done = false;
  std::thread changer([&] {
    for (int i = 0; i < 1500; ++i) {
      const std::string path = root / ("f" + std::to_string(i % 40));
      if (::unlink(path.c_str()) != 0) write_file(path, "x");
    }
    done = true;
  });
  int failures = 0;
  int misses = 0;
  while (!done) {
    auto entries = names.list(root.path());
    if (!entries.ok()) {
      ++failures;
    } else if (std::none_of(entries->begin(), entries->end(), [&](const LocalStatus& entry) {
                 return entry.path == root / "stays";
               })) {
      ++misses;
    }
  }
  changer.join();
  CHECK(failures == 0);
  CHECK(misses == 0);
}

TEST_CASE("what may not be read is an error, never an empty listing") {
  const TemporaryDirectory root;
  make_directory(root / "closed/x");
  write_file(root / "secret", "x");
  REQUIRE(::chmod((root / "closed").c_str(), 0) == 0);
  REQUIRE(::chmod((root / "secret").c_str(), 0) == 0);
  REQUIRE(::chmod(root.path().c_str(), 0555) == 0);
  const Unprivileged nobody;
  CHECK(code_of(names.list(root / "closed")) == StatusCode::kPermissionDenied);
  CHECK(code_of(names.status(root / "closed/x")) == StatusCode::kPermissionDenied);
  CHECK(code_of(names.open(root / "secret")) == StatusCode::kPermissionDenied);
  CHECK(code_of(names.remove(root / "secret", false)) == StatusCode::kPermissionDenied);
  CHECK(code_of(names.set_owner(root / "secret", "0", std::nullopt)) ==
        StatusCode::kPermissionDenied);
}

TEST_CASE("delete: files, links and empty directories, with either flag") {
  for (const bool recursive : {false, true}) {
    const TemporaryDirectory root;
    write_file(root / "file", "x");
    make_directory(root / "empty");
    make_directory(root / "real/x");
    REQUIRE(::symlink("real", (root / "link").c_str()) == 0);
    REQUIRE(::mkfifo((root / "pipe").c_str(), 0600) == 0);
    for (const char* name : {"file", "empty", "link", "pipe"}) {
      auto removed = names.remove(root / name, recursive);
      REQUIRE(removed.ok());
      CHECK(*removed);
    }
    CHECK(names_in(root.path()) == std::set<std::string>{"real"});
    CHECK(exists(root / "real/x"));
  }
}

TEST_CASE("delete: what is missing is false and no error") {
  const TemporaryDirectory root;
  write_file(root / "file", "x");
  for (const bool recursive : {false, true}) {
    for (const char* name : {"missing", "missing/x", "file/x"}) {
      auto removed = names.remove(root / name, recursive);
      REQUIRE(removed.ok());
      CHECK_FALSE(*removed);
    }
  }
}

TEST_CASE("delete: a directory that is not empty takes the recursive form") {
  const TemporaryDirectory root;
  make_directory(root / "dir/sub");
  write_file(root / "dir/sub/file", "x");
  write_file(root / "beside", "x");
  CHECK(code_of(names.remove(root / "dir", false)) == StatusCode::kNotEmpty);
  CHECK(exists(root / "dir/sub/file"));
  auto removed = names.remove(root / "dir", true);
  REQUIRE(removed.ok());
  CHECK(*removed);
  CHECK(names_in(root.path()) == std::set<std::string>{"beside"});
}

TEST_CASE("delete: the root is refused outright") {
  for (const bool recursive : {false, true}) {
    const auto removed = names.remove("/", recursive);
    CHECK(code_of(removed) == StatusCode::kPermissionDenied);
    CHECK(removed.status().message() == "refusing to delete /");
  }
}

TEST_CASE("permissions are exact") {
  const TemporaryDirectory root;
  write_file(root / "file", "x");
  const testing::Umask everything(0777);
  CHECK(names.set_permission(root / "file", 01751).ok());
  CHECK(mode_of(root / "file") == 01751);
  CHECK(code_of(names.set_permission(root / "missing", 0)) == StatusCode::kNotFound);
  CHECK(code_of(names.set_permission(root / "file/x", 0)) == StatusCode::kNotFound);
}

TEST_CASE("owner and group are set by name or number, and kept where none is given") {
  const TemporaryDirectory root;
  write_file(root / "file", "x");
  const LocalStatus before = status_of(root / "file");
  CHECK(names.set_owner(root / "file", before.owner, before.group).ok());
  CHECK(names.set_owner(root / "file", std::to_string(::geteuid()), std::nullopt).ok());
  CHECK(names.set_owner(root / "file", std::nullopt, std::nullopt).ok());
  CHECK(equal(status_of(root / "file"), before));
  CHECK(code_of(names.set_owner(root / "file", "no such user", std::nullopt)) ==
        StatusCode::kInvalidArgument);
  CHECK(code_of(names.set_owner(root / "missing", std::nullopt, std::nullopt)) ==
        StatusCode::kNotFound);
  if (::geteuid() == 0) {
    CHECK(names.set_owner(root / "file", "12345", "54321").ok());
    CHECK(status_of(root / "file").owner == "12345");
    CHECK(status_of(root / "file").group == "54321");
  }
}

TEST_CASE("times are set to the nanosecond, before the epoch too, or left") {
  const TemporaryDirectory root;
  write_file(root / "file", "x");
  CHECK(names.set_times(root / "file", 1'234'567'890'123'456'789, 987'654'321'000'000'001).ok());
  CHECK(status_of(root / "file").mtime_ns == 1'234'567'890'123'456'789);
  CHECK(status_of(root / "file").atime_ns == 987'654'321'000'000'001);
  CHECK(names.set_times(root / "file", 0, std::nullopt).ok());
  CHECK(status_of(root / "file").mtime_ns == 0);
  CHECK(status_of(root / "file").atime_ns == 987'654'321'000'000'001);
  CHECK(names.set_times(root / "file", std::nullopt, -1).ok());
  CHECK(status_of(root / "file").mtime_ns == 0);
  CHECK(status_of(root / "file").atime_ns == -1);
  CHECK(names.set_times(root / "file", std::nullopt, std::nullopt).ok());
  CHECK(code_of(names.set_times(root / "missing", 0, 0)) == StatusCode::kNotFound);
  CHECK(code_of(names.set_times(root / "missing", std::nullopt, std::nullopt)) ==
        StatusCode::kNotFound);
}

TEST_CASE("truncate: to any shorter length, the head stays") {
  const TemporaryDirectory root;
  std::string content;
  for (int i = 0; i < 1025; ++i) content += static_cast<char>(i % 251);
  for (const std::size_t length : {0U, 1U, 511U, 512U, 513U, 1024U, 1025U}) {
    write_file(root / "file", content);
    CHECK(names.truncate(root / "file", static_cast<std::int64_t>(length)).ok());
    CHECK(read_file(root / "file") == content.substr(0, length));
  }
}

TEST_CASE("truncate: the present length changes nothing, a shorter one the time") {
  const TemporaryDirectory root;
  write_file(root / "file", "12345");
  REQUIRE(names.set_times(root / "file", 1'000'000'000, std::nullopt).ok());
  CHECK(names.truncate(root / "file", 5).ok());
  CHECK(status_of(root / "file").mtime_ns == 1'000'000'000);
  CHECK(names.truncate(root / "file", 4).ok());
  CHECK(status_of(root / "file").mtime_ns > 1'000'000'000);
}

TEST_CASE("truncate: refusals change nothing") {
  const TemporaryDirectory root;
  write_file(root / "file", "12345");
  CHECK(code_of(names.truncate(root / "file", -1)) == StatusCode::kInvalidArgument);
  CHECK(code_of(names.truncate(root / "file", 6)) == StatusCode::kInvalidArgument);
  CHECK(code_of(names.truncate(root / "missing", 0)) == StatusCode::kNotFound);
  CHECK(code_of(names.truncate(root.path(), 0)) == StatusCode::kNotAFile);
  CHECK(read_file(root / "file") == "12345");
}

TEST_CASE("the file system has room, and uses some") {
  const TemporaryDirectory root;
  auto space = names.fs_status(root.path());
  REQUIRE(space.ok());
  CHECK(space->capacity > 0);
  CHECK(space->used <= space->capacity);
  CHECK(space->remaining <= space->capacity - space->used);
  CHECK(code_of(names.fs_status(root / "missing")) == StatusCode::kNotFound);
}

TEST_CASE("mkdirs and both renames are those of their own files") {
  const TemporaryDirectory root;
  CHECK(code_of(names.mkdirs(root / "a/b", 0755, false)) == StatusCode::kNotFound);
  CHECK(names.mkdirs(root / "a/b", 0755, true).ok());
  CHECK(names.rename(root / "a/b", root / "c").ok());
  CHECK(names.rename_exact(root / "c", root / "d", Existing::kRefuse).ok());
  CHECK(names_in(root.path()) == std::set<std::string>{"a", "d"});
}

}  // namespace
}  // namespace hflush::local
