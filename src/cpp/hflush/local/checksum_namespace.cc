#include "hflush/local/checksum_namespace.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>
#include <utility>

#include "hflush/local/checksummed_source.h"
#include "hflush/local/descriptor.h"
#include "hflush/local/directory.h"
#include "hflush/local/directory_turn.h"
#include "hflush/local/local_status.h"
#include "hflush/local/paths.h"
#include "hflush/local/rename.h"
#include "hflush/local/sidecar.h"

namespace hflush::local {
namespace {

// False for a link to a directory.
bool is_directory(const std::string& path) noexcept {
  struct stat facts;
  return ::lstat(path.c_str(), &facts) == 0 && S_ISDIR(facts.st_mode);
}

// True for a link to a directory, too: a rename moves into it.
bool leads_to_directory(const std::string& path) noexcept {
  struct stat facts;
  return ::stat(path.c_str(), &facts) == 0 && S_ISDIR(facts.st_mode);
}

std::string above(const std::string& path) { return std::string(parent_of(path)); }

// Anything else that exists: a rename replaces it by another of this kind.
bool is_file(const std::string& path) noexcept {
  struct stat facts;
  return ::lstat(path.c_str(), &facts) == 0 && !S_ISDIR(facts.st_mode);
}

// Refuses `path` if one of its elements is the name of a sidecar.
Status expect_no_sidecar(const std::string& path) {
  for (std::string_view left = path; !is_root(left); left = parent_of(left)) {
    if (is_sidecar_name(name_of(left))) {
      return Status(StatusCode::kInvalidPath,
                    "'" + std::string(name_of(left)) + "' is reserved for checksums", path, EINVAL);
    }
  }
  return {};
}

Status missing_is_fine(const Status& status) { return is_missing(status) ? Status() : status; }

// Refuses to rename a file that has a sidecar to a name that leaves no room for one.
Status expect_room(const std::string& source, const std::string& destination) {
  struct stat facts;
  if (::lstat(sidecar_path(source).c_str(), &facts) != 0 || is_directory(destination)) return {};
  const std::string sidecar = sidecar_path(destination);
  if (::lstat(sidecar.c_str(), &facts) == 0 || errno != ENAMETOOLONG) return {};
  return Status::from_errno(ENAMETOOLONG, "rename to a name without room for '.' and '.crc'",
                            destination);
}

// A file has been moved: its sidecar goes with it, and replaces the sidecar of the file that was
// at the destination.
Status move_sidecar(const std::string& source, const std::string& destination) {
  if (source == destination || is_directory(destination)) return {};
  const std::string from = sidecar_path(source);
  const std::string to = sidecar_path(destination);
  if (::rename(from.c_str(), to.c_str()) == 0) return {};
  const Status failure = Status::from_errno(
      errno, "rename: the file has its new name, its checksum file '" + from + "' has not",
      destination);
  return is_missing(failure) ? remove_sidecar(to) : failure;
}

// Keeps the sums of a file that is about to be replaced or removed under a name that belongs to no
// file, so that they are not taken for a new file's. They are put back unless that is done.
class SetAside {
 public:
  static Result<SetAside> of(const std::string& path) {
    SetAside sums(sidecar_path(path));
    struct stat facts;
    if (::lstat(sums.sidecar_.c_str(), &facts) == 0) {
      if (S_ISDIR(facts.st_mode)) return failure_of(EISDIR, "set aside the checksum file of", path);
      sums.aside_ = aside_name(path, facts.st_ino);
      if (::rename(sums.sidecar_.c_str(), sums.aside_.c_str()) == 0) return sums;
      sums.aside_.clear();
    }
    if (errno == ENOENT || errno == ENAMETOOLONG) return sums;  // no room for its name: it has none
    return failure_of(errno, "set aside the checksum file of", path);
  }

  SetAside(SetAside&& other) noexcept
      : sidecar_(std::move(other.sidecar_)), aside_(std::exchange(other.aside_, {})) {}
  SetAside& operator=(SetAside&&) = delete;
  SetAside(const SetAside&) = delete;
  SetAside& operator=(const SetAside&) = delete;
  ~SetAside() {
    if (aside_.empty()) return;
    const Status back = rename_exactly(aside_, sidecar_, Existing::kRefuse);
    struct stat facts;
    // The mount has no such rename; in a rename the turn keeps others of this program's kind away.
    if (back.code() == StatusCode::kUnsupported && ::lstat(sidecar_.c_str(), &facts) != 0) {
      ::rename(aside_.c_str(), sidecar_.c_str());
    }
  }

  // The file is replaced, or removed.
  void drop() {
    if (!aside_.empty()) ::unlink(std::exchange(aside_, {}).c_str());
  }

 private:
  // Named after the inode: another writer that replaces this file takes other sums, or finds none.
  // Where a process dies before it is done, the next atomic create sweeps it up (atomic.py).
  static std::string aside_name(const std::string& path, ino_t inode) {
    std::array<char, 64> name{};
    std::snprintf(name.data(), name.size(), "..replaced.%032jx.atomic.tmp.crc",
                  static_cast<std::uintmax_t>(inode));
    return join(parent_of(path), name.data());
  }

  explicit SetAside(std::string sidecar) : sidecar_(std::move(sidecar)) {}

