#include "storage/dictionary.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <map>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace kbf {
namespace {

const HashSecret kSecret = HashSecret::FromSeed(7);

// 63 units, 6 symbol bits above the check bits.
DictionaryConfig SmallConfig() { return {KbfLayout{CellKind::kPair32, 10, 4, 4, 4}, 1 << 20}; }

// Uses and recycles codes as the filters of a slab do. A filter is a set of codes of `uses_per_set`
// uses; the newest `sets` filters are kept.
class Filters {
 public:
  Filters(Dictionary& dictionary, unsigned uses_per_set, unsigned sets)
      : dictionary_(dictionary), uses_per_set_(uses_per_set), sets_max_(sets) {}

  bool Use(std::string_view bytes, uint32_t flags = 0) {
    if (uses_++ % uses_per_set_ == 0) sets_.push_back(dictionary_.NewCodeSet());
    if (sets_.size() > sets_max_) {
      sets_.pop_front();
      std::vector<const CodeSet*> in_use;
      for (const CodeSet& set : sets_) in_use.push_back(&set);
      dictionary_.Recycle(in_use);
    }
    const auto code = dictionary_.Admit(bytes, flags);
    if (code) sets_.back().Add(code->number);
    return code.has_value();
  }

 private:
  Dictionary& dictionary_;
  unsigned uses_per_set_;
  unsigned sets_max_;
  unsigned uses_ = 0;
  std::deque<CodeSet> sets_;
};

std::vector<double> ZipfWeights(size_t count) {
  std::vector<double> weights(count);
  for (size_t i = 0; i < count; ++i) weights[i] = std::pow(static_cast<double>(i + 1), -0.99);
  return weights;
}

TEST_SUITE("storage") {
  TEST_CASE("a code's value is the one it was given for, whatever the layout") {
    // The last one is meant to be bad: two hashes at load 1, so that one value in ten is not
    // decodable in the index.
    for (const KbfLayout& layout :
         {KbfLayout{}, KbfLayout{CellKind::kPair32, 14, 2, 5, 5},
          KbfLayout{CellKind::kPair64, 30, 18, 4, 2}, KbfLayout{CellKind::kPair32, 14, 2, 2, 2}}) {
      const uint64_t seed = 3;
      CAPTURE(seed);
      CAPTURE(layout.symbol_bits);
      CAPTURE(layout.num_hashes);
      std::mt19937_64 random(seed);
      BlobPool pool;
      Dictionary dictionary({layout, 1 << 20}, kSecret, pool);
      std::map<std::pair<std::string, uint32_t>, std::set<uint32_t>> codes_of;
      std::map<uint32_t, std::pair<std::string, uint32_t>> value_of;
      for (unsigned step = 0; step < 40000; ++step) {
        const auto number = random() % 1500;
        const std::string bytes(number % 100, static_cast<char>('a' + number % 7));
        const auto flags = static_cast<uint32_t>(number % 3);
        const bool known = codes_of.contains({bytes, flags});
        REQUIRE(dictionary.Knows(bytes, flags) == known);
        const auto code = dictionary.Admit(bytes, flags);
        if (known) REQUIRE(code);
        if (!code) continue;
        REQUIRE(code->block.value == code->number);
        REQUIRE(dictionary.BlobOf(code->number)->view() == bytes);
        REQUIRE(dictionary.BlobOf(code->number)->flags == flags);
        const auto [entry, fresh] = value_of.try_emplace(code->number, bytes, flags);
        REQUIRE(entry->second == std::pair{bytes, flags});
        codes_of[{bytes, flags}].insert(code->number);
      }
      CHECK(dictionary.num_values() == codes_of.size());
      CHECK(dictionary.num_codes() == value_of.size());
      CHECK(pool.count() == codes_of.size());
      CHECK(dictionary.counters().admitted == codes_of.size());
      for (const auto& [a, value_a] : value_of) {
        const auto& [b, value_b] = *value_of.begin();
        REQUIRE(dictionary.SameValue(a, b) == (value_a == value_b));
      }
      if (layout.num_hashes == 2) CHECK(dictionary.counters().index_scans > 0);
    }
  }

  TEST_CASE("equal bytes with other flags are another value, and dictionaries share blobs") {
    BlobPool pool;
    {
      Dictionary a(DictionaryConfig{}, kSecret, pool);
      Dictionary b(DictionaryConfig{}, kSecret, pool);
      const auto one = a.Admit("same", 1);
      const auto two = a.Admit("same", 2);
      const auto other = b.Admit("same", 1);
      REQUIRE((one && two && other));
      CHECK_FALSE(a.SameValue(one->number, two->number));
      CHECK(a.BlobOf(one->number) == b.BlobOf(other->number));
      CHECK(pool.count() == 2);
      CHECK_FALSE(a.Knows("same", 3));
      CHECK_FALSE(b.Knows("same", 2));
    }
    CHECK(pool.count() == 0);
  }

  TEST_CASE("a value that is too long is refused") {
    BlobPool pool;
    Dictionary dictionary({KbfLayout{}, 100}, kSecret, pool);
    CHECK(dictionary.Admit(std::string(100, 'x'), 0));
    CHECK_FALSE(dictionary.Admit(std::string(101, 'x'), 0));
    CHECK_FALSE(dictionary.Knows(std::string(101, 'x'), 0));
    CHECK(dictionary.counters().refused == 1);
  }

  TEST_CASE("blocks follow the shares") {
    struct Case {
      const char* name;
      std::vector<double> weights;
    };
    std::vector<double> one_large(3000, 0.1 / 2999);
    one_large[7] = 0.9;
    for (const Case& c : {Case{"one", {1}}, Case{"two", {1, 1}}, Case{"four", {1, 1, 1, 1}},
                          Case{"zipf", ZipfWeights(3000)}, Case{"one large", one_large},
                          Case{"even", std::vector<double>(3000, 1)}}) {
      CAPTURE(c.name);
      const uint64_t seed = 17;
      CAPTURE(seed);
      std::mt19937_64 random(seed);
      std::discrete_distribution<unsigned> choose(c.weights.begin(), c.weights.end());
      BlobPool pool;
      const KbfLayout layout;
      Dictionary dictionary({layout, 1 << 20}, kSecret, pool);
      Filters slab(dictionary, 20000, 4);
      unsigned refused_late = 0;
      for (unsigned i = 0; i < 200000; ++i) {
        const bool used = slab.Use("value " + std::to_string(choose(random)));
        if (i >= 150000) refused_late += !used;
      }
      const auto ideal = ShareBlocks(c.weights, layout.symbol_bits, layout.check_bits);
      const double ideal_match = MatchProbability(c.weights, ideal);
      MESSAGE(c.name << ": match " << dictionary.match() << ", ideal " << ideal_match << ", values "
                     << dictionary.num_values() << ", codes " << dictionary.num_codes()
                     << ", free units " << dictionary.blocks().free_units() << ", upgraded "
                     << dictionary.counters().upgraded << ", downgraded "
                     << dictionary.counters().downgraded << ", refused of the last 50,000 "
                     << refused_late << ", bytes " << dictionary.memory_bytes());
      CHECK(dictionary.match() <= 2 * ideal_match);
      CHECK(dictionary.memory_bytes() < 300'000);
    }
  }

  TEST_CASE("recycling frees exactly what no set holds") {
    const uint64_t seed = 29;
    CAPTURE(seed);
    std::mt19937_64 random(seed);
    BlobPool pool;
    Dictionary dictionary(DictionaryConfig{}, kSecret, pool);
    // Codes and their values, as they must be.
    std::map<uint32_t, std::string> model;
    for (unsigned round = 0; round < 30; ++round) {
      CAPTURE(round);
      // Skewed, so that some values have several codes.
      for (unsigned i = 0; i < 5000; ++i) {
        const auto number = static_cast<unsigned>(
            std::min(random() % 600, std::min(random() % 600, random() % 600)) + round * 10);
        const std::string bytes = std::to_string(number * number);
        if (const auto code = dictionary.Admit(bytes, 9)) model[code->number] = bytes;
      }
      REQUIRE(dictionary.num_codes() == model.size());
      std::vector<CodeSet> sets(3, dictionary.NewCodeSet());
      for (auto code = model.begin(); code != model.end();) {
        const auto where = random() % 5;
        if (where < 3) {
          sets[where].Add(code->first);
          ++code;
        } else {
          code = model.erase(code);
        }
      }
      sets[0].UnionWith(sets[1]);
      const uint64_t recycled_before = dictionary.counters().recycled;
      const uint64_t codes_before = dictionary.num_codes();
      const std::vector<const CodeSet*> in_use{&sets[0], &sets[2]};
      dictionary.Recycle(in_use);
      REQUIRE(dictionary.num_codes() == model.size());
      REQUIRE(dictionary.counters().recycled - recycled_before == codes_before - model.size());
      std::set<std::string> values;
      for (const auto& [code, bytes] : model) {
        REQUIRE(dictionary.BlobOf(code)->view() == bytes);
        values.insert(bytes);
      }
      REQUIRE(dictionary.num_values() == values.size());
      REQUIRE(pool.count() == values.size());
      for (const std::string& bytes : values) REQUIRE(dictionary.Knows(bytes, 9));
    }
    dictionary.Recycle({});
    CHECK(dictionary.num_values() == 0);
    CHECK(dictionary.num_codes() == 0);
    CHECK(pool.count() == 0);
    CHECK(dictionary.blocks().free_units() == dictionary.codes_max());
  }

  TEST_CASE("symbols run out, values are refused, and after recycling admitted again") {
    BlobPool pool;
    Dictionary dictionary(SmallConfig(), kSecret, pool);
    CodeSet kept = dictionary.NewCodeSet();
    unsigned admitted = 0;
    for (unsigned i = 0; i < 200; ++i) {
      // Seen as often as it takes while symbols are scarce.
      const std::string bytes = std::to_string(i);
      auto code = dictionary.Admit(bytes, 0);
      if (!code) code = dictionary.Admit(bytes, 0);
      if (!code) continue;
      if (admitted++ % 2 == 0) kept.Add(code->number);
    }
    CHECK(admitted == 63);
    CHECK(dictionary.blocks().free_units() == 0);
    CHECK_FALSE(dictionary.Admit("one more", 0));
    CHECK_FALSE(dictionary.Admit("one more", 0));
    CHECK(dictionary.Admit("0", 0));  // what is known stays known
    const CodeSet* const in_use[] = {&kept};
    dictionary.Recycle(in_use);
    CHECK(dictionary.num_codes() == 32);
    CHECK(dictionary.Admit("one more", 0));  // it was seen often enough meanwhile
    CHECK(dictionary.Knows("0", 0));
    CHECK_FALSE(dictionary.Knows("1", 0));
  }

  TEST_CASE("a flood of values seen once does not take the last half of the symbols") {
    BlobPool pool;
    Dictionary dictionary(DictionaryConfig{}, kSecret, pool);
    const unsigned flood = 100000;
    for (unsigned i = 0; i < flood; ++i) (void)dictionary.Admit("once " + std::to_string(i), 0);
    const uint64_t half = (dictionary.codes_max() + 1) / 2;
    // A new value is taken for an old one with chance 1.1e-3 (frequency_sketch.h): mean + 5σ.
    const double mean = 1.1e-3 * flood;
    MESSAGE("values after the flood: " << dictionary.num_values());
    CHECK(dictionary.num_values() >= half / 4 - 1);
    CHECK(static_cast<double>(dictionary.num_values()) < half + mean + 5 * std::sqrt(mean));
    // Values that repeat get in at the second occurrence, in the middle of the flood.
    for (unsigned i = 0; i < 500; ++i) {
      CAPTURE(i);
      const std::string bytes = "again and again " + std::to_string(i);
      (void)dictionary.Admit(bytes, 0);
      for (unsigned j = 0; j < 5; ++j) (void)dictionary.Admit(std::to_string(i * 5 + j), 1);
      if (!dictionary.Knows(bytes, 0)) (void)dictionary.Admit(bytes, 0);
    }
    unsigned known = 0;
    for (unsigned i = 0; i < 500; ++i)
      known += dictionary.Knows("again and again " + std::to_string(i), 0);
    CHECK(known >= 490);  // a halving between the two occurrences costs the first one: once in
                          // 2,048 increments
    // A long value must repeat more often: 2 + 20,480 / 4,096 = 7 times.
    const std::string large(20480, 'l');
    unsigned occurrences = 1;
    while (!dictionary.Admit(large, 0)) ++occurrences;
    CHECK(occurrences >= 6);
    CHECK(occurrences <= 11);
  }

  TEST_CASE("a large block gives way when values need the symbols") {
    BlobPool pool;
    Dictionary dictionary(DictionaryConfig{}, kSecret, pool);
    Filters slab(dictionary, 20000, 4);
    const uint64_t seed = 31;
    CAPTURE(seed);
    std::mt19937_64 random(seed);
    for (unsigned i = 0; i < 1000; ++i) slab.Use("frequent");
    CHECK(dictionary.Admit("frequent", 0)->block.check_bits ==
          dictionary.blocks().check_bits_max());
    // Then half of all uses are of 3,200 others, which do not fit beside half of all symbols.
    unsigned refused = 0;
    for (unsigned i = 0; i < 600000; ++i) {
      if (random() % 2 == 0) {
        slab.Use("frequent");
      } else {
        const bool used = slab.Use(std::to_string(random() % 3200));
        if (i > 500000) refused += !used;
      }
    }
    MESSAGE("values " << dictionary.num_values() << ", refused " << refused << ", frequent has "
                      << dictionary.Admit("frequent", 0)->block.check_bits << " check bits");
    CHECK(dictionary.counters().downgraded > 0);
    CHECK(dictionary.num_values() > 2500);
    CHECK(dictionary.Admit("frequent", 0)->block.check_bits >= 12);
  }

  TEST_CASE("the sketch never counts too little and ages") {
    FrequencySketch sketch(16 << 10);
    CHECK(sketch.memory_bytes() == 16 << 10);
    const uint64_t seed = 41;
    CAPTURE(seed);
    std::mt19937_64 random(seed);
    std::map<uint64_t, uint32_t> counts;
    std::vector<uint64_t> hashes(300);
    for (uint64_t& hash : hashes) hash = random();
    for (unsigned i = 0; i < 2000; ++i) {  // fewer than a halving
      const uint64_t hash = hashes[random() % hashes.size()];
      const uint32_t count = std::min(++counts[hash], FrequencySketch::kCountMax);
      REQUIRE(sketch.Increment(hash) >= count);
      REQUIRE(sketch.Estimate(hash) >= count);
    }
    // Absent keys only: halvings take the old counts down, and few absent keys look old.
    unsigned looked_old = 0;
    const unsigned absent_keys = 100000;
    for (unsigned i = 0; i < absent_keys; ++i) {
      const bool old = sketch.Increment(random()) > 1;
      if (i >= 20000) looked_old += old;
    }
    MESSAGE("absent keys that looked old: " << looked_old << " of 80000");
    const double mean = 1.1e-3 * 80000;
    CHECK(looked_old < mean + 5 * std::sqrt(mean));
    unsigned remembered = 0;
    for (const uint64_t hash : hashes) remembered += sketch.Estimate(hash) > 1;
    CHECK(remembered < 5);
  }
}

}  // namespace
}  // namespace kbf
