#include "storage/kbf_engine.h"

#include <array>
#include <charconv>
#include <map>
#include <mutex>
#include <tuple>
#include <utility>

#include "storage/kbf_chain.h"

namespace kbf {

namespace {

// A look-up queries more filters than one: the locator passes 2.5 % to 12 % of up to 64, so each
// filter gets this part of the false-positive budget.
constexpr double kFalsePositiveShare = 1.0 / 8;

std::string Real(double number, int digits) {
  std::array<char, 64> text;
  const auto end = std::to_chars(text.data(), text.data() + text.size(), number,
                                 std::chars_format::fixed, digits);
  return {text.data(), end.ptr};
}

// MakePlan is a function of its request alone.
PlanOutcome RememberedPlan(const PlanRequest& request) {
  static std::mutex mutex;
  static std::map<std::tuple<double, double, uint64_t>, Plan> plans;  // guarded by mutex
  constexpr size_t kPlansMax = 64;
  const std::tuple key(request.false_negative, request.false_positive, request.distinct_values);
  const std::lock_guard lock(mutex);
  if (const auto found = plans.find(key); found != plans.end()) return {found->second, {}};
  PlanOutcome made = MakePlan(request);
  if (made.plan && plans.size() < kPlansMax) plans.emplace(key, *made.plan);
  return made;
}

}  // namespace

PlanOutcome PlanKbfEngine(const EngineConfig& config) {
  // An impossible budget must stay one.
  const double share = config.false_positive < 1 ? kFalsePositiveShare : 1;
  return RememberedPlan(
      {config.false_negative, config.false_positive * share, config.distinct_values});
}

EngineOutcome MakeKbfEngine(const EngineConfig& config, const HashSecret& secret) {
  PlanOutcome planned = PlanKbfEngine(config);
  if (!planned.plan) return {nullptr, std::move(planned.error)};
  return {std::make_unique<KbfEngine>(config, *planned.plan, secret), {}};
}

KbfEngine::KbfEngine(const EngineConfig& config, const Plan& plan, const HashSecret& secret)
    : config_(config),
      plan_(plan),
      secret_(secret),
      maker_(MakeKbfFilters(plan, config.part_keys)) {}

std::unique_ptr<Chain> KbfEngine::NewChain(const ChainConfig& config) {
  return std::make_unique<KbfChain>(config, KbfChainParts{*maker_, plan_.layout, secret_, blobs_});
}

std::string KbfEngine::Summary() const {
  return "engine kbf: " + std::string(CellKindName(plan_.layout.kind)) +
         " cells, k=" + std::to_string(plan_.layout.num_hashes) + ", load " + Real(plan_.load, 2) +
         ", " + Real(plan_.bytes_per_key, 1) + " bytes/key in the chain";
}

std::vector<EngineFact> KbfEngine::Facts() const {
  const KbfLayout& layout = plan_.layout;
  return {{"cell_kind", std::string(CellKindName(layout.kind))},
          {"cell_bits", std::to_string(8 * CellBytes(layout.kind))},
          {"symbol_bits", std::to_string(layout.symbol_bits)},
          {"check_bits", std::to_string(layout.check_bits)},
          {"hashes", std::to_string(layout.num_hashes)},
          {"lines", std::to_string(layout.num_lines)},
          {"planned_load", Real(plan_.load, 3)},
          {"planned_bytes_per_key", Real(plan_.bytes_per_key, 2)},
          {"filters_max", std::to_string(uint64_t{config_.num_slabs} * KbfChain::kFiltersMax)},
          {"filter_keys", std::to_string(config_.part_keys)}};
}

}  // namespace kbf
