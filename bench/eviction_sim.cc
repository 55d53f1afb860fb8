// Which items to evict: the hit ratios of LRU, memcached's segmented LRU, CLOCK, SIEVE, S3-FIFO and
// others at equal bytes, offline. What each of them is, and what it pays for its own memory, says
// bench/eviction_policies.h.
//
// Runs:    1.5 minutes of CPU, 0.1 GB; --quick: 15 s
// Result:  bench/results/eviction_sim.tsv; the choice and its table: docs/PERFORMANCE.md
//
// A miss stores the item. An item takes 40 bytes for its head and its part of the index, 30 for its
// key, and its value. The memory is a share of what all items of the load would take. The first two
// fifths of the requests warm up and are not counted.
#include <cmath>
#include <functional>
#include <numeric>
#include <random>
#include <string_view>

#include "bench/bench.h"
#include "bench/eviction_policies.h"
#include "tools/kbfload/distribution.h"

namespace {

constexpr uint64_t kSeed = 20261119;
constexpr uint32_t kHeadBytes = 40;
constexpr uint32_t kKeyBytes = 30;

struct Load {
  std::string_view name;
  std::vector<uint32_t> sizes;     // of the item of each key
  std::vector<uint32_t> requests;  // keys
};

using Random = std::mt19937_64;
using SizeOf = std::function<uint32_t(Random&)>;

uint32_t LogUniform(Random& random, double low, double high) {
  return static_cast<uint32_t>(low * std::pow(high / low, load::Unit(random())));
}

// Loads write key numbers; in the end all of them are numbered at random.
class Builder {
 public:
  Builder(std::string_view name, uint32_t keys, uint64_t requests)
      : random_(kSeed), keys_(keys), requests_(requests) {
    load_.name = name;
    load_.requests.reserve(requests);
  }

  Random& random() { return random_; }
  uint32_t keys() const { return keys_; }
  uint32_t AddKey() { return keys_++; }
  bool full() const { return load_.requests.size() >= requests_; }
  uint64_t size() const { return load_.requests.size(); }
  void Ask(uint64_t key) { load_.requests.push_back(static_cast<uint32_t>(key)); }

  Load Finish(const SizeOf& value_bytes) {
    std::vector<uint32_t> number(keys_);
    std::iota(number.begin(), number.end(), 0);
    std::shuffle(number.begin(), number.end(), random_);
    for (uint32_t& key : load_.requests) key = number[key];
    load_.sizes.resize(keys_);
    for (uint32_t& size : load_.sizes) size = kHeadBytes + kKeyBytes + value_bytes(random_);
    return std::move(load_);
  }

