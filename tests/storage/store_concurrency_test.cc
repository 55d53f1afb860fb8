// Several threads on one Store, with background work and statistics going on beside them.
//
// Why it proves something: a lock that is missing or released too early shows in one of four ways,
// and each is checked against an answer that is known without the store.
// - Owners. Each thread has keys that no other thread uses, so it knows their values; but they
// share
//   buckets, filters, dictionary and blobs with everybody's keys, and other threads' writes demote
//   them. A read gives the present value or a miss, never an older one.
// - Holders. A reading is kept while all threads overwrite, append to, count and delete its key,
//   and compared with a copy later. The values of the texts are functions of a number that they
//   begin with, and so are the client flags: bytes of two values in one show at once, too.
// - Counters. Increments and successful cas are counted by those who made them; the store's sum
//   must be the same, and no thread may see a counter go back.
// - ThreadSanitizer and AddressSanitizer (make tsan, make asan) see the same run; nothing here
//   synchronises the workers but the store itself and the clock, whose loads and stores are
//   relaxed so that they order nothing.
#include <doctest/doctest.h>

#include <array>
#include <atomic>
#include <charconv>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "storage/store.h"
#include "tests/storage/store_world.h"

namespace kbf {
namespace {

constexpr unsigned kThreads = 3;
constexpr uint32_t kTexts = 3000;
constexpr uint32_t kOwnKeys = 8000;  // per thread; about 2,000 items of all threads fit the front
constexpr uint32_t kSharedKeys = 400;
constexpr uint32_t kFadingKeys = 20000;
constexpr uint64_t kOperationsPerSecond = 500;  // of thread 0, which is the clock
constexpr uint32_t kFlushSeconds = 40;
constexpr size_t kAppendedMax = 40;
constexpr std::string_view kSumKey = "n:sum";
constexpr std::string_view kCasKey = "n:cas";

uint32_t FlagsOf(uint32_t number) { return number % 3 * 70000; }

std::vector<std::string> MakeTexts() {
  std::vector<std::string> texts;
  for (uint32_t number = 0; number < kTexts; ++number) {
    std::string text = "t" + std::to_string(number) + ":";
    const size_t length = text.size() + 10 + number % 300;
    while (text.size() < length) {
      text += static_cast<char>('a' + (number * 31 + text.size() * 7) % 26);
    }
    texts.push_back(text);
  }
  return texts;
}

const std::string& TextOf(uint32_t number) {
  static const std::vector<std::string> texts = MakeTexts();
  return texts[number];
}

std::optional<uint64_t> NumberIn(std::string_view value) {
  while (value.ends_with(' ')) value.remove_suffix(1);
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
  if (value.empty() || error != std::errc() || end != value.data() + value.size()) return {};
  return number;
}

// The number of the text that this is, with any number of '+' appended; nothing: it is not one.
std::optional<uint32_t> TextIn(std::string_view value, uint32_t flags) {
  if (!value.starts_with('t')) return {};
  uint32_t number = kTexts;
  (void)std::from_chars(value.data() + 1, value.data() + value.size(), number);
  if (number >= kTexts || !value.starts_with(TextOf(number)) || flags != FlagsOf(number)) return {};
  value.remove_prefix(TextOf(number).size());
  if (value.find_first_not_of('+') != std::string_view::npos) return {};
  return number;
}

struct Findings {
  uint64_t hits = 0;
  uint64_t chain_hits = 0;
  uint64_t misses = 0;           // of own keys that are stored
  uint64_t absent = 0;           // reads of own keys that are not
  uint64_t stale = 0;            // own keys: a value that the key had before
  uint64_t false_positives = 0;  // own keys: a value that it never had
  uint64_t torn = 0;             // bytes that were never stored
  uint64_t changed = 0;          // held bytes that did not stay as they were
  uint64_t backwards = 0;        // a counter that went back
  uint64_t unexpected = 0;       // a status that cannot be
  uint64_t incremented = 0;      // what this thread added to kSumKey
  uint64_t swapped = 0;          // its successful cas of kCasKey

