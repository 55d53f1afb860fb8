// Store keeps keys and values with memcached's semantics in a fraction of memcached's memory: this
// room's front door.
//
// Recently written and read items are in an exact table, the front. Items that memcached would soon
// evict are moved to a chain, which keeps no keys and each distinct value once, if their values
// repeat. An engine (engine.h) makes the chains: by default of key-value Bloom filters.
//
// Promises:  exact while the data fit the front. In the chain: a stored key misses with chance
//            `false_negative` at most, an absent key is found with chance `false_positive`, both as
//            planned; never an expired, flushed, deleted or overwritten value, never bytes that
//            were not stored. Everything that the store allocates fits `memory_bytes`.
// Requires:  times in seconds of one clock that never goes back and starts at 2 or later; an expiry
//            of 0 is never, one of kExpiredAlways has passed. Thread-safe; each operation takes one
//            lock. Maintain is called now and then.
// Costs:     24 bytes besides key and value per item in the front, index included; about 26 bytes
//            in all per key in the chain. Rates are in bench/results/store_bench.tsv.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "storage/chain.h"
#include "storage/engine.h"
#include "storage/hash.h"
#include "storage/store_counters.h"
#include "storage/store_types.h"

namespace kbf {

class Slab;
class StoreMemory;

struct StoreConfig {
  EngineKind engine = EngineKind::kKbf;
  uint64_t memory_bytes = uint64_t{64} << 20;
  double false_negative = 2e-3;  // budgets of a lookup in the chain
  double false_positive = 2e-5;
  // Per slab, that the chain must tell apart at least. 0: as many as there are, within memory.
  uint64_t distinct_values = 0;
  // While everything takes less than this part of the memory, nothing is moved to the chain.
  double exact_share = 0;
  // Of the memory, for items that are kept exactly although they could live in the chain. 0:
  // everything that repeats goes to the chain at once; 1: nothing does. A sixteenth holds the
  // papers' workload in a ninth of memcached's bytes per key (bench/results/versus_memory.tsv).
  double front_share = 0.0625;
  unsigned num_slabs = 0;    // a power of two; 0: by memory
  uint64_t filter_keys = 0;  // that a chain drops together; 0: by memory
  bool evictions = true;
  bool keep_cas = true;
  uint32_t item_bytes_max = 1 << 20;
  // Keys that are always exact; and where the second are given, the only ones that are not.
  std::vector<std::string> exact_prefixes = {};
  std::vector<std::string> approximate_prefixes = {};
};

inline constexpr uint64_t kMemoryBytesMin = uint64_t{2} << 20;
inline constexpr unsigned kSlabsMax = 65536;

struct StoreUsage {
  SlabUsage slabs;            // sums
  uint64_t shared_bytes = 0;  // values, shared by all slabs
  uint64_t total_bytes() const { return slabs.total_bytes() + shared_bytes; }
};

struct StoreErrors {
  double promised_false_negative = 0;
  double promised_false_positive = 0;
  ErrorRates predicted;         // from the present load, over all slabs
  double false_candidates = 0;  // parts queried in vain per lookup, predicted
  MeasuredRates measured;       // by ErrorSampler
};

class Store {
 public:
  struct CreateOutcome;
  // A config that cannot be built gives no store and a sentence that names the limit.
  static CreateOutcome Create(const StoreConfig& config, const HashSecret& secret);

  const StoreConfig& config() const { return config_; }  // with defaults filled in
  const Engine& engine() const { return *engine_; }
  ~Store();

  Reading Get(std::string_view key, uint32_t now) { return Get(key, {}, now); }
  // Also gat, touch and the meta get.
  Reading Get(std::string_view key, const ReadOptions& options, uint32_t now);
  // All keys hashed and prefetched together. REQUIRES: readings has room for all keys
  void GetMany(std::span<const std::string_view> keys, uint32_t now, Reading* readings) {
    GetMany(keys, {}, now, readings);
  }
  void GetMany(std::span<const std::string_view> keys, const ReadOptions& options, uint32_t now,
               Reading* readings);
  // These keys will be asked for or written soon, each on its own: fetches into the CPU's cache
  // what that touches. Changes nothing.
  void Prefetch(std::span<const std::string_view> keys, bool for_reading);
  WriteResult Write(const WriteRequest& request, uint32_t now);
  // In this order; the memory that they touch is prefetched for all of them together. REQUIRES:
  // results has room for all
  void WriteMany(std::span<const WriteRequest> requests, uint32_t now, WriteResult* results);
  ArithmeticResult Arithmetic(const ArithmeticRequest& request, uint32_t now);
  StoreStatus Delete(std::string_view key, const DeleteOptions& options, uint32_t now);
  StoreStatus Delete(std::string_view key, uint32_t now) { return Delete(key, {}, now); }
  // Everything stored before `at` is gone from then on; at <= now: at once. That takes one CAS
  // number, as in memcached.
  void FlushAll(uint32_t at, uint32_t now);

