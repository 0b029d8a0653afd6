// What the x86-64 kernels share: the reduction of one word and a register's way past other bytes.
// Pure functions; thread-safe.
// Requires: a processor with SSE4.2 and PCLMULQDQ.
#pragma once

#if defined(__x86_64__)

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "hflush/crc/folding.h"

namespace hflush::crc {

// (word x^32) mod P. CRC32C has an instruction of its own; CRC-32 takes two multiplications.
template <Kind kKind>
[[gnu::target("sse4.2,pclmul")]] inline std::uint32_t reduce(std::uint64_t word) {
  if constexpr (kKind == Kind::kCrc32c) {
    return static_cast<std::uint32_t>(_mm_crc32_u64(0, word));
  } else {
    constexpr BarrettConstants kConstants = barrett_constants(kKind);
    const __m128i factors = _mm_set_epi64x(static_cast<long long>(kConstants.generator),
                                           static_cast<long long>(kConstants.quotient));
    const __m128i dividend = _mm_cvtsi64_si128(static_cast<long long>(word));
    const __m128i quotient = _mm_clmulepi64_si128(dividend, factors, 0x00);
    const __m128i product = _mm_clmulepi64_si128(quotient, factors, 0x10);
    return static_cast<std::uint32_t>(_mm_extract_epi32(product, 2));
  }
}

// A register times a residue x^(n - 33), not yet reduced: (register x^n) mod P is reduce() of it,
// see folding.h.
[[gnu::target("sse4.2,pclmul")]] inline std::uint64_t multiply_words(std::uint64_t a,
                                                                     std::uint32_t constant) {
  return static_cast<std::uint64_t>(
      _mm_cvtsi128_si64(_mm_clmulepi64_si128(_mm_cvtsi64_si128(static_cast<long long>(a)),
                                             _mm_cvtsi32_si128(static_cast<int>(constant)), 0x00)));
}

// The register after kBytes more bytes of zeros.
template <Kind kKind, std::size_t kBytes>
[[gnu::target("sse4.2,pclmul")]] inline std::uint32_t move_past(std::uint32_t state) {
  constexpr std::uint32_t kConstant = power_of_x(kKind, 8 * kBytes - 33);
  return reduce<kKind>(multiply_words(state, kConstant));
}

// The two words of a 16-byte lane.
struct Words {
  std::uint64_t first;
  std::uint64_t second;
};

[[gnu::target("sse4.2,pclmul")]] inline Words words_of(__m128i lane) {
  return {static_cast<std::uint64_t>(_mm_cvtsi128_si64(lane)),
          static_cast<std::uint64_t>(_mm_extract_epi64(lane, 1))};
}

}  // namespace hflush::crc

#endif  // defined(__x86_64__)
