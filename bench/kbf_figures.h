// What the figures of the kBF papers share: their filter in paper mode and ours with its default
// plan, filled with numbered keys that have the values of [kBF] §6.1, and what look-ups in them
// find. Both have the same interface.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bench/figures.h"
#include "storage/kbf.h"
#include "storage/maths.h"
#include "storage/paper/greedy_encodings.h"
#include "storage/paper/paper_kbf.h"
#include "storage/planner.h"
#include "storage/symbol_blocks.h"

namespace bench {

inline constexpr uint32_t kPaperValues = 3000;
inline constexpr uint64_t kKbfSeed = 20261118;
inline constexpr std::array<double, 4> kPaperRates = {1e-3, 1e-4, 1e-5, 1e-6};  // p

// 10 million keys as in [kBF] §6.1; rates hardly depend on it, so the quick run takes fewer, and
// KBF_KEYS in the environment another number.
inline uint64_t PaperKeys(bool quick, uint64_t quick_keys = 200'000) {
  constexpr uint64_t kFull = 10'000'000;
  const char* wanted = std::getenv("KBF_KEYS");
  const uint64_t keys = wanted != nullptr ? std::strtoull(wanted, nullptr, 10)
                        : quick           ? quick_keys
                                          : kFull;
  if (keys < 1000 || keys > kFull) {
    std::fprintf(stderr, "KBF_KEYS must be a number from 1000 to 10000000\n");
    std::exit(1);
  }
  std::printf("# size: %llu keys (the paper: %llu)\n", static_cast<unsigned long long>(keys),
              static_cast<unsigned long long>(kFull));
  return keys;
}

inline kbf::KeyHash PairKey(uint64_t number) { return FigureKey(kKbfSeed, number); }
inline kbf::KeyHash AbsentPairKey(uint64_t number) { return FigureKey(~kKbfSeed, number); }
// The value of a key after so many updates; never the one that it had before.
inline uint32_t PairValue(uint64_t number, uint32_t version = 0) {
  const auto first = static_cast<uint32_t>(kbf::ScaleTo(kbf::Mix64(number ^ 77), kPaperValues));
  return (first + version * 1009) % kPaperValues;
}
inline std::string RateName(double p) {
  char name[32];
  std::snprintf(name, sizeof(name), "p=%g", p);
  return name;
}

// What a look-up says: the value, or nothing with a reason.
struct Found {
  bool found = false;
  bool absent = false;  // surely; else undecodable
  uint32_t value = 0;
};

// The first greedy encodings, one for each value.
inline std::shared_ptr<const kbf::EncodingSet> PaperEncodings() {
  static const auto set =
      kbf::EncodingSet::Create(kbf::GreedyEncodings(kPaperValues, kbf::EncodingSet::kBitsMax));
  if (set == nullptr) std::abort();
  return set;
}

// [kBF] in paper mode: sized for `keys` at p, times `share`.
class PaperFilter {
 public:
  PaperFilter(uint64_t keys, double p, double share = 1)
      : PaperFilter(keys, kbf::PaperPlan(p).value(), share) {}

  double rho() const {  // [kBF] §4, for the keys that it was given
    return static_cast<double>(keys_) * filter_.num_hashes() /
           static_cast<double>(filter_.num_cells()) / std::log(2);
  }
  double lambda() const { return rho() * std::log(2); }
  unsigned num_hashes() const { return filter_.num_hashes(); }
  uint64_t memory_bytes() const { return sizeof(kbf::PaperCell) * filter_.num_cells(); }
  const kbf::PaperKbf& filter() const { return filter_; }

  void Insert(uint64_t number, uint32_t version = 0) {
    Check(filter_.Insert(PairKey(number), EncodingOf(PairValue(number, version))));
    ++keys_;
  }
  Found Query(const kbf::KeyHash& key, kbf::PaperChoices choices = kbf::PaperChoices::kBoth) const {
    const kbf::PaperAnswer answer = filter_.Query(key, choices);
    if (answer.outcome != kbf::PaperOutcome::kFound) {
      return {false, answer.outcome == kbf::PaperOutcome::kAbsent, 0};
    }
    return {true, false, ValueOf(answer.encoding)};
  }
  // DELETE(k, d): of the encoding that QUERY finds. False where it finds none.
  bool Delete(uint64_t number) {
    const kbf::PaperAnswer answer = filter_.Query(PairKey(number));
    if (answer.outcome != kbf::PaperOutcome::kFound ||
        filter_.Delete(PairKey(number), answer.encoding) != kbf::PaperStatus::kOk) {
      return false;
    }
    --keys_;
    return true;
  }
  bool Update(uint64_t number, uint32_t version) {
    return filter_.Update(PairKey(number), EncodingOf(PairValue(number, version))) ==
           kbf::PaperStatus::kOk;
  }
  void Join(const PaperFilter& other) {
    Check(filter_.Join(other.filter_));
    keys_ += other.keys_;
  }
  void Compress() { Check(filter_.Compress()); }

