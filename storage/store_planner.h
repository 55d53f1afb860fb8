// The store planner says how much memory a Store needs to hold a number of keys. planner.h chooses
// the cells; this file adds what stands around them: the locator, the dictionaries, the values, the
// front, and the room that the allocator loses.
//
// Promises:  a Store with `memory_bytes`, and with up to half as much again, holds all keys after
//            they were stored once, but for the false negatives of the plan
//            (tests/storage/store_planner_test.cc; tests/tools/kbfplan_fill does it with the
//            server). Where no memory would do, the error says which limit is in the way.
// Requires:  values that repeat: each at least twice in every slab. Keys without expiry, or with
//            few different ones; twenty TTLs need 24 % more (tests/storage/store_ttl_test.cc).
// Costs:     20 to 40 ms. Most of it is one dictionary that is filled to be measured.
// Departs:   the sizes are those of the real parts, asked for or computed as they do. The rules by
//            which a Store divides its memory are repeated here; a test compares them with a Store.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "storage/planner.h"

namespace kbf {

struct StorePlanRequest {
  uint64_t keys = 1000000;
  uint64_t distinct_values = 3000;
  uint64_t value_bytes = 100;    // mean of the distinct values
  double false_negative = 2e-3;  // as in StoreConfig
  double false_positive = 2e-5;
  double front_share = 0.0625;
};

// Bytes in all slabs together when all keys are stored.
struct StoreParts {
  uint64_t cells = 0;
  uint64_t locator = 0;
  uint64_t dictionary = 0;
  uint64_t values = 0;
  uint64_t front = 0;
  uint64_t other = 0;
  uint64_t total() const { return cells + locator + dictionary + values + front + other; }
};

struct StorePlan {
  uint64_t memory_bytes = 0;  // StoreConfig::memory_bytes; a multiple of `granularity`
  unsigned num_slabs = 0;
  uint64_t filter_keys = 0;
  unsigned filters_per_slab = 0;
  Plan plan;         // of the filters
  StoreParts parts;  // the rest up to memory_bytes is a reserve
};

// Exactly one of the two is set.
struct [[nodiscard]] StorePlanOutcome {
  std::optional<StorePlan> plan;
  std::string error;
};

// The smallest multiple of `granularity` from which on the store holds the keys. Above 256 times
// the granularity the answer is up to 0.4 % larger than that. REQUIRES: granularity > 0
StorePlanOutcome PlanStore(const StorePlanRequest& request, uint64_t granularity);

// What a Store with this memory, and otherwise as the request says, divides it into; for tests.
struct StoreShape {
  unsigned num_slabs = 0;
  uint64_t filter_keys = 0;
};
StoreShape ShapeOfStore(uint64_t memory_bytes);

}  // namespace kbf
