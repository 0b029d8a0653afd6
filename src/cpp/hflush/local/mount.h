// What a mount may lack that ext4 has, as failed system calls tell it.
#pragma once

#include <cerrno>
#include <string>
#include <string_view>

#include "hflush/base/status.h"

namespace hflush::local {

// The mount has no such operation: FUSE answers ENOSYS, CIFS and NFS ENOTSUP, many EINVAL.
constexpr bool is_lacking(int error_number) noexcept {
  return error_number == ENOSYS || error_number == ENOTSUP || error_number == EINVAL;
}

// Of chmod(2): the mount has a mode for all, or this user no right to change it.
constexpr bool keeps_its_mode(int error_number) noexcept {
  return is_lacking(error_number) || error_number == EPERM || error_number == EACCES ||
         error_number == EROFS;
}

// Of link(2) and renameat2(2), which sandboxes refuse with EPERM. That has other reasons, too: what
// is tried instead then fails as well.
constexpr bool may_be_lacking(int error_number) noexcept {
  return is_lacking(error_number) || error_number == EPERM;
}

// The refusal of what a mount lacks: `what` says it.
inline Status lacking(int error_number, std::string_view what, const std::string& path) {
  return {StatusCode::kUnsupported, Status::from_errno(error_number, what, path).message(), path,
          error_number};
}

}  // namespace hflush::local
