// A bijection of words of any width, and of the numbers below any bound: random-looking names and
// orders without a table.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

namespace load {

// On the words of `bits` bits (0 … 64): xor-shifts and odd multiplications are bijections at any
// width. Higher bits of x are dropped.
inline uint64_t MixBits(uint64_t x, unsigned bits) {
  if (bits == 0) return 0;
  const uint64_t mask = bits >= 64 ? UINT64_MAX : (uint64_t{1} << bits) - 1;
  const unsigned half = (std::min(bits, 64u) + 1) / 2;
  x &= mask;
  for (const uint64_t factor : {0xe9846af9b1a615d5u, 0x9e6c63d0676a9a99u}) {
    x ^= x >> half;
    x = x * factor & mask;
  }
  return x ^ x >> half;
}

// Permutes 0 … n-1. Words that fall outside are mixed again until one falls inside: fewer than two
// rounds on average.
class Permutation {
 public:
  // REQUIRES: n >= 1.
  Permutation(uint64_t n, uint64_t salt)
      : n_(n), salt_(salt), bits_(static_cast<unsigned>(std::bit_width(n - 1))) {}

  // REQUIRES: i < n.
  uint64_t operator()(uint64_t i) const {
    do {
      i = MixBits(i + salt_, bits_);
    } while (i >= n_);
    return i;
  }

 private:
  uint64_t n_;
  uint64_t salt_;
  unsigned bits_;
};

}  // namespace load
