// FrequencySketch estimates how often something occurred lately, in fixed memory: a count-min
// sketch of 4-bit counters that are halved from time to time. It stores no keys.
//
//   a cache line:  | row 0: 32 counters | row 1 | row 2 | row 3 |
//
// A key has one counter in each row of its line; the least of the four is the answer.
//
// Promises:  an estimate is never less than the true count since the last halving, up to kCountMax.
//            It is more where other things share all four counters: in a stream of things that
//            occur once, the estimate of a new one is 2 or more with chance 1.1e-3 (16 KB,
//            measured: tests/storage/dictionary_test.cc).
// Requires:  one thread at a time; hashes that are uniform in all 64 bits.
// Costs:     the bytes given, allocated at construction; one cache line per call; a halving touches
//            all lines, every bytes / 8 increments. So a single occurrence is forgotten after that
//            many increments at most.
// Departs:   from TinyLFU, which halves after ten increments per counter: there many things that
//            occur once soon look frequent. Halving after one increment per four counters of a row
//            keeps the chance above small; the price is that counts are forgotten sooner.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "storage/hash.h"

namespace kbf {

class FrequencySketch {
 public:
  static constexpr uint32_t kCountMax = 15;

  // `bytes` is rounded down to cache lines, at least one.
  explicit FrequencySketch(size_t bytes) : lines_(std::max<size_t>(bytes / sizeof(Line), 1)) {}

  size_t memory_bytes() const { return lines_.capacity() * sizeof(Line); }

  // Counts one occurrence and returns the new estimate. Conservative update: only the least
  // counters grow.
  uint32_t Increment(uint64_t hash) {
    if (++increments_ > lines_.size() * kCountersPerRow / 4) Halve();
    const uint64_t word = Mix64(hash);
    Line& line = lines_[ScaleTo(word, lines_.size())];
    uint32_t least = kCountMax;
    for (unsigned row = 0; row < kRows; ++row) least = std::min(least, Count(line, row, word));
    if (least == kCountMax) return least;
    for (unsigned row = 0; row < kRows; ++row) {
      if (Count(line, row, word) == least) line[row * 2 + Half(row, word)] += One(row, word);
    }
    return least + 1;
  }

  uint32_t Estimate(uint64_t hash) const {
    const uint64_t word = Mix64(hash);
    const Line& line = lines_[ScaleTo(word, lines_.size())];
    uint32_t least = kCountMax;
    for (unsigned row = 0; row < kRows; ++row) least = std::min(least, Count(line, row, word));
    return least;
  }

 private:
  static constexpr unsigned kRows = 4;
  static constexpr unsigned kCountersPerRow = 32;
  using Line = std::array<uint64_t, kRows * kCountersPerRow / 16>;
  static_assert(sizeof(Line) == 64);

  // Five low bits of the word per row: which half of the row, and which nibble of it. The line
  // comes from the high bits.
  static unsigned Half(unsigned row, uint64_t word) { return word >> row * 5 & 1; }
  static unsigned Shift(unsigned row, uint64_t word) {
    return static_cast<unsigned>(word >> (row * 5 + 1) & 15) * 4;
  }
  static uint64_t One(unsigned row, uint64_t word) { return uint64_t{1} << Shift(row, word); }
  static uint32_t Count(const Line& line, unsigned row, uint64_t word) {
    return static_cast<uint32_t>(line[row * 2 + Half(row, word)] >> Shift(row, word) & 15);
  }

  void Halve() {
    for (Line& line : lines_) {
      for (uint64_t& counters : line) counters = counters >> 1 & 0x7777777777777777u;
    }
    increments_ = 0;
  }

  std::vector<Line> lines_;
  uint64_t increments_ = 0;  // since the last halving
};

}  // namespace kbf
