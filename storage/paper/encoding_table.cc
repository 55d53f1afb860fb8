#include "storage/paper/encoding_table.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

namespace kbf {
namespace {

using Entry = EncodingTable::Entry;
using Parabola = EncodingTable::Parabola;

constexpr size_t kTerms = 3;

// Gauss with pivoting on three equations, the right side in the last column; false if they are not
// independent.
bool Solve(std::array<std::array<double, kTerms + 1>, kTerms>& rows) {
  for (size_t column = 0; column < kTerms; ++column) {
    size_t pivot = column;
    for (size_t row = column + 1; row < kTerms; ++row) {
      if (std::abs(rows[row][column]) > std::abs(rows[pivot][column])) pivot = row;
    }
    if (std::abs(rows[pivot][column]) < 1e-9) return false;
    std::swap(rows[pivot], rows[column]);
    for (size_t row = 0; row < kTerms; ++row) {
      if (row == column) continue;
      const double factor = rows[row][column] / rows[column][column];
      for (size_t i = column; i <= kTerms; ++i) rows[row][i] -= factor * rows[column][i];
    }
  }
  for (size_t row = 0; row < kTerms; ++row) rows[row][kTerms] /= rows[row][row];
  return true;
}

// Least squares over t = x / n in [0, 1), where the sums of powers stay of one size and the
// equations well behaved.
Parabola Fit(const std::vector<Entry>& sorted, double average_step) {
  const double n = static_cast<double>(sorted.size());
  std::array<std::array<double, kTerms + 1>, kTerms> rows{};
  for (size_t x = 0; x < sorted.size(); ++x) {
    const double t = static_cast<double>(x) / n;
    const std::array<double, kTerms> powers = {1, t, t * t};
    for (size_t row = 0; row < kTerms; ++row) {
      for (size_t i = 0; i < kTerms; ++i) rows[row][i] += powers[row] * powers[i];
      rows[row][kTerms] += powers[row] * sorted[x].encoding;
    }
  }
  if (sorted.size() < kTerms || !Solve(rows)) {
    return {sorted.empty() ? 0.0 : sorted.front().encoding, average_step, 0};
  }
  return {rows[0][kTerms], rows[1][kTerms] / n, rows[2][kTerms] / (n * n)};
}

}  // namespace

std::optional<EncodingTable> EncodingTable::Create(std::vector<Entry> entries) {
  std::ranges::sort(entries, {}, &Entry::encoding);
  const bool twice = std::ranges::adjacent_find(entries, {}, &Entry::encoding) != entries.end();
  if (twice) return std::nullopt;
  return EncodingTable(std::move(entries));
}

EncodingTable::EncodingTable(std::vector<Entry> sorted) : entries_(std::move(sorted)) {
  if (entries_.size() > 1) {
    const double span = static_cast<double>(entries_.back().encoding) -
                        static_cast<double>(entries_.front().encoding);
    average_step_ = span / static_cast<double>(entries_.size() - 1);
  }
  parabola_ = Fit(entries_, average_step_);
}

// The inverse of the parabola on its rising side, kept inside the table.
size_t EncodingTable::GuessIndex(uint32_t encoding) const {
  const auto [a, b, c] = parabola_;
  const double above = static_cast<double>(encoding) - a;
  const double root = std::sqrt(std::max(0.0, b * b + 4 * c * above));
  // Of the two forms of the solution, the one that subtracts nothing nearly equal.
  const double x = b >= 0 ? 2 * above / (b + root) : (root - b) / (2 * c);
  const double last = static_cast<double>(entries_.size() - 1);
  // A comparison with NaN is false, so whatever the fit was, the guess is an index.
  if (!(x > 0)) return 0;
  return static_cast<size_t>(std::min(std::round(x), last));
}

// Never below 1: encodings differ, and the parabola may fall where the encodings rise.
double EncodingTable::StepAt(size_t index, Walk walk) const {
  if (walk == Walk::kAverageStep) return average_step_;
  return std::max(1.0, parabola_.b + 2 * parabola_.c * static_cast<double>(index));
}

std::optional<uint32_t> EncodingTable::Read(size_t index, uint32_t encoding, Search& search) const {
  ++search.accesses;
  const Entry& entry = entries_[index];
  if (entry.encoding == encoding) return entry.value_index;
  if (entry.encoding < encoding) {
    search.begin = index + 1;
  } else {
    search.end = index;
  }
  return std::nullopt;
}

EncodingTable::Lookup EncodingTable::FindByRegression(uint32_t encoding, Walk walk) const {
  Search search = {0, entries_.size(), 0};
  if (entries_.empty()) return {std::nullopt, 0};
  size_t index = GuessIndex(encoding);
  while (search.begin < search.end && search.accesses < kWalkMax) {
    if (const auto found = Read(index, encoding, search)) return {found, search.accesses};
    // As many steps as the entry just read is away, and at least one.
    const double away =
        static_cast<double>(encoding) - static_cast<double>(entries_[index].encoding);
    const double target =
        static_cast<double>(index) +
        std::copysign(std::max(1.0, std::round(std::abs(away) / StepAt(index, walk))), away);
    if (search.begin < search.end) {
      index = static_cast<size_t>(std::clamp(target, static_cast<double>(search.begin),
                                             static_cast<double>(search.end - 1)));
    }
  }
  return Halve(encoding, search);
}

EncodingTable::Lookup EncodingTable::FindByBinarySearch(uint32_t encoding) const {
  return Halve(encoding, {0, entries_.size(), 0});
}

EncodingTable::Lookup EncodingTable::Halve(uint32_t encoding, Search search) const {
  while (search.begin < search.end) {
    const size_t middle = search.begin + (search.end - search.begin) / 2;
    if (const auto found = Read(middle, encoding, search)) return {found, search.accesses};
  }
  return {std::nullopt, search.accesses};
}

double EncodingTable::MeanAccessesByRegression(Walk walk) const {
  if (entries_.empty()) return 0;
  double sum = 0;
  for (const Entry& entry : entries_) sum += FindByRegression(entry.encoding, walk).accesses;
  return sum / static_cast<double>(entries_.size());
}

double EncodingTable::MeanAccessesByBinarySearch() const {
  if (entries_.empty()) return 0;
  double sum = 0;
  for (const Entry& entry : entries_) sum += FindByBinarySearch(entry.encoding).accesses;
  return sum / static_cast<double>(entries_.size());
}

}  // namespace kbf
