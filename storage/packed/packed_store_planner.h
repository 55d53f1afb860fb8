// The packed store planner says how much memory a Store with the engine packed needs to hold a
// number of keys, as store_planner.h does for kbf.
//
// Promises:  a Store with `memory_bytes` holds all keys after they were stored once
//            (tests/storage/packed/packed_store_planner_test.cc). Where no memory would do, or no
//            slot keeps the budget, the error names the limit.
// Requires:  values that repeat.
// Costs:     microseconds.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "storage/packed/packed_layout.h"
#include "storage/store_planner.h"

namespace kbf {

struct PackedStorePlan {
  uint64_t memory_bytes = 0;  // StoreConfig::memory_bytes; a multiple of `granularity`
  unsigned num_slabs = 0;
  PackedPlan plan;
  StoreParts parts;  // cells are lines; the rest up to memory_bytes is a reserve
};

// Exactly one of the two is set.
struct [[nodiscard]] PackedStorePlanOutcome {
  std::optional<PackedStorePlan> plan;
  std::string error;
};

// The smallest multiple of `granularity`, or one that is up to 0.4 % larger. false_negative and
// value numbers below the request's distinct_values are not looked at. REQUIRES: granularity > 0
PackedStorePlanOutcome PlanPackedStore(const StorePlanRequest& request, uint64_t granularity);

}  // namespace kbf
