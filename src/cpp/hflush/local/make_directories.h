// Makes a directory, and those above it that are missing.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>

#include "hflush/base/status.h"
#include "hflush/local/permission.h"

namespace hflush::local {

enum class Parents : std::uint8_t { kRequire, kCreate };

// Fine if `path` is a directory already, and if others make the same directories at the same time;
// each single directory is made atomically, the chain is not (MKDIR-6). A directory made here has
// exactly `permission`, whatever the umask is (permission.h), and keeps a set-group-id bit that it
// inherits; those above it let their owner in as well. Without `permission` they have what the
// system leaves of 0777, by the umask or a default ACL. kNotFound if a parent is missing and
// required, kAlreadyExists over a file, kParentNotDirectory below one, where nothing is created.
// Thread-safe.
Status make_directories(const std::string& path, std::optional<Permission> permission,
                        Parents parents);

}  // namespace hflush::local