  void Add(const Findings& other) {
    hits += other.hits;
    chain_hits += other.chain_hits;
    misses += other.misses;
    absent += other.absent;
    stale += other.stale;
    false_positives += other.false_positives;
    torn += other.torn;
    changed += other.changed;
    backwards += other.backwards;
    unexpected += other.unexpected;
    incremented += other.incremented;
    swapped += other.swapped;
  }
};

struct World {
  std::unique_ptr<Store> store;
  // Advanced by thread 0 only. Relaxed: it must not order the workers' accesses for TSan.
  std::atomic<uint32_t> clock{1000};
  std::atomic<unsigned> working{kThreads};
  bool exact_counters = true;  // they are not flushed or evicted

  uint32_t now() const { return clock.load(std::memory_order_relaxed); }
};

class Worker {
 public:
  Worker(World* world, unsigned thread, uint64_t seed)
      : world_(*world), store_(*world->store), thread_(thread), random_(seed), owned_(kOwnKeys) {}

  void Run(uint64_t operations) {
    for (uint64_t i = 1; i <= operations; ++i) {
      Step();
      if (thread_ == 0 && i % kOperationsPerSecond == 0) {
        world_.clock.fetch_add(1, std::memory_order_relaxed);
      }
    }
    for (Held& held : held_) Check(&held);
    for (uint32_t key = 0; key < kOwnKeys; ++key) Compare(key, store_.Get(OwnKey(key), now()));
    world_.working.fetch_sub(1, std::memory_order_relaxed);
  }
  const Findings& findings() const { return findings_; }

 private:
  // The values of a key follow each other in the order of the texts, from a place of its own: the
  // versions it has had are an interval.
  struct Owned {
    uint32_t version = 0;
    bool stored = false;
  };
  struct Held {
    Reading reading;
    std::string copy;
  };

  uint64_t Below(uint64_t range) { return random_() % range; }
  uint32_t now() const { return world_.now(); }
  std::string OwnKey(uint32_t key) const {
    return "own:" + std::to_string(thread_) + ":" + std::to_string(key);
  }
  uint32_t FirstText(uint32_t key) const {
    return static_cast<uint32_t>(Mix64(key * kThreads + thread_) % kTexts);
  }
  uint32_t TextAt(uint32_t key, uint32_t version) const {
    return (FirstText(key) + version) % kTexts;
  }

  void Step() {
    // Half of the operations go to a sixteenth of the keys.
    const auto own = static_cast<uint32_t>(Below(Below(2) == 0 ? kOwnKeys : kOwnKeys / 16));
    const std::string shared = "shared:" + std::to_string(Below(kSharedKeys));
    const std::string counter = "counter:" + std::to_string(Below(kSharedKeys));
    switch (Below(32)) {
      case 0:
        return Delete(own);
      case 1:
        return Write(own, WriteMode::kAdd);
      case 2:
        return Write(own, WriteMode::kReplace);
      case 3:
        return CompareAndSwap(own);
      case 4:
        return Touch(own);
      case 5:
        return GetMany();
      case 6:
      case 7:
      case 8:
      case 9:
      case 10:
      case 11:
        return Write(own, WriteMode::kSet);
      case 12:
        return SetShared(shared);
      case 13:
        return Fade();
      case 14:
        return AppendShared(shared);
      case 15:
        return DeleteShared(Below(2) == 0 ? shared : counter);
      case 16:
      case 17:
        return CountShared(counter);
      case 18:
        return IncrementSum();
      case 19:
        return SwapCounter();
      case 20:
        return LookAt(kSumKey);
      case 21:
      case 22:
        return LookAt(counter);
      case 23:
      case 24:
      case 25:
        return LookAt(shared);
      default:
        return Compare(own, store_.Get(OwnKey(own), now()));
    }
  }

