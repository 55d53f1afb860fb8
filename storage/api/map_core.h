// MapCore is the inside of Map (<kbf/map.h>, which has its contract): one filter, the family's
// values, and the overrides.
//
// An override is a key that the filter cannot hold as the caller wants it, kept exactly by its
// 128-bit hash: a key whose entry is undecodable, or shows too little evidence to be changed, or a
// deleted key whose entry had to stay (a tombstone). It comes before the filter's answer.
//
// Promises:  a key with in_filter = false has no entry in the filter. While overrides come in, all
//            are looked through now and then: those that the filter can take by now leave.
// Requires:  one writer, or any number of readers.
// Costs:     an override takes 56 bytes, and four queries when it comes in.
#pragma once

#include <kbf/map.h>

#include <cstdint>
#include <memory>
#include <string_view>
#include <unordered_map>

#include "storage/api/map_family.h"
#include "storage/kbf.h"

namespace kbf {

class MapCore {
 public:
  static Result<std::unique_ptr<MapCore>> Create(std::shared_ptr<MapFamily> family);

  Map::Answer Get(std::string_view key) const;
  Status Put(std::string_view key, std::string_view value);
  Status Delete(std::string_view key);
  Status Join(const MapCore& other);
  Status Compress();

  const std::shared_ptr<MapFamily>& family() const { return family_; }
  const Kbf& filter() const { return filter_; }
  uint64_t size() const { return keys_; }
  uint64_t num_overrides() const { return overrides_.size(); }
  uint64_t memory_bytes() const;
  MapErrors PredictedErrors() const;

 private:
  struct Override {
    static constexpr uint32_t kDeleted = 0xffffffff;
    uint32_t number;  // of the value, or kDeleted
    bool in_filter;   // the filter may hold an entry of the key
  };
  struct HashOfKey {
    size_t operator()(const KeyHash& hash) const { return hash.lo; }
  };
  using Overrides = std::unordered_map<KeyHash, Override, HashOfKey>;

  MapCore(std::shared_ptr<MapFamily> family, Kbf filter)
      : family_(std::move(family)), filter_(std::move(filter)) {}

  KeyHash HashOf(std::string_view key) const { return HashKey(key, family_->secret()); }
  // By overrides and filter: kFound with a value's number, kAbsent or kUndecodable.
  QueryResult Find(const KeyHash& hash) const;
  bool IsStrong(const QueryResult& found) const;

  Status PutOverride(Override* entry, std::string_view value);
  Status PutAbsent(const KeyHash& hash, std::string_view value);
  Status Replace(const KeyHash& hash, const QueryResult& found, std::string_view value);
  Status DeleteOverride(Overrides::iterator entry);
  // All cells or, where the key could not be read back, none.
  bool TryInsert(const KeyHash& hash, uint32_t number);
  // The filter's entry of this key, on strong evidence only.
  bool TryRemove(const KeyHash& hash, const QueryResult& found);

  uint64_t OverridesMax() const;
  bool HasRoomForOverride();
  // Once in so many calls: gives the filter what it can take by now of all overrides.
  void SettleNowAndThen();
  bool Settle(const KeyHash& hash, Override* entry);
  Status AddOverride(const KeyHash& hash, Override entry);
  // Those of both, where one's tombstone gives way to what the other has.
  Overrides MergedOverrides(const MapCore& other) const;
  void CountDeleted() { keys_ -= keys_ > 0 ? 1 : 0; }

  std::shared_ptr<MapFamily> family_;
  Kbf filter_;
  Overrides overrides_;
  uint64_t since_settling_ = 0;  // calls of SettleNowAndThen
  uint64_t keys_ = 0;
};

}  // namespace kbf
