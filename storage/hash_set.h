// HashSet is a small set of key hashes, for tombstones: keys that a filter may still answer for
// although they were removed.
//
// Promises:  exact, but for two keys with the same 128-bit hash.
// Costs:     16 bytes per slot, at most half of them full; empty sets take nothing.
#pragma once

#include <cstdint>
#include <vector>

#include "storage/hash.h"

namespace kbf {

class HashSet {
 public:
  uint64_t size() const { return size_; }
  uint64_t memory_bytes() const { return slots_.capacity() * sizeof(KeyHash); }

  bool Contains(const KeyHash& hash) const {
    return size_ > 0 && slots_[SlotOf(hash)] == hash && !IsEmpty(hash);
  }

  // Throws std::bad_alloc; then nothing has changed.
  void Add(const KeyHash& hash) {
    if (IsEmpty(hash)) return;  // it marks a free slot: one hash in 2^128
    if (slots_.size() < 2 * (size_ + 1)) Grow();
    KeyHash& slot = slots_[SlotOf(hash)];
    size_ += IsEmpty(slot);
    slot = hash;
  }

  // Calls `drop(hash)` for each member and removes those for which it returns true. Throws
  // std::bad_alloc before anything is changed.
  template <class Drop>
  void RemoveIf(Drop drop) {
    if (size_ == 0) return;
    std::vector<KeyHash> old(slots_.size());
    old.swap(slots_);
    size_ = 0;
    for (const KeyHash& hash : old) {
      if (!IsEmpty(hash) && !drop(hash)) Add(hash);  // there is room for all
    }
    if (size_ == 0) slots_ = {};
  }

  template <class Visit>
  void ForEach(Visit visit) const {
    for (const KeyHash& hash : slots_) {
      if (!IsEmpty(hash)) visit(hash);
    }
  }

 private:
  static bool IsEmpty(const KeyHash& hash) { return hash == KeyHash{}; }

  // Where it is, or the free slot where it would be. REQUIRES: there is a free slot
  uint64_t SlotOf(const KeyHash& hash) const {
    const uint64_t mask = slots_.size() - 1;
    uint64_t i = hash.lo & mask;
    while (!IsEmpty(slots_[i]) && slots_[i] != hash) i = (i + 1) & mask;
    return i;
  }

  void Grow() {
    std::vector<KeyHash> old(slots_.empty() ? 16 : 2 * slots_.size());
    old.swap(slots_);
    for (const KeyHash& hash : old) {
      if (!IsEmpty(hash)) slots_[SlotOf(hash)] = hash;
    }
  }

  std::vector<KeyHash> slots_;  // a power of two, at most half full
  uint64_t size_ = 0;
};

}  // namespace kbf