  // ---- own keys

  void Compare(uint32_t key, Reading reading) {
    const Owned& owned = owned_[key];
    ++(!owned.stored ? findings_.absent : reading.hit ? findings_.hits : findings_.misses);
    if (!reading.hit) return;
    findings_.chain_hits += reading.from_chain;
    const auto text = TextIn(reading.value, reading.flags);
    if (!text) {
      // Another key's number, by a false positive, is a false positive; anything else was never
      // stored.
      ++(NumberIn(reading.value) ? findings_.false_positives : findings_.torn);
    } else if (!(owned.stored && *text == TextAt(key, owned.version) &&
                 reading.value.size() == TextOf(*text).size())) {
      const uint32_t age = (TextAt(key, owned.version) + kTexts - *text) % kTexts;
      ++(age <= owned.version ? findings_.stale : findings_.false_positives);
    }
    Hold(std::move(reading));
  }

  void Write(uint32_t key, WriteMode mode) {
    Owned& owned = owned_[key];
    const uint32_t next = TextAt(key, owned.version + 1);
    const StoreStatus status =
        store_.Write({mode, OwnKey(key), TextOf(next), FlagsOf(next)}, now()).status;
    if (status == StoreStatus::kOk) {
      findings_.false_positives += mode == WriteMode::kReplace && !owned.stored;
      owned = {owned.version + 1, true};
    } else {
      findings_.unexpected += status != StoreStatus::kNotStored || mode == WriteMode::kSet;
      findings_.false_positives += mode == WriteMode::kAdd && !owned.stored;
    }
  }

  void CompareAndSwap(uint32_t key) {
    Owned& owned = owned_[key];
    Reading reading = store_.Get(OwnKey(key), now());
    if (!reading.hit) return;
    const uint32_t next = TextAt(key, owned.version + 1);
    const std::string name = OwnKey(key);
    WriteRequest request{WriteMode::kCas, name, TextOf(next), FlagsOf(next)};
    request.cas = reading.cas;
    Compare(key, std::move(reading));
    const StoreStatus status = store_.Write(request, now()).status;
    if (status == StoreStatus::kOk) owned = {owned.version + 1, true};
    // Anything but kNotFound and kExists, which a way through the chain explains, is wrong.
    findings_.unexpected += status != StoreStatus::kOk && status != StoreStatus::kNotFound &&
                            status != StoreStatus::kExists;
  }

  void Delete(uint32_t key) {
    const StoreStatus status = store_.Delete(OwnKey(key), now());
    findings_.false_positives += status == StoreStatus::kOk && !owned_[key].stored;
    findings_.unexpected += status != StoreStatus::kOk && status != StoreStatus::kNotFound;
    owned_[key].stored = false;
    Compare(key, store_.Get(OwnKey(key), now()));
  }

  void Touch(uint32_t key) {
    ReadOptions options;
    options.touch = true;
    Compare(key, store_.Get(OwnKey(key), options, now()));
  }

  void GetMany() {
    std::vector<uint32_t> keys(1 + Below(20));
    std::vector<std::string> names;
    for (uint32_t& key : keys) {
      key = static_cast<uint32_t>(Below(kOwnKeys));
      names.push_back(OwnKey(key));
    }
    const std::vector<std::string_view> asked(names.begin(), names.end());
    std::vector<Reading> readings(keys.size());
    store_.GetMany(asked, now(), readings.data());
    for (size_t i = 0; i < keys.size(); ++i) Compare(keys[i], std::move(readings[i]));
  }

  // ---- keys that everybody writes

  void SetShared(const std::string& key, uint32_t expires = 0) {
    const auto number = static_cast<uint32_t>(Below(kTexts));
    const StoreStatus status =
        store_.Write({WriteMode::kSet, key, TextOf(number), FlagsOf(number), expires}, now())
            .status;
    findings_.unexpected += status != StoreStatus::kOk;
  }

