// The papers' greedy search for value encodings ([kBF] §3.2, Algorithm 1; [kBF-conf] §III.C),
// kept so that the published figures can be reproduced.
//
// Promises:  the encodings ascend from 1. All of them and all XORs of two of them differ from each
//            other, so a value and a superposition of two values each decode to one answer. A
//            search for fewer encodings, or in fewer bits, gives a prefix of the same list. Nothing
//            here is approximate.
// Requires:  nothing; pure functions.
// Costs:     with P bits in use, an exact bitmap of 2^P bits (128 MB at 30 bits, and half as much
//            again while it doubles; it grows with the candidates, so a short list stays small).
//            All 5,376 encodings of 30 bits take half a minute, the 2,577 of 27 bits a second
//            (bench/fig02_encodings.cc).
// Departs:   the papers remember what is taken in a Bloom filter, whose false positives skip
//            encodings that were free; the bitmap is exact and skips none. Candidates are tested 64
//            at a time, see greedy_encodings.cc.
//            [kBF] reports 16,384 encodings in 30 bits. That is not what its algorithm gives:
//            followed to the letter it finds 5,376 there, growing by a factor of 1.28 per bit, and
//            a Bloom filter could only find fewer. So many do exist: the BCH encodings x || x^3 are
//            32,767 in 30 bits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace kbf {

inline constexpr unsigned kGreedyBitsMax = 31;

// The first `count` encodings, or as many as are smaller than 2^bits_max. A larger bits_max counts
// as kGreedyBitsMax.
std::vector<uint32_t> GreedyEncodings(size_t count, unsigned bits_max);

// True if encodings and pair XORs are all different and no encoding is 0. Any order; a bitmap of up
// to 512 MB.
bool ObeysPairRule(std::span<const uint32_t> encodings);

}  // namespace kbf
