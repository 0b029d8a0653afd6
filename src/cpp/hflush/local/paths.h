// Path text, which directories are missing, and what makes a directory's entries durable.
//
// A path here is absolute and normalised: it begins with "/", has no empty, "." or ".." element and
// no trailing slash, and is a string of bytes compared byte by byte (PATH-7). The layers above see
// to that. Thread-safe: pure functions of their arguments, but for the last two.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "hflush/base/result.h"

namespace hflush::local {

constexpr bool is_root(std::string_view path) noexcept { return path == "/"; }

// The directory that holds `path`; "/" for "/" itself.
std::string_view parent_of(std::string_view path) noexcept;

// The last element; empty for "/".
std::string_view name_of(std::string_view path) noexcept;

std::string join(std::string_view directory, std::string_view name);

// Is `path` strictly below `ancestor`? By the text alone: links are not followed.
bool is_below(std::string_view path, std::string_view ancestor) noexcept;

// A directory and those above it, as far as they are missing; the deepest first.
std::vector<std::string> missing_directories(std::string directory);

// Makes the entries of a directory durable: files created in, renamed within and deleted from it.
// False where that is impossible: the mount syncs no directories (CIFS, many of FUSE; their server
// has the names), or this one cannot be opened for reading or was renamed since.
// The content of the files needs fdatasync of each.
Result<bool> sync_directory(const std::string& path);

}  // namespace hflush::local
