#include "storage/paper/encoding_table.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <vector>

#include "storage/hash.h"
#include "storage/paper/greedy_encodings.h"

namespace kbf {
namespace {

using Entry = EncodingTable::Entry;
using Walk = EncodingTable::Walk;

// Value indices that are not the position in the table, so that mixing the two up shows.
std::vector<Entry> Entries(const std::vector<uint32_t>& encodings) {
  std::vector<Entry> entries;
  for (const uint32_t e : encodings) {
    entries.push_back({e, static_cast<uint32_t>(encodings.size() - entries.size())});
  }
  return entries;
}

void CheckFindsAll(const std::vector<uint32_t>& encodings) {
  const auto table = EncodingTable::Create(Entries(encodings));
  REQUIRE(table.has_value());
  // What the header says a lookup may cost.
  const auto most = EncodingTable::kWalkMax + static_cast<unsigned>(std::bit_width(table->size()));
  size_t wrong = 0;
  for (const auto& [encoding, value_index] : Entries(encodings)) {
    for (const Walk walk : {Walk::kAverageStep, Walk::kLocalStep}) {
      const auto lookup = table->FindByRegression(encoding, walk);
      wrong += lookup.value_index != value_index || lookup.accesses > most;
    }
    wrong += table->FindByBinarySearch(encoding).value_index != value_index;
    // The neighbours are in the table only if they are encodings themselves.
    for (const uint32_t other : {encoding - 1, encoding + 1}) {
      const bool there = std::ranges::binary_search(encodings, other);
      for (const Walk walk : {Walk::kAverageStep, Walk::kLocalStep}) {
        const auto lookup = table->FindByRegression(other, walk);
        wrong += lookup.value_index.has_value() != there || lookup.accesses > most;
      }
      wrong += table->FindByBinarySearch(other).value_index.has_value() != there;
    }
  }
  CHECK(wrong == 0);
}

TEST_SUITE("storage") {
  TEST_CASE("the encoding table finds every encoding and nothing else by both ways") {
    SUBCASE("the first greedy encodings") { CheckFindsAll(GreedyEncodings(1500, 30)); }
    SUBCASE("one") { CheckFindsAll({77}); }
    SUBCASE("two") { CheckFindsAll({3, 0xfffffff0u}); }
    SUBCASE("consecutive numbers") { CheckFindsAll({10, 11, 12, 13, 14, 15}); }
    SUBCASE("a curve that bends the other way") {
      std::vector<uint32_t> encodings;
      for (uint32_t x = 1; x <= 1000; ++x) {
        encodings.push_back(static_cast<uint32_t>(1e6 * std::sqrt(x)));
      }
      CheckFindsAll(encodings);
    }
    SUBCASE("two far clusters, which no parabola fits") {
      std::vector<uint32_t> encodings;
      for (uint32_t x = 1; x <= 300; ++x) encodings.push_back(x * 3);
      for (uint32_t x = 1; x <= 300; ++x) encodings.push_back(4'000'000'000u + x * 5);
      CheckFindsAll(encodings);
    }
  }

  TEST_CASE("an empty encoding table finds nothing, and one encoding twice makes no table") {
    const auto table = EncodingTable::Create({});
    REQUIRE(table.has_value());
    CHECK_FALSE(table->FindByRegression(5).value_index.has_value());
    CHECK_FALSE(table->FindByBinarySearch(5).value_index.has_value());
    CHECK(table->MeanAccessesByRegression() == 0);
    CHECK_FALSE(EncodingTable::Create({{5, 0}, {6, 1}, {5, 2}}).has_value());
  }

  TEST_CASE("the regression recovers the parabola that the entries lie on") {
    std::vector<uint32_t> encodings;
    for (uint32_t x = 0; x < 5000; ++x) encodings.push_back(1'000'000 + 300 * x + 7 * x * x);
    const auto table = EncodingTable::Create(Entries(encodings));
    REQUIRE(table.has_value());
    CHECK(table->parabola().a == doctest::Approx(1e6).epsilon(1e-4));
    CHECK(table->parabola().b == doctest::Approx(300).epsilon(1e-4));
    CHECK(table->parabola().c == doctest::Approx(7).epsilon(1e-6));
    CHECK(table->MeanAccessesByRegression() == 1);
  }

  TEST_CASE("near the parabola of the papers' example the regression takes about three reads") {
    // 10,000 encodings at the published curve, each moved by up to one and a half steps either way.
    std::vector<uint32_t> encodings;
    for (uint32_t x = 0; x < 10'000; ++x) {
      const double y = 92'884'900 + 32'952.9 * x + 1.151 * x * x;
      const double moved = 100'000.0 * (static_cast<double>(Mix64(x) >> 11) * 0x1p-53 - 0.5);
      encodings.push_back(static_cast<uint32_t>(y + moved));
    }
    std::ranges::sort(encodings);
    const auto table = EncodingTable::Create(Entries(encodings));
    REQUIRE(table.has_value());
    const double regression = table->MeanAccessesByRegression();
    const double binary = table->MeanAccessesByBinarySearch();
    MESSAGE("10,000 encodings: ", regression, " reads, binary search ", binary, ", average step ",
            table->average_step());
    CHECK(regression < 3);
    CHECK(binary > 12);
  }

  TEST_CASE("on greedy encodings the regression with local steps reads less than binary search") {
    const auto table = EncodingTable::Create(Entries(GreedyEncodings(2000, 30)));
    REQUIRE(table.has_value());
    const double published = table->MeanAccessesByRegression();
    const double local = table->MeanAccessesByRegression(Walk::kLocalStep);
    const double binary = table->MeanAccessesByBinarySearch();
    MESSAGE("2,000 greedy encodings: published walk ", published, " reads, local steps ", local,
            ", binary search ", binary);
    CHECK(local < binary);
    // The published walk does not win here; it must not lose by much either.
    CHECK(published < binary + 1);
  }
}

}  // namespace
}  // namespace kbf
