// [DBA] Fig. 6: average query performance of a chain as it gets longer, with the locator against
// asking every filter in turn ([DBA]'s DBF, the 1-group-cardinality DBA).
//
// Claim:   [DBA] §4.1: 3 times as many lookups per second at 160 filters (4.5e5 against 1.5e5), and
//          no gain, but a small loss, with a single filter.
// Runs:    45 s, 0.3 GB; --quick: 10 s
// Last:    160 filters of 4,096 keys, 10 bits per key, single lookups: 10 times (stored)
//          and 19 times (absent keys) as many lookups; a single filter: 0.8 times for stored keys.
// Result:  bench/results/fig06_locator.tsv
//
// Filters are real ones with the default plan, full; 160 of them take three locators. A lookup
// stops at the first filter that finds the key: stored keys are found halfway through the chain on
// average, absent keys never. `single`: one lookup after the other; `batched`: 256 keys together,
// locator lines prefetched, each filter asked for all its keys with QueryMany, in both ways alike.
//
// Lines are counted, not measured: those of the key's slots in the locators and one for each cell
// read up to the first empty one, in every filter asked (the kernel prefetches all k cells, so the
// bus sees up to k per filter asked). False candidates count the whole answer, also columns behind
// the one that holds the key. `errors`: stored keys with no or another value, absent keys found.
// Errors of the locator are over all lookups, in turn over fewer: 4,761 at 160 filters.
#include <algorithm>
#include <array>
#include <bit>
#include <span>
#include <vector>

#include "bench/figures.h"
#include "storage/kbf.h"
#include "storage/locator.h"
#include "storage/planner.h"
#include "storage/symbol_blocks.h"

namespace {

constexpr uint64_t kSeed = 20261118;
constexpr uint32_t kValues = 3000;
uint64_t g_lookups = 200000;  // a quarter in a quick run
uint64_t LookupsTimesFilters() { return 4 * g_lookups; }
constexpr int kRepeats = 5;
constexpr size_t kBatch = 256;
constexpr uint64_t kFigureKeys = 4096;
constexpr double kFigureBits = 10;
constexpr uint64_t kNoFilter = ~uint64_t{0};
constexpr unsigned kCellsPerLine = 8;  // of 8 bytes

kbf::KeyHash KeyAt(uint64_t number) {
  return {kbf::Mix64(number + kSeed), kbf::Mix64(~number * 0x9e3779b97f4a7c15u + kSeed)};
}
uint32_t ValueAt(uint64_t number) {
  return static_cast<uint32_t>(kbf::ScaleTo(kbf::Mix64(number ^ 77), kValues));
}

struct Asked {
  std::vector<kbf::KeyHash> keys;
  std::vector<uint64_t> numbers;  // of stored keys

  Asked First(size_t count) const {
    return {{keys.begin(), keys.begin() + count},
            {numbers.begin(), numbers.begin() + std::min(count, numbers.size())}};
  }
};

// r full filters and their locators. Key i is in filter i / keys_per_filter.
class Chain {
 public:
  Chain(const kbf::Plan& plan, unsigned filters, uint64_t keys_per_filter, double bits_per_key)
      : keys_per_filter_(keys_per_filter),
        blocks_(plan.layout.symbol_bits, plan.layout.check_bits) {
    std::vector<kbf::SymbolBlock> block_of(kValues);
    for (uint32_t value = 0; value < kValues; ++value) {
      block_of[value] = blocks_.Allocate(value, plan.layout.check_bits).value();
    }
    for (unsigned at = 0; at < filters; ++at) {
      if (at % kbf::Locator::kColumnsMax == 0) {
        AddLocator(bits_per_key, std::min(filters - at, kbf::Locator::kColumnsMax));
      }
      auto& filter = filters_.emplace_back(std::move(
          kbf::Kbf::Create({plan.layout, keys_per_filter, plan.load, 3, 0}).filter.value()));
      auto& occupied = occupied_.emplace_back(filter.num_cells());
      for (uint64_t i = 0; i < keys_per_filter; ++i) {
        const uint64_t number = at * keys_per_filter + i;
        const kbf::KeyHash key = KeyAt(number);
        filter.Insert(key, block_of[ValueAt(number)].Choose(kbf::KeyCheck(key)));
        locators_.back().Add(key, at % kbf::Locator::kColumnsMax);
        const auto cells = filter.CellsOf(key);
        for (unsigned j = 0; j < plan.layout.num_hashes; ++j) occupied[cells[j]] = true;
      }
    }
  }

