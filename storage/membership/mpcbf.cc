#include "storage/membership/mpcbf.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstring>
#include <numeric>

namespace kbf {

namespace {

constexpr size_t kBatch = 32;
constexpr unsigned kPlannedWordBits = 64;

bool WordBitsFit(unsigned bits) { return bits == 16 || bits == 32 || bits == 64; }

unsigned FirstLevelOf(const MpcbfConfig& config, uint64_t words) {
  if (config.first_level != 0) return config.first_level;
  if (config.keys == 0) return 0;
  return FirstLevelBits(config.word_bits, config.num_hashes, config.num_accesses,
                        KeysPerWordMax(static_cast<double>(config.keys), static_cast<double>(words),
                                       config.num_accesses));
}

template <typename Word>
uint64_t ReadWord(const CellArray& cells, uint64_t word) {
  Word value;
  std::memcpy(&value, cells.data() + word * sizeof(Word), sizeof(Word));
  return value;
}
template <typename Word>
void WriteWord(CellArray* cells, uint64_t word, uint64_t bits) {
  const auto value = static_cast<Word>(bits);
  std::memcpy(cells->data() + word * sizeof(Word), &value, sizeof(Word));
}

}  // namespace

std::optional<Mpcbf> Mpcbf::Create(const MpcbfConfig& config) {
  if (!WordBitsFit(config.word_bits) || config.memory_bits < config.word_bits ||
      config.num_accesses < 1 || config.num_accesses > config.num_hashes ||
      config.num_hashes > kWordHashesMax) {
    return std::nullopt;
  }
  const uint64_t words = config.memory_bits / config.word_bits;
  const unsigned first_level = FirstLevelOf(config, words);
  if (first_level < 2 || first_level >= config.word_bits) return std::nullopt;
  auto cells = CellArray::Allocate(words * (config.word_bits / 8));
  if (!cells) return std::nullopt;
  return Mpcbf(config, {words, first_level, config.num_hashes, config.num_accesses},
               std::move(*cells));
}

std::optional<MpcbfConfig> Mpcbf::Plan(uint64_t keys, double false_positive,
                                       unsigned num_accesses) {
  if (keys == 0 || !(false_positive > 0 && false_positive < 1) || num_accesses < 1 ||
      num_accesses > kWordHashesMax) {
    return std::nullopt;
  }
  // With more words the rate falls, but for steps where n_max does; the search finds one crossing.
  const auto at = [&](uint64_t words) {
    MpcbfConfig config{.keys = keys, .memory_bits = words * kPlannedWordBits};
    config.num_accesses = num_accesses;
    config.num_hashes = BestNumHashes(keys, words, kPlannedWordBits, num_accesses);
    return config;
  };
  const auto good = [&](uint64_t words) {
    const MpcbfConfig config = at(words);
    const unsigned positions = FirstLevelOf(config, words);
    return positions >= 2 && WordFalsePositive(keys, {words, positions, config.num_hashes,
                                                      num_accesses}) <= false_positive;
  };
  uint64_t low = 0;
  auto high = static_cast<uint64_t>(
      std::ceil(static_cast<double>(keys) * kBitsPerKeyMax / kPlannedWordBits));
  if (!good(high)) return std::nullopt;
  while (high - low > 1 + high / 256) {
    const uint64_t middle = std::midpoint(low, high);
    (good(middle) ? high : low) = middle;
  }
  return at(high);
}

uint64_t Mpcbf::Load(uint64_t word) const {
  if (hcbf_.word_bits() == 64) return ReadWord<uint64_t>(cells_, word);
  if (hcbf_.word_bits() == 32) return ReadWord<uint32_t>(cells_, word);
  return ReadWord<uint16_t>(cells_, word);
}

void Mpcbf::StoreWord(uint64_t word, uint64_t bits) {
  if (hcbf_.word_bits() == 64) return WriteWord<uint64_t>(&cells_, word, bits);
  if (hcbf_.word_bits() == 32) return WriteWord<uint32_t>(&cells_, word, bits);
  WriteWord<uint16_t>(&cells_, word, bits);
}

void Mpcbf::Insert(const KeyHash& key) {
  assert(size_ < kKeysMax);
  ++size_;
  hashing_.ForEachPlace(key, [this](uint64_t word, unsigned position) {
    Increment(word, position);
    return true;
  });
}

bool Mpcbf::Delete(const KeyHash& key) {
  const WordPlaces places(hashing_, key);
  for (const auto& place : places) {
    if (CounterAt(place.word, place.position) < places.Multiplicity(place)) return false;
  }
  for (const auto& place : places) Decrement(place.word, place.position);
  if (size_ > 0) --size_;
  return true;
}

bool Mpcbf::MayContain(const KeyHash& key) const {
  unsigned hash = 0;
  for (unsigned access = 0; access < shape().num_accesses; ++access) {
    uint64_t asked = 0;
    for (unsigned left = shape().HashesIn(access); left > 0; --left) {
      asked |= uint64_t{1} << hashing_.PositionOf(key, hash++);
    }
    if ((asked & ~Load(hashing_.WordOf(key, access))) != 0) return false;
  }
  return true;
}

void Mpcbf::MayContainMany(std::span<const KeyHash> keys, bool* answers) const {
  const uint64_t word_bytes = hcbf_.word_bits() / 8;
  for (size_t begin = 0; begin < keys.size(); begin += kBatch) {
    const auto batch = keys.subspan(begin, std::min(kBatch, keys.size() - begin));
    for (const KeyHash& key : batch) {
      for (unsigned i = 0; i < shape().num_accesses; ++i) {
        __builtin_prefetch(cells_.data() + hashing_.WordOf(key, i) * word_bytes);
      }
    }
    for (size_t i = 0; i < batch.size(); ++i) answers[begin + i] = MayContain(batch[i]);
  }
}

uint64_t Mpcbf::memory_bytes() const {
  // A node of the table: what it holds, its chain's pointer and the allocator's rounding.
  constexpr uint64_t kNodeBytes = sizeof(Counters) + 32;
  return cells_.allocated_bytes() + overflowed_.size() * kNodeBytes +
         overflowed_.bucket_count() * sizeof(void*);
}

uint32_t Mpcbf::CounterAt(uint64_t word, unsigned position) const {
  const uint64_t bits = Load(word);
  if (!Marked(bits)) return hcbf_.Count(bits, position);
  const auto found = overflowed_.find(word);
  if (found != overflowed_.end()) return found->second[position];
  return (bits >> position & 1) != 0 ? kStuck : 0;
}

void Mpcbf::Increment(uint64_t word, unsigned position) {
  uint64_t bits = Load(word);
  if (!Marked(bits)) {
    if (hcbf_.Increment(&bits, position)) return StoreWord(word, bits);
    Overflow(word, bits);
  }
  StoreWord(word, Load(word) | uint64_t{1} << position);
  const auto found = overflowed_.find(word);
  if (found != overflowed_.end()) ++found->second[position];
}

void Mpcbf::Decrement(uint64_t word, unsigned position) {
  uint64_t bits = Load(word);
  if (!Marked(bits)) {
    [[maybe_unused]] const bool done = hcbf_.Decrement(&bits, position);
    assert(done);
    return StoreWord(word, bits);
  }
  const auto found = overflowed_.find(word);
  if (found == overflowed_.end()) return;
  if (--found->second[position] == 0) StoreWord(word, bits & ~(uint64_t{1} << position));
  ReturnIfFits(word, found->second);
}

void Mpcbf::Overflow(uint64_t word, uint64_t bits) {
  StoreWord(word, (bits & hcbf_.FirstLevelMask()) | hcbf_.HighestBit());
  if (overflowed_.size() >= overflow_words_max_) {
    ++stuck_words_;
    return;
  }
  Counters& counters = overflowed_[word];
  counters.fill(0);
  for (unsigned at = 0; at < shape().positions; ++at) counters[at] = hcbf_.Count(bits, at);
}

void Mpcbf::ReturnIfFits(uint64_t word, const Counters& counters) {
  uint64_t sum = 0;
  for (const uint32_t count : counters) sum += count;
  if (sum > hcbf_.hierarchy_bits()) return;
  uint64_t bits = 0;
  for (unsigned at = 0; at < shape().positions; ++at) {
    for (uint32_t left = counters[at]; left > 0; --left) {
      [[maybe_unused]] const bool done = hcbf_.Increment(&bits, at);
      assert(done);
    }
  }
  overflowed_.erase(word);
  StoreWord(word, bits);
}

AccessCost Mpcbf::QueryCost(const KeyHash& key) const {
  AccessCost cost;
  unsigned hash = 0;
  for (unsigned access = 0; access < shape().num_accesses; ++access) {
    const uint64_t bits = Load(hashing_.WordOf(key, access));
    ++cost.words;
    cost.bits += AddressBits(shape().words);
    for (unsigned left = shape().HashesIn(access); left > 0; --left) {
      cost.bits += AddressBits(shape().positions);
      if ((bits >> hashing_.PositionOf(key, hash++) & 1) == 0) return cost;
    }
  }
  return cost;
}

AccessCost Mpcbf::UpdateCost(const KeyHash& key) const {
  AccessCost cost{shape().num_accesses, shape().num_accesses * AddressBits(shape().words)};
  hashing_.ForEachPlace(key, [&](uint64_t word, unsigned position) {
    cost.bits += AddressBits(shape().positions);
    const uint64_t bits = Load(word);
    if (!Marked(bits)) {
      hcbf_.ForLowerLevels(bits, position, [&](unsigned size) { cost.bits += AddressBits(size); });
    }
    return true;
  });
  return cost;
}

}  // namespace kbf
