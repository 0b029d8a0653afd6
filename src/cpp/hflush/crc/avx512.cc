// VPCLMULQDQ on 64-byte vectors: a chunk of 512 bytes is a dot product of eight.
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

#define HFLUSH_TARGET [[gnu::target("avx512f,vpclmulqdq,pclmul,sse4.2")]]
#define HFLUSH_INLINE [[gnu::always_inline]] HFLUSH_TARGET inline

namespace hflush::crc {
namespace {

using Vector = __m512i;

HFLUSH_INLINE Vector load(const void* at) { return _mm512_loadu_si512(at); }

HFLUSH_INLINE void store(std::byte* at, Vector vector) { _mm512_storeu_si512(at, vector); }

// Masks that keep everything stand where the plain intrinsics pass an undefined operand, of which
// g++ 12 warns (GCC bug 105593). They cost nothing.
HFLUSH_INLINE Vector repeat(FoldConstants constants) {
  return _mm512_maskz_broadcast_i32x4(
      0xFFFF, _mm_set_epi64x(static_cast<long long>(constants.second_word),
                             static_cast<long long>(constants.first_word)));
}

template <int kIndex>
HFLUSH_INLINE __m128i lane(Vector vector) {
  return _mm512_maskz_extracti32x4_epi32(0xF, vector, kIndex);
}

HFLUSH_INLINE Vector add_state(Vector vector, std::uint32_t state) {
  return _mm512_xor_si512(vector,
                          _mm512_zextsi128_si512(_mm_cvtsi32_si128(static_cast<int>(state))));
}

HFLUSH_INLINE Vector multiply_add(Vector a, Vector b, Vector c) {
  constexpr int kExclusiveOrOfThree = 0x96;
  return _mm512_ternarylogic_epi64(_mm512_clmulepi64_epi128(a, b, 0x00),
                                   _mm512_clmulepi64_epi128(a, b, 0x11), c, kExclusiveOrOfThree);
}

HFLUSH_INLINE Words add_lanes(Vector vector) {
  return words_of(_mm_xor_si128(_mm_xor_si128(lane<0>(vector), lane<1>(vector)),
                                _mm_xor_si128(lane<2>(vector), lane<3>(vector))));
}

#include "hflush/crc/words.inc"
#include "hflush/crc/folding.inc"

template <Kind kKind>
using Engine = Folding<kKind>;

#include "hflush/crc/chunks.inc"

}  // namespace

constinit const Kernel kAvx512Kernel = make_kernel("avx512", []() noexcept -> bool {
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("vpclmulqdq") &&
           __builtin_cpu_supports("pclmul") && __builtin_cpu_supports("sse4.2");
  });

}  // namespace hflush::crc

#endif  // defined(__x86_64__)
