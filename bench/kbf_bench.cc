// In-process speed, size and errors of one filter: the default layout, a line-partitioned one,
// 32-bit pairs, and the papers' own.
//
// Claim:   batched queries of 50 M keys run at least 1.8 times as fast as single ones, and decoding
// a pair of BCH encodings
//          is at least 20 times as fast as the papers' scan of 3,000 encodings ([kBF] §3.5).
// Runs:    about 4 minutes and 5 GB with 50 M keys; `kbf_bench 1` measures 1 M keys only, in 30 s.
// Result:  bench/results/kbf_bench.tsv
//
// Keys are 128-bit words from a generator, not hashed strings, so rows show the filter alone.
// Queries ask for stored keys in random order (hit) or for absent keys (miss). `lines` are the
// cache lines that one operation touches.
#include <cmath>
#include <cstdlib>
#include <memory>
#include <optional>
#include <span>

#include "bench/bench.h"
#include "storage/bch.h"
#include "storage/gf2.h"
#include "storage/kbf.h"
#include "storage/maths.h"
#include "storage/paper/greedy_encodings.h"
#include "storage/paper/paper_kbf.h"
#include "storage/planner.h"
#include "storage/symbol_blocks.h"

namespace {

constexpr uint64_t kSeed = 20261118;
constexpr uint32_t kValues = 3000;
constexpr uint64_t kQueries = 2000000;
constexpr int kRepeats = 5;

kbf::KeyHash KeyAt(uint64_t number) {
  return {kbf::Mix64(number + kSeed), kbf::Mix64(~number * 0x9e3779b97f4a7c15u + kSeed)};
}
uint32_t ValueAt(uint64_t number) {
  return static_cast<uint32_t>(kbf::ScaleTo(kbf::Mix64(number ^ 77), kValues));
}

struct Queries {
  std::vector<kbf::KeyHash> hit, miss;
  std::vector<uint32_t> hit_value;
};

Queries MakeQueries(uint64_t keys, uint64_t count) {
  Queries queries;
  for (uint64_t i = 0; i < count; ++i) {
    const uint64_t number = kbf::ScaleTo(kbf::Mix64(i * 3 + 1), keys);
    queries.hit.push_back(KeyAt(number));
    queries.hit_value.push_back(ValueAt(number));
    queries.miss.push_back(KeyAt((uint64_t{1} << 40) + i));
  }
  return queries;
}

struct Row {
  std::string layout;
  uint64_t keys = 0;
  unsigned lines = 0;
  double bytes_per_key = 0;
  double false_negative = 0, false_positive = 0, wrong = 0;           // measured over the queries
  double false_negative_predicted = 0, false_positive_predicted = 0;  // by maths.h
};

void Print(const Row& row, const char* operation, const char* mode, const bench::Spread& seconds,
           double count) {
  std::printf("%s\t%llu\t%s\t%s\t%.0f\t%.1f\t%.1f\t%.1f\t%u\t%.2f\t%.3g\t%.3g\t%.3g\t%.3g\t%.3g\n",
              row.layout.c_str(), static_cast<unsigned long long>(row.keys), operation, mode,
              count / seconds.median, seconds.median / count * 1e9, seconds.low / count * 1e9,
              seconds.high / count * 1e9, row.lines, row.bytes_per_key, row.false_negative,
              row.false_negative_predicted, row.false_positive, row.false_positive_predicted,
              row.wrong);
  std::fflush(stdout);
}

// Returns how many times as fast as single queries the batched ones are, for hits.
double BenchKbf(const char* name, const kbf::KbfLayout& layout, double load, uint64_t keys) {
  kbf::SymbolBlocks blocks(layout.symbol_bits, layout.check_bits);
  const std::vector<double> weights(kValues, 1.0);
  const auto sizes = kbf::ShareBlocks(weights, layout.symbol_bits, layout.check_bits);
  std::vector<kbf::SymbolBlock> block_of(kValues);
  for (const bool large :
       {true, false}) {  // even shares give two sizes at most; the larger go first
    for (uint32_t value = 0; value < kValues; ++value) {
      if ((sizes[value] == sizes[0]) == large)
        block_of[value] = blocks.Allocate(value, sizes[value]).value();
    }
  }
  const auto symbol_of = [&](const kbf::KeyHash& key, uint32_t value) {
    return block_of[value].Choose(kbf::KeyCheck(key));
  };
  const auto create = [&] { return kbf::Kbf::Create({layout, keys, load, 3, 0}).filter; };
  auto filter = create();
  auto twin = create();
  if (!filter || !twin) {
    std::printf("# %s: no memory for %llu keys\n", name, static_cast<unsigned long long>(keys));
    return 0;
  }

  // Filled once: batches of 4,096 keys go to the two filters in turn, one by one and together.
  constexpr uint64_t kBatch = 4096;
  std::vector<kbf::KeyHash> hashes(kBatch);
  std::vector<uint32_t> symbols(kBatch);
  double single_seconds = 0;
  double batched_seconds = 0;
  for (uint64_t begin = 0; begin < keys; begin += kBatch) {
    const uint64_t batch = std::min(kBatch, keys - begin);
    for (uint64_t i = 0; i < batch; ++i) {
      hashes[i] = KeyAt(begin + i);
      symbols[i] = symbol_of(hashes[i], ValueAt(begin + i));
    }
    single_seconds += bench::SecondsOf([&] {
      for (uint64_t i = 0; i < batch; ++i) filter->Insert(hashes[i], symbols[i]);
    });
    batched_seconds += bench::SecondsOf([&] {
      twin->InsertMany({hashes.data(), batch}, {symbols.data(), batch});
    });
  }
  twin.reset();

  const Queries queries = MakeQueries(keys, kQueries);
  std::vector<kbf::QueryResult> results(kQueries);
  const kbf::ErrorRates predicted =
      kbf::PredictErrors(layout, filter->load(), kbf::MatchProbability(weights, sizes));
  Row row{name,
          keys,
          layout.num_lines,
          static_cast<double>(filter->memory_bytes()) / static_cast<double>(keys),
          0,
          0,
          0,
          predicted.false_negative,
          predicted.false_positive};
  filter->QueryMany(queries.hit, blocks, results.data());
  for (uint64_t i = 0; i < kQueries; ++i) {
    if (results[i].outcome != kbf::Outcome::kFound) {
      row.false_negative += 1.0 / kQueries;
    } else if (results[i].value != queries.hit_value[i]) {
      row.wrong += 1.0 / kQueries;
    }
  }
  filter->QueryMany(queries.miss, blocks, results.data());
  for (const auto& result : results)
    row.false_positive += (result.outcome == kbf::Outcome::kFound) / double(kQueries);

  const bench::Spread inserted_single{single_seconds, single_seconds, single_seconds};
  const bench::Spread inserted_batched{batched_seconds, batched_seconds, batched_seconds};
  Print(row, "insert", "single", inserted_single, static_cast<double>(keys));
  Print(row, "insert", "batched", inserted_batched, static_cast<double>(keys));
  double ratio = 0;
  for (const auto& [what, asked] :
       {std::pair{"query_hit", &queries.hit}, std::pair{"query_miss", &queries.miss}}) {
    // One answer at a time, each needed before the next question: what a caller without batches
    // sees.
    const auto single = bench::MeasureSeconds(kRepeats, [&] {
      for (const auto& key : *asked) bench::Consume(filter->Query(key, blocks).symbol);
    });
    const auto batched =
        bench::MeasureSeconds(kRepeats, [&] { filter->QueryMany(*asked, blocks, results.data()); });
    Print(row, what, "single", single, kQueries);
    Print(row, what, "batched", batched, kQueries);
    if (ratio == 0) ratio = single.median / batched.median;
  }
  return ratio;
}

void BenchPaper(const std::shared_ptr<const kbf::EncodingSet>& set, uint64_t keys) {
  constexpr unsigned kHashes = 10;                  // p = 1e-3
  constexpr double kLoad = 0.69314718055994530942;  // ρ = 1
  constexpr uint64_t kPaperQueries = kQueries / 10;
  auto filter = kbf::PaperKbf::Create(
      static_cast<size_t>(static_cast<double>(keys) * kHashes / kLoad), kHashes, set);
  if (!filter) return;
  const auto encoding_of = [&](uint64_t number) { return set->encodings()[ValueAt(number)]; };
  const double seconds = bench::SecondsOf([&] {
    for (uint64_t i = 0; i < keys; ++i) (void)filter->Insert(KeyAt(i), encoding_of(i));
  });
  const Queries queries = MakeQueries(keys, kPaperQueries);
  Row row{"papers",
          keys,
          kHashes,
          4.0 * static_cast<double>(filter->num_cells()) / static_cast<double>(keys),
          0,
          0,
          0,
          1 - kbf::GlobalDecodability(1, kHashes),
          std::exp2(-10.0)};
  for (uint64_t i = 0; i < kPaperQueries; ++i) {
    const auto answer = filter->Query(queries.hit[i]);
    if (answer.outcome != kbf::PaperOutcome::kFound) {
      row.false_negative += 1.0 / kPaperQueries;
    } else if (answer.encoding != set->encodings()[queries.hit_value[i]]) {
      row.wrong += 1.0 / kPaperQueries;
    }
    row.false_positive += (filter->Query(queries.miss[i]).outcome == kbf::PaperOutcome::kFound) /
                          double(kPaperQueries);
  }
  Print(row, "insert", "single", {seconds, seconds, seconds}, static_cast<double>(keys));
  for (const auto& [what, asked] :
       {std::pair{"query_hit", &queries.hit}, std::pair{"query_miss", &queries.miss}}) {
    const auto single = bench::MeasureSeconds(3, [&] {
      for (const auto& key : *asked) bench::Consume(filter->Query(key).encoding);
    });
    Print(row, what, "single", single, kPaperQueries);
  }
}

// ns per pair decoded, and how many times as fast as the scan.
void BenchDecoding(const kbf::EncodingSet& set) {
  constexpr uint64_t kPairs = 20000;
  const auto pair_of = [](uint64_t i, uint32_t range) {
    const auto x = static_cast<uint32_t>(1 + kbf::ScaleTo(kbf::Mix64(2 * i), range));
    auto y = static_cast<uint32_t>(1 + kbf::ScaleTo(kbf::Mix64(2 * i + 1), range - 1));
    if (y >= x) ++y;
    return std::pair{x, y};
  };
  const auto measure = [&](auto&& encode, auto&& decode, int rounds) {
    std::vector<uint64_t> words;
    for (uint64_t i = 0; i < kPairs; ++i) words.push_back(encode(i));
    const auto spread = bench::MeasureSeconds(kRepeats, [&] {
      for (int round = 0; round < rounds; ++round) {
        for (const uint64_t word : words) bench::Consume(decode(word));
      }
    });
    return spread.median / (kPairs * rounds) * 1e9;
  };
  const double scan = measure(
      [&](uint64_t i) {
        const auto [x, y] = pair_of(i, kValues);
        return uint64_t{set.encodings()[x - 1] ^ set.encodings()[y - 1]};
      },
      [&](uint64_t word) { return uint64_t{set.Decode2(static_cast<uint32_t>(word)).has_value()}; },
      1);
  std::printf(
      "#\n# decoding one pair of encodings; the scan is decode2 of [kBF] section 3.5 over %u "
      "encodings\n",
      kValues);
  std::printf("decoder\tns_per_pair\ttimes_the_scan\n");
  std::printf("papers_scan\t%.1f\t1\n", scan);
  const auto bch = [&](const char* name, const auto& code) {
    const double ns = measure(
        [&](uint64_t i) {
          const auto [x, y] = pair_of(i, (1u << code.symbol_bits()) - 1);
          return code.Encode(x) ^ code.Encode(y);
        },
        [&](uint64_t word) {
          kbf::Symbols symbols{};
          return uint64_t{code.Decode(word, 2, &symbols)} + symbols[0];
        },
        20);
    std::printf("%s\t%.1f\t%.0f\n", name, ns, scan / ns);
  };
  bch("pair_b14_tables", kbf::PairCode(kbf::TableField::Get(14)));
  bch("pair_b30_portable", kbf::PairCode(kbf::WideField<kbf::PortableClmul>::Get(30)));
  bch("triple_b20_portable", kbf::TripleCode(kbf::WideField<kbf::PortableClmul, 20>::Get(20)));
}

}  // namespace

