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

std::atomic<uint64_t> detached_bytes{0};

size_t BytesOf(SharedHeader* header) {
#ifdef KBF_USE_JEMALLOC
  return sallocx(header, 0);
#else
  return malloc_usable_size(header);
#endif
}

// True: the caller held the last reference and frees the block.
bool DropTableReference(SharedHeader* header) {
  if (header->refs.load(std::memory_order_acquire) == 1) return true;
  // The size is read and counted first: holders of a reference may free the block at any moment.
  const size_t bytes = BytesOf(header);
  detached_bytes.fetch_add(bytes, std::memory_order_relaxed);
  const uint32_t before = header->refs.fetch_add(kDetachedBit - 1, std::memory_order_acq_rel);
  if (before != 1) return false;
  detached_bytes.fetch_sub(bytes, std::memory_order_relaxed);
  return true;
}

}  // namespace

uint64_t DetachedBytes() { return detached_bytes.load(std::memory_order_relaxed); }

void FreeReleased(SharedHeader* header, uint32_t before) {
  if ((before & kDetachedBit) != 0) {
    detached_bytes.fetch_sub(BytesOf(header), std::memory_order_relaxed);
  }
  FreeShared(header);
}

void Detach(SharedHeader* header) {
  if (DropTableReference(header)) FreeShared(header);
}

void DetachToPage(SharedHeader* header) {
  if (DropTableReference(header)) FreeSharedToPage(header);
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

void FreeSharedToPage(void* memory) {
#ifdef KBF_USE_JEMALLOC
  dallocx(memory, MALLOCX_TCACHE_NONE);
#else
  ::operator delete(memory);
#endif
}

void ReturnFreedPages() {
#ifdef KBF_USE_JEMALLOC
  // The arenas that exist, and those to come.
  ssize_t decay_ms = 1000;
  const std::string all = "arena." + std::to_string(MALLCTL_ARENAS_ALL) + ".dirty_decay_ms";
  for (const std::string& name : {all, std::string("arenas.dirty_decay_ms")}) {
    (void)mallctl(name.c_str(), nullptr, nullptr, &decay_ms, sizeof(decay_ms));
  }
  bool on = true;
  (void)mallctl("background_thread", nullptr, nullptr, &on, sizeof(on));
#endif
}

}  // namespace kbf
