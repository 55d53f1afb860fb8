// KbfLayout says what a filter's cells look like and how a key is spread over them. It is a plain
// value: the planner chooses it, the filter is built from it, the formulas of maths.h predict its
// errors.
//
//   kPair32    |cnt 4| x³ 14 | x 14 |           XOR of encodings (x, x³): decodes up to two
//   kPair64    |cnt 4| x³ 30 | x 30 |           the same, with room for many more values
//   kTriple64  |cnt 4| x⁵ 20 | x³ 20 | x 20 |   (x, x³, x⁵): decodes up to three
//
// A symbol x is what one key contributes to its cells; `symbol_bits` is b in formulas. Fewer
// symbol bits than shown are legal and leave the bits above unused.
#pragma once

#include <cstdint>

namespace kbf {

enum class CellKind : uint8_t { kPair32, kPair64, kTriple64 };

struct KbfLayout {
  CellKind kind = CellKind::kTriple64;
  unsigned symbol_bits = 20;  // b
  unsigned check_bits = 8;    // c of the smallest symbol block: rejects absent keys
  unsigned num_hashes = 3;    // k in [kBF] §3.1
  // g of [MPCBF] §3: cache lines that hold the k cells; k lines mean one cell each, unpartitioned.
  unsigned num_lines = 3;

  friend bool operator==(const KbfLayout&, const KbfLayout&) = default;
};

inline constexpr unsigned kNumHashesMax = 16;
inline constexpr unsigned kCacheLineBytes = 64;
inline constexpr unsigned kCounterBits = 4;
inline constexpr unsigned kCounterMax = 15;  // a counter that reaches this is stuck there

constexpr unsigned CellBytes(CellKind kind) { return kind == CellKind::kPair32 ? 4 : 8; }

// t: how many superimposed encodings a cell still decodes.
constexpr unsigned Decodable(CellKind kind) { return kind == CellKind::kTriple64 ? 3 : 2; }

constexpr unsigned SymbolBitsMin(CellKind kind) { return kind == CellKind::kPair32 ? 6 : 17; }
constexpr unsigned SymbolBitsMax(CellKind kind) {
  return kind == CellKind::kPair32 ? 14 : kind == CellKind::kPair64 ? 30 : 20;
}

constexpr bool IsPartitioned(const KbfLayout& layout) {
  return layout.num_lines != layout.num_hashes;
}

// Cells of one group, see KbfGeometry: those of a cache line, or a single cell if unpartitioned.
constexpr unsigned CellsPerGroup(const KbfLayout& layout) {
  return IsPartitioned(layout) ? kCacheLineBytes / CellBytes(layout.kind) : 1;
}

// k / g: a key's cells in one group.
constexpr unsigned HashesPerGroup(const KbfLayout& layout) {
  return layout.num_hashes / layout.num_lines;
}

constexpr bool IsValid(const KbfLayout& layout) {
  return layout.num_hashes >= 2 && layout.num_hashes <= kNumHashesMax && layout.num_lines >= 1 &&
         layout.num_hashes % layout.num_lines == 0 &&
         HashesPerGroup(layout) <= CellsPerGroup(layout) &&
         layout.symbol_bits >= SymbolBitsMin(layout.kind) &&
         layout.symbol_bits <= SymbolBitsMax(layout.kind) && layout.check_bits >= 1 &&
         layout.check_bits < layout.symbol_bits;
}

}  // namespace kbf