  size_t num_filters() const { return filters_.size(); }
  uint64_t num_keys() const { return filters_.size() * keys_per_filter_; }
  uint64_t FilterOf(uint64_t number) const { return number / keys_per_filter_; }
  double rate() const {
    return locators_[0].FalseCandidateRate(static_cast<double>(keys_per_filter_));
  }
  double LocatorBytesPerKey() const {
    double bytes = 0;
    for (const auto& locator : locators_) bytes += static_cast<double>(locator.memory_bytes());
    return bytes / static_cast<double>(num_keys());
  }
  double FilterBytesPerKey() const {
    return static_cast<double>(filters_[0].memory_bytes()) / static_cast<double>(keys_per_filter_);
  }

  // Calls visit(filter number) for each candidate, until it returns true.
  void ForCandidates(const kbf::KeyHash& key, auto&& visit) const {
    for (size_t group = 0; group < locators_.size(); ++group) {
      for (uint64_t mask = locators_[group].Candidates(key); mask != 0; mask &= mask - 1) {
        if (visit(group * kbf::Locator::kColumnsMax + std::countr_zero(mask))) return;
      }
    }
  }

  kbf::QueryResult FindWithLocator(const kbf::KeyHash& key) const {
    kbf::QueryResult result;
    ForCandidates(key, [&](size_t at) {
      result = filters_[at].Query(key, blocks_);
      return result.outcome == kbf::Outcome::kFound;
    });
    return result;
  }
  kbf::QueryResult FindInTurn(const kbf::KeyHash& key) const {
    kbf::QueryResult result;
    for (const auto& filter : filters_) {
      result = filter.Query(key, blocks_);
      if (result.outcome == kbf::Outcome::kFound) break;
    }
    return result;
  }

  // REQUIRES: at most kBatch keys
  void FindBatch(std::span<const kbf::KeyHash> keys, bool with_locator,
                 kbf::QueryResult* results) const {
    std::fill_n(results, keys.size(), kbf::QueryResult{});
    for (size_t group = 0; group < locators_.size(); ++group) {
      const size_t first = group * kbf::Locator::kColumnsMax;
      const size_t last = std::min(filters_.size(), first + kbf::Locator::kColumnsMax);
      std::array<uint64_t, kBatch> masks;
      if (with_locator) {
        for (const auto& key : keys) locators_[group].Prefetch(key);
        for (size_t i = 0; i < keys.size(); ++i) masks[i] = locators_[group].Candidates(keys[i]);
      } else {
        masks.fill(~uint64_t{0});
      }
      for (size_t at = first; at < last; ++at) AskBatch(at, keys, masks.data(), results);
    }
  }

  // Cache lines of one lookup, and the candidates that do not hold the key.
  struct Cost {
    double lines_locator = 0;
    double lines_in_turn = 0;
    double false_candidates = 0;
  };
  Cost CostOf(const kbf::KeyHash& key, uint64_t holder) const {
    Cost cost;
    bool found = false;
    for (size_t group = 0; group < locators_.size(); ++group) {
      const kbf::Locator& locator = locators_[group];
      const uint64_t mask = locator.Candidates(key);
      for (uint64_t left = mask; left != 0; left &= left - 1) {
        const size_t at = group * kbf::Locator::kColumnsMax + std::countr_zero(left);
        cost.false_candidates += at != holder;
      }
      if (!found) cost.lines_locator += LocatorLines(locator, key);
      for (uint64_t left = found ? 0 : mask; left != 0 && !found; left &= left - 1) {
        const size_t at = group * kbf::Locator::kColumnsMax + std::countr_zero(left);
        cost.lines_locator += CellLines(at, key);
        found = filters_[at].Query(key, blocks_).outcome == kbf::Outcome::kFound;
      }
    }
    for (size_t at = 0; at < filters_.size(); ++at) {
      cost.lines_in_turn += CellLines(at, key);
      if (filters_[at].Query(key, blocks_).outcome == kbf::Outcome::kFound) break;
    }
    return cost;
  }

 private:
  void AddLocator(double bits_per_key, unsigned columns) {
    auto& locator = locators_.emplace_back(
        std::move(kbf::Locator::Create({keys_per_filter_, bits_per_key}).value()));
    while (locator.columns_ready() < columns && locator.Grow()) {
      locator.GrowStep(locator.num_blocks());
    }
  }

