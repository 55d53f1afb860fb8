// [Replicas] Fig. 2, 5, 6 and 7: false rates of a Bloom filter and of a replica whose original has
// the best configuration.
//
// Caption: expected false positive rate in a standard Bloom filter; example of B and its replica;
//          expected false negative and false positive rate of a replica when the configuration of
//          its original is optimal.
// Claim:   0.0216 at 8 bits per key and k = 6; 0.0214, 0.0031 and 0.00046 at the best k with 8, 12
// and
//          16 bits; false negatives of 50 % of that at δ1 = 5 % and of 75 % at 10 %.
// Last:    theory and measurement agree within their deviation; 0.0216 at 8 bits and k = 6. At δ1 =
// 5 %
//          and 10 % false negatives are 47, 57 and 69 % and 74, 83 and 91 % of the filter's rate at
//          8, 12 and 16 bits per key, so the claim holds but for 8 bits, where it is 3 and 1 points
//          too high.
// Runs:    20 s, 10 MB; --quick: 3 s. Output: bench/results/fig02_replica_formulas.tsv
//
// x: Fig. 2 bits per key; Fig. 5 none, ours and theory are shares of all bits; Fig. 6 δ1; Fig. 7 δ1
// or δ0. The replica is that of an earlier set, so δ1 comes from keys added, δ0 from keys deleted.
#include <cmath>
#include <numbers>

#include "bench/replica_figures.h"

