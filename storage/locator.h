// Locator names the filters of a chain that may hold a key: the dynamic Bloom filter array of
// [DBA], bit-sliced and blocked, so that one cache line answers for up to 32 filters and two
// adjacent ones for 64. It stores bits about keys, not keys or values; the candidates must still be
// asked.
//
// A filter of the chain is a column. A key has one block of 16 slots and 4 different slots in it; a
// slot has one bit per column. Candidates are the AND of the 4 slots:
//
//             columns 0 … G-1, G = 8, 16, 32 or 64 (the group cardinality g of [DBA] §3.1)
//   slot  0   | 0 1 0 0 1 … |
//   slot  1   | 1 1 0 0 0 … |      block = 16 slots of G bits = 16, 32, 64 or 128 bytes,
//     …                            aligned to its size, or to a cache line where that is smaller
//   slot 15   | 0 1 1 0 0 … |
//
// Promises:  a column that a key was added to is among the key's candidates until the column is
//            cleared, also in the middle of Grow, Clear and Or. Any other column is a candidate
//            with chance FalseCandidateRate: 3.7 % at 10 bits per key, 2.5 % at 12 (tests measure
//            it within 5σ). A false candidate costs the chain one query of a filter, and nothing
//            else.
// Requires:  one thread at a time (the slab's lock). Create (Add | Candidates | Grow | …Step)*; a
//            column is used only below columns_ready().
// Costs:     bits_per_key/8 bytes per key of capacity and column, used or not. Allocates in Create
//            and Grow only, both arrays at once while it grows; the last GrowStep frees the old
//            one. Candidates and Add read one cache line, or 1.92 on average at 64 columns, and
//            take 20 to 30 ns in cache. The background work is measured at kStepBlocks.
// Departs:   from [DBA]
//            - blocked: [DBA]'s k bit groups lie in k places of memory, ours in one line. The keys
//            of
//              a block vary (Poisson): 3.7 % false candidates where an unblocked filter has 1.2 %.
//            - 4 probes instead of about 20: [DBA] replaces a disk access, we two cache misses.
//            - error control (§3.2): filters cannot list their keys, so nothing is ever rebuilt.
//              Bits per key are planned for the longest chain by Eq. (4) beforehand; the OR of two
//              columns (§3.4, on JOIN) holds both columns' keys and its rate rises accordingly. The
//              chain adds up FalseCandidateRate of its columns to see what it pays.
//            - deletion is lazy as in §3.4, but there is no refresh: a column is cleared when its
//              filter is dropped; until then a deleted key costs one look into its filter.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

#include "storage/cell_array.h"
#include "storage/hash.h"

namespace kbf {

struct LocatorConfig {
  uint64_t keys_per_column = 0;  // c_BF of [DBA] §3.2
  double bits_per_key = 10;
};

class Locator {
 public:
  static constexpr unsigned kColumnsMin = 8;
  static constexpr unsigned kColumnsMax = 64;
  static constexpr unsigned kSlots = 16;
  static constexpr unsigned kProbes = 4;
  static constexpr uint64_t kBlocksMax = uint64_t{1} << 39;  // 64 TiB at 64 columns
  static constexpr double kBitsPerKeyMax = 4096;
  // Blocks per step. Measured: 5 to 70 µs to clear, 10 to 110 µs to or, about 100 µs to grow. Not
  // counted: the first touch of a huge page, mostly in GrowStep, which takes the kernel 0.4 to 5 ms
  // on the virtual machine measured, once 17.
  static constexpr uint64_t kStepBlocks = 4096;

  // Nothing where no column could be that large (no keys, bits per key not in (0, kBitsPerKeyMax],
  // more than kBlocksMax blocks) or where the memory is not to be had. Starts with kColumnsMin.
  static std::optional<Locator> Create(const LocatorConfig& config);

  // Bit i: column i may hold the key.
  uint64_t Candidates(const KeyHash& key) const;
  void Prefetch(const KeyHash& key) const;
  // REQUIRES: column < columns_ready()
  void Add(const KeyHash& key, unsigned column);

  // G: the columns that can be used now; the old number until growth has finished.
  unsigned columns_ready() const { return now_.columns; }
  uint64_t num_blocks() const { return num_blocks_; }
  uint64_t memory_bytes() const;

  // Starts to double the columns. False, and nothing changed, where there are 64, where it grows
  // already, and where the memory is not to be had.
  [[nodiscard]] bool Grow();
  bool growing() const { return next_.has_value(); }

  // Background work in slices of so many blocks. All return true when finished, and may be mixed
  // with each other and with everything above in any order. A cursor starts at 0 and is kept by the
  // caller; it counts blocks, which growth does not renumber.

  // Nothing to do counts as finished.
  bool GrowStep(uint64_t blocks);
  // REQUIRES: column < columns_ready(), and nothing is added to it until this is finished
  bool ClearStep(unsigned column, uint64_t* cursor, uint64_t blocks);
  // JOIN ([DBA] §3.4): column `to` |= column `from`, which stays as it is.
  // REQUIRES: both < columns_ready(); until this is finished, what is added to `from` is added to
  // `to` too
  bool OrStep(unsigned from, unsigned to, uint64_t* cursor, uint64_t blocks);

  // Where a key's bits are, for tests that pin the layout.
  struct Place {
    uint64_t block;
    std::array<uint8_t, kProbes> slots;
    friend bool operator==(const Place&, const Place&) = default;
  };
  Place PlaceOf(const KeyHash& key) const;

  // ---- formulas ----

  // The chance that a column is a candidate for a key that was never added to it, after `keys`
  // different ones were. Exact up to Poisson for binomial, that is up to terms in 1/blocks.
  static double FalseCandidateRate(double keys, double blocks);
  double FalseCandidateRate(double keys) const {
    return FalseCandidateRate(keys, static_cast<double>(num_blocks_));
  }
  // [DBA] Eq. (4), F_BF: the false-candidate rate of each of `columns` at which an absent key has
  // any candidate with chance `share`. REQUIRES: 0 <= share < 1, columns > 0
  static double RatePerColumn(double share, unsigned columns);
  // The fewest bits per key with which a full column keeps to that rate; infinity, which Create
  // refuses, where kBitsPerKeyMax would not do.
  static double BitsPerKeyFor(double rate);

 private:
  friend struct ImageParts;

  struct Table {
    CellArray cells;
    unsigned columns;

    uint64_t block_bytes() const { return uint64_t{kSlots} * columns / 8; }
    std::byte* Block(uint64_t block) { return cells.data() + block * block_bytes(); }
    const std::byte* Block(uint64_t block) const { return cells.data() + block * block_bytes(); }
  };
  static std::optional<Table> MakeTable(uint64_t blocks, unsigned columns);

  Locator(uint64_t num_blocks, Table table) : num_blocks_(num_blocks), now_(std::move(table)) {}

  // The table that a block is read and written in.
  const Table& TableOf(uint64_t block) const { return block < moved_ ? *next_ : now_; }
  Table& TableOf(uint64_t block) { return block < moved_ ? *next_ : now_; }
  // Moves the cursor on by so many blocks and calls work(table, begin, end), once per table.
  bool Step(uint64_t* cursor, uint64_t blocks, auto&& work);

  uint64_t num_blocks_;        // constant after construction
  Table now_;                  // blocks moved_ … num_blocks_-1
  std::optional<Table> next_;  // while growing: blocks 0 … moved_-1, twice as wide
  uint64_t moved_ = 0;         // 0 unless growing
};

}  // namespace kbf
