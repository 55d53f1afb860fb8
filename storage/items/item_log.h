// ItemLog keeps the items of one front in blocks of an arena, in the order in which they came: two
// queues of blocks, for new items and for those that eviction kept. It knows blocks and bytes;
// where an item is found, and which one goes, its owner decides.
//
// Promises:  an item stays where it is until it is removed or its owner moves it. Its bytes stay as
//            they are while somebody holds a reference to its block, also after it was removed.
//            Memory of removed items is used again when their block has no other items
//            (Front::Compact moves those out of sparse blocks).
// Requires:  the owner's lock, without which references may be dropped. (Append | Adopt) Remove.
//            The arena outlives the log.
// Costs:     8 bytes per block and the block's head in the arena. Of the memory of the last block
//            of each queue, half is empty on average; elsewhere less than a page per block.
//
// Items of more than half a block have a block of their own, whose pages are theirs alone, so that
// a reply which refers to one holds nothing else.
#pragma once

#include <cstddef>
#include <cstdint>

#include "storage/items/item.h"
#include "storage/items/item_arena.h"
#include "storage/shared_bytes.h"

namespace kbf {

class ItemLog {
 public:
  enum Queue : uint8_t { kNew, kMain };
  static constexpr unsigned kQueues = 2;
  // A reference is the number of a block and half the offset there.
  static constexpr unsigned kOffsetBits = ItemArena::kSlotBits - 1;
  static constexpr uint32_t kBlocksMax = (uint32_t{1} << (32 - kOffsetBits)) - 2;

  // REQUIRES: block_bytes is a multiple of the page, at most ItemArena::kSlotBytes
  ItemLog(ItemArena& arena, uint64_t block_bytes) : arena_(arena), block_bytes_(block_bytes) {}
  ~ItemLog();
  ItemLog(const ItemLog&) = delete;
  ItemLog& operator=(const ItemLog&) = delete;

  Item* At(ItemRef ref) const {
    return reinterpret_cast<Item*>(memory_[ref >> kOffsetBits] + 2 * (ref & kOffsetMask));
  }
  ItemRef RefOf(const Item* item) const {
    const ItemBlock* block = BlockOf(item);
    return block->index << kOffsetBits | static_cast<uint32_t>(OffsetOf(block, item) / 2);
  }
  ItemBlock* BlockOf(const Item* item) const { return arena_.BlockAt(item); }
  // Somebody holds a reference to the item's block.
  bool IsShared(const Item* item) const {
    return (BlockOf(item)->refs.load(std::memory_order_acquire) & kRefsMask) > 1;
  }

  static bool IsLong(uint64_t bytes, uint64_t block_bytes) { return bytes > block_bytes / 2; }
  bool IsLong(uint64_t bytes) const { return IsLong(bytes, block_bytes_); }
  // Memory for an item at the end of a queue; null where there is none. REQUIRES: !IsLong(bytes)
  [[nodiscard]] Item* Append(Queue queue, uint64_t bytes);
  // A long item is made at the beginning of a block of its own, and then brought into the log.
  // False: no memory, nothing was changed.
  [[nodiscard]] bool Adopt(Item* item, Queue queue);
  // The item is no longer in use. Its bytes are, as long as there are references.
  void Remove(Item* item);

  // To the end of a queue, without moving its bytes. REQUIRES: the item is long
  void Requeue(Item* item, Queue queue);
  // A copy of the item at the end of a queue, null where there is no memory. The item stays.
  [[nodiscard]] Item* CopyTo(const Item* item, Queue queue);

  // Calls visit(Item*) for every item of the block that was not removed. visit may remove any.
  template <class Visit>
  void VisitItems(ItemBlock* block, Visit visit);
  // ItemBlock number `index` (1 to last_index()); null where there is none.
  ItemBlock* BlockNumber(uint32_t index) const {
    const uintptr_t entry = reinterpret_cast<uintptr_t>(memory_[index]);
    return (entry & 1) != 0 ? nullptr : arena_.BlockAt(memory_[index]);
  }
  uint32_t last_index() const { return last_; }
  ItemBlock* Oldest(Queue queue) const { return queues_[queue].oldest; }
  // No more items go into the block.
  void CloseIfOpen(ItemBlock* block);
  // The closed block of several items with the most bytes of removed ones, if those are a quarter
  // of it at least.
  ItemBlock* Sparsest() const;
  // Frees up to `blocks` blocks with all their items. Returns false when none is left.
  bool FreeBlocks(unsigned blocks);

  static uint64_t Rounded(uint64_t bytes) { return (bytes + 1) & ~uint64_t{1}; }
  // What Append would take more for an item of this size.
  uint64_t GrowthFor(uint64_t bytes, Queue queue) const;
  // Memory of the blocks and of their table.
  uint64_t pages_bytes() const { return pages_ * ItemArena::kPageBytes; }
  uint64_t bytes() const { return pages_bytes() + table_bytes(); }
  uint64_t table_bytes() const;
  // Bytes of items that were not removed.
  uint64_t live_bytes() const { return queues_[kNew].live + queues_[kMain].live; }
  uint64_t live_bytes(Queue queue) const { return queues_[queue].live; }
  uint64_t block_bytes() const { return block_bytes_; }

 private:
  static constexpr uint32_t kOffsetMask = (uint32_t{1} << kOffsetBits) - 1;
  struct Chain {
    ItemBlock* oldest = nullptr;
    ItemBlock* newest = nullptr;
    ItemBlock* open = nullptr;
    uint64_t live = 0;
  };

  static uint64_t SizeOf(const Item* item) { return Rounded(item->total_bytes()); }
  uint64_t OffsetOf(const ItemBlock* block, const Item* item) const {
    return static_cast<uint64_t>(reinterpret_cast<const char*>(item) - arena_.MemoryOf(block));
  }
  Item* ItemIn(const ItemBlock* block, uint64_t offset) const {
    return reinterpret_cast<Item*>(arena_.MemoryOf(block) + offset);
  }
  [[nodiscard]] bool HasNumber();
  void GiveNumber(ItemBlock* block);
  void AddBlock(ItemBlock* block, Queue queue);
  void Push(ItemBlock* block, Queue queue);
  void TakeOut(ItemBlock* block);
  void FreeBlock(ItemBlock* block);
  void Settle(ItemBlock* block);

  ItemArena& arena_;
  const uint64_t block_bytes_;
  // By block number: its memory, or twice the next free number and one.
  char** memory_ = nullptr;
  uint32_t capacity_ = 0;
  uint32_t last_ = 0;
  uint32_t free_ = 0;
  uint64_t pages_ = 0;
  Chain queues_[kQueues];
};

template <class Visit>
void ItemLog::VisitItems(ItemBlock* block, Visit visit) {
  block->held = true;
  for (uint64_t offset = 0; offset < block->used;) {
    Item* const item = ItemIn(block, offset);
    offset += SizeOf(item);
    if (item->linked()) visit(item);
  }
  block->held = false;
  Settle(block);
}

}  // namespace kbf
