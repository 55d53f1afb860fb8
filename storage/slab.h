// Slab is one hash partition of the keys: the exact front, the approximate chain behind it, and the
// rules that move keys between them. Store is the class to use; a
// slab is its unit of locking (and, later, of migration).
//
// Promises:  memcached's semantics: exact while the data fit the front; in the chain, misses, false
//            positives and wrong values within the planned rates. Never an expired, flushed,
//            deleted or overwritten value: every way out of the front is RemoveFromFront(), which
//            first deletes what the chain holds of the key, or hides it by a tombstone. What a
//            read finds, add refuses. Where that is a false positive, the key is free again after
//            some refused adds: each makes the chain forget the key with a chance that the engine
//            names, 1/32 in kbf, where an absent key is found on weak evidence, and 1/640 in
//            packed. A key that is there is lost by a refused add with chance 1.6e-3 at most.
// Requires:  keys of this slab only, with their hashes; `now` in seconds, at least 2. Thread-safe:
//            every public method takes the one lock, Reader holds it over several reads. Threads
//            may be a second apart; a slab's clock is the latest time it was given.
// Costs:     all memory is counted: front, chain, samples. A slab makes room when all slabs
// together
//            take more than their limit and it has its part of that, or when it is told to GiveWay.
//            Work per call is bounded; the longest steps are those of the chain, and emptying one
//            block of items.
//
// Files:     slab.cc           clock, flush, finding, reading, background steps, figures
//            slab_write.cc     one function per write mode; arithmetic, delete
//            slab_demotion.cc  front to chain, and the growth of the chain
//            slab_eviction.cc  the memory limit: what is removed when nothing else helps
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "storage/chain.h"
#include "storage/changed_keys.h"
#include "storage/engine.h"
#include "storage/error_sampler.h"
#include "storage/front.h"
#include "storage/hash.h"
#include "storage/store_counters.h"
#include "storage/store_memory.h"
#include "storage/store_types.h"

namespace kbf {

struct SlabConfig {
  uint64_t memory_bytes = 0;  // its part of the store's
  double exact_share = 0;     // of the memory, that all together may take before items are demoted
  double front_share = 0.0625;  // of the memory, for items that could also live in the chain
  bool evictions = true;
  bool keep_cas = true;
  uint32_t item_bytes_max = 1 << 20;        // as CountedItemBytes counts
  std::vector<std::string> exact_prefixes;  // keys that never go to the chain
  // Where there are any, only keys under these may go there.
  std::vector<std::string> approximate_prefixes;
};

class Slab {
 public:
  // What is shared by all slabs of a store and outlives them.
  struct Shared {
    const HashSecret& secret;
    Engine& engine;
    std::atomic<uint64_t>& next_cas;
    uint64_t num_slabs;
    StoreMemory* memory = nullptr;  // null: the slab is alone, with memory_bytes
  };
  Slab(const SlabConfig& config, const Shared& shared);

  Reading Read(std::string_view key, const KeyHash& hash, const ReadOptions& options, uint32_t now);
  WriteResult Write(const WriteRequest& request, const KeyHash& hash, uint32_t now);
  ArithmeticResult Arithmetic(const ArithmeticRequest& request, const KeyHash& hash, uint32_t now);
  StoreStatus Delete(std::string_view key, const KeyHash& hash, const DeleteOptions& options,
                     uint32_t now);
  // Everything stored before `at` is gone from then on. at <= now: at once.
  void Flush(uint32_t at, uint32_t now);
  // Shows up to kListedMax items of the front, and goes on there next time. Items that stay linked
  // are all shown once, but for those of a bucket that is larger than that and changes in between.
  // False: that was the end.
  bool ListItems(ListPosition* position, uint32_t now, ItemVisitor* visitor);
  // From now until EndWarming the keys that are changed are remembered, for WriteRequest::warming.
  // Takes a 64th of the memory; false: there is none.
  [[nodiscard]] bool BeginWarming();
  void EndWarming();
  // Frees something, because all slabs together take too much. False: there is nothing.
  bool GiveWay(uint32_t now);
  // What the slab takes, as it last said: without its lock.
  uint64_t reported_bytes() const { return reported_bytes_.load(std::memory_order_relaxed); }
  // One bounded background step. False: there is nothing to do now.
  bool MaintainStep(uint32_t now);
  // Asks the chain for `stored` sampled keys and for `absent` random keys, which are not stored.
  void MeasureErrors(unsigned stored, unsigned absent, uint32_t now);

