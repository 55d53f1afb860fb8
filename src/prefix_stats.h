// PrefixStats counts gets, hits, sets and deletes by key prefix, for `stats detail`: what stands
// before the delimiter in a key. Off unless -D or `stats detail on` switches it on.
//
// Promises:  keys without a delimiter, or with control characters before it, are not counted. Only
// the first kPrefixesMax prefixes are:
//            clients choose keys, and must not choose our memory.
// Requires:  nothing; thread-safe. While it is off, enabled() is all it costs.
// Costs:     one lock for all threads and one look-up in a hash table per key, while it is on.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>

namespace server {

class PrefixStats {
 public:
  static constexpr size_t kPrefixesMax = 1 << 16;

  PrefixStats(char delimiter, bool enabled) : delimiter_(delimiter), enabled_(enabled) {}

  bool enabled() const { return enabled_.load(std::memory_order_relaxed); }
  void Enable(bool on) { enabled_.store(on, std::memory_order_relaxed); }

  void CountGet(std::string_view key, bool hit);
  void CountSet(std::string_view key);
  void CountDelete(std::string_view key);

  // "PREFIX name get n hit n set n del n" lines and END.
  std::string Dump() const;
  void Clear();

 private:
  struct Counts {
    uint64_t gets = 0, hits = 0, sets = 0, deletes = 0;
  };
  struct Hash : std::hash<std::string_view> {
    using is_transparent = void;
  };

  // Null: not counted. REQUIRES: mutex_ is held.
  Counts* Find(std::string_view key);

  const char delimiter_;
  std::atomic<bool> enabled_;
  mutable std::mutex mutex_;
  std::unordered_map<std::string, Counts, Hash, std::equal_to<>> counts_;  // guarded by mutex_
};

}  // namespace server
