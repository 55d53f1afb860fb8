// The chain alone: a maker of small filters, a dictionary and a clock of the test's own. Keys are
// hashes; every key's value is a function of its number.
#include "storage/kbf_chain.h"

#include <doctest/doctest.h>

#include <memory>
#include <random>
#include <vector>

#include "storage/blob_pool.h"
#include "storage/deadlines.h"
#include "storage/kbf_engine.h"
#include "tests/storage/store_world.h"

namespace kbf {
namespace {

constexpr uint64_t kFilterKeys = 2048;  // the smallest, which COMPRESS does not halve
constexpr uint32_t kNow = 1000;

struct World {
  explicit World(uint64_t filter_keys = kFilterKeys)
      : makers(PlanKbfEngine({}).plans, filter_keys),
        chain({}, KbfChainParts{makers, secret, blobs}) {}

  KeyHash Key(uint64_t number) const { return HashKey(KeyName(number), secret); }
  // One of 100 values, few enough to be admitted at once.
  uint32_t Value(uint64_t number) { return *chain.Number({.value = ValueText(number % 100)}); }

  Chain::Insertion Insert(uint64_t number, uint32_t expires = 0, uint32_t now = kNow) {
    return chain.Insert(Key(number), Value(number), expires, now).outcome;
  }
  // Numbers first … first + count - 1, in a filter that is opened first.
  void Fill(uint64_t first, uint64_t count, uint32_t expires = 0, uint32_t now = kNow) {
    REQUIRE(chain.Grow(expires, now));
    for (uint64_t i = first; i < first + count; ++i) {
      REQUIRE(Insert(i, expires, now) == Chain::Insertion::kDone);
    }
  }
  bool Finds(uint64_t number, uint32_t now = kNow) { return chain.Find(Key(number), now).found; }
  // How many of the numbers are found with their value, and that none has another one.
  uint64_t Found(uint64_t first, uint64_t count, uint32_t now = kNow) {
    uint64_t found = 0;
    uint64_t wrong = 0;
    for (uint64_t i = first; i < first + count; ++i) {
      const ChainAnswer answer = chain.Find(Key(i), now);
      found += answer.found;
      wrong += answer.found && chain.ValueOf(answer.number).bytes != ValueText(i % 100);
    }
    CHECK(static_cast<double>(wrong) <= MostEvents(kWrong, static_cast<double>(count)));
    return found;
  }
  // Bounds of Found: all that are there, or none that are not, but for the promised rates.
  static double FewestOf(uint64_t count) {
    return static_cast<double>(count) - MostEvents(kFalseNegative, static_cast<double>(count));
  }
  static double MostOfAbsent(uint64_t count) {
    return MostEvents(kFalsePositive, static_cast<double>(count));
  }
  unsigned MaintainAll(uint32_t now) {
    unsigned steps = 0;
    while (chain.MaintainStep(now)) ++steps;
    return steps;
  }

