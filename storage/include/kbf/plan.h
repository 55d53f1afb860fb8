// MapOptions says what a Map is to hold and how often it may be wrong; PlanMap says what that
// costs, before a Map is made.
//
// Promises:  a plan's predicted rates, at full capacity, are at most half of each budget. Equal
//            options give equal plans.
// Requires:  nothing; thread-safe.
// Costs:     about 30 ms: some 75 cell layouts are compared. No memory is kept.
// Stability: unstable until version 1.0, see error.h.
#pragma once

#include <kbf/error.h>

#include <cstdint>

namespace kbf {
inline namespace v0 {

struct MapOptions {
  uint64_t capacity = 0;            // keys; must be given, 1 to 2^40
  uint64_t distinct_values = 1000;  // different values among them, 1 to 2^24
  double false_negative = 2e-3;     // budget: share of stored keys that Get may not answer
  double false_positive = 2e-5;     // budget: share of absent keys that Get may answer
  uint64_t seed = 0;                // of the hashes, for repeatable runs; 0: random, which is safer
};

// Shares of look-ups; the equations are in map.h.
struct MapErrors {
  double false_negative = 0;
  double false_positive = 0;
};

struct MapPlan {
  uint64_t capacity = 0;
  uint64_t values_max = 0;   // distinct values that fit; at least as many as were asked for
  uint64_t bytes = 0;        // of an empty map; distinct values come on top, each stored once
  double bytes_per_key = 0;  // bytes / capacity
  MapErrors errors;          // predicted at capacity
  double damage = 0;         // chance that one Put or Delete of an absent key harms others, map.h
  unsigned cache_lines = 0;  // that a look-up touches in the filter
};

Result<MapPlan> PlanMap(const MapOptions& options);

}  // namespace v0
}  // namespace kbf
