// PaperKbf is the key-value Bloom filter as the papers publish it ([kBF] §3.4-3.5, §4; [kBF-conf]
// §III.E-F), for the reproduction of their figures. It is not what the store uses: its cells have
// no check bits and decoding is O(N).
//
// Promises:  as long as only stored keys are updated and deleted, a stored key gets its own value
//            or kNotDecodable, with the chance that StoredNotDecodable() of maths.h bounds; never
//            kAbsent and never another value. (Equal values in a cell, and a key that meets a cell
//            twice, leave values that Algorithms 6 and 7 pass over or refuse.) What a client may
//            see that is wrong:
//            - a key that was never inserted finds all its k cells in use with chance (1 - e^-L)^k,
//              L = nk/m, and then gets some value or kNotDecodable;
//            - Update() and Delete() of such a key, or Delete() with another value than the stored
//              one, damage the keys that share its cells: nothing here notices;
//            - counters stick at 7, so a cell that was ever that full stays in use.
// Requires:  one thread, or readers only. Hashes from one secret; a key is inserted once before it
//            is deleted.
//            Create (Insert | Update | Query | Delete | Join | Compress)*
// Costs:     4 bytes per cell. A query reads k cells; decode2 tests all N encodings. EncodingSet
//            holds two bitmaps of 2^P bits, P the width of the widest encoding: 128 MB at 29 bits;
//            it is built in O(N^2).
// Departs:   Algorithm 7 fills its Bloom filters B1 and B2 in every call; EncodingSet does that
//            once, and exactly. Delete() checks all cells before it changes one. Position i is
//            Stream(hash, i) mod m rather than one of k independent functions; the remainder is
//            what lets Compress() find the cells again. The papers leave open what happens to a
//            full counter; ours sticks. Join() and Compress() are refused where the cells would not
//            match.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "storage/hash.h"

namespace kbf {

// The encodings in use, with the membership tests B1 (encodings) and B2 (XORs of two) of
// Algorithm 7.
class EncodingSet {
 public:
  static constexpr unsigned kBitsMax = 29;

  // Null if an encoding is 0 or wider than kBitsMax, or if the pair rule is broken ([kBF] §3.2).
  [[nodiscard]] static std::shared_ptr<const EncodingSet> Create(std::vector<uint32_t> encodings);

  std::span<const uint32_t> encodings() const { return encodings_; }
  bool Contains(uint32_t x) const { return x < is_encoding_.size() && is_encoding_[x]; }  // B1
  bool ContainsPair(uint32_t x) const { return x < is_pair_.size() && is_pair_[x]; }      // B2

  // The two encodings whose XOR is v1, or nothing; the scan of all encodings of [kBF] §3.5.
  std::optional<std::pair<uint32_t, uint32_t>> Decode2(uint32_t v1) const;
  // The one encoding that both XORs of two contain, or nothing.
  std::optional<uint32_t> Decode22(uint32_t v1, uint32_t v2) const;
  // The one encoding that the XOR of two and the XOR of three share, or nothing (Algorithm 7).
  std::optional<uint32_t> Decode23(uint32_t v1, uint32_t v3) const;
  // All sets of three different encodings with that XOR, each ascending ([kBF-conf] §III.F). There
  // may be several: the pair rule says nothing about XORs of three. Nothing where v3 is itself an
  // encoding: then two of the three are equal and could be any.
  std::vector<std::array<uint32_t, 3>> Decode3(uint32_t v3) const;
  // Is the encoding in one of them: the same test without the sets, in O(1).
  bool MayBeInTriple(uint32_t encoding, uint32_t v3) const {
    return !Contains(v3) && ContainsPair(encoding ^ v3);
  }

  // Of B1 and of B2, the latter only needed by Decode23 and Decode3.
  uint64_t encoding_bitmap_bytes() const { return is_encoding_.size() / 8; }
  uint64_t pair_bitmap_bytes() const { return is_pair_.size() / 8; }

 private:
  EncodingSet(std::vector<uint32_t> encodings, size_t values);
  bool Fill();

  // Constant after Create().
  std::vector<uint32_t> encodings_;
  std::vector<bool> is_encoding_;
  std::vector<bool> is_pair_;
};

//   31   29 28                                  0
//   |counter|      XOR of the encodings         |
class PaperCell {
 public:
  static constexpr unsigned kCounterMax = 7;

