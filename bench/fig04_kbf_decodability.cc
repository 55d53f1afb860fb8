// [kBF] Fig. 4 and 5: how many cells hold three or more encodings, and how often a key cannot be
// decoded.
//
// Claim:   at its capacity 0.0333313 of the cells, P_n(1) = 0.0333132, whatever n is; with k = 10
//          virtually all decodings succeed up to ρ = 2.
// Last:    0.0333118 measured at 2 million pairs, 0.0333131 by the sum; k = 10 at ρ = 2: 1 of 3
// million
//          absent keys cannot be decoded (2e-7 by the formula), 1e-3 of the stored ones.
// Runs:    4 min, 60 MB; --quick: 6 s. Output: bench/results/fig04_kbf_decodability.tsv
//
// x: Fig. 4 pairs, k = 10; Fig. 5 ρ. "binomial" is the sum of §4 itself, without the limit. Fig.
// 5's formula is about k cells as a key that is not there meets them; "stored keys" have an entry
// of their own in each cell, theory StoredNotDecodable. Ours: ρ is the load over the planned one.
#include "bench/kbf_figures.h"

namespace {

constexpr unsigned kHashes = 10;  // p = 1e-3

// P(c >= 3) of §4 with n k balls in m urns: 1 minus the first three terms.
double BinomialTail(double balls, double urns) {
  const double log_miss = std::log1p(-1 / urns);
  double tail = 1;
  for (int j = 0; j < 3; ++j) {
    const double log_choose =
        std::lgamma(balls + 1) - std::lgamma(j + 1.0) - std::lgamma(balls - j + 1);
    tail -= std::exp(log_choose - j * std::log(urns) + (balls - j) * log_miss);
  }
  return tail;
}

void CrowdedCells(uint64_t keys_max) {
  for (uint64_t keys = 1000; keys <= keys_max; keys *= 2) {
    const auto n = static_cast<double>(keys);
    bench::Running share;
    for (uint64_t first = 0; first < keys_max; first += std::max(keys, keys_max / 8)) {
      bench::PaperFilter filter(keys, 1e-3);
      for (uint64_t i = 0; i < keys; ++i) filter.Insert(first * 8 + i);
      share.Add(static_cast<double>(filter.filter().CountCells(3)) /
                static_cast<double>(filter.filter().num_cells()));
    }
    bench::PrintFigureRow("[kBF] Fig. 4", {.series = "paper mode, measured",
                                           .x = n,
                                           .theory = kbf::CellNotDecodable(1),
                                           .ours = share.mean(),
                                           .deviation = share.deviation(),
                                           .paper_theory = 0.0333132,
                                           .paper = 0.0333313});
    bench::PrintFigureRow("[kBF] Fig. 4",
                          {.series = "binomial",
                           .x = n,
                           .ours = BinomialTail(n * kHashes, n * kHashes / std::log(2))});
  }
}

// Cells of random keys that are not there: at most one of them holds two, the others more.
double MeasureGlobal(const bench::PaperFilter& filter, uint64_t asked) {
  double not_decodable = 0;
  for (uint64_t i = 0; i < asked; ++i) {
    unsigned pairs = 0, fewer = 0;
    for (unsigned j = 0; j < filter.num_hashes(); ++j) {
      const unsigned counter =
          filter.filter().cell(filter.filter().Position(bench::AbsentPairKey(i), j)).counter();
      pairs += counter == 2;
      fewer += counter < 2;
    }
    not_decodable += fewer == 0 && pairs <= 1;
  }
  return not_decodable / static_cast<double>(asked);
}

void Global(uint64_t asked) {
  for (const unsigned k : {4u, 6u, 8u, 10u}) {
    for (double rho = 0.5; rho < 5.01; rho += 0.5) {
      const uint64_t keys = 100'000;
      const double p = std::exp2(-static_cast<double>(k));
      bench::PaperFilter filter(keys, p, 1 / rho);
      for (uint64_t i = 0; i < keys; ++i) filter.Insert(i);
      const double measured = MeasureGlobal(filter, asked);
      bench::PrintFigureRow(
          "[kBF] Fig. 5",
          {.series = "absent, k=" + std::to_string(k),
           .x = rho,
           .theory = 1 - kbf::GlobalDecodability(rho, k),
           .ours = measured,
           .deviation = bench::RateDeviation(measured, double(asked)),
           .bits_per_key = 8.0 * static_cast<double>(filter.memory_bytes()) / keys});
      bench::PrintFigureRow("[kBF] Fig. 5, decodable", {.series = "k=" + std::to_string(k),
                                                        .x = rho,
                                                        .theory = kbf::GlobalDecodability(rho, k),
                                                        .ours = 1 - measured});
      const auto errors = bench::QueryPairs(0, keys, 0, [&](const kbf::KeyHash& key) {
        return filter.Query(key, kbf::PaperChoices::kFirst);
      });
      bench::PrintFigureRow(
          "[kBF] Fig. 5, stored keys",
          {.series = "paper mode, k=" + std::to_string(k),
           .x = rho,
           .theory = kbf::StoredNotDecodable(filter.rho(), k, bench::kPaperValues),
           .ours = errors.false_negative,
           .deviation = errors.deviation});
    }
  }
  for (double rho = 0.5; rho < 2.51; rho += 0.25) {
    const uint64_t keys = 100'000;
    bench::DefaultFilter filter(keys, 1 / rho);
    for (uint64_t i = 0; i < keys; ++i) filter.Insert(i);
    const auto errors =
        bench::QueryPairs(0, keys, 0, [&](const kbf::KeyHash& key) { return filter.Query(key); });
    bench::PrintFigureRow(
        "[kBF] Fig. 5, stored keys",
        {.series = "our default",
         .x = rho,
         .theory = filter.Predicted().false_negative,
         .ours = errors.false_negative,
         .deviation = errors.deviation,
         .bits_per_key = 8.0 * static_cast<double>(filter.memory_bytes()) / keys});
  }
}

}  // namespace

int main(int argc, char** argv) {
  const bool quick = bench::QuickRun(argc, argv);
  bench::PrintHead(argc, argv, "[kBF] Fig. 4, 5: cells and keys that cannot be decoded",
                   bench::kKbfSeed);
  bench::PrintFigureColumns();
  CrowdedCells(quick ? 128'000 : 2'048'000);
  Global(quick ? 100'000 : 3'000'000);
}