  const HashSecret secret = HashSecret::FromSeed(11);
  const FilterMakers makers;
  BlobPool blobs;
  KbfChain chain;
};

TEST_SUITE("storage") {
  TEST_CASE("chain: a key is found with its value from its insertion to its removal") {
    World world;
    CHECK_FALSE(world.Finds(0));
    world.Fill(0, kFilterKeys);
    CHECK(world.chain.num_keys() == kFilterKeys);
    CHECK(static_cast<double>(world.Found(0, kFilterKeys)) >= World::FewestOf(kFilterKeys));
    CHECK(static_cast<double>(world.Found(1 << 20, 20000)) <= World::MostOfAbsent(20000));
    for (uint64_t i = 0; i < kFilterKeys; ++i) {
      world.chain.Remove(world.Key(i), kNow);
      CHECK_FALSE(world.Finds(i));
    }
    const ChainCounters& counters = world.chain.counters();
    CHECK(counters.inserted == kFilterKeys);
    CHECK(counters.removed + counters.tombstones == kFilterKeys);
    CHECK(counters.removed > kFilterKeys * 9 / 10);
  }

  TEST_CASE("chain: a key that cannot be deleted is hidden by a tombstone and not inserted again") {
    World world;
    world.Fill(0, kFilterKeys);
    std::vector<uint64_t> hidden;
    for (uint64_t i = 0; i < kFilterKeys; ++i) {
      const uint64_t before = world.chain.num_tombstones();
      world.chain.Remove(world.Key(i), kNow);
      if (world.chain.num_tombstones() > before) hidden.push_back(i);
    }
    REQUIRE(!hidden.empty());
    CHECK(world.chain.num_tombstones() == hidden.size());
    for (const uint64_t number : hidden) {
      CHECK_FALSE(world.Finds(number));
      CHECK(world.Insert(number) == Chain::Insertion::kRefused);
    }
    // A filter without the tombstone takes the key; it is found there.
    world.chain.Clear();
    world.Fill(1 << 20, 10);
    CHECK(world.Insert(hidden[0]) == Chain::Insertion::kDone);
    CHECK(world.Finds(hidden[0]));
  }

  TEST_CASE("chain: a filter is wanted when an eighth of its keys wait for it") {
    World world;
    CHECK(world.Insert(0) == Chain::Insertion::kNoRoom);
    for (uint64_t i = 0; i < kFilterKeys / 8; ++i) {
      CHECK_FALSE(world.chain.BytesToGrow(0, kNow));
      world.chain.CountWaiting(0, kNow);
    }
    CHECK(world.chain.BytesToGrow(0, kNow));
    CHECK(world.chain.BytesToGrow(0, kNow) == world.chain.part_bytes());
    REQUIRE(world.chain.Grow(0, kNow));
    CHECK_FALSE(world.chain.BytesToGrow(0, kNow));
    CHECK(world.Insert(0) == Chain::Insertion::kDone);
    // Once a filter was filled, the next one is wanted at once.
    uint64_t number = 1;
    while (world.Insert(number) == Chain::Insertion::kDone) ++number;
    CHECK(number == kFilterKeys);
    CHECK(world.chain.BytesToGrow(0, kNow));
  }

  TEST_CASE("chain: a filter for a deadline is halved to twice the keys that wait for it") {
    World world(4 * kFilterKeys);
    const uint32_t expires = kNow + 4096;
    for (uint64_t i = 0; i < kFilterKeys / 2; ++i) world.chain.CountWaiting(expires, kNow);
    CHECK(world.chain.BytesToGrow(expires, kNow) == world.chain.part_bytes() / 4);
    REQUIRE(world.chain.Grow(expires, kNow));
    CHECK(world.chain.cells_bytes() <= world.chain.part_bytes() / 4 + 4096);
  }

  TEST_CASE("chain: deadlines are never after the expiry, nor before the last quarter") {
    std::mt19937_64 random(3);
    for (int i = 0; i < 100000; ++i) {
      const auto now = static_cast<uint32_t>(2 + random() % 1000000);
      const uint32_t remaining = 1 + static_cast<uint32_t>(random() >> random() % 64) % 10000000;
      const uint32_t expires = now + remaining;
      const uint32_t deadline = DeadlineFor(expires, now);
      CAPTURE(now);
      CAPTURE(expires);
      REQUIRE(DeadlineFits(deadline, expires, now));
      REQUIRE(deadline <= expires);
      REQUIRE(deadline >= expires - remaining / 4);
    }
    CHECK(DeadlineFor(0, kNow) == 0);
    CHECK(DeadlineFits(0, 0, kNow));
    CHECK_FALSE(DeadlineFits(0, kNow + 100, kNow));
    CHECK_FALSE(DeadlineFits(kNow + 100, 0, kNow));
  }

  TEST_CASE("chain: nothing is found at its deadline, and a step then drops the filter") {
    World world;
    const uint32_t expires = kNow + 1000;
    const uint32_t deadline = DeadlineFor(expires, kNow);
    world.Fill(0, 500, expires);
    world.Fill(1000, 500);
    CHECK(world.chain.Find(world.Key(0), kNow).expires == deadline);
    CHECK(static_cast<double>(world.Found(0, 500, deadline - 1)) >= World::FewestOf(500));
    CHECK(static_cast<double>(world.Found(0, 500, deadline)) <= World::MostOfAbsent(500));
    CHECK(world.chain.num_parts() == 2);
    (void)world.MaintainAll(deadline);
    CHECK(world.chain.num_parts() == 1);
    CHECK(world.chain.counters().filters_expired == 1);
    CHECK(world.chain.counters().expired_keys == 500);
    CHECK(static_cast<double>(world.Found(1000, 500, deadline)) >= World::FewestOf(500));
  }

  TEST_CASE("chain: the oldest filter is dropped first, and its codes are freed") {
    World world;
    CHECK_FALSE(world.chain.DropOldest());
    for (uint64_t filter = 0; filter < 3; ++filter) {
      world.Fill(filter * kFilterKeys, kFilterKeys);
    }
    const uint64_t bytes = world.chain.memory_bytes();
    for (uint64_t filter = 0; filter < 3; ++filter) {
      CAPTURE(filter);
      CHECK(static_cast<double>(world.Found(filter * kFilterKeys, kFilterKeys)) >=
            World::FewestOf(kFilterKeys));
      CHECK(world.chain.DropOldest());
      CHECK(static_cast<double>(world.Found(filter * kFilterKeys, kFilterKeys)) <=
            World::MostOfAbsent(kFilterKeys));
    }
    CHECK(world.chain.num_parts() == 0);
    CHECK(world.chain.memory_bytes() + 3 * world.chain.part_bytes() <= bytes);
    CHECK(world.chain.counters().dropped_keys == 3 * kFilterKeys);
    CHECK(world.chain.dictionary().num_codes() == 0);
    CHECK(world.blobs.count() == 0);
  }

  TEST_CASE("chain: two filters that agree answer, two that do not are a miss") {
    World world;
    world.Fill(0, kFilterKeys);
    uint64_t decodable = 0;
    while (!world.Finds(decodable)) ++decodable;
    const KeyHash key = world.Key(decodable);
    REQUIRE(world.chain.Grow(0, kNow));
    SUBCASE("the same value") {
      REQUIRE(world.Insert(decodable) == Chain::Insertion::kDone);
      CHECK(world.Finds(decodable));
      CHECK(world.chain.counters().disagreements == 0);
    }
    SUBCASE("another value") {
      const auto other = world.Value(decodable + 1);
      REQUIRE(world.chain.Insert(key, other, 0, kNow).outcome == Chain::Insertion::kDone);
      CHECK_FALSE(world.Finds(decodable));
      CHECK(world.chain.counters().disagreements == 1);
    }
    // Remove takes the key out of both.
    world.chain.Remove(key, kNow);
    CHECK_FALSE(world.Finds(decodable));
  }

  TEST_CASE("chain: Holds is true for the same value and a deadline that fits") {
    World world;
    world.Fill(0, 1000);
    uint64_t held = 0;
    for (uint64_t i = 0; i < 1000; ++i) {
      held += world.chain.Holds(world.Key(i), world.Value(i), 0, kNow);
      CHECK_FALSE(world.chain.Holds(world.Key(i), world.Value(i + 1), 0, kNow));
      CHECK_FALSE(world.chain.Holds(world.Key(i), world.Value(i), kNow + 1000, kNow));
    }
    CHECK(held > 900);
  }

  TEST_CASE("chain: half-empty filters are joined, with their tombstones") {
    World world;
    for (uint64_t filter = 0; filter < 2; ++filter) {
      world.Fill(filter * kFilterKeys, kFilterKeys);
    }
    const auto kept = [](uint64_t number) { return number % 5 < 2; };
    uint64_t left = 0;
    for (uint64_t i = 0; i < 2 * kFilterKeys; ++i) {
      left += kept(i);
      if (!kept(i)) world.chain.Remove(world.Key(i), kNow);
    }
    const uint64_t tombstones = world.chain.num_tombstones();
    REQUIRE(tombstones > 0);
    CHECK(world.MaintainAll(kNow) > 0);  // nothing takes keys any more: both are settled
    CHECK(world.chain.counters().joins == 1);
    CHECK(world.chain.num_parts() == 1);
    CHECK(world.chain.num_tombstones() <= tombstones);
    CHECK(world.chain.num_keys() == left + world.chain.num_tombstones());
    uint64_t found = 0;
    for (uint64_t i = 0; i < 2 * kFilterKeys; ++i) {
      const bool finds = world.Finds(i);
      found += finds && kept(i);
      CHECK_FALSE((finds && !kept(i)));
    }
    CHECK(static_cast<double>(found) >= World::FewestOf(left));
  }

  TEST_CASE("chain: a filter that has emptied is compressed and keeps its keys") {
    World world(4 * kFilterKeys);
    world.Fill(0, 4 * kFilterKeys);
    const uint64_t cells = world.chain.cells_bytes();
    uint64_t left = 0;
    for (uint64_t i = 0; i < 4 * kFilterKeys; ++i) {
      left += i % 5 == 0;
      if (i % 5 != 0) world.chain.Remove(world.Key(i), kNow);
    }
    (void)world.MaintainAll(kNow);
    CHECK(world.chain.counters().compressions == 2);
    CHECK(world.chain.cells_bytes() <= cells / 4 + 4096);
    uint64_t found = 0;
    for (uint64_t i = 0; i < 4 * kFilterKeys; ++i) {
      const bool finds = world.Finds(i);
      found += finds && i % 5 == 0;
      CHECK_FALSE((finds && i % 5 != 0));
    }
    CHECK(static_cast<double>(found) >= World::FewestOf(left));
  }

  TEST_CASE("chain: an empty filter is dropped by a background step") {
    World world;
    world.Fill(0, 100);
    for (uint64_t i = 0; i < 100; ++i) world.chain.Remove(world.Key(i), kNow);
    CHECK_FALSE(world.chain.MaintainStep(kNow));  // it may still take keys
    (void)world.MaintainAll(kNow + 60);
    CHECK(world.chain.num_parts() == 0);
  }

  TEST_CASE("chain: names of filters end with them") {
    World world;
    REQUIRE(world.chain.Grow(0, kNow));
    const Chain::Inserted inserted = world.chain.Insert(world.Key(0), world.Value(0), 0, kNow);
    CHECK(world.chain.HasPart(inserted.part, kNow));
    CHECK_FALSE(world.chain.HasPart(inserted.part + 1, kNow));
    CHECK(world.chain.DropOldest());
    CHECK_FALSE(world.chain.HasPart(inserted.part, kNow));
    REQUIRE(world.chain.Grow(0, kNow));
    CHECK_FALSE(world.chain.HasPart(inserted.part, kNow));
  }

  TEST_CASE("chain: the version changes with every change and with no look-up") {
    World world;
    uint64_t version = world.chain.version();
    const auto changed = [&] {
      const bool changed = world.chain.version() != version;
      version = world.chain.version();
      return changed;
    };
    REQUIRE(world.chain.Grow(0, kNow));
    CHECK(changed());
    CHECK(world.Insert(0) == Chain::Insertion::kDone);
    CHECK(changed());
    CHECK(world.chain.Find(world.Key(0), kNow).version == version);
    CHECK(world.chain.Holds(world.Key(0), world.Value(0), 0, kNow));
    CHECK_FALSE(changed());
    world.chain.Remove(world.Key(1), kNow);  // was never there
    CHECK_FALSE(changed());
    world.chain.Remove(world.Key(0), kNow);
    CHECK(changed());
    CHECK(world.chain.DropOldest());
    CHECK(changed());
  }

  TEST_CASE("chain: the locator widens while filters are added, up to the limit") {
    World world;
    uint64_t added = 0;
    for (int attempt = 0; attempt < 1000 && added < 64; ++attempt) {
      if (world.chain.Grow(0, kNow)) {
        REQUIRE(world.Insert(added) == Chain::Insertion::kDone);
        ++added;
      }
    }
    CHECK(added == Locator::kColumnsMax);
    CHECK_FALSE(world.chain.Grow(0, kNow));
    CHECK(world.Found(0, added) >= added - 1);
    // A dropped filter's column is cleared in steps and can be used again.
    CHECK(world.chain.DropOldest());
    (void)world.MaintainAll(kNow);
    CHECK(world.chain.Grow(0, kNow));
  }

  TEST_CASE("chain: a flush empties it") {
    World world;
    world.Fill(0, 1000);
    world.Fill(2000, 1000, kNow + 1000);
    world.chain.Clear();
    CHECK(world.chain.num_parts() == 0);
    CHECK(world.chain.num_keys() == 0);
    CHECK(world.chain.counters().flushed_keys == 2000);
    CHECK(world.Found(0, 3000) == 0);
    CHECK(world.chain.dictionary().num_codes() == 0);
  }
}

}  // namespace
}  // namespace kbf
