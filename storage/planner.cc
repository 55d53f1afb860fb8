#include "storage/planner.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <numbers>
#include <tuple>
#include <utility>

namespace kbf {

namespace {

constexpr CellKind kKinds[] = {CellKind::kPair32, CellKind::kPair64, CellKind::kTriple64};

// The scan climbs from kPlanLoadMin in these steps and stops at the first load that is too much;
// bisection does the rest. Bisection alone could step over a forbidden stretch: false positives
// fall again once most cells are past decoding.
constexpr double kLoadStep = 0.1;
constexpr double kLoadPrecision = 1e-6;

bool IsBudget(double budget) { return budget > 0 && budget < 1; }  // false for NaN

std::string Number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3g", value);
  return text;
}

uint64_t ValuesMax(unsigned symbol_bits, unsigned check_bits) {
  return (uint64_t{1} << (symbol_bits - check_bits)) - 1;
}

// The most check bits that leave a block for each value, or nothing where this kind has too few
// symbols.
std::optional<unsigned> CheckBitsFor(CellKind kind, uint64_t distinct_values) {
  const unsigned symbol_bits = SymbolBitsMax(kind);
  for (unsigned c = std::min(kPlanCheckBitsMax, symbol_bits - 1); c >= kPlanCheckBitsMin; --c) {
    if (ValuesMax(symbol_bits, c) >= distinct_values) return c;
  }
  return std::nullopt;
}

// Every layout worth a look: k = 2 … 10 of each kind that holds the values, with g = k or a proper
// divisor of k.
std::vector<KbfLayout> Candidates(uint64_t distinct_values) {
  std::vector<KbfLayout> candidates;
  for (CellKind kind : kKinds) {
    const std::optional<unsigned> check_bits = CheckBitsFor(kind, distinct_values);
    if (!check_bits) continue;
    for (unsigned k = kPlanHashesMin; k <= kPlanHashesMax; ++k) {
      for (unsigned lines = 1; lines <= k; ++lines) {
        if (k % lines != 0) continue;
        const KbfLayout layout{.kind = kind,
                               .symbol_bits = SymbolBitsMax(kind),
                               .check_bits = *check_bits,
                               .num_hashes = k,
                               .num_lines = lines};
        if (IsValid(layout)) candidates.push_back(layout);
      }
    }
  }
  return candidates;
}

ErrorRates PredictAt(const KbfLayout& layout, double load) {
  return PredictErrors(layout, load, std::exp2(-static_cast<double>(layout.check_bits)),
                       kPlanRowGroups);
}

bool Meets(const KbfLayout& layout, double load, const PlanRequest& request) {
  const ErrorRates rates = PredictAt(layout, load);
  return rates.false_negative <= kPlanMargin * request.false_negative &&
         rates.false_positive <= kPlanMargin * request.false_positive && rates.weak <= kPlanWeakMax;
}

// The largest λ up to which both budgets are met.
std::optional<double> LargestLoad(const KbfLayout& layout, const PlanRequest& request) {
  if (!Meets(layout, kPlanLoadMin, request)) return std::nullopt;
  double good = kPlanLoadMin;
  double bad = good + kLoadStep;
  while (bad < kPlanLoadMax && Meets(layout, bad, request)) {
    good = bad;
    bad += kLoadStep;
  }
  bad = std::min(bad, kPlanLoadMax);
  while (bad - good > kLoadPrecision) {
    const double middle = (good + bad) / 2;
    (Meets(layout, middle, request) ? good : bad) = middle;
  }
  return good;
}

Plan PlanAt(const KbfLayout& layout, double load) {
  Plan plan;
  plan.layout = layout;
  plan.load = load;
  plan.bytes_per_key = CellBytes(layout.kind) * layout.num_hashes / load;
  plan.predicted = PredictAt(layout, load);
  plan.memory_accesses = layout.num_lines;
  plan.values_max = ValuesMax(layout.symbol_bits, layout.check_bits);
  return plan;
}

// What is wrong with the request itself; empty where nothing is.
std::string RequestError(const PlanRequest& request) {
  if (!IsBudget(request.false_negative)) {
    return "the false-negative budget must be above 0 and below 1, not " +
           Number(request.false_negative);
  }
  if (!IsBudget(request.false_positive)) {
    return "the false-positive budget must be above 0 and below 1, not " +
           Number(request.false_positive);
  }
  if (request.distinct_values == 0) return "there must be at least 1 distinct value";
  if (request.distinct_values > kPlanValuesMax) {
    return "no layout holds " + std::to_string(request.distinct_values) +
           " distinct values; the limit is " + std::to_string(kPlanValuesMax);
  }
  return {};
}

// Names what the candidate nearest to the budgets reaches at the smallest load.
std::string UnreachableError(const PlanRequest& request) {
  ErrorRates nearest;
  double nearest_excess = std::numeric_limits<double>::infinity();
  for (const KbfLayout& layout : Candidates(request.distinct_values)) {
    const ErrorRates rates = PredictAt(layout, kPlanLoadMin);
    // Logarithms, because a budget may be so small that dividing by it overflows.
    const double excess =
        std::max(std::log(rates.false_negative) - std::log(request.false_negative),
                 std::log(rates.false_positive) - std::log(request.false_positive));
    if (excess < nearest_excess) {
      nearest_excess = excess;
      nearest = rates;
    }
  }
  return "no layout meets the budgets of " + Number(request.false_negative) +
         " false negatives and " + Number(request.false_positive) +
         " false positives; the nearest within reach are " +
         Number(nearest.false_negative / kPlanMargin) + " and " +
         Number(nearest.false_positive / kPlanMargin);
}

}  // namespace

