#include "storage/membership/pcbf.h"

#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <map>
#include <random>
#include <vector>

#include "tests/storage/membership/membership_world.h"

namespace kbf {

TEST_SUITE_BEGIN("storage/membership");

TEST_CASE("counters of a PCBF agree with plain counters, stuck ones included") {
  for (const auto& [k, g] : {std::pair{3u, 1u}, {3u, 2u}, {4u, 4u}}) {
    CAPTURE(k);
    CAPTURE(g);
    auto filter =
        Pcbf::Create({.memory_bits = 40 * 64, .num_hashes = k, .num_accesses = g}).value();
    const WordHashing hashing(filter.shape());
    std::map<std::pair<uint64_t, unsigned>, unsigned> model;
    std::map<uint64_t, unsigned> stored;
    std::mt19937_64 random(20261118 + k * 16 + g);
    uint64_t wrong = 0;
    for (int step = 0; step < 300000; ++step) {
      const uint64_t number = random() % 400;
      const WordPlaces places(hashing, NumberedKey(number));
      // Grows to where counters get stuck, and shrinks again.
      if (random() % 8 < (step / 5000 % 2 == 0 ? 6u : 2u)) {
        filter.Insert(NumberedKey(number));
        ++stored[number];
        for (const auto& place : places) {
          auto& count = model[{place.word, place.position}];
          if (count < Pcbf::kStuck) ++count;
        }
      } else if (stored[number] > 0) {
        --stored[number];
        wrong += !filter.Delete(NumberedKey(number));
        for (const auto& place : places) {
          auto& count = model[{place.word, place.position}];
          if (count < Pcbf::kStuck) --count;
        }
      }
      bool expected = true;
      for (const auto& place : places) {
        const unsigned count = model[{place.word, place.position}];
        wrong += filter.CounterAt(place.word, place.position) != count;
        expected &= count > 0;
      }
      wrong += filter.MayContain(NumberedKey(number)) != expected;
      wrong += stored[number] > 0 && !expected;
    }
    CHECK(wrong == 0);
    unsigned stuck = 0;
    for (const auto& [place, count] : model) stuck += count == Pcbf::kStuck;
    CHECK(stuck > 0);
  }
}

TEST_CASE("a PCBF's false positives are those of eq. 2 and 3, a CBF's those of eq. 1") {
  constexpr uint64_t kKeys = 20000;
  constexpr uint64_t kAsked = 200000;
  constexpr unsigned kFilters = 4;
  for (const auto& [k, g] : {std::pair{3u, 1u}, {4u, 2u}, {3u, 3u}, {4u, 4u}}) {
    CAPTURE(k);
    CAPTURE(g);
    uint64_t hits = 0;
    WordShape shape;
    for (uint64_t instance = 0; instance < kFilters; ++instance) {
      auto filter =
          Pcbf::Create({.memory_bits = 40 * kKeys, .num_hashes = k, .num_accesses = g}).value();
      shape = filter.shape();
      const uint64_t first = instance << 32;
      for (uint64_t i = 0; i < kKeys; ++i) filter.Insert(NumberedKey(first + i));
      for (uint64_t i = 0; i < kAsked; ++i)
        hits += filter.MayContain(NumberedKey(first + kKeys + i));
    }
    const double rate = static_cast<double>(hits) / (kAsked * kFilters);
    const double sigma = RateDeviation(kKeys, shape, kAsked, kFilters);
    CHECK(std::fabs(rate - WordFalsePositive(kKeys, shape)) < 5 * sigma);
    // The paper's form is 2 to 4 % below for g < k, less than this sample can tell.
    CHECK(std::fabs(rate - PaperWordFalsePositive(kKeys, shape)) <
          5 * sigma + 0.04 * PaperWordFalsePositive(kKeys, shape));
  }
}

TEST_CASE("a batch of a PCBF is answered like single keys") {
  auto filter = Pcbf::Create({.memory_bits = 64 * 500, .num_hashes = 4, .num_accesses = 2}).value();
  std::vector<KeyHash> keys;
  for (uint64_t i = 0; i < 1000; ++i) keys.push_back(NumberedKey(i));
  for (uint64_t i = 0; i < 500; ++i) filter.Insert(keys[i]);
  for (const size_t count : {0u, 1u, 31u, 32u, 33u, 1000u}) {
    std::array<bool, 1000> answers{};
    filter.MayContainMany({keys.data(), count}, answers.data());
    for (size_t i = 0; i < count; ++i) CHECK(answers[i] == filter.MayContain(keys[i]));
  }
}

TEST_CASE("numbers that make no PCBF are refused") {
  CHECK_FALSE(Pcbf::Create({.memory_bits = 0}));
  CHECK_FALSE(Pcbf::Create({.memory_bits = 63}));
  CHECK_FALSE(Pcbf::Create({.memory_bits = 64, .num_hashes = 0, .num_accesses = 0}));
  CHECK_FALSE(Pcbf::Create({.memory_bits = 64, .num_hashes = 2, .num_accesses = 3}));
  CHECK_FALSE(Pcbf::Create({.memory_bits = 64, .num_hashes = 17}));
  CHECK_FALSE(Pcbf::Create({.memory_bits = 64, .word_bits = 12}));
  CHECK(Pcbf::Create({.memory_bits = 64}));
}

TEST_SUITE_END();
}  // namespace kbf
