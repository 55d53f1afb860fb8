#include "tools/kbfflow/verifier.h"

#include <memory>

namespace flow {

Verifier::Verifier(const MonitorSettings& settings)
    : exact_(settings, kbf::FlowGenerations([] { return std::make_unique<kbf::ExactFlows>(); }),
             [this](const Report& report) { Count(report, -1); }) {}

void Verifier::See(const KeyedPacket& keyed, const kbf::FlowAnswer& answer) {
  const kbf::FlowAnswer truth = exact_.See(keyed);
  const bool found = answer.outcome == kbf::FlowOutcome::kFound;
  if (truth.outcome == kbf::FlowOutcome::kAbsent) {
    ++errors_.absent;
    errors_.false_positive += answer.outcome != kbf::FlowOutcome::kAbsent;
    return;
  }
  ++errors_.stored;
  errors_.unknown += !found;
  errors_.wrong += found && answer.state != truth.state;
}

void Verifier::Count(const Report& report, int step) {
  const uint64_t key = report.hash.lo ^ kbf::Mix64(static_cast<uint64_t>(report.alarm));
  if ((balance_[key] += step) == 0) balance_.erase(key);
}

uint64_t Verifier::Sum(int sign) const {
  uint64_t sum = 0;
  for (const auto& [key, balance] : balance_) {
    if (balance * sign > 0) sum += static_cast<uint64_t>(balance * sign);
  }
  return sum;
}

}  // namespace flow
