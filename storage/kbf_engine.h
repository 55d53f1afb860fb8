// KbfEngine makes the papers' chains: key-value Bloom filters (kbf_chain.h) of one plan, and one
// pool of values for all of them.
//
// Requires:  thread-safe, as engine.h asks.
// Costs:     making one takes 40 ms, nearly all of it planning. Plans are remembered by their
//            request, so that a process that makes many stores plans once.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "storage/blob_pool.h"
#include "storage/engine.h"
#include "storage/filter.h"
#include "storage/hash.h"
#include "storage/planner.h"

namespace kbf {

class KbfEngine final : public Engine {
 public:
  // REQUIRES: plans as FilterMakers wants them
  KbfEngine(const EngineConfig& config, std::vector<Plan> plans, const HashSecret& secret);

  std::unique_ptr<Chain> NewChain(const ChainConfig& config) override;
  uint64_t shared_bytes() const override { return blobs_.bytes(); }
  double bytes_per_key() const override { return plan().bytes_per_key; }
  std::string Summary() const override;
  std::vector<EngineFact> Facts() const override;
  std::string ImageKind() const override;

  // The first is for the planned number of values, the others are for more and more of them.
  const std::vector<Plan>& plans() const { return plans_; }
  const Plan& plan() const { return plans_.front(); }
  const BlobPool& blobs() const { return blobs_; }

 private:
  // Constant after construction, or thread-safe on their own.
  const EngineConfig config_;
  const std::vector<Plan> plans_;
  const HashSecret secret_;
  const FilterMakers makers_;
  BlobPool blobs_;
};

// REQUIRES: config.kind == EngineKind::kKbf
EngineOutcome MakeKbfEngine(const EngineConfig& config, const HashSecret& secret);

// The plans that such an engine is made by. Exactly one of the two is not empty.
struct [[nodiscard]] KbfPlans {
  std::vector<Plan> plans;  // as KbfEngine::plans
  std::string error;
};
KbfPlans PlanKbfEngine(const EngineConfig& config);

}  // namespace kbf
