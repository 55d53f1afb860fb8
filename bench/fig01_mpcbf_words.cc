// [MPCBF] Fig. 1, 3 and 4: the examples of CBF and PCBF-1, of an HCBF and an improved HCBF in a
// word, and of an MPCBF of four words.
//
// Caption: CBF and PCBF-1 with n = 6, m = 16, k = 3; HCBF and improved HCBF in a word; MPCBF-1 with
// four
//          improved HCBFs.
// Claim:   three accesses and 12 bits of hash in a CBF, one access and 8 bits in PCBF-1; the first
// level
//          has 8 bits, level 2 four bits, level 3 two after x_0 and x_5; the improved word is full.
// Last:    all as in the paper. Four words of 16 bits with 6 keys as in Fig. 4: see the rows; which
// words
//          are full depends on the hash functions.
// Runs:    0.01 s. Output: bench/results/fig01_mpcbf_words.tsv
//
// x: Fig. 3 the level, Fig. 4 the word. ours: bits.
#include <algorithm>
#include <vector>

#include "bench/membership_figures.h"
#include "storage/membership/hcbf.h"

namespace {

constexpr uint64_t kSeed = 20261118;

// Sizes of the levels of a word: the ones of a level are the size of the next.
std::vector<unsigned> LevelSizes(const kbf::Hcbf& hcbf, uint64_t word) {
  std::vector<unsigned> sizes{hcbf.first_level()};
  unsigned deepest = 0;
  for (unsigned at = 0; at < hcbf.first_level(); ++at) {
    const unsigned count = hcbf.Count(word, at);
    deepest = std::max(deepest, count);
  }
  for (unsigned level = 1; level <= deepest; ++level) {
    unsigned size = 0;
    for (unsigned at = 0; at < hcbf.first_level(); ++at) size += hcbf.Count(word, at) >= level;
    sizes.push_back(size);
  }
  return sizes;
}

void WordExample(const char* figure, unsigned first_level, const std::vector<unsigned>& positions,
                 const std::vector<double>& paper) {
  const kbf::Hcbf hcbf(16, first_level);
  uint64_t word = 0;
  for (const unsigned position : positions) {
    if (!hcbf.Increment(&word, position)) std::abort();
  }
  const auto sizes = LevelSizes(hcbf, word);
  for (size_t level = 0; level < sizes.size(); ++level) {
    bench::PrintFigureRow(figure, {.series = "bits of the level",
                                   .x = static_cast<double>(level + 1),
                                   .ours = static_cast<double>(sizes[level]),
                                   .paper = paper[level]});
  }
  bench::PrintFigureRow(figure, {.series = "unused bits",
                                 .ours = 16.0 - hcbf.Used(word),
                                 .paper = first_level == 10 ? 0.0 : 2.0});
}

void Accesses(bench::Structure::Kind kind, double paper_accesses, double paper_bits) {
  const bench::Structure s{
      .kind = kind, .num_hashes = 3, .word_bits = 16, .memory_bits = 64, .keys = 6};
  const bench::Filter filter(s);
  const kbf::AccessCost cost = filter.UpdateCost(bench::FigureKey(kSeed, 0));
  bench::PrintFigureRow(
      "[MPCBF] Fig. 1, accesses",
      {.series = s.Name(), .ours = static_cast<double>(cost.words), .paper = paper_accesses});
  bench::PrintFigureRow(
      "[MPCBF] Fig. 1, bits of hash functions",
      {.series = s.Name(), .ours = static_cast<double>(cost.bits), .paper = paper_bits});
}

void FourWords() {
  auto filter =
      kbf::Mpcbf::Create({.keys = 6, .memory_bits = 64, .word_bits = 16, .first_level = 10})
          .value();
  for (uint64_t i = 0; i < 6; ++i) filter.Insert(bench::FigureKey(kSeed, i));
  for (uint64_t word = 0; word < 4; ++word) {
    unsigned used = 10;
    for (unsigned at = 0; at < 10; ++at) used += filter.CounterAt(word, at);
    bench::PrintFigureRow("[MPCBF] Fig. 4", {.series = "bits used, side table included",
                                             .x = static_cast<double>(word),
                                             .ours = static_cast<double>(used)});
  }
  bench::PrintFigureRow("[MPCBF] Fig. 4", {.series = "words that overflowed",
                                           .ours = static_cast<double>(filter.overflowed_words())});
}

}  // namespace

int main(int argc, char** argv) {
  bench::PrintHead(argc, argv, "[MPCBF] Fig. 1, 3, 4: examples of CBF, PCBF-1, HCBF and MPCBF-1",
                   kSeed);
  bench::PrintFigureColumns();
  Accesses(bench::Structure::Kind::kCbf, 3, 12);
  Accesses(bench::Structure::Kind::kPcbf, 1, 8);
  WordExample("[MPCBF] Fig. 3(a)", 8, {0, 2, 4, 7, 4, 2}, {8, 4, 2});
  WordExample("[MPCBF] Fig. 3(b)", 10, {0, 2, 4, 4, 6, 8}, {10, 5, 1});
  FourWords();
}
