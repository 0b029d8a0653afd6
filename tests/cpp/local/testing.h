// What the tests of local/ share: a directory of their own on the real file system, and short names
// for looking at it past the code under test.
#pragma once

#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <string>
#include <string_view>

#include "hflush/base/result.h"
#include "hflush/base/status.h"

namespace hflush::local::testing {

// Removed, with all in it, at the end of the test.
class TemporaryDirectory {
 public:
  explicit TemporaryDirectory(
      const std::filesystem::path& parent = std::filesystem::temp_directory_path()) {
    std::string name = std::filesystem::canonical(parent) / "hflush-test-XXXXXX";
    REQUIRE(::mkdtemp(name.data()) != nullptr);
    path_ = name;
  }
  ~TemporaryDirectory() {
    unlock(path_);
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;

  const std::string& path() const { return path_; }
  std::string operator/(std::string_view name) const { return path_ + "/" + std::string(name); }

 private:
  // Tests take permissions away, from their own user too.
  static void unlock(const std::filesystem::path& directory) {
    namespace fs = std::filesystem;
    std::error_code ignored;
    fs::permissions(directory, fs::perms::owner_all, fs::perm_options::add, ignored);
    for (const auto& entry : fs::directory_iterator(directory, ignored)) {
      if (fs::is_directory(entry.symlink_status())) unlock(entry.path());
    }
  }

  std::string path_;
};

inline void write_file(const std::string& path, std::string_view content) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(content.data(), static_cast<std::streamsize>(content.size()));
  file.close();
  REQUIRE(file.good());
}

inline std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  REQUIRE_MESSAGE(file.good(), path);
  return {std::istreambuf_iterator<char>(file), {}};
}

// A directory made with all its parents.
inline std::string make_directory(const std::string& path) {
  std::filesystem::create_directories(path);
  return path;
}

inline bool exists(const std::string& path) {
  return std::filesystem::exists(std::filesystem::symlink_status(path));
}
inline bool is_directory(const std::string& path) { return std::filesystem::is_directory(path); }

// Everything in a directory, hidden or not.
inline std::set<std::string> names_in(const std::string& path) {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(path)) {
    names.insert(entry.path().filename());
  }
  return names;
}

inline struct stat facts_of(const std::string& path) {
  struct stat facts;
  REQUIRE(::lstat(path.c_str(), &facts) == 0);
  return facts;
}
inline mode_t mode_of(const std::string& path) { return facts_of(path).st_mode & 07777U; }

// Runs the rest of a scope without root's powers, as the user "nobody" if it has them.
class Unprivileged {
 public:
  Unprivileged() {
    if (was_root_) REQUIRE(::seteuid(kNobody) == 0);
  }
  ~Unprivileged() {
    if (was_root_) CHECK(::seteuid(0) == 0);
  }
  Unprivileged(const Unprivileged&) = delete;
  Unprivileged& operator=(const Unprivileged&) = delete;

 private:
  static constexpr uid_t kNobody = 65534;
  const bool was_root_ = ::geteuid() == 0;
};

// Runs the rest of a scope under a umask.
class Umask {
 public:
  explicit Umask(mode_t mask) : before_(::umask(mask)) {}
  ~Umask() { ::umask(before_); }
  Umask(const Umask&) = delete;
  Umask& operator=(const Umask&) = delete;

 private:
  const mode_t before_;
};

template <typename T>
StatusCode code_of(const Result<T>& result) {
  return result.status().code();
}
inline StatusCode code_of(const Status& status) { return status.code(); }

}  // namespace hflush::local::testing

namespace hflush {

inline doctest::String toString(StatusCode code) {
  const std::string_view text = to_string(code);
  return {text.data(), static_cast<unsigned>(text.size())};
}

}  // namespace hflush
