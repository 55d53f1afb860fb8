// Encodings of symbols whose XORs can be taken apart again: the columns of binary BCH codes.
//
//   PairCode     e(x) = x | x³ << b              any four are independent: all e, all e^e differ
//   TripleCode   e(x) = x | x³ << b | x⁵ << 2b   any six are: all XORs of up to three differ
//
// Symbols x are the non-zero elements of GF(2^b). A word is the XOR of the encodings in one cell,
// and the cell's counter is their number, so decoding does not guess the number of entries.
//
// Promises:  Decode is exact: it finds the `count` different symbols of a word, or says that no
//            such set exists. MayHold is exact too, but a random word passes it with chance
//            1/count!.
// Requires:  words have no bits beyond 2b (3b). Objects are small views of a field; copy them
//            freely.
// Costs:     O(1): a pair costs one inversion and one quadratic; a triple a b×b elimination of
//            single words.
// Departs:   [kBF] §3.2 finds encodings by greedy search and decodes by scanning all N of them
//            (§3.5). BCH columns obey the same rule with 28 bits for 16,383 encodings, where the
//            search finds 3,294 (bench/fig02_encodings.cc; the paper says 16,384 in 30 bits) and no
//            scheme could have more than 23,169.
#pragma once

#include <array>
#include <bit>
#include <cstdint>

namespace kbf {

using Symbols = std::array<uint32_t, 3>;

// Finds x, y with x + y = s1, x³ + y³ = s3, both non-zero and different. With w = x/s1: w² + w =
// s3/s1³ + 1.
template <class Field>
bool SolvePair(const Field& field, uint32_t s1, uint32_t s3, uint32_t* x, uint32_t* y) {
  if (s1 == 0) return false;
  const uint32_t cube = field.Cube(s1);
  if (s3 == cube) return false;  // one of them would be 0
  uint32_t w = 0;
  if (!field.SolveQuadratic(field.Multiply(s3, field.Inverse(cube)) ^ 1, &w)) return false;
  *x = field.Multiply(s1, w);
  *y = *x ^ s1;
  return true;
}

// Finds the three roots of y³ + a·y + q, if there are three different ones in the field. y times
// the polynomial, y⁴ + a·y² + q·y, is linear over GF(2): with three roots its kernel is {0, y1, y2,
// y1 + y2}, found by elimination.
template <class Field>
bool SolveCubic(const Field& field, uint32_t a, uint32_t q, Symbols* roots) {
  if (q == 0) return false;          // y = 0 and a double root
  std::array<uint32_t, 32> image{};  // by highest bit
  std::array<uint32_t, 32> source{};
  std::array<uint32_t, 2> kernel{};
  unsigned kernel_size = 0;
  // The terms for y = x^i, each by doubling the one before: 1⁴, a·1², q·1.
  uint32_t fourth = 1;
  uint32_t a_square = a;
  uint32_t q_y = q;
  for (unsigned i = 0; i < field.bits(); ++i) {
    uint32_t y = 1u << i;
    uint32_t value = fourth ^ a_square ^ q_y;
    fourth = field.Double(field.Double(field.Double(field.Double(fourth))));
    a_square = field.Double(field.Double(a_square));
    q_y = field.Double(q_y);
    while (value != 0) {
      const unsigned top = static_cast<unsigned>(std::bit_width(value)) - 1;
      if (image[top] == 0) {
        image[top] = value;
        source[top] = y;
        break;
      }
      value ^= image[top];
      y ^= source[top];
    }
    if (value == 0) {
      if (kernel_size == kernel.size()) return false;
      kernel[kernel_size++] = y;
    }
  }
  if (kernel_size != 2) return false;
  *roots = {kernel[0], kernel[1], kernel[0] ^ kernel[1]};
  return true;
}

template <class Field>
class PairCode {
 public:
  static constexpr unsigned kDecodable = 2;

