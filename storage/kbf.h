// Kbf is a key-value Bloom filter: an approximate map from keys to symbols that stores no keys
// ([kBF] §3). The store grows, joins and compresses whole filters. SymbolBlocks and its owner say
// which value a symbol means.
//
// Each key has k cells. A cell is a counter and the XOR of the encodings (bch.h) of all its keys.
//
// Promises:  QUERY has three answers. For a stored key it finds its symbol or says undecodable,
//            never another symbol, as long as every change was made to a key that the filter held
//            (tests: wrong = 0). An absent key is found with chance `false_positive`, a stored key
//            is not found with chance `false_negative`: PredictErrors in maths.h. `evidence_bits`
//            is the base-2 logarithm of how much likelier the cells are if the key is stored than
//            if it is not; reading needs little, changing cells needs strong_evidence_bits().
// Requires:  one writer, or any number of readers. All filters of one chain share layout, secret
//            and SymbolBlocks. INSERT a key only while it is not stored (a second INSERT
//            superimposes a second entry).
// Costs:     CellBytes·k/λ bytes per key at capacity (21.8 with the default plan), k cache lines
//            per operation (g where partitioned). Allocates in Create and Compress only.
// Departs:   from [kBF] §3.4-3.5: check bits inside the symbol, algebraic decoding instead of
// scans,
//            all k cells must agree, and counters that reach 15 stick there (their cell is never
//            decoded or decremented again).
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "storage/cell_array.h"
#include "storage/hash.h"
#include "storage/kbf_kernel.h"
#include "storage/layout.h"
#include "storage/maths.h"
#include "storage/symbol_blocks.h"

namespace kbf {

enum class [[nodiscard]] KbfStatus : uint8_t{
    kOk,
    kAbsent,        // QUERY says that the key is not here
    kUndecodable,   // the key may be here, but its symbol cannot be decoded
    kWeakEvidence,  // found, but with less evidence than a change requires
    kNotHeld,       // a cell is empty or holds something else: nothing was changed
    kUnlike,        // JOIN: other layout, size or secret
    kCannotHalve,   // COMPRESS: the size was halved as often as it can be
    kNoMemory,
};

struct KbfConfig {
  KbfLayout layout;
  uint64_t capacity = 0;  // keys at the planned load
  double load = 1;        // λ at capacity
  unsigned folds =
      3;  // how often COMPRESS may halve it; rounds the size up to a multiple of 2^folds
  uint64_t secret_id = 0;  // HashSecret::Id() of the keys' hashes
};

inline constexpr uint64_t kCapacityMax = uint64_t{1} << 40;  // keys in one filter
inline constexpr unsigned kFoldsMax = 8;

class Kbf {
 public:
  struct CreateOutcome;
  // CREATE. A config that cannot be built gives no filter and a sentence that names the limit.
  static CreateOutcome Create(const KbfConfig& config);

  const KbfLayout& layout() const { return layout_; }
  uint64_t num_cells() const { return geometry_.NumCells(); }  // m
  uint64_t size() const { return size_; }                      // n, as INSERT and DELETE counted it
  uint64_t capacity() const { return capacity_; }
  double load() const;  // λ = nk/m
  // At the present load; `match` is γ of maths.h.
  ErrorRates PredictedErrors(double match) const;
  // What Delete and Update should be given, at the present load and size.
  double strong_evidence_bits() const;
  uint64_t memory_bytes() const { return cells_.allocated_bytes(); }

  // QUERY ([kBF] Algorithm 3).
  QueryResult Query(const KeyHash& key, const SymbolBlocks& blocks) const;
  // The same for many keys, hashed and prefetched together. REQUIRES: results has room for all keys
  void QueryMany(std::span<const KeyHash> keys, const SymbolBlocks& blocks,
                 QueryResult* results) const {
    QueryManyWith(*kernel_, keys, blocks, results);
  }
  // The same by a kernel of the caller's choice, to compare kernels. REQUIRES: it is one for this
  // layout's cells
  void QueryManyWith(const KbfKernel& kernel, std::span<const KeyHash> keys,
                     const SymbolBlocks& blocks, QueryResult* results) const;

  // Fetches the key's cells ahead of an operation on them.
  void Prefetch(const KeyHash& key) const;

  // INSERT ([kBF] Algorithm 2). REQUIRES: the symbol is not 0 and is the key's choice in its
  // value's block
  void Insert(const KeyHash& key, uint32_t symbol);
  void InsertMany(std::span<const KeyHash> keys, std::span<const uint32_t> symbols);

  // DELETE ([kBF] Algorithm 4) of what QUERY finds, on that much evidence.
  KbfStatus Delete(const KeyHash& key, const SymbolBlocks& blocks, double evidence_bits_min);
  // DELETE where the symbol is known.
  KbfStatus DeleteSymbol(const KeyHash& key, uint32_t symbol);
  // UPDATE ([kBF] Algorithm 5) of what QUERY finds to the key's symbol in `block`, on that much
  // evidence.
  KbfStatus Update(const KeyHash& key, const SymbolBlocks& blocks, const SymbolBlock& block,
                   double evidence_bits_min);

  // JOIN ([kBF] §3.4): adds all entries of `other`, cell by cell.
  KbfStatus Join(const Kbf& other);
  // COMPRESS ([kBF] §3.1): half the cells, the upper half folded on the lower.
  KbfStatus Compress();

  // How many cells hold j entries, j = 0 … 15.
  std::array<uint64_t, kCounterMax + 1> CountHistogram() const;
  // The cells of a key, for tests that pin the layout.
  std::array<uint64_t, kNumHashesMax> CellsOf(const KeyHash& key) const;

 private:
  friend struct ImageParts;

  Kbf(const KbfConfig& config, const KbfGeometry& geometry, CellArray cells);

  KbfView View() const;
  double LoadOfOne() const;
  double RowGroups() const { return static_cast<double>(geometry_.base_groups << geometry_.folds); }
  KbfStatus Replace(const KeyHash& key, uint32_t old_symbol, std::optional<uint32_t> new_symbol);
  KbfStatus FindForChange(const KeyHash& key, const SymbolBlocks& blocks, double evidence_bits_min,
                          uint32_t* symbol) const;

  KbfLayout layout_;
  KbfGeometry geometry_;
  const KbfKernel* kernel_;
  uint64_t capacity_;
  uint64_t secret_id_;
  uint64_t size_ = 0;
  CellArray cells_;
};

struct Kbf::CreateOutcome {
  std::optional<Kbf> filter;
  std::string error;
};

}  // namespace kbf
