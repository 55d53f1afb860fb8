#include "storage/image/store_image.h"

#include <doctest/doctest.h>

#include <cstdlib>
#include <map>
#include <random>
#include <string>
#include <unordered_map>

#include "tests/storage/image/image_bytes.h"
#include "tests/storage/store_world.h"

namespace kbf {
namespace {

constexpr uint32_t kStart = 1000;

StoreConfig SmallConfig() {
  StoreConfig config;
  config.memory_bytes = uint64_t{4} << 20;
  config.num_slabs = 2;
  config.item_bytes_max = 64 << 10;
  return config;
}

// So much memory that nothing is evicted, and no read moves a key to the front.
StoreConfig AmpleConfig() {
  StoreConfig config = SmallConfig();
  config.memory_bytes = uint64_t{24} << 20;
  config.filter_keys = 8192;
  return config;
}

MemorySink Saved(Store& store, uint32_t now, ImageMark mark = ImageMark::kCurrent) {
  MemorySink sink;
  ImageMoment moment;
  moment.store_s = now;
  moment.unix_ms = 1234567;
  StoreSaver saver(store, sink, mark, moment);
  while (saver.Step(now)) {
  }
  REQUIRE(saver.ok());
  return sink;
}

struct LoadOptions {
  StoreConfig config = SmallConfig();
  bool accept_outdated = false;
  uint32_t seconds = 0;  // since the image was made
};

StoreLoad Loaded(std::span<const std::byte> bytes, const LoadOptions& options = {}) {
  MemorySource source(bytes);
  return LoadStore(
      source, options.config, options.accept_outdated,
      [&](const ImageMoment& moment) { return std::optional(moment.store_s + options.seconds); },
      [] {});
}

// A store under churn, and what its keys must answer.
class World {
 public:
  explicit World(uint64_t seed, const StoreConfig& config = SmallConfig())
      : random_(seed), store_(MakeStore(config, seed)) {}

  struct Entry {
    uint64_t value = 0;
    uint32_t expires = 0;
  };

  // Sets, deletes, overwrites and touches; some keys expire.
  void Churn(uint64_t operations) {
    for (uint64_t i = 0; i < operations; ++i) {
      if (i % 64 == 0) now_ += i % 256 == 0;
      const uint64_t number = random_() % kKeys;
      const std::string key = KeyName(number);
      const uint64_t kind = random_() % 16;
      if (kind == 0) {
        (void)store_->Delete(key, now_);
        model_.erase(number);
      } else if (kind == 1) {
        const uint32_t expires = now_ + 100 + static_cast<uint32_t>(random_() % 5000);
        if (store_->Get(key, {.touch = true, .expires = expires}, now_).hit) {
          model_[number].expires = expires;
        }
      } else {
        Set(number, kind);
      }
      if (i % 16 == 0) store_->Maintain(1, now_);
    }
  }

  void Set(uint64_t number, uint64_t kind) {
    // One value in 64 is its key's alone.
    const uint64_t value = random_() % 64 == 0 ? 1000000 + random_() : random_() % 500;
    const uint32_t expires = kind < 8 ? 0 : now_ + 50 + static_cast<uint32_t>(random_() % 20000);
    const std::string text = ValueText(value);
    WriteRequest request{.mode = WriteMode::kSet, .key = {}, .value = text};
    const std::string key = KeyName(number);
    request.key = key;
    request.flags = static_cast<uint32_t>(value % 7);
    request.expires = expires;
    REQUIRE(store_->Write(request, now_).status == StoreStatus::kOk);
    model_[number] = {value, expires};
  }

  // The key has what the model says, or nothing: nothing that was replaced, deleted or expired.
  // Returns whether it has something.
  bool Check(uint64_t number, const Reading& reading) const {
    if (!reading.hit) return false;
    const auto entry = model_.find(number);
    // An absent key is found with chance 2e-5; there are no more than 2,000 of them here.
    const bool absent =
        entry == model_.end() || (entry->second.expires != 0 && entry->second.expires <= now_);
    CHECK(!absent);
    if (absent) return true;
    CHECK(reading.value == ValueText(entry->second.value));
    CHECK(reading.flags == entry->second.value % 7);
    return true;
  }

  static constexpr uint64_t kKeys = 100000;

  Store& store() { return *store_; }
  uint32_t now() const { return now_; }
  void Replace(std::unique_ptr<Store> store, uint32_t now) {
    store_ = std::move(store);
    now_ = now;
  }

