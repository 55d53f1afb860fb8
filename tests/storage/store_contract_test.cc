// What the error contract promises beyond rates: add refuses what get finds, and a key's expiry is
// rounded once in its life, however often it goes to the chain and back.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "storage/deadlines.h"
#include "storage/store.h"
#include "tests/storage/store_world.h"

namespace kbf {
namespace {

WriteResult Add(Store& store, const std::string& key, const std::string& value, uint32_t now) {
  return store.Write({WriteMode::kAdd, key, value}, now);
}

TEST_SUITE("storage") {
  TEST_CASE("add never overwrites what get finds") {
    KBF_FOR_EACH_ENGINE();
    const uint64_t tries = Soak() ? 10000000 : 300000;
    StoreConfig config;
    config.memory_bytes = uint64_t{8} << 20;
    config.front_share = 0.03;
    const auto store = MakeStore(config, 11);
    REQUIRE(store != nullptr);
    const uint64_t keys = config.memory_bytes / 36;
    std::mt19937_64 random(3);
    uint32_t now = 1000;
    uint64_t found = 0;
    uint64_t from_chain = 0;
    uint64_t overwritten = 0;
    uint64_t stored = 0;
    uint64_t absent = 0;
    for (uint64_t i = 0; i < tries; ++i) {
      if (i % 64 == 0) (void)store->Maintain(1, ++now);
      // Sets and deletes make weak answers: entries that could not be changed in place.
      const std::string changed = KeyName(random() % keys);
      if (random() % 8 == 0) {
        (void)store->Delete(changed, now);
      } else {
        (void)store->Write({WriteMode::kSet, changed, ValueOf(random())}, now);
      }
      const std::string key = KeyName(random() % keys);
      const Reading before = store->Get(key, now);
      const StoreStatus status = Add(*store, key, ValueOf(random()), now).status;
      found += before.hit;
      from_chain += before.from_chain;
      absent += !before.hit;
      overwritten += before.hit && status == StoreStatus::kOk;
      stored += !before.hit && status == StoreStatus::kOk;
    }
    MESSAGE(tries << " tries: found " << found << ", of these in the chain " << from_chain
                  << ", overwritten " << overwritten);
    CHECK(overwritten == 0);
    CHECK(stored == absent);
    CHECK(from_chain > tries / 4);
  }

  TEST_CASE("a key that a false positive refuses to add is free after 32 refusals on average") {
    StoreConfig config;
    config.memory_bytes = uint64_t{8} << 20;
    // Full filters with few check bits.
    config.false_negative = 0.1;
    config.false_positive = 0.1;
    config.distinct_values = 60000;
    config.front_share = 0.03;
    config.memory_bytes = uint64_t{16} << 20;
    const auto store = MakeStore(config, 12);
    REQUIRE(store != nullptr);
    for (uint64_t i = 0; i < 600000; ++i) {
      (void)store->Write({WriteMode::kSet, KeyName(i), ValueOf(i)}, 1000);
    }
    const uint64_t wanted = Soak() ? 2000 : 30;
    double refusals = 0;
    uint64_t false_positives = 0;
    uint64_t most = 0;
    constexpr uint64_t kFirst = uint64_t{1} << 40;
    for (uint64_t i = kFirst; false_positives < wanted && i < kFirst + 50000000; ++i) {
      const std::string key = KeyName(i);
      if (!store->Get(key, 1000).hit) continue;
      uint64_t times = 0;
      while (times < 10000 && Add(*store, key, "mine", 1000).status != StoreStatus::kOk) ++times;
      if (times == 10000) continue;  // strong evidence: one in thousands
      CHECK(store->Get(key, 1000).value == "mine");
      ++false_positives;
      refusals += static_cast<double>(times);
      most = std::max(most, times);
    }
    const auto n = static_cast<double>(false_positives);
    MESSAGE(false_positives << " false positives: " << refusals / n << " refusals each, at most "
                            << most);
    REQUIRE(false_positives == wanted);
    // Geometric: mean and standard deviation are 32, but for a 32nd.
    CHECK(std::abs(refusals / n - 32) <= 5 * 32 / std::sqrt(n));
  }

  TEST_CASE("deadlines do not add up: a key keeps three quarters of its TTL on any way") {
    const uint64_t seed = 21;
    std::mt19937_64 random(seed);
    CAPTURE(seed);
    double shortest = 1;
    uint64_t misfits = 0;
    uint64_t too_early = 0;
    for (uint64_t i = 0; i < (Soak() ? 2000000 : 50000); ++i) {
      const auto start = static_cast<uint32_t>(1000 + random() % 1000000);
      const auto ttl = static_cast<uint32_t>(60 + random() % (1u << random() % 25));
      uint32_t expires = start + ttl;
      uint32_t now = start;
      // Into the earliest deadline that fits, of those that filters were opened with by other keys
      // before, and back with that deadline.
      while (expires > now && now < start + ttl / 4 * 3) {
        uint32_t deadline = DeadlineFor(expires, now);
        misfits += !DeadlineFits(deadline, expires, now) || DeadlineFits(expires + 1, expires, now);
        for (int other = 0; other < 16; ++other) {
          const auto opened = static_cast<uint32_t>(now - random() % 1000);
          const auto theirs = static_cast<uint32_t>(now + 60 + random() % (2 * ttl));
          const uint32_t made = DeadlineFor(theirs, opened);
          if (made > now && DeadlineFits(made, expires, now)) deadline = std::min(deadline, made);
        }
        expires = deadline;
        now += static_cast<uint32_t>(random() % (ttl / 8 + 1)) + 1;
      }
      shortest = std::min(shortest, static_cast<double>(expires - start) / ttl);
      too_early += expires < start + ttl - ttl / 4;
    }
    CHECK(misfits == 0);
    CHECK(too_early == 0);
    MESSAGE("shortest life " << shortest << " of the TTL");
    // Not an empty promise: some keys lose nearly a quarter.
    CHECK(shortest < 0.8);
  }

  TEST_CASE("keys that go to the chain and back again and again keep three quarters of their TTL") {
    KBF_FOR_EACH_ENGINE();
    StoreConfig config;
    config.memory_bytes = uint64_t{8} << 20;
    config.front_share = 0.02;
    const auto store = MakeStore(config, 13);
    REQUIRE(store != nullptr);
    constexpr uint32_t kTtl = 86400;
    constexpr uint32_t kStart = 1000;
    const uint64_t keys = Soak() ? 40000 : 5000;
    std::mt19937_64 random(4);
    std::vector<uint32_t> ttls(keys);
    for (uint64_t i = 0; i < keys; ++i) {
      ttls[i] = kTtl - static_cast<uint32_t>(random() % 8192);
      (void)store->Write({WriteMode::kSet, KeyName(i), ValueOf(i), 0, kStart + ttls[i]}, kStart);
    }
    double shortest = 1;
    uint64_t promotions = 0;
    uint64_t late = 0;
    for (uint32_t now = kStart; now < kStart + kTtl; now += 3000) {
      // Others, with all kinds of deadlines, that drive the keys out of the front.
      for (uint64_t i = 0; i < 6000; ++i) {
        const auto expires = now + 600 + static_cast<uint32_t>(random() % (3 * kTtl));
        (void)store->Write(
            {WriteMode::kSet, KeyName(1000000 + random() % 50000), ValueOf(i), 0, expires}, now);
        if (i % 64 == 0) (void)store->Maintain(4, now);
      }
      for (uint64_t i = 0; i < keys; ++i) {
        // Asking whether to recache moves a key to the front.
        const Reading reading =
            store->Get(KeyName(i), ReadOptions{.claim_win = false, .recache_before = 1}, now);
        if (!reading.hit || now >= kStart + ttls[i]) continue;
        promotions += reading.from_chain;
        late += reading.expires > kStart + ttls[i];
        shortest = std::min(shortest, static_cast<double>(reading.expires - kStart) / ttls[i]);
      }
    }
    MESSAGE(promotions << " promotions of " << keys << " keys, shortest life " << shortest);
    CHECK(late == 0);
    CHECK(promotions > 5 * keys);
    CHECK(shortest > 0.75);
    CHECK(shortest < 1);
  }
}

}  // namespace
}  // namespace kbf
