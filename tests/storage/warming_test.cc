// Items of another server, brought in while clients use the store: what a client said wins.
#include <doctest/doctest.h>

#include <cmath>
#include <memory>
#include <string>

#include "storage/changed_keys.h"
#include "tests/storage/store_world.h"

namespace kbf {
namespace {

constexpr uint32_t kNow = 1000;

StoreConfig Config() {
  StoreConfig config;
  config.memory_bytes = uint64_t{8} << 20;
  config.num_slabs = 2;
  return config;
}

StoreStatus Warm(Store& store, std::string_view key, uint32_t now = kNow) {
  return store.Write({.mode = WriteMode::kAdd, .key = key, .value = "warmed", .warming = true}, now)
      .status;
}

std::string Value(Store& store, std::string_view key, uint32_t now = kNow) {
  return std::string(store.Get(key, now).value);
}

}  // namespace

TEST_SUITE("warming") {
  TEST_CASE("warming: an item comes in where no client has said anything") {
    const auto store = MakeStore(Config(), 1);
    CHECK(Warm(*store, "early") == StoreStatus::kNotStored);
    const uint64_t before = store->Usage().total_bytes();
    REQUIRE(store->BeginWarming());
    CHECK(store->Usage().total_bytes() > before);
    CHECK(Warm(*store, "key") == StoreStatus::kOk);
    CHECK(Value(*store, "key") == "warmed");
    CHECK(Warm(*store, "key") == StoreStatus::kNotStored);
    store->EndWarming();
    CHECK(Warm(*store, "late") == StoreStatus::kNotStored);
    // The item is in a block of 16 KB; what remembers the changes of clients is given back.
    CHECK(store->Usage().total_bytes() < before + 17000);
  }

  TEST_CASE("warming: what a client has changed is not changed back, also when it is gone") {
    const auto store = MakeStore(Config(), 2);
    REQUIRE(store->BeginWarming());
    uint32_t now = kNow;
    SUBCASE("set") { (void)store->Write({.key = "key", .value = "own"}, now); }
    SUBCASE("set, and expired since") {
      (void)store->Write({.key = "key", .value = "own", .expires = now + 1}, now);
      ++now;
    }
    SUBCASE("set with an expiry in the past") {
      (void)store->Write({.key = "key", .value = "own", .expires = kExpiredAlways}, now);
    }
    SUBCASE("set and deleted") {
      (void)store->Write({.key = "key", .value = "own"}, now);
      (void)store->Delete("key", now);
    }
    SUBCASE("deleted before it came") { (void)store->Delete("key", now); }
    SUBCASE("deleted after it came") {
      CHECK(Warm(*store, "key") == StoreStatus::kOk);
      CHECK(store->Delete("key", now) == StoreStatus::kOk);
    }
    SUBCASE("touched to the past after it came") {
      CHECK(Warm(*store, "key") == StoreStatus::kOk);
      (void)store->Get("key", {.touch = true, .expires = kExpiredAlways}, now);
    }
    SUBCASE("made by a miss, and expired since") {
      (void)store->Get("key", {.vivify_expires = now + 1}, now);
      ++now;
    }
    SUBCASE("counted") {
      (void)store->Arithmetic({.key = "key", .initial = 5, .initial_expires = now + 1}, now);
      ++now;
    }
    SUBCASE("refused because it was too large") {
      const std::string large(2 << 20, 'x');
      CHECK(store->Write({.key = "key", .value = large}, now).status == StoreStatus::kTooLarge);
    }
    SUBCASE("flushed") { store->FlushAll(now, now); }
    SUBCASE("to be flushed later") { store->FlushAll(now + 100, now); }
    const std::string before = Value(*store, "key", now);
    CHECK(Warm(*store, "key", now) == StoreStatus::kNotStored);
    CHECK(Value(*store, "key", now) == before);
    CHECK(before != "warmed");
  }

  TEST_CASE("warming: a flush ends it for all keys, and is counted") {
    const auto store = MakeStore(Config(), 3);
    REQUIRE(store->BeginWarming());
    CHECK(store->num_flushes() == 0);
    store->FlushAll(kNow, kNow);
    CHECK(store->num_flushes() == 1);
    for (uint64_t i = 0; i < 100; ++i) CHECK(Warm(*store, KeyName(i)) == StoreStatus::kNotStored);
  }

  TEST_CASE("warming: keys that nobody changed come in beside many that were changed") {
    const auto store = MakeStore(Config(), 4);
    REQUIRE(store->BeginWarming());
    for (uint64_t i = 0; i < 20000; ++i) {
      (void)store->Write({.key = KeyName(i), .value = ValueOf(i)}, kNow);
    }
    uint64_t stored = 0;
    for (uint64_t i = 20000; i < 40000; ++i) {
      stored += Warm(*store, KeyName(i)) == StoreStatus::kOk;
    }
    // 1 Mbit for 20,000 keys: some 52 bits per key.
    CHECK(stored > 19980);
    for (uint64_t i = 0; i < 20000; ++i) CHECK(Value(*store, KeyName(i)) != "warmed");
  }

  TEST_CASE("warming: a key that was not changed is held with the chance that the header says") {
    for (const auto& [bits_per_key, rate] : {std::pair{40, 1.28e-4}, {20, 1.26e-3}}) {
      CAPTURE(bits_per_key);
      constexpr uint64_t kKeys = 20000;
      ChangedKeys changed(kKeys * static_cast<uint64_t>(bits_per_key) / 8);
      const HashSecret secret = HashSecret::FromSeed(5);
      for (uint64_t i = 0; i < kKeys; ++i) changed.Add(HashKey(KeyName(i), secret));
      for (uint64_t i = 0; i < kKeys; ++i) CHECK(changed.MayHold(HashKey(KeyName(i), secret)));
      uint64_t held = 0;
      constexpr uint64_t kAbsent = 1000000;
      for (uint64_t i = 0; i < kAbsent; ++i) {
        held += changed.MayHold(HashKey(KeyName(kKeys + i), secret));
      }
      const double expected = rate * kAbsent;
      CHECK(std::abs(static_cast<double>(held) - expected) < 5 * std::sqrt(expected));
    }
  }
}

}  // namespace kbf
