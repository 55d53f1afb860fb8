#include "storage/front.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

namespace kbf {
namespace {

constexpr uint64_t kSeed = 20240607;

// A front with a secret of its own, and shorthands that hash.
struct World {
  explicit World(bool keep_cas = true, uint64_t block_bytes = ItemArena::kSlotBytes)
      : front(secret, *arena, {keep_cas, block_bytes}) {}

  Item* Put(const std::string& key, const std::string& value, uint32_t flags = 0) {
    NewItem item;
    item.key = key;
    item.flags = flags;
    item.value_bytes = static_cast<uint32_t>(value.size());
    return Put(item, value);
  }
  Item* Put(const NewItem& from, const std::string& value) {
    const KeyHash hash = HashKey(from.key, secret);
    ItemPtr item = front.Create(from, hash);
    REQUIRE(item != nullptr);
    std::copy(value.begin(), value.end(), item->value_data());
    return front.Link(std::move(item), hash);
  }
  void Replace(Item* old, const std::string& value, uint32_t flags) {
    NewItem from;
    from.key = old->key();
    from.flags = flags;
    from.value_bytes = static_cast<uint32_t>(value.size());
    ItemPtr item = front.Create(from, front.HashOf(*old), old);
    REQUIRE(item != nullptr);
    std::copy(value.begin(), value.end(), item->value_data());
    front.Replace(old, std::move(item), front.HashOf(*old));
  }
  Item* Find(const std::string& key) { return front.Find(key, HashKey(key, secret)); }
  void Drop(Item* item) { front.Unlink(item, front.HashOf(*item)); }

