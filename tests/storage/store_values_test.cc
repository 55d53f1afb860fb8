// Values that change and that are many: what the dictionary's rules mean for the keys of a store.
// KBF_SOAK=1 runs the sizes of a server with -m 64.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "storage/store.h"
#include "tests/storage/store_world.h"

namespace kbf {
namespace {

bool IsSoak() { return std::getenv("KBF_SOAK") != nullptr; }

std::string LongKey(uint64_t number) {
  std::string key = "key:" + std::to_string(number);
  return key + std::string(36 - key.size(), '.');
}
std::string ValueOf20(uint64_t value) {
  std::string text = "value " + std::to_string(value);
  return text + std::string(20 - text.size(), '.');
}

// A store that is written to with its background steps in between.
class Living {
 public:
  explicit Living(const StoreConfig& config) : store_(MakeStore(config, 5)) {}

  void Set(uint64_t key, uint64_t value) {
    CHECK(store_->Write({WriteMode::kSet, LongKey(key), ValueOf20(value)}, now_).status ==
          StoreStatus::kOk);
    if (++writes_ % 2000 == 0) (void)store_->Maintain(8 * store_->num_slabs(), now_);
    if (writes_ % 10000 == 0) ++now_;
  }
  // The value's own bytes, others, or nothing.
  enum class Found : uint8_t { kRight, kWrong, kNothing };
  Found Ask(uint64_t key, uint64_t value) {
    const Reading reading = store_->Get(LongKey(key), now_);
    if (!reading.hit) return Found::kNothing;
    return reading.value == ValueOf20(value) ? Found::kRight : Found::kWrong;
  }
  Store& store() { return *store_; }

 private:
  std::unique_ptr<Store> store_;
  uint32_t now_ = 1000;
  uint64_t writes_ = 0;
};

// Keys that are overwritten in random order, in each epoch with values of its own.
void CheckFashion(const StoreConfig& config, uint64_t keys, uint64_t values) {
  CAPTURE(values);
  Living living(config);
  std::mt19937_64 random(3);
  std::vector<uint64_t> value_of(keys);
  std::vector<uint64_t> order(keys);
  for (uint64_t i = 0; i < keys; ++i) order[i] = i;
  for (uint64_t epoch = 0; epoch < 8; ++epoch) {
    CAPTURE(epoch);
    std::shuffle(order.begin(), order.end(), random);
    for (const uint64_t key : order) {
      value_of[key] = epoch * values + random() % values;
      living.Set(key, value_of[key]);
    }
    uint64_t missed = 0;
    uint64_t wrong = 0;
    for (uint64_t key = 0; key < keys; ++key) {
      const auto found = living.Ask(key, value_of[key]);
      missed += found == Living::Found::kNothing;
      wrong += found == Living::Found::kWrong;
    }
    CHECK(static_cast<double>(missed) <= MostEvents(kFalseNegative, static_cast<double>(keys)));
    CHECK(static_cast<double>(wrong) <= MostEvents(kWrong, static_cast<double>(keys)));
    // A key in the front may have an older entry in the chain.
    const SlabUsage usage = living.store().Usage().slabs;
    const auto entries = static_cast<double>(usage.chain_keys + usage.front_items);
    CHECK(entries <= 1.2 * static_cast<double>(keys));
  }
  const DictionaryCounters events = living.store().ValueEvents();
  const SlabUsage usage = living.store().Usage().slabs;
  MESSAGE(values << " values per epoch: " << usage.values << " in " << living.store().num_slabs()
                 << " slabs at the end, " << events.recycled << " codes recycled, "
                 << events.refused_full << " refusals for want of room; " << usage.chain_keys
                 << " entries for " << keys << " keys");
  CHECK(events.recycled > 5 * values);
  CHECK(events.refused_full == 0);
  CHECK(usage.values <= 4 * values * living.store().num_slabs());
}

// All keys set once and asked once: the part that is found.
double HitRatio(uint64_t memory_bytes, uint64_t keys, uint64_t values) {
  Living living({.memory_bytes = memory_bytes, .exact_share = 0.25});
  std::mt19937_64 random(7);
  for (uint64_t key = 0; key < keys; ++key) living.Set(key, random() % values);
  random.seed(7);
  uint64_t hits = 0;
  uint64_t wrong = 0;
  for (uint64_t key = 0; key < keys; ++key) {
    const auto found = living.Ask(key, random() % values);
    hits += found != Living::Found::kNothing;
    wrong += found == Living::Found::kWrong;
  }
  CHECK(static_cast<double>(wrong) <= MostEvents(kWrong, static_cast<double>(keys)));
  const double ratio = static_cast<double>(hits) / static_cast<double>(keys);
  MESSAGE(values << " values: hit ratio " << ratio << ", values known in all slabs "
                 << living.store().Usage().slabs.values);
  return ratio;
}

TEST_SUITE("storage") {
  TEST_CASE("values that go out of fashion leave, and those that come in find room") {
    const uint64_t scale = IsSoak() ? 16 : 1;
    const uint64_t memory = (uint64_t{4} << 20) * scale;
    for (const double exact_share : {0.25, 0.0}) {
      CAPTURE(exact_share);
      CheckFashion({.memory_bytes = memory, .exact_share = exact_share}, 34000 * scale, 1000);
    }
    CheckFashion({.memory_bytes = memory, .exact_share = 0}, 34000 * scale,
                 IsSoak() ? 10000 : 2500);
  }

  TEST_CASE("the hit ratio falls gently with the number of distinct values") {
    // -m 64 holds 1 M keys of 36 bytes; a sixteenth of that while it is only checked.
    const uint64_t scale = IsSoak() ? 16 : 1;
    const uint64_t memory = (uint64_t{15} << 18) * scale;
    const uint64_t keys = 62500 * scale;
    CHECK(HitRatio(memory, keys, 4000) >= 0.99);
    CHECK(HitRatio(memory, keys, 5000) >= 0.99);
    CHECK(HitRatio(memory, keys, 10000) >= 0.99);
    if (!IsSoak()) return;
    CHECK(HitRatio(memory, keys, 20000) >= 0.95);
    CHECK(HitRatio(memory, keys, 100000) >= 0.7);
  }
}

}  // namespace
}  // namespace kbf
