// Descriptor: a file descriptor with one owner, and the loop around calls that signals interrupt.
//
// Thread-compatible: external locking.
#pragma once

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "hflush/env/standard_streams.h"

namespace hflush::local {

class Descriptor {
 public:
  Descriptor() noexcept = default;
  explicit Descriptor(int number) noexcept : number_(number) {}
  Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  // Closed without asking how it went: a file that was written is closed by its sink instead.
  ~Descriptor() {
    if (number_ >= 0) ::close(number_);
  }

  explicit operator bool() const noexcept { return number_ >= 0; }
  int get() const noexcept { return number_; }
  int release() noexcept { return std::exchange(number_, -1); }

 private:
  int number_ = -1;
};

// Repeats a system call while it fails with EINTR; errno is the last attempt's.
template <typename Call>
auto uninterrupted(Call call) noexcept(noexcept(call())) {
  auto result = call();
  while (result < 0 && errno == EINTR) result = call();
  return result;
}

// openat(2), closed on exec. Invalid, with errno set, if that fails.
inline Descriptor open_descriptor_at(int directory, const char* name, int flags,
                                     mode_t mode = 0) noexcept {
  return Descriptor(env::beside_standard_streams(
      uninterrupted([&] { return ::openat(directory, name, flags | O_CLOEXEC, mode); })));
}

inline Descriptor open_descriptor(const char* path, int flags, mode_t mode = 0) noexcept {
  return open_descriptor_at(AT_FDCWD, path, flags, mode);
}

// The same of what may be a pipe: one without a reader is an error, and not a hang. A file is
// waited for, as open(2) does, where a file server holds a lease of it: the system asks for it
// back.
inline Descriptor open_file_or_pipe(const char* path, int flags, mode_t mode = 0) noexcept {
  Descriptor opened = open_descriptor(path, flags | O_NONBLOCK, mode);
  struct stat facts;
  if (opened || errno != EWOULDBLOCK || ::stat(path, &facts) != 0 || !S_ISREG(facts.st_mode)) {
    return opened;
  }
  return open_descriptor(path, flags, mode);
}

}  // namespace hflush::local