  // Of a key with a legal length.
  unsigned SlabOfKey(std::string_view key) const {
    return static_cast<unsigned>(Stream(HashKey(key, secret_), kSlabStream) & (slabs_.size() - 1));
  }
  // As FlushAll, of one slab. REQUIRES: slab < num_slabs()
  void FlushSlab(unsigned slab, uint32_t at, uint32_t now);
  // The latest CAS number, and a way to have all later ones be larger than `least`.
  uint64_t latest_cas() const { return next_cas_.load(std::memory_order_relaxed); }
  void RaiseCas(uint64_t least);

  // From now until EndWarming or a flush, the store remembers which keys are changed, so that
  // writes with `warming` can bring in another server's items. False: no memory for it.
  [[nodiscard]] bool BeginWarming();
  void EndWarming();
  // Of FlushAll, since the store was made.
  uint64_t num_flushes() const { return num_flushes_.load(std::memory_order_relaxed); }

  // Shows some live items of a slab's front, beginning where *position says, and moves it on. What
  // lives in the chain cannot be listed. False: that was the end. REQUIRES: slab < num_slabs()
  bool ListItems(unsigned slab, ListPosition* position, uint32_t now, ItemVisitor* visitor);

  // So much of the memory is for others from now on; the store gives it back by and by.
  void SetAside(uint64_t bytes);

  // Up to `steps` bounded background steps, going round the slabs. Returns how many found work.
  unsigned Maintain(unsigned steps, uint32_t now);
  // Asks each slab for `stored` sampled keys and for `absent` random keys, which are not stored.
  void MeasureErrors(unsigned stored, unsigned absent, uint32_t now);

  StoreUsage Usage() const;
  SlabCounters Counters() const;
  ChainCounters ChainEvents() const;
  DictionaryCounters ValueEvents() const;
  StoreErrors Errors() const;
  unsigned num_slabs() const { return static_cast<unsigned>(slabs_.size()); }
  SlabUsage UsageOf(unsigned slab) const;
  SlabCounters CountersOf(unsigned slab) const;

 private:
  friend struct StoreImage;
  class Batch;

  Store(const StoreConfig& config, std::unique_ptr<Engine> engine, const HashSecret& secret);
  void AddSlab();  // Create does this until there are config.num_slabs

  // While all together take too much, the largest of some slabs gives way. No lock is held.
  void KeepLimit(uint32_t now) {
    if (config_.evictions && IsOverLimit()) [[unlikely]]
      MakeOthersGiveWay(now);
  }
  bool IsOverLimit() const;
  void MakeOthersGiveWay(uint32_t now);
  Slab& LargestOfSome();

  static bool IsKey(std::string_view key) { return !key.empty() && key.size() <= kKeyBytesMax; }
  Slab& SlabOf(const KeyHash& hash) {
    return *slabs_[Stream(hash, kSlabStream) & (slabs_.size() - 1)];
  }

  // Constant after construction, or thread-safe on their own.
  const StoreConfig config_;
  const HashSecret secret_;
  const std::unique_ptr<Engine> engine_;
  const std::unique_ptr<StoreMemory> memory_;
  std::atomic<uint64_t> next_cas_{0};
  std::atomic<uint64_t> num_flushes_{0};
  std::vector<std::unique_ptr<Slab>> slabs_;
  std::atomic<unsigned> maintained_{0};  // slab that Maintain turns to next
  std::atomic<uint64_t> relieved_{0};    // how often KeepLimit has looked for a slab
};

struct Store::CreateOutcome {
  std::unique_ptr<Store> store;
  std::string error;
};

}  // namespace kbf
