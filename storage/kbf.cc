#include "storage/kbf.h"

#include <algorithm>
#include <cassert>
#include <cmath>

#include "storage/kbf_query.h"

namespace kbf {

namespace {

// Calls `visit` with the cell type of the layout.
template <class Visit>
auto WithCell(CellKind kind, Visit visit) {
  return CellBytes(kind) == sizeof(uint32_t) ? visit(uint32_t{}) : visit(uint64_t{});
}

template <class Cell>
Cell Added(Cell cell, unsigned count, uint64_t word) {
  using Format = CellFormat<Cell>;
  const unsigned total = std::min(Format::Count(cell) + count, kCounterMax);
  return Format::Make(total, Format::Word(cell) ^ word);
}

}  // namespace

Kbf::CreateOutcome Kbf::Create(const KbfConfig& config) {
  const KbfLayout& layout = config.layout;
  if (!IsValid(layout)) {
    return {std::nullopt,
            "the cell layout is impossible: hashes 2 to 16, lines that divide them, symbol bits 6 "
            "to 14 "
            "(pair32), 17 to 30 (pair64) or 17 to 20 (triple64), check bits from 1"};
  }
  if (config.capacity == 0 || config.capacity > kCapacityMax) {
    return {std::nullopt, "a filter holds 1 to " + std::to_string(kCapacityMax) + " keys"};
  }
  if (!(config.load >= 0.01 && config.load <= 4)) {
    return {std::nullopt, "the load (entries per cell) must lie between 0.01 and 4"};
  }
  if (config.folds > kFoldsMax) {
    return {std::nullopt, "a filter can be halved at most " + std::to_string(kFoldsMax) + " times"};
  }
  KbfGeometry geometry;
  geometry.num_hashes = layout.num_hashes;
  geometry.num_lines = layout.num_lines;
  geometry.cells_per_group = CellsPerGroup(layout);
  geometry.folds = config.folds;
  const double groups = static_cast<double>(config.capacity) * layout.num_hashes / config.load /
                        (layout.num_lines * geometry.cells_per_group);
  geometry.base_groups = std::max<uint64_t>(
      1, static_cast<uint64_t>(std::ceil(std::ldexp(groups, -int(config.folds)))));
  auto cells = CellArray::Allocate(geometry.NumCells() * CellBytes(layout.kind));
  if (!cells) {
    return {std::nullopt, "no memory for " + std::to_string(geometry.NumCells()) + " cells"};
  }
  return {Kbf(config, geometry, std::move(*cells)), {}};
}

Kbf::Kbf(const KbfConfig& config, const KbfGeometry& geometry, CellArray cells)
    : layout_(config.layout),
      geometry_(geometry),
      kernel_(&KernelFor(config.layout.kind)),
      capacity_(config.capacity),
      secret_id_(config.secret_id),
      cells_(std::move(cells)) {}

ErrorRates Kbf::PredictedErrors(double match) const {
  return size_ == 0 ? ErrorRates{} : PredictErrors(layout_, load(), match, RowGroups());
}

double Kbf::strong_evidence_bits() const {
  return StrongEvidenceBits(layout_, LoadOfOne(), RowGroups());
}

// λ, but at least one entry: an empty filter finds nothing anyway.
double Kbf::LoadOfOne() const {
  return std::max(load(), layout_.num_hashes / static_cast<double>(num_cells()));
}

double Kbf::load() const {
  return static_cast<double>(size_) * layout_.num_hashes / static_cast<double>(num_cells());
}

KbfView Kbf::View() const {
  const double lambda = LoadOfOne();
  return {cells_.data(),
          geometry_,
          layout_.symbol_bits,
          static_cast<float>(-std::log2(lambda)),
          static_cast<float>(AgreeBits(layout_, lambda, RowGroups())),
          static_cast<float>(SameLineBits(layout_))};
}

QueryResult Kbf::Query(const KeyHash& key, const SymbolBlocks& blocks) const {
  QueryResult result;
  QueryMany({&key, 1}, blocks, &result);
  return result;
}

void Kbf::QueryManyWith(const KbfKernel& kernel, std::span<const KeyHash> keys,
                        const SymbolBlocks& blocks, QueryResult* results) const {
  kernel.query_many(View(), blocks, keys, results);
}

void Kbf::Prefetch(const KeyHash& key) const {
  std::array<uint64_t, kNumHashesMax> positions;
  geometry_.CellsOf(key, positions.data());
  for (unsigned i = 0; i < layout_.num_hashes; ++i) {
    __builtin_prefetch(cells_.data() + positions[i] * CellBytes(layout_.kind));
  }
}

void Kbf::Insert(const KeyHash& key, uint32_t symbol) { InsertMany({&key, 1}, {&symbol, 1}); }

void Kbf::InsertMany(std::span<const KeyHash> keys, std::span<const uint32_t> symbols) {
  assert(keys.size() == symbols.size());
  WithCell(layout_.kind, [&]<class Cell>(Cell) {
    auto* cells = reinterpret_cast<Cell*>(cells_.data());
    std::array<std::array<uint64_t, kNumHashesMax>, kPrefetchAhead> ring;
    const auto prefetch = [&](size_t i) {
      auto& positions = ring[i % kPrefetchAhead];
      geometry_.CellsOf(keys[i], positions.data());
      for (unsigned j = 0; j < layout_.num_hashes; ++j) __builtin_prefetch(cells + positions[j], 1);
    };
    for (size_t i = 0; i < std::min(keys.size(), kPrefetchAhead); ++i) prefetch(i);
    for (size_t i = 0; i < keys.size(); ++i) {
      assert(symbols[i] != 0 && symbols[i] >> layout_.symbol_bits == 0);
      const uint64_t encoding = kernel_->encode(layout_.symbol_bits, symbols[i]);
      const auto& positions = ring[i % kPrefetchAhead];
      for (unsigned j = 0; j < layout_.num_hashes; ++j) {
        Cell& cell = cells[positions[j]];
        cell = Added(cell, 1, encoding);
      }
      if (i + kPrefetchAhead < keys.size()) prefetch(i + kPrefetchAhead);
    }
  });
  size_ += keys.size();
}

// Takes `old_symbol` out of the key's cells and, if given, puts `new_symbol` in: all cells or none.
KbfStatus Kbf::Replace(const KeyHash& key, uint32_t old_symbol,
                       std::optional<uint32_t> new_symbol) {
  const uint64_t removed = kernel_->encode(layout_.symbol_bits, old_symbol);
  const uint64_t added = new_symbol ? kernel_->encode(layout_.symbol_bits, *new_symbol) : 0;
  std::array<uint64_t, kNumHashesMax> positions;
  geometry_.CellsOf(key, positions.data());
  const std::span<const uint64_t> mine(positions.data(), layout_.num_hashes);
  const KbfStatus status = WithCell(layout_.kind, [&]<class Cell>(Cell) {
    using Format = CellFormat<Cell>;
    auto* cells = reinterpret_cast<Cell*>(cells_.data());
    for (const uint64_t position : mine) {
      const unsigned count = Format::Count(cells[position]);
      if (count == 0 || (count == 1 && Format::Word(cells[position]) != removed))
        return KbfStatus::kNotHeld;
    }
    for (const uint64_t position : mine) {
      const unsigned count = Format::Count(cells[position]);
      if (count == kCounterMax) continue;  // stuck: its entries are unknown
      cells[position] = Format::Make(count - (new_symbol ? 0 : 1),
                                     Format::Word(cells[position]) ^ removed ^ added);
    }
    return KbfStatus::kOk;
  });
  if (status == KbfStatus::kOk && !new_symbol && size_ > 0) --size_;
  return status;
}

KbfStatus Kbf::FindForChange(const KeyHash& key, const SymbolBlocks& blocks,
                             double evidence_bits_min, uint32_t* symbol) const {
  const QueryResult found = Query(key, blocks);
  *symbol = found.symbol;
  switch (found.outcome) {
    case Outcome::kAbsent:
      return KbfStatus::kAbsent;
    case Outcome::kUndecodable:
      return KbfStatus::kUndecodable;
    case Outcome::kFound:
      break;
  }
  return found.evidence_bits >= evidence_bits_min ? KbfStatus::kOk : KbfStatus::kWeakEvidence;
}

KbfStatus Kbf::Delete(const KeyHash& key, const SymbolBlocks& blocks, double evidence_bits_min) {
  uint32_t symbol = 0;
  const KbfStatus status = FindForChange(key, blocks, evidence_bits_min, &symbol);
  return status == KbfStatus::kOk ? DeleteSymbol(key, symbol) : status;
}

KbfStatus Kbf::DeleteSymbol(const KeyHash& key, uint32_t symbol) {
  return Replace(key, symbol, std::nullopt);
}

KbfStatus Kbf::Update(const KeyHash& key, const SymbolBlocks& blocks, const SymbolBlock& block,
                      double evidence_bits_min) {
  uint32_t symbol = 0;
  const KbfStatus status = FindForChange(key, blocks, evidence_bits_min, &symbol);
  return status == KbfStatus::kOk ? Replace(key, symbol, block.Choose(KeyCheck(key))) : status;
}

KbfStatus Kbf::Join(const Kbf& other) {
  if (layout_ != other.layout_ || secret_id_ != other.secret_id_ ||
      geometry_.folds != other.geometry_.folds ||
      geometry_.base_groups != other.geometry_.base_groups || this == &other) {
    return KbfStatus::kUnlike;
  }
  WithCell(layout_.kind, [&]<class Cell>(Cell) {
    using Format = CellFormat<Cell>;
    auto* cells = reinterpret_cast<Cell*>(cells_.data());
    const auto* from = reinterpret_cast<const Cell*>(other.cells_.data());
    for (uint64_t i = 0; i < num_cells(); ++i) {
      cells[i] = Added(cells[i], Format::Count(from[i]), Format::Word(from[i]));
    }
  });
  size_ += other.size_;
  return KbfStatus::kOk;
}

KbfStatus Kbf::Compress() {
  if (geometry_.folds == 0) return KbfStatus::kCannotHalve;
  KbfGeometry half = geometry_;
  --half.folds;
  auto cells = CellArray::Allocate(half.NumCells() * CellBytes(layout_.kind));
  if (!cells) return KbfStatus::kNoMemory;
  WithCell(layout_.kind, [&]<class Cell>(Cell) {
    using Format = CellFormat<Cell>;
    auto* to = reinterpret_cast<Cell*>(cells->data());
    const auto* lower = reinterpret_cast<const Cell*>(cells_.data());
    const auto* upper = lower + half.NumCells();
    for (uint64_t i = 0; i < half.NumCells(); ++i) {
      to[i] = Added(lower[i], Format::Count(upper[i]), Format::Word(upper[i]));
    }
  });
  geometry_ = half;
  cells_ = std::move(*cells);
  capacity_ = std::max<uint64_t>(1, capacity_ / 2);
  return KbfStatus::kOk;
}

std::array<uint64_t, kCounterMax + 1> Kbf::CountHistogram() const {
  std::array<uint64_t, kCounterMax + 1> histogram{};
  WithCell(layout_.kind, [&]<class Cell>(Cell) {
    const auto* cells = reinterpret_cast<const Cell*>(cells_.data());
    for (uint64_t i = 0; i < num_cells(); ++i) ++histogram[CellFormat<Cell>::Count(cells[i])];
  });
  return histogram;
}

std::array<uint64_t, kNumHashesMax> Kbf::CellsOf(const KeyHash& key) const {
  std::array<uint64_t, kNumHashesMax> positions{};
  geometry_.CellsOf(key, positions.data());
  return positions;
}

}  // namespace kbf
