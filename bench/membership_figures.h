// What the figures of the MPCBF paper [MPCBF] share: the five structures that it compares, filled
// with numbered keys, and what look-ups in them find and cost.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <variant>

#include "bench/figures.h"
#include "storage/membership/maths.h"
#include "storage/membership/mpcbf.h"
#include "storage/membership/pcbf.h"

namespace bench {

// One of the paper's structures at some memory.
struct Structure {
  enum class Kind { kCbf, kPcbf, kMpcbf } kind = Kind::kMpcbf;
  unsigned num_hashes = 3;
  unsigned num_accesses = 1;
  unsigned word_bits = 64;
  uint64_t memory_bits = 0;
  uint64_t keys = 0;
  unsigned first_level = 0;  // 0: by eq. 11
  bool only_grows = false;   // words that overflow forget their counters

  std::string Name() const {
    if (kind == Kind::kCbf) return "CBF";
    return (kind == Kind::kPcbf ? "PCBF-" : "MPCBF-") + std::to_string(num_accesses);
  }
};

class Filter {
 public:
  // REQUIRES: numbers that make a filter
  explicit Filter(const Structure& s) : structure_(s), filter_(Make(s)) {}

  void Insert(const kbf::KeyHash& key) {
    std::visit([&](auto& filter) { filter.Insert(key); }, filter_);
  }
  void Delete(const kbf::KeyHash& key) {
    std::visit([&](auto& filter) { filter.Delete(key); }, filter_);
  }
  bool MayContain(const kbf::KeyHash& key) const {
    return std::visit([&](const auto& filter) { return filter.MayContain(key); }, filter_);
  }
  void MayContainMany(std::span<const kbf::KeyHash> keys, bool* answers) const {
    std::visit([&](const auto& filter) { filter.MayContainMany(keys, answers); }, filter_);
  }
  kbf::AccessCost QueryCost(const kbf::KeyHash& key) const {
    return std::visit([&](const auto& filter) { return filter.QueryCost(key); }, filter_);
  }
  kbf::AccessCost UpdateCost(const kbf::KeyHash& key) const {
    return std::visit([&](const auto& filter) { return filter.UpdateCost(key); }, filter_);
  }
  const kbf::WordShape& shape() const {
    return std::visit([](const auto& filter) -> const kbf::WordShape& { return filter.shape(); },
                      filter_);
  }
  uint64_t overflowed_words() const {
    const auto* mpcbf = std::get_if<kbf::Mpcbf>(&filter_);
    return mpcbf != nullptr ? mpcbf->overflowed_words() + mpcbf->stuck_words() : 0;
  }
  double BitsPerKey() const {
    const auto bytes =
        std::visit([](const auto& filter) { return filter.memory_bytes(); }, filter_);
    return 8 * static_cast<double>(bytes) / static_cast<double>(structure_.keys);
  }
  double Theory() const { return kbf::WordFalsePositive(structure_.keys, shape()); }

 private:
  using Any = std::variant<kbf::Pcbf, kbf::Mpcbf>;
  static Any Make(const Structure& s) {
    if (s.kind == Structure::Kind::kMpcbf) {
      auto filter = kbf::Mpcbf::Create({.keys = s.keys,
                                        .memory_bits = s.memory_bits,
                                        .word_bits = s.word_bits,
                                        .num_hashes = s.num_hashes,
                                        .num_accesses = s.num_accesses,
                                        .first_level = s.first_level,
                                        .overflow_words_max = s.only_grows ? 0 : s.memory_bits});
      if (!filter) std::abort();
      return Any(std::move(*filter));
    }
    const bool cbf = s.kind == Structure::Kind::kCbf;
    auto filter = kbf::Pcbf::Create({.memory_bits = s.memory_bits,
                                     .word_bits = s.word_bits,
                                     .num_hashes = s.num_hashes,
                                     .num_accesses = cbf ? s.num_hashes : s.num_accesses});
    if (!filter) std::abort();
    return Any(std::move(*filter));
  }