  // Keys that expire together, enough to fill filters that go for that reason. Only their bytes are
  // looked at: between a thread's look at the clock and its lock another one may be a second ahead.
  void Fade() {
    const uint32_t expires = (now() / 32 + 1 + static_cast<uint32_t>(Below(2))) * 32;
    for (int i = 0; i < 8; ++i) {
      SetShared("fading:" + std::to_string(Below(kFadingKeys)), expires);
      LookAt("fading:" + std::to_string(Below(kFadingKeys)));
    }
  }

  void AppendShared(const std::string& key) {
    const Reading reading = store_.Get(key, now());
    if (reading.hit && reading.value.ends_with(std::string(kAppendedMax, '+'))) return;
    const StoreStatus status = store_.Write({WriteMode::kAppend, key, "+"}, now()).status;
    findings_.unexpected += status != StoreStatus::kOk && status != StoreStatus::kNotStored;
  }

  void DeleteShared(const std::string& key) {
    const StoreStatus status = store_.Delete(key, now());
    findings_.unexpected += status != StoreStatus::kOk && status != StoreStatus::kNotFound;
  }

  void CountShared(const std::string& key) {
    ArithmeticRequest request;
    request.key = key;
    request.delta = Below(200);
    request.decrement = Below(3) == 0;
    request.initial = Below(2000);
    const StoreStatus status = store_.Arithmetic(request, now()).status;
    // A false positive may have put a text there.
    findings_.false_positives += status == StoreStatus::kNotNumber;
    findings_.unexpected += status != StoreStatus::kOk && status != StoreStatus::kNotNumber;
  }

  void LookAt(std::string_view key) {
    Reading reading = store_.Get(key, now());
    if (!reading.hit) return;
    const auto number = NumberIn(reading.value);
    if (!number && !TextIn(reading.value, reading.flags)) ++findings_.torn;
    if (key == kSumKey) SeeSum(number.value_or(0));
    Hold(std::move(reading));
  }

  // ---- exact counters

  void SeeSum(uint64_t sum) {
    if (!world_.exact_counters) return;
    findings_.backwards += sum < last_sum_;
    last_sum_ = sum;
  }

  void IncrementSum() {
    ArithmeticRequest request;
    request.key = kSumKey;
    request.delta = 1 + Below(9);
    request.initial = 0;
    const ArithmeticResult result = store_.Arithmetic(request, now());
    findings_.unexpected += result.status != StoreStatus::kOk;
    if (world_.exact_counters) findings_.unexpected += result.created;
    SeeSum(result.number);
    findings_.incremented += request.delta;
  }

  void SwapCounter() {
    for (int attempt = 0; attempt < 1000; ++attempt) {
      const Reading reading = store_.Get(kCasKey, now());
      const auto number = NumberIn(reading.value);
      if (!number) {
        findings_.unexpected += world_.exact_counters;
        return;
      }
      const std::string next = std::to_string(*number + 1);
      WriteRequest request{WriteMode::kCas, kCasKey, next};
      request.cas = reading.cas;
      const StoreStatus status = store_.Write(request, now()).status;
      if (status == StoreStatus::kOk) {
        ++findings_.swapped;
        return;
      }
      if (world_.exact_counters) findings_.unexpected += status != StoreStatus::kExists;
    }
  }

  // ---- readings that are kept

  void Hold(Reading reading) {
    if (Below(2) == 0) return;
    Held& held = held_[Below(held_.size())];
    Check(&held);
    held.copy = std::string(reading.value);
    held.reading = std::move(reading);
  }
  void Check(Held* held) {
    if (held->reading.hit) findings_.changed += held->reading.value != held->copy;
  }

