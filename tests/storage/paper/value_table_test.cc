#include "storage/paper/value_table.h"

#include <doctest/doctest.h>

#include <cmath>
#include <memory>
#include <random>
#include <string>
#include <unordered_map>

#include "storage/paper/greedy_encodings.h"

namespace kbf {
namespace {

std::shared_ptr<const EncodingSet> GreedySet(size_t count) {
  auto set = EncodingSet::Create(GreedyEncodings(count, EncodingSet::kBitsMax));
  REQUIRE(set != nullptr);
  return set;
}

PaperValueTable Table(size_t values, double false_positive, uint64_t seed = 3) {
  auto table =
      PaperValueTable::Create(GreedySet(values), false_positive, HashSecret::FromSeed(seed));
  REQUIRE(table.has_value());
  return *std::move(table);
}

TEST_SUITE("storage") {
  TEST_CASE("a value gets one encoding, which decodes to it") {
    constexpr size_t kValues = 500;
    constexpr uint64_t kSeed = 9;
    CAPTURE(kSeed);
    PaperValueTable table = Table(kValues, 1e-6);
    std::unordered_map<std::string, uint32_t> model;
    std::mt19937_64 random(kSeed);
    size_t bad = 0;
    for (int step = 0; step < 200'000; ++step) {
      const std::string value = "value " + std::to_string(random() % kValues);
      const auto encoding = table.Encode(value);
      REQUIRE(encoding.has_value());
      const auto [known, is_new] = model.emplace(value, *encoding);
      bad += known->second != *encoding;
      bad += table.Decode(*encoding) != value;
    }
    CHECK(bad == 0);
    CHECK(model.size() == kValues);
    CHECK(table.given_out() == kValues);
    CHECK_FALSE(table.Encode("one more").has_value());
    CHECK(table.Encode("value 7").has_value());
    CHECK(table.secondary_bytes() ==
          4 * static_cast<uint64_t>(std::ceil(kValues * 20 / std::log(2))));
    CHECK(table.mapping_bytes() > 8 * kValues);
  }

  TEST_CASE("a new value that the secondary kBF takes for another shows that one's value") {
    // Filled to its capacity, then new values: p of them are taken for old ones, 5 sigma. Every
    // value that is not gets the pool's refusal, so the load stays where it is.
    constexpr double kFalsePositive = 1.0 / 32;
    constexpr int kAsked = 100'000;
    PaperValueTable table = Table(1000, kFalsePositive);
    for (int i = 0; table.given_out() < 1000; ++i) {
      REQUIRE(table.Encode("stored " + std::to_string(i)).has_value());
    }
    int taken = 0;
    for (int i = 0; i < kAsked; ++i) {
      const auto encoding = table.Encode("new " + std::to_string(i));
      if (!encoding) continue;
      ++taken;
      REQUIRE(table.Decode(*encoding).value().starts_with("stored"));
    }
    // Not more than all cells in use, and not fewer than with a cell of one among them: the rest
    // of the outcomes is undecodable. Cells in use vary with the positions: 5 sigma of that too.
    const double in_use = 0.5;
    const double cells = 1000 * 5 / std::log(2);
    const double share = std::pow(in_use, 5);
    const double sigma_cells = 5 * std::sqrt(share * share * (1 - std::log(2)) / cells);
    const double sigma = std::sqrt(share * (1 - share) / kAsked) + sigma_cells;
    CHECK(taken / static_cast<double>(kAsked) <= share + 5 * sigma);
    const double one_at_least = share - std::pow(in_use - std::log(2) / 2, 5);
    CHECK(taken / static_cast<double>(kAsked) >= one_at_least - 5 * sigma);
  }

  TEST_CASE("encodings that were never given out have no value") {
    PaperValueTable table = Table(100, 1e-3);
    CHECK_FALSE(table.Decode(1).has_value());
    CHECK(table.Encode("") == 1);
    CHECK(table.Decode(1) == "");
    CHECK_FALSE(table.Decode(2).has_value());
    CHECK_FALSE(table.Decode(3).has_value());
    CHECK_FALSE(table.Decode(UINT32_MAX).has_value());
  }

  TEST_CASE("impossible tables are refused") {
    const auto set = EncodingSet::Create({1, 2, 4});
    const auto secret = HashSecret::FromSeed(1);
    CHECK_FALSE(PaperValueTable::Create(nullptr, 1e-3, secret).has_value());
    CHECK_FALSE(PaperValueTable::Create(EncodingSet::Create({}), 1e-3, secret).has_value());
    CHECK_FALSE(PaperValueTable::Create(set, 0, secret).has_value());
    CHECK_FALSE(PaperValueTable::Create(set, 1, secret).has_value());
    CHECK_FALSE(PaperValueTable::Create(set, 1e-12, secret).has_value());
  }
}

}  // namespace
}  // namespace kbf
