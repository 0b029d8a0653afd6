// ChecksumNamespace: the local name space with checksums, Hadoop's LocalFileSystem.
//
// A Namespace whose files have sidecars (sidecar.h), which callers do not see: they are left out of
// listings and follow their files. The names of sidecars are reserved: nothing is renamed to one
// and no directory made of that name (kInvalidPath). A file and its sidecar are two files, and two
// system calls move or remove them. They come in an order that leaves, wherever they are cut off, a
// file without checksums or one that fails verification, and never bytes that pass for others
// (LOCAL-5); a reader in that instant may see the same. No append, no truncate (LOCAL-13).
// Immutable.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "hflush/base/result.h"
#include "hflush/local/namespace.h"

namespace hflush::local {

class ChecksumNamespace {
 public:
  // As Namespace has them, where nothing else is said.
  Result<LocalStatus> status(const std::string& path) const;
  Result<std::vector<LocalStatus>> list(const std::string& path) const;

  Status mkdirs(const std::string& path, std::optional<Permission> permission,
                bool create_parent) const;
  // A directory in which only sidecars without files are left is empty.
  Result<bool> remove(const std::string& path, bool recursive) const;
  Result<std::string> rename(const std::string& source, const std::string& destination) const;
  Status rename_exact(const std::string& source, const std::string& destination,
                      Existing existing) const;

  // The sidecar has its file's permission and owner.
  Status set_permission(const std::string& path, mode_t permission) const;
  Status set_owner(const std::string& path, const std::optional<std::string>& owner,
                   const std::optional<std::string>& group) const;
  Status set_times(const std::string& path, std::optional<std::int64_t> mtime_ns,
                   std::optional<std::int64_t> atime_ns) const;

  // See open_checksummed(); without `verify`, the bytes as they are.
  Result<std::unique_ptr<stream::Source>> open(const std::string& path, bool verify) const;
  Result<Space> fs_status(const std::string& path) const;

 private:
  Namespace files_;
};

}  // namespace hflush::local
