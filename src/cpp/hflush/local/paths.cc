#include "hflush/local/paths.h"

#include <fcntl.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>

#include "hflush/local/descriptor.h"
#include "hflush/local/mount.h"

namespace hflush::local {
namespace {

bool is_writable(int file) noexcept {
  struct statvfs facts;
  return ::fstatvfs(file, &facts) == 0 && (facts.f_flag & ST_RDONLY) == 0;
}

}  // namespace

std::string_view parent_of(std::string_view path) noexcept {
  const std::size_t slash = path.rfind('/');
  return slash == 0 ? path.substr(0, 1) : path.substr(0, slash);
}

std::string_view name_of(std::string_view path) noexcept {
  return path.substr(path.rfind('/') + 1);
}

std::string join(std::string_view directory, std::string_view name) {
  std::string path;
  path.reserve(directory.size() + 1 + name.size());
  path += directory;
  if (!is_root(directory)) path += '/';
  path += name;
  return path;
}

bool is_below(std::string_view path, std::string_view ancestor) noexcept {
  if (is_root(ancestor)) return !is_root(path);
  return path.size() > ancestor.size() && path[ancestor.size()] == '/' &&
         path.starts_with(ancestor);
}

std::vector<std::string> missing_directories(std::string directory) {
  std::vector<std::string> missing;
  while (!is_root(directory) && ::access(directory.c_str(), F_OK) != 0) {
    missing.push_back(directory);
    directory = std::string(parent_of(directory));
  }
  return missing;
}

Result<bool> sync_directory(const std::string& path) {
  const Descriptor directory = open_descriptor(path.c_str(), O_RDONLY | O_DIRECTORY);
  if (!directory) {
    const bool cannot = errno == EACCES || errno == ENOENT;  // not readable, or renamed since
    if (cannot || is_lacking(errno)) return false;
    return Status::from_errno(errno, "open directory", path);
  }
  if (uninterrupted([&] { return ::fsync(directory.get()); }) == 0) return true;
  const int error_number = errno;
  if (is_lacking(error_number) || error_number == EBADF) return false;
  // One that was switched to read-only has failed.
  if (error_number == EROFS && is_writable(directory.get())) return false;
  return Status::from_errno(error_number, "fsync directory", path);
}

}  // namespace hflush::local
