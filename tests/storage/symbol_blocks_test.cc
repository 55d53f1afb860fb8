#include "storage/symbol_blocks.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <vector>

namespace kbf {
namespace {

TEST_SUITE("storage") {
  TEST_CASE("blocks are aligned, never overlap, and never contain symbol 0") {
    SymbolBlocks blocks(10, 2);
    std::vector<bool> taken(1 << 10);
    uint32_t value = 0;
    // Largest first, until nothing is left.
    for (unsigned bits : {9u, 7u, 7u, 6u, 5u, 4u, 3u, 2u, 2u}) {
      const auto block = blocks.Allocate(value, bits);
      REQUIRE(block);
      CHECK(block->check_bits == bits);
      CHECK(block->first % (1u << bits) == 0);
      CHECK(block->first > 0);
      for (uint32_t symbol = block->first; symbol < block->first + (1u << bits); ++symbol) {
        CHECK_FALSE(taken[symbol]);
        taken[symbol] = true;
        SymbolBlock found;
        REQUIRE(blocks.Find(symbol, &found));
        CHECK(found.first == block->first);
        CHECK(found.check_bits == bits);
        CHECK(found.value == value);
      }
      ++value;
    }
    SymbolBlock found;
    CHECK_FALSE(blocks.Find(0, &found));
    CHECK_FALSE(blocks.Find(3, &found));
  }

  TEST_CASE("a block that does not fit is refused and changes nothing") {
    SymbolBlocks blocks(8, 2);
    CHECK(blocks.free_units() == 63);
    CHECK_FALSE(blocks.Allocate(1, 8));  // all symbols: symbol 0 is nobody's
    CHECK(blocks.Allocate(1, 7));
    CHECK_FALSE(blocks.Allocate(2, 7));
    CHECK(blocks.free_units() == 31);
    CHECK(blocks.Allocate(2, 1)->check_bits == 2);  // rounded up to the smallest
  }

  TEST_CASE("halved units leave blocks as they are and merge to what they were") {
    SymbolBlocks blocks(10, 4);
    std::vector<SymbolBlock> held;
    while (const auto block = blocks.Allocate(static_cast<uint32_t>(held.size()), 4)) {
      held.push_back(*block);
    }
    CHECK(held.size() == 63);
    blocks.Refine();
    blocks.Refine();
    CHECK(blocks.check_bits_min() == 2);
    CHECK(blocks.free_units() == 3);  // of the unit that was reserved
    CHECK_FALSE(blocks.Allocate(100, 4));
    REQUIRE(blocks.Allocate(100, 3));
    REQUIRE(blocks.Allocate(101, 2));
    CHECK_FALSE(blocks.Allocate(102, 2));
    for (const SymbolBlock& block : held) {
      for (uint32_t symbol = block.first; symbol < block.first + 16; ++symbol) {
        SymbolBlock found;
        REQUIRE(blocks.Find(symbol, &found));
        REQUIRE(found.value == block.value);
        REQUIRE(found.first == block.first);
      }
    }
    for (const SymbolBlock& block : held) blocks.Free(block);
    SymbolBlock found;
    REQUIRE(blocks.Find(8, &found));
    blocks.Free(found);
    REQUIRE(blocks.Find(4, &found));
    blocks.Free(found);
    CHECK(blocks.free_units() == 255);
    CHECK(blocks.Allocate(1, 9));
  }

  TEST_CASE("freed blocks merge again, whatever the order") {
    const uint64_t seed = 11;
    CAPTURE(seed);
    std::mt19937_64 random(seed);
    SymbolBlocks blocks(12, 2);
    std::map<uint32_t, SymbolBlock> held;  // by first symbol
    for (uint32_t step = 0; step < 20000; ++step) {
      if (random() % 2 == 0) {
        const auto block = blocks.Allocate(step, 2 + random() % 6);
        if (!block) continue;
        const auto next = held.lower_bound(block->first);
        CHECK((next == held.end() || block->first + (1u << block->check_bits) <= next->first));
        if (next != held.begin()) {
          const SymbolBlock& before = std::prev(next)->second;
          CHECK(before.first + (1u << before.check_bits) <= block->first);
        }
        held[block->first] = *block;
      } else if (!held.empty()) {
        auto victim = std::next(held.begin(), static_cast<long>(random() % held.size()));
        blocks.Free(victim->second);
        held.erase(victim);
      }
    }
    for (const auto& [first, block] : held) blocks.Free(block);
    CHECK(blocks.free_units() == 1023);
    CHECK(blocks.Allocate(1, 11));  // the largest is whole again
  }

  TEST_CASE("blocks by share fit together and follow the shares") {
    struct Case {
      const char* name;
      std::vector<double> weights;
    };
    std::vector<double> zipf(3000);
    for (size_t i = 0; i < zipf.size(); ++i) zipf[i] = std::pow(static_cast<double>(i + 1), -0.99);
    std::vector<double> one_large(3000, 0.1 / 2999);
    one_large[7] = 0.9;
    for (const Case& c : {Case{"even", std::vector<double>(3000, 1)}, Case{"zipf", zipf},
                          Case{"two", {1, 1}}, Case{"one", {1}}, Case{"one large", one_large},
                          Case{"full", std::vector<double>(4095, 1)}}) {
      CAPTURE(c.name);
      const auto sizes = ShareBlocks(c.weights, 14, 2);
      REQUIRE(sizes.size() == c.weights.size());
      std::vector<size_t> order(sizes.size());
      for (size_t i = 0; i < order.size(); ++i) order[i] = i;
      std::stable_sort(order.begin(), order.end(),
                       [&](size_t a, size_t b) { return sizes[a] > sizes[b]; });
      SymbolBlocks blocks(14, 2);
      for (const size_t i : order) REQUIRE(blocks.Allocate(static_cast<uint32_t>(i), sizes[i]));
      // A larger share never has a smaller block.
      for (size_t i = 1; i < order.size(); ++i) {
        if (sizes[order[i - 1]] > sizes[order[i]])
          CHECK(c.weights[order[i - 1]] >= c.weights[order[i]]);
      }
      const double match = MatchProbability(c.weights, sizes);
      CHECK(match <= 0.25);
    }
    CHECK(ShareBlocks(std::vector<double>(1), 14, 2)[0] == 13);
    CHECK(ShareBlocks(std::vector<double>(4096, 1), 14, 2).empty());
    CHECK(MatchProbability(std::vector<double>{3, 1}, std::vector<unsigned>{2, 4}) ==
          doctest::Approx(0.203125));
  }
}

}  // namespace
}  // namespace kbf
