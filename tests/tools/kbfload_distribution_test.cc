#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include "storage/hash.h"
#include "tools/kbfload/distribution.h"

namespace load {
namespace {

constexpr uint64_t kSeed = 20261118;
constexpr uint64_t kDraws = 400000;

uint64_t Word(uint64_t i) { return kbf::Mix64(kSeed + i * 0x9e3779b97f4a7c15u); }

std::vector<double> Sorted(const std::function<double(uint64_t)>& draw) {
  std::vector<double> numbers;
  for (uint64_t i = 0; i < kDraws; ++i) numbers.push_back(draw(Word(i)));
  std::sort(numbers.begin(), numbers.end());
  return numbers;
}

// Kolmogorov-Smirnov: the largest distance to the cumulative function. sqrt(n) times it exceeds x
// with chance 2 exp(-2 x^2) at most, for whole numbers less: 1e-6 at x = 2.7.
void CheckFollows(const std::vector<double>& sorted, const std::function<double(double)>& cdf) {
  double distance = 0;
  for (size_t i = 0; i < sorted.size();) {
    size_t next = i;
    while (next < sorted.size() && sorted[next] == sorted[i]) ++next;
    const double share = static_cast<double>(next) / static_cast<double>(sorted.size());
    distance = std::max(distance, std::abs(share - cdf(sorted[i])));
    i = next;
  }
  CAPTURE(distance);
  CHECK(distance * std::sqrt(static_cast<double>(sorted.size())) < 2.7);
}

double MeanOf(const std::vector<double>& numbers) {
  double sum = 0;
  for (const double number : numbers) sum += number;
  return sum / static_cast<double>(numbers.size());
}

// The mean of a whole-numbered distribution: the sum of P(X > i).
double MeanOf(const std::function<double(uint32_t)>& cdf, uint32_t max) {
  double mean = 0;
  for (uint32_t i = 0; i < max; ++i) mean += 1 - cdf(i);
  return mean;
}

std::string Percentiles(const std::vector<double>& sorted) {
  std::string text;
  for (const double share : {0.1, 0.5, 0.9, 0.99}) {
    const auto at = static_cast<size_t>(share * static_cast<double>(sorted.size()));
    text += " " + std::to_string(static_cast<int>(sorted[at]));
  }
  return text;
}

std::string ModelPercentiles(const std::function<double(uint32_t)>& cdf) {
  std::string text;
  for (const double share : {0.1, 0.5, 0.9, 0.99}) {
    uint32_t size = 0;
    while (cdf(size) <= share) ++size;
    text += " " + std::to_string(size);
  }
  return text;
}

TEST_SUITE("tools") {
  TEST_CASE("kbfload: key sizes follow the published Generalized Extreme Value distribution") {
    const SizeDistribution sizes = KeySizes("etc");
    const auto drawn = Sorted([&](uint64_t word) { return double{1.0 * sizes.Draw(word)}; });
    CheckFollows(drawn,
                 [](double bytes) { return GevCdf(bytes + 0.5, 30.7984, 8.20449, 0.078688); });
    // The mean of the continuous model is mu + sigma (Gamma(1 - k) - 1) / k.
    const double model = 30.7984 + 8.20449 * (std::tgamma(1 - 0.078688) - 1) / 0.078688;
    MESSAGE("key bytes: mean " << MeanOf(drawn) << ", model " << model << "; p10 p50 p90 p99 "
                               << Percentiles(drawn) << ", model "
                               << ModelPercentiles(EtcKeyBytesCdf));
    // sigma of the sizes is 11.6: the mean of 400,000 draws is within 5 x 11.6 / 632 = 0.092.
    CHECK(std::abs(MeanOf(drawn) - model) < 0.092);
    CHECK(drawn.front() >= 11);
    CHECK(drawn.back() <= 250);
  }

  TEST_CASE("kbfload: value sizes follow the published table and Generalized Pareto tail") {
    const SizeDistribution sizes = ValueSizes("etc", 1000000);
    const auto drawn = Sorted([&](uint64_t word) { return double{1.0 * sizes.Draw(word)}; });
    CheckFollows(drawn,
                 [](double bytes) { return EtcValueBytesCdf(static_cast<uint32_t>(bytes)); });
    for (uint32_t bytes = 0; bytes < kSmallValues.size(); ++bytes) {
      CAPTURE(bytes);
      const double share = kSmallValues[bytes];
      const auto [low, high] = std::equal_range(drawn.begin(), drawn.end(), bytes);
      const double deviation = std::sqrt(share * (1 - share) * kDraws);
      CHECK(std::abs(static_cast<double>(high - low) - share * kDraws) < 5 * deviation);
    }
    const double model = MeanOf(EtcValueBytesCdf, 1000000);
    MESSAGE("value bytes: mean " << MeanOf(drawn) << ", model " << model << "; p10 p50 p90 p99 "
                                 << Percentiles(drawn) << ", model "
                                 << ModelPercentiles(EtcValueBytesCdf));
    // The tail's variance, sigma^2 / ((1-k)^2 (1-2k)), is 597^2; of all values 490^2 at most.
    CHECK(std::abs(MeanOf(drawn) - model) < 5 * 490 / std::sqrt(double{kDraws}));
  }

  TEST_CASE("kbfload: tiny values are the published table alone") {
    const SizeDistribution sizes = ValueSizes("tiny", 1000000);
    const auto drawn = Sorted([&](uint64_t word) { return double{1.0 * sizes.Draw(word)}; });
    CheckFollows(drawn,
                 [](double bytes) { return TinyValueBytesCdf(static_cast<uint32_t>(bytes)); });
    CHECK(drawn.front() == 0);
    CHECK(drawn.back() == 14);
    MESSAGE("tiny value bytes: mean " << MeanOf(drawn));
  }

  TEST_CASE("kbfload: gaps follow the published Generalized Pareto distribution") {
    const auto drawn =
        Sorted([](uint64_t word) { return ParetoQuantile(Unit(word), 16.0292, 0.154971); });
    CheckFollows(drawn, [](double us) { return ParetoCdf(us, 16.0292, 0.154971); });
    const double mean = 16.0292 / (1 - 0.154971);
    const double deviation = mean / std::sqrt(1 - 2 * 0.154971);
    MESSAGE("gap: mean " << MeanOf(drawn) << " us, model " << mean << " us");
    CHECK(std::abs(MeanOf(drawn) - mean) < 5 * deviation / std::sqrt(double{kDraws}));
  }

  TEST_CASE("kbfload: the table and the search behind it draw the same sizes") {
    // With the limit within the table, and far outside of it.
    const SizeDistribution small(EtcValueBytesCdf, 0, 4000);
    const SizeDistribution large(EtcValueBytesCdf, 0, 1000000);
    uint64_t beyond = 0;
    for (uint64_t i = 0; i < kDraws; ++i) {
      const uint32_t size = large.Draw(Word(i));
      CHECK(small.Draw(Word(i)) == std::min(size, 4000u));
      beyond += size > 4096;
      // By definition: the smallest size whose cumulative chance exceeds the word.
      const double u = std::ldexp(static_cast<double>(Word(i)), -64);
      if (size > 4096) {
        CHECK(EtcValueBytesCdf(size) >= u);
        CHECK(EtcValueBytesCdf(size - 1) <= u);
      }
    }
    CHECK(beyond > 100);
    CHECK(large.Draw(0) == 0);
    CHECK(large.Draw(UINT64_MAX) == 1000000);
    CHECK(small.Draw(UINT64_MAX) == 4000);
  }

  TEST_CASE("kbfload: sizes can be fixed or a range") {
    CHECK(KeySizes("40").Draw(0) == 40);
    CHECK(KeySizes("40").Draw(UINT64_MAX) == 40);
    CHECK(ValueSizes("0", 100).Draw(UINT64_MAX) == 0);
    const SizeDistribution range = ValueSizes("10-13", 100);
    std::vector<uint64_t> counts(14);
    for (uint64_t i = 0; i < kDraws; ++i) ++counts.at(range.Draw(Word(i)));
    for (size_t bytes = 10; bytes <= 13; ++bytes) {
      CHECK(std::abs(static_cast<double>(counts[bytes]) - kDraws / 4.0) <
            5 * std::sqrt(kDraws * 0.25 * 0.75));
    }
    // 50 to 99, 100 to 199 and 200 to 399 have one share each, 400 to 500 log(501 / 400).
    const SizeDistribution factors = ValueSizes("50~500", 1000);
    std::vector<uint64_t> octaves(4);
    for (uint64_t i = 0; i < kDraws; ++i) {
      const uint32_t bytes = factors.Draw(Word(i));
      CHECK(bytes >= 50);
      CHECK(bytes <= 500);
      ++octaves[bytes < 100 ? 0 : bytes < 200 ? 1 : bytes < 400 ? 2 : 3];
    }
    for (size_t i = 0; i < 4; ++i) {
      const double share = (i < 3 ? std::log(2.0) : std::log(501 / 400.0)) / std::log(501 / 50.0);
      CHECK(std::abs(static_cast<double>(octaves[i]) - kDraws * share) <
            5 * std::sqrt(kDraws * share * (1 - share)));
    }
    for (const char* bad : {"", "x", "0", "251", "0~10", "20~10", "20-10", "1-300", "5x", "-5",
                            "3-", "tiny", "1e1"}) {
      CAPTURE(bad);
      CHECK_THROWS_AS(KeySizes(bad), std::invalid_argument);
    }
    CHECK_THROWS_AS(ValueSizes("101", 100), std::invalid_argument);
    CHECK_THROWS_AS(ValueSizes("ETC", 100), std::invalid_argument);
  }

  TEST_CASE("kbfload: Zipf ranks have their shares") {
    // χ² over the first 49 ranks and the rest: mean 49, deviation sqrt(98).
    for (const double s : {0.5, 0.99, 1.0, 1.5, 3.0}) {
      for (const uint64_t n : {uint64_t{50}, uint64_t{1000000}}) {
        CAPTURE(s);
        CAPTURE(n);
        double all = 0;
        for (uint64_t r = 1; r <= n; ++r) all += std::pow(static_cast<double>(r), -s);
        const Zipf zipf(n, s);
        std::vector<double> counts(50);
        for (uint64_t i = 0; i < kDraws; ++i) {
          const uint64_t rank = zipf.Draw(Word(i));
          REQUIRE(rank < n);
          ++counts[std::min<uint64_t>(rank, 49)];
        }
        double chi = 0;
        double rest = 1;
        for (size_t r = 0; r < 50; ++r) {
          const double share = r == 49 ? rest : std::pow(static_cast<double>(r + 1), -s) / all;
          rest -= share;
          const double expected = share * kDraws;
          chi += (counts[r] - expected) * (counts[r] - expected) / expected;
        }
        CHECK(std::abs(chi - 49) < 5 * std::sqrt(98.0));
      }
    }
  }

  TEST_CASE("kbfload: Zipf with exponent 0 is uniform, and one rank is always rank 0") {
    const Zipf uniform(10, 0);
    std::vector<double> counts(10);
    for (uint64_t i = 0; i < kDraws; ++i) ++counts.at(uniform.Draw(Word(i)));
    for (const double count : counts) {
      CHECK(std::abs(count - kDraws / 10.0) < 5 * std::sqrt(kDraws * 0.1 * 0.9));
    }
    for (const double s : {0.0, 0.99, 1.0, 10.0}) {
      for (uint64_t i = 0; i < 100; ++i) CHECK(Zipf(1, s).Draw(Word(i)) == 0);
    }
  }
}

}  // namespace
}  // namespace load
