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

#include "storage/code_counts.h"

namespace kbf {
namespace {

const HashSecret kSecret = HashSecret::FromSeed(7);

// 63 units, 6 symbol bits above the check bits.
DictionaryConfig ConfigOf(const KbfLayout& layout) {
  return {.layout = layout, .check_bits_min = layout.check_bits, .keys_expected = 20000};
}
DictionaryConfig SmallConfig() { return ConfigOf({CellKind::kPair32, 10, 4, 4, 4}); }

// Uses codes as the filters of a slab do. A filter takes so many entries; the newest `filters` are
// kept.
class Filters {
 public:
  Filters(Dictionary& dictionary, unsigned entries, unsigned filters)
      : dictionary_(dictionary), entries_max_(entries), filters_max_(filters) {}

  bool Use(std::string_view bytes, uint32_t flags = 0) {
    if (uses_++ % entries_max_ == 0) filters_.emplace_back();
    if (filters_.size() > filters_max_) {
      dictionary_.ReleaseGiven();
      for (const auto& [code, entries] : filters_.front()) dictionary_.DropEntries(code, entries);
      filters_.pop_front();
    }
    const auto code = dictionary_.Admit(bytes, flags);
    if (!code) return false;
    ++filters_.back()[code->number];
    dictionary_.AddEntry(code->number);
    return true;
  }

