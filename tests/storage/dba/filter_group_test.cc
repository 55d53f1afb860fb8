#include "storage/dba/filter_group.h"

#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <random>
#include <vector>

#include "storage/dba/maths.h"

namespace kbf {
namespace {

constexpr uint64_t kSeed = 20261118;

KeyHash KeyAt(uint64_t number) {
  return {Mix64(number + kSeed), Mix64(~number * 0x9e3779b97f4a7c15u + kSeed)};
}

// What a filter of the group must look like: a bit for each segment and row.
class Model {
 public:
  explicit Model(const FilterGroupShape& shape)
      : shape_(shape),
        bits_(shape.cardinality, std::vector<bool>(shape.num_hashes * shape.rows, false)) {}

  void Add(unsigned filter, const KeyHash& key) {
    for (unsigned j = 0; j < shape_.num_hashes; ++j) bits_[filter][At(key, j)] = true;
  }
  bool MayContain(unsigned filter, const KeyHash& key) const {
    for (unsigned j = 0; j < shape_.num_hashes; ++j) {
      if (!bits_[filter][At(key, j)]) return false;
    }
    return true;
  }
  void Clear(unsigned filter) { bits_[filter].assign(bits_[filter].size(), false); }
  void Or(unsigned from, unsigned to) {
    for (size_t i = 0; i < bits_[to].size(); ++i) {
      bits_[to][i] = bits_[to][i] || bits_[from][i];
    }
  }

 private:
  size_t At(const KeyHash& key, unsigned j) const {
    return j * shape_.rows + ScaleTo(Stream(key, kDbaStream + j), shape_.rows);
  }
  FilterGroupShape shape_;
  std::vector<std::vector<bool>> bits_;
};

std::vector<uint64_t> Ask(const FilterGroup& group, const KeyHash& key) {
  std::vector<uint64_t> mask(group.words(), ~uint64_t{0});
  DbaHashes hashes(key);
  const bool any = group.Candidates(&hashes, mask.data());
  uint64_t all = 0;
  for (const uint64_t word : mask) all |= word;
  CHECK(any == (all != 0));
  return mask;
}

uint64_t Differences(const FilterGroup& group, const Model& model, const KeyHash& key) {
  const auto mask = Ask(group, key);
  uint64_t wrong = 0;
  for (unsigned filter = 0; filter < group.words() * 64; ++filter) {
    const bool expected = filter < group.shape().cardinality && model.MayContain(filter, key);
    wrong += ((mask[filter / 64] >> filter % 64 & 1) != 0) != expected;
  }
  return wrong;
}

}  // namespace

TEST_SUITE_BEGIN("storage/dba");

TEST_CASE("groups of any cardinality answer like separate filters") {
  for (const unsigned cardinality : {1u, 2u, 3u, 8u, 16u, 31u, 32u, 33u, 64u, 65u, 128u, 200u}) {
    CAPTURE(cardinality);
    const FilterGroupShape shape{cardinality, 50, 4};
    FilterGroup group = FilterGroup::Create(shape).value();
    Model model(shape);
    std::mt19937_64 random(kSeed + cardinality);
    uint64_t wrong = 0;
    for (int step = 0; step < 3000; ++step) {
      const auto filter = static_cast<unsigned>(random() % cardinality);
      const auto other = static_cast<unsigned>(random() % cardinality);
      const KeyHash key = KeyAt(random() % 2000);
      switch (random() % 64) {
        case 0:
          group.Clear(filter);
          model.Clear(filter);
          break;
        case 1:
          group.Or(filter, other);
          model.Or(filter, other);
          break;
        default:
          group.Add(filter, key);
          model.Add(filter, key);
      }
      wrong += Differences(group, model, key);
      wrong += Differences(group, model, KeyAt(random() % 2000));
    }
    CHECK(wrong == 0);
  }
}

TEST_CASE("segments that are added later give the group that had them from the start") {
  for (const unsigned cardinality : {1u, 5u, 64u, 70u}) {
    CAPTURE(cardinality);
    FilterGroup whole = FilterGroup::Create({cardinality, 300, 7}).value();
    FilterGroup grown = FilterGroup::Create({cardinality, 300, 4}).value();
    FilterGroup more = grown.MoreSegments(3).value();
    for (uint64_t i = 0; i < 100 * cardinality; ++i) {
      const auto filter = static_cast<unsigned>(i % cardinality);
      whole.Add(filter, KeyAt(i));
      grown.Add(filter, KeyAt(i));
      more.Add(filter, KeyAt(i));
    }
    grown.Append(std::move(more));
    CHECK(grown.shape().num_hashes == 7);
    for (uint64_t i = 0; i < 200 * cardinality; ++i) {
      REQUIRE(Ask(whole, KeyAt(i)) == Ask(grown, KeyAt(i)));
    }
  }
}

TEST_CASE("a group that is copied into a larger one keeps its answers") {
  FilterGroup left = FilterGroup::Create({5, 100, 3}).value();
  FilterGroup right = FilterGroup::Create({5, 100, 3}).value();
  for (uint64_t i = 0; i < 250; ++i) {
    left.Add(i % 5, KeyAt(i));
    right.Add(i % 5, KeyAt(i + 1000));
  }
  FilterGroup both = FilterGroup::Create({10, 100, 3}).value();
  both.CopyFrom(left, 0);
  both.CopyFrom(right, 5);
  for (uint64_t i = 0; i < 2000; ++i) {
    REQUIRE(Ask(both, KeyAt(i))[0] == (Ask(left, KeyAt(i))[0] | Ask(right, KeyAt(i))[0] << 5));
  }
}

TEST_CASE("false positives of a group's filters are those of segmented filters") {
  constexpr uint64_t kKeys = 2000;
  constexpr uint64_t kAsked = 50000;
  const FilterGroupShape shape{20, 2886, 6};
  FilterGroup group = FilterGroup::Create(shape).value();
  for (unsigned filter = 0; filter < 20; ++filter) {
    for (uint64_t i = 0; i < kKeys; ++i) group.Add(filter, KeyAt(filter * kKeys + i));
  }
  double hits = 0;
  for (uint64_t i = 0; i < kAsked; ++i) {
    hits += std::popcount(Ask(group, KeyAt((uint64_t{1} << 40) + i))[0]);
  }
  // The filters' own shares of ones vary by less than 1 %, and six of them make a rate.
  const double expected = SegmentedFalsePositive(kKeys, 2886, 6) * kAsked * 20;
  const double filters = expected * 6 * 0.01 / std::sqrt(20.0);
  CHECK(std::fabs(hits - expected) < 5 * std::sqrt(expected + filters * filters));
}

TEST_CASE("numbers that make no group are refused") {
  CHECK_FALSE(FilterGroup::Create({0, 10, 1}));
  CHECK_FALSE(FilterGroup::Create({FilterGroup::kCardinalityMax + 1, 10, 1}));
  CHECK_FALSE(FilterGroup::Create({1, 0, 1}));
  CHECK_FALSE(FilterGroup::Create({1, 10, 0}));
  CHECK_FALSE(FilterGroup::Create({1, 10, kDbaHashesMax + 1}));
  CHECK_FALSE(FilterGroup::Create({1, 10, kDbaHashesMax}).value().MoreSegments(1));
  CHECK(FilterGroup::Create({FilterGroup::kCardinalityMax, 1, 1}));
}

TEST_SUITE_END();
}  // namespace kbf
