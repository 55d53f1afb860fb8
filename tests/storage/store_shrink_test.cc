// What compaction gives back: four fifths of the keys are deleted, and background steps join and
// compress the filters that are left with holes, while every promise about keys still holds.
#include <doctest/doctest.h>

#include <algorithm>
#include <string>

#include "storage/hash.h"
#include "storage/locator.h"
#include "storage/store.h"
#include "tests/storage/store_world.h"

namespace kbf {
namespace {

// One key in five, at random.
bool IsKept(uint64_t number) { return Mix64(~number) % 5 == 0; }

uint64_t CellsAndLocator(const SlabUsage& usage) { return usage.cells_bytes + usage.locator_bytes; }

struct Answers {
  uint64_t kept = 0, missed = 0, wrong = 0;
  uint64_t deleted = 0, stale = 0;  // stale: the key's own, deleted value
  uint64_t absent = 0,
           false_positives = 0;  // deleted keys and absent keys that find another key's value
};

Answers AskAll(Store& store, uint64_t keys, uint64_t absent_keys, uint32_t now) {
  Answers answers;
  for (uint64_t i = 0; i < keys + absent_keys; ++i) {
    const Reading reading = store.Get(KeyName(i), now);
    const bool own = reading.hit && reading.value == ValueOf(i);
    if (i < keys && IsKept(i)) {
      ++answers.kept;
      answers.missed += !reading.hit;
      answers.wrong += reading.hit && !own;
      continue;
    }
    ++answers.absent;
    answers.deleted += i < keys;
    if (i < keys && own) {
      ++answers.stale;
    } else {
      answers.false_positives += reading.hit;
    }
  }
  return answers;
}

TEST_SUITE("storage") {
  TEST_CASE(
      "after four fifths of the keys are deleted, the chain shrinks by three fifths or more") {
    const uint64_t seed = 1;
    CAPTURE(seed);
    const uint64_t keys = Soak() ? 10000000 : 1000000;
    StoreConfig config;
    config.memory_bytes = (Soak() ? uint64_t{512} : uint64_t{52}) << 20;
    config.front_share = 0.1;
    const auto store = MakeStore(config, seed);
    REQUIRE(store != nullptr);

    uint32_t now = 1000;
    uint64_t refused = 0;
    for (uint64_t i = 0; i < keys; ++i) {
      refused +=
          store->Write({WriteMode::kSet, KeyName(i), ValueOf(i)}, now).status != StoreStatus::kOk;
      if (i % 1024 == 0) (void)store->Maintain(4, now);
      now += i % (keys / 100) == 0;
    }
    REQUIRE(refused == 0);
    // Nothing was evicted to make room, but for new keys with a tombstone in the open filter: that
    // are never more than there are tombstones.
    CHECK(store->Counters().evicted <= store->ChainEvents().tombstones);
    CHECK(store->ChainEvents().dropped_keys == 0);
    // Filters are done growing by now; what there is to tidy up after the fill does not count.
    now += 60;
    (void)MaintainAll(*store, now);
    const StoreUsage before = store->Usage();
    const ChainCounters events_before = store->ChainEvents();

    uint64_t not_found = 0;
    for (uint64_t i = 0; i < keys; ++i) {
      if (!IsKept(i)) not_found += store->Delete(KeyName(i), now) != StoreStatus::kOk;
    }
    const uint64_t tombstones = store->Usage().slabs.tombstones;
    now += 60;
    // Each filter is halved three times at most, and then joined into another one or dropped: one
    // step to begin with, and twice through the locator (12 bits per key, 16 to a block) to merge
    // and to clear its column, kStepBlocks at a time.
    const uint64_t blocks = store->config().filter_keys * 12 / 16 + 1;
    const uint64_t slices = (blocks + Locator::kStepBlocks - 1) / Locator::kStepBlocks;
    const uint64_t steps_max = before.slabs.filters * (3 + 1 + 2 * slices);
    const uint64_t steps = MaintainAll(*store, now, 2 * steps_max);

    const StoreUsage after = store->Usage();
    const ChainCounters events = store->ChainEvents();
    const Answers answers = AskAll(*store, keys, keys, now);
    const double shrunk = 1 - static_cast<double>(CellsAndLocator(after.slabs)) /
                                  static_cast<double>(CellsAndLocator(before.slabs));
    MESSAGE("keys " << keys << ", slabs " << store->num_slabs() << ", keys per filter "
                    << store->config().filter_keys << "; before: in the chain "
                    << before.slabs.chain_keys << ", filters " << before.slabs.filters << ", cells "
                    << before.slabs.cells_bytes << ", locator " << before.slabs.locator_bytes
                    << ", tombstones " << before.slabs.tombstones << ", total "
                    << before.total_bytes() << "; after: in the chain " << after.slabs.chain_keys
                    << ", filters " << after.slabs.filters << ", cells " << after.slabs.cells_bytes
                    << ", locator " << after.slabs.locator_bytes << ", tombstones "
                    << after.slabs.tombstones << " (" << tombstones << " before compaction), total "
                    << after.total_bytes() << "; shrunk by " << shrunk);
    MESSAGE("joins " << events.joins - events_before.joins << ", compressions "
                     << events.compressions - events_before.compressions << ", steps " << steps
                     << " of at most " << steps_max << "; kept " << answers.kept << ", missed "
                     << answers.missed << ", wrong " << answers.wrong << "; deleted "
                     << answers.deleted << ", not found then " << not_found << ", stale "
                     << answers.stale << "; absent " << answers.absent << ", false positives "
                     << answers.false_positives);
    CHECK(shrunk >= 0.6);
    CHECK(steps <= steps_max);
    CHECK(events.dropped_keys == events_before.dropped_keys);
    CHECK(answers.stale == 0);
    CHECK(static_cast<double>(answers.missed) <= MostEvents(kFalseNegative, answers.kept));
    CHECK(static_cast<double>(answers.wrong) <= MostEvents(kWrong, answers.kept));
    CHECK(static_cast<double>(answers.false_positives) <=
          MostEvents(kFalsePositive, answers.absent));
    CHECK(static_cast<double>(not_found) <= MostEvents(kFalseNegative, answers.deleted));
  }
}

}  // namespace
}  // namespace kbf
