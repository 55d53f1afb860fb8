// Slab is one hash partition of the keys: the exact front, the chain of filters behind it, the
// dictionary of values, and the rules that move keys between them. Store is the class to use; a
// slab is its unit of locking (and, later, of migration).
//
// Promises:  memcached's semantics: exact while the data fit the front; in the chain, misses, false
//            positives and wrong values within the planned rates. Never an expired, flushed,
//            deleted or overwritten value: every way out of the front is Leave(), which first
//            removes or hides what the chain holds of the key.
// Requires:  keys of this slab only, with their hashes; `now` in seconds, never going back, at
//            least 2. Thread-safe: every public method takes the one lock, Reader holds it over
//            several reads.
// Costs:     no more memory than `memory_bytes`, all of it counted: front, cells, locator,
//            dictionary, tombstones. Work per call is bounded; the longest steps are opening,
//            dropping, joining or compressing one filter.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "storage/chain.h"
#include "storage/dictionary.h"
#include "storage/error_sampler.h"
#include "storage/front.h"
#include "storage/hash.h"
#include "storage/shared_bytes.h"

namespace kbf {

// The CAS number of every key that is answered from the chain. A cas with it moves the key to the
// front and answers kExists, so that the client's retry finds a number of its own.
inline constexpr uint64_t kChainCas = 0xfffffffffffffffe;

// An expiry that has always passed, for clients that ask for a negative one.
inline constexpr uint32_t kExpiredAlways = 1;

// An item's size as memcached counts it, which is what item_bytes_max limits: header, CAS number,
// client flags, the key and its end, the value and CRLF.
constexpr uint64_t CountedItemBytes(size_t key_bytes, size_t value_bytes, uint32_t flags,
                                    bool keep_cas) {
  return 48 + (keep_cas ? 8 : 0) + (flags != 0 ? 4 : 0) + key_bytes + 1 + value_bytes + 2;
}

enum class [[nodiscard]] StoreStatus : uint8_t{
    kOk,         // stored, deleted, touched
    kNotStored,  // add of a key that is there; replace, append, prepend of one that is not
    kExists,     // cas: the item changed since
    kNotFound,
    kTooLarge,   // the item is larger than may be; an older value was removed
    kNoMemory,   // no room and evictions are off
    kNotNumber,  // incr, decr of something else
    kBadKey,     // empty or longer than 250 bytes
};

struct ReadOptions {
  bool touch = false;  // set the expiry to `expires`
  uint32_t expires = 0;
  bool bump = true;        // count as an access
  bool claim_win = false;  // meta: may be told to recache
  std::optional<uint32_t>
      vivify_expires;                     // on a miss, make an empty item with this expiry (meta N)
  std::optional<uint32_t> recache_below;  // win if it expires in fewer seconds (meta R)
  bool recache_first = false;             // judge that before touch changes it
};

// What a read found. The bytes stay as they are for as long as `ref` lives.
struct Reading {
  bool hit = false;
  bool from_chain = false;
  bool fetched = false;   // it had been read before
  bool stale = false;     // meta X
  bool win = false;       // meta W: this client should recache
  bool win_sent = false;  // meta Z: another one was told to
  bool created = false;   // by vivify_expires
  // The key is there but could not be touched, or it could not be made: no hit, nothing changed.
  bool no_memory = false;
  uint32_t flags = 0;
  uint32_t expires = 0;         // absolute; 0: never
  uint32_t expires_before = 0;  // the same before it was touched
  uint32_t last_access = 0;     // before this one
  uint64_t cas = 0;
  std::string_view value;
  SharedRef ref;
};

enum class WriteMode : uint8_t { kSet, kAdd, kReplace, kAppend, kPrepend, kCas };

struct WriteRequest {
  WriteMode mode = WriteMode::kSet;
  std::string_view key;
  std::string_view value;
  uint32_t flags = 0;
  uint32_t expires = 0;     // absolute; 0: never
  uint64_t cas = 0;         // kCas, and for the other modes where not 0: must be the item's
  bool invalidate = false;  // meta I: a smaller cas stores the value as stale
  // Where there is no memory, what the key has goes, as in memcached: rather nothing than a value
  // that the client thinks it has replaced.
  bool drop_on_failure = false;
};

struct WriteResult {
  StoreStatus status = StoreStatus::kOk;
  uint64_t cas = 0;  // of what was stored
};

struct ArithmeticRequest {
  std::string_view key;
  uint64_t delta = 1;
  bool decrement = false;
  uint64_t cas = 0;                 // must be the item's where not 0
  std::optional<uint64_t> initial;  // on a miss, make an item with this number
  uint32_t initial_expires = 0;
  std::optional<uint32_t> expires;  // set the expiry as well
};

struct ArithmeticResult {
  StoreStatus status = StoreStatus::kOk;
  uint64_t number = 0;
  uint64_t cas = 0;
  uint32_t flags = 0;
  uint32_t expires = 0;
  uint32_t expires_before = 0;
  bool created = false;
};

struct DeleteOptions {
  uint64_t cas = 0;                 // must be the item's where not 0
  bool mark_stale = false;          // meta I: keep the item, as stale
  std::optional<uint32_t> expires;  // with mark_stale: its new expiry
};

// Each event once. Removals are counted by cause, whether the key was in the front or in the chain.
struct SlabCounters {
  uint64_t front_hits = 0;
  uint64_t chain_hits = 0;
  uint64_t misses = 0;
  uint64_t expired_reads = 0;  // misses that met an expired item
  uint64_t flushed_reads = 0;  // misses that met a flushed item
  uint64_t stored = 0;         // writes that stored something
  uint64_t demoted = 0;        // front to chain
  uint64_t promoted = 0;       // chain to front
  uint64_t evicted = 0;        // left the front for good, to make room
  uint64_t evicted_unfetched = 0;
  uint64_t expired = 0;
  uint64_t expired_unfetched = 0;
  uint64_t flushed = 0;
  uint64_t deleted = 0;
  uint64_t refused_memory = 0;
  uint64_t refused_size = 0;

