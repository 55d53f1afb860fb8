// The engines side by side, behind the chain seam: bytes per key, errors, and the CPU time of
// look-ups and inserts.
//
// Claim:   packed takes less than a third of kbf's bytes per key, misses no key, and answers a
// batch
//          of look-ups in less than half the CPU time.
// Runs:    5 s of CPU time and 60 MB with 300,000 keys; the arguments are millions of keys, and
//          millions of look-ups.
// Result:  bench/results/engine_bench.tsv
//
// Keys are hashes, so that hashing is not measured; 3,000 values. Chains have 4 M keys each and
// grow as a slab lets them. `found_ns` and `absent_ns` wait for each answer, `batched_ns` fetches
// 32 keys together; all are the thread's own CPU time, which a busy machine disturbs less than the
// clock.
#include <time.h>

#include <array>
#include <memory>

#include "bench/bench.h"
#include "storage/engine.h"

namespace {

constexpr uint64_t kSeed = 20261119;
constexpr uint32_t kValues = 3000;
constexpr uint32_t kNow = 1000;
constexpr uint64_t kChainKeys = 1500000;
constexpr int kAttempts = 20;
constexpr uint64_t kPartKeys = 32768;
constexpr size_t kBatch = 32;

kbf::KeyHash KeyOf(uint64_t i) {
  return {kbf::Mix64(i * 0x9e3779b97f4a7c15u + kSeed), kbf::Mix64(~i ^ kSeed)};
}
uint64_t ValueOf(uint64_t i) { return kbf::Mix64(i) % kValues; }

double CpuSecondsOf(auto&& work) {
  const auto now = [] {
    timespec time;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
  };
  const double start = now();
  work();
  return now() - start;
}

class World {
 public:
  explicit World(const kbf::EngineConfig& config)
      : engine_(std::move(kbf::MakeEngine(config, kbf::HashSecret::FromSeed(kSeed)).engine)) {
    for (uint64_t i = 0; i < config.num_slabs; ++i) {
      chains_.push_back(engine_->NewChain({.value_bytes_max = 1 << 20}));
    }
    for (uint64_t i = 0; i < kValues; ++i) values_.push_back("value " + std::to_string(i));
  }

  kbf::Chain& ChainOf(const kbf::KeyHash& key) {
    return *chains_[kbf::ScaleTo(kbf::Stream(key, kbf::kSlabStream), chains_.size())];
  }
  // As a slab demotes an item, which waits until there is room. False: the key stays exact.
  bool Insert(uint64_t i) {
    const kbf::KeyHash key = KeyOf(i);
    kbf::Chain& chain = ChainOf(key);
    for (int attempt = 0; attempt < kAttempts; ++attempt) {
      const auto number = chain.Number(values_[ValueOf(i)], 0);
      if (!number) continue;  // a value may need several occurrences
      if (!chain.RemoveForInsert(key, kNow)) return false;
      const auto done = chain.Insert(key, *number, 0, kNow);
      if (done.outcome != kbf::Chain::Insertion::kNoRoom) {
        return done.outcome == kbf::Chain::Insertion::kDone;
      }
      while (!chain.BytesToGrow(0, kNow)) chain.CountWaiting(0, kNow);
      while (!chain.Grow(0, kNow)) {
        if (!chain.MaintainStep(kNow)) return false;
      }
    }
    return false;
  }
  bool Finds(uint64_t i, uint64_t* wrong) {
    const kbf::KeyHash key = KeyOf(i);
    kbf::Chain& chain = ChainOf(key);
    const kbf::ChainAnswer answer = chain.Find(key, kNow);
    if (answer.found) *wrong += chain.ValueOf(answer.number).bytes != values_[ValueOf(i)];
    return answer.found;
  }
  uint64_t FindBatch(uint64_t first, uint64_t keys) {
    std::array<kbf::KeyHash, kBatch> batch;
    for (size_t i = 0; i < kBatch; ++i) {
      batch[i] = KeyOf(kbf::Mix64(first + i) % keys);
      ChainOf(batch[i]).PrefetchPlaces(batch[i]);
    }
    for (const kbf::KeyHash& key : batch) ChainOf(key).PrefetchEntries(key);
    uint64_t found = 0;
    for (const kbf::KeyHash& key : batch) found += ChainOf(key).Find(key, kNow).found;
    return found;
  }
  double BytesPerKey(uint64_t keys) const {
    uint64_t bytes = engine_->shared_bytes();
    for (const auto& chain : chains_) bytes += chain->memory_bytes();
    return static_cast<double>(bytes) / static_cast<double>(keys);
  }
  double PredictedFalsePositive() const {
    double sum = 0;
    for (const auto& chain : chains_) sum += chain->PredictedErrors().rates.false_positive;
    return sum / static_cast<double>(chains_.size());
  }
  void Tidy() {
    for (const auto& chain : chains_) {
      while (chain->MaintainStep(kNow + 60)) {
      }
    }
  }

