#include "storage/membership/pcbf.h"

#include <algorithm>

namespace kbf {

namespace {
constexpr size_t kBatch = 32;
constexpr unsigned kWordBitsMax = 512;
}  // namespace

std::optional<Pcbf> Pcbf::Create(const PcbfConfig& config) {
  if (config.word_bits < 16 || config.word_bits > kWordBitsMax || config.word_bits % 8 != 0 ||
      config.memory_bits < config.word_bits || config.num_accesses < 1 ||
      config.num_accesses > config.num_hashes || config.num_hashes > kWordHashesMax) {
    return std::nullopt;
  }
  const WordShape shape{config.memory_bits / config.word_bits, config.word_bits / kCounterBits,
                        config.num_hashes, config.num_accesses};
  auto cells = CellArray::Allocate(shape.words * config.word_bits / 8);
  if (!cells) return std::nullopt;
  return Pcbf(shape, std::move(*cells));
}

void Pcbf::SetCounter(uint64_t at, unsigned value) {
  std::byte& both = cells_.data()[at / 2];
  const unsigned shift = at % 2 * 4;
  both = (both & ~(std::byte{15} << shift)) | std::byte(value << shift);
}

void Pcbf::Insert(const KeyHash& key) {
  hashing_.ForEachPlace(key, [this](uint64_t word, unsigned position) {
    const uint64_t at = word * shape().positions + position;
    SetCounter(at, std::min(Counter(at) + 1, kStuck));
    return true;
  });
}

bool Pcbf::Delete(const KeyHash& key) {
  const WordPlaces places(hashing_, key);
  for (const auto& place : places) {
    if (CounterAt(place.word, place.position) < places.Multiplicity(place)) return false;
  }
  for (const auto& place : places) {
    const uint64_t at = place.word * shape().positions + place.position;
    if (Counter(at) < kStuck) SetCounter(at, Counter(at) - 1);
  }
  return true;
}

bool Pcbf::MayContain(const KeyHash& key) const {
  return hashing_.ForEachPlace(
      key, [this](uint64_t word, unsigned position) { return CounterAt(word, position) > 0; });
}

void Pcbf::MayContainMany(std::span<const KeyHash> keys, bool* answers) const {
  const uint64_t word_bytes = shape().positions / 2;
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

AccessCost Pcbf::QueryCost(const KeyHash& key) const {
  AccessCost cost;
  unsigned hash = 0;
  for (unsigned access = 0; access < shape().num_accesses; ++access) {
    const uint64_t word = hashing_.WordOf(key, access);
    ++cost.words;
    cost.bits += AddressBits(shape().words);
    for (unsigned left = shape().HashesIn(access); left > 0; --left) {
      cost.bits += AddressBits(shape().positions);
      if (CounterAt(word, hashing_.PositionOf(key, hash++)) == 0) return cost;
    }
  }
  return cost;
}

AccessCost Pcbf::UpdateCost(const KeyHash&) const {
  const WordShape& s = shape();
  return {s.num_accesses,
          s.num_accesses * AddressBits(s.words) + s.num_hashes * AddressBits(s.positions)};
}

}  // namespace kbf
