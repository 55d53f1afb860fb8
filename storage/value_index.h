// ValueIndex finds the ids of a dictionary's values by their hashes: open addressing with linear
// probing, 32 bits of the hash beside each id, so that growing reads no values.
//
// Promises:  every id that was added and not removed is visited for its hash; others with the same
//            32 bits may be visited too.
// Requires:  one thread at a time. Hashes that are uniform in their low 32 bits.
// Costs:     8 bytes per slot, between 3/8 and 3/4 of them used: 10.7 to 21.3 bytes per id. Growing
//            moves all slots: 0.3 ms at 100,000.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace kbf {

class ValueIndex {
 public:
  static constexpr uint32_t kNone = 0xffffffff;

  ValueIndex() : slots_(kSlotsMin) {}

  uint64_t memory_bytes() const { return slots_.capacity() * sizeof(Slot); }

  // The first id with this hash that `matches(id)`; kNone where there is none.
  template <class Matches>
  uint32_t Find(uint64_t hash, Matches matches) const {
    const auto low = static_cast<uint32_t>(hash);
    for (size_t i = Home(low);; i = Next(i)) {
      const Slot& slot = slots_[i];
      if (slot.id == kNone) return kNone;
      if (slot.hash == low && matches(slot.id)) return slot.id;
    }
  }

  // Makes room for one more. Throws std::bad_alloc; then nothing has changed.
  void Reserve() {
    if ((used_ + 1) * 4 <= slots_.size() * 3) return;
    std::vector<Slot> old(2 * slots_.size());
    old.swap(slots_);
    for (const Slot& slot : old) {
      if (slot.id != kNone) Place(slot);
    }
  }
  // REQUIRES: Reserve() since the last Add, id != kNone
  void Add(uint64_t hash, uint32_t id) {
    Place({static_cast<uint32_t>(hash), id});
    ++used_;
  }
  // REQUIRES: it was added with this hash
  void Remove(uint64_t hash, uint32_t id) {
    size_t hole = Home(static_cast<uint32_t>(hash));
    while (slots_[hole].id != id) hole = Next(hole);
    // Moves back those behind the hole that it separates from their home.
    for (size_t i = Next(hole); slots_[i].id != kNone; i = Next(i)) {
      const size_t home = Home(slots_[i].hash);
      if (Distance(home, i) >= Distance(hole, i)) {
        slots_[hole] = slots_[i];
        hole = i;
      }
    }
    slots_[hole] = {};
    --used_;
  }

 private:
  static constexpr size_t kSlotsMin = 64;
  struct Slot {
    uint32_t hash = 0;
    uint32_t id = kNone;
  };

  size_t Home(uint32_t hash) const { return hash & (slots_.size() - 1); }
  size_t Next(size_t i) const { return (i + 1) & (slots_.size() - 1); }
  size_t Distance(size_t from, size_t to) const { return (to - from) & (slots_.size() - 1); }
  void Place(const Slot& slot) {
    size_t i = Home(slot.hash);
    while (slots_[i].id != kNone) i = Next(i);
    slots_[i] = slot;
  }

  std::vector<Slot> slots_;  // a power of two
  size_t used_ = 0;
};

}  // namespace kbf
