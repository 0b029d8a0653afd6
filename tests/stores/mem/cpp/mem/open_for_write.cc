#include "mem/open_for_write.h"

#include <utility>

#include "hflush/env/clock.h"
#include "hflush/env/process.h"
#include "mem/memory_sink.h"

namespace hflush::mem {
namespace {

StreamResult stream_to(const std::shared_ptr<MemoryFiles>& files, MemoryFiles::File file,
                       const std::string& path) {
  return std::make_unique<stream::OutputStream>(
      path, std::make_unique<MemorySink>(files, std::move(file), path),
      env::Process::current().buffers(), env::steady_clock());
}

}  // namespace

StreamResult create(const std::shared_ptr<MemoryFiles>& files, const std::string& path,
                    bool overwrite, bool create_parent, mode_t mode) {
  HFLUSH_ASSIGN_OR_RETURN(auto file, files->create(path, overwrite, create_parent, mode));
  return stream_to(files, std::move(file), path);
}

StreamResult append(const std::shared_ptr<MemoryFiles>& files, const std::string& path) {
  HFLUSH_ASSIGN_OR_RETURN(auto file, files->open(path));
  return stream_to(files, std::move(file), path);
}

}  // namespace hflush::mem
