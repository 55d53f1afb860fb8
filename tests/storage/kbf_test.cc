#include "storage/kbf.h"

#include <doctest/doctest.h>

#include <set>
#include <unordered_map>
#include <vector>

#include "storage/maths.h"
#include "tests/storage/kbf_world.h"

namespace kbf {
namespace {

constexpr KbfLayout kPair32{CellKind::kPair32, 14, 2, 5, 5};
constexpr KbfLayout kPair64{CellKind::kPair64, 30, 10, 4, 4};
constexpr KbfLayout kTriple64{CellKind::kTriple64, 20, 8, 3, 3};
constexpr KbfLayout kPairLines{CellKind::kPair32, 14, 2, 6, 2};
constexpr KbfLayout kTripleLine{CellKind::kTriple64, 20, 8, 4, 2};
const std::vector<KbfLayout> kLayouts = {kPair32, kPair64, kTriple64, kPairLines, kTripleLine};

TEST_SUITE("storage") {
  TEST_CASE("what was inserted is found with its value, updated, and gone after delete") {
    for (const KbfLayout& layout : kLayouts) {
      CAPTURE(static_cast<int>(layout.kind));
      CAPTURE(layout.num_lines);
      const KbfWorld world(layout, EvenShares(100), 1);
      Kbf filter = world.MakeFilter(1000, 0.5);
      const KeyHash key = world.Key(1);
      CHECK(filter.Query(key, world.blocks()).outcome == Outcome::kAbsent);
      filter.Insert(key, world.Symbol(key, 42));
      QueryResult found = filter.Query(key, world.blocks());
      CHECK(found.outcome == Outcome::kFound);
      CHECK(found.value == 42);
      CHECK(found.symbol == world.Symbol(key, 42));
      CHECK(found.evidence_bits > kStrongEvidenceBits);
      CHECK(filter.Update(key, world.blocks(), world.block_of(7), kStrongEvidenceBits) ==
            KbfStatus::kOk);
      found = filter.Query(key, world.blocks());
      CHECK(found.outcome == Outcome::kFound);
      CHECK(found.value == 7);
      CHECK(filter.size() == 1);
      CHECK(filter.Delete(key, world.blocks(), kStrongEvidenceBits) == KbfStatus::kOk);
      CHECK(filter.Query(key, world.blocks()).outcome == Outcome::kAbsent);
      CHECK(filter.size() == 0);
      CHECK(filter.CountHistogram()[0] == filter.num_cells());
    }
  }

  TEST_CASE("random operations agree with a plain map, apart from answers that are misses") {
    for (const KbfLayout& layout : kLayouts) {
      const uint64_t seed = 5;
      CAPTURE(seed);
      CAPTURE(static_cast<int>(layout.kind));
      CAPTURE(layout.num_lines);
      std::mt19937_64 random(seed);
      const KbfWorld world(layout, EvenShares(500), seed);
      Kbf filter = world.MakeFilter(2000, 0.7);
      std::unordered_map<uint64_t, uint32_t> model;
      uint64_t wrong = 0;
      uint64_t lost = 0;
      uint64_t foreign = 0;
      uint64_t asked = 0;
      for (int step = 0; step < 60000; ++step) {
        const uint64_t number = random() % 4000;
        const KeyHash key = world.Key(number);
        const auto value = static_cast<uint32_t>(random() % 500);
        const auto held = model.find(number);
        switch (random() % 4) {
          case 0:
            if (held == model.end() && model.size() < 2000) {
              filter.Insert(key, world.Symbol(key, value));
              model[number] = value;
            }
            break;
          case 1:
            if (filter.Delete(key, world.blocks(), kStrongEvidenceBits) == KbfStatus::kOk) {
              foreign += held == model.end();
              model.erase(number);
            }
            break;
          case 2:
            if (filter.Update(key, world.blocks(), world.block_of(value), kStrongEvidenceBits) ==
                KbfStatus::kOk) {
              foreign += held == model.end();
              model[number] = value;
            }
            break;
          default: {
            const QueryResult found = filter.Query(key, world.blocks());
            ++asked;
            if (held == model.end()) {
              foreign +=
                  found.outcome == Outcome::kFound && found.evidence_bits > kStrongEvidenceBits;
            } else if (found.outcome != Outcome::kFound) {
              ++lost;
            } else {
              wrong += found.value != held->second;
            }
          }
        }
      }
      CHECK(filter.size() == model.size());
      CHECK(wrong == 0);
      CHECK(foreign == 0);
      CHECK(lost < asked / 50);
    }
  }

  TEST_CASE("batches give the same answers as single queries, on every kernel") {
    for (const KbfLayout& layout : kLayouts) {
      CAPTURE(static_cast<int>(layout.kind));
      const KbfWorld world(layout, ZipfShares(500, 0.99), 9);
      Kbf single = world.MakeFilter(5000, 1.2);
      Kbf batched = world.MakeFilter(5000, 1.2);
      std::vector<KeyHash> keys;
      std::vector<uint32_t> symbols;
      for (uint64_t i = 0; i < 5000; ++i) {
        keys.push_back(world.Key(i));
        symbols.push_back(world.Symbol(keys.back(), world.Value(i)));
        single.Insert(keys.back(), symbols.back());
      }
      batched.InsertMany(keys, symbols);
      CHECK(batched.CountHistogram() == single.CountHistogram());
      for (uint64_t i = 5000; i < 9999; ++i) keys.push_back(world.Key(i));
      std::vector<QueryResult> many(keys.size());
      batched.QueryMany(keys, world.blocks(), many.data());
      const auto same = [&](const QueryResult& a, const QueryResult& b) {
        return a.outcome == b.outcome && a.symbol == b.symbol && a.value == b.value &&
               a.evidence_bits == b.evidence_bits;
      };
      uint64_t different = 0;
      for (size_t i = 0; i < keys.size(); ++i)
        different += !same(many[i], single.Query(keys[i], world.blocks()));
      CHECK(different == 0);

      std::vector<QueryResult> portable(keys.size());
      batched.QueryManyWith(PortableKernelFor(layout.kind), keys, world.blocks(), portable.data());
      for (size_t i = 0; i < keys.size(); ++i) different += !same(many[i], portable[i]);
      CHECK(different == 0);
      for (uint32_t symbol = 1; symbol < 4096; ++symbol) {
        different += KernelFor(layout.kind).encode(layout.symbol_bits, symbol) !=
                     PortableKernelFor(layout.kind).encode(layout.symbol_bits, symbol);
      }
      CHECK(different == 0);
    }
  }

  TEST_CASE("cell positions are pinned and always different") {
    const KbfWorld world(kTriple64, EvenShares(1), 1);
    const Kbf filter = world.MakeFilter(100000, 1.1);
    const auto cells = filter.CellsOf(world.Key(1));
    CHECK(cells[0] == 86511);
    CHECK(cells[1] == 134662);
    CHECK(cells[2] == 240164);
    for (const KbfLayout& layout : kLayouts) {
      CAPTURE(layout.num_lines);
      const KbfWorld other(layout, EvenShares(1), 2);
      const Kbf small = other.MakeFilter(50, 1);
      for (uint64_t i = 0; i < 2000; ++i) {
        const auto mine = small.CellsOf(other.Key(i));
        const std::set<uint64_t> distinct(mine.begin(), mine.begin() + layout.num_hashes);
        REQUIRE(distinct.size() == layout.num_hashes);
        REQUIRE(*distinct.rbegin() < small.num_cells());
        std::set<uint64_t> lines;
        for (const uint64_t cell : distinct)
          lines.insert(cell * CellBytes(layout.kind) / kCacheLineBytes);
        REQUIRE((!IsPartitioned(layout) || lines.size() == layout.num_lines));
      }
    }
  }

  TEST_CASE("a delete that meets an empty or foreign cell changes nothing and says so") {
    const KbfWorld world(kTriple64, EvenShares(10), 1);
    Kbf filter = world.MakeFilter(1000, 1);
    const KeyHash stored = world.Key(1);
    const KeyHash absent_key = world.Key(2);
    CHECK(filter.DeleteSymbol(stored, world.Symbol(stored, 3)) == KbfStatus::kNotHeld);
    filter.Insert(stored, world.Symbol(stored, 3));
    const auto before = filter.CountHistogram();
    CHECK(filter.DeleteSymbol(absent_key, world.Symbol(absent_key, 3)) == KbfStatus::kNotHeld);
    CHECK(filter.DeleteSymbol(stored, world.Symbol(stored, 4)) ==
          KbfStatus::kNotHeld);  // another symbol than is there
    CHECK(filter.Delete(absent_key, world.blocks(), 0) == KbfStatus::kAbsent);
    CHECK(filter.Update(absent_key, world.blocks(), world.block_of(1), 0) == KbfStatus::kAbsent);
    CHECK(filter.Delete(stored, world.blocks(), 1000) == KbfStatus::kWeakEvidence);
    CHECK(filter.CountHistogram() == before);
    CHECK(filter.size() == 1);
    CHECK(filter.Query(stored, world.blocks()).value == 3);
  }

  TEST_CASE("a counter that reaches 15 sticks, and nothing underflows") {
    const KbfWorld world(kTriple64, EvenShares(10), 1);
    Kbf filter = world.MakeFilter(1000, 1);
    const KeyHash key = world.Key(1);
    const uint32_t symbol = world.Symbol(key, 3);
    for (int i = 0; i < 20; ++i) filter.Insert(key, symbol);
    CHECK(filter.CountHistogram()[kCounterMax] == 3);
    CHECK(filter.Query(key, world.blocks()).outcome == Outcome::kUndecodable);
    for (int i = 0; i < 30; ++i) CHECK(filter.DeleteSymbol(key, symbol) == KbfStatus::kOk);
    CHECK(filter.CountHistogram()[kCounterMax] == 3);
    CHECK(filter.size() == 0);
    CHECK(filter.Query(key, world.blocks()).outcome == Outcome::kUndecodable);
  }

  TEST_CASE("equal symbols that meet in all cells cancel and are undecodable, not lost") {
    const KbfWorld world(kPair32, EvenShares(10), 1);
    Kbf filter = world.MakeFilter(1000, 1);
    const KeyHash key = world.Key(1);
    filter.Insert(key, world.Symbol(key, 3));
    filter.Insert(key, world.Symbol(key, 3));
    CHECK(filter.Query(key, world.blocks()).outcome == Outcome::kUndecodable);
    CHECK(filter.DeleteSymbol(key, world.Symbol(key, 3)) == KbfStatus::kOk);
    CHECK(filter.Query(key, world.blocks()).outcome == Outcome::kFound);
  }

  TEST_CASE("join holds the keys of both, compress holds them in half the cells") {
    for (const KbfLayout& layout : kLayouts) {
      CAPTURE(static_cast<int>(layout.kind));
      CAPTURE(layout.num_lines);
      const KbfWorld world(layout, EvenShares(100), 3);
      Kbf a = world.MakeFilter(10000, 0.4);
      Kbf b = world.MakeFilter(10000, 0.4);
      Kbf both = world.MakeFilter(10000, 0.4);
      for (uint64_t i = 0; i < 4000; ++i) {
        const KeyHash key = world.Key(i);
        const uint32_t symbol = world.Symbol(key, world.Value(i));
        (i % 2 == 0 ? a : b).Insert(key, symbol);
        both.Insert(key, symbol);
      }
      CHECK(a.Join(b) == KbfStatus::kOk);
      CHECK(a.size() == 4000);
      const uint64_t cells = a.num_cells();
      const auto answers_agree = [&](const Kbf& x, const Kbf& y) {
        uint64_t different = 0;
        for (uint64_t i = 0; i < 8000; ++i) {
          const QueryResult p = x.Query(world.Key(i), world.blocks());
          const QueryResult q = y.Query(world.Key(i), world.blocks());
          different += p.outcome != q.outcome || p.symbol != q.symbol;
        }
        return different == 0;
      };
      CHECK(answers_agree(a, both));
      // Folding is the same as having inserted into a filter of half the size.
      CHECK(a.Compress() == KbfStatus::kOk);
      CHECK(a.num_cells() == cells / 2);
      CHECK(a.memory_bytes() < both.memory_bytes() * 0.55);
      CHECK(a.load() == doctest::Approx(2 * both.load()));
      uint64_t lost = 0;
      for (uint64_t i = 0; i < 4000; ++i) {
        const QueryResult found = a.Query(world.Key(i), world.blocks());
        if (found.outcome == Outcome::kFound) {
          CHECK(found.value == world.Value(i));
        } else {
          ++lost;
        }
      }
      CHECK(lost < 40);
      CHECK(a.Compress() == KbfStatus::kOk);
      CHECK(a.Compress() == KbfStatus::kOk);
      CHECK(a.Compress() == KbfStatus::kCannotHalve);
      CHECK(a.size() == 4000);
    }
  }

  TEST_CASE("join of unlike filters is refused and changes nothing") {
    const KbfWorld world(kTriple64, EvenShares(10), 1);
    const KbfWorld other_secret(kTriple64, EvenShares(10), 2);
    const KbfWorld other_layout(kPair32, EvenShares(10), 1);
    Kbf filter = world.MakeFilter(1000, 1);
    Kbf larger = world.MakeFilter(2000, 1);
    Kbf folded = world.MakeFilter(2000, 1);
    REQUIRE(folded.Compress() == KbfStatus::kOk);
    CHECK(folded.num_cells() == filter.num_cells());
    for (const Kbf* unlike : {&larger, &folded}) CHECK(filter.Join(*unlike) == KbfStatus::kUnlike);
    CHECK(filter.Join(other_secret.MakeFilter(1000, 1)) == KbfStatus::kUnlike);
    CHECK(filter.Join(other_layout.MakeFilter(1000, 1)) == KbfStatus::kUnlike);
    CHECK(filter.Join(filter) == KbfStatus::kUnlike);
    CHECK(filter.size() == 0);
  }

  TEST_CASE("impossible filters get an error that names the limit") {
    const auto error = [](KbfConfig config) {
      const auto made = Kbf::Create(config);
      CHECK(made.filter.has_value() == made.error.empty());
      return made.error;
    };
    const KbfConfig good{kTriple64, 1000, 1.1, 3, 0};
    CHECK(error(good).empty());
    KbfConfig bad = good;
    bad.capacity = 0;
    CHECK(error(bad).find("1099511627776") != std::string::npos);
    bad.capacity = ~uint64_t{0};
    CHECK(error(bad).find("1099511627776") != std::string::npos);
    bad.capacity = kCapacityMax;  // legal, but more than any machine has
    CHECK(error(bad).find("no memory") != std::string::npos);
    for (const double load : {0.0, -1.0, 100.0, std::nan("")}) {
      bad = good;
      bad.load = load;
      CHECK(error(bad).find("between 0.01 and 4") != std::string::npos);
    }
    bad = good;
    bad.folds = 9;
    CHECK(error(bad).find("8 times") != std::string::npos);
    for (const KbfLayout& layout :
         {KbfLayout{CellKind::kPair32, 15, 2, 5, 5}, KbfLayout{CellKind::kTriple64, 21, 8, 3, 3},
          KbfLayout{CellKind::kTriple64, 20, 0, 3, 3}, KbfLayout{CellKind::kTriple64, 20, 20, 3, 3},
          KbfLayout{CellKind::kTriple64, 20, 8, 3, 2}, KbfLayout{CellKind::kTriple64, 20, 8, 16, 1},
          KbfLayout{CellKind::kTriple64, 20, 8, 17, 17}, KbfLayout{CellKind::kPair64, 31, 8, 3, 3},
          KbfLayout{CellKind::kPair32, 14, 2, 1, 1}, KbfLayout{CellKind::kPair32, 14, 2, 4, 0}}) {
      bad = good;
      bad.layout = layout;
      CHECK(error(bad).find("impossible") != std::string::npos);
    }
  }
}

}  // namespace
}  // namespace kbf
