// Arithmetic in GF(2^b), b = 6 … 30: what the encodings of bch.h are made of.
//
// Elements are b-bit integers, addition is XOR. Two fields with the same members, chosen by
// template parameter:
//   TableField         b <= 16: logarithms and tables, 2^b entries each (160 KB at b = 14)
//   WideField<Clmul>   any b: carry-less multiplication, small tables only (140 KB at b = 30);
//                      with b as a second template argument it reduces by shifts and XORs
// Both use the same polynomial for the same b, so they give the same answers;
// tests/storage/gf2_test.cc compares them. `Clmul` is HardwareClmul where the translation unit is
// compiled for a CPU that has the instruction, else PortableClmul.
//
// Requires:  operands are below 2^b. Fields are handles to constant tables; copy them freely.
// Costs:     Multiply is three look-ups, or three carry-less multiplications; see
//            bench/kbf_bench.cc for nanoseconds.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#ifdef __PCLMUL__
#include <wmmintrin.h>
#endif

namespace kbf {

inline constexpr unsigned kFieldBitsMin = 6;
inline constexpr unsigned kFieldBitsMax = 30;
inline constexpr unsigned kTableFieldBitsMax = 16;

// The low part of the field's polynomial x^b + low(x). Primitive for b <= 16. For even b above,
// chosen so that the b/2 low bits tell the elements of the subfield GF(2^(b/2)) apart, which
// WideField::Inverse uses. Degree of low(x) <= 7. REQUIRES: kFieldBitsMin <= bits <= kFieldBitsMax
constexpr uint32_t FieldPolynomialLow(unsigned bits) {
  // tests/storage/gf2_test.cc proves each irreducible.
  constexpr std::array<uint8_t, kFieldBitsMax - kFieldBitsMin + 1> kLow = {
      0x03, 0x03, 0x1d, 0x11, 0x09, 0x05, 0x53, 0x1b, 0x2b, 0x03, 0x2d, 0x09, 0x27,  // 6 … 18
      0x27, 0x09, 0x05, 0x39, 0x21, 0x1b, 0x09, 0xb1, 0x27, 0x09, 0x05, 0x5f};       // 19 … 30
  return kLow[bits - kFieldBitsMin];
}

class TableField {
 public:
  // A handle to tables that are built on first use and never freed. REQUIRES: 6 <= bits <= 16
  static TableField Get(unsigned bits);

  unsigned bits() const { return bits_; }
  uint32_t Multiply(uint32_t a, uint32_t b) const {
    return a == 0 || b == 0 ? 0 : exp_[static_cast<size_t>(log_[a]) + log_[b]];
  }
  uint32_t Square(uint32_t a) const { return Multiply(a, a); }
  uint32_t Cube(uint32_t a) const { return cube_[a]; }
  uint32_t Fifth(uint32_t a) const { return Multiply(cube_[a], Square(a)); }
  // a·x
  uint32_t Double(uint32_t a) const { return Multiply(a, 2); }
  // REQUIRES: a != 0
  uint32_t Inverse(uint32_t a) const { return exp_[(1u << bits_) - 1 - log_[a]]; }
  // Finds z with z² + z = c; the other solution is z + 1. False: there is none (half of all c).
  bool SolveQuadratic(uint32_t c, uint32_t* z) const {
    *z = half_trace_[c];
    return *z != kNoSolution;
  }

 private:
  static constexpr uint16_t kNoSolution = 0xffff;  // never a solution: the z kept is even
  struct Tables;

  unsigned bits_;
  const uint16_t* log_;         // element -> exponent of x
  const uint16_t* exp_;         // twice over, so that sums of two exponents need no modulo
  const uint16_t* cube_;        // a³
  const uint16_t* half_trace_;  // c -> z
};

// ---- carry-less multiplication of two words below 2^30 ----

struct PortableClmul {
  static uint64_t Multiply(uint32_t a, uint32_t b);
};

#ifdef __PCLMUL__
struct HardwareClmul {
  static uint64_t Multiply(uint32_t a, uint32_t b) {
    const __m128i product = _mm_clmulepi64_si128(_mm_cvtsi32_si128(static_cast<int>(a)),
                                                 _mm_cvtsi32_si128(static_cast<int>(b)), 0);
    return static_cast<uint64_t>(_mm_cvtsi128_si64(product));
  }
};
#endif

// A linear map of b-bit words as one 256-entry table per byte.
class LinearMap {
 public:
  // `columns[i]` is the image of 1 << i.
  explicit LinearMap(const std::vector<uint32_t>& columns);
  LinearMap() = default;
  // REQUIRES: a < 2^(8·kBytes)
  template <unsigned kBytes = 4>
  uint32_t Apply(uint32_t a) const {
    return [&]<size_t... i>(std::index_sequence<i...>) {
      return (0u ^ ... ^ table_[i][a >> 8 * i & 0xff]);
    }
    (std::make_index_sequence<kBytes>{});
  }

