// Filter is what a KbfChain is made of: the operations of [kBF] §3.1 that a chain needs. CREATE is
// FilterMaker::Make; UPDATE is DELETE and INSERT, because the new value goes to another filter.
//
// Requires:  all filters of a chain have one kind of cells and one secret; one writer, or any
// number of readers (the
//            slab's lock).
// Costs:     one virtual call per operation, against two or more cache misses.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "storage/hash.h"
#include "storage/kbf.h"
#include "storage/maths.h"
#include "storage/planner.h"
#include "storage/symbol_blocks.h"

namespace kbf {

class ImageBuffer;
class ImageReader;

class Filter {
 public:
  virtual ~Filter() = default;

  virtual void Prefetch(const KeyHash& key) const = 0;
  virtual QueryResult Query(const KeyHash& key, const SymbolBlocks& blocks) const = 0;
  virtual void Insert(const KeyHash& key, uint32_t symbol) = 0;
  // Changes cells on strong evidence only; kWeakEvidence where there is less. Where it did, *value
  // is that of the symbol's block.
  virtual KbfStatus Delete(const KeyHash& key, const SymbolBlocks& blocks, uint32_t* value) = 0;
  // kUnlike unless IsLike(other).
  virtual KbfStatus Join(const Filter& other) = 0;
  virtual KbfStatus Compress() = 0;
  // The same layout and size: they can be joined.
  virtual bool IsLike(const Filter& other) const = 0;

  // Whether an answer of Query is strong enough for a change.
  virtual bool IsStrong(const QueryResult& result) const = 0;
  virtual uint64_t size() const = 0;
  virtual uint64_t capacity() const = 0;
  virtual uint64_t memory_bytes() const = 0;
  virtual uint64_t cells() const = 0;
  virtual uint64_t entries() const = 0;  // of all keys in all cells; the load is entries / cells
  // At the present load; `match` is γ of maths.h.
  virtual ErrorRates PredictedErrors(double match) const = 0;

  // Its bytes in an image, of which the first number, the check bits of its plan, says which maker
  // it is from. Load reads the others into a filter that is as that maker has made it; false: see
  // the reader's status.
  virtual void Save(ImageBuffer* out) const = 0;
  [[nodiscard]] virtual bool Load(ImageReader* reader) = 0;
};

// CREATE: makes empty filters of one size.
class FilterMaker {
 public:
  virtual ~FilterMaker() = default;
  // Null where there is no memory.
  virtual std::unique_ptr<Filter> Make() const = 0;
  virtual uint64_t filter_bytes() const = 0;  // of an empty one
  virtual uint64_t filter_keys() const = 0;   // capacity
  virtual unsigned folds() const = 0;         // how often COMPRESS can halve it
};

// Makers for one chain by the check bits that filters are planned for: fewer of them where values
// have smaller blocks, which takes more cells for the same error rates.
class FilterMakers {
 public:
  // REQUIRES: plans for check bits that fall by one from plan to plan, at least one; otherwise
  // alike
  FilterMakers(std::span<const Plan> plans, uint64_t filter_keys);

  // The nearest to so many check bits.
  const FilterMaker& For(unsigned check_bits) const;
  const KbfLayout& layout() const { return layout_; }  // of the first plan
  unsigned check_bits_min() const {
    return layout_.check_bits + 1 - static_cast<unsigned>(makers_.size());
  }
  uint64_t filter_keys() const { return makers_.front()->filter_keys(); }
  unsigned folds() const { return makers_.front()->folds(); }

 private:
  KbfLayout layout_;
  std::vector<std::unique_ptr<FilterMaker>> makers_;
};

// The key-value Bloom filters of kbf.h.
std::unique_ptr<FilterMaker> MakeKbfFilters(const Plan& plan, uint64_t filter_keys);

}  // namespace kbf
