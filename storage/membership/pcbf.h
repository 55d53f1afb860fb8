// Pcbf is a counting Bloom filter of 4-bit counters in words, of which a key uses g ([MPCBF]
// §III.A, PCBF-g). With g = k it is the standard CBF: a uniform counter of a uniform word is a
// uniform counter. It is the published rival of the MPCBF, kept for comparison; Mpcbf is better at
// equal memory.
//
// Promises:  a key that was inserted and not deleted is never called absent. An absent key is
//            called present with the chance of eq. 1-3 (WordFalsePositive for the exact form). A
//            counter that reaches 15 stays there, so what fell on it is never forgotten: with 5
//            increments per counter that happens to one counter in 10^4 and only costs false
//            positives.
// Requires:  one thread at a time. Create (Insert | Delete | MayContain | …)*; only keys that were
//            inserted may be deleted. Deleting an absent key that MayContain takes for present
//            makes other keys absent, as in every counting filter.
// Costs:     memory_bytes(), 4 bits per counter, allocated in Create; g words fetched per
// operation,
//            at most.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <utility>

#include "storage/cell_array.h"
#include "storage/hash.h"
#include "storage/membership/word_hashing.h"

namespace kbf {

struct PcbfConfig {
  uint64_t memory_bits = 0;
  unsigned word_bits = 64;  // a multiple of 8, 16 … 512
  unsigned num_hashes = 3;
  unsigned num_accesses = 1;  // g; equal to num_hashes it is a CBF
};

class Pcbf {
 public:
  static constexpr unsigned kCounterBits = 4;
  static constexpr unsigned kStuck = 15;

  // Nothing where the numbers make no filter (see PcbfConfig; memory of one word at least,
  // 1 <= g <= k <= kWordHashesMax) or the memory is not to be had.
  static std::optional<Pcbf> Create(const PcbfConfig& config);

  void Insert(const KeyHash& key);
  // False, and nothing changed, where the key is absent for certain.
  bool Delete(const KeyHash& key);
  bool MayContain(const KeyHash& key) const;
  // answers[i] for keys[i]; the words of 32 keys are fetched together.
  void MayContainMany(std::span<const KeyHash> keys, bool* answers) const;

  const WordShape& shape() const { return hashing_.shape(); }
  uint64_t memory_bytes() const { return cells_.allocated_bytes(); }
  unsigned CounterAt(uint64_t word, unsigned position) const {
    return Counter(word * shape().positions + position);
  }
  // A query stops at the first counter that is 0; an update touches all.
  AccessCost QueryCost(const KeyHash& key) const;
  AccessCost UpdateCost(const KeyHash& key) const;

 private:
  Pcbf(const WordShape& shape, CellArray cells) : hashing_(shape), cells_(std::move(cells)) {}

  unsigned Counter(uint64_t at) const {
    return std::to_integer<unsigned>(cells_.data()[at / 2]) >> (at % 2 * 4) & 15;
  }
  void SetCounter(uint64_t at, unsigned value);

  WordHashing hashing_;
  CellArray cells_;
};

}  // namespace kbf
