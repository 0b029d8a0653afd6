// PMULL on 16-byte vectors, and the crc32 instructions for what is left. Linux says which
// processors have them.
#if defined(__aarch64__) && defined(__linux__)

#include <arm_acle.h>
#include <arm_neon.h>
#include <asm/hwcap.h>
#include <sys/auxv.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "hflush/base/endian.h"
#include "hflush/crc/folding.h"
#include "hflush/crc/kernel.h"

// clang spells features otherwise, and declares the intrinsics only if the whole build has them.
#if defined(__clang__)
#define HFLUSH_TARGET [[gnu::target("crc,crypto")]]
#define HFLUSH_CRC32_WORD __builtin_arm_crc32d
#define HFLUSH_CRC32C_WORD __builtin_arm_crc32cd
#else
#define HFLUSH_TARGET [[gnu::target("+crc+crypto")]]
#define HFLUSH_CRC32_WORD __crc32d
#define HFLUSH_CRC32C_WORD __crc32cd
#endif
#define HFLUSH_INLINE [[gnu::always_inline]] HFLUSH_TARGET inline

namespace hflush::crc {
namespace {

using Vector = uint64x2_t;

struct Words {
  std::uint64_t first;
  std::uint64_t second;
};

HFLUSH_INLINE Vector load(const void* at) {
  return vreinterpretq_u64_u8(vld1q_u8(static_cast<const std::uint8_t*>(at)));
}

HFLUSH_INLINE void store(std::byte* at, Vector vector) {
  vst1q_u8(reinterpret_cast<std::uint8_t*>(at), vreinterpretq_u8_u64(vector));
}

HFLUSH_INLINE Vector repeat(FoldConstants constants) {
  return vcombine_u64(vcreate_u64(constants.first_word), vcreate_u64(constants.second_word));
}

HFLUSH_INLINE Vector add_state(Vector vector, std::uint32_t state) {
  return veorq_u64(vector, vcombine_u64(vcreate_u64(state), vcreate_u64(0)));
}

HFLUSH_INLINE Vector multiply_add(Vector a, Vector b, Vector c) {
  const poly64x2_t left = vreinterpretq_p64_u64(a);
  const poly64x2_t right = vreinterpretq_p64_u64(b);
  const poly128_t first = vmull_p64(vgetq_lane_p64(left, 0), vgetq_lane_p64(right, 0));
  const poly128_t second = vmull_high_p64(left, right);
  return veorq_u64(veorq_u64(vreinterpretq_u64_p128(first), vreinterpretq_u64_p128(second)), c);
}

HFLUSH_INLINE Words add_lanes(Vector vector) {
  return {vgetq_lane_u64(vector, 0), vgetq_lane_u64(vector, 1)};
}

template <Kind kKind>
HFLUSH_INLINE std::uint32_t reduce(std::uint64_t word) {
  return kKind == Kind::kCrc32c ? HFLUSH_CRC32C_WORD(0, word) : HFLUSH_CRC32_WORD(0, word);
}

#include "hflush/crc/folding.inc"

template <Kind kKind>
using Engine = Folding<kKind>;

constexpr std::size_t kPrefetchBytes = 0;
constexpr std::size_t kRuns = 1;

#include "hflush/crc/chunks.inc"

}  // namespace

constinit const Kernel kArmv8Kernel = make_kernel("armv8", []() noexcept -> bool {
  constexpr unsigned long kNeeded = HWCAP_CRC32 | HWCAP_PMULL;
  return (getauxval(AT_HWCAP) & kNeeded) == kNeeded;
});

}  // namespace hflush::crc

#endif  // defined(__aarch64__) && defined(__linux__)
