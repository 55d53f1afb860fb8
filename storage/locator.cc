#include "storage/locator.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>
#include <utility>

#include "storage/layout.h"

namespace kbf {

namespace {

constexpr unsigned kSlots = Locator::kSlots;
constexpr unsigned kProbes = Locator::kProbes;

uint64_t BlockOf(uint64_t word, uint64_t num_blocks) { return ScaleTo(word, num_blocks); }

// Different slots, drawn without replacement: a shuffle of nibbles as far as it is needed. The
// block took the high bits of `word`, so the draws need bits of their own; 16 of them per draw
// leave a bias of 2^-12 at most.
std::array<uint8_t, kProbes> SlotsOf(uint64_t word) {
  std::array<uint8_t, kProbes> drawn;
  uint64_t slots = 0xfedcba9876543210u;
  uint64_t draws = Mix64(word);
  for (unsigned i = 0; i < kProbes; ++i, draws >>= 16) {
    const unsigned pick = i + static_cast<unsigned>((draws & 0xffff) * (kSlots - i) >> 16);
    const uint64_t slot = slots >> 4 * pick & 15;
    // The i-th takes the place of the one drawn.
    slots ^= (slot ^ (slots >> 4 * i & 15)) << 4 * pick;
    drawn[i] = static_cast<uint8_t>(slot);
  }
  return drawn;
}

// Calls work(word of G bits): what a slot is at this cardinality.
auto WithWord(unsigned columns, auto&& work) {
  switch (columns) {
    case 8:
      return work(uint8_t{});
    case 16:
      return work(uint16_t{});
    case 32:
      return work(uint32_t{});
    default:
      assert(columns == 64);
      return work(uint64_t{});
  }
}

// C(16 - i, 4) / C(16, 4): the chance that a key leaves i given slots alone.
constexpr std::array<double, kProbes + 1> kLeavesAlone = {1, 1365.0 / 1820, 1001.0 / 1820,
                                                          715.0 / 1820, 495.0 / 1820};
constexpr std::array<double, kProbes + 1> kChoose = {1, 4, 6, 4, 1};
static_assert(kSlots == 16 && kProbes == 4);

}  // namespace

std::optional<Locator::Table> Locator::MakeTable(uint64_t blocks, unsigned columns) {
  auto cells = CellArray::Allocate(blocks * kSlots * columns / 8);
  if (!cells) return std::nullopt;
  return Table{std::move(*cells), columns};
}

std::optional<Locator> Locator::Create(const LocatorConfig& config) {
  // Written so that NaN fails.
  if (!(config.bits_per_key > 0 && config.bits_per_key <= kBitsPerKeyMax)) return std::nullopt;
  const double blocks =
      std::ceil(static_cast<double>(config.keys_per_column) * config.bits_per_key / kSlots);
  if (!(blocks >= 1 && blocks <= static_cast<double>(kBlocksMax))) return std::nullopt;
  const auto num_blocks = static_cast<uint64_t>(blocks);
  auto table = MakeTable(num_blocks, kColumnsMin);
  if (!table) return std::nullopt;
  return Locator(num_blocks, std::move(*table));
}

uint64_t Locator::Candidates(const KeyHash& key) const {
  const uint64_t word = Stream(key, kLocatorStream);
  const auto slots = SlotsOf(word);
  const uint64_t block = BlockOf(word, num_blocks_);
  const Table& table = TableOf(block);
  return WithWord(table.columns, [&]<class Word>(Word) -> uint64_t {
    const auto* words = reinterpret_cast<const Word*>(table.Block(block));
    return words[slots[0]] & words[slots[1]] & words[slots[2]] & words[slots[3]];
  });
}

void Locator::Prefetch(const KeyHash& key) const {
  const uint64_t block = BlockOf(Stream(key, kLocatorStream), num_blocks_);
  const Table& table = TableOf(block);
  const std::byte* bytes = table.Block(block);
  __builtin_prefetch(bytes);
  if (table.block_bytes() > kCacheLineBytes) __builtin_prefetch(bytes + kCacheLineBytes);
}

void Locator::Add(const KeyHash& key, unsigned column) {
  assert(column < columns_ready());
  const uint64_t word = Stream(key, kLocatorStream);
  const uint64_t block = BlockOf(word, num_blocks_);
  Table& table = TableOf(block);
  WithWord(table.columns, [&]<class Word>(Word) {
    auto* words = reinterpret_cast<Word*>(table.Block(block));
    const auto bit = static_cast<Word>(Word{1} << column);
    for (const uint8_t slot : SlotsOf(word)) words[slot] |= bit;
  });
}

uint64_t Locator::memory_bytes() const {
  return now_.cells.allocated_bytes() + (next_ ? next_->cells.allocated_bytes() : 0);
}

bool Locator::Grow() {
  if (growing() || now_.columns == kColumnsMax) return false;
  next_ = MakeTable(num_blocks_, 2 * now_.columns);
  return growing();
}

bool Locator::GrowStep(uint64_t blocks) {
  if (!growing()) return true;
  const uint64_t end = moved_ + std::min(blocks, num_blocks_ - moved_);
  // Only the types of the arguments matter. (cppcheck 2.10 cannot parse template lambdas.)
  const auto copy = [&](auto narrow, auto wide) {
    const auto* from = reinterpret_cast<const decltype(narrow)*>(now_.Block(moved_));
    auto* to = reinterpret_cast<decltype(wide)*>(next_->Block(moved_));
    for (uint64_t i = 0; i < (end - moved_) * kSlots; ++i) to[i] = from[i];
  };
  switch (now_.columns) {
    case 8:
      copy(uint8_t{}, uint16_t{});
      break;
    case 16:
      copy(uint16_t{}, uint32_t{});
      break;
    default:
      assert(now_.columns == 32);
      copy(uint32_t{}, uint64_t{});
  }
  moved_ = end;
  if (moved_ < num_blocks_) return false;
  now_ = std::move(*next_);  // CellArray swaps, so the old cells go with next_
  next_.reset();
  moved_ = 0;
  return true;
}

bool Locator::Step(uint64_t* cursor, uint64_t blocks, auto&& work) {
  assert(*cursor <= num_blocks_);
  const uint64_t end = *cursor + std::min(blocks, num_blocks_ - *cursor);
  while (*cursor < end) {
    Table& table = TableOf(*cursor);
    const uint64_t part_end = *cursor < moved_ ? std::min(end, moved_) : end;
    WithWord(table.columns, [&]<class Word>(Word) {
      auto* words = reinterpret_cast<Word*>(table.Block(*cursor));
      for (uint64_t i = 0; i < (part_end - *cursor) * kSlots; ++i) words[i] = work(words[i]);
    });
    *cursor = part_end;
  }
  return *cursor == num_blocks_;
}

bool Locator::ClearStep(unsigned column, uint64_t* cursor, uint64_t blocks) {
  assert(column < columns_ready());
  return Step(cursor, blocks, [column]<class Word>(Word word) {
    return static_cast<Word>(word & ~(Word{1} << column));
  });
}

bool Locator::OrStep(unsigned from, unsigned to, uint64_t* cursor, uint64_t blocks) {
  assert(from < columns_ready() && to < columns_ready());
  return Step(cursor, blocks, [from, to]<class Word>(Word word) {
    return static_cast<Word>(word | (Word{1} & (word >> from)) << to);
  });
}

Locator::Place Locator::PlaceOf(const KeyHash& key) const {
  const uint64_t word = Stream(key, kLocatorStream);
  return {BlockOf(word, num_blocks_), SlotsOf(word)};
}

double Locator::FalseCandidateRate(double keys, double blocks) {
  // Inclusion and exclusion over the absent key's slots: j keys leave i given slots alone with
  // chance x_i^j, so all 4 are set with chance Σ (-1)^i C(4,i) x_i^j, and for j ~ Poisson(λ) the
  // mean of x^j is e^(-λ(1-x)). The coefficients add up to 0: expm1 takes the ones out before they
  // cancel.
  if (!(keys > 0)) return 0;
  const double lambda = keys / blocks;
  double rate = 0;
  for (unsigned i = 1; i <= kProbes; ++i) {
    const double term = kChoose[i] * std::expm1(-lambda * (1 - kLeavesAlone[i]));
    rate += i % 2 == 0 ? term : -term;
  }
  return std::clamp(rate, 0.0, 1.0);
}

double Locator::RatePerColumn(double share, unsigned columns) {
  assert(share >= 0 && share < 1 && columns > 0);
  return -std::expm1(std::log1p(-share) / columns);
}

double Locator::BitsPerKeyFor(double rate) {
  double too_few = 0;
  double enough = kBitsPerKeyMax;
  if (!(FalseCandidateRate(kSlots, enough) <= rate)) return std::numeric_limits<double>::infinity();
  // 60 halvings of 4,096 leave nothing above the rounding of a double.
  for (int i = 0; i < 60; ++i) {
    const double bits = (too_few + enough) / 2;
    (FalseCandidateRate(kSlots, bits) <= rate ? enough : too_few) = bits;
  }
  return enough;
}

}  // namespace kbf
