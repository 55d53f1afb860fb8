#include "storage/blob_pool.h"

#include <doctest/doctest.h>

#include <map>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "storage/hash.h"

namespace kbf {
namespace {

const HashSecret kSecret = HashSecret::FromSeed(5);

uint64_t HashOf(std::string_view bytes, uint32_t flags) {
  return HashKey(bytes, kSecret).lo ^ Mix64(flags);
}

Blob* Intern(BlobPool& pool, std::string_view bytes, uint32_t flags) {
  return pool.Intern(bytes, flags, HashOf(bytes, flags));
}

TEST_SUITE("storage") {
  TEST_CASE("equal bytes and flags are one blob, other flags are another") {
    BlobPool pool;
    const uint64_t empty_bytes = pool.bytes();
    Blob* a = Intern(pool, "value", 1);
    REQUIRE(a != nullptr);
    CHECK(a->view() == "value");
    CHECK(a->flags == 1);
    CHECK(Intern(pool, std::string("val") + "ue", 1) == a);
    Blob* b = Intern(pool, "value", 2);
    CHECK(b != a);
    CHECK(pool.count() == 2);
    CHECK(pool.bytes() > empty_bytes + 2 * (sizeof(Blob) + 5));
    pool.Release(a);
    CHECK(pool.count() == 2);  // the second owner is still there
    pool.Release(a);
    pool.Release(b);
    CHECK(pool.count() == 0);
    // A value without bytes is a value.
    Blob* none = Intern(pool, "", 0);
    CHECK(none->view().empty());
    pool.Release(none);
  }

  TEST_CASE("a reply may hold a blob that no dictionary owns any more") {
    BlobPool pool;
    Blob* blob = Intern(pool, "kept", 0);
    SharedRef reply(blob);
    pool.Release(blob);
    CHECK(pool.count() == 0);
    CHECK(blob->view() == "kept");
    Blob* again = Intern(pool, "kept", 0);
    CHECK(again != blob);
    pool.Release(again);
  }

  TEST_CASE("values with one hash are told apart and removed from the middle of a run") {
    BlobPool pool;
    std::vector<Blob*> blobs;
    // Homes at the end of the table, so that runs wrap around it.
    for (unsigned i = 0; i < 40; ++i)
      blobs.push_back(pool.Intern(std::to_string(i), 0, 14 + i % 3));
    for (unsigned i = 0; i < 40; i += 2) pool.Release(blobs[i]);
    for (unsigned i = 1; i < 40; i += 2) {
      CHECK(pool.Intern(std::to_string(i), 0, 14 + i % 3) == blobs[i]);
      pool.Release(blobs[i]);
      pool.Release(blobs[i]);
    }
    CHECK(pool.count() == 0);
  }

  TEST_CASE("the pool agrees with a map of owner counts") {
    const uint64_t seed = 21;
    CAPTURE(seed);
    std::mt19937_64 random(seed);
    BlobPool pool;
    std::map<std::pair<std::string, uint32_t>, std::pair<Blob*, unsigned>> model;
    for (unsigned step = 0; step < 60000; ++step) {
      const std::string bytes(random() % 40, static_cast<char>('a' + random() % 26));
      const auto flags = static_cast<uint32_t>(random() % 3);
      auto& [blob, owners] = model[{bytes, flags}];
      if (owners == 0 || random() % 2 == 0) {
        Blob* interned = Intern(pool, bytes, flags);
        REQUIRE(interned != nullptr);
        if (owners > 0) REQUIRE(interned == blob);
        REQUIRE(interned->view() == bytes);
        REQUIRE(interned->flags == flags);
        blob = interned;
        ++owners;
      } else {
        pool.Release(blob);
        --owners;
      }
    }
    uint64_t live = 0;
    for (auto& [key, entry] : model) {
      live += entry.second > 0;
      if (entry.second > 0) CHECK(entry.first->owners == entry.second);
    }
    CHECK(pool.count() == live);
    for (auto& [key, entry] : model) {
      for (; entry.second > 0; --entry.second) pool.Release(entry.first);
    }
    CHECK(pool.count() == 0);
  }

  // Two owners take and drop the same 64 values all the time, so that most blobs are born and die
  // in a race with the other thread's look-up. A lost or doubled owner shows as bytes that are
  // wrong (a freed blob; ASan and TSan name it) or as blobs left over at the end.
  TEST_CASE("two threads intern and release the same values") {
    BlobPool pool;
    const auto work = [&pool](uint64_t seed, unsigned* wrong) {
      std::mt19937_64 random(seed);
      std::vector<std::pair<Blob*, unsigned>> held;
      for (unsigned step = 0; step < 40000; ++step) {
        if (held.size() < 4 || random() % 2 == 0) {
          const auto number = static_cast<unsigned>(random() % 64);
          held.emplace_back(Intern(pool, std::string(number, 'x'), number % 5), number);
        } else {
          std::swap(held[random() % held.size()], held.back());
          const auto [blob, number] = held.back();
          SharedRef reply(blob);
          pool.Release(blob);
          held.pop_back();
          *wrong += blob->view() != std::string(number, 'x') || blob->flags != number % 5;
        }
      }
      for (const auto& [blob, number] : held) pool.Release(blob);
    };
    unsigned wrong_a = 0;
    unsigned wrong_b = 0;
    std::thread other(work, 1, &wrong_a);
    work(2, &wrong_b);
    other.join();
    CHECK(wrong_a + wrong_b == 0);
    CHECK(pool.count() == 0);
  }
}

}  // namespace
}  // namespace kbf
