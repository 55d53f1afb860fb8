// PaperValueTable turns values into encodings and back as the papers publish it: a secondary kBF
// from values to their encodings, and a sorted table from encodings to values that a regression
// searches ([kBF] §3.3, §3.6; [kBF-conf] §III.D, §III.H). For the reproduction of their figures;
// the store keeps values in an exact dictionary instead.
//
// Promises:  Decode(Encode(v)) is v, but for a value that the secondary kBF takes for one it has:
//            at p-capacity a new value gets another value's encoding with chance (1 - e^-ln2)^k =
//            p, and then all its keys show that other value. Nothing notices. Decode of an encoding
//            that was never given out is nothing.
// Requires:  one thread. A value that the secondary kBF cannot decode gets another encoding each
//            time it is encoded; all of them decode to it. At p-capacity that is rarer than
//            StoredNotDecodable() of maths.h.
// Costs:     4 k / ln 2 bytes per value in the secondary kBF, 8 bytes in the table, and the value.
//            An encoding takes k cells to find, a value a few reads of the table.
// Departs:   the table of the regression is made once for all encodings of the set, which ascend.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "storage/hash.h"
#include "storage/paper/encoding_table.h"
#include "storage/paper/paper_kbf.h"

namespace kbf {

class PaperValueTable {
 public:
  // For as many values as the set has encodings, at p = `false_positive`. Nothing where the set is
  // null or empty, p is not between 0 and 1 or asks for too many hash functions, or no memory.
  [[nodiscard]] static std::optional<PaperValueTable> Create(std::shared_ptr<const EncodingSet> set,
                                                             double false_positive,
                                                             const HashSecret& secret);

  // The value's encoding; a value that is not known gets the next one. Nothing where all have been
  // given out.
  std::optional<uint32_t> Encode(std::string_view value);
  // The value of an encoding that Encode gave; the view holds until the next Encode.
  std::optional<std::string_view> Decode(uint32_t encoding) const;

  size_t given_out() const { return values_.size(); }
  uint64_t secondary_bytes() const { return sizeof(PaperCell) * secondary_.num_cells(); }
  // Of the mapping, values included.
  uint64_t mapping_bytes() const;

 private:
  PaperValueTable(PaperKbf secondary, EncodingTable table, const HashSecret& secret);

  PaperKbf secondary_;
  EncodingTable table_;  // of all encodings: its value indices count the order of giving out
  HashSecret secret_;
  std::vector<std::string> values_;
};

}  // namespace kbf
