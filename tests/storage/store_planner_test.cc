#include "storage/store_planner.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "storage/kbf_engine.h"
#include "storage/store.h"

namespace kbf {
namespace {

constexpr uint64_t kGranularity = uint64_t{1} << 20;

StorePlan PlanOf(const StorePlanRequest& request) {
  StorePlanOutcome outcome = PlanStore(request, kGranularity);
  CAPTURE(outcome.error);
  REQUIRE(outcome.plan.has_value());
  CHECK(outcome.error.empty());
  return *outcome.plan;
}

std::string ErrorOf(const StorePlanRequest& request) {
  const StorePlanOutcome outcome = PlanStore(request, kGranularity);
  CHECK_FALSE(outcome.plan.has_value());
  return outcome.error;
}

bool Contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// A store that was asked to hold the keys of a request.
class FilledStore {
 public:
  FilledStore(const StorePlanRequest& request, uint64_t memory_bytes) : request_(request) {
    StoreConfig config;
    config.memory_bytes = memory_bytes;
    config.exact_share = 0.25;  // the server's default
    config.front_share = request.front_share;
    Store::CreateOutcome made = Store::Create(config, HashSecret::FromSeed(7));
    REQUIRE(made.store);
    store_ = std::move(made.store);
    for (uint64_t i = 0; i < request.keys; ++i) {
      CHECK(store_->Write({WriteMode::kSet, KeyOf(i), ValueOf(i)}, now_).status ==
            StoreStatus::kOk);
      if (i % 10000 == 0) (void)store_->Maintain(8, ++now_);
    }
  }

  uint64_t CountMissing() {
    uint64_t missing = 0;
    for (uint64_t i = 0; i < request_.keys; ++i) {
      const Reading reading = store_->Get(KeyOf(i), now_);
      missing += !reading.hit;
    }
    return missing;
  }
  StoreUsage Usage() const { return store_->Usage(); }

 private:
  static std::string KeyOf(uint64_t number) { return "key:" + std::to_string(number); }
  std::string ValueOf(uint64_t number) const {
    std::string value = std::to_string(Mix64(number) % request_.distinct_values);
    value.resize(request_.value_bytes, 'v');
    return value;
  }

  const StorePlanRequest request_;
  std::unique_ptr<Store> store_;
  uint32_t now_ = 100;
};

TEST_SUITE("storage") {
  TEST_CASE("the store planner divides memory as a store does") {
    for (const uint64_t megabytes : {2, 3, 5, 15, 16, 31, 32, 47, 64, 100, 127, 128}) {
      CAPTURE(megabytes);
      StoreConfig config;
      config.memory_bytes = megabytes << 20;
      const auto made = Store::Create(config, HashSecret::FromSeed(1));
      REQUIRE(made.store);
      const StoreShape shape = ShapeOfStore(config.memory_bytes);
      CHECK(shape.num_slabs == made.store->config().num_slabs);
      CHECK(shape.filter_keys == made.store->config().filter_keys);
    }
  }

  TEST_CASE("the store planner chooses the filters that a store chooses") {
    for (const double false_positive : {1e-2, 2e-5, 1e-7}) {
      CAPTURE(false_positive);
      StoreConfig config;
      config.false_positive = false_positive;
      const auto made = Store::Create(config, HashSecret::FromSeed(1));
      REQUIRE(made.store);
      const StorePlan plan = PlanOf({.keys = 50000, .false_positive = false_positive});
      const auto& engine = dynamic_cast<const KbfEngine&>(made.store->engine());
      CHECK(plan.plan.layout == engine.plan().layout);
      CHECK(plan.plan.load == engine.plan().load);
    }
  }

  TEST_CASE("a store with the planned memory, or half as much again, holds the keys") {
    for (const uint64_t keys : {20000, 100000, 300000}) {
      CAPTURE(keys);
      const StorePlanRequest request{.keys = keys, .distinct_values = 1000, .value_bytes = 60};
      const StorePlan plan = PlanOf(request);
      // Full filters miss most, so the prediction for those bounds the mean.
      const double expected = static_cast<double>(keys) * plan.plan.predicted.false_negative;
      const double most = expected + 5 * std::sqrt(expected);
      for (const double factor : {1.0, 1.2, 1.5}) {
        CAPTURE(factor);
        FilledStore store(request,
                          static_cast<uint64_t>(factor * static_cast<double>(plan.memory_bytes)));
        CHECK(static_cast<double>(store.CountMissing()) <= most);
      }
    }
  }

  TEST_CASE("the planned parts are at least what a filled store takes, and fit its memory") {
    const StorePlanRequest request{.keys = 200000, .distinct_values = 3000, .value_bytes = 100};
    const StorePlan plan = PlanOf(request);
    const FilledStore store(request, plan.memory_bytes);
    const StoreUsage usage = store.Usage();
    CHECK(usage.slabs.cells_bytes <= plan.parts.cells);
    CHECK(usage.slabs.locator_bytes <= plan.parts.locator);
    CHECK(usage.slabs.dictionary_bytes <= plan.parts.dictionary);
    CHECK(usage.shared_bytes <= plan.parts.values);
    CHECK(usage.slabs.other_bytes <= plan.parts.other);
    CHECK(plan.parts.total() <= plan.memory_bytes);
  }

  TEST_CASE("more keys, longer values and a larger front take no less memory") {
    uint64_t before = 0;
    for (const uint64_t keys : {1, 1000, 100000, 1000000, 10000000, 1000000000}) {
      const StorePlan plan = PlanOf({.keys = keys});
      CAPTURE(keys);
      CHECK(plan.memory_bytes >= before);
      CHECK(plan.memory_bytes % kGranularity == 0);
      before = plan.memory_bytes;
    }
    const uint64_t usual = PlanOf({.keys = 1000000}).memory_bytes;
    CHECK(PlanOf({.keys = 1000000, .value_bytes = 10000}).memory_bytes > usual);
    CHECK(PlanOf({.keys = 1000000, .front_share = 0.3}).memory_bytes > usual);
  }

  TEST_CASE("what no store can hold is refused with the limit that is in the way") {
    CHECK(Contains(ErrorOf({.keys = uint64_t{1} << 45}), "divide them over several servers"));
    CHECK(Contains(ErrorOf({.distinct_values = 50001}), "up to 50000 repeating values"));
    CHECK(Contains(ErrorOf({.keys = 0}), "the number of keys must be between 1 and"));
    CHECK(Contains(ErrorOf({.false_negative = 0}), "false-negative budget"));
    CHECK(Contains(ErrorOf({.false_positive = 2}), "false-positive budget"));
    PlanOf({.distinct_values = 4095});
  }
}

}  // namespace
}  // namespace kbf
