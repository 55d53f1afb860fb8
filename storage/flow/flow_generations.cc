#include "storage/flow/flow_generations.h"

#include <new>
#include <utility>

namespace kbf {

FlowGenerations::FlowGenerations(Make make) : make_(std::move(make)), newer_(MakeOne()) {}

std::unique_ptr<FlowStates> FlowGenerations::MakeOne() const {
  auto made = make_();
  if (made == nullptr) throw std::bad_alloc();
  return made;
}

void FlowGenerations::Rotate() {
  older_.reset();  // first, so that there are never three
  older_ = std::exchange(newer_, MakeOne());
  ++rotations_;
}

FlowAnswer FlowGenerations::Find(const KeyHash& flow) const {
  FlowAnswer found = newer_->Find(flow);
  if (found.outcome != FlowOutcome::kAbsent || older_ == nullptr) return found;
  found = older_->Find(flow);
  found.in_older = true;
  return found;
}

bool FlowGenerations::Change(const KeyHash& flow, const FlowAnswer& found, FlowState state) {
  if (!found.in_older) return newer_->Change(flow, found, state);
  if (!older_->Remove(flow, found)) return false;
  newer_->Add(flow, state);
  return true;
}

bool FlowGenerations::Remove(const KeyHash& flow, const FlowAnswer& found) {
  return (found.in_older ? older_ : newer_)->Remove(flow, found);
}

uint64_t FlowGenerations::size() const {
  return newer_->size() + (older_ == nullptr ? 0 : older_->size());
}
uint64_t FlowGenerations::memory_bytes() const {
  return newer_->memory_bytes() + (older_ == nullptr ? 0 : older_->memory_bytes());
}

}  // namespace kbf
