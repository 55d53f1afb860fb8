// The public Store: that it hands everything on to the engine behind it. The engine has tests of
// its own (tests/storage/store_*_test.cc).
#include <doctest/doctest.h>
#include <kbf/store.h>

#include <string>

namespace kbf {
namespace {

Store MakeStore(const StoreOptions& options) { return Store::Create(options).value(); }

TEST_SUITE("storage") {
  TEST_CASE("the public store keeps values until they expire, are deleted or cleared") {
    Store store = MakeStore({.memory_bytes = 16 << 20, .seed = 1});
    CHECK_FALSE(store.Get("key", 100));
    REQUIRE(store.Put("key", "value", 100) == Status::kOk);
    CHECK(store.Get("key", 100) == "value");
    CHECK(store.Add("key", "other", 100) == Status::kExists);
    CHECK(store.Add("new", "", 100) == Status::kOk);
    CHECK(store.Get("new", 100) == "");
    CHECK(store.Delete("key", 101) == Status::kOk);
    CHECK(store.Delete("key", 101) == Status::kNotFound);
    CHECK_FALSE(store.Get("key", 101));

    REQUIRE(store.Put("short", "value", 200, 10) == Status::kOk);
    CHECK(store.Get("short", 209) == "value");
    CHECK_FALSE(store.Get("short", 210));
    // The expiry is bounded, not wrapped round to the past.
    REQUIRE(store.Put("long", "value", 220, UINT32_MAX) == Status::kOk);
    CHECK(store.Get("long", 221) == "value");

    CHECK(store.Clear(300) == Status::kOk);
    CHECK_FALSE(store.Get("long", 301));
    CHECK_FALSE(store.Get("new", 301));
    const StoreStats stats = store.Stats();
    CHECK(stats.hits == 4);
    CHECK(stats.misses == 5);
    CHECK(stats.bytes > 0);
  }

  TEST_CASE("the public store refuses bad keys, times and sizes") {
    Store store = MakeStore({.memory_bytes = 16 << 20, .item_bytes_max = 2048, .seed = 2});
    for (const std::string& key : {std::string(), std::string(Store::kKeyBytesMax + 1, 'k')}) {
      CHECK(store.Put(key, "v", 100) == Status::kBadArgument);
      CHECK(store.Add(key, "v", 100) == Status::kBadArgument);
      CHECK(store.Delete(key, 100) == Status::kBadArgument);
      CHECK_FALSE(store.Get(key, 100));
    }
    CHECK(store.Put("key", "v", 1) == Status::kBadArgument);
    CHECK(store.Delete("key", 0) == Status::kBadArgument);
    CHECK(store.Clear(1) == Status::kBadArgument);
    CHECK_FALSE(store.Get("key", 1));
    CHECK(store.Maintain(10, 1) == 0);
    REQUIRE(store.Put("key", "v", 100) == Status::kOk);
    CHECK(store.Put("key", std::string(3000, 'v'), 100) == Status::kTooLarge);
    CHECK_FALSE(store.Get("key", 100));
  }

  TEST_CASE("the public store says what is wrong with its options") {
    for (const StoreOptions& options :
         {StoreOptions{.memory_bytes = 1000}, StoreOptions{.false_negative = 0},
          StoreOptions{.exact_share = 2}, StoreOptions{.item_bytes_max = 10}}) {
      const Result<Store> made = Store::Create(options);
      CHECK_FALSE(made.ok());
      CHECK(made.status() == Status::kBadArgument);
      CHECK(made.message().size() > 10);
    }
  }

  TEST_CASE("the public store holds more keys than fit exactly, within its memory and budgets") {
    constexpr uint64_t kKeys = 200000;
    Store store = MakeStore({.memory_bytes = 16 << 20, .seed = 3});
    for (uint64_t i = 0; i < kKeys; ++i) {
      REQUIRE(store.Put("a key of some length:" + std::to_string(i),
                        "value:" + std::to_string(i % 100), 100) == Status::kOk);
      if (i % 1024 == 0) (void)store.Maintain(4, 100);
    }
    const StoreStats stats = store.Stats();
    CHECK(stats.bytes <= 16 << 20);
    CHECK(stats.approximate_keys > kKeys / 2);
    CHECK(stats.predicted_false_negative <= 2e-3);
    CHECK(stats.predicted_false_positive <= 2e-5);
    uint64_t missing = 0, wrong = 0;
    for (uint64_t i = 0; i < kKeys; ++i) {
      const auto value = store.Get("a key of some length:" + std::to_string(i), 100);
      missing += !value;
      wrong += value && *value != "value:" + std::to_string(i % 100);
    }
    CHECK(wrong == 0);
    // 2e-3 · 200,000, mean + 5σ.
    CHECK(missing <= 400 + 5 * 20);
    Store moved = std::move(store);
    CHECK(moved.Stats().exact_keys + moved.Stats().approximate_keys > kKeys / 2);
  }
}

}  // namespace
}  // namespace kbf