 private:
  std::array<std::array<uint32_t, 256>, 4> table_{};
};

// What WideField looks up; independent of how it multiplies.
struct WideFieldTables {
  static const WideFieldTables& Get(unsigned bits);

  unsigned bits = 0;
  uint32_t mask = 0;
  uint32_t low = 0;  // low part of the polynomial
  LinearMap square;  // a², a⁴: squaring is linear, and look-ups are quicker than multiplying
  LinearMap fourth;
  LinearMap half_trace;  // c -> z with z² + z = c, where there is one
  LinearMap conjugate;   // even b: a -> a^(2^(b/2))
  std::vector<uint32_t>
      subfield_inverse;  // even b: by the b/2 low bits; empty: Inverse() uses Fermat

 private:
  explicit WideFieldTables(unsigned bits);
  void FillHalfTrace();
  void FillSubfieldInverse();
};

// kBits == 0: b is known at run time only.
template <class Clmul, unsigned kBits = 0>
class WideField {
 public:
  // REQUIRES: kBits is 0 or `bits`
  static WideField Get(unsigned bits) { return WideField(WideFieldTables::Get(bits)); }
  explicit WideField(const WideFieldTables& tables) : tables_(&tables) {}

  unsigned bits() const { return kBits != 0 ? kBits : tables_->bits; }
  uint32_t Multiply(uint32_t a, uint32_t b) const { return Reduce(Clmul::Multiply(a, b)); }
  uint32_t Square(uint32_t a) const { return Apply(tables_->square, a); }
  uint32_t Cube(uint32_t a) const { return Multiply(Square(a), a); }
  uint32_t Fifth(uint32_t a) const { return Multiply(Apply(tables_->fourth, a), a); }
  // a·x
  uint32_t Double(uint32_t a) const {
    const uint32_t shifted = a << 1;
    return (shifted & mask()) ^
           (low() & -(shifted >> bits()));  // no branch: it could not be predicted
  }
  // REQUIRES: a != 0
  uint32_t Inverse(uint32_t a) const {
    if (tables_->subfield_inverse.empty()) return InverseByFermat(a);
    // a^-1 = conj(a) / (a conj(a)); the norm a conj(a) lies in GF(2^(b/2)), where a table inverts
    // it.
    const uint32_t conjugate = Apply(tables_->conjugate, a);
    const uint32_t norm = Multiply(a, conjugate);
    const uint32_t half_mask = (1u << bits() / 2) - 1;
    return Multiply(conjugate, tables_->subfield_inverse[norm & half_mask]);
  }
  bool SolveQuadratic(uint32_t c, uint32_t* z) const {
    *z = Apply(tables_->half_trace, c);
    return (Square(*z) ^ *z) == c;
  }

 private:
  uint32_t low() const { return tables_->low; }
  static uint32_t Apply(const LinearMap& map, uint32_t a) {
    constexpr unsigned kBytes = kBits != 0 ? (kBits + 7) / 8 : 4;
    return map.Apply<kBytes>(a);
  }
  uint32_t mask() const { return kBits != 0 ? (1u << kBits) - 1 : tables_->mask; }

  uint32_t Reduce(uint64_t product) const {
    // low(x) has degree <= 7, so two folds end it for b >= 15; only smaller fields enter the loop.
    product = Fold(Fold(product));
    if constexpr (kBits < 15) {
      while (product >> bits() != 0) product = Fold(product);
    }
    return static_cast<uint32_t>(product);
  }
  // Replaces the part above x^b by its multiple of low(x).
  uint64_t Fold(uint64_t product) const {
    const uint64_t high = product >> bits();
    if constexpr (kBits == 0) {
      return (product & mask()) ^ Clmul::Multiply(static_cast<uint32_t>(high), low());
    } else {
      // One shift and XOR per term of low(x), unrolled by the compiler: g++ -O2 leaves a loop as it
      // is.
      constexpr uint32_t kLow = FieldPolynomialLow(kBits);
      return [&]<size_t... i>(std::index_sequence<i...>) {
        return ((product & mask()) ^ ... ^ ((kLow >> i & 1) != 0 ? high << i : 0));
      }
      (std::make_index_sequence<8>{});
    }
  }
  // a^(2^b - 2) = Π a^(2^i), i = 1 … b-1
  uint32_t InverseByFermat(uint32_t a) const {
    uint32_t power = Square(a);
    uint32_t result = power;
    for (unsigned i = 2; i < bits(); ++i) {
      power = Square(power);
      result = Multiply(result, power);
    }
    return result;
  }

  const WideFieldTables* tables_;
};

}  // namespace kbf
