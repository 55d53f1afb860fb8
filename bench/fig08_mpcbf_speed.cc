// [MPCBF] Fig. 8: execution time of 1,000,000 queries with k = 3.
//
// Claim:   about constant over the memory; PCBF-1 and MPCBF-1 faster than CBF, PCBF-2 and MPCBF-2
// slower,
//          because they compute four hash functions instead of three.
// Last:    in the cache CBF 16.5 ms, PCBF-1 12.4, PCBF-2 14.4, MPCBF-1 11.4, MPCBF-2 13.1; at 200
// Mb, 32 keys
//          together, 26, 13, 18, 14, 17. A key is hashed once here and every further hash function
//          is three multiplications, so MPCBF-2 is faster than a CBF too.
// Runs:    60 s, 0.2 GB; --quick: 8 s. Output: bench/results/fig08_mpcbf_speed.tsv
//
// x: memory in Mb (10^6 bits); ours: milliseconds per 1,000,000 queries, of which 80 % are for
// stored keys, median of the repeats; deviation: half the range. The rows at 4 to 8 Mb have 100,000
// keys as in the paper and lie in the cache; those at 200 Mb and more have 80 bits per key too and
// do not. "batched": 32 keys prefetched together. Keys are hashed before; hashing a key of 20 bytes
// adds about 10 ms per million.
#include <memory>
#include <vector>

#include "bench/membership_figures.h"

namespace {

constexpr uint64_t kSeed = 20261118;
constexpr uint64_t kQueries = 1'000'000;
using Kind = bench::Structure::Kind;

void Time(const bench::Structure& s, uint64_t queries, int repeats) {
  const bench::Filter filter = bench::FilledFilter(s, kSeed);
  std::vector<kbf::KeyHash> keys;
  for (uint64_t i = 0; i < queries; ++i) {
    keys.push_back(i % 5 < 4 ? bench::StoredKey(s, kSeed, kbf::Mix64(i))
                             : bench::AbsentKey(kSeed, i));
  }
  const auto answers = std::make_unique<bool[]>(queries);
  uint64_t single_hits = 0, batched_hits = 0;
  const auto single = bench::MeasureCpuSeconds(repeats, [&] {
    single_hits = 0;
    for (const auto& key : keys) single_hits += filter.MayContain(key);
    bench::Consume(single_hits);
  });
  const auto batched = bench::MeasureCpuSeconds(repeats, [&] {
    filter.MayContainMany(keys, answers.get());
    batched_hits = 0;
    for (uint64_t i = 0; i < queries; ++i) batched_hits += answers[i];
  });
  if (single_hits != batched_hits || single_hits < queries / 5 * 4) std::abort();
  const double scale = 1000 * static_cast<double>(kQueries) / static_cast<double>(queries);
  for (const auto& [mode, spread] : {std::pair{"single", single}, {"batched", batched}}) {
    bench::PrintFigureRow("[MPCBF] Fig. 8", {.series = s.Name() + " " + mode,
                                             .x = static_cast<double>(s.memory_bits) / 1e6,
                                             .ours = scale * spread.median,
                                             .deviation = scale * (spread.high - spread.low) / 2,
                                             .bits_per_key = filter.BitsPerKey()});
  }
}

}  // namespace

int main(int argc, char** argv) {
  const bool quick = bench::QuickRun(argc, argv);
  bench::PrintHead(argc, argv, "[MPCBF] Fig. 8: milliseconds per 1,000,000 queries, k = 3", kSeed);
  bench::PrintFigureColumns();
  std::vector<std::pair<uint64_t, uint64_t>> sizes;  // Mb, keys
  for (const uint64_t mb : {4u, 5u, 6u, 7u, 8u}) sizes.emplace_back(mb, 100'000);
  sizes.emplace_back(200, 2'500'000);
  if (!quick) sizes.emplace_back(800, 10'000'000);
  for (const auto& [mb, keys] : sizes) {
    for (const auto& [kind, g] : {std::pair{Kind::kCbf, 3u},
                                  {Kind::kPcbf, 1u},
                                  {Kind::kPcbf, 2u},
                                  {Kind::kMpcbf, 1u},
                                  {Kind::kMpcbf, 2u}}) {
      Time({.kind = kind,
            .num_hashes = 3,
            .num_accesses = g,
            .memory_bits = mb * 1'000'000,
            .keys = keys},
           quick ? kQueries / 4 : kQueries, quick ? 3 : 9);
    }
  }
}
