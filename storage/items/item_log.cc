#include "storage/items/item_log.h"

#include <algorithm>
#include <cassert>
#include <cstdlib>
#include <cstring>

namespace kbf {

namespace {

constexpr uint32_t kNumbersMin = 16;
// A block is worth moving its items if so much of it is free: 1/4.
constexpr uint64_t kSparseShare = 4;

}  // namespace

ItemLog::~ItemLog() {
  while (FreeBlocks(1024)) {
  }
  std::free(memory_);
}

uint64_t ItemLog::table_bytes() const { return AllocatedBytes(capacity_ * sizeof(char*)); }

// ---- blocks -------------------------------------------------------------------------------------

// Makes sure that there is a number for one more block. Number 0 is none.
bool ItemLog::HasNumber() {
  if (free_ != 0 || last_ + 1 < capacity_) return true;
  if (last_ >= kBlocksMax) return false;
  const uint32_t capacity = capacity_ == 0 ? kNumbersMin : 2 * capacity_;
  void* memory = AllocateShared(capacity * sizeof(char*));
  if (memory == nullptr) return false;
  if (memory_ != nullptr) {
    std::memcpy(memory, static_cast<void*>(memory_), capacity_ * sizeof(char*));
    FreeShared(static_cast<void*>(memory_));
  }
  memory_ = static_cast<char**>(memory);
  capacity_ = capacity;
  return true;
}

void ItemLog::GiveNumber(ItemBlock* block) {
  if (free_ != 0) {
    block->index = free_;
    free_ = static_cast<uint32_t>(reinterpret_cast<uintptr_t>(memory_[free_]) >> 1);
  } else {
    block->index = ++last_;
  }
  memory_[block->index] = arena_.MemoryOf(block);
}

void ItemLog::AddBlock(ItemBlock* block, Queue queue) {
  GiveNumber(block);
  pages_ += block->pages;
  Push(block, queue);
}

void ItemLog::Push(ItemBlock* block, Queue queue) {
  Chain& chain = queues_[queue];
  block->queue = queue;
  block->next = nullptr;
  block->before = chain.newest;
  (chain.newest != nullptr ? chain.newest->next : chain.oldest) = block;
  chain.newest = block;
  chain.live += block->live;
}

void ItemLog::TakeOut(ItemBlock* block) {
  Chain& chain = queues_[block->queue];
  (block->before != nullptr ? block->before->next : chain.oldest) = block->next;
  (block->next != nullptr ? block->next->before : chain.newest) = block->before;
  if (chain.open == block) chain.open = nullptr;
  chain.live -= block->live;
}

void ItemLog::FreeBlock(ItemBlock* block) {
  TakeOut(block);
  memory_[block->index] = reinterpret_cast<char*>(uintptr_t{free_} << 1 | 1);
  free_ = block->index;
  pages_ -= block->pages;
  arena_.Release(block);
}

// After items were removed from the block.
void ItemLog::Settle(ItemBlock* block) {
  if (block->items > 0 || block->held) return;
  if (!block->open) return FreeBlock(block);
  // Nobody refers to it: it starts anew.
  if ((block->refs.load(std::memory_order_acquire) & kRefsMask) > 1) return;
  block->used = 0;
  block->sweep_at = 0;
}

void ItemLog::CloseIfOpen(ItemBlock* block) {
  if (!block->open) return;
  block->open = false;
  queues_[block->queue].open = nullptr;
  if (block->used > 0) {
    pages_ -= block->pages;
    arena_.Trim(block, block->used);
    pages_ += block->pages;
  }
  Settle(block);
}

bool ItemLog::FreeBlocks(unsigned blocks) {
  for (Chain& chain : queues_) {
    for (; blocks > 0 && chain.oldest != nullptr; --blocks) FreeBlock(chain.oldest);
  }
  return queues_[kNew].oldest != nullptr || queues_[kMain].oldest != nullptr;
}

ItemBlock* ItemLog::Sparsest() const {
  ItemBlock* sparsest = nullptr;
  uint64_t most = 0;
  for (uint32_t index = 1; index <= last_; ++index) {
    ItemBlock* block = BlockNumber(index);
    if (block == nullptr || block->open || block->held || block->is_long) continue;
    const uint64_t bytes = block->pages * ItemArena::kPageBytes;
    const uint64_t free = bytes - std::min<uint64_t>(bytes, block->live);
    if (free <= most || free * kSparseShare < bytes) continue;
    sparsest = block;
    most = free;
  }
  return sparsest;
}

// ---- items --------------------------------------------------------------------------------------

Item* ItemLog::Append(Queue queue, uint64_t bytes) {
  bytes = Rounded(bytes);
  assert(!IsLong(bytes));
  Chain& chain = queues_[queue];
  if (chain.open != nullptr && chain.open->used + bytes > block_bytes_) CloseIfOpen(chain.open);
  if (chain.open == nullptr) {
    if (!HasNumber()) return nullptr;
    ItemBlock* fresh = arena_.Allocate(block_bytes_);
    if (fresh == nullptr) return nullptr;
    AddBlock(fresh, queue);
    fresh->open = true;
    chain.open = fresh;
  }
  ItemBlock* block = chain.open;
  Item* item = ItemIn(block, block->used);
  block->used += static_cast<uint32_t>(bytes);
  block->live += static_cast<uint32_t>(bytes);
  ++block->items;
  chain.live += bytes;
  return item;
}

uint64_t ItemLog::GrowthFor(uint64_t bytes, Queue queue) const {
  bytes = Rounded(bytes);
  if (IsLong(bytes)) return ItemArena::PagesBytes(bytes);
  const ItemBlock* block = queues_[queue].open;
  return block != nullptr && block->used + bytes <= block_bytes_ ? 0 : block_bytes_;
}

bool ItemLog::Adopt(Item* item, Queue queue) {
  if (!HasNumber()) return false;
  ItemBlock* block = BlockOf(item);
  block->used = block->live = static_cast<uint32_t>(SizeOf(item));
  block->items = 1;
  block->is_long = true;
  AddBlock(block, queue);
  return true;
}

void ItemLog::Remove(Item* item) {
  ItemBlock* block = BlockOf(item);
  const uint64_t bytes = SizeOf(item);
  item->next_ = Item::kUnlinked;
  block->live -= static_cast<uint32_t>(bytes);
  --block->items;
  queues_[block->queue].live -= bytes;
  // The last one leaves no hole where nobody refers to its bytes.
  if (block->open && !block->held && OffsetOf(block, item) + bytes == block->used &&
      (block->refs.load(std::memory_order_acquire) & kRefsMask) == 1) {
    block->used -= static_cast<uint32_t>(bytes);
  }
  Settle(block);
}

void ItemLog::Requeue(Item* item, Queue queue) {
  ItemBlock* block = BlockOf(item);
  TakeOut(block);
  Push(block, queue);
}

Item* ItemLog::CopyTo(const Item* item, Queue queue) {
  Item* copy = Append(queue, item->total_bytes());
  if (copy == nullptr) return nullptr;
  std::memcpy(static_cast<void*>(copy), static_cast<const void*>(item), item->total_bytes());
  uint32_t& sweep_at = BlockOf(copy)->sweep_at;
  const uint32_t expires = item->expires();
  if (expires != 0 && (sweep_at == 0 || expires < sweep_at)) sweep_at = expires;
  return copy;
}

}  // namespace kbf