  PaperCell() = default;
  // REQUIRES: value below 2^29. Counters above kCounterMax stick there.
  PaperCell(unsigned counter, uint32_t value);

  unsigned counter() const { return bits_ >> EncodingSet::kBitsMax; }
  uint32_t value() const { return bits_ & kValueMask; }
  friend bool operator==(const PaperCell&, const PaperCell&) = default;

 private:
  static constexpr uint32_t kValueMask = (uint32_t{1} << EncodingSet::kBitsMax) - 1;
  uint32_t bits_ = 0;
};
static_assert(sizeof(PaperCell) == 4);

enum class PaperOutcome : uint8_t {
  kFound,         // the answer holds an encoding
  kAbsent,        // a counter is 0: the key is surely not there
  kNotDecodable,  // in use, but Algorithm 6 has no answer
};
struct [[nodiscard]] PaperAnswer {
  PaperOutcome outcome;
  uint32_t encoding = 0;  // 0 unless kFound
};

enum class PaperStatus : uint8_t {
  kOk,
  kUnknownEncoding,  // not in the EncodingSet; nothing changed
  kEmptyCell,     // Delete: a cell of the key holds too few; the key is not there, nothing changed
  kAbsent,        // Update: the key is not there
  kNotDecodable,  // Update: the old value cannot be read, so it cannot be replaced
  kUnlike,        // Join: another m, k or set of encodings
  kOddSize,       // Compress: m cannot be halved
};

// What decoding may use besides cells with counter 1; [kBF] §6.4 compares the first two.
enum class PaperChoices : uint8_t {
  kFirst,         // decode22 only
  kBoth,          // decode22, else decode23
  kIntersection,  // what all cells of two and of three have in common, where that is one encoding
                  // ([kBF-conf] §III.E-F): never less than the others
};

// Algorithm 6 on the k cells of a key.
PaperAnswer DecodeCells(const EncodingSet& set, std::span<const PaperCell> cells,
                        PaperChoices choices = PaperChoices::kBoth);

class PaperKbf {
 public:
  static constexpr size_t kCellsMax = size_t{1} << 30;
  // [kBF] §6 goes to p = 1e-6, which takes 20. Streams have other uses in the store, none here.
  static constexpr unsigned kHashesMax = 32;

  // m cells and k hash functions; nothing if a size is 0 or above its limit, if there is no set, or
  // no memory.
  [[nodiscard]] static std::optional<PaperKbf> Create(size_t num_cells, unsigned num_hashes,
                                                      std::shared_ptr<const EncodingSet> set);

  [[nodiscard]] PaperStatus Insert(const KeyHash& key, uint32_t encoding);
  [[nodiscard]] PaperStatus Update(const KeyHash& key, uint32_t encoding);
  PaperAnswer Query(const KeyHash& key, PaperChoices choices = PaperChoices::kBoth) const;
  // REQUIRES: the key is there with this encoding; the filter cannot tell, except by an empty cell.
  [[nodiscard]] PaperStatus Delete(const KeyHash& key, uint32_t encoding);
  // Adds what the other filter holds. The two must hold different keys.
  [[nodiscard]] PaperStatus Join(const PaperKbf& other);
  // Folds the upper half of the cells on the lower half.
  [[nodiscard]] PaperStatus Compress();

  size_t num_cells() const { return cells_.size(); }   // m
  unsigned num_hashes() const { return num_hashes_; }  // k
  const EncodingSet& encoding_set() const { return *set_; }
  PaperCell cell(size_t i) const { return cells_[i]; }  // REQUIRES: i < num_cells()
  size_t Position(const KeyHash& key, unsigned i) const { return Stream(key, i) % cells_.size(); }
  // How many cells hold at least that many encodings.
  size_t CountCells(unsigned counter_min) const;

 private:
  PaperKbf(std::vector<PaperCell> cells, unsigned num_hashes,
           std::shared_ptr<const EncodingSet> set);

  std::vector<PaperCell> cells_;
  unsigned num_hashes_;
  std::shared_ptr<const EncodingSet> set_;  // never null
};

}  // namespace kbf
