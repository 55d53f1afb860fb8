// The papers' greedy search for value encodings (000 §3.2, Algorithm 1; 001 §III.C), and a file to
// keep its result in. It is the slow way to encodings, kept so that the published figures can be
// reproduced.
//
// Promises:  the encodings ascend from 1. All of them and all XORs of two of them differ from each
//            other, so a value and a superposition of two values each decode to one answer. A
//            search for fewer encodings, or in fewer bits, gives a prefix of the same list. Nothing
//            here is approximate. LoadEncodings() gives back what was saved or nothing: a wrong
//            byte passes its 64-bit checksum with chance 2^-64.
// Requires:  nothing; pure functions and one file.
// Costs:     with P bits in use, an exact bitmap of 2^P bits (128 MB at 30 bits, and half as much
//            again while it doubles; it grows with the candidates, so a short list stays small).
//            All 5,376 encodings of 30 bits take half a minute, the 2,577 of 27 bits a second
//            (bench/results/fig02_encodings.tsv). A file is 24 bytes and 4 per encoding.
// Departs:   the papers remember what is taken in a Bloom filter, whose false positives skip
//            encodings that were free; the bitmap is exact and skips none. Candidates are tested 64
//            at a time, see greedy_encodings.cc.
//            000 reports 16,384 encodings in 30 bits. That is not what its algorithm gives:
//            followed to the letter it finds 5,376 there, growing by a factor of 1.28 per bit, and
//            a Bloom filter could only find fewer. So many do exist: the BCH encodings x || x^3 are
//            32,767 in 30 bits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace kbf {

inline constexpr unsigned kGreedyBitsMax = 31;
// Below 2^31 the pair rule allows fewer than 2^16 encodings, so no honest file holds more.
inline constexpr size_t kSavedEncodingsMax = size_t{1} << 16;

// The first `count` encodings, or as many as are smaller than 2^bits_max. A larger bits_max counts
// as kGreedyBitsMax.
std::vector<uint32_t> GreedyEncodings(size_t count, unsigned bits_max);

// True if encodings and pair XORs are all different and no encoding is 0. Any order; a bitmap of up
// to 512 MB.
bool ObeysPairRule(std::span<const uint32_t> encodings);

// Replaces the file as a whole; false if it could not be written or the list is too long.
[[nodiscard]] bool SaveEncodings(const std::string& path, std::span<const uint32_t> encodings);
// Nothing if the file is missing, cut short, too long, damaged or of another kind.
[[nodiscard]] std::optional<std::vector<uint32_t>> LoadEncodings(const std::string& path);

}  // namespace kbf
