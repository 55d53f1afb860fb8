#include "storage/image/slab_image.h"

#include <algorithm>
#include <array>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

namespace kbf {

namespace {

constexpr size_t kStepBytes = 256 << 10;
constexpr unsigned kStepBuckets = 2048;
constexpr size_t kPieceBytes = 64 << 10;

struct ItemHead {
  uint64_t cas;
  uint32_t flags;
  uint32_t expires;
  uint32_t last_access;
  uint32_t value_bytes;
  uint8_t key_bytes;
  uint8_t age;
  uint16_t bits;
};
static_assert(sizeof(ItemHead) == 32);

enum ItemBits : uint16_t {
  kFetched = 1,
  kStale = 2,
  kWin = 4,
  kExplicitCas = 8,
  kBase64Key = 16,
  kKeyFormUnknown = 32,
  kAllBits = 63,
};

ItemHead HeadOf(const Item& item, uint32_t now) {
  ItemHead head{};
  head.cas = item.cas();
  head.flags = item.flags();
  head.expires = item.expires();
  head.last_access = item.last_access(now);
  head.value_bytes = item.value_bytes();
  head.key_bytes = static_cast<uint8_t>(item.key_bytes());
  head.age = static_cast<uint8_t>(item.age());
  head.bits = static_cast<uint16_t>(
      (item.fetched() ? kFetched : 0) | (item.stale() ? kStale : 0) | (item.win() ? kWin : 0) |
      (item.explicit_cas() ? kExplicitCas : 0) | (item.base64_key() ? kBase64Key : 0) |
      (item.knows_key_form() ? 0 : kKeyFormUnknown));
  return head;
}

void SetBits(const ItemHead& head, Item* item) {
  item->set_age(head.age);
  item->set_fetched((head.bits & kFetched) != 0);
  item->set_stale((head.bits & kStale) != 0);
  item->set_win((head.bits & kWin) != 0);
  item->set_explicit_cas((head.bits & kExplicitCas) != 0);
  item->set_base64_key((head.bits & kBase64Key) != 0);
  if ((head.bits & kKeyFormUnknown) != 0) item->ForgetKeyForm();
}

bool Skip(ImageReader* reader, uint64_t bytes) {
  std::array<std::byte, 4096> piece;
  for (; bytes > 0; bytes -= std::min<uint64_t>(bytes, piece.size())) {
    if (!reader->Get(std::span(piece).first(std::min<uint64_t>(bytes, piece.size())))) return false;
  }
  return true;
}

}  // namespace

// What the two below need to see of a slab.
struct SlabImage {
  static std::mutex& MutexOf(Slab& slab) { return slab.mutex_; }
  static Chain& ChainOf(Slab& slab) { return *slab.chain_; }
  static uint64_t Items(const Slab& slab) { return slab.front_.count(); }
  static uint64_t ChainKeys(const Slab& slab) {
    SlabUsage usage;
    slab.chain_->AddTo(&usage);
    return usage.chain_keys;
  }
  static uint32_t FlushAt(const Slab& slab) { return slab.flush_at_; }
  static void Advance(Slab* slab, uint32_t now) { slab->Advance(now); }

  // Up to kStepBuckets buckets, or about kStepBytes.
  static uint64_t SaveItems(Slab* slab, uint64_t position, ImageBuffer* out, ImageCounts* counts);

