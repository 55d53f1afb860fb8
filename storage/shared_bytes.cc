#include "storage/shared_bytes.h"

#include <cstdlib>

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

}  // namespace kbf
