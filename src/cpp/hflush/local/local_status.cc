#include "hflush/local/local_status.h"

#include <fcntl.h>

#include <cerrno>
#include <limits>
#include <utility>

#include "hflush/local/owners.h"

namespace hflush::local {
namespace {

Kind kind_of(mode_t mode) noexcept {
  if (S_ISREG(mode)) return Kind::kFile;
  if (S_ISDIR(mode)) return Kind::kDirectory;
  if (S_ISLNK(mode)) return Kind::kSymlink;
  return Kind::kOther;
}

// Of a time beyond the year 2262, or before 1677, the nearest that can be said.
std::int64_t nanoseconds(const timespec& time) noexcept {
  constexpr std::int64_t kPerSecond = 1'000'000'000;
  using Limits = std::numeric_limits<std::int64_t>;
  if (time.tv_sec >= Limits::max() / kPerSecond) return Limits::max();
  if (time.tv_sec <= Limits::min() / kPerSecond) return Limits::min();
  return std::int64_t{time.tv_sec} * kPerSecond + time.tv_nsec;
}

// 0 or errno.
int stat_at(int directory, const char* name, struct stat& facts) noexcept {
  if (::fstatat(directory, name, &facts, 0) == 0) return 0;
  const int error_number = errno;
  const bool is_link =
      ::fstatat(directory, name, &facts, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(facts.st_mode);
  return is_link ? 0 : error_number;
}

}  // namespace

std::string_view to_string(Kind kind) noexcept {
  switch (kind) {
    case Kind::kFile:
      return "file";
    case Kind::kDirectory:
      return "directory";
    case Kind::kSymlink:
      return "symlink";
    case Kind::kOther:
      return "other";
  }
  return "unknown";
}

Status failure_of(int error_number, std::string_view operation, std::string path) {
  return Status::from_errno(error_number == ENOTDIR ? ENOENT : error_number, operation,
                            std::move(path));
}

Result<struct stat> stat_path(const std::string& path) {
  struct stat facts;
  const int error_number = stat_at(AT_FDCWD, path.c_str(), facts);
  if (error_number != 0) return failure_of(error_number, "status", path);
  return facts;
}

Result<LocalStatus> status_at(int directory, const char* name, std::string path) {
  struct stat facts;
  const int error_number = stat_at(directory, name, facts);
  if (error_number != 0) return failure_of(error_number, "status", std::move(path));
  LocalStatus status;
  status.path = std::move(path);
  status.kind = kind_of(facts.st_mode);
  status.length = status.kind == Kind::kFile ? static_cast<std::uint64_t>(facts.st_size) : 0;
  status.mode = facts.st_mode & 07777U;
  status.mtime_ns = nanoseconds(facts.st_mtim);
  status.atime_ns = nanoseconds(facts.st_atim);
  status.owner = user_name(facts.st_uid);
  status.group = group_name(facts.st_gid);
  status.device = facts.st_dev;
  status.inode = facts.st_ino;
  return status;
}

}  // namespace hflush::local