 private:
  PaperFilter(uint64_t keys, const kbf::PaperSetting& setting, double share)
      : filter_(std::move(
            kbf::PaperKbf::Create(Cells(keys, setting, share), setting.num_hashes, PaperEncodings())
                .value())) {}
  // Even, so that COMPRESS may halve it.
  static size_t Cells(uint64_t keys, const kbf::PaperSetting& setting, double share) {
    const double cells = static_cast<double>(keys) * setting.num_hashes / setting.load * share;
    return static_cast<size_t>(std::ceil(cells / 2)) * 2;
  }
  static void Check(kbf::PaperStatus status) {
    if (status != kbf::PaperStatus::kOk) std::abort();
  }
  static uint32_t EncodingOf(uint32_t value) { return PaperEncodings()->encodings()[value]; }
  static uint32_t ValueOf(uint32_t encoding) {
    const auto encodings = PaperEncodings()->encodings();
    return static_cast<uint32_t>(std::ranges::lower_bound(encodings, encoding) - encodings.begin());
  }

  kbf::PaperKbf filter_;
  uint64_t keys_ = 0;
};

// The store's filter with the plan of the default error budgets, sized for `keys` times `share`.
class DefaultFilter {
 public:
  explicit DefaultFilter(uint64_t keys, double share = 1) : DefaultFilter(Default(), keys, share) {}
  // With a plan for other budgets.
  static DefaultFilter With(const kbf::PlanRequest& request, uint64_t keys) {
    return DefaultFilter(std::make_shared<const World>(request), keys, 1);
  }

  const kbf::Plan& plan() const { return world_->plan; }
  double load() const { return filter_.load(); }
  kbf::ErrorRates Predicted() const { return filter_.PredictedErrors(world_->match); }
  uint64_t memory_bytes() const { return filter_.memory_bytes(); }

  void Insert(uint64_t number, uint32_t version = 0) {
    const kbf::KeyHash key = PairKey(number);
    filter_.Insert(key, Block(number, version).Choose(kbf::KeyCheck(key)));
  }
  Found Query(const kbf::KeyHash& key) const {
    const kbf::QueryResult result = filter_.Query(key, world_->blocks);
    return {result.outcome == kbf::Outcome::kFound, result.outcome == kbf::Outcome::kAbsent,
            result.value};
  }
  bool Delete(uint64_t number) {
    return filter_.Delete(PairKey(number), world_->blocks, filter_.strong_evidence_bits()) ==
           kbf::KbfStatus::kOk;
  }
  bool Update(uint64_t number, uint32_t version) {
    return filter_.Update(PairKey(number), world_->blocks, Block(number, version),
                          filter_.strong_evidence_bits()) == kbf::KbfStatus::kOk;
  }
  void Join(const DefaultFilter& other) { Check(filter_.Join(other.filter_)); }
  void Compress() { Check(filter_.Compress()); }

 private:
  // Values with even shares have blocks of two sizes at most; the larger go first.
  struct World {
    kbf::Plan plan;
    kbf::SymbolBlocks blocks;
    std::vector<kbf::SymbolBlock> block_of{kPaperValues};
    double match = 0;
    explicit World(const kbf::PlanRequest& request)
        : plan(kbf::MakePlan(request).plan.value()),
          blocks(plan.layout.symbol_bits, plan.layout.check_bits) {
      const std::vector<double> weights(kPaperValues, 1.0);
      const auto sizes = kbf::ShareBlocks(weights, plan.layout.symbol_bits, plan.layout.check_bits);
      match = kbf::MatchProbability(weights, sizes);
      for (const bool large : {true, false}) {
        for (uint32_t value = 0; value < kPaperValues; ++value) {
          if ((sizes[value] == sizes[0]) == large)
            block_of[value] = blocks.Allocate(value, sizes[value]).value();
        }
      }
    }
  };
  static std::shared_ptr<const World> Default() {
    static const auto world = std::make_shared<const World>(kbf::PlanRequest{});
    return world;
  }

  DefaultFilter(std::shared_ptr<const World> world, uint64_t keys, double share)
      : world_(std::move(world)),
        filter_(
            std::move(kbf::Kbf::Create({world_->plan.layout,
                                        static_cast<uint64_t>(static_cast<double>(keys) * share),
                                        world_->plan.load, 1, 0})
                          .filter.value())) {}
  const kbf::SymbolBlock& Block(uint64_t number, uint32_t version) const {
    return world_->block_of[PairValue(number, version)];
  }
  static void Check(kbf::KbfStatus status) {
    if (status != kbf::KbfStatus::kOk) std::abort();
  }

  std::shared_ptr<const World> world_;  // never null
  kbf::Kbf filter_;
};

// What queries for pairs [first, last) find.
struct PairErrors {
  double false_negative = 0;
  double wrong = 0;
  double deviation = 0;  // of false_negative
};
inline PairErrors QueryPairs(uint64_t first, uint64_t last, uint32_t version, auto&& query) {
  double missed = 0, wrong = 0;
  for (uint64_t i = first; i < last; ++i) {
    const Found answer = query(PairKey(i));
    missed += !answer.found;
    wrong += answer.found && answer.value != PairValue(i, version);
  }
  const auto asked = static_cast<double>(last - first);
  return {missed / asked, wrong / asked, RateDeviation(missed / asked, asked)};
}
// The share of keys `key_at(0)` … `key_at(asked - 1)` for which a value is found.
inline std::pair<double, double> QueryAbsent(uint64_t asked, auto&& key_at, auto&& query) {
  double found = 0;
  for (uint64_t i = 0; i < asked; ++i) found += query(key_at(i)).found;
  const auto all = static_cast<double>(asked);
  return {found / all, RateDeviation(found / all, all)};
}

}  // namespace bench
