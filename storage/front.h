// Front is an exact hash table of items: full key, value, client flags, expiry, CAS number and
// metadata. It keeps memory and order; its owner decides when an item has expired and where it goes
// when it is removed.
//
// Promises:  never approximate: keys are compared byte by byte, so two keys with one 128-bit hash
//            are two items. No call rehashes the table: Link() splits at most one bucket, Unlink()
//            merges at most two. The hand (NextCold) examines every item exactly once a round, and
//            VisitBuckets() shows every item that stays linked at least once a pass, also while the
//            table grows and shrinks between calls.
// Requires:  the owner's lock around every call and every accessor of Item. Only references are
//            shared with other threads: the holder of a SharedRef may read, without the lock, the
//            value bytes that it found under the lock. Items live `Create [Link Unlink]`. The
//            secret outlives the table. Pointers fit 48 bits.
// Costs:     25 bytes per item besides key and value, 8 more where CAS numbers are kept, 0, 1, 2 or
//            4 for client flags, and 4.7 for the index at its usual load of 1.7: 37.7 with CAS
//            (memcached: 48-56). By formula, a hit reads about 1 + load/2 = 1.85 items, and 9 in
//            10 misses read none (1 - e^(-load/16) read some, see Bucket). Allocates in Create(),
//            and for 1,024 buckets at a time in Link().
// Departs:   linear hashing (Litwin 1980) without a split pointer: the number of buckets says which
//            are split. Buckets are walked in the order of their bit-reversed numbers, where splits
//            and merges happen in place, so that a position stays good; in the order of their
//            numbers a merge would move items behind it unseen.
#pragma once

#include <bit>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string_view>
#include <vector>

#include "storage/hash.h"
#include "storage/shared_bytes.h"

namespace kbf {

// The stream of KeyHash that places items; see the list in hash.h.
inline constexpr unsigned kFrontStream = 19;

//   0        4        8             12              16                    24
//   +--------+--------+-------------+---------------+---------------------+
//   |  refs  | expires| access:29   | value_bytes:30| next item:48        |
//   |        |        | bits:3      | age:2         | bits:16             |
//   +--------+--------+-------------+---------------+---------------------+
//   | cas, 8 if kept | client flags, 0, 1, 2 or 4 | key_bytes, 1 | key | value |
//   +----------------+----------------------------+--------------+-----+-------+
class Item {
 public:
  static constexpr size_t kHeadBytes = 24;
  static constexpr size_t kKeyBytesMax = 255;
  static constexpr uint32_t kValueBytesMax = (1u << 30) - 1;
  static constexpr unsigned kAgeMax = 3;

  // For a reference that outlives the lock: SharedRef(item->header()).
  SharedHeader* header() { return &header_; }

  std::string_view key() const { return {bytes() + KeyOffset(), key_bytes()}; }
  std::string_view value() const { return {bytes() + ValueOffset(), value_bytes()}; }
  // To be written before Link(), and afterwards only while there is no other reference: see
  // shared().
  char* value_data() { return reinterpret_cast<char*>(this) + ValueOffset(); }
  bool shared() const { return header_.refs.load(std::memory_order_acquire) > 1; }

  size_t key_bytes() const { return static_cast<unsigned char>(bytes()[KeyOffset() - 1]); }
  uint32_t value_bytes() const { return size_age_ & kValueBytesMax; }
  size_t total_bytes() const { return ValueOffset() + value_bytes(); }
  uint32_t flags() const;

  // 0 where the table keeps no CAS numbers; setting one is ignored there.
  uint64_t cas() const;
  void set_cas(uint64_t cas);
  // Absolute seconds; 0: never.
  uint32_t expires() const { return expires_; }
  void set_expires(uint32_t seconds) { expires_ = seconds; }
  // The time is kept modulo 2^29 seconds, which is 17 years, and completed from the present.
  uint32_t last_access(uint32_t now) const { return now - ((now - access_) & kAccessMask); }
  void set_last_access(uint32_t seconds) {
    access_ = (access_ & ~kAccessMask) | (seconds & kAccessMask);
  }
  // 0: cold. REQUIRES: age <= kAgeMax.
  unsigned age() const { return size_age_ >> 30; }
  void set_age(unsigned age) { size_age_ = (size_age_ & kValueBytesMax) | age << 30; }