  const HashSecret secret = HashSecret::FromSeed(kSeed);
  const ItemArena::Ptr arena = ItemArena::Create(64 << 20);
  Front front;
};

struct Expected {
  std::string value;
  uint32_t flags;
};
using Model = std::unordered_map<std::string, Expected>;

void CheckSame(World& world, const Model& model) {
  REQUIRE(world.front.count() == model.size());
  uint64_t seen = 0;
  uint64_t wrong = 0;
  const uint64_t end = world.front.VisitBuckets(0, world.front.num_buckets(), [&](Item* item) {
    ++seen;
    const auto found = model.find(std::string(item->key()));
    wrong += found == model.end() || found->second.value != item->value() ||
             found->second.flags != item->flags();
  });
  CHECK(end == 0);
  CHECK(seen == model.size());
  CHECK(wrong == 0);
  CHECK(world.front.pages_bytes() == world.arena->bytes());
  for (const auto& [key, expected] : model) wrong += world.Find(key) == nullptr;
  CHECK(wrong == 0);
}

// Random finds, removals, replacements and links with `grow_percent` of links until the size is
// reached. Returns by how many buckets one call changed the table at most.
uint64_t Churn(World& world, Model& model, std::mt19937_64& random, size_t until,
               unsigned grow_percent) {
  uint64_t step_max = 0;
  const bool growing = model.size() < until;
  uint64_t misses = 0;
  while (growing ? model.size() < until : model.size() > until) {
    const std::string key = "key-" + std::to_string(random() % 300000);
    const auto expected = model.find(key);
    Item* item = world.Find(key);
    misses += (item == nullptr) != (expected == model.end());
    const uint64_t buckets = world.front.num_buckets();
    if (item != nullptr && random() % 4 == 0) {
      misses += item->value() != expected->second.value;
      expected->second = {std::string(random() % 40, static_cast<char>(random())),
                          static_cast<uint32_t>(random() % 3)};
      world.Replace(item, expected->second.value, expected->second.flags);
      misses += world.front.num_buckets() != buckets;
      continue;
    }
    if (item != nullptr) {
      misses += item->value() != expected->second.value;
      world.Drop(item);
      model.erase(expected);
      step_max = std::max(step_max, buckets - world.front.num_buckets());
    }
    if (random() % 100 >= grow_percent) continue;
    const uint64_t before = world.front.num_buckets();
    const uint32_t flags = random() % 2 == 0 ? 0 : static_cast<uint32_t>(random() >> random() % 64);
    const Expected fresh = {std::string(random() % 40, static_cast<char>(random())), flags};
    world.Put(key, fresh.value, flags);
    model[key] = fresh;
    step_max = std::max(step_max, world.front.num_buckets() - before);
  }
  CHECK(misses == 0);
  return step_max;
}

}  // namespace

TEST_SUITE("storage") {
  TEST_CASE("front behaves like a map while it grows to 200,000 items and shrinks to none") {
    CAPTURE(kSeed);
    World world;
    Model model;
    std::mt19937_64 random(kSeed);
    const uint64_t bytes_empty = world.front.bytes();
    for (const size_t size : {1000, 200000}) {
      CHECK(Churn(world, model, random, size, 95) <= 2);
      CheckSame(world, model);
    }
    // With 5 % links the churn would settle at 5 % of the 300,000 keys: the rest goes without.
    for (const size_t size : {100000, 30000, 0}) {
      CHECK(Churn(world, model, random, size, size == 0 ? 0 : 5) <= 2);
      CheckSame(world, model);
    }
    // The last block of new items, and the table of blocks.
    CHECK(world.front.pages_bytes() <= ItemArena::kSlotBytes);
    CHECK(world.front.bytes() <= bytes_empty + 2 * ItemArena::kSlotBytes);
    CHECK(world.front.num_buckets() == Front::kBucketsMin);
  }

  TEST_CASE("a link splits at most one front bucket, an unlink merges at most two, load is kept") {
    World world;
    std::vector<Item*> items;
    uint64_t grown_max = 0;
    uint64_t merged_max = 0;
    uint64_t wrong_load = 0;
    for (int i = 0; i < 50000; ++i) {
      const uint64_t before = world.front.num_buckets();
      items.push_back(world.Put(std::to_string(i), "v"));
      grown_max = std::max(grown_max, world.front.num_buckets() - before);
      wrong_load += 10 * world.front.count() > 17 * world.front.num_buckets();
    }
    while (!items.empty()) {
      const uint64_t before = world.front.num_buckets();
      world.Drop(items.back());
      items.pop_back();
      merged_max = std::max(merged_max, before - world.front.num_buckets());
      wrong_load += world.front.num_buckets() > Front::kBucketsMin &&
                    10 * world.front.count() < 7 * world.front.num_buckets();
    }
    CHECK(grown_max == 1);
    CHECK(merged_max == 2);
    CHECK(wrong_load == 0);
  }

  TEST_CASE("front takes at most 28 bytes per item besides key and value") {
    constexpr double kItems = 200000;
    struct Variant {
      uint32_t flags;
      bool keep_cas;
      double overhead_max;
    };
    // Numbers of eight bytes are for CAS numbers from 3 * 2^30 on, and for those of clients.
    for (const Variant& variant :
         {Variant{0, true, 24.5}, Variant{1, true, 25.5}, Variant{0xffff, true, 26.5},
          Variant{0x10000, true, 28.5}, Variant{0x10000, false, 24.5}, Variant{0, false, 20.5}}) {
      World world(variant.keep_cas);
      double payload = 0;
      for (int i = 0; i < static_cast<int>(kItems); ++i) {
        const std::string key = "user:" + std::to_string(10000000 + i);
        const std::string value(static_cast<size_t>(i % 100), 'v');
        world.Put(key, value, variant.flags);
        payload += static_cast<double>(key.size() + value.size());
      }
      const double overhead = (static_cast<double>(world.front.bytes()) - payload) / kItems;
      MESSAGE("flags " << variant.flags << ", cas " << variant.keep_cas << ": overhead " << overhead
                       << " bytes in whole pages");
      CHECK(overhead <= variant.overhead_max);
    }
  }

  TEST_CASE("an item gives back what it was created with, in every combination") {
    for (const bool keep_cas : {false, true}) {
      World world(keep_cas);
      for (const size_t key_bytes : {0u, 1u, 250u, 255u}) {
        for (const uint32_t flags : {0u, 1u, 255u, 256u, 65535u, 65536u, 0xffffffffu}) {
          for (const uint32_t value_bytes :
               {0u, 1u, 7u, 255u, 256u, 1000u, 65535u, 65536u, 300000u}) {
            for (const uint64_t cas : {uint64_t{5}, ~uint64_t{3}}) {
              const std::string key(key_bytes, 'k');
              const std::string value(value_bytes, '\xff');
              Item* item = world.Put({key, flags, 0xfffffffe, value_bytes, cas, 77}, value);
              CHECK(item == world.Find(key));
              CHECK(item->key() == key);
              CHECK(item->value() == value);
              CHECK(item->value_bytes() == value_bytes);
              CHECK(item->flags() == flags);
              CHECK(item->cas() == (keep_cas ? cas : 0));
              CHECK(item->expires() == 0xfffffffe);
              CHECK(item->last_access(80) == 77);
              CHECK(item->age() == 1);
              CHECK(item->total_bytes() == Item::BytesFor(key_bytes, value_bytes, flags,
                                                          !keep_cas  ? 0
                                                          : cas == 5 ? 4
                                                                     : 8));
              world.Drop(item);
              CHECK(world.Find(key) == nullptr);
            }
          }
        }
      }
    }
  }

  TEST_CASE("the bits of an item are independent of each other and of its place") {
    World world;
    world.Put("other", "");
    Item* item = world.Put("key", "value", 9);
    for (unsigned bits = 0; bits < 8192; ++bits) {
      item->set_fetched((bits & 1) != 0);
      item->set_stale((bits & 2) != 0);
      item->set_win((bits & 4) != 0);
      item->set_clean((bits & 8) != 0);
      item->set_unique((bits & 16) != 0);
      item->set_uses(bits >> 5 & 3);
      item->set_age(bits >> 7 & 3);
      item->set_explicit_cas((bits & 512) != 0);
      item->set_base64_key((bits & 1024) != 0);
      item->set_waiting((bits & 2048) != 0);
      if ((bits & 4096) != 0) item->ForgetKeyForm();
      item->set_cas(bits);
      world.front.SetExpires(item, bits);
      item->set_last_access(bits);
      const unsigned got = item->fetched() | item->stale() << 1 | item->win() << 2 |
                           item->clean() << 3 | item->unique() << 4 | item->uses() << 5 |
                           item->age() << 7 | item->explicit_cas() << 9 | item->base64_key() << 10 |
                           item->waiting() << 11 | !item->knows_key_form() << 12;
      CHECK(got == bits);
      CHECK(item->cas() == bits);
      CHECK(item->expires() == bits);
      CHECK(item->last_access(9000) == bits);
      CHECK(item->flags() == 9);
      CHECK(item->value() == "value");
      CHECK(world.Find("key") == item);
      CHECK(world.Find("other") != nullptr);
    }
  }

  TEST_CASE("keys with one and the same hash stay different items") {
    // Few enough that no split asks for their true hashes.
    World world;
    const KeyHash hash = HashKey("any", world.secret);
    std::vector<Item*> items;
    for (int i = 0; i < 20; ++i) {
      const std::string key = "same" + std::to_string(i);
      ItemPtr item = world.front.Create({.key = key}, hash);
      CHECK(world.front.Find(key, hash) == nullptr);
      items.push_back(world.front.Link(std::move(item), hash));
    }
    for (int i = 0; i < 20; ++i) {
      const std::string key = "same" + std::to_string(i * 7 % 20);
      Item* item = world.front.Find(key, hash);
      CHECK(item == items[static_cast<size_t>(i * 7 % 20)]);
      world.front.Unlink(item, hash);
      CHECK(world.front.Find(key, hash) == nullptr);
      CHECK(world.front.count() == static_cast<uint64_t>(19 - i));
    }
  }

  TEST_CASE("a reference keeps the value of an unlinked item") {
    const std::string value(5000, 'x');
    SharedRef kept;
    std::string_view view;
    {
      World world;
      Item* item = world.Put("key", value);
      CHECK_FALSE(world.front.IsShared(item));
      kept = world.front.RefOf(item);
      CHECK(world.front.IsShared(item));
      view = item->value();
      world.Drop(item);
      CHECK(world.Find("key") == nullptr);
      CHECK(view == value);
      world.Put("key", std::string(5000, 'y'));
      CHECK(view == value);
      const SharedRef linked = world.front.RefOf(world.Find("key"));
    }
    CHECK(view == value);
    kept.Reset();
  }

  TEST_CASE(
      "the hand returns every item that was not touched, and touched ones only rounds later") {
    World world;
    constexpr int kItems = 10000;
    for (int i = 0; i < kItems; ++i) world.Put(std::to_string(i), "");
    // Round one: everything is new, nothing is cold.
    uint64_t calls = 0;
    Item* item = nullptr;
    while ((item = world.front.NextCold(16)) == nullptr) ++calls;
    CHECK(calls >= kItems / 16 - 1);
    // Round two: half are touched, some more than once; the first cold one was already given.
    std::unordered_set<std::string> cold = {std::string(item->key())};
    for (int i = 0; i < kItems; i += 2) {
      for (int hit = 0; hit <= i % 3; ++hit) Front::Touch(world.Find(std::to_string(i)), 5);
    }
    for (calls = 0; calls < kItems / 16 + 2 && cold.size() < kItems / 2; item = nullptr) {
      item = world.front.NextCold(16);
      if (item == nullptr) ++calls;
      if (item == nullptr) continue;
      CHECK(std::stoi(std::string(item->key())) % 2 == 1);
      CHECK(cold.insert(std::string(item->key())).second);
    }
    CHECK(cold.size() >= kItems / 2 - 1);
  }

  TEST_CASE("the hand examines every item once a round while the table grows and shrinks") {
    CAPTURE(kSeed);
    World world;
    std::mt19937_64 random(kSeed);
    // Always cold and never unlinked, the canary is given once a round: it counts them.
    world.Put("canary", "")->set_age(0);
    const uint64_t canary = Stream(HashKey("canary", world.secret), kFrontStream);
    uint64_t rounds = 0;
    struct Since {
      uint64_t round;
      bool fresh;  // linked then, else touched then
    };
    std::unordered_map<std::string, Since> since;
    uint64_t wrong = 0;
    uint64_t far_off = 0;
    uint64_t checked = 0;
    uint64_t named = 0;
    for (const size_t target : {2000, 60000, 500, 30000, 10}) {
      while (since.size() != target) {
        const bool growing = since.size() < target;
        for (int i = 0; growing && i < 3 && since.size() < target; ++i) {
          const std::string key = "k" + std::to_string(++named);
          world.Put(key, "");
          since[key] = {rounds, true};
        }
        Item* item = world.front.NextCold(1 + static_cast<unsigned>(random() % 8));
        if (item == nullptr) continue;
        const std::string key(item->key());
        if (key == "canary") {
          ++rounds;
          continue;
        }
        // A touched item was cold: one round takes its age, the second gives it. A fresh one meets
        // the hand at some time in its first round.
        const Since& last = since.at(key);
        const uint64_t after = rounds - last.round;
        // Within the canary's own bucket their order is open, so there it can be one round off.
        const uint64_t apart = Stream(world.front.HashOf(*item), kFrontStream) ^ canary;
        if ((apart & (Front::kBucketsMin - 1)) != 0) {
          ++checked;
          wrong += last.fresh ? after < 1 || after > 2 : after != 2;
        } else {
          far_off += last.fresh ? after > 3 : after < 1 || after > 3;
        }
        if (random() % 4 < (growing ? 1u : 3u)) {
          since.erase(key);
          world.Drop(item);
        } else {
          Front::Touch(item, 0);
          since[key] = {rounds, false};
        }
      }
    }
    CHECK(wrong == 0);
    CHECK(far_off == 0);
    CHECK(checked > 50000);
    MESSAGE("cold items checked " << checked << " in " << rounds << " rounds");
  }

  TEST_CASE("visiting in slices sees every item that stays, while others come and go") {
    CAPTURE(kSeed);
    World world;
    std::mt19937_64 random(kSeed);
    std::vector<Item*> passing;
    for (int i = 0; i < 20000; ++i) world.Put("stay" + std::to_string(i), "");
    uint64_t named = 0;
    for (const bool growing : {true, false}) {
      std::unordered_set<std::string> seen;
      uint64_t position = 0;
      do {
        position = world.front.VisitBuckets(position, 7, [&](Item* item) {
          if (item->key().starts_with("stay")) seen.insert(std::string(item->key()));
        });
        for (int i = 0; i < 30; ++i) {
          if (growing) {
            passing.push_back(world.Put("pass" + std::to_string(++named), ""));
          } else if (!passing.empty()) {
            world.Drop(passing.back());
            passing.pop_back();
          }
        }
      } while (position != 0);
      CHECK(seen.size() == 20000);
    }
  }

  TEST_CASE("items can be unlinked while they are visited") {
    World world;
    for (int i = 0; i < 30000; ++i) world.Put(std::to_string(i), "");
    uint64_t position = 0;
    uint64_t step_max = 0;
    do {
      const uint64_t before = world.front.num_buckets();
      position = world.front.VisitBuckets(position, 16, [&](Item* item) {
        if (!item->key().ends_with('0')) world.Drop(item);
      });
      step_max = std::max(step_max, before - world.front.num_buckets());
    } while (position != 0);
    CHECK(world.front.count() == 3000);
    CHECK(10 * world.front.count() >= 7 * world.front.num_buckets());
    CHECK(step_max <= 200);
    for (int i = 0; i < 30000; i += 10) CHECK(world.Find(std::to_string(i)) != nullptr);
  }

  TEST_CASE("a flush sets all items aside, and their memory is returned in steps") {
    World world;
    for (int i = 0; i < 30000; ++i) world.Put(std::to_string(i), "value");
    const uint64_t full = world.arena->bytes();
    const SharedRef held = world.front.RefOf(world.Find("7"));
    const std::string_view value = world.Find("7")->value();
    world.front.Flush();
    CHECK(world.front.count() == 0);
    CHECK(world.Find("7") == nullptr);
    CHECK(world.front.WasFlushed("7", HashKey("7", world.secret)));
    CHECK_FALSE(world.front.WasFlushed("x", HashKey("x", world.secret)));
    CHECK(world.arena->bytes() == full);
    world.Put("7", "fresh");
    unsigned steps = 0;
    for (; world.front.has_retired(); ++steps) world.front.FreeRetired(4);
    CHECK(steps >= full / (5 * ItemArena::kSlotBytes));
    CHECK_FALSE(world.front.WasFlushed("7", HashKey("7", world.secret)));
    // The block that is referred to, and that of the new item.
    CHECK(world.arena->bytes() <= 2 * ItemArena::kSlotBytes);
    CHECK(value == "value");
    CHECK(world.Find("7")->value() == "fresh");
  }

  TEST_CASE("eviction spares items that were hit, and those that come back after they went") {
    World world;
    constexpr int kItems = 20000;
    const auto name = [](int i) { return "item" + std::to_string(i); };
    for (int i = 0; i < kItems; ++i) world.Put(name(i), "value");
    for (int i = 0; i < kItems; i += 10) Front::Touch(world.Find(name(i)), 5);
    std::unordered_set<std::string> gone;
    std::vector<std::string> last;
    uint64_t wrong = 0;
    const auto evict = [&](Item* item, const KeyHash& hash) {
      wrong += !(hash == world.front.HashOf(*item));
      gone.insert(std::string(item->key()));
      last.emplace_back(item->key());
      world.front.Unlink(item, hash);
    };
    // One round of the new items.
    while (gone.size() < kItems / 10 * 8) REQUIRE(world.front.EvictBlock(6, evict));
    uint64_t hot_gone = 0;
    for (int i = 0; i < kItems; i += 10) hot_gone += gone.contains(name(i));
    CHECK(hot_gone == 0);
    // The last ones to go come back, and outlive those that are really new.
    std::vector<std::string> returned(last.end() - 500, last.end());
    for (const std::string& key : returned) world.Put(key, "again");
    for (int i = 0; i < 3000; ++i) world.Put("new" + std::to_string(i), "value");
    gone.clear();
    while (gone.size() < 2000) REQUIRE(world.front.EvictBlock(6, evict));
    uint64_t returned_gone = 0;
    for (const std::string& key : returned) returned_gone += gone.contains(key);
    // The place of one in sixteen was taken by another.
    CHECK(returned_gone < returned.size() / 8);
    // Everything goes in the end, whatever was hit.
    for (int i = 0; world.front.EvictBlock(6, evict); ++i) REQUIRE(i < 1000);
    CHECK(world.front.count() == 0);
    CHECK(world.arena->bytes() == 0);
    CHECK(wrong == 0);
  }

  TEST_CASE("compaction fills holes with what is around them, and keeps every item") {
    CAPTURE(kSeed);
    World world;
    Model model;
    std::mt19937_64 random(kSeed);
    for (int i = 0; i < 50000; ++i) {
      const std::string key = "key" + std::to_string(i);
      model[key] = {std::string(random() % 200, static_cast<char>(random())), 0};
      world.Put(key, model[key].value, 0);
    }
    const uint64_t full = world.arena->bytes();
    CHECK_FALSE(world.front.Compact());
    for (int i = 0; i < 50000; ++i) {
      if (i % 8 == 0) continue;
      const std::string key = "key" + std::to_string(i);
      world.Drop(world.Find(key));
      model.erase(key);
    }
    CHECK(world.front.IsSparse());
    const std::string pinned = model.begin()->first;
    const SharedRef held = world.front.RefOf(world.Find(pinned));
    const std::string_view view = world.Find(pinned)->value();
    while (world.front.Compact()) {
    }
    CHECK_FALSE(world.front.IsSparse());
    CHECK(world.arena->bytes() < full / 6);
    CHECK(view == model[pinned].value);
    Item* item = nullptr;
    for (int i = 0; i < 100; ++i) item = world.front.NextCold(1000);
    CHECK(item != nullptr);
    CHECK(DetachedBytes() == ItemArena::kSlotBytes);
    world.arena->FailNext(1);
    CHECK_FALSE(world.front.Compact());
    world.arena->FailNext(0);
    uint64_t wrong = 0;
    for (const auto& [key, expected] : model) {
      const Item* kept = world.Find(key);
      wrong += kept == nullptr || kept->value() != expected.value;
    }
    CHECK(wrong == 0);
  }

  TEST_CASE("the sweep finds expired items, and no block more often than every ten seconds") {
    World world;
    constexpr uint32_t kItems = 20000;
    for (uint32_t i = 0; i < kItems; ++i) {
      const std::string key = "key" + std::to_string(i);
      world.Put(NewItem{.key = key, .expires = i % 4 == 0 ? 0 : 100 + i % 4, .now = 50}, "");
    }
    const auto sweep = [&](uint32_t now) {
      unsigned looked = 0;
      while (world.front.SweepExpired(1000, now, [&](Item* item, const KeyHash& hash) {
        REQUIRE(item->expires() <= now);
        world.front.Unlink(item, hash);
      })) {
        ++looked;
      }
      return looked;
    };
    CHECK(sweep(100) == 0);
    CHECK(sweep(101) > 5);
    CHECK(world.front.count() == kItems / 4 * 3);
    CHECK(sweep(110) == 0);
    CHECK(sweep(111) > 5);
    CHECK(world.front.count() == kItems / 4);
    CHECK(sweep(10000) == 0);
    world.front.SetExpires(world.Find("key0"), 10001);
    CHECK(sweep(10001) == 1);
    CHECK(world.Find("key0") == nullptr);
  }
}

}  // namespace kbf
