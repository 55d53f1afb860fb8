// What the tests of store, slab and chain share: keys and values that are a pure function of their
// number, the promised error rates, and short ways to make a store and to run its background work.
// Test code only.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "storage/hash.h"
#include "storage/store.h"
#include "tests/storage/statistics.h"

namespace kbf {

// The defaults of StoreConfig, and the rate of wrong values that comes with them.
inline constexpr double kFalseNegative = 2e-3;
inline constexpr double kFalsePositive = 2e-5;
inline constexpr double kWrong = 2e-6;

// Distinct values, as in the papers' workload ([kBF] §6.1).
inline constexpr uint64_t kDistinctValues = 3000;

inline std::string KeyName(uint64_t number) { return "key:" + std::to_string(number); }
inline std::string ValueText(uint64_t value) { return "value " + std::to_string(value); }
// The value of a key that is written once.
inline std::string ValueOf(uint64_t number) { return ValueText(Mix64(number) % kDistinctValues); }

// The engine of stores that MakeStore makes while this lives; kbf where none does.
class EngineOfTest {
 public:
  EngineOfTest() { kind_ = EngineKind::kKbf; }
  ~EngineOfTest() { kind_ = EngineKind::kKbf; }
  static void Use(EngineKind kind) { kind_ = kind; }
  static EngineKind kind() { return kind_; }
  static bool is_packed() { return kind_ == EngineKind::kPacked; }

 private:
  static inline EngineKind kind_ = EngineKind::kKbf;
};

// Runs the rest of a test case once for each engine.
#define KBF_FOR_EACH_ENGINE()               \
  const ::kbf::EngineOfTest engine_of_test; \
  SUBCASE("engine kbf") {}                  \
  SUBCASE("engine packed") { engine_of_test.Use(EngineKind::kPacked); }

inline std::unique_ptr<Store> MakeStore(const StoreConfig& config, uint64_t seed) {
  StoreConfig chosen = config;
  chosen.engine = EngineOfTest::kind();
  return std::move(Store::Create(chosen, HashSecret::FromSeed(seed)).store);
}

// Background steps until there is nothing to do, or until there were `steps_max`. Returns how many
// found work.
inline uint64_t MaintainAll(Store& store, uint32_t now, uint64_t steps_max = UINT64_MAX) {
  uint64_t steps = 0;
  // One step visits one slab: all must be idle in turn.
  for (unsigned idle = 0; idle < store.num_slabs() && steps < steps_max;) {
    const unsigned worked = store.Maintain(1, now);
    steps += worked;
    idle = worked > 0 ? 0 : idle + 1;
  }
  return steps;
}

}  // namespace kbf
