// The error contract of one filter, measured: every bound that the README promises and every closed
// form of maths.h that the planner relies on. Seeds are fixed; `make soak` (KBF_SOAK set) runs more
// of them.
#include <doctest/doctest.h>

#include <cmath>
#include <cstdlib>
#include <numbers>
#include <string>
#include <vector>

#include "storage/kbf.h"
#include "storage/maths.h"
#include "storage/planner.h"
#include "tests/storage/kbf_world.h"
#include "tests/storage/statistics.h"

namespace kbf {
namespace {

uint64_t NumSeeds() { return Soak() ? 10 : 1; }

constexpr uint64_t kFirstAbsent = uint64_t{1} << 40;

Plan DefaultPlan() { return MakePlan({}).plan.value(); }

struct Distribution {
  const char* name;
  std::vector<double> shares;
};

std::vector<Distribution> Distributions() {
  return {{"3,000 values, even", EvenShares(3000)},
          {"3,000 values, Zipf 0.99", ZipfShares(3000, 0.99)},
          {"two values", EvenShares(2)},
          {"one value with 90 %", OneLargeShare(3000, 0.9)},
          {"one value", EvenShares(1)}};
}

std::vector<StoredKey> Fill(Kbf* filter, const KbfWorld& world, uint64_t first, uint64_t keys) {
  std::vector<StoredKey> stored;
  stored.reserve(keys);
  for (uint64_t i = first; i < first + keys; ++i) {
    stored.push_back({world.Key(i), world.Value(i)});
    filter->Insert(stored.back().hash, world.Symbol(stored.back().hash, stored.back().value));
  }
  return stored;
}

// A count that a rate predicts lies within 5σ of it (Poisson; +1 for rates near 0).
void CheckCount(double count, double mean) {
  CAPTURE(count);
  CAPTURE(mean);
  CHECK(count < mean + 5 * std::sqrt(mean) + 1);
  CHECK(count > mean - 5 * std::sqrt(mean) - 1);
}

void CheckAgainstPrediction(const MeasuredErrors& counts, const ErrorRates& rates) {
  CheckCount(counts.false_negative, rates.false_negative * static_cast<double>(counts.stored));
  CheckCount(counts.false_positive, rates.false_positive * static_cast<double>(counts.absent_keys));
}

void CheckBounds(const MeasuredErrors& counts, double false_negative, double false_positive,
                 double wrong) {
  CHECK(counts.false_negative <= false_negative * static_cast<double>(counts.stored));
  CHECK(counts.false_positive <= false_positive * static_cast<double>(counts.absent_keys));
  CHECK(counts.wrong <= wrong * static_cast<double>(counts.stored));
}

// Every key once: half are overwritten, half replaced by a new key, each only on strong evidence.
// Returns the number of keys that could not be changed.
uint64_t Churn(Kbf* filter, const KbfWorld& world, std::vector<StoredKey>* stored,
               uint64_t* next_key, std::mt19937_64* random) {
  uint64_t refused = 0;
  for (StoredKey& key : *stored) {
    const double strong = filter->strong_evidence_bits();
    const uint32_t value = world.Value((*random)());
    if ((*random)() % 2 == 0) {
      if (filter->Update(key.hash, world.blocks(), world.block_of(value), strong) ==
          KbfStatus::kOk) {
        key.value = value;
      } else {
        ++refused;
      }
    } else if (filter->Delete(key.hash, world.blocks(), strong) == KbfStatus::kOk) {
      key = {world.Key((*next_key)++), value};
      filter->Insert(key.hash, world.Symbol(key.hash, value));
    } else {
      ++refused;
    }
  }
  return refused;
}

TEST_SUITE("storage") {
  TEST_CASE(
      "a million keys keep the contract, for every distribution of values, fresh and after ten "
      "rounds of churn") {
    constexpr uint64_t kKeys = 1000000;
    const Plan plan = DefaultPlan();
    for (uint64_t seed = 1; seed <= NumSeeds(); ++seed) {
      for (const Distribution& distribution : Distributions()) {
        CAPTURE(seed);
        CAPTURE(distribution.name);
        const KbfWorld world(plan.layout, distribution.shares, seed);
        Kbf filter = world.MakeFilter(kKeys, plan.load);
        std::vector<StoredKey> stored = Fill(&filter, world, 0, kKeys);
        const double bytes_per_key = static_cast<double>(filter.memory_bytes()) / kKeys;
        CHECK(bytes_per_key <= 24);
        MeasuredErrors fresh;
        MeasureErrors(filter, world, stored, kFirstAbsent, 2 * kKeys, &fresh);
        CheckBounds(fresh, 2e-3, 2e-5, 0);
        CheckAgainstPrediction(fresh, PredictErrors(plan.layout, filter.load(), world.match()));

        std::mt19937_64 random(seed);
        uint64_t next_key = kKeys;
        uint64_t refused = 0;
        for (int round = 0; round < 10; ++round)
          refused = Churn(&filter, world, &stored, &next_key, &random);
        MeasuredErrors churned;
        MeasureErrors(filter, world, stored, kFirstAbsent, 2 * kKeys, &churned);
        CheckBounds(churned, 4e-3, 3e-5, 3e-6);
        CHECK(filter.size() == kKeys);

        MESSAGE(std::string(distribution.name)
                << ": " << bytes_per_key << " bytes/key, FN " << fresh.false_negative / kKeys
                << ", FP " << fresh.false_positive / (2 * kKeys) << ", wrong " << fresh.wrong
                << "; after ten rounds FN " << churned.false_negative / kKeys << ", FP "
                << churned.false_positive / (2 * kKeys) << ", wrong " << churned.wrong
                << ", refused in the last " << static_cast<double>(refused) / kKeys);
      }
    }
  }

  TEST_CASE("small filters keep the contract on average") {
    const Plan plan = DefaultPlan();
    for (const uint64_t keys : {500u, 5000u, 50000u}) {
      for (const Distribution& distribution : Distributions()) {
        CAPTURE(keys);
        CAPTURE(distribution.name);
        const uint64_t filters = 400000 / keys;
        const KbfWorld world(plan.layout, distribution.shares, keys);
        MeasuredErrors fresh;
        double predicted_lost = 0;
        for (uint64_t f = 0; f < filters; ++f) {
          Kbf filter = world.MakeFilter(keys, plan.load);
          CHECK(static_cast<double>(filter.memory_bytes()) / static_cast<double>(keys) <= 24);
          const auto stored = Fill(&filter, world, f * keys, keys);
          MeasureErrors(filter, world, stored, kFirstAbsent + f * keys, keys, &fresh);
          predicted_lost +=
              PredictErrors(plan.layout, filter.load(), world.match()).false_negative *
              static_cast<double>(keys);
        }
        CheckBounds(fresh, 2e-3, 2e-5, 0);
        CheckCount(fresh.false_negative, predicted_lost);
      }
    }
  }

  TEST_CASE("small filters keep the contract after ten rounds of churn") {
    const Plan plan = DefaultPlan();
    for (const uint64_t keys : {500u, 5000u, 50000u}) {
      CAPTURE(keys);
      const KbfWorld world(plan.layout, EvenShares(3000), keys);
      std::mt19937_64 random(keys);
      MeasuredErrors churned;
      for (uint64_t f = 0; f < 200000 / keys; ++f) {
        Kbf filter = world.MakeFilter(keys, plan.load);
        auto stored = Fill(&filter, world, f * keys * 100, keys);
        uint64_t next_key = f * keys * 100 + keys;
        for (int round = 0; round < 10; ++round)
          (void)Churn(&filter, world, &stored, &next_key, &random);
        MeasureErrors(filter, world, stored, kFirstAbsent + f * keys, keys, &churned);
      }
      CheckBounds(churned, 4e-3, 3e-5, 3e-6);
    }
  }

  TEST_CASE(
      "the closed forms hold for every cell kind, also overloaded, where errors are frequent") {
    constexpr uint64_t kKeys = 200000;
    struct Setting {
      KbfLayout layout;
      double load;
    };
    for (const auto& [layout, load] : {Setting{{CellKind::kPair32, 14, 2, 5, 5}, 0.85},
                                       Setting{{CellKind::kPair32, 14, 2, 5, 5}, 1.4},
                                       Setting{{CellKind::kPair32, 14, 2, 3, 3}, 0.8},
                                       Setting{{CellKind::kPair64, 30, 10, 3, 3}, 1.2},
                                       Setting{{CellKind::kTriple64, 20, 8, 3, 3}, 1.1},
                                       Setting{{CellKind::kTriple64, 20, 8, 3, 3}, 1.8},
                                       Setting{{CellKind::kTriple64, 18, 4, 2, 2}, 1.0}}) {
      CAPTURE(static_cast<int>(layout.kind));
      CAPTURE(layout.num_hashes);
      CAPTURE(load);
      const uint64_t values = (uint64_t{1} << (layout.symbol_bits - layout.check_bits)) * 3 / 4;
      const KbfWorld world(layout, EvenShares(std::min<uint64_t>(values, 3000)), 17);
      Kbf filter = world.MakeFilter(kKeys, load);
      const auto stored = Fill(&filter, world, 0, kKeys);
      MeasuredErrors counts;
      MeasureErrors(filter, world, stored, kFirstAbsent, 5 * kKeys, &counts);
      CHECK(counts.wrong == 0);
      CheckAgainstPrediction(counts, PredictErrors(layout, filter.load(), world.match()));
    }
  }

  TEST_CASE(
      "line-partitioned filters stay below their prediction, and not by more than a factor of "
      "2.5") {
    constexpr uint64_t kKeys = 200000;
    struct Setting {
      KbfLayout layout;
      double load;
    };
    for (const auto& [layout, load] : {Setting{{CellKind::kPair32, 14, 2, 6, 2}, 1.2},
                                       Setting{{CellKind::kPair32, 14, 2, 6, 3}, 1.4},
                                       Setting{{CellKind::kTriple64, 20, 8, 4, 2}, 1.6},
                                       Setting{{CellKind::kTriple64, 20, 8, 3, 1}, 0.9}}) {
      CAPTURE(layout.num_hashes);
      CAPTURE(layout.num_lines);
      const KbfWorld world(layout, EvenShares(3000), 17);
      Kbf filter = world.MakeFilter(kKeys, load);
      const auto stored = Fill(&filter, world, 0, kKeys);
      MeasuredErrors counts;
      MeasureErrors(filter, world, stored, kFirstAbsent, 5 * kKeys, &counts);
      const ErrorRates rates = PredictErrors(layout, filter.load(), world.match());
      const double lost = rates.false_negative * kKeys;
      const double found = rates.false_positive * 5 * kKeys;
      CAPTURE(lost);
      CAPTURE(found);
      CHECK(counts.wrong == 0);
      CHECK(counts.false_negative < lost + 5 * std::sqrt(lost));
      CHECK(counts.false_negative > lost / 2.5 - 5 * std::sqrt(lost));
      CHECK(counts.false_positive < found + 5 * std::sqrt(found) + 1);
      CHECK(counts.false_positive > found / 2.5 - 5 * std::sqrt(found) - 1);
    }
  }

  TEST_CASE("evidence means what it says: absent keys show b bits or more with chance below 2^-b") {
    // Overloaded on purpose, so that many absent keys are found at all. In a small filter absent
    // keys share several cells with one key, which must not count as several agreements. 4 M absent
    // keys each; bounds are mean + 5σ.
    constexpr double kAbsentKeys = 4000000;
    struct Setting {
      KbfLayout layout;
      size_t values;
      uint64_t keys;
      double load;
      int bits_seen;  // at least fifty absent keys get that far
    };
    for (const auto& [layout, values, keys, load, bits_seen] :
         {Setting{{CellKind::kPair32, 14, 2, 4, 4}, 3000, 200000, 1.6, 5},
          Setting{{CellKind::kTriple64, 20, 4, 3, 3}, 60000, 200, 1.1, 9},
          Setting{{CellKind::kTriple64, 20, 4, 3, 3}, 60000, 30, 0.7, 12}}) {
      CAPTURE(keys);
      const KbfWorld world(layout, EvenShares(values), 23);
      std::vector<double> at_least(60);
      const uint64_t filters = std::max<uint64_t>(1, 20000 / keys);
      const auto absent_keys = static_cast<uint64_t>(kAbsentKeys) / filters;
      for (uint64_t f = 0; f < filters; ++f) {
        Kbf filter = world.MakeFilter(keys, load, 0);
        (void)Fill(&filter, world, f * keys, keys);
        for (uint64_t i = 0; i < absent_keys; ++i) {
          const QueryResult result = filter.Query(world.Key(kFirstAbsent + i), world.blocks());
          if (result.outcome != Outcome::kFound) continue;
          for (int bits = 0; bits < 60 && static_cast<float>(bits) <= result.evidence_bits;
               ++bits) {
            ++at_least[bits];
          }
        }
      }
      CHECK(at_least[bits_seen] > 50);
      for (int bits = 0; bits < 60; ++bits) {
        CAPTURE(bits);
        const double mean = kAbsentKeys * std::exp2(-bits);
        CHECK(at_least[bits] < mean + 5 * std::sqrt(mean) + 1);
      }
    }
  }

  TEST_CASE("the share of keys with weak evidence is what the planner says") {
    constexpr uint64_t kKeys = 300000;
    const Plan plan = DefaultPlan();
    const KbfWorld world(plan.layout, EvenShares(3000), 29);
    Kbf filter = world.MakeFilter(kKeys, plan.load);
    const auto stored = Fill(&filter, world, 0, kKeys);
    double weak = 0;
    for (const StoredKey& key : stored) {
      const QueryResult result = filter.Query(key.hash, world.blocks());
      weak +=
          result.outcome != Outcome::kFound || result.evidence_bits < filter.strong_evidence_bits();
    }
    CheckCount(weak, filter.PredictedErrors(world.match()).weak * kKeys);
    CHECK(weak <= kPlanWeakMax * kKeys);
  }

  TEST_CASE("at p-capacity 3.33 % of the cells hold three entries or more") {
    // [kBF] §4 predicts P_n(1) = 0.0333132 and plots 0.0333313.
    const KbfWorld world({CellKind::kPair32, 14, 2, 10, 10}, EvenShares(3000), 31);
    constexpr uint64_t kKeys = 400000;
    Kbf filter = world.MakeFilter(kKeys, std::numbers::ln2);
    (void)Fill(&filter, world, 0, kKeys);
    const auto histogram = filter.CountHistogram();
    const auto cells = static_cast<double>(filter.num_cells());
    const double share =
        1 - static_cast<double>(histogram[0] + histogram[1] + histogram[2]) / cells;
    const double expected = CellNotDecodable(filter.load() / std::numbers::ln2);
    MESSAGE("share of cells with three or more entries: " << share << " (P_n(1) = "
                                                          << CellNotDecodable(1) << ")");
    CHECK(std::abs(share - expected) < 5 * std::sqrt(expected * (1 - expected) / cells));
    CHECK(expected == doctest::Approx(0.0333132).epsilon(0.001));
  }

  TEST_CASE(
      "a join of two half-full filters, and a compressed half-full one, err like one filter at the "
      "sum") {
    constexpr uint64_t kKeys = 400000;
    const Plan plan = DefaultPlan();
    const KbfWorld world(plan.layout, EvenShares(3000), 37);
    const auto check = [&](const Kbf& filter, std::span<const StoredKey> stored) {
      CHECK(filter.load() == doctest::Approx(plan.load).epsilon(0.001));
      MeasuredErrors counts;
      MeasureErrors(filter, world, stored, kFirstAbsent, kKeys, &counts);
      CheckBounds(counts, 2e-3, 2e-5, 0);
      CheckAgainstPrediction(counts, PredictErrors(plan.layout, filter.load(), world.match()));
    };
    SUBCASE("join") {
      Kbf left = world.MakeFilter(kKeys, plan.load);
      Kbf right = world.MakeFilter(kKeys, plan.load);
      auto stored = Fill(&left, world, 0, kKeys / 2);
      const auto others = Fill(&right, world, kKeys / 2, kKeys / 2);
      stored.insert(stored.end(), others.begin(), others.end());
      REQUIRE(left.Join(right) == KbfStatus::kOk);
      check(left, stored);
    }
    SUBCASE("compress") {
      Kbf filter = world.MakeFilter(2 * kKeys, plan.load);
      const auto stored = Fill(&filter, world, 0, kKeys);
      REQUIRE(filter.Compress() == KbfStatus::kOk);
      check(filter, stored);
    }
  }
}

}  // namespace
}  // namespace kbf
