// Dictionary maps each distinct value of one slab to codes and back. A value is bytes and client
// flags; a code is a block of symbols that the slab's filters store for it (symbol_blocks.h). It
// decides which values get symbols, and how many.
//
// Its index from values to ids is itself a key-value Bloom filter, called secondary kBF, s-kBF.
//
// A value has one current code, which new entries use, and perhaps older ones of other sizes, which
// stay readable until no filter can hold them.
//
// Promises:  never approximate: a code's value is the value it was given for, and no value has two
//            ids at once. An answer of the s-kBF is compared with the stored bytes, "undecodable"
//            is followed by a search through all values, and "absent" is never wrong for a stored
//            key (kbf.h).
// Requires:  one thread at a time (the slab's lock; the pool's shard locks come after it). Slabs
//            that are to share blobs have the same secret. The pool outlives the dictionary.
//            (Admit, then CodeSet::Add of the code if an entry was made)* Recycle: no admitted code
//            is outstanding there.
// Costs:     289 KB at 3,000 values of the default layout, 92 KB when empty: symbol blocks 2 x 34,
//            s-kBF 98 (24 bytes per value of room), values 78, codes 26, sketch 16. Admit of a
//            known value: one hash, one kBF query, one memcmp, no allocation unless its block is
//            resized: 110 ns. With n values: the index is rebuilt when n doubles (n inserts), uses
//            are halved at most every 32 Admits per unit (a walk over n). All n are searched in
//            3e-6 of the look-ups of unknown values (measured), and once for each of the 5e-4 of
//            the values that the s-kBF does not decode when full. Recycle: see there.
// Departs:   from [kBF] §3.3, where any value gets an encoding and keeps it. Here a value must
// occur
//            often enough (see Admit), its block is resized with its share, and codes are recycled.
//            The key of the s-kBF is made of 64 bits of the value's hash, which saves 8 bytes per
//            value and slab; two values with equal hashes end in the search above.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "storage/blob_pool.h"
#include "storage/frequency_sketch.h"
#include "storage/hash.h"
#include "storage/kbf.h"
#include "storage/layout.h"
#include "storage/store_counters.h"
#include "storage/symbol_blocks.h"

namespace kbf {

// The codes that were ever put in a filter: one bit per possible code (512 bytes with the default
// layout). Counts would drift with the filter's errors; this set only grows until the filter is
// dropped.
class CodeSet {
 public:
  explicit CodeSet(uint32_t codes_max) : words_((size_t{codes_max} + 63) / 64) {}

  void Add(uint32_t code) { words_[code / 64] |= uint64_t{1} << code % 64; }
  void Remove(uint32_t code) { words_[code / 64] &= ~(uint64_t{1} << code % 64); }
  bool Contains(uint32_t code) const { return (words_[code / 64] >> code % 64 & 1) != 0; }
  // For JOIN. REQUIRES: both are from one dictionary
  void UnionWith(const CodeSet& other);
  std::span<const uint64_t> words() const { return words_; }
  size_t memory_bytes() const { return words_.capacity() * sizeof(uint64_t); }

 private:
  std::vector<uint64_t> words_;
};

struct DictionaryConfig {
  KbfLayout layout;  // of the filters whose symbols these are
  uint32_t value_bytes_max = 1 << 20;
};

class Dictionary {
 public:
  // Occurrences that a value needs for a code once symbols are scarce, and one more for every so
  // many of its bytes.
  static constexpr uint32_t kMinOccurrences = 2;
  static constexpr uint32_t kBytesPerOccurrence = 4096;
  // Short values get a code at their first occurrence while there are fewer than one per so many
  // units.
  static constexpr uint32_t kFirstOccurrenceShare = 8;
  static constexpr size_t kFirstOccurrenceBytesMax = 1024;
  static constexpr size_t kSketchBytes = 16 << 10;
  // Smallest blocks in all: 2^26. Bounds every table here.
  static constexpr unsigned kUnitBitsMax = 26;
  static constexpr uint32_t kCodesPerValueMax = 32;

  // REQUIRES: IsValid(layout), symbol_bits - check_bits <= kUnitBitsMax, value_bytes_max <=
  // BlobPool::kValueBytesMax. Throws std::bad_alloc without memory for its first tables.
  Dictionary(const DictionaryConfig& config, const HashSecret& secret, BlobPool& pool);
  Dictionary(const Dictionary&) = delete;
  Dictionary& operator=(const Dictionary&) = delete;
  ~Dictionary();

