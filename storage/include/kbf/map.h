// Map is an approximate map from keys to values that stores no keys: about 21 bytes per key,
// however long the keys are. It suits many keys that share few values (a country per user, a
// verdict per URL, "seen before"); it does not suit values that are all different, counters or
// locks, and it cannot list its keys.
//
//   kbf::Map map = kbf::Map::Create({.capacity = 1000000, .distinct_values = 200}).value();
//   if (map.Put("alice", "CH") != kbf::Status::kOk) return 1;
//   if (const kbf::Map::Answer country = map.Get("alice")) std::cout << *country << '\n';
//
// What Get may get wrong, and for whom. λ = k·n/m is the mean number of entries per cell: n keys,
// m cells, k cells per key; P(j) and P(≥j) are Poisson with mean λ. A cell decodes with up to t
// entries (t = 2 or 3), and one with an entry more is still checked, with chance 1/t! to pass.
// Symbols have b bits, c of which check the key; γ = 2^-c.
//   - A caller who asks for a stored key gets no value (kUndecodable) with chance
//         false_negative = P(≥t)^k + γ·k·λ·P(≤t-2)·q^(k-1),   q = P(t)/t! + P(≥t+1)
//     at most: a key that is undecodable when it is put becomes an override. So right after
//     Put(key) Get(key) is right for certain, and the rate grows as other keys come in.
//   - A caller who asks for a key that is not stored gets some stored value with chance
//         false_positive = γ·2^b·(F^k - G^k),   G = P(t+1)/t! + P(≥t+2),   F = G + λ·P(≤t-1)/2^b.
//   - A caller who asks for a stored key never gets the value of another key, as long as no change
//     did damage: a Put or Delete of an absent key that the filter mistakes for a stored one takes
//     that key's entry out of cells of others. The chance is `plan().damage` (2^-23 or less for
//     usual options) per such call; up to k keys near it then miss or get another stored value.
//     Likewise a Put of an absent key that Get answers by mistake with this very value stores
//     nothing, with chance false_positive at most; that key may miss later.
//   - Nobody gets bytes that nobody stored. Without damage, a key that was overwritten does not
//     show its old value, and a deleted one is like any absent key.
//   PlanMap computes these rates at full capacity, PredictedErrors at the present size. (For plans
//   that keep several cells of a key in one cache line they take the mean over the keys that share
//   the line.)
//   - Overwriting and deleting do not make it worse: a key is checked again whenever it is put, and
//     becomes an override where it does not decode. After 600,000 random puts and deletes in a map
//     for 100,000 keys with default options, 7 of 82,762 keys missed, none was wrong, and 225 were
//     overrides; after every key of 10,000 was overwritten ten times, 0, 0 and 288.
//
// Promises:  Put and Delete of a stored key always take effect or say why not. Where the filter
//            cannot change the key's entry for certain, the key is kept exactly beside it, by a
//            128-bit hash (an override); the room for overrides is a quarter of the capacity and
//            1,024 more.
// Requires:  one writer, or any number of readers at a time. Maps of one family (CreateLike) may be
//            used by different threads. Not used after it was moved from.
// Costs:     plan().bytes, the distinct values once per family, and about 56 bytes per override.
//            At a million keys a Get takes 0.4 µs, a Put 0.5 µs, and one that overwrites 1.0 µs.
//            Put allocates for new values and for overrides only.
// Values:    numbered exactly as they come in; a number is never given back, so distinct values
//            count over the life of the family.
// Capacity:  fixed by the plan. Put of a further key returns kFull: make a second map, or a larger
//            one from the start and halve it with Compress.
// From:      [kBF] §3.1 and §3.4: CREATE, INSERT and UPDATE (Put), QUERY (Get), DELETE, JOIN,
//            COMPRESS. Departs from it by check bits in the symbols, by asking for evidence before
//            a change and by the overrides.
// Stability: unstable until version 1.0, see error.h.
#pragma once

#include <kbf/error.h>
#include <kbf/plan.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

namespace kbf {

class MapCore;

inline namespace v0 {

class Map {
 public:
  static constexpr size_t kValueBytesMax = size_t{1} << 20;

  // Like std::optional<std::string_view>. The bytes stay where they are while a map of the family
  // lives.
  class Answer {
   public:
    Answer() = default;
    explicit Answer(std::string_view value) : value_(value), status_(Status::kOk) {}
    explicit Answer(Status status) : status_(status) {}

    bool has_value() const { return status_ == Status::kOk; }
    explicit operator bool() const { return has_value(); }
    // REQUIRES: has_value()
    std::string_view operator*() const { return value_; }
    const std::string_view* operator->() const { return &value_; }
    std::string_view value_or(std::string_view other) const { return has_value() ? value_ : other; }
    // kOk, kNotFound (a stored key gets it only after damage), or kUndecodable: the key may be
    // stored, but its value cannot be told. The latter is what false_negative counts.
    Status status() const { return status_; }

   private:
    std::string_view value_;
    Status status_ = Status::kNotFound;
  };

  // kBadArgument with a sentence for numbers out of range, kNoMemory, kSystem.
  static Result<Map> Create(const MapOptions& options);
  // An empty map of the same family: same plan, hashes and numbering of values, so that the two can
  // be joined. Thread-safe.
  Result<Map> CreateLike() const;

  Map(Map&& other) noexcept;
  Map& operator=(Map&& other) noexcept;
  ~Map();

  // Any bytes are a key, the empty string too; a value has at most kValueBytesMax.
  Answer Get(std::string_view key) const;
  // Stores, or replaces what is stored. kOk, kFull, kTooManyValues, kTooLarge, kNoMemory; after
  // kNoMemory the key may be missing.
  Status Put(std::string_view key, std::string_view value);
  // kOk, kNotFound, kFull (no room for an override), kNoMemory. An absent key that the filter
  // mistakes for a stored one gives kOk.
  Status Delete(std::string_view key);
  // Takes in all that `other` holds, and leaves `other` as it is. REQUIRES: no key is stored in
  // both; such a key may miss afterwards or show either value. kOk, kUnlike, kFull, kNoMemory.
  Status Join(const Map& other);
  // Halves the memory and the capacity. Possible three times, while at most half full: kOk,
  // kCannotHalve, kFull, kNoMemory. Errors are those of the smaller map.
  Status Compress();

  // As Put and Delete counted: an absent key that was mistaken for a stored one is not counted.
  uint64_t size() const;
  uint64_t capacity() const;    // keys; halved by Compress
  uint64_t num_values() const;  // distinct values of the family so far
  uint64_t num_overrides() const;
  // Everything, with the part that the family shares.
  uint64_t memory_bytes() const;
  // Of the map as it was created.
  const MapPlan& plan() const;
  // At the present number of keys.
  MapErrors PredictedErrors() const;

 private:
  explicit Map(std::unique_ptr<MapCore> core);
  std::unique_ptr<MapCore> core_;
};

}  // namespace v0
}  // namespace kbf
