// [kBF] Fig. 13 and 14: false negatives after JOIN and COMPRESS.
//
// Claim:   almost none while the capacity coefficients ρ of the two filters, or of the one, are at
//          most 0.5, so that the result is within its capacity; exponentially more above.
// Last:    2 million keys: none at ρ = 0.5; at ρ = 0.7, 0.8, 0.9 and 1 1.1e-6, 6.6e-6, 3.8e-5
// and 1.3e-4
//          with p = 1e-3.
// Runs:    15 min, 2.5 GB; --quick: 10 s. Output: bench/results/fig13_kbf_join.tsv
//
// x: ρ before. Theory: StoredNotDecodable at 2 ρ, by decode22 alone. In ours ρ is the load over the
// planned one, theory PredictErrors.
#include "bench/kbf_figures.h"

namespace {

void Row(const char* figure, const std::string& series, double rho, double theory,
         const bench::PairErrors& errors, double bits) {
  bench::PrintFigureRow(figure, {.series = series,
                                 .x = rho,
                                 .theory = theory,
                                 .ours = errors.false_negative,
                                 .deviation = errors.deviation,
                                 .bits_per_key = bits});
  bench::PrintFigureRow(std::string(figure) + ", wrong values",
                        {.series = series, .x = rho, .ours = errors.wrong});
}

// `make()` gives a filter whose capacity is `capacity` keys.
void JoinAndCompress(const std::string& series, uint64_t capacity, double rho, auto&& make,
                     auto&& theory) {
  const auto keys = static_cast<uint64_t>(static_cast<double>(capacity) * rho);
  const auto bits = [&](const auto& filter, uint64_t held) {
    return 8 * static_cast<double>(filter.memory_bytes()) / static_cast<double>(held);
  };
  const auto ask = [](const auto& filter) {
    return [&filter](const kbf::KeyHash& key) { return filter.Query(key); };
  };
  {
    auto filter = make();
    for (uint64_t i = 0; i < keys; ++i) filter.Insert(i);
    filter.Compress();
    Row("[kBF] Fig. 14", series, rho, theory(filter), bench::QueryPairs(0, keys, 0, ask(filter)),
        bits(filter, keys));
  }
  auto first = make();
  {
    auto second = make();
    for (uint64_t i = 0; i < keys; ++i) first.Insert(i);
    for (uint64_t i = keys; i < 2 * keys; ++i) second.Insert(i);
    first.Join(second);
  }
  Row("[kBF] Fig. 13", series, rho, theory(first), bench::QueryPairs(0, 2 * keys, 0, ask(first)),
      bits(first, 2 * keys));
}

}  // namespace

int main(int argc, char** argv) {
  const bool quick = bench::QuickRun(argc, argv);
  const uint64_t capacity = bench::PaperKeys(quick, 100'000);
  bench::PrintHead(argc, argv, "[kBF] Fig. 13, 14: JOIN and COMPRESS", bench::kKbfSeed);
  bench::PrintFigureColumns();
  for (const double rho : {0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0}) {
    for (const double p : bench::kPaperRates) {
      JoinAndCompress(
          "paper mode, " + bench::RateName(p), capacity, rho,
          [&] { return bench::PaperFilter(capacity, p); },
          [&](const bench::PaperFilter& filter) {
            return kbf::StoredNotDecodable(2 * rho, filter.num_hashes(), bench::kPaperValues);
          });
    }
    JoinAndCompress(
        "our default", capacity, rho, [&] { return bench::DefaultFilter(capacity); },
        [](const bench::DefaultFilter& filter) { return filter.Predicted().false_negative; });
  }
}
