// Sidecars follow their files and stay unseen: LOCAL-8, LOCAL-15, RENAME-25, DELETE-9,
// STATUS-10/11.
#include "hflush/local/checksum_namespace.h"

#include <atomic>
#include <thread>
#include <vector>

#include "local/checksummed_files.h"

namespace hflush::local {
namespace {

using testing::code_of;
using testing::exists;
using testing::make_directory;
using testing::mode_of;
using testing::names_in;
using testing::sidecar_of;
using testing::TemporaryDirectory;
using testing::write_checksummed;
using testing::write_file;

using Names = std::set<std::string>;

const ChecksumNamespace names;

Names listed(const std::string& path) {
  auto entries = names.list(path);
  REQUIRE_MESSAGE(entries.ok(), entries.status().to_string());
  Names found;
  for (const LocalStatus& entry : *entries) found.insert(entry.path.substr(path.size() + 1));
  return found;
}

// The content of a file, as a verifying reader has it.
Result<std::string> verified(const std::string& path) {
  HFLUSH_ASSIGN_OR_RETURN(const auto file, names.open(path, true));
  std::string text(100'000, '?');
  env::Uninterrupted interrupt;
  HFLUSH_ASSIGN_OR_RETURN(const std::size_t got,
                          file->read_at(0, std::as_writable_bytes(std::span(text)), interrupt));
  return text.substr(0, got);
}

std::string content_of(const std::string& path) {
  auto content = verified(path);
  REQUIRE_MESSAGE(content.ok(), content.status().to_string());
  return *std::move(content);
}

// Both renames have to treat sidecars alike: moves `source` to `destination`.
using Rename = Status (*)(const std::string& source, const std::string& destination);
constexpr Rename kRenames[] = {
    [](const std::string& source, const std::string& destination) {
      return names.rename(source, destination).status();
    },
    [](const std::string& source, const std::string& destination) {
      return names.rename_exact(source, destination, Existing::kReplace);
    },
};

TEST_CASE("listings show every file and no sidecar") {
  const TemporaryDirectory root;
  for (const char* name : {"a", "x.crc", ".hidden"}) write_checksummed(root / name, name);
  make_directory(root / "dir");
  CHECK(names_in(root.path()).size() == 7);
  CHECK(listed(root.path()) == Names{"a", "x.crc", ".hidden", "dir"});
  auto own = names.list(root / "a");
  REQUIRE(own.ok());
  CHECK(own->size() == 1);
  CHECK(names.status(root / "a")->length == 1);
  CHECK(code_of(names.list(root / "missing")) == StatusCode::kNotFound);
}

TEST_CASE("a file takes its sidecar to a free name") {
  for (const Rename rename : kRenames) {
    const TemporaryDirectory root;
    write_checksummed(root / "a", "content");
    make_directory(root / "dir");
    CHECK(rename(root / "a", root / "dir/b").ok());
    CHECK(names_in(root / "dir") == Names{"b", ".b.crc"});
    CHECK(names_in(root.path()) == Names{"dir"});
    CHECK(content_of(root / "dir/b") == "content");
  }
  const TemporaryDirectory root;
  write_checksummed(root / "a", "content");
  CHECK(names.rename_exact(root / "a", root / "b", Existing::kRefuse).ok());
  CHECK(names_in(root.path()) == Names{"b", ".b.crc"});
}

TEST_CASE("a file takes its sidecar into a directory and to new parents") {
  const TemporaryDirectory root;
  make_directory(root / "dir");
  write_checksummed(root / "a", "content");
  auto moved = names.rename(root / "a", root / "dir");
  REQUIRE(moved.ok());
  CHECK(*moved == root / "dir/a");
  CHECK(names_in(root / "dir") == Names{"a", ".a.crc"});
  CHECK(names.rename(root / "dir/a", root / "p/q/a").ok());
  CHECK(names_in(root / "p/q") == Names{"a", ".a.crc"});
  CHECK(names_in(root / "dir").empty());
  CHECK(content_of(root / "p/q/a") == "content");
}

TEST_CASE("a file replaces another and its sidecar, whether there is one or not") {
  for (const Rename rename : kRenames) {
    for (const bool destination_has_one : {true, false}) {
      const TemporaryDirectory root;
      write_checksummed(root / "a", "new");
      write_checksummed(root / "b", "the old content");
      if (!destination_has_one) REQUIRE(::unlink(sidecar_of(root / "b").c_str()) == 0);
      CHECK(rename(root / "a", root / "b").ok());
      CHECK(names_in(root.path()) == Names{"b", ".b.crc"});
      CHECK(content_of(root / "b") == "new");
    }
  }
}

TEST_CASE("a file without a sidecar removes the one of the file it replaces") {
  for (const Rename rename : kRenames) {
    const TemporaryDirectory root;
    write_file(root / "a", "new");
    write_checksummed(root / "b", "the old content");
    CHECK(rename(root / "a", root / "b").ok());
    CHECK(names_in(root.path()) == Names{"b"});
    CHECK(content_of(root / "b") == "new");
  }
}

TEST_CASE("a file without a sidecar takes a free name that a stale one has, and removes it") {
  for (const Existing existing : {Existing::kRefuse, Existing::kReplace}) {
    const TemporaryDirectory root;
    write_file(root / "a", "new");
    write_file(sidecar_of(root / "b"), "stale");
    CHECK(names.rename_exact(root / "a", root / "b", existing).ok());
    CHECK(names_in(root.path()) == Names{"b"});
  }
}

TEST_CASE("a file renamed to itself keeps its sidecar") {
  const TemporaryDirectory root;
  write_checksummed(root / "a", "content");
  CHECK(names.rename(root / "a", root / "a").ok());
  CHECK(names.rename(root / "a", root.path()).ok());
  CHECK(code_of(names.rename_exact(root / "a", root / "a", Existing::kReplace)) ==
        StatusCode::kAlreadyExists);
  CHECK(names_in(root.path()) == Names{"a", ".a.crc"});
  CHECK(content_of(root / "a") == "content");
}

TEST_CASE("a directory takes all sidecars in it, and none beside it") {
  for (const Rename rename : kRenames) {
    const TemporaryDirectory root;
    make_directory(root / "dir");
    write_checksummed(root / "dir/a", "content");
    CHECK(rename(root / "dir", root / "moved").ok());
    CHECK(names_in(root.path()) == Names{"moved"});
    CHECK(names_in(root / "moved") == Names{"a", ".a.crc"});
  }
}

TEST_CASE("a refused rename leaves both files and both sidecars") {
  const TemporaryDirectory root;
  write_checksummed(root / "a", "a");
  write_checksummed(root / "b", "b");
  make_directory(root / "dir/sub");
  const Names before = names_in(root.path());
  CHECK(code_of(names.rename_exact(root / "a", root / "b", Existing::kRefuse)) ==
        StatusCode::kAlreadyExists);
  CHECK(code_of(names.rename_exact(root / "a", root / "dir", Existing::kReplace)) ==
        StatusCode::kPathIsDirectory);
  CHECK_FALSE(names.rename(root / "dir", root / "a").ok());
  CHECK(code_of(names.rename(root / "missing", root / "a")) == StatusCode::kNotFound);
  CHECK(code_of(names.rename(root / "a", root / "b/c")) == StatusCode::kParentNotDirectory);
  CHECK(names_in(root.path()) == before);
  CHECK(content_of(root / "a") == "a");
  CHECK(content_of(root / "b") == "b");
}

TEST_CASE("without permission a rename changes nothing") {
  const TemporaryDirectory root;
  make_directory(root / "open");
  write_checksummed(root / "a", "a");
  write_checksummed(root / "open/b", "b");
  REQUIRE(::chmod(root.path().c_str(), 0555) == 0);
  REQUIRE(::chmod((root / "open").c_str(), 0777) == 0);
  {
    const testing::Unprivileged nobody;
    for (const Rename rename : kRenames) {
      CHECK(code_of(rename(root / "a", root / "open/b")) == StatusCode::kPermissionDenied);
    }
  }
  CHECK(content_of(root / "a") == "a");
  CHECK(content_of(root / "open/b") == "b");
  CHECK(names_in(root / "open") == Names{"b", ".b.crc"});
}

TEST_CASE("sidecars' names are reserved") {
  const TemporaryDirectory root;
  write_checksummed(root / "a", "content");
  for (const Rename rename : kRenames) {
    CHECK(code_of(rename(root / "a", root / ".b.crc")) == StatusCode::kInvalidPath);
    CHECK(code_of(rename(root / "a", root / ".dir.crc/b")) == StatusCode::kInvalidPath);
  }
  CHECK(code_of(names.mkdirs(root / ".b.crc", 0755, true)) == StatusCode::kInvalidPath);
  CHECK(code_of(names.mkdirs(root / ".b.crc/c", 0755, true)) == StatusCode::kInvalidPath);
  CHECK(names_in(root.path()) == Names{"a", ".a.crc"});
}

TEST_CASE("a name without room for a sidecar is no place for a file that has one") {
  const TemporaryDirectory root;
  const std::string longest(255, 'n');
  write_checksummed(root / "a", "content");
  for (const Rename rename : kRenames) {
    CHECK(rename(root / "a", root / longest).error_number() == ENAMETOOLONG);
  }
  CHECK(content_of(root / "a") == "content");
  REQUIRE(::unlink(sidecar_of(root / "a").c_str()) == 0);
  CHECK(names.rename(root / "a", root / longest).ok());
  CHECK(content_of(root / longest) == "content");
  CHECK(names.set_permission(root / longest, 0600).ok());
  auto removed = names.remove(root / longest, false);
  REQUIRE(removed.ok());
  CHECK(*removed);
}

TEST_CASE("delete takes the sidecar along") {
  const TemporaryDirectory root;
  write_checksummed(root / "a", "content");
  write_file(root / "b", "without");
  for (const char* name : {"a", "b"}) {
    auto removed = names.remove(root / name, false);
    REQUIRE(removed.ok());
    CHECK(*removed);
  }
  CHECK(names_in(root.path()).empty());
  auto again = names.remove(root / "a", false);
  REQUIRE(again.ok());
  CHECK_FALSE(*again);
}

TEST_CASE("a refused delete leaves the sidecar") {
  const TemporaryDirectory root;
  write_checksummed(root / "a", "content");
  if (::geteuid() == 0) {  // the sidecar may be removed, and its file may not
    REQUIRE(::chmod(root.path().c_str(), 01777) == 0);
    REQUIRE(::lchown(sidecar_of(root / "a").c_str(), 65534, static_cast<gid_t>(-1)) == 0);
    const testing::Unprivileged nobody;
    CHECK(code_of(names.remove(root / "a", false)) == StatusCode::kPermissionDenied);
  }
  write_file(root / "b", "without");
  make_directory(sidecar_of(root / "b"));
  CHECK_FALSE(names.remove(root / "b", false).ok());
  CHECK(names_in(root.path()) == Names{"a", ".a.crc", "b", ".b.crc"});
  CHECK(content_of(root / "a") == "content");
}

TEST_CASE("a directory with nothing to see is empty") {
  const TemporaryDirectory root;
  make_directory(root / "dir");
  write_checksummed(root / "dir/a", "content");
  CHECK(code_of(names.remove(root / "dir", false)) == StatusCode::kNotEmpty);
  CHECK(content_of(root / "dir/a") == "content");
  REQUIRE(::unlink((root / "dir/a").c_str()) == 0);  // an orphan is left, as after a crash
  CHECK(listed(root / "dir").empty());
  auto removed = names.remove(root / "dir", false);
  REQUIRE_MESSAGE(removed.ok(), removed.status().to_string());
  CHECK(*removed);
  CHECK_FALSE(exists(root / "dir"));
}

TEST_CASE("a recursive delete leaves no sidecar, and the root is refused") {
  const TemporaryDirectory root;
  make_directory(root / "dir/sub");
  write_checksummed(root / "dir/sub/a", "content");
  auto removed = names.remove(root / "dir", true);
  REQUIRE(removed.ok());
  CHECK(names_in(root.path()).empty());
  CHECK(code_of(names.remove("/", true)) == StatusCode::kPermissionDenied);
}

TEST_CASE("permission and owner are the sidecar's too, times are not") {
  const TemporaryDirectory root;
  write_checksummed(root / "a", "content");
  write_file(root / "b", "without");
  CHECK(names.set_permission(root / "a", 0640).ok());
  CHECK(mode_of(root / "a") == 0640);
  CHECK(mode_of(root / ".a.crc") == 0640);
  CHECK(names.set_permission(root / "b", 0600).ok());
  CHECK(names.set_permission(root.path(), 0750).ok());
  CHECK(names.set_owner(root / "b", std::nullopt, std::nullopt).ok());
  if (::geteuid() == 0) {
    CHECK(names.set_owner(root / "a", "12345", std::nullopt).ok());
    CHECK(testing::facts_of(root / ".a.crc").st_uid == 12345);
  }
  CHECK(names.set_times(root / "a", 1'000'000'000, std::nullopt).ok());
  CHECK(names.status(root / "a")->mtime_ns == 1'000'000'000);
  CHECK(names.status(root / ".a.crc")->mtime_ns > 1'000'000'000);
}

TEST_CASE("verification can be left out") {
  const TemporaryDirectory root;
  write_checksummed(root / "a", "content");
  write_file(root / "a", "kontent");
  CHECK(code_of(verified(root / "a")) == StatusCode::kChecksum);
  auto file = names.open(root / "a", false);
  REQUIRE(file.ok());
  CHECK_FALSE((*file)->verified());
  std::string text(7, '?');
  env::Uninterrupted interrupt;
  CHECK(*(*file)->read_at(0, std::as_writable_bytes(std::span(text)), interrupt) == 7);
  CHECK(text == "kontent");
}

TEST_CASE("of many threads that rename to one name, the winner's sidecar is there and no other") {
  const TemporaryDirectory root;
  constexpr int kThreads = 6;
  for (int round = 0; round < 25; ++round) {
    const std::string destination = root / "winner";
    for (int i = 0; i < kThreads; ++i) {
      write_checksummed(root / std::to_string(i), std::string(1000, static_cast<char>('a' + i)));
    }
    std::atomic<int> wins = 0;
    std::vector<std::thread> renamers;
    for (int i = 0; i < kThreads; ++i) {
      renamers.emplace_back([&, i] {
        if (names.rename_exact(root / std::to_string(i), destination, Existing::kRefuse).ok()) {
          ++wins;
        }
      });
    }
    for (std::thread& renamer : renamers) renamer.join();
    CHECK(wins == 1);
    CHECK(verified(destination).ok());
    CHECK(names_in(root.path()).size() == 2 * kThreads);
    for (int i = 0; i < kThreads; ++i) {
      if (exists(root / std::to_string(i))) CHECK(verified(root / std::to_string(i)).ok());
    }
    CHECK(names.remove(destination, false).ok());
  }
}

}  // namespace
}  // namespace hflush::local
