// Engine is what the chains of one store have in common: the plan that they are made by, and the
// values that they share. MakeEngine is the only place that knows which engines there are.
//
// Promises:  the rates of false negatives and false positives of EngineConfig are kept by every
//            chain, as promised in chain.h.
// Requires:  thread-safe, as each chain is used under its own slab's lock. The engine outlives its
//            chains.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "storage/chain.h"
#include "storage/hash.h"

namespace kbf {

enum class EngineKind : uint8_t { kKbf, kPacked };

struct EngineConfig {
  EngineKind kind = EngineKind::kKbf;
  double false_negative = 2e-3;  // budgets of a look-up in one chain
  double false_positive = 2e-5;
  // Per slab, that a chain must tell apart at least; 0: as many as there are, within memory.
  uint64_t distinct_values = 0;
  uint64_t part_keys = 32768;  // keys that a chain drops together, about
  unsigned num_slabs = 1;
  uint64_t slab_bytes = uint64_t{16} << 20;  // memory of a slab
};

// One line of `stats kbf`.
struct EngineFact {
  std::string name;
  std::string value;
};

class Engine {
 public:
  virtual ~Engine() = default;

  // Throws std::bad_alloc.
  virtual std::unique_ptr<Chain> NewChain(const ChainConfig& config) = 0;
  // Memory that all chains share: each value once.
  virtual uint64_t shared_bytes() const = 0;

  // What was planned.
  virtual double bytes_per_key() const = 0;
  // In a few words, for the log: "engine kbf: …".
  virtual std::string Summary() const = 0;
  virtual std::vector<EngineFact> Facts() const = 0;
  // What a chain must have in common with the image that it loads, in words that only a computer
  // reads. Empty: there are no images.
  virtual std::string ImageKind() const { return {}; }
};

// Exactly one of the two is set.
struct [[nodiscard]] EngineOutcome {
  std::unique_ptr<Engine> engine;
  std::string error;  // one sentence that names the limit
};

EngineOutcome MakeEngine(const EngineConfig& config, const HashSecret& secret);

}  // namespace kbf
