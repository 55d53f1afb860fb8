#include "storage/dba/maths.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace kbf {

unsigned DbaNumHashes(double error_rate) {
  // A rate of 2^-k that was computed elsewhere is not to cost a hash function for its last bit.
  return std::max(1u, static_cast<unsigned>(std::ceil(-std::log2(error_rate) - 1e-9)));
}

double DbaFilterBits(double keys, double error_rate) {
  return -std::numbers::log2e * std::log2(error_rate) * keys;
}

double SegmentedFalsePositive(double keys, double rows, unsigned num_hashes) {
  if (rows <= 1) return keys > 0 ? 1 : 0;
  return std::pow(-std::expm1(keys * std::log1p(-1 / rows)), num_hashes);
}

double DbaErrorRate(double filter_error_rate, double filters) {
  return -std::expm1(filters * std::log1p(-filter_error_rate));
}

double DbaFilterErrorRate(double error_rate, double filters) {
  return -std::expm1(std::log1p(-error_rate) / filters);
}

double DbaMemoryRatio(double error_rate, double filters) {
  return std::log(DbaFilterErrorRate(error_rate, filters)) / std::log(error_rate);
}

double DbaSpeedup(double query_share, double group_cardinality) {
  return 1 / (1 - query_share + query_share / group_cardinality);
}

}  // namespace kbf