  // A client chose the CAS number.
  bool explicit_cas() const { return (access_ & kExplicitCas) != 0; }
  void set_explicit_cas(bool on) { SetAccess(kExplicitCas, on); }
  // The key was sent in base64; not known of a key that comes from the chain.
  bool base64_key() const { return (access_ & kBase64Key) != 0; }
  void set_base64_key(bool on) { SetAccess(kBase64Key, on); }
  bool knows_key_form() const { return (access_ & kKeyFormUnknown) == 0; }
  void ForgetKeyForm() { SetAccess(kKeyFormUnknown, true); }

  bool fetched() const { return Bits(kFetched, 1) != 0; }
  void set_fetched(bool on) { SetBits(kFetched, 1, on); }
  bool stale() const { return Bits(kStale, 1) != 0; }
  void set_stale(bool on) { SetBits(kStale, 1, on); }
  // A client was already told to recache.
  bool win() const { return Bits(kWin, 1) != 0; }
  void set_win(bool on) { SetBits(kWin, 1, on); }
  // The chain holds nothing of this key, or nothing older than this item.
  bool clean() const { return Bits(kClean, 1) != 0; }
  void set_clean(bool on) { SetBits(kClean, 1, on); }
  // The value was looked at and has no code: it is not looked at again this round.
  bool unique() const { return Bits(kUnique, 1) != 0; }
  void set_unique(bool on) { SetBits(kUnique, 1, on); }
  // It was counted among those that wait for a filter.
  bool waiting() const { return Bits(kWaiting, 1) != 0; }
  void set_waiting(bool on) { SetBits(kWaiting, 1, on); }
  // REQUIRES: generation < 4.
  unsigned generation() const { return Bits(kGeneration, 2); }
  void set_generation(unsigned generation) { SetBits(kGeneration, 2, generation); }

 private:
  friend class Front;

  // Bits of link_ above the pointer.
  static constexpr unsigned kFetched = 48, kStale = 49, kWin = 50, kClean = 51, kUnique = 52;
  static constexpr unsigned kGeneration = 53;  // 2 bits
  static constexpr unsigned kFlagWidth = 55;   // 2 bits: 0, 1, 2 or 4 bytes of client flags
  static constexpr unsigned kHasCas = 57;
  static constexpr unsigned kRound =
      58;                                // round of the hand that examined this item last, modulo 2
  static constexpr unsigned kMark = 59;  // 4 bits: its bit in Bucket::marks
  static constexpr unsigned kWaiting = 63;
  static constexpr uint64_t kPointerMask = (uint64_t{1} << 48) - 1;

  // Parts of access_.
  static constexpr uint32_t kAccessMask = (uint32_t{1} << 29) - 1;
  static constexpr uint32_t kExplicitCas = uint32_t{1} << 29;
  static constexpr uint32_t kBase64Key = uint32_t{1} << 30;
  static constexpr uint32_t kKeyFormUnknown = uint32_t{1} << 31;
  void SetAccess(uint32_t bit, bool on) { access_ = on ? access_ | bit : access_ & ~bit; }

  const char* bytes() const { return reinterpret_cast<const char*>(this); }
  unsigned Bits(unsigned at, unsigned width) const { return link_ >> at & ((1u << width) - 1); }
  void SetBits(unsigned at, unsigned width, uint64_t to) {
    const uint64_t mask = ((uint64_t{1} << width) - 1) << at;
    link_ = (link_ & ~mask) | (to << at & mask);
  }
  Item* next() const { return reinterpret_cast<Item*>(link_ & kPointerMask); }
  void set_next(Item* next) { link_ = (link_ & ~kPointerMask) | reinterpret_cast<uint64_t>(next); }

