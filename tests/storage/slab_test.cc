// One slab alone: each write mode with the key absent, in the front and in the chain, and the ways
// of a key between the two and out of them.
#include "storage/slab.h"

#include <doctest/doctest.h>

#include <atomic>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "storage/engine.h"
#include "tests/storage/store_world.h"

namespace kbf {
namespace {

constexpr uint32_t kNow = 1000;

struct World {
  explicit World(SlabConfig config = {}) {
    if (config.memory_bytes == 0) config.memory_bytes = 4 << 20;
    slab = std::make_unique<Slab>(config, Slab::Shared{secret, *engine, next_cas, 1});
  }

  KeyHash Hash(const std::string& key) const { return HashKey(key, secret); }
  WriteResult Write(const WriteRequest& request, uint32_t now = kNow) {
    return slab->Write(request, Hash(std::string(request.key)), now);
  }
  StoreStatus Set(const std::string& key, const std::string& value, uint32_t expires = 0,
                  uint32_t now = kNow) {
    return Write({WriteMode::kSet, key, value, 0, expires}, now).status;
  }
  // A write with this mode and, if not 0, this CAS number.
  StoreStatus WriteAs(WriteMode mode, const std::string& key, const std::string& value,
                      uint64_t cas = 0) {
    WriteRequest request{mode, key, value};
    request.cas = cas;
    return Write(request).status;
  }
  Reading Get(const std::string& key, uint32_t now = kNow, const ReadOptions& options = {}) {
    return slab->Read(key, Hash(key), options, now);
  }
  StoreStatus Delete(const std::string& key, const DeleteOptions& options = {},
                     uint32_t now = kNow) {
    return slab->Delete(key, Hash(key), options, now);
  }
  ArithmeticResult Add(const std::string& key, uint64_t delta, std::optional<uint64_t> initial = {},
                       uint64_t cas = 0) {
    ArithmeticRequest request;
    request.key = key;
    request.delta = delta;
    request.initial = initial;
    request.cas = cas;
    return slab->Arithmetic(request, Hash(key), kNow);
  }
  void Fill(uint64_t keys, uint32_t expires = 0) {
    for (uint64_t i = 0; i < keys; ++i)
      REQUIRE(Set(KeyName(i), ValueOf(i), expires) == StoreStatus::kOk);
  }
  // The first key from `number` on that the chain holds with its value.
  std::string ChainKey(uint64_t number = 0) {
    while (!(Get(KeyName(number)).from_chain && Get(KeyName(number)).value == ValueOf(number))) {
      REQUIRE(++number < 100000);
    }
    return KeyName(number);
  }

