// WordHashing says which words a key uses and which positions in them ([MPCBF] §III: H_1 … H_g and
// h_1 … h_k). It is the layout that all partitioned filters share, and no filter itself.
//
// Promises:  the same places for the same key; all words and positions equally likely and
//            independent of each other, so two hash functions may choose the same place, as in the
//            paper.
// Requires:  nothing; pure functions.
// Costs:     a stream of the key per word and per two positions, made when asked for.
// Streams:   kWordStream … +15 words, kWordPositionStream … +7 positions (storage/hash.h lists the
//            others).
#pragma once

#include <cmath>
#include <cstdint>

#include "storage/hash.h"
#include "storage/membership/maths.h"

namespace kbf {

inline constexpr unsigned kWordHashesMax = 16;
inline constexpr unsigned kWordStream = 32;
inline constexpr unsigned kWordPositionStream = 48;

class WordHashing {
 public:
  // REQUIRES: 1 <= g <= k <= kWordHashesMax, at least one word and one position, fewer than 2^32
  // positions
  explicit WordHashing(const WordShape& shape) : shape_(shape) {}

  const WordShape& shape() const { return shape_; }

  // REQUIRES: access < g
  uint64_t WordOf(const KeyHash& key, unsigned access) const {
    return ScaleTo(Stream(key, kWordStream + access), shape_.words);
  }
  // Hash functions are numbered through: those of the first word, then of the second, …
  // REQUIRES: hash < k
  unsigned PositionOf(const KeyHash& key, unsigned hash) const {
    const uint64_t stream = Stream(key, kWordPositionStream + hash / 2);
    const uint64_t half = hash % 2 == 0 ? stream >> 32 : stream & 0xffffffffu;
    return static_cast<unsigned>((half * shape_.positions) >> 32);
  }

  // Calls visit(word, position) for hash function after hash function until it returns false.
  // Returns false then.
  bool ForEachPlace(const KeyHash& key, auto&& visit) const {
    unsigned hash = 0;
    for (unsigned access = 0; access < shape_.num_accesses; ++access) {
      const uint64_t word = WordOf(key, access);
      for (unsigned left = shape_.HashesIn(access); left > 0; --left) {
        if (!visit(word, PositionOf(key, hash++))) return false;
      }
    }
    return true;
  }

 private:
  WordShape shape_;
};

// All k places of a key, for changes, which look at each more than once.
struct WordPlaces {
  struct Place {
    uint64_t word;
    unsigned position;
    friend bool operator==(const Place&, const Place&) = default;
  };
  Place places[kWordHashesMax];
  unsigned count = 0;

  WordPlaces(const WordHashing& hashing, const KeyHash& key) {
    hashing.ForEachPlace(key, [this](uint64_t word, unsigned position) {
      places[count++] = {word, position};
      return true;
    });
  }
  const Place* begin() const { return places; }
  const Place* end() const { return places + count; }
  // How many of the key's hash functions fall in that place.
  unsigned Multiplicity(const Place& place) const {
    unsigned times = 0;
    for (const Place& other : *this) times += other == place;
    return times;
  }
};

// What one operation costs in the measure of [MPCBF] §IV: words that are fetched, and bits of hash
// functions that are used to address words, counters and, in an MPCBF, bits of further levels.
struct AccessCost {
  unsigned words = 0;
  double bits = 0;
};
// Bits of a hash function that address one of `count` things, no whole number, as in [MPCBF].
inline double AddressBits(uint64_t count) { return std::log2(static_cast<double>(count)); }

}  // namespace kbf
