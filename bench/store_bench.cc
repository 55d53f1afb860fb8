// In-process speed and size of the whole store: the exact front, demotion, and lookups in the
// chain.
//
// Claim:   a key of the chain takes a sixth of the memory of an item of the front, and setting a
//          new key that demotes another costs less than three times the CPU of one that does not.
// Runs:    about 40 s and 540 MB with 2 M keys; the argument is millions of keys.
// Result:  bench/results/store_bench.tsv
//
// Keys have 30 bytes, values 100 bytes, 3,000 of them different. Keys are made before the clock
// starts; each value found is compared with the one that was stored, in its first eight bytes.
// cpu_ns_per_op is the threads' own CPU time, which a busy machine disturbs less than the rate;
// low and high are the extremes of the repeats. A hit share of less than 1 is the chain's false
// negatives (of writes: what was stored); `false_positive` is the share of absent keys that were
// found, `wrong` of hits with another value. The predictions next to them are Store::Errors() as it
// was before.
#include <time.h>

#include <cstring>
#include <memory>
#include <span>
#include <thread>

#include "bench/bench.h"
#include "storage/store.h"

namespace {

constexpr uint64_t kSeed = 20261118;
constexpr uint32_t kValues = 3000;
constexpr size_t kValueBytes = 100;
constexpr size_t kBatch = 32;
constexpr uint64_t kReads = 600000;  // by all threads together
constexpr int kRepeats = 3;
constexpr uint32_t kNow = 1000;

struct Key {
  char bytes[32];
  std::string_view view() const { return {bytes, 30}; }
};

std::vector<Key> MakeKeys(const char* kind, uint64_t count) {
  std::vector<Key> keys(count);
  for (uint64_t i = 0; i < count; ++i) {
    std::snprintf(keys[i].bytes, sizeof(Key), "%.4s%020llu:%05llu", kind,
                  static_cast<unsigned long long>(i),
                  static_cast<unsigned long long>(kbf::Mix64(i) % 100000));
  }
  return keys;
}

uint64_t ValueNumber(uint64_t key) { return kbf::ScaleTo(kbf::Mix64(key ^ kSeed), kValues); }

struct World {
  std::vector<Key> keys = {};
  std::vector<Key> absent_keys = {};
  std::vector<uint32_t> order = {};  // of reads
  std::vector<std::string> values = {};

  std::string_view ValueOf(uint64_t key) const { return values[ValueNumber(key)]; }
};

World MakeWorld(uint64_t keys) {
  World world;
  world.keys = MakeKeys("key:", keys);
  world.absent_keys = MakeKeys("none", kReads);
  for (uint64_t i = 0; i < kReads; ++i) {
    world.order.push_back(static_cast<uint32_t>(kbf::ScaleTo(kbf::Mix64(i * 3 + 1), keys)));
  }
  for (uint64_t i = 0; i < kValues; ++i) {
    std::string value = std::to_string(10000000 + i);
    while (value.size() < kValueBytes) value += static_cast<char>('a' + (i + value.size()) % 26);
    world.values.push_back(value);
  }
  return world;
}

struct Tally {
  uint64_t hits = 0;
  uint64_t wrong = 0;

