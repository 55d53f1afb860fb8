#include "storage/packed/packed_store_planner.h"

#include <doctest/doctest.h>

#include "tests/storage/store_world.h"

namespace kbf {
namespace {

constexpr uint64_t kMegabyte = uint64_t{1} << 20;

TEST_SUITE("storage/packed") {
  TEST_CASE("a packed store with the planned memory holds the keys, all of them") {
    struct Row {
      uint64_t keys;
      double false_positive;
    };
    for (const Row row : {Row{300000, 2e-5}, Row{1000000, 2e-5}, Row{400000, 1e-12}}) {
      CAPTURE(row.keys);
      CAPTURE(row.false_positive);
      const PackedStorePlanOutcome outcome = PlanPackedStore(
          {.keys = row.keys, .value_bytes = 12, .false_positive = row.false_positive}, kMegabyte);
      REQUIRE(outcome.plan);
      const PackedStorePlan& plan = *outcome.plan;
      CHECK(plan.parts.total() <= plan.memory_bytes);
      StoreConfig config;
      config.engine = EngineKind::kPacked;
      config.memory_bytes = plan.memory_bytes;
      config.false_positive = row.false_positive;
      const auto store = std::move(Store::Create(config, HashSecret::FromSeed(3)).store);
      REQUIRE(store != nullptr);
      CHECK(store->num_slabs() == plan.num_slabs);
      for (uint64_t i = 0; i < row.keys; ++i) {
        (void)store->Write({WriteMode::kSet, KeyName(i), ValueOf(i)}, 1000);
        if (i % 1024 == 0) (void)store->Maintain(2, 1000);
      }
      uint64_t missed = 0;
      uint64_t wrong = 0;
      for (uint64_t i = 0; i < row.keys; ++i) {
        const Reading reading = store->Get(KeyName(i), 1000);
        missed += !reading.hit;
        wrong += reading.hit && reading.value != ValueOf(i);
      }
      CHECK(missed == 0);
      CHECK(wrong == 0);
      CHECK(store->Counters().evicted == 0);
      const StoreUsage usage = store->Usage();
      CHECK(usage.total_bytes() <= config.memory_bytes);
      MESSAGE(row.keys << " keys at " << row.false_positive << ": -m "
                       << plan.memory_bytes / kMegabyte << ", "
                       << static_cast<double>(usage.slabs.cells_bytes) /
                              static_cast<double>(usage.slabs.chain_keys)
                       << " bytes of lines per key, "
                       << static_cast<double>(usage.total_bytes() - usage.slabs.front_bytes) /
                              static_cast<double>(usage.slabs.chain_keys)
                       << " with all but the front");
    }
  }

  TEST_CASE("packed plans grow with keys and values, and name the limit that is in the way") {
    const auto megabytes = [](const StorePlanRequest& request) {
      return PlanPackedStore(request, kMegabyte).plan->memory_bytes / kMegabyte;
    };
    StorePlanRequest request{.keys = 10000000};
    const uint64_t small = megabytes(request);
    CHECK(small < 80);
    request.false_positive = 1e-12;
    CHECK(megabytes(request) > small);
    request.distinct_values = 1000000;
    CHECK(megabytes(request) > megabytes({.keys = 10000000, .false_positive = 1e-12}));
    request.distinct_values = uint64_t{1} << 29;
    CHECK(PlanPackedStore(request, kMegabyte).error.find("28 bits") != std::string::npos);
    request = {.keys = 10000000, .false_positive = 1e-18};
    CHECK(PlanPackedStore(request, kMegabyte).error.find("no slot reaches") != std::string::npos);
  }
}

}  // namespace
}  // namespace kbf
