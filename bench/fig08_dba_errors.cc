// [DBA] Fig. 8: error rate of a DBA without control and with both methods of control.
//
// Claim:   bound 2^-14 = 6.1e-5, 64 filters of 2^19 keys, groups of 32, t = 3: 5.7e-5 when 64 are
// full;
//          without control 1.6e-4 at 160 filters; larger filters 4.8e-5, tighter ones 5.1e-5.
// Last:    6.0e-5 at 64 filters; at 160 uncontrolled 1.5e-4, larger filters 4.9e-5, tighter
// ones 3.4e-5.
//          The last is lower than the paper's because hash functions are whole: the 22 of a
//          tightened filter give 2.4e-7 where eq. 5 asks for 3.2e-7. Theory is eq. 3 over the
//          filters as they are filled.
// Runs:    40 s, 0.1 GB; --quick: 6 s. Output: bench/results/fig08_dba_errors.tsv
//
// x: keys, in capacities of one filter of the start (2^15 here, 2^11 in the quick run). ours: share
// of absent keys that any filter answers for.
#include <cmath>
#include <vector>

#include "bench/figures.h"
#include "storage/dba/dba.h"

namespace {

constexpr uint64_t kSeed = 20261118;
using Control = kbf::DbaConfig::Control;

struct Method {
  const char* name;
  Control control;
  double paper_at_64;
  double paper_at_160;
};
constexpr Method kMethods[] = {{"uncontrolled", Control::kNone, 5.7e-5, 1.6e-4},
                               {"larger filters", Control::kEnlarge, 5.7e-5, 4.8e-5},
                               {"tighter filters", Control::kTighten, 5.7e-5, 5.1e-5}};

void Run(const Method& method, uint64_t keys_per_filter, uint64_t asked) {
  auto dba = kbf::Dba::Create({.keys_per_filter = keys_per_filter,
                               .filters = 64,
                               .error_rate = std::exp2(-14),
                               .group_cardinality = 32,
                               .control = method.control,
                               .growth = 3})
                 .value();
  std::vector<std::vector<uint32_t>> subsets;
  const auto lister = [&](uint32_t subset, const kbf::Dba::Visit& visit) {
    for (const uint32_t number : subsets[subset]) visit(bench::FigureKey(kSeed, number));
  };
  uint32_t keys = 0;
  for (const unsigned full : {16u, 32u, 48u, 64u, 80u, 96u, 128u, 160u}) {
    for (; keys < full * keys_per_filter; ++keys) {
      (void)dba.Maintain(lister);
      const uint32_t subset = dba.Insert(bench::FigureKey(kSeed, keys)).value();
      if (subset >= subsets.size()) subsets.resize(subset + 1);
      subsets[subset].push_back(keys);
    }
    double wrong = 0;
    for (uint64_t i = 0; i < asked; ++i) wrong += dba.MayContain(bench::FigureKey(~kSeed, i));
    const double rate = wrong / static_cast<double>(asked);
    bench::PrintFigureRow("[DBA] Fig. 8",
                          {.series = method.name,
                           .x = static_cast<double>(full),
                           .theory = dba.ErrorRate(),
                           .ours = rate,
                           .deviation = bench::RateDeviation(rate, static_cast<double>(asked)),
                           .paper_theory = std::exp2(-14),
                           .paper = full == 64    ? method.paper_at_64
                                    : full == 160 ? method.paper_at_160
                                                  : bench::kNone,
                           .bits_per_key = 8 * static_cast<double>(dba.memory_bytes()) / keys});
  }
}

}  // namespace

int main(int argc, char** argv) {
  const bool quick = bench::QuickRun(argc, argv);
  bench::PrintHead(argc, argv,
                   "[DBA] Fig. 8: error rate of a DBA without control and with two methods", kSeed);
  bench::PrintFigureColumns();
  for (const Method& method : kMethods) {
    Run(method, quick ? 1 << 11 : 1 << 15, quick ? 1'000'000 : 5'000'000);
  }
}
