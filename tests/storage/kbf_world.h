// KbfWorld is what the filter tests share: values with shares, their symbol blocks, and keys that
// are a pure function of their number. Test code only.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "storage/hash.h"
#include "storage/kbf.h"
#include "storage/layout.h"
#include "storage/symbol_blocks.h"

namespace kbf {

inline std::vector<double> EvenShares(size_t values) { return std::vector<double>(values, 1.0); }

inline std::vector<double> ZipfShares(size_t values, double exponent) {
  std::vector<double> shares(values);
  for (size_t i = 0; i < values; ++i) shares[i] = std::pow(static_cast<double>(i + 1), -exponent);
  return shares;
}

// One value has `share` of all keys, the others divide the rest evenly.
inline std::vector<double> OneLargeShare(size_t values, double share) {
  std::vector<double> shares(values, (1 - share) / static_cast<double>(values - 1));
  shares[0] = share;
  return shares;
}

class KbfWorld {
 public:
  KbfWorld(const KbfLayout& layout, std::vector<double> shares, uint64_t seed)
      : layout_(layout),
        blocks_(layout.symbol_bits, layout.check_bits),
        secret_(HashSecret::FromSeed(seed)),
        block_of_(shares.size()) {
    const std::vector<unsigned> sizes = ShareBlocks(shares, layout.symbol_bits, layout.check_bits);
    match_ = MatchProbability(shares, sizes);
    // Largest first: then all of them fit.
    std::vector<uint32_t> order(shares.size());
    std::iota(order.begin(), order.end(), 0u);
    std::stable_sort(order.begin(), order.end(),
                     [&](uint32_t a, uint32_t b) { return sizes[a] > sizes[b]; });
    for (const uint32_t value : order)
      block_of_[value] = blocks_.Allocate(value, sizes[value]).value();
    cumulative_.resize(shares.size());
    std::partial_sum(shares.begin(), shares.end(), cumulative_.begin());
  }

  const KbfLayout& layout() const { return layout_; }
  const SymbolBlocks& blocks() const { return blocks_; }
  const SymbolBlock& block_of(uint32_t value) const { return block_of_[value]; }
  double match() const { return match_; }  // γ

  KeyHash Key(uint64_t number) const { return HashKey("key:" + std::to_string(number), secret_); }
  // A value drawn by share; `draw` is any word.
  uint32_t Value(uint64_t draw) const {
    const double at = static_cast<double>(Mix64(draw) >> 11) * 0x1p-53 * cumulative_.back();
    const auto found = std::upper_bound(cumulative_.begin(), cumulative_.end(), at);
    return static_cast<uint32_t>(
        std::min<size_t>(found - cumulative_.begin(), cumulative_.size() - 1));
  }
  uint32_t Symbol(const KeyHash& key, uint32_t value) const {
    return block_of_[value].Choose(KeyCheck(key));
  }

  Kbf MakeFilter(uint64_t capacity, double load, unsigned folds = 3) const {
    return std::move(Kbf::Create({layout_, capacity, load, folds, secret_.Id()}).filter.value());
  }

 private:
  KbfLayout layout_;
  SymbolBlocks blocks_;
  HashSecret secret_;
  std::vector<SymbolBlock> block_of_;
  std::vector<double> cumulative_;
  double match_ = 0;
};

// A key that a test has stored, and what it should hold.
struct StoredKey {
  KeyHash hash;
  uint32_t value;
};

struct MeasuredErrors {
  double false_negative = 0;
  double false_positive = 0;
  double wrong = 0;
  uint64_t stored = 0;
  uint64_t absent_keys = 0;
};

// Counts, not rates, so that several filters add up.
inline void MeasureErrors(const Kbf& filter, const KbfWorld& world,
                          std::span<const StoredKey> stored, uint64_t first_absent,
                          uint64_t absent_keys, MeasuredErrors* counts) {
  constexpr size_t kBatch = 256;
  std::vector<KeyHash> keys;
  std::vector<QueryResult> results(kBatch);
  for (size_t begin = 0; begin < stored.size(); begin += kBatch) {
    const size_t end = std::min(stored.size(), begin + kBatch);
    keys.clear();
    for (size_t i = begin; i < end; ++i) keys.push_back(stored[i].hash);
    filter.QueryMany(keys, world.blocks(), results.data());
    for (size_t i = begin; i < end; ++i) {
      const QueryResult& result = results[i - begin];
      if (result.outcome != Outcome::kFound) {
        ++counts->false_negative;
      } else if (result.value != stored[i].value) {
        ++counts->wrong;
      }
    }
  }
  for (uint64_t begin = 0; begin < absent_keys; begin += kBatch) {
    keys.clear();
    for (uint64_t i = begin; i < std::min(absent_keys, begin + kBatch); ++i) {
      keys.push_back(world.Key(first_absent + i));
    }
    filter.QueryMany(keys, world.blocks(), results.data());
    for (size_t i = 0; i < keys.size(); ++i)
      counts->false_positive += results[i].outcome == Outcome::kFound;
  }
  counts->stored += stored.size();
  counts->absent_keys += absent_keys;
}

}  // namespace kbf
