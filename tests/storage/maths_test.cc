#include "storage/maths.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <random>
#include <vector>

namespace kbf {
namespace {

constexpr KbfLayout kPairs{CellKind::kPair32, 14, 2, 5, 5};
constexpr KbfLayout kTriples{CellKind::kTriple64, 20, 8, 3, 3};

doctest::Approx Near(double value, double relative) {
  return doctest::Approx(value).epsilon(relative).scale(0);
}

// A filter reduced to what errors come from: which keys share which cells, and whether an absent
// key's symbol passes for our own (chance `match`). Nothing of maths.cc is used. Cells of a key are
// distinct.
class UrnModel {
 public:
  UrnModel(const KbfLayout& layout, double match, size_t num_cells, uint64_t seed)
      : layout_(layout), decodable_(Decodable(layout.kind)), match_(match), rng_(seed) {
    cells_.resize(num_cells / CellsPerGroup(layout) * CellsPerGroup(layout));
  }

  void Insert(uint32_t key) {
    placed_.push_back(Draw());
    for (size_t cell : placed_.back()) cells_[cell].push_back(key);
  }

  // A stored key is found unless no cell decodes or an absent key stays beside it.
  bool FindsStored(uint32_t key) {
    const std::vector<size_t>& places = placed_[key];
    const bool decodes = std::any_of(places.begin(), places.end(), [this](size_t cell) {
      return cells_[cell].size() <= decodable_;
    });
    return decodes && OtherCandidates(places, key) == 0;
  }

  // REQUIRES: no key has the number kNobody.
  bool FindsAbsent() { return OtherCandidates(Draw(), kNobody) == 1; }

 private:
  static constexpr uint32_t kNobody = ~0u;

  std::vector<size_t> Draw() {
    const size_t width = CellsPerGroup(layout_);
    std::vector<size_t> places;
    for (size_t group : Distinct(layout_.num_lines, cells_.size() / width)) {
      for (size_t cell : Distinct(HashesPerGroup(layout_), width)) {
        places.push_back(group * width + cell);
      }
    }
    return places;
  }

  std::vector<size_t> Distinct(size_t count, size_t below) {
    std::vector<size_t> drawn;
    while (drawn.size() < count) {
      const size_t one = rng_() % below;
      if (std::find(drawn.begin(), drawn.end(), one) == drawn.end()) drawn.push_back(one);
    }
    return drawn;
  }

  bool Chance(double p) { return std::uniform_real_distribution<>()(rng_) < p; }

  // Other keys that decode somewhere in `places`, match the check bits and are contradicted
  // nowhere.
  unsigned OtherCandidates(const std::vector<size_t>& places, uint32_t self) {
    std::vector<uint32_t> candidates;
    for (size_t cell : places) {
      if (cells_[cell].size() > decodable_) continue;
      candidates.insert(candidates.end(), cells_[cell].begin(), cells_[cell].end());
    }
    std::sort(candidates.begin(), candidates.end());
    candidates.erase(std::unique(candidates.begin(), candidates.end()), candidates.end());
    unsigned left = 0;
    for (uint32_t candidate : candidates) {
      if (candidate != self && Chance(match_) && Stays(places, candidate)) ++left;
    }
    return left;
  }

  bool Stays(const std::vector<size_t>& places, uint32_t candidate) {
    for (size_t place : places) {
      const std::vector<uint32_t>& cell = cells_[place];
      if (std::find(cell.begin(), cell.end(), candidate) != cell.end()) continue;
      if (cell.size() <= decodable_) return false;
      // One more than decodable: the rest passes for an XOR of t encodings in 1 of t! cases.
      if (cell.size() == decodable_ + 1 && !Chance(decodable_ == 2 ? 1.0 / 2 : 1.0 / 6))
        return false;
    }
    return true;
  }

