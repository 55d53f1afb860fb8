#include "storage/paper/greedy_encodings.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "storage/maths.h"

namespace kbf {
namespace {

// Algorithm 1 as it reads, one candidate and one set lookup at a time.
std::vector<uint32_t> NaiveEncodings(unsigned bits) {
  std::vector<uint32_t> admitted;
  std::set<uint32_t> taken;
  for (uint32_t c = 1; c < uint32_t{1} << bits; ++c) {
    std::set<uint32_t> fresh = {c};
    for (const uint32_t e : admitted) fresh.insert(c ^ e);
    const bool collides = std::ranges::any_of(fresh, [&](uint32_t x) { return taken.contains(x); });
    if (collides || fresh.size() != admitted.size() + 1) continue;
    taken.insert(fresh.begin(), fresh.end());
    admitted.push_back(c);
  }
  return admitted;
}

size_t FittingIn(const std::vector<uint32_t>& encodings, unsigned bits) {
  return static_cast<size_t>(std::ranges::lower_bound(encodings, uint32_t{1} << bits) -
                             encodings.begin());
}

TEST_SUITE("storage") {
  TEST_CASE("the greedy search agrees with Algorithm 1 done naively in every width up to 13 bits") {
    for (unsigned bits = 0; bits <= 13; ++bits) {
      CAPTURE(bits);
      CHECK(GreedyEncodings(SIZE_MAX, bits) == NaiveEncodings(bits));
    }
  }

  TEST_CASE("the first greedy encodings are pinned") {
    const std::vector<uint32_t> first = {1,   2,   4,   8,   15,  16,  32,  51,  64,  85,
                                         106, 128, 150, 171, 219, 237, 247, 256, 279, 297};
    CHECK(GreedyEncodings(20, 30) == first);
  }

  TEST_CASE("the greedy search stops at the count or at the width, whichever is first") {
    CHECK(GreedyEncodings(0, 20).empty());
    CHECK(GreedyEncodings(5, 0).empty());
    CHECK(GreedyEncodings(1, 1) == std::vector<uint32_t>{1});
    CHECK(GreedyEncodings(100, 40).size() == 100);  // a width above the limit counts as the limit
    const auto wide = GreedyEncodings(SIZE_MAX, 20);
    for (const size_t count : {1u, 2u, 29u, 30u, 300u, 442u, 443u, 444u}) {
      CAPTURE(count);
      const auto some = GreedyEncodings(count, 20);
      CHECK(some.size() == std::min(count, wide.size()));
      CHECK(std::equal(some.begin(), some.end(), wide.begin()));
    }
  }

  TEST_CASE("the greedy encodings of each width, beside BCH's and what counting allows") {
    const auto encodings = GreedyEncodings(SIZE_MAX, 24);
    for (unsigned bits = 6; bits <= 24; ++bits) {
      const size_t fit = FittingIn(encodings, bits);
      const std::string bch = bits % 2 == 0 ? std::to_string((1u << bits / 2) - 1) : "-";
      MESSAGE("P = ", bits, ": greedy ", fit, ", BCH ", bch, ", at most ",
              EncodingsUpperBound(bits));
      CHECK(fit <= EncodingsUpperBound(bits));
    }
    CHECK(FittingIn(encodings, 16) == 156);
    CHECK(encodings.size() == 1225);
  }

  TEST_CASE("the counting limit on encodings is exact, as the examples of the papers say") {
    CHECK(EncodingsUpperBound(0) == 1);
    CHECK(EncodingsUpperBound(13) >= 100);  // [kBF-conf] §III.C: 100 values need 13 bits
    CHECK(EncodingsUpperBound(12) < 100);
    CHECK(EncodingsUpperBound(28) >= 16384);  // [kBF] §3.2: 16,384 values need 28 bits
    CHECK(EncodingsUpperBound(27) < 16384);
    for (unsigned bits = 1; bits <= 40; ++bits) {
      const uint64_t n = EncodingsUpperBound(bits);
      CHECK(n * (n - 1) / 2 + n <= uint64_t{1} << bits);
      CHECK((n + 1) * n / 2 + n + 1 > uint64_t{1} << bits);
    }
  }

  TEST_CASE("the first 3,000 greedy encodings obey the pair rule") {
    const auto encodings = GreedyEncodings(3000, 30);
    REQUIRE(encodings.size() == 3000);
    CHECK(std::ranges::is_sorted(encodings));
    CHECK(ObeysPairRule(encodings));
  }

  TEST_CASE("the pair rule is broken by a zero, a repetition, a triple and a pair of pairs") {
    CHECK(ObeysPairRule({}));
    CHECK(ObeysPairRule(std::vector<uint32_t>{8, 1, 4, 2}));
    CHECK_FALSE(ObeysPairRule(std::vector<uint32_t>{0}));
    CHECK_FALSE(ObeysPairRule(std::vector<uint32_t>{1, 2, 1}));
    CHECK_FALSE(ObeysPairRule(std::vector<uint32_t>{1, 2, 3}));
    CHECK_FALSE(ObeysPairRule(std::vector<uint32_t>{1, 2, 4, 7}));
    auto encodings = GreedyEncodings(500, 30);
    encodings.push_back(encodings[17] ^ encodings[230] ^ encodings[444]);
    CHECK_FALSE(ObeysPairRule(encodings));
    std::vector<uint32_t> too_many(20);
    for (uint32_t i = 0; i < too_many.size(); ++i) too_many[i] = i + 1;
    CHECK_FALSE(ObeysPairRule(too_many));
  }
}

}  // namespace
}  // namespace kbf
