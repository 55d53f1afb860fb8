#include "storage/image/parts.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include "storage/kbf_query.h"
#include "storage/layout.h"

namespace kbf {

namespace {

// Values are read in pieces, so that a length without bytes behind it takes no memory.
constexpr size_t kPieceBytes = 64 << 10;

bool ReadText(ImageReader* reader, uint64_t bytes, std::string* text) {
  text->clear();
  while (text->size() < bytes) {
    const size_t piece = std::min<uint64_t>(kPieceBytes, bytes - text->size());
    text->resize(text->size() + piece);
    const std::span<char> into(text->data() + text->size() - piece, piece);
    if (!reader->Get(std::as_writable_bytes(into))) return false;
  }
  return true;
}

// Calls `work` with the cells as their type.
template <class Work>
bool AllCells(const std::byte* cells, uint64_t count, CellKind kind, Work work) {
  const auto all = [&]<class Cell>(const Cell* typed) {
    return std::all_of(typed, typed + count, [&](Cell cell) {
      return work(CellFormat<Cell>::Count(cell), CellFormat<Cell>::Word(cell));
    });
  };
  return CellBytes(kind) == sizeof(uint32_t) ? all(reinterpret_cast<const uint32_t*>(cells))
                                             : all(reinterpret_cast<const uint64_t*>(cells));
}

}  // namespace

// ---- filters ------------------------------------------------------------------------------------

void ImageParts::Save(const Kbf& filter, ImageBuffer* out) {
  out->Put(uint32_t{filter.layout_.check_bits});
  out->Put(uint32_t{filter.geometry_.folds});
  out->Put(filter.capacity_);
  out->Put(filter.size_);
  out->Put(filter.num_cells());
  out->Put(std::span(filter.cells_.data(), filter.num_cells() * CellBytes(filter.layout_.kind)));
}

bool ImageParts::Load(ImageReader* reader, Kbf* filter) {
  uint32_t folds = 0;
  uint64_t capacity = 0;
  uint64_t size = 0;
  uint64_t num_cells = 0;
  if (!reader->Get(&folds) || !reader->Get(&capacity) || !reader->Get(&size) ||
      !reader->Get(&num_cells)) {
    return false;
  }
  if (folds > filter->geometry_.folds) return reader->Refuse(ImageStatus::kImpossible);
  while (filter->geometry_.folds > folds) {
    if (filter->Compress() != KbfStatus::kOk) return reader->Refuse(ImageStatus::kNoMemory);
  }
  if (capacity != filter->capacity_ || num_cells != filter->num_cells() || size > kCapacityMax) {
    return reader->Refuse(ImageStatus::kImpossible);
  }
  const CellKind kind = filter->layout_.kind;
  if (!reader->Get(std::span(filter->cells_.data(), num_cells * CellBytes(kind)))) return false;
  // A word that no encodings add up to could decode to symbols that do not exist.
  const unsigned word_bits = Decodable(kind) * filter->layout_.symbol_bits;
  const bool possible =
      AllCells(filter->cells_.data(), num_cells, kind, [&](unsigned count, uint64_t word) {
        return word >> word_bits == 0 && (count > 0 || word == 0);
      });
  filter->size_ = size;
  return possible || reader->Refuse(ImageStatus::kImpossible);
}

// ---- locator ------------------------------------------------------------------------------------

namespace {

template <class From, class To>
void Narrow(const std::byte* from, uint64_t slots, std::byte* to) {
  for (uint64_t i = 0; i < slots; ++i) {
    From wide;
    std::memcpy(&wide, from + i * sizeof(From), sizeof wide);
    const auto narrow = static_cast<To>(wide);
    std::memcpy(to + i * sizeof(To), &narrow, sizeof narrow);
  }
}

template <class To>
void NarrowFrom(unsigned columns, const std::byte* from, uint64_t slots, std::byte* to) {
  switch (columns) {
    case 8:
      return Narrow<uint8_t, To>(from, slots, to);
    case 16:
      return Narrow<uint16_t, To>(from, slots, to);
    case 32:
      return Narrow<uint32_t, To>(from, slots, to);
    default:
      return Narrow<uint64_t, To>(from, slots, to);
  }
}

}  // namespace

void ImageParts::SaveBlocks(const Locator& locator, uint64_t begin, uint64_t end, unsigned columns,
                            ImageBuffer* out) {
  while (begin < end) {
    const Locator::Table& table = locator.TableOf(begin);
    // One table at a time, while the locator grows.
    const uint64_t part_end = begin < locator.moved_ ? std::min(end, locator.moved_) : end;
    const uint64_t slots = (part_end - begin) * Locator::kSlots;
    std::byte* const to = out->Extend(slots * columns / 8);
    const std::byte* const from = table.Block(begin);
    switch (columns) {
      case 8:
        NarrowFrom<uint8_t>(table.columns, from, slots, to);
        break;
      case 16:
        NarrowFrom<uint16_t>(table.columns, from, slots, to);
        break;
      case 32:
        NarrowFrom<uint32_t>(table.columns, from, slots, to);
        break;
      default:
        NarrowFrom<uint64_t>(table.columns, from, slots, to);
    }
    begin = part_end;
  }
}

bool ImageParts::Load(ImageReader* reader, unsigned columns, Locator* locator) {
  if (columns != locator->now_.columns) {
    auto table = Locator::MakeTable(locator->num_blocks_, columns);
    if (!table) return reader->Refuse(ImageStatus::kNoMemory);
    locator->now_ = std::move(*table);
  }
  Locator::Table& table = locator->now_;
  return reader->Get(std::span(table.cells.data(), locator->num_blocks_ * table.block_bytes()));
}

// ---- symbol blocks ------------------------------------------------------------------------------

// Allocates this very block. False: it is not free, or no block looks like this.
bool ImageParts::Take(SymbolBlocks* blocks, const SymbolBlock& block) {
  const uint64_t end = uint64_t{1} << blocks->symbol_bits_;
  if (block.check_bits < blocks->check_bits_min_ || block.check_bits >= blocks->symbol_bits_ ||
      block.first >= end || block.first >> block.check_bits << block.check_bits != block.first) {
    return false;
  }
  // The free block that holds it, if there is one, is halved until this one is left.
  unsigned bits = block.check_bits;
  while (bits < blocks->symbol_bits_ && !blocks->TakeIfFree(block.first >> bits << bits, bits)) {
    ++bits;
  }
  if (bits == blocks->symbol_bits_) return false;
  while (bits > block.check_bits) {
    --bits;
    // The half that does not hold it stays free.
    blocks->MarkFree((block.first >> bits ^ 1) << bits, bits);
  }
  const uint32_t units = 1u << (block.check_bits - blocks->check_bits_min_);
  const auto begin = blocks->units_.begin() + (block.first >> blocks->check_bits_min_);
  SymbolBlocks::Unit unit;
  unit.value = block.value & SymbolBlocks::kNoValue;
  unit.check_bits = block.check_bits & 31;
  std::fill(begin, begin + units, unit);
  blocks->free_units_ -= units;
  return true;
}

// ---- dictionary ---------------------------------------------------------------------------------

struct ImageParts::SavedValue {
  struct Code {
    uint32_t number = 0;
    uint32_t first = 0;
    uint32_t check_bits = 0;
  };
  std::string bytes;
  uint32_t flags = 0;
  uint32_t current = 0;
  std::vector<Code> codes;
};

void ImageParts::Save(const Dictionary& dictionary, ImageBuffer* out) {
  std::vector<std::vector<uint32_t>> codes(dictionary.values_.size());  // by id
  for (uint32_t code = 0; code < dictionary.codes_.size(); ++code) {
    const uint32_t id = dictionary.codes_[code].value;
    if (id != Dictionary::kNone) codes[id].push_back(code);
  }
  out->Put(uint32_t{dictionary.blocks_.check_bits_min()});
  out->Put(dictionary.num_values_);
  for (uint32_t id = 0; id < dictionary.values_.size(); ++id) {
    const Dictionary::Value& value = dictionary.values_[id];
    if (value.blob == nullptr) continue;
    out->Put(value.blob->bytes);
    out->Put(value.blob->view());
    out->Put(value.blob->flags);
    out->Put(uint32_t{value.current});
    out->Put(static_cast<uint32_t>(codes[id].size()));
    for (const uint32_t code : codes[id]) {
      const SymbolBlock block = dictionary.BlockOf(code);
      out->Put(code);
      out->Put(block.first);
      out->Put(uint32_t{block.check_bits});
    }
  }
}

bool ImageParts::ReadValue(ImageReader* reader, const Dictionary& dictionary, SavedValue* value) {
  uint32_t bytes = 0;
  uint32_t num_codes = 0;
  if (!reader->Get(&bytes)) return false;
  if (bytes > BlobPool::kValueBytesMax) return reader->Refuse(ImageStatus::kImpossible);
  if (!ReadText(reader, bytes, &value->bytes) || !reader->Get(&value->flags) ||
      !reader->Get(&value->current) || !reader->Get(&num_codes)) {
    return false;
  }
  if (num_codes == 0 || num_codes > Dictionary::kCodesPerValueMax) {
    return reader->Refuse(ImageStatus::kImpossible);
  }
  value->codes.resize(num_codes);
  bool has_current = false;
  for (SavedValue::Code& code : value->codes) {
    if (!reader->Get(&code.number) || !reader->Get(&code.first) || !reader->Get(&code.check_bits)) {
      return false;
    }
    if (code.number >= dictionary.num_units()) return reader->Refuse(ImageStatus::kImpossible);
    has_current = has_current || code.number == value->current;
  }
  return has_current || reader->Refuse(ImageStatus::kImpossible);
}

bool ImageParts::AddCode(uint32_t number, const SymbolBlock& block, uint32_t id,
                         Dictionary* dictionary) {
  if (HasCode(*dictionary, number) || !Take(&dictionary->blocks_, block)) return false;
  if (number >= dictionary->codes_.size()) dictionary->codes_.resize(number + 1);
  dictionary->codes_[number] = {id, block.first};
  ++dictionary->num_codes_;
  return true;
}

bool ImageParts::AddValue(ImageReader* reader, const SavedValue& value, Dictionary* dictionary) {
  const uint64_t hash = dictionary->HashOf(value.bytes, value.flags);
  if (dictionary->FindId(value.bytes, value.flags, hash) != Dictionary::kNone) {
    return reader->Refuse(ImageStatus::kImpossible);
  }
  dictionary->index_.Reserve();
  dictionary->values_.emplace_back();
  Blob* const blob = dictionary->pool_.Intern(value.bytes, value.flags, hash);
  if (blob == nullptr) return reader->Refuse(ImageStatus::kNoMemory);
  const auto id = static_cast<uint32_t>(dictionary->values_.size() - 1);
  Dictionary::Value& added = dictionary->values_.back();
  added.blob = blob;
  added.current = value.current & Dictionary::kNoCode;
  added.num_codes = static_cast<uint32_t>(value.codes.size()) & 63;
  ++dictionary->num_values_;
  dictionary->index_.Add(hash, id);
  for (const SavedValue::Code& code : value.codes) {
    if (!AddCode(code.number, {code.first, code.check_bits, code.number}, id, dictionary)) {
      return reader->Refuse(ImageStatus::kImpossible);
    }
  }
  return true;
}

void ImageParts::AddEntries(Dictionary* dictionary, uint32_t code, uint32_t entries) {
  Dictionary::CodeEntry& entry = dictionary->codes_[code];
  entry.entries += entries;
  dictionary->values_[entry.value].entries += entries;
  dictionary->num_entries_ += entries;
  dictionary->match_ += entries * dictionary->MatchOf(code);
}

// Numbers below the largest that no value has.
void ImageParts::LinkFreeCodes(Dictionary* dictionary) {
  for (auto code = static_cast<uint32_t>(dictionary->codes_.size()); code-- > 0;) {
    if (dictionary->codes_[code].value != Dictionary::kNone) continue;
    dictionary->codes_[code].first = dictionary->free_code_;
    dictionary->free_code_ = code;
  }
}

bool ImageParts::Load(ImageReader* reader, Dictionary* dictionary) {
  uint32_t check_bits_min = 0;
  uint32_t count = 0;
  if (!reader->Get(&check_bits_min) || !reader->Get(&count)) return false;
  if (check_bits_min < dictionary->config_.check_bits_min ||
      check_bits_min > dictionary->blocks_.check_bits_min()) {
    return reader->Refuse(ImageStatus::kImpossible);
  }
  while (dictionary->blocks_.check_bits_min() > check_bits_min) dictionary->blocks_.Refine();
  SavedValue value;
  for (uint32_t i = 0; i < count; ++i) {
    if (!ReadValue(reader, *dictionary, &value) || !AddValue(reader, value, dictionary)) {
      return false;
    }
  }
  LinkFreeCodes(dictionary);
  return true;
}

}  // namespace kbf