  void Add(const SlabCounters& other);
};

struct SlabConfig {
  uint64_t memory_bytes = 0;
  double exact_share = 0;  // of the memory, that all together may take before items leave the front
  double front_share = 0.0625;  // of the memory, for items that could also live in the chain
  bool evictions = true;
  bool keep_cas = true;
  uint32_t item_bytes_max = 1 << 20;        // key and value and what memcached would need besides
  std::vector<std::string> exact_prefixes;  // keys that never go to the chain
  KbfLayout layout;
  ChainConfig chain;
};

struct SlabUsage {
  uint64_t front_items = 0, front_bytes = 0;
  uint64_t chain_keys = 0, cells_bytes = 0, locator_bytes = 0, tombstones = 0, filters = 0;
  uint64_t dictionary_bytes = 0, values = 0, codes = 0;
  uint64_t other_bytes = 0;
  uint64_t total_bytes() const {
    return front_bytes + cells_bytes + locator_bytes + dictionary_bytes + other_bytes;
  }
};

class Slab {
 public:
  // What is shared by all slabs of a store and outlives them.
  struct Shared {
    const HashSecret& secret;
    const FilterMaker& maker;
    BlobPool& blobs;
    std::atomic<uint64_t>& next_cas;
    uint64_t num_slabs;
  };
  Slab(const SlabConfig& config, const Shared& shared);

  Reading Read(std::string_view key, const KeyHash& hash, const ReadOptions& options, uint32_t now);
  WriteResult Write(const WriteRequest& request, const KeyHash& hash, uint32_t now);
  ArithmeticResult Arithmetic(const ArithmeticRequest& request, const KeyHash& hash, uint32_t now);
  StoreStatus Delete(std::string_view key, const KeyHash& hash, const DeleteOptions& options,
                     uint32_t now);
  // Everything stored before `at` is gone from then on. at <= now: at once.
  void Flush(uint32_t at, uint32_t now);
  // One bounded background step. False: nothing to do now.
  bool MaintainStep(uint32_t now);
  // Asks the chain for some sampled keys and some strangers.
  void MeasureErrors(unsigned stored, unsigned strangers, uint32_t now);

  // Several reads under one lock, prefetched in two steps.
  class Reader {
   public:
    explicit Reader(Slab& slab) : slab_(slab), lock_(slab.mutex_) {}
    void PrefetchFront(const KeyHash& hash) const { slab_.front_.Prefetch(hash); }
    void PrefetchLocator(const KeyHash& hash) const { slab_.chain_.PrefetchLocator(hash); }
    // After the first two have arrived.
    void PrefetchItem(const KeyHash& hash) const { slab_.front_.PrefetchItem(hash); }
    void PrefetchCells(const KeyHash& hash) const { slab_.chain_.PrefetchCells(hash); }
    Reading Read(std::string_view key, const KeyHash& hash, const ReadOptions& options,
                 uint32_t now) {
      return slab_.ReadLocked(key, hash, options, now);
    }

   private:
    Slab& slab_;
    std::unique_lock<std::mutex> lock_;
  };

