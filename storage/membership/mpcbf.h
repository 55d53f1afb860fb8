// Mpcbf is the multi-partitioned counting Bloom filter ([MPCBF] §III, MPCBF-g): a set with insert,
// delete and an approximate "is it there", at one memory access for g = 1 and g at most. Each word
// is an Hcbf, so a counter takes the bits that it needs and the rest makes level 1 larger.
//
//   word of 64 bits    | level 1: b_1 bits | level 2 | level 3 | … | unused | overflow mark |
//                                                                           bit 63
// A query reads level 1 only, in all words alike.
//
// Promises:  a key that was inserted and not deleted is never called absent, also when words
//            overflow. An absent key is called present with the chance WordFalsePositive (eq. 4 and
//            8, without their approximation). Sized by eq. 11, less than one word is expected to
//            overflow, and up to three where g does not divide k.
// Overflow:  a word that has no bit left keeps its level 1, gets its mark, and its counters move to
//            a side table, where they stay exact; they move back when they fit again. The side
//            table has room for overflow_words_max words, each about 300 bytes. A word that
//            overflows beyond that is *stuck*: its level 1 bits are set, never cleared. That costs
//            false positives only, grows under churn, and is cured by building the filter anew,
//            larger; overflowed_words() and stuck_words() tell when.
// Requires:  one thread at a time. Create (Insert | Delete | MayContain | …)*; only keys that were
//            inserted may be deleted. Deleting an absent key that MayContain takes for present
//            makes other keys absent, as in every counting filter. At most kKeysMax keys.
// Costs:     memory_bytes(), allocated in Create, and the side table. A query fetches one word per
//            access and needs no popcount; an update walks the levels of k counters. Bits per
//            key at 1 % false positives: 31.3 (g = 1, k = 3), 22.5 (g = 2), 19.8 (g = 3), where a
//            CBF takes 38.3 and 7 accesses.
// Departs:   words that overflow are kept exact, where the paper only makes them unlikely; hash
//            functions are spread over words as evenly as can be, see WordShape::HashesIn.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <unordered_map>
#include <utility>

#include "storage/cell_array.h"
#include "storage/hash.h"
#include "storage/membership/hcbf.h"
#include "storage/membership/word_hashing.h"

namespace kbf {

struct MpcbfConfig {
  uint64_t keys = 0;  // planned; for eq. 11, more keys may come
  uint64_t memory_bits = 0;
  unsigned word_bits = 64;  // 16, 32 or 64
  unsigned num_hashes = 3;
  unsigned num_accesses = 1;         // g
  unsigned first_level = 0;          // b_1; 0: the largest that eq. 11 allows
  uint64_t overflow_words_max = 64;  // beyond these, words are stuck
};

class Mpcbf {
 public:
  static constexpr uint64_t kKeysMax = uint64_t{1} << 28;

  // Nothing where the numbers make no filter (see MpcbfConfig; 1 <= g <= k <= kWordHashesMax, one
  // word at least, first_level 0 or 2 … word_bits - 1, or no room for one by eq. 11) or the memory
  // is not to be had.
  static std::optional<Mpcbf> Create(const MpcbfConfig& config);
  // The smallest memory at which `keys` keys have that false positive rate with g accesses to words
  // of 64 bits, and the best k for it. Nothing where kBitsPerKeyMax would not do.
  static constexpr double kBitsPerKeyMax = 256;
  static std::optional<MpcbfConfig> Plan(uint64_t keys, double false_positive,
                                         unsigned num_accesses);

  // REQUIRES: size() < kKeysMax
  void Insert(const KeyHash& key);
  // False, and nothing changed, where the key is absent for certain.
  bool Delete(const KeyHash& key);
  bool MayContain(const KeyHash& key) const;
  // answers[i] for keys[i]; the words of 32 keys are fetched together.
  void MayContainMany(std::span<const KeyHash> keys, bool* answers) const;

  // Insertions less deletions.
  uint64_t size() const { return size_; }
  const WordShape& shape() const { return hashing_.shape(); }
  // With the side table.
  uint64_t memory_bytes() const;
  uint64_t overflowed_words() const { return overflowed_.size(); }
  uint64_t stuck_words() const { return stuck_words_; }

  // The counter of a place; kStuck in a word that is stuck.
  static constexpr uint32_t kStuck = ~uint32_t{0};
  uint32_t CounterAt(uint64_t word, unsigned position) const;
  const WordHashing& hashing() const { return hashing_; }

  // A query stops at the first bit that is 0; an update walks the levels of all k counters, in a
  // word that has overflowed none.
  AccessCost QueryCost(const KeyHash& key) const;
  AccessCost UpdateCost(const KeyHash& key) const;

 private:
  friend struct MpcbfParts;  // mpcbf_image.cc

  static constexpr unsigned kPositionsMax = 64;
  using Counters = std::array<uint32_t, kPositionsMax>;

  Mpcbf(const MpcbfConfig& config, const WordShape& shape, CellArray cells)
      : hashing_(shape),
        hcbf_(config.word_bits, shape.positions),
        overflow_words_max_(config.overflow_words_max),
        cells_(std::move(cells)) {}

  uint64_t Load(uint64_t word) const;
  void StoreWord(uint64_t word, uint64_t bits);
  bool Marked(uint64_t bits) const { return (bits & hcbf_.HighestBit()) != 0; }

  void Increment(uint64_t word, unsigned position);
  void Decrement(uint64_t word, unsigned position);
  // Marks the word and moves its counters to the side table, or leaves it stuck.
  void Overflow(uint64_t word, uint64_t bits);
  // Takes the counters back into the word where they fit.
  void ReturnIfFits(uint64_t word, const Counters& counters);

  // Constant after construction.
  WordHashing hashing_;
  Hcbf hcbf_;
  uint64_t overflow_words_max_;

  CellArray cells_;
  std::unordered_map<uint64_t, Counters> overflowed_;  // by word
  uint64_t stuck_words_ = 0;
  uint64_t size_ = 0;
};

}  // namespace kbf
