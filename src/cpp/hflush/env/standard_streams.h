// The descriptors 0, 1 and 2, which a program may run without: what it prints would go into a file
// or a connection that gets one of them.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

namespace hflush::env {

// A new descriptor, or -1 with errno; moved where it is one of those. Closed on exec then.
inline int beside_standard_streams(int made) noexcept {
  if (made < 0 || made > STDERR_FILENO) return made;
  const int moved = ::fcntl(made, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
  const int error_number = errno;
  ::close(made);
  errno = error_number;
  return moved;
}

}  // namespace hflush::env
