// [MPCBF] Fig. 7, 12 and Tables I, II, III: false positive rates and processing overhead of CBF,
// PCBF-1, PCBF-2, MPCBF-1 and MPCBF-2 at the same memory.
//
// Caption: false positive rates with k = 3 and k = 4; query and update overhead with k = 3 and k =
// 4;
//          false positive rates and processing overhead with k = 3 on IP traces.
// Claim:   8 Mb, k = 4: 2.9e-4 (CBF) against 1.75e-5 (MPCBF-2); k = 3: a factor of 13 to the CBF
// and of
//          23.2 to the PCBF; accesses and bits as in the rows; traces, 8 to 16 Mb: CBF 0.66 to
//          0.083 %, MPCBF-2 0.15 to 0.012 %; no word overflows with eq. 11.
// Last:    see the rows and "Judgement" below. Up to three words of 125,000 overflow by eq. 11 (2.7
// are
//          expected where g does not divide k, 0.3 to 0.9 elsewhere); the side table keeps them
//          exact.
// Runs:    100 s, 50 MB; --quick: 9 s. Output: bench/results/fig07_mpcbf_rates.tsv
//
// Judgement: a CBF of 2,000,000 counters, 100,000 keys and k = 4 has 1.08e-3 by eq. 1, and so it
// has here. The paper's 2.9e-4 is 0.27 of that and its other rates are 0.27 to 0.35 of theirs: they
// count all queries, of which most ask for stored keys. Rows "of all queries" take the share of
// absent keys in the paper's text, 0.2; those of the trace its own. The factors do not depend on
// that: with k = 3 MPCBF-2 is 16 times better than a CBF (the paper: 13) and 24 times better than
// PCBF-2 (23.2), with k = 4 21 times (16.6). Accesses are the paper's, bits within 3; an update is
// half insertion, half deletion.
//
// x: memory in Mb (10^6 bits); tables k. Tables I and II at 8 Mb, of whose 17-bit word addresses
// the paper's bits are made. Table III is at 16 Mb. The trace is generated: 292,363 flows with
// Zipf(1) popularity, 5,585,633 queries, 200,000 random flows stored. "trace mix" rows have the 47
// % of queries for stored flows that fit the paper's accesses; a random choice of 200,000 flows
// gives 68 %.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "bench/membership_figures.h"