  SlabUsage Usage() const;
  SlabCounters Counters() const;
  ChainCounters ChainEvents() const;
  DictionaryCounters DictionaryEvents() const;
  MeasuredRates Measured() const;
  ErrorRates Predicted() const;
  double PredictedFalseCandidates() const;

 private:
  enum class Cause : uint8_t { kDemoted, kEvicted, kExpired, kFlushed, kDeleted, kReplaced };

  Reading ReadLocked(std::string_view key, const KeyHash& hash, const ReadOptions& options,
                     uint32_t now);
  WriteResult WriteLocked(const WriteRequest& request, const KeyHash& hash, uint32_t now,
                          Item** made);
  Reading ReadingOf(Item* item, const ReadOptions& options, uint32_t now);
  Reading ReadingOf(const ChainAnswer& answer);
  Reading Vivify(std::string_view key, const KeyHash& hash, const ReadOptions& options,
                 uint32_t now);

  // The key's item in the front, if it is alive; one that is not leaves.
  Item* LiveItem(std::string_view key, const KeyHash& hash, uint32_t now);
  // The same, and where the front has none, what the chain answers is moved there first.
  Item* ExactItem(std::string_view key, const KeyHash& hash, uint32_t now);
  // Why ExactItem found nothing: `absent`, or there was no memory to move what the chain has.
  StoreStatus WithoutItem(std::string_view key, const KeyHash& hash, StoreStatus absent,
                          uint32_t now);
  Item* MoveToFront(std::string_view key, const KeyHash& hash, uint32_t now);
  Item* Promote(std::string_view key, const KeyHash& hash, const ChainAnswer& answer, uint32_t now);
  bool IsFlushed(const Item& item) const { return item.generation() != generation_; }
  static bool IsExpired(uint32_t expires, uint32_t now) { return expires != 0 && expires <= now; }

  // The single way out of the front.
  void Leave(Item* item, const KeyHash& hash, Cause cause, uint32_t now);
  void LinkItem(Item* item, const KeyHash& hash, Item* old);
  void RunDueFlush(uint32_t now);
  void FlushNow();
  bool SweepFlushed(uint64_t buckets, uint32_t now);
  void FreeRetired(uint64_t buckets) { counters_.flushed += front_.FreeRetired(buckets); }
  // Removes whatever the front and the chain hold of the key.
  void RemoveEverywhere(std::string_view key, const KeyHash& hash, uint32_t now);

  // Threads may be a tick apart; for one slab time goes forward only.
  uint32_t Clock(uint32_t now) { return clock_ = std::max(clock_, now); }
  uint64_t Budget() const;
  double FrontTarget() const;
  // Without evictions: is there room for so many more bytes, if need be after expired items and
  // demotions have made some? REQUIRES: no Item* is held across the call
  bool HasRoom(uint64_t bytes, uint32_t now);
  // An answer of the chain; keys under an exact prefix are never there.
  ChainAnswer FindInChain(std::string_view key, const KeyHash& hash, uint32_t now);
  Chain::Removal RemoveFromChain(const KeyHash& hash, uint32_t now);
  uint64_t memory_bytes() const;
  bool HasExactPrefix(std::string_view key) const;
  void MakeRoom(uint32_t now);
  void DemoteCold(uint32_t now);
  bool Demote(Item* item, const KeyHash& hash, uint32_t now);
  bool OpenFilter(uint32_t expires, uint32_t now);
  bool EvictCold(uint32_t now);
  bool FrontIsColder() const;
  uint64_t NextCas() { return shared_.next_cas.fetch_add(1, std::memory_order_relaxed) + 1; }

  // Constant after construction.
  const SlabConfig config_;
  const Shared shared_;

  // All below is guarded by mutex_.
  mutable std::mutex mutex_;
  Front front_;
  Dictionary dictionary_;
  Chain chain_;
  ErrorSampler sampler_;
  SlabCounters counters_;
  uint32_t clock_ = 0;
  Cause last_miss_ = Cause::kReplaced;  // why LiveItem found nothing: expired, flushed, or neither
  unsigned generation_ = 0;
  unsigned flushes_unswept_ = 0;
  uint64_t sweep_position_ = 0;
  uint32_t flush_at_ = 0;  // 0: none is due
  unsigned effort_ = 8;    // items that DemoteCold looks at; follows how many it finds
  uint64_t writes_ = 0;
  uint64_t cold_hits_ = 0;  // lately, on items of the front that would have gone next
  uint64_t old_hits_ = 0;   // lately, in the oldest quarter of the chain
};

}  // namespace kbf
