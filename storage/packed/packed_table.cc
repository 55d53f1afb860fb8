#include "storage/packed/packed_table.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <new>

namespace kbf {

namespace {

uint32_t RoundUp(uint64_t value, uint64_t to) {
  return static_cast<uint32_t>((value + to - 1) / to * to);
}

}  // namespace

// ---- construction -------------------------------------------------------------------------------

std::optional<PackedTable> PackedTable::Create(const PackedTableConfig& config) {
  assert(IsValid(config.layout));
  const uint64_t wanted = std::max<uint64_t>(config.lines_max, kPageLines);
  uint64_t segments = config.segments;
  if (segments == 0) segments = (wanted + kSegmentLinesMax - 1) / kSegmentLinesMax;
  // More lines than addresses would be of no use.
  const uint64_t most =
      std::min<uint64_t>((wanted + segments - 1) / segments, uint64_t{1} << (kAddressBits - 1));
  const uint32_t lines_max = RoundUp(most, kPageLines);
  auto arena =
      LineArena::Create(static_cast<uint32_t>(segments) + 1, uint64_t{lines_max} * kLineBytes);
  if (!arena) return std::nullopt;
  try {
    return PackedTable(config.layout, static_cast<uint32_t>(segments), lines_max,
                       std::move(*arena));
  } catch (const std::bad_alloc&) {
    return std::nullopt;
  }
}

PackedTable::PackedTable(const PackedLayout& layout, uint32_t segments, uint32_t lines_max,
                         LineArena arena)
    : layout_(layout),
      kernel_(FastestLineKernel()),
      lines_max_(lines_max),
      arena_(std::move(arena)),
      spare_(segments),
      segments_(segments) {
  for (uint32_t i = 0; i < segments; ++i) segments_[i].place = i;
  for (uint32_t tag = 0; tag < kWindowsMax; ++tag) {
    merged_into_[tag] = static_cast<uint16_t>(tag);
  }
}

// ---- look-ups -----------------------------------------------------------------------------------

uint32_t PackedTable::SegmentOf(const KeyHash& key) const {
  return static_cast<uint32_t>(ScaleTo(Stream(key, kSegmentStream), segments_.size()));
}

PackedTable::Address PackedTable::AddressOf(const KeyHash& key) const {
  const uint64_t word = Stream(key, kSegmentStream);
  Address address;
  address.segment = static_cast<uint32_t>(ScaleTo(word, segments_.size()));
  address.fingerprint.address = static_cast<uint32_t>(word & ((uint64_t{1} << kAddressBits) - 1));
  address.fingerprint.tail = Stream(key, kTailStream) >> (64 - layout_.tail_bits);
  return address;
}

void PackedTable::Prefetch(const KeyHash& key) const {
  const Address address = AddressOf(key);
  const Segment& segment = segments_[address.segment];
  if (segment.lines == 0) return;
  const PackedLines lines = LinesAt(segment);
  lines.Prefetch(lines.HomeOf(address.fingerprint));
}

std::optional<PackedTable::Found> PackedTable::FindAt(const PackedLines& lines,
                                                      const PackedLines::Home& home) const {
  const auto slot = lines.Find(home, use_.data());
  if (!slot) return std::nullopt;
  return Found{merged_into_[lines.WindowOf(*slot)], lines.NumberOf(*slot)};
}

std::optional<PackedTable::Found> PackedTable::Find(const KeyHash& key) const {
  const Address address = AddressOf(key);
  const Segment& segment = segments_[address.segment];
  if (segment.lines == 0) return std::nullopt;
  const PackedLines lines = LinesAt(segment);
  return FindAt(lines, lines.HomeOf(address.fingerprint));
}

void PackedTable::FindMany(std::span<const KeyHash> keys, std::optional<Found>* answers) const {
  constexpr size_t kBatch = 16;
  struct Asked {
    const Segment* segment;
    PackedLines::Home home;
  };
  std::array<Asked, kBatch> batch;
  while (!keys.empty()) {
    const size_t count = std::min(keys.size(), kBatch);
    for (size_t i = 0; i < count; ++i) {
      const Address address = AddressOf(keys[i]);
      batch[i].segment = &segments_[address.segment];
      if (batch[i].segment->lines == 0) continue;
      const PackedLines lines = LinesAt(*batch[i].segment);
      batch[i].home = lines.HomeOf(address.fingerprint);
      lines.Prefetch(batch[i].home);
    }
    for (size_t i = 0; i < count; ++i) {
      answers[i] = batch[i].segment->lines == 0 ? std::nullopt
                                                : FindAt(LinesAt(*batch[i].segment), batch[i].home);
    }
    keys = keys.subspan(count);
    answers += count;
  }
}

// ---- changes ------------------------------------------------------------------------------------

uint64_t& PackedTable::SizeWith(WindowUse use) {
  switch (use) {
    case WindowUse::kHeld:
      return held_;
    case WindowUse::kOffered:
      return offered_;
    case WindowUse::kUnused:
      break;
  }
  return closed_;
}

void PackedTable::CountEntry(uint32_t window) {
  ++count_[window];
  ++SizeWith(use_[window]);
}

void PackedTable::UncountEntry(uint32_t window) {
  if (window == 0) return;
  --count_[window];
  --SizeWith(use_[window]);
  // A closed or merged window without slots. Others keep their tag until they are closed.
  if (count_[window] == 0 &&
      (use_[window] == WindowUse::kUnused || merged_into_[window] != window)) {
    SetUse(window, WindowUse::kUnused);
    taken_[window] = false;
    merged_into_[window] = static_cast<uint16_t>(window);
  }
}

PackedTable::Insertion PackedTable::InsertAt(Segment& segment, const PackedFingerprint& fingerprint,
                                             uint32_t window, uint32_t number) {
  if (segment.lines == 0) return Insertion::kFull;
  PackedLines lines = LinesAt(segment);
  const PackedLines::Home home = lines.HomeOf(fingerprint);
  if (lines.Find(home, use_.data())) return Insertion::kExists;
  const auto placed = lines.Place(home, window, number, use_.data(), rank_.data());
  if (!placed) return Insertion::kFull;
  UncountEntry(placed->replaced);
  CountEntry(window);
  return Insertion::kDone;
}

PackedTable::Insertion PackedTable::Insert(const KeyHash& key, uint32_t window, uint32_t number) {
  assert(use_[window] == WindowUse::kHeld && number >> layout_.number_bits == 0);
  const Address address = AddressOf(key);
  return InsertAt(segments_[address.segment], address.fingerprint, window, number);
}

bool PackedTable::Update(const KeyHash& key, uint32_t window, uint32_t number) {
  assert(use_[window] == WindowUse::kHeld && number >> layout_.number_bits == 0);
  const Address address = AddressOf(key);
  const Segment& segment = segments_[address.segment];
  if (segment.lines == 0) return false;
  PackedLines lines = LinesAt(segment);
  const auto slot = lines.Find(lines.HomeOf(address.fingerprint), use_.data());
  if (!slot) return false;
  CountEntry(window);
  UncountEntry(lines.WindowOf(*slot));
  lines.SetPayload(*slot, window, number);
  return true;
}

bool PackedTable::Remove(const KeyHash& key) {
  const Address address = AddressOf(key);
  const Segment& segment = segments_[address.segment];
  if (segment.lines == 0) return false;
  PackedLines lines = LinesAt(segment);
  const auto slot = lines.Find(lines.HomeOf(address.fingerprint), use_.data());
  if (!slot) return false;
  UncountEntry(lines.WindowOf(*slot));
  lines.SetPayload(*slot, 0, 0);
  return true;
}

void PackedTable::Clear() {
  for (Segment& segment : segments_) {
    arena_.Discard(segment.place, uint64_t{segment.lines} * kLineBytes);
    segment.lines = 0;
    segment.shape = {};
  }
  use_.fill(WindowUse::kUnused);
  taken_.fill(false);
  count_.fill(0);
  for (uint32_t tag = 0; tag < kWindowsMax; ++tag) {
    merged_into_[tag] = static_cast<uint16_t>(tag);
  }
  held_ = offered_ = closed_ = slots_ = lines_ = 0;
}

// ---- windows ------------------------------------------------------------------------------------

std::optional<uint32_t> PackedTable::OpenWindow() {
  for (uint32_t tag = 1; tag < layout_.NumWindows(); ++tag) {
    if (taken_[tag]) continue;
    taken_[tag] = true;
    use_[tag] = WindowUse::kHeld;
    return tag;
  }
  return std::nullopt;
}

uint32_t PackedTable::free_windows() const {
  return static_cast<uint32_t>(
      std::count(taken_.begin() + 1, taken_.begin() + layout_.NumWindows(), false));
}

void PackedTable::SetUse(uint32_t window, WindowUse use) {
  SizeWith(use_[window]) -= count_[window];
  use_[window] = use;
  SizeWith(use) += count_[window];
}

void PackedTable::CloseWindow(uint32_t window) {
  for (uint32_t tag = 1; tag < layout_.NumWindows(); ++tag) {
    if (!taken_[tag] || merged_into_[tag] != window) continue;
    SetUse(tag, WindowUse::kUnused);
    merged_into_[tag] = static_cast<uint16_t>(tag);
    taken_[tag] = count_[tag] > 0;
  }
}

void PackedTable::OfferWindow(uint32_t window) {
  assert(use_[window] == WindowUse::kHeld);
  ++next_rank_;
  for (uint32_t tag = 1; tag < layout_.NumWindows(); ++tag) {
    if (!taken_[tag] || merged_into_[tag] != window) continue;
    SetUse(tag, WindowUse::kOffered);
    rank_[tag] = next_rank_;
  }
}

void PackedTable::MergeWindow(uint32_t from, uint32_t to) {
  assert(from != to && use_[from] == WindowUse::kHeld && use_[to] == WindowUse::kHeld);
  for (uint32_t tag = 1; tag < layout_.NumWindows(); ++tag) {
    if (!taken_[tag] || merged_into_[tag] != from) continue;
    merged_into_[tag] = static_cast<uint16_t>(to);
    if (count_[tag] > 0) continue;
    SetUse(tag, WindowUse::kUnused);
    taken_[tag] = false;
    merged_into_[tag] = static_cast<uint16_t>(tag);
  }
}

uint64_t PackedTable::SizeOf(uint32_t window) const {
  uint64_t size = 0;
  for (uint32_t tag = 1; tag < layout_.NumWindows(); ++tag) {
    if (taken_[tag] && merged_into_[tag] == window) size += count_[tag];
  }
  return size;
}

// ---- memory -------------------------------------------------------------------------------------

uint32_t PackedTable::LinesFor(uint64_t slots) const {
  uint32_t lines = kPageLines;
  while (lines < lines_max_ && ShapeOf(layout_, lines).Slots() < slots) lines += kPageLines;
  return lines;
}

// By slots, because larger segments may have more of them in a line.
uint32_t PackedTable::LargerThan(uint32_t lines) const {
  if (lines == 0) return kPageLines;
  const uint64_t slots = ShapeOf(layout_, lines).Slots();
  const unsigned part = lines < lines_max_ / 2 ? 4 : 12;
  return std::max(LinesFor(slots + slots / part), std::min(lines + kPageLines, lines_max_));
}

bool PackedTable::Resize(uint32_t index, uint32_t wanted) {
  assert(wanted % kPageLines == 0 && wanted <= lines_max_);
  Segment& segment = segments_[index];
  const PackedLines from = LinesAt(segment);
  // Windows of the entries that go: those that are closed, and offered ones without room.
  std::array<uint32_t, kWindowsMax> gone{};
  Segment made{spare_, wanted, {}};
  bool fits = true;
  if (wanted > 0) made.shape = ShapeOf(layout_, wanted);
  PackedLines to = LinesAt(made);
  std::vector<uint8_t> used;  // slots of each line
  try {
    used.resize(wanted);
  } catch (const std::bad_alloc&) {
    return false;
  }
  from.ForEachScattered([&](const PackedSlot& slot, uint32_t window) {
    if (!fits) return;
    if (use_[window] == WindowUse::kUnused) {
      ++gone[window];
      return;
    }
    const PackedEntry entry = from.EntryAt(slot);
    const auto placed = wanted == 0 ? std::nullopt
                                    : to.Append(to.HomeOf(entry.fingerprint), window, entry.number,
                                                used.data(), use_.data(), rank_.data());
    if (placed) {
      ++gone[placed->replaced];
    } else if (use_[window] == WindowUse::kOffered) {
      ++gone[window];
    } else {
      fits = false;
    }
  });
  if (!fits) {
    arena_.Discard(spare_, uint64_t{wanted} * kLineBytes);
    return false;
  }
  arena_.Discard(segment.place, uint64_t{segment.lines} * kLineBytes);
  slots_ += made.shape.Slots() - segment.shape.Slots();
  lines_ += made.lines;
  lines_ -= segment.lines;
  spare_ = segment.place;
  segment = made;
  for (uint32_t window = 1; window < layout_.NumWindows(); ++window) {
    for (; gone[window] > 0; --gone[window]) UncountEntry(window);
  }
  return true;
}

PackedTable::Swept PackedTable::Sweep(uint32_t index,
                                      const std::function<void(uint32_t)>& visit_number) {
  const Segment& segment = segments_[index];
  Swept swept;
  if (segment.lines == 0) return swept;
  PackedLines lines = LinesAt(segment);
  swept.slots = segment.shape.Slots();
  lines.ForEach([&](const PackedSlot& slot, uint32_t window) {
    if (use_[window] == WindowUse::kUnused) {
      UncountEntry(window);
      lines.SetPayload(slot, 0, 0);
      return;
    }
    const uint32_t number = lines.NumberOf(slot);
    ++swept.found;
    swept.held += use_[window] == WindowUse::kHeld;
    visit_number(number);
    const uint32_t into = merged_into_[window];
    if (into == window) return;
    CountEntry(into);
    UncountEntry(window);
    lines.SetPayload(slot, into, number);
  });
  return swept;
}

bool PackedTable::Join(const PackedTable& other, const uint32_t* window_map, uint64_t* twins) {
  assert(other.layout_ == layout_ && other.num_segments() == num_segments());
  bool all = true;
  for (uint32_t i = 0; i < num_segments(); ++i) {
    if (other.segments_[i].lines == 0) continue;
    const PackedLines from = other.LinesAt(other.segments_[i]);
    from.ForEach([&](const PackedSlot& slot, uint32_t tag) {
      if (other.use_[tag] == WindowUse::kUnused) return;
      const PackedEntry entry = from.EntryAt(slot);
      const uint32_t window = window_map[other.merged_into_[tag]];
      Insertion done = InsertAt(segments_[i], entry.fingerprint, window, entry.number);
      while (done == Insertion::kFull && segments_[i].lines < lines_max_ &&
             Resize(i, LargerThan(segments_[i].lines))) {
        done = InsertAt(segments_[i], entry.fingerprint, window, entry.number);
      }
      *twins += done == Insertion::kExists;
      all = all && done != Insertion::kFull;
    });
  }
  return all;
}

// ---- figures ------------------------------------------------------------------------------------

uint64_t PackedTable::memory_bytes() const {
  return lines_bytes() + sizeof(*this) + segments_.capacity() * sizeof(Segment);
}

double PackedTable::FalsePositive() const {
  return PackedFalsePositive(static_cast<double>(size()) / num_segments(),
                             layout_.FingerprintBits());
}

}  // namespace kbf