  // Asks filter `at` for those keys whose mask names it and that no other filter found.
  void AskBatch(size_t at, std::span<const kbf::KeyHash> keys, const uint64_t* masks,
                kbf::QueryResult* results) const {
    std::array<kbf::KeyHash, kBatch> asked;
    std::array<uint16_t, kBatch> index;
    std::array<kbf::QueryResult, kBatch> answers;
    size_t count = 0;
    for (size_t i = 0; i < keys.size(); ++i) {
      asked[count] = keys[i];
      index[count] = static_cast<uint16_t>(i);
      count += (masks[i] >> at % kbf::Locator::kColumnsMax & 1) &
               (results[i].outcome != kbf::Outcome::kFound);
    }
    filters_[at].QueryMany({asked.data(), count}, blocks_, answers.data());
    for (size_t i = 0; i < count; ++i) results[index[i]] = answers[i];
  }

  static double LocatorLines(const kbf::Locator& locator, const kbf::KeyHash& key) {
    if (locator.columns_ready() < kbf::Locator::kColumnsMax) return 1;
    unsigned lines = 0;
    for (const uint8_t slot : locator.PlaceOf(key).slots) lines |= 1u << slot / 8;
    return std::popcount(lines);
  }
  double CellLines(size_t at, const kbf::KeyHash& key) const {
    const auto cells = filters_[at].CellsOf(key);
    uint64_t seen[kbf::kNumHashesMax];
    unsigned lines = 0;
    for (unsigned j = 0; j < filters_[at].layout().num_hashes; ++j) {
      const uint64_t line = cells[j] / kCellsPerLine;
      if (std::find(seen, seen + lines, line) == seen + lines) seen[lines++] = line;
      if (!occupied_[at][cells[j]]) break;
    }
    return lines;
  }

