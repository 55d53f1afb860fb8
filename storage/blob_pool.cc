#include "storage/blob_pool.h"

#include <cassert>
#include <cstring>
#include <new>

namespace kbf {

namespace {

constexpr size_t kSlotsMin = 16;
constexpr size_t kSlotBytes = sizeof(void*);

// The first slot that holds this blob's equal, or the empty one where it belongs.
size_t FindSlot(const std::vector<Blob*>& slots, std::string_view bytes, uint32_t flags,
                uint64_t hash) {
  const size_t mask = slots.size() - 1;
  size_t slot = hash & mask;
  for (; slots[slot] != nullptr; slot = (slot + 1) & mask) {
    const Blob& blob = *slots[slot];
    if (blob.hash == hash && blob.flags == flags && blob.view() == bytes) break;
  }
  return slot;
}

// Closes the gap at `slot`: every entry behind it that may move nearer to its home does.
void RemoveSlot(std::vector<Blob*>& slots, size_t slot) {
  const size_t mask = slots.size() - 1;
  for (size_t next = (slot + 1) & mask; slots[next] != nullptr; next = (next + 1) & mask) {
    const size_t home = slots[next]->hash & mask;
    if (((next - home) & mask) < ((next - slot) & mask)) continue;
    slots[slot] = slots[next];
    slot = next;
  }
  slots[slot] = nullptr;
}

}  // namespace

BlobPool::~BlobPool() {
  assert(count() == 0);
  for (Shard& shard : shards_) {
    for (Blob* blob : shard.slots) {
      if (blob != nullptr) kbf::Release(blob);
    }
  }
}

// REQUIRES: the shard is locked. False: there is no memory for a larger table.
bool BlobPool::MakeRoom(Shard& shard) {
  if (shard.used + 1 <= shard.slots.size() / 4 * 3) return true;
  std::vector<Blob*> larger;
  try {
    larger.resize(shard.slots.empty() ? kSlotsMin : shard.slots.size() * 2);
  } catch (const std::bad_alloc&) {
    return false;
  }
  const size_t mask = larger.size() - 1;
  for (Blob* blob : shard.slots) {
    if (blob == nullptr) continue;
    size_t slot = blob->hash & mask;
    while (larger[slot] != nullptr) slot = (slot + 1) & mask;
    larger[slot] = blob;
  }
  const size_t bytes_before =
      shard.slots.empty() ? 0 : AllocatedBytes(shard.slots.size() * kSlotBytes);
  bytes_.fetch_add(AllocatedBytes(larger.size() * kSlotBytes) - bytes_before,
                   std::memory_order_relaxed);
  shard.slots = std::move(larger);
  return true;
}

Blob* BlobPool::Intern(std::string_view bytes, uint32_t flags, uint64_t hash) {
  assert(bytes.size() <= kValueBytesMax);
  Shard& shard = ShardOf(hash);
  const std::lock_guard lock(shard.mutex);
  if (!MakeRoom(shard)) return nullptr;
  Blob*& slot = shard.slots[FindSlot(shard.slots, bytes, flags, hash)];
  if (slot == nullptr) {
    const size_t size = sizeof(Blob) + bytes.size();
    void* memory = AllocateShared(size);
    if (memory == nullptr) return nullptr;
    Blob* blob = new (memory) Blob;
    blob->flags = flags;
    blob->bytes = static_cast<uint32_t>(bytes.size());
    blob->hash = hash;
    if (!bytes.empty()) std::memcpy(static_cast<void*>(blob + 1), bytes.data(), bytes.size());
    slot = blob;
    ++shard.used;
    bytes_.fetch_add(AllocatedBytes(size), std::memory_order_relaxed);
    count_.fetch_add(1, std::memory_order_relaxed);
  }
  ++slot->owners;
  return slot;
}

void BlobPool::Release(Blob* blob) {
  Shard& shard = ShardOf(blob->hash);
  {
    const std::lock_guard lock(shard.mutex);
    assert(blob->owners > 0);
    if (--blob->owners > 0) return;
    const size_t mask = shard.slots.size() - 1;
    size_t slot = blob->hash & mask;
    while (shard.slots[slot] != blob) slot = (slot + 1) & mask;
    RemoveSlot(shard.slots, slot);
    --shard.used;
    bytes_.fetch_sub(AllocatedBytes(sizeof(Blob) + blob->bytes), std::memory_order_relaxed);
    count_.fetch_sub(1, std::memory_order_relaxed);
  }
  // It can no longer be found; replies may still be sent from it.
  Detach(blob);
}

}  // namespace kbf