std::vector<Plan> PlanChoices(const PlanRequest& request) {
  std::vector<Plan> plans;
  if (!RequestError(request).empty()) return plans;
  for (const KbfLayout& layout : Candidates(request.distinct_values)) {
    if (const std::optional<double> load = LargestLoad(layout, request)) {
      plans.push_back(PlanAt(layout, *load));
    }
  }
  std::stable_sort(plans.begin(), plans.end(), [](const Plan& a, const Plan& b) {
    return std::tie(a.bytes_per_key, a.memory_accesses) <
           std::tie(b.bytes_per_key, b.memory_accesses);
  });
  return plans;
}

std::optional<Plan> PlanWith(CellKind kind, unsigned check_bits, const PlanRequest& request) {
  std::optional<Plan> best;
  for (unsigned k = kPlanHashesMin; k <= kPlanHashesMax; ++k) {
    const KbfLayout layout{.kind = kind,
                           .symbol_bits = SymbolBitsMax(kind),
                           .check_bits = check_bits,
                           .num_hashes = k,
                           .num_lines = k};
    const std::optional<double> load = LargestLoad(layout, request);
    if (!load) continue;
    const Plan plan = PlanAt(layout, *load);
    if (best && plan.bytes_per_key * (1 + kPlanBytesTolerance) >= best->bytes_per_key) continue;
    best = plan;
  }
  return best;
}

PlanOutcome MakePlan(const PlanRequest& request) {
  if (std::string error = RequestError(request); !error.empty()) return {{}, std::move(error)};
  const std::vector<Plan> plans = PlanChoices(request);
  if (plans.empty()) return {{}, UnreachableError(request)};

  // A lookup's cost is its cache misses, so bytes that differ by next to nothing do not decide. As
  // the plans are sorted, the first of those with equally few accesses is the smallest.
  const double bytes_limit = plans.front().bytes_per_key * (1 + kPlanBytesTolerance);
  const Plan* best = &plans.front();
  for (const Plan& plan : plans) {
    if (plan.bytes_per_key > bytes_limit) break;
    if (plan.memory_accesses < best->memory_accesses) best = &plan;
  }
  return {*best, {}};
}

SizeOutcome TotalBytes(const Plan& plan, uint64_t keys) {
  return TotalBytes(plan.bytes_per_key, keys);
}

SizeOutcome TotalBytes(double bytes_per_key, uint64_t keys) {
  if (keys == 0 || keys > kPlanKeysMax) {
    return {{},
            "the number of keys must be between 1 and " + std::to_string(kPlanKeysMax) +
                " (2^48), not " + std::to_string(keys)};
  }
  const double bytes = std::ceil(bytes_per_key * static_cast<double>(keys));
  // Written so that NaN is refused too. 2^63 leaves room for callers that add to it.
  if (!(bytes >= 0 && bytes < std::ldexp(1.0, 63))) {
    return {{}, std::to_string(keys) + " keys take more than 2^63 bytes"};
  }
  return {static_cast<uint64_t>(bytes), {}};
}

std::optional<PaperSetting> PaperPlan(double false_positive) {
  if (!IsBudget(false_positive)) return std::nullopt;
  PaperSetting paper;
  paper.num_hashes =
      std::max(1u, static_cast<unsigned>(std::lround(OptimalHashes(false_positive))));
  paper.load = std::numbers::ln2;
  paper.bytes_per_key = 4 * paper.num_hashes / std::numbers::ln2;
  paper.undecodable = 1 - GlobalDecodability(1, paper.num_hashes);
  paper.false_positive = std::exp2(-static_cast<double>(paper.num_hashes));
  return paper;
}

std::string_view CellKindName(CellKind kind) {
  switch (kind) {
    case CellKind::kPair32:
      return "pair32";
    case CellKind::kPair64:
      return "pair64";
    case CellKind::kTriple64:
      return "triple64";
  }
  return "unknown";
}

}  // namespace kbf
