// Shared bytes are blocks of memory with a count of references, freed with the last one: items of
// the front and values of the dictionary, which replies that are being sent refer to as well. A
// reply does not change while it is sent, because the bytes of a value never do.
//
// Promises:  the count of references does not overflow: 2^31 replies do not fit in memory. Blocks
//            that were removed from their table and are still referenced are counted in
//            DetachedBytes, so that memory limits can include them.
// Requires:  the first member of the structure is SharedHeader; it needs no destructor.
// Costs:     4 bytes; taking and dropping a reference are one atomic addition each.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace kbf {

// The highest bit of `refs`: the block was removed from its table.
inline constexpr uint32_t kDetachedBit = uint32_t{1} << 31;

struct SharedHeader {
  std::atomic<uint32_t> refs{1};
};

// From jemalloc where it is linked in. Null where there is no memory.
void* AllocateShared(size_t bytes);
// What an allocation of this size really takes: the allocator's size class.
size_t AllocatedBytes(size_t bytes);
void FreeShared(void* memory);
// The same, bypassing the thread's cache, which would reuse the hole for the next block of this
// size and so keep pages that are mostly holes. For blocks that are removed; FreeShared is for
// those that are replaced. (After the front had shrunk to a quarter, 38 % of its resident pages
// were in use with the cache, 99 % without it.)
void FreeSharedToPage(void* memory);
// From now on freed pages are returned to the system after a second, also while nothing is
// allocated. Call it once, after the process has forked for the last time.
void ReturnFreedPages();

// Bytes of all blocks of the process that were removed from their tables and are still referenced.
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

// Drops the reference of a table: like Release, but a block that is still referenced is counted in
// DetachedBytes from now on. REQUIRES: the block can no longer be found, so that only holders of a
// reference can copy one.
void Detach(SharedHeader* header);
// The same; without other references the block is freed with FreeSharedToPage.
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
