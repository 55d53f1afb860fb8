#include "storage/packed/value_registry.h"

#include <doctest/doctest.h>

#include <atomic>
#include <barrier>
#include <string>
#include <thread>
#include <vector>

namespace kbf {
namespace {

constexpr uint64_t kNoLimit = UINT64_MAX;

// Goes through a whole collection in which the chains mark these numbers.
void Collect(ValueRegistry& values, unsigned chains, const std::vector<uint32_t>& in_use) {
  const uint64_t collection = values.collection();
  REQUIRE(collection != 0);
  for (const uint32_t number : in_use) values.Mark(number);
  for (unsigned i = 0; i < chains; ++i) {
    CHECK(!values.CollectStep());
    values.Finished(collection);
  }
  while (values.CollectStep()) {
  }
  CHECK(values.collection() == 0);
}

TEST_SUITE("storage/packed") {
  TEST_CASE("a value has one number, and its flags are part of it") {
    ValueRegistry values(12, HashSecret::FromSeed(1));
    const auto a = values.Number("value", 7, kNoLimit);
    REQUIRE(a);
    CHECK(values.Number("value", 7, kNoLimit) == a);
    const auto b = values.Number("value", 8, kNoLimit);
    REQUIRE(b);
    CHECK(*a != *b);
    CHECK(values.BlobOf(*a)->view() == "value");
    CHECK(values.BlobOf(*a)->flags == 7);
    CHECK(values.Number("", 0, kNoLimit).has_value());
    CHECK(values.size() == 3);
    CHECK(values.IsInUse(*a));
    CHECK(!values.IsInUse(4000));
    CHECK(!values.IsInUse(1u << 30));
  }

  TEST_CASE("once numbers are scarce a value needs two occurrences, and all can be taken") {
    ValueRegistry values(12, HashSecret::FromSeed(1));
    uint64_t first = 0;
    for (int i = 0; i < 1000; ++i) {
      first += values.Number("v" + std::to_string(i), 0, kNoLimit).has_value();
    }
    // 4096 / 8, and the few values whose counters in the sketch others share.
    CHECK(first >= 512);
    CHECK(first < 530);
    uint64_t second = 0;
    for (int i = 0; i < 6000; ++i) {
      const std::string value = "w" + std::to_string(i);
      second += values.Number(value, 0, kNoLimit) || values.Number(value, 0, kNoLimit);
    }
    CHECK(first + second == 4096);
    CHECK(values.size() == 4096);
    CHECK(values.counters().admitted == 4096);
    CHECK(values.counters().refused > 0);
    CHECK(!values.Number("another", 0, kNoLimit));
  }

  TEST_CASE("values take no more memory than they are allowed") {
    ValueRegistry values(12, HashSecret::FromSeed(1));
    const std::string large(1000, 'x');
    const uint64_t allowed = values.bytes() + 50000;
    for (int i = 0; i < 200; ++i) (void)values.Number(large + std::to_string(i), 0, allowed);
    CHECK(values.bytes() <= allowed + 4096);  // the index
    CHECK(values.size() > 5);
    CHECK(values.size() < 50);
  }

  TEST_CASE("a collection takes back what no chain has marked, and nothing else") {
    ValueRegistry values(12, HashSecret::FromSeed(1));
    values.Join();
    values.Join();
    std::vector<uint32_t> numbers;
    for (int i = 0; i < 400; ++i) {
      numbers.push_back(*values.Number("v" + std::to_string(i), 0, kNoLimit));
    }
    const uint64_t bytes = values.bytes();
    values.BeginIfWorthwhile();
    // Given while the collection runs: stays, marked or not.
    const auto late = values.Number("late", 0, kNoLimit);
    const auto again = values.Number("v399", 0, kNoLimit);
    Blob* const kept_by_reply = values.BlobOf(numbers[0]);
    const SharedRef reply(kept_by_reply);
    const std::vector<uint32_t> in_use(numbers.begin() + 100, numbers.begin() + 200);
    Collect(values, 2, in_use);
    CHECK(values.size() == 102);
    CHECK(values.counters().recycled == 299);
    CHECK(values.bytes() < bytes);
    CHECK(values.BlobOf(*late)->view() == "late");
    CHECK(values.BlobOf(*again)->view() == "v399");
    for (int i = 100; i < 200; ++i) {
      CHECK(values.BlobOf(numbers[i])->view() == "v" + std::to_string(i));
      CHECK(values.Number("v" + std::to_string(i), 0, kNoLimit) == numbers[i]);
    }
    CHECK(kept_by_reply->view() == "v0");  // as long as the reply needs it
    // Numbers are given again.
    for (int i = 0; i < 350; ++i) {
      const auto number = values.Number("n" + std::to_string(i), 0, kNoLimit);
      REQUIRE(number);
      CHECK(*number < 401 + (350 - 299));
    }
    // Nothing was refused, and few came in: no collection.
    values.BeginIfWorthwhile();
    Collect(values, 2, {});
    CHECK(values.size() == 0);
    values.BeginIfWorthwhile();
    CHECK(values.collection() == 0);
  }

  TEST_CASE("numbers stay right while threads use and collect them") {
    // Proves what it can: each thread has its own numbers in use, and checks their values, which
    // another thread's collection would have freed (under the sanitizers) or replaced.
    ValueRegistry values(12, HashSecret::FromSeed(1));
    constexpr unsigned kThreads = 3;
    for (unsigned t = 0; t < kThreads; ++t) values.Join();
    std::atomic<uint64_t> wrong{0};
    std::atomic<uint64_t> given{0};
    std::barrier together(kThreads);
    const auto work = [&](unsigned t) {
      std::vector<std::pair<uint32_t, std::string>> slots(64);
      std::vector<bool> used(64);
      uint64_t finished = 0;
      for (uint32_t i = 0; i < 40000; ++i) {
        const size_t slot = Mix64(i * 8 + t) % slots.size();
        if (used[slot]) {
          const auto& [number, value] = slots[slot];
          wrong += values.BlobOf(number)->view() != value;
        }
        const std::string value = std::to_string(Mix64(i ^ t) % 3000);
        if (const auto number = values.Number(value, 0, kNoLimit)) {
          slots[slot] = {*number, value};
          used[slot] = true;
          ++given;
        }
        // No thread falls so far behind that the others' collections wait for it.
        if (i % 1000 == 0) together.arrive_and_wait();
        if (i % 8 != 0) continue;
        values.NoteDropped();
        values.BeginIfWorthwhile();
        const uint64_t collection = values.collection();
        if (collection != 0 && collection != finished) {
          for (size_t k = 0; k < slots.size(); ++k) {
            if (used[k]) values.Mark(slots[k].first);
          }
          values.Finished(collection);
          finished = collection;
        }
        (void)values.CollectStep();
      }
      values.Leave();
    };
    std::vector<std::thread> threads;
    for (unsigned t = 0; t < kThreads; ++t) threads.emplace_back(work, t);
    for (std::thread& thread : threads) thread.join();
    CHECK(wrong == 0);
    CHECK(given > 10000);
    CHECK(values.counters().recycled > 1000);
  }
}

}  // namespace
}  // namespace kbf
