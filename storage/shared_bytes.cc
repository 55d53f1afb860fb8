#include "storage/shared_bytes.h"

#include <malloc.h>

#include <cstdlib>
#include <new>
#include <string>

#include "config.h"

// The sanitizer builds link no jemalloc, whatever configure found.
#if defined(HAVE_JEMALLOC) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) && \
    !defined(KBF_NO_JEMALLOC)
#include <jemalloc/jemalloc.h>
#define KBF_USE_JEMALLOC 1
#endif

namespace kbf {

namespace {

std::atomic<uint64_t> detached_allocated_bytes{0};
std::atomic<uint64_t> detached_owned_bytes{0};

bool IsOwned(uint32_t refs) { return (refs & kOwnedBit) != 0; }

void CountDetached(const SharedHeader& header, uint64_t bytes) {
  (IsOwned(header.refs.load(std::memory_order_relaxed)) ? detached_owned_bytes
                                                        : detached_allocated_bytes)
      .fetch_add(bytes, std::memory_order_relaxed);
}

void Free(SharedHeader* header) {
  if (!IsOwned(header->refs.load(std::memory_order_relaxed))) return FreeShared(header);
  auto* block = static_cast<OwnedHeader*>(header);
  block->owner->TakeBack(block);
}

}  // namespace

uint64_t DetachedAllocatedBytes() {
  return detached_allocated_bytes.load(std::memory_order_relaxed);
}
uint64_t DetachedBytes() {
  return DetachedAllocatedBytes() + detached_owned_bytes.load(std::memory_order_relaxed);
}

uint64_t HeldBytes(const SharedHeader& header) {
  if (IsOwned(header.refs.load(std::memory_order_relaxed))) {
    const auto& block = static_cast<const OwnedHeader&>(header);
    return block.owner->BytesOf(block);
  }
#ifdef KBF_USE_JEMALLOC
  return sallocx(&header, 0);
#else
  return malloc_usable_size(const_cast<SharedHeader*>(&header));
#endif
}

void FreeReleased(SharedHeader* header, uint32_t before) {
  if ((before & kDetachedBit) != 0) {
    CountDetached(*header, 0 - HeldBytes(*header));
  }
  Free(header);
}

void Detach(SharedHeader* header) {
  if ((header->refs.load(std::memory_order_acquire) & kRefsMask) == 1) return Free(header);
  // The size is read and counted first: holders of a reference may free the block at any moment.
  const uint64_t bytes = HeldBytes(*header);
  CountDetached(*header, bytes);
  const uint32_t before = header->refs.fetch_add(kDetachedBit - 1, std::memory_order_acq_rel);
  if ((before & kRefsMask) != 1) return;
  CountDetached(*header, 0 - bytes);
  Free(header);
}

// Through operator new, which tests replace to make allocations fail.
void* AllocateShared(size_t bytes) { return ::operator new(bytes, std::nothrow); }

size_t AllocatedBytes(size_t bytes) {
#ifdef KBF_USE_JEMALLOC
  return nallocx(bytes, 0);
#else
  return (bytes + 15) / 16 * 16;
#endif
}

void FreeShared(void* memory) { ::operator delete(memory); }

void ReturnFreedPages() {
#ifdef KBF_USE_JEMALLOC
  // The arenas that exist, and those to come.
  ssize_t decay_ms = 100;
  const std::string all = "arena." + std::to_string(MALLCTL_ARENAS_ALL) + ".dirty_decay_ms";
  for (const std::string& name : {all, std::string("arenas.dirty_decay_ms")}) {
    (void)mallctl(name.c_str(), nullptr, nullptr, &decay_ms, sizeof(decay_ms));
  }
  bool on = true;
  (void)mallctl("background_thread", nullptr, nullptr, &on, sizeof(on));
#endif
}

}  // namespace kbf
