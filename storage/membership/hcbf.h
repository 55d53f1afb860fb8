// Hcbf is the hierarchical counting Bloom filter inside one machine word ([MPCBF] §III.B): counters
// of any size for b_1 positions, one bit for each increment. It holds no word, it works on one.
//
// Level 1 has a bit for each position: is its counter above 0. Every one bit of a level has a bit
// in the next level, in the same order, which says whether its counter goes on:
//
//   w = 16, b_1 = 8; positions 2, 4 have the counter 2, positions 0, 7 the counter 1
//
//   bit      0 1 2 3 4 5 6 7 | 8 9 10 11 | 12 13 | 14 15
//   level 1  1 0 1 0 1 0 0 1 | 0 1 1  0  | 0  0  | 0  0
//            positions 0…7     level 2 of  level 3 of  unused
//                              0, 2, 4, 7  2, 4
//
// Promises:  Count is exactly increments less decrements. A word that has no room refuses an
//            increment and stays as it is. The highest bit of a word is 0 always, because the last
//            level holds zeros only; filters may mark words with it.
// Requires:  0 < first_level < word_bits <= 64; a word starts as 0. Positions below first_level.
// Costs:     Count, Increment and Decrement: one popcount per level that is walked. A membership
//            query needs neither: it reads level 1 (see FirstLevelMask).
// Departs:   Algorithm 1 counts the ones before a bit; so do we. It does not say how a full word is
//            recognised; we walk to the last level.
#pragma once

#include <bit>
#include <cassert>
#include <cstdint>

namespace kbf {

class Hcbf {
 public:
  Hcbf(unsigned word_bits, unsigned first_level)
      : word_bits_(word_bits), first_level_(first_level) {
    assert(0 < first_level && first_level < word_bits && word_bits <= 64);
  }

  unsigned word_bits() const { return word_bits_; }
  unsigned first_level() const { return first_level_; }
  unsigned hierarchy_bits() const { return word_bits_ - first_level_; }
  uint64_t FirstLevelMask() const { return LowMask(first_level_); }
  uint64_t HighestBit() const { return uint64_t{1} << (word_bits_ - 1); }

  // Algorithm 1 of [MPCBF].
  unsigned Count(uint64_t word, unsigned position) const { return FindEnd(word, position).count; }
  // Levels that Count reads below the first: visit(size of the level).
  void ForLowerLevels(uint64_t word, unsigned position, auto&& visit) const {
    Level level{0, first_level_};
    while (word >> (level.start + position) & 1) {
      position = OnesBefore(word, level, position);
      level = Next(word, level);
      visit(level.size);
    }
  }
  // The bits that are taken, b_1 + the sum of all counters.
  unsigned Used(uint64_t word) const { return UsedFrom(word, {0, first_level_}); }

  // Whether increments and decrements can have made it: all levels fit, and nothing is behind them.
  bool IsPossible(uint64_t word) const {
    Level level{0, first_level_};
    while (level.size > 0) {
      if (level.start + level.size > word_bits_) return false;
      level = Next(word, level);
    }
    return (word & ~LowMask(level.start)) == 0;
  }

  // False, and the word unchanged, where no bit is left.
  [[nodiscard]] bool Increment(uint64_t* word, unsigned position) const {
    const End end = FindEnd(*word, position);
    if (UsedFrom(*word, end.level) == word_bits_) return false;
    const unsigned inserted =
        end.level.start + end.level.size + OnesBefore(*word, end.level, end.index);
    const uint64_t below = LowMask(inserted);
    *word |= uint64_t{1} << (end.level.start + end.index);
    *word = (*word & below) | (*word & ~below) << 1;
    return true;
  }
  // False, and the word unchanged, where the counter is 0.
  [[nodiscard]] bool Decrement(uint64_t* word, unsigned position) const {
    const End end = FindEnd(*word, position);
    if (end.count == 0) return false;
    // The last one of the counter loses its bit in the next level, which is the 0 at the end.
    const unsigned removed = end.level.start + end.index;
    const uint64_t below = LowMask(removed);
    const uint64_t above = removed + 1 < 64 ? *word >> (removed + 1) << removed : 0;
    *word = ((*word & below) | above) & ~(uint64_t{1} << end.last_one);
    return true;
  }

 private:
  struct Level {
    unsigned start;
    unsigned size;
  };
  // The 0 at which a counter ends, and the last 1 before it.
  struct End {
    Level level;
    unsigned index;
    unsigned count;
    unsigned last_one;  // bit of the word; only where count > 0
  };

  static uint64_t LowMask(unsigned bits) {
    return bits >= 64 ? ~uint64_t{0} : (uint64_t{1} << bits) - 1;
  }
  static unsigned OnesBefore(uint64_t word, Level level, unsigned index) {
    return static_cast<unsigned>(std::popcount(word >> level.start & LowMask(index)));
  }
  static Level Next(uint64_t word, Level level) {
    return {level.start + level.size, OnesBefore(word, level, level.size)};
  }
  static unsigned UsedFrom(uint64_t word, Level level) {
    // A level that starts at the end of the word is empty: a shift by all bits is not defined.
    while (level.size > 0) level = Next(word, level);
    return level.start;
  }
  End FindEnd(uint64_t word, unsigned position) const {
    End end{{0, first_level_}, position, 0, 0};
    while (word >> (end.level.start + end.index) & 1) {
      end.last_one = end.level.start + end.index;
      end.index = OnesBefore(word, end.level, end.index);
      end.level = Next(word, end.level);
      ++end.count;
    }
    return end;
  }

  unsigned word_bits_;
  unsigned first_level_;
};

}  // namespace kbf
