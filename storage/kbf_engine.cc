#include "storage/kbf_engine.h"

#include <array>
#include <charconv>
#include <cstdio>
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
// Distinct values per slab that filters are planned for while their number is not known.
constexpr uint64_t kValuesAtFirst = 3000;

std::string Real(double number, int digits) {
  std::array<char, 64> text;
  const auto end = std::to_chars(text.data(), text.data() + text.size(), number,
                                 std::chars_format::fixed, digits);
  return {text.data(), end.ptr};
}

PlanRequest RequestOf(const EngineConfig& config) {
  // An impossible budget must stay one.
  const double share = config.false_positive < 1 ? kFalsePositiveShare : 1;
  const uint64_t values = config.distinct_values == 0 ? kValuesAtFirst : config.distinct_values;
  return {config.false_negative, config.false_positive * share, values};
}

// This plan, and where values may grow in number those for fewer and fewer check bits.
std::vector<Plan> PlansFrom(const Plan& first, const PlanRequest& request, bool grow) {
  std::vector<Plan> plans{first};
  if (!grow || IsPartitioned(first.layout)) return plans;
  for (unsigned bits = first.layout.check_bits; bits > kPlanCheckBitsMin;) {
    const std::optional<Plan> next = PlanWith(first.layout.kind, --bits, request);
    if (!next) break;
    plans.push_back(*next);
  }
  return plans;
}

}  // namespace

// Planning is a function of its arguments alone.
KbfPlans PlanKbfEngine(const EngineConfig& config) {
  static std::mutex mutex;
  static std::map<std::tuple<double, double, uint64_t>, std::vector<Plan>> remembered;  // by mutex
  constexpr size_t kRememberedMax = 64;
  const std::tuple key(config.false_negative, config.false_positive, config.distinct_values);
  const std::lock_guard lock(mutex);
  if (const auto found = remembered.find(key); found != remembered.end()) {
    return {found->second, {}};
  }
  const PlanRequest request = RequestOf(config);
  PlanOutcome first = MakePlan(request);
  if (!first.plan) return {{}, std::move(first.error)};
  std::vector<Plan> plans = PlansFrom(*first.plan, request, config.distinct_values == 0);
  if (remembered.size() < kRememberedMax) remembered.emplace(key, plans);
  return {std::move(plans), {}};
}

EngineOutcome MakeKbfEngine(const EngineConfig& config, const HashSecret& secret) {
  KbfPlans planned = PlanKbfEngine(config);
  if (planned.plans.empty()) return {nullptr, std::move(planned.error)};
  return {std::make_unique<KbfEngine>(config, std::move(planned.plans), secret), {}};
}

KbfEngine::KbfEngine(const EngineConfig& config, std::vector<Plan> plans, const HashSecret& secret)
    : config_(config),
      plans_(std::move(plans)),
      secret_(secret),
      makers_(plans_, config.part_keys) {}

std::unique_ptr<Chain> KbfEngine::NewChain(const ChainConfig& config) {
  return std::make_unique<KbfChain>(config, KbfChainParts{makers_, secret_, blobs_});
}

std::string KbfEngine::Summary() const {
  return "engine kbf: " + std::string(CellKindName(plan().layout.kind)) +
         " cells, k=" + std::to_string(plan().layout.num_hashes) + ", load " +
         Real(plan().load, 2) + ", " + Real(plan().bytes_per_key, 1) + " bytes/key in the chain";
}

std::string KbfEngine::ImageKind() const {
  std::array<char, 200> text;
  int length = std::snprintf(text.data(), text.size(), "kbf locator %a", KbfChain::kLocatorBits);
  std::string kind(text.data(), static_cast<size_t>(length));
  for (const Plan& plan : plans_) {
    const KbfLayout& layout = plan.layout;
    length =
        std::snprintf(text.data(), text.size(), " kind %u bits %u check %u k %u lines %u load %a",
                      static_cast<unsigned>(layout.kind), layout.symbol_bits, layout.check_bits,
                      layout.num_hashes, layout.num_lines, plan.load);
    kind.append(text.data(), static_cast<size_t>(length));
  }
  return kind;
}

std::vector<EngineFact> KbfEngine::Facts() const {
  const KbfLayout& layout = plan().layout;
  return {{"cell_kind", std::string(CellKindName(layout.kind))},
          {"cell_bits", std::to_string(8 * CellBytes(layout.kind))},
          {"symbol_bits", std::to_string(layout.symbol_bits)},
          {"check_bits", std::to_string(layout.check_bits)},
          {"hashes", std::to_string(layout.num_hashes)},
          {"lines", std::to_string(layout.num_lines)},
          {"planned_load", Real(plan().load, 3)},
          {"planned_bytes_per_key", Real(plan().bytes_per_key, 2)},
          {"filters_max", std::to_string(uint64_t{config_.num_slabs} * KbfChain::kFiltersMax)},
          {"filter_keys", std::to_string(config_.part_keys)}};
}

}  // namespace kbf
