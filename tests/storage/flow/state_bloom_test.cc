#include "storage/flow/state_bloom.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <unordered_map>
#include <utility>

#include "storage/hash.h"

namespace kbf {
namespace {

using Outcome = StateBloom::Outcome;
using Sharing = StateBloom::Sharing;

KeyHash Key(uint64_t number) {
  static const HashSecret secret = HashSecret::FromSeed(14);
  return HashKey("flow " + std::to_string(number), secret);
}

StateBloom Filter(uint64_t cells, unsigned hashes, Sharing sharing = Sharing::kEqualStates) {
  auto filter = StateBloom::Create(cells, hashes, sharing);
  REQUIRE(filter.has_value());
  return *std::move(filter);
}

TEST_SUITE("storage") {
  TEST_CASE("a stateful Bloom filter of impossible size is not made") {
    CHECK(!StateBloom::Create(0, 3, Sharing::kNullIfShared));
    CHECK(!StateBloom::Create(10, 0, Sharing::kNullIfShared));
    CHECK(!StateBloom::Create(10, StateBloom::kHashesMax + 1, Sharing::kNullIfShared));
    CHECK(!StateBloom::Create(StateBloom::kCellsMax + 1, 3, Sharing::kNullIfShared));
    CHECK(Filter(10, 3).num_cells() == 12);
  }

  TEST_CASE("a flow alone in its cells has its state, changes it and goes") {
    StateBloom filter = Filter(3000, 3);
    CHECK(filter.Query(Key(1)).outcome == Outcome::kAbsent);
    filter.Insert(Key(1), 7);
    CHECK(filter.Query(Key(1)).outcome == Outcome::kFound);
    CHECK(filter.Query(Key(1)).state == 7);
    filter.Change(Key(1), 2);
    CHECK(filter.Query(Key(1)).state == 2);
    filter.Remove(Key(1));
    CHECK(filter.Query(Key(1)).outcome == Outcome::kAbsent);
  }

  // One cell for each hash function, so that all flows share all cells.
  TEST_CASE("flows that share all cells are known as long as their states are equal") {
    StateBloom filter = Filter(2, 2);
    filter.Insert(Key(1), 4);
    filter.Insert(Key(2), 4);
    CHECK(filter.Query(Key(2)).outcome == Outcome::kFound);
    filter.Change(Key(1), 5);
    CHECK(filter.Query(Key(1)).outcome == Outcome::kUnknown);
    // "Don't know" stays until the one flow that is left changes.
    filter.Remove(Key(2));
    CHECK(filter.Query(Key(1)).outcome == Outcome::kUnknown);
    filter.Change(Key(1), 6);
    CHECK(filter.Query(Key(1)).outcome == Outcome::kFound);
    CHECK(filter.Query(Key(1)).state == 6);
  }

  TEST_CASE("a flow with one shared cell is known, unless that is to count as null") {
    // Two flows that have one of their two cells in common.
    for (const Sharing sharing : {Sharing::kEqualStates, Sharing::kNullIfShared}) {
      StateBloom filter = Filter(4000, 2, sharing);
      uint64_t other = 2;
      const auto shares = [&](uint64_t flow, unsigned row) {
        const auto cell = [&](uint64_t number) { return ScaleTo(Stream(Key(number), row), 2000); };
        return cell(flow) == cell(1);
      };
      while (shares(other, 0) == shares(other, 1)) ++other;
      filter.Insert(Key(1), 4);
      filter.Insert(Key(other), 5);
      const bool known = sharing == Sharing::kEqualStates;
      CHECK(filter.Query(Key(1)).outcome == (known ? Outcome::kFound : Outcome::kUnknown));
      filter.Change(Key(other), 4);
      CHECK(filter.Query(Key(other)).outcome == (known ? Outcome::kFound : Outcome::kUnknown));
    }
  }

  TEST_CASE("a counter that is full stays, so its cells are never empty again") {
    StateBloom filter = Filter(1, 1);
    for (uint64_t i = 0; i < 20; ++i) filter.Insert(Key(i), 3);
    for (uint64_t i = 0; i < 20; ++i) filter.Remove(Key(i));
    CHECK(filter.Query(Key(1)).outcome == Outcome::kFound);
  }

  TEST_CASE("a stateful Bloom filter never shows a wrong state, nor denies a stored flow (model)") {
    for (const Sharing sharing : {Sharing::kEqualStates, Sharing::kNullIfShared}) {
      constexpr uint64_t kSeed = 20261119, kFlows = 2000;
      CAPTURE(kSeed);
      std::mt19937_64 random(kSeed);
      StateBloom filter = Filter(12000, 4, sharing);
      std::unordered_map<uint64_t, unsigned> model;
      uint64_t wrong = 0, denied = 0, unknown = 0, found = 0;
      for (int step = 0; step < 200'000; ++step) {
        const uint64_t flow = random() % kFlows;
        const auto state = static_cast<unsigned>(random() % 10);
        const auto place = model.find(flow);
        if (place == model.end()) {
          filter.Insert(Key(flow), state);
          model[flow] = state;
          continue;
        }
        const auto answer = filter.Query(Key(flow));
        denied += answer.outcome == Outcome::kAbsent;
        unknown += answer.outcome == Outcome::kUnknown;
        found += answer.outcome == Outcome::kFound;
        wrong += answer.outcome == Outcome::kFound && answer.state != place->second;
        if (random() % 3 == 0) {
          filter.Remove(Key(flow));
          model.erase(place);
        } else {
          filter.Change(Key(flow), state);
          place->second = state;
        }
      }
      CHECK(wrong == 0);
      CHECK(denied == 0);
      CHECK(unknown > 0);
      CHECK(found > 0);
    }
  }

  TEST_CASE("absent flows are found as the formula says") {
    // Sample: 200,000 absent flows, 10,000 stored ones with one state: (1 - e^-L)^k.
    constexpr uint64_t kFlows = 10'000, kAsked = 200'000;
    constexpr unsigned kHashes = 5;
    StateBloom filter = Filter(72'135, kHashes);
    for (uint64_t i = 0; i < kFlows; ++i) filter.Insert(Key(i), 1);
    uint64_t found = 0;
    for (uint64_t i = 0; i < kAsked; ++i) {
      found += filter.Query(Key(kFlows + i)).outcome == Outcome::kFound;
    }
    const double load =
        static_cast<double>(kFlows * kHashes) / static_cast<double>(filter.num_cells());
    const double chance = std::pow(1 - std::exp(-load), kHashes);
    // The share of used cells differs by chance as well: relative sigma of a row's cells, k rows.
    const double cells = static_cast<double>(filter.num_cells()) / kHashes;
    const double fill = 1 - std::exp(-load);
    const double relative =
        std::sqrt(kHashes * std::exp(-load) * (fill - load * std::exp(-load)) / cells) / fill;
    const double mean = chance * kAsked;
    const double sigma = std::sqrt(mean * (1 - chance) + mean * mean * relative * relative);
    CAPTURE(mean);
    CAPTURE(sigma);
    CHECK(static_cast<double>(found) > mean - 5 * sigma);
    CHECK(static_cast<double>(found) < mean + 5 * sigma);
  }
}

}  // namespace
}  // namespace kbf
