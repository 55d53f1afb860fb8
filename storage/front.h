// Front is an exact hash table of items: full key, value, client flags, expiry, CAS number and
// metadata (items/item.h). It keeps memory and order; its owner decides when an item has expired
// and where it goes when it is removed.
//
// Promises:  never approximate: keys are compared byte by byte, so two keys with one 128-bit hash
//            are two items. No call rehashes the table: Link() splits at most one bucket, Unlink()
//            merges at most two. VisitBuckets() shows every item that stays linked at least once a
//            pass, also while the table grows and shrinks between calls.
// Requires:  the owner's lock around every call and every accessor of Item, but for CreateLong().
//            Only references are shared with other threads: the holder of RefOf() may read, without
//            the lock, the value bytes that it found under the lock. An Item* is good until
//            EvictBlock(), Compact(), Flush() or its Unlink(). Items live `Create [Link Unlink]`.
//            The secret and the arena outlive the table.
// Costs:     16 bytes per item besides key and value, 4 or 8 more where CAS numbers are kept, 0, 1,
//            2 or 4 for client flags, 0, 1 or 3 for values from 256 bytes on, and 3.5 for the index
//            at its usual load of 1.7. By formula, a hit reads about 1 + load/2 = 1.85 items, and 9
//            in 10 misses read none (1 - e^(-load/16) read some, see Bucket).
// Departs:   linear hashing (Litwin 1980) without a split pointer: the number of buckets says which
//            are split. Buckets are walked in the order of their bit-reversed numbers, where splits
//            and merges happen in place, so that a position stays good; in the order of their
//            numbers a merge would move items behind it unseen.
//
// Eviction is S3-FIFO (Yang et al. 2023) on the blocks of the item log: the oldest block of new
// items goes while they take more than a tenth of the bytes, else the oldest of the others. Items
// that were hit meanwhile are copied to the end of the main queue and lose one hit, the others are
// given to the owner. A key that comes back soon after it went (items/ghost_keys.h) skips the queue
// of new items.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string_view>
#include <vector>

#include "storage/hash.h"
#include "storage/items/ghost_keys.h"
#include "storage/items/item.h"
#include "storage/items/item_log.h"
#include "storage/shared_bytes.h"

namespace kbf {

// The stream of KeyHash that places items; see the list in hash.h.
inline constexpr unsigned kFrontStream = 19;

class Front;

// Owns an item that is in no table.
struct DropItem {
  const Front* front = nullptr;
  void operator()(Item* item) const;
};
using ItemPtr = std::unique_ptr<Item, DropItem>;

class Front {
 public:
  static constexpr uint64_t kBucketsMin = 16;
  static constexpr uint64_t kSegmentBuckets = 1024;

  struct Config {
    bool keep_cas = true;
    uint64_t block_bytes = ItemArena::kSlotBytes;
  };
  // Throws std::bad_alloc. Keeps references to the secret and the arena.
  Front(const HashSecret& secret, ItemArena& arena, const Config& config);
  ~Front();
  Front(const Front&) = delete;
  Front& operator=(const Front&) = delete;

  Item* Find(std::string_view key, const KeyHash& hash) const;
  // For batches: first Prefetch() all keys, then PrefetchItem(), then Find().
  void Prefetch(const KeyHash& hash) const;
  void PrefetchItem(const KeyHash& hash) const;

  // An item that is not linked yet; the caller writes its value bytes. Null if there is no memory.
  // Its CAS number may be changed to any that Item::CasBytes gives the same room. It is made for
  // the place of `old` where that is not null. REQUIRES: key.size() <= Item::kKeyBytesMax,
  // value_bytes
  // <= Item::kValueBytesMax
  [[nodiscard]] ItemPtr Create(const NewItem& item, const KeyHash& hash, const Item* old = nullptr);
  // Long items can be made without the lock, and are adopted under it, immediately before they are
  // linked; nothing happens to others. False: no memory.
  bool IsLong(const NewItem& item) const {
    return ItemLog::IsLong(BytesOf(item), config_.block_bytes);
  }
  [[nodiscard]] ItemPtr CreateLong(const NewItem& item) const;
  [[nodiscard]] bool Adopt(Item* item, const KeyHash& hash, const Item* old = nullptr);
  // The table owns the item from now on, which gets age 1. REQUIRES: its key is not linked.
  Item* Link(ItemPtr&& item, const KeyHash& hash);
  // Without a reference the item is gone. REQUIRES: the item is linked.
  void Unlink(Item* item, const KeyHash& hash);
  // Link and Unlink in one, which counts as a hit. REQUIRES: `old` is linked, and has the key of
  // `item`, which is not.
  Item* Replace(Item* old, ItemPtr&& item, const KeyHash& hash);

  // A reference that outlives the lock.
  SharedRef RefOf(Item* item) const { return SharedRef(log_->BlockOf(item)); }
  // Somebody holds a reference to this item, or to others near it: its value must not change.
  bool IsShared(const Item* item) const { return log_->IsShared(item); }
  void SetExpires(Item* item, uint32_t seconds);

