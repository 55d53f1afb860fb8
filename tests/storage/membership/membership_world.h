// What the tests of the membership filters share: numbered keys, and the bound of a measured false
// positive rate.
#pragma once

#include <cmath>
#include <cstdint>

#include "storage/hash.h"
#include "storage/membership/maths.h"

namespace kbf {

inline constexpr uint64_t kMembershipSeed = 20261118;

inline KeyHash NumberedKey(uint64_t number) {
  return {Mix64(number + kMembershipSeed), Mix64(~number * 0x9e3779b97f4a7c15u + kMembershipSeed)};
}

// One standard deviation of a rate that is measured with `asked` absent keys on each of `filters`
// filters: that of the sample, and that of the filters, whose words are filled by chance. The
// latter takes the g words of a key to vary together, which is no less than the truth.
inline double RateDeviation(uint64_t keys, const WordShape& shape, double asked, double filters) {
  const double rate = WordFalsePositive(keys, shape);
  double relative = 0;
  for (unsigned i = 0; i < shape.num_accesses; ++i) {
    const unsigned hashes = shape.HashesIn(i);
    const double mean = WordAnswersAll(keys, shape, hashes);
    const double square = WordAnswersAll(keys, shape, 2 * hashes);
    relative += std::sqrt((square / (mean * mean) - 1) / static_cast<double>(shape.words));
  }
  return std::sqrt(rate * (1 - rate) / (asked * filters) +
                   rate * relative * rate * relative / filters);
}

}  // namespace kbf
