// The formulas of dynamic Bloom filter arrays ([DBA] §2.2, §3.2, §4): how many hash functions and
// bits a filter needs, which error rate an array of r filters allows each of them, and what that
// costs. Pure functions; Dba, its tests and figures call these.
#pragma once

#include <cstdint>

namespace kbf {

// Eq. 1: k = log2(1/ε), rounded up. REQUIRES: 0 < error_rate < 1
unsigned DbaNumHashes(double error_rate);
// Eq. 2: bits of one filter for n keys, log2 e · log2(1/ε) · n.
double DbaFilterBits(double keys, double error_rate);
// §2.2: a segmented filter with k segments of `rows` bits: (1 - (1 - 1/rows)^n)^k.
double SegmentedFalsePositive(double keys, double rows, unsigned num_hashes);
// Eq. 3: F_DBA of r filters.
double DbaErrorRate(double filter_error_rate, double filters);
// Eq. 4 and 5: F_BF, what each of r filters may have.
double DbaFilterErrorRate(double error_rate, double filters);
// §4.5: memory of a full array over that of one filter with the same error rate.
double DbaMemoryRatio(double error_rate, double filters);
// §4.2, Amdahl: gain of group cardinality g where queries take the share q of the time.
double DbaSpeedup(double query_share, double group_cardinality);

}  // namespace kbf
