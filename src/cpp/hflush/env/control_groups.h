// What the control groups of Linux, and so containers, leave a process of its machine: version 1,
// 2, and both side by side.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace hflush::env {

// The least limit of the groups that this process is in, and of those above them; nullopt: there is
// none, or none that can be read. `root`: of the file system in which the files are looked for.
std::optional<std::uint64_t> group_memory_limit(const std::string& root = {});
// The same of processors whose time it may use, rounded up.
std::optional<unsigned> group_processor_limit(const std::string& root = {});

// Bytes of memory that this process may use: the least of the machine's, of its groups' and of its
// address space (RLIMIT_AS). UINT64_MAX: unknown.
std::uint64_t usable_memory();

}  // namespace hflush::env
