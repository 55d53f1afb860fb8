#include "storage/locator.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <set>
#include <vector>

namespace kbf {
namespace {

constexpr uint64_t kSeed = 20261118;

KeyHash KeyAt(uint64_t number) {
  return {Mix64(number + kSeed), Mix64(~number * 0x9e3779b97f4a7c15u + kSeed)};
}

Locator MakeLocator(uint64_t keys_per_column, double bits_per_key = 10) {
  return std::move(Locator::Create({keys_per_column, bits_per_key}).value());
}

void GrowTo(Locator* locator, unsigned columns) {
  while (locator->columns_ready() < columns) {
    REQUIRE(locator->Grow());
    while (!locator->GrowStep(1000)) {
    }
  }
}

bool Shows(const Locator& locator, uint64_t key, unsigned column) {
  return (locator.Candidates(KeyAt(key)) >> column & 1) != 0;
}

// A column as the model sees it: the keys that must show it.
struct Model {
  std::array<std::set<uint64_t>, Locator::kColumnsMax> keys;

  uint64_t Missing(const Locator& locator) const {
    uint64_t missing = 0;
    for (unsigned column = 0; column < keys.size(); ++column) {
      for (const uint64_t key : keys[column]) missing += !Shows(locator, key, column);
    }
    return missing;
  }
};

// A Clear or an Or that is under way.
struct Work {
  enum class Kind { kNone, kClear, kOr } kind = Kind::kNone;
  unsigned from = 0;
  unsigned to = 0;
  uint64_t cursor = 0;
};

// `count` absent keys asked for the columns of `mask`; every answer is a false candidate.
double MeasuredRate(const Locator& locator, uint64_t mask, uint64_t count) {
  uint64_t candidates = 0;
  for (uint64_t i = 0; i < count; ++i) {
    candidates += std::popcount(locator.Candidates(KeyAt((uint64_t{1} << 40) + i)) & mask);
  }
  return static_cast<double>(candidates) / static_cast<double>(count * std::popcount(mask));
}

// The rate of one block varies by no more than p(1-p), as that of one question does; both count
// once per column, because the columns hold different keys.
void CheckRate(double measured, double expected, double columns, double questions, double blocks) {
  const double sigma =
      std::sqrt(expected * (1 - expected) * (1 / questions + 1 / blocks) / columns);
  CAPTURE(sigma / expected);
  CHECK(std::abs(measured - expected) < 5 * sigma);
}

TEST_SUITE("storage") {
  TEST_CASE("a locator's positions are pinned and do not depend on its cardinality") {
    Locator locator = MakeLocator(1000);
    CHECK(locator.num_blocks() == 625);
    using Place = Locator::Place;
    CHECK(locator.PlaceOf({1, 2}) == Place{341, {9, 7, 8, 6}});
    CHECK(locator.PlaceOf(KeyAt(0)) == Place{415, {5, 6, 14, 4}});
    CHECK(locator.PlaceOf(KeyAt(1)) == Place{485, {3, 6, 13, 12}});
    const Place before = locator.PlaceOf(KeyAt(5));
    GrowTo(&locator, 64);
    CHECK(locator.PlaceOf(KeyAt(5)) == before);
    CHECK(locator.num_blocks() == 625);
  }

  TEST_CASE("a key's four slots differ, and all blocks and choices are used evenly") {
    const Locator locator = MakeLocator(16);  // 10 blocks
    constexpr uint64_t kKeys = 182000;
    std::vector<double> of_block(10), of_choice(1 << 16), first(16);
    for (uint64_t i = 0; i < kKeys; ++i) {
      const auto place = locator.PlaceOf(KeyAt(i));
      unsigned choice = 0;
      for (const uint8_t slot : place.slots) choice |= 1u << slot;
      REQUIRE(std::popcount(choice) == 4);
      ++of_block[place.block];
      ++of_choice[choice];
      ++first[place.slots[0]];
    }
    // χ² against equal shares: mean classes - 1, σ² twice that. 1,820 choices of 4 from 16.
    const auto check_even = [](const std::vector<double>& counts, double classes) {
      double chi = 0;
      for (const double count : counts) {
        if (count > 0) chi += std::pow(count - kKeys / classes, 2) * classes / kKeys;
      }
      CHECK(std::abs(chi - (classes - 1)) < 5 * std::sqrt(2 * (classes - 1)));
    };
    check_even(of_block, 10);
    check_even(first, 16);
    check_even(of_choice, 1820);
    CHECK(std::count_if(of_choice.begin(), of_choice.end(), [](double c) { return c > 0; }) ==
          1820);
  }

  TEST_CASE("impossible locators are refused") {
    CHECK_FALSE(Locator::Create({0, 10}));
    CHECK_FALSE(Locator::Create({1000, 0}));
    CHECK_FALSE(Locator::Create({1000, -1}));
    CHECK_FALSE(Locator::Create({1000, std::nan("")}));
    CHECK_FALSE(Locator::Create({1000, std::numeric_limits<double>::infinity()}));
    CHECK_FALSE(Locator::Create({1000, Locator::kBitsPerKeyMax + 1}));
    CHECK_FALSE(Locator::Create({uint64_t{1} << 40, 10}));
    CHECK_FALSE(Locator::Create({std::numeric_limits<uint64_t>::max(), 4000}));
    const auto smallest = Locator::Create({1, 0.001});
    REQUIRE(smallest);
    CHECK(smallest->num_blocks() == 1);
  }

  TEST_CASE("cardinality doubles up to 64, one growth at a time, and old memory is given back") {
    Locator locator = MakeLocator(1600);  // 1,000 blocks
    CHECK(locator.columns_ready() == 8);
    CHECK(locator.memory_bytes() == 16000);
    CHECK(locator.GrowStep(1));  // nothing to do
    for (const unsigned columns : {16u, 32u, 64u}) {
      CHECK(locator.Grow());
      CHECK(locator.growing());
      CHECK_FALSE(locator.Grow());
      CHECK_FALSE(locator.GrowStep(0));
      CHECK_FALSE(locator.GrowStep(999));
      CHECK(locator.columns_ready() == columns / 2);
      CHECK(locator.memory_bytes() == 3000 * columns);
      CHECK(locator.GrowStep(1));
      CHECK_FALSE(locator.growing());
      CHECK(locator.columns_ready() == columns);
      CHECK(locator.memory_bytes() == 2000 * columns);
    }
    CHECK_FALSE(locator.Grow());
  }

  TEST_CASE("added keys show their column through growth, clears and ors in any order") {
    for (uint64_t seed = kSeed; seed < kSeed + 6; ++seed) {
      CAPTURE(seed);
      std::mt19937_64 random(seed);
      Locator locator = MakeLocator(100 + random() % 200);
      Model model;
      Work work;
      unsigned grown = 0;
      unsigned finished = 0;
      uint64_t next_key = 0;
      for (int step = 0; step < 6000; ++step) {
        const unsigned columns = locator.columns_ready();
        const auto column = static_cast<unsigned>(random() % columns);
        const uint64_t slice = random() % 24;
        const bool clearing = work.kind == Work::Kind::kClear;
        switch (random() % 8) {
          case 0:  // starts a clear or an or
            if (work.kind != Work::Kind::kNone) break;
            work.kind = random() % 2 == 0 ? Work::Kind::kClear : Work::Kind::kOr;
            work.from = column;
            work.to = static_cast<unsigned>(random() % columns);
            work.cursor = 0;
            if (work.kind == Work::Kind::kClear) model.keys[work.from].clear();
            break;
          case 1:
          case 2:
            if (clearing && locator.ClearStep(work.from, &work.cursor, slice)) {
              // Nothing was added to it since: the column is empty, not just smaller.
              for (uint64_t key = 0; key < next_key; ++key)
                REQUIRE(!Shows(locator, key, work.from));
              work.kind = Work::Kind::kNone;
              ++finished;
            } else if (work.kind == Work::Kind::kOr &&
                       locator.OrStep(work.from, work.to, &work.cursor, slice)) {
              const auto& from = model.keys[work.from];
              model.keys[work.to].insert(from.begin(), from.end());
              work.kind = Work::Kind::kNone;
              ++finished;
            }
            break;
          case 3:
            if (locator.growing()) {
              grown += locator.GrowStep(slice);
            } else if (step > 500 * static_cast<int>(grown + 1)) {
              CHECK(locator.Grow() == (columns < 64));
            }
            break;
          default:
            if (clearing && column == work.from) break;
            locator.Add(KeyAt(next_key), column);
            model.keys[column].insert(next_key);
            if (work.kind == Work::Kind::kOr && column == work.from) {
              locator.Add(KeyAt(next_key), work.to);
              model.keys[work.to].insert(next_key);
            }
            ++next_key;
        }
        if (step % 37 == 0) REQUIRE(model.Missing(locator) == 0);
        // Columns that are not ready yet show nothing.
        if (columns < 64) REQUIRE((locator.Candidates(KeyAt(next_key)) >> columns) == 0);
      }
      CHECK(model.Missing(locator) == 0);
      CHECK(grown == 3);
      CHECK(finished > 20);
    }
  }

  TEST_CASE("clear and or leave the other columns as they are, at every cardinality") {
    for (const unsigned columns : {8u, 16u, 32u, 64u}) {
      CAPTURE(columns);
      Locator locator = MakeLocator(500);
      GrowTo(&locator, columns);
      for (uint64_t key = 0; key < 500 * columns; ++key) locator.Add(KeyAt(key), key % columns);
      const auto ask = [&] {
        std::vector<uint64_t> answers;
        for (uint64_t i = 0; i < 50000; ++i) answers.push_back(locator.Candidates(KeyAt(i)));
        return answers;
      };
      const auto before = ask();
      const unsigned from = columns - 1;
      constexpr unsigned kTo = 2;

      uint64_t cursor = 0;
      while (!locator.OrStep(from, kTo, &cursor, 7)) {
      }
      const auto joined = ask();
      uint64_t changed = 0;
      uint64_t lost = 0;
      for (size_t i = 0; i < before.size(); ++i) {
        changed += (before[i] ^ joined[i]) >> kTo > 1 || ((before[i] ^ joined[i]) & 3) != 0;
        lost += ((before[i] | before[i] >> from << kTo) & ~joined[i]) != 0;
      }
      CHECK(changed == 0);
      CHECK(lost == 0);

      cursor = 0;
      while (!locator.ClearStep(from, &cursor, 7)) {
      }
      CHECK(locator.ClearStep(from, &cursor, 7));  // finished stays finished
      const auto cleared = ask();
      uint64_t wrong = 0;
      for (size_t i = 0; i < before.size(); ++i) {
        wrong += cleared[i] != (joined[i] & ~(uint64_t{1} << from));
      }
      CHECK(wrong == 0);
    }
  }

  TEST_CASE("growth changes no answer, at any moment") {
    Locator locator = MakeLocator(300);
    for (unsigned columns = 8; columns <= 64; columns *= 2) {
      for (uint64_t key = 0; key < 300 * columns; ++key) locator.Add(KeyAt(key), key % columns);
      std::vector<uint64_t> before;
      for (uint64_t i = 0; i < 5000; ++i) before.push_back(locator.Candidates(KeyAt(7 * i)));
      if (columns == 64) break;
      REQUIRE(locator.Grow());
      uint64_t differ = 0;
      do {
        for (uint64_t i = 0; i < 5000; ++i) {
          differ += before[i] != locator.Candidates(KeyAt(7 * i));
        }
      } while (!locator.GrowStep(11));
      for (uint64_t i = 0; i < 5000; ++i) differ += before[i] != locator.Candidates(KeyAt(7 * i));
      CHECK(differ == 0);
    }
  }

  TEST_CASE("measured false candidates follow the formula from a quarter to twice the capacity") {
    // 8 columns of 64,000 keys, 40,000 blocks; 500,000 absent keys.
    constexpr uint64_t kKeys = 64000;
    constexpr uint64_t kAsked = 500000;
    for (const double fill : {0.25, 0.5, 1.0, 2.0}) {
      CAPTURE(fill);
      Locator locator = MakeLocator(kKeys);
      const auto keys = static_cast<uint64_t>(fill * kKeys);
      for (uint64_t i = 0; i < 8 * keys; ++i) locator.Add(KeyAt(i), i % 8);
      CheckRate(MeasuredRate(locator, 0xff, kAsked),
                locator.FalseCandidateRate(static_cast<double>(keys)), 8, kAsked,
                static_cast<double>(locator.num_blocks()));
    }
  }

  TEST_CASE("the or of two full columns has the rate of twice the keys, a cleared one has none") {
    constexpr uint64_t kKeys = 64000;
    constexpr uint64_t kAsked = 500000;
    Locator locator = MakeLocator(kKeys);
    for (uint64_t i = 0; i < 8 * kKeys; ++i) locator.Add(KeyAt(i), i % 8);
    for (unsigned to = 0; to < 4; ++to) {
      uint64_t cursor = 0;
      while (!locator.OrStep(to + 4, to, &cursor, 1000)) {
      }
      cursor = 0;
      while (!locator.ClearStep(to + 4, &cursor, 1000)) {
      }
    }
    CheckRate(MeasuredRate(locator, 0x0f, kAsked), locator.FalseCandidateRate(2.0 * kKeys), 4,
              kAsked, static_cast<double>(locator.num_blocks()));
    CHECK(MeasuredRate(locator, 0xf0, kAsked) == 0);
  }

  TEST_CASE("the formula: one key in one block, no key, crowds, and by counting slots") {
    CHECK(Locator::FalseCandidateRate(0, 100) == 0);
    CHECK(Locator::FalseCandidateRate(1e9, 1) == doctest::Approx(1));
    // A single key meets the absent key's block with chance λ and then has its slots with 1/1820.
    CHECK(Locator::FalseCandidateRate(1, 1e9) == doctest::Approx(1e-9 / 1820).epsilon(1e-6));
    // The other way round: the distribution of covered slots, key by key, averaged over Poisson.
    const auto choose = [](int n, int r) {
      double result = r < 0 || r > n ? 0 : 1;
      for (int i = 1; i <= r && result > 0; ++i) result = result * (n - r + i) / i;
      return result;
    };
    for (const double lambda : {0.4, 1.6, 6.4}) {
      std::array<double, 17> covered{};
      covered[0] = 1;
      double poisson = std::exp(-lambda);
      double rate = 0;
      for (int j = 0; j < 60; ++j) {
        for (int c = 0; c <= 16; ++c) rate += poisson * covered[c] * choose(c, 4) / 1820;
        std::array<double, 17> next{};
        for (int c = 0; c <= 16; ++c) {
          for (int fresh = 0; fresh <= 4 && c + fresh <= 16; ++fresh) {
            next[c + fresh] += covered[c] * choose(16 - c, fresh) * choose(c, 4 - fresh) / 1820;
          }
        }
        covered = next;
        poisson *= lambda / (j + 1);
      }
      CHECK(Locator::FalseCandidateRate(lambda * 1000, 1000) == doctest::Approx(rate));
    }
    CHECK(Locator::FalseCandidateRate(16, 10) == doctest::Approx(0.03704).epsilon(1e-3));
    CHECK(Locator::FalseCandidateRate(16, 12) == doctest::Approx(0.02528).epsilon(1e-3));
  }

  TEST_CASE("bits per key planned by Eq. (4) keep a chain to its share of false candidates") {
    CHECK(Locator::RatePerColumn(0.25, 1) == doctest::Approx(0.25));
    CHECK(Locator::RatePerColumn(0.75, 2) == doctest::Approx(0.5));
    CHECK(Locator::RatePerColumn(0, 7) == 0);
    for (const unsigned columns : {1u, 8u, 64u}) {
      const double rate = Locator::RatePerColumn(0.5, columns);
      CHECK(1 - std::pow(1 - rate, columns) == doctest::Approx(0.5));
      const double bits = Locator::BitsPerKeyFor(rate);
      CHECK(Locator::FalseCandidateRate(16, bits) <= rate);
      CHECK(Locator::FalseCandidateRate(16, bits * 0.999) > rate);
    }
    CHECK(std::isinf(Locator::BitsPerKeyFor(0)));
    CHECK(std::isinf(Locator::BitsPerKeyFor(std::nan(""))));
    CHECK_FALSE(Locator::Create({1000, Locator::BitsPerKeyFor(1e-9)}));

    // The chain as a whole, measured: 8 columns of 20,000 keys, 200,000 absent keys.
    constexpr uint64_t kAsked = 200000;
    const double bits = Locator::BitsPerKeyFor(Locator::RatePerColumn(0.1, 8));
    Locator locator = MakeLocator(20000, bits);
    for (uint64_t i = 0; i < 8 * 20000; ++i) locator.Add(KeyAt(i), i % 8);
    double any = 0;
    for (uint64_t i = 0; i < kAsked; ++i) {
      any += locator.Candidates(KeyAt((uint64_t{1} << 40) + i)) != 0;
    }
    CheckRate(any / kAsked, 0.1, 1, kAsked, static_cast<double>(locator.num_blocks()));
  }
}

}  // namespace
}  // namespace kbf
