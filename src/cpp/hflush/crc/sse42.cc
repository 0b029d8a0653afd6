// The crc32 instruction in three streams for CRC32C; PCLMULQDQ on 16-byte vectors for CRC-32.
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

#define HFLUSH_TARGET [[gnu::target("sse4.2,pclmul")]]
#define HFLUSH_INLINE [[gnu::always_inline]] HFLUSH_TARGET inline

namespace hflush::crc {
namespace {

using Vector = __m128i;

HFLUSH_INLINE Vector load(const void* at) {
  return _mm_loadu_si128(static_cast<const Vector*>(at));
}

HFLUSH_INLINE void store(std::byte* at, Vector vector) {
  _mm_storeu_si128(reinterpret_cast<Vector*>(at), vector);
}

HFLUSH_INLINE Vector repeat(FoldConstants constants) {
  return _mm_set_epi64x(static_cast<long long>(constants.second_word),
                        static_cast<long long>(constants.first_word));
}

HFLUSH_INLINE Vector add_state(Vector vector, std::uint32_t state) {
  return _mm_xor_si128(vector, _mm_cvtsi32_si128(static_cast<int>(state)));
}

HFLUSH_INLINE Vector multiply_add(Vector a, Vector b, Vector c) {
  const Vector products =
      _mm_xor_si128(_mm_clmulepi64_si128(a, b, 0x00), _mm_clmulepi64_si128(a, b, 0x11));
  return _mm_xor_si128(products, c);
}

HFLUSH_INLINE Words add_lanes(Vector vector) { return words_of(vector); }

#include "hflush/crc/folding.inc"

// A block of 512 bytes is three streams of 168, side by side so that three crc32 instructions are
// in flight, and a last word. The streams stay within the block: streams from neighbouring chunks
// would be further apart than the hardware prefetcher follows.
constexpr std::size_t kBlock = 512;
constexpr std::size_t kStream = 168;
static_assert(3 * kStream + 8 == kBlock);

template <bool kCopy>
HFLUSH_INLINE std::uint64_t take_word(const std::byte* source, std::size_t offset,
                                      std::byte* destination) {
  std::uint64_t word;
  std::memcpy(&word, source + offset, sizeof word);
  if constexpr (kCopy) std::memcpy(destination + offset, &word, sizeof word);
  return word;
}

template <bool kCopy>
HFLUSH_INLINE std::uint32_t update_block(std::uint32_t state, const std::byte* source,
                                         std::byte* destination) {
  constexpr std::uint32_t kPastTwoStreams = power_of_x(Kind::kCrc32c, 8 * (2 * kStream + 8) - 33);
  constexpr std::uint32_t kPastOneStream = power_of_x(Kind::kCrc32c, 8 * (kStream + 8) - 33);
  std::uint64_t a = state;
  std::uint64_t b = 0;
  std::uint64_t c = 0;
  for (std::size_t at = 0; at < kStream; at += 8) {
    a = _mm_crc32_u64(a, take_word<kCopy>(source, at, destination));
    b = _mm_crc32_u64(b, take_word<kCopy>(source, at + kStream, destination));
    c = _mm_crc32_u64(c, take_word<kCopy>(source, at + 2 * kStream, destination));
  }
  const std::uint64_t joined = multiply_words(a, kPastTwoStreams) ^
                               multiply_words(b, kPastOneStream) ^
                               take_word<kCopy>(source, 3 * kStream, destination);
  return static_cast<std::uint32_t>(_mm_crc32_u64(c, joined));
}

struct ThreeStreams {
  template <bool kCopy>
  HFLUSH_INLINE static std::uint32_t update(std::uint32_t state, const std::byte* source,
                                            std::size_t size, std::byte* destination) {
    for (; size >= kBlock; size -= kBlock) {
      state = update_block<kCopy>(state, source, destination);
      source += kBlock;
      if constexpr (kCopy) destination += kBlock;
    }
    return update_words<Kind::kCrc32c, kCopy>(state, source, size, destination);
  }
};

template <Kind kKind>
using Engine = std::conditional_t<kKind == Kind::kCrc32c, ThreeStreams, Folding<kKind>>;

constexpr std::size_t kPrefetchBytes = 0;
constexpr std::size_t kRuns = 1;

#include "hflush/crc/chunks.inc"

}  // namespace

constinit const Kernel kSse42Kernel = make_kernel("sse42", []() noexcept -> bool {
  return __builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("pclmul");
});

}  // namespace hflush::crc

#endif  // defined(__x86_64__)