namespace {

constexpr uint64_t kSeed = 20261118;
constexpr int kFilters = 10;  // per row
uint64_t g_seed = kSeed;

unsigned BestHashes(unsigned bits_per_key) {
  return static_cast<unsigned>(std::lround(bits_per_key * std::numbers::ln2));
}

void StandardFilter(uint64_t asked) {
  constexpr uint64_t kKeys = 10000;
  for (const unsigned k : {1u, 2u, 4u, 6u, 8u, 11u}) {
    for (unsigned bits_per_key = 2; bits_per_key <= 16; bits_per_key += 2) {
      bench::Running measured;
      for (int filter = 0; filter < kFilters; ++filter) {
        bench::FilterAndReplica pair(kKeys * bits_per_key, k, ++g_seed);
        pair.Insert(kKeys);
        pair.Send();
        measured.Add(pair.Measure(asked / kFilters).positive);
      }
      const bool named = k == 6 && bits_per_key == 8;
      bench::PrintFigureRow(
          "[Replicas] Fig. 2",
          {.series = "k=" + std::to_string(k),
           .x = static_cast<double>(bits_per_key),
           .theory = std::pow(1 - kbf::BloomZeroShare(kKeys, kKeys * bits_per_key, k), k),
           .ours = measured.mean(),
           .deviation = measured.deviation(),
           .paper_theory = named ? 0.0216 : bench::kNone,
           .bits_per_key = static_cast<double>(bits_per_key)});
    }
  }
}

// Eq. 5 at the ratios that the paper names.
void BestRates() {
  for (const auto& [bits_per_key, paper] : {std::pair{8, 0.0214}, {12, 0.0031}, {16, 0.00046}}) {
    bench::PrintFigureRow("[Replicas] Fig. 6, eq. 5",
                          {.series = "m/n=" + std::to_string(bits_per_key),
                           .x = static_cast<double>(bits_per_key),
                           .theory = kbf::BloomBestFalsePositive(bits_per_key),
                           .paper_theory = paper,
                           .bits_per_key = static_cast<double>(bits_per_key)});
  }
}

// 150 keys in 1,200 bits are sent, 25 of them deleted, 50 added.
void ExampleOfDirtyBits(int filters) {
  bench::Running common_ones, common_zeros, ones_only, zeros_only;
  for (int i = 0; i < filters; ++i) {
    bench::FilterAndReplica pair(1200, 6, ++g_seed);
    pair.Insert(150);
    pair.Send();
    pair.Delete(25);
    pair.Insert(50);
    const kbf::ReplicaState state = pair.filter().State();
    ones_only.Add(state.delta1);
    zeros_only.Add(state.delta0);
    common_ones.Add(state.one_share - state.delta1);
    common_zeros.Add(1 - state.one_share - state.delta0);
  }
  // Old keys that stay, old keys that go, new ones: a bit is in Δ1 where only new ones fall on it.
  const double stay = kbf::BloomZeroShare(125, 1200, 6);
  const double gone = kbf::BloomZeroShare(25, 1200, 6);
  const double added = kbf::BloomZeroShare(50, 1200, 6);
  const auto row = [](const char* name, double theory, const bench::Running& counted) {
    bench::PrintFigureRow("[Replicas] Fig. 5", {.series = name,
                                                .theory = theory,
                                                .ours = counted.mean(),
                                                .deviation = counted.deviation(),
                                                .bits_per_key = 8});
  };
  row("1 in both", 1 - stay + stay * (1 - gone) * (1 - added), common_ones);
  row("1 in B only (delta1)", stay * gone * (1 - added), ones_only);
  row("1 in the replica only (delta0)", stay * (1 - gone) * added, zeros_only);
  row("0 in both", stay * gone * added, common_zeros);
}

// The original holds n keys at the best k; its replica was sent with `missing` fewer, or with
// `gone` keys more that have been deleted since.
void StaleReplica(unsigned bits_per_key, uint64_t asked) {
  constexpr uint64_t kKeys = 3000;
  const unsigned k = BestHashes(bits_per_key);
  const double own = kbf::BloomBestFalsePositive(bits_per_key);
  const std::string series = "m/n=" + std::to_string(bits_per_key);
  struct Sums {
    bench::Running x, theory, measured;
  };
  for (unsigned percent = 0; percent <= 30; percent += 3) {
    const uint64_t changed = kKeys * percent / 100;
    Sums negatives, positives, with_deleted;
    const auto add = [](Sums* sums, double x, double theory, double measured) {
      sums->x.Add(x);
      sums->theory.Add(theory);
      sums->measured.Add(measured);
    };
    for (int filter = 0; filter < kFilters; ++filter) {
      bench::FilterAndReplica added(kKeys * bits_per_key, k, ++g_seed);
      added.Insert(kKeys - changed);
      added.Send();
      added.Insert(changed);
      const kbf::ReplicaState more = added.filter().StateByKeys();
      const auto wrong = added.Measure(asked / kFilters);
      add(&negatives, more.delta1, kbf::ReplicaFalseNegative(more), wrong.negative);
      add(&positives, more.delta1, kbf::ReplicaFalsePositive(more), wrong.positive);
      bench::FilterAndReplica deleted(kKeys * bits_per_key, k, ++g_seed);
      deleted.Insert(kKeys + changed);
      deleted.Send();
      deleted.Delete(changed);
      const kbf::ReplicaState fewer = deleted.filter().StateByKeys();
      add(&with_deleted, fewer.delta0, kbf::ReplicaFalsePositive(fewer),
          deleted.Measure(asked / kFilters).positive);
    }
    const auto row = [&](const char* figure, const std::string& name, const Sums& sums,
                         double paper) {
      bench::PrintFigureRow(figure, {.series = name,
                                     .x = sums.x.mean(),
                                     .theory = sums.theory.mean(),
                                     .ours = sums.measured.mean(),
                                     .deviation = sums.measured.deviation(),
                                     .paper_theory = paper,
                                     .bits_per_key = static_cast<double>(bits_per_key)});
    };
    row("[Replicas] Fig. 6", series, negatives, bench::kNone);
    row("[Replicas] Fig. 7", series + ", delta0=0", positives, percent == 0 ? own : bench::kNone);
    row("[Replicas] Fig. 7", series + ", delta1=0", with_deleted, bench::kNone);
  }
  for (const double delta1 : {0.05, 0.1}) {
    const double share = 1 - std::pow(1 - 2 * delta1, k);
    bench::PrintFigureRow("[Replicas] Fig. 6, share of the filter's rate",
                          {.series = series,
                           .x = delta1,
                           .theory = share,
                           .paper_theory = delta1 == 0.05 ? 0.5 : 0.75,
                           .bits_per_key = static_cast<double>(bits_per_key)});
  }
}

}  // namespace

int main(int argc, char** argv) {
  const bool quick = bench::QuickRun(argc, argv);
  bench::PrintHead(
      argc, argv,
      "[Replicas] Fig. 2, 5, 6, 7: false rates of a Bloom filter and of its stale replica", kSeed);
  bench::PrintFigureColumns();
  BestRates();
  StandardFilter(quick ? 100'000 : 2'000'000);
  ExampleOfDirtyBits(quick ? 200 : 2000);
  for (const unsigned bits_per_key : {8u, 12u, 16u}) {
    StaleReplica(bits_per_key, quick ? 200'000 : 2'000'000);
  }
}
