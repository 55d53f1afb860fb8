// KbfKernel is the inner loop of QUERY for one cell layout, compiled once for every CPU and once
// for CPUs with carry-less multiplication. kbf.h is the class to use; this header is its engine
// room.
//
// Promises:  all kernels for one layout give the same answers bit for bit
//            (tests/storage/kbf_test.cc).
// Requires:  the view outlives the call; results has room for all keys.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "storage/hash.h"
#include "storage/layout.h"
#include "storage/symbol_blocks.h"

namespace kbf {

enum class Outcome : uint8_t { kAbsent, kFound, kUndecodable };

struct QueryResult {
  Outcome outcome = Outcome::kAbsent;
  uint32_t symbol = 0;      // where found
  uint32_t value = 0;       // whose block the symbol is in
  float evidence_bits = 0;  // a lower bound from 24 bits on: dear checks are left out then
};

// The key's choice inside a symbol block, for SymbolBlock::Choose.
inline uint32_t KeyCheck(const KeyHash& key) {
  return static_cast<uint32_t>(Stream(key, kCheckStream) >> 32);
}

// Where a key's cells are.
//
// A unit is a cell, or a cache line where partitioned. There are g rows of units, interleaved: row
// j's i-th unit is unit i·g + j, and a key has one unit in each row, so its cells are always
// different. A row has base_units << folds units and a key's place in it is  base +
// base_units·fold,  so that folding the array's upper half on its lower drops one bit of fold.
struct KbfGeometry {
  unsigned num_hashes = 0;      // k
  unsigned num_lines = 0;       // g
  unsigned cells_per_unit = 1;  // 1, or the cells of a cache line
  unsigned folds = 0;           // halvings left
  uint64_t base_units = 0;

  unsigned HashesPerUnit() const { return num_hashes / num_lines; }
  uint64_t NumCells() const { return (base_units << folds) * num_lines * cells_per_unit; }

  void CellsOf(const KeyHash& key, uint64_t* cells) const {
    const uint64_t fold_mask = (uint64_t{1} << folds) - 1;
    const unsigned per_unit = HashesPerUnit();
    for (unsigned line = 0; line < num_lines; ++line) {
      const uint64_t word = Stream(key, line);
      const uint64_t unit =
          (ScaleTo(word, base_units) + base_units * (word & fold_mask)) * num_lines + line;
      if (cells_per_unit == 1) {
        cells[line] = unit;
        continue;
      }
      // Different cells of the line, drawn without replacement: a shuffle of nibbles as far as it
      // is needed.
      uint64_t slots = 0xfedcba9876543210u;
      uint64_t draws = Mix64(word);
      for (unsigned i = 0; i < per_unit; ++i, draws >>= 8) {
        const unsigned pick = i + ((draws & 0xff) * (cells_per_unit - i) >> 8);
        const uint64_t slot = slots >> 4 * pick & 15;
        slots ^= (slot ^ (slots >> 4 * i & 15))
                 << 4 * pick;  // the i-th takes the place of the one drawn
        cells[line * per_unit + i] = unit * cells_per_unit + slot;
      }
    }
  }
};

struct KbfView {
  const std::byte* cells;
  KbfGeometry geometry;
  unsigned symbol_bits;
  float emptiness_bits;  // log2(1/λ): what any occupied cell says against a stranger
  float agree_bits;      // what an agreeing cell says beyond that: log2 1/(2^-b + 1/(λr))
  float same_line_bits;  // what an agreeing cell says in a line where another one agrees;
                         // unpartitioned there is none
};

struct KbfKernel {
  uint64_t (*encode)(unsigned symbol_bits, uint32_t symbol);
  void (*query_many)(const KbfView& view, const SymbolBlocks& blocks, std::span<const KeyHash> keys,
                     QueryResult* results);
};

// The fastest kernel for this CPU, or the portable one.
const KbfKernel& KernelFor(CellKind kind);
const KbfKernel& PortableKernelFor(CellKind kind);
// The kernel with carry-less multiplication; null where compiler or CPU lack it.
const KbfKernel* ClmulKernelFor(CellKind kind);

}  // namespace kbf
