// The section of a PackedChain: the values that its slots refer to, with their numbers, the
// windows, the tombstones, and the table in its flat form. Numbers are the store's, so that a
// loaded table gets those of the store that loads it. All of it is copied in the first step, at the
// speed of memory.
#include <algorithm>
#include <array>
#include <memory>
#include <new>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "storage/frequency_sketch.h"
#include "storage/image/chain_saver.h"
#include "storage/image/image.h"
#include "storage/packed/packed_chain.h"

namespace kbf {

namespace {

constexpr size_t kPieceBytes = 256 << 10;
// A value that the registry refuses so often has no room there.
constexpr uint32_t kTriesMax = FrequencySketch::kCountMax + 1;

// So many bytes of an image, read in pieces, so that a length without bytes behind it takes no
// memory.
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

}  // namespace

// What saving and loading need to see of a chain.
struct PackedChainImage {
  using Window = PackedChain::Window;
  using Windows = std::vector<Window>;

  static std::string Flat(const PackedChain& chain);
  static void SaveValues(const PackedChain& chain, ImageBuffer* out);
  static void SaveWindows(const Windows& windows, ImageBuffer* out);
  static void SaveState(const PackedChain& chain, ImageBuffer* out);

  // Old numbers to new ones; those without one have found no room.
  using Numbers = std::unordered_map<uint32_t, uint32_t>;
  static bool LoadValues(ImageReader* reader, PackedChain* chain, Numbers* numbers);
  static bool LoadWindows(ImageReader* reader, Windows* windows, PackedChain* chain);
  static bool LoadState(ImageReader* reader, PackedChain* chain);
  static bool LoadTable(ImageReader* reader, const Numbers& numbers, PackedChain* chain);
  static bool WindowsFit(const PackedChain& chain);
};

// ---- saving -------------------------------------------------------------------------------------

std::string PackedChainImage::Flat(const PackedChain& chain) {
  std::string flat;
  if (chain.table_) chain.table_->AppendTo(&flat);
  return flat;
}

void PackedChainImage::SaveValues(const PackedChain& chain, ImageBuffer* out) {
  std::vector<bool> seen;
  std::vector<uint32_t> numbers;
  if (chain.table_) {
    chain.table_->VisitNumbers([&](uint32_t number) {
      if (number >= seen.size()) seen.resize(size_t{number} + 1);
      if (!seen[number]) numbers.push_back(number);
      seen[number] = true;
    });
  }
  out->Put(static_cast<uint32_t>(numbers.size()));
  for (const uint32_t number : numbers) {
    const ChainValue value = chain.ValueOf(number);
    out->Put(number);
    out->Put(value.flags);
    out->Put(static_cast<uint32_t>(value.bytes.size()));
    out->Put(value.bytes);
  }
}

void PackedChainImage::SaveWindows(const Windows& windows, ImageBuffer* out) {
  out->Put(static_cast<uint32_t>(windows.size()));
  for (const Window& window : windows) {
    out->Put(window.tag);
    out->Put(window.deadline);
    out->Put(window.sequence);
    out->Put(window.first);
    out->Put(window.last);
    out->Put(window.added);
  }
}

void PackedChainImage::SaveState(const PackedChain& chain, ImageBuffer* out) {
  out->Put(chain.next_sequence_);
  out->Put(chain.counters_.inserted);
  SaveWindows(chain.windows_, out);
  SaveWindows(chain.offered_, out);
  out->Put(chain.hidden_.size());
  chain.hidden_.ForEach([out](const KeyHash& key) {
    out->Put(key.lo);
    out->Put(key.hi);
  });
}

class PackedChainSaver final : public ChainSaver {
 public:
  explicit PackedChainSaver(const PackedChain& chain) : chain_(chain) {}

  bool Step(ImageBuffer* out) override {
    if (!begun_) {
      begun_ = true;
      flat_ = PackedChainImage::Flat(chain_);
      PackedChainImage::SaveValues(chain_, out);
      PackedChainImage::SaveState(chain_, out);
      out->Put(uint64_t{flat_.size()});
      return true;
    }
    const auto piece = std::string_view(flat_).substr(written_, kPieceBytes);
    out->Put(piece);
    written_ += piece.size();
    return written_ < flat_.size();
  }

