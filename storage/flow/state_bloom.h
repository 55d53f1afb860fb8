// StateBloom is the stateful Bloom filter of approximate concurrent state machines, which [kBF] §7
// compares with and calls sBF (Bonomi et al., "Beyond Bloom Filters", SIGCOMM 2006): a counting
// Bloom filter whose cells also hold a state, or "don't know" where flows with different states
// met. It is here for that comparison.
//
//   cell:  | counter 4 | state 4 |   state 15: don't know
//
// Promises:  a stored key is never kAbsent as long as only stored keys are changed and removed. It
//            gets its state, or kUnknown where every cell of it (kNullIfShared: any) says "don't
//            know". Errors for whom:
//            - an absent key finds all its k cells in use with chance (1 - e^-L)^k, L = nk/m, and
//              then gets a state or kUnknown, unless the cells contradict each other (kAbsent);
//            - a cell whose keys had equal states keeps that state when one of them leaves, so it
//              stays right; a cell that says "don't know" does so until it is empty or the one key
//              that is left changes;
//            - Change and Remove of a key that is not stored damage the keys that share its cells;
//            - counters stick at 15, and cells that reach it are in use for ever.
// Requires:  one thread; a key is inserted once before it is changed or removed.
//            Create (Insert | Query | Change | Remove)*
// Costs:     1 byte per cell; k cells per operation, each in a part of its own.
// Departs:   [kBF] says that its sBF "simply returns null value for those cells with two or more
//            flows" and that more cells hardly help it. As Bonomi et al. describe it, one cell that
//            knows is enough, and cells of several flows know what is equal; so it errs less with
//            more cells (bench/fig24_flow_states.cc). kNullIfShared reads [kBF] to the letter.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "storage/hash.h"

namespace kbf {

class StateBloom {
 public:
  static constexpr unsigned kStatesMax = 15;
  static constexpr unsigned kHashesMax = 32;
  static constexpr uint64_t kCellsMax = uint64_t{1} << 36;

  enum class Sharing : uint8_t {
    kEqualStates,   // a cell of several flows knows their state where it is the same
    kNullIfShared,  // it says "don't know", and so does a flow with one such cell
  };
  enum class Outcome : uint8_t { kAbsent, kFound, kUnknown };
  struct Answer {
    Outcome outcome = Outcome::kAbsent;
    unsigned state = 0;  // 0 unless kFound
  };

  // m cells at least, k hash functions; nothing where a size is 0 or above its limit. Throws
  // std::bad_alloc.
  [[nodiscard]] static std::optional<StateBloom> Create(uint64_t num_cells, unsigned num_hashes,
                                                        Sharing sharing);

  Answer Query(const KeyHash& key) const;
  // REQUIRES for both: state < kStatesMax
  void Insert(const KeyHash& key, unsigned state);
  void Change(const KeyHash& key, unsigned state);
  void Remove(const KeyHash& key);

  uint64_t num_cells() const { return cells_.size(); }
  unsigned num_hashes() const { return num_hashes_; }
  uint64_t memory_bytes() const { return cells_.size(); }

 private:
  StateBloom(uint64_t cells_per_hash, unsigned num_hashes, Sharing sharing)
      : cells_(cells_per_hash * num_hashes),
        cells_per_hash_(cells_per_hash),
        num_hashes_(num_hashes),
        sharing_(sharing) {}
  size_t Position(const KeyHash& key, unsigned i) const {
    return i * cells_per_hash_ + ScaleTo(Stream(key, i), cells_per_hash_);
  }

  std::vector<uint8_t> cells_;
  uint64_t cells_per_hash_;
  unsigned num_hashes_;
  Sharing sharing_;
};

}  // namespace kbf
