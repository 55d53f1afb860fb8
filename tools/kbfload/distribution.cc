#include "tools/kbfload/distribution.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numeric>
#include <stdexcept>
#include <string_view>

#include "protocol/request.h"
#include "storage/hash.h"

namespace load {
namespace {

// A probability as a bound for uniform words.
uint64_t WordOf(double p) {
  if (p >= 1) return UINT64_MAX;
  return p <= 0 ? 0 : static_cast<uint64_t>(std::ldexp(p, 64));
}

SizeDistribution Uniform(uint32_t low, uint32_t high) {
  const double count = static_cast<double>(high) - low + 1;
  return {[=](uint32_t bytes) {
            return bytes < low ? 0.0
                               : std::min(1.0, (static_cast<double>(bytes) - low + 1) / count);
          },
          low, high};
}

// Every factor is equally likely: as many sizes between 50 and 100 as between 100 and 200.
SizeDistribution LogUniform(uint32_t low, uint32_t high) {
  const double range = std::log((high + 1.0) / low);
  return {
      [=](uint32_t bytes) { return std::clamp(std::log((bytes + 1.0) / low) / range, 0.0, 1.0); },
      low, high};
}

// N, A-B or A~B within [min, max].
SizeDistribution ParseSizes(std::string_view what, const std::string& spec, uint32_t min,
                            uint32_t max, std::string_view words) {
  uint32_t low = 0;
  const char* const end = spec.data() + spec.size();
  auto read = std::from_chars(spec.data(), end, low);
  uint32_t high = low;
  bool log_uniform = false;
  if (read.ec == std::errc() && read.ptr != end && (*read.ptr == '-' || *read.ptr == '~')) {
    log_uniform = *read.ptr == '~' && low > 0;
    read = std::from_chars(read.ptr + 1, end, high);
  }
  if (read.ec != std::errc() || read.ptr != end || low > high || low < min || high > max) {
    throw std::invalid_argument(std::string(what) + " is " + std::string(words) +
                                ", a number of bytes or a range such as 10-20 or 10~20, within " +
                                std::to_string(min) + " to " + std::to_string(max) + ", not '" +
                                spec + "'");
  }
  return log_uniform ? LogUniform(low, high) : Uniform(low, high);
}

}  // namespace

double GevCdf(double x, double mu, double sigma, double k) {
  const double base = 1 + k * (x - mu) / sigma;
  if (base <= 0) return k > 0 ? 0 : 1;
  return std::exp(-std::pow(base, -1 / k));
}

double ParetoCdf(double x, double sigma, double k) {
  return x <= 0 ? 0 : 1 - std::pow(1 + k * x / sigma, -1 / k);
}

double ParetoQuantile(double p, double sigma, double k) {
  return sigma / k * std::expm1(-k * std::log1p(-p));
}

double EtcKeyBytesCdf(uint32_t bytes) { return GevCdf(bytes + 0.5, kKeyMu, kKeySigma, kKeyK); }

double EtcValueBytesCdf(uint32_t bytes) {
  const size_t small = std::min<size_t>(kSmallValues.size(), size_t{bytes} + 1);
  const double table = std::accumulate(kSmallValues.begin(), kSmallValues.begin() + small, 0.0);
  if (bytes < kSmallValues.size()) return table;
  const double above = static_cast<double>(bytes) + 1 - static_cast<double>(kSmallValues.size());
  return table + (1 - table) * ParetoCdf(above, kValueSigma, kValueK);
}

double TinyValueBytesCdf(uint32_t bytes) {
  if (bytes + 1 >= kSmallValues.size()) return 1;
  return EtcValueBytesCdf(bytes) / EtcValueBytesCdf(kSmallValues.size() - 1);
}

SizeDistribution::SizeDistribution(Cdf cdf, uint32_t min, uint32_t max)
    : cdf_(std::move(cdf)), min_(min), max_(max) {
  for (uint32_t size = min; size <= max && below_.size() < kTableSizes; ++size) {
    below_.push_back(WordOf(cdf_(size)));
  }
  if (max_ - min_ < kTableSizes) below_.back() = UINT64_MAX;
  uint16_t at = 0;
  for (uint64_t first = 0; first < guide_.size(); ++first) {
    while (at + 1u < below_.size() && below_[at] <= first << (64 - kGuideBits)) ++at;
    guide_[first] = at;
  }
}

uint32_t SizeDistribution::Draw(uint64_t word) const {
  size_t at = guide_[word >> (64 - kGuideBits)];
  while (at < below_.size() && below_[at] <= word) ++at;
  // All ones is below nothing, and the largest of a short table.
  if (at < below_.size()) return min_ + static_cast<uint32_t>(at);
  if (max_ - min_ < kTableSizes) return max_;
  uint32_t low = min_ + kTableSizes;
  uint32_t high = max_;
  while (low < high) {
    const uint32_t middle = low + (high - low) / 2;
    if (WordOf(cdf_(middle)) > word) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return low;
}

SizeDistribution KeySizes(const std::string& spec) {
  // Below 11 bytes the model has 6e-7 of its weight; 11 bytes hold any key number (workload.h).
  if (spec == "etc") return {EtcKeyBytesCdf, 11, protocol::kKeyBytesMax};
  return ParseSizes("--key-size", spec, 1, protocol::kKeyBytesMax, "'etc'");
}

SizeDistribution ValueSizes(const std::string& spec, uint32_t max) {
  if (spec == "etc") return {EtcValueBytesCdf, 0, max};
  if (spec == "tiny") return {TinyValueBytesCdf, 0, std::min<uint32_t>(max, 14)};
  return ParseSizes("--value-size", spec, 0, max, "'etc', 'tiny', 'json'");
}

// ---- Zipf ----

Zipf::Zipf(uint64_t n, double s) : n_(n), s_(s) {
  first_ = Integral(1.5) - 1;
  last_ = Integral(static_cast<double>(n) + 0.5);
  accept_ = 2 - InverseIntegral(Integral(2.5) - Density(2));
}

double Zipf::Density(double x) const { return std::exp(-s_ * std::log(x)); }

double Zipf::Integral(double x) const {
  const double log_x = std::log(x);
  const double t = (1 - s_) * log_x;
  return (std::abs(t) > 1e-8 ? std::expm1(t) / t : 1 + t / 2) * log_x;
}

double Zipf::InverseIntegral(double x) const {
  const double t = std::max(-1.0, x * (1 - s_));
  return std::exp((std::abs(t) > 1e-8 ? std::log1p(t) / t : 1 - t / 2) * x);
}

uint64_t Zipf::Draw(uint64_t word) const {
  if (s_ == 0) return kbf::ScaleTo(word, n_);
  for (;; word = kbf::Mix64(word + 0x9e3779b97f4a7c15u)) {
    const double u = last_ + Unit(word) * (first_ - last_);
    const double x = InverseIntegral(u);
    const double rank = std::clamp(std::floor(x + 0.5), 1.0, static_cast<double>(n_));
    if (rank - x <= accept_ || u >= Integral(rank + 0.5) - Density(rank)) {
      return static_cast<uint64_t>(rank) - 1;
    }
  }
}

}  // namespace load
