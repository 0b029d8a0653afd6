// The 64-byte kernel for processors that read runs of memory in turn faster than one after the
// other: Intel's. Measured on family 6, model 207: sums of hot chunks gain a half, of cold ones two
// thirds. There GFNI beside the multiplier costs more than it saves.
#if defined(__x86_64__)

#include <cstddef>

namespace hflush::crc {
namespace {
constexpr std::size_t kPrefetchBytes = 0;
constexpr std::size_t kRuns = 4;
constexpr std::size_t kAffineVectors = 0;
}  // namespace
}  // namespace hflush::crc

#include "hflush/crc/avx512.inc"

namespace hflush::crc {

constinit const Kernel kAvx512RunsKernel = make_kernel(
    "avx512-runs", []() noexcept -> bool { return has_avx512() && __builtin_cpu_is("intel"); });

}  // namespace hflush::crc

#endif  // defined(__x86_64__)
