// [Replicas] Fig. 8 and Table 1: estimated and measured false rates of a replica.
//
// Caption: comparisons of estimated and experimental false negatives of a replica when k is 6, 8
// and
//          11; false positive rates when k is 6 and 8. m = 1200; 25, 75, 150 or 300 keys at first.
// Claim:   estimates match experiments; k = 6, n' = 150: 2.2749 % estimated, 2.6510 % measured.
// Last:    that row 2.16 % estimated and 2.17 % measured; over the 18 rows of Table 1 where the
// paper
//          measured anything the estimate is off by 0.7 % on average, the paper's by 8.5 %.
// Runs:    90 s, 5 MB; --quick: 3 s. Output: bench/results/fig08_replica_rates.tsv
//
// x: Fig. 8 δ1; Table 1 keys added (25 were deleted; the paper does not say how many, its δ0, δ1
// and estimates fit that). Rates in percent, as in the paper. Fig. 8 adds keys only: the paper's
// text has "only object deletions", which give δ0 and no false negatives. Estimates are from n, by
// eq. 2, as in the paper; each row is the mean of so many filters with their own keys. Table 1's δ0
// and δ1 have rows of their own.
#include <vector>

#include "bench/replica_figures.h"

namespace {

constexpr uint64_t kSeed = 20261118;
constexpr uint64_t kBits = 1200;
constexpr double kPercent = 100;
uint64_t g_seed = kSeed;

struct Sample {
  int filters;
  uint64_t asked;
};

struct Case {
  unsigned k;
  uint64_t before;
  uint64_t deleted;
  uint64_t added;
};

struct Means {
  bench::Running delta0, delta1, estimated, measured;
};

Means MeanOf(const Case& c, const Sample& sample, bool negatives) {
  Means means;
  for (int i = 0; i < sample.filters; ++i) {
    bench::FilterAndReplica pair(kBits, c.k, ++g_seed);
    pair.Insert(c.before);
    pair.Send();
    pair.Delete(c.deleted);
    pair.Insert(c.added);
    const kbf::ReplicaState state = pair.filter().StateByKeys();
    const auto wrong = pair.Measure(sample.asked);
    means.delta0.Add(state.delta0);
    means.delta1.Add(state.delta1);
    means.estimated.Add(kPercent * (negatives ? kbf::ReplicaFalseNegative(state)
                                              : kbf::ReplicaFalsePositive(state)));
    means.measured.Add(kPercent * (negatives ? wrong.negative : wrong.positive));
  }
  return means;
}

void FalseNegatives(const Sample& sample) {
  for (const unsigned k : {6u, 8u, 11u}) {
    for (const uint64_t before : {25u, 75u, 150u, 300u}) {
      for (uint64_t added = 25; added <= 150; added += 25) {
        const Means means = MeanOf({k, before, 0, added}, sample, true);
        bench::PrintFigureRow("[Replicas] Fig. 8",
                              {.series = "k=" + std::to_string(k) + " n=" + std::to_string(before),
                               .x = means.delta1.mean(),
                               .theory = means.estimated.mean(),
                               .ours = means.measured.mean(),
                               .deviation = means.measured.deviation()});
      }
    }
  }
}

struct PaperRow {
  unsigned k;
  uint64_t before;
  double delta0, delta1, estimated, experimental;
};
// Three rows for each k and n': 50, 100 and 150 keys added.
const std::vector<PaperRow> kTable1 = {
    {6, 25, 0.0942, 0.2042, 0.0002, 0},         {6, 25, 0.0800, 0.3650, 0.0002, 0},
    {6, 25, 0.0600, 0.4875, 0.0001, 0},         {6, 75, 0.0800, 0.1608, 0.0934, 0.1090},
    {6, 75, 0.0600, 0.2833, 0.0794, 0.1090},    {6, 75, 0.0483, 0.3758, 0.0799, 0.1090},
    {6, 150, 0.0533, 0.1042, 2.2749, 2.6510},   {6, 150, 0.0400, 0.1800, 2.3540, 2.6510},
    {6, 150, 0.0325, 0.2508, 2.1872, 2.6530},   {6, 300, 0.0250, 0.0417, 23.6555, 25.4790},
    {6, 300, 0.0183, 0.0692, 25.4016, 25.4710}, {6, 300, 0.0117, 0.1000, 24.7241, 25.4750},
    {8, 25, 0.1083, 0.2425, 0.00002, 0},        {8, 25, 0.0792, 0.4192, 0.00002, 0},
    {8, 25, 0.0550, 0.5425, 0.00002, 0},        {8, 75, 0.0792, 0.1767, 0.0525, 0.0540},
    {8, 75, 0.0550, 0.3000, 0.0504, 0.0540},    {8, 75, 0.0425, 0.3917, 0.0506, 0.0540},
    {8, 150, 0.0475, 0.1050, 2.5163, 2.5770},   {8, 150, 0.0350, 0.1758, 2.6783, 2.5780},
    {8, 150, 0.0283, 0.2367, 2.5384, 2.5790},   {8, 300, 0.0192, 0.0333, 33.2078, 33.2580},
    {8, 300, 0.0133, 0.0558, 34.4915, 33.2550}, {8, 300, 0.0083, 0.0817, 32.1779, 33.2550}};

void Table1(const Sample& sample) {
  bench::Running ours, papers;
  for (size_t i = 0; i < kTable1.size(); ++i) {
    const PaperRow& row = kTable1[i];
    const uint64_t added = 50 * (i % 3 + 1);
    const Means means = MeanOf({row.k, row.before, 25, added}, sample, false);
    const std::string series = "k=" + std::to_string(row.k) + " n'=" + std::to_string(row.before);
    const auto x = static_cast<double>(added);
    bench::PrintFigureRow("[Replicas] Table 1", {.series = series,
                                                 .x = x,
                                                 .theory = means.estimated.mean(),
                                                 .ours = means.measured.mean(),
                                                 .deviation = means.measured.deviation(),
                                                 .paper_theory = row.estimated,
                                                 .paper = row.experimental});
    bench::PrintFigureRow("[Replicas] Table 1, delta0", {.series = series,
                                                         .x = x,
                                                         .ours = means.delta0.mean(),
                                                         .deviation = means.delta0.deviation(),
                                                         .paper = row.delta0});
    bench::PrintFigureRow("[Replicas] Table 1, delta1", {.series = series,
                                                         .x = x,
                                                         .ours = means.delta1.mean(),
                                                         .deviation = means.delta1.deviation(),
                                                         .paper = row.delta1});
    if (row.experimental == 0) continue;
    ours.Add(std::fabs(means.estimated.mean() / means.measured.mean() - 1));
    papers.Add(std::fabs(row.estimated / row.experimental - 1));
  }
  bench::PrintFigureRow("[Replicas] Table 1, mean relative error of the estimate",
                        {.series = "rows with a measured rate",
                         .ours = ours.mean(),
                         .deviation = ours.deviation(),
                         .paper = papers.mean()});
}

}  // namespace

int main(int argc, char** argv) {
  const bool quick = bench::QuickRun(argc, argv);
  bench::PrintHead(argc, argv,
                   "[Replicas] Fig. 8, Table 1: estimated and measured false rates, in percent",
                   kSeed);
  bench::PrintFigureColumns();
  FalseNegatives(quick ? Sample{20, 10'000} : Sample{100, 100'000});
  Table1(quick ? Sample{50, 20'000} : Sample{200, 100'000});
}