 private:
  const PackedChain& chain_;
  bool begun_ = false;
  std::string flat_;
  size_t written_ = 0;
};

std::unique_ptr<ChainSaver> PackedChain::NewSaver() {
  return std::make_unique<PackedChainSaver>(*this);
}

// ---- loading ------------------------------------------------------------------------------------

bool PackedChainImage::LoadValues(ImageReader* reader, PackedChain* chain, Numbers* numbers) {
  uint32_t count = 0;
  if (!reader->Get(&count)) return false;
  std::string bytes;
  for (uint32_t i = 0; i < count; ++i) {
    uint32_t number = 0;
    uint32_t flags = 0;
    uint32_t length = 0;
    if (!reader->Get(&number) || !reader->Get(&flags) || !reader->Get(&length)) return false;
    if (length > BlobPool::kValueBytesMax) return reader->Refuse(ImageStatus::kImpossible);
    if (!ReadText(reader, length, &bytes)) return false;
    // It counts occurrences, and every key of the old chain was one.
    std::optional<uint32_t> fresh;
    for (uint32_t tries = 0; !fresh && tries < kTriesMax; ++tries) {
      fresh = chain->Number({.value = bytes, .flags = flags});
    }
    if (fresh) numbers->emplace(number, *fresh);
  }
  return true;
}

bool PackedChainImage::LoadWindows(ImageReader* reader, Windows* windows, PackedChain* chain) {
  uint32_t count = 0;
  if (!reader->Get(&count)) return false;
  if (count > chain->parts_.layout.NumWindows()) return reader->Refuse(ImageStatus::kImpossible);
  for (uint32_t i = 0; i < count; ++i) {
    Window window;
    if (!reader->Get(&window.tag) || !reader->Get(&window.deadline) ||
        !reader->Get(&window.sequence) || !reader->Get(&window.first) ||
        !reader->Get(&window.last) || !reader->Get(&window.added)) {
      return false;
    }
    if (window.tag == 0 || window.tag >= chain->parts_.layout.NumWindows() ||
        window.sequence >= chain->next_sequence_ || window.first > window.last ||
        window.last > chain->counters_.inserted) {
      return reader->Refuse(ImageStatus::kImpossible);
    }
    chain->deadlines_[window.tag] = window.deadline;
    if (window.deadline != 0 &&
        (chain->next_deadline_ == 0 || window.deadline < chain->next_deadline_)) {
      chain->next_deadline_ = window.deadline;
    }
    windows->push_back(window);
  }
  return true;
}

bool PackedChainImage::LoadState(ImageReader* reader, PackedChain* chain) {
  uint64_t hidden = 0;
  if (!reader->Get(&chain->next_sequence_) || !reader->Get(&chain->counters_.inserted) ||
      !LoadWindows(reader, &chain->windows_, chain) ||
      !LoadWindows(reader, &chain->offered_, chain) || !reader->Get(&hidden)) {
    return false;
  }
  for (uint64_t i = 0; i < hidden; ++i) {
    KeyHash key;
    if (!reader->Get(&key.lo) || !reader->Get(&key.hi)) return false;
    chain->hidden_.Add(key);
  }
  return true;
}

// Every tag that entries may have is that of one window, with the use that the table says.
bool PackedChainImage::WindowsFit(const PackedChain& chain) {
  std::array<WindowUse, kWindowsMax> use{};
  for (const auto& [windows, as] : {std::pair(&chain.windows_, WindowUse::kHeld),
                                    std::pair(&chain.offered_, WindowUse::kOffered)}) {
    for (const Window& window : *windows) {
      if (use[window.tag] != WindowUse::kUnused) return false;
      use[window.tag] = as;
    }
  }
  for (uint32_t tag = 0; tag < chain.parts_.layout.NumWindows(); ++tag) {
    const bool own = !chain.table_ || chain.table_->ResolveWindow(tag) == tag;
    const WindowUse saved = chain.table_ ? chain.table_->UseOf(tag) : WindowUse::kUnused;
    if (own ? use[tag] != saved : use[tag] != WindowUse::kUnused) return false;
  }
  return true;
}

bool PackedChainImage::LoadTable(ImageReader* reader, const Numbers& numbers, PackedChain* chain) {
  uint64_t bytes = 0;
  std::string flat;
  if (!reader->Get(&bytes) || !ReadText(reader, bytes, &flat)) return false;
  if (!flat.empty()) {
    chain->table_ = PackedTable::ReadFrom(std::as_bytes(std::span(flat)), chain->parts_.lines_max);
    if (!chain->table_ || chain->table_->layout() != chain->parts_.layout) {
      return reader->Refuse(ImageStatus::kImpossible);
    }
    chain->table_->Translate([&](uint32_t number) -> std::optional<uint32_t> {
      const auto found = numbers.find(number);
      return found != numbers.end() ? std::optional(found->second) : std::nullopt;
    });
  }
  if (!WindowsFit(*chain)) return reader->Refuse(ImageStatus::kImpossible);
  for (const Window& window : chain->offered_) chain->old_[window.tag] = true;
  chain->peak_ = chain->table_ ? chain->table_->size() : 0;
  chain->RefreshOrder();
  return true;
}

bool PackedChain::Load(ImageReader* reader) try {
  PackedChainImage::Numbers numbers;
  return PackedChainImage::LoadValues(reader, this, &numbers) &&
         PackedChainImage::LoadState(reader, this) &&
         PackedChainImage::LoadTable(reader, numbers, this);
} catch (const std::bad_alloc&) {
  return reader->Refuse(ImageStatus::kNoMemory);
}

}  // namespace kbf