  // Several reads under one lock, prefetched in two steps.
  class Reader {
   public:
    explicit Reader(Slab& slab) : slab_(slab), lock_(slab.mutex_) {}
    void PrefetchFront(const KeyHash& hash) const { slab_.front_.Prefetch(hash); }
    void PrefetchPlaces(const KeyHash& hash) const { slab_.chain_->PrefetchPlaces(hash); }
    // After the first two have arrived.
    void PrefetchItem(const KeyHash& hash) const { slab_.front_.PrefetchItem(hash); }
    void PrefetchEntries(const KeyHash& hash) const { slab_.chain_->PrefetchEntries(hash); }
    Reading Read(std::string_view key, const KeyHash& hash, const ReadOptions& options,
                 uint32_t now) {
      return slab_.ReadLocked({key, hash}, options, now);
    }

   private:
    Slab& slab_;
    std::lock_guard<std::mutex> lock_;
  };

  SlabUsage Usage() const;
  SlabCounters Counters() const;
  ChainCounters ChainEvents() const;
  DictionaryCounters ValueEvents() const;
  MeasuredRates Measured() const;
  ChainErrors Predicted() const;

 private:
  friend struct SlabImage;

  struct Key {
    std::string_view text;
    const KeyHash& hash;
  };
  // Why an item is removed from the front.
  enum class Cause : uint8_t { kDemoted, kEvicted, kExpired, kDeleted };
  enum class FrontMiss : uint8_t { kNone, kNeverThere, kExpired, kFlushed };
  struct FrontAnswer {
    Item* item = nullptr;
    FrontMiss miss = FrontMiss::kNone;  // where there is no item
  };

  struct ItemAnswer {
    Item* item = nullptr;
    bool no_memory = false;  // the chain has the key, but there is no memory to promote it

    // Why there is no item: `absent`, or that there is no memory.
    StoreStatus StatusOr(StoreStatus absent) const {
      return no_memory ? StoreStatus::kNoMemory : absent;
    }
  };

  // Begins and ends an operation: first the clock and a flush that is due, and on the way out, if
  // the operation asked for it, room for what it has added. REQUIRES: the lock is held
  class Operation {
   public:
    Operation(Slab& slab, uint32_t now) : slab_(slab) { slab.Advance(now); }
    ~Operation() {
      if (makes_room_) slab_.MakeRoom();
      slab_.Report();
    }
    Operation(const Operation&) = delete;
    Operation& operator=(const Operation&) = delete;
    void MakeRoomAtEnd() { makes_room_ = true; }

   private:
    Slab& slab_;
    bool makes_room_ = false;
  };
  // An operation that takes the lock.
  struct LockedOperation {
    LockedOperation(Slab& slab, uint32_t now) : lock(slab.mutex_), operation(slab, now) {}
    void MakeRoomAtEnd() { operation.MakeRoomAtEnd(); }

    const std::lock_guard<std::mutex> lock;
    Operation operation;  // ends before the lock is released
  };

  // ---- all below: REQUIRES: the lock is held ----

  // ---- slab.cc

  uint32_t now() const { return now_; }
  void NoteChange(const KeyHash& hash) {
    if (changed_ != nullptr) [[unlikely]]
      changed_->Add(hash);
  }
  void Advance(uint32_t now);
  void FlushNow();
  bool HasExpired(uint32_t expires) const { return expires != 0 && expires <= now_; }

