// SeenFilter remembers which things occurred lately, longer and with less memory than
// FrequencySketch, but not how often: two blocked Bloom filters of which the older one is emptied
// when the younger one is full.
//
//   a cache line of one generation:  | 512 bits, 4 of them per thing |
//
// Promises:  a thing that was added is seen until as many others were added as half of its bytes.
//            Others look seen with chance 5 % at most (measured: tests/storage/dictionary_test.cc).
// Requires:  one thread at a time; hashes that are uniform in all 64 bits.
// Costs:     the bytes given, one per thing that it remembers; two cache lines per call. A change
// of
//            generations clears half of the bytes.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "storage/hash.h"

namespace kbf {

class SeenFilter {
 public:
  // Remembers nothing and takes nothing.
  SeenFilter() = default;
  // Throws std::bad_alloc.
  explicit SeenFilter(size_t bytes)
      : young_(std::max<size_t>(bytes / 2 / sizeof(Line), 1)), old_(young_.size()) {}

  bool empty() const { return young_.empty(); }
  size_t memory_bytes() const { return (young_.capacity() + old_.capacity()) * sizeof(Line); }

  bool Contains(uint64_t hash) const {
    return !empty() && (Has(young_, Mix64(hash)) || Has(old_, Mix64(hash)));
  }
  void Add(uint64_t hash) {
    const uint64_t word = Mix64(hash);
    if (empty() || Has(young_, word)) return;
    if (++added_ > young_.size() * sizeof(Line)) {
      young_.swap(old_);
      std::fill(young_.begin(), young_.end(), Line{});
      added_ = 1;
    }
    Line& line = young_[ScaleTo(word, young_.size())];
    for (unsigned i = 0; i < kBits; ++i)
      line[Bit(word, i) / 64] |= uint64_t{1} << Bit(word, i) % 64;
  }

 private:
  static constexpr unsigned kBits = 4;
  using Line = std::array<uint64_t, 8>;
  static_assert(sizeof(Line) == 64);

  // Nine low bits of the word each; the line comes from the high ones.
  static unsigned Bit(uint64_t word, unsigned i) { return word >> 9 * i & 511; }
  static bool Has(const std::vector<Line>& lines, uint64_t word) {
    const Line& line = lines[ScaleTo(word, lines.size())];
    bool all = true;
    for (unsigned i = 0; i < kBits; ++i)
      all = all && (line[Bit(word, i) / 64] >> Bit(word, i) % 64 & 1);
    return all;
  }

  std::vector<Line> young_;
  std::vector<Line> old_;
  size_t added_ = 0;  // to the younger
};

}  // namespace kbf
