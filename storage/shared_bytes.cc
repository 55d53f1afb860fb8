#include "storage/shared_bytes.h"

#include <cstdlib>
#include <string>

#include "config.h"

// The sanitizer builds link no jemalloc, whatever configure found.
#if defined(HAVE_JEMALLOC) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) && \
    !defined(KBF_NO_JEMALLOC)
#include <jemalloc/jemalloc.h>
#define KBF_USE_JEMALLOC 1
#endif

namespace kbf {

void* AllocateShared(size_t bytes) { return std::malloc(bytes); }

size_t AllocatedBytes(size_t bytes) {
#ifdef KBF_USE_JEMALLOC
  return nallocx(bytes, 0);
#else
  return (bytes + 15) / 16 * 16;
#endif
}

void FreeShared(void* memory) { std::free(memory); }

void FreeSharedToPage(void* memory) {
#ifdef KBF_USE_JEMALLOC
  dallocx(memory, MALLOCX_TCACHE_NONE);
#else
  std::free(memory);
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