  struct Code {
    uint32_t number;
    SymbolBlock block;
  };
  // The current code of this value, which is counted as one use. A value without one gets it
  // - at its first occurrence, if it is short, there are few values and more than half of all units
  //   are free;
  // - else, while any unit is free: when the sketch counts kMinOccurrences + bytes /
  //   kBytesPerOccurrence occurrences of it, at most FrequencySketch::kCountMax.
  // Nothing: not yet, or it is too long.
  [[nodiscard]] std::optional<Code> Admit(std::string_view bytes, uint32_t flags);
  // True if the value has a code already. No side effects.
  bool Knows(std::string_view bytes, uint32_t flags) const;

  // For Kbf::Query: the value of a block is its code's number.
  const SymbolBlocks& blocks() const { return blocks_; }
  // REQUIRES: the code is in use. Retain the blob to keep it beyond the slab's lock.
  Blob* BlobOf(uint32_t code) const;
  // REQUIRES: the code is in use
  SymbolBlock BlockOf(uint32_t code) const;
  bool SameValue(uint32_t code_a, uint32_t code_b) const;

  CodeSet NewCodeSet() const { return CodeSet(codes_max()); }
  // Frees every code that is in none of these sets; a value without codes is removed. A value
  // whose current code goes while another one stays uses that again. Reads codes_max / 64 words per
  // set (1 µs for 6 sets); then 0.15 µs per value that is removed, and one walk over all codes if
  // a value lost its current one.
  // REQUIRES: every code that Admit gave and a filter, or the caller, still uses is in one of them
  void Recycle(std::span<const CodeSet* const> in_use);

  // γ of maths.h for entries made now: Σ share · 2^-c over the current codes. Computed by a walk
  // over all values; 2^-c of the smallest block while there are none.
  double match() const;

  uint32_t codes_max() const { return num_units_ - 1; }
  uint64_t num_values() const { return num_values_; }
  uint64_t num_codes() const { return num_codes_; }
  const DictionaryCounters& counters() const { return counters_; }
  // Tables, blocks, s-kBF, sketch; not the blobs, which are the pool's.
  uint64_t memory_bytes() const;

 private:
  static constexpr uint32_t kNone = 0xffffffff;
  static constexpr uint32_t kNoCode = (1u << kUnitBitsMax) - 1;

  //   |hash 8|blob 8|uses 4|current code 26 bits, number of codes 6 bits|
  struct Value {
    uint64_t hash = 0;
    Blob* blob = nullptr;  // null: a free id
    uint32_t uses = 0;     // a free id: the next one
    uint32_t current : kUnitBitsMax = kNoCode;
    uint32_t num_codes : 32 - kUnitBitsMax = 0;
  };
  static_assert(sizeof(Value) == 24);

  struct CodeEntry {
    uint32_t value = kNone;  // id; kNone: a free code
    uint32_t first = 0;      // symbol of its block; a free code: the next one
  };
  static_assert(sizeof(CodeEntry) == 8);

  uint64_t HashOf(std::string_view bytes, uint32_t flags) const;
  uint32_t IndexSymbol(uint32_t id) const;
  bool Matches(uint32_t id, std::string_view bytes, uint32_t flags, uint64_t hash) const;

  uint32_t FindId(std::string_view bytes, uint32_t flags, uint64_t hash, bool* scanned) const;
  bool ShouldAdmit(uint64_t hash, size_t bytes);
  uint32_t AddValue(std::string_view bytes, uint32_t flags, uint64_t hash);
  bool MakeRoom();
  bool RebuildIndex(uint64_t capacity);
  void DropValue(uint32_t id);

  bool GiveCode(uint32_t id, unsigned check_bits);
  void FreeCode(uint32_t code);
  void FitBlock(uint32_t id);
  double WantedUnits(const Value& value) const;
  void HalveUses();

  // constant after construction
  const DictionaryConfig config_;
  const HashSecret secret_;
  BlobPool& pool_;
  const uint32_t num_units_;  // 2^(b-c), the reserved one included
  SymbolBlocks id_blocks_;    // of the s-kBF: id i owns unit i + 1, used or not
  uint64_t fixed_bytes_ = 0;  // of what never grows

  // under the slab's lock
  SymbolBlocks blocks_;
  std::vector<Value> values_;  // by id
  std::vector<CodeEntry> codes_;
  CodeSet codes_in_use_;
  uint32_t free_id_ = kNone;
  uint32_t free_code_ = kNone;
  uint32_t num_values_ = 0;
  uint32_t num_codes_ = 0;
  uint64_t uses_ = 0;         // of all values
  std::optional<Kbf> index_;  // s-kBF: value -> id; always there after construction
  // Ids that the s-kBF could not decode; at most kUndecodableIdsMax.
  std::vector<uint32_t> undecodable_ids_;
  FrequencySketch sketch_;
  DictionaryCounters counters_;
};

}  // namespace kbf
