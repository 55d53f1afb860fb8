#include "storage/packed/packed_engine.h"

#include <cstdio>
#include <utility>

#include "storage/packed/packed_chain.h"

namespace kbf {

namespace {

std::string Written(const char* format, double number) {
  char text[32];
  std::snprintf(text, sizeof(text), format, number);
  return text;
}

}  // namespace

EngineOutcome MakePackedEngine(const EngineConfig& config, const HashSecret& secret) {
  PackedPlanOutcome planned = PlanPacked(
      {config.false_positive,
       config.distinct_values != 0 ? config.distinct_values : PackedPlanRequest{}.distinct_values});
  if (!planned.plan) return {nullptr, std::move(planned.error)};
  return {std::make_unique<PackedEngine>(config, *planned.plan, secret), {}};
}

PackedEngine::PackedEngine(const EngineConfig& config, const PackedPlan& plan,
                           const HashSecret& secret)
    : config_(config), plan_(plan), values_(plan.layout.number_bits, secret) {}

std::unique_ptr<Chain> PackedEngine::NewChain(const ChainConfig& config) {
  const uint64_t lines_max = config_.slab_bytes / kLineBytes;
  return std::make_unique<PackedChain>(
      config, PackedChainParts{plan_.layout, lines_max, values_, !made_one_.exchange(true)});
}

std::string PackedEngine::Summary() const {
  return "engine packed: " + std::to_string(plan_.slots) + " slots per line of " +
         std::to_string(plan_.layout.CheckBits()) + " check bits, false positives up to " +
         Written("%.1e", plan_.false_positive) + ", " + Written("%.1f", plan_.bytes_per_key) +
         " bytes/key in the chain";
}

std::string PackedEngine::ImageKind() const {
  const PackedLayout& layout = plan_.layout;
  return "packed tail " + std::to_string(layout.tail_bits) + " window " +
         std::to_string(layout.window_bits) + " number " + std::to_string(layout.number_bits);
}

std::vector<EngineFact> PackedEngine::Facts() const {
  return {{"slots_per_line", std::to_string(plan_.slots)},
          {"check_bits", std::to_string(plan_.layout.CheckBits())},
          {"window_bits", std::to_string(plan_.layout.window_bits)},
          {"number_bits", std::to_string(plan_.layout.number_bits)},
          {"planned_false_positive", Written("%.2e", plan_.false_positive)},
          {"planned_bytes_per_key", Written("%.2f", plan_.bytes_per_key)},
          {"values_max", std::to_string(values_.numbers_max())},
          {"filters_max",
           std::to_string(uint64_t{config_.num_slabs} * (plan_.layout.NumWindows() - 1))}};
}

}  // namespace kbf
