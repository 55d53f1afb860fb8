// FilterGroup is up to g Bloom filters of one shape whose bits are interleaved, so that one access
// reads the bit of every filter at a position ([DBA] §3.1, Fig. 3(b)). The filters are segmented:
// hash function j has rows of its own ([DBA] §3.2, Fig. 4), so that hash functions can be added
// later.
//
//   segment j:   row 0            row 1            …
//                | f0 f1 … fg-1 | f0 f1 … fg-1 |      bits; a row has 1, 2, 4, 8, 16, 32 or a
//                multiple
//                                                     of 64 bits
//
// Promises:  a filter that a key was added to answers yes for it until the filter is cleared.
// Requires:  one thread at a time. All `filter` arguments below cardinality().
// Costs:     memory_bytes(): k segments of rows · row bits. Candidates reads one row per hash
// function,
//            until no filter is left; Add sets one bit per hash function.
// Departs:   "standard" filters, in which all hash functions share one range, are not kept beside
// the
//            segmented ones; their error rates differ by less than 1/rows.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "storage/cell_array.h"
#include "storage/hash.h"

namespace kbf {

inline constexpr unsigned kDbaHashesMax = 64;
inline constexpr unsigned kDbaStream = 80;  // … +63, see storage/hash.h

// The hash functions of one key, computed when first asked for and then shared by all groups.
class DbaHashes {
 public:
  explicit DbaHashes(const KeyHash& key) : key_(key) {}

  // REQUIRES: hash < kDbaHashesMax, and smaller ones have been asked for
  uint64_t Row(unsigned hash, uint64_t rows) {
    if (hash >= known_) {
      streams_[hash] = Stream(key_, kDbaStream + hash);
      known_ = hash + 1;
    }
    return ScaleTo(streams_[hash], rows);
  }

 private:
  KeyHash key_;
  unsigned known_ = 0;
  std::array<uint64_t, kDbaHashesMax> streams_;
};

struct FilterGroupShape {
  unsigned cardinality = 1;  // g
  uint64_t rows = 0;         // of a segment, m/k
  unsigned num_hashes = 1;   // k, segments
};

class FilterGroup {
 public:
  static constexpr unsigned kCardinalityMax = 1024;
  static constexpr unsigned kWordsMax = kCardinalityMax / 64;

  // Nothing where the numbers make no group (1 <= g <= kCardinalityMax, 1 <= k <= kDbaHashesMax,
  // rows at least one) or the memory is not to be had.
  static std::optional<FilterGroup> Create(const FilterGroupShape& shape);

  const FilterGroupShape& shape() const { return shape_; }
  unsigned words() const { return words_; }
  uint64_t memory_bytes() const;

  // Algorithm 2: bit f of `mask` stays set where filter f may hold the key. REQUIRES: words() of
  // them Returns whether any is left.
  bool Candidates(DbaHashes* hashes, uint64_t* mask) const;
  void Add(unsigned filter, const KeyHash& key);
  void Clear(unsigned filter);
  // JOIN of two subsets ([DBA] §3.4): filter `to` |= filter `from`, which stays.
  void Or(unsigned from, unsigned to);
  // So many more hash functions for a group, as a group of their own: it has only their segments.
  // Fill it with the keys of all filters, then let Append take it. Nothing where the memory or
  // kDbaHashesMax does not allow it.
  std::optional<FilterGroup> MoreSegments(unsigned more) const;
  // REQUIRES: `more` comes from MoreSegments of this group
  void Append(FilterGroup more);
  // Filters of `other` become filters 0 … of this group, from `first` on: rows are copied.
  // REQUIRES: the same rows and hash functions; room for other's cardinality
  void CopyFrom(const FilterGroup& other, unsigned first);

 private:
  FilterGroup(const FilterGroupShape& shape, unsigned first_hash);
  bool Allocate();

  uint64_t ReadRow(const CellArray& segment, uint64_t row, unsigned word) const;
  void WriteBit(CellArray* segment, uint64_t row, unsigned filter, bool bit);
  bool ReadBit(const CellArray& segment, uint64_t row, unsigned filter) const;
  // Bits of the last word that are filters.
  uint64_t WordMask(unsigned word) const;

  FilterGroupShape shape_;
  unsigned first_hash_;  // of segment 0; above 0 in what MoreSegments makes
  unsigned row_bits_;
  unsigned words_;
  std::vector<CellArray> segments_;
};

}  // namespace kbf
