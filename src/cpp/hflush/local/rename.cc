#include "hflush/local/rename.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <optional>
#include <string>
#include <vector>

#include "hflush/local/local_status.h"
#include "hflush/local/make_directories.h"
#include "hflush/local/mount.h"
#include "hflush/local/paths.h"

namespace hflush::local {
namespace {

// renameat2(2). musl has a function for it since 1.2.6.
int move_onto_nothing(const char* source, const char* destination) noexcept {
#ifdef RENAME_NOREPLACE
  return ::renameat2(AT_FDCWD, source, AT_FDCWD, destination, RENAME_NOREPLACE);
#else
  constexpr unsigned kNoReplace = 1;
  return static_cast<int>(
      ::syscall(SYS_renameat2, AT_FDCWD, source, AT_FDCWD, destination, kNoReplace));
#endif
}

bool exists(const std::string& path) noexcept {
  struct stat facts;
  return ::lstat(path.c_str(), &facts) == 0;
}

bool leads_to_directory(const std::string& path) noexcept {
  struct stat facts;
  return ::stat(path.c_str(), &facts) == 0 && S_ISDIR(facts.st_mode);
}

// Is the entry to be moved a directory? A link to one is not. Fails if it is missing or is "/".
Result<bool> moves_directory(const std::string& source) {
  struct stat facts;
  if (::lstat(source.c_str(), &facts) != 0) return failure_of(errno, "rename", source);
  if (is_root(source)) return Status(StatusCode::kPermissionDenied, "refusing to rename /", source);
  return S_ISDIR(facts.st_mode);
}

Status below_itself(const std::string& source, const std::string& destination) {
  return Status(StatusCode::kIo, "rename: '" + destination + "' is below the directory itself",
                source, EINVAL);
}

// Why the kernel refused to move `source`, which may have gone since, to `destination`.
Status refusal(int error_number, const std::string& source, const std::string& destination) {
  switch (error_number) {
    case ENOENT:
      if (!exists(source)) return failure_of(ENOENT, "rename", source);
      return Status::from_errno(ENOENT, "rename into directory",
                                std::string(parent_of(destination)));
    case ENOTDIR:
      if (!exists(source)) return failure_of(ENOENT, "rename", source);
      if (!exists(destination)) return Status::from_errno(ENOTDIR, "rename", destination);
      return Status(StatusCode::kAlreadyExists, "rename of a directory: destination is a file",
                    destination, EEXIST);
    case EISDIR:
      return Status::from_errno(EISDIR, "rename of a file: destination", destination);
    case EEXIST:
    case ENOTEMPTY:
      return Status::from_errno(ENOTEMPTY, "rename: destination", destination);
    case EINVAL:
      return below_itself(source, destination);
    default:
      return Status::from_errno(error_number, "rename to '" + destination + "'", source);
  }
}

bool same_file(const struct stat& a, const struct stat& b) noexcept {
  return a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

// Are these two entries of directories, and not two spellings of one?
bool are_different_entries(const std::string& a, const std::string& b) noexcept {
  if (name_of(a) != name_of(b)) return true;
  struct stat above_a;
  struct stat above_b;
  return ::stat(std::string(parent_of(a)).c_str(), &above_a) == 0 &&
         ::stat(std::string(parent_of(b)).c_str(), &above_b) == 0 && !same_file(above_a, above_b);
}

// rename(2) does nothing where both names are links to one file; the old name has to go all the
// same.
Status remove_left_over_link(const std::string& source, const std::string& destination) {
  struct stat left;
  struct stat moved;
  if (::lstat(source.c_str(), &left) != 0) return {};
  const bool links_of_one_file = ::lstat(destination.c_str(), &moved) == 0 &&
                                 same_file(left, moved) && left.st_nlink > 1 &&
                                 are_different_entries(source, destination);
  if (!links_of_one_file || ::unlink(source.c_str()) == 0 || errno == ENOENT) return {};
  return Status::from_errno(errno, "rename: remove the old name", source);
}

// Is the source a link to the file at the destination? In its place it would lead to itself, and
// the file would be gone.
bool leads_to(const std::string& source, const std::string& destination) noexcept {
  struct stat link;
  struct stat target;
  struct stat replaced;
  return ::lstat(source.c_str(), &link) == 0 && S_ISLNK(link.st_mode) &&
         ::stat(source.c_str(), &target) == 0 && ::lstat(destination.c_str(), &replaced) == 0 &&
         same_file(target, replaced);
}

Status move(const std::string& source, const std::string& destination) {
  if (leads_to(source, destination)) {
    return Status(StatusCode::kAlreadyExists,
                  "rename of a link: destination is the file that it leads to", destination,
                  EEXIST);
  }
  if (::rename(source.c_str(), destination.c_str()) != 0) {
    return refusal(errno, source, destination);
  }
  return remove_left_over_link(source, destination);
}

// The one who makes the directory has won.
Status replace_new_directory(const std::string& source, const std::string& destination) {
  if (::mkdir(destination.c_str(), 0700) != 0) {
    if (errno == EEXIST) return Status::from_errno(EEXIST, "rename: destination", destination);
    return refusal(errno, source, destination);
  }
  if (::rename(source.c_str(), destination.c_str()) == 0) return {};
  Status failure = refusal(errno, source, destination);
  ::rmdir(destination.c_str());
  return failure;
}

Status move_link(const std::string& source, const std::string& destination) {
  if (::link(source.c_str(), destination.c_str()) != 0) {
    const int error_number = errno;
    if (error_number == EEXIST) {
      return Status::from_errno(EEXIST, "rename: destination", destination);
    }
    if (!may_be_lacking(error_number)) return refusal(error_number, source, destination);
    return lacking(error_number, "the mount can neither rename without replacing nor link", source);
  }
  if (::unlink(source.c_str()) == 0 || errno == ENOENT) return {};
  Status failure = Status::from_errno(errno, "rename: remove the old name", source);
  ::unlink(destination.c_str());
  return failure;
}

void remove_empty(const std::vector<std::string>& directories) {
  for (const std::string& directory : directories) {
    if (::rmdir(directory.c_str()) != 0) return;
  }
}

}  // namespace

Result<std::string> rename_into(const std::string& source, const std::string& destination) {
  HFLUSH_ASSIGN_OR_RETURN(const bool is_directory, moves_directory(source));
  if (source == destination) return source;
  if (is_directory && is_below(destination, source)) return below_itself(source, destination);
  std::string target = destination;
  if (leads_to_directory(destination)) {
    const bool replaced =
        is_directory && ::rename(source.c_str(), destination.c_str()) == 0;  // an empty one
    if (replaced) return destination;
    target = join(destination, name_of(source));
    if (target == source) return source;
  }
  Status moved = move(source, target);
  if (moved.code() == StatusCode::kNotFound && exists(source)) {
    const std::string parent(parent_of(target));
    const std::vector<std::string> missing = missing_directories(parent);
    HFLUSH_RETURN_IF_ERROR(make_directories(parent, std::nullopt, Parents::kCreate));
    moved = move(source, target);
    if (!moved.ok()) remove_empty(missing);
  }
  if (!moved.ok()) return moved;
  return target;
}

Status rename_exactly(const std::string& source, const std::string& destination,
                      Existing existing) {
  HFLUSH_ASSIGN_OR_RETURN(const bool is_directory, moves_directory(source));
  if (is_root(destination)) {
    return Status(StatusCode::kPermissionDenied, "refusing to replace / by rename", destination);
  }
  if (source == destination) {
    return Status::from_errno(EEXIST, "rename to itself", destination);
  }
  if (is_directory && is_below(destination, source)) return below_itself(source, destination);
  if (existing == Existing::kReplace) return move(source, destination);

  if (move_onto_nothing(source.c_str(), destination.c_str()) == 0) return {};
  const int error_number = errno;
  if (error_number == EEXIST) {
    return Status::from_errno(EEXIST, "rename: destination", destination);
  }
  return may_be_lacking(error_number) ? rename_in_steps(source, destination)
                                      : refusal(error_number, source, destination);
}

Status rename_in_steps(const std::string& source, const std::string& destination) {
  HFLUSH_ASSIGN_OR_RETURN(const bool is_directory, moves_directory(source));
  return is_directory ? replace_new_directory(source, destination) : move_link(source, destination);
}

}  // namespace hflush::local