  // The single way out of the front, but for a newer item under the same key.
  void RemoveFromFront(Item* item, const KeyHash& hash, Cause cause);
  void CountRemoval(const Item& item, Cause cause);
  bool IsDead(const Item& item) const { return HasExpired(item.expires()); }
  void RemoveDead(Item* item, const KeyHash& hash) { RemoveFromFront(item, hash, Cause::kExpired); }

  // The key's item in the front, if it is alive; an expired one is removed.
  FrontAnswer FindInFront(const Key& key);
  // An answer of the chain; keys under an exact prefix are never there.
  ChainAnswer FindInChain(const Key& key);
  // The same answer, or a new one if the chain has changed since.
  ChainAnswer Renewed(const Key& key, const ChainAnswer& answer);
  void RemoveFromChain(const KeyHash& hash);
  // A prefix keeps the key out of the chain.
  bool IsExact(std::string_view key) const;
  // The item in the front; where there is none, what the chain answers is moved there first.
  ItemAnswer FindOrPromote(const Key& key);
  Item* Promote(const Key& key, const ChainAnswer& answer);

  Reading ReadLocked(const Key& key, const ReadOptions& options, uint32_t now);
  Reading ReadItem(const Key& key, Item* item, const ReadOptions& options);
  Reading ReadChain(const Key& key, const ChainAnswer& answer, const ReadOptions& options,
                    Operation* operation);
  Reading ReadNothing(const Key& key, FrontMiss miss, const ReadOptions& options,
                      Operation* operation);
  Reading ReadingOf(Item* item, const ReadOptions& options);
  Reading ReadingOf(const ChainAnswer& answer) const;
  // Meta N: an empty item for a key that is absent.
  Reading Vivify(const Key& key, const ReadOptions& options, Operation* operation);
  bool IsWorthPromoting(const ChainAnswer& answer);
  void ProbeStored(const ErrorSampler::Sample& sample);
  uint64_t ValueTag(std::string_view value, uint32_t flags) const;

  // ---- slab_write.cc: each stores `item`, or leaves it to the caller and says why. `item` is null
  // for a short one, which is made when it is stored.

  WriteResult WriteLocked(const WriteRequest& request, const Key& key, ItemPtr&& item);
  WriteResult Set(const WriteRequest& request, const Key& key, ItemPtr&& item);
  WriteResult Add(const WriteRequest& request, const Key& key, ItemPtr&& item);
  WriteResult RefuseAdd(const Key& key, const ChainAnswer& answer);
  WriteResult Replace(const WriteRequest& request, const Key& key, ItemPtr&& item);
  WriteResult CompareAndSwap(const WriteRequest& request, const Key& key, ItemPtr&& item);
  // Append and prepend, which make their item of the old one.
  WriteResult Extend(const WriteRequest& request, const Key& key);
  NewItem NewItemOf(const WriteRequest& request, uint32_t now) const;
  ItemPtr CopyOf(const WriteRequest& request, const Key& key, const Item* old);
  ItemPtr ExtendedItem(const WriteRequest& request, const Key& key, const Item& old);
  static bool StoresAsStale(const WriteRequest& request, const Item& old);
  static bool IsRefused(const WriteRequest& request, const Item& old);
  WriteResult StoreChecked(const WriteRequest& request, const Key& key, Item* old, ItemPtr&& item);
  WriteResult Store(const WriteRequest& request, const Key& key, Item* old, ItemPtr&& item);
  WriteResult RefuseTooLarge(const WriteRequest& request, const KeyHash& hash, uint32_t now);
  // Puts the item in the front, in the place of `old` where that is not null.
  Item* LinkItem(const KeyHash& hash, Item* old, ItemPtr&& item);
  // Removes whatever the front and the chain hold of the key.
  void RemoveEverywhere(const Key& key);
  void RemoveIfExpired(Item* item, const KeyHash& hash);

