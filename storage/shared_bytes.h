// Shared bytes are blocks of memory with a count of references, freed with the last one: blocks of
// items and values of the dictionary, which replies that are being sent refer to as well. A reply
// does not change while it is sent, because the bytes of a value never do.
//
// Promises:  the count of references does not overflow: 2^30 replies do not fit in memory. Blocks
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

// The highest bits of `refs`: the block was removed from its table; its memory is an owner's and
// not the allocator's, so that the header begins an OwnedHeader.
inline constexpr uint32_t kDetachedBit = uint32_t{1} << 31;
inline constexpr uint32_t kOwnedBit = uint32_t{1} << 30;
inline constexpr uint32_t kRefsMask = kOwnedBit - 1;

struct SharedHeader {
  std::atomic<uint32_t> refs{1};
};

struct OwnedHeader;

// Takes back blocks of memory that are not the allocator's. Thread-safe.
class SharedOwner {
 public:
  virtual uint64_t BytesOf(const OwnedHeader& block) const = 0;
  virtual void TakeBack(OwnedHeader* block) = 0;

 protected:
  ~SharedOwner() = default;
};

struct OwnedHeader : SharedHeader {
  SharedOwner* owner = nullptr;  // constant while kOwnedBit is set
};

// From jemalloc where it is linked in. Null where there is no memory.
void* AllocateShared(size_t bytes);
// What an allocation of this size really takes: the allocator's size class.
size_t AllocatedBytes(size_t bytes);
void FreeShared(void* memory);
// From now on freed pages are returned to the system after a tenth of a second, also while nothing
// is allocated. Call it once, after the process has forked for the last time.
void ReturnFreedPages();

// Bytes of all blocks of the process that were removed from their tables and are still referenced.
uint64_t DetachedBytes();
// Those of them that are the allocator's.
uint64_t DetachedAllocatedBytes();
// What stays in memory as long as somebody refers to this block.
uint64_t HeldBytes(const SharedHeader& header);
inline bool IsDetached(const SharedHeader& header) {
  return (header.refs.load(std::memory_order_relaxed) & kDetachedBit) != 0;
}

// The last reference is gone; `before` is the count it was dropped from.
void FreeReleased(SharedHeader* header, uint32_t before);

inline void Retain(SharedHeader* header) { header->refs.fetch_add(1, std::memory_order_relaxed); }
inline void Release(SharedHeader* header) {
  const uint32_t before = header->refs.fetch_sub(1, std::memory_order_acq_rel);
  if ((before & kRefsMask) == 1) FreeReleased(header, before);
}

// Drops the reference of a table: like Release, but a block that is still referenced is counted in
// DetachedBytes from now on. REQUIRES: the block can no longer be found, so that only holders of a
// reference can copy one.
void Detach(SharedHeader* header);

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