int main(int argc, char** argv) {
  const long millions_max = argc > 1 ? std::strtol(argv[1], nullptr, 10) : 50;
  if (millions_max < 1 || millions_max > 400) {
    std::fprintf(stderr,
                 "kbf_bench: the argument is the largest filter, in millions of keys, 1 to 400\n");
    return 1;
  }
  bench::PrintHead(
      argc, argv,
      "one filter, in process: speed, bytes and errors; ns columns are median, lowest, highest",
      kSeed);
  std::printf(
      "layout\tkeys\toperation\tmode\tops_per_second\tns\tns_low\tns_high\tlines\tbytes_per_"
      "key\tfalse_negative\t"
      "false_negative_predicted\tfalse_positive\tfalse_positive_predicted\twrong\n");
  const kbf::Plan plan = kbf::MakePlan({}).plan.value();
  const auto set = kbf::EncodingSet::Create(kbf::GreedyEncodings(kValues, 29));
  std::vector<uint64_t> sizes = {1000000};
  if (millions_max > 1) sizes.push_back(static_cast<uint64_t>(millions_max) * 1000000);
  std::vector<std::pair<uint64_t, double>> ratios;
  for (const uint64_t keys : sizes) {
    ratios.emplace_back(keys, BenchKbf("default", plan.layout, plan.load, keys));
    BenchKbf("pair32_k5", {kbf::CellKind::kPair32, 14, 2, 5, 5}, 0.85, keys);
    BenchKbf("pair32_k6_2lines", {kbf::CellKind::kPair32, 14, 2, 6, 2}, 0.85, keys);
    BenchKbf("triple64_k4_2lines", {kbf::CellKind::kTriple64, 20, 8, 4, 2}, 1.0, keys);
    BenchPaper(set, keys);
  }
  std::printf(
      "#\n# batched queries against single ones, hits, default layout\nkeys\ttimes_as_fast\n");
  for (const auto& [keys, ratio] : ratios)
    std::printf("%llu\t%.2f\n", static_cast<unsigned long long>(keys), ratio);
  BenchDecoding(*set);
  return 0;
}
