#include "storage/packed/packed_chain.h"

#include <algorithm>
#include <cassert>
#include <new>

#include "storage/deadlines.h"

namespace kbf {

namespace {

// A window takes this part of what the table can hold, so that dropping one costs little of it.
constexpr uint64_t kWindowShare = 32;
constexpr uint64_t kWindowKeysMin = 64;
// Of how many keys that are inserted one may be kept exact because its fingerprint is taken. Twins
// are 2e-6 of all keys, so where more fingerprints are taken they are the keys' own.
constexpr double kTwinCredit = 1.0 / 1024;
constexpr double kTwinCreditMax = 64;
constexpr double kStrongFalsePositive = 6e-8;  // as chain.h says
// Refused adds of a key after which it is forgotten, on average. Keys that are there and absent
// ones that are found look alike, so a refused add costs a key its entry with chance 1/640
// = 1.6e-3.
constexpr uint32_t kRefusals = 640;

}  // namespace

PackedChain::PackedChain(const ChainConfig& config, const PackedChainParts& parts)
    : config_(config), parts_(parts) {
  // Nothing allocates for these later.
  windows_.reserve(parts.layout.NumWindows());
  offered_.reserve(parts.layout.NumWindows());
  const uint64_t slots = parts.lines_max * ShapeOf(parts.layout, kSegmentLinesMin).slots;
  window_keys_ = std::max(slots / kWindowShare, kWindowKeysMin);
  parts_.values.Join();
}

PackedChain::~PackedChain() { parts_.values.Leave(); }

// ---- values -------------------------------------------------------------------------------------

std::optional<uint32_t> PackedChain::Number(const ChainOffer& offer) {
  if (offer.value.size() > config_.value_bytes_max) return std::nullopt;
  return parts_.values.Number(offer.value, offer.flags, config_.shared_bytes_max);
}

ChainValue PackedChain::ValueOf(uint32_t number) const {
  Blob* const blob = parts_.values.BlobOf(number);
  return {blob->view(), blob->flags, blob};
}

// ---- keys ---------------------------------------------------------------------------------------

bool PackedChain::MakeTable() {
  if (!table_) table_ = PackedTable::Create({parts_.layout, parts_.lines_max});
  return table_.has_value();
}

void PackedChain::PrefetchPlaces(const KeyHash& key) const {
  if (table_) table_->Prefetch(key);
}

ChainAnswer PackedChain::Find(const KeyHash& key, uint32_t now) {
  ChainAnswer answer;
  if (!table_) return answer;
  Expire(now);
  const auto found = table_->Find(key);
  if (found && !hidden_.Contains(key)) {
    answer.found = true;
    answer.strong = table_->FalsePositive() <= kStrongFalsePositive;
    answer.refusals = kRefusals;
    answer.number = found->number;
    answer.expires = deadlines_[found->window];
    answer.old = old_[found->window];
  }
  answer.version = version_;
  return answer;
}

bool PackedChain::Holds(const KeyHash& key, uint32_t number, uint32_t expires, uint32_t now) {
  const ChainAnswer answer = Find(key, now);
  return answer.found && !answer.old && answer.number == number &&
         DeadlineFits(answer.expires, expires, now);
}

void PackedChain::Remove(const KeyHash& key, uint32_t now) {
  if (!table_) return;
  Expire(now);
  // What a hidden key finds is another key's.
  if (hidden_.Contains(key) || !table_->Remove(key)) return;
  ++counters_.removed;
  ++version_;
}

bool PackedChain::RemoveForInsert(const KeyHash& key, uint32_t now) {
  if (!table_) return true;
  Expire(now);
  twin_credit_ = std::min(twin_credit_ + kTwinCredit, kTwinCreditMax);
  if (!table_->Find(key)) return true;
  if (hidden_.Contains(key)) return false;
  if (twin_credit_ >= 1) {
    twin_credit_ -= 1;
    return false;
  }
  Remove(key, now);
  return true;
}

void PackedChain::Forget(const KeyHash& key, uint32_t now) {
  if (!table_) return;
  Expire(now);
  if (!table_->Find(key) || hidden_.Contains(key)) return;
  ++version_;
  try {
    hidden_.Add(key);
    ++counters_.tombstones;
  } catch (const std::bad_alloc&) {
    (void)table_->Remove(key);  // a key that cannot be hidden must not be found
  }
}

// Drops the tombstone of a key that finds nothing any more. False: it still does.
bool PackedChain::ShowAgain(const KeyHash& key) {
  if (table_->Find(key)) return false;
  try {
    hidden_.RemoveIf([&key](const KeyHash& hidden) { return hidden == key; });
  } catch (const std::bad_alloc&) {
    return false;
  }
  return true;
}

Chain::Inserted PackedChain::Insert(const KeyHash& key, uint32_t number, uint32_t expires,
                                    uint32_t now) {
  assert(expires == 0 || expires > now);
  full_segment_.reset();
  room_dropped_ = false;
  if (!MakeTable()) return {};
  Expire(now);
  if (hidden_.Contains(key) && !ShowAgain(key)) return {Insertion::kRefused};
  Window* const window = WindowFor(expires, now);
  if (window == nullptr) return {};
  const uint64_t offered = table_->offered();
  switch (table_->Insert(key, window->tag, number)) {
    case PackedTable::Insertion::kDone:
      break;
    case PackedTable::Insertion::kExists:
      return {Insertion::kRefused};
    case PackedTable::Insertion::kFull:
      full_segment_ = table_->SegmentOf(key);
      return {};
  }
  CountDropped(offered);
  window->last = counters_.inserted++;
  ++window->added;
  ++version_;
  last_insert_ = now;
  tidy_ = false;
  return {Insertion::kDone, window->sequence};
}

// ---- windows ------------------------------------------------------------------------------------

void PackedChain::CountDropped(uint64_t offered_before) {
  if (table_->offered() < offered_before) {
    counters_.dropped_keys += offered_before - table_->offered();
  }
}

// The youngest window with the latest fitting deadline: of those that take keys, or else of all.
PackedChain::Window* PackedChain::FittingWindow(uint32_t expires, uint32_t now) {
  const uint32_t earliest = EarliestDeadlineFor(expires, now);
  Window* best = nullptr;
  for (Window& window : windows_) {
    if (window.deadline < earliest || window.deadline > expires) continue;
    if (best != nullptr &&
        (TakesKeys(window) < TakesKeys(*best) ||
         (TakesKeys(window) == TakesKeys(*best) && window.deadline < best->deadline))) {
      continue;
    }
    best = &window;  // of two alike the later, which is the younger
  }
  return best;
}

// A window that takes keys; or a new one; or, where no tag is free, one that has enough of them.
PackedChain::Window* PackedChain::WindowFor(uint32_t expires, uint32_t now) {
  Window* const best = FittingWindow(expires, now);
  if (best != nullptr && TakesKeys(*best)) return best;
  Window* const made = OpenWindow(DeadlineFor(expires, now));
  if (made != nullptr) return made;
  FreeTags();  // brings a free one nearer
  return FittingWindow(expires, now);
}

PackedChain::Window* PackedChain::OpenWindow(uint32_t deadline) {
  const auto tag = table_->OpenWindow();
  if (!tag) return nullptr;
  Window window;
  window.tag = *tag;
  window.deadline = deadline;
  window.sequence = next_sequence_++;
  window.first = window.last = counters_.inserted;
  windows_.push_back(window);
  deadlines_[*tag] = deadline;
  if (deadline != 0 && (next_deadline_ == 0 || deadline < next_deadline_)) {
    next_deadline_ = deadline;
  }
  ++counters_.filters_added;
  RefreshOrder();
  return &*std::find_if(windows_.begin(), windows_.end(),
                        [&tag](const Window& w) { return w.tag == *tag; });
}

// Windows by age; the oldest quarter is old.
void PackedChain::RefreshOrder() {
  std::sort(windows_.begin(), windows_.end(),
            [](const Window& a, const Window& b) { return AgeOf(a) < AgeOf(b); });
  for (size_t i = 0; i < windows_.size(); ++i) {
    windows_[i].old = i < windows_.size() / 4;
    old_[windows_[i].tag] = windows_[i].old;
  }
  ++version_;
}

// Removes the windows whose deadline has passed. True: there were some.
bool PackedChain::CloseExpired(std::vector<Window>* windows, uint32_t now) {
  const auto expired = [now](const Window& w) { return w.deadline != 0 && w.deadline <= now; };
  for (const Window& window : *windows) {
    if (!expired(window)) continue;
    counters_.expired_keys += table_->SizeOf(window.tag);
    ++counters_.filters_expired;
    table_->CloseWindow(window.tag);
  }
  return std::erase_if(*windows, expired) > 0;
}

void PackedChain::Expire(uint32_t now) {
  if (next_deadline_ == 0 || now < next_deadline_) return;
  const bool held = CloseExpired(&windows_, now);
  const bool offered = CloseExpired(&offered_, now);
  next_deadline_ = 0;
  for (const auto* windows : {&windows_, &offered_}) {
    for (const Window& window : *windows) {
      if (window.deadline == 0) continue;
      if (next_deadline_ == 0 || window.deadline < next_deadline_) {
        next_deadline_ = window.deadline;
      }
    }
  }
  if (!held && !offered) return;
  parts_.values.NoteDropped();
  RefreshOrder();
}

bool PackedChain::HasPart(uint64_t part, uint32_t now) const {
  return std::any_of(windows_.begin(), windows_.end(), [&](const Window& window) {
    return window.sequence == part && (window.deadline == 0 || window.deadline > now);
  });
}

// ---- figures ------------------------------------------------------------------------------------

uint64_t PackedChain::part_bytes() const {
  return window_keys_ * kLineBytes / ShapeOf(parts_.layout, kSegmentLinesMin).slots;
}

uint64_t PackedChain::oldest_bytes() const {
  if (!table_ || table_->slots() == 0) return 0;
  uint64_t keys = table_->offered();
  for (const Window& window : windows_) {
    if (window.old) keys += table_->SizeOf(window.tag);
  }
  return table_->lines_bytes() * keys / table_->slots();
}

uint64_t PackedChain::memory_bytes() const {
  const uint64_t table = table_ ? table_->memory_bytes() - sizeof(PackedTable) : 0;
  return sizeof(*this) + table + hidden_.memory_bytes() +
         (windows_.capacity() + offered_.capacity()) * sizeof(Window);
}

const DictionaryCounters& PackedChain::value_counters() const {
  if (parts_.reports_values) value_counters_ = parts_.values.counters();
  return value_counters_;
}

void PackedChain::AddTo(SlabUsage* usage) const {
  if (parts_.reports_values) {
    usage->values += parts_.values.size();
    usage->codes += parts_.values.size();
  }
  usage->tombstones += hidden_.size();
  usage->filters += windows_.size();
  if (!table_) return;
  usage->chain_keys += table_->size();
  usage->cells += table_->slots();
  usage->cells_used += table_->size();
  usage->cells_bytes += table_->lines_bytes();
}

ChainErrors PackedChain::PredictedErrors() const {
  ChainErrors errors;
  if (table_) errors.rates.false_positive = table_->FalsePositive();
  return errors;
}

}  // namespace kbf
