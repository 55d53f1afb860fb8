// Expiry in the chain: what a deadline per filter, instead of one per key, may do to a key's
// lifetime and what it costs in memory.
//
// The clock is the test's own. A key that was stored with a TTL may be missing early by at most a
// quarter of what remained when it left the front. The test does not see when that was, but what
// remained was at most the TTL, so every key must be there until a quarter of its TTL is left.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <deque>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "storage/hash.h"
#include "storage/store.h"
#include "tests/storage/store_world.h"

namespace kbf {
namespace {

struct Stored {
  uint32_t expires;
  uint32_t ttl;
};

// What the reads of keys with known expiries found.
struct Lifetimes {
  uint64_t due = 0;              // reads of keys that must be there
  uint64_t missing = 0;          // of these, misses
  uint64_t wrong = 0;            // another value
  uint64_t waning = 0;           // reads in the last quarter of the TTL, where a miss is allowed
  uint64_t early = 0;            // of these, misses
  uint64_t past = 0;             // reads at or after the expiry
  uint64_t late = 0;             // of these, the key's own value
  uint64_t false_positives = 0;  // of these, some other key's value
  uint64_t misdated = 0;         // hits that name an expiry after the key's, or too early a one

  void Count(const Stored& stored, const Reading& reading, const std::string& value, uint32_t now) {
    if (now >= stored.expires) {
      ++past;
      if (reading.hit) ++(reading.value == value ? late : false_positives);
      return;
    }
    const bool must = stored.expires - now > stored.ttl / 4;
    ++(must ? due : waning);
    if (!reading.hit) {
      ++(must ? missing : early);
    } else if (reading.value != value) {
      ++wrong;
    } else {
      misdated += reading.expires == 0 || reading.expires > stored.expires ||
                  reading.expires < stored.expires - stored.ttl / 4;
    }
  }
};

// Log-uniform, as the TTLs of real caches spread over the scales.
uint32_t RandomTtl(std::mt19937_64& random, double shortest, double longest) {
  const double u = std::uniform_real_distribution<double>(0, 1)(random);
  return static_cast<uint32_t>(shortest * std::pow(longest / shortest, u));
}

// ---- memory ------------------------------------------------------------------------------------

uint64_t ChainBytes(const SlabUsage& usage) {
  return usage.cells_bytes + usage.locator_bytes + usage.dictionary_bytes + usage.other_bytes;
}

struct Cost {
  double bytes_per_key = 0;  // of the chain, per key in it that lives
  double keys = 0;
  double found = 0;  // part of the living keys that is there at all
};

// Keys at a steady rate, each with one of twenty TTLs, for so long that as many expire as come.
class SteadyStream {
 public:
  SteadyStream(const StoreConfig& config, uint64_t live, uint64_t seed)
      : store_(MakeStore(config, seed)), random_(seed) {
    double sum = 0;
    for (unsigned i = 0; i < kTtls; ++i) {
      const double share = static_cast<double>(i) / (kTtls - 1);
      ttls_[i] = static_cast<uint32_t>(60 * std::pow(86400.0 / 60, share));
      sum += ttls_[i];
    }
    per_second_ = static_cast<double>(live) * kTtls / sum;
  }

  void Run(uint32_t seconds) {
    for (uint32_t end = now_ + seconds; now_ < end; ++now_) {
      for (owed_ += per_second_; owed_ >= 1; --owed_) {
        const uint64_t number = first_ + expires_.size();
        const uint32_t expires = now_ + ttls_[random_() % kTtls];
        (void)store_->Write({WriteMode::kSet, KeyName(number), ValueOf(number), 0, expires}, now_);
        expires_.push_back(expires);
      }
      (void)store_->Maintain(8, now_);
      while (!expires_.empty() && expires_.front() <= now_) {
        expires_.pop_front();
        ++first_;
      }
    }
  }

  Cost Measure() {
    uint64_t live = 0;
    uint64_t in_chain = 0;
    uint64_t in_front = 0;
    for (uint64_t i = 0; i < expires_.size(); ++i) {
      if (expires_[i] <= now_) continue;
      ++live;
      const Reading reading = store_->Get(KeyName(first_ + i), now_);
      if (reading.hit) ++(reading.from_chain ? in_chain : in_front);
    }
    const auto keys = static_cast<double>(in_chain);
    return {static_cast<double>(ChainBytes(store_->Usage().slabs)) / keys, keys,
            static_cast<double>(in_chain + in_front) / static_cast<double>(live)};
  }

  Store& store() { return *store_; }

