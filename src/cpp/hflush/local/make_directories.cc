#include "hflush/local/make_directories.h"

#include <sys/stat.h>

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

Status set_permission(const std::string& path, mode_t permission) {
  struct stat facts;
  if (::stat(path.c_str(), &facts) != 0) return Status::from_errno(errno, "status", path);
  const mode_t wanted = permission | (facts.st_mode & mode_t{S_ISGID});
  if ((facts.st_mode & 07777U) == wanted || ::chmod(path.c_str(), wanted) == 0) return {};
  return Status::from_errno(errno, "set permission of directory", path);
}

// Something is at `path`: fine if it is a directory. kNotFound if it has vanished again.
Status accept_existing(const std::string& path) {
  struct stat facts;
  if (::stat(path.c_str(), &facts) == 0 && S_ISDIR(facts.st_mode)) return {};
  if (::lstat(path.c_str(), &facts) != 0) return Status::from_errno(errno, "status", path);
  return Status(StatusCode::kAlreadyExists, "make directory: a file is there", path, EEXIST);
}

Status make_directory(const std::string& path, std::optional<mode_t> permission) {
  if (::mkdir(path.c_str(), permission.value_or(kEverybody)) == 0) {
    return permission ? set_permission(path, *permission) : Status();
  }
  const int error_number = errno;
  if (error_number == EEXIST) return accept_existing(path);
  return Status::from_errno(error_number, "make directory", path);
}

}  // namespace

Status make_directories(const std::string& path, std::optional<mode_t> permission,
                        Parents parents) {
  std::optional<mode_t> parent_permission;
  if (permission) parent_permission = *permission | kOwnerPasses;
  std::ptrdiff_t attempts = std::count(path.begin(), path.end(), '/') + kRaces;
  std::vector<std::string> missing = {path};
  while (!missing.empty()) {
    const bool is_parent = missing.size() > 1;
    Status made = make_directory(missing.back(), is_parent ? parent_permission : permission);
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
