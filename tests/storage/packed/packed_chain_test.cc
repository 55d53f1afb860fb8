#include "storage/packed/packed_chain.h"

#include <doctest/doctest.h>

#include <memory>
#include <random>
#include <string>
#include <unordered_map>
#include <vector>

#include "storage/deadlines.h"

namespace kbf {
namespace {

KeyHash KeyOf(uint64_t i) {
  return {Mix64(i * 0x9e3779b97f4a7c15u + 1), Mix64(i * 0xc2b2ae3d27d4eb4fu + 7)};
}

// Another key with the same fingerprint at 24 check bits: the stream of the segment is the same,
// and that of the tail is searched for.
KeyHash TwinOf(const KeyHash& key) {
  const unsigned segment_stream = 21;
  const unsigned tail_stream = 22;
  for (uint64_t d = 1;; ++d) {
    const KeyHash twin{key.lo - segment_stream * d, key.hi + d};
    if (Stream(twin, tail_stream) >> 48 == Stream(key, tail_stream) >> 48) return twin;
  }
}

struct World {
  explicit World(uint64_t lines_max = 8192, double budget = 2e-5)
      : plan(*PlanPacked({budget, 3000}).plan),
        values(plan.layout.number_bits, HashSecret::FromSeed(1)),
        chain(ChainConfig{}, {plan.layout, lines_max, values, true}) {}

  // Once numbers are scarce a value gets one when it occurs again.
  uint32_t NumberOf(uint64_t value) {
    for (;;) {
      const std::string text = "value " + std::to_string(value);
      if (const auto number = chain.Number({.value = text})) return *number;
    }
  }
  // As a slab inserts: the chain grows while memory remains, then drops its oldest keys.
  bool Set(const KeyHash& key, uint64_t value, uint32_t expires, uint32_t now,
           uint64_t bytes_max = UINT64_MAX) {
    if (!chain.RemoveForInsert(key, now)) return false;
    for (int attempt = 0; attempt < 3; ++attempt) {
      const auto done = chain.Insert(key, NumberOf(value), expires, now);
      if (done.outcome == Chain::Insertion::kDone) return true;
      if (done.outcome == Chain::Insertion::kRefused) return false;
      const auto bytes = chain.BytesToGrow(expires, now);
      if (!bytes) return false;
      if (chain.memory_bytes() + *bytes > bytes_max && !chain.DropOldest()) return false;
      if (!chain.Grow(expires, now)) return false;
    }
    return false;
  }
  bool Has(const KeyHash& key, uint64_t value, uint32_t now) {
    const ChainAnswer answer = chain.Find(key, now);
    return answer.found && chain.ValueOf(answer.number).bytes == "value " + std::to_string(value);
  }
  void MaintainAll(uint32_t now) {
    while (chain.MaintainStep(now)) {
    }
  }

