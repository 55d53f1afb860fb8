// The public Map. Rates are compared with what PredictedErrors says, which is the closed form of
// map.h; bounds are mean ± 5σ (Poisson; +1 for rates near 0). Seeds are fixed.
#include <doctest/doctest.h>
#include <kbf/map.h>

#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

namespace kbf {
namespace {

std::string KeyName(uint64_t number) { return "key:" + std::to_string(number); }
std::string AbsentName(uint64_t number) { return "absent:" + std::to_string(number); }
std::string ValueName(uint64_t number) { return "value:" + std::to_string(number); }

Map MakeMap(const MapOptions& options) { return Map::Create(options).value(); }

void CheckCount(double count, double mean) {
  CAPTURE(count);
  CAPTURE(mean);
  CHECK(count < mean + 5 * std::sqrt(mean) + 1);
  CHECK(count > mean - 5 * std::sqrt(mean) - 1);
}

void CheckAtMost(double count, double mean) {
  CAPTURE(count);
  CAPTURE(mean);
  CHECK(count <= mean + 5 * std::sqrt(mean) + 1);
}

struct Counts {
  uint64_t missing = 0;
  uint64_t wrong = 0;
};

// Keys first … last-1 should have the value of their number modulo `values`.
Counts CountErrors(const Map& map, uint64_t first, uint64_t last, uint64_t values) {
  Counts counts;
  for (uint64_t i = first; i < last; ++i) {
    const Map::Answer answer = map.Get(KeyName(i));
    counts.missing += !answer;
    counts.wrong += answer && *answer != ValueName(i % values);
  }
  return counts;
}

uint64_t CountFalsePositives(const Map& map, uint64_t absent) {
  uint64_t found = 0;
  for (uint64_t i = 0; i < absent; ++i) found += map.Get(AbsentName(i)).has_value();
  return found;
}

void Fill(Map* map, uint64_t first, uint64_t last, uint64_t values) {
  for (uint64_t i = first; i < last; ++i) {
    REQUIRE(map->Put(KeyName(i), ValueName(i % values)) == Status::kOk);
  }
}

TEST_SUITE("storage") {
  TEST_CASE("a full map misses, answers absent keys and keeps overrides as often as predicted") {
    constexpr uint64_t kKeys = 100000;
    constexpr uint64_t kAbsent = 500000;
    struct Setting {
      uint64_t distinct_values;
      double false_negative;
      double false_positive;
    };
    // Loose budgets, so that there is something to count. The last is the default.
    for (const auto& [values, false_negative, false_positive] :
         {Setting{1, 0.02, 1e-2}, Setting{100000, 0.02, 1e-2}, Setting{1000, 0.01, 1e-3},
          Setting{1000, 2e-3, 2e-5}}) {
      CAPTURE(values);
      CAPTURE(false_negative);
      Map map = MakeMap({kKeys, values, false_negative, false_positive, /*seed=*/values});
      // A key that is undecodable when it comes in becomes an override, at the rate of that moment;
      // what is undecodable in the end and was not then is missing.
      double overrides = 0;
      constexpr uint64_t kStep = 1000;
      for (uint64_t i = 0; i < kKeys; i += kStep) {
        const double before = map.PredictedErrors().false_negative;
        Fill(&map, i, i + kStep, values);
        overrides += kStep * (before + map.PredictedErrors().false_negative) / 2;
      }
      const MapErrors errors = map.PredictedErrors();
      CHECK(errors.false_negative <= false_negative);
      CHECK(errors.false_positive <= false_positive);
      CHECK(errors.false_negative ==
            doctest::Approx(map.plan().errors.false_negative).epsilon(0.01));
      const Counts counts = CountErrors(map, 0, kKeys, values);
      CHECK(counts.wrong == 0);
      CheckCount(static_cast<double>(counts.missing), kKeys * errors.false_negative - overrides);
      CheckCount(static_cast<double>(map.num_overrides()), overrides);
      CheckCount(static_cast<double>(CountFalsePositives(map, kAbsent)),
                 kAbsent * errors.false_positive);
    }
  }

  TEST_CASE("random puts, gets and deletes do what an exact map does, within the predicted rates") {
    constexpr uint64_t kOperations = 600000;
    for (const uint64_t capacity : {uint64_t{1000}, uint64_t{20000}, uint64_t{100000}}) {
      CAPTURE(capacity);
      const MapOptions options{.capacity = capacity, .distinct_values = 300, .seed = capacity};
      Map map = MakeMap(options);
      std::unordered_map<uint64_t, uint64_t> model;
      std::mt19937_64 random(capacity);
      uint64_t full = 0;
      for (uint64_t i = 0; i < kOperations; ++i) {
        const uint64_t key = random() % (capacity * 5 / 4);
        const uint64_t value = random() % 300;
        if (random() % 3 != 0) {
          const Status status = map.Put(KeyName(key), ValueName(value));
          full += status == Status::kFull;
          if (status != Status::kOk) continue;
          model[key] = value;
          REQUIRE(map.Get(KeyName(key)).value_or("") == ValueName(value));
        } else {
          const Status status = map.Delete(KeyName(key));
          if (model.erase(key) == 1) REQUIRE(status == Status::kOk);
          REQUIRE_FALSE(map.Get(KeyName(key)).has_value());
        }
      }
      CHECK(full == 0);
      double missing = 0, wrong = 0, deleted = 0, found = 0;
      for (uint64_t key = 0; key < capacity * 5 / 4; ++key) {
        const Map::Answer answer = map.Get(KeyName(key));
        if (const auto stored = model.find(key); stored != model.end()) {
          missing += !answer;
          wrong += answer && *answer != ValueName(stored->second);
        } else {
          ++deleted;
          found += answer.has_value();
        }
      }
      // Damage by operations on absent keys: each harms k keys or fewer, and k is at most 10.
      CheckAtMost(wrong, 10 * map.plan().damage * kOperations);
      CheckAtMost(missing, options.false_negative * static_cast<double>(model.size()));
      CheckAtMost(found, options.false_positive * deleted);
      CheckAtMost(std::abs(static_cast<double>(map.size()) - static_cast<double>(model.size())),
                  1e-4 * kOperations);
      MESSAGE("capacity " << capacity << ": " << model.size() << " keys, " << missing
                          << " missing, " << wrong << " wrong, " << map.num_overrides()
                          << " overrides");
    }
  }

  TEST_CASE("overwriting every key ten times keeps to the budget and to the room for overrides") {
    for (const uint64_t keys : {uint64_t{3000}, uint64_t{10000}, uint64_t{50000}}) {
      CAPTURE(keys);
      Map map = MakeMap({.capacity = keys, .distinct_values = 3000, .seed = keys});
      Fill(&map, 0, keys, 3000);
      for (uint64_t round = 1; round <= 10; ++round) {
        for (uint64_t i = 0; i < keys; ++i) {
          REQUIRE(map.Put(KeyName(i), ValueName((i + round) % 3000)) == Status::kOk);
        }
      }
      double missing = 0, wrong = 0;
      for (uint64_t i = 0; i < keys; ++i) {
        const Map::Answer answer = map.Get(KeyName(i));
        missing += !answer;
        wrong += answer && *answer != ValueName((i + 10) % 3000);
      }
      CHECK(wrong == 0);
      CheckAtMost(missing, 2e-3 * static_cast<double>(keys));
      CHECK(map.size() == keys);
      MESSAGE(keys << " keys: " << missing << " missing, " << map.num_overrides()
                   << " overrides after ten rounds");
    }
  }

  TEST_CASE("a full map refuses a further key, but not other values for the keys it has") {
    Map map = MakeMap({.capacity = 1000, .distinct_values = 10, .seed = 1});
    Fill(&map, 0, 1000, 10);
    CHECK(map.Put("one more", "value:0") == Status::kFull);
    CHECK(map.Get("one more").status() == Status::kNotFound);
    CHECK(map.size() == 1000);
    CHECK(map.Put(KeyName(7), "value:1") == Status::kOk);
    CHECK(*map.Get(KeyName(7)) == "value:1");
    // Overrides leave no entry, so that several deletes may be needed until there is room.
    uint64_t deleted = 0;
    while (deleted < 100 && map.Put("one more", "value:0") == Status::kFull) {
      REQUIRE(map.Delete(KeyName(deleted++)) == Status::kOk);
    }
    CHECK(deleted >= 1);
    CHECK(deleted < 100);
    CHECK(*map.Get("one more") == "value:0");
  }

  TEST_CASE("a map refuses more distinct values than were planned, and keeps what it has") {
    Map map = MakeMap({.capacity = 10000, .distinct_values = 100, .seed = 2});
    const uint64_t room = map.plan().values_max;
    CHECK(room >= 100);
    for (uint64_t i = 0; i < room; ++i) {
      REQUIRE(map.Put(KeyName(i), ValueName(i)) == Status::kOk);
    }
    CHECK(map.num_values() == room);
    CHECK(map.Put("another", "a new value") == Status::kTooManyValues);
    CHECK_FALSE(map.Get("another").has_value());
    CHECK(map.Put(KeyName(0), "a new value") == Status::kTooManyValues);
    CHECK(*map.Get(KeyName(0)) == ValueName(0));
    CHECK(map.Put("another", ValueName(room - 1)) == Status::kOk);
  }

  TEST_CASE("a deleted key is gone, also where the filter cannot take its entry out") {
    for (const uint64_t keys : {uint64_t{2000}, uint64_t{50000}}) {
      CAPTURE(keys);
      Map map = MakeMap({.capacity = keys, .distinct_values = 3000, .seed = 3});
      Fill(&map, 0, keys, 3000);
      uint64_t overrides_max = 0;
      for (uint64_t i = 0; i < keys; ++i) {
        REQUIRE(map.Delete(KeyName(i)) == Status::kOk);
        REQUIRE(map.Get(KeyName(i)).status() != Status::kOk);
        overrides_max = std::max(overrides_max, map.num_overrides());
      }
      CHECK(overrides_max > 0);  // such entries occurred
      CHECK(map.size() == 0);
      CHECK(CountErrors(map, 0, keys, 3000).missing == keys);
      for (uint64_t i = 0; i < keys; ++i) REQUIRE(map.Delete(KeyName(i)) == Status::kNotFound);
      // Their entries left while others did, so the keys can come again.
      Fill(&map, 0, keys / 2, 3000);
      const Counts counts = CountErrors(map, 0, keys / 2, 3000);
      CHECK(counts.wrong == 0);
      CheckAtMost(static_cast<double>(counts.missing), 2e-3 * static_cast<double>(keys) / 2);
    }
  }

  TEST_CASE("a join holds the keys of both maps, and errs like one map of that size") {
    constexpr uint64_t kKeys = 100000;
    Map map =
        MakeMap({.capacity = kKeys, .distinct_values = 1000, .false_negative = 0.02, .seed = 4});
    Map other = map.CreateLike().value();
    Fill(&map, 0, kKeys / 2, 1000);
    Fill(&other, kKeys / 2, kKeys, 1000);
    const double overrides = static_cast<double>(map.num_overrides() + other.num_overrides());
    REQUIRE(map.Join(other) == Status::kOk);
    CHECK(map.size() == kKeys);
    const Counts counts = CountErrors(map, 0, kKeys, 1000);
    CHECK(counts.wrong == 0);
    const double mean = kKeys * map.PredictedErrors().false_negative - overrides;
    CheckCount(static_cast<double>(counts.missing), mean);
    CHECK(other.size() == kKeys / 2);
    CHECK(CountErrors(other, kKeys / 2, kKeys, 1000).wrong == 0);
  }

  TEST_CASE("a key that moved to the other map before a join has its new value there") {
    // A map this small shows so little evidence that some deletes leave a tombstone.
    constexpr uint64_t kKeys = 1000;
    const MapOptions options{.capacity = kKeys * 5 / 4, .distinct_values = 3000, .seed = 5};
    for (const bool forward : {true, false}) {
      CAPTURE(forward);
      Map from = MakeMap(options);
      Map to = from.CreateLike().value();
      Fill(&from, 0, kKeys, 100);
      std::vector<uint64_t> tombstones;
      for (uint64_t i = 0; i < kKeys; ++i) {
        const uint64_t before = from.num_overrides();
        REQUIRE(from.Delete(KeyName(i)) == Status::kOk);
        if (from.num_overrides() > before) tombstones.push_back(i);
        REQUIRE(to.Put(KeyName(i), ValueName(i % 100 + 1)) == Status::kOk);
      }
      CHECK(tombstones.size() >= 10);
      Map& joined = forward ? from : to;
      REQUIRE(joined.Join(forward ? to : from) == Status::kOk);
      uint64_t missing = 0;
      for (uint64_t i = 0; i < kKeys; ++i) {
        const Map::Answer answer = joined.Get(KeyName(i));
        missing += !answer;
        if (answer) CHECK(*answer == ValueName(i % 100 + 1));
      }
      CheckAtMost(static_cast<double>(missing), 2e-3 * kKeys);
      for (const uint64_t i : tombstones) {
        CHECK(joined.Get(KeyName(i)).value_or("") == ValueName(i % 100 + 1));
      }
      CHECK(joined.size() == kKeys);
    }
  }

  TEST_CASE("maps that do not belong together are not joined, and stay as they are") {
    const MapOptions options{.capacity = 1000, .distinct_values = 10, .seed = 6};
    Map map = MakeMap(options);
    Fill(&map, 0, 600, 10);
    Map unlike = MakeMap(options);  // the same plan and seed, but its own numbers of values
    CHECK(map.Join(unlike) == Status::kUnlike);
    CHECK(map.Join(map) == Status::kUnlike);
    Map small = map.CreateLike().value();
    REQUIRE(small.Compress() == Status::kOk);
    CHECK(map.Join(small) == Status::kUnlike);
    Map large = map.CreateLike().value();
    Fill(&large, 600, 1100, 10);
    CHECK(map.Join(large) == Status::kFull);
    CHECK(map.size() == 600);
    CHECK(CountErrors(map, 0, 600, 10).wrong == 0);
    CHECK_FALSE(map.Get(KeyName(1000)).has_value());
  }

  TEST_CASE("compress halves memory and capacity three times, while the map is half full at most") {
    constexpr uint64_t kCapacity = 160000;
    Map map = MakeMap(
        {.capacity = kCapacity, .distinct_values = 1000, .false_negative = 0.02, .seed = 7});
    Fill(&map, 0, kCapacity / 8, 1000);
    for (uint64_t part = 2; part <= 8; part *= 2) {
      const uint64_t before = map.memory_bytes();
      REQUIRE(map.Compress() == Status::kOk);
      CHECK(map.capacity() == kCapacity / part);
      CHECK(map.memory_bytes() < before * 3 / 4);
    }
    const Counts counts = CountErrors(map, 0, kCapacity / 8, 1000);
    CHECK(counts.wrong == 0);
    CheckCount(static_cast<double>(counts.missing),
               kCapacity / 8 * map.PredictedErrors().false_negative);
    CHECK(map.Put("one more", ValueName(0)) == Status::kFull);
    CHECK(map.Compress() == Status::kFull);
    Map empty = map.CreateLike().value();
    for (int i = 0; i < 3; ++i) REQUIRE(empty.Compress() == Status::kOk);
    CHECK(empty.Compress() == Status::kCannotHalve);
  }

  TEST_CASE("numbers that no map can have are refused with a sentence that names the limit") {
    struct Bad {
      MapOptions options;
      const char* named;
    };
    const double nan = std::numeric_limits<double>::quiet_NaN();
    for (const Bad& bad : {Bad{{.capacity = 0}, "capacity"},
                           Bad{{.capacity = (uint64_t{1} << 40) + 1}, "1099511627776"},
                           Bad{{.capacity = UINT64_MAX}, "capacity"},
                           Bad{{.capacity = 1, .distinct_values = 0}, "distinct values"},
                           Bad{{.capacity = 1, .distinct_values = (1 << 24) + 1}, "16777216"},
                           Bad{{.capacity = 1, .false_negative = 0}, "false-negative"},
                           Bad{{.capacity = 1, .false_negative = nan}, "false-negative"},
                           Bad{{.capacity = 1, .false_positive = 1}, "false-positive"},
                           Bad{{.capacity = 1, .false_positive = -1}, "false-positive"},
                           Bad{{.capacity = 1, .false_negative = 1e-300, .false_positive = 1e-300},
                               "no layout meets"}}) {
      CAPTURE(bad.named);
      const Result<Map> made = Map::Create(bad.options);
      CHECK_FALSE(made.ok());
      CHECK(made.status() == Status::kBadArgument);
      CHECK(made.message().find(bad.named) != std::string::npos);
      CHECK(PlanMap(bad.options).message() == made.message());
    }
  }

  TEST_CASE("any bytes are a key; a value has at most a megabyte") {
    Map map = MakeMap({.capacity = 100, .distinct_values = 10, .seed = 8});
    const std::string zeros(3, '\0');
    const std::string long_key(1 << 20, 'k');
    for (const std::string& key : {std::string(), zeros, long_key}) {
      REQUIRE(map.Put(key, zeros) == Status::kOk);
      CHECK(*map.Get(key) == zeros);
    }
    CHECK(map.Put("empty", "") == Status::kOk);
    CHECK(map.Get("empty").has_value());
    CHECK(map.Get("empty")->empty());
    CHECK(map.Put("long", std::string(Map::kValueBytesMax, 'v')) == Status::kOk);
    CHECK(map.Put("too long", std::string(Map::kValueBytesMax + 1, 'v')) == Status::kTooLarge);
    CHECK(map.Get("too long").status() == Status::kNotFound);
    CHECK(map.Get("too long").value_or("other") == "other");
    CHECK(map.Delete("") == Status::kOk);
    CHECK_FALSE(map.Get("").has_value());
  }

  TEST_CASE("a plan says what a map takes and how it errs") {
    const MapOptions options{.capacity = 500000, .distinct_values = 3000, .seed = 9};
    const MapPlan plan = PlanMap(options).value();
    const Map map = MakeMap(options);
    CHECK(static_cast<double>(map.memory_bytes()) ==
          doctest::Approx(static_cast<double>(plan.bytes)).epsilon(0.01));
    CHECK(plan.bytes_per_key < 24);
    CHECK(plan.capacity == map.capacity());
    CHECK(plan.values_max >= 3000);
    CHECK(plan.errors.false_negative <= options.false_negative / 2);
    CHECK(plan.errors.false_positive <= options.false_positive / 2);
    CHECK(plan.damage <= std::exp2(-22.7));
    CHECK(plan.damage >= std::exp2(-24.0));
    CHECK(plan.cache_lines == 3);
    CHECK(map.PredictedErrors().false_negative == 0);
    CHECK(map.plan().bytes == plan.bytes);
  }

  TEST_CASE("maps of one family are filled by different threads, and then joined") {
    constexpr uint64_t kThreads = 4;
    constexpr uint64_t kEach = 5000;
    Map map = MakeMap({.capacity = kThreads * kEach, .distinct_values = 500, .seed = 10});
    std::vector<Map> parts;
    for (uint64_t t = 0; t < kThreads; ++t) parts.push_back(map.CreateLike().value());
    // Each brings in values that another one reads at the same time.
    std::vector<std::thread> threads;
    std::vector<uint64_t> wrong(kThreads);
    for (uint64_t t = 0; t < kThreads; ++t) {
      threads.emplace_back([&, t] {
        for (uint64_t i = t * kEach; i < (t + 1) * kEach; ++i) {
          const bool stored = parts[t].Put(KeyName(i), ValueName(i % 500)) == Status::kOk;
          wrong[t] += !stored || parts[t].Get(KeyName(i)).value_or("") != ValueName(i % 500);
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (uint64_t t = 0; t < kThreads; ++t) {
      CHECK(wrong[t] == 0);
      REQUIRE(map.Join(parts[t]) == Status::kOk);
    }
    CHECK(map.num_values() == 500);
    const Counts counts = CountErrors(map, 0, kThreads * kEach, 500);
    CHECK(counts.wrong == 0);
    CheckAtMost(static_cast<double>(counts.missing), 2e-3 * kThreads * kEach);
  }

  TEST_CASE("an answer stays valid while any map of its family lives") {
    Map kept = MakeMap({.capacity = 10, .distinct_values = 10, .seed = 11});
    Map::Answer answer;
    {
      Map other = kept.CreateLike().value();
      REQUIRE(other.Put("key", std::string(100, 'v')) == Status::kOk);
      Map moved = std::move(other);
      answer = moved.Get("key");
    }
    CHECK(*answer == std::string(100, 'v'));
  }
}

}  // namespace
}  // namespace kbf
