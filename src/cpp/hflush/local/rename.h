// The two renames of Hadoop, on a local file system.
//
// Each moves a file, link or directory by one rename(2), which is atomic for every observer and
// keeps the modification time. Between file systems they fail with errno EXDEV and leave the source
// alone.
// "/" is never moved or replaced, a directory never put below itself. Nor does a link
// replace the file that it leads to. Thread-safe.
#pragma once

#include <cstdint>
#include <string>

#include "hflush/base/result.h"

namespace hflush::local {

// FileSystem.rename (RENAME-1..13): onto a directory means into it, unless source and destination
// are directories and the destination is empty, which is then replaced; an existing file is
// replaced; missing parents are made. Returns where the source is now, which is where it was if it
// was renamed to itself.
Result<std::string> rename_into(const std::string& source, const std::string& destination);

// What an existing destination means to rename_exactly().
enum class Existing : std::uint8_t { kRefuse, kReplace };

// FileContext.rename (RENAME-16..24): the destination is meant as it is given, and its parent
// exists. kRefuse is decided by the kernel in the act, so that one of many racing renames wins;
// kReplace replaces a file by a file or an empty directory by a directory, with no instant without
// either.
Status rename_exactly(const std::string& source, const std::string& destination, Existing existing);

// Existing::kRefuse where the file system has no such rename (NFS, many of FUSE). A file gets a new
// link, then the old one is removed, so that an observer may see both: kUnsupported where there are
// no links either. A directory replaces an empty one made for it, which an observer may see.
Status rename_in_steps(const std::string& source, const std::string& destination);

}  // namespace hflush::local
