// Store is a cache with a memory limit: what was used lately is kept exactly, and what another
// cache would evict next goes on living in key-value Bloom filters, which keep no keys and each
// distinct value once. It is the store of the kbfcached server, without the network.
//
//   kbf::Store store = kbf::Store::Create({.memory_bytes = 256 << 20}).value();
//   (void)store.Put("user:1", "CH", now, /*ttl_seconds=*/3600);
//   if (const std::optional<std::string> country = store.Get("user:1", now)) ...
//
// Promises:  exact while everything fits the exact part. Beyond that, whoever asks for a stored key
//            misses with chance `false_negative` at most, and whoever asks for an absent one gets
//            some other stored value with chance `false_positive` at most (the equations of map.h,
//            summed over the filters that a look-up asks). Never an expired value; a deleted or
//            overwritten value with a chance below 1e-9 per read; never bytes that nobody stored.
//            As in any cache, old items leave when the memory is used up.
// Requires:  `now` is the time in seconds of one clock that never goes back and starts at 2 or
//            later; the store reads no clock itself. Thread-safe, but for moving and destroying.
//            Somebody calls Maintain now and then, for example every 100 ms.
// Costs:     memory_bytes at most, all of it counted; about 26 bytes per key in the filters, 38
//            besides key and value for an exact item. Each call takes one lock of one part of the
//            store.
// Stability: unstable until version 1.0, see error.h.
#pragma once

#include <kbf/error.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace kbf {

class StoreCore;

inline namespace v0 {

struct StoreOptions {
  uint64_t memory_bytes = uint64_t{64} << 20;  // at least 2 MiB
  double false_negative = 2e-3;                // budgets of a look-up
  double false_positive = 2e-5;
  uint64_t distinct_values = 0;       // that repeat; 0: as many as there are, within memory
  double exact_share = 0;             // up to this share of the memory nothing becomes approximate
  bool evict = true;                  // otherwise a full store answers kNoMemory
  uint32_t item_bytes_max = 1 << 20;  // key, value and about 60 bytes; 1 KiB to 1 GiB
  std::vector<std::string> exact_prefixes = {};  // keys that are never approximate
  uint64_t seed = 0;                             // of the hashes; 0: random
};

struct StoreStats {
  uint64_t exact_keys = 0;
  uint64_t approximate_keys = 0;
  uint64_t bytes = 0;
  uint64_t hits = 0;
  uint64_t misses = 0;
  uint64_t evicted = 0;
  double predicted_false_negative = 0;  // of the keys in the filters, at their present load
  double predicted_false_positive = 0;
};

class Store {
 public:
  static constexpr size_t kKeyBytesMax = 250;

  // kBadArgument with a sentence for numbers out of range, kNoMemory, kSystem.
  static Result<Store> Create(const StoreOptions& options);
  Store(Store&& other) noexcept;
  Store& operator=(Store&& other) noexcept;
  ~Store();

  // Nothing for a key that is not stored, expired, or not allowed.
  std::optional<std::string> Get(std::string_view key, uint32_t now);
  // A key has 1 to kKeyBytesMax bytes. `ttl_seconds` is 0 for a value that does not expire. kOk,
  // kTooLarge, kNoMemory, kBadArgument; after kTooLarge and kNoMemory the key is not stored.
  Status Put(std::string_view key, std::string_view value, uint32_t now, uint32_t ttl_seconds = 0);
  // Put, but kExists where Get finds the key.
  Status Add(std::string_view key, std::string_view value, uint32_t now, uint32_t ttl_seconds = 0);
  // kOk, kNotFound, kBadArgument.
  Status Delete(std::string_view key, uint32_t now);
  // Removes everything.
  Status Clear(uint32_t now);

  // Up to `steps` short background steps. Returns how many found work.
  unsigned Maintain(unsigned steps, uint32_t now);
  StoreStats Stats() const;

 private:
  explicit Store(std::unique_ptr<StoreCore> core);
  std::unique_ptr<StoreCore> core_;
};

}  // namespace v0
}  // namespace kbf
