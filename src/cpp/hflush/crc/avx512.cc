// VPCLMULQDQ on 64-byte vectors, and for half of each usual chunk GFNI beside it.
#if defined(__x86_64__)

#include <immintrin.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "hflush/base/endian.h"
#include "hflush/crc/folding.h"
#include "hflush/crc/kernel.h"
#include "hflush/crc/x86.h"

#define HFLUSH_TARGET [[gnu::target("avx512f,avx512bw,vpclmulqdq,gfni,pclmul,sse4.2")]]
#define HFLUSH_INLINE [[gnu::always_inline]] HFLUSH_TARGET inline

namespace hflush::crc {
namespace {

using Vector = __m512i;

HFLUSH_INLINE Vector load(const void* at) { return _mm512_loadu_si512(at); }

HFLUSH_INLINE void store(std::byte* at, Vector vector) { _mm512_storeu_si512(at, vector); }

// Masks that keep everything stand where the plain intrinsics pass an undefined operand, of which
// g++ 12 warns (GCC bug 105593). They cost nothing.
HFLUSH_INLINE Vector repeat(FoldConstants constants) {
  return _mm512_maskz_broadcast_i32x4(0xFFFF,
                                      _mm_set_epi64x(static_cast<long long>(constants.second_word),
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

#include "hflush/crc/folding.inc"

// A chunk of 512 bytes is a dot product of eight vectors (folding.h), which would keep the one
// multiplier busy and everything else idle. So the second half of it goes another way: GFNI's
// affine transformation multiplies eight bytes by one 8x8 bit matrix, and reduction modulo P is
// linear.
//
// Byte j of the word that has d words after it is to contribute itself times x^(64 d + 24) mod P,
// 32 bits, which take four matrices: bits 8t to 8t+7 are plane t. Added over all words, byte j of
// the four planes is a residue R_j, still to be multiplied by x^(8 (7-j)), that is, moved up by j
// bytes. The sum of these is 88 bits, times x^8 congruent to M x^32: the first 64 to be reduced,
// the last 24 a residue, which is the form of the dot product's sum.
constexpr std::size_t kUsualVectors = kDotBytes / sizeof(Vector);
constexpr std::size_t kAffineVectors = kUsualVectors / 2;
constexpr std::size_t kPlanes = 4;

using Matrices =
    std::array<std::array<std::array<std::uint64_t, kWordsPerVector>, kPlanes>, kAffineVectors>;

constexpr Matrices affine_matrices(Kind kind) {
  Matrices matrices{};
  for (std::size_t word = 0; word < kAffineVectors * kWordsPerVector; ++word) {
    const std::size_t words_after = kAffineVectors * kWordsPerVector - 1 - word;
    std::uint32_t residue = power_of_x(kind, 64 * words_after + 24);
    for (std::size_t in = 8; in-- > 0; residue = times_x(kind, residue)) {  // bit 7 is x^0
      for (std::size_t out = 0; out < 8 * kPlanes; ++out) {
        const std::size_t row = 7 - out % 8;  // the instruction has bit 0 come of the last row
        matrices[word / kWordsPerVector][out / 8][word % kWordsPerVector] |=
            std::uint64_t{residue >> out & 1} << (8 * row + in);
      }
    }
  }
  return matrices;
}

// What the planes add up to, in words as those of the dot product's sum.
HFLUSH_INLINE Vector join_planes(const Vector (&planes)[kPlanes]) {
  constexpr __mmask8 kAll = 0xFF;
  const Vector first =
      _mm512_xor_si512(_mm512_xor_si512(planes[0], _mm512_maskz_slli_epi64(kAll, planes[1], 8)),
                       _mm512_xor_si512(_mm512_maskz_slli_epi64(kAll, planes[2], 16),
                                        _mm512_maskz_slli_epi64(kAll, planes[3], 24)));
  const Vector second =
      _mm512_xor_si512(_mm512_maskz_srli_epi64(kAll, planes[1], 56),
                       _mm512_xor_si512(_mm512_maskz_srli_epi64(kAll, planes[2], 48),
                                        _mm512_maskz_srli_epi64(kAll, planes[3], 40)));
  return _mm512_xor_si512(_mm512_maskz_unpacklo_epi64(kAll, first, second),
                          _mm512_maskz_unpackhi_epi64(kAll, first, second));
}

template <Kind kKind, bool kCopy>
HFLUSH_INLINE std::uint32_t update_usual(std::uint32_t state, const std::byte* source,
                                         std::byte* destination) {
  Vector sum = multiply_add(add_state(take<kCopy>(source, destination), state),
                            constants_of<kKind>(kUsualVectors), Vector{});
  for (std::size_t to_end = kUsualVectors - 1; to_end > kAffineVectors; --to_end) {
    sum = multiply_add(take<kCopy>(source, destination), constants_of<kKind>(to_end), sum);
  }
  alignas(sizeof(Vector)) static constexpr Matrices kMatrices = affine_matrices(kKind);
  Vector planes[kPlanes] = {};
  for (const auto& matrices : kMatrices) {
    const Vector bytes = take<kCopy>(source, destination);
    for (std::size_t plane = 0; plane < kPlanes; ++plane) {
      const Vector matrix = load(matrices[plane].data());
      planes[plane] =
          _mm512_xor_si512(planes[plane], _mm512_gf2p8affine_epi64_epi8(bytes, matrix, 0));
    }
  }
  return reduce_sum<kKind>(_mm512_xor_si512(sum, join_planes(planes)));
}

template <Kind kKind>
struct Engine {
  template <bool kCopy>
  HFLUSH_INLINE static std::uint32_t update(std::uint32_t state, const std::byte* source,
                                            std::size_t size, std::byte* destination) {
    return size == kDotBytes
               ? update_usual<kKind, kCopy>(state, source, destination)
               : Folding<kKind>::template update<kCopy>(state, source, size, destination);
  }
};

#include "hflush/crc/chunks.inc"

}  // namespace

constinit const Kernel kAvx512Kernel = make_kernel("avx512", []() noexcept -> bool {
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("vpclmulqdq") && __builtin_cpu_supports("gfni") &&
         __builtin_cpu_supports("pclmul") && __builtin_cpu_supports("sse4.2");
});

}  // namespace hflush::crc

#endif  // defined(__x86_64__)
