// Arithmetic in GF(2^b), b = 6 … 30: what the encodings of bch.h are made of.
//
// Elements are b-bit integers, addition is XOR. Two fields with the same members, chosen by template parameter:
//   TableField         b <= 16: logarithms and tables, 2^b entries each (160 KB at b = 14)
//   WideField<Clmul>   any b: carry-less multiplication, small tables only (at most 140 KB, at b = 30)
// Both use the same polynomial for the same b, so they give the same answers; tests/storage/gf2_test.cc compares them.
// `Clmul` is HardwareClmul where the translation unit is compiled for a CPU that has the instruction, else PortableClmul.
//
// Requires:  operands are below 2^b. Fields are handles to constant tables; copy them freely.
// Costs:     Multiply is three look-ups, or three carry-less multiplications; see bench/kbf_bench.cc for nanoseconds.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#ifdef __PCLMUL__
#include <wmmintrin.h>
#endif

namespace kbf {

inline constexpr unsigned kFieldBitsMin = 6;
inline constexpr unsigned kFieldBitsMax = 30;
inline constexpr unsigned kTableFieldBitsMax = 16;

// The low part of the field's polynomial x^b + low(x). Primitive for b <= 16. For even b above, chosen so that the b/2 low
// bits tell the elements of the subfield GF(2^(b/2)) apart, which WideField::Inverse uses. Degree of low(x) <= 7.
uint32_t FieldPolynomialLow(unsigned bits);

class TableField {
 public:
  // A handle to tables that are built on first use and live for ever. REQUIRES: 6 <= bits <= 16
  static TableField Get(unsigned bits);

  unsigned bits() const { return bits_; }
  uint32_t Multiply(uint32_t a, uint32_t b) const {
    return a == 0 || b == 0 ? 0 : exp_[static_cast<size_t>(log_[a]) + log_[b]];
  }
  uint32_t Square(uint32_t a) const { return Multiply(a, a); }
  uint32_t Cube(uint32_t a) const { return cube_[a]; }
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
  uint32_t operator()(uint32_t a) const {
    return table_[0][a & 0xff] ^ table_[1][a >> 8 & 0xff] ^ table_[2][a >> 16 & 0xff] ^ table_[3][a >> 24];
  }

 private:
  std::array<std::array<uint32_t, 256>, 4> table_{};
};

// What WideField looks up; independent of how it multiplies.
struct WideFieldTables {
  static const WideFieldTables& Get(unsigned bits);

  unsigned bits = 0;
  uint32_t mask = 0;
  uint32_t low = 0;                        // low part of the polynomial
  LinearMap half_trace;                    // c -> z with z² + z = c, where there is one
  LinearMap conjugate;                     // even b: a -> a^(2^(b/2))
  std::vector<uint32_t> subfield_inverse;  // even b: by the b/2 low bits; empty: Inverse() uses Fermat

 private:
  explicit WideFieldTables(unsigned bits);
  void FillSubfieldInverse();
};

template <class Clmul>
class WideField {
 public:
  static WideField Get(unsigned bits) { return WideField(WideFieldTables::Get(bits)); }
  explicit WideField(const WideFieldTables& tables) : tables_(&tables) {}

  unsigned bits() const { return tables_->bits; }
  uint32_t Multiply(uint32_t a, uint32_t b) const { return Reduce(Clmul::Multiply(a, b)); }
  uint32_t Square(uint32_t a) const { return Multiply(a, a); }
  uint32_t Cube(uint32_t a) const { return Multiply(Square(a), a); }
  // REQUIRES: a != 0
  uint32_t Inverse(uint32_t a) const {
    if (tables_->subfield_inverse.empty()) return InverseByFermat(a);
    // a^-1 = conj(a) / (a conj(a)); the norm a conj(a) lies in GF(2^(b/2)), where a table inverts it.
    const uint32_t conjugate = tables_->conjugate(a);
    const uint32_t norm = Multiply(a, conjugate);
    const uint32_t half_mask = (1u << bits() / 2) - 1;
    return Multiply(conjugate, tables_->subfield_inverse[norm & half_mask]);
  }
  bool SolveQuadratic(uint32_t c, uint32_t* z) const {
    *z = tables_->half_trace(c);
    return (Square(*z) ^ *z) == c;
  }

 private:
  uint32_t Reduce(uint64_t product) const {
    // low(x) has degree <= 7, so two folds end it for b >= 15; only smaller fields enter the loop.
    product = Fold(Fold(product));
    while (product >> tables_->bits != 0) product = Fold(product);
    return static_cast<uint32_t>(product);
  }
  // Replaces the part above x^b by its multiple of low(x).
  uint64_t Fold(uint64_t product) const {
    return (product & tables_->mask) ^
           Clmul::Multiply(static_cast<uint32_t>(product >> tables_->bits), tables_->low);
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