  Structure structure_;
  Any filter_;
};

// Stored keys are numbers first … first + keys - 1 of a seed, absent ones come from another seed.
inline Filter FilledFilter(const Structure& s, uint64_t seed) {
  Filter filter(s);
  for (uint64_t i = 0; i < s.keys; ++i) filter.Insert(FigureKey(seed, i));
  // The paper's update period: a fifth goes, as many come.
  for (uint64_t i = 0; i < s.keys / 5; ++i) filter.Delete(FigureKey(seed, i));
  for (uint64_t i = 0; i < s.keys / 5; ++i) filter.Insert(FigureKey(seed, s.keys + i));
  return filter;
}
inline kbf::KeyHash StoredKey(const Structure& s, uint64_t seed, uint64_t number) {
  return FigureKey(seed, s.keys / 5 + number % s.keys);
}
inline kbf::KeyHash AbsentKey(uint64_t seed, uint64_t number) { return FigureKey(~seed, number); }

struct MeasuredRate {
  double rate = 0;
  double deviation = 0;
  double overflowed_words = 0;  // mean per filter
  double bits_per_key = 0;
};
// Over so many filters with their own keys, so many absent keys each.
inline MeasuredRate MeasureRate(const Structure& s, int filters, uint64_t asked, uint64_t seed) {
  MeasuredRate measured;
  double hits = 0;
  for (int i = 0; i < filters; ++i) {
    const uint64_t own_seed = kbf::Mix64(seed + static_cast<uint64_t>(i) * 1000003);
    const Filter filter = FilledFilter(s, own_seed);
    for (uint64_t j = 0; j < s.keys; j += 97) {
      if (!filter.MayContain(StoredKey(s, own_seed, j))) std::abort();
    }
    for (uint64_t j = 0; j < asked; ++j) hits += filter.MayContain(AbsentKey(own_seed, j));
    measured.overflowed_words += static_cast<double>(filter.overflowed_words()) / filters;
    measured.bits_per_key = filter.BitsPerKey();
  }
  const double questions = static_cast<double>(asked) * filters;
  measured.rate = hits / questions;
  measured.deviation = RateDeviation(measured.rate, questions);
  return measured;
}

struct MeasuredCost {
  double accesses = 0;
  double bits = 0;
};
// Of queries of which `stored_share` are for stored keys.
inline MeasuredCost MeasureQueries(const Structure& s, double stored_share, uint64_t asked,
                                   uint64_t seed) {
  const Filter filter = FilledFilter(s, seed);
  MeasuredCost mean;
  const auto stored = static_cast<uint64_t>(stored_share * static_cast<double>(asked));
  for (uint64_t i = 0; i < asked; ++i) {
    const kbf::AccessCost cost =
        filter.QueryCost(i < stored ? StoredKey(s, seed, i) : AbsentKey(seed, i));
    mean.accesses += cost.words;
    mean.bits += cost.bits;
  }
  mean.accesses /= static_cast<double>(asked);
  mean.bits /= static_cast<double>(asked);
  return mean;
}
// Of updates as in the update period: a deletion for each insertion.
inline MeasuredCost MeasureUpdates(const Structure& s, uint64_t seed) {
  const Filter filter = FilledFilter(s, seed);
  MeasuredCost mean;
  const uint64_t updates = s.keys / 5 * 2;
  for (uint64_t i = 0; i < updates; ++i) {
    const kbf::KeyHash key = i % 2 == 0 ? StoredKey(s, seed, i) : AbsentKey(seed, i);
    const kbf::AccessCost cost = filter.UpdateCost(key);
    mean.accesses += cost.words;
    mean.bits += cost.bits;
  }
  mean.accesses /= static_cast<double>(updates);
  mean.bits /= static_cast<double>(updates);
  return mean;
}

}  // namespace bench
