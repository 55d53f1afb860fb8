#include "storage/paper/greedy_encodings.h"

#include <algorithm>
#include <array>
#include <bit>

#include "storage/maths.h"

namespace kbf {
namespace {

constexpr unsigned kWordBits = 64;
constexpr uint64_t kFull = ~uint64_t{0};

// Moves bit b of the word to bit b ^ x: for every set bit of x, neighbouring groups of that size
// change places. Selecting instead of branching, because the low bits of the encodings are as good
// as random.
uint64_t XorIndex(uint64_t word, unsigned x) {
  static constexpr std::array<uint64_t, 6> kLowGroups = {0x5555555555555555u, 0x3333333333333333u,
                                                         0x0f0f0f0f0f0f0f0fu, 0x00ff00ff00ff00ffu,
                                                         0x0000ffff0000ffffu, 0x00000000ffffffffu};
  for (unsigned stage = 0; stage < kLowGroups.size(); ++stage) {
    const unsigned shift = 1u << stage;
    const uint64_t low = kLowGroups[stage];
    const uint64_t swapped = ((word >> shift) & low) | ((word & low) << shift);
    word = (x & shift) != 0 ? swapped : word;
  }
  return word;
}

// The search walks aligned blocks of 64 candidates. `taken_` holds every encoding and every pair
// XOR, so candidate c is free iff c is not taken and c ^ e is not taken for any admitted e. For one
// e, the 64 bits c ^ e of a block lie in one word of the bitmap, in an order that depends on the
// low six bits of e only. So the encodings are kept in 64 groups by those bits: a group costs one
// load per encoding and one XorIndex(). One XorIndex() per encoding took five times as long.
class GreedySearch {
 public:
  GreedySearch(size_t count, unsigned bits_max) : count_(count), end_(uint64_t{1} << bits_max) {}

  std::vector<uint32_t> Run() {
    for (uint64_t base = 0; base < end_ && admitted_.size() < count_; base += kWordBits) {
      GrowFor(base);
      SearchBlock(static_cast<uint32_t>(base));
    }
    return std::move(admitted_);
  }

 private:
  // XORs of numbers below a power of two stay below it, so the bitmap needs to reach only the next
  // one.
  void GrowFor(uint64_t base) {
    const size_t words = std::bit_ceil(base / kWordBits + 1);
    if (words > taken_.size()) taken_.resize(words, 0);
  }

  void SearchBlock(uint32_t base) {
    // Candidates that are settled: refused or admitted. Refusals last, since `taken_` only grows.
    uint64_t settled = base == 0 ? 1 : 0;
    if (end_ - base < kWordBits) settled |= kFull << (end_ - base);
    while (admitted_.size() < count_) {
      settled = Refused(base, settled);
      if (settled == kFull) return;
      // Every admission takes new XORs, so the rest of the block is tested again from the start.
      const unsigned first_free = static_cast<unsigned>(std::countr_one(settled));
      Admit(base + first_free);
      settled |= uint64_t{1} << first_free;
    }
  }

  uint64_t Refused(uint32_t base, uint64_t settled) const {
    const uint32_t word = base / kWordBits;
    settled |= taken_[word];
    for (unsigned low = 0; low < kWordBits && settled != kFull; ++low) {
      uint64_t hits = 0;
      for (const uint32_t high : high_by_low_[low]) hits |= taken_[word ^ high];
      settled |= XorIndex(hits, low);
    }
    return settled;
  }

  void Admit(uint32_t c) {
    Take(c);
    for (const uint32_t e : admitted_) Take(c ^ e);
    admitted_.push_back(c);
    high_by_low_[c % kWordBits].push_back(c / kWordBits);
  }

  void Take(uint32_t x) { taken_[x / kWordBits] |= uint64_t{1} << (x % kWordBits); }

  const size_t count_;
  const uint64_t end_;
  std::vector<uint64_t> taken_;
  std::vector<uint32_t> admitted_;
  std::array<std::vector<uint32_t>, kWordBits> high_by_low_;  // admitted_ again: e / 64 by e % 64
};

}  // namespace

std::vector<uint32_t> GreedyEncodings(size_t count, unsigned bits_max) {
  return GreedySearch(count, std::min(bits_max, kGreedyBitsMax)).Run();
}

bool ObeysPairRule(std::span<const uint32_t> encodings) {
  if (encodings.empty()) return true;
  const unsigned bits = static_cast<unsigned>(std::bit_width(std::ranges::max(encodings)));
  if (encodings.size() > EncodingsUpperBound(bits)) return false;
  std::vector<bool> seen(size_t{1} << bits);
  seen[0] = true;  // 0 is no encoding, and the XOR of two equal ones
  const auto is_new = [&seen](uint32_t x) {
    if (seen[x]) return false;
    seen[x] = true;
    return true;
  };
  for (size_t i = 0; i < encodings.size(); ++i) {
    if (!is_new(encodings[i])) return false;
    for (size_t j = 0; j < i; ++j) {
      if (!is_new(encodings[i] ^ encodings[j])) return false;
    }
  }
  return true;
}

}  // namespace kbf
