// [kBF] Fig. 7 and 8: false negatives and false positives of a filter that is smaller and smaller.
//
// Claim:   10 million keys, 3,000 values, p = 1e-3 … 1e-6, sizes m, 0.9 m, …, 0.5 m: no wrong
// value;
//          almost no false negatives at m, exponentially more below; false positives at m of the
//          order of p, more below.
// Last:    10 million keys: no wrong value; at m no false negatives and false positives of 9.7e-4,
//          1.24e-4, 7.3e-6 and 9e-7; at m/2 1.3e-4, 9e-6, 5e-7 and none of the stored keys. All
//          within the formulas.
// Runs:    25 min, 1.3 GB; --quick: 15 s. Output: bench/results/fig07_kbf_errors.tsv
//
// x: size over m. "paper mode" uses Algorithms 6 and 7; its theory of false negatives is
// StoredNotDecodable (decode22 alone, so an upper bound), of false positives (1 - e^-λ)^k, the
// chance that all k cells are in use, which counts undecodable ones too. "our default" is the
// store's plan, whose m is its own (21.8 bytes per key instead of 57.5 to 115).
#include "bench/kbf_figures.h"

namespace {

void Print(const char* figure, const std::string& series, double share, double theory, double ours,
           double deviation, double bits_per_key) {
  bench::PrintFigureRow(figure, {.series = series,
                                 .x = share,
                                 .theory = theory,
                                 .ours = ours,
                                 .deviation = deviation,
                                 .bits_per_key = bits_per_key});
}

struct Theory {
  double false_negative = 0;
  double false_positive = 0;
};

template <class Filter>
void Measure(const Filter& filter, const std::string& series, double share, uint64_t keys,
             const Theory& theory) {
  const auto query = [&](const kbf::KeyHash& key) { return filter.Query(key); };
  const double bits = 8 * static_cast<double>(filter.memory_bytes()) / static_cast<double>(keys);
  const auto errors = bench::QueryPairs(0, keys, 0, query);
  Print("[kBF] Fig. 7", series, share, theory.false_negative, errors.false_negative,
        errors.deviation, bits);
  Print("[kBF] Fig. 7, wrong values", series, share, bench::kNone, errors.wrong, bench::kNone,
        bits);
  const auto [positive, deviation] = bench::QueryAbsent(keys, bench::AbsentPairKey, query);
  Print("[kBF] Fig. 8", series, share, theory.false_positive, positive, deviation, bits);
}

}  // namespace

int main(int argc, char** argv) {
  const bool quick = bench::QuickRun(argc, argv);
  const uint64_t keys = bench::PaperKeys(quick);
  bench::PrintHead(argc, argv, "[kBF] Fig. 7, 8: errors of a kBF of size m to 0.5 m",
                   bench::kKbfSeed);
  bench::PrintFigureColumns();
  for (const double share : {1.0, 0.9, 0.8, 0.7, 0.6, 0.5}) {
    for (const double p : bench::kPaperRates) {
      bench::PaperFilter filter(keys, p, share);
      for (uint64_t i = 0; i < keys; ++i) filter.Insert(i);
      const unsigned k = filter.num_hashes();
      Measure(filter, "paper mode, " + bench::RateName(p), share, keys,
              {kbf::StoredNotDecodable(filter.rho(), k, bench::kPaperValues),
               std::pow(1 - std::exp(-filter.lambda()), k)});
    }
    bench::DefaultFilter ours(keys, share);
    for (uint64_t i = 0; i < keys; ++i) ours.Insert(i);
    const kbf::ErrorRates predicted = ours.Predicted();
    Measure(ours, "our default", share, keys, {predicted.false_negative, predicted.false_positive});
  }
}
