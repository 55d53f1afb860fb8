#include "storage/bch.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <set>
#include <unordered_set>
#include <vector>

#include "storage/gf2.h"

namespace kbf {
namespace {

// The symbols of `word`, sorted, or nothing.
template <class Code>
std::vector<uint32_t> Decoded(const Code& code, uint64_t word, unsigned count) {
  Symbols symbols{};
  if (!code.Decode(word, count, &symbols)) return {};
  std::vector<uint32_t> found(symbols.begin(), symbols.begin() + count);
  std::sort(found.begin(), found.end());
  return found;
}

// All encodings and all XORs of up to `Code::kDecodable` of them are different words, and each
// decodes to what made it.
template <class Code>
uint64_t ExhaustiveMistakes(const Code& code) {
  const uint32_t end = 1u << code.symbol_bits();
  std::unordered_set<uint64_t> words = {0};
  uint64_t mistakes = 0;
  const auto meet = [&](uint64_t word, std::vector<uint32_t> symbols) {
    mistakes += !words.insert(word).second;
    const auto count = static_cast<unsigned>(symbols.size());
    for (unsigned other = 1; other <= Code::kDecodable; ++other) {
      const auto found = Decoded(code, word, other);
      mistakes += other == count ? found != symbols : !found.empty();
    }
    mistakes += !code.MayHold(word, count);
  };
  for (uint32_t x = 1; x < end; ++x) {
    meet(code.Encode(x), {x});
    for (uint32_t y = x + 1; y < end; ++y) {
      meet(code.Encode(x) ^ code.Encode(y), {x, y});
      if (Code::kDecodable < 3) continue;
      for (uint32_t z = y + 1; z < end; ++z) {
        meet(code.Encode(x) ^ code.Encode(y) ^ code.Encode(z), {x, y, z});
      }
    }
  }
  return mistakes;
}

// Random sets of symbols decode to themselves, and random words decode only to what gives them
// back.
template <class Code>
uint64_t SampledMistakes(const Code& code, uint64_t seed, unsigned samples) {
  std::mt19937_64 random(seed);
  const uint32_t order = (1u << code.symbol_bits()) - 1;
  const unsigned word_bits = code.symbol_bits() * Code::kDecodable;
  uint64_t mistakes = 0;
  for (unsigned i = 0; i < samples; ++i) {
    std::set<uint32_t> set;
    const unsigned count = 1 + i % Code::kDecodable;
    while (set.size() < count) set.insert(1 + random() % order);
    uint64_t word = 0;
    for (uint32_t x : set) word ^= code.Encode(x);
    mistakes += Decoded(code, word, count) != std::vector<uint32_t>(set.begin(), set.end());
    mistakes += !code.MayHold(word, count);

    const uint64_t noise = random() >> (64 - word_bits);
    const auto found = Decoded(code, noise, count);
    uint64_t again = 0;
    for (uint32_t x : found) again ^= code.Encode(x);
    if (!found.empty()) {
      mistakes += again != noise || std::find(found.begin(), found.end(), 0u) != found.end() ||
                  std::adjacent_find(found.begin(), found.end()) != found.end();
    }
  }
  return mistakes;
}

TEST_SUITE("storage") {
  TEST_CASE("all pair encodings and their XORs are unique and decode, exhaustively for b <= 8") {
    for (unsigned bits = 6; bits <= 8; ++bits) {
      CAPTURE(bits);
      CHECK(ExhaustiveMistakes(PairCode(TableField::Get(bits))) == 0);
      CHECK(ExhaustiveMistakes(PairCode(WideField<PortableClmul>::Get(bits))) == 0);
    }
  }

  TEST_CASE("all triple encodings and their XORs are unique and decode, exhaustively for b <= 8") {
    for (unsigned bits = 6; bits <= 8; ++bits) {
      CAPTURE(bits);
      CHECK(ExhaustiveMistakes(TripleCode(TableField::Get(bits))) == 0);
    }
  }

  TEST_CASE("all 14-bit pair encodings are unique") {
    const PairCode code(TableField::Get(14));
    std::unordered_set<uint64_t> words;
    for (uint32_t x = 1; x < 1u << 14; ++x) words.insert(code.Encode(x));
    CHECK(words.size() == 16383);
  }

  TEST_CASE("sampled pairs decode for every b") {
    constexpr unsigned kSamples = 30000;
    for (unsigned bits = 9; bits <= kTableFieldBitsMax; ++bits) {
      CAPTURE(bits);
      CHECK(SampledMistakes(PairCode(TableField::Get(bits)), bits, kSamples) == 0);
    }
    for (unsigned bits = 9; bits <= kFieldBitsMax; ++bits) {
      CAPTURE(bits);
      CHECK(SampledMistakes(PairCode(WideField<PortableClmul>::Get(bits)), bits, kSamples) == 0);
    }
  }

  TEST_CASE("sampled triples decode for every b that fits 60 bits") {
    constexpr unsigned kSamples = 9000;
    for (unsigned bits = 9; bits <= 20; ++bits) {
      CAPTURE(bits);
      CHECK(SampledMistakes(TripleCode(WideField<PortableClmul>::Get(bits)), bits, kSamples) == 0);
    }
  }

  TEST_CASE("a random word passes for a pair with chance 1/2 and for a triple with chance 1/6") {
    // maths.h builds on these two numbers. 40,000 words each; bounds are mean ± 5σ.
    std::mt19937_64 random(7);
    constexpr double kWords = 40000;
    const PairCode pair(TableField::Get(14));
    const TripleCode triple(WideField<PortableClmul>::Get(20));
    double pairs = 0;
    double triples = 0;
    for (int i = 0; i < kWords; ++i) {
      pairs += pair.MayHold(random() >> 36, 2);
      triples += triple.MayHold(random() >> 4, 3);
    }
    CHECK(std::abs(pairs - kWords / 2) < 5 * std::sqrt(kWords / 4));
    CHECK(std::abs(triples - kWords / 6) < 5 * std::sqrt(kWords * 5 / 36));
  }

  TEST_CASE("two equal encodings cancel and are still possible") {
    const TripleCode code(WideField<PortableClmul>::Get(20));
    CHECK(code.MayHold(0, 2));
    CHECK(code.MayHold(code.Encode(77), 3));
    CHECK_FALSE(code.MayHold(code.Encode(77), 2));
    CHECK_FALSE(code.MayHold(code.Encode(77), 0));
    Symbols symbols;
    CHECK_FALSE(code.Decode(0, 2, &symbols));
  }
}

}  // namespace
}  // namespace kbf
