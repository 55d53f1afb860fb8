// SharedBytes is memory that is freed by whoever lets go of it last: items of the front and values
// of the dictionary, and the replies that are still being sent from them. A reply half sent never
// changes, because the bytes of a value never do.
//
// Promises:  the count of references cannot overflow in practice: 2^31 replies do not fit in
//            memory. Blocks that have left their table and are kept alive by replies alone are
//            counted in DetachedBytes, so that memory limits can include them.
// Requires:  the first member of the structure is SharedHeader; it needs no destructor.
// Costs:     4 bytes; taking and dropping a reference are one atomic addition each.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace kbf {

// The highest bit of `refs` says that the block has left its table.
inline constexpr uint32_t kDetachedBit = uint32_t{1} << 31;

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

// Bytes of all blocks of the process that have left their tables and are still referenced.
uint64_t DetachedBytes();
inline bool IsDetached(const SharedHeader& header) {
  return (header.refs.load(std::memory_order_relaxed) & kDetachedBit) != 0;
}

// The last reference is gone; `before` is the count it was dropped from.
void FreeReleased(SharedHeader* header, uint32_t before);

inline void Retain(SharedHeader* header) { header->refs.fetch_add(1, std::memory_order_relaxed); }
inline void Release(SharedHeader* header) {
  const uint32_t before = header->refs.fetch_sub(1, std::memory_order_acq_rel);
  if ((before & ~kDetachedBit) == 1) FreeReleased(header, before);
}

// A table drops its reference: like Release, but what others still hold is counted from now on.
// REQUIRES: nobody can find the block any more, so that only holders can copy a reference.
void Detach(SharedHeader* header);
// The same; a block that nobody holds is freed with FreeSharedToPage.
void DetachToPage(SharedHeader* header);

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

  const SharedHeader* get() const { return header_; }

  void Reset() {
    if (header_ != nullptr) Release(std::exchange(header_, nullptr));
  }

 private:
  SharedHeader* header_ = nullptr;
};

}  // namespace kbf
