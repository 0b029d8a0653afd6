// Kernels: one implementation of the checksums for each instruction set, chosen at run time.
//
// Other code calls checksum.h, which uses active_kernel(); tests and benchmarks reach every
// kernel by name. Immutable; thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "hflush/base/bytes.h"
#include "hflush/crc/checksum.h"

namespace hflush::crc {

// The functions do what those of the same name in checksum.h do.
// Requires: a kind other than kNone, and usable() before any other call.
struct Kernel {
  std::string_view name;
  bool (*usable)() noexcept;  // this processor has the instructions
  std::uint32_t (*extend)(Kind kind, std::uint32_t crc, ByteView data) noexcept;
  void (*chunk_sums)(Kind kind, ByteView data, std::size_t bytes_per_checksum,
                     std::byte* sums_be) noexcept;
  void (*copy_and_sum)(Kind kind, std::byte* destination, ByteView source,
                       std::size_t bytes_per_checksum, std::byte* sums_be) noexcept;
};

// Every kernel made for this architecture, usable or not, the fastest first. The last is portable.
std::span<const Kernel* const> all_kernels() noexcept;

// The first usable one.
const Kernel& active_kernel() noexcept;

// The usable kernel of that name, or null.
const Kernel* find_kernel(std::string_view name) noexcept;

extern const Kernel kPortableKernel;
#if defined(__x86_64__)
extern const Kernel kSse42Kernel;
extern const Kernel kAvx2Kernel;
extern const Kernel kAvx512AheadKernel;
extern const Kernel kAvx512RunsKernel;
extern const Kernel kAvx512Kernel;
#elif defined(__aarch64__) && defined(__linux__)
extern const Kernel kArmv8Kernel;
#endif

}  // namespace hflush::crc
