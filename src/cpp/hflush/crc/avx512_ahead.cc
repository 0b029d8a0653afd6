// The 64-byte kernel that asks for memory ahead: on AMD's family 26 (Zen 5) sums of cold memory
// gain a quarter and fused copies a third; on family 25 (Zen 4) asking was measured to cost more
// than half.
#if defined(__x86_64__)

#include <cpuid.h>

#include <cstddef>

namespace hflush::crc {
namespace {
// Half as far and half as far again do about as well.
constexpr std::size_t kPrefetchBytes = 8192;
constexpr std::size_t kRuns = 1;
constexpr std::size_t kAffineVectors = 4;
}  // namespace
}  // namespace hflush::crc

#include "hflush/crc/avx512.inc"

namespace hflush::crc {
namespace {

constexpr unsigned kFamilyThatGains = 26;

bool is_family_that_gains() noexcept {
  unsigned eax = 0;
  unsigned unused = 0;
  if (__get_cpuid(1, &eax, &unused, &unused, &unused) == 0) return false;
  const unsigned base = (eax >> 8U) & 0xFU;
  const unsigned extended = (eax >> 20U) & 0xFFU;
  return __builtin_cpu_is("amd") && base == 0xFU && base + extended == kFamilyThatGains;
}

}  // namespace

constinit const Kernel kAvx512AheadKernel = make_kernel(
    "avx512-ahead", []() noexcept -> bool { return has_avx512() && is_family_that_gains(); });

}  // namespace hflush::crc

#endif  // defined(__x86_64__)
