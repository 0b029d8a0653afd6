#include "mem/memory_source.h"

#include <cerrno>
#include <utility>

namespace hflush::mem {

MemorySource::MemorySource(std::shared_ptr<MemoryFiles> files, MemoryFiles::File file,
                           std::string path)
    : files_(std::move(files)), file_(std::move(file)), path_(std::move(path)) {}

Result<std::unique_ptr<stream::Source>> MemorySource::open(
    const std::shared_ptr<MemoryFiles>& files, const std::string& path) {
  HFLUSH_ASSIGN_OR_RETURN(auto file, files->open(path));
  return std::unique_ptr<stream::Source>(
      std::make_unique<MemorySource>(files, std::move(file), path));
}

Result<std::size_t> MemorySource::read_at(std::uint64_t position, MutableByteView out,
                                          env::Interrupt& /*interrupt*/) {
  HFLUSH_RETURN_IF_ERROR(check_usable());
  return files_.here()->read(*file_.here(), position, out);
}

Result<std::uint64_t> MemorySource::length() const {
  HFLUSH_RETURN_IF_ERROR(check_usable());
  return files_.here()->length(*file_.here());
}

Status MemorySource::check_usable() const {
  if (files_.here() == nullptr) {
    return Status(StatusCode::kForked, "read: the file was opened by the parent process", path_);
  }
  if (closed_.load()) return Status(StatusCode::kClosed, "file is closed", path_, EBADF);
  return {};
}

}  // namespace hflush::mem