  static size_t FlagWidth(unsigned code) { return (1u << code) >> 1; }
  static unsigned FlagCode(uint32_t flags) {
    return flags == 0 ? 0 : flags < 0x100 ? 1 : flags < 0x10000 ? 2 : 3;
  }
  size_t FlagsOffset() const { return kHeadBytes + 8 * Bits(kHasCas, 1); }
  size_t KeyOffset() const { return FlagsOffset() + FlagWidth(Bits(kFlagWidth, 2)) + 1; }
  size_t ValueOffset() const { return KeyOffset() + key_bytes(); }

  SharedHeader header_;
  uint32_t expires_ = 0;
  uint32_t access_ = 0;
  uint32_t size_age_ = 0;
  uint64_t link_ = 0;
};
static_assert(sizeof(SharedHeader) == 4 && sizeof(Item) == Item::kHeadBytes && alignof(Item) == 8);

// Owns an item that is in no table.
struct ReleaseItem {
  void operator()(Item* item) const { Release(item->header()); }
};
using ItemPtr = std::unique_ptr<Item, ReleaseItem>;

struct NewItem {
  std::string_view key;
  uint32_t flags = 0;
  uint32_t expires = 0;
  uint32_t value_bytes = 0;
  uint64_t cas = 0;
  uint32_t now = 0;
  unsigned generation = 0;
};

class Front {
 public:
  static constexpr uint64_t kBucketsMin = 16;
  static constexpr uint64_t kSegmentBuckets = 1024;

  // Throws std::bad_alloc. Keeps a reference to the secret.
  Front(const HashSecret& secret, bool keep_cas);
  ~Front();
  Front(const Front&) = delete;
  Front& operator=(const Front&) = delete;

  Item* Find(std::string_view key, const KeyHash& hash) const;
  // For batches: first Prefetch() all keys, then PrefetchItem(), then Find().
  void Prefetch(const KeyHash& hash) const;
  void PrefetchItem(const KeyHash& hash) const;

  // An item that is not linked yet; the caller writes its value bytes. Null if there is no memory.
  // REQUIRES: key.size() <= Item::kKeyBytesMax, value_bytes <= Item::kValueBytesMax,
  // generation < 4.
  [[nodiscard]] ItemPtr Create(const NewItem& item) const;
  // The table owns the item from now on, which gets age 1. REQUIRES: its key is not linked.
  Item* Link(ItemPtr&& item, const KeyHash& hash);
  // Drops the table's reference: without another one the item is gone. REQUIRES: the item is
  // linked.
  void Unlink(Item* item, const KeyHash& hash);

  // Link and Unlink in one, without reading the items behind. REQUIRES: `old` is linked, and has
  // the key of `item`, which is not.
  Item* Replace(Item* old, ItemPtr&& item, const KeyHash& hash);

  // A hit.
  static void Touch(Item* item, uint32_t now);
  // The hand of a CLOCK. Examines up to examine_max items, lowers the age of those above 0 and
  // returns the first with age 0; the next call goes on after it. Null if none of them was cold, or
  // after 2 * examine_max buckets. The item stays linked.
  Item* NextCold(unsigned examine_max);

  // Sets all items aside in constant time: they are no longer found, and FreeRetired frees their
  // memory. False: no memory for an empty table, nothing was changed.
  [[nodiscard]] bool Retire();
  // Frees the items of up to `buckets` buckets of retired tables; returns how many items.
  uint64_t FreeRetired(uint64_t buckets);
  bool has_retired() const { return !retired_.empty(); }

  // Calls visit(Item*) for each item of up to `buckets` buckets, from `position` on; returns the
  // next position, 0 after the last. Positions are not bucket numbers: begin with 0, go on with
  // what was returned, whatever happened to the table in between. visit may Unlink() that very
  // item, and nothing else.
  template <class Visit>
  uint64_t VisitBuckets(uint64_t position, uint64_t buckets, Visit visit);

  KeyHash HashOf(const Item& item) const { return HashKey(item.key(), secret_); }

  uint64_t count() const { return count_; }
  // All that is allocated for linked and retired items and index, in size classes of the allocator.
  uint64_t bytes() const { return item_bytes_ + index_bytes(); }
  uint64_t index_bytes() const;
  uint64_t num_buckets() const { return num_buckets_; }
  bool keep_cas() const { return keep_cas_; }

