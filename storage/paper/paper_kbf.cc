#include "storage/paper/paper_kbf.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cassert>
#include <new>

namespace kbf {
namespace {

// Counters stick at the top in both directions: what was lost above 7 cannot be counted down.
PaperCell With(PaperCell cell, uint32_t encoding) {
  return {cell.counter() + 1, cell.value() ^ encoding};
}

PaperCell Without(PaperCell cell, uint32_t encoding) {
  const bool stuck = cell.counter() == PaperCell::kCounterMax;
  return {stuck ? PaperCell::kCounterMax : cell.counter() - 1, cell.value() ^ encoding};
}

PaperCell Sum(PaperCell a, PaperCell b) {
  return {a.counter() + b.counter(), a.value() ^ b.value()};
}

bool HasEmptyCell(std::span<const PaperCell> cells) {
  return std::ranges::any_of(cells, [](PaperCell cell) { return cell.counter() == 0; });
}

PaperAnswer AnswerOf(std::optional<uint32_t> encoding) {
  if (!encoding) return {PaperOutcome::kNotDecodable};
  return {PaperOutcome::kFound, *encoding};
}

}  // namespace

// ---- encodings ---------------------------------------------------------------------------------

EncodingSet::EncodingSet(std::vector<uint32_t> encodings, size_t values)
    : encodings_(std::move(encodings)), is_encoding_(values), is_pair_(values) {}

std::shared_ptr<const EncodingSet> EncodingSet::Create(std::vector<uint32_t> encodings) {
  const uint32_t top = encodings.empty() ? 0 : std::ranges::max(encodings);
  const unsigned bits = static_cast<unsigned>(std::bit_width(top));
  if (bits > kBitsMax) return nullptr;
  // XORs are no wider than the widest encoding.
  std::shared_ptr<EncodingSet> set(new EncodingSet(std::move(encodings), size_t{1} << bits));
  if (!set->Fill()) return nullptr;
  return set;
}

// False at the first number that comes up twice, so a list that is too long for its width ends
// early.
bool EncodingSet::Fill() {
  for (const uint32_t e : encodings_) {
    if (e == 0 || is_encoding_[e]) return false;
    is_encoding_[e] = true;
  }
  for (size_t i = 0; i < encodings_.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      const uint32_t x = encodings_[i] ^ encodings_[j];
      if (is_encoding_[x] || is_pair_[x]) return false;
      is_pair_[x] = true;
    }
  }
  return true;
}

std::optional<std::pair<uint32_t, uint32_t>> EncodingSet::Decode2(uint32_t v1) const {
  if (v1 == 0) return std::nullopt;  // any value twice
  for (const uint32_t e : encodings_) {
    // By the pair rule there is one pair at most, so the first hit is the only one.
    if (Contains(e ^ v1)) return std::pair(e, e ^ v1);
  }
  return std::nullopt;
}

std::optional<uint32_t> EncodingSet::Decode22(uint32_t v1, uint32_t v2) const {
  if (v1 == v2) return std::nullopt;
  const auto pair1 = Decode2(v1);
  const auto pair2 = Decode2(v2);
  if (!pair1 || !pair2) return std::nullopt;
  const auto in_pair2 = [&](uint32_t e) { return e == pair2->first || e == pair2->second; };
  // Two different pairs share at most one encoding.
  if (in_pair2(pair1->first)) return pair1->first;
  if (in_pair2(pair1->second)) return pair1->second;
  return std::nullopt;
}

std::optional<uint32_t> EncodingSet::Decode23(uint32_t v1, uint32_t v3) const {
  if (Contains(v1 ^ v3)) return std::nullopt;  // both halves of v1 are in v3
  const auto pair = Decode2(v1);
  if (!pair) return std::nullopt;
  const bool first_fits = ContainsPair(pair->first ^ v3);
  const bool second_fits = ContainsPair(pair->second ^ v3);
  // Both may fit by chance: the pair rule does not cover XORs of four.
  if (first_fits == second_fits) return std::nullopt;
  return first_fits ? pair->first : pair->second;
}

