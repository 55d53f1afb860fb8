// Every formula of the project, as small pure functions: the planner, the tests, `stats` and the
// figures call these.
//
// Papers' side (000 §3.2, §4; 001 §IV): lower bound of encodings, p-capacity, P_n(ρ), global
// decodability. Our side: the error rates of a filter whose symbols carry check bits.
//   - A cell decodes with up to t entries, t = 2 or 3.
//   - A cell with t+1 entries is still asked: after taking the candidate out, the rest must be an
//     XOR of t encodings, which a random word is with chance 1/t!. That halves (pairs) or divides
//     by six (triples) the chance of a wrong candidate to survive, cell by cell.
//
// Notation: λ = nk/m mean entries per cell; a cell of a stored key holds `others` ~ Poisson(λ); a
// stranger's cell holds j ~ Poisson(λ). γ (`match`) is the chance that a random stored symbol is
// the one a given other key would have chosen in that symbol's block: Σ over values of share ·
// 2^-c, 2^-c where all blocks have c check bits.
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

// 000 §3.2: the fewest bits P with 2^P >= n(n-1)/2 + n.
unsigned EncodingBitsLowerBound(uint64_t num_encodings);
// The same bound read the other way: the most encodings that P bits could possibly hold. REQUIRES:
// bits <= 62
uint64_t EncodingsUpperBound(unsigned bits);
// 000 §4: p-capacity = -m (ln 2)² / ln p.
double PCapacity(double num_cells, double false_positive);
// 000 §4: k = -ln p / ln 2, the optimum at p-capacity.
double OptimalHashes(double false_positive);
// 000 §4: P_n(ρ) = 2^(-ρ-1) (-ρ² (ln 2)² + 2^(ρ+1) - ρ ln 4 - 2), the share of cells with three or
// more entries.
double CellNotDecodable(double rho);
// 000 §4: 1 - [P_n(ρ)^k + k P_n(ρ)^(k-1) P(c = 2)].
// It counts cells as a key that is not there finds them; a stored key finds one entry more in each
// of its cells, its own.
double GlobalDecodability(double rho, unsigned num_hashes);
// Ours: the share of stored keys that count-1 cells and decode22 (000 §3.5) do not decode, for
// values drawn evenly from `num_values`: each cell holds the key and a Poisson number of others;
// one with a single other is of no use if both values are equal, and two such are of no use if
// their others have equal values. REQUIRES: num_values >= 2
double StoredNotDecodable(double rho, unsigned num_hashes, uint64_t num_values);

// ---- Poisson, 000 §4: lim P(c(i) = j) = λ^j e^-λ / j! ----

double PoissonPmf(double lambda, unsigned j);
// P(c >= j)
double PoissonTail(double lambda, unsigned j);

// ---- our filter ----

struct ErrorRates {
  double false_negative = 0;  // a stored key is not found: undecodable, or two candidates are left
  double false_positive = 0;  // a stranger is found
  double weak = 0;  // a stored key decodes in too few lines for the evidence that a change needs
};

// Error rates of a filter at load λ whose rows have `row_units` units (m/k cells where
// unpartitioned). For line-partitioned layouts (003 §3) the expectation is taken over the number of
// keys that share a line. `match` is γ above.
ErrorRates PredictErrors(const KbfLayout& layout, double lambda, double match,
                         double row_units = std::numeric_limits<double>::infinity());

// Evidence of a further agreeing cell, on top of log2(1/λ): strangers agree by chance (2^-b), or
// because they share the cell with the same key as the first one (1/r, over the λ that is counted
// already).
double AgreeBits(const KbfLayout& layout, double lambda, double row_units);

// Evidence, in bits, that is enough to change cells: a stranger shows it with chance 6e-8 at most.
// Two agreeing cells of three, in filters of 32 K keys with 8 check bits.
inline constexpr double kStrongEvidenceBits = 24;

// Evidence that a change of cells asks for: kStrongEvidenceBits, or in filters too
// small for that what two agreeing lines show: c + AgreeBits, log2(t+1) for each cell that does not
// decode, log2(1/λ) for every cell.
double StrongEvidenceBits(const KbfLayout& layout, double lambda, double row_units);

// Lines (cells, where unpartitioned) that must agree for it. More than there are where even all of
// them would not do.
unsigned AgreeingLinesForChange(const KbfLayout& layout, double lambda, double row_units);

// Evidence of a cell that agrees in a line where another one agrees already: log2 of one over the
// chance that a key which shares one cell of a line shares a given other one.
double SameLineBits(const KbfLayout& layout);

}  // namespace kbf