 private:
  Dictionary& dictionary_;
  unsigned entries_max_;
  unsigned filters_max_;
  unsigned uses_ = 0;
  std::deque<std::map<uint32_t, uint32_t>> filters_;
};

std::vector<double> ZipfWeights(size_t count) {
  std::vector<double> weights(count);
  for (size_t i = 0; i < count; ++i) weights[i] = std::pow(static_cast<double>(i + 1), -0.99);
  return weights;
}

TEST_SUITE("storage") {
  TEST_CASE("a code's value is the one it was given for, whatever the layout") {
    for (const KbfLayout& layout : {KbfLayout{}, KbfLayout{CellKind::kPair32, 14, 2, 5, 5},
                                    KbfLayout{CellKind::kPair64, 30, 18, 4, 2}}) {
      const uint64_t seed = 3;
      CAPTURE(seed);
      CAPTURE(layout.symbol_bits);
      CAPTURE(layout.num_hashes);
      std::mt19937_64 random(seed);
      BlobPool pool;
      Dictionary dictionary(ConfigOf(layout), kSecret, pool);
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
        dictionary.AddEntry(code->number);
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
    }
  }

  TEST_CASE("equal bytes with other flags are another value, and dictionaries share blobs") {
    BlobPool pool;
    {
      Dictionary a(DictionaryConfig{}, kSecret, pool);
      Dictionary b(DictionaryConfig{}, kSecret, pool);
      const auto one = a.Admit("same", 1);
      a.AddEntry(one.value().number);
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
    DictionaryConfig config = ConfigOf({});
    config.value_bytes_max = 100;
    Dictionary dictionary(config, kSecret, pool);
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
      Dictionary dictionary(ConfigOf(layout), kSecret, pool);
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
      // Half of the symbols are kept for values to come, and planned blocks are never exceeded by
      // more than their part of the rest.
      const double planned = std::ldexp(1, -static_cast<int>(layout.check_bits));
      CHECK(dictionary.match() <= std::max(4 * ideal_match, 1.01 * planned));
      CHECK(dictionary.memory_bytes() < 200'000);
    }
  }

  TEST_CASE("codes are freed when their entries have left, and no others are") {
    const uint64_t seed = 29;
    CAPTURE(seed);
    std::mt19937_64 random(seed);
    BlobPool pool;
    Dictionary dictionary(ConfigOf({}), kSecret, pool);
    // The entries of each code, and its value, as they must be.
    std::map<uint32_t, std::pair<uint32_t, std::string>> model;
    for (unsigned round = 0; round < 30; ++round) {
      CAPTURE(round);
      // Skewed, so that some values have several codes.
      for (unsigned i = 0; i < 5000; ++i) {
        const auto number = static_cast<unsigned>(
            std::min(random() % 600, std::min(random() % 600, random() % 600)) + round * 10);
        const std::string bytes = std::to_string(number * number);
        const auto code = dictionary.Admit(bytes, 9);
        if (!code) continue;
        dictionary.AddEntry(code->number);
        ++model[code->number].first;
        model[code->number].second = bytes;
      }
      for (auto code = model.begin(); code != model.end();) {
        const auto what = random() % 5;
        if (what < 2) {
          dictionary.DropEntries(code->first, code->second.first);
          code = model.erase(code);
          continue;
        }
        if (what == 3 && code->second.first > 1) {
          dictionary.RemoveEntries(code->first, 1);
          --code->second.first;
        }
        ++code;
      }
      dictionary.ReleaseGiven();
      uint64_t entries = 0;
      std::set<std::string> values;
      for (const auto& [code, entry] : model) {
        REQUIRE(dictionary.BlobOf(code)->view() == entry.second);
        entries += entry.first;
        values.insert(entry.second);
      }
      REQUIRE(dictionary.num_entries() == entries);
      for (const std::string& bytes : values) REQUIRE(dictionary.Knows(bytes, 9));
      // Those that have lost their last entry leave while others are used.
      const uint32_t codes = dictionary.num_codes();
      for (uint32_t i = 0; i < 2 * codes; ++i) (void)dictionary.Admit(*values.begin(), 9);
      REQUIRE(dictionary.num_values() == values.size());
      REQUIRE(pool.count() == values.size());
    }
    dictionary.ReleaseGiven();
    for (const auto& [code, entry] : model) dictionary.DropEntries(code, entry.first);
    for (unsigned i = 0; i < 10000; ++i) (void)dictionary.Admit(std::string(1 << 21, 'x'), 0);
    CHECK(dictionary.num_values() == 0);
    CHECK(dictionary.num_codes() == 0);
    CHECK(pool.count() == 0);
    CHECK(dictionary.blocks().free_units() == 4095);
  }

  TEST_CASE("symbols run out, values are refused, and when others have left admitted again") {
    BlobPool pool;
    Dictionary dictionary(SmallConfig(), kSecret, pool);
    std::vector<uint32_t> codes;
    for (unsigned i = 0; i < 200; ++i) {
      // Seen as often as it takes while symbols are scarce.
      const std::string bytes = std::to_string(i);
      auto code = dictionary.Admit(bytes, 0);
      if (!code) code = dictionary.Admit(bytes, 0);
      if (!code) continue;
      dictionary.AddEntry(code->number);
      codes.push_back(code->number);
    }
    CHECK(codes.size() == 63);
    CHECK(dictionary.blocks().free_units() == 0);
    CHECK_FALSE(dictionary.Admit("one more", 0));
    CHECK_FALSE(dictionary.Admit("one more", 0));
    CHECK(dictionary.counters().refused_full > 0);
    CHECK(dictionary.Admit("0", 0));  // what is known stays known
    dictionary.ReleaseGiven();
    for (size_t i = 1; i < codes.size(); i += 2) dictionary.DropEntries(codes[i], 1);
    CHECK(dictionary.num_codes() == 32);
    CHECK(dictionary.Admit("one more", 0));  // it was seen often enough meanwhile
    CHECK(dictionary.Knows("0", 0));
    CHECK_FALSE(dictionary.Knows("1", 0));
  }

  TEST_CASE("code space grows while values come, and stays for those that have replaced others") {
    BlobPool pool;
    DictionaryConfig config = ConfigOf({});
    config.check_bits_min = 2;
    config.seen_bytes = 1 << 20;
    Dictionary dictionary(config, kSecret, pool);
    Filters slab(dictionary, 20000, 8);
    std::mt19937_64 random(5);
    for (unsigned epoch = 0; epoch < 4; ++epoch) {
      CAPTURE(epoch);
      unsigned refused = 0;
      for (unsigned i = 0; i < 200000; ++i) {
        const uint64_t value = epoch * 20000 + random() % 20000;
        const bool used = slab.Use(std::to_string(value));
        if (i >= 150000) refused += !used;
      }
      MESSAGE("values " << dictionary.num_values() << ", codes " << dictionary.num_codes()
                        << ", smallest blocks of 2^" << dictionary.blocks().check_bits_min()
                        << " symbols, match " << dictionary.match() << ", refused late " << refused
                        << ", recycled " << dictionary.counters().recycled);
      // Of 20,000, e^-7.5 have not been used before: 11 ± 5σ are refused once, and of those that
      // have lost their last entry some more.
      CHECK(refused < 60);
      CHECK(dictionary.num_values() >= 19900);
      CHECK(dictionary.num_values() < 20100);
      CHECK(dictionary.counters().refused_full == 0);
    }
    CHECK(dictionary.counters().refined > 0);
    CHECK(dictionary.counters().recycled > 60000);
  }

  TEST_CASE("a flood of values seen once does not take the last half of the symbols") {
    BlobPool pool;
    Dictionary dictionary(ConfigOf({}), kSecret, pool);
    const unsigned flood = 100000;
    const auto use = [&dictionary](const std::string& bytes, uint32_t flags) {
      if (const auto code = dictionary.Admit(bytes, flags)) dictionary.AddEntry(code->number);
    };
    for (unsigned i = 0; i < flood; ++i) use("once " + std::to_string(i), 0);
    const uint64_t half = 2048;
    // A new value is taken for an old one with chance 1.1e-3 (frequency_sketch.h): mean + 5σ.
    const double mean = 1.1e-3 * flood;
    MESSAGE("values after the flood: " << dictionary.num_values());
    CHECK(dictionary.num_values() >= half / 4 - 1);
    CHECK(static_cast<double>(dictionary.num_values()) < half + mean + 5 * std::sqrt(mean));
    // Values that repeat get in at the second occurrence, in the middle of the flood.
    for (unsigned i = 0; i < 500; ++i) {
      CAPTURE(i);
      const std::string bytes = "again and again " + std::to_string(i);
      use(bytes, 0);
      for (unsigned j = 0; j < 5; ++j) use(std::to_string(i * 5 + j), 1);
      if (!dictionary.Knows(bytes, 0)) use(bytes, 0);
    }
    unsigned known = 0;
    for (unsigned i = 0; i < 500; ++i)
      known += dictionary.Knows("again and again " + std::to_string(i), 0);
    CHECK(known >= 490);  // a halving between the two occurrences costs the first one: once in
                          // 2,048 increments
    // A value must save more than it costs: 64 + 48 bytes here, and 5 with each key, of which there
    // will be four for each occurrence.
    unsigned occurrences = 1;
    while (!dictionary.Admit("short key", 0, {.item_bytes = 32})) ++occurrences;
    CHECK(occurrences == 6);
    // The same key again and again is one occurrence.
    for (unsigned i = 0; i < 100; ++i) {
      CHECK_FALSE(dictionary.Admit("one key", 0, {.again = i > 0}));
    }
  }

  TEST_CASE("a large block gives way when values need the symbols") {
    BlobPool pool;
    Dictionary dictionary(ConfigOf({}), kSecret, pool);
    Filters slab(dictionary, 20000, 4);
    const uint64_t seed = 31;
    CAPTURE(seed);
    std::mt19937_64 random(seed);
    for (unsigned i = 0; i < 40000; ++i) slab.Use("frequent");
    CHECK(dictionary.Admit("frequent", 0)->block.check_bits ==
          dictionary.blocks().check_bits_max() - 1);
    // Then half of all uses are of 3,200 others, which do not fit beside a quarter of all symbols.
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

  TEST_CASE(
      "a seen filter remembers as many things as half of its bytes, and few others look seen") {
    SeenFilter none;
    none.Add(1);
    CHECK_FALSE(none.Contains(1));
    CHECK(none.memory_bytes() == 0);
    SeenFilter seen(64 << 10);
    CHECK(seen.memory_bytes() == 64 << 10);
    std::mt19937_64 random(41);
    std::deque<uint64_t> lately;
    unsigned false_alarms = 0;
    for (unsigned i = 0; i < 200000; ++i) {
      const uint64_t hash = random();
      false_alarms += seen.Contains(hash);
      seen.Add(hash);
      REQUIRE(seen.Contains(hash));
      lately.push_back(hash);
      if (lately.size() <= 32 << 10) continue;
      REQUIRE(seen.Contains(lately.front()));
      lately.pop_front();
    }
    MESSAGE("of 200,000 new things looked seen: " << false_alarms);
    CHECK(false_alarms < 0.05 * 200000);
  }

  TEST_CASE("the value index finds what was added and not removed") {
    ValueIndex index;
    std::map<uint32_t, uint64_t> hash_of;  // by id
    std::mt19937_64 random(43);
    for (uint32_t step = 0; step < 200000; ++step) {
      const auto id = static_cast<uint32_t>(random() % 5000);
      if (const auto known = hash_of.find(id); known != hash_of.end()) {
        index.Remove(known->second, id);
        hash_of.erase(known);
      } else {
        const uint64_t hash = random() % 3000;  // many are equal
        index.Reserve();
        index.Add(hash, id);
        hash_of[id] = hash;
      }
      const auto asked = static_cast<uint32_t>(random() % 5000);
      const auto known = hash_of.find(asked);
      const uint64_t hash = known != hash_of.end() ? known->second : random() % 3000;
      const uint32_t found = index.Find(hash, [asked](uint32_t i) { return i == asked; });
      REQUIRE(found == (known != hash_of.end() ? asked : ValueIndex::kNone));
    }
  }

  TEST_CASE("counts of codes are what was added and not removed") {
    CodeCounts counts;
    CodeCounts other;
    std::map<uint32_t, uint32_t> model;
    std::mt19937_64 random(47);
    for (unsigned step = 0; step < 300000; ++step) {
      const auto code = static_cast<uint32_t>(random() % (random() % 2 == 0 ? 4 : 3000));
      if (random() % 5 < 3) {
        (step % 2 == 0 ? counts : other).Add(code);
        ++model[code];
      } else {
        const bool removed = counts.Remove(code);
        if (removed) --model[code];
      }
    }
    counts.AddAll(other);
    uint64_t seen = 0;
    counts.ForEach([&](uint32_t code, uint32_t entries) {
      REQUIRE(model[code] == entries);
      ++seen;
    });
    CHECK(seen ==
          static_cast<uint64_t>(std::count_if(model.begin(), model.end(),
                                              [](const auto& entry) { return entry.second > 0; })));
    CHECK_FALSE(counts.Remove(100000));
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
