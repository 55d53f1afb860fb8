// ChangedKeys remembers keys that clients have written, touched or deleted, while another server's
// items are taken over: what arrives for such a key is older than what a client has said, also if
// the client's item is gone by then. A Bloom filter of one cache line per key.
//
// Promises:  a key that was added is held. Another key is held with a chance that leads to a miss
//            and nothing else: 1.3e-4 at 40 bits per key, 1.3e-3 at 20 (warming_test.cc).
// Requires:  its owner's lock.
// Costs:     the bytes given, allocated at construction; one cache line per call.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "storage/hash.h"

namespace kbf {

class ChangedKeys {
 public:
  // Throws std::bad_alloc.
  explicit ChangedKeys(size_t bytes) : lines_(std::max<size_t>(bytes / sizeof(Line), 1)) {}

  size_t memory_bytes() const { return lines_.capacity() * sizeof(Line); }

  void Add(const KeyHash& key) {
    Line& line = lines_[LineOf(key)];
    ForEachBit(key, [&line](unsigned bit) {
      line[bit / 64] |= uint64_t{1} << bit % 64;
      return true;
    });
  }
  bool MayHold(const KeyHash& key) const {
    const Line& line = lines_[LineOf(key)];
    return ForEachBit(key, [&line](unsigned bit) { return (line[bit / 64] >> bit % 64 & 1) != 0; });
  }

 private:
  using Line = std::array<uint64_t, 8>;
  static constexpr unsigned kStream = 21;  // of KeyHash; see the list in hash.h
  static constexpr unsigned kBits = 4;

  size_t LineOf(const KeyHash& key) const {
    return static_cast<size_t>(ScaleTo(Stream(key, kStream), lines_.size()));
  }
  // Until `visit` returns false; whether it never did. The line took the high bits of the word.
  static bool ForEachBit(const KeyHash& key, auto&& visit) {
    uint64_t word = Mix64(Stream(key, kStream));
    for (unsigned i = 0; i < kBits; ++i, word >>= 9) {
      if (!visit(static_cast<unsigned>(word & 511))) return false;
    }
    return true;
  }

  std::vector<Line> lines_;
};

}  // namespace kbf