  uint64_t keys_per_filter_;
  kbf::SymbolBlocks blocks_;
  std::vector<kbf::Kbf> filters_;
  std::vector<kbf::Locator> locators_;       // one for every 64 filters
  std::vector<std::vector<bool>> occupied_;  // cells by filter
};

Asked MakeAsked(const Chain& chain, bool stored, uint64_t count) {
  Asked asked;
  for (uint64_t i = 0; i < count; ++i) {
    const uint64_t number =
        stored ? kbf::ScaleTo(kbf::Mix64(i * 3 + 1), chain.num_keys()) : (uint64_t{1} << 40) + i;
    asked.keys.push_back(KeyAt(number));
    if (stored) asked.numbers.push_back(number);
  }
  return asked;
}

// Share of lookups that went wrong.
double Errors(const Asked& asked, auto&& find) {
  double errors = 0;
  for (size_t i = 0; i < asked.keys.size(); ++i) {
    const kbf::QueryResult result = find(asked.keys[i]);
    const bool found = result.outcome == kbf::Outcome::kFound;
    errors += asked.numbers.empty() ? found : !found || result.value != ValueAt(asked.numbers[i]);
  }
  return errors / static_cast<double>(asked.keys.size());
}

bench::Spread TimeSingle(const Asked& asked, auto&& find) {
  return bench::MeasureCpuSeconds(kRepeats, [&] {
    for (const auto& key : asked.keys) bench::Consume(find(key).symbol);
  });
}
bench::Spread TimeBatched(const Chain& chain, const Asked& asked, bool with_locator) {
  std::array<kbf::QueryResult, kBatch> results;
  return bench::MeasureCpuSeconds(kRepeats, [&] {
    for (size_t begin = 0; begin < asked.keys.size(); begin += kBatch) {
      const size_t count = std::min(kBatch, asked.keys.size() - begin);
      chain.FindBatch({asked.keys.data() + begin, count}, with_locator, results.data());
      bench::Consume(results[0].symbol);
    }
  });
}

// The same as rows of the figure, which come behind the table.
std::vector<bench::FigureRow> g_figure;
void AddToFigure(const char* way, bool stored, bool batched, double filters, double per_second,
                 double half_range, double bits_per_key) {
  g_figure.push_back({.series = std::string(way) + (stored ? ", stored" : ", absent") +
                                (batched ? ", batched" : ""),
                      .x = filters,
                      .ours = per_second,
                      .deviation = half_range,
                      .bits_per_key = bits_per_key});
}

void BenchChain(const Chain& chain, uint64_t keys_per_filter, double bits_per_key) {
  const auto with_locator = [&](const kbf::KeyHash& key) { return chain.FindWithLocator(key); };
  const auto in_turn = [&](const kbf::KeyHash& key) { return chain.FindInTurn(key); };
  const auto filters = static_cast<double>(chain.num_filters());
  for (const bool stored : {true, false}) {
    // Fewer lookups in turn in longer chains, where one takes microseconds. The locator gets all of
    // them in any case, because the lines of a few would stay in the cache.
    const Asked asked = MakeAsked(chain, stored, g_lookups);
    const uint64_t count = LookupsTimesFilters() / (chain.num_filters() + 8);
    const Asked asked_in_turn = asked.First(count);
    Chain::Cost cost;
    for (uint64_t i = 0; i < count; ++i) {
      const uint64_t holder = stored ? chain.FilterOf(asked.numbers[i]) : kNoFilter;
      const Chain::Cost one = chain.CostOf(asked.keys[i], holder);
      cost.lines_locator += one.lines_locator / static_cast<double>(count);
      cost.lines_in_turn += one.lines_in_turn / static_cast<double>(count);
      cost.false_candidates += one.false_candidates / static_cast<double>(count);
    }
    const double errors_locator = Errors(asked, with_locator);
    const double errors_in_turn = Errors(asked_in_turn, in_turn);
    for (const bool batched : {false, true}) {
      const auto n = static_cast<double>(count);
      const auto all = static_cast<double>(g_lookups);
      const auto a = batched ? TimeBatched(chain, asked, true) : TimeSingle(asked, with_locator);
      const auto b =
          batched ? TimeBatched(chain, asked_in_turn, false) : TimeSingle(asked_in_turn, in_turn);
      std::printf(
          "%.0f\t%llu\t%g\t%s\t%s\t%.0f\t%.0f\t%.0f\t%.0f\t%.0f\t%.0f\t%.2f\t%.2f\t%.2f\t%.2f\t"
          "%.4f\t%.4f\t%.2g\t%.2g\t%.2f\t%.2f\n",
          filters, static_cast<unsigned long long>(keys_per_filter), bits_per_key,
          stored ? "stored" : "absent", batched ? "batched" : "single", all / a.median,
          all / a.high, all / a.low, n / b.median, n / b.high, n / b.low,
          (b.median / n) / (a.median / all), cost.lines_locator, cost.lines_in_turn,
          cost.lines_in_turn / cost.lines_locator, cost.false_candidates,
          chain.rate() * (filters - stored), errors_locator, errors_in_turn,
          chain.LocatorBytesPerKey(), chain.FilterBytesPerKey());
      std::fflush(stdout);
      if (keys_per_filter != kFigureKeys || bits_per_key != kFigureBits) continue;
      AddToFigure("locator", stored, batched, filters, all / a.median,
                  (all / a.low - all / a.high) / 2, 8 * chain.LocatorBytesPerKey());
      AddToFigure("in turn", stored, batched, filters, n / b.median, (n / b.low - n / b.high) / 2,
                  0);
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  const bool quick = bench::QuickRun(argc, argv);
  if (quick) g_lookups /= 4;
  bench::PrintHead(argc, argv,
                   "[DBA] Fig. 6: lookups/s of a chain of filters, with the locator against asking "
                   "every filter in turn; per second: median, lowest, highest",
                   kSeed);
  const auto outcome = kbf::MakePlan({});
  if (!outcome.plan) {
    std::printf("# %s\n", outcome.error.c_str());
    return 1;
  }
  std::printf(
      "filters\tkeys_per_filter\tbits_per_key\tasked\tmode\t"
      "locator_per_s\tlocator_low\tlocator_high\tin_turn_per_s\tin_turn_low\tin_turn_high\tratio\t"
      "locator_lines\tin_turn_lines\tlines_ratio\tfalse_candidates\tfalse_candidates_predicted\t"
      "locator_errors\tin_turn_errors\tlocator_bytes_per_key\tfilter_bytes_per_key\n");
  // Small filters lie in the L3 cache, 160 of the large ones (230 MB) do not.
  for (const auto& [keys, bits] :
       {std::pair{kFigureKeys, kFigureBits}, {uint64_t{4096}, 12.0}, {uint64_t{65536}, 10.0}}) {
    for (const unsigned filters : {1u, 8u, 16u, 32u, 64u, 160u}) {
      const Chain chain(*outcome.plan, filters, keys, bits);
      BenchChain(chain, keys, bits);
    }
    if (quick) break;
  }
  std::printf(
      "#\n# as rows of the figure: filters of 4,096 keys, 10 bits per key in the locator\n");
  bench::PrintFigureColumns();
  for (const bench::FigureRow& row : g_figure) {
    bench::PrintFigureRow("[DBA] Fig. 6, the store's chain", row);
  }
}
