#include "hflush/local/make_directories.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string_view>
#include <vector>

#include "hflush/local/paths.h"

namespace hflush::local {
namespace {

constexpr mode_t kEverybody = 0777;
constexpr mode_t kOwnerPasses = 0300;
// How often a parent that another program deletes meanwhile is made again.
constexpr std::ptrdiff_t kRaces = 64;

bool is_directory(const std::string& path) noexcept {
  struct stat facts;
  return ::stat(path.c_str(), &facts) == 0 && S_ISDIR(facts.st_mode);
}

// Something is at `path`: fine if it is a directory. kNotFound if it has vanished again.
Status accept_existing(const std::string& path) {
  struct stat facts;
  if (is_directory(path)) return {};
  if (::lstat(path.c_str(), &facts) != 0) return Status::from_errno(errno, "status", path);
  return Status(StatusCode::kAlreadyExists, "make directory: a file is there", path, EEXIST);
}

// Whatever the umask is, the owner can make what is below a parent.
Status let_owner_in(const std::string& path) {
  struct stat facts;
  if (::stat(path.c_str(), &facts) != 0) return Status::from_errno(errno, "status", path);
  const mode_t mode = facts.st_mode & 07777U;
  if ((mode & kOwnerPasses) == kOwnerPasses || ::chmod(path.c_str(), mode | kOwnerPasses) == 0 ||
      keeps_its_mode(errno)) {
    return {};
  }
  return Status::from_errno(errno, "set permission of directory", path);
}

Status make_directory(const std::string& path, std::optional<Permission> permission) {
  if (::mkdir(path.c_str(), permission ? permission->bits : kEverybody) == 0) {
    Status set = set_new_permission(
        permission, "directory", path,
        [&](struct stat* facts) { return ::stat(path.c_str(), facts); },
        [&](mode_t bits) { return ::chmod(path.c_str(), bits); });
    if (!set.ok()) ::rmdir(path.c_str());
    return set;
  }
  const int error_number = errno;
  if (error_number == EEXIST) return accept_existing(path);
  // Servers of NFS and automounters may ask first who may make a directory there.
  if (error_number != ENOENT && is_directory(path)) return {};
  return Status::from_errno(error_number, "make directory", path);
}

}  // namespace

Status make_directories(const std::string& path, std::optional<Permission> permission,
                        Parents parents) {
  std::optional<Permission> parent_permission = permission;
  if (parent_permission) parent_permission->bits |= kOwnerPasses;
  std::ptrdiff_t attempts = std::count(path.begin(), path.end(), '/') + kRaces;
  std::vector<std::string> missing = {path};
  while (!missing.empty()) {
    const bool is_parent = missing.size() > 1;
    Status made = make_directory(missing.back(), is_parent ? parent_permission : permission);
    if (made.ok() && is_parent && !permission) made = let_owner_in(missing.back());
    if (made.ok()) {
      missing.pop_back();
    } else if (made.code() == StatusCode::kNotFound && parents == Parents::kCreate &&
               !is_root(missing.back()) && attempts-- > 0) {
      missing.emplace_back(parent_of(missing.back()));
    } else if (made.code() == StatusCode::kAlreadyExists && is_parent) {
      return Status::from_errno(ENOTDIR, "make directory", path);
    } else {
      return made;
    }
  }
  return {};
}

}  // namespace hflush::local