 private:
  std::mt19937_64 random_;
  std::unique_ptr<Store> store_;
  std::unordered_map<uint64_t, Entry> model_;
  uint32_t now_ = kStart;
};

constexpr ReadOptions kJustLook{.bump = false};

// Every key answers alike in both.
uint64_t CompareAll(Store& one, Store& other, uint32_t now, uint64_t keys) {
  uint64_t found = 0;
  uint64_t differ = 0;
  for (uint64_t i = 0; i < keys; ++i) {
    const std::string key = KeyName(i);
    const Reading a = one.Get(key, kJustLook, now);
    const Reading b = other.Get(key, kJustLook, now);
    found += a.hit;
    differ += a.hit != b.hit || a.value != b.value || a.flags != b.flags ||
              a.expires != b.expires || a.cas != b.cas || a.fetched != b.fetched;
  }
  CHECK(differ == 0);
  return found;
}

}  // namespace

TEST_SUITE("image") {
  TEST_CASE("store image: every key answers as before, and goes on so under churn") {
    World world(5, AmpleConfig());
    for (int round = 0; round < 3; ++round) {
      CAPTURE(round);
      world.Churn(Soak() ? 600000 : 150000);
      const MemorySink image = Saved(world.store(), world.now());
      StoreLoad load = Loaded(image.bytes, {.config = AmpleConfig()});
      REQUIRE_MESSAGE(load.store != nullptr, load.error);
      CHECK(load.bytes == image.bytes.size());
      const SlabUsage before = world.store().Usage().slabs;
      const SlabUsage after = load.store->Usage().slabs;
      // Less what items that had expired in the front were hiding.
      CHECK(after.chain_keys <= before.chain_keys);
      CHECK(after.chain_keys > before.chain_keys - before.chain_keys / 100);
      CHECK(before.filters == after.filters);
      CHECK(before.tombstones == after.tombstones);
      CHECK(before.values == after.values);
      CHECK(before.codes == after.codes);
      CHECK(before.cells_bytes == after.cells_bytes);
      CHECK(load.counts.items == after.front_items);
      CHECK(load.counts.keys == after.chain_keys);
      CHECK(after.filters > 4);
      CHECK(after.tombstones > 0);
      CHECK(load.store->Errors().predicted.false_negative ==
            doctest::Approx(world.store().Errors().predicted.false_negative));
      CHECK(load.store->Errors().predicted.false_positive ==
            doctest::Approx(world.store().Errors().predicted.false_positive));

      uint64_t hits = 0;
      for (uint64_t i = 0; i < World::kKeys; ++i) {
        hits += world.Check(i, load.store->Get(KeyName(i), kJustLook, world.now()));
      }
      CHECK(hits > 20000);
      CHECK(CompareAll(world.store(), *load.store, world.now(), World::kKeys) == hits);
      world.Replace(std::move(load.store), world.now());
    }
  }

  TEST_CASE("store image: a packed store comes back as well, and goes on under churn") {
    EngineOfTest engine;
    engine.Use(EngineKind::kPacked);
    StoreConfig config = AmpleConfig();
    config.engine = EngineKind::kPacked;
    World world(21, config);
    for (int round = 0; round < 2; ++round) {
      CAPTURE(round);
      world.Churn(Soak() ? 600000 : 150000);
      const MemorySink image = Saved(world.store(), world.now());
      StoreLoad load = Loaded(image.bytes, {.config = config});
      REQUIRE_MESSAGE(load.store != nullptr, load.error);
      CHECK(load.counts.keys > 40000);
      CHECK(CompareAll(world.store(), *load.store, world.now(), World::kKeys) > 50000);
      uint64_t hits = 0;
      for (uint64_t i = 0; i < World::kKeys; ++i) {
        hits += world.Check(i, load.store->Get(KeyName(i), kJustLook, world.now()));
      }
      CHECK(hits > 50000);
      MaintainAll(*load.store, world.now(), 10000);
      world.Replace(std::move(load.store), world.now());
    }
  }

  TEST_CASE("store image: a packed store is not loaded by the other engine, nor when damaged") {
    EngineOfTest engine;
    engine.Use(EngineKind::kPacked);
    StoreConfig config = SmallConfig();
    config.engine = EngineKind::kPacked;
    World world(22, config);
    world.Churn(40000);
    const MemorySink image = Saved(world.store(), world.now());
    CHECK(Loaded(image.bytes).error == "it is of another configuration");
    std::mt19937_64 random(23);
    int refused = 0;
    const int rounds = Soak() ? 5000 : 100;
    for (int i = 0; i < rounds; ++i) {
      CAPTURE(i);
      std::vector<std::byte> bytes = image.bytes;
      const size_t at = kImageHeadBytes + random() % (bytes.size() - kImageHeadBytes);
      bytes[at] = static_cast<std::byte>(random());
      const bool same = bytes[at] == image.bytes[at];
      CHECK((Loaded(bytes, {.config = config}).store != nullptr) == same);
      FixImageSums(&bytes);
      const StoreLoad load = Loaded(bytes, {.config = config});
      refused += load.store == nullptr;
      if (load.store == nullptr) continue;
      for (uint64_t k = 0; k < 200; ++k) {
        (void)load.store->Get(KeyName(random() % World::kKeys), kJustLook, world.now());
        (void)load.store->Write({.key = KeyName(k), .value = ValueOf(k)}, world.now());
      }
      MaintainAll(*load.store, world.now() + 100, 200);
    }
    CHECK(refused < rounds);
  }

  TEST_CASE("store image: an image of a loaded store is as long as the one before") {
    World world(6);
    world.Churn(100000);
    // The first loading frees codes that no filter holds.
    const StoreLoad first = Loaded(Saved(world.store(), world.now()).bytes);
    REQUIRE(first.store != nullptr);
    const MemorySink image = Saved(*first.store, world.now());
    const StoreLoad second = Loaded(image.bytes);
    REQUIRE(second.store != nullptr);
    CHECK(Saved(*second.store, world.now()).bytes.size() == image.bytes.size());
  }

  TEST_CASE("store image: nothing is found at or after its expiry, and no flush is forgotten") {
    auto store = MakeStore(SmallConfig(), 7);
    for (uint64_t i = 0; i < 20000; ++i) {
      (void)store->Write({.key = KeyName(i), .value = ValueOf(i), .expires = kStart + 500}, kStart);
    }
    REQUIRE(store->Usage().slabs.chain_keys > 5000);
    const auto found = [&](Store& in, uint32_t now) {
      uint64_t hits = 0;
      for (uint64_t i = 0; i < 20000; ++i) hits += in.Get(KeyName(i), kJustLook, now).hit;
      return hits;
    };
    SUBCASE("expired meanwhile") {
      const MemorySink image = Saved(*store, kStart);
      const StoreLoad load = Loaded(image.bytes, {.seconds = 500});
      REQUIRE(load.store != nullptr);
      CHECK(found(*load.store, kStart + 500) == 0);
    }
    SUBCASE("expires later") {
      const MemorySink image = Saved(*store, kStart);
      const StoreLoad load = Loaded(image.bytes, {.seconds = 10});
      REQUIRE(load.store != nullptr);
      CHECK(found(*load.store, kStart + 10) > 10000);
      CHECK(found(*load.store, kStart + 500) == 0);
    }
    SUBCASE("flushed") {
      store->FlushAll(kStart, kStart);
      const MemorySink image = Saved(*store, kStart);
      const StoreLoad load = Loaded(image.bytes);
      REQUIRE(load.store != nullptr);
      CHECK(load.counts.items == 0);
      CHECK(found(*load.store, kStart) == 0);
    }
    SUBCASE("to be flushed") {
      store->FlushAll(kStart + 20, kStart);
      const MemorySink image = Saved(*store, kStart);
      const StoreLoad load = Loaded(image.bytes, {.seconds = 10});
      REQUIRE(load.store != nullptr);
      CHECK(found(*load.store, kStart + 10) > 10000);
      CHECK(found(*load.store, kStart + 20) == 0);
    }
  }

  TEST_CASE("store image: CAS numbers and the marks of meta commands stay") {
    auto store = MakeStore(SmallConfig(), 8);
    const WriteResult plain = store->Write({.key = "plain", .value = "1"}, kStart);
    (void)store->Write({.key = "chosen", .value = "2", .new_cas = 77}, kStart);
    (void)store->Write({.key = "b64", .value = "3", .flags = 0xdeadbeef, .base64_key = true},
                       kStart);
    (void)store->Write({.key = "stale", .value = "4"}, kStart);
    (void)store->Delete("stale", {.mark_stale = true}, kStart);
    (void)store->Write({.key = "empty", .value = ""}, kStart);
    const std::string large(60000, 'x');
    (void)store->Write({.key = std::string(250, 'k'), .value = large}, kStart);
    const auto before = store->Write({.key = "last", .value = "5"}, kStart).cas;

    const StoreLoad load = Loaded(Saved(*store, kStart).bytes);
    REQUIRE(load.store != nullptr);
    CHECK(load.counts.items == 7);
    CompareAll(*store, *load.store, kStart, 0);
    const auto get = [&](std::string_view key) { return load.store->Get(key, kJustLook, kStart); };
    CHECK(get("plain").cas == plain.cas);
    CHECK(get("plain").value == "1");
    CHECK(get("chosen").cas == 77);
    CHECK(get("b64").flags == 0xdeadbeef);
    CHECK(get("b64").base64_key == true);
    CHECK(get("stale").stale);
    CHECK(get("empty").hit);
    CHECK(get(std::string(250, 'k')).value == large);
    CHECK(load.store->Write({.key = "next", .value = "6"}, kStart).cas == before + 1);
  }

  TEST_CASE("store image: a smaller memory limit evicts, a larger one keeps all") {
    World world(9, AmpleConfig());
    world.Churn(150000);
    const MemorySink image = Saved(world.store(), world.now());
    LoadOptions options;
    SUBCASE("smaller") {
      options.config.memory_bytes = uint64_t{3} << 20;
      const StoreLoad load = Loaded(image.bytes, options);
      REQUIRE_MESSAGE(load.store != nullptr, load.error);
      CHECK(load.store->Usage().total_bytes() <= options.config.memory_bytes);
      CHECK(load.store->Usage().total_bytes() < world.store().Usage().total_bytes());
      uint64_t hits = 0;
      for (uint64_t i = 0; i < World::kKeys; ++i) {
        hits += world.Check(i, load.store->Get(KeyName(i), kJustLook, world.now()));
      }
      CHECK(hits > 2000);
    }
    SUBCASE("larger, and with other slabs asked for") {
      options.config.memory_bytes = uint64_t{64} << 20;
      options.config.num_slabs = 8;
      const StoreLoad load = Loaded(image.bytes, options);
      REQUIRE_MESSAGE(load.store != nullptr, load.error);
      CHECK(load.store->num_slabs() == 2);
      CHECK(CompareAll(world.store(), *load.store, world.now(), World::kKeys) > 20000);
    }
    SUBCASE("too small for that many slabs") {
      options.config.memory_bytes = uint64_t{4} << 20;
      auto many = SmallConfig();
      many.num_slabs = 64;
      many.memory_bytes = uint64_t{64} << 20;
      const auto store = MakeStore(many, 3);
      const StoreLoad load = Loaded(Saved(*store, kStart).bytes, options);
      CHECK(load.store == nullptr);
      CHECK(load.error.find("does not fit") != std::string::npos);
    }
  }

  TEST_CASE("store image: another plan, an outdated image and an unknown time are refused") {
    auto store = MakeStore(SmallConfig(), 10);
    const MemorySink image = Saved(*store, kStart);
    SUBCASE("another plan") {
      StoreConfig other = SmallConfig();
      other.false_positive = 1e-7;
      const auto planned = MakeStore(other, 1);
      REQUIRE(ImageDigestOf(planned->engine()) != ImageDigestOf(store->engine()));
      const StoreLoad load = Loaded(image.bytes, {.config = other});
      CHECK(load.store == nullptr);
      CHECK(load.error == "it is of another configuration");
    }
    SUBCASE("outdated") {
      const MemorySink outdated = Saved(*store, kStart, ImageMark::kOutdated);
      CHECK(Loaded(outdated.bytes).store == nullptr);
      const StoreLoad load = Loaded(outdated.bytes, {.accept_outdated = true});
      REQUIRE(load.store != nullptr);
      // Numbers that were given after the image was made are not given again.
      CHECK(load.store->Write({.key = "k", .value = "v"}, kStart).cas > uint64_t{1} << 32);
    }
    SUBCASE("no time") {
      MemorySource source(image.bytes);
      const StoreLoad load = LoadStore(
          source, SmallConfig(), false, [](const ImageMoment&) { return std::nullopt; }, [] {});
      CHECK(load.store == nullptr);
      CHECK(load.error.find("clock") != std::string::npos);
    }
    SUBCASE("bytes behind the end") {
      std::vector<std::byte> longer = image.bytes;
      longer.push_back(std::byte{0});
      CHECK(Loaded(longer).store == nullptr);
    }
  }

  TEST_CASE("store image: cut off at every block's edge, or with a flipped bit, it is refused") {
    World world(11);
    world.Churn(60000);
    const MemorySink image = Saved(world.store(), world.now());
    for (const size_t edge : image.edges) {
      if (edge == image.bytes.size()) continue;
      CAPTURE(edge);
      CHECK(Loaded(std::span(image.bytes).first(edge)).store == nullptr);
    }
    std::mt19937_64 random(12);
    std::vector<std::byte> bytes = image.bytes;
    for (int i = 0; i < (Soak() ? 10000 : 200); ++i) {
      const size_t bit = random() % (8 * bytes.size());
      CAPTURE(bit);
      bytes[bit / 8] ^= std::byte{1} << (bit % 8);
      CHECK(Loaded(bytes).store == nullptr);
      bytes[bit / 8] ^= std::byte{1} << (bit % 8);
    }
  }

  TEST_CASE("store image: with wrong contents under right sums it is refused, or works") {
    World world(13);
    world.Churn(40000);
    const MemorySink image = Saved(world.store(), world.now());
    std::mt19937_64 random(14);
    int refused = 0;
    const int rounds = Soak() ? 5000 : 100;
    for (int i = 0; i < rounds; ++i) {
      CAPTURE(i);
      std::vector<std::byte> bytes = image.bytes;
      for (int j = 0; j < 4; ++j) {
        bytes[kImageHeadBytes + random() % (bytes.size() - kImageHeadBytes)] =
            static_cast<std::byte>(random());
      }
      FixImageSums(&bytes);
      const StoreLoad load = Loaded(bytes);
      refused += load.store == nullptr;
      if (load.store == nullptr) continue;
      for (uint64_t k = 0; k < 200; ++k) {
        (void)load.store->Get(KeyName(random() % World::kKeys), kJustLook, world.now());
        (void)load.store->Write({.key = KeyName(k), .value = ValueOf(k)}, world.now());
      }
      MaintainAll(*load.store, world.now() + 100, 1000);
    }
    CHECK(refused > 0);
    CHECK(refused < rounds);
  }

  TEST_CASE("store image: a section of another version is refused") {
    auto store = MakeStore(SmallConfig(), 15);
    const MemorySink image = Saved(*store, kStart);
    for (size_t i = 0; i + 2 < image.edges.size(); ++i) {
      CAPTURE(i);
      std::vector<std::byte> bytes = image.bytes;
      uint16_t type = 0;
      std::memcpy(&type, bytes.data() + image.edges[i], sizeof type);
      bytes[image.edges[i] + 2] = std::byte{9};
      FixImageSums(&bytes);
      const StoreLoad load = Loaded(bytes);
      CHECK(load.store == nullptr);
      // Where one section has several blocks, they contradict each other first.
      CHECK((load.error == ReasonOf(ImageStatus::kOtherFormat) ||
             load.error == ReasonOf(ImageStatus::kImpossible)));
    }
  }

  TEST_CASE("store image: saved beside writes, every key has a value that it had meanwhile") {
    World world(16);
    world.Churn(100000);
    // Keys that the churn does not touch, in front and chain.
    const auto still = [](uint64_t i) { return "still:" + std::to_string(i); };
    for (uint64_t i = 0; i < 3000; ++i) {
      (void)world.store().Write({.key = still(i), .value = ValueOf(i)}, world.now());
    }
    uint64_t there = 0;
    for (uint64_t i = 0; i < 3000; ++i) {
      there += world.store().Get(still(i), kJustLook, world.now()).hit;
    }
    std::map<uint64_t, std::map<std::string, bool>> values;
    const auto note = [&] {
      for (uint64_t i = 0; i < World::kKeys; i += 10) {
        const Reading reading = world.store().Get(KeyName(i), kJustLook, world.now());
        if (reading.hit) values[i][std::string(reading.value)] = true;
      }
    };
    MemorySink sink;
    const ImageMoment moment{.store_s = world.now()};
    StoreSaver saver(world.store(), sink, ImageMark::kOutdated, moment);
    note();
    while (saver.Step(world.now())) {
      for (uint64_t i = 0; i < 20; ++i) {
        const uint64_t number = Mix64(sink.bytes.size() + i) % World::kKeys / 10 * 10;
        world.Set(number, 0);
        const Reading reading = world.store().Get(KeyName(number), kJustLook, world.now());
        if (reading.hit) values[number][std::string(reading.value)] = true;
      }
      world.store().Maintain(2, world.now());
    }
    REQUIRE(saver.ok());
    const StoreLoad load = Loaded(sink.bytes, {.accept_outdated = true});
    REQUIRE_MESSAGE(load.store != nullptr, load.error);
    uint64_t hits = 0;
    for (uint64_t i = 0; i < World::kKeys; i += 10) {
      const Reading reading = load.store->Get(KeyName(i), kJustLook, world.now());
      if (!reading.hit) continue;
      ++hits;
      CHECK(values[i].contains(std::string(reading.value)));
    }
    CHECK(hits > 1000);
    // Filters that were dropped meanwhile, and moves between front and chain, cost some.
    uint64_t still_there = 0;
    for (uint64_t i = 0; i < 3000; ++i) {
      still_there += load.store->Get(still(i), kJustLook, world.now()).hit;
    }
    CHECK(there > 2000);
    CHECK(still_there > there / 2);
  }
}

}  // namespace kbf
