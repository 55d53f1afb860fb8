// StoreMemory is what all slabs of a store share of its memory: the limit, the arena of their
// items, and the sum of everything else that they take.
//
// Promises:  bytes() is what the store takes: whole pages for items, size classes of the allocator
//            for the rest. Values that the chains share count once, and so do values that
//            were removed but are still being sent.
// Requires:  thread-safe. The engine outlives it, and it outlives the slabs. Each slab reports by
//            AddOther what it takes besides pages of the arena.
#pragma once

#include <atomic>
#include <cstdint>

#include "storage/engine.h"
#include "storage/items/item_arena.h"
#include "storage/shared_bytes.h"

namespace kbf {

class StoreMemory {
 public:
  // Throws std::bad_alloc.
  StoreMemory(uint64_t limit, const Engine& engine)
      : limit_(limit), engine_(engine), arena_(ItemArena::Create(limit)) {}

  ItemArena& arena() { return *arena_; }
  uint64_t limit() const { return limit_; }
  uint64_t bytes() const {
    return arena_->bytes() + other_.load(std::memory_order_relaxed) + engine_.shared_bytes() +
           DetachedAllocatedBytes();
  }
  bool Fits(uint64_t more_bytes) const {
    return bytes() + more_bytes + set_aside_.load(std::memory_order_relaxed) <= limit_;
  }
  // So much is for others.
  void SetAside(uint64_t bytes) { set_aside_.store(bytes, std::memory_order_relaxed); }
  // Negative amounts as their two's complement.
  void AddOther(uint64_t bytes) { other_.fetch_add(bytes, std::memory_order_relaxed); }

 private:
  const uint64_t limit_;
  const Engine& engine_;
  const ItemArena::Ptr arena_;
  std::atomic<uint64_t> other_{0};
  std::atomic<uint64_t> set_aside_{0};
};

}  // namespace kbf
