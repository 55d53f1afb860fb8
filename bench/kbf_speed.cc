// The in-process half of [kBF] Fig. 15: CPU seconds to insert, query and delete n pairs in a kBF,
// in paper mode and with our default plan. bench/fig15_kbf_memcached.py runs it and adds the
// servers.
//
// Runs:    1 min, 0.7 GB; --quick: 3 s.
//
// x: pairs in millions, inserted into an empty filter of just that size, queried, then deleted.
#include "bench/kbf_figures.h"

namespace {

void Row(const std::string& series, uint64_t keys, double seconds, double bits_per_key) {
  bench::PrintFigureRow("[kBF] Fig. 15", {.series = "in process, " + series,
                                          .x = static_cast<double>(keys) / 1e6,
                                          .ours = seconds,
                                          .bits_per_key = bits_per_key});
}

void Measure(const std::string& series, uint64_t keys, auto filter) {
  const double bits = 8 * static_cast<double>(filter.memory_bytes()) / static_cast<double>(keys);
  uint64_t found = 0, deleted = 0;
  Row(series + ", insert", keys, bench::CpuSecondsOf([&] {
        for (uint64_t i = 0; i < keys; ++i) filter.Insert(i);
      }),
      bits);
  Row(series + ", query", keys, bench::CpuSecondsOf([&] {
        for (uint64_t i = 0; i < keys; ++i) found += filter.Query(bench::PairKey(i)).found;
      }),
      bits);
  Row(series + ", delete", keys, bench::CpuSecondsOf([&] {
        for (uint64_t i = 0; i < keys; ++i) deleted += filter.Delete(i);
      }),
      bits);
  // More is lost than any plan allows: something is wrong.
  if (found < keys / 100 * 99 || deleted < keys / 100 * 90) std::abort();
}

}  // namespace

int main(int argc, char** argv) {
  const bool quick = bench::QuickRun(argc, argv);
  for (int step = 1; step <= 4; ++step) {
    const uint64_t keys = (quick ? 50'000u : 2'500'000u) * static_cast<uint64_t>(step);
    Measure("paper mode p=0.001", keys, bench::PaperFilter(keys, 1e-3));
    Measure("our default", keys, bench::DefaultFilter(keys));
  }
}
