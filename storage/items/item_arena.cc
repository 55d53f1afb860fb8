#include "storage/items/item_arena.h"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <memory>
#include <new>

namespace kbf {

namespace {

// Addresses per byte of memory. A block of half a slot takes a whole one, and blocks of several
// slots leave gaps between them.
constexpr uint64_t kAddressesPerByte = 16;
constexpr uint64_t kAddressesPerByteMin = 2;
// Addresses are made usable in such steps.
constexpr uint64_t kReachStep = 64;

uint64_t PagesFor(uint64_t bytes) { return ItemArena::PagesBytes(bytes) / ItemArena::kPageBytes; }

char* Reserve(uint64_t bytes, int protection) {
  void* memory =
      mmap(nullptr, bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return memory == MAP_FAILED ? nullptr : static_cast<char*>(memory);
}

}  // namespace

ItemArena::Ptr ItemArena::Create(uint64_t memory_bytes) {
  for (uint64_t factor = kAddressesPerByte; factor >= kAddressesPerByteMin; factor /= 2) {
    const uint64_t slots = memory_bytes * factor / kSlotBytes + kReachStep;
    char* base = Reserve(slots * kSlotBytes, PROT_NONE);
    if (base == nullptr) continue;
    char* blocks = Reserve(slots * sizeof(ItemBlock), PROT_READ | PROT_WRITE);
    if (blocks == nullptr) {
      munmap(base, slots * kSlotBytes);
      continue;
    }
    // A huge page would be resident as a whole for the sake of one small one.
    (void)madvise(base, slots * kSlotBytes, MADV_NOHUGEPAGE);
    return Ptr(new ItemArena(base, reinterpret_cast<ItemBlock*>(blocks), slots));
  }
  throw std::bad_alloc();
}

ItemArena::ItemArena(char* base, ItemBlock* blocks, uint64_t slots)
    : base_(base), blocks_(blocks), slots_(slots), taken_((slots + 63) / 64) {
  cached_.reserve(kCachedSlotsMax);
  // What is behind the last slot is never free.
  for (uint64_t slot = slots; slot < taken_.size() * 64; ++slot) MarkSlots(slot, 1, true);
}

ItemArena::~ItemArena() {
  munmap(base_, slots_ * kSlotBytes);
  munmap(static_cast<void*>(blocks_), slots_ * sizeof(ItemBlock));
}

void ItemArena::DropUser() {
  if (users_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
}

void ItemArena::MarkSlots(uint64_t first, uint64_t count, bool taken) {
  for (uint64_t slot = first; slot < first + count; ++slot) {
    const uint64_t bit = uint64_t{1} << slot % 64;
    taken_[slot / 64] = taken ? taken_[slot / 64] | bit : taken_[slot / 64] & ~bit;
  }
}

// The first of `count` free slots side by side, or slots_.
uint64_t ItemArena::FindSlots(uint64_t count) const {
  uint64_t run = 0;
  for (uint64_t slot = lowest_; slot < slots_;) {
    const uint64_t word = taken_[slot / 64] >> slot % 64;
    const unsigned left = 64 - static_cast<unsigned>(slot % 64);
    if ((word & 1) != 0) {
      run = 0;
      slot += std::min<unsigned>(left, static_cast<unsigned>(std::countr_one(word)));
      continue;
    }
    const unsigned free = std::min<unsigned>(left, static_cast<unsigned>(std::countr_zero(word)));
    run += free;
    slot += free;
    if (run >= count) return slot - run;
  }
  return slots_;
}

bool ItemArena::ReachesTo(uint64_t slot) {
  if (slot <= reached_) return true;
  const uint64_t reach = std::min(slots_, (slot + kReachStep - 1) / kReachStep * kReachStep);
  if (mprotect(base_ + reached_ * kSlotBytes, (reach - reached_) * kSlotBytes,
               PROT_READ | PROT_WRITE) != 0) {
    return false;
  }
  reached_ = reach;
  return true;
}

uint64_t ItemArena::TakeSlots(uint64_t count) {
  const std::lock_guard lock(mutex_);
  if (count == 1 && !cached_.empty()) {
    const uint64_t slot = cached_.back();
    cached_.pop_back();
    return slot;
  }
  const uint64_t first = FindSlots(count);
  if (first == slots_ || !ReachesTo(first + count)) return slots_;
  MarkSlots(first, count, true);
  if (count == 1) lowest_ = first + 1;
  return first;
}

ItemBlock* ItemArena::Allocate(uint64_t bytes) {
  if (failing_.load(std::memory_order_relaxed) > 0) [[unlikely]] {
    failing_.fetch_sub(1, std::memory_order_relaxed);
    return nullptr;
  }
  const uint64_t slot = TakeSlots((bytes + kSlotBytes - 1) / kSlotBytes);
  if (slot == slots_) return nullptr;
  const uint64_t pages = PagesFor(bytes);
  // A cached slot has the pages of the block before.
  const uint64_t cached_pages = blocks_[slot].pages;
  if (cached_pages > pages) {
    (void)madvise(base_ + slot * kSlotBytes + pages * kPageBytes,
                  (cached_pages - pages) * kPageBytes, MADV_DONTNEED);
  }
  ItemBlock* block = new (&blocks_[slot]) ItemBlock;
  block->owner = this;
  block->refs.store(1 | kOwnedBit, std::memory_order_relaxed);
  block->pages = static_cast<uint32_t>(pages);
  pages_.fetch_add(block->pages, std::memory_order_relaxed);
  users_.fetch_add(1, std::memory_order_relaxed);
  return block;
}

void ItemArena::Trim(ItemBlock* block, uint64_t bytes) {
  const uint64_t pages = PagesFor(bytes);
  if (pages >= block->pages) return;
  (void)madvise(MemoryOf(block) + pages * kPageBytes, (block->pages - pages) * kPageBytes,
                MADV_DONTNEED);
  pages_.fetch_sub(block->pages - pages, std::memory_order_relaxed);
  block->pages = static_cast<uint32_t>(pages);
}

void ItemArena::TakeBack(OwnedHeader* header) {
  auto* block = static_cast<ItemBlock*>(header);
  const uint64_t slot = SlotOf(block);
  const uint64_t bytes = block->pages * kPageBytes;
  const uint64_t count = (bytes + kSlotBytes - 1) / kSlotBytes;
  pages_.fetch_sub(block->pages, std::memory_order_relaxed);
  if (count > 1 || !CacheSlot(slot)) {
    (void)madvise(base_ + slot * kSlotBytes, bytes, MADV_DONTNEED);
    block->pages = 0;
    const std::lock_guard lock(mutex_);
    MarkSlots(slot, count, false);
    lowest_ = std::min(lowest_, slot);
  }
  DropUser();
}

bool ItemArena::CacheSlot(uint64_t slot) {
  const std::lock_guard lock(mutex_);
  if (cached_.size() == kCachedSlotsMax) return false;
  cached_.push_back(slot);
  return true;
}

}  // namespace kbf
