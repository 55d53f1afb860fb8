#include "storage/membership/maths.h"

#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <cstdint>

namespace kbf {
namespace {

// A word of l words gets j of n keys.
double BinomialChance(unsigned n, unsigned j, double words) {
  return std::exp(std::lgamma(n + 1.0) - std::lgamma(j + 1.0) - std::lgamma(n - j + 1.0) -
                  j * std::log(words) + (n - j) * std::log1p(-1 / words));
}

bool Close(double value, double expected, double relative) {
  return std::fabs(value - expected) <= relative * std::fabs(expected);
}

}  // namespace

TEST_SUITE_BEGIN("storage/membership");

TEST_CASE("eq. 1 gives the examples of the papers") {
  CHECK(BloomFalsePositive(1e6, 10e6, 7) == doctest::Approx(0.008).epsilon(0.03));
  CHECK(BloomFalsePositive(1e6, 8e6, 6) == doctest::Approx(0.0216).epsilon(0.005));
  CHECK(BloomBestFalsePositive(8) == doctest::Approx(0.0214).epsilon(0.005));
  CHECK(BloomBestFalsePositive(12) == doctest::Approx(0.0031).epsilon(0.02));
  CHECK(BloomBestFalsePositive(16) == doctest::Approx(0.00046).epsilon(0.01));
}

TEST_CASE("eq. 3 is eq. 1 when every hash function has a word of its own") {
  for (const unsigned k : {1u, 3u, 4u, 8u}) {
    const WordShape shape{1000, 16, k, k};
    CAPTURE(k);
    CHECK(Close(PaperWordFalsePositive(2000, shape), BloomFalsePositive(2000, 16000, k), 1e-9));
    CHECK(Close(WordFalsePositive(2000, shape), BloomFalsePositive(2000, 16000, k), 1e-9));
  }
}

TEST_CASE("eq. 2 is the sum that the paper prints") {
  double sum = 0;
  for (unsigned j = 0; j <= 60; ++j) {
    sum += BinomialChance(60, j, 20) * std::pow(1 - std::pow(1 - 1 / 16.0, 3.0 * j), 3);
  }
  CHECK(Close(PaperWordFalsePositive(60, {20, 16, 3, 1}), sum, 1e-10));
  // A single word gets all keys.
  CHECK(Close(PaperWordFalsePositive(5, {1, 16, 3, 1}), std::pow(1 - std::pow(1 - 1 / 16.0, 15), 3),
              1e-12));
}

TEST_CASE("the exact rate agrees with counting all outcomes of two increments") {
  // One key with two hash functions in a word of 4 positions: they meet with chance 1/4.
  const double all = 0.25 * std::pow(0.25, 2) + 0.75 * std::pow(0.5, 2);
  CHECK(Close(WordAnswersAll(1, {1, 4, 2, 1}, 2), all, 1e-12));
  CHECK(WordAnswersAll(1, {1, 4, 2, 1}, 0) == doctest::Approx(1));
  // It is above the paper's approximation, which takes the mean before the power.
  for (const unsigned k : {3u, 4u, 6u}) {
    for (const unsigned g : {1u, 2u, 3u}) {
      if (g > k) continue;
      const WordShape shape{125000, 40, k, g};
      CAPTURE(k);
      CAPTURE(g);
      const double ratio = WordFalsePositive(100000, shape) / PaperWordFalsePositive(100000, shape);
      CHECK(ratio >= 1 - 1e-9);
      CHECK(ratio < (k % g == 0 ? 1.15 : 1.3));
    }
  }
}

TEST_CASE("hash functions are spread over words as evenly as can be") {
  for (unsigned k = 1; k <= 16; ++k) {
    for (unsigned g = 1; g <= k; ++g) {
      const WordShape shape{1, 1, k, g};
      unsigned sum = 0;
      for (unsigned i = 0; i < g; ++i) {
        sum += shape.HashesIn(i);
        CHECK(shape.HashesIn(i) <= shape.HashesIn(0));
        CHECK(shape.HashesIn(i) + 1 >= shape.HashesIn(0));
      }
      CHECK(sum == k);
    }
  }
}

TEST_CASE("eq. 11 keeps the expected number of overflowed words below one, and not by too much") {
  for (const uint64_t words : {1000u, 62500u, 125000u, 250000u}) {
    for (const double load : {0.2, 0.8, 1.6, 5.0}) {
      for (const unsigned g : {1u, 2u, 3u}) {
        CAPTURE(words);
        CAPTURE(load);
        CAPTURE(g);
        const auto l = static_cast<double>(words);
        const auto keys = static_cast<uint64_t>(load * l);
        const unsigned most = KeysPerWordMax(static_cast<double>(keys), l, g);
        // One increment for each key that uses the word: k = g.
        const WordShape shape{words, 8, g, g};
        CHECK(OverflowChance(keys, shape, most) * l < 1.05);
        CHECK(OverflowChance(keys, shape, most - 1) * l > 0.9);
      }
    }
  }
  CHECK(KeysPerWordMax(100000, 125000, 1) == 7);
  CHECK(FirstLevelBits(64, 3, 1, 7) == 43);
  CHECK(FirstLevelBits(64, 4, 1, 7) == 36);
  CHECK(FirstLevelBits(64, 3, 2, 9) == 50);
  CHECK(FirstLevelBits(16, 3, 1, 2) == 10);  // the example of Fig. 3(b)
  CHECK(FirstLevelBits(64, 4, 1, 16) == 0);
}

TEST_CASE("eq. 6 bounds the chance that a word holds n_max keys") {
  for (unsigned most = 4; most <= 12; ++most) {
    const WordShape shape{62500, 8, 1, 1};
    const double chance = OverflowChance(100000, shape, most - 1);  // n_max or more
    CAPTURE(most);
    CHECK(chance <= OverflowBound(100000, 62500, 1, most));
    CHECK(OverflowBound(100000, 62500, 1, most) <= OverflowLooseBound(100000, 62500, 1, most));
  }
  CHECK(BitsPerKeyBound(32, 3, 3) == doctest::Approx(23.0 / 3));
}

TEST_CASE("the replicas' formulas give the papers' tables") {
  // Table 1, k = 6: n' = 150, of which 25 were deleted and 50 added.
  const ReplicaState row{1 - BloomZeroShare(175, 1200, 6), 0.1042, 0.0533, 6};
  CHECK(100 * ReplicaFalsePositive(row) == doctest::Approx(2.2749).epsilon(0.002));
  // Table 2, first rows: n = 150 + 100 - 10 and n = 100 + 100 - 10.
  const auto host = [](double keys, unsigned k, double delta0, double delta1) {
    const ReplicaState state{1 - BloomZeroShare(keys, 1200, k), delta1, delta0, k};
    const std::array positives{ReplicaFalsePositive(state), ReplicaFalsePositive(state),
                               ReplicaFalsePositive(state), ReplicaFalsePositive(state)};
    const std::array negatives{ReplicaFalseNegative(state), ReplicaFalseNegative(state),
                               ReplicaFalseNegative(state), ReplicaFalseNegative(state)};
    return 100 * HostFalseRate(HostFalsePositive(std::pow(state.one_share, k), positives),
                               HostFalseNegative(negatives));
  };
  CHECK(host(240, 6, 0.0100, 0.1705) == doctest::Approx(46.2259).epsilon(0.001));
  CHECK(host(150, 6, 0.1165, 0.1300) == doctest::Approx(15.5103).epsilon(0.01));
  CHECK(host(190, 8, 0.0123, 0.2375) == doctest::Approx(30.9531).epsilon(0.01));
  CHECK(host(100, 8, 0.1377, 0.1732) == doctest::Approx(2.2034).epsilon(0.01));
}

TEST_CASE("a replica that is up to date has the rates of its filter") {
  const ReplicaState state{0.5, 0, 0, 6};
  CHECK(ReplicaFalseNegative(state) == doctest::Approx(0));
  CHECK(ReplicaFalsePositive(state) == doctest::Approx(std::pow(0.5, 6)));
  CHECK(ReplicaFalseRate(state) == doctest::Approx(std::pow(0.5, 6)));
  CHECK(ReplicaStoredDenied(state, 0) == doctest::Approx(0));
  CHECK(ReplicaKeys(150, 1200, 6, 0.05, 0.05) == doctest::Approx(150));
  // Eq. 6 inverts eq. 9.
  const double one_share = 1 - BloomZeroShare(ReplicaKeys(150, 1200, 6, 0.1, 0.03), 1200, 6);
  CHECK(one_share ==
        doctest::Approx(ReplicaOneShare({1 - BloomZeroShare(150, 1200, 6), 0.1, 0.03, 6})));
  // Eq. 11 with a universe of n keys: those of the set that both filters show are not false.
  CHECK(ReplicaFalsePositive({0.5, 0.1, 0.05, 2}, 1) == doctest::Approx(0.45 * 0.45 - 0.4 * 0.4));
  // All differing bits together cannot make a rate negative.
  CHECK(ReplicaFalseNegative({0.2, 0.3, 0, 4}) == doctest::Approx(std::pow(0.2, 4)));
}

TEST_CASE("1 % new keys at 5 bits per key: five times as many stored keys denied as absent keys") {
  const ReplicaState state{1 - BloomZeroShare(1000, 5000, 3), 0, 0, 3};
  CHECK(ReplicaStoredDenied(state, 0.01) == doctest::Approx(0.0091).epsilon(0.01));
}

TEST_SUITE_END();
}  // namespace kbf