std::vector<std::array<uint32_t, 3>> EncodingSet::Decode3(uint32_t v3) const {
  std::vector<std::array<uint32_t, 3>> triples;
  if (Contains(v3)) return triples;
  for (const uint32_t e : encodings_) {
    if (!ContainsPair(e ^ v3)) continue;
    const auto pair = Decode2(e ^ v3);
    if (!pair) continue;
    std::array<uint32_t, 3> triple{e, pair->first, pair->second};
    std::ranges::sort(triple);
    // Every set comes up three times, once for each of its members.
    if (triple.front() == e) triples.push_back(triple);
  }
  return triples;
}

// ---- cells -------------------------------------------------------------------------------------

PaperCell::PaperCell(unsigned counter, uint32_t value)
    : bits_(std::min(counter, kCounterMax) << EncodingSet::kBitsMax | value) {
  assert(value <= kValueMask);
}

namespace {

// Cells whose value shows that two of their encodings are equal say nothing.
bool IsPair(PaperCell cell) { return cell.counter() == 2 && cell.value() != 0; }
bool IsTriple(const EncodingSet& set, PaperCell cell) {
  return cell.counter() == 3 && !set.Contains(cell.value());
}

bool MayHold(const EncodingSet& set, PaperCell cell, uint32_t encoding) {
  if (IsPair(cell)) return set.Contains(encoding ^ cell.value());
  return !IsTriple(set, cell) || set.MayBeInTriple(encoding, cell.value());
}

// The one encoding that every cell of two and of three may hold.
PaperAnswer Intersect(const EncodingSet& set, std::span<const PaperCell> cells) {
  uint32_t only = 0;
  // False: this is the second one.
  const auto keep = [&](uint32_t encoding) {
    const auto holds = [&](PaperCell cell) { return MayHold(set, cell, encoding); };
    if (!std::ranges::all_of(cells, holds)) return true;
    if (only != 0) return false;
    only = encoding;
    return true;
  };
  bool unique = false;
  const auto two = std::ranges::find_if(cells, IsPair);
  if (two != cells.end()) {
    const auto pair = set.Decode2(two->value());
    unique = pair && keep(pair->first) && keep(pair->second);
  } else if (std::ranges::any_of(cells, [&](PaperCell cell) { return IsTriple(set, cell); })) {
    unique = std::ranges::all_of(set.encodings(), keep);
  }
  if (!unique || only == 0) return {PaperOutcome::kNotDecodable};
  return {PaperOutcome::kFound, only};
}

// Of Queue2 the first value and the first that differs from it are enough, of Queue3 the first; 0
// is "none".
struct Queues {
  uint32_t v1 = 0;
  uint32_t v2 = 0;
  uint32_t v3 = 0;

  void Add(PaperCell cell) {
    const uint32_t value = cell.value();
    if (cell.counter() == 2) {
      if (v1 == 0) v1 = value;
      if (v2 == 0 && value != v1) v2 = value;
    } else if (cell.counter() == 3 && v3 == 0) {
      v3 = value;
    }
  }
};

}  // namespace

PaperAnswer DecodeCells(const EncodingSet& set, std::span<const PaperCell> cells,
                        PaperChoices choices) {
  // Absence first: a cell with counter 1 may be another key's.
  if (HasEmptyCell(cells)) return {PaperOutcome::kAbsent};
  Queues queues;
  for (const PaperCell cell : cells) {
    if (cell.counter() == 1) return {PaperOutcome::kFound, cell.value()};
    queues.Add(cell);
  }
  if (choices == PaperChoices::kIntersection) return Intersect(set, cells);
  const auto [v1, v2, v3] = queues;
  if (v1 != 0 && v2 != 0) return AnswerOf(set.Decode22(v1, v2));
  if (v1 != 0 && v3 != 0 && choices == PaperChoices::kBoth) return AnswerOf(set.Decode23(v1, v3));
  return {PaperOutcome::kNotDecodable};
}

// ---- the filter --------------------------------------------------------------------------------