  ArithmeticResult Count(const ArithmeticRequest& request, const Key& key, Item* item);
  ArithmeticResult CreateNumber(const ArithmeticRequest& request, const Key& key);
  // Null: there is no memory.
  Item* StoreNumber(const Key& key, Item* old, std::string_view digits, uint32_t flags,
                    uint32_t expires, uint64_t cas);
  // Gives the item the next CAS number, or that which the client chose; if it has no room for it,
  // in a copy. Null: there is no memory.
  Item* ChangeCas(const Key& key, Item* item, const std::optional<uint64_t>& chosen);
  ArithmeticResult FinishNumber(ArithmeticResult result, const KeyHash& hash, Item* item);
  StoreStatus DeleteFromChain(const Key& key, bool needs_item);
  WriteResult ExtendNothing(const WriteRequest& request, const Key& key);
  // Null: there is no memory.
  Item* RemoveValue(const Key& key, Item* old, const DeleteOptions& options);
  StoreStatus MarkStale(const Key& key, Item* item, const DeleteOptions& options);
  uint64_t NextCas() { return shared_.next_cas.fetch_add(1, std::memory_order_relaxed) + 1; }

  // ---- slab_demotion.cc

  // Items that one look for a cold one examines.
  static constexpr unsigned kExamineMax = 8;

  double FrontTarget() const;
  bool FrontIsOverTarget() const;
  // Looks for up to 32 cold items and demotes them.
  void DemoteBatch();
  // True: the item was removed from the front, into the chain or because it is dead.
  bool Demote(Item* item, const KeyHash& hash);
  bool MoveToChain(Item* item, const KeyHash& hash, uint32_t number);
  bool MayBeDemoted(const Item& item) const;
  Chain::Inserted InsertInChain(Item* item, const KeyHash& hash, uint32_t number);
  bool GrowChain(uint32_t expires);
  bool HasMemoryToGrow(uint64_t bytes);

  // ---- slab_eviction.cc

  uint64_t MemoryBytes() const;
  uint64_t Budget() const;
  // Says what the slab takes to the store.
  void Report();
  bool Fits(uint64_t more_bytes) {
    Report();
    return memory_.Fits(more_bytes);
  }
  // Of all the memory, this slab has its part or more, so that it makes room itself.
  bool HasItsPart() const;
  // Makes the front as small as it should be by demotion, then the whole as small as it must be by
  // eviction.
  void MakeRoom();
  // Without evictions: frees expired items and demotes others until so many more bytes fit. False:
  // they do not. With evictions there is nothing to do: MakeRoom follows the write. REQUIRES: no
  // Item* is held across the call
  [[nodiscard]] bool MakeRoomFor(uint64_t bytes);
  void DecayHits();
  bool EvictSome();
  bool FrontIsColder() const;
  bool EvictCold();

  // Constant after construction.
  const SlabConfig config_;
  const Shared shared_;
  const std::unique_ptr<StoreMemory> own_memory_;  // of a slab that is alone
  StoreMemory& memory_;

  std::atomic<uint64_t> reported_bytes_{0};

  // All below is guarded by mutex_.
  mutable std::mutex mutex_;
  Front front_;
  const std::unique_ptr<Chain> chain_;
  ErrorSampler sampler_;
  std::unique_ptr<ChangedKeys> changed_;  // while warming
  SlabCounters counters_;
  uint32_t now_ = 0;              // the latest time that an operation brought
  uint64_t reported_other_ = 0;   // of reported_bytes_, what is not the arena's
  uint32_t flush_at_ = 0;         // 0: none is due
  unsigned demotion_effort_ = 8;  // items that DemoteBatch looks at; follows how many it demotes
  uint64_t writes_ = 0;
  uint64_t refused_adds_ = 0;  // of keys that only the chain answered for
  uint64_t cold_hits_ = 0;     // lately, on items of the front that would have gone next
  uint64_t old_hits_ = 0;      // lately, in the oldest quarter of the chain
};

}  // namespace kbf
