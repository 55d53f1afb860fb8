// SymbolBlocks assigns symbols to values: each value has an aligned block of 2^c symbols, and a
// key's check bits choose one of them. It is a prefix code kept by a buddy allocator; values are
// just numbers here. A unit is 2^check_bits_min symbols, the smallest block.
//
//   symbol, b bits:  | block: which value, b - c | check: which key, c |   c differs by block
//
// Promises:  Find(symbol) gives the one block that holds it. Blocks never overlap. Symbol 0 is
//            never assigned: the first unit stays reserved, so one block gets at most half of all
//            symbols.
// Requires:  one writer; readers see a constant object (the slab's lock).
// Costs:     4 bytes and 2 bits per unit (17 KB at 4,096 units); Find is one look-up; Allocate
//            scans a bitmap of free blocks, at most one bit per unit; Free is O(log units); both
//            write the block's units. Refine writes them all.
// Why:       two keys with the same value do not cancel in a cell, and absent keys are rejected
// even
//            where nearly all keys have one value, provided that a frequent value's block is as
//            large as its share (with 4 symbols for every value, 3,000 even values gave 6e-6 false
//            positives, but a single value 8e-4).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace kbf {

struct SymbolBlock {
  uint32_t first = 0;       // aligned to its size
  unsigned check_bits = 0;  // c: it has 2^c symbols
  uint32_t value = 0;       // its owner

  // The symbol that a key with these check bits has in this block.
  uint32_t Choose(uint32_t key_check) const {
    return first | (key_check & ((1u << check_bits) - 1));
  }
};

class SymbolBlocks {
 public:
  // REQUIRES: 1 <= check_bits_min < symbol_bits <= 30
  SymbolBlocks(unsigned symbol_bits, unsigned check_bits_min);

  unsigned symbol_bits() const { return symbol_bits_; }
  unsigned check_bits_min() const { return check_bits_min_; }
  // The largest block that can exist: half of all symbols.
  unsigned check_bits_max() const { return symbol_bits_ - 1; }
  uint32_t free_units() const { return free_units_; }
  size_t memory_bytes() const;

  // A block of 2^check_bits symbols for `value`; nothing where no such block is free. Sizes below
  // the smallest are rounded up. REQUIRES: value < kNoValue
  std::optional<SymbolBlock> Allocate(uint32_t value, unsigned check_bits);
  // REQUIRES: the block came from Allocate and was not freed since
  void Free(const SymbolBlock& block);

  // Halves the units; blocks stay as they are, and the reserved unit leaves half of itself free.
  // Throws std::bad_alloc; then nothing has changed. REQUIRES: check_bits_min() > 1
  void Refine();

  // The block that holds `symbol`, if any value owns it.
  bool Find(uint32_t symbol, SymbolBlock* block) const {
    const Unit unit = units_[symbol >> check_bits_min_];
    if (unit.value == kNoValue) return false;
    *block = {symbol & ~((1u << unit.check_bits) - 1), unit.check_bits, unit.value};
    return true;
  }

  static constexpr uint32_t kNoValue = (uint32_t{1} << 27) - 1;

 private:
  friend struct ImageParts;

  struct Unit {
    uint32_t value : 27 = kNoValue;
    uint32_t check_bits : 5 = 0;
  };
  static_assert(sizeof(Unit) == 4);

  // Free blocks of one size: bit i stands for the block that starts at symbol i << check_bits.
  struct FreeBlocks {
    std::vector<uint64_t> bitmap;
    uint32_t count = 0;
    size_t lowest = 0;  // no free block in the words below
  };
  FreeBlocks& FreeOf(unsigned check_bits) { return free_[check_bits - check_bits_min_]; }
  void MarkFree(uint32_t first, unsigned check_bits);
  bool TakeIfFree(uint32_t first, unsigned check_bits);
  uint32_t TakeLowest(unsigned check_bits);

  unsigned symbol_bits_;
  unsigned check_bits_min_;
  uint32_t free_units_ = 0;
  std::vector<Unit> units_;       // symbol >> check_bits_min -> owner
  std::vector<FreeBlocks> free_;  // by size
};

// Block sizes in proportion to shares: `weights[i]` -> check bits of value i, so that all blocks
// fit together. Every value gets at least the smallest block; what is left doubles, again and
// again, the block whose share per symbol is largest. Empty where there are more values than
// smallest blocks.
std::vector<unsigned> ShareBlocks(std::span<const double> weights, unsigned symbol_bits,
                                  unsigned check_bits_min);

// γ of maths.h: the chance that a random stored symbol is the one another key would have chosen, Σ
// share · 2^-c.
double MatchProbability(std::span<const double> weights, std::span<const unsigned> check_bits);

}  // namespace kbf