  const KbfLayout layout_;
  const unsigned decodable_;
  const double match_;
  std::mt19937_64 rng_;
  std::vector<std::vector<uint32_t>> cells_;
  std::vector<std::vector<size_t>> placed_;
};

void CheckCount(double count, double trials, double rate) {
  const double mean = trials * rate;
  CAPTURE(mean);
  REQUIRE(mean > 100);  // below that 5σ says little
  CHECK(std::abs(count - mean) < 5 * std::sqrt(mean));
}

}  // namespace

TEST_SUITE("storage") {
  TEST_CASE("the papers' encoding bound: 16,384 encodings need 28 bits") {
    CHECK(EncodingBitsLowerBound(16384) == 28);
    CHECK(EncodingBitsLowerBound(0) == 0);
    CHECK(EncodingBitsLowerBound(1) == 0);
    CHECK(EncodingBitsLowerBound(2) == 2);  // 1 pair + 2 = 3 patterns
    CHECK(EncodingBitsLowerBound(~uint64_t{0}) == 127);
  }

  TEST_CASE("the encoding bound read backwards is its inverse") {
    for (unsigned bits = 2; bits <= 62; ++bits) {
      CAPTURE(bits);
      const uint64_t most = EncodingsUpperBound(bits);
      CHECK(EncodingBitsLowerBound(most) <= bits);
      CHECK(EncodingBitsLowerBound(most + 1) > bits);
    }
  }

  TEST_CASE("one false positive in a thousand asks for ten hashes") {
    CHECK(std::lround(OptimalHashes(1e-3)) == 10);
    CHECK(OptimalHashes(std::exp2(-10.0)) == Near(10, 1e-12));
  }

  TEST_CASE("p-capacity undoes the papers' formula for m") {
    const double ln2 = std::numbers::ln2;
    for (double p : {0.1, 1e-3, 1e-6}) {
      for (double n : {10.0, 12345.0, 1e9}) {
        CAPTURE(p);
        CAPTURE(n);
        const double m = -n * std::log(p) / (ln2 * ln2);  // [kBF] §4
        CHECK(PCapacity(m, p) == Near(n, 1e-12));
        CHECK(n * OptimalHashes(p) / m == Near(ln2, 1e-12));  // ρ = 1
      }
    }
  }

  TEST_CASE("a cell at p-capacity is not decodable in 3.33132 % of cases") {
    CHECK(std::abs(CellNotDecodable(1) - 0.0333132) < 1e-7);
    for (double rho : {0.5, 1.0, 2.0, 3.0}) {
      CAPTURE(rho);
      CHECK(CellNotDecodable(rho) == Near(PoissonTail(rho * std::numbers::ln2, 3), 1e-9));
    }
  }

  TEST_CASE("ten hashes decode nearly everything below twice the capacity and lose it beyond") {
    for (double rho = 0.25; rho < 2; rho += 0.25) {
      CAPTURE(rho);
      CHECK(GlobalDecodability(rho, 10) > 0.9999);
    }
    double before = GlobalDecodability(2, 10);
    for (double rho = 2.5; rho <= 6; rho += 0.5) {
      CAPTURE(rho);
      const double now = GlobalDecodability(rho, 10);
      CHECK(now < before);
      before = now;
    }
    CHECK(GlobalDecodability(6, 10) < 0.8);
  }

  TEST_CASE("Poisson probabilities add up to one and have their mean") {
    for (double lambda : {0.01, 0.7, 1.2, 3.0, 20.0}) {
      CAPTURE(lambda);
      double sum = 0;
      double mean = 0;
      for (unsigned j = 0; j < 200; ++j) {
        sum += PoissonPmf(lambda, j);
        mean += j * PoissonPmf(lambda, j);
      }
      CHECK(sum == Near(1, 1e-12));
      CHECK(mean == Near(lambda, 1e-12));
      CHECK(PoissonTail(lambda, 0) == 1);
      CHECK(PoissonTail(lambda, 2) ==
            Near(1 - std::exp(-lambda) - lambda * std::exp(-lambda), 1e-9));
    }
    CHECK(PoissonPmf(0, 0) == 1);
    CHECK(PoissonPmf(0, 1) == 0);
  }

  TEST_CASE("unpartitioned predictions are the closed forms written out by hand") {
    for (double l : {0.3, 0.8, 1.2, 1.8}) {
      CAPTURE(l);
      const double e = std::exp(-l);
      const double p1 = l * e, p2 = l * l / 2 * e, p3 = l * l * l / 6 * e, p4 = l * p3 / 4;
      const double from2 = 1 - e - p1, from3 = from2 - p2, from4 = from3 - p3, from5 = from4 - p4;

      // Pairs, with symbols so many that two absent keys never have the same one.
      const double match = 1.0 / 16;
      const ErrorRates pairs = PredictErrors({CellKind::kPair64, 30, 4, 5, 5}, l, match);
      CHECK(pairs.false_negative ==
            Near(std::pow(from2, 5) + 5 * match * p1 * std::pow(p2 / 2 + from3, 4), 1e-9));
      CHECK(pairs.false_positive ==
            Near(5 * match * (p1 + 2 * p2) * std::pow(p3 / 2 + from4, 4), 1e-4));

      const ErrorRates triples = PredictErrors(kTriples, l, 1.0 / 256);
      CHECK(
          triples.false_negative ==
          Near(std::pow(from3, 3) + 3.0 / 256 * (p1 + 2 * p2) * std::pow(p3 / 6 + from4, 2), 1e-9));
      CHECK(triples.false_positive ==
            Near(3.0 / 256 * (p1 + 2 * p2 + 3 * p3) * std::pow(p4 / 6 + from5, 2), 2e-2));
    }
  }

  TEST_CASE("predictions agree with throwing keys into urns") {
    const uint64_t seed = 20260117;
    struct Setting {
      KbfLayout layout;
      double lambda, match;
    };
    // Loads above the planner's, so that 50,000 keys and 300,000 absent keys show errors enough.
    // The formula counts candidates that stay, a query misses where two do: a difference of order
    // match², so match is small.
    for (const auto& [layout, lambda, match] :
         {Setting{kPairs, 1.8, 1.0 / 8}, Setting{kTriples, 2.2, 1.0 / 32}}) {
      CAPTURE(seed);
      CAPTURE(lambda);
      const unsigned k = layout.num_hashes;
      constexpr uint32_t kKeys = 50000;
      constexpr uint32_t kAbsentKeys = 300000;
      UrnModel urns(layout, match, static_cast<size_t>(kKeys * k / lambda), seed);
      for (uint32_t key = 0; key < kKeys; ++key) urns.Insert(key);
      unsigned lost = 0, found = 0;
      for (uint32_t key = 0; key < kKeys; ++key) lost += !urns.FindsStored(key);
      for (uint32_t i = 0; i < kAbsentKeys; ++i) found += urns.FindsAbsent();
      const ErrorRates rates = PredictErrors(layout, lambda, match);
      CheckCount(lost, kKeys, rates.false_negative);
      CheckCount(found, kAbsentKeys, rates.false_positive);
    }
  }

  TEST_CASE(
      "for partitioned layouts the prediction is an upper bound, by less than a factor of two") {
    const uint64_t seed = 20260118;
    struct Setting {
      KbfLayout layout;
      double lambda, match;
    };
    // g = 1 is where keys that meet in a line meet in all their cells: 55 times the false positives
    // of independent cells at k = 2, and nothing was predicted at k = 8.
    for (const auto& [layout, lambda, match] :
         {Setting{{CellKind::kPair32, 14, 2, 4, 2}, 1.3, 1.0 / 8},
          Setting{{CellKind::kTriple64, 20, 8, 4, 2}, 2.4, 1.0 / 8},
          Setting{{CellKind::kTriple64, 20, 8, 2, 1}, 0.8, 1.0 / 32},
          Setting{{CellKind::kTriple64, 20, 8, 8, 1}, 0.3, 1.0 / 32}}) {
      CAPTURE(seed);
      CAPTURE(layout.num_hashes);
      CAPTURE(layout.num_lines);
      const unsigned k = layout.num_hashes;
      constexpr uint32_t kKeys = 50000;
      constexpr uint32_t kAbsentKeys = 300000;
      UrnModel urns(layout, match, static_cast<size_t>(kKeys * k / lambda), seed);
      for (uint32_t key = 0; key < kKeys; ++key) urns.Insert(key);
      unsigned lost = 0, found = 0;
      for (uint32_t key = 0; key < kKeys; ++key) lost += !urns.FindsStored(key);
      for (uint32_t i = 0; i < kAbsentKeys; ++i) found += urns.FindsAbsent();
      const ErrorRates rates = PredictErrors(layout, lambda, match);
      const auto check = [](double count, double mean) {
        CAPTURE(mean);
        REQUIRE(mean > 100);
        CHECK(count < mean + 5 * std::sqrt(mean));
        CHECK(count > mean / 2 - 5 * std::sqrt(mean));
      };
      check(lost, kKeys * rates.false_negative);
      check(found, kAbsentKeys * rates.false_positive);
    }
  }

  TEST_CASE("more load means more false negatives, more match means more of both errors") {
    for (const KbfLayout& layout : {kPairs, kTriples, KbfLayout{CellKind::kPair32, 14, 2, 6, 3},
                                    KbfLayout{CellKind::kTriple64, 20, 8, 4, 2}}) {
      CAPTURE(layout.num_hashes);
      CAPTURE(layout.num_lines);
      ErrorRates before;
      for (double lambda = 0.1; lambda < 1.8; lambda += 0.1) {
        CAPTURE(lambda);
        const ErrorRates now = PredictErrors(layout, lambda, 0.01);
        CHECK(now.false_negative > before.false_negative);
        CHECK(now.false_positive > before.false_positive);
        CHECK(now.weak >= before.weak);
        CHECK(now.weak <= 1);
        const ErrorRates looser = PredictErrors(layout, lambda, 0.02);
        CHECK(looser.false_negative > now.false_negative);
        CHECK(looser.false_positive == Near(2 * now.false_positive, 1e-9));
        before = now;
      }
    }
  }

  TEST_CASE("at equal load, fewer cache lines mean more false negatives") {
    for (CellKind kind : {CellKind::kPair32, CellKind::kTriple64}) {
      double before = 0;
      for (unsigned lines : {6, 3, 2, 1}) {
        CAPTURE(lines);
        const KbfLayout layout{kind, SymbolBitsMax(kind), 2, 6, lines};
        REQUIRE(IsValid(layout));
        const double now = PredictErrors(layout, 1.0, 0.25).false_negative;
        CHECK(now > before);
        before = now;
      }
    }
  }

  TEST_CASE(
      "a change needs 24 bits of evidence: check bits first, then a symbol or a row per line") {
    constexpr double kRow = 28000;  // 14.8 bits
    CHECK(AgreeBits(kTriples, 1, 1e30) == Near(20, 1e-6));
    CHECK(AgreeBits(kTriples, 1, 1 << 10) == Near(10, 0.01));
    CHECK(AgreeingLinesForChange(kTriples, 1, kRow) == 2);  // 8 + 14.8, and 2 from the silent one
    // Small rows ask for what two lines can show there.
    CHECK(StrongEvidenceBits(kTriples, 1, kRow) == 24);
    CHECK(StrongEvidenceBits(kTriples, 1, 1000) == Near(20, 0.05));  // 8 + 10 + 2
    CHECK(AgreeingLinesForChange(kTriples, 1, 1000) == 2);
    CHECK(AgreeingLinesForChange(kPairs, 1, kRow) == 3);  // 2 + 13.3 + 13.3
    CHECK(AgreeingLinesForChange({CellKind::kPair64, 30, 16, 4, 4}, 1, kRow) == 2);
    // Two cells of one line say little more than one.
    CHECK(AgreeingLinesForChange({CellKind::kTriple64, 20, 8, 4, 2}, 1, 1e9) == 2);
    CHECK(AgreeingLinesForChange({CellKind::kTriple64, 20, 8, 3, 1}, 1, 1e9) ==
          2);  // never: there is one line
    CHECK(PredictErrors({CellKind::kTriple64, 20, 8, 3, 1}, 1, 0.25).weak == Near(1, 1e-9));
    CHECK(AgreeingLinesForChange({CellKind::kPair32, 14, 2, 2, 2}, 1, kRow) ==
          3);  // never strong enough
    CHECK(PredictErrors({CellKind::kPair32, 14, 2, 2, 2}, 0.5, 0.25).weak == Near(1, 1e-9));
  }
}

}  // namespace kbf