 private:
  static constexpr unsigned kTtls = 20;
  std::unique_ptr<Store> store_;
  std::mt19937_64 random_;
  std::array<uint32_t, kTtls> ttls_;
  double per_second_ = 0;
  double owed_ = 0;
  uint32_t now_ = 1000;
  uint64_t first_ = 0;            // number of the key that expires_ begins with
  std::deque<uint32_t> expires_;  // by key number
};

// The same number of keys in the chain, none of which expires.
Cost CostWithoutTtl(const StoreConfig& config, uint64_t keys, uint64_t seed) {
  const auto store = MakeStore(config, seed);
  uint32_t now = 1000;
  for (uint64_t number = 0; store->Usage().slabs.chain_keys < keys;) {
    for (unsigned i = 0; i < 256; ++i, ++number) {
      (void)store->Write({WriteMode::kSet, KeyName(number), ValueOf(number)}, now);
    }
    (void)store->Maintain(8, ++now);
  }
  const SlabUsage usage = store->Usage().slabs;
  const auto in_chain = static_cast<double>(usage.chain_keys);
  return {static_cast<double>(ChainBytes(usage)) / in_chain, in_chain, 1};
}

TEST_SUITE("storage") {
  TEST_CASE(
      "keys with TTLs from 1 s to 30 days are never served late, nor lost before the last quarter "
      "of the TTL") {
    KBF_FOR_EACH_ENGINE();
    constexpr uint32_t kLongest = 30 * 86400;
    const uint64_t seed = 1;
    CAPTURE(seed);
    const uint64_t keys = Soak() ? 1000000 : 200000;
    const uint64_t sampled = Soak() ? keys : 20000;  // reads per step
    StoreConfig config;
    config.memory_bytes = (Soak() ? uint64_t{160} : uint64_t{32}) << 20;
    config.front_share = 0.02;
    config.num_slabs = Soak() ? 8 : 2;
    config.filter_keys = 4096;
    const auto store = MakeStore(config, seed);
    REQUIRE(store != nullptr);

    std::mt19937_64 random(seed);
    const uint32_t start = 1000;
    uint32_t now = start;
    std::vector<Stored> stored(keys);
    uint64_t refused = 0;
    for (uint64_t i = 0; i < keys; ++i) {
      stored[i].ttl = RandomTtl(random, 1, kLongest);
      stored[i].expires = now + stored[i].ttl;
      refused += store->Write({WriteMode::kSet, KeyName(i), ValueOf(i), 0, stored[i].expires}, now)
                     .status != StoreStatus::kOk;
    }
    REQUIRE(refused == 0);
    const SlabUsage filled = store->Usage().slabs;

    Lifetimes seen;
    uint64_t steps = 0;
    // Seconds at first, then minutes, hours and days: each step is a tenth of the time that passed.
    for (; now <= start + kLongest; now += std::max(1u, (now - start) / 10), ++steps) {
      (void)MaintainAll(*store, now);
      for (uint64_t i = 0; i < sampled; ++i) {
        const uint64_t number = sampled == keys ? i : random() % keys;
        seen.Count(stored[number], store->Get(KeyName(number), now), ValueOf(number), now);
      }
    }
    (void)MaintainAll(*store, now);

    const ChainCounters chain = store->ChainEvents();
    const SlabUsage left = store->Usage().slabs;
    MESSAGE("filled: in the chain "
            << filled.chain_keys << ", in the front " << filled.front_items << ", filters "
            << filled.filters << "; steps " << steps << "; due " << seen.due << ", missing "
            << seen.missing << ", wrong " << seen.wrong << "; last quarter " << seen.waning
            << ", gone early " << seen.early << "; past " << seen.past << ", late " << seen.late
            << ", false positives " << seen.false_positives << "; filters expired "
            << chain.filters_expired << ", dropped " << chain.filters_dropped << ", joins "
            << chain.joins << ", compressions " << chain.compressions << ", left " << left.filters);
    // Nothing was evicted or dropped: that would be another reason for a miss.
    CHECK(store->Counters().evicted == 0);
    CHECK(chain.dropped_keys == 0);
    CHECK(filled.chain_keys > keys / 2);
    CHECK(seen.late == 0);
    CHECK(seen.misdated == 0);
    CHECK(static_cast<double>(seen.missing) <= MostEvents(kFalseNegative, seen.due, steps));
    CHECK(static_cast<double>(seen.wrong) <= MostEvents(kWrong, seen.due + seen.waning, steps));
    CHECK(static_cast<double>(seen.false_positives) <=
          MostEvents(kFalsePositive, seen.past, steps));
    CHECK(left.chain_keys == 0);
    CHECK(left.filters == 0);
  }

  TEST_CASE("twenty different TTLs cost little more memory than none") {
    KBF_FOR_EACH_ENGINE();
    const uint64_t seed = 2;
    CAPTURE(seed);
    const uint64_t keys = Soak() ? 1000000 : 200000;
    StoreConfig config;
    config.memory_bytes = (Soak() ? uint64_t{160} : uint64_t{32}) << 20;
    config.front_share = 0.02;
    // As many filters' worth of keys per slab as the store chooses by itself, about 24.
    config.num_slabs = Soak() ? 4 : 1;
    config.filter_keys = 8192;
    SteadyStream stream(config, keys, seed);
    stream.Run(2 * 86400);
    // Filters open and expire in cycles: the mean over a quarter of a day.
    constexpr unsigned kMeasurements = 8;
    Cost with;
    for (unsigned i = 0; i < kMeasurements; ++i) {
      stream.Run(86400 / 4 / kMeasurements);
      const Cost one = stream.Measure();
      with.bytes_per_key += one.bytes_per_key / kMeasurements;
      with.keys += one.keys / kMeasurements;
      with.found += one.found / kMeasurements;
    }
    const Cost without = CostWithoutTtl(config, static_cast<uint64_t>(with.keys), seed);
    const SlabUsage usage = stream.store().Usage().slabs;
    const ChainCounters chain = stream.store().ChainEvents();
    const double ratio = with.bytes_per_key / without.bytes_per_key;
    MESSAGE("chain bytes per living key: "
            << with.bytes_per_key << " with TTLs, " << without.bytes_per_key << " without, ratio "
            << ratio << "; living keys in the chain " << with.keys << ", found " << with.found
            << "; now filters " << usage.filters << ", keys " << usage.chain_keys << ", cells "
            << usage.cells_bytes << ", locator " << usage.locator_bytes << ", dictionary "
            << usage.dictionary_bytes << ", other " << usage.other_bytes << ", front items "
            << usage.front_items << "; filters added " << chain.filters_added << ", expired "
            << chain.filters_expired << ", dropped " << chain.filters_dropped << ", joins "
            << chain.joins << ", compressions " << chain.compressions);
    CHECK(ratio <= 1.3);
    CHECK(chain.dropped_keys == 0);
    CHECK(stream.store().Counters().evicted == 0);
  }
}

}  // namespace
}  // namespace kbf
