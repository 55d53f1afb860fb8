// Chain is the approximate part of a slab: up to 64 filters, a locator that names those which may
// hold a key, and the rules by which keys are inserted, removed and expire. It keeps no keys and no
// values, but codes of the dictionary.
//
// Promises:  a key that was Inserted is found until it is Removed, its filter is dropped, or its
//            deadline passes, but for the errors of PredictErrors. After Remove it is never found
//            again, whatever happens to the filter: cells are changed only on strong evidence, and
//            where that is lacking a tombstone hides the key. Nothing is found at or after its
//            deadline. Where two filters give different answers there is none.
// Requires:  its owner's lock; `now` never goes back. Insert a key only after Remove of the same
//            key.
// Costs:     filter cells, 2·G bytes per 1.6 keys of one filter for the locator (G = 8, 16, 32, 64
//            columns), 16 to 32 bytes per tombstone. Every call does a bounded amount of work;
//            dropping, joining and compressing one filter are the longest.
//
// Expiry: a filter has one deadline for all its keys. A key that expires at E, R seconds from now,
// may go into any filter with a deadline in [E - R/4, E]: early by at most a quarter of what
// remained, never late, and no bits per key. New deadlines are multiples of the largest power of
// two
// <= R/4, so that different TTLs meet in the same filters. A key that leaves the chain keeps the
// deadline as its expiry, and may come back; that does not add up, because an expiry that is such a
// multiple itself is not rounded: R is smaller then than it was for the key that the filter was
// opened for, so the power of two divides the deadline still.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "storage/dictionary.h"
#include "storage/filter.h"
#include "storage/hash.h"
#include "storage/hash_set.h"
#include "storage/locator.h"
#include "storage/store_counters.h"

namespace kbf {

struct ChainConfig {
  unsigned filters_max = Locator::kColumnsMax;
  double locator_bits = 12;  // per key and filter: 2.5 % false candidates, 10 % after a JOIN
};

struct ChainAnswer {
  bool found = false;
  bool old = false;         // in the oldest quarter of the filters: worth moving to the front
  bool strong = false;      // enough evidence to change cells on it
  uint32_t code = 0;        // of the dictionary
  uint32_t deadline = 0;    // when it expires; 0: never
  float evidence_bits = 0;  // kbf.h
  uint64_t version = 0;     // of the chain when it answered; see Chain::version
};

class Chain {
 public:
  Chain(const ChainConfig& config, const FilterMaker& maker, Dictionary& dictionary);

  // Two steps of prefetching ahead of Find or Remove: the locator's line, then the cells of the
  // candidates.
  void PrefetchLocator(const KeyHash& key) const;
  void PrefetchCells(const KeyHash& key) const;
  ChainAnswer Find(const KeyHash& key, uint32_t now);
  // Whether Remove and Insert of this key would change nothing: it is found, beyond doubt and not
  // among the oldest, with this code and a deadline that fits.
  bool Holds(const KeyHash& key, const Dictionary::Code& code, uint32_t expires, uint32_t now);

  // Deletes the key's entry where the evidence is strong, hides it by a tombstone where it is not.
  void Remove(const KeyHash& key, uint32_t now);

  // Makes Find miss for this key without changing a cell: what it found may be another key's entry.
  void Forget(const KeyHash& key, uint32_t now);

  enum class Insertion : uint8_t {
    kDone,
    kNoFilter,   // no open filter with a fitting deadline: AddFilter, or let the key wait
    kTombstone,  // the fitting filters hide this key: it waits for another one
  };
  struct Inserted {
    Insertion outcome = Insertion::kNoFilter;
    uint64_t filter = 0;  // where done: names the filter that the key is in, see HasFilter
  };
  [[nodiscard]] Inserted Insert(const KeyHash& key, const Dictionary::Code& code, uint32_t expires,
                                uint32_t now);
  // Counts one more key that would go into a filter with this expiry if there were one.
  void CountWaiting(uint32_t expires, uint32_t now);
  // Whether enough of them wait, and the bytes of cells that such a filter would take.
  bool IsWanted(uint32_t expires, uint32_t now) const;
  uint64_t WantedBytes(uint32_t expires, uint32_t now) const;
  // Opens a filter with the deadline for `expires`: of full size for keys that never expire, else
  // for twice the keys that wait for this deadline. False: all columns are taken, or no memory.
  bool AddFilter(uint32_t expires, uint32_t now);

  bool DropOldest();
  // Frees the codes that no filter can hold. REQUIRES: no admitted code is outstanding
  void RecycleCodes();
  void Clear();
  // One bounded step of background work: clearing columns, widening the locator, expiry, JOIN,
  // COMPRESS. False: nothing to do.
  bool MaintainStep(uint32_t now);

