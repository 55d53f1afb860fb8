#include "storage/flow/flow_states.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <utility>

#include "storage/kbf_kernel.h"

namespace kbf {

namespace {

// In hundredths, by FlowState: most flows are open at any moment. A state with a larger share has
// more symbols; rates hardly depend on it.
constexpr std::array<double, kNumFlowStates> kShares = {4, 4, 2, 2, 4, 4, 2, 2, 70, 6};

}  // namespace

FollowedPacket FollowFlow(FlowStates* flows, const KeyHash& flow, const FlowPacket& packet,
                          FlowKind kind) {
  const FlowAnswer found = flows->Find(flow);
  if (found.outcome == FlowOutcome::kUnknown) {
    const FlowAlarm alarm = StepFlow(std::nullopt, packet, kind).alarm;
    return {found, {std::nullopt, alarm == FlowAlarm::kBadFlags ? alarm : FlowAlarm::kNone}};
  }
  const bool stored = found.outcome == FlowOutcome::kFound;
  const FlowStep step = StepFlow(stored ? std::optional(found.state) : std::nullopt, packet, kind);
  if (!stored && step.next) {
    flows->Add(flow, *step.next);
  } else if (stored && !step.next) {
    (void)flows->Remove(flow, found);
  } else if (stored && (*step.next != found.state || found.in_older)) {
    (void)flows->Change(flow, found, *step.next);
  }
  return {found, step};
}

// ---- the kBF ----

std::unique_ptr<KbfFlows> KbfFlows::Create(const Size& size) {
  const PlanOutcome planned = MakePlan({size.false_negative, size.false_positive, kNumFlowStates});
  if (!planned.plan) return nullptr;
  auto created = Kbf::Create({planned.plan->layout, size.flows, planned.plan->load, 0, 0});
  if (!created.filter) return nullptr;
  return std::unique_ptr<KbfFlows>(new KbfFlows(*planned.plan, std::move(*created.filter)));
}

KbfFlows::KbfFlows(const Plan& plan, Kbf filter)
    : plan_(plan),
      blocks_(plan.layout.symbol_bits, plan.layout.check_bits),
      block_of_(kNumFlowStates),
      filter_(std::move(filter)) {
  const std::vector<unsigned> check_bits =
      ShareBlocks(kShares, plan.layout.symbol_bits, plan.layout.check_bits);
  match_ = MatchProbability(kShares, check_bits);
  // The larger first, so that all fit.
  std::array<uint32_t, kNumFlowStates> order;
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, std::ranges::greater{},
                           [&](uint32_t state) { return check_bits[state]; });
  for (const uint32_t state : order) {
    block_of_[state] = blocks_.Allocate(state, check_bits[state]).value();
  }
}

uint32_t KbfFlows::SymbolOf(const KeyHash& flow, FlowState state) const {
  return block_of_[static_cast<size_t>(state)].Choose(KeyCheck(flow));
}

FlowAnswer KbfFlows::Find(const KeyHash& flow) const {
  const QueryResult result = filter_.Query(flow, blocks_);
  switch (result.outcome) {
    case Outcome::kFound:
      return {FlowOutcome::kFound, static_cast<FlowState>(result.value), result.symbol};
    case Outcome::kUndecodable:
      return {FlowOutcome::kUnknown};
    default:
      return {};
  }
}

void KbfFlows::Add(const KeyHash& flow, FlowState state) {
  filter_.Insert(flow, SymbolOf(flow, state));
}

bool KbfFlows::Change(const KeyHash& flow, const FlowAnswer& found, FlowState state) {
  if (!Remove(flow, found)) return false;
  Add(flow, state);
  return true;
}

bool KbfFlows::Remove(const KeyHash& flow, const FlowAnswer& found) {
  return found.outcome == FlowOutcome::kFound &&
         filter_.DeleteSymbol(flow, found.token) == KbfStatus::kOk;
}

// ---- the sBF ----

std::unique_ptr<SbfFlows> SbfFlows::Create(uint64_t flows, double false_positive,
                                           StateBloom::Sharing sharing) {
  const auto setting = PaperPlan(false_positive);
  if (!setting || flows > kCapacityMax) return nullptr;
  const double cells = static_cast<double>(flows) * setting->num_hashes / setting->load;
  auto filter =
      StateBloom::Create(static_cast<uint64_t>(std::ceil(cells)), setting->num_hashes, sharing);
  if (!filter) return nullptr;
  return std::unique_ptr<SbfFlows>(new SbfFlows(std::move(*filter)));
}

FlowAnswer SbfFlows::Find(const KeyHash& flow) const {
  const StateBloom::Answer answer = filter_.Query(flow);
  switch (answer.outcome) {
    case StateBloom::Outcome::kFound:
      return {FlowOutcome::kFound, static_cast<FlowState>(answer.state)};
    case StateBloom::Outcome::kUnknown:
      return {FlowOutcome::kUnknown};
    default:
      return {};
  }
}

void SbfFlows::Add(const KeyHash& flow, FlowState state) {
  filter_.Insert(flow, static_cast<unsigned>(state));
  ++size_;
}

bool SbfFlows::Change(const KeyHash& flow, const FlowAnswer&, FlowState state) {
  filter_.Change(flow, static_cast<unsigned>(state));
  return true;
}

bool SbfFlows::Remove(const KeyHash& flow, const FlowAnswer&) {
  filter_.Remove(flow);
  size_ -= size_ > 0 ? 1 : 0;
  return true;
}

// ---- the exact table ----

FlowAnswer ExactFlows::Find(const KeyHash& flow) const {
  const auto place = states_.find(flow);
  return place == states_.end() ? FlowAnswer{} : FlowAnswer{FlowOutcome::kFound, place->second};
}

bool ExactFlows::Change(const KeyHash& flow, const FlowAnswer&, FlowState state) {
  const auto place = states_.find(flow);
  if (place == states_.end()) return false;
  place->second = state;
  return true;
}

bool ExactFlows::Remove(const KeyHash& flow, const FlowAnswer&) { return states_.erase(flow) > 0; }

uint64_t ExactFlows::memory_bytes() const {
  // A node of libstdc++ holds the pair, a pointer and the hash, and malloc rounds it up to 48.
  return states_.size() * 48 + states_.bucket_count() * sizeof(void*);
}

}  // namespace kbf
