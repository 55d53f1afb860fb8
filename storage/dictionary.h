// Dictionary maps each distinct value of one slab to codes and back. A value is bytes and client
// flags; a code is a block of symbols that the slab's filters store for it (symbol_blocks.h). It
// decides which values get symbols, and how many, and follows the values that are in use: it counts
// the entries that the filters hold of each code, so that a value leaves soon after its last key,
// and a block that has become too large or too small is replaced.
//
// A value has one current code, which new entries use, and perhaps older ones of other sizes, which
// stay readable until no filter holds them.
//
// Code space grows with the number of values: the first of them start with the planned block, and
// when these would take half of all symbols, the others start with smaller ones, down to the
// smallest that the config allows. Units are halved ahead of that. The filters stay as they are,
// but those that are opened from then on should be planned for typical_check_bits().
//
// Promises:  never approximate: a code's value is the value it was given for, and no value has two
//            ids at once. A value without entries leaves within 2 · num_codes() Admits, provided
//            that it is not admitted meanwhile.
// Requires:  one thread at a time (the slab's lock; the pool's shard locks come after it). Slabs
//            that are to share blobs have the same secret. The pool outlives the dictionary. The
//            code that Admit gave stays until the next Admit or ReleaseGiven, whatever is removed.
// Costs:     for each value 16 bytes, its code 12, a unit 4 and the index 11 to 21; the sketch 16
//            KB. Admit of a known value: one hash, one probe, one memcmp, no allocation unless its
//            block is resized. Refine writes all units: 0.1 ms at 65,536.
// Departs:   from [kBF] §3.3, where any value gets an encoding and keeps it, and where a secondary
//            kBF finds a value's number. Here a value must occur often enough (see Admit), its
//            block is resized with its share, and codes are recycled; and the index is exact, as a
//            secondary kBF takes 24 bytes per value and a block for each of its numbers (paper/
//            has one).
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "storage/blob_pool.h"
#include "storage/frequency_sketch.h"
#include "storage/hash.h"
#include "storage/layout.h"
#include "storage/seen_filter.h"
#include "storage/store_counters.h"
#include "storage/symbol_blocks.h"
#include "storage/value_index.h"

namespace kbf {

struct DictionaryConfig {
  KbfLayout layout;  // of the filters whose symbols these are; its check bits are the planned ones
  // Of the smallest block that may be given. As many as the layout's: code space does not grow.
  unsigned check_bits_min = 8;
  uint32_t value_bytes_max = 1 << 20;
  uint64_t keys_expected = 1 << 17;  // entries from which on shares are known well
  size_t seen_bytes = 0;             // for values that come again after a long time, where they do
};

class Dictionary {
 public:
  // Short values get a code at their first occurrence while there are fewer than one per so many
  // planned blocks.
  static constexpr uint32_t kFirstOccurrenceShare = 8;
  static constexpr size_t kFirstOccurrenceBytesMax = 1024;
  static constexpr size_t kSketchBytes = 16 << 10;
  // What a value costs this slab besides its bytes, and a key in a filter; both about.
  static constexpr uint64_t kBytesPerValue = 64;
  static constexpr uint64_t kBytesPerKey = 27;
  // Values that are worth the memory of a SeenFilter.
  static constexpr uint32_t kSeenValuesMin = 1024;
  // Smallest blocks in all: 2^26. Bounds every table here.
  static constexpr unsigned kUnitBitsMax = 26;
  static constexpr uint32_t kCodesPerValueMax = 32;

  // REQUIRES: IsValid(layout), 1 <= check_bits_min <= layout.check_bits, symbol_bits -
  // check_bits_min <= kUnitBitsMax, value_bytes_max <= BlobPool::kValueBytesMax. Throws
  // std::bad_alloc without memory for its first tables.
  Dictionary(const DictionaryConfig& config, const HashSecret& secret, BlobPool& pool);
  Dictionary(const Dictionary&) = delete;
  Dictionary& operator=(const Dictionary&) = delete;
  ~Dictionary();

  struct Code {
    uint32_t number;
    SymbolBlock block;
  };
  // How a value is offered.
  struct Offer {
    uint64_t item_bytes = 100;  // that a key with this value takes where it is exact
    bool again = false;         // by a key that was counted before: not one more occurrence
    bool may_add = true;        // false: only if it is known
  };
  // The current code of this value. A value without one gets it
  // - at its first occurrence, if it is short, there are few values and more than half of all
  //   symbols are free;
  // - else, while any symbols are free: when it has occurred so often lately that its keys save
  // more
  //   bytes than it costs, at least 2 times and at most FrequencySketch::kCountMax.
  // Nothing: not yet, or it is too long.
  [[nodiscard]] std::optional<Code> Admit(std::string_view bytes, uint32_t flags,
                                          const Offer& offer);
  [[nodiscard]] std::optional<Code> Admit(std::string_view bytes, uint32_t flags) {
    return Admit(bytes, flags, Offer());
  }
  // True if the value has a code already. No side effects.
  bool Knows(std::string_view bytes, uint32_t flags) const;

