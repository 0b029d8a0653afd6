// VPCLMULQDQ on 32-byte vectors, for processors without AVX-512.
#if defined(__x86_64__)

#include <immintrin.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "hflush/base/endian.h"
#include "hflush/crc/folding.h"
#include "hflush/crc/kernel.h"
#include "hflush/crc/x86.h"

#define HFLUSH_TARGET [[gnu::target("avx2,vpclmulqdq,pclmul,sse4.2")]]
#define HFLUSH_INLINE [[gnu::always_inline]] HFLUSH_TARGET inline

namespace hflush::crc {
namespace {

using Vector = __m256i;

HFLUSH_INLINE Vector load(const void* at) {
  return _mm256_loadu_si256(static_cast<const Vector*>(at));
}

HFLUSH_INLINE void store(std::byte* at, Vector vector) {
  _mm256_storeu_si256(reinterpret_cast<Vector*>(at), vector);
}

HFLUSH_INLINE Vector repeat(FoldConstants constants) {
  return _mm256_broadcastsi128_si256(_mm_set_epi64x(static_cast<long long>(constants.second_word),
                                                    static_cast<long long>(constants.first_word)));
}

HFLUSH_INLINE Vector add_state(Vector vector, std::uint32_t state) {
  return _mm256_xor_si256(vector,
                          _mm256_zextsi128_si256(_mm_cvtsi32_si128(static_cast<int>(state))));
}

HFLUSH_INLINE Vector multiply_add(Vector a, Vector b, Vector c) {
  const Vector products =
      _mm256_xor_si256(_mm256_clmulepi64_epi128(a, b, 0x00), _mm256_clmulepi64_epi128(a, b, 0x11));
  return _mm256_xor_si256(products, c);
}

HFLUSH_INLINE Words add_lanes(Vector vector) {
  return words_of(
      _mm_xor_si128(_mm256_castsi256_si128(vector), _mm256_extracti128_si256(vector, 1)));
}

#include "hflush/crc/folding.inc"

template <Kind kKind>
using Engine = Folding<kKind>;

constexpr std::size_t kPrefetchBytes = 0;
constexpr std::size_t kRuns = 1;

#include "hflush/crc/chunks.inc"

}  // namespace

constinit const Kernel kAvx2Kernel = make_kernel("avx2", []() noexcept -> bool {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("vpclmulqdq") &&
         __builtin_cpu_supports("pclmul") && __builtin_cpu_supports("sse4.2");
});

}  // namespace hflush::crc

#endif  // defined(__x86_64__)
