// CodeCounts tells how many entries of each code one filter holds. The dictionary adds up those of
// all filters to know which codes no filter holds any more.
//
// Promises:  exact: whatever was added and not removed is counted. Entries that were deleted for a
//            key that the filter did not hold (chance 6e-8 per delete of such a key) leave a count
//            one too low, never below 0.
// Requires:  one thread at a time (the slab's lock).
// Costs:     a byte per code up to the highest one in the filter, and 8 bytes for each code with
//            more than 255 entries (one in 255 keys at most).
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace kbf {

class CodeCounts {
 public:
  // Throws std::bad_alloc; then nothing has changed.
  void Add(uint32_t code, uint32_t entries = 1) {
    if (code >= low_.size()) {
      low_.reserve(code + 1 + code / 8);
      low_.resize(code + 1 + code / 8);
    }
    const uint32_t sum = low_[code] + entries;
    if (sum > kLowMax) *High(code) += sum >> 8;
    low_[code] = static_cast<uint8_t>(sum & kLowMax);
  }
  // False: there is none.
  bool Remove(uint32_t code) {
    if (code >= low_.size()) return false;
    if (low_[code]-- > 0) return true;
    const auto high = Find(code);
    if (high == high_.end() || high->code != code) {
      low_[code] = 0;
      return false;
    }
    if (--high->count == 0) high_.erase(high);
    return true;
  }
  // Throws std::bad_alloc before anything is changed.
  void AddAll(const CodeCounts& other) {
    CodeCounts sum = *this;
    other.ForEach([&sum](uint32_t code, uint32_t entries) { sum.Add(code, entries); });
    *this = std::move(sum);
  }
  // visit(code, entries) for each code that has any.
  template <class Visit>
  void ForEach(Visit visit) const {
    auto high = high_.begin();
    for (uint32_t code = 0; code < low_.size(); ++code) {
      uint32_t entries = low_[code];
      if (high != high_.end() && high->code == code) entries += (high++)->count << 8;
      if (entries > 0) visit(code, entries);
    }
  }

  // Of one with entries of so many codes, each less than 256 times.
  static uint64_t MemoryBytesFor(uint32_t codes) { return codes + codes / 8; }
  uint64_t memory_bytes() const { return low_.capacity() + high_.capacity() * sizeof(HighPart); }

 private:
  static constexpr uint32_t kLowMax = 255;
  // What does not fit a byte, in units of 256.
  struct HighPart {
    uint32_t code;
    uint32_t count;
  };

  std::vector<HighPart>::iterator Find(uint32_t code) {
    return std::lower_bound(high_.begin(), high_.end(), code,
                            [](const HighPart& part, uint32_t c) { return part.code < c; });
  }
  uint32_t* High(uint32_t code) {
    auto at = Find(code);
    if (at == high_.end() || at->code != code) at = high_.insert(at, {code, 0});
    return &at->count;
  }

  std::vector<uint8_t> low_;    // by code
  std::vector<HighPart> high_;  // sorted by code
};

}  // namespace kbf
