// GhostKeys remembers keys that were evicted a short time ago, by eight bits of their hash: a key
// that is written again soon is one that is asked for, and deserves a second chance.
//
// Promises:  no answer is ever needed: one absent key in 256 seems known, and a known one is
//            forgotten when another takes its place.
// Requires:  the owner's lock.
// Costs:     one byte per place, and as many places as the front has items, up to a factor of two.
//            Without memory it remembers nothing.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>

#include "storage/shared_bytes.h"

namespace kbf {

class GhostKeys {
 public:
  GhostKeys() = default;
  ~GhostKeys() { Clear(); }
  GhostKeys(const GhostKeys&) = delete;
  GhostKeys& operator=(const GhostKeys&) = delete;

  // `word` is a stream of the key's hash. `items` are in the front.
  void Add(uint64_t word, uint64_t items) {
    if (items > 2 * places_ || items < places_ / 4) Resize(std::bit_ceil(items + kPlacesMin));
    if (places_ > 0) table_[word & (places_ - 1)] = MarkOf(word);
  }
  // True: it was there; it is not any more.
  bool Take(uint64_t word) {
    if (places_ == 0) return false;
    uint8_t& place = table_[word & (places_ - 1)];
    if (place != MarkOf(word)) return false;
    place = 0;
    return true;
  }
  void Clear() {
    FreeShared(table_);
    table_ = nullptr;
    places_ = 0;
  }
  uint64_t bytes() const { return places_; }

 private:
  static constexpr uint64_t kPlacesMin = 64;

  static uint8_t MarkOf(uint64_t word) {
    const auto mark = static_cast<uint8_t>(word >> 48);
    return mark == 0 ? 1 : mark;
  }
  void Resize(uint64_t places) {
    Clear();
    table_ = static_cast<uint8_t*>(AllocateShared(places));
    if (table_ == nullptr) return;
    std::memset(table_, 0, places);
    places_ = places;
  }

  uint8_t* table_ = nullptr;
  uint64_t places_ = 0;  // 0 or a power of two
};

}  // namespace kbf