  // Before rounding to a size class.
  static size_t ItemBytes(size_t key_bytes, size_t value_bytes, uint32_t flags, bool keep_cas) {
    return Item::kHeadBytes + (keep_cas ? 8 : 0) + Item::FlagWidth(Item::FlagCode(flags)) + 1 +
           key_bytes + value_bytes;
  }

 private:
  //   0                      48           64
  //   +----------------------+------------+
  //   | first item           | marks:16   |
  //   +----------------------+------------+
  // Each item of the bucket sets one of 16 marks, chosen by four bits of its hash. For 9 in 10
  // absent keys the mark is not set, and no item is read.
  struct Bucket {
    uint64_t word = 0;

    Item* head() const { return reinterpret_cast<Item*>(word & Item::kPointerMask); }
    bool MayHold(unsigned mark) const { return (word >> (48 + mark) & 1) != 0; }
    void Push(Item* item) {
      item->set_next(head());
      word = (word & ~Item::kPointerMask) | reinterpret_cast<uint64_t>(item) |
             uint64_t{1} << (48 + item->Bits(Item::kMark, 4));
    }
  };
  static_assert(sizeof(Bucket) == 8);

  static unsigned MarkOf(uint64_t word) { return word >> 60; }
  uint64_t WordOf(const Item& item) const { return Stream(HashOf(item), kFrontStream); }
  Bucket& At(uint64_t bucket) const {
    return directory_[bucket / kSegmentBuckets][bucket % kSegmentBuckets];
  }
  // The low bits of a word name its bucket: one bit more where that bucket exists already.
  uint64_t BucketOf(uint64_t word) const {
    const uint64_t bucket = word & (2 * base_ - 1);
    return bucket < num_buckets_ ? bucket : bucket - base_;
  }

  // A bucket is an interval of bit-reversed words: [Begin, End). Splitting halves it.
  static uint64_t Reverse(uint64_t word);
  uint64_t BucketAt(uint64_t position) const { return BucketOf(Reverse(position)); }
  uint64_t EndOf(uint64_t bucket) const {
    assert(base_ != 0);
    const bool split = bucket >= base_ || bucket < num_buckets_ - base_;
    const unsigned bits = static_cast<unsigned>(std::countr_zero(base_)) + split;
    return Reverse(bucket) + (uint64_t{1} << (64 - bits));
  }

  // A table that was set aside; buckets before `next` are empty.
  struct Retired {
    Bucket** directory;
    uint64_t directory_capacity;
    uint64_t segments;
    uint64_t num_buckets;
    uint64_t next;
  };

  void SetNumBuckets(uint64_t buckets);
  [[nodiscard]] bool AddSegment();
  void DropSegment();
  void GrowIfLoaded();
  void ShrinkIfSparse(uint64_t merges_max);

  // Constant after construction.
  const HashSecret& secret_;
  const bool keep_cas_;

  Bucket** directory_ = nullptr;
  uint64_t directory_capacity_ = 0;
  uint64_t segments_ = 0;
  uint64_t num_buckets_ = 0;
  uint64_t base_ = 0;  // the largest power of two <= num_buckets_
  uint64_t count_ = 0;
  uint64_t item_bytes_ = 0;
  std::vector<Retired> retired_;
  bool visiting_ = false;  // VisitBuckets() is running: no merges

  uint64_t hand_ =
      0;  // items before this position have kRound == round_, items behind its bucket have not
  bool round_ = true;
};

template <class Visit>
uint64_t Front::VisitBuckets(uint64_t position, uint64_t buckets, Visit visit) {
  for (; buckets > 0; --buckets) {
    const uint64_t bucket = BucketAt(position);
    const uint64_t count_before = count_;
    visiting_ = true;
    for (Item* item = At(bucket).head(); item != nullptr;) {
      Item* const next = item->next();
      visit(item);
      item = next;
    }
    visiting_ = false;
    position = EndOf(bucket);
    ShrinkIfSparse(2 * (count_before - count_));
    if (position == 0) break;
  }
  return position;
}

}  // namespace kbf
