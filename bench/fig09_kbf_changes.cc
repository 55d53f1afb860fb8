// [kBF] Fig. 9 to 12: false positives after batches of deletions, false negatives after batches of
// updates, with filters of size m and m/2.
//
// Claim:   10 million keys, ten batches of a tenth. Smaller p and the larger filter do much better.
// Last:    2 million keys: at m/2 and p = 1e-3 3.4 % of the first deleted batch are still found,
// 1e-3
//          after five and 1.2e-5 after ten; 1.4e-4 of the updated keys are not found. At m nearly
//          none.
// Runs:    20 min, 1.2 GB; --quick: 12 s. Output: bench/results/fig09_kbf_changes.tsv
//
// x: batches so far. Fig. 9 and 10: share of all keys deleted so far for which a value is found.
// Fig. 11 and 12: share of all keys updated so far for which none is found. A key is deleted with
// the encoding that QUERY finds for it; one that cannot be decoded, or in ours shows too little
// evidence, stays, as a client would have to leave it. Rows "refused" are the share of those.
// Theory is the chance that all k cells of an absent key are in use at the load that is left if
// none was refused.
#include "bench/kbf_figures.h"

namespace {

constexpr uint64_t kBatches = 10;

template <class Filter>
void Deletes(Filter filter, const char* figure, const std::string& series, uint64_t keys,
             auto&& theory_at) {
  double refused = 0;
  for (uint64_t batch = 1; batch <= kBatches; ++batch) {
    const uint64_t first = keys / kBatches * (batch - 1), last = keys / kBatches * batch;
    for (uint64_t i = first; i < last; ++i) refused += !filter.Delete(i);
    const auto [found, deviation] = bench::QueryAbsent(
        last, bench::PairKey, [&](const kbf::KeyHash& key) { return filter.Query(key); });
    bench::PrintFigureRow(figure, {.series = series,
                                   .x = static_cast<double>(batch),
                                   .theory = theory_at(1 - static_cast<double>(batch) / kBatches),
                                   .ours = found,
                                   .deviation = deviation,
                                   .bits_per_key = 8 * static_cast<double>(filter.memory_bytes()) /
                                                   static_cast<double>(keys)});
  }
  bench::PrintFigureRow(std::string(figure) + ", refused",
                        {.series = series, .ours = refused / static_cast<double>(keys)});
}

template <class Filter>
void Updates(Filter filter, const char* figure, const std::string& series, uint64_t keys) {
  double refused = 0, wrong = 0;
  for (uint64_t batch = 1; batch <= kBatches; ++batch) {
    const uint64_t first = keys / kBatches * (batch - 1), last = keys / kBatches * batch;
    for (uint64_t i = first; i < last; ++i) refused += !filter.Update(i, 1);
    const auto errors =
        bench::QueryPairs(0, last, 1, [&](const kbf::KeyHash& key) { return filter.Query(key); });
    wrong = errors.wrong;
    bench::PrintFigureRow(figure, {.series = series,
                                   .x = static_cast<double>(batch),
                                   .ours = errors.false_negative,
                                   .deviation = errors.deviation,
                                   .bits_per_key = 8 * static_cast<double>(filter.memory_bytes()) /
                                                   static_cast<double>(keys)});
  }
  bench::PrintFigureRow(std::string(figure) + ", refused",
                        {.series = series, .ours = refused / static_cast<double>(keys)});
  // Of a key whose update was refused and that can be read now.
  bench::PrintFigureRow(std::string(figure) + ", old values shown",
                        {.series = series, .ours = wrong});
}

// `make()` gives a filter that holds all keys.
void Both(auto&& make, bool half, const std::string& series, uint64_t keys, auto&& theory_at) {
  Deletes(make(), half ? "[kBF] Fig. 10" : "[kBF] Fig. 9", series, keys, theory_at);
  Updates(make(), half ? "[kBF] Fig. 12" : "[kBF] Fig. 11", series, keys);
}

template <class Filter>
Filter Filled(Filter filter, uint64_t keys) {
  for (uint64_t i = 0; i < keys; ++i) filter.Insert(i);
  return filter;
}

}  // namespace

int main(int argc, char** argv) {
  const bool quick = bench::QuickRun(argc, argv);
  const uint64_t keys = bench::PaperKeys(quick);
  bench::PrintHead(argc, argv, "[kBF] Fig. 9-12: deletions and updates in ten batches",
                   bench::kKbfSeed);
  bench::PrintFigureColumns();
  for (const double share : {1.0, 0.5}) {
    for (const double p : bench::kPaperRates) {
      const bench::PaperFilter empty(keys, p, share);
      const double load = static_cast<double>(keys) * empty.num_hashes() /
                          static_cast<double>(empty.filter().num_cells());
      Both([&] { return Filled(bench::PaperFilter(keys, p, share), keys); }, share < 1,
           "paper mode, " + bench::RateName(p), keys,
           [&](double left) { return std::pow(1 - std::exp(-load * left), empty.num_hashes()); });
    }
    Both([&] { return Filled(bench::DefaultFilter(keys, share), keys); }, share < 1, "our default",
         keys, [](double) { return bench::kNone; });
  }
}
