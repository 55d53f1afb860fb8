#include "storage/gf2.h"

#include <bit>
#include <cassert>
#include <memory>
#include <mutex>

namespace kbf {

namespace {

// One instance per b, built on first use.
template <class Tables>
const Tables& Shared(unsigned bits, std::unique_ptr<const Tables> (*make)(unsigned)) {
  static std::array<std::once_flag, kFieldBitsMax + 1> built;
  static std::array<std::unique_ptr<const Tables>, kFieldBitsMax + 1> tables;
  std::call_once(built[bits], [&] { tables[bits] = make(bits); });
  return *tables[bits];
}

}  // namespace

struct TableField::Tables {
  explicit Tables(unsigned bits)
      : log(size_t{1} << bits),
        exp(size_t{2} << bits),
        cube(size_t{1} << bits),
        half_trace(size_t{1} << bits, kNoSolution) {
    const uint32_t polynomial = (1u << bits) | FieldPolynomialLow(bits);
    const uint32_t order = (1u << bits) - 1;
    uint32_t power = 1;  // x^i: the polynomial is primitive, so i = 0 … order-1 meets every element
    for (uint32_t i = 0; i < order; ++i) {
      log[power] = static_cast<uint16_t>(i);
      exp[i] = exp[i + order] = static_cast<uint16_t>(power);
      power <<= 1;
      if (power >> bits & 1) power ^= polynomial;
    }
    const TableField field = Handle(bits);
    for (uint32_t a = 0; a <= order; ++a) {
      const uint32_t square = field.Square(a);
      cube[a] = static_cast<uint16_t>(field.Multiply(square, a));
      if (a % 2 == 0) half_trace[square ^ a] = static_cast<uint16_t>(a);
    }
  }

  TableField Handle(unsigned bits) const {
    TableField field;
    field.bits_ = bits;
    field.log_ = log.data();
    field.exp_ = exp.data();
    field.cube_ = cube.data();
    field.half_trace_ = half_trace.data();
    return field;
  }

  std::vector<uint16_t> log, exp, cube, half_trace;
};

TableField TableField::Get(unsigned bits) {
  assert(bits >= kFieldBitsMin && bits <= kTableFieldBitsMax);
  return Shared<Tables>(bits, [](unsigned b) { return std::make_unique<const Tables>(b); })
      .Handle(bits);
}

uint64_t PortableClmul::Multiply(uint32_t a, uint32_t b) {
  // Ordinary multiplication of numbers that use every fourth bit: at most eight ones add up in a
  // column, so carries stop before the next used bit. Sixteen products cover all pairs of residues;
  // the masks drop the carries.
  static constexpr uint64_t kEveryFourth = 0x1111111111111111u;
  uint64_t result = 0;
  for (unsigned residue = 0; residue < 4; ++residue) {
    uint64_t sum = 0;
    for (unsigned i = 0; i < 4; ++i) {
      const uint64_t x = a & (kEveryFourth << i);
      const uint64_t y = b & (kEveryFourth << ((residue - i) & 3));
      sum ^= x * y;
    }
    result |= sum & (kEveryFourth << residue);
  }
  return result;
}

LinearMap::LinearMap(const std::vector<uint32_t>& columns) {
  for (size_t bit = 0; bit < columns.size(); ++bit) {
    auto& table = table_[bit / 8];
    const uint32_t weight = 1u << bit % 8;
    for (uint32_t low = 0; low < weight; ++low) table[weight | low] = table[low] ^ columns[bit];
    // Entries with higher bits are filled when their own highest bit comes.
  }
}

WideFieldTables::WideFieldTables(unsigned b)
    : bits(b), mask((1u << b) - 1), low(FieldPolynomialLow(b)) {
  const WideField<PortableClmul> field(*this);
  std::vector<uint32_t> squares;
  std::vector<uint32_t> fourths;
  for (unsigned i = 0; i < bits; ++i) {
    squares.push_back(field.Multiply(1u << i, 1u << i));
    fourths.push_back(field.Multiply(squares[i], squares[i]));
  }
  square = LinearMap(squares);
  fourth = LinearMap(fourths);
  FillHalfTrace();
  if (bits % 2 == 0) FillSubfieldInverse();
}

void WideFieldTables::FillHalfTrace() {
  // Columns of the inverse of z -> z² + z, by elimination: rows[p] has its highest bit at p and
  // remembers its z.
  struct Row {
    uint32_t image = 0;
    uint32_t z = 0;
  };
  std::array<Row, kFieldBitsMax> rows{};
  const auto reduce = [&rows](Row row) {
    for (int p = kFieldBitsMax - 1; p >= 0; --p) {
      if ((row.image >> p & 1) == 0 || rows[p].image == 0) continue;
      row.image ^= rows[p].image;
      row.z ^= rows[p].z;
    }
    return row;
  };
  for (unsigned i = 1; i < bits; ++i) {  // z = 1 maps to 0, so bit 0 is left out
    const uint32_t z = 1u << i;
    const Row row = reduce({square.Apply(z) ^ z, z});
    rows[std::bit_width(row.image) - 1] = row;
  }
  std::vector<uint32_t> columns;
  for (unsigned i = 0; i < bits; ++i) columns.push_back(reduce({1u << i, 0}).z);
  half_trace = LinearMap(columns);
}

void WideFieldTables::FillSubfieldInverse() {
  const WideField<PortableClmul> field(*this);
  std::vector<uint32_t> columns;
  for (unsigned i = 0; i < bits; ++i) {
    uint32_t power = 1u << i;
    for (unsigned step = 0; step < bits / 2; ++step) power = field.Square(power);
    columns.push_back(power);
  }
  conjugate = LinearMap(columns);

  // The subfield's elements are the powers of one norm a·conj(a) that generates them.
  const uint32_t order = (1u << bits / 2) - 1;
  std::vector<uint32_t> powers;
  for (uint32_t a = 2; powers.size() != order; ++a) {
    const uint32_t generator = field.Multiply(a, conjugate.Apply(a));
    powers = {1};
    for (uint32_t power = generator; power != 1; power = field.Multiply(power, generator)) {
      powers.push_back(power);
    }
  }
  std::vector<uint32_t> inverse(order + 1);
  for (size_t i = 0; i < order; ++i) {
    uint32_t& slot = inverse[powers[i] & order];
    if (slot != 0) return;  // the low bits do not tell elements apart: leave the table empty
    slot = powers[(order - i) % order];
  }
  subfield_inverse = std::move(inverse);
}

const WideFieldTables& WideFieldTables::Get(unsigned bits) {
  assert(bits >= kFieldBitsMin && bits <= kFieldBitsMax);
  return Shared<WideFieldTables>(bits, [](unsigned b) {
    return std::unique_ptr<const WideFieldTables>(new WideFieldTables(b));
  });
}

}  // namespace kbf