 private:
  Random random_;
  uint32_t keys_;
  uint64_t requests_;
  Load load_;
};

Load ByZipf(std::string_view name, uint32_t keys, uint64_t requests, double exponent,
            const SizeOf& value_bytes) {
  Builder builder(name, keys, requests);
  const load::Zipf zipf(keys, exponent);
  while (!builder.full()) builder.Ask(zipf.Draw(builder.random()()));
  return builder.Finish(value_bytes);
}

// Every 500 requests a rank gets another key: ranks of all decades alike, so that each of the ten
// most popular keys lasts for about 30,000 requests.
Load Shifting(std::string_view name, uint32_t keys, uint64_t requests, const SizeOf& value_bytes) {
  Builder builder(name, keys, requests);
  const load::Zipf zipf(keys, 0.99);
  std::vector<uint32_t> key_of(keys);
  std::iota(key_of.begin(), key_of.end(), 0);
  while (!builder.full()) {
    if (builder.size() % 500 == 0) {
      const double decade = load::Unit(builder.random()());
      const auto rank = static_cast<uint32_t>(std::pow(keys, decade)) - 1;
      std::swap(key_of[rank], key_of[builder.random()() % keys]);
    }
    builder.Ask(key_of[zipf.Draw(builder.random()())]);
  }
  return builder.Finish(value_bytes);
}

// Three of ten requests are for keys that are asked for only then.
Load OneHitWonders(uint32_t keys, uint64_t requests, const SizeOf& value_bytes) {
  Builder builder("30 % asked for once", keys, requests);
  const load::Zipf zipf(keys, 0.99);
  while (!builder.full()) {
    builder.Ask(builder.random()() % 10 < 3 ? builder.AddKey() : zipf.Draw(builder.random()()));
  }
  return builder.Finish(value_bytes);
}

// Half of the requests walk over half of the keys in order, again and again, in bursts.
Load Scans(uint32_t keys, uint64_t requests, const SizeOf& value_bytes) {
  Builder builder("half are scans", keys, requests);
  const load::Zipf zipf(keys, 0.99);
  const uint64_t burst = requests / 50;
  uint64_t scanned = 0;
  while (!builder.full()) {
    const bool scan = builder.size() / burst % 2 == 1;
    builder.Ask(scan ? scanned++ % (keys / 2) : zipf.Draw(builder.random()()));
  }
  return builder.Finish(value_bytes);
}

// Sessions: each key is asked for about ten times within a window and never again. Half of the
// requests; the others are by Zipf's law. LRU is good at this.
Load Sessions(uint32_t keys, uint64_t requests, const SizeOf& value_bytes) {
  Builder builder("half are sessions of ten", keys, requests);
  const load::Zipf zipf(keys, 0.99);
  std::vector<uint32_t> open(keys / 50);
  for (uint32_t& key : open) key = builder.AddKey();
  while (!builder.full()) {
    uint32_t& session = open[builder.random()() % open.size()];
    if (builder.random()() % 10 == 0) session = builder.AddKey();
    builder.Ask(session);
    if (!builder.full()) builder.Ask(zipf.Draw(builder.random()()));
  }
  return builder.Finish(value_bytes);
}

std::vector<std::function<Load()>> Loads(uint32_t keys, uint64_t requests) {
  const SizeOf even = [](Random&) { return 100u; };
  const SizeOf small = [](Random& random) { return LogUniform(random, 50, 500); };
  const SizeOf wide = [](Random& random) { return LogUniform(random, 100, 100000); };
  return {
      [=] { return ByZipf("Zipf 0.99", keys, requests, 0.99, even); },
      [=] { return ByZipf("Zipf 0.7", keys, requests, 0.7, even); },
      [=] { return Shifting("shifting hot set", keys, requests, even); },
      [=] { return OneHitWonders(keys, requests, even); },
      [=] { return Scans(keys, requests, even); },
      [=] { return Sessions(keys, requests, even); },
      [=] { return ByZipf("Zipf 0.99, values 50-500", keys, requests, 0.99, small); },
      [=] { return ByZipf("Zipf 0.99, values 100-100,000", keys, requests, 0.99, wide); },
      [=] { return Shifting("shifting, values 100-100,000", keys, requests, wide); },
  };
}

struct Way {
  std::string name;
  std::function<std::unique_ptr<bench::Policy>(const Load&, uint64_t capacity)> make;
};

template <class Made, class... More>
Way Make(std::string name, More... more) {
  return {std::move(name), [=](const Load& load, uint64_t capacity) {
            return std::make_unique<Made>(load.sizes, capacity, more...);
          }};
}

// What the tables recommend; variants of it show what each setting does.
constexpr bench::FifoSettings kChosen{.small = 0.1, .count_max = 3, .promote = 1, .ghosts = 0.25};
bench::FifoSettings With(void (*change)(bench::FifoSettings*)) {
  bench::FifoSettings settings = kChosen;
  change(&settings);
  return settings;
}

std::vector<Way> Ways() {
  using bench::Fifo, bench::FifoSettings;
  return {
      Make<bench::Lru>("LRU"),
      Make<bench::SegmentedLru>("memcached"),
      Make<bench::HashClock>("CLOCK by hash, 1-3", uint8_t{1}, uint8_t{3}),
      Make<Fifo>("CLOCK, 1 bit", FifoSettings{.small = 0, .count_max = 1}),
      Make<Fifo>("CLOCK, 2 bits", FifoSettings{.small = 0}),
      Make<bench::Sieve>("SIEVE"),
      Make<Fifo>("S3-FIFO as published", FifoSettings{}),
      Make<Fifo>("S3-FIFO, promote 1", FifoSettings{.promote = 1}),
      Make<Fifo>("same, ghosts 1/2", FifoSettings{.promote = 1, .ghosts = 0.5}),
      Make<Fifo>("same, ghosts 1/4", kChosen),
      Make<Fifo>("same, no ghosts", FifoSettings{.promote = 1, .ghosts = 0}),
      Make<Fifo>("1/4, small 5 %", With([](FifoSettings* to) { to->small = 0.05; })),
      Make<Fifo>("1/4, small 20 %", With([](FifoSettings* to) { to->small = 0.2; })),
      Make<Fifo>("1/4, 3 bits", With([](FifoSettings* to) { to->count_max = 7; })),
      Make<Fifo>("1/4, 256 segments", With([](FifoSettings* to) { to->segments = 256; })),
      Make<Fifo>("1/4, 32 segments", With([](FifoSettings* to) { to->segments = 32; })),
      Make<Fifo>("1/4, 3 bits, by size", With([](FifoSettings* to) {
                   to->count_max = 7;
                   to->by_size = true;
                 })),
      Make<bench::TinyLfu>("W-TinyLFU", 0.01),
      Make<bench::SegmentMerge>("Segcache"),
      Make<bench::Gdsf>("GDSF"),
      {"Belady",
       [](const Load& load, uint64_t capacity) {
         return std::make_unique<bench::Belady>(load.sizes, capacity, load.requests);
       }},
  };
}

void Compare(const Load& load) {
  const uint64_t all = std::accumulate(load.sizes.begin(), load.sizes.end(), uint64_t{0});
  for (const double share : {0.02, 0.1, 0.3}) {
    const auto capacity = static_cast<uint64_t>(share * static_cast<double>(all));
    for (const Way& way : Ways()) {
      const auto policy = way.make(load, capacity);
      const size_t warm = load.requests.size() * 2 / 5;
      uint64_t hits = 0;
      const double seconds = bench::SecondsOf([&] {
        for (size_t i = 0; i < load.requests.size(); ++i) {
          hits += static_cast<uint64_t>(policy->Access(load.requests[i])) & (i >= warm);
        }
      });
      std::printf(
          "%s\t%s\t%.2f\t%.2f\t%llu\t%.0f\n", std::string(load.name).c_str(), way.name.c_str(),
          share,
          100.0 * static_cast<double>(hits) / static_cast<double>(load.requests.size() - warm),
          static_cast<unsigned long long>(policy->items()),
          1e9 * seconds / static_cast<double>(load.requests.size()));
    }
    std::fflush(stdout);
  }
}

}  // namespace

int main(int argc, char** argv) {
  const bool quick = argc > 1 && std::string_view(argv[1]) == "--quick";
  const uint32_t keys = quick ? 50000 : 200000;
  bench::PrintHead(argc, argv, "hit ratios of eviction policies at equal bytes", kSeed);
  std::printf("load\tpolicy\tmemory\thit_percent\titems\tsimulated_ns\n");
  for (const auto& make : Loads(keys, 8 * uint64_t{keys})) Compare(make());
}
