#include "storage/gf2.h"

#include <doctest/doctest.h>

#include <bit>
#include <random>
#include <utility>

namespace kbf {
namespace {

// School-book multiplication modulo the field's polynomial: the reference for every field.
uint32_t SlowMultiply(uint32_t a, uint32_t b, unsigned bits) {
  const uint64_t polynomial = (uint64_t{1} << bits) | FieldPolynomialLow(bits);
  uint64_t product = 0;
  for (unsigned i = 0; i < bits; ++i) {
    if (b >> i & 1) product ^= static_cast<uint64_t>(a) << i;
  }
  for (unsigned i = 2 * bits; i-- > bits;) {
    if (product >> i & 1) product ^= polynomial << (i - bits);
  }
  return static_cast<uint32_t>(product);
}

template <class Field>
void CheckField(const Field& field, unsigned bits, uint64_t seed) {
  CAPTURE(bits);
  std::mt19937_64 random(seed);
  const uint32_t mask = (1u << bits) - 1;
  uint64_t mistakes = 0;
  uint64_t solvable = 0;
  constexpr uint64_t kSamples = 20000;
  for (uint64_t i = 0; i < kSamples; ++i) {
    const uint32_t a = random() & mask;
    const uint32_t b = random() & mask;
    mistakes += field.Multiply(a, b) != SlowMultiply(a, b, bits);
    mistakes += field.Square(a) != SlowMultiply(a, a, bits);
    mistakes += field.Cube(a) != SlowMultiply(a, SlowMultiply(a, a, bits), bits);
    if (a != 0) mistakes += field.Multiply(a, field.Inverse(a)) != 1;
    uint32_t z = 0;
    if (field.SolveQuadratic(a, &z)) {
      ++solvable;
      mistakes += (SlowMultiply(z, z, bits) ^ z) != a;
    }
    mistakes += !field.SolveQuadratic(field.Square(b) ^ b, &z) || (z != b && z != (b ^ 1));
  }
  CHECK(mistakes == 0);
  // Exactly half of the field has trace 0: mean ± 5σ of a fair coin.
  CHECK(solvable > kSamples / 2 - 354);
  CHECK(solvable < kSamples / 2 + 354);
}

TEST_SUITE("storage") {
  TEST_CASE("every field polynomial is irreducible") {
    // x^(2^b) = x, and for every prime p dividing b, x^(2^(b/p)) - x has no common factor with the
    // polynomial.
    for (unsigned bits = kFieldBitsMin; bits <= kFieldBitsMax; ++bits) {
      CAPTURE(bits);
      const auto frobenius = [bits](unsigned times) {
        uint32_t power = 2;
        for (unsigned i = 0; i < times; ++i) power = SlowMultiply(power, power, bits);
        return power;
      };
      CHECK(frobenius(bits) == 2);
      for (unsigned p : {2u, 3u, 5u, 7u, 11u, 13u, 17u, 19u, 23u, 29u}) {
        if (bits % p != 0) continue;
        uint64_t a = (uint64_t{1} << bits) | FieldPolynomialLow(bits);
        uint64_t b = frobenius(bits / p) ^ 2;
        while (b != 0) {
          while (std::bit_width(a) >= std::bit_width(b))
            a ^= b << (std::bit_width(a) - std::bit_width(b));
          std::swap(a, b);
        }
        CHECK(a == 1);
      }
    }
  }

  TEST_CASE("table fields multiply, invert and solve as the definition says") {
    for (unsigned bits = kFieldBitsMin; bits <= kTableFieldBitsMax; ++bits) {
      CheckField(TableField::Get(bits), bits, bits);
    }
  }

  TEST_CASE("wide fields give the same answers without large tables") {
    for (unsigned bits = kFieldBitsMin; bits <= kFieldBitsMax; ++bits) {
      CheckField(WideField<PortableClmul>::Get(bits), bits, bits);
    }
  }

  TEST_CASE("even wide fields invert through their subfield") {
    for (unsigned bits = 18; bits <= kFieldBitsMax; bits += 2) {
      CAPTURE(bits);
      CHECK_FALSE(WideFieldTables::Get(bits).subfield_inverse.empty());
    }
  }
}

}  // namespace
}  // namespace kbf
