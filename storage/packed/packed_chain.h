// PackedChain is the chain of the engine `packed`: one packed table for all keys of a slab. Its
// parts are windows; its numbers of values are those of the store's ValueRegistry.
//
// A window has a deadline for all its keys (deadlines.h) and takes keys until it has a 32nd of what
// the table can hold. The oldest window is dropped by offering it: its keys are found until their
// slots are used. Deadlines close a window. Where tags become scarce, windows with one deadline
// that follow each other in age are merged.
//
// Promises:  no false negatives: a key is found until it is removed, its window is dropped or its
//            deadline passes. A false positive, another key's entry, with chance
//            PredictedErrors().false_positive. A new key whose fingerprint is taken (a twin) stays
//            exact. An overwrite or a delete of a key erases another key's entry in its place with
//            the chance of a false positive: the entry that it finds may be another's.
// Requires:  as chain.h says. The registry outlives it.
// Costs:     5.4 bytes of slots per key of a full table at the default budgets; a tombstone takes
// 16
//            to 32 bytes, and only keys that Forget was asked for have one. A background step goes
//            through one segment or rebuilds two.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "storage/chain.h"
#include "storage/hash_set.h"
#include "storage/packed/packed_table.h"
#include "storage/packed/value_registry.h"

namespace kbf {

// What all chains of a store share.
struct PackedChainParts {
  PackedLayout layout;
  uint64_t lines_max = 0;  // of one chain
  ValueRegistry& values;
  bool reports_values = false;  // the chain that adds the shared values to the statistics
};

class PackedChain final : public Chain {
 public:
  PackedChain(const ChainConfig& config, const PackedChainParts& parts);
  ~PackedChain() override;

  std::optional<uint32_t> Number(const ChainOffer& offer) override;
  ChainValue ValueOf(uint32_t number) const override;

  void PrefetchPlaces(const KeyHash& key) const override;
  void PrefetchEntries(const KeyHash&) const override {}
  ChainAnswer Find(const KeyHash& key, uint32_t now) override;
  bool Holds(const KeyHash& key, uint32_t number, uint32_t expires, uint32_t now) override;
  void Remove(const KeyHash& key, uint32_t now) override;
  // Keeps a key exact whose fingerprint is taken, as long as that is rare: then it is a twin rather
  // than the key's own older entry.
  bool RemoveForInsert(const KeyHash& key, uint32_t now) override;
  void Forget(const KeyHash& key, uint32_t now) override;
  Inserted Insert(const KeyHash& key, uint32_t number, uint32_t expires, uint32_t now) override;
  bool HasPart(uint64_t part, uint32_t now) const override;

  // A table needs no keys that wait to know what to grow by.
  void CountWaiting(uint32_t, uint32_t) override {}
  std::optional<uint64_t> BytesToGrow(uint32_t expires, uint32_t now) const override;
  bool Grow(uint32_t expires, uint32_t now) override;
  bool DropOldest() override;
  bool Shrink() override;
  void Clear() override;
  bool MaintainStep(uint32_t now) override;

  uint64_t version() const override { return version_; }
  // Offered windows included: their keys are still found.
  uint64_t num_parts() const override { return windows_.size() + offered_.size(); }
  uint64_t part_bytes() const override;
  uint64_t oldest_bytes() const override;
  uint64_t memory_bytes() const override;
  const ChainCounters& counters() const override { return counters_; }
  const DictionaryCounters& value_counters() const override;
  void AddTo(SlabUsage* usage) const override;
  ChainErrors PredictedErrors() const override;

  std::unique_ptr<ChainSaver> NewSaver() override;
  bool Load(ImageReader* reader) override;

 private:
  friend struct PackedChainImage;

  struct Window {
    uint32_t tag = 0;
    uint32_t deadline = 0;  // 0: never
    uint64_t sequence = 0;  // names it for good
    // Keys that the chain had taken before this window's first key, and before its last one.
    uint64_t first = 0;
    uint64_t last = 0;
    uint64_t added = 0;
    bool old = false;
  };
  // A chain that took no key for so long is tidied.
  static constexpr uint32_t kIdleSeconds = 30;

  struct Sweep {
    uint32_t segment = 0;     // next
    uint64_t collection = 0;  // of the registry, which it marks numbers for; 0: none
    bool tidies = false;      // rebuilds segments that have grown too large
  };

  static uint64_t AgeOf(const Window& window) { return window.first + window.last; }
  bool MakeTable();
  bool ShowAgain(const KeyHash& key);
  void Expire(uint32_t now);
  bool TakesKeys(const Window& window) const { return window.added < window_keys_ && !window.old; }
  Window* FittingWindow(uint32_t expires, uint32_t now);
  Window* WindowFor(uint32_t expires, uint32_t now);
  Window* OpenWindow(uint32_t deadline);
  void RefreshOrder();
  bool CloseExpired(std::vector<Window>* windows, uint32_t now);
  void CountDropped(uint64_t offered_before);
  bool Resize(uint32_t segment, uint32_t lines);
  bool Balance();
  bool WantsSweep() const;
  bool IsIdle(uint32_t now) const { return table_ && !tidy_ && now - last_insert_ >= kIdleSeconds; }
  void FreeTags();
  std::optional<std::pair<size_t, size_t>> PairToMerge() const;
  bool SweepStep();
  void FinishSweep();
  void MakeSmaller(uint32_t segment, const PackedTable::Swept& swept);

  const ChainConfig config_;
  const PackedChainParts parts_;
  std::optional<PackedTable> table_;  // made with the first key
  std::vector<Window> windows_;       // held, oldest first
  std::vector<Window> offered_;       // oldest first
  // Of held and offered windows, by tag.
  std::array<uint32_t, kWindowsMax> deadlines_{};
  std::array<bool, kWindowsMax> old_{};
  HashSet hidden_;              // tombstones
  uint32_t next_deadline_ = 0;  // of all windows; 0: none
  uint64_t next_sequence_ = 1;
  uint64_t version_ = 0;
  uint64_t window_keys_ = 0;
  std::optional<uint32_t> full_segment_;  // that the last insert found no room in
  bool room_dropped_ = false;             // entries were offered since then
  bool unbalanced_ = false;               // entries were offered since the segments were balanced
  double twin_credit_ = 0;
  std::optional<Sweep> sweep_;
  uint32_t last_insert_ = 0;  // time
  bool tidy_ = true;   // no key came in since the segments were rebuilt as small as they can be
  uint64_t peak_ = 0;  // most keys since the last sweep
  uint64_t collected_ = 0;  // the last collection that it went through its slots for
  ChainCounters counters_;
  mutable DictionaryCounters value_counters_;  // as they were when they were asked for
};

}  // namespace kbf
