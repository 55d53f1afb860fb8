// PrefixStats counts gets, hits, sets and deletes by key prefix, for `stats detail`. The prefix of
// a key is the part before the delimiter. Counting is off until -D or `stats detail on`.
//
// Promises:  keys without a delimiter, or with spaces or control characters before it, are not
//            counted. At most kPrefixesMax prefixes of kPrefixBytesMax bytes in all are kept, the
//            first ones that come, because clients choose the keys and could otherwise fill the
//            memory. The hash is keyed, so that clients cannot choose keys that collide.
// Requires:  thread-safe.
// Costs:     while it is on, one of kShards locks and one lookup in a hash table per key; while it
//            is off, the call of enabled(). A dump is written in pieces and holds a lock only for
//            one piece at a time.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "storage/hash.h"

namespace server {

class PrefixStats {
 public:
  static constexpr size_t kPrefixesMax = 1 << 16;
  static constexpr size_t kPrefixBytesMax = 8 << 20;
  // "PREFIX ", a prefix, four names and numbers.
  static constexpr size_t kLineBytesMax = 384;

  // How far a dump has come.
  struct Cursor {
    uint32_t shard = 0;
    uint32_t entry = 0;
  };

  PrefixStats(char delimiter, bool enabled)
      : delimiter_(delimiter), secret_(kbf::HashSecret::Random()), enabled_(enabled) {}

  bool enabled() const { return enabled_.load(std::memory_order_relaxed); }
  void Enable(bool on) { enabled_.store(on, std::memory_order_relaxed); }

  void CountGet(std::string_view key, bool hit);
  void CountSet(std::string_view key);
  void CountDelete(std::string_view key);

  // Writes "PREFIX name get n hit n set n del n" lines to `out`, which has room for `bytes` of them
  // (at least kLineBytesMax); returns how many were written.
  size_t Dump(Cursor* cursor, char* out, size_t bytes) const;
  static bool Ended(const Cursor& cursor) { return cursor.shard == kShards; }
  void Clear();

 private:
  struct Counts {
    uint64_t gets = 0, hits = 0, sets = 0, deletes = 0;
  };
  struct Entry {
    std::string prefix;
    uint64_t hash;
    Counts counts;
  };
  // Entries in the order of their arrival, and a hash table of their indexes: open addressing, at
  // most half full.
  struct alignas(64) Shard {
    mutable std::mutex mutex;
    std::vector<Entry> entries;
    std::vector<uint32_t> slots;  // index + 1; 0: free
  };
  static constexpr size_t kShards = 16;

  // Calls change(Counts&) if the key's prefix is counted.
  template <class Change>
  void Count(std::string_view key, Change change);
  // Null: not counted. REQUIRES: the shard's lock is held. Throws std::bad_alloc.
  Entry* FindOrAdd(Shard* shard, std::string_view prefix, uint64_t hash);
  static void Rehash(Shard* shard);

  const char delimiter_;
  const kbf::HashSecret secret_;
  std::atomic<bool> enabled_;
  std::atomic<size_t> prefixes_{0};
  std::atomic<size_t> prefix_bytes_{0};
  std::array<Shard, kShards> shards_;
};

}  // namespace server
