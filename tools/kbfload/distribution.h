// The distributions of the Facebook workload, and how to draw from them: sizes of keys and values,
// gaps between arrivals, popularity.
//
// Promises:  a draw is a pure function of one uniform 64-bit word, so whoever can name the word (a
//            key's number, mixed) can draw again and remember nothing. SizeDistribution follows its
//            cumulative function exactly, to 2^-52; Zipf is exact too (rejection, no table).
// Costs:     SizeDistribution: 8 bytes for each of up to 4,096 sizes, about 5 ns a draw; the rare
//            larger size is found by bisection. Zipf: about 40 ns, no memory.
//
// From:      B. Atikoglu et al., Workload Analysis of a Large-Scale Key-Value Store, SIGMETRICS
//            2012: the model of the pool ETC, which paper [kBF] §6.1 evaluates on. The model is
//            continuous: a key's size is the drawn number rounded, a value's 15 plus the drawn
//            number rounded down, since its table has the sizes up to 14.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace load {

// Generalized Extreme Value and Generalized Pareto: P(X <= x), and the inverse of the latter.
double GevCdf(double x, double mu, double sigma, double k);
double ParetoCdf(double x, double sigma, double k);
double ParetoQuantile(double p, double sigma, double k);

inline constexpr double kKeyMu = 30.7984, kKeySigma = 8.20449, kKeyK = 0.078688;
inline constexpr double kValueSigma = 214.476, kValueK = 0.348238;
inline constexpr double kGapSigma = 16.0292, kGapK = 0.154971;  // microseconds between requests
// P(a value has 0, 1, 2 … 14 bytes); 44 % of all values.
inline constexpr std::array<double, 15> kSmallValues = {.00536, .00047, .17820, .09239, .00018,
                                                        .02740, .00065, .00606, .00023, .00837,
                                                        .00837, .08989, .00092, .00326, .01980};

// P(size <= bytes), whole sizes.
double EtcKeyBytesCdf(uint32_t bytes);
double EtcValueBytesCdf(uint32_t bytes);
double TinyValueBytesCdf(uint32_t bytes);  // the table alone: at most 14 bytes

// A uniform word as a number in [0, 1).
inline double Unit(uint64_t word) { return static_cast<double>(word >> 11) * 0x1p-53; }

class SizeDistribution {
 public:
  using Cdf = std::function<double(uint32_t bytes)>;
  // Sizes outside [min, max] are drawn as min or max.
  SizeDistribution(Cdf cdf, uint32_t min, uint32_t max);

  uint32_t Draw(uint64_t word) const;
  uint32_t min() const { return min_; }
  uint32_t max() const { return max_; }

 private:
  static constexpr uint32_t kTableSizes = 4096;
  static constexpr uint32_t kGuideBits = 8;

  Cdf cdf_;
  uint32_t min_;
  uint32_t max_;
  std::vector<uint64_t> below_;  // below_[i]: words under it draw min_ + i or less
  // Where the search for a word starts, by its first bits.
  std::array<uint16_t, 1 << kGuideBits> guide_{};
};

// "etc", "tiny" (values only), "N", "A-B" (uniform) or "A~B" (the logarithm is uniform); throws
// std::invalid_argument with a sentence.
SizeDistribution KeySizes(const std::string& spec);
SizeDistribution ValueSizes(const std::string& spec, uint32_t max);

// Ranks 0 … n-1 with P(rank r) proportional to (r + 1)^-s; s = 0 is uniform. W. Hörmann and G.
// Derflinger, Rejection-inversion to generate variates from monotone discrete distributions (1996).
class Zipf {
 public:
  // REQUIRES: n >= 1, 0 <= s <= 10.
  Zipf(uint64_t n, double s);
  uint64_t Draw(uint64_t word) const;

 private:
  double Integral(double x) const;
  double InverseIntegral(double x) const;
  double Density(double x) const;

  uint64_t n_;
  double s_;
  double first_ = 0;  // the integral's range that is drawn from
  double last_ = 0;
  double accept_ = 0;  // how near to a whole number is accepted at once
};

}  // namespace load
