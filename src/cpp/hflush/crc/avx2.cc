// VPCLMULQDQ on 32-byte vectors, for processors without AVX-512; for CRC32C beside the crc32
// instruction, which has an execution unit of its own.
#if defined(__x86_64__)

#include <immintrin.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

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

// A block of 512 bytes begins with a dot product; the rest are three streams of the crc32
// instruction, and a last word, which what is not reduced yet joins. Both units are busy if their
// work alternates: each has a queue of its own, and a full one keeps the other from its work.
constexpr std::size_t kDotVectors = 6;
constexpr std::size_t kStreamsBegin = kDotVectors * sizeof(Vector);
constexpr std::size_t kStream = 104;
static_assert(kStreamsBegin + 3 * kStream + 8 == kDotBytes);

struct Sums {
  Vector dot{};
  std::uint64_t a = 0;
  std::uint64_t b = 0;
  std::uint64_t c = 0;
};

HFLUSH_INLINE std::uint64_t word_at(const std::byte* source) {
  std::uint64_t word;
  std::memcpy(&word, source, sizeof word);
  return word;
}

// All vectors but the first, which waits for the state, and the streams. In steps that are alike;
// the compiler keeps their order.
template <std::size_t kVector = 1>
HFLUSH_INLINE void sum_steps(Sums& sums, const std::byte* source) {
  constexpr std::size_t kSteps = kDotVectors - 1;
  constexpr std::size_t kBegin = kStream / 8 * (kVector - 1) / kSteps * 8;
  constexpr std::size_t kEnd = kStream / 8 * kVector / kSteps * 8;
  const Vector factors = constants_of<Kind::kCrc32c>(kDotBytes / sizeof(Vector) - kVector);
  sums.dot = multiply_add(load(source + kVector * sizeof(Vector)), factors, sums.dot);
  const std::byte* const streams = source + kStreamsBegin;
  for (std::size_t at = kBegin; at < kEnd; at += 8) {
    sums.a = _mm_crc32_u64(sums.a, word_at(streams + at));
    sums.b = _mm_crc32_u64(sums.b, word_at(streams + at + kStream));
    sums.c = _mm_crc32_u64(sums.c, word_at(streams + at + 2 * kStream));
  }
  asm("" : "+x"(sums.dot), "+r"(sums.a), "+r"(sums.b), "+r"(sums.c));
  if constexpr (kVector < kSteps) sum_steps<kVector + 1>(sums, source);
}

template <bool kCopy>
HFLUSH_INLINE std::uint32_t update_block(std::uint32_t state, const std::byte* source,
                                         std::byte* destination) {
  constexpr std::uint32_t kPastTwo = power_of_x(Kind::kCrc32c, 8 * (2 * kStream + 8) - 33);
  constexpr std::uint32_t kPastOne = power_of_x(Kind::kCrc32c, 8 * (kStream + 8) - 33);
  if constexpr (kCopy) {
    for (std::size_t at = 0; at < kDotBytes; at += sizeof(Vector)) {
      store(destination + at, load(source + at));
    }
    source = destination;    // which does not change meanwhile
    asm("" : : : "memory");  // the compiler reads no byte of the source again
  }
  Sums sums;
  sum_steps(sums, source);
  const Vector factors = constants_of<Kind::kCrc32c>(kDotBytes / sizeof(Vector));
  const Words dot = add_lanes(multiply_add(add_state(load(source), state), factors, sums.dot));
  const std::uint64_t last = multiply_words(sums.a, kPastTwo) ^ multiply_words(sums.b, kPastOne) ^
                             word_at(source + kDotBytes - 8) ^ dot.first;
  return static_cast<std::uint32_t>(_mm_crc32_u64(sums.c, last)) ^
         static_cast<std::uint32_t>(dot.second);
}

// Sums of cold memory gain a quarter on AMD's family 25 (Zen 3).
constexpr std::size_t kPrefetchBytes = 4096;

struct Both {
  template <bool kCopy>
  HFLUSH_INLINE static std::uint32_t update(std::uint32_t state, const std::byte* source,
                                            std::size_t size, std::byte* destination) {
    for (std::size_t blocks = size / kDotBytes; blocks > 0; --blocks) {
      state = update_block<kCopy>(state, source, destination);
      source += kDotBytes;
      if constexpr (kCopy) destination += kDotBytes;
      if (blocks > 1) prefetch_ahead<kPrefetchBytes>(source);
    }
    return Folding<Kind::kCrc32c>::update<kCopy>(state, source, size % kDotBytes, destination);
  }
};

template <Kind kKind>
using Engine = std::conditional_t<kKind == Kind::kCrc32c, Both, Folding<kKind>>;

constexpr std::size_t kRuns = 1;

#include "hflush/crc/chunks.inc"

}  // namespace

constinit const Kernel kAvx2Kernel = make_kernel("avx2", []() noexcept -> bool {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("vpclmulqdq") &&
         __builtin_cpu_supports("pclmul") && __builtin_cpu_supports("sse4.2");
});

}  // namespace hflush::crc

#endif  // defined(__x86_64__)
