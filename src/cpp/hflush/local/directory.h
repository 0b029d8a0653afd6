// DirectoryReader: the entries of an open directory, one after the other, without "." and "..".
//
// Reads from the beginning whatever the descriptor's position is, which stays the caller's.
// Owned by one thread.
#pragma once

#include <dirent.h>

namespace hflush::local {

class DirectoryReader {
 public:
  explicit DirectoryReader(int directory) noexcept;
  DirectoryReader(const DirectoryReader&) = delete;
  DirectoryReader& operator=(const DirectoryReader&) = delete;
  ~DirectoryReader();

  // The next entry, valid until the next call; null at the end and after a failure.
  const dirent* next() noexcept;
  // 0, or why next() ended early.
  int error_number() const noexcept { return error_number_; }

 private:
  DIR* stream_ = nullptr;
  int error_number_ = 0;
};

}  // namespace hflush::local
