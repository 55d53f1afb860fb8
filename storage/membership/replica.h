// A Bloom filter whose set changes, and copies of it on other hosts that are allowed to be somewhat
// out of date ([Replicas]). ReplicatedBloom is the original: it knows what its replicas show, says
// when they should hear news, and writes the update. BloomReplica is a copy.
//
// Promises:  the original never denies a key that is in the set. A replica answers exactly like the
//            original did at the replica's version. How wrong that is by now, the original
//            estimates: for random keys by eq. 10 and 12, for keys that are stored by
//            ReplicaStoredDenied.
// Requires:  one thread at a time per object; both sides hash keys with the same secret. Only keys
//            that were inserted may be deleted. Updates reach a replica in order; one that was lost
//            is noticed (kMissedUpdate), and EncodeWhole heals it.
//            Original: (Insert | Delete | … | NeedsUpdate [EncodeUpdate])*, replica: Apply of a
//            whole filter, then (Apply | MayContain)*.
// Costs:     original: m bytes of counters and 2m bits; replica: m bits. An update takes the
// entropy
//            of the dirty bits and 4 % (tests/storage/membership/replica_test.cc), or m bits where
//            that is less, and about 20 bytes.
// Departs:   - the share of one bits, P_1(n) in the paper, is counted, not computed from n.
//            - dirty bits are counted as they change, so an estimate costs two powers, not a
//              comparison of two filters.
//            - counters have 8 bits. One that reaches 255 stays, which costs false positives only.
//            - the paper controls the rate for random keys. Of stored keys 5 to 27 times as large a
//              share is denied; kStoredDenied controls that. Under churn at a constant size eq. 17
//              with weights 1 stays below twice the filter's own rate however old the replica is
//              (0.043 at 8 bits per key and k = 6), so a target above that never sends.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "storage/hash.h"
#include "storage/membership/maths.h"

namespace kbf {

struct ReplicaShape {
  uint64_t bits = 0;  // m
  unsigned num_hashes = 0;
  friend bool operator==(const ReplicaShape&, const ReplicaShape&) = default;
};
inline constexpr uint64_t kReplicaBitsMax = uint64_t{1} << 36;
inline constexpr unsigned kReplicaHashesMax = 16;
inline constexpr unsigned kReplicaStream = 56;  // … +15, see storage/hash.h

// When to send. All ask that something differs at all.
struct UpdatePolicy {
  enum class Rule : uint8_t {
    kFalseRate,     // eq. 17 reaches the limit: [Replicas] §5
    kDirtyBits,     // δ0 + δ1 reaches the limit: 0.1 in Summary Cache
    kStoredDenied,  // ours: the share of stored keys that are denied reaches the limit
  };
  Rule rule = Rule::kFalseRate;
  double limit = 0.1;
  double weight_positive = 1;  // w+ and w- of eq. 17
  double weight_negative = 1;
};

enum class ApplyStatus : uint8_t {
  kApplied,
  kMissedUpdate,  // the update continues a version that this replica does not have; ask for a whole
  kWrongShape,    // another number of bits or hash functions
  kMalformed,     // not an update, or damaged
};

// Bits of a filter; what the two sides have in common.
class BloomBits {
 public:
  explicit BloomBits(const ReplicaShape& shape) : shape_(shape), words_((shape.bits + 63) / 64) {}

  const ReplicaShape& shape() const { return shape_; }
  uint64_t PositionOf(const KeyHash& key, unsigned hash) const {
    return ScaleTo(Stream(key, kReplicaStream + hash), shape_.bits);
  }
  bool Test(uint64_t at) const { return (words_[at / 64] >> at % 64 & 1) != 0; }
  void Flip(uint64_t at) { words_[at / 64] ^= uint64_t{1} << at % 64; }
  bool MayContain(const KeyHash& key) const;
  void Clear();
  std::span<const uint64_t> words() const { return words_; }
  uint64_t memory_bytes() const { return words_.size() * sizeof(uint64_t); }

 private:
  ReplicaShape shape_;
  std::vector<uint64_t> words_;
};

class ReplicatedBloom {
 public:
  // Nothing where there are no bits, more than kReplicaBitsMax, no hash function, or more than
  // kReplicaHashesMax. Replicas start with version 0, empty.
  static std::optional<ReplicatedBloom> Create(const ReplicaShape& shape);

  void Insert(const KeyHash& key);
  // False, and nothing changed, where the key is absent for certain.
  bool Delete(const KeyHash& key);
  bool MayContain(const KeyHash& key) const { return now_.MayContain(key); }

  const ReplicaShape& shape() const { return now_.shape(); }
  uint64_t size() const { return size_; }  // n
  uint64_t version() const { return version_; }
  uint64_t memory_bytes() const {
    return counters_.size() + now_.memory_bytes() + sent_.memory_bytes();
  }

  // ---- what replicas of version() get wrong by now ----

  double delta1() const { return Share(dirty_ones_); }
  double delta0() const { return Share(dirty_zeros_); }
  // Estimates by counted one bits; ByKeys computes them from n by eq. 2, as the paper does.
  ReplicaState State() const { return {Share(ones_), delta1(), delta0(), shape().num_hashes}; }
  ReplicaState StateByKeys() const;
  // Stored keys that replicas deny; an upper bound, because new keys that were deleted again count.
  double StoredDenied() const;
  // At a limit that the filter itself exceeds (eq. 4), kFalseRate sends whenever a bit has changed:
  // no update can help then, only a larger filter.
  bool NeedsUpdate(const UpdatePolicy& policy) const;

  // The changes from version() to the next one, which is now the current one.
  std::vector<std::byte> EncodeUpdate();
  // version() as a whole, for a replica that has none or has missed an update.
  std::vector<std::byte> EncodeWhole() const;

 private:
  explicit ReplicatedBloom(const ReplicaShape& shape)
      : counters_(shape.bits), now_(shape), sent_(shape) {}

  double Share(uint64_t bits) const {
    return static_cast<double>(bits) / static_cast<double>(shape().bits);
  }
  void FlipBit(uint64_t at);

  std::vector<uint8_t> counters_;
  BloomBits now_;   // bit i: counters_[i] > 0
  BloomBits sent_;  // what replicas of version_ show
  uint64_t ones_ = 0;
  uint64_t dirty_ones_ = 0;   // m δ1
  uint64_t dirty_zeros_ = 0;  // m δ0
  uint64_t size_ = 0;
  uint64_t new_keys_ = 0;  // insertions since the last update
  uint64_t version_ = 0;
};

class BloomReplica {
 public:
  // REQUIRES: a shape that ReplicatedBloom::Create accepts
  explicit BloomReplica(const ReplicaShape& shape) : bits_(shape) {}

  // Anything but kApplied leaves the replica as it was. Takes any bytes.
  [[nodiscard]] ApplyStatus Apply(std::span<const std::byte> update);
  bool MayContain(const KeyHash& key) const { return bits_.MayContain(key); }
  uint64_t version() const { return version_; }
  const BloomBits& bits() const { return bits_; }

 private:
  BloomBits bits_;
  uint64_t version_ = 0;
};

}  // namespace kbf