  // A hit.
  static void Touch(Item* item, uint32_t now);
  // The hand of a CLOCK, which walks in the order of the hashes. Examines up to examine_max items,
  // lowers the age of those above 0 and returns the first with age 0; the next call goes on after
  // it. Null if none of them was cold, or after 2 * examine_max buckets. The item stays linked. It
  // examines every item exactly once a round.
  Item* NextCold(unsigned examine_max);

  // Empties one block: items that were hit lately are kept elsewhere, but for so many bytes that
  // at least a quarter of the block is won; for the others evict(Item*, hash) is called, which has
  // to Unlink() that very item, and nothing else. False: there is no block.
  template <class Evict>
  bool EvictBlock(uint32_t now, Evict evict);
  // Moves the items of the block with the most holes together with others. False: no block has
  // enough of them, or there is no memory.
  bool Compact();
  // The part of the blocks that holes take is worth a call of Compact(): an eighth.
  bool IsSparse() const;
  // Looks for a block with expired items among the next `blocks` ones, and calls expired(Item*,
  // hash), which has to Unlink() it, for each of them. A block is looked at again after
  // kSweepSeconds at the earliest. False: there was none.
  template <class Expired>
  bool SweepExpired(unsigned blocks, uint32_t now, Expired expired);

  // Sets all items aside in constant time: they are no longer found, and FreeRetired frees their
  // memory. Without memory for an empty table they are freed at once.
  void Flush();
  // Frees up to `blocks` blocks of items that were set aside.
  void FreeRetired(unsigned blocks);
  bool has_retired() const { return !retired_.empty(); }
  // The key is among the items that were set aside and are not being freed yet.
  bool WasFlushed(std::string_view key, const KeyHash& hash) const;

  // Calls visit(Item*) for each item of up to `buckets` buckets, from `position` on; returns the
  // next position, 0 after the last. Positions are not bucket numbers: begin with 0, go on with
  // what was returned, whatever happened to the table in between. visit may Unlink() that very
  // item, and nothing else.
  template <class Visit>
  uint64_t VisitBuckets(uint64_t position, uint64_t buckets, Visit visit);

  KeyHash HashOf(const Item& item) const { return HashKey(item.key(), secret_); }

  uint64_t count() const { return index_.count; }
  // All that is taken by linked and retired items and by the index: whole pages, and size classes
  // of the allocator.
  uint64_t bytes() const;
  uint64_t index_bytes() const;
  // Of these, pages of the arena.
  uint64_t pages_bytes() const;
  // What an item of this size would add to them.
  uint64_t GrowthFor(uint64_t item_bytes) const {
    return log_->GrowthFor(item_bytes, ItemLog::kNew);
  }
  uint64_t num_buckets() const { return index_.num_buckets; }
  bool keep_cas() const { return config_.keep_cas; }

  // Of an item alone.
  static size_t ItemBytes(size_t key_bytes, size_t value_bytes, uint32_t flags, bool keep_cas) {
    return Item::BytesFor(key_bytes, value_bytes, flags, keep_cas ? 8 : 0);
  }

 private:
  friend struct DropItem;

  //   0                4            6
  //   +----------------+------------+
  //   | first item     | marks:16   |
  //   +----------------+------------+
  // Each item of the bucket sets one of 16 marks, chosen by four bits of its hash. For 9 in 10
  // absent keys the mark is not set, and no item is read.
  struct [[gnu::packed, gnu::aligned(2)]] Bucket {
    ItemRef head = 0;
    uint16_t marks = 0;

    bool MayHold(unsigned mark) const { return (marks >> mark & 1) != 0; }
  };
  static_assert(sizeof(Bucket) == 6);

  struct Index {
    Bucket** directory = nullptr;
    uint64_t directory_capacity = 0;
    uint64_t segments = 0;
    uint64_t num_buckets = 0;
    uint64_t base = 0;  // the largest power of two <= num_buckets
    uint64_t count = 0;

    Bucket& At(uint64_t bucket) const {
      return directory[bucket / kSegmentBuckets][bucket % kSegmentBuckets];
    }
    // The low bits of a word name its bucket: one bit more where that bucket exists already.
    uint64_t BucketOf(uint64_t word) const {
      const uint64_t bucket = word & (2 * base - 1);
      return bucket < num_buckets ? bucket : bucket - base;
    }
    void SetNumBuckets(uint64_t buckets) {
      num_buckets = buckets;
      base = std::bit_floor(buckets);
    }
    [[nodiscard]] bool AddSegment();
    void DropSegment();
    // Without items and with the least memory.
    void Clear();
    void Free();
    uint64_t bytes() const;
  };
  // What was set aside.
  struct Retired {
    Index index;  // empty when its items are being freed
    std::unique_ptr<ItemLog> log;
  };
  // Items of a block whose buckets are fetched together.
  static constexpr size_t kVisited = 16;
  struct Visited {
    Item* item;
    KeyHash hash;
  };

  static unsigned MarkOf(uint64_t word) { return word >> 60; }
  uint64_t WordOf(const Item& item) const { return Stream(HashOf(item), kFrontStream); }
  static Item* FindIn(const Index& index, const ItemLog& log, std::string_view key,
                      const KeyHash& hash);

