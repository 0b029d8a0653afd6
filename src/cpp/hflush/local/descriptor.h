// Descriptor: a file descriptor with one owner, and the loop around calls that signals interrupt.
//
// Thread-compatible: external locking.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

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

// openat(2), closed on exec. False with errno set if that fails.
inline Descriptor open_descriptor_at(int directory, const char* name, int flags) noexcept {
  return Descriptor(uninterrupted([&] { return ::openat(directory, name, flags | O_CLOEXEC); }));
}

inline Descriptor open_descriptor(const char* path, int flags) noexcept {
  return open_descriptor_at(AT_FDCWD, path, flags);
}

}  // namespace hflush::local
