#include "storage/packed/line_kernel.h"

#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace kbf {

namespace {

// Bit i: the i-th 16-bit lane of the word is 0.
uint32_t ZeroLanes(uint64_t word) {
  constexpr uint64_t kLow = 0x7fff7fff7fff7fff;
  // The highest bit of a lane is set where the lane is 0; no carry leaves a lane.
  const uint64_t zero = ~(((word & kLow) + kLow) | word | kLow);
  // Collects bits 15, 31, 47 and 63 in bits 0 to 3.
  return static_cast<uint32_t>((zero >> 15) * 0x0001000200040008u >> 48 & 15);
}

uint32_t MatchLine(const std::byte* line, uint16_t tag) {
  const uint64_t tags = tag * 0x0001000100010001u;
  uint32_t mask = 0;
  for (unsigned i = 0; i < 4; ++i) {
    uint64_t word;
    std::memcpy(&word, line + 8 * i, sizeof(word));
    mask |= ZeroLanes(word ^ tags) << 4 * i;
  }
  return mask;
}

}  // namespace

uint32_t MatchPortable(const std::byte* first, const std::byte* second, uint16_t tag) {
  return MatchLine(first, tag) | MatchLine(second, tag) << 16;
}

#if defined(__x86_64__)

namespace {

uint32_t MatchSse2(const std::byte* first, const std::byte* second, uint16_t tag) {
  const __m128i tags = _mm_set1_epi16(static_cast<int16_t>(tag));
  const auto match = [tags](const std::byte* line) {
    const auto* lanes = reinterpret_cast<const __m128i*>(line);
    const __m128i low = _mm_cmpeq_epi16(_mm_loadu_si128(lanes), tags);
    const __m128i high = _mm_cmpeq_epi16(_mm_loadu_si128(lanes + 1), tags);
    return static_cast<uint32_t>(_mm_movemask_epi8(_mm_packs_epi16(low, high)));
  };
  return match(first) | match(second) << 16;
}

__attribute__((target("avx2"))) uint32_t MatchAvx2(const std::byte* first, const std::byte* second,
                                                   uint16_t tag) {
  const __m256i tags = _mm256_set1_epi16(static_cast<int16_t>(tag));
  const __m256i a =
      _mm256_cmpeq_epi16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(first)), tags);
  const __m256i b =
      _mm256_cmpeq_epi16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(second)), tags);
  // Packing works in halves of 128 bits, so their middle quarters are exchanged.
  const __m256i packed = _mm256_permute4x64_epi64(_mm256_packs_epi16(a, b), 0xd8);
  return static_cast<uint32_t>(_mm256_movemask_epi8(packed));
}

}  // namespace

LineKernel Sse2LineKernel() { return MatchSse2; }
LineKernel Avx2LineKernel() { return __builtin_cpu_supports("avx2") ? MatchAvx2 : nullptr; }

#else

LineKernel Sse2LineKernel() { return nullptr; }
LineKernel Avx2LineKernel() { return nullptr; }

#endif

LineKernel FastestLineKernel() {
  if (const LineKernel avx2 = Avx2LineKernel()) return avx2;
  if (const LineKernel sse2 = Sse2LineKernel()) return sse2;
  return MatchPortable;
}

}  // namespace kbf
