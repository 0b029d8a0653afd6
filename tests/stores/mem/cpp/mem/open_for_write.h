// Opens files of a memory store for writing.
#pragma once

#include <sys/types.h>

#include <memory>
#include <string>

#include "hflush/base/result.h"
#include "hflush/stream/output_stream.h"
#include "mem/memory_files.h"

namespace hflush::mem {

using StreamResult = Result<std::unique_ptr<stream::OutputStream>>;

// See MemoryFiles::create().
StreamResult create(const std::shared_ptr<MemoryFiles>& files, const std::string& path,
                    bool overwrite, bool create_parent, mode_t mode);
StreamResult append(const std::shared_ptr<MemoryFiles>& files, const std::string& path);

}  // namespace hflush::mem
