// Every formula of the project, as small pure functions: the planner, the tests, `stats` and the
// figures call these.
//
// From the papers ([kBF] §3.2, §4; [kBF-conf] §IV): lower bound of encodings, p-capacity, P_n(ρ),
// global decodability. Ours: the error rates of a filter whose symbols carry check bits.
//   - A cell decodes with up to t entries, t = 2 or 3.
//   - A cell with t+1 entries is still checked: without the candidate, the rest must be an XOR of t
//     encodings, which a random word is with chance 1/t!. Each such cell halves (pairs) or divides
//     by six (triples) the chance that a wrong candidate is accepted.
//
// Notation: λ = nk/m is the mean number of entries per cell. A cell of a stored key holds a
// Poisson(λ) number of other entries, a cell of an absent key a Poisson(λ) number of entries. γ
// (`match`) is the chance that a random stored symbol is the one that a given other key would have
// chosen in that symbol's block: Σ share · 2^-c over values; 2^-c where all blocks have c check
// bits.
//
// Accuracy:  within 5σ of simulation on filters of 500 keys and more
//            (tests/storage/kbf_errors_test.cc). Line-partitioned layouts: not below simulation,
//            and above it by less than a factor of two, because cells of one line take keys from
//            each other and are not all full at once (tests/storage/maths_test.cc).
#pragma once

#include <cstdint>
#include <limits>

#include "storage/layout.h"

namespace kbf {

// ---- the papers' formulas ----

// [kBF] §3.2: the fewest bits P with 2^P >= n(n-1)/2 + n.
unsigned EncodingBitsLowerBound(uint64_t num_encodings);
// The same bound read the other way: the most encodings that P bits could possibly hold. REQUIRES:
// bits <= 62
uint64_t EncodingsUpperBound(unsigned bits);
// [kBF] §4: p-capacity = -m (ln 2)² / ln p.
double PCapacity(double num_cells, double false_positive);
// [kBF] §4: k = -ln p / ln 2, the optimum at p-capacity.
double OptimalHashes(double false_positive);
// [kBF] §4: P_n(ρ) = 2^(-ρ-1) (-ρ² (ln 2)² + 2^(ρ+1) - ρ ln 4 - 2), the share of cells with three
// or more entries.
double CellNotDecodable(double rho);
// [kBF] §4: 1 - [P_n(ρ)^k + k P_n(ρ)^(k-1) P(c = 2)].
// It counts cells as a key that is not there finds them; a stored key finds one entry more in each
// of its cells, its own.
double GlobalDecodability(double rho, unsigned num_hashes);
// Ours: the share of stored keys that count-1 cells and decode22 ([kBF] §3.5) do not decode, for
// values drawn evenly from `num_values`: each cell holds the key and a Poisson number of others;
// one with a single other is of no use if both values are equal, and two such are of no use if
// their others have equal values. REQUIRES: num_values >= 2
double StoredNotDecodable(double rho, unsigned num_hashes, uint64_t num_values);

// ---- Poisson, [kBF] §4: lim P(c(i) = j) = λ^j e^-λ / j! ----

double PoissonPmf(double lambda, unsigned j);
// P(c >= j)
double PoissonTail(double lambda, unsigned j);

// ---- our filter ----

struct ErrorRates {
  double false_negative = 0;  // a stored key is not found: undecodable, or two candidates are left
  double false_positive = 0;  // an absent key is found
  double weak = 0;            // a stored key has too little evidence to be changed in place
};

// Error rates of a filter at load λ whose rows have `row_groups` groups (m/k cells where
// unpartitioned). For line-partitioned layouts ([MPCBF] §3) the expectation is taken over the
// number of keys that share a line. `match` is γ above.
ErrorRates PredictErrors(const KbfLayout& layout, double lambda, double match,
                         double row_groups = std::numeric_limits<double>::infinity());

// Evidence of a further agreeing cell, beyond log2(1/λ). An absent key agrees by chance (2^-b), or
// because it shares this cell, too, with the stored key of the first one (1/r).
double AgreeBits(const KbfLayout& layout, double lambda, double row_groups);

// Evidence, in bits, that is enough to change cells: an absent key has it with chance 6e-8 at most.
// Two agreeing cells of three, in filters of 32 K keys with 8 check bits.
inline constexpr double kStrongEvidenceBits = 24;

// Evidence that a change of cells requires: kStrongEvidenceBits, or in filters too small for that
// the evidence of two agreeing lines: c + AgreeBits, log2(t+1) for each cell that does not decode,
// log2(1/λ) for every cell.
double StrongEvidenceBits(const KbfLayout& layout, double lambda, double row_groups);

// Lines (cells, if unpartitioned) that must agree for that much evidence; more than g where all of
// them are not enough.
unsigned AgreeingLinesForChange(const KbfLayout& layout, double lambda, double row_groups);

// Evidence of a cell that agrees in a line where another one agrees already: -log2 of the chance
// that a key which shares one cell of a line with ours shares a given other one.
double SameLineBits(const KbfLayout& layout);

}  // namespace kbf