  static bool LoadItem(ImageReader* reader, unsigned index, Slab* slab,
                       std::vector<KeyHash>* dropped);
  static bool LoadItems(ImageReader* reader, unsigned index, Slab* slab,
                        std::vector<KeyHash>* dropped);
  static bool LoadValue(ImageReader* reader, const ItemHead& head, std::string_view key,
                        const KeyHash& hash, Slab* slab, std::vector<KeyHash>* dropped);
  static void FitIn(Slab* slab) {
    while (!slab->Fits(0) && slab->HasItsPart() && slab->EvictSome()) {
    }
  }
};

// ---- saving -------------------------------------------------------------------------------------

uint64_t SlabImage::SaveItems(Slab* slab, uint64_t position, ImageBuffer* out,
                              ImageCounts* counts) {
  for (unsigned i = 0; i < kStepBuckets && out->size() < kStepBytes; ++i) {
    position = slab->front_.VisitBuckets(position, 1, [&](Item* item) {
      // One that has expired may hide an older value in the chain, so it is saved as well.
      const ItemHead head = HeadOf(*item, slab->now_);
      out->Put(std::as_bytes(std::span(&head, 1)));
      out->Put(item->key());
      out->Put(item->value());
      counts->items += !slab->HasExpired(item->expires());
    });
    if (position == 0) break;
  }
  return position;
}

SlabSaver::~SlabSaver() {
  const std::lock_guard lock(SlabImage::MutexOf(slab_));
  chain_.reset();
}

bool SlabSaver::Step(ImageWriter* writer, uint32_t now) {
  buffer_.Clear();
  const State before = state_;
  {
    const std::lock_guard lock(SlabImage::MutexOf(slab_));
    switch (state_) {
      case State::kStart:
        SlabImage::Advance(&slab_, now);
        buffer_.Put(uint32_t{index_});
        buffer_.Put(SlabImage::FlushAt(slab_));
        state_ = State::kItems;
        break;
      case State::kItems:
        position_ = SlabImage::SaveItems(&slab_, position_, &buffer_, &counts_);
        if (position_ == 0) state_ = State::kChain;
        break;
      case State::kChain:
        if (chain_ == nullptr) {
          chain_ = SlabImage::ChainOf(slab_).NewSaver();
          counts_.keys = SlabImage::ChainKeys(slab_);
        }
        if (!chain_->Step(&buffer_)) {
          chain_.reset();
          state_ = State::kDone;
        }
        break;
      case State::kDone:
        return false;
    }
  }
  if (before == State::kStart) {
    writer->Begin(static_cast<uint16_t>(ImageSection::kItems), kItemsVersion);
  }
  writer->Put(buffer_.bytes());
  if (before == State::kItems && state_ == State::kChain) {
    writer->End();
    writer->Begin(static_cast<uint16_t>(ImageSection::kChain), kChainVersion);
  }
  if (state_ == State::kDone) writer->End();
  return state_ != State::kDone;
}

// ---- loading ------------------------------------------------------------------------------------

// The value of an item whose key was read. Not kept: it has expired, or is too large by now, and
// what the chain holds of its key is older.
bool SlabImage::LoadValue(ImageReader* reader, const ItemHead& head, std::string_view key,
                          const KeyHash& hash, Slab* slab, std::vector<KeyHash>* dropped) {
  const uint64_t counted =
      CountedItemBytes(key.size(), head.value_bytes, head.flags, slab->config_.keep_cas);
  if (counted > slab->config_.item_bytes_max || slab->HasExpired(head.expires)) {
    dropped->push_back(hash);
    return Skip(reader, head.value_bytes);
  }
  ItemPtr item = slab->front_.Create({key, head.flags, head.expires, head.value_bytes, head.cas,
                                      std::min(head.last_access, slab->now_)},
                                     hash);
  if (item == nullptr) return reader->Refuse(ImageStatus::kNoMemory);
  for (uint64_t at = 0; at < head.value_bytes; at += kPieceBytes) {
    const size_t piece = std::min<uint64_t>(kPieceBytes, head.value_bytes - at);
    if (!reader->Get(std::as_writable_bytes(std::span(item->value_data() + at, piece)))) {
      return false;
    }
  }
  // A table that changed while it was saved may have shown an item twice.
  if (Item* old = slab->front_.Find(key, hash)) slab->front_.Unlink(old, hash);
  SetBits(head, slab->front_.Link(std::move(item), hash));
  return true;
}

bool SlabImage::LoadItem(ImageReader* reader, unsigned index, Slab* slab,
                         std::vector<KeyHash>* dropped) {
  ItemHead head;
  std::array<char, kKeyBytesMax> bytes;
  if (!reader->Get(std::as_writable_bytes(std::span(&head, 1)))) return false;
  if (head.key_bytes == 0 || head.key_bytes > kKeyBytesMax || head.age > Item::kAgeMax ||
      head.value_bytes > Item::kValueBytesMax || (head.bits & ~kAllBits) != 0) {
    return reader->Refuse(ImageStatus::kImpossible);
  }
  const auto into = std::span(bytes).first(head.key_bytes);
  if (!reader->Get(std::as_writable_bytes(into))) return false;
  const std::string_view key(bytes.data(), head.key_bytes);
  const KeyHash hash = HashKey(key, slab->shared_.secret);
  if ((Stream(hash, kSlabStream) & (slab->shared_.num_slabs - 1)) != index) {
    return reader->Refuse(ImageStatus::kImpossible);
  }
  return LoadValue(reader, head, key, hash, slab, dropped);
}

bool SlabImage::LoadItems(ImageReader* reader, unsigned index, Slab* slab,
                          std::vector<KeyHash>* dropped) {
  uint32_t saved_index = 0;
  uint32_t flush_at = 0;
  if (!reader->Get(&saved_index) || !reader->Get(&flush_at)) return false;
  if (saved_index != index) return reader->Refuse(ImageStatus::kImpossible);
  while (reader->HasMore()) {
    if (!LoadItem(reader, index, slab, dropped)) return false;
  }
  slab->flush_at_ = flush_at;
  return reader->status() == ImageStatus::kOk;
}

bool LoadSlab(ImageReader* reader, unsigned index, uint32_t now, Slab* slab,
              ImageCounts* counts) try {
  std::vector<KeyHash> dropped;
  const std::lock_guard lock(SlabImage::MutexOf(*slab));
  SlabImage::Advance(slab, now);
  if (!SlabImage::LoadItems(reader, index, slab, &dropped) || !reader->Next()) {
    return reader->Refuse(ImageStatus::kCutOff);
  }
  if (reader->type() != static_cast<uint16_t>(ImageSection::kChain)) {
    return reader->Refuse(ImageStatus::kImpossible);
  }
  if (reader->version() != kChainVersion) return reader->Refuse(ImageStatus::kOtherFormat);
  if (!SlabImage::ChainOf(*slab).Load(reader)) {
    return reader->Refuse(ImageStatus::kImpossible);
  }
  for (const KeyHash& hash : dropped) SlabImage::ChainOf(*slab).Remove(hash, now);
  counts->items += SlabImage::Items(*slab);
  counts->keys += SlabImage::ChainKeys(*slab);
  // A flush that was due in the meantime.
  SlabImage::Advance(slab, now);
  SlabImage::FitIn(slab);
  return true;
} catch (const std::bad_alloc&) {
  return reader->Refuse(ImageStatus::kNoMemory);
}

}  // namespace kbf