  PackedPlan plan;
  ValueRegistry values;
  PackedChain chain;
};

TEST_SUITE("storage/packed") {
  TEST_CASE("packed chain: fresh keys are all found, and only twins stay exact") {
    World world(27000);
    uint64_t exact = 0;
    const uint64_t keys = 300000;
    for (uint64_t i = 0; i < keys; ++i) exact += !world.Set(KeyOf(i), i % 3000, 0, 1000);
    CHECK(exact <= 8);  // 0.3 are expected
    uint64_t missing = 0;
    for (uint64_t i = 0; i < keys; ++i) missing += !world.Has(KeyOf(i), i % 3000, 1000);
    CHECK(missing == exact);
    CHECK(world.chain.counters().inserted == keys - exact);
    SlabUsage usage;
    world.chain.AddTo(&usage);
    CHECK(usage.chain_keys == keys - exact);
    CHECK(usage.values == 3000);
    CHECK(static_cast<double>(world.chain.memory_bytes()) < 6.5 * static_cast<double>(keys));
    // Without further keys segments are rebuilt as small as they can be.
    world.MaintainAll(1060);
    CHECK(static_cast<double>(world.chain.memory_bytes()) < 5.8 * static_cast<double>(keys));
    CHECK(world.chain.counters().compressions > 0);
    missing = 0;
    for (uint64_t i = 0; i < keys; ++i) missing += !world.Has(KeyOf(i), i % 3000, 1060);
    CHECK(missing == exact);
  }

  TEST_CASE("packed chain: a twin stays exact, and overwritten keys do not, where there are many") {
    World world;
    // Keys that come for the first time earn the credit for a twin.
    for (uint64_t i = 0; i < 2000; ++i) REQUIRE(world.Set(KeyOf(i), i % 3000, 0, 1000));
    const KeyHash twin = TwinOf(KeyOf(7));
    CHECK(!world.Set(twin, 8, 0, 1000));
    CHECK(world.Has(KeyOf(7), 7, 1000));
    // Afterwards nearly every overwrite replaces the older entry.
    uint64_t exact = 0;
    for (uint64_t i = 0; i < 2000; ++i) exact += !world.Set(KeyOf(i), (i + 1) % 3000, 0, 1000);
    CHECK(exact <= 3);
    CHECK(world.Has(KeyOf(1999), 2000, 1000));
  }

  TEST_CASE("packed chain: a forgotten key is hidden as long as it would find another's entry") {
    World world;
    for (uint64_t i = 0; i < 3000; ++i) REQUIRE(world.Set(KeyOf(i), i % 3000, 0, 1000));
    const KeyHash twin = TwinOf(KeyOf(5));
    CHECK(world.chain.Find(twin, 1000).found);
    world.chain.Forget(twin, 1000);
    CHECK(!world.chain.Find(twin, 1000).found);
    CHECK(world.Has(KeyOf(5), 5, 1000));
    world.chain.Remove(twin, 1000);  // erases nothing
    CHECK(world.Has(KeyOf(5), 5, 1000));
    CHECK(world.chain.Insert(twin, world.NumberOf(1), 0, 1000).outcome ==
          Chain::Insertion::kRefused);
    world.chain.Remove(KeyOf(5), 1000);
    CHECK(!world.chain.Find(KeyOf(5), 1000).found);
    CHECK(world.chain.Insert(twin, world.NumberOf(1), 0, 1000).outcome == Chain::Insertion::kDone);
    CHECK(world.Has(twin, 1, 1000));
    CHECK(world.chain.counters().tombstones == 1);
  }

  TEST_CASE("packed chain: random operations lose nothing but what is dropped or has expired") {
    const uint64_t seed = 3;
    CAPTURE(seed);
    std::mt19937_64 random(seed);
    World world(4096, 1e-12);  // without twins
    struct Entry {
      uint64_t value;
      uint32_t expires;
      uint64_t part;
    };
    std::unordered_map<uint64_t, Entry> model;
    uint32_t now = 1000;
    const uint64_t bytes_max = 150000;
    uint64_t early = 0;
    uint64_t lost_in_parts = 0;
    uint64_t found = 0;
    for (int step = 0; step < 400000; ++step) {
      const uint64_t id = random() % 40000;
      const KeyHash key = KeyOf(id);
      const auto known = model.find(id);
      switch (random() % 4) {
        case 0:
        case 1: {
          const uint32_t expires =
              random() % 3 == 0 ? now + 60 + static_cast<uint32_t>(random() % 5000) : 0;
          const uint64_t value = random() % 3000;
          model.erase(id);
          world.chain.Remove(key, now);
          REQUIRE(!world.chain.Find(key, now).found);
          if (!world.Set(key, value, expires, now, bytes_max)) break;
          const ChainAnswer answer = world.chain.Find(key, now);
          REQUIRE(answer.found);
          REQUIRE(DeadlineFits(answer.expires, expires, now));
          model[id] = {value, answer.expires, 0};
          break;
        }
        case 2: {
          const ChainAnswer answer = world.chain.Find(key, now);
          if (known == model.end()) {
            REQUIRE(!answer.found);
            break;
          }
          const bool expired = known->second.expires != 0 && known->second.expires <= now;
          REQUIRE(!(expired && answer.found));
          if (!answer.found) {
            lost_in_parts += !expired && world.chain.counters().filters_dropped == 0;
            model.erase(known);
            break;
          }
          ++found;
          REQUIRE(world.chain.ValueOf(answer.number).bytes ==
                  "value " + std::to_string(known->second.value));
          early += answer.expires != known->second.expires;
          break;
        }
        default:
          if (random() % 4 == 0) world.chain.Remove(key, now), model.erase(id);
      }
      if (random() % 200 == 0) now += random() % 60;
      if (random() % 50 == 0) (void)world.chain.MaintainStep(now);
      if (random() % 150000 == 0) world.chain.Clear(), model.clear();
    }
    CHECK(lost_in_parts == 0);
    CHECK(early == 0);
    CHECK(found > 20000);
    CHECK(world.chain.memory_bytes() <= bytes_max + 20000);
    const ChainCounters& counters = world.chain.counters();
    CHECK(counters.filters_dropped > 5);
    CHECK(counters.filters_expired > 5);
    // Every entry is still there or was counted when it went.
    SlabUsage usage;
    world.chain.AddTo(&usage);
    CHECK(usage.chain_keys + counters.removed + counters.dropped_keys + counters.expired_keys +
              counters.flushed_keys ==
          counters.inserted);
    // The chain keeps no number for values without keys.
    world.chain.Clear();
    for (uint64_t i = 0; i < 1000; ++i) (void)world.NumberOf(3000 + i);
    world.MaintainAll(now);
    CHECK(world.values.size() <= 1000);
  }

  TEST_CASE(
      "packed chain: more deadlines than tags leave keys waiting, until windows merge or end") {
    World world;
    uint32_t now = 1000;
    uint64_t waiting = 0;
    uint64_t keys = 0;
    // Twenty TTLs from a minute to a fortnight, for two hours.
    for (; now < 1000 + 7200; ++now) {
      for (unsigned i = 0; i < 4; ++i, ++keys) {
        const uint32_t ttl = 60 << (keys % 20) / 2;
        waiting +=
            !world.Set(KeyOf(keys), keys % 3000, now + ttl + ttl / 3 * (keys % 2), now, 300000);
      }
      (void)world.chain.MaintainStep(now);
      (void)world.chain.MaintainStep(now);
    }
    CHECK(static_cast<double>(waiting) < 0.02 * static_cast<double>(keys));
    CHECK(world.chain.num_parts() < world.plan.layout.NumWindows());
  }

  TEST_CASE("packed chain: memory is given back, the newest keys last") {
    World world;
    const uint64_t keys = 60000;
    for (uint64_t i = 0; i < keys; ++i) REQUIRE(world.Set(KeyOf(i), i % 3000, 0, 1000));
    const uint64_t before = world.chain.memory_bytes();
    while (world.chain.memory_bytes() > before / 2) REQUIRE(world.chain.Shrink());
    uint64_t newest = 0;
    for (uint64_t i = keys - keys / 4; i < keys; ++i) newest += world.Has(KeyOf(i), i % 3000, 1000);
    CHECK(newest == keys / 4);
    // A slab takes a chain without parts for one without keys.
    uint64_t without_parts = 0;
    while (world.chain.Shrink()) {
      if (world.chain.num_parts() > 0) continue;
      for (uint64_t i = 0; i < keys; ++i) without_parts += world.chain.Find(KeyOf(i), 1000).found;
    }
    CHECK(without_parts == 0);
    CHECK(world.chain.memory_bytes() < 20000);
    CHECK(world.Set(KeyOf(1), 1, 0, 1000));
    CHECK(world.Has(KeyOf(1), 1, 1000));
  }
}

}  // namespace
}  // namespace kbf
