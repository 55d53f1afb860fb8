// [kBF] Fig. 2 and 3: how many encodings fit in P bits, and where an encoding stands in the table.
//
// Claim:   the greedy search comes close to what counting allows: 16,384 encodings in 30 bits,
//          where 28 are the least. A parabola, 92884900 + 32952.9 x + 1.151 x², finds one of 10,000
//          encodings in 3 reads of the table, binary search in 14.
// Last:    not reproduced. Algorithm 1, done exactly, gives 5,376 encodings in 30 bits; the BCH
//          encodings x || x^3 that the store uses give 32,767. The regression needs 1 read on
//          those, which lie on a line; 3.1 on random numbers along the papers' parabola, as
//          published; and more than binary search, 12.5 to 11.5, on the greedy ones, which follow
//          no parabola.
// Runs:    80 s and 200 MB on one core, quick or not. Output: bench/results/fig02_encodings.tsv
//
// x: Fig. 2 number of encodings, ours and theory bits; Fig. 3 index in the table, ours the
// encoding, theory the fitted parabola. "reads": x is the size of the table. No randomness.
#include <algorithm>
#include <cmath>
#include <string>
#include <tuple>
#include <vector>

#include "bench/figures.h"
#include "storage/gf2.h"
#include "storage/maths.h"
#include "storage/paper/encoding_table.h"
#include "storage/paper/greedy_encodings.h"

