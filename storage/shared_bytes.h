// SharedBytes is memory that is freed by whoever lets go of it last: items of the front and values
// of the dictionary, and the replies that are still being sent from them. A reply half sent never
// changes, because the bytes of a value never do.
//
// Promises:  the count of references cannot overflow in practice: 2^32 replies do not fit in
//            memory.
// Requires:  the first member of the structure is SharedHeader; it needs no destructor.
// Costs:     4 bytes; taking and dropping a reference are one atomic addition each.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace kbf {

struct SharedHeader {
  std::atomic<uint32_t> refs{1};
};

// From jemalloc where it is linked in. Null where there is no memory.
void* AllocateShared(size_t bytes);
// What an allocation of this size really takes: the allocator's size class.
size_t AllocatedBytes(size_t bytes);
void FreeShared(void* memory);
// The same, past the thread's cache. That would give the hole to the next block of this size, so
// that pages with holes stay for ever: this is for blocks that leave, FreeShared for those that are
// replaced. (Resident after the front had shrunk to a quarter: 38 % of its pages in use, now 99 %.)
void FreeSharedToPage(void* memory);
// From now on freed pages go back to the system after a second, also while nobody allocates. Call
// it once, after the process has forked for the last time.
void ReturnFreedPages();

inline void Retain(SharedHeader* header) { header->refs.fetch_add(1, std::memory_order_relaxed); }
inline void Release(SharedHeader* header) {
  if (header->refs.fetch_sub(1, std::memory_order_acq_rel) == 1) FreeShared(header);
}

inline void ReleaseToPage(SharedHeader* header) {
  if (header->refs.fetch_sub(1, std::memory_order_acq_rel) == 1) FreeSharedToPage(header);
}

// Owns one reference.
class SharedRef {
 public:
  SharedRef() = default;
  // Takes a reference of its own.
  explicit SharedRef(SharedHeader* header) : header_(header) {
    if (header_ != nullptr) Retain(header_);
  }
  SharedRef(SharedRef&& other) noexcept : header_(std::exchange(other.header_, nullptr)) {}
  SharedRef& operator=(SharedRef&& other) noexcept {
    std::swap(header_, other.header_);
    return *this;
  }
  ~SharedRef() { Reset(); }

  void Reset() {
    if (header_ != nullptr) Release(std::exchange(header_, nullptr));
  }

 private:
  SharedHeader* header_ = nullptr;
};

}  // namespace kbf