PaperKbf::PaperKbf(std::vector<PaperCell> cells, unsigned num_hashes,
                   std::shared_ptr<const EncodingSet> set)
    : cells_(std::move(cells)), num_hashes_(num_hashes), set_(std::move(set)) {}

std::optional<PaperKbf> PaperKbf::Create(size_t num_cells, unsigned num_hashes,
                                         std::shared_ptr<const EncodingSet> set) {
  if (num_cells == 0 || num_cells > kCellsMax) return std::nullopt;
  if (num_hashes == 0 || num_hashes > kHashesMax || set == nullptr) return std::nullopt;
  try {
    return PaperKbf(std::vector<PaperCell>(num_cells), num_hashes, std::move(set));
  } catch (const std::bad_alloc&) {
    return std::nullopt;
  }
}

PaperStatus PaperKbf::Insert(const KeyHash& key, uint32_t encoding) {
  if (!set_->Contains(encoding)) return PaperStatus::kUnknownEncoding;
  for (unsigned i = 0; i < num_hashes_; ++i) {
    PaperCell& cell = cells_[Position(key, i)];
    cell = With(cell, encoding);
  }
  return PaperStatus::kOk;
}

PaperAnswer PaperKbf::Query(const KeyHash& key, PaperChoices choices) const {
  std::array<PaperCell, kHashesMax> cells;
  for (unsigned i = 0; i < num_hashes_; ++i) cells[i] = cells_[Position(key, i)];
  return DecodeCells(*set_, std::span(cells).first(num_hashes_), choices);
}

PaperStatus PaperKbf::Update(const KeyHash& key, uint32_t encoding) {
  if (!set_->Contains(encoding)) return PaperStatus::kUnknownEncoding;
  const PaperAnswer old = Query(key);
  if (old.outcome == PaperOutcome::kAbsent) return PaperStatus::kAbsent;
  if (old.outcome == PaperOutcome::kNotDecodable) return PaperStatus::kNotDecodable;
  for (unsigned i = 0; i < num_hashes_; ++i) {
    PaperCell& cell = cells_[Position(key, i)];
    cell = PaperCell(cell.counter(), cell.value() ^ old.encoding ^ encoding);
  }
  return PaperStatus::kOk;
}

PaperStatus PaperKbf::Delete(const KeyHash& key, uint32_t encoding) {
  if (!set_->Contains(encoding)) return PaperStatus::kUnknownEncoding;
  // All cells before any is changed; a position that comes up twice must hold two.
  std::array<size_t, kHashesMax> positions;
  for (unsigned i = 0; i < num_hashes_; ++i) positions[i] = Position(key, i);
  const std::span<const size_t> used = std::span(positions).first(num_hashes_);
  for (const size_t position : used) {
    const auto times = static_cast<unsigned>(std::ranges::count(used, position));
    const unsigned counter = cells_[position].counter();
    if (counter < times && counter < PaperCell::kCounterMax) return PaperStatus::kEmptyCell;
  }
  for (const size_t position : used) cells_[position] = Without(cells_[position], encoding);
  return PaperStatus::kOk;
}

PaperStatus PaperKbf::Join(const PaperKbf& other) {
  const bool alike =
      cells_.size() == other.cells_.size() && num_hashes_ == other.num_hashes_ &&
      (set_ == other.set_ || std::ranges::equal(set_->encodings(), other.set_->encodings()));
  if (!alike) return PaperStatus::kUnlike;
  std::ranges::transform(cells_, other.cells_, cells_.begin(), Sum);
  return PaperStatus::kOk;
}

PaperStatus PaperKbf::Compress() {
  if (cells_.size() % 2 != 0) return PaperStatus::kOddSize;
  const size_t half = cells_.size() / 2;
  for (size_t i = 0; i < half; ++i) cells_[i] = Sum(cells_[i], cells_[i + half]);
  cells_.resize(half);
  cells_.shrink_to_fit();
  return PaperStatus::kOk;
}

size_t PaperKbf::CountCells(unsigned counter_min) const {
  return static_cast<size_t>(std::ranges::count_if(
      cells_, [counter_min](PaperCell cell) { return cell.counter() >= counter_min; }));
}

}  // namespace kbf
