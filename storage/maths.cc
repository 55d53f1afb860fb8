#include "storage/maths.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

namespace kbf {

unsigned EncodingBitsLowerBound(uint64_t num_encodings) {
  const unsigned __int128 n = num_encodings;
  const unsigned __int128 needed = n * (n - (n > 0)) / 2 + n;
  unsigned bits = 0;
  while ((static_cast<unsigned __int128>(1) << bits) < needed) ++bits;
  return bits;
}

uint64_t EncodingsUpperBound(unsigned bits) {
  // n(n+1)/2 <= 2^P, so n is about sqrt(2^(P+1)); the loops mend the rounding of the square root.
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

// P(cell holds j) for j = 0 … 4 and the tail above, given that `keys` keys share the unit and each takes a cell of it
// with chance `share`.
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

// Σ j·P(j), j = 1 … last: expected encodings in a decodable cell.
double DecodableMean(const CountPmf& pmf, unsigned last) {
  double sum = 0;
  for (unsigned j = 1; j <= last; ++j) sum += j * pmf[j];
  return sum;
}

double Binomial(unsigned n, unsigned r) {
  double result = 1;
  for (unsigned i = 1; i <= r; ++i) result = result * (n - r + i) / i;
  return result;
}

}  // namespace

unsigned AgreeingCellsForChange(const KbfLayout& layout) {
  // Cells that do not decode add the rest: at least log2((t+1)/λ) > 1 bit each.
  double bits = layout.check_bits;
  unsigned cells = 1;
  while (bits + (layout.num_hashes - std::min(cells, layout.num_hashes)) < kStrongEvidenceBits) {
    bits += layout.symbol_bits;
    ++cells;
  }
  return cells;
}

ErrorRates PredictErrors(const KbfLayout& layout, double lambda, double match) {
  const unsigned k = layout.num_hashes;
  const unsigned lines = layout.num_lines;          // g
  const unsigned per_unit = HashesPerUnit(layout);  // k / g
  const unsigned t = Decodable(layout.kind);
  const double chance = t == 2 ? 1.0 / 2 : 1.0 / 6;  // 1/t!: a random cell passes for an XOR of t encodings
  const double symbols = std::exp2(layout.symbol_bits);
  // Keys per unit, and the chance that one of them takes a given cell of it. Unpartitioned: λ keys, chance 1.
  const double share = static_cast<double>(per_unit) / CellsPerUnit(layout);
  const double keys_mean = lambda / share;
  const unsigned agreeing_min = AgreeingCellsForChange(layout);

  // Expectations over the keys that share one unit, of what its k/g cells do together.
  double undecodable = 0;      // all have t or more others
  double ambiguous = 0;        // one decodes and shows a stranger's symbol, the rest do not contradict it
  double silent = 0;           // a wrong candidate is not contradicted by any
  double foreign = 0;          // a stranger's cells: none contradicts some fixed symbol
  double foreign_silent = 0;   // a stranger's cells: none decodes, none contradicts
  std::array<double, kNumHashesMax + 1> decodes{};  // exactly i of the k/g cells decode
  const auto keys_max = static_cast<unsigned>(keys_mean + 12 * std::sqrt(keys_mean) + 40);
  for (unsigned keys = 0; keys <= keys_max; ++keys) {
    const double weight = PoissonPmf(keys_mean, keys);
    const CountPmf pmf = CountsIn(keys, share);
    const double full = TailOf(pmf, t);
    const double unchecked = pmf[t] * chance + TailOf(pmf, t + 1);
    undecodable += weight * std::pow(full, per_unit);
    ambiguous += weight * per_unit * DecodableMean(pmf, t - 1) * std::pow(unchecked, per_unit - 1);
    silent += weight * std::pow(unchecked, per_unit);
    const double foreign_unchecked = pmf[t + 1] * chance + TailOf(pmf, t + 2);
    foreign_silent += weight * std::pow(foreign_unchecked, per_unit);
    foreign += weight * std::pow(foreign_unchecked + DecodableMean(pmf, t) / symbols, per_unit);
    for (unsigned i = 0; i <= per_unit; ++i) {
      decodes[i] += weight * Binomial(per_unit, i) * std::pow(1 - full, i) * std::pow(full, per_unit - i);
    }
  }

  ErrorRates rates;
  rates.false_negative =
      std::pow(undecodable, lines) + match * lines * ambiguous * std::pow(silent, lines - 1);
  rates.false_positive =
      match * symbols * (std::pow(foreign, lines) - std::pow(foreign_silent, lines));

  // Distribution of the number of decodable cells over all units.
  std::array<double, kNumHashesMax + 1> total{};
  total[0] = 1;
  for (unsigned line = 0; line < lines; ++line) {
    std::array<double, kNumHashesMax + 1> next{};
    for (unsigned a = 0; a <= k; ++a) {
      for (unsigned i = 0; i <= per_unit && a + i <= k; ++i) next[a + i] += total[a] * decodes[i];
    }
    total = next;
  }
  for (unsigned a = 0; a < agreeing_min && a <= k; ++a) rates.weak += total[a];
  return rates;
}

}  // namespace kbf
