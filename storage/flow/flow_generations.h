// FlowGenerations forgets flows that are idle, so that a monitor can run for ever in fixed memory:
// filters hold no keys, so nothing can look through them for flows to expire. Two generations of
// FlowStates stand one behind the other. New flows go to the newer one, and a packet of a flow in
// the older one moves it to the newer one. Rotate drops the older one.
//
// Promises:  a flow that has had a packet since the last Rotate is kept. Errors are those of two
//            filters: an absent flow is found in one of them with twice the chance.
// Requires:  as FlowStates. Who calls Rotate decides how long flows are remembered; a generation
//            should not get more flows than it was made for.
// Costs:     two generations; Rotate makes a new one.
#pragma once

#include <functional>
#include <memory>

#include "storage/flow/flow_states.h"

namespace kbf {

class FlowGenerations : public FlowStates {
 public:
  using Make = std::function<std::unique_ptr<FlowStates>()>;
  // Throws std::bad_alloc where `make` gives null, as Rotate does.
  explicit FlowGenerations(Make make);

  void Rotate();
  uint64_t newer_size() const { return newer_->size(); }
  uint64_t rotations() const { return rotations_; }

  FlowAnswer Find(const KeyHash& flow) const override;
  void Add(const KeyHash& flow, FlowState state) override { newer_->Add(flow, state); }
  bool Change(const KeyHash& flow, const FlowAnswer& found, FlowState state) override;
  bool Remove(const KeyHash& flow, const FlowAnswer& found) override;
  uint64_t size() const override;
  uint64_t memory_bytes() const override;

 private:
  std::unique_ptr<FlowStates> MakeOne() const;

  Make make_;
  std::unique_ptr<FlowStates> newer_;
  std::unique_ptr<FlowStates> older_;  // null before the first Rotate
  uint64_t rotations_ = 0;
};

}  // namespace kbf
