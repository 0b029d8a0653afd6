// The 64-byte kernel for processors that fetch a stream ahead well enough by themselves.
#if defined(__x86_64__)

#include <cstddef>

namespace hflush::crc {
namespace {
constexpr std::size_t kPrefetchBytes = 0;
constexpr std::size_t kRuns = 1;
constexpr std::size_t kAffineVectors = 4;
}  // namespace
}  // namespace hflush::crc

#include "hflush/crc/avx512.inc"

namespace hflush::crc {

constinit const Kernel kAvx512Kernel = make_kernel("avx512", has_avx512);

}  // namespace hflush::crc

#endif  // defined(__x86_64__)
