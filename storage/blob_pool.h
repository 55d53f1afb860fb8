// BlobPool keeps each distinct value (bytes and client flags) once for all slabs of a store. Codes
// and symbols are kept by each slab's Dictionary.
//
// Promises:  two owners of equal bytes and flags get the same Blob, provided that they hash with
//            the same secret. A blob's bytes never change. It is removed with its last owner;
//            replies that hold a reference keep its memory until they are sent.
// Requires:  thread-safe. Lock order: slab -> shard of the pool; no shard's lock is held while
//            another lock is taken. For one owner: Intern (Retain | kbf::Release)* Release. All
//            owners are gone before the pool is.
// Costs:     24 bytes and the value in one allocation, and 11 to 21 bytes of hash table. Intern and
//            Release lock one of 64 shards; a new value is allocated and copied, and a table
//            doubled, under that lock. Tables never shrink.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <string_view>
#include <vector>

#include "storage/shared_bytes.h"

namespace kbf {

//   |refs 4|flags 4|bytes 4|owners 4|hash 8| value … |
struct Blob : SharedHeader {
  uint32_t flags = 0;  // the client's
  uint32_t bytes = 0;  // of the value
  uint32_t owners =
      0;  // dictionaries; guarded by the shard's lock. All of them together hold one of `refs`
  uint64_t hash = 0;  // of bytes and flags, as given to Intern

  std::string_view view() const { return {reinterpret_cast<const char*>(this + 1), bytes}; }
};
static_assert(sizeof(Blob) == 24);

class BlobPool {
 public:
  static constexpr uint32_t kValueBytesMax = uint32_t{1} << 30;

  BlobPool() = default;
  BlobPool(const BlobPool&) = delete;
  BlobPool& operator=(const BlobPool&) = delete;
  ~BlobPool();

  // The blob of these bytes and flags, with one more owner; null where there is no memory.
  // REQUIRES: `hash` is a function of bytes and flags; at most kValueBytesMax bytes
  [[nodiscard]] Blob* Intern(std::string_view bytes, uint32_t flags, uint64_t hash);
  // One owner less. REQUIRES: the caller is an owner
  void Release(Blob* blob);

  // What owned blobs and tables take, as the allocator counts it. Blobs that only replies hold are
  // not in it.
  uint64_t bytes() const { return bytes_.load(std::memory_order_relaxed); }
  uint64_t count() const { return count_.load(std::memory_order_relaxed); }

 private:
  // Open addressing with linear probing; at most 3/4 full, so that every search ends.
  struct alignas(64) Shard {
    std::mutex mutex;
    std::vector<Blob*> slots;  // guarded by mutex, like the next; 0 or a power of two
    size_t used = 0;
  };
  static constexpr unsigned kShardBits = 6;

  Shard& ShardOf(uint64_t hash) { return shards_[hash >> (64 - kShardBits)]; }
  bool MakeRoom(Shard& shard);

  std::array<Shard, size_t{1} << kShardBits> shards_;
  std::atomic<uint64_t> bytes_{sizeof(BlobPool)};
  std::atomic<uint64_t> count_{0};
};

}  // namespace kbf
