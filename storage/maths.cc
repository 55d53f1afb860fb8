#include "storage/maths.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

namespace kbf {

namespace {

double Binomial(unsigned n, unsigned r) {
  double result = 1;
  for (unsigned i = 1; i <= r; ++i) result = result * (n - r + i) / i;
  return result;
}

}  // namespace

unsigned EncodingBitsLowerBound(uint64_t num_encodings) {
  const unsigned __int128 n = num_encodings;
  const unsigned __int128 needed = n * (n - (n > 0)) / 2 + n;
  unsigned bits = 0;
  while ((static_cast<unsigned __int128>(1) << bits) < needed) ++bits;
  return bits;
}

uint64_t EncodingsUpperBound(unsigned bits) {
  // n(n+1)/2 <= 2^P, so n is about sqrt(2^(P+1)); the loops correct the rounding of the square
  // root.
  auto n = static_cast<uint64_t>(std::sqrt(std::ldexp(2.0, static_cast<int>(bits))));
  while (EncodingBitsLowerBound(n) > bits) --n;
  while (EncodingBitsLowerBound(n + 1) <= bits) ++n;
  return n;
}

double PCapacity(double num_cells, double false_positive) {
  return -num_cells * std::numbers::ln2 * std::numbers::ln2 / std::log(false_positive);
}

double OptimalHashes(double false_positive) { return -std::log2(false_positive); }

double CellNotDecodable(double rho) {
  const double ln2 = std::numbers::ln2;
  return std::exp2(-rho - 1) *
         (-rho * rho * ln2 * ln2 + std::exp2(rho + 1) - rho * std::log(4.0) - 2);
}

double GlobalDecodability(double rho, unsigned num_hashes) {
  const double not_decodable = CellNotDecodable(rho);
  const double pair = PoissonPmf(rho * std::numbers::ln2, 2);
  return 1 - (std::pow(not_decodable, num_hashes) +
              num_hashes * std::pow(not_decodable, num_hashes - 1) * pair);
}

double StoredNotDecodable(double rho, unsigned num_hashes, uint64_t num_values) {
  const double lambda = rho * std::numbers::ln2;
  const auto values = static_cast<double>(num_values);
  const double pairs = PoissonPmf(lambda, 1) * (1 - 1 / values);
  const double useless = 1 - PoissonPmf(lambda, 0) - pairs;
  // j cells with one other each, all of the same value; the other k - j cells of no use.
  double share = std::pow(useless, num_hashes);
  for (unsigned j = 1; j <= num_hashes; ++j) {
    share += Binomial(num_hashes, j) * std::pow(pairs, j) * std::pow(useless, num_hashes - j) *
             std::pow(values - 1, 1.0 - j);
  }
  return share;
}

double PoissonPmf(double lambda, unsigned j) {
  if (lambda <= 0) return j == 0 ? 1 : 0;
  return std::exp(j * std::log(lambda) - lambda - std::lgamma(j + 1.0));
}

double PoissonTail(double lambda, unsigned j) {
  double below = 0;
  for (unsigned i = 0; i < j; ++i) below += PoissonPmf(lambda, i);
  return std::max(0.0, 1 - below);
}

namespace {

// P(cell holds j) for j = 0 … 4 and the tail above, given that `keys` keys share the group and each
// takes a cell of it with chance `share`.
using CountPmf = std::array<double, 6>;

CountPmf CountsIn(unsigned keys, double share) {
  CountPmf pmf{};
  double rest = 1;
  for (unsigned j = 0; j < 5 && j <= keys; ++j) {
    double p = 1;
    for (unsigned i = 0; i < j; ++i) p *= share * (keys - i) / (i + 1);
    if (keys > j) p *= std::pow(1 - share, keys - j);
    pmf[j] = p;
    rest -= p;
  }
  pmf[5] = std::max(0.0, rest);
  return pmf;
}

double TailOf(const CountPmf& pmf, unsigned from) {
  double sum = 0;
  for (unsigned j = from; j < pmf.size(); ++j) sum += pmf[j];
  return sum;
}

// P(two keys of one group have exactly s of their cells in common): hypergeometric.
double SharedPmf(unsigned cells, unsigned per_group, unsigned s) {
  if (per_group - s > cells - per_group) return 0;
  return Binomial(per_group, s) * Binomial(cells - per_group, per_group - s) /
         Binomial(cells, per_group);
}

// Chance that another key of the group is decoded from a shared cell and no other cell contradicts
// it: it has s cells in common with ours, of which at least one decodes, and our other cells cannot
// be checked. Two keys of one line share several cells far more often than with independent cells:
// with g = 1 that makes 20 to 100 times the false positives.
double FalseCandidateProbability(unsigned cells, unsigned per_group, double shared_full,
                                 double unchecked) {
  double sum = 0;
  for (unsigned s = 1; s <= per_group; ++s) {
    sum += SharedPmf(cells, per_group, s) * (1 - std::pow(shared_full, s)) *
           std::pow(unchecked, per_group - s);
  }
  return sum;
}

}  // namespace

double SameLineBits(const KbfLayout& layout) {
  const unsigned per_group = HashesPerGroup(layout);
  return per_group < 2 ? 0 : std::log2((CellsPerGroup(layout) - 1.0) / (per_group - 1.0));
}

double AgreeBits(const KbfLayout& layout, double lambda, double row_groups) {
  return -std::log2(std::exp2(-static_cast<double>(layout.symbol_bits)) +
                    1 / (lambda * row_groups));
}

namespace {

// The evidence of `agreeing` lines if no cell of the others decodes.
double EvidenceOf(const KbfLayout& layout, double lambda, double row_groups, unsigned agreeing) {
  const double undecoded_bits = HashesPerGroup(layout) * std::log2(Decodable(layout.kind) + 1.0);
  return layout.check_bits + (agreeing - 1.0) * AgreeBits(layout, lambda, row_groups) +
         (layout.num_lines - agreeing) * undecoded_bits - layout.num_hashes * std::log2(lambda);
}

}  // namespace

double StrongEvidenceBits(const KbfLayout& layout, double lambda, double row_groups) {
  // Only where it is the row that is small; where the symbol is, more lines must agree.
  constexpr double kLargeRow = 1e30;
  if (layout.num_lines < 2 || EvidenceOf(layout, lambda, kLargeRow, 2) < kStrongEvidenceBits) {
    return kStrongEvidenceBits;
  }
  return std::min(kStrongEvidenceBits, EvidenceOf(layout, lambda, row_groups, 2));
}

unsigned AgreeingLinesForChange(const KbfLayout& layout, double lambda, double row_groups) {
  const double wanted = StrongEvidenceBits(layout, lambda, row_groups);
  unsigned agreeing = 1;
  while (agreeing <= layout.num_lines &&
         EvidenceOf(layout, lambda, row_groups, agreeing) < wanted) {
    ++agreeing;
  }
  return agreeing;
}

ErrorRates PredictErrors(const KbfLayout& layout, double lambda, double match, double row_groups) {
  const unsigned lines = layout.num_lines;            // g
  const unsigned per_group = HashesPerGroup(layout);  // k / g
  const unsigned t = Decodable(layout.kind);
  const double chance =
      t == 2 ? 1.0 / 2 : 1.0 / 6;  // 1/t!: a random cell passes for an XOR of t encodings
  const double symbols = std::exp2(layout.symbol_bits);
  // Keys per group, and the chance that one of them takes a given cell of it. Unpartitioned: λ
  // keys, chance 1.
  const unsigned cells = CellsPerGroup(layout);
  const double share = static_cast<double>(per_group) / cells;
  const double keys_mean = lambda / share;

  // Expectations over the keys that share one group, of what its k/g cells do together.
  double undecodable = 0;     // all have t or more others
  double ambiguous = 0;       // one decodes to another key's symbol, no other contradicts it
  double unchecked_all = 0;   // none contradicts a wrong candidate
  double absent_accepts = 0;  // an absent key: none contradicts some fixed symbol
  double absent_silent = 0;   // an absent key: none decodes, none contradicts
  const auto keys_max = static_cast<unsigned>(keys_mean + 12 * std::sqrt(keys_mean) + 40);
  for (unsigned keys = 0; keys <= keys_max; ++keys) {
    const double weight = PoissonPmf(keys_mean, keys);
    const CountPmf pmf = CountsIn(keys, share);
    const double full = TailOf(pmf, t);
    const double unchecked = pmf[t] * chance + TailOf(pmf, t + 1);
    undecodable += weight * std::pow(full, per_group);
    // `keys` are those beside the other key: for a Poisson number N of keys, the expectation of
    // Σ f(each, the rest) is mean · E f(one more, N).
    ambiguous += weight * keys_mean *
                 FalseCandidateProbability(cells, per_group, TailOf(pmf, t - 1), unchecked);
    unchecked_all += weight * std::pow(unchecked, per_group);
    const double absent_unchecked = pmf[t + 1] * chance + TailOf(pmf, t + 2);
    absent_silent += weight * std::pow(absent_unchecked, per_group);
    absent_accepts +=
        weight *
        (std::pow(absent_unchecked, per_group) +
         keys_mean * FalseCandidateProbability(cells, per_group, full, absent_unchecked) / symbols);
  }

  ErrorRates rates;
  rates.false_negative =
      std::pow(undecodable, lines) + match * lines * ambiguous * std::pow(unchecked_all, lines - 1);
  rates.false_positive =
      match * symbols * (std::pow(absent_accepts, lines) - std::pow(absent_silent, lines));

  const unsigned lines_min = AgreeingLinesForChange(layout, lambda, row_groups);
  double strong = 0;
  for (unsigned a = lines_min; a <= lines; ++a) {
    strong += Binomial(lines, a) * std::pow(1 - undecodable, a) * std::pow(undecodable, lines - a);
  }
  rates.weak = std::max(0.0, 1 - strong);
  return rates;
}

}  // namespace kbf
