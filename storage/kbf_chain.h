// KbfChain is the papers' chain: up to 64 key-value Bloom filters, a locator that names those which
// may hold a key, a dictionary of values, and the rules by which keys are inserted, removed and
// expire. Its parts are filters; its numbers of values are codes of the dictionary.
//
// Promises:  a key that was Inserted is found until it is Removed, its filter is dropped, or its
//            deadline passes, but for the errors of PredictErrors. After Remove it is never found
//            again, whatever happens to the filter: cells are changed only on strong evidence, and
//            where that is lacking a tombstone hides the key. Nothing is found at or after its
//            deadline. Where two filters give different answers there is none.
// Requires:  as chain.h says. Maker, pool and secret outlive it.
// Costs:     filter cells, 2·G bytes per 1.6 keys of one filter for the locator (G = 8, 16, 32, 64
//            columns), 16 to 32 bytes per tombstone. Every call does a bounded amount of work;
//            dropping, joining and compressing one filter are the longest.
// Expiry: a filter has one deadline for all its keys (deadlines.h).
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "storage/blob_pool.h"
#include "storage/chain.h"
#include "storage/code_counts.h"
#include "storage/dictionary.h"
#include "storage/filter.h"
#include "storage/hash.h"
#include "storage/hash_set.h"
#include "storage/locator.h"
#include "storage/store_counters.h"

namespace kbf {

// What all chains of a store share.
struct KbfChainParts {
  const FilterMakers& makers;
  const HashSecret& secret;
  BlobPool& blobs;
};

class KbfChain final : public Chain {
 public:
  static constexpr unsigned kFiltersMax = Locator::kColumnsMax;
  // Bits per key and filter of the locator: 2.5 % false candidates, 10 % after a JOIN.
  static constexpr double kLocatorBits = 12;
  // Bytes of a slab's memory for one byte of its dictionary's SeenFilter: enough for all items of
  // 128 bytes that fit the slab.
  static constexpr uint64_t kSeenShare = 128;

  KbfChain(const ChainConfig& config, const KbfChainParts& parts);

  std::optional<uint32_t> Number(const ChainOffer& offer) override;
  ChainValue ValueOf(uint32_t number) const override;

  // The locator's line, then the cells of the candidates.
  void PrefetchPlaces(const KeyHash& key) const override;
  void PrefetchEntries(const KeyHash& key) const override;
  ChainAnswer Find(const KeyHash& key, uint32_t now) override;
  bool Holds(const KeyHash& key, uint32_t number, uint32_t expires, uint32_t now) override;
  // Deletes the key's entry where the evidence is strong, hides it by a tombstone where it is not.
  void Remove(const KeyHash& key, uint32_t now) override;
  void Forget(const KeyHash& key, uint32_t now) override;
  // kNoRoom: no open filter has a fitting deadline. kRefused: those that have hide this key.
  Inserted Insert(const KeyHash& key, uint32_t number, uint32_t expires, uint32_t now) override;
  bool HasPart(uint64_t part, uint32_t now) const override;

  void CountWaiting(uint32_t expires, uint32_t now) override;
  std::optional<uint64_t> BytesToGrow(uint32_t expires, uint32_t now) const override;
  // Opens a filter with the deadline for `expires`: of full size for keys that never expire, else
  // for twice the keys that wait for this deadline. False: all columns are taken, or no memory.
  bool Grow(uint32_t expires, uint32_t now) override;
  bool DropOldest() override;
  void Clear() override;
  // Clearing columns, widening the locator, expiry, JOIN, COMPRESS.
  bool MaintainStep(uint32_t now) override;

  uint64_t version() const override { return version_; }
  uint64_t num_parts() const override;
  uint64_t part_bytes() const override { return maker().filter_bytes(); }
  uint64_t oldest_bytes() const override;  // cells of the oldest quarter
  uint64_t memory_bytes() const override {
    return sizeof(*this) + cells_bytes_ + sets_bytes_ + locator_bytes() +
           dictionary_.memory_bytes();
  }
  const ChainCounters& counters() const override { return counters_; }
  const DictionaryCounters& value_counters() const override { return dictionary_.counters(); }
  void AddTo(SlabUsage* usage) const override;
  // From each filter's load and the locator's.
  ChainErrors PredictedErrors() const override;

  std::unique_ptr<ChainSaver> NewSaver() override;
  bool Load(ImageReader* reader) override;

  uint64_t num_keys() const;  // entries, those with a tombstone included
  uint64_t num_tombstones() const;
  uint64_t cells_bytes() const { return cells_bytes_; }
  uint64_t locator_bytes() const { return locator_ ? locator_->memory_bytes() : 0; }
  const Dictionary& dictionary() const { return dictionary_; }

 private:
  friend struct KbfChainImage;

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
    CodeCounts codes;  // of its entries
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

  bool Expired(const Column& column, uint32_t now) const {
    return column.deadline != 0 && column.deadline <= now;
  }
  // A filter's age is the mean of its first and its last key; this grows with it: smaller is older.
  static uint64_t AgeOf(const Column& column) { return column.first + column.last; }
  bool IsOpen(const Column& column) const;
  std::optional<unsigned> FreeColumn();
  uint64_t WaitingFor(uint32_t deadline) const;
  bool IsWanted(uint32_t expires, uint32_t now) const;
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

  // For the filters that are opened now.
  const FilterMaker& maker() const { return makers_.For(dictionary_.typical_check_bits()); }
  // Deletes the key's entry, and counts that.
  KbfStatus Delete(Column* column, const KeyHash& key);

  const ChainConfig config_;
  const FilterMakers& makers_;
  const BlobPool& blobs_;
  Dictionary dictionary_;
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