  const HashSecret secret = HashSecret::FromSeed(12);
  const std::unique_ptr<Engine> engine = MakeEngine({.part_keys = 2048}, secret).engine;
  std::atomic<uint64_t> next_cas{0};
  std::unique_ptr<Slab> slab;
};

// Everything that repeats goes to the chain at once.
SlabConfig NoFront() {
  SlabConfig config;
  config.front_share = 0;
  return config;
}

constexpr uint64_t kKeys = 20000;  // fill some filters

TEST_SUITE("storage") {
  TEST_CASE("slab: the write modes, for a key that is absent") {
    World world;
    CHECK(world.WriteAs(WriteMode::kReplace, "k", "v") == StoreStatus::kNotStored);
    CHECK(world.WriteAs(WriteMode::kAppend, "k", "v") == StoreStatus::kNotStored);
    CHECK(world.WriteAs(WriteMode::kPrepend, "k", "v") == StoreStatus::kNotStored);
    CHECK(world.WriteAs(WriteMode::kCas, "k", "v", 1) == StoreStatus::kNotFound);
    CHECK(world.WriteAs(WriteMode::kSet, "k", "v", 1) == StoreStatus::kNotFound);
    CHECK(world.WriteAs(WriteMode::kReplace, "k", "v", 1) == StoreStatus::kNotFound);
    CHECK_FALSE(world.Get("k").hit);
    CHECK(world.slab->Counters().stored == 0);
    SUBCASE("set") { CHECK(world.WriteAs(WriteMode::kSet, "k", "v") == StoreStatus::kOk); }
    SUBCASE("add") { CHECK(world.WriteAs(WriteMode::kAdd, "k", "v") == StoreStatus::kOk); }
    CHECK(world.Get("k").value == "v");
    CHECK(world.slab->Counters().stored == 1);
  }

  TEST_CASE("slab: a listing shows every live item of the front once, while others come and go") {
    class Keys : public ItemVisitor {
     public:
      void Visit(const ListedItem& item) override { ++times[std::string(item.key)]; }
      std::map<std::string, int> times;
    };
    SlabConfig config;
    config.exact_share = 1;  // nothing goes to the chain
    World world(config);
    constexpr uint64_t kStays = 3000;
    for (uint64_t i = 0; i < kStays; ++i) {
      REQUIRE(world.Set("stays" + std::to_string(i), "v") == StoreStatus::kOk);
      REQUIRE(world.Set("goes" + std::to_string(i), "v") == StoreStatus::kOk);
      REQUIRE(world.Set("old" + std::to_string(i), "v", kNow + 1) == StoreStatus::kOk);
    }
    Keys keys;
    ListPosition position;
    uint64_t steps = 0;
    for (; world.slab->ListItems(&position, kNow + 1, &keys); ++steps) {
      for (uint64_t i = 0; i < 50; ++i) {
        const std::string number = std::to_string(50 * steps + i);
        (void)world.Set("comes" + number, "v", 0, kNow + 1);
        (void)world.Delete("goes" + number, {}, kNow + 1);
      }
    }
    CHECK(steps >= kStays / kListedMax);
    for (uint64_t i = 0; i < kStays; ++i) {
      CHECK(keys.times["stays" + std::to_string(i)] == 1);
      CHECK(keys.times.count("old" + std::to_string(i)) == 0);
    }
    for (const auto& [key, times] : keys.times) CHECK(times == 1);
    // After a flush nothing is left to list.
    world.slab->Flush(kNow + 1, kNow + 1);
    keys.times.clear();
    position = {};
    while (world.slab->ListItems(&position, kNow + 1, &keys)) {
    }
    CHECK(keys.times.empty());
  }

  TEST_CASE("slab: an item whose CAS number a client chose stays exact") {
    World world(NoFront());
    // The value of the first key, which repeats, would take the key to the chain.
    const auto put = [&world](const std::string& key, const std::optional<uint64_t>& cas) {
      WriteRequest request{WriteMode::kSet, key, ValueOf(0)};
      request.new_cas = cas;
      return world.Write(request);
    };
    CHECK(put("chosen", 77).cas == 77);
    REQUIRE(put("plain", {}).status == StoreStatus::kOk);
    world.Fill(kKeys);
    const Reading chosen = world.Get("chosen");
    CHECK_FALSE(chosen.from_chain);
    CHECK(chosen.cas == 77);
    CHECK(world.Get("plain").from_chain);
    // Without E the next write ends that.
    REQUIRE(put("chosen", {}).status == StoreStatus::kOk);
    world.Fill(kKeys);
    CHECK(world.Get("chosen").from_chain);
  }

  TEST_CASE("slab: removing the value of a key keeps the key, also of one in the chain") {
    World world(NoFront());
    world.Fill(kKeys);
    const std::string key = world.ChainKey();
    DeleteOptions options;
    options.remove_value = true;
    options.flags = 5;
    options.expires = kNow + 100;
    CHECK(world.Delete(key, options) == StoreStatus::kOk);
    const Reading reading = world.Get(key);
    CHECK(reading.hit);
    CHECK(reading.value.empty());
    CHECK(reading.flags == 5);
    CHECK(reading.expires == kNow + 100);
    options.expires = kExpiredAlways;
    CHECK(world.Delete(key, options) == StoreStatus::kOk);
    CHECK_FALSE(world.Get(key).hit);
  }

  TEST_CASE("slab: append makes an item only where the key is neither in the front nor the chain") {
    World world(NoFront());
    world.Fill(kKeys);
    const std::string key = world.ChainKey();
    const uint64_t number = std::stoull(key.substr(4));
    WriteRequest request{WriteMode::kAppend, key, "+"};
    request.vivify_expires = kNow + 50;
    CHECK(world.Write(request).value_bytes == ValueOf(number).size() + 1);
    CHECK(world.Get(key).value == ValueOf(number) + "+");
    CHECK(world.Get(key).expires == 0);
    request.key = "absent";
    CHECK(world.Write(request).value_bytes == 1);
    CHECK(world.Get("absent").value == "+");
    CHECK(world.Get("absent").expires == kNow + 50);
  }

  TEST_CASE("slab: the form of a key is remembered until the key comes from the chain") {
    World world(NoFront());
    WriteRequest request{WriteMode::kSet, "k", "v"};
    request.base64_key = true;
    REQUIRE(world.Write(request).status == StoreStatus::kOk);
    CHECK(world.Get("k").base64_key == true);
    REQUIRE(world.Set("k", "v") == StoreStatus::kOk);
    CHECK(world.Get("k").base64_key == false);
    world.Fill(kKeys);
    const std::string key = world.ChainKey();
    CHECK_FALSE(world.Get(key).base64_key.has_value());
    ReadOptions touch;
    touch.touch = true;
    touch.expires = kNow + 30;                 // so soon that it does not go back at once
    REQUIRE(world.Get(key, kNow, touch).hit);  // moves it to the front
    CHECK_FALSE(world.Get(key).from_chain);
    CHECK_FALSE(world.Get(key).base64_key.has_value());
  }

  TEST_CASE("slab: the write modes, for a key in the front") {
    World world;
    const WriteResult first = world.Write({WriteMode::kSet, "k", "old", 7});
    REQUIRE(first.status == StoreStatus::kOk);
    std::string expected = "old";
    SUBCASE("set") {
      CHECK(world.WriteAs(WriteMode::kSet, "k", "new") == StoreStatus::kOk);
      expected = "new";
    }
    SUBCASE("set with a CAS number") {
      CHECK(world.WriteAs(WriteMode::kSet, "k", "bad", first.cas + 1) == StoreStatus::kExists);
      CHECK(world.WriteAs(WriteMode::kSet, "k", "new", first.cas) == StoreStatus::kOk);
      expected = "new";
    }
    SUBCASE("add") { CHECK(world.WriteAs(WriteMode::kAdd, "k", "new") == StoreStatus::kNotStored); }
    SUBCASE("a refused add is an access, but not a fetch") {
      CHECK(world.Write({WriteMode::kAdd, "k", "new"}, kNow + 5).status == StoreStatus::kNotStored);
      const Reading reading = world.Get("k", kNow + 9);
      CHECK(reading.last_access == kNow + 5);
      CHECK_FALSE(reading.fetched);
    }
    SUBCASE("replace") {
      CHECK(world.WriteAs(WriteMode::kReplace, "k", "bad", first.cas + 1) == StoreStatus::kExists);
      CHECK(world.WriteAs(WriteMode::kReplace, "k", "new") == StoreStatus::kOk);
      expected = "new";
    }
    SUBCASE("append keeps the client's flags") {
      CHECK(world.WriteAs(WriteMode::kAppend, "k", "+", first.cas + 1) == StoreStatus::kExists);
      CHECK(world.WriteAs(WriteMode::kAppend, "k", "+") == StoreStatus::kOk);
      CHECK(world.Get("k").flags == 7);
      expected = "old+";
    }
    SUBCASE("prepend with a CAS number") {
      CHECK(world.WriteAs(WriteMode::kPrepend, "k", "+", first.cas) == StoreStatus::kOk);
      expected = "+old";
    }
    SUBCASE("cas") {
      CHECK(world.WriteAs(WriteMode::kCas, "k", "bad", first.cas + 1) == StoreStatus::kExists);
      CHECK(world.WriteAs(WriteMode::kCas, "k", "bad") == StoreStatus::kExists);
      CHECK(world.WriteAs(WriteMode::kCas, "k", "new", first.cas) == StoreStatus::kOk);
      expected = "new";
    }
    const Reading reading = world.Get("k");
    CHECK(reading.value == expected);
    CHECK((reading.cas == first.cas) == (expected == "old"));
  }

  TEST_CASE("slab: the write modes, for a key in the chain") {
    SlabConfig config;
    config.front_share = 0.02;
    World world(config);
    world.Fill(kKeys);
    const std::string key = world.ChainKey();
    const std::string old(world.Get(key).value);
    std::string expected = old;
    SUBCASE("set") {
      CHECK(world.WriteAs(WriteMode::kSet, key, "new") == StoreStatus::kOk);
      expected = "new";
    }
    SUBCASE("add") { CHECK(world.WriteAs(WriteMode::kAdd, key, "new") == StoreStatus::kNotStored); }
    SUBCASE("replace") {
      CHECK(world.WriteAs(WriteMode::kReplace, key, "new") == StoreStatus::kOk);
      expected = "new";
    }
    SUBCASE("append") {
      CHECK(world.WriteAs(WriteMode::kAppend, key, "+") == StoreStatus::kOk);
      expected = old + "+";
    }
    SUBCASE("prepend") {
      CHECK(world.WriteAs(WriteMode::kPrepend, key, "+") == StoreStatus::kOk);
      expected = "+" + old;
    }
    SUBCASE("cas with the chain's number moves the key to the front, and the retry succeeds") {
      CHECK(world.Get(key).cas == kChainCas);
      CHECK(world.WriteAs(WriteMode::kCas, key, "new", kChainCas) == StoreStatus::kExists);
      const Reading moved = world.Get(key);
      CHECK_FALSE(moved.from_chain);
      CHECK(moved.value == old);
      CHECK(world.WriteAs(WriteMode::kCas, key, "new", moved.cas) == StoreStatus::kOk);
      expected = "new";
    }
    CHECK(world.Get(key).value == expected);
    // No older copy comes back.
    CHECK(world.Delete(key) == StoreStatus::kOk);
    CHECK_FALSE(world.Get(key).hit);
  }

  TEST_CASE("slab: an older CAS number stores as stale, with the expiry and token of the newer") {
    World world;
    const uint64_t cas = world.Write({WriteMode::kSet, "k", "a", 0, kNow + 50}).cas;
    const uint64_t newer = world.Write({WriteMode::kSet, "k", "b", 0, kNow + 50}).cas;
    REQUIRE(newer > cas);
    WriteRequest request{WriteMode::kCas, "k", "late", 0, kNow + 500};
    request.cas = cas;
    CHECK(world.Write(request).status == StoreStatus::kExists);
    request.invalidate = true;
    CHECK(world.Write(request).status == StoreStatus::kOk);
    const Reading reading = world.Get("k");
    CHECK(reading.value == "late");
    CHECK(reading.stale);
    CHECK(reading.expires == kNow + 50);
    request.cas = newer + 100;
    CHECK(world.Write(request).status == StoreStatus::kExists);
  }

  TEST_CASE("slab: a refused size removes what a set would have replaced, and nothing else") {
    SlabConfig config;
    config.item_bytes_max = 2048;
    World world(config);
    const std::string large(4000, 'x');
    CHECK(world.Set("k", "v") == StoreStatus::kOk);
    CHECK(world.WriteAs(WriteMode::kReplace, "k", large) == StoreStatus::kTooLarge);
    CHECK(world.Get("k").hit);
    // Together too large: memcached answers NOT_STORED.
    CHECK(world.WriteAs(WriteMode::kAppend, "k", std::string(1988, 'x')) ==
          StoreStatus::kNotStored);
    CHECK(world.Set("k", large) == StoreStatus::kTooLarge);
    CHECK_FALSE(world.Get("k").hit);
    CHECK(world.slab->Counters().refused_size == 3);
  }

  TEST_CASE("slab: an item expires in its second, and is counted once by its cause") {
    World world;
    CHECK(world.Set("k", "v", kNow + 10) == StoreStatus::kOk);
    CHECK(world.Get("k", kNow + 9).hit);
    CHECK_FALSE(world.Get("k", kNow + 10).hit);
    CHECK_FALSE(world.Get("k", kNow + 11).hit);
    const SlabCounters counters = world.slab->Counters();
    CHECK(counters.expired == 1);
    CHECK(counters.expired_unfetched == 0);
    CHECK(counters.expired_reads == 1);
    CHECK(counters.misses == 2);
    // Stored with an expiry in the past: gone at once.
    CHECK(world.Set("p", "v", kExpiredAlways) == StoreStatus::kOk);
    CHECK_FALSE(world.Get("p").hit);
    CHECK(world.slab->Usage().front_items == 0);
  }

  TEST_CASE("slab: a thread that is a second late sees the latest time") {
    World world;
    CHECK(world.Set("k", "v", kNow + 10) == StoreStatus::kOk);
    CHECK_FALSE(world.Get("other", kNow + 10).hit);
    CHECK_FALSE(world.Get("k", kNow + 9).hit);
  }

  TEST_CASE("slab: a flush removes what was stored before it, in the front and in the chain") {
    World world(NoFront());
    // More than there are generations.
    for (uint32_t round = 0; round < 6; ++round) {
      CAPTURE(round);
      const uint32_t now = kNow + 100 * round;
      for (uint64_t i = 0; i < 5000; ++i) {
        REQUIRE(world.Set(KeyName(i), ValueOf(i), 0, now) == StoreStatus::kOk);
      }
      CHECK(world.Set("unique", "u" + std::to_string(round), 0, now) == StoreStatus::kOk);
      REQUIRE(world.slab->Usage().chain_keys > 1000);
      world.slab->Flush(now + 10, now);
      CHECK(world.Get("unique", now + 9).hit);
      uint64_t found = 0;
      for (uint64_t i = 0; i < 5000; ++i) found += world.Get(KeyName(i), now + 10).hit;
      CHECK(found == 0);
      CHECK_FALSE(world.Get("unique", now + 10).hit);
      CHECK(world.slab->Usage().chain_keys == 0);
      CHECK(world.Set("after", "v", 0, now + 10) == StoreStatus::kOk);
      CHECK(world.Get("after", now + 10).hit);
    }
    while (world.slab->MaintainStep(kNow + 1000)) {
    }
    CHECK(world.slab->Usage().front_items == 1);  // the last "after"
    CHECK(world.slab->Counters().flushed + world.slab->ChainEvents().flushed_keys >= 6 * 4900);
  }

  TEST_CASE("slab: keys are demoted, but for exact prefixes and what expires soon") {
    SlabConfig config = NoFront();
    config.exact_prefixes = {"exact:"};
    World world(config);
    for (uint64_t i = 0; i < kKeys; ++i) {
      const std::string number = std::to_string(i);
      CHECK(world.Set(KeyName(i), ValueOf(i)) == StoreStatus::kOk);
      if (i % 20 != 0) continue;
      CHECK(world.Set("exact:" + number, ValueOf(i)) == StoreStatus::kOk);
      CHECK(world.Set("soon:" + number, ValueOf(i), kNow + 59) == StoreStatus::kOk);
    }
    uint64_t in_chain = 0;
    uint64_t found = 0;
    for (uint64_t i = 0; i < kKeys; ++i) {
      const Reading reading = world.Get(KeyName(i));
      in_chain += reading.from_chain;
      found += reading.hit && reading.value == ValueOf(i);
      if (i % 20 != 0) continue;
      for (const char* kind : {"exact:", "soon:"}) {
        const Reading exact = world.Get(kind + std::to_string(i));
        CHECK((exact.hit && !exact.from_chain && exact.value == ValueOf(i)));
      }
    }
    CHECK(static_cast<double>(found) >= kKeys - MostEvents(kFalseNegative, kKeys));
    CHECK(in_chain > kKeys / 2);
    CHECK(world.slab->Counters().demoted >= in_chain);
    CHECK(world.slab->Counters().evicted <= world.slab->ChainEvents().tombstones);
  }

  TEST_CASE("slab: with approximate prefixes only keys under them are demoted") {
    SlabConfig config = NoFront();
    config.approximate_prefixes = {"soft:", "key:1"};
    config.exact_prefixes = {"key:19"};
    World world(config);
    world.Fill(kKeys);
    uint64_t in_chain = 0;
    for (uint64_t i = 0; i < kKeys; ++i) {
      const std::string key = KeyName(i);
      const Reading reading = world.Get(key);
      if (key.starts_with("key:1") && !key.starts_with("key:19")) {
        in_chain += reading.from_chain;
        continue;
      }
      REQUIRE((reading.hit && !reading.from_chain && reading.value == ValueOf(i)));
    }
    CHECK(in_chain > 1000);  // of 10,000 such keys; the others take the most of the looks
  }

  TEST_CASE("slab: keys stay exact while all takes less than the exact share") {
    SlabConfig config = NoFront();
    config.front_share = 0.02;
    config.exact_share = 0.5;
    World world(config);
    world.Fill(10000);
    REQUIRE(world.slab->Usage().total_bytes() < (4 << 20) / 2);
    CHECK(world.slab->Counters().demoted == 0);
    world.Fill(60000);
    CHECK(world.slab->Counters().demoted > 10000);
  }

  TEST_CASE("slab: a demoted key expires early by at most a quarter of its time") {
    World world(NoFront());
    world.Fill(kKeys, kNow + 1000);
    REQUIRE(world.slab->Usage().chain_keys > kKeys / 2);
    uint64_t missing = 0;
    for (uint64_t i = 0; i < kKeys; ++i) missing += !world.Get(KeyName(i), kNow + 749).hit;
    CHECK(static_cast<double>(missing) <= MostEvents(kFalseNegative, kKeys));
    for (uint64_t i = 0; i < kKeys; ++i) CHECK_FALSE(world.Get(KeyName(i), kNow + 1000).hit);
  }

  TEST_CASE("slab: a touch moves a key to the front; one into the past deletes it") {
    World world(NoFront());
    world.Fill(kKeys);
    const std::string key = world.ChainKey();
    const std::string value(world.Get(key).value);
    ReadOptions touch;
    touch.touch = true;
    touch.expires = kNow + 50;
    const Reading touched = world.Get(key, kNow, touch);
    CHECK((touched.hit && touched.from_chain && touched.value == value));
    CHECK(touched.expires == kNow + 50);
    CHECK(world.slab->Counters().promoted == 1);
    const Reading reading = world.Get(key);
    CHECK((reading.hit && !reading.from_chain && reading.expires == kNow + 50));
    const std::string other = world.ChainKey(100);
    touch.expires = kExpiredAlways;
    CHECK(world.Get(other, kNow, touch).hit);
    CHECK_FALSE(world.Get(other).hit);
    CHECK(world.Get(key, kNow, touch).hit);
    CHECK_FALSE(world.Get(key).hit);
    CHECK(world.slab->Counters().expired == 2);
  }

  TEST_CASE("slab: overwritten and deleted keys of the chain do not come back") {
    World world(NoFront());
    world.Fill(kKeys);
    for (uint64_t i = 0; i < kKeys; i += 2) {
      CHECK(world.Set(KeyName(i), "second " + std::to_string(i % 7)) == StoreStatus::kOk);
      (void)world.Delete(KeyName(i + 1));
    }
    uint64_t old = 0;
    uint64_t deleted = 0;
    for (uint64_t i = 0; i < kKeys; i += 2) {
      const Reading reading = world.Get(KeyName(i));
      old += reading.hit && reading.value == ValueOf(i);
      deleted += world.Get(KeyName(i + 1)).hit;
    }
    CHECK(old == 0);
    CHECK(static_cast<double>(deleted) <= MostEvents(kFalsePositive, kKeys / 2));
    // Both ways of removing an entry were taken.
    CHECK(world.slab->ChainEvents().removed > kKeys / 2);
    CHECK(world.slab->Usage().tombstones > 0);
  }

  TEST_CASE("slab: eviction keeps the memory limit and the items that are read") {
    SlabConfig config;
    config.memory_bytes = 2 << 20;
    config.front_share = 1;
    World world(config);
    uint64_t over = 0;
    for (uint64_t i = 0; i < 60000; ++i) {
      CHECK(world.Set(KeyName(i), "unique " + std::to_string(i)) == StoreStatus::kOk);
      CHECK(world.Get(KeyName(i % 10)).hit);
      over += world.slab->Usage().total_bytes() > config.memory_bytes;
    }
    CHECK(over == 0);
    const SlabCounters counters = world.slab->Counters();
    CHECK(counters.evicted + counters.demoted + world.slab->Usage().front_items == 60000);
    CHECK(counters.evicted_unfetched > counters.evicted * 9 / 10);
  }

  TEST_CASE("slab: a full chain drops its oldest keys, not its newest") {
    SlabConfig config = NoFront();
    config.memory_bytes = 1 << 20;
    World world(config);
    constexpr uint64_t kMany = 100000;
    world.Fill(kMany);
    CHECK(world.slab->Usage().total_bytes() <= config.memory_bytes);
    CHECK(world.slab->ChainEvents().dropped_keys > 0);
    uint64_t oldest = 0;
    uint64_t newest = 0;
    for (uint64_t i = 0; i < 5000; ++i) {
      oldest += world.Get(KeyName(i)).hit;
      newest += world.Get(KeyName(kMany - 1 - i)).hit;
    }
    CHECK(static_cast<double>(oldest) <= MostEvents(kFalsePositive, 5000));
    CHECK(newest > 4900);
  }

  TEST_CASE("slab: without evictions a write is refused, and drops the old value if asked to") {
    SlabConfig config;
    config.memory_bytes = 1 << 20;
    config.evictions = false;
    config.front_share = 1;
    World world(config);
    CHECK(world.Set("k", "v") == StoreStatus::kOk);
    uint64_t stored = 0;
    while (world.Set(KeyName(stored), "unique " + std::to_string(stored)) == StoreStatus::kOk) {
      REQUIRE(++stored < 100000);
    }
    CHECK(world.slab->Usage().total_bytes() <= config.memory_bytes);
    CHECK(world.slab->Counters().evicted == 0);
    CHECK(world.slab->Counters().refused_memory == 1);
    const std::string large(100000, 'x');
    CHECK(world.Set("k", large) == StoreStatus::kNoMemory);
    CHECK(world.Get("k").value == "v");
    WriteRequest request{WriteMode::kSet, "k", large};
    request.drop_on_failure = true;
    CHECK(world.Write(request).status == StoreStatus::kNoMemory);
    CHECK_FALSE(world.Get("k").hit);
    for (uint64_t i = 0; i < stored; ++i) CHECK(world.Get(KeyName(i)).hit);
  }

  TEST_CASE("slab: without evictions expired and flushed items make room") {
    SlabConfig config;
    config.memory_bytes = 1 << 20;
    config.evictions = false;
    config.front_share = 1;
    World world(config);
    const auto store = [&](uint64_t keys, uint32_t now) {
      uint64_t stored = 0;
      for (uint64_t i = 0; i < keys; ++i) {
        stored += world.Set(KeyName(i), "unique " + std::to_string(i), now + 100, now) ==
                  StoreStatus::kOk;
      }
      return stored;
    };
    const uint64_t first = store(100000, kNow);
    REQUIRE(first < 50000);
    // A refused write examines 512 items, and the first round of the hand only lowers ages.
    const uint64_t refused_max = first / 512 + 1;
    CHECK(store(first, kNow + 100) >= first - refused_max);
    world.slab->Flush(kNow + 150, kNow + 150);
    CHECK(store(first, kNow + 150) >= first - refused_max);
    CHECK(world.slab->Usage().total_bytes() <= config.memory_bytes);
  }

  TEST_CASE("slab: arithmetic") {
    World world;
    CHECK(world.Add("n", 1).status == StoreStatus::kNotFound);
    const ArithmeticResult made = world.Add("n", 5, 10);
    CHECK((made.status == StoreStatus::kOk && made.created && made.number == 10));
    const ArithmeticResult added = world.Add("n", 5, 10);
    CHECK((added.number == 15 && !added.created && added.cas > made.cas));
    CHECK(world.Add("n", 1, {}, made.cas).status == StoreStatus::kExists);
    CHECK(world.Add("n", 1, {}, added.cas).number == 16);
    ArithmeticRequest down;
    down.key = "n";
    down.delta = 100;
    down.decrement = true;
    CHECK(world.slab->Arithmetic(down, world.Hash("n"), kNow).number == 0);
    CHECK(world.Get("n").value == "0 ");  // as memcached leaves it
    // A reply that is being sent keeps its bytes.
    const Reading held = world.Get("n");
    CHECK(world.Add("n", 7).number == 7);
    CHECK(held.value == "0 ");
    // Empty values and values of 512 KiB are never numeric, whatever their CAS number.
    CHECK(world.Set("empty", "") == StoreStatus::kOk);
    CHECK(world.Add("empty", 1, {}, 1).status == StoreStatus::kNotNumber);
    CHECK(world.Set("text", "12 monkeys") == StoreStatus::kOk);
    CHECK(world.Add("text", 1).number == 13);
    CHECK(world.Set("text", "monkeys") == StoreStatus::kOk);
    CHECK(world.Add("text", 1, 5).status == StoreStatus::kNotNumber);
    CHECK(world.slab->Counters().stored == 4);  // three sets and one number that was made
  }

  TEST_CASE("slab: a number in the chain is moved to the front and counted there") {
    World world(NoFront());
    for (uint64_t i = 0; i < kKeys; ++i) {
      REQUIRE(world.Set(KeyName(i), std::to_string(i % 100)) == StoreStatus::kOk);
    }
    uint64_t number = 0;
    while (!world.Get(KeyName(number)).from_chain) ++number;
    const ArithmeticResult result = world.Add(KeyName(number), 1000);
    CHECK(result.status == StoreStatus::kOk);
    CHECK(result.number == number % 100 + 1000);
    CHECK(world.Get(KeyName(number)).value == std::to_string(number % 100 + 1000));
  }

  TEST_CASE("slab: delete by CAS number, and as stale") {
    World world(NoFront());
    world.Fill(kKeys);
    for (const bool in_chain : {false, true}) {
      CAPTURE(in_chain);
      const std::string key = in_chain ? world.ChainKey() : "front";
      if (!in_chain) REQUIRE(world.Set(key, "only here") == StoreStatus::kOk);
      DeleteOptions options;
      options.cas = 1;
      CHECK(world.Delete(key, options) == StoreStatus::kExists);
      DeleteOptions stale;
      stale.mark_stale = true;
      stale.expires = kNow + 30;
      CHECK(world.Delete(key, stale) == StoreStatus::kOk);
      const Reading reading = world.Get(key);
      CHECK((reading.hit && reading.stale && reading.expires == kNow + 30));
      options.cas = reading.cas;
      CHECK(world.Delete(key, options) == StoreStatus::kOk);
      CHECK_FALSE(world.Get(key).hit);
      CHECK(world.Delete(key) == StoreStatus::kNotFound);
    }
    CHECK(world.slab->Counters().deleted == 2);
  }

  TEST_CASE("slab: errors are measured on sampled keys and on keys that nobody stored") {
    World world(NoFront());
    world.Fill(kKeys);
    for (int i = 0; i < 20; ++i) world.slab->MeasureErrors(100, 500, kNow);
    const MeasuredRates rates = world.slab->Measured();
    CHECK(rates.stored_asked > 1000);
    CHECK(rates.absent_probes == 10000);
    CHECK(static_cast<double>(rates.false_positives) <= MostEvents(kFalsePositive, 10000));
    CHECK(rates.wrong == 0);
  }

  TEST_CASE("counters: sums take every field, and no two fields have one name in stats") {
    const auto check = [](auto zero) {
      auto one = zero;
      uint64_t next = 1;
      for (const auto& [field, name] : decltype(zero)::Fields()) one.*field = next++;
      auto sum = zero;
      AddCounters(one, &sum);
      AddCounters(one, &sum);
      next = 1;
      for (const auto& [field, name] : decltype(zero)::Fields()) {
        CHECK(sum.*field == 2 * next++);
        uint64_t same = 0;
        for (const auto& other : decltype(zero)::Fields()) same += other.name == name;
        CHECK((name.empty() || same == 1));
      }
    };
    check(SlabCounters{});
    check(ChainCounters{});
    check(DictionaryCounters{});
    check(MeasuredRates{});
    check(SlabUsage{});
  }
}

}  // namespace
}  // namespace kbf