  void Add(const Tally& other) {
    hits += other.hits;
    wrong += other.wrong;
  }
  void Count(const kbf::Reading& reading, std::string_view expected) {
    if (!reading.hit) return;
    ++hits;
    wrong += reading.value.size() != kValueBytes ||
             std::memcmp(reading.value.data(), expected.data(), 8) != 0;
  }
};

double ThreadCpuSeconds() {
  timespec time;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

struct Run {
  double seconds = 0;
  double cpu_seconds = 0;  // of all threads
  Tally tally;
};

// work(begin, end) -> Tally in each thread, for its part of 0 … count-1.
Run InThreads(unsigned threads, uint64_t count, auto&& work) {
  Run run;
  std::vector<Tally> tallies(threads);
  std::vector<double> cpu(threads);
  run.seconds = bench::SecondsOf([&] {
    std::vector<std::thread> running;
    for (unsigned i = 0; i < threads; ++i) {
      running.emplace_back([&, i] {
        const double start = ThreadCpuSeconds();
        tallies[i] = work(count * i / threads, count * (i + 1) / threads);
        cpu[i] = ThreadCpuSeconds() - start;
      });
    }
    for (std::thread& thread : running) thread.join();
  });
  for (unsigned i = 0; i < threads; ++i) {
    run.tally.Add(tallies[i]);
    run.cpu_seconds += cpu[i];
  }
  return run;
}

class StoreBench {
 public:
  StoreBench(const World& world, const char* name, const kbf::StoreConfig& config, unsigned threads)
      : world_(world),
        name_(name),
        threads_(threads),
        store_(kbf::Store::Create(config, kbf::HashSecret::FromSeed(kSeed)).store) {}

  kbf::Store& store() { return *store_; }

  void Set(const char* operation) {
    before_ = {};
    const uint64_t demoted_before = store_->Counters().demoted;
    const Run run = InThreads(threads_, world_.keys.size(), [&](uint64_t begin, uint64_t end) {
      Tally tally;
      for (uint64_t i = begin; i < end; ++i) {
        const auto status =
            store_->Write({kbf::WriteMode::kSet, world_.keys[i].view(), world_.ValueOf(i)}, kNow)
                .status;
        tally.hits += status == kbf::StoreStatus::kOk;
      }
      return tally;
    });
    const auto demoted = static_cast<double>(store_->Counters().demoted - demoted_before);
    Print(operation, "single", world_.keys.size(), {run}, demoted / run.seconds);
  }

  void Get(const char* operation, bool absent_keys) {
    const auto key_at = [&](uint64_t i) {
      return absent_keys ? world_.absent_keys[i].view() : world_.keys[world_.order[i]].view();
    };
    const auto value_at = [&](uint64_t i) {
      return absent_keys ? std::string_view(world_.values[0]) : world_.ValueOf(world_.order[i]);
    };
    Repeat(operation, "single", absent_keys, [&](uint64_t begin, uint64_t end) {
      Tally tally;
      for (uint64_t i = begin; i < end; ++i) tally.Count(store_->Get(key_at(i), kNow), value_at(i));
      return tally;
    });
    Repeat(operation, "batch32", absent_keys, [&](uint64_t begin, uint64_t end) {
      Tally tally;
      std::array<std::string_view, kBatch> asked;
      std::array<kbf::Reading, kBatch> readings;
      for (uint64_t i = begin; i < end; i += kBatch) {
        const uint64_t count = std::min<uint64_t>(kBatch, end - i);
        for (uint64_t j = 0; j < count; ++j) asked[j] = key_at(i + j);
        store_->GetMany({asked.data(), count}, kNow, readings.data());
        for (uint64_t j = 0; j < count; ++j) tally.Count(readings[j], value_at(i + j));
      }
      return tally;
    });
  }

  // Every `step`th key.
  void Delete(const char* operation, uint64_t step) {
    before_ = store_->Errors().predicted;
    const uint64_t count = world_.keys.size() / step;
    const Run run = InThreads(threads_, count, [&](uint64_t begin, uint64_t end) {
      Tally tally;
      for (uint64_t i = begin; i < end; ++i) {
        tally.hits += store_->Delete(world_.keys[i * step].view(), kNow) == kbf::StoreStatus::kOk;
      }
      return tally;
    });
    Print(operation, "single", count, {run}, 0);
  }

  // Background work until there is none, as it would be a minute later.
  void Maintain(const char* when) {
    double longest = 0;
    double total = 0;
    uint64_t steps = 0;
    for (unsigned idle = 0; idle < store_->num_slabs() && steps < 1000000; ++steps) {
      const double start = ThreadCpuSeconds();
      const bool worked = store_->Maintain(1, kNow + 60) > 0;
      const double seconds = ThreadCpuSeconds() - start;
      longest = std::max(longest, seconds);
      total += seconds;
      idle = worked ? 0 : idle + 1;
    }
    std::printf("# %s, maintenance %s: %llu steps, %.1f us of CPU each, the longest %.1f us\n",
                name_, when, static_cast<unsigned long long>(steps),
                total / static_cast<double>(steps) * 1e6, longest * 1e6);
  }

  void PrintMemory() const {
    const kbf::StoreUsage usage = store_->Usage();
    const auto keys = static_cast<double>(world_.keys.size());
    const auto per_key = [keys](uint64_t bytes) { return static_cast<double>(bytes) / keys; };
    std::printf(
        "# %s, bytes per key: %.1f in all; front %.1f (%llu items), cells %.1f, locator %.1f, "
        "dictionary %.1f, blobs %.1f, other %.1f; %llu slabs, %llu filters, %llu tombstones\n",
        name_, per_key(usage.total_bytes()), per_key(usage.slabs.front_bytes),
        static_cast<unsigned long long>(usage.slabs.front_items), per_key(usage.slabs.cells_bytes),
        per_key(usage.slabs.locator_bytes), per_key(usage.slabs.dictionary_bytes),
        per_key(usage.shared_bytes), per_key(usage.slabs.other_bytes),
        static_cast<unsigned long long>(store_->num_slabs()),
        static_cast<unsigned long long>(usage.slabs.filters),
        static_cast<unsigned long long>(usage.slabs.tombstones));
  }

 private:
  void Repeat(const char* operation, const char* mode, bool absent_keys, auto&& work) {
    before_ = store_->Errors().predicted;
    (void)InThreads(threads_, kReads / 4, work);  // warms up
    std::vector<Run> runs;
    for (int i = 0; i < kRepeats; ++i) runs.push_back(InThreads(threads_, kReads, work));
    Print(operation, mode, kReads, runs, 0, absent_keys);
  }

  void Print(const char* operation, const char* mode, uint64_t count, std::vector<Run> runs,
             double demoted_per_second, bool absent_keys = false) {
    std::sort(runs.begin(), runs.end(),
              [](const Run& a, const Run& b) { return a.cpu_seconds < b.cpu_seconds; });
    const Run& median = runs[runs.size() / 2];
    const auto operations = static_cast<double>(count);
    const double found = static_cast<double>(median.tally.hits) / operations;
    std::printf(
        "%s\t%s\t%s\t%u\t%llu\t%.0f\t%.0f\t%.0f\t%.0f\t%.6f\t%.6f\t%.3g\t%.3g\t%.3g\t%.1f\t%.0f\n",
        name_, operation, mode, threads_, static_cast<unsigned long long>(world_.keys.size()),
        operations / median.seconds, median.cpu_seconds / operations * 1e9,
        runs.front().cpu_seconds / operations * 1e9, runs.back().cpu_seconds / operations * 1e9,
        absent_keys ? 0 : found, absent_keys ? 0 : 1 - before_.false_negative,
        absent_keys ? found : 0, before_.false_positive,
        absent_keys ? 0 : static_cast<double>(median.tally.wrong) / operations,
        static_cast<double>(store_->Usage().total_bytes()) /
            static_cast<double>(world_.keys.size()),
        demoted_per_second);
    std::fflush(stdout);
  }

  const World& world_;
  const char* const name_;
  const unsigned threads_;
  const std::unique_ptr<kbf::Store> store_;
  kbf::ErrorRates before_;  // predicted
};

void BenchFront(const World& world, unsigned threads) {
  kbf::StoreConfig config;
  config.memory_bytes = world.keys.size() * 300 + (uint64_t{64} << 20);
  config.front_share = 1;
  StoreBench bench(world, "front", config, threads);
  bench.Set("set_new");
  bench.PrintMemory();
  bench.Get("get_hit", false);
  bench.Get("get_miss", true);
  bench.Set("set_again");
  bench.Delete("delete", 2);
}

void BenchChain(const World& world, unsigned threads) {
  kbf::StoreConfig config;
  config.memory_bytes = world.keys.size() * 64 + (uint64_t{16} << 20);  // nothing is lost
  config.front_share = 0.05;
  StoreBench bench(world, "chain", config, threads);
  bench.Set("set_new");
  bench.PrintMemory();
  bench.Get("get_hit", false);
  bench.Get("get_miss", true);
  bench.Set("set_again");
  bench.Maintain("after all keys were set twice");
  bench.Delete("delete", 2);
  bench.Maintain("after half of the keys were deleted");
  bench.PrintMemory();
}

}  // namespace

int main(int argc, char** argv) {
  const long millions = argc > 1 ? std::strtol(argv[1], nullptr, 10) : 2;
  if (millions < 1 || millions > 100) {
    std::fprintf(stderr, "store_bench: the argument is millions of keys, 1 to 100\n");
    return 1;
  }
  bench::PrintHead(argc, argv, "the store, in process: speed, bytes and errors", kSeed);
  std::printf(
      "store\toperation\tmode\tthreads\tkeys\tops_per_second\tcpu_ns_per_op\tcpu_ns_low\t"
      "cpu_ns_high\thit_share\thit_share_predicted\tfalse_positive\tfalse_positive_"
      "predicted\twrong\t"
      "bytes_per_key\tdemoted_per_second\n");
  const World world = MakeWorld(static_cast<uint64_t>(millions) * 1000000);
  for (const unsigned threads : {1u, 2u}) {
    BenchFront(world, threads);
    BenchChain(world, threads);
  }
  return 0;
}