  World& world_;
  Store& store_;
  const unsigned thread_;
  std::mt19937_64 random_;
  std::vector<Owned> owned_;
  std::array<Held, 64> held_;
  uint64_t last_sum_ = 0;
  Findings findings_;
};

struct Watched {
  uint64_t maintained = 0;
  uint64_t bytes_max = 0;
  uint64_t counters_backwards = 0;
};

// Background work and statistics until the workers are done.
Watched Watch(World* world, bool flushes) {
  Watched watched;
  Store& store = *world->store;
  uint64_t stored = 0;
  uint32_t flush_at = world->now() + kFlushSeconds;
  while (world->working.load(std::memory_order_relaxed) > 0) {
    const uint32_t now = world->now();
    watched.maintained += store.Maintain(8, now);
    store.MeasureErrors(4, 4, now);
    watched.bytes_max = std::max(watched.bytes_max, store.Usage().total_bytes());
    const uint64_t stored_now = store.Counters().stored;
    watched.counters_backwards += stored_now < stored;
    stored = stored_now;
    (void)store.Errors();
    (void)store.ChainEvents();
    (void)store.ValueEvents();
    if (flushes && now >= flush_at) {
      flush_at = now + kFlushSeconds;
      store.FlushAll(now + flush_at % 2, now);
    }
    std::this_thread::yield();
  }
  return watched;
}

struct Outcome {
  Findings findings;
  Watched watched;
};

Outcome RunWorld(World* world, uint64_t seed, uint64_t operations, bool flushes) {
  for (const std::string_view key : {kSumKey, kCasKey}) {
    REQUIRE(world->store->Write({WriteMode::kSet, key, "0"}, world->now()).status ==
            StoreStatus::kOk);
  }
  std::vector<std::unique_ptr<Worker>> workers;
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < kThreads; ++i) {
    workers.push_back(std::make_unique<Worker>(world, i, seed * kThreads + i));
    threads.emplace_back([worker = workers.back().get(), operations] { worker->Run(operations); });
  }
  Outcome outcome;
  outcome.watched = Watch(world, flushes);
  for (std::thread& thread : threads) thread.join();
  for (const auto& worker : workers) outcome.findings.Add(worker->findings());
  return outcome;
}

void CheckNothingWrong(const Outcome& outcome, const Store& store) {
  const Findings& f = outcome.findings;
  const StoreUsage usage = store.Usage();
  const SlabCounters counters = store.Counters();
  MESSAGE("hits " << f.hits << ", of the chain " << f.chain_hits << ", misses " << f.misses
                  << ", absent " << f.absent << ", false positives " << f.false_positives
                  << "; chain keys " << usage.slabs.chain_keys << ", front items "
                  << usage.slabs.front_items << ", demoted " << counters.demoted << ", promoted "
                  << counters.promoted << ", evicted " << counters.evicted << ", filters dropped "
                  << store.ChainEvents().filters_dropped << ", expired "
                  << store.ChainEvents().filters_expired << ", joins " << store.ChainEvents().joins
                  << ", compressions " << store.ChainEvents().compressions << ", maintained "
                  << outcome.watched.maintained);
  CHECK(f.stale == 0);
  CHECK(f.torn == 0);
  CHECK(f.changed == 0);
  CHECK(f.backwards == 0);
  CHECK(f.unexpected == 0);
  CHECK(outcome.watched.counters_backwards == 0);
  CHECK(outcome.watched.bytes_max <= store.config().memory_bytes);
  // As in store_model_test.cc; 5 more, because the mean is below one.
  CHECK(static_cast<double>(f.false_positives) <=
        kFalsePositive * static_cast<double>(f.hits + f.absent) + 5);
  CHECK(counters.demoted > 3000);
  CHECK(f.chain_hits > 1000);
}

StoreConfig TinyFront(uint64_t memory_bytes) {
  StoreConfig config;
  config.memory_bytes = memory_bytes;
  config.front_share = 0.05;
  config.num_slabs = 4;
  config.filter_keys = 4096;
  config.item_bytes_max = 16384;
  config.exact_prefixes = {"n:"};
  return config;
}

constexpr unsigned kExactThreads = 4;

// Runs work(thread) in all threads at once.
void InThreads(auto&& work) {
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < kExactThreads; ++i) threads.emplace_back([&work, i] { work(i); });
  for (std::thread& thread : threads) thread.join();
}

