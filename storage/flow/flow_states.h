// FlowStates keeps a state for each of many flows: the memory of an approximate concurrent state
// machine ([kBF] §7). There are a key-value Bloom filter (KbfFlows), a stateful Bloom filter
// (SbfFlows) and an exact table (ExactFlows) to compare them with. FollowFlow moves a flow by one
// packet in any of them.
//
// Promises:  by engine, see below. What approximate ones get wrong: a new flow that seems to have a
//            state is not inserted, and changes the cells of others; a flow that is kUnknown is not
//            followed until others have left its cells, and meanwhile its entry stays as it is.
// Requires:  one thread. Add for a flow that Find says is absent; Change and Remove with what Find
//            has just said.
//            (Find [Add | Change | Remove])*
#pragma once

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "storage/flow/state_bloom.h"
#include "storage/flow/tcp_machine.h"
#include "storage/hash.h"
#include "storage/kbf.h"
#include "storage/planner.h"
#include "storage/symbol_blocks.h"

namespace kbf {

enum class FlowOutcome : uint8_t {
  kAbsent,
  kFound,
  kUnknown,  // there, but its state cannot be told
};
struct FlowAnswer {
  FlowOutcome outcome = FlowOutcome::kAbsent;
  FlowState state = FlowState::kOpen;  // if kFound
  uint32_t token = 0;                  // for Change and Remove of the same engine
  bool in_older = false;               // see storage/flow/flow_generations.h
};

class FlowStates {
 public:
  virtual ~FlowStates() = default;

  virtual FlowAnswer Find(const KeyHash& flow) const = 0;
  virtual void Add(const KeyHash& flow, FlowState state) = 0;
  // Both return false where the flow cannot be changed; then nothing was.
  virtual bool Change(const KeyHash& flow, const FlowAnswer& found, FlowState state) = 0;
  virtual bool Remove(const KeyHash& flow, const FlowAnswer& found) = 0;

  virtual uint64_t size() const = 0;  // flows, by Add and Remove
  virtual uint64_t memory_bytes() const = 0;
};

// What became of one packet.
struct FollowedPacket {
  FlowAnswer before;
  FlowStep step;  // where the state was unknown: no next state, and only alarms of flags
};
FollowedPacket FollowFlow(FlowStates* flows, const KeyHash& flow, const FlowPacket& packet,
                          FlowKind kind);

// The store's filter (storage/kbf.h), planned for ten values.
//
// Promises:  at `flows` flows, false_negative and false_positive as PredictErrors computes them:
//            at most what was asked for.
// Departs:   changes cells on any evidence, where the store asks for more: states change all the
//            time, and one flow in twenty would have too little. So a new flow that is mistaken for
//            a stored one damages up to k others.
class KbfFlows : public FlowStates {
 public:
  struct Size {
    uint64_t flows = 0;
    double false_negative = 1e-3;
    double false_positive = 1e-5;
  };
  // Null where the sizes are out of range or there is no memory.
  [[nodiscard]] static std::unique_ptr<KbfFlows> Create(const Size& size);

  FlowAnswer Find(const KeyHash& flow) const override;
  void Add(const KeyHash& flow, FlowState state) override;
  bool Change(const KeyHash& flow, const FlowAnswer& found, FlowState state) override;
  bool Remove(const KeyHash& flow, const FlowAnswer& found) override;
  uint64_t size() const override { return filter_.size(); }
  uint64_t memory_bytes() const override { return filter_.memory_bytes() + blocks_.memory_bytes(); }
  const Plan& plan() const { return plan_; }
  // At the present size.
  ErrorRates Predicted() const { return filter_.PredictedErrors(match_); }

 private:
  KbfFlows(const Plan& plan, Kbf filter);
  uint32_t SymbolOf(const KeyHash& flow, FlowState state) const;

  // Constant after construction.
  Plan plan_;
  SymbolBlocks blocks_;
  std::vector<SymbolBlock> block_of_;  // by state
  double match_ = 0;                   // γ of maths.h for the shares that are expected

  Kbf filter_;
};

// A stateful Bloom filter at p-capacity for `flows` flows: k = log2(1/p), m = nk / ln 2.
//
// Promises:  see storage/flow/state_bloom.h; the share of stored flows that are kUnknown hardly
//            depends on p.
class SbfFlows : public FlowStates {
 public:
  // Null where the sizes are out of range.
  [[nodiscard]] static std::unique_ptr<SbfFlows> Create(
      uint64_t flows, double false_positive,
      StateBloom::Sharing sharing = StateBloom::Sharing::kEqualStates);

  FlowAnswer Find(const KeyHash& flow) const override;
  void Add(const KeyHash& flow, FlowState state) override;
  bool Change(const KeyHash& flow, const FlowAnswer& found, FlowState state) override;
  bool Remove(const KeyHash& flow, const FlowAnswer& found) override;
  uint64_t size() const override { return size_; }
  uint64_t memory_bytes() const override { return filter_.memory_bytes(); }
  const StateBloom& filter() const { return filter_; }

 private:
  explicit SbfFlows(StateBloom filter) : filter_(std::move(filter)) {}
  StateBloom filter_;
  uint64_t size_ = 0;
};

// Promises:  exact, but for two flows with the same 128-bit hash.
// Costs:     about 56 bytes per flow; throws std::bad_alloc.
class ExactFlows : public FlowStates {
 public:
  FlowAnswer Find(const KeyHash& flow) const override;
  void Add(const KeyHash& flow, FlowState state) override { states_[flow] = state; }
  bool Change(const KeyHash& flow, const FlowAnswer& found, FlowState state) override;
  bool Remove(const KeyHash& flow, const FlowAnswer& found) override;
  uint64_t size() const override { return states_.size(); }
  uint64_t memory_bytes() const override;

  // visit(hash, state) for each flow.
  void ForEach(auto&& visit) const {
    for (const auto& [flow, state] : states_) visit(flow, state);
  }

 private:
  struct HashOf {
    size_t operator()(const KeyHash& flow) const { return flow.lo; }
  };
  std::unordered_map<KeyHash, FlowState, HashOf> states_;
};

}  // namespace kbf
