// LocalStatus: what the file system knows of one path. Immutable values.
#pragma once

#include <sys/stat.h>
#include <sys/types.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "hflush/base/result.h"

namespace hflush::local {

enum class Kind : std::uint8_t {
  kFile,
  kDirectory,
  kSymlink,  // a symbolic link that cannot be followed; the others are reported as what they lead
             // to
  kOther,    // a pipe, socket or device: never opened here (STATUS-21)
};

std::string_view to_string(Kind kind) noexcept;

struct LocalStatus {
  std::string path;
  std::uint64_t length = 0;  // bytes of a file; 0 for everything else (STATUS-2)
  Kind kind = Kind::kFile;
  mode_t mode = 0;            // permission bits, 07777
  std::int64_t mtime_ns = 0;  // since the epoch, as are all times
  std::int64_t atime_ns = 0;
  std::string owner;
  std::string group;
  std::uint64_t device = 0;
  std::uint64_t inode = 0;
};

// The failure of a call on something that should exist: from_errno(), but a path below a file is a
// missing path (kNotFound), as Hadoop has it.
Status failure_of(int error_number, std::string_view operation, std::string path);

// stat(2), and lstat(2) for a link that leads nowhere. kNotFound if the path does not exist.
Result<struct stat> stat_path(const std::string& path);

// The status of entry `name` of the open directory `directory`, under the name `path`.
Result<LocalStatus> status_at(int directory, const char* name, std::string path);

}  // namespace hflush::local
