// [kBF-conf] Fig. 8: memory of a kBF for 10 million pairs over p.
//
// Claim:   between 0.5 and 1.5 GB, p = 1e-3 … 1e-6.
// Last:    0.58 GB at p = 1e-3 to 1.15 GB at 1e-6; our default 0.22 GB.
// Runs:    10 s, 1.2 GB; --quick: 2 s, 40 MB. Output: bench/results/fig08_kbf_memory.tsv
//
// x: -log10 p; ours in GB (10^9 bytes) for 10 million pairs with 3,000 values of 8 bytes. Paper
// mode: the main kBF, the secondary kBF and the mapping; theory 4 m bytes, m = -n ln p / (ln 2)².
// "our plan at p": the smallest plan whose false positives keep to p and whose false negatives to
// 2e-3; "our default" is that of p = 2e-5.
#include <string>

#include "bench/kbf_figures.h"
#include "storage/paper/value_table.h"

namespace {

constexpr double kPairs = 10e6;

void PaperMode(double p, uint64_t keys) {
  bench::PaperFilter filter(keys, p);
  for (uint64_t i = 0; i < keys; ++i) filter.Insert(i);
  auto values =
      kbf::PaperValueTable::Create(bench::PaperEncodings(), p, kbf::HashSecret::FromSeed(1))
          .value();
  for (uint32_t value = 0; value < bench::kPaperValues; ++value) {
    if (!values.Encode(std::to_string(10'000'000 + value))) std::abort();
  }
  const double main_bytes =
      static_cast<double>(filter.memory_bytes()) * kPairs / static_cast<double>(keys);
  const auto others = static_cast<double>(values.secondary_bytes() + values.mapping_bytes());
  const double x = -std::log10(p);
  bench::PrintFigureRow("[kBF-conf] Fig. 8",
                        {.series = "paper mode",
                         .x = x,
                         .theory = 4 * kPairs * -std::log(p) / (std::log(2) * std::log(2)) / 1e9,
                         .ours = (main_bytes + others) / 1e9,
                         .bits_per_key = 8 * (main_bytes + others) / kPairs});
  bench::PrintFigureRow("[kBF-conf] Fig. 8, MB beside the main kBF",
                        {.series = "secondary kBF and mapping", .x = x, .ours = others / 1e6});
}

}  // namespace

int main(int argc, char** argv) {
  const bool quick = bench::QuickRun(argc, argv);
  const uint64_t keys = bench::PaperKeys(quick);
  bench::PrintHead(argc, argv, "[kBF-conf] Fig. 8: memory for 10 million pairs over p",
                   bench::kKbfSeed);
  bench::PrintFigureColumns();
  for (const double p : bench::kPaperRates) {
    PaperMode(p, keys);
    const auto plan = kbf::MakePlan({.false_positive = p}).plan;
    if (!plan) std::abort();
    bench::PrintFigureRow("[kBF-conf] Fig. 8", {.series = "our plan at p",
                                                .x = -std::log10(p),
                                                .ours = plan->bytes_per_key * kPairs / 1e9,
                                                .bits_per_key = 8 * plan->bytes_per_key});
  }
  bench::DefaultFilter ours(keys);
  const double bytes = static_cast<double>(ours.memory_bytes()) / static_cast<double>(keys);
  for (const double p : bench::kPaperRates) {
    bench::PrintFigureRow("[kBF-conf] Fig. 8", {.series = "our default",
                                                .x = -std::log10(p),
                                                .ours = bytes * kPairs / 1e9,
                                                .bits_per_key = 8 * bytes});
  }
}
