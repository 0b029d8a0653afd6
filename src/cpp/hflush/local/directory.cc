#include "hflush/local/directory.h"

#include <fcntl.h>

#include <cerrno>
#include <cstring>

#include "hflush/local/descriptor.h"

namespace hflush::local {

DirectoryReader::DirectoryReader(int directory) noexcept {
  // A descriptor of its own: a duplicate would share its position with others.
  Descriptor own = open_descriptor_at(directory, ".", O_RDONLY | O_DIRECTORY);
  stream_ = own ? ::fdopendir(own.get()) : nullptr;
  if (stream_ == nullptr) {
    error_number_ = errno;
  } else {
    own.release();
  }
}

DirectoryReader::~DirectoryReader() {
  if (stream_ != nullptr) ::closedir(stream_);
}

const dirent* DirectoryReader::next() noexcept {
  while (stream_ != nullptr) {
    errno = 0;
    const dirent* entry = ::readdir(stream_);
    if (entry == nullptr) {
      error_number_ = errno;
      return nullptr;
    }
    if (std::strcmp(entry->d_name, ".") != 0 && std::strcmp(entry->d_name, "..") != 0) return entry;
  }
  return nullptr;
}

}  // namespace hflush::local