  // For Kbf::Query: the value of a block is its code's number.
  const SymbolBlocks& blocks() const { return blocks_; }
  // REQUIRES: the code is in use. Retain the blob to keep it beyond the slab's lock.
  Blob* BlobOf(uint32_t code) const;
  SymbolBlock BlockOf(uint32_t code) const;
  bool SameValue(uint32_t code_a, uint32_t code_b) const;

  // Entries of a code that came into filters, and that left them. REQUIRES: the code is in use; no
  // more leave than came
  void AddEntry(uint32_t code);
  void RemoveEntries(uint32_t code, uint32_t entries);
  // The same; a value that has no entry left goes at once.
  void DropEntries(uint32_t code, uint32_t entries);
  // The code that Admit gave is no longer kept for its caller.
  void ReleaseGiven() { given_ = kNone; }

  // γ of maths.h for the entries of all filters: Σ share · 2^-c over the codes; 2^-c of the planned
  // block while there are no entries.
  double match() const;
  // Check bits of blocks that give a filter at most twice this γ, which is what plans leave room
  // for (kPlanMargin); at most the planned ones.
  unsigned typical_check_bits() const;

  uint32_t num_values() const { return num_values_; }
  uint32_t num_codes() const { return num_codes_; }
  uint64_t num_entries() const { return num_entries_; }
  const DictionaryCounters& counters() const { return counters_; }
  // Tables, blocks, index, sketch; not the blobs, which are the pool's.
  uint64_t memory_bytes() const;

 private:
  friend struct ImageParts;

  static constexpr uint32_t kNone = 0xffffffff;
  static constexpr uint32_t kNoCode = (1u << kUnitBitsMax) - 1;

  //   |blob 8|entries 4|current code 26 bits, number of codes 6 bits|
  struct Value {
    Blob* blob = nullptr;  // null: a free id
    uint32_t entries = 0;  // of all its codes; a free id: the next one
    uint32_t current : kUnitBitsMax = kNoCode;
    uint32_t num_codes : 32 - kUnitBitsMax = 0;
  };
  static_assert(sizeof(Value) == 16);

  struct CodeEntry {
    uint32_t value = kNone;     // id; kNone: a free code
    uint32_t first = 0;         // symbol of its block; a free code: the next one
    uint32_t entries : 31 = 0;  // in all filters
    uint32_t idle : 1 = 0;      // the sweep has met it without entries, and nobody used it since
  };
  static_assert(sizeof(CodeEntry) == 12);

  uint64_t HashOf(std::string_view bytes, uint32_t flags) const;
  uint32_t FindId(std::string_view bytes, uint32_t flags, uint64_t hash) const;

  bool ShouldAdmit(uint64_t hash, size_t bytes, const Offer& offer);
  uint32_t Occurrences(uint64_t hash, bool again);
  void FitSeen();
  // Of the block that a new value gets now.
  unsigned new_check_bits() const;
  uint32_t AddValue(std::string_view bytes, uint32_t flags, uint64_t hash);
  bool ReserveTables();
  bool GiveFirstCode(uint32_t id);
  void DropValue(uint32_t id);

  bool GiveCode(uint32_t id, unsigned check_bits);
  void FreeCode(uint32_t code);
  bool RefineTo(unsigned check_bits);
  // Frees those of the next codes in turn that have no entries: with `eager` all, else those that
  // the sweep has met so before.
  void Sweep(uint32_t codes, bool eager);
  void FreeIfUnused(uint32_t code, bool eager);
  void FitBlock(uint32_t id);

  double FreeShare() const {
    return static_cast<double>(blocks_.free_units()) / static_cast<double>(num_units());
  }
  uint32_t num_units() const {
    return 1u << (config_.layout.symbol_bits - blocks_.check_bits_min());
  }
  // An entry's part of match_.
  uint64_t MatchOf(uint32_t code) const {
    return uint64_t{1} << (config_.layout.symbol_bits - BlockOf(code).check_bits);
  }
  uint32_t planned_blocks() const {
    return 1u << (config_.layout.symbol_bits - config_.layout.check_bits);
  }

  // constant after construction
  const DictionaryConfig config_;
  const HashSecret secret_;
  BlobPool& pool_;

  // under the slab's lock
  SymbolBlocks blocks_;
  std::vector<Value> values_;  // by id
  std::vector<CodeEntry> codes_;
  ValueIndex index_;
  uint32_t free_id_ = kNone;
  uint32_t free_code_ = kNone;
  uint32_t num_values_ = 0;
  uint32_t num_codes_ = 0;
  uint32_t given_ = kNone;  // the code that Admit gave last
  uint32_t hand_ = 0;       // of the sweep
  uint32_t admits_ = 0;
  uint64_t num_entries_ = 0;
  uint64_t match_ = 0;  // Σ entries · 2^(b-c) over all codes
  FrequencySketch sketch_;
  SeenFilter seen_;
  DictionaryCounters counters_;
};

}  // namespace kbf
