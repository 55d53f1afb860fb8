// EncodingTable turns a decoded encoding back into the index of its value: a sorted array, with the
// papers' regression that guesses where in the array an encoding stands ([kBF] §3.6).
//
// Promises:  both lookups are exact for every input, stored or not; only their number of table
//            reads differs.
// Requires:  constant after Create(); any number of threads may read.
// Costs:     8 bytes per encoding. A lookup by regression reads at most kWalkMax entries plus what
//            a binary search of the rest needs. On the first 2,577 greedy encodings that is 11.2
//            reads on average with the published walk, 9.3 with local steps and 10.4 for plain
//            binary search: the greedy list does not follow a parabola, it jumps at powers of two.
//            On encodings that follow one, such as x || x^3, it is 1 read. bench/fig02_encodings.cc
//            measures.
// Departs:   the papers walk on from the guess by (distance / average step) until they arrive. We
//            also keep the bounds that the entries read so far imply, never step outside them, and
//            halve them once the walk has taken kWalkMax reads; so a bad fit, or an encoding that
//            is not there, costs reads and never an endless walk (without that limit the published
//            walk took 31 reads on 2,018 greedy encodings, binary search 10). Walk::kLocalStep,
//            which divides by the slope of the parabola instead, is ours.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace kbf {

class EncodingTable {
 public:
  // Twice the papers' three reads; a walk that is still under way then was started by a bad guess.
  static constexpr unsigned kWalkMax = 6;

  struct Entry {
    uint32_t encoding;
    uint32_t value_index;
  };
  struct Lookup {
    std::optional<uint32_t> value_index;  // nothing: the encoding is not in the table
    unsigned accesses;                    // table entries read
  };
  enum class Walk : uint8_t {
    kAverageStep,  // as published: one step size for the whole table
    kLocalStep,    // the slope of the parabola at the present place
  };
  // encoding = a + b x + c x^2, where x is the index in the sorted table.
  struct Parabola {
    double a = 0;
    double b = 0;
    double c = 0;
  };

  // Sorts the entries, in any order before; nothing if two of them share an encoding.
  [[nodiscard]] static std::optional<EncodingTable> Create(std::vector<Entry> entries);

  Lookup FindByRegression(uint32_t encoding, Walk walk = Walk::kAverageStep) const;
  Lookup FindByBinarySearch(uint32_t encoding) const;

  // Over a lookup of every entry; 0 for an empty table.
  double MeanAccessesByRegression(Walk walk = Walk::kAverageStep) const;
  double MeanAccessesByBinarySearch() const;

  size_t size() const { return entries_.size(); }
  const Parabola& parabola() const { return parabola_; }
  double average_step() const { return average_step_; }

 private:
  // The indices that may still hold the encoding, [begin, end), and the reads so far.
  struct Search {
    size_t begin;
    size_t end;
    unsigned accesses;
  };

  explicit EncodingTable(std::vector<Entry> sorted);
  size_t GuessIndex(uint32_t encoding) const;
  double StepAt(size_t index, Walk walk) const;
  // Reads one entry: its value index if it is the one, else the bounds move past it.
  std::optional<uint32_t> Read(size_t index, uint32_t encoding, Search& search) const;
  Lookup Halve(uint32_t encoding, Search search) const;

  // Constant after construction.
  std::vector<Entry> entries_;
  Parabola parabola_;
  double average_step_ = 1;
};

}  // namespace kbf