namespace {

constexpr unsigned kBitsMin = 6;
constexpr unsigned kBitsMax = 30;
constexpr double kClaimed = 16'384;
constexpr size_t kTableSize = 10'000;
using Table = kbf::EncodingTable;
constexpr Table::Parabola kPapers{92'884'900, 32'952.9, 1.151};

// The BCH encodings of 30 bits in ascending order: x in the high half, x^3 in the low one.
std::vector<uint32_t> BchEncodings(size_t count) {
  const kbf::TableField field = kbf::TableField::Get(15);
  std::vector<uint32_t> encodings;
  for (uint32_t x = 1; x <= count; ++x) encodings.push_back(x << 15 | field.Cube(x));
  return encodings;
}

double At(const Table::Parabola& f, double x) { return f.a + f.b * x + f.c * x * x; }

// Numbers whose distances are random, evenly in (0, 2 f'(x)), around the slope f' of the papers'
// parabola. They are no encodings; they show what its index would cost on a list of that shape
// without any further order.
std::vector<uint32_t> LikeThePapers(size_t count) {
  std::vector<uint32_t> numbers;
  double y = kPapers.a;
  for (size_t x = 0; x < count; ++x) {
    numbers.push_back(static_cast<uint32_t>(y));
    const double uniform = static_cast<double>(kbf::Mix64(x + 1) >> 11) * 0x1p-53;
    y += 1 + 2 * uniform * (kPapers.b + 2 * kPapers.c * static_cast<double>(x));
  }
  return numbers;
}

// A search in fewer bits gives a prefix of the same list.
size_t CountBelow(const std::vector<uint32_t>& ascending, unsigned bits) {
  return static_cast<size_t>(std::ranges::lower_bound(ascending, uint64_t{1} << bits) -
                             ascending.begin());
}

void Counts(const std::vector<uint32_t>& greedy) {
  for (unsigned bits = kBitsMin; bits <= kBitsMax; ++bits) {
    const auto count = static_cast<double>(CountBelow(greedy, bits));
    bench::PrintFigureRow("[kBF] Fig. 2",
                          {.series = "paper mode: greedy", .x = count, .ours = bits * 1.0});
    bench::PrintFigureRow("[kBF] Fig. 2, encodings",
                          {.series = "paper mode: greedy",
                           .x = bits * 1.0,
                           .theory = static_cast<double>(kbf::EncodingsUpperBound(bits)),
                           .ours = count,
                           .paper = bits == kBitsMax ? kClaimed : bench::kNone});
    if (bits % 2 == 0) {
      const double bch = std::exp2(bits / 2) - 1;
      bench::PrintFigureRow("[kBF] Fig. 2",
                            {.series = "our default: BCH", .x = bch, .ours = bits * 1.0});
      bench::PrintFigureRow("[kBF] Fig. 2, encodings",
                            {.series = "our default: BCH", .x = bits * 1.0, .ours = bch});
    }
    const auto limit = static_cast<double>(kbf::EncodingsUpperBound(bits));
    bench::PrintFigureRow("[kBF] Fig. 2",
                          {.series = "least by counting", .x = limit, .theory = bits * 1.0});
  }
  bench::PrintFigureRow("[kBF] Fig. 2",
                        {.series = "the paper's greedy", .x = kClaimed, .paper = 30});
  bench::PrintFigureRow(
      "[kBF] Fig. 2, least bits",
      {.series = "by counting",
       .x = kClaimed,
       .theory = kbf::EncodingBitsLowerBound(static_cast<uint64_t>(kClaimed)) * 1.0,
       .paper_theory = 28});
}

void Reads(const std::string& name, const std::vector<uint32_t>& encodings, double paper,
           double paper_binary) {
  std::vector<Table::Entry> entries;
  for (const uint32_t e : encodings) entries.push_back({e, static_cast<uint32_t>(entries.size())});
  const auto table = Table::Create(std::move(entries)).value();
  const auto size = static_cast<double>(table.size());
  for (size_t i = 0; i < encodings.size(); i += encodings.size() / 100) {
    bench::PrintFigureRow("[kBF] Fig. 3", {.series = name,
                                           .x = static_cast<double>(i),
                                           .theory = At(table.parabola(), static_cast<double>(i)),
                                           .ours = static_cast<double>(encodings[i])});
  }
  for (const auto& [coefficient, ours, papers] : {std::tuple{"a", table.parabola().a, kPapers.a},
                                                  {"b", table.parabola().b, kPapers.b},
                                                  {"c", table.parabola().c, kPapers.c}}) {
    bench::PrintFigureRow(
        "[kBF] Fig. 3, parabola",
        {.series = name + ", " + coefficient, .x = size, .ours = ours, .paper = papers});
  }
  for (const auto& [way, reads, papers] :
       {std::tuple{"regression", table.MeanAccessesByRegression(), paper},
        {"regression, local step", table.MeanAccessesByRegression(Table::Walk::kLocalStep),
         bench::kNone},
        {"binary search", table.MeanAccessesByBinarySearch(), paper_binary}}) {
    bench::PrintFigureRow("[kBF] Fig. 3, reads",
                          {.series = name + ", " + way, .x = size, .ours = reads, .paper = papers});
  }
}

// The index that the papers' parabola gives for the encoding of their example.
void Example() {
  constexpr double kEncoding = 237'551'267;
  const double root = std::sqrt(kPapers.b * kPapers.b + 4 * kPapers.c * (kEncoding - kPapers.a));
  bench::PrintFigureRow("[kBF] Fig. 3, example", {.series = "first index",
                                                  .x = kEncoding,
                                                  .theory = (root - kPapers.b) / (2 * kPapers.c),
                                                  .paper_theory = 3868});
}

}  // namespace

int main(int argc, char** argv) {
  bench::PrintHead(argc, argv, "[kBF] Fig. 2, 3: encodings in a number of bits, and their table",
                   0);
  bench::PrintFigureColumns();
  const std::vector<uint32_t> greedy = kbf::GreedyEncodings(SIZE_MAX, kBitsMax);
  Counts(greedy);
  Reads("paper mode: greedy, 29 bits",
        {greedy.begin(), greedy.begin() + static_cast<long>(CountBelow(greedy, 29))}, bench::kNone,
        bench::kNone);
  Reads("our default: BCH, 30 bits", BchEncodings(kTableSize), bench::kNone, bench::kNone);
  Reads("random along the papers' parabola", LikeThePapers(kTableSize), 3, 14);
  Example();
}
