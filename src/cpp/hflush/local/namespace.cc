#include "hflush/local/namespace.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "hflush/local/descriptor.h"
#include "hflush/local/directory.h"
#include "hflush/local/local_source.h"
#include "hflush/local/make_directories.h"
#include "hflush/local/owners.h"
#include "hflush/local/paths.h"
#include "hflush/local/remove_tree.h"

namespace hflush::local {
namespace {

timespec time_or_keep(std::optional<std::int64_t> nanoseconds) noexcept {
  if (!nanoseconds) return {0, UTIME_OMIT};
  constexpr std::int64_t kPerSecond = 1'000'000'000;
  std::int64_t seconds = *nanoseconds / kPerSecond;
  std::int64_t rest = *nanoseconds % kPerSecond;
  if (rest < 0) {
    seconds -= 1;
    rest += kPerSecond;
  }
  return {seconds, rest};
}

Result<bool> remove_directory(const std::string& path, bool recursive) {
  if (::rmdir(path.c_str()) == 0) return true;
  if (errno == ENOENT) return false;
  if (errno != ENOTEMPTY && errno != EEXIST) {
    return Status::from_errno(errno, "delete directory", path);
  }
  if (!recursive) return Status::from_errno(ENOTEMPTY, "delete directory", path);
  Status removed = remove_tree(path);
  if (removed.code() == StatusCode::kNotFound && removed.path() == path) return false;
  if (!removed.ok()) return removed;
  return true;
}

}  // namespace

Result<LocalStatus> Namespace::status(const std::string& path) const {
  return status_at(AT_FDCWD, path.c_str(), path);
}

Result<std::vector<LocalStatus>> Namespace::list(const std::string& path) const {
  HFLUSH_ASSIGN_OR_RETURN(LocalStatus own, status(path));
  std::vector<LocalStatus> entries;
  if (own.kind != Kind::kDirectory) {
    entries.push_back(std::move(own));
    return entries;
  }
  const Descriptor directory = open_descriptor(path.c_str(), O_RDONLY | O_DIRECTORY);
  if (!directory) return failure_of(errno, "list directory", path);
  DirectoryReader reader(directory.get());
  while (const dirent* entry = reader.next()) {
    auto found = status_at(directory.get(), entry->d_name, join(path, entry->d_name));
    if (found.ok()) {
      entries.push_back(*std::move(found));
    } else if (found.status().code() != StatusCode::kNotFound) {
      return found.status();
    }
  }
  if (reader.error_number() != 0) {
    return Status::from_errno(reader.error_number(), "list directory", path);
  }
  return entries;
}

Status Namespace::mkdirs(const std::string& path, std::optional<Permission> permission,
                         bool create_parent) const {
  return make_directories(path, permission, create_parent ? Parents::kCreate : Parents::kRequire);
}

Result<bool> Namespace::remove(const std::string& path, bool recursive) const {
  if (is_root(path)) return Status(StatusCode::kPermissionDenied, "refusing to delete /", path);
  if (::unlink(path.c_str()) == 0) return true;
  const int error_number = errno;
  switch (error_number) {
    case ENOENT:
    case ENOTDIR:
      return false;
    case EISDIR:
      return remove_directory(path, recursive);
    default:
      return Status::from_errno(error_number, "delete", path);
  }
}

Result<std::string> Namespace::rename(const std::string& source,
                                      const std::string& destination) const {
  return rename_into(source, destination);
}

Status Namespace::rename_exact(const std::string& source, const std::string& destination,
                               Existing existing) const {
  return rename_exactly(source, destination, existing);
}

Status Namespace::set_permission(const std::string& path, mode_t permission) const {
  struct stat facts;
  if (::chmod(path.c_str(), permission) != 0) return failure_of(errno, "set permission", path);
  // CIFS and vfat may take the call and change nothing.
  if (::stat(path.c_str(), &facts) == 0 && (facts.st_mode & 0777U) != (permission & 0777U)) {
    return mode_is_kept(permission, facts.st_mode, "file", path);
  }
  return {};
}

Status Namespace::set_owner(const std::string& path, const std::optional<std::string>& owner,
                            const std::optional<std::string>& group) const {
  uid_t user_id = static_cast<uid_t>(-1);
  gid_t group_id = static_cast<gid_t>(-1);
  if (owner) {
    HFLUSH_ASSIGN_OR_RETURN(user_id, find_user(*owner));
  }
  if (group) {
    HFLUSH_ASSIGN_OR_RETURN(group_id, find_group(*group));
  }
  if (::chown(path.c_str(), user_id, group_id) == 0) return {};
  return failure_of(errno, "set owner", path);
}

Status Namespace::set_times(const std::string& path, std::optional<std::int64_t> mtime_ns,
                            std::optional<std::int64_t> atime_ns) const {
  // With nothing to set the kernel would not even look at the path.
  if (!mtime_ns && !atime_ns) return stat_path(path).status();
  const timespec times[2] = {time_or_keep(atime_ns), time_or_keep(mtime_ns)};
  if (::utimensat(AT_FDCWD, path.c_str(), times, 0) == 0) return {};
  return failure_of(errno, "set times", path);
}

Status Namespace::truncate(const std::string& path, std::int64_t length) const {
  HFLUSH_ASSIGN_OR_RETURN(const Descriptor file, open_regular(path, O_WRONLY));
  struct stat facts;
  if (::fstat(file.get(), &facts) != 0) return Status::from_errno(errno, "status", path);
  if (length < 0 || length > facts.st_size) {
    return Status(
        StatusCode::kInvalidArgument,
        "cannot truncate " + std::to_string(facts.st_size) + " bytes to " + std::to_string(length),
        path);
  }
  if (length == facts.st_size) return {};
  if (uninterrupted([&] { return ::ftruncate(file.get(), length); }) == 0) return {};
  return Status::from_errno(errno, "truncate to " + std::to_string(length) + " bytes", path);
}

Result<std::unique_ptr<stream::Source>> Namespace::open(const std::string& path) const {
  HFLUSH_ASSIGN_OR_RETURN(auto file, LocalSource::open(path));
  return std::unique_ptr<stream::Source>(std::move(file));
}

Result<std::int64_t> Namespace::birth(const std::string& path) const {
  struct statx facts{};
  if (::statx(AT_FDCWD, path.c_str(), 0, STATX_BTIME, &facts) != 0) {
    // Sandboxes of containers refuse the call itself.
    if (errno == EPERM || errno == ENOSYS || errno == EINVAL) return std::int64_t{0};
    return failure_of(errno, "status", path);
  }
  if ((facts.stx_mask & STATX_BTIME) == 0) return std::int64_t{0};
  constexpr std::int64_t kPerSecond = 1'000'000'000;
  return facts.stx_btime.tv_sec * kPerSecond + facts.stx_btime.tv_nsec;
}

Result<Space> Namespace::fs_status(const std::string& path) const {
  struct statvfs facts;
  if (uninterrupted([&] { return ::statvfs(path.c_str(), &facts); }) != 0) {
    return failure_of(errno, "status of the file system", path);
  }
  const std::uint64_t block = facts.f_frsize;
  return Space{facts.f_blocks * block, (facts.f_blocks - facts.f_bfree) * block,
               facts.f_bavail * block};
}

}  // namespace hflush::local
