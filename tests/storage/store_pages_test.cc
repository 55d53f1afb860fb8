// The memory limit in resident pages, whatever is stored, deleted, expired, flushed or being sent;
// and memory that moves between slabs. `make soak` (KBF_SOAK) runs it in 64, 256 and 1,024 MB.
#include <doctest/doctest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <deque>
#include <random>
#include <string>
#include <vector>

#include "storage/shared_bytes.h"
#include "storage/store.h"
#include "tests/storage/store_world.h"

namespace kbf {
namespace {

constexpr uint64_t kMegabyte = uint64_t{1} << 20;

uint64_t ResidentBytes() {
  long pages = 0;
  if (FILE* file = std::fopen("/proc/self/statm", "r")) {
    if (std::fscanf(file, "%*d %ld", &pages) != 1) pages = 0;
    std::fclose(file);
  }
  return static_cast<uint64_t>(pages) * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

// A store, the resident memory before it, and the most that it had since.
class Watched {
 public:
  explicit Watched(uint64_t memory_bytes, unsigned num_slabs = 0) : before_(ResidentBytes()) {
    StoreConfig config;
    config.memory_bytes = memory_bytes;
    config.num_slabs = num_slabs;
    store = MakeStore(config, 1);
    REQUIRE(store != nullptr);
  }
  uint64_t Growth() const {
    const uint64_t now = ResidentBytes();
    return now - std::min(now, before_);
  }
  void Watch() { most = std::max(most, Growth()); }
  // Writes values of these sizes until so many bytes were written.
  template <class Size>
  void Write(uint64_t bytes, const char* name, uint32_t expires, Size size) {
    for (uint64_t i = 0; bytes > 0; ++i) {
      const uint64_t length = size(random);
      value.assign(length, 'v');
      value += std::to_string(random());
      const std::string key = name + std::to_string(i);
      over +=
          store->Write({WriteMode::kSet, key, value, 0, expires}, now).status != StoreStatus::kOk;
      bytes -= std::min<uint64_t>(bytes, length + key.size());
      if (i % 256 == 0) {
        Watch();
        over += store->Usage().total_bytes() > store->config().memory_bytes + kMegabyte;
        (void)store->Maintain(4, now);
      }
      written = i;
    }
    Watch();
  }

  std::unique_ptr<Store> store;
  std::mt19937_64 random{1};
  std::string value;
  uint32_t now = 100;
  uint64_t most = 0;
  uint64_t over = 0;  // writes that failed, or after which the limit was exceeded
  uint64_t written = 0;

 private:
  const uint64_t before_;
};

std::vector<uint64_t> Sizes() {
  if (!Soak()) return {12};
  return {64, 256, 1024};
}

// How far the allocator's rounding and caches may exceed the limit.
void CheckResident(const Watched& world, uint64_t limit) {
  CHECK(world.over == 0);
#ifndef KBF_NO_JEMALLOC  // a sanitizer's shadow memory is not the store's
  CHECK(world.most <= limit + (limit < 64 * kMegabyte ? 8 : 24) * kMegabyte);
#endif
}

TEST_SUITE("storage") {
  TEST_CASE(
      "the limit holds in pages when small items are deleted or expire, and larger ones come") {
    for (const uint64_t megabytes : Sizes()) {
      for (const bool expire : {false, true}) {
        CAPTURE(megabytes);
        CAPTURE(expire);
        const uint64_t limit = megabytes * kMegabyte;
        Watched world(limit);
        const uint32_t soon = expire ? 200 : 0;
        for (const uint64_t length : {10, 100, 400, 1500, 6000, 40000}) {
          const std::string name = "n" + std::to_string(length) + ":";
          world.Write(limit, name.c_str(), soon, [&](auto&) { return length; });
          if (expire) {
            world.now = 200;
            (void)MaintainAll(*world.store, world.now);
            world.now = 100;
          }
          for (uint64_t i = 0; i <= world.written; ++i) {
            if (i % 40 != 0) (void)world.store->Delete(name + std::to_string(i), world.now);
          }
          world.Watch();
        }
        CheckResident(world, limit);
      }
    }
  }

  TEST_CASE(
      "the limit holds in pages under a churn of sizes from 1 byte to 1 MB, and is returned") {
    for (const uint64_t megabytes : Sizes()) {
      CAPTURE(megabytes);
      const uint64_t limit = megabytes * kMegabyte;
      Watched world(limit);
      // Replies that are being sent, up to a quarter of the memory.
      std::deque<Reading> held;
      for (unsigned round = 0; round < 8; ++round) {
        const std::string name = "r" + std::to_string(round % 3) + ":";
        world.Write(limit / 2, name.c_str(), 0, [](std::mt19937_64& random) {
          return uint64_t{1} << random() % 20 | random() % 1000;
        });
        for (unsigned i = 0; i < 100; ++i) {
          Reading reading = world.store->Get(name + std::to_string(i), world.now);
          if (reading.value.size() > 32768) held.push_back(std::move(reading));
        }
        uint64_t bytes = 0;
        for (const Reading& reading : held) bytes += reading.value.size();
        for (; bytes > limit / 4; held.pop_front()) bytes -= held.front().value.size();
        for (const Reading& reading : held) {
          CHECK(reading.value.front() == 'v');
          CHECK(reading.value[reading.value.size() / 2] == 'v');
        }
      }
      CheckResident(world, limit);
      held.clear();
      world.store->FlushAll(world.now, world.now);
      (void)MaintainAll(*world.store, world.now);
      CHECK(world.store->Usage().slabs.front_bytes < limit / 8);
#ifndef KBF_NO_JEMALLOC
      CHECK(world.Growth() < limit / 4 + 16 * kMegabyte);
#endif
    }
  }

  TEST_CASE("after all items have expired their pages are returned without being asked for") {
    Watched world(16 * kMegabyte);
    world.Write(14 * kMegabyte, "k", 150, [](std::mt19937_64& random) { return random() % 1000; });
    CHECK(world.store->Usage().slabs.front_bytes > 10 * kMegabyte);
    world.now = 150;
    (void)MaintainAll(*world.store, world.now);
    CHECK(world.store->Usage().slabs.front_items == 0);
    CHECK(world.store->Usage().slabs.front_bytes < kMegabyte);
    CHECK(world.store->Counters().expired == world.written + 1);
  }

  TEST_CASE("an item fits wherever the whole has room, however few slabs it would fit") {
    // 32 items of 900 KB in 32 MB: a slab's part would hold two.
    Watched world(32 * kMegabyte, 16);
    constexpr uint64_t kItems = 32;
    for (uint64_t i = 0; i < kItems; ++i) {
      world.value.assign(900 << 10, static_cast<char>('a' + i % 26));
      CHECK(world.store->Write({WriteMode::kSet, KeyName(i), world.value}, 100).status ==
            StoreStatus::kOk);
    }
    uint64_t kept = 0;
    for (uint64_t i = 0; i < kItems; ++i) kept += world.store->Get(KeyName(i), 100).hit;
    CHECK(kept == kItems);
    CHECK(world.store->Counters().evicted == 0);
  }

  TEST_CASE("memory that a size of items gave up serves any other, in every slab") {
    Watched world(24 * kMegabyte, 8);
    for (const uint64_t length : {30000, 50, 3000, 200000}) {
      const std::string name = "n" + std::to_string(length) + ":";
      world.Write(48 * kMegabyte, name.c_str(), 0, [&](auto&) { return length; });
      const StoreUsage usage = world.store->Usage();
      uint64_t kept = 0;
      ReadOptions quietly;
      quietly.bump = false;
      for (uint64_t i = 0; i <= world.written; ++i) {
        kept += world.store->Get(name + std::to_string(i), quietly, 100).hit;
      }
      CAPTURE(length);
      CAPTURE(kept);
      // The value ends with up to 20 digits, the key has 8 bytes and more, the item's head 20.
      CHECK(static_cast<double>(kept * (length + 48)) >
            0.85 * static_cast<double>(usage.slabs.front_bytes));
      CHECK(usage.total_bytes() > 23 * kMegabyte);
    }
    CHECK(world.over == 0);
  }
}

}  // namespace
}  // namespace kbf
