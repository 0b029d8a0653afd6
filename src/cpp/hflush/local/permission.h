// The permission bits of a file or directory that is made, where the mount may have its own.
//
// CIFS, FUSE and vfat give every file the mode of the mount and refuse chmod(2), or take it and
// change nothing. There open(2) makes files all the same, and so do we, unless the caller asked for
// a permission. Thread-safe: pure functions, and system calls.
#pragma once

#include <sys/stat.h>
#include <sys/types.h>

#include <cerrno>
#include <cstdio>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "hflush/base/status.h"
#include "hflush/local/mount.h"

namespace hflush::local {

struct Permission {
  // NOLINTNEXTLINE(google-explicit-constructor): a number is a permission
  Permission(mode_t wanted, bool asked = false) noexcept : bits(wanted), is_asked(asked) {}

  mode_t bits;  // the umask was applied by the caller
  bool is_asked;
};

inline Status mode_is_kept(mode_t wanted, mode_t kept, std::string_view what, std::string path) {
  char text[96];
  std::snprintf(text, sizeof text, ": the mount keeps mode %04o, not %04o, which was asked for",
                kept & 07777U, wanted & 07777U);
  return Status(StatusCode::kPermissionDenied, "set permission of " + std::string(what) + text,
                std::move(path), EPERM);
}

// Gives something new its permission; none: what the system gave it, by the umask or the default
// ACL of its directory, is right. `look(&facts)` is stat(2) of it, `change(bits)` chmod(2); a
// set-group-id bit that a directory inherits stays.
template <typename Look, typename Change>
Status set_new_permission(std::optional<Permission> given, std::string_view what,
                          const std::string& path, Look look, Change change) {
  if (!given) return {};
  const Permission permission = *given;
  struct stat facts;
  if (look(&facts) != 0) return Status::from_errno(errno, "status", path);
  mode_t wanted = permission.bits;
  if (S_ISDIR(facts.st_mode)) wanted |= facts.st_mode & mode_t{S_ISGID};
  if ((facts.st_mode & 07777U) == wanted) return {};
  if (change(wanted) != 0) {
    if (!keeps_its_mode(errno)) {
      return Status::from_errno(errno, "set permission of " + std::string(what), path);
    }
    if (permission.is_asked) return mode_is_kept(wanted, facts.st_mode, what, path);
    return {};
  }
  if (!permission.is_asked || look(&facts) != 0 || (facts.st_mode & 0777U) == (wanted & 0777U)) {
    return {};
  }
  return mode_is_kept(wanted, facts.st_mode, what, path);
}

}  // namespace hflush::local
