// Sidecars: the files in which Hadoop's LocalFileSystem keeps checksums, `.name.crc` beside `name`.
//
//    0        4                    8      12     16
//   +--------+--------------------+------+------+----
//   | c r c 0| bytes per checksum | sum  | sum  | ...     all big-endian
//   +--------+--------------------+------+------+----
//
// One CRC-32 (zlib's polynomial) for every `bytes per checksum` bytes of data and one for a shorter
// rest (LOCAL-1). A file of n bytes has a sidecar of exactly sidecar_length(n) bytes; less or more
// is a fault, but while the file is being written, which its writer shows by mark_unfinished():
// readers then take the bytes as they are. A file without a sidecar is not verified. Thread-safe:
// pure functions, and system calls.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "hflush/base/bytes.h"
#include "hflush/base/result.h"

namespace hflush::local {

inline constexpr std::uint32_t kDefaultBytesPerChecksum = 512;
// A reader verifies whole chunks, so it bounds what a foreign header can make it allocate.
inline constexpr std::uint32_t kMaxBytesPerChecksum = 1U << 24U;

inline constexpr std::size_t kSidecarHeaderSize = 8;
using SidecarHeader = std::array<std::byte, kSidecarHeaderSize>;

// Is this the name, without directories, of some file's sidecar?
bool is_sidecar_name(std::string_view name) noexcept;

// Requires: `path` is not "/".
std::string sidecar_path(std::string_view path);

// Does a failed call on a sidecar say that there is none? Names of nearly the greatest length can
// have none.
bool is_missing(const Status& failure) noexcept;

// Requires: bytes_per_checksum > 0.
std::uint64_t sidecar_length(std::uint64_t file_length, std::uint32_t bytes_per_checksum) noexcept;

// Where in the sidecar the sum of chunk number `chunk` is.
std::uint64_t sidecar_offset(std::uint64_t chunk) noexcept;

SidecarHeader sidecar_header(std::uint32_t bytes_per_checksum) noexcept;

// Bytes per checksum. kChecksum if `header` is short, has the wrong magic, or a number that is 0 or
// more than kMaxBytesPerChecksum.
Result<std::uint32_t> parse_sidecar_header(ByteView header);

// Fine if there is none.
Status remove_sidecar(const std::string& sidecar);

// For the writer of an open, writable sidecar: shows readers, in any process, that it and its file
// are not complete. The mark goes when the file is closed (env::WritableFile::close() unlocks it,
// because a forked child shares the lock), also by the writer's death, after which missing sums are
// a fault again (LOCAL-5), unless a forked child of it lives on. Set it before the file's bytes
// change. A file system without locks takes no mark; readers then refuse what they cannot verify.
void mark_unfinished(int sidecar) noexcept;
bool is_unfinished(int sidecar) noexcept;

}  // namespace hflush::local