  explicit PairCode(const Field& field)
      : field_(field), bits_(field.bits()), mask_((1u << bits_) - 1) {}

  unsigned symbol_bits() const { return bits_; }
  uint64_t Encode(uint32_t x) const { return x | static_cast<uint64_t>(field_.Cube(x)) << bits_; }

  // Is `word` the XOR of exactly `count` different encodings? Then they are in `symbols[0 …
  // count-1]`.
  bool Decode(uint64_t word, unsigned count, Symbols* symbols) const {
    const uint32_t s1 = word & mask_;
    const auto s3 = static_cast<uint32_t>(word >> bits_);
    uint32_t& x = (*symbols)[0];
    if (count == 1) {
      x = s1;
      return s1 != 0 && s3 == field_.Cube(s1);
    }
    return count == 2 && SolvePair(field_, s1, s3, &x, &(*symbols)[1]);
  }

  // Could `word` be the XOR of `count` encodings, equal ones allowed? REQUIRES: count <= kDecodable
  bool MayHold(uint64_t word, unsigned count) const {
    if (count == 0) return word == 0;
    Symbols symbols;
    return Decode(word, count, &symbols) || (count == 2 && word == 0);
  }

 private:
  Field field_;
  unsigned bits_;
  uint32_t mask_;
};

template <class Field>
class TripleCode {
 public:
  static constexpr unsigned kDecodable = 3;

  explicit TripleCode(const Field& field)
      : field_(field), bits_(field.bits()), mask_((1u << bits_) - 1) {}

  unsigned symbol_bits() const { return bits_; }
  uint64_t Encode(uint32_t x) const {
    return x | static_cast<uint64_t>(field_.Cube(x)) << bits_ |
           static_cast<uint64_t>(field_.Fifth(x)) << 2 * bits_;
  }

  bool Decode(uint64_t word, unsigned count, Symbols* symbols) const {
    const uint32_t s1 = word & mask_;
    const uint32_t s3 = word >> bits_ & mask_;
    uint32_t& x = (*symbols)[0];
    uint32_t& y = (*symbols)[1];
    if (count == 1) {
      x = s1;
      return s1 != 0 && word == Encode(s1);
    }
    if (count == 2) return SolvePair(field_, s1, s3, &x, &y) && word == (Encode(x) ^ Encode(y));
    return count == 3 && DecodeThree(s1, s3, static_cast<uint32_t>(word >> 2 * bits_), symbols);
  }

  bool MayHold(uint64_t word, unsigned count) const {
    if (count == 0) return word == 0;
    Symbols symbols;
    if (Decode(word, count, &symbols)) return true;
    // Two equal ones cancel.
    return count == 2 ? word == 0 : count == 3 && Decode(word, 1, &symbols);
  }

 private:
  // Newton's identities for z³ + σ1 z² + σ2 z + σ3: σ1 = s1, σ2 = (s5 + s1² s3) / (s3 + s1³), σ3 =
  // s3 + s1³ + s1 σ2.
  bool DecodeThree(uint32_t s1, uint32_t s3, uint32_t s5, Symbols* symbols) const {
    const uint32_t square = field_.Square(s1);
    const uint32_t d = s3 ^ field_.Multiply(square, s1);  // (x+y)(y+z)(z+x): 0 unless all differ
    if (d == 0) return false;
    const uint32_t sigma2 = field_.Multiply(s5 ^ field_.Multiply(square, s3), field_.Inverse(d));
    const uint32_t sigma3 = d ^ field_.Multiply(s1, sigma2);
    if (sigma3 == 0) return false;  // one of them would be 0
    // z = y + s1 takes the square term out.
    if (!SolveCubic(field_, square ^ sigma2, field_.Multiply(s1, sigma2) ^ sigma3, symbols))
      return false;
    for (uint32_t& symbol : *symbols) symbol ^= s1;
    return true;
  }

  Field field_;
  unsigned bits_;
  uint32_t mask_;
};

}  // namespace kbf
