// [kBF] Fig. 17 and 18: false negatives and memory of the ways to decode, in a filter of half its
// size.
//
// Claim:   decode23 beside decode22 leaves almost ten times fewer false negatives and takes 21 %
// more
//          memory on average.
// Last:    8 times fewer with p = 1e-3, ten with 1e-4; intersection leaves 60 times fewer again. B2
// as a
//          bitmap of 2^28 bits adds 7.6 % of memory, as a Bloom filter 2.8 %.
// Runs:    15 min, 0.7 GB; --quick: 8 s. Output: bench/results/fig17_kbf_decoding.tsv
//
// x: -log10 p. "intersection" is the three-item decoding of [kBF-conf] §III.F over all cells. Fig.
// 18 in MB (10^6 bytes): the cells and the bitmap B1 of encodings; decode23 and intersection also
// need B2, all pairs. As Bloom filters at the rate p, B1 and B2 would take "with Bloom filters".
#include "bench/kbf_figures.h"

namespace {

struct Choice {
  const char* name;
  kbf::PaperChoices choices;
};
constexpr Choice kChoices[] = {{"decode22", kbf::PaperChoices::kFirst},
                               {"decode22, else decode23", kbf::PaperChoices::kBoth},
                               {"intersection", kbf::PaperChoices::kIntersection}};

double BloomBytes(double entries, double p) {
  return entries * -std::log(p) / (std::log(2) * std::log(2)) / 8;
}

void Decode(uint64_t keys, double p) {
  bench::PaperFilter filter(keys, p, 0.5);
  for (uint64_t i = 0; i < keys; ++i) filter.Insert(i);
  const double x = -std::log10(p);
  const kbf::EncodingSet& set = *bench::PaperEncodings();
  const double cells = static_cast<double>(filter.memory_bytes());
  // At the paper's number of keys, whose cells are what the bitmaps are compared with.
  const double scale = 10e6 / static_cast<double>(keys);
  for (const auto& [name, choices] : kChoices) {
    const auto errors = bench::QueryPairs(
        0, keys, 0, [&](const kbf::KeyHash& key) { return filter.Query(key, choices); });
    const bool first = choices == kbf::PaperChoices::kFirst;
    bench::PrintFigureRow(
        "[kBF] Fig. 17",
        {.series = name,
         .x = x,
         .theory =
             first ? kbf::StoredNotDecodable(filter.rho(), filter.num_hashes(), bench::kPaperValues)
                   : bench::kNone,
         .ours = errors.false_negative,
         .deviation = errors.deviation,
         .bits_per_key = 8 * cells / static_cast<double>(keys)});
    bench::PrintFigureRow("[kBF] Fig. 17, wrong values",
                          {.series = name, .x = x, .ours = errors.wrong});
    const double bitmaps = static_cast<double>(set.encoding_bitmap_bytes()) +
                           (first ? 0 : static_cast<double>(set.pair_bitmap_bytes()));
    const double pairs = 0.5 * bench::kPaperValues * (bench::kPaperValues - 1);
    bench::PrintFigureRow("[kBF] Fig. 18",
                          {.series = name, .x = x, .ours = (cells * scale + bitmaps) / 1e6});
    bench::PrintFigureRow(
        "[kBF] Fig. 18",
        {.series = std::string(name) + ", with Bloom filters",
         .x = x,
         .ours = (cells * scale + BloomBytes(bench::kPaperValues + (first ? 0 : pairs), p)) / 1e6});
  }
}

// What B2 adds, at the paper's number of keys.
void Overhead(double p) {
  const kbf::EncodingSet& set = *bench::PaperEncodings();
  const double cells =
      static_cast<double>(bench::PaperFilter(1'000'000, p, 0.5).memory_bytes()) * 10;
  const auto b1 = static_cast<double>(set.encoding_bitmap_bytes());
  const auto b2 = static_cast<double>(set.pair_bitmap_bytes());
  const double pairs = 0.5 * bench::kPaperValues * (bench::kPaperValues - 1);
  const double x = -std::log10(p);
  bench::PrintFigureRow("[kBF] Fig. 18, both over decode22",
                        {.series = "bitmaps", .x = x, .ours = 1 + b2 / (cells + b1)});
  bench::PrintFigureRow(
      "[kBF] Fig. 18, both over decode22",
      {.series = "Bloom filters",
       .x = x,
       .ours = 1 + BloomBytes(pairs, p) / (cells + BloomBytes(bench::kPaperValues, p))});
}

}  // namespace

int main(int argc, char** argv) {
  const bool quick = bench::QuickRun(argc, argv);
  const uint64_t keys = bench::PaperKeys(quick);
  bench::PrintHead(argc, argv, "[kBF] Fig. 17, 18: ways to decode in a filter of size m/2",
                   bench::kKbfSeed);
  bench::PrintFigureColumns();
  for (const double p : bench::kPaperRates) {
    Decode(keys, p);
    Overhead(p);
  }
  bench::DefaultFilter ours(keys, 0.5);
  for (uint64_t i = 0; i < keys; ++i) ours.Insert(i);
  const auto errors =
      bench::QueryPairs(0, keys, 0, [&](const kbf::KeyHash& key) { return ours.Query(key); });
  const double megabytes =
      static_cast<double>(ours.memory_bytes()) * 10e6 / static_cast<double>(keys) / 1e6;
  for (const double p : bench::kPaperRates) {
    bench::PrintFigureRow("[kBF] Fig. 17", {.series = "our default at half its size",
                                            .x = -std::log10(p),
                                            .theory = ours.Predicted().false_negative,
                                            .ours = errors.false_negative,
                                            .deviation = errors.deviation});
    bench::PrintFigureRow(
        "[kBF] Fig. 18",
        {.series = "our default at half its size", .x = -std::log10(p), .ours = megabytes});
  }
}
