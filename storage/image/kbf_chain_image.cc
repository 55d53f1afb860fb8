// The section of a KbfChain: the dictionary, then the filters and the locator bit for bit, because
// keys cannot be listed. All of it is copied in one step, at the speed of memory. Neither the
// sketch of values without a code nor the keys that wait for a filter are saved.
#include <algorithm>
#include <array>
#include <memory>
#include <new>
#include <utility>

#include "storage/image/chain_saver.h"
#include "storage/image/parts.h"
#include "storage/kbf_chain.h"

namespace kbf {

namespace {

enum class Piece : uint8_t { kEnd, kColumn, kLocator, kDictionary };

// Of one code in one filter.
constexpr uint32_t kEntriesMax = uint32_t{1} << 24;

void SaveHash(const KeyHash& hash, ImageBuffer* out) {
  out->Put(hash.lo);
  out->Put(hash.hi);
}

}  // namespace

// What the two below need to see of a chain.
struct KbfChainImage {
  using Column = KbfChain::Column;
  static constexpr unsigned kColumns = Locator::kColumnsMax;

  static void SaveColumn(const KbfChain& chain, unsigned index, ImageBuffer* out);
  static void SaveEnd(const KbfChain& chain, ImageBuffer* out);

  static bool LoadColumn(ImageReader* reader, KbfChain* chain);
  static bool LoadCodes(ImageReader* reader, Column* column, Dictionary* dictionary);
  static bool LoadTombstones(ImageReader* reader, Column* column);
  static bool MakeFilter(ImageReader* reader, KbfChain* chain, Column* column);
  static bool LoadLocator(ImageReader* reader, KbfChain* chain);
  static bool LoadDictionary(ImageReader* reader, KbfChain* chain);
  static bool LoadEnd(ImageReader* reader, KbfChain* chain);

  static void Save(const KbfChain& chain, ImageBuffer* out);
};

// ---- saving -------------------------------------------------------------------------------------

void KbfChainImage::SaveColumn(const KbfChain& chain, unsigned index, ImageBuffer* out) {
  const Column& column = chain.columns_[index];
  // Until a JOIN is finished, its target may hold bits of the other column.
  const bool is_target = chain.join_ && chain.join_->to == index;
  const uint64_t more = is_target ? chain.columns_[chain.join_->from].added : 0;
  out->Put(static_cast<uint8_t>(Piece::kColumn));
  out->Put(static_cast<uint8_t>(index));
  out->Put(column.deadline);
  out->Put(column.sequence);
  out->Put(column.first);
  out->Put(column.last);
  out->Put(column.added + more);
  out->Put(column.last_insert);
  uint32_t codes = 0;
  column.codes.ForEach([&codes](uint32_t, uint32_t) { ++codes; });
  out->Put(codes);
  column.codes.ForEach([out](uint32_t code, uint32_t entries) {
    out->Put(code);
    out->Put(entries);
  });
  out->Put(column.tombstones.size());
  column.tombstones.ForEach([out](const KeyHash& key) { SaveHash(key, out); });
  column.filter->Save(out);
}

void KbfChainImage::SaveEnd(const KbfChain& chain, ImageBuffer* out) {
  out->Put(static_cast<uint8_t>(Piece::kEnd));
  out->Put(chain.next_sequence_);
  out->Put(chain.counters_.inserted);
}

void KbfChainImage::Save(const KbfChain& chain, ImageBuffer* out) {
  out->Put(static_cast<uint8_t>(Piece::kDictionary));
  ImageParts::Save(chain.dictionary_, out);
  for (unsigned i = 0; i < kColumns; ++i) {
    if ((chain.live_ >> i & 1) != 0) SaveColumn(chain, i, out);
  }
  if (chain.locator_) {
    const unsigned columns = chain.locator_->columns_ready();
    out->Put(static_cast<uint8_t>(Piece::kLocator));
    out->Put(uint32_t{columns});
    out->Put(chain.locator_->num_blocks());
    ImageParts::SaveBlocks(*chain.locator_, 0, chain.locator_->num_blocks(), columns, out);
  }
  SaveEnd(chain, out);
}

class KbfChainSaver final : public ChainSaver {
 public:
  explicit KbfChainSaver(const KbfChain& chain) : chain_(chain) {}
  bool Step(ImageBuffer* out) override {
    KbfChainImage::Save(chain_, out);
    return false;
  }

