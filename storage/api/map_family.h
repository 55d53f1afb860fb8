// MapFamily is what maps share that may be joined: the plan, the secret of the hashes, and which
// symbols stand for which value.
//
// Promises:  the block of value number i holds 2^c symbols and never changes: all blocks are given
//            out when the family is made, in their smallest size, which is what the planner
//            predicts for whatever the shares of the values are.
// Requires:  constant after construction but for `values`, which is thread-safe.
// Costs:     16 bytes per value that the plan has room for, and the values.
#pragma once

#include <kbf/plan.h>

#include <memory>

#include "storage/api/value_numbers.h"
#include "storage/hash.h"
#include "storage/planner.h"
#include "storage/symbol_blocks.h"

namespace kbf {

// How often Compress can halve a map.
inline constexpr unsigned kMapFolds = 3;

// A plan for the caller, and the layout behind it.
struct PlannedMap {
  MapPlan promised;
  Plan plan;
};

Result<PlannedMap> PlanCells(const MapOptions& options);

// The evidence that a Put or Delete asks for before it changes cells, of a filter for `capacity`
// keys that would ask for `strong_bits` itself. Small filters show less of it; there we ask for as
// much as in large ones and keep more keys as overrides, which is cheap for few keys.
double MapEvidenceBits(uint64_t capacity, double strong_bits);

class MapFamily {
 public:
  // Throws std::bad_alloc, and std::runtime_error where there are no random bytes.
  static std::shared_ptr<MapFamily> Create(const PlannedMap& planned, uint64_t seed);

  const MapPlan& promised() const { return planned_.promised; }
  const Plan& plan() const { return planned_.plan; }
  const HashSecret& secret() const { return secret_; }
  const SymbolBlocks& blocks() const { return blocks_; }
  ValueNumbers& values() { return values_; }
  const ValueNumbers& values() const { return values_; }

  // REQUIRES: number < promised().values_max
  SymbolBlock BlockOf(uint32_t number) const {
    const unsigned check_bits = planned_.plan.layout.check_bits;
    return {(number + 1) << check_bits, check_bits, number};
  }
  uint64_t memory_bytes() const { return blocks_.memory_bytes() + values_.memory_bytes(); }

 private:
  MapFamily(const PlannedMap& planned, const HashSecret& secret);

  const PlannedMap planned_;
  const HashSecret secret_;
  SymbolBlocks blocks_;
  ValueNumbers values_;
};

}  // namespace kbf
