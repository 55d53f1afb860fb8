// KbfKernel is the inner loop of QUERY for one cell layout, compiled once for every CPU and once
// for CPUs with carry-less multiplication. It is an implementation detail of kbf.h, which is the
// class to use.
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
  float evidence_bits = 0;  // a lower bound from 24 bits on, where expensive checks are left out
};

// The key's choice inside a symbol block, for SymbolBlock::Choose.
inline uint32_t KeyCheck(const KeyHash& key) {
  return static_cast<uint32_t>(Stream(key, kCheckStream) >> 32);
}

// Where a key's cells are.
//
// A group is a cell, or the cells of a cache line in a line-partitioned layout. There are g rows of
// groups, interleaved: group i of row j is group i·g + j of the array. A key has one group in each
// row, so its cells are always different. A row has base_groups << folds groups. A key's place in
// it is  base + base_groups·fold,  so that COMPRESS, which folds the upper half of the array onto
// the lower half, drops one bit of `fold`.
struct KbfGeometry {
  unsigned num_hashes = 0;       // k
  unsigned num_lines = 0;        // g
  unsigned cells_per_group = 1;  // 1, or the cells of a cache line
  unsigned folds = 0;            // halvings left
  uint64_t base_groups = 0;

  unsigned HashesPerGroup() const { return num_hashes / num_lines; }
  uint64_t NumCells() const { return (base_groups << folds) * num_lines * cells_per_group; }

  void CellsOf(const KeyHash& key, uint64_t* cells) const {
    const uint64_t fold_mask = (uint64_t{1} << folds) - 1;
    const unsigned per_group = HashesPerGroup();
    for (unsigned line = 0; line < num_lines; ++line) {
      const uint64_t word = Stream(key, line);
      const uint64_t group =
          (ScaleTo(word, base_groups) + base_groups * (word & fold_mask)) * num_lines + line;
      if (cells_per_group == 1) {
        cells[line] = group;
        continue;
      }
      // Different cells of the line, drawn without replacement: a shuffle of nibbles as far as it
      // is needed.
      uint64_t slots = 0xfedcba9876543210u;
      uint64_t draws = Mix64(word);
      for (unsigned i = 0; i < per_group; ++i, draws >>= 8) {
        const unsigned pick = i + ((draws & 0xff) * (cells_per_group - i) >> 8);
        const uint64_t slot = slots >> 4 * pick & 15;
        slots ^= (slot ^ (slots >> 4 * i & 15))
                 << 4 * pick;  // the i-th takes the place of the one drawn
        cells[line * per_group + i] = group * cells_per_group + slot;
      }
    }
  }
};

struct KbfView {
  const std::byte* cells;
  KbfGeometry geometry;
  unsigned symbol_bits;
  float emptiness_bits;  // log2(1/λ), the evidence of any occupied cell
  float agree_bits;      // log2 1/(2^-b + 1/(λr)), what an agreeing cell adds to that
  float same_line_bits;  // what a further agreeing cell in the same line adds; 0 if unpartitioned
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
