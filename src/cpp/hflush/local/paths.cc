#include "hflush/local/paths.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include "hflush/local/descriptor.h"

namespace hflush::local {

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

Status sync_directory(const std::string& path) {
  const Descriptor directory = open_descriptor(path.c_str(), O_RDONLY | O_DIRECTORY);
  if (!directory) {
    const bool cannot = errno == EACCES || errno == ENOENT;  // not readable, or renamed since
    return cannot ? Status() : Status::from_errno(errno, "open directory", path);
  }
  const bool synced = uninterrupted([&] { return ::fsync(directory.get()); }) == 0;
  const bool cannot = !synced && errno == EINVAL;  // some file systems do not sync directories
  return synced || cannot ? Status() : Status::from_errno(errno, "fsync directory", path);
}

}  // namespace hflush::local
