// PackedEngine makes packed chains (packed_chain.h) of one layout, and has the values of all of
// them in one registry.
//
// Requires:  thread-safe, as engine.h asks.
// Costs:     planning takes microseconds.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "storage/engine.h"
#include "storage/hash.h"
#include "storage/packed/packed_layout.h"
#include "storage/packed/value_registry.h"

namespace kbf {

class PackedEngine final : public Engine {
 public:
  PackedEngine(const EngineConfig& config, const PackedPlan& plan, const HashSecret& secret);

  std::unique_ptr<Chain> NewChain(const ChainConfig& config) override;
  uint64_t shared_bytes() const override { return values_.bytes(); }
  double bytes_per_key() const override { return plan_.bytes_per_key; }
  std::string Summary() const override;
  std::vector<EngineFact> Facts() const override;
  std::string ImageKind() const override;

  const PackedPlan& plan() const { return plan_; }
  ValueRegistry& values() { return values_; }

 private:
  // Constant after construction, or thread-safe on their own.
  const EngineConfig config_;
  const PackedPlan plan_;
  ValueRegistry values_;
  std::atomic<bool> made_one_{false};
};

// REQUIRES: config.kind == EngineKind::kPacked
EngineOutcome MakePackedEngine(const EngineConfig& config, const HashSecret& secret);

}  // namespace kbf
