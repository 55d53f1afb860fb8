#include "storage/symbol_blocks.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <queue>
#include <utility>

namespace kbf {

SymbolBlocks::SymbolBlocks(unsigned symbol_bits, unsigned check_bits_min)
    : symbol_bits_(symbol_bits),
      check_bits_min_(check_bits_min),
      units_(size_t{1} << (symbol_bits - check_bits_min)),
      free_(symbol_bits - check_bits_min) {
  assert(check_bits_min >= 1 && check_bits_min < symbol_bits && symbol_bits <= 30);
  // With unit 0 reserved, what is left is one free block of each size: [1], [2,3], [4…7], …
  for (unsigned bits = check_bits_min; bits < symbol_bits; ++bits) {
    FreeOf(bits).bitmap.resize(((size_t{1} << (symbol_bits - bits)) + 63) / 64);
    MarkFree(1u << bits, bits);
  }
  free_units_ = static_cast<uint32_t>(units_.size()) - 1;
}

size_t SymbolBlocks::memory_bytes() const {
  size_t bytes = units_.capacity() * sizeof(Unit) + free_.capacity() * sizeof(FreeBlocks);
  for (const auto& blocks : free_) bytes += blocks.bitmap.capacity() * sizeof(uint64_t);
  return bytes;
}

void SymbolBlocks::MarkFree(uint32_t first, unsigned check_bits) {
  FreeBlocks& blocks = FreeOf(check_bits);
  const uint32_t index = first >> check_bits;
  blocks.bitmap[index / 64] |= uint64_t{1} << index % 64;
  blocks.lowest = std::min<size_t>(blocks.lowest, index / 64);
  ++blocks.count;
}

bool SymbolBlocks::TakeIfFree(uint32_t first, unsigned check_bits) {
  FreeBlocks& blocks = FreeOf(check_bits);
  const uint32_t index = first >> check_bits;
  const uint64_t bit = uint64_t{1} << index % 64;
  if ((blocks.bitmap[index / 64] & bit) == 0) return false;
  blocks.bitmap[index / 64] ^= bit;
  --blocks.count;
  return true;
}

// REQUIRES: there is a free block of this size
uint32_t SymbolBlocks::TakeLowest(unsigned check_bits) {
  FreeBlocks& blocks = FreeOf(check_bits);
  size_t word = blocks.lowest;
  while (blocks.bitmap[word] == 0) ++word;
  blocks.lowest = word;
  const auto index = static_cast<uint32_t>(word * 64 + std::countr_zero(blocks.bitmap[word]));
  blocks.bitmap[word] &= blocks.bitmap[word] - 1;
  --blocks.count;
  return index << check_bits;
}

void SymbolBlocks::Refine() {
  assert(check_bits_min_ > 1);
  const unsigned bits = check_bits_min_ - 1;
  std::vector<Unit> units(2 * units_.size());
  FreeBlocks smallest;
  smallest.bitmap.resize((units.size() + 63) / 64);
  free_.insert(free_.begin(), std::move(smallest));
  for (size_t i = 0; i < units_.size(); ++i) units[2 * i] = units[2 * i + 1] = units_[i];
  units_ = std::move(units);
  check_bits_min_ = bits;
  free_units_ = 2 * free_units_ + 1;
  MarkFree(1u << bits, bits);
}

std::optional<SymbolBlock> SymbolBlocks::Allocate(uint32_t value, unsigned check_bits) {
  assert(value < kNoValue);
  check_bits = std::max(check_bits, check_bits_min_);
  // The smallest free block that is large enough, halved until it fits.
  unsigned bits = check_bits;
  while (bits < symbol_bits_ && FreeOf(bits).count == 0) ++bits;
  if (bits >= symbol_bits_) return std::nullopt;
  const uint32_t first = TakeLowest(bits);
  while (bits > check_bits) {
    --bits;
    MarkFree(first + (1u << bits), bits);
  }
  const uint32_t units = 1u << (check_bits - check_bits_min_);
  const auto begin = units_.begin() + (first >> check_bits_min_);
  std::fill(begin, begin + units, Unit{value, check_bits});
  free_units_ -= units;
  return SymbolBlock{first, check_bits, value};
}

void SymbolBlocks::Free(const SymbolBlock& block) {
  uint32_t first = block.first;
  unsigned bits = block.check_bits;
  const uint32_t units = 1u << (bits - check_bits_min_);
  const auto begin = units_.begin() + (first >> check_bits_min_);
  assert(begin->value == block.value && begin->check_bits == bits);
  std::fill(begin, begin + units, Unit{});
  free_units_ += units;
  // Merge with the buddy while that is free as a whole.
  while (bits + 1 < symbol_bits_ && TakeIfFree(first ^ (1u << bits), bits)) {
    first &= ~(1u << bits);
    ++bits;
  }
  MarkFree(first, bits);
}

std::vector<unsigned> ShareBlocks(std::span<const double> weights, unsigned symbol_bits,
                                  unsigned check_bits_min) {
  const uint64_t units_all =
      (uint64_t{1} << (symbol_bits - check_bits_min)) - 1;  // unit 0 is reserved
  if (weights.size() > units_all) return {};
  std::vector<unsigned> check_bits(weights.size(), check_bits_min);
  uint64_t units_left = units_all - weights.size();

  using Entry = std::pair<double, size_t>;  // share per unit, value
  std::priority_queue<Entry> heap;
  for (size_t i = 0; i < weights.size(); ++i) heap.emplace(weights[i], i);
  while (!heap.empty() && units_left > 0) {
    const auto [density, i] = heap.top();
    heap.pop();
    const uint64_t size = uint64_t{1} << (check_bits[i] - check_bits_min);
    // A block that cannot grow is not considered again; smaller ones may still fit.
    if (size > units_left || check_bits[i] + 1 >= symbol_bits) continue;
    units_left -= size;
    ++check_bits[i];
    heap.emplace(density / 2, i);
  }
  return check_bits;
}

double MatchProbability(std::span<const double> weights, std::span<const unsigned> check_bits) {
  double match = 0;
  double total = 0;
  for (size_t i = 0; i < weights.size(); ++i) {
    match += weights[i] / static_cast<double>(uint64_t{1} << check_bits[i]);
    total += weights[i];
  }
  return total > 0 ? match / total : 0;
}

}  // namespace kbf
