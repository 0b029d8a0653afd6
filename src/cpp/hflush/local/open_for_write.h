// Opens local files for writing: raw, checksummed, and raw for append.
//
// The checks and the creation are one step of the operating system (O_EXCL, O_TRUNC): of several
// racing creators exactly one wins (ATOM-1). Thread-safe.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <memory>
#include <optional>
#include <string>

#include "hflush/base/result.h"
#include "hflush/local/make_directories.h"
#include "hflush/local/permission.h"
#include "hflush/stream/output_stream.h"

namespace hflush::local {

struct CreateOptions {
  bool overwrite = true;
  Parents parents = Parents::kCreate;
  // For a file that does not exist yet; none: what the system gives it.
  std::optional<Permission> permission;
  bool sync_on_close = false;
  // Every write goes to the end, wherever others have put it meanwhile.
  bool append = false;
};

using StreamResult = Result<std::unique_ptr<stream::OutputStream>>;

// kAlreadyExists without overwrite, kPathIsDirectory over a directory, kParentNotDirectory below a
// file, kNotFound where a required parent is missing.
StreamResult create_raw(const std::string& path, const CreateOptions& options);

// The same with a sidecar. kInvalidArgument unless bytes_per_checksum is in 1 …
// kMaxBytesPerChecksum (sidecar.h), before anything is touched.
StreamResult create_checksummed(const std::string& path, const CreateOptions& options,
                                std::size_t bytes_per_checksum);

// Without a sidecar on a checksummed file system: a stale one is removed (LOCAL-3).
StreamResult create_without_checksum(const std::string& path, const CreateOptions& options);

// At the end of the file. kNotFound, kNotAFile on a directory.
StreamResult append_raw(const std::string& path, bool sync_on_close);

}  // namespace hflush::local