  std::string sidecar_;
  std::string aside_;  // empty: nothing has to be put back
};

// Removes the sidecars from a directory that holds nothing else; kNotEmpty if it does.
Status remove_orphans(const std::string& path) {
  const Descriptor directory = open_descriptor(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
  if (!directory) return failure_of(errno, "list directory", path);
  std::vector<std::string> orphans;
  DirectoryReader reader(directory.get());
  while (const dirent* entry = reader.next()) {
    if (!is_sidecar_name(entry->d_name)) {
      return Status::from_errno(ENOTEMPTY, "delete directory", path);
    }
    orphans.emplace_back(entry->d_name);
  }
  if (reader.error_number() != 0) {
    return Status::from_errno(reader.error_number(), "list directory", path);
  }
  for (const std::string& name : orphans) {
    if (::unlinkat(directory.get(), name.c_str(), 0) == 0 || errno == ENOENT) continue;
    return Status::from_errno(errno == EISDIR ? ENOTEMPTY : errno, "delete directory", path);
  }
  return {};
}

}  // namespace

Result<LocalStatus> ChecksumNamespace::status(const std::string& path) const {
  return files_.status(path);
}

Result<std::vector<LocalStatus>> ChecksumNamespace::list(const std::string& path) const {
  auto entries = files_.list(path);
  if (!entries.ok()) return entries;
  std::erase_if(*entries, [&](const LocalStatus& entry) {
    return entry.kind != Kind::kDirectory && is_sidecar_name(name_of(entry.path)) &&
           entry.path != path;
  });
  return entries;
}

Status ChecksumNamespace::mkdirs(const std::string& path, std::optional<Permission> permission,
                                 bool create_parent) const {
  HFLUSH_RETURN_IF_ERROR(expect_no_sidecar(path));
  return files_.mkdirs(path, permission, create_parent);
}

Result<bool> ChecksumNamespace::remove(const std::string& path, bool recursive) const {
  if (is_root(path) || is_directory(path)) {
    auto removed = files_.remove(path, recursive);
    if (removed.status().code() != StatusCode::kNotEmpty || recursive) return removed;
    HFLUSH_RETURN_IF_ERROR(remove_orphans(path));
    return files_.remove(path, false);
  }
  struct stat facts;
  if (::lstat(path.c_str(), &facts) != 0) return files_.remove(path, recursive);
  // The sidecar first: no writer can make a new file of this name, whose sidecar would then be
  // taken for the old one, before the old file is gone.
  auto sums = SetAside::of(path);
  if (!sums.ok()) {  // a full disk may have no room for the other name
    HFLUSH_RETURN_IF_ERROR(remove_sidecar(sidecar_path(path)));
  }
  auto removed = files_.remove(path, recursive);
  if (removed.ok() && sums.ok()) sums->drop();
  return removed;
}

Result<std::string> ChecksumNamespace::rename(const std::string& source,
                                              const std::string& destination) const {
  HFLUSH_RETURN_IF_ERROR(expect_no_sidecar(destination));
  HFLUSH_ASSIGN_OR_RETURN(
      const DirectoryTurn turn,
      DirectoryTurn::at(leads_to_directory(destination) ? destination : above(destination)));
  HFLUSH_RETURN_IF_ERROR(expect_room(source, destination));
  HFLUSH_ASSIGN_OR_RETURN(std::string target, files_.rename(source, destination));
  HFLUSH_RETURN_IF_ERROR(move_sidecar(source, target));
  return target;
}

Status ChecksumNamespace::rename_exact(const std::string& source, const std::string& destination,
                                       Existing existing) const {
  HFLUSH_RETURN_IF_ERROR(expect_no_sidecar(destination));
  HFLUSH_ASSIGN_OR_RETURN(const DirectoryTurn turn, DirectoryTurn::at(above(destination)));
  HFLUSH_RETURN_IF_ERROR(expect_room(source, destination));
  if (existing == Existing::kRefuse || source == destination || !is_file(source) ||
      !is_file(destination)) {
    HFLUSH_RETURN_IF_ERROR(files_.rename_exact(source, destination, existing));
    return move_sidecar(source, destination);
  }
  HFLUSH_ASSIGN_OR_RETURN(SetAside old, SetAside::of(destination));
  HFLUSH_RETURN_IF_ERROR(files_.rename_exact(source, destination, existing));
  old.drop();
  return move_sidecar(source, destination);
}

Status ChecksumNamespace::set_permission(const std::string& path, mode_t permission) const {
  HFLUSH_RETURN_IF_ERROR(files_.set_permission(path, permission));
  if (is_directory(path)) return {};
  return missing_is_fine(files_.set_permission(sidecar_path(path), permission));
}

Status ChecksumNamespace::set_owner(const std::string& path,
                                    const std::optional<std::string>& owner,
                                    const std::optional<std::string>& group) const {
  HFLUSH_RETURN_IF_ERROR(files_.set_owner(path, owner, group));
  if (is_directory(path)) return {};
  return missing_is_fine(files_.set_owner(sidecar_path(path), owner, group));
}

Status ChecksumNamespace::set_times(const std::string& path, std::optional<std::int64_t> mtime_ns,
                                    std::optional<std::int64_t> atime_ns) const {
  return files_.set_times(path, mtime_ns, atime_ns);
}

Result<std::unique_ptr<stream::Source>> ChecksumNamespace::open(const std::string& path,
                                                                bool verify) const {
  return verify ? open_checksummed(path) : files_.open(path);
}

Result<Space> ChecksumNamespace::fs_status(const std::string& path) const {
  return files_.fs_status(path);
}

}  // namespace hflush::local
