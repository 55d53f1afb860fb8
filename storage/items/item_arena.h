// ItemArena is the memory that the items of all slabs of a store live in: blocks of whole pages in
// one reservation of address space. It counts pages, so that what it says is what is resident.
//
// Promises:  bytes() is the resident memory of all blocks, and what Release gives back leaves the
//            process at once, but for kCachedSlotsMax empty slots that are kept for the next block.
//            Blocks that replies refer to stay until the last reference is gone; an arena whose
//            owner has closed it lives until then.
// Requires:  thread-safe. Lock order: slab -> arena; nothing is locked under it. For one block:
//            Allocate Trim* Detach, by one thread at a time.
// Costs:     64 bytes for each 64 KB of addresses in use. Allocate reads one bit per 64 KB below
//            the first gap that is large enough: 0.5 µs for 1 GB. A new block costs one page fault
//            per page.
//
// Addresses are handed out in slots of 64 KB, pages only as far as a block has bytes: a block of
// 36 KB takes the addresses of one slot, and nine pages. Addresses cost nothing, so no hole is ever
// too small for want of pages, and the slot of an item follows from its address.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "storage/shared_bytes.h"

namespace kbf {

class ItemArena;

// A run of pages. The table of the arena has one for each slot; only the first slot of a block is
// used.
struct alignas(64) ItemBlock : OwnedHeader {
  uint32_t pages = 0;  // resident; of the arena. Of a slot without a block: those that are cached
  // All below: of the item log that has the block, under its lock.
  uint32_t index = 0;     // in the log's table
  uint32_t used = 0;      // bytes from the beginning that were given to items
  uint32_t live = 0;      // of these, in items that were not removed
  uint32_t items = 0;     // that were not removed
  uint32_t sweep_at = 0;  // when to look for expired items; 0: none expires
  uint8_t queue = 0;
  bool open = false;     // it takes more items
  bool held = false;     // its items are being visited: it stays even if it becomes empty
  bool is_long = false;  // of a single item
  ItemBlock* next = nullptr;
  ItemBlock* before = nullptr;
};
static_assert(sizeof(ItemBlock) == 64);

class ItemArena final : public SharedOwner {
 public:
  static constexpr unsigned kSlotBits = 16;
  static constexpr uint64_t kSlotBytes = uint64_t{1} << kSlotBits;
  static constexpr uint64_t kPageBytes = 4096;
  // Empty slots that keep their pages: 2 MB.
  static constexpr size_t kCachedSlotsMax = 32;

  struct Close {
    void operator()(ItemArena* arena) const { arena->DropUser(); }
  };
  using Ptr = std::unique_ptr<ItemArena, Close>;
  // Addresses for at least twice as many bytes. Throws std::bad_alloc where there are none.
  static Ptr Create(uint64_t memory_bytes);

  ItemArena(const ItemArena&) = delete;
  ItemArena& operator=(const ItemArena&) = delete;

  // A block with one reference, all of whose bytes are resident from now on. Null: no memory.
  [[nodiscard]] ItemBlock* Allocate(uint64_t bytes);
  // Only so many bytes from the beginning of the block are used from now on. REQUIRES: bytes > 0,
  // and the block has a single slot
  void Trim(ItemBlock* block, uint64_t bytes);
  // Drops the owner's reference.
  void Release(ItemBlock* block) { Detach(block); }
  // The next Allocate calls fail until so many have; for tests.
  void FailNext(unsigned allocations) { failing_.store(allocations, std::memory_order_relaxed); }

  char* MemoryOf(const ItemBlock* block) const { return base_ + SlotOf(block) * kSlotBytes; }
  ItemBlock* BlockAt(const void* address) const {
    return &blocks_[static_cast<uint64_t>(static_cast<const char*>(address) - base_) >> kSlotBits];
  }

  static uint64_t PagesBytes(uint64_t bytes) {
    return (bytes + kPageBytes - 1) / kPageBytes * kPageBytes;
  }
  // Of all blocks, those included that only replies hold.
  uint64_t bytes() const { return pages_.load(std::memory_order_relaxed) * kPageBytes; }

  uint64_t BytesOf(const OwnedHeader& block) const override {
    return static_cast<const ItemBlock&>(block).pages * kPageBytes;
  }
  void TakeBack(OwnedHeader* block) override;

 private:
  ItemArena(char* base, ItemBlock* blocks, uint64_t slots);
  ~ItemArena();

  uint64_t SlotOf(const ItemBlock* block) const { return static_cast<uint64_t>(block - blocks_); }
  void DropUser();
  uint64_t FindSlots(uint64_t count) const;
  bool ReachesTo(uint64_t slot);
  void MarkSlots(uint64_t first, uint64_t count, bool taken);
  uint64_t TakeSlots(uint64_t count);
  bool CacheSlot(uint64_t slot);

  // Constant after construction.
  char* const base_;
  ItemBlock* const blocks_;
  const uint64_t slots_;

  std::atomic<uint64_t> pages_{0};
  std::atomic<uint64_t> users_{1};  // the owner, and each block
  std::atomic<unsigned> failing_{0};

  std::mutex mutex_;              // guards all below
  std::vector<uint64_t> taken_;   // one bit per slot
  std::vector<uint64_t> cached_;  // slots with pages and without a block; kCachedSlotsMax reserved
  uint64_t lowest_ = 0;           // no slot before this one is free
  uint64_t reached_ = 0;          // slots before this one may be read and written
};

}  // namespace kbf
