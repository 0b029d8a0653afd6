#include "hflush/local/local_source.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <limits>
#include <utility>

#include "hflush/base/before_sleep.h"
#include "hflush/local/local_status.h"

namespace hflush::local {
namespace {

constexpr std::uint64_t kMaxPosition = std::numeric_limits<off_t>::max();

Status expect_regular(const struct stat& facts, const std::string& path) {
  if (S_ISREG(facts.st_mode)) return {};
  if (S_ISDIR(facts.st_mode)) {
    return Status(StatusCode::kNotAFile, "open: this is a directory", path, EISDIR);
  }
  return Status(StatusCode::kUnsupported, "open: a pipe, socket or device", path, ENOTSUP);
}

}  // namespace

Result<Descriptor> open_regular(const std::string& path, int flags) {
  struct stat facts;
  if (::stat(path.c_str(), &facts) != 0) return failure_of(errno, "open", path);
  HFLUSH_RETURN_IF_ERROR(expect_regular(facts, path));
  // Something else may have taken its place.
  Descriptor file = open_file_or_pipe(path.c_str(), flags | O_NOCTTY);
  if (!file) return failure_of(errno, "open", path);
  if (::fstat(file.get(), &facts) != 0) return Status::from_errno(errno, "status", path);
  HFLUSH_RETURN_IF_ERROR(expect_regular(facts, path));
  return file;
}

Result<std::unique_ptr<LocalSource>> LocalSource::open(const std::string& path) {
  HFLUSH_ASSIGN_OR_RETURN(Descriptor file, open_regular(path, O_RDONLY));
  return std::make_unique<LocalSource>(path, std::move(file));
}

Result<std::size_t> LocalSource::pread(std::uint64_t position, MutableByteView out) const {
  HFLUSH_ASSIGN_OR_RETURN(const auto file, this->file());
  // No file reaches further, and the kernel refuses to be asked.
  const std::uint64_t room = position < kMaxPosition ? kMaxPosition - position : 0;
  const std::size_t wanted = std::min<std::uint64_t>(out.size(), room);
  std::size_t done = 0;
  while (done < wanted) {
    const ssize_t got = uninterrupted([&] {
      return ::pread(file->get(), out.data() + done, wanted - done,
                     static_cast<off_t>(position + done));
    });
    if (got < 0) {
      return Status::from_errno(errno, "read at " + std::to_string(position + done), path_);
    }
    if (got == 0) break;
    done += static_cast<std::size_t>(got);
  }
  return done;
}

Result<std::uint64_t> LocalSource::length() const {
  HFLUSH_ASSIGN_OR_RETURN(const auto file, this->file());
  struct stat facts;
  BeforeSleep::run();
  if (::fstat(file->get(), &facts) != 0) return Status::from_errno(errno, "status", path_);
  return static_cast<std::uint64_t>(facts.st_size);
}

void LocalSource::close() {
  std::shared_ptr<const Descriptor> closing;
  MutexLock lock(mutex_);
  closing.swap(file_);
}

Result<int> LocalSource::fileno() const {
  HFLUSH_ASSIGN_OR_RETURN(const auto file, this->file());
  return file->get();
}

Result<std::shared_ptr<const Descriptor>> LocalSource::file() const {
  MutexLock lock(mutex_);
  if (file_ == nullptr) return Status(StatusCode::kClosed, "file is closed", path_, EBADF);
  return file_;
}

}  // namespace hflush::local
