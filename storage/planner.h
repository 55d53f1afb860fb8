// The planner turns error budgets and a number of distinct values into a cell layout, k and a load.
// It decides layouts, not memory: the store decides how many filters there are and what they hold.
//
// Promises:  a plan's `predicted` rates, by PredictErrors, keep to kPlanMargin of both
//            budgets, and `weak` to kPlanWeakMax, at its load and at every smaller one. Their
//            accuracy is described in maths.h. MakePlan returns a plan or one sentence that says
//            what to change; it does not throw or abort for any input.
// Requires:  values in blocks of the planned check bits or larger (symbol_blocks.h), so that γ is
//            2^-c at most.
// Costs:     30 ms: about 75 candidates, 30 predictions each. For start-up and tools, not requests.
// Departs:   [kBF] §4 takes λ = ln 2 and k from the false-positive rate alone (PaperPlan below). We
//            take the largest λ that meets both budgets, over all layouts: by default 21.8 bytes
//            per key instead of 57.7. The price is 1e-3 false negatives where the paper has none.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "storage/layout.h"
#include "storage/maths.h"

namespace kbf {

// Share of a budget that a plan uses. The other half is for churn: keys that do not decode cannot
// be replaced either, so their number grows. Measured after ten rounds of replacing every key:
// 3 times the false negatives (tests/storage/kbf_errors_test.cc).
inline constexpr double kPlanMargin = 0.5;
// Most keys that a plan may leave with too little evidence to be changed in place.
inline constexpr double kPlanWeakMax = 0.05;
// Plans this close in bytes per key count as equally small; then the one with fewer cache misses is
// better.
inline constexpr double kPlanBytesTolerance = 0.03;

// Groups in a row of the filters that are planned for: about 32 K keys. Smaller filters show less
// evidence.
inline constexpr double kPlanRowGroups = 28000;

inline constexpr unsigned kPlanHashesMin = 2;
inline constexpr unsigned kPlanHashesMax = 10;
inline constexpr double kPlanLoadMin = 0.01;
inline constexpr double kPlanLoadMax = 3;
// Fewer than 2 check bits hardly reject absent keys; with more than 16, γ < 2e-5 no longer matters
// for either budget.
inline constexpr unsigned kPlanCheckBitsMin = 2;
inline constexpr unsigned kPlanCheckBitsMax = 16;
// kPair64 with the fewest check bits. One unit of symbols is reserved, as symbol 0 is no symbol.
inline constexpr uint64_t kPlanValuesMax =
    (uint64_t{1} << (SymbolBitsMax(CellKind::kPair64) - kPlanCheckBitsMin)) - 1;
inline constexpr uint64_t kPlanKeysMax = uint64_t{1} << 48;

struct PlanRequest {
  double false_negative = 2e-3;  // budgets
  double false_positive = 2e-5;
  uint64_t distinct_values = 3000;
};

struct Plan {
  KbfLayout layout;
  double load = 0;  // λ = nk/m
  double bytes_per_key = 0;
  ErrorRates predicted;          // at `load`
  unsigned memory_accesses = 0;  // cache lines per lookup
  uint64_t values_max = 0;       // values in blocks of the smallest size: 2^(b-c) - 1
};

// Exactly one of the two is set.
struct [[nodiscard]] PlanOutcome {
  std::optional<Plan> plan;
  std::string error;
};

// The smallest plan; of those within kPlanBytesTolerance of it, the one with the fewest memory
// accesses.
PlanOutcome MakePlan(const PlanRequest& request);

// The smallest plan with this kind of cells, one cell per line, and so many check bits; of those
// within kPlanBytesTolerance of it, the one with the fewest hashes. Nothing where none meets the
// budgets. Takes 1 ms. REQUIRES: the budgets are those of a plan that MakePlan made
std::optional<Plan> PlanWith(CellKind kind, unsigned check_bits, const PlanRequest& request);

// The largest load of every candidate (cell kind, k, lines) that meets the budgets, fewest bytes
// per key first. Empty where MakePlan gives an error.
std::vector<Plan> PlanChoices(const PlanRequest& request);

struct [[nodiscard]] SizeOutcome {
  std::optional<uint64_t> bytes;
  std::string error;
};

// Bytes of cells for `keys` keys, 1 … kPlanKeysMax.
SizeOutcome TotalBytes(const Plan& plan, uint64_t keys);
SizeOutcome TotalBytes(double bytes_per_key, uint64_t keys);

// The papers' own setting: 4-byte cells at p-capacity (ρ = 1, λ = ln 2).
struct PaperSetting {
  unsigned num_hashes = 0;  // k = -ln p / ln 2, rounded
  double load = 0;
  double bytes_per_key = 0;
  double undecodable = 0;     // 1 - global decodability
  double false_positive = 0;  // 2^-k
};

// [kBF] §4. No value unless 0 < false_positive < 1.
std::optional<PaperSetting> PaperPlan(double false_positive);

// "pair32", "pair64", "triple64"
std::string_view CellKindName(CellKind kind);

}  // namespace kbf
