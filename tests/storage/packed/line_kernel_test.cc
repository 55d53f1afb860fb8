#include "storage/packed/line_kernel.h"

#include <doctest/doctest.h>

#include <array>
#include <cstring>
#include <random>

namespace kbf {
namespace {

using Line = std::array<uint16_t, 32>;

uint32_t Match(LineKernel kernel, const Line& first, const Line& second, uint16_t tag) {
  return kernel(reinterpret_cast<const std::byte*>(first.data()),
                reinterpret_cast<const std::byte*>(second.data()), tag);
}

TEST_SUITE("storage/packed") {
  TEST_CASE("every kernel finds exactly the equal tags of two lines") {
    std::mt19937_64 random(1);
    // Near values, so that many are equal and many differ in a bit at either end of a lane.
    constexpr uint16_t kTags[] = {0, 1, 0x7fff, 0x8000, 0x8001, 0xfffe, 0xffff, 0x00ff};
    for (int round = 0; round < 2000; ++round) {
      Line first;
      Line second;
      for (uint16_t& tag : first) tag = kTags[random() % std::size(kTags)];
      for (uint16_t& tag : second) tag = kTags[random() % std::size(kTags)];
      const uint16_t tag = kTags[random() % std::size(kTags)];
      uint32_t expected = 0;
      for (unsigned i = 0; i < 16; ++i) {
        expected |= uint32_t{first[i] == tag} << i | uint32_t{second[i] == tag} << (16 + i);
      }
      REQUIRE(Match(MatchPortable, first, second, tag) == expected);
      REQUIRE(Match(FastestLineKernel(), first, second, tag) == expected);
      if (Sse2LineKernel() != nullptr) {
        REQUIRE(Match(Sse2LineKernel(), first, second, tag) == expected);
      }
      if (Avx2LineKernel() != nullptr) {
        REQUIRE(Match(Avx2LineKernel(), first, second, tag) == expected);
      }
    }
  }
}

}  // namespace
}  // namespace kbf
