// Behaviour of the store that the model test does not reach: bad input, meta commands' needs,
// memory at the edges.
#include "storage/store.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "tests/storage/store_world.h"

namespace kbf {
namespace {

std::unique_ptr<Store> MakeStore(uint64_t megabytes, double front_share, bool evictions = true) {
  StoreConfig config;
  config.memory_bytes = megabytes << 20;
  config.front_share = front_share;
  config.evictions = evictions;
  return MakeStore(config, megabytes);
}

// A store whose keys sit in the chain: `keys` of them, all with one value of `bytes`.
std::unique_ptr<Store> ChainStore(uint64_t megabytes, uint64_t keys, size_t bytes,
                                  bool evictions = true) {
  auto store = MakeStore(megabytes, 0.02, evictions);
  const std::string value(bytes, 'v');
  for (uint64_t i = 0; i < keys; ++i) {
    (void)store->Write({WriteMode::kSet, KeyName(i), value}, 100);
    if (i % 4096 == 0) (void)store->Maintain(4, 100);
  }
  return store;
}

double Used(const Store& store) {
  return static_cast<double>(store.Usage().total_bytes()) /
         static_cast<double>(store.config().memory_bytes);
}

TEST_SUITE("storage") {
  TEST_CASE("keys that are empty or too long are refused by every operation") {
    const auto store = MakeStore(16, 0.5);
    const std::string long_key(251, 'k');
    for (const std::string& key : {std::string(), long_key}) {
      CHECK(store->Write({WriteMode::kSet, key, "v"}, 100).status == StoreStatus::kBadKey);
      CHECK_FALSE(store->Get(key, 100).hit);
      CHECK(store->Delete(key, 100) == StoreStatus::kBadKey);
      ArithmeticRequest request;
      request.key = key;
      CHECK(store->Arithmetic(request, 100).status == StoreStatus::kBadKey);
      const std::string_view keys[] = {"a", key, "b"};
      Reading readings[3];
      store->GetMany(keys, 100, readings);
      CHECK_FALSE(readings[1].hit);
    }
    CHECK(store->Write({WriteMode::kSet, std::string(250, 'k'), "v"}, 100).status ==
          StoreStatus::kOk);
    CHECK(store->Get(std::string(250, 'k'), 100).value == "v");
  }

  TEST_CASE("a batch of writes is the same as the writes one by one, CAS numbers included") {
    const auto one = MakeStore(16, 0.5);
    const auto many = MakeStore(16, 0.5);
    const std::string long_key(251, 'k');
    // More than a batch; keys come again within it, and some modes fail.
    std::vector<std::string> keys;
    std::vector<WriteRequest> requests;
    for (unsigned i = 0; i < 100; ++i) keys.push_back(i == 50 ? long_key : KeyName(i * i % 37));
    for (unsigned i = 0; i < 100; ++i) {
      WriteRequest request{static_cast<WriteMode>(i % 6), keys[i], "value"};
      request.cas = i % 5;
      requests.push_back(request);
    }
    std::vector<WriteResult> results(requests.size());
    many->WriteMany(requests, 100, results.data());
    for (unsigned i = 0; i < requests.size(); ++i) {
      CAPTURE(i);
      const WriteResult expected = one->Write(requests[i], 100);
      CHECK(results[i].status == expected.status);
      CHECK(results[i].cas == expected.cas);
    }
    CHECK(results[50].status == StoreStatus::kBadKey);
    for (const std::string& key : keys)
      CHECK(one->Get(key, 101).value == many->Get(key, 101).value);
  }

  TEST_CASE("prefetching any keys changes nothing") {
    const auto store = ChainStore(16, 100'000, 10);
    std::vector<std::string> names = {"", std::string(251, 'k'), "absent"};
    for (uint64_t i = 0; i < 100'000; i += 997) names.push_back(KeyName(i));
    const std::vector<std::string_view> keys(names.begin(), names.end());
    REQUIRE(keys.size() > 3 * 32);
    const StoreUsage usage = store->Usage();
    const SlabCounters counters = store->Counters();
    store->Prefetch(keys, true);
    store->Prefetch(keys, false);
    store->Prefetch({}, true);
    CHECK(store->Usage().total_bytes() == usage.total_bytes());
    CHECK(store->Counters().misses == counters.misses);
    CHECK(store->Counters().front_hits == counters.front_hits);
    CHECK(store->Counters().chain_hits == counters.chain_hits);
    CHECK(store->Get(KeyName(0), 100).value == std::string(10, 'v'));
  }

  TEST_CASE("nothing becomes approximate while all takes less than the exact share") {
    KBF_FOR_EACH_ENGINE();
    StoreConfig config;
    config.memory_bytes = 32 << 20;
    config.exact_share = 0.5;
    config.front_share = 0.02;
    const auto store = MakeStore(config, 32);
    uint64_t keys = 0;
    const auto fill_to = [&](double part) {
      while (Used(*store) < part) {
        (void)store->Write({WriteMode::kSet, KeyName(keys++), std::string(100, 'v')}, 100);
      }
    };
    fill_to(0.4);
    CHECK(store->Usage().slabs.chain_keys == 0);
    CHECK(store->Usage().slabs.front_items == keys);
    // Then the chain grows, and the front shrinks by what the chain takes.
    std::vector<uint64_t> front_bytes;
    for (const uint64_t more : {uint64_t{200000}, uint64_t{400000}}) {
      for (; keys < more; ++keys) {
        (void)store->Write({WriteMode::kSet, KeyName(keys), std::string(100, 'v')}, 100);
      }
      const SlabUsage usage = store->Usage().slabs;
      CHECK(usage.chain_keys > keys / 2);
      CHECK(static_cast<double>(usage.total_bytes()) < 0.55 * (32 << 20));
      front_bytes.push_back(usage.front_bytes);
    }
    CHECK(front_bytes[1] < front_bytes[0]);
  }

  TEST_CASE("a refreshed value is not written to the chain again, and a changed one is") {
    KBF_FOR_EACH_ENGINE();
    constexpr uint64_t kKeys = 60000;
    const auto store = ChainStore(16, kKeys, 100);
    REQUIRE(store->ChainEvents().inserted > kKeys * 9 / 10);
    const auto set_all = [&](char c) {
      for (uint64_t i = 0; i < kKeys; ++i) {
        (void)store->Write({WriteMode::kSet, KeyName(i), std::string(100, c)}, 100);
      }
    };
    // The value's block has grown while its keys came in: the first time, those with the smaller
    // block are written with the larger one.
    set_all('v');
    const uint64_t before = store->ChainEvents().inserted;
    set_all('v');
    // The oldest quarter is written anew, so that it does not go first.
    CHECK(store->ChainEvents().inserted - before < kKeys / 2);
    CHECK(store->Counters().demoted > kKeys * 27 / 10);
    uint64_t found = 0, wrong = 0;
    const auto count = [&](char c) {
      found = wrong = 0;
      for (uint64_t i = 0; i < kKeys; ++i) {
        const Reading reading = store->Get(KeyName(i), 100);
        found += reading.hit;
        wrong += reading.hit && reading.value != std::string(100, c);
      }
    };
    count('v');
    CHECK(wrong == 0);
    CHECK(found > kKeys * 995 / 1000);
    set_all('w');
    count('w');
    CHECK(wrong == 0);
    CHECK(found > kKeys * 99 / 100);
  }

  TEST_CASE("the item limit is memcached's to the byte, and a refused set removes the old value") {
    const auto store = MakeStore(64, 0.5);
    // memcached 1.6.18 stores 1,048,516 bytes under a key of one byte, and no more.
    CHECK(store->Write({WriteMode::kSet, "k", std::string(1048516, 'x')}, 100).status ==
          StoreStatus::kOk);
    CHECK(store->Write({WriteMode::kReplace, "k", std::string(1048517, 'x')}, 100).status ==
          StoreStatus::kTooLarge);
    CHECK(store->Get("k", 100).hit);
    CHECK(store->Write({WriteMode::kAppend, "k", "y"}, 100).status == StoreStatus::kNotStored);
    CHECK(store->Write({WriteMode::kSet, "k", std::string(1048517, 'x')}, 100).status ==
          StoreStatus::kTooLarge);
    CHECK_FALSE(store->Get("k", 100).hit);
  }

  TEST_CASE("numbers are read as memcached reads them") {
    const auto store = MakeStore(16, 0.5);
    const auto incremented = [&](std::string_view value) {
      (void)store->Write({WriteMode::kSet, "n", value}, 100);
      ArithmeticRequest request;
      request.key = "n";
      const ArithmeticResult result = store->Arithmetic(request, 100);
      return result.status == StoreStatus::kOk
                 ? std::to_string(result.number) + "|" + std::string(store->Get("n", 100).value)
                 : std::string("not a number");
    };
    CHECK(incremented("5") == "6|6");
    CHECK(incremented("+5") == "6|6 ");
    CHECK(incremented(" 5") == "6|6 ");
    CHECK(incremented("5 x") == "6|6  ");
    CHECK(incremented("9") == "10|10");
    CHECK(incremented("18446744073709551615") == "0|0                   ");
    CHECK(incremented("5x") == "not a number");
    CHECK(incremented("-5") == "not a number");
    CHECK(incremented("") == "not a number");
    CHECK(incremented("99999999999999999999999") == "not a number");
  }

  TEST_CASE("a miss can make an empty item, and one client is told to fill it") {
    const auto store = MakeStore(16, 0.5);
    ReadOptions vivify;
    vivify.vivify_expires = 130;
    const Reading first = store->Get("k", vivify, 100);
    CHECK((first.hit && first.created && first.win && first.value.empty()));
    const Reading second = store->Get("k", vivify, 101);
    CHECK((second.hit && !second.created && !second.win && second.win_sent));
    CHECK_FALSE(store->Get("k", 130).hit);
    // About to expire: again one client is told.
    (void)store->Write({WriteMode::kSet, "r", "v", 0, 200}, 100);
    ReadOptions recache;
    recache.recache_before = 200;
    recache.claim_win = true;
    CHECK_FALSE(store->Get("r", recache, 150).win);
    recache.recache_before = 201;
    CHECK(store->Get("r", recache, 180).win);
    CHECK(store->Get("r", recache, 181).win_sent);
    // What remains counts after the same read has changed it, or before.
    recache.touch = true;
    recache.expires = 1000;
    (void)store->Write({WriteMode::kSet, "t", "v", 0, 200}, 100);
    (void)store->Write({WriteMode::kSet, "u", "v", 0, 200}, 100);
    CHECK_FALSE(store->Get("u", recache, 180).win);
    recache.recache_first = true;
    const Reading touched = store->Get("t", recache, 180);
    CHECK((touched.win && touched.expires_before == 200 && touched.expires == 1000));
    CHECK(store->Get("t", recache, 181).win_sent);
    // A touch to the past is the shortest life.
    (void)store->Write({WriteMode::kSet, "p", "v", 0, 1000}, 100);
    recache.recache_first = false;
    recache.expires = kExpiredAlways;
    CHECK(store->Get("p", recache, 180).win);
    CHECK_FALSE(store->Get("p", 180).hit);
    (void)store->Write({WriteMode::kSet, "n", "v"}, 100);
    recache.touch = false;
    CHECK_FALSE(store->Get("n", recache, 180).win);
  }

  TEST_CASE("a delete can leave the item stale, and an older cas stores as stale") {
    const auto store = MakeStore(16, 0.5);
    const uint64_t cas = store->Write({WriteMode::kSet, "k", "old"}, 100).cas;
    DeleteOptions stale;
    stale.mark_stale = true;
    stale.expires = 160;
    CHECK(store->Delete("k", stale, 100) == StoreStatus::kOk);
    // A client that cannot be told to recache is not told.
    const Reading plain = store->Get("k", 101);
    CHECK((plain.hit && plain.stale && !plain.win));
    ReadOptions meta;
    meta.claim_win = true;
    const Reading first = store->Get("k", meta, 101);
    CHECK((first.hit && first.stale && first.win && first.expires == 160));
    CHECK(store->Get("k", meta, 101).win_sent);
    WriteRequest request{WriteMode::kCas, "k", "older"};
    request.cas = cas;
    CHECK(store->Write(request, 102).status == StoreStatus::kExists);
    request.invalidate = true;
    CHECK(store->Write(request, 102).status == StoreStatus::kOk);
    const Reading stored = store->Get("k", 103);
    CHECK((stored.value == "older" && stored.stale && stored.expires == 160));
  }

  TEST_CASE("replace with another cas is refused, also for a key in the chain") {
    KBF_FOR_EACH_ENGINE();
    const auto store = ChainStore(16, 60000, 50);
    CHECK(store->Usage().slabs.chain_keys > 30000);
    uint64_t stored = 0;
    for (uint64_t i = 0; i < 1000; ++i) {
      WriteRequest request{WriteMode::kReplace, "", "other"};
      const std::string key = KeyName(i);
      request.key = key;
      request.cas = 77;
      stored += store->Write(request, 100).status == StoreStatus::kOk;
    }
    CHECK(stored == 0);
  }

  TEST_CASE("a thread whose clock is a tick behind sees nothing that was deleted or has expired") {
    KBF_FOR_EACH_ENGINE();
    const auto store = MakeStore(16, 0.02);
    for (uint64_t i = 0; i < 60000; ++i)
      (void)store->Write({WriteMode::kSet, KeyName(i), "v", 0, 1000}, 100);
    CHECK(store->Usage().slabs.chain_keys > 30000);
    uint64_t late = 0;
    for (uint64_t i = 0; i < 1000; ++i) {
      (void)store->Delete(KeyName(i), 1000);
      late += store->Get(KeyName(i), 999).hit;
    }
    CHECK(late == 0);
  }

  TEST_CASE("operations that fail after moving a key to the front keep the memory limit") {
    KBF_FOR_EACH_ENGINE();
    const auto each = [](auto operation) {
      const auto store = ChainStore(24, 150000, 1000);
      CHECK(store->Usage().slabs.chain_keys > 100000);
      for (uint64_t i = 0; i < 150000; ++i) operation(*store, KeyName(i));
      CHECK(Used(*store) <= 1.01);
    };
    each([](Store& store, const std::string& key) {
      WriteRequest request{WriteMode::kCas, key, "other"};
      request.cas = kChainCas;
      (void)store.Write(request, 100);
    });
    each([](Store& store, const std::string& key) {
      ArithmeticRequest request;
      request.key = key;
      (void)store.Arithmetic(request, 100);
    });
    each([](Store& store, const std::string& key) {
      DeleteOptions options;
      options.cas = 5;
      (void)store.Delete(key, options, 100);
    });
    each([](Store& store, const std::string& key) {
      DeleteOptions options;
      options.mark_stale = true;
      (void)store.Delete(key, options, 100);
    });
  }

  TEST_CASE("large values that repeat get a chain too") {
    KBF_FOR_EACH_ENGINE();
    // A front full of them must make room for the first filter.
    for (const size_t bytes : {1000u, 5000u, 20000u}) {
      CAPTURE(bytes);
      const auto store = ChainStore(32, 100000, bytes);
      uint64_t hits = 0;
      for (uint64_t i = 0; i < 100000; ++i) hits += store->Get(KeyName(i), 100).hit;
      CHECK(hits > 90000);
      CHECK(Used(*store) <= 1.01);
    }
  }

  TEST_CASE("without evictions no operation exceeds the memory limit") {
    KBF_FOR_EACH_ENGINE();
    const auto each = [](auto operation) {
      const auto store = ChainStore(8, 200000, 40, false);
      for (uint64_t i = 0; i < 100000; ++i) operation(*store, KeyName(i), i);
      CHECK(Used(*store) <= 1.02);
      CHECK(store->Counters().evicted == 0);
      CHECK(store->ChainEvents().dropped_keys == 0);
    };
    each([](Store& store, const std::string& key, uint64_t) {
      (void)store.Write({WriteMode::kSet, key, std::string(5000, 'z')}, 100);
    });
    each([](Store& store, const std::string& key, uint64_t) { (void)store.Get(key, 100); });
    each([](Store& store, const std::string& key, uint64_t) {
      ReadOptions touch;
      touch.touch = true;
      touch.expires = 10000;
      (void)store.Get(key, touch, 100);
    });
    each([](Store& store, const std::string& key, uint64_t) {
      (void)store.Write({WriteMode::kAppend, key, std::string(2000, 'a')}, 100);
    });
    each([](Store& store, const std::string&, uint64_t i) {
      const std::string key = "new:" + std::to_string(i);
      ArithmeticRequest request;
      request.key = key;
      request.initial = i;
      (void)store.Arithmetic(request, 100);
    });
    each([](Store& store, const std::string&, uint64_t i) {
      ReadOptions vivify;
      vivify.vivify_expires = 0;
      (void)store.Get("new:" + std::to_string(i), vivify, 100);
    });
  }

  TEST_CASE(
      "after a flush nothing that was stored before is found, many in a row and delayed ones too") {
    KBF_FOR_EACH_ENGINE();
    const auto store = MakeStore(16, 0.02);
    for (uint32_t round = 0; round < 12; ++round) {
      const uint32_t now = 100 + 10 * round;
      for (uint64_t i = 0; i < 20000; ++i)
        (void)store->Write({WriteMode::kSet, KeyName(i), "v"}, now);
      store->FlushAll(round % 2 == 0 ? now : now + 5, now);
      uint64_t hits = 0;
      for (uint64_t i = 0; i < 20000; ++i)
        hits += store->Get(KeyName(i), now + (round % 2 == 0 ? 0 : 4)).hit;
      if (round % 2 == 0) {
        CHECK(hits == 0);
      } else {
        CHECK(hits > 19000);
      }
      hits = 0;
      for (uint64_t i = 0; i < 20000; ++i) hits += store->Get(KeyName(i), now + 5).hit;
      CHECK(hits == 0);
    }
    CHECK(store->Counters().flushed > 0);
  }

  TEST_CASE("the store measures its own errors, and knows which keys have left") {
    KBF_FOR_EACH_ENGINE();
    const auto store = ChainStore(16, 200000, 30);
    for (int i = 0; i < 50; ++i) store->MeasureErrors(64, 2000, 100);
    const StoreErrors errors = store->Errors();
    CHECK(errors.measured.stored_asked > 1000);
    CHECK(static_cast<double>(errors.measured.false_negatives) <=
          5e-3 * static_cast<double>(errors.measured.stored_asked) + 5);
    CHECK(errors.measured.wrong == 0);
    CHECK(errors.measured.absent_probes >= 100000);
    CHECK(errors.measured.false_positives <= 10);
    if (EngineOfTest::is_packed()) {
      CHECK(errors.measured.false_negatives == 0);
      CHECK(errors.predicted.false_negative == 0);
    } else {
      CHECK(errors.predicted.false_negative > 1e-4);
    }
    CHECK(errors.predicted.false_negative < 2e-3);
    // Deleted keys are no false negatives.
    for (uint64_t i = 0; i < 200000; ++i) (void)store->Delete(KeyName(i), 100);
    const uint64_t before = store->Errors().measured.false_negatives;
    for (int i = 0; i < 50; ++i) store->MeasureErrors(64, 0, 100);
    CHECK(store->Errors().measured.false_negatives <= before + 5);
  }
}

}  // namespace
}  // namespace kbf
