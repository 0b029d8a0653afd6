// Removes a directory and everything below it.
#pragma once

#include <string>

#include "hflush/base/status.h"

namespace hflush::local {

// Works on open directories, never on paths below `path`, so that no link can lead it out of the
// tree by exchanging a directory for a symbolic link: links are removed, not followed. Trees of any
// depth; two descriptors at a time. Entries that others remove meanwhile are fine. What was
// removed before a failure stays removed. kNotFound without `path`. Thread-safe.
Status remove_tree(const std::string& path);

}  // namespace hflush::local