namespace {

constexpr uint64_t kSeed = 20261118;
constexpr uint64_t kKeys = 100'000;
constexpr uint64_t kFlows = 292'363;
constexpr uint64_t kStoredFlows = 200'000;
constexpr uint64_t kPackets = 5'585'633;
constexpr double kAbsentShare = 0.2;
using Kind = bench::Structure::Kind;

struct Sample {
  int filters;
  uint64_t asked;
  int traces;
};

std::vector<bench::Structure> Structures(unsigned k, uint64_t memory_bits, uint64_t keys) {
  std::vector<bench::Structure> all;
  for (const auto& [kind, g] : {std::pair{Kind::kCbf, k},
                                {Kind::kPcbf, 1u},
                                {Kind::kPcbf, 2u},
                                {Kind::kMpcbf, 1u},
                                {Kind::kMpcbf, 2u}}) {
    all.push_back({.kind = kind,
                   .num_hashes = k,
                   .num_accesses = g,
                   .memory_bits = memory_bits,
                   .keys = keys});
  }
  return all;
}

// The paper's rates that its text names.
double PaperRate(unsigned k, uint64_t mb, const std::string& name) {
  if (k == 4 && mb == 8 && name == "CBF") return 2.9e-4;
  if (k == 4 && mb == 8 && name == "MPCBF-2") return 1.75e-5;
  return bench::kNone;
}

void Rates(unsigned k, uint64_t mb, const Sample& sample) {
  std::vector<std::pair<std::string, double>> theories;
  for (const bench::Structure& s : Structures(k, mb * 1'000'000, kKeys)) {
    const double theory = bench::Filter(s).Theory();
    const auto measured = bench::MeasureRate(s, sample.filters, sample.asked, kSeed + mb * 16 + k);
    const std::string series = s.Name() + " k=" + std::to_string(k);
    const auto x = static_cast<double>(mb);
    bench::PrintFigureRow("[MPCBF] Fig. 7", {.series = series,
                                             .x = x,
                                             .theory = theory,
                                             .ours = measured.rate,
                                             .deviation = measured.deviation,
                                             .bits_per_key = measured.bits_per_key});
    bench::PrintFigureRow("[MPCBF] Fig. 7", {.series = series + ", of all queries",
                                             .x = x,
                                             .theory = kAbsentShare * theory,
                                             .ours = kAbsentShare * measured.rate,
                                             .deviation = kAbsentShare * measured.deviation,
                                             .paper = PaperRate(k, mb, s.Name()),
                                             .bits_per_key = measured.bits_per_key});
    if (s.kind == Kind::kMpcbf) {
      bench::PrintFigureRow(
          "[MPCBF] Fig. 7, words that overflowed",
          {.series = series,
           .x = x,
           .theory = kbf::OverflowChance(kKeys, bench::Filter(s).shape(),
                                         64 - bench::Filter(s).shape().positions) *
                     static_cast<double>(s.memory_bits) / 64,
           .ours = measured.overflowed_words,
           .paper = 0});
    }
    theories.emplace_back(s.Name(), measured.rate);
  }
  if (mb != 8) return;
  const double mpcbf2 = theories.back().second;
  for (const auto& [name, paper] : {std::pair{std::string("CBF"), k == 3 ? 13 : 2.9e-4 / 1.75e-5},
                                    {std::string("PCBF-2"), k == 3 ? 23.2 : bench::kNone}}) {
    for (const auto& [other, rate] : theories) {
      if (other != name) continue;
      bench::PrintFigureRow("[MPCBF] Fig. 7, factor to MPCBF-2",
                            {.series = name + " k=" + std::to_string(k),
                             .x = 8,
                             .ours = rate / mpcbf2,
                             .paper = paper});
    }
  }
}

struct PaperCost {
  double accesses, bits;
};
void CostRows(const char* table, const std::string& series, double x,
              const bench::MeasuredCost& cost, const PaperCost& paper) {
  bench::PrintFigureRow(std::string(table) + ", accesses",
                        {.series = series, .x = x, .ours = cost.accesses, .paper = paper.accesses});
  bench::PrintFigureRow(std::string(table) + ", bits",
                        {.series = series, .x = x, .ours = cost.bits, .paper = paper.bits});
}

void Tables1And2(unsigned k, uint64_t asked) {
  // In the order of Structures().
  const PaperCost query[2][5] = {{{2.6, 55}, {1.0, 28}, {1.8, 41}, {1.0, 33}, {1.8, 46}},
                                 {{3.5, 72}, {1.0, 31}, {1.8, 45}, {1.0, 35}, {1.8, 51}}};
  const PaperCost update[2][5] = {{{3.0, 63}, {1.0, 29}, {2.0, 46}, {1.0, 36}, {2.0, 52}},
                                  {{4.0, 84}, {1.0, 33}, {2.0, 50}, {1.0, 40}, {2.0, 59}}};
  const auto structures = Structures(k, 8'000'000, kKeys);
  for (size_t i = 0; i < structures.size(); ++i) {
    const bench::Structure& s = structures[i];
    CostRows("[MPCBF] Table I", s.Name(), k,
             bench::MeasureQueries(s, 1 - kAbsentShare, asked, kSeed), query[k - 3][i]);
    CostRows("[MPCBF] Table II", s.Name(), k, bench::MeasureUpdates(s, kSeed), update[k - 3][i]);
  }
}

// Packets of each flow: by Zipf's law with exponent 1.
std::vector<double> MakeTrace() {
  std::vector<double> cumulated;
  double sum = 0;
  for (uint64_t rank = 1; rank <= kFlows; ++rank) {
    sum += 1 / static_cast<double>(rank);
    cumulated.push_back(sum);
  }
  std::vector<double> packets(kFlows, 0);
  for (uint64_t packet = 0; packet < kPackets; ++packet) {
    const double at = static_cast<double>(kbf::Mix64(kSeed + packet) >> 11) * 0x1p-53 * sum;
    const auto flow = std::lower_bound(cumulated.begin(), cumulated.end(), at);
    ++packets[static_cast<size_t>(flow - cumulated.begin())];
  }
  return packets;
}

std::vector<bool> ChooseStored() {
  std::vector<uint64_t> flows(kFlows);
  std::iota(flows.begin(), flows.end(), 0);
  std::sort(flows.begin(), flows.end(),
            [](uint64_t a, uint64_t b) { return kbf::Mix64(a ^ kSeed) < kbf::Mix64(b ^ kSeed); });
  std::vector<bool> stored(kFlows, false);
  for (uint64_t i = 0; i < kStoredFlows; ++i) stored[flows[i]] = true;
  return stored;
}

struct TraceResult {
  bench::Running absent_rate;  // of absent flows, each asked once
  bench::Running all_rate;     // of all packets
  bench::Running accesses, bits;
};
// Every packet of a flow is answered alike, so each flow is asked once.
void RunTrace(const bench::Structure& s, const std::vector<double>& packets,
              const std::vector<bool>& stored, uint64_t seed, TraceResult* result) {
  bench::Filter filter(s);
  for (uint64_t flow = 0; flow < kFlows; ++flow) {
    if (stored[flow]) filter.Insert(bench::FigureKey(seed, flow));
  }
  double accesses = 0, bits = 0, wrong_flows = 0, wrong_packets = 0;
  for (uint64_t flow = 0; flow < kFlows; ++flow) {
    const kbf::KeyHash key = bench::FigureKey(seed, flow);
    const kbf::AccessCost cost = filter.QueryCost(key);
    accesses += packets[flow] * cost.words;
    bits += packets[flow] * cost.bits;
    const bool wrong = !stored[flow] && filter.MayContain(key);
    wrong_flows += wrong;
    wrong_packets += wrong ? packets[flow] : 0;
  }
  result->absent_rate.Add(wrong_flows / static_cast<double>(kFlows - kStoredFlows));
  result->all_rate.Add(wrong_packets / static_cast<double>(kPackets));
  result->accesses.Add(accesses / static_cast<double>(kPackets));
  result->bits.Add(bits / static_cast<double>(kPackets));
}

double PaperTraceRate(uint64_t mb, const std::string& name) {
  if (name == "CBF") return mb == 8 ? 0.0066 : mb == 16 ? 0.00083 : bench::kNone;
  if (name == "MPCBF-2") return mb == 8 ? 0.0015 : mb == 16 ? 0.00012 : bench::kNone;
  return bench::kNone;
}

void Traces(const Sample& sample) {
  const std::vector<double> packets = MakeTrace();
  const std::vector<bool> stored = ChooseStored();
  double absent_share = 0;
  for (uint64_t flow = 0; flow < kFlows; ++flow) absent_share += stored[flow] ? 0 : packets[flow];
  absent_share /= static_cast<double>(kPackets);
  const PaperCost table3[5] = {{2.1, 46}, {1.0, 26}, {1.5, 36}, {1.0, 28}, {1.5, 39}};
  const PaperCost table3_update[5] = {{3.0, 66}, {1.0, 30}, {2.0, 48}, {1.0, 36}, {2.0, 56}};
  for (uint64_t mb = 8; mb <= 16; mb += 2) {
    const auto structures = Structures(3, mb * 1'000'000, kStoredFlows);
    for (size_t i = 0; i < structures.size(); ++i) {
      const bench::Structure& s = structures[i];
      TraceResult result;
      for (int run = 0; run < sample.traces; ++run) {
        RunTrace(s, packets, stored, kSeed + static_cast<uint64_t>(run), &result);
      }
      const double theory = bench::Filter(s).Theory();
      const double bits_per_key = bench::Filter(s).BitsPerKey();
      bench::PrintFigureRow("[MPCBF] Fig. 12", {.series = s.Name(),
                                                .x = static_cast<double>(mb),
                                                .theory = theory,
                                                .ours = result.absent_rate.mean(),
                                                .deviation = result.absent_rate.deviation(),
                                                .bits_per_key = bits_per_key});
      bench::PrintFigureRow("[MPCBF] Fig. 12", {.series = s.Name() + ", of all queries",
                                                .x = static_cast<double>(mb),
                                                .theory = absent_share * theory,
                                                .ours = result.all_rate.mean(),
                                                .deviation = result.all_rate.deviation(),
                                                .paper = PaperTraceRate(mb, s.Name()),
                                                .bits_per_key = bits_per_key});
      if (mb != 16) continue;
      CostRows("[MPCBF] Table III, query", s.Name() + " generated trace", 3,
               {result.accesses.mean(), result.bits.mean()}, table3[i]);
      CostRows("[MPCBF] Table III, query", s.Name() + " trace mix", 3,
               bench::MeasureQueries(s, 0.47, 300'000, kSeed), table3[i]);
      CostRows("[MPCBF] Table III, update", s.Name(), 3, bench::MeasureUpdates(s, kSeed),
               table3_update[i]);
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  const bool quick = bench::QuickRun(argc, argv);
  bench::PrintHead(
      argc, argv,
      "[MPCBF] Fig. 7, 12, Tables I-III: false positives, accesses and bits of CBF, PCBF-g, "
      "MPCBF-g",
      kSeed);
  bench::PrintFigureColumns();
  const Sample sample = quick ? Sample{1, 500'000, 2} : Sample{10, 1'000'000, 20};
  for (const unsigned k : {3u, 4u}) {
    for (uint64_t mb = 4; mb <= 8; ++mb) Rates(k, mb, sample);
  }
  for (const unsigned k : {3u, 4u}) Tables1And2(k, quick ? 300'000 : 1'000'000);
  Traces(sample);
}
