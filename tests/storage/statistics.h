// What the statistical tests share: how much to run, and the bounds of what may happen by chance.
// Test code only.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>

namespace kbf {

// `make soak` runs larger sizes and more seeds.
inline bool Soak() { return std::getenv("KBF_SOAK") != nullptr; }

// The most events that `asked` reads with chance `rate` each may show: 5σ above the mean. The same
// key may be asked up to `repeats` times with the same outcome, which multiplies the variance.
inline double MostEvents(double rate, double asked, double repeats = 1) {
  const double mean = rate * asked;
  return mean + 5 * std::sqrt(std::max(mean, 1.0) * repeats);
}

}  // namespace kbf