 private:
  std::unique_ptr<kbf::Engine> engine_;
  std::vector<std::unique_ptr<kbf::Chain>> chains_;
  std::vector<std::string> values_;
};

void Measure(kbf::EngineKind kind, double false_positive, uint64_t keys, uint64_t asked) {
  kbf::EngineConfig config;
  config.kind = kind;
  config.false_positive = false_positive;
  config.part_keys = kPartKeys;
  config.num_slabs = static_cast<unsigned>((keys + kChainKeys - 1) / kChainKeys);
  config.slab_bytes = kChainKeys * 12;  // more than packed takes, as in a slab
  World world(config);
  uint64_t exact = 0;
  const double insert = CpuSecondsOf([&] {
    for (uint64_t i = 0; i < keys; ++i) exact += !world.Insert(i);
  });
  world.Tidy();
  uint64_t missed = 0;
  uint64_t wrong = 0;
  for (uint64_t i = 0; i < keys; ++i) missed += !world.Finds(i, &wrong);
  uint64_t hits = 0;
  uint64_t unused = 0;
  const double found = CpuSecondsOf([&] {
    for (uint64_t i = 0; i < asked; ++i) hits += world.Finds(kbf::Mix64(i) % keys, &unused);
  });
  uint64_t absent_found = 0;
  const double absent = CpuSecondsOf([&] {
    for (uint64_t i = 0; i < asked; ++i) absent_found += world.Finds(keys + i, &unused);
  });
  const double batched = CpuSecondsOf([&] {
    for (uint64_t i = 0; i < asked; i += kBatch) hits += world.FindBatch(i, keys);
  });
  const auto n = static_cast<double>(asked);
  std::printf("%s\t%.0e\t%llu\t%.2f\t%llu\t%llu\t%llu\t%.2e\t%.2e\t%.0f\t%.0f\t%.0f\t%.0f\n",
              kind == kbf::EngineKind::kKbf ? "kbf" : "packed", false_positive,
              static_cast<unsigned long long>(keys), world.BytesPerKey(keys),
              static_cast<unsigned long long>(exact),
              static_cast<unsigned long long>(missed - std::min(missed, exact)),
              static_cast<unsigned long long>(wrong), static_cast<double>(absent_found) / n,
              world.PredictedFalsePositive(), 1e9 * insert / static_cast<double>(keys),
              1e9 * found / n, 1e9 * absent / n, 1e9 * batched / n);
  std::fflush(stdout);
  if (hits == 0) std::abort();
}

}  // namespace

int main(int argc, char** argv) {
  const double millions = argc > 1 ? std::atof(argv[1]) : 0.3;
  const double asked = argc > 2 ? std::atof(argv[2]) : 0.2;
  bench::PrintHead(argc, argv, "the engines side by side, behind the chain seam", kSeed);
  std::printf(
      "engine\tbudget\tkeys\tbytes_per_key\texact\tmissed\twrong\tfalse_positive\tpredicted\t"
      "insert_ns\tfound_ns\tabsent_ns\tbatched_ns\n");
  for (const double budget : {2e-5, 1e-12}) {
    for (const kbf::EngineKind kind : {kbf::EngineKind::kKbf, kbf::EngineKind::kPacked}) {
      Measure(kind, budget, static_cast<uint64_t>(millions * 1e6),
              static_cast<uint64_t>(asked * 1e6));
    }
  }
}
