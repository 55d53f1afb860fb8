#include "storage/membership/hcbf.h"

#include <doctest/doctest.h>

#include <numeric>
#include <random>
#include <vector>

namespace kbf {
namespace {

// A word from bits written from position 0 on; blanks are skipped.
uint64_t Word(const char* bits) {
  uint64_t word = 0;
  unsigned at = 0;
  for (const char* bit = bits; *bit != 0; ++bit) {
    if (*bit == ' ') continue;
    word |= uint64_t{*bit == '1'} << at++;
  }
  return word;
}

uint64_t WithAll(const Hcbf& hcbf, std::vector<unsigned> positions) {
  uint64_t word = 0;
  for (const unsigned position : positions) REQUIRE(hcbf.Increment(&word, position));
  return word;
}

}  // namespace

TEST_SUITE_BEGIN("storage/membership");

TEST_CASE("a word holds the bits of the paper's Fig. 3") {
  // (a) x_0 at 0, 2, 4 and x_5 at 7, 4, 2; b_1 = 8.
  CHECK(WithAll({16, 8}, {0, 2, 4, 7, 4, 2}) == Word("10101001 0110 00 00"));
  // (b) x_0 at 0, 2, 4 and x_3 at 4, 6, 8; b_1 = 10: five bits in level 2, one in level 3.
  const Hcbf improved(16, 10);
  const uint64_t full = WithAll(improved, {0, 2, 4, 4, 6, 8});
  CHECK(full == Word("1010101010 00100 0"));
  CHECK(improved.Used(full) == 16);
  uint64_t refused = full;
  CHECK_FALSE(improved.Increment(&refused, 1));
  CHECK(refused == full);
}

TEST_CASE("counters of a word agree with plain counters, and full words refuse") {
  std::mt19937_64 random(20261118);
  for (const auto& [word_bits, first_level] : {std::pair{16u, 2u},
                                               {16u, 10u},
                                               {16u, 15u},
                                               {32u, 20u},
                                               {64u, 1u},
                                               {64u, 43u},
                                               {64u, 63u}}) {
    CAPTURE(word_bits);
    CAPTURE(first_level);
    const Hcbf hcbf(word_bits, first_level);
    std::vector<unsigned> model(first_level, 0);
    uint64_t word = 0;
    uint64_t refused = 0;
    uint64_t wrong = 0;
    for (unsigned step = 0; step < 100000; ++step) {
      const auto position = static_cast<unsigned>(random() % first_level);
      const unsigned sum = std::accumulate(model.begin(), model.end(), 0u);
      // Phases of growth and of shrinking, so that words fill up and empty.
      if (random() % 8 < (step / 200 % 2 == 0 ? 6u : 2u)) {
        const bool done = hcbf.Increment(&word, position);
        wrong += done != (sum < hcbf.hierarchy_bits());
        model[position] += done;
        refused += !done;
      } else {
        const bool done = hcbf.Decrement(&word, position);
        wrong += done != (model[position] > 0);
        model[position] -= done;
      }
      for (unsigned at = 0; at < first_level; ++at) {
        wrong += hcbf.Count(word, at) != model[at];
        wrong += (word >> at & 1) != (model[at] > 0 ? 1u : 0u);
      }
      wrong += (word & hcbf.HighestBit()) != 0;
      wrong += hcbf.Used(word) != first_level + std::accumulate(model.begin(), model.end(), 0u);
    }
    CHECK(wrong == 0);
    CHECK(refused > 0);
  }
}

TEST_CASE("words that increments and decrements made are possible, and most others are not") {
  std::mt19937_64 random(20261119);
  for (const auto& [word_bits, first_level] : {std::pair{16u, 8u}, {32u, 20u}, {64u, 43u}}) {
    const Hcbf hcbf(word_bits, first_level);
    uint64_t word = 0;
    uint64_t impossible = 0;
    for (int step = 0; step < 10000; ++step) {
      const unsigned position = random() % first_level;
      if (random() % 2 == 0) {
        static_cast<void>(hcbf.Increment(&word, position));
      } else {
        static_cast<void>(hcbf.Decrement(&word, position));
      }
      impossible += !hcbf.IsPossible(word);
    }
    CHECK(impossible == 0);
    // A level that runs out of the word, and a bit behind the last level.
    CHECK_FALSE(hcbf.IsPossible(hcbf.HighestBit() - 1));
    CHECK_FALSE(hcbf.IsPossible(hcbf.HighestBit() >> 1));
  }
}

TEST_SUITE_END();
}  // namespace kbf