TEST_SUITE("storage") {
  TEST_CASE("threads that share a store see no stale, torn or changed bytes and lose no count") {
    KBF_FOR_EACH_ENGINE();
    const uint64_t seed = 1;
    CAPTURE(seed);
    World world;
    world.store = MakeStore(TinyFront(uint64_t{8} << 20), seed);
    const Outcome outcome = RunWorld(&world, seed, Soak() ? 3000000 : 60000, false);
    CheckNothingWrong(outcome, *world.store);
    const Reading sum = world.store->Get(kSumKey, world.now());
    CHECK(NumberIn(sum.value) == outcome.findings.incremented);
    const Reading swapped = world.store->Get(kCasKey, world.now());
    CHECK(NumberIn(swapped.value) == outcome.findings.swapped);
    CHECK(outcome.findings.swapped > 1000);
  }

  TEST_CASE("threads see nothing wrong while room is short and all is flushed now and then") {
    KBF_FOR_EACH_ENGINE();
    const uint64_t seed = 2;
    CAPTURE(seed);
    World world;
    world.exact_counters = false;
    world.store = MakeStore(TinyFront(uint64_t{3} << 20), seed);
    const Outcome outcome = RunWorld(&world, seed, Soak() ? 1000000 : 40000, true);
    CheckNothingWrong(outcome, *world.store);
  }

  TEST_CASE("a reading outlives its store") {
    KBF_FOR_EACH_ENGINE();
    World world;
    world.store = MakeStore(TinyFront(uint64_t{8} << 20), 3);
    // Twice the front, so that the first ones are in the chain.
    for (uint32_t i = 0; i < 20000; ++i) {
      (void)world.store->Write({WriteMode::kSet, "k" + std::to_string(i), TextOf(i % 100)}, 1000);
    }
    std::vector<Reading> readings;
    for (uint32_t i = 0; i < 20000; i += 100) {
      readings.push_back(world.store->Get("k" + std::to_string(i), 1000));
    }
    world.store.reset();
    uint64_t chain = 0;
    for (const Reading& reading : readings) {
      chain += reading.from_chain;
      if (reading.hit) CHECK(reading.value == TextOf(0));
    }
    CHECK(chain > 0);
    CHECK(chain < readings.size());
  }

  TEST_CASE("an exact store loses no update, whoever makes it") {
    StoreConfig config;
    config.front_share = 1;
    config.num_slabs = 4;
    const auto store = Store::Create(config, HashSecret::FromSeed(4)).store;
    constexpr uint32_t kNow = 1000;
    const auto key_of = [](std::string_view kind, uint64_t i) {
      return std::string(kind) + std::to_string(i);
    };

    // One add of each key wins, and the value is the winner's.
    constexpr unsigned kKeys = 4000;
    std::vector<std::atomic<unsigned>> wins(kKeys);
    std::vector<std::atomic<unsigned>> winner(kKeys);
    InThreads([&](unsigned thread) {
      for (unsigned i = 0; i < kKeys; ++i) {
        const unsigned key = (i + thread * 7) % kKeys;
        const StoreStatus status =
            store->Write({WriteMode::kAdd, key_of("add:", key), TextOf(thread), thread}, kNow)
                .status;
        if (status != StoreStatus::kOk) continue;
        wins[key].fetch_add(1, std::memory_order_relaxed);
        winner[key].store(thread, std::memory_order_relaxed);
      }
    });
    uint64_t wrong = 0;
    for (unsigned key = 0; key < kKeys; ++key) {
      const Reading reading = store->Get(key_of("add:", key), kNow);
      wrong +=
          wins[key] != 1 || reading.flags != winner[key] || reading.value != TextOf(winner[key]);
    }
    CHECK(wrong == 0);

    // Each is deleted once.
    std::atomic<uint64_t> deleted{0};
    InThreads([&](unsigned thread) {
      for (unsigned i = 0; i < kKeys; ++i) {
        const unsigned key = (i + thread * 7) % kKeys;
        deleted += store->Delete(key_of("add:", key), kNow) == StoreStatus::kOk;
      }
    });
    CHECK(deleted == kKeys);

    // Increments, decrements and cas on few keys, some of them shared with a reader meanwhile.
    constexpr unsigned kCounters = 8;
    constexpr uint64_t kStart = 1000000;
    std::vector<std::atomic<uint64_t>> expected(2 * kCounters);
    for (unsigned i = 0; i < 2 * kCounters; ++i) {
      expected[i] = kStart;
      CHECK(store->Write({WriteMode::kSet, key_of("count:", i), std::to_string(kStart)}, kNow)
                .status == StoreStatus::kOk);
    }
    InThreads([&](unsigned thread) {
      std::mt19937_64 random(thread);
      for (unsigned i = 0; i < (Soak() ? 500000u : 10000u); ++i) {
        const unsigned counter = static_cast<unsigned>(random() % (2 * kCounters));
        const std::string key = key_of("count:", counter);
        if (counter < kCounters) {
          const Reading held = random() % 2 == 0 ? store->Get(key, kNow) : Reading{};
          ArithmeticRequest request;
          request.key = key;
          request.delta = random() % 50;
          request.decrement = random() % 2 == 0;
          if (store->Arithmetic(request, kNow).status != StoreStatus::kOk) continue;
          expected[counter] += request.decrement ? -request.delta : request.delta;
        } else {
          const Reading reading = store->Get(key, kNow);
          const std::string next = std::to_string(NumberIn(reading.value).value_or(0) + 1);
          WriteRequest request{WriteMode::kCas, key, next};
          request.cas = reading.cas;
          expected[counter] += store->Write(request, kNow).status == StoreStatus::kOk;
        }
      }
    });
    for (unsigned i = 0; i < 2 * kCounters; ++i) {
      CAPTURE(i);
      CHECK(NumberIn(store->Get(key_of("count:", i), kNow).value) == expected[i]);
    }

    // Appended words are all there, each thread's in its order.
    constexpr unsigned kLogs = 4;
    constexpr unsigned kWords = 300;
    for (unsigned log = 0; log < kLogs; ++log) {
      (void)store->Write({WriteMode::kSet, key_of("log:", log), ""}, kNow);
    }
    InThreads([&](unsigned thread) {
      for (unsigned i = 0; i < kLogs * kWords; ++i) {
        const std::string word = {static_cast<char>('A' + thread),
                                  static_cast<char>('0' + i / kLogs % 10)};
        (void)store->Write({WriteMode::kAppend, key_of("log:", i % kLogs), word}, kNow);
      }
    });
    for (unsigned log = 0; log < kLogs; ++log) {
      const Reading reading = store->Get(key_of("log:", log), kNow);
      CHECK(reading.value.size() == 2 * kExactThreads * kWords);
      std::array<unsigned, kExactThreads> next{};
      uint64_t out_of_order = 0;
      for (size_t i = 0; i + 1 < reading.value.size(); i += 2) {
        const auto thread = static_cast<unsigned>(reading.value[i] - 'A');
        if (thread < kExactThreads &&
            reading.value[i + 1] == static_cast<char>('0' + next[thread] % 10)) {
          ++next[thread];
        } else {
          ++out_of_order;
        }
      }
      CHECK(out_of_order == 0);
    }
  }
}

}  // namespace
}  // namespace kbf