  // A bucket is an interval of bit-reversed words: [Begin, End). Splitting halves it.
  static uint64_t Reverse(uint64_t word);
  uint64_t BucketAt(uint64_t position) const { return index_.BucketOf(Reverse(position)); }
  uint64_t EndOf(uint64_t bucket) const {
    assert(index_.base != 0);
    const bool split = bucket >= index_.base || bucket < index_.num_buckets - index_.base;
    const unsigned bits = static_cast<unsigned>(std::countr_zero(index_.base)) + split;
    return Reverse(bucket) + (uint64_t{1} << (64 - bits));
  }

  size_t BytesOf(const NewItem& from) const;
  void Drop(Item* item) const;
  void Push(Bucket* bucket, Item* item) const;
  Item* NextOf(const Item* item) const {
    return item->next_ == 0 ? nullptr : log_->At(item->next_);
  }
  Item* HeadOf(const Bucket& bucket) const {
    return bucket.head == 0 ? nullptr : log_->At(bucket.head);
  }
  void Redirect(uint64_t word, const Item* from, ItemRef to);
  ItemLog::Queue QueueFor(const KeyHash& hash, const Item* old);
  void NoteExpiry(const Item* item);
  bool MoveTo(ItemLog::Queue queue, Item* item, const KeyHash& hash);
  bool KeepLonger(const Visited& visited, uint32_t now, uint64_t* may_keep);
  ItemBlock* NextToEvict() const;
  template <class Each>
  void VisitHashed(ItemBlock* block, Each each);
  void GrowIfLoaded();
  void ShrinkIfSparse(uint64_t merges_max);

  static constexpr uint32_t kSweepSeconds = 10;

  // Constant after construction.
  const HashSecret& secret_;
  ItemArena& arena_;
  const Config config_;

  Index index_;
  std::unique_ptr<ItemLog> log_;
  GhostKeys ghosts_;
  std::vector<Retired> retired_;
  bool visiting_ = false;  // VisitBuckets() is running: no merges
  uint32_t swept_ = 0;     // the last block that SweepExpired has looked at

  // Items before this position have kRound == round_, items behind its bucket have not.
  uint64_t hand_ = 0;
  bool round_ = true;
};

inline void DropItem::operator()(Item* item) const { front->Drop(item); }

template <class Visit>
uint64_t Front::VisitBuckets(uint64_t position, uint64_t buckets, Visit visit) {
  for (; buckets > 0; --buckets) {
    const uint64_t bucket = BucketAt(position);
    const uint64_t count_before = count();
    visiting_ = true;
    for (Item* item = HeadOf(index_.At(bucket)); item != nullptr;) {
      Item* const next = NextOf(item);
      visit(item);
      item = next;
    }
    visiting_ = false;
    position = EndOf(bucket);
    ShrinkIfSparse(2 * (count_before - count()));
    if (position == 0) break;
  }
  return position;
}

// Calls each(Visited) for the items of a closed block.
template <class Each>
void Front::VisitHashed(ItemBlock* block, Each each) {
  std::array<Visited, kVisited> batch;
  size_t count = 0;
  const auto flush = [&] {
    for (size_t i = 0; i < count; ++i) PrefetchItem(batch[i].hash);
    for (size_t i = 0; i < count; ++i) each(batch[i]);
    count = 0;
  };
  log_->VisitItems(block, [&](Item* item) {
    batch[count] = {item, HashOf(*item)};
    Prefetch(batch[count].hash);
    if (++count == kVisited) flush();
  });
  flush();
}

template <class Evict>
bool Front::EvictBlock(uint32_t now, Evict evict) {
  ItemBlock* block = NextToEvict();
  if (block == nullptr) return false;
  const bool is_empty = block->items == 0;
  log_->CloseIfOpen(block);
  if (is_empty) return true;
  const bool is_new = block->queue == ItemLog::kNew;
  uint64_t may_keep = block->live / 4 * 3;
  VisitHashed(block, [&](const Visited& visited) {
    if (KeepLonger(visited, now, &may_keep)) return;
    if (is_new) ghosts_.Add(Stream(visited.hash, kFrontStream), count());
    evict(visited.item, visited.hash);
  });
  return true;
}

template <class Expired>
bool Front::SweepExpired(unsigned blocks, uint32_t now, Expired expired) {
  for (; blocks > 0 && log_->last_index() > 0; --blocks) {
    swept_ = swept_ < log_->last_index() ? swept_ + 1 : 1;
    ItemBlock* block = log_->BlockNumber(swept_);
    if (block == nullptr || block->sweep_at == 0 || block->sweep_at > now) continue;
    uint32_t next = 0;
    block->sweep_at = 0;
    log_->VisitItems(block, [&](Item* item) {
      const uint32_t expires = item->expires();
      if (expires == 0) return;
      if (expires <= now) return expired(item, HashOf(*item));
      if (next == 0 || expires < next) next = expires;
    });
    if (block == log_->BlockNumber(swept_) && next != 0) {
      block->sweep_at = std::max(next, now + kSweepSeconds);
    }
    return true;
  }
  return false;
}

}  // namespace kbf