  // Whether a filter that Insert named still exists and was not joined into another one.
  bool HasFilter(uint64_t sequence, uint32_t now) const;
  // Changes whenever an answer of Find may change, but for the time.
  uint64_t version() const { return version_; }

  uint64_t filter_bytes() const { return maker_.filter_bytes(); }
  uint64_t num_filters() const;
  uint64_t num_keys() const;  // entries, those with a tombstone included
  uint64_t num_tombstones() const;
  uint64_t memory_bytes() const { return cells_bytes_ + sets_bytes_ + locator_bytes(); }
  uint64_t cells_bytes() const { return cells_bytes_; }
  uint64_t locator_bytes() const { return locator_ ? locator_->memory_bytes() : 0; }
  uint64_t oldest_bytes() const;  // cells of the oldest quarter
  const ChainCounters& counters() const { return counters_; }
  // Error rates of a lookup in the whole chain, predicted from each filter's load and the
  // locator's.
  ErrorRates PredictedErrors() const;
  // Expected number of filters queried in vain per lookup.
  double PredictedFalseCandidates() const;

  static uint32_t DeadlineFor(uint32_t expires, uint32_t now);
  // Not after the expiry, and early by at most a quarter of what remains; exactly the expiry where
  // that is a deadline already.
  static bool Fits(uint32_t deadline, uint32_t expires, uint32_t now) {
    return EarliestFor(expires, now) <= deadline && deadline <= expires;
  }

 private:
  struct Column {
    enum class State : uint8_t { kFree, kLive, kClearing };
    State state = State::kFree;
    bool joining = false;   // takes no new keys
    uint32_t deadline = 0;  // 0: never
    uint64_t sequence = 0;  // names it for good
    // Keys that the chain had taken before this filter's first key, and before its last one.
    uint64_t first = 0;
    uint64_t last = 0;
    uint64_t added = 0;  // keys ever added to the locator's column
    uint32_t last_insert = 0;
    uint64_t clear_cursor = 0;
    std::unique_ptr<Filter> filter;
    std::optional<CodeSet> used;  // codes that its cells may hold
    HashSet tombstones;
  };
  struct JoinWork {
    unsigned from = 0;
    unsigned to = 0;
    uint64_t cursor = 0;
  };
  struct Waiting {
    uint32_t deadline = 0;
    uint32_t keys = 0;
  };
  enum class DropCause : uint8_t { kRoom, kExpired, kFlushed };

  static uint32_t EarliestFor(uint32_t expires, uint32_t now) {
    return DeadlineFor(expires, now) == expires ? expires : expires - (expires - now) / 4;
  }
  bool Expired(const Column& column, uint32_t now) const {
    return column.deadline != 0 && column.deadline <= now;
  }
  // A filter's age is the mean of its first and its last key; this grows with it: smaller is older.
  static uint64_t AgeOf(const Column& column) { return column.first + column.last; }
  bool IsOpen(const Column& column) const;
  std::optional<unsigned> FreeColumn();
  uint64_t WaitingFor(uint32_t deadline) const;
  unsigned WantedFolds(uint32_t expires, uint32_t now) const;
  // It takes no more keys: it may be joined or compressed.
  bool IsSettled(const Column& column, uint32_t now) const;
  Column* OpenColumn(const KeyHash& key, uint32_t expires, uint32_t now, bool* hidden);
  void Hide(Column* column, const KeyHash& key);
  void RetryTombstones(Column* column);
  void Drop(unsigned index, DropCause cause);
  void Free(Column* column);
  bool DropOneExpired(uint32_t now);
  bool DropOneUseless(uint32_t now);
  void CancelJoin();
  void FinishJoin();
  bool StartJoin(uint32_t now);
  bool CompressOne(uint32_t now);
  bool LocatorStep(uint64_t blocks);
  void RefreshOrder();

  ChainConfig config_;
  const FilterMaker& maker_;
  Dictionary& dictionary_;
  std::optional<Locator> locator_;  // made with the first filter
  std::array<Column, Locator::kColumnsMax> columns_;
  uint64_t live_ = 0;  // bit i: column i is live
  uint64_t old_ = 0;   // bit i: among the oldest quarter of the live
  uint64_t next_sequence_ = 1;
  uint64_t version_ = 0;
  uint64_t cells_bytes_ = 0;
  uint64_t sets_bytes_ = 0;
  std::optional<JoinWork> join_;
  std::vector<Waiting> waiting_;
  ChainCounters counters_;
};

}  // namespace kbf