 private:
  const KbfChain& chain_;
};

std::unique_ptr<ChainSaver> KbfChain::NewSaver() { return std::make_unique<KbfChainSaver>(*this); }

// ---- loading ------------------------------------------------------------------------------------

bool KbfChainImage::LoadCodes(ImageReader* reader, Column* column, Dictionary* dictionary) {
  uint32_t codes = 0;
  if (!reader->Get(&codes)) return false;
  uint32_t next = 0;
  for (uint32_t i = 0; i < codes; ++i) {
    uint32_t code = 0;
    uint32_t entries = 0;
    if (!reader->Get(&code) || !reader->Get(&entries)) return false;
    // Ascending, so that none comes twice.
    if (code < next || entries == 0 || entries > kEntriesMax ||
        !ImageParts::HasCode(*dictionary, code)) {
      return reader->Refuse(ImageStatus::kImpossible);
    }
    next = code + 1;
    column->codes.Add(code, entries);
    ImageParts::AddEntries(dictionary, code, entries);
  }
  return true;
}

bool KbfChainImage::LoadTombstones(ImageReader* reader, Column* column) {
  uint64_t tombstones = 0;
  if (!reader->Get(&tombstones)) return false;
  for (uint64_t i = 0; i < tombstones; ++i) {
    KeyHash key;
    if (!reader->Get(&key.lo) || !reader->Get(&key.hi)) return false;
    column->tombstones.Add(key);
  }
  return column->tombstones.size() == tombstones || reader->Refuse(ImageStatus::kImpossible);
}

bool KbfChainImage::MakeFilter(ImageReader* reader, KbfChain* chain, Column* column) {
  uint32_t check_bits = 0;
  if (!reader->Get(&check_bits)) return false;
  const FilterMakers& makers = chain->makers_;
  if (check_bits < makers.check_bits_min() || check_bits > makers.layout().check_bits) {
    return reader->Refuse(ImageStatus::kImpossible);
  }
  column->filter = makers.For(check_bits).Make();
  return column->filter != nullptr || reader->Refuse(ImageStatus::kNoMemory);
}

bool KbfChainImage::LoadColumn(ImageReader* reader, KbfChain* chain) {
  uint8_t index = 0;
  if (!reader->Get(&index)) return false;
  if (index >= KbfChain::kFiltersMax || chain->columns_[index].state != Column::State::kFree) {
    return reader->Refuse(ImageStatus::kImpossible);
  }
  Column& column = chain->columns_[index];
  if (!reader->Get(&column.deadline) || !reader->Get(&column.sequence) ||
      !reader->Get(&column.first) || !reader->Get(&column.last) || !reader->Get(&column.added) ||
      !reader->Get(&column.last_insert) || !LoadCodes(reader, &column, &chain->dictionary_) ||
      !LoadTombstones(reader, &column) || !MakeFilter(reader, chain, &column) ||
      !column.filter->Load(reader)) {
    return false;
  }
  column.state = Column::State::kLive;
  chain->cells_bytes_ += column.filter->memory_bytes();
  chain->sets_bytes_ += column.codes.memory_bytes() + column.tombstones.memory_bytes();
  return true;
}

bool KbfChainImage::LoadLocator(ImageReader* reader, KbfChain* chain) {
  uint32_t columns = 0;
  uint64_t blocks = 0;
  if (!reader->Get(&columns) || !reader->Get(&blocks)) return false;
  const bool possible = columns == 8 || columns == 16 || columns == 32 || columns == 64;
  if (!possible || chain->locator_) return reader->Refuse(ImageStatus::kImpossible);
  chain->locator_ = Locator::Create({chain->makers_.filter_keys(), KbfChain::kLocatorBits});
  if (!chain->locator_) return reader->Refuse(ImageStatus::kNoMemory);
  if (blocks != chain->locator_->num_blocks()) return reader->Refuse(ImageStatus::kImpossible);
  return ImageParts::Load(reader, columns, &*chain->locator_);
}

bool KbfChainImage::LoadEnd(ImageReader* reader, KbfChain* chain) {
  if (!reader->Get(&chain->next_sequence_) || !reader->Get(&chain->counters_.inserted)) {
    return false;
  }
  for (unsigned i = 0; i < kColumns; ++i) {
    Column& column = chain->columns_[i];
    const bool ready = chain->locator_ && i < chain->locator_->columns_ready();
    if (column.state != Column::State::kLive) {
      // Its bits in the locator may not have been cleared.
      if (ready) column.state = Column::State::kClearing;
      continue;
    }
    if (!ready || column.first > column.last || column.last > chain->counters_.inserted ||
        column.sequence >= chain->next_sequence_) {
      return reader->Refuse(ImageStatus::kImpossible);
    }
  }
  chain->RefreshOrder();
  return true;
}

bool KbfChainImage::LoadDictionary(ImageReader* reader, KbfChain* chain) {
  if (chain->dictionary_.num_values() > 0) return reader->Refuse(ImageStatus::kImpossible);
  return ImageParts::Load(reader, &chain->dictionary_);
}

bool KbfChain::Load(ImageReader* reader) try {
  for (;;) {
    uint8_t piece = 0;
    if (!reader->Get(&piece)) return false;
    switch (static_cast<Piece>(piece)) {
      case Piece::kColumn:
        if (!KbfChainImage::LoadColumn(reader, this)) return false;
        break;
      case Piece::kLocator:
        if (!KbfChainImage::LoadLocator(reader, this)) return false;
        break;
      case Piece::kDictionary:
        if (!KbfChainImage::LoadDictionary(reader, this)) return false;
        break;
      case Piece::kEnd:
        return KbfChainImage::LoadEnd(reader, this);
      default:
        return reader->Refuse(ImageStatus::kImpossible);
    }
  }
} catch (const std::bad_alloc&) {
  return reader->Refuse(ImageStatus::kNoMemory);
}

}  // namespace kbf
