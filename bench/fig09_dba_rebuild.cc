// [DBA] Fig. 9 and 10: how fast a group is built anew, and the memory that an array takes over one
// filter.
//
// Caption: partial reconstruction efficiency of a DBA; maximum memory requirement of a DBA
// (normalized to a
//          BF).
// Claim:   A (2^-14, 64 filters, k = 20) 5.7e5 keys/s for cardinality 1 and 4.9e5 for large ones; B
// (three
//          times the capacity) 5.5e5 to 4.8e5; C (k = 22) 5.2e5 to 4.5e5; two more segments
//          only: 3.1e6 to 2.7e6. Memory: 1.6 times that of one filter at 1,024 filters and ε =
//          1e-5.
// Last:    20 times the paper's rates. Two segments are 6.7 times as fast as all 22 at cardinality
// 1 and 4.4
//          times at 64 (the paper: 6). Whole hash functions make Fig. 10 a staircase: 1.597 where
//          the formula says 1.602.
// Runs:    50 s, 0.2 GB; --quick: 3 s. Output: bench/results/fig09_dba_rebuild.tsv
//
// x: Fig. 9 group cardinality, ours keys per second; filters hold 2^16 keys, 2^13 in the quick run
// (the paper: 2^19). Fig. 10 filters, series ε; theory log_ε(1 - (1-ε)^(1/r)), ours allocated
// memory of 65,536 keys in r filters over that in one.
#include <cmath>

#include "bench/figures.h"
#include "storage/dba/filter_group.h"
#include "storage/dba/maths.h"

namespace {

constexpr uint64_t kSeed = 20261118;
constexpr unsigned kHashes = 20;       // A and B, by eq. 4 and 1
constexpr unsigned kTightHashes = 22;  // C
constexpr double kLog2E = 1.4426950408889634;

uint64_t RowsFor(uint64_t keys) {
  return static_cast<uint64_t>(std::ceil(static_cast<double>(keys) * kLog2E));
}

// Adds the keys of all filters, one filter after the other.
void Fill(kbf::FilterGroup* group, uint64_t keys_per_filter) {
  uint64_t number = 0;
  for (unsigned filter = 0; filter < group->shape().cardinality; ++filter) {
    for (uint64_t i = 0; i < keys_per_filter; ++i) {
      group->Add(filter, bench::FigureKey(kSeed, number++));
    }
  }
}

struct Configuration {
  const char* name;
  unsigned capacity_times;
  unsigned hashes;
  bool segments_only;
  double paper_at_1, paper_at_64;
};
constexpr Configuration kConfigurations[] = {
    {"A", 1, kHashes, false, 5.7e5, 4.9e5},
    {"B", 3, kHashes, false, 5.5e5, 4.8e5},
    {"C", 1, kTightHashes, false, 5.2e5, 4.5e5},
    {"C, new segments only", 1, kTightHashes, true, 3.1e6, 2.7e6}};

void Rebuild(const Configuration& c, unsigned cardinality, uint64_t keys_per_filter) {
  const uint64_t rows = RowsFor(keys_per_filter * c.capacity_times);
  auto group =
      kbf::FilterGroup::Create({cardinality, rows, c.segments_only ? kHashes : c.hashes}).value();
  if (c.segments_only) group = group.MoreSegments(c.hashes - kHashes).value();
  const double keys = static_cast<double>(keys_per_filter) * cardinality;
  // The first, which is not counted, takes the page faults.
  const auto spread = bench::MeasureCpuSeconds(3, [&] { Fill(&group, keys_per_filter); });
  bench::PrintFigureRow("[DBA] Fig. 9",
                        {.series = c.name,
                         .x = static_cast<double>(cardinality),
                         .ours = keys / spread.median,
                         .deviation = (keys / spread.low - keys / spread.high) / 2,
                         .paper = cardinality == 1    ? c.paper_at_1
                                  : cardinality == 64 ? c.paper_at_64
                                                      : bench::kNone,
                         .bits_per_key = 8 * static_cast<double>(group.memory_bytes()) / keys});
}

double MemoryOf(unsigned filters, double error_rate) {
  constexpr uint64_t kKeys = 65'536;
  const unsigned hashes = kbf::DbaNumHashes(kbf::DbaFilterErrorRate(error_rate, filters));
  return static_cast<double>(
      kbf::FilterGroup::Create({filters, RowsFor(kKeys / filters), hashes}).value().memory_bytes());
}

void Memory() {
  for (const double error_rate : {1e-1, 1e-2, 1e-3, 1e-4, 1e-5}) {
    char series[32];
    std::snprintf(series, sizeof(series), "error rate %g", error_rate);
    for (unsigned filters = 1; filters <= 1024; filters *= 2) {
      bench::PrintFigureRow(
          "[DBA] Fig. 10",
          {.series = series,
           .x = static_cast<double>(filters),
           .theory = kbf::DbaMemoryRatio(error_rate, filters),
           .ours = MemoryOf(filters, error_rate) / MemoryOf(1, error_rate),
           .paper_theory = filters == 1024 && error_rate == 1e-5 ? 1.6 : bench::kNone});
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  const bool quick = bench::QuickRun(argc, argv);
  bench::PrintHead(argc, argv, "[DBA] Fig. 9, 10: rebuilding a group, and memory of a DBA", kSeed);
  bench::PrintFigureColumns();
  for (const Configuration& c : kConfigurations) {
    for (const unsigned cardinality : {1u, 8u, 16u, 32u, 64u}) {
      Rebuild(c, cardinality, quick ? 1 << 13 : 1 << 16);
    }
  }
  Memory();
}
