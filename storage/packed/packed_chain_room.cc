// How a packed chain grows, shrinks, drops its oldest keys, and frees tags and numbers.
#include <algorithm>
#include <new>

#include "storage/packed/packed_chain.h"

namespace kbf {

namespace {

// Tags become scarce where fewer than this part is free.
constexpr uint32_t kFreeTagsShare = 4;
// Offered windows that may keep what is left of them while tags are scarce.
constexpr size_t kOfferedKept = 2;
constexpr unsigned kMergesPerSweep = 8;
// Closed windows' slots are freed where they are more than this part.
constexpr uint64_t kClosedShare = 8;
// A segment that is filled less than kSparse after a sweep is rebuilt so that it is filled kDense.
constexpr double kSparse = 0.5;
constexpr double kDense = 0.85;
// What segments are filled to when no keys come in: the first that they take.
constexpr double kTidyFills[] = {0.95, 0.92, 0.89};
// Of the most keys since the last sweep.
constexpr double kFewer = 0.875;
// A segment that gives memory back does so by this part of its lines.
constexpr uint32_t kShrinkShare = 16;

uint32_t WholePages(double lines) { return static_cast<uint32_t>(lines / kPageLines) * kPageLines; }

}  // namespace

// ---- memory -------------------------------------------------------------------------------------

std::optional<uint64_t> PackedChain::BytesToGrow(uint32_t, uint32_t) const {
  if (!full_segment_) return std::nullopt;
  const uint32_t lines = table_->LinesOf(*full_segment_);
  return uint64_t{table_->LargerThan(lines) - lines} * kLineBytes;
}

bool PackedChain::Resize(uint32_t segment, uint32_t lines) {
  const uint64_t offered = table_->offered();
  if (!table_->Resize(segment, lines)) return false;
  CountDropped(offered);
  ++version_;
  return true;
}

bool PackedChain::Grow(uint32_t, uint32_t) {
  if (room_dropped_) return true;
  if (!full_segment_) return false;
  const uint32_t lines = table_->LinesOf(*full_segment_);
  return lines < table_->lines_max() && Resize(*full_segment_, table_->LargerThan(lines));
}

bool PackedChain::DropOldest() {
  while (!windows_.empty()) {
    const Window oldest = windows_.front();
    windows_.erase(windows_.begin());
    const bool empty = table_->SizeOf(oldest.tag) == 0;
    if (empty) {
      table_->CloseWindow(oldest.tag);
    } else {
      table_->OfferWindow(oldest.tag);
      offered_.push_back(oldest);
    }
    ++counters_.filters_dropped;
    RefreshOrder();
    old_[oldest.tag] = true;
    if (empty) continue;
    parts_.values.NoteDropped();
    room_dropped_ = unbalanced_ = true;
    return true;
  }
  return false;
}

bool PackedChain::Shrink() {
  if (!table_) return false;
  uint32_t largest = 0;
  for (uint32_t i = 1; i < table_->num_segments(); ++i) {
    if (table_->LinesOf(i) > table_->LinesOf(largest)) largest = i;
  }
  const uint32_t lines = table_->LinesOf(largest);
  if (lines == 0) return false;
  const uint32_t fewer = WholePages(lines - std::max(lines / kShrinkShare, kPageLines));
  while (!Resize(largest, fewer)) {
    if (!DropOldest()) return false;
  }
  ++counters_.compressions;
  return true;
}

void PackedChain::Clear() {
  if (!table_) return;
  counters_.flushed_keys += table_->size();
  table_->Clear();
  windows_.clear();
  offered_.clear();
  hidden_ = HashSet();
  next_deadline_ = 0;
  full_segment_.reset();
  room_dropped_ = unbalanced_ = false;
  sweep_.reset();
  parts_.values.NoteDropped();
  ++version_;
}

// Segments grow one by one until the memory is taken; the smallest would then drop keys that the
// others still have room for. False: all have the same size, but for a page or two.
bool PackedChain::Balance() {
  uint32_t largest = 0;
  uint32_t smallest = 0;
  for (uint32_t i = 1; i < table_->num_segments(); ++i) {
    if (table_->LinesOf(i) > table_->LinesOf(largest)) largest = i;
    if (table_->LinesOf(i) < table_->LinesOf(smallest)) smallest = i;
  }
  const uint32_t most = table_->LinesOf(largest);
  const uint32_t least = table_->LinesOf(smallest);
  const uint32_t moved = WholePages((most - least) / 2);
  if (moved == 0 || !Resize(largest, most - moved)) {
    unbalanced_ = false;
    return false;
  }
  (void)Resize(smallest, least + moved);
  return true;
}

// ---- sweeps -------------------------------------------------------------------------------------

bool PackedChain::MaintainStep(uint32_t now) {
  if (table_) {
    Expire(now);
    peak_ = std::max(peak_, table_->size());
  }
  if (parts_.values.CollectStep()) return true;
  parts_.values.BeginIfWorthwhile();
  if (!sweep_ && (WantsSweep() || IsIdle(now))) {
    FreeTags();
    sweep_ = Sweep{0, parts_.values.collection(), IsIdle(now)};
    tidy_ = tidy_ || sweep_->tidies;
  }
  return sweep_ ? SweepStep() : unbalanced_ && Balance();
}

// To find the numbers in use, or for the slots or the tags of windows that are no more.
bool PackedChain::WantsSweep() const {
  const uint64_t collection = parts_.values.collection();
  if (collection != 0 && collection != collected_) return true;
  if (!table_) return false;
  if (table_->closed() > table_->slots() / kClosedShare) return true;
  // Many keys were removed since the last sweep.
  const auto size = static_cast<double>(table_->size());
  if (size < kSparse * static_cast<double>(table_->slots()) &&
      size < kFewer * static_cast<double>(peak_)) {
    return true;
  }
  const uint32_t tags = parts_.layout.NumWindows();
  if (table_->free_windows() >= tags / kFreeTagsShare) return false;
  const size_t taken = tags - 1 - table_->free_windows();
  return taken > windows_.size() + std::min(offered_.size(), kOfferedKept) ||
         PairToMerge().has_value();
}

// Ends the oldest of the windows that were dropped, and merges others, where tags are scarce. The
// sweep that follows frees them.
void PackedChain::FreeTags() {
  if (!table_ || table_->free_windows() >= parts_.layout.NumWindows() / kFreeTagsShare) return;
  while (offered_.size() > kOfferedKept) {
    counters_.dropped_keys += table_->SizeOf(offered_.front().tag);
    table_->CloseWindow(offered_.front().tag);
    offered_.erase(offered_.begin());
    ++version_;
  }
  for (unsigned i = 0; i < kMergesPerSweep; ++i) {
    const auto pair = PairToMerge();
    if (!pair) return;
    const Window older = windows_[pair->first];
    Window& younger = windows_[pair->second];
    table_->MergeWindow(older.tag, younger.tag);
    younger.first = older.first;
    younger.added += older.added;
    windows_.erase(windows_.begin() + static_cast<std::ptrdiff_t>(pair->first));
    ++counters_.joins;
    RefreshOrder();
  }
}

// The two windows that follow each other in age and have one deadline, and the fewest keys; nothing
// where windows take less than half of the tags.
std::optional<std::pair<size_t, size_t>> PackedChain::PairToMerge() const {
  std::optional<std::pair<size_t, size_t>> best;
  if (windows_.size() < parts_.layout.NumWindows() / 2) return best;
  uint64_t fewest = 0;
  for (size_t i = 0; i < windows_.size(); ++i) {
    for (size_t j = i + 1; j < windows_.size(); ++j) {
      if (windows_[j].deadline != windows_[i].deadline) continue;
      const uint64_t keys = windows_[i].added + windows_[j].added;
      if (!best || keys < fewest) {
        best = {i, j};
        fewest = keys;
      }
      break;
    }
  }
  return best;
}

bool PackedChain::SweepStep() {
  if (!table_ || sweep_->segment == table_->num_segments()) {
    FinishSweep();
    return true;
  }
  const bool marks = sweep_->collection != 0;
  const PackedTable::Swept swept = table_->Sweep(sweep_->segment, [&](uint32_t number) {
    if (marks) parts_.values.Mark(number);
  });
  MakeSmaller(sweep_->segment++, swept);
  return true;
}

// Rebuilds a segment that has become sparse, or that has grown more than it needed to.
void PackedChain::MakeSmaller(uint32_t segment, const PackedTable::Swept& swept) {
  const uint32_t lines = table_->LinesOf(segment);
  const auto smaller = [&](uint64_t entries, double fill) {
    const auto slots = static_cast<uint64_t>(static_cast<double>(entries) / fill) + 1;
    const uint32_t fewer = entries == 0 ? 0 : table_->LinesFor(slots);
    if (fewer >= lines || !Resize(segment, fewer)) return false;
    ++counters_.compressions;
    return true;
  };
  if (static_cast<double>(swept.held) < kSparse * static_cast<double>(swept.slots)) {
    (void)smaller(swept.held, kDense);
  } else if (sweep_->tidies) {
    for (const double fill : kTidyFills) {
      if (smaller(swept.found, fill)) return;
    }
  }
}

void PackedChain::FinishSweep() {
  if (sweep_->collection != 0) {
    parts_.values.Finished(sweep_->collection);
    collected_ = sweep_->collection;
  }
  sweep_.reset();
  if (!table_) return;
  peak_ = table_->size();
  try {
    hidden_.RemoveIf([&](const KeyHash& key) { return !table_->Find(key).has_value(); });
  } catch (const std::bad_alloc&) {
    return;  // the tombstones stay
  }
}

}  // namespace kbf
