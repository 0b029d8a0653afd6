// Namespace: the local name space without checksums, Hadoop's RawLocalFileSystem.
//
// Every function is a few system calls on an absolute, normalised path (paths.h) and holds no
// state, so one object serves any number of threads and processes, forked ones included. Rules:
// contract.md RENAME, DELETE, MKDIR, STATUS, TIME, EXTRA-2. Failures carry the path; a path below a
// file counts as missing (kNotFound) unless something was to be made there (kParentNotDirectory).
// Immutable.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "hflush/base/result.h"
#include "hflush/local/local_status.h"
#include "hflush/local/permission.h"
#include "hflush/local/rename.h"
#include "hflush/stream/source.h"

namespace hflush::local {

// Bytes of the file system that holds a path.
struct Space {
  std::uint64_t capacity = 0;
  std::uint64_t used = 0;
  std::uint64_t remaining = 0;  // for users without privileges
};

class Namespace {
 public:
  // Follows symbolic links. Never opens what is there.
  Result<LocalStatus> status(const std::string& path) const;
  // The entries of a directory, in no order; for anything else its own status. An entry that
  // vanishes during the call is left out.
  Result<std::vector<LocalStatus>> list(const std::string& path) const;

  // See make_directories().
  Status mkdirs(const std::string& path, std::optional<Permission> permission,
                bool create_parent) const;
  // False if there was nothing. kNotEmpty if `recursive` was needed; links are removed, not
  // followed.
  // "/" is refused. Atomic but for the recursive form.
  Result<bool> remove(const std::string& path, bool recursive) const;
  // See rename_into() and rename_exactly().
  Result<std::string> rename(const std::string& source, const std::string& destination) const;
  Status rename_exact(const std::string& source, const std::string& destination,
                      Existing existing) const;

  // Exactly these bits, no umask.
  Status set_permission(const std::string& path, mode_t permission) const;
  // A name, or a number in digits; nullopt leaves it. kInvalidArgument for an unknown name.
  Status set_owner(const std::string& path, const std::optional<std::string>& owner,
                   const std::optional<std::string>& group) const;
  // Nanoseconds since the epoch; nullopt leaves it.
  Status set_times(const std::string& path, std::optional<std::int64_t> mtime_ns,
                   std::optional<std::int64_t> atime_ns) const;
  // Cuts a file to `length` bytes. kInvalidArgument if that is negative or more than it has,
  // kNotAFile of a directory. The present length changes nothing, times included.
  Status truncate(const std::string& path, std::int64_t length) const;

  // kNotAFile of a directory, kUnsupported of a pipe, socket or device.
  Result<std::unique_ptr<stream::Source>> open(const std::string& path) const;
  // When the file was made, in nanoseconds since the epoch: with its inode it tells a file from all
  // others. 0 where the file system keeps no such time.
  Result<std::int64_t> birth(const std::string& path) const;
  Result<Space> fs_status(const std::string& path) const;
};

}  // namespace hflush::local
