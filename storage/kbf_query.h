// The query loop as a template over cell type and code. Only kbf.cc and the kernels' .cc files
// include it.
//
// QUERY: a key with an empty cell is absent. The cell with the fewest entries gives the candidates;
// every cell that can be checked must agree with a candidate. If one candidate is left, the key is
// found. Cells are checked from the cheapest to the most expensive; expensive checks are left out
// once there are 24 bits of evidence, which an absent key shows with chance 2^-24.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>

#include "storage/bch.h"
#include "storage/kbf_kernel.h"
#include "storage/maths.h"

namespace kbf {

// |counter 4|XOR of encodings| in a 32- or 64-bit cell.
template <class Cell>
struct CellFormat {
  static constexpr unsigned kShift = sizeof(Cell) * 8 - kCounterBits;
  static constexpr Cell kWordMask = (Cell{1} << kShift) - 1;
  static unsigned Count(Cell cell) { return static_cast<unsigned>(cell >> kShift); }
  static uint64_t Word(Cell cell) { return cell & kWordMask; }
  static Cell Make(unsigned count, uint64_t word) {
    return static_cast<Cell>(Cell{count} << kShift | static_cast<Cell>(word));
  }
};

// One key's cells, those with the fewest entries first.
struct KeyCells {
  unsigned num = 0;
  std::array<unsigned, kNumHashesMax> count;
  std::array<unsigned, kNumHashesMax> line;  // which of the key's g groups it is in
  std::array<uint64_t, kNumHashesMax> word;
};

// False: one of them is empty.
template <class Cell>
bool LoadCells(const Cell* cells, const uint64_t* positions, const KbfGeometry& geometry,
               KeyCells* loaded) {
  const unsigned per_group = geometry.HashesPerGroup();
  unsigned line = 0;
  unsigned line_end = per_group;
  for (unsigned i = 0; i < geometry.num_hashes; ++i) {
    if (i == line_end) {
      ++line;
      line_end += per_group;
    }
    const Cell cell = cells[positions[i]];
    const unsigned count = CellFormat<Cell>::Count(cell);
    if (count == 0) return false;
    unsigned at = i;
    for (; at > 0 && loaded->count[at - 1] > count; --at) {
      loaded->count[at] = loaded->count[at - 1];
      loaded->line[at] = loaded->line[at - 1];
      loaded->word[at] = loaded->word[at - 1];
    }
    loaded->count[at] = count;
    loaded->line[at] = line;
    loaded->word[at] = CellFormat<Cell>::Word(cell);
  }
  loaded->num = geometry.num_hashes;
  return true;
}

// log2(j), the evidence of a cell with j entries for a stored key; 0 for a stuck counter, which is
// no evidence.
inline constexpr std::array<float, kCounterMax + 1> kLog2OfCount = {
    0, 0,        1,        1.58496f, 2,        2.32193f, 2.58496f, 2.80735f,
    3, 3.16993f, 3.32193f, 3.45943f, 3.58496f, 3.70044f, 3.80735f, 0};

// With this much evidence, checks that need a decoding are left out.
inline constexpr float kConvincingBits = 24;

// True if all cells but `source` agree that the key's symbol is `symbol`. Adds up the evidence, the
// likelihood ratio of a stored key against an absent one, as a product over cells:
//   2^c/λ              the source
//   1/(λ·2^-b + 1/r)   a further agreeing cell in rows of r groups, because an absent key that
//                      shares one cell with a stored key shares the next one with chance 1/r
//   t!·(t+1)/λ         a cell with t+1 entries that passes its check
//   j/λ                any other cell
// A second agreeing cell in one cache line counts little: keys that share a line often share more
// than one cell of it.
template <class Code>
bool Agree(const Code& code, const KeyCells& cells, unsigned source, uint32_t symbol,
           unsigned check_bits, const KbfView& view, float* evidence_bits) {
  constexpr unsigned kChecked = Code::kDecodable + 1;
  constexpr float kPassBits = Code::kDecodable == 2 ? 1.0f : 2.58496f;  // log2(t!)
  const uint64_t encoding = cells.count[source] == 1 ? cells.word[source] : code.Encode(symbol);
  float evidence =
      static_cast<float>(check_bits) + static_cast<float>(cells.num) * view.emptiness_bits;
  unsigned agreeing_lines = 1u << cells.line[source];
  for (unsigned i = 0; i < cells.num; ++i) {
    if (i == source) continue;
    const unsigned count = cells.count[i];
    const bool expensive = count > 2;
    if (count > kChecked || (expensive && evidence >= kConvincingBits)) {
      evidence += kLog2OfCount[count];
      continue;
    }
    if (!code.MayHold(cells.word[i] ^ encoding, count - 1)) return false;
    if (count == kChecked) {
      evidence += kLog2OfCount[count] + kPassBits;
      continue;
    }
    const unsigned line = 1u << cells.line[i];
    evidence += (agreeing_lines & line) == 0 ? view.agree_bits : view.same_line_bits;
    agreeing_lines |= line;
  }
  *evidence_bits = evidence;
  return true;
}

template <class Code>
QueryResult Decide(const Code& code, const KeyCells& cells, uint32_t key_check,
                   const SymbolBlocks& blocks, const KbfView& view) {
  QueryResult result;
  for (unsigned source = 0; source < cells.num; ++source) {
    const unsigned count = cells.count[source];
    if (count > Code::kDecodable) break;
    Symbols candidates{};
    if (!code.Decode(cells.word[source], count, &candidates)) {
      // Equal entries cancel; then the next cell is the source. Anything else is no cell of a
      // stored key.
      if (code.MayHold(cells.word[source], count)) continue;
      return result;
    }
    unsigned agreed = 0;
    for (unsigned i = 0; i < count; ++i) {
      SymbolBlock block;
      if (!blocks.Find(candidates[i], &block) || block.Choose(key_check) != candidates[i]) continue;
      float evidence_bits = 0;
      if (!Agree(code, cells, source, candidates[i], block.check_bits, view, &evidence_bits))
        continue;
      result = {Outcome::kFound, candidates[i], block.value, evidence_bits};
      ++agreed;
    }
    if (agreed > 1) result = {Outcome::kUndecodable, 0, 0, 0};
    return result;
  }
  result.outcome = Outcome::kUndecodable;
  return result;
}

// How many keys ahead of the present one are hashed and prefetched: enough to hide the memory
// latency, few enough to stay in the L1 cache.
inline constexpr size_t kPrefetchAhead = 16;

template <class Cell, class Code>
void QueryCells(const Code& code, const KbfView& view, const SymbolBlocks& blocks,
                std::span<const KeyHash> keys, QueryResult* results) {
  const auto* cells = reinterpret_cast<const Cell*>(view.cells);
  std::array<std::array<uint64_t, kNumHashesMax>, kPrefetchAhead> ring;
  const auto prefetch = [&](size_t i) {
    auto& positions = ring[i % kPrefetchAhead];
    view.geometry.CellsOf(keys[i], positions.data());
    for (unsigned j = 0; j < view.geometry.num_hashes; ++j)
      __builtin_prefetch(cells + positions[j]);
  };
  for (size_t i = 0; i < std::min(keys.size(), kPrefetchAhead); ++i) prefetch(i);
  for (size_t i = 0; i < keys.size(); ++i) {
    KeyCells loaded;
    const bool occupied = LoadCells(cells, ring[i % kPrefetchAhead].data(), view.geometry, &loaded);
    if (i + kPrefetchAhead < keys.size()) prefetch(i + kPrefetchAhead);
    results[i] = occupied ? Decide(code, loaded, KeyCheck(keys[i]), blocks, view) : QueryResult{};
  }
}

// `FieldAt20` is the field with b = 20 known at compile time, for the default layout; other b take
// the general one.
template <class Cell, template <class> class Code, class Field, class FieldAt20 = Field>
struct KernelOf {
  static uint64_t Encode(unsigned symbol_bits, uint32_t symbol) {
    return Code<Field>(Field::Get(symbol_bits)).Encode(symbol);
  }
  static void QueryMany(const KbfView& view, const SymbolBlocks& blocks,
                        std::span<const KeyHash> keys, QueryResult* results) {
    if (view.symbol_bits == 20) {
      QueryCells<Cell>(Code<FieldAt20>(FieldAt20::Get(20)), view, blocks, keys, results);
    } else {
      QueryCells<Cell>(Code<Field>(Field::Get(view.symbol_bits)), view, blocks, keys, results);
    }
  }
  static constexpr KbfKernel kKernel = {&Encode, &QueryMany};
};

}  // namespace kbf
