#include "storage/kbf_chain.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <new>
#include <span>

#include "storage/deadlines.h"

namespace kbf {

namespace {

// Blocks of the locator that one background step goes through: 0.1 ms at 128 bytes each
// (locator.h, kStepBlocks).
constexpr uint64_t kBlocksPerStep = 4096;
// Blocks that each Insert pays towards clearing and widening: a filter's worth of inserts does the
// whole array four times.
constexpr uint64_t kBlocksPerInsert = 4;
// The locator's columns take this many keys per filter capacity before they are too full: 12 %
// false candidates.
constexpr double kColumnFillMax = 2.2;
// Joined filters keep some room below their capacity.
constexpr double kJoinFill = 0.95;
// A filter that took no key for so long takes no more.
constexpr uint32_t kSettleSeconds = 30;
// A filter is worth opening once a part of its capacity, one in so many, waits for it.
constexpr uint64_t kWaitingShare = 8;
// Refused adds of a key after which it is forgotten, on average. An absent key that is found has
// strong evidence with chance 6e-8; of the keys that are there, at most 5 % have weak evidence
// (planner.h), so that a refused add costs such a key's entry with chance 0.05 / 32 = 1.6e-3 at
// most.
constexpr uint32_t kWeakRefusals = 32;
constexpr uint32_t kStrongRefusals = 65536;
// Part of a slab's memory that the units of symbols may take, one in so many: 1 MB of 16, which is
// for as many values as a slab has been seen to hold.
constexpr uint64_t kUnitsShare = 14;
constexpr uint64_t kUnitBytes = 4;  // symbol_blocks.h
// A chain that holds less has not shown yet which values are frequent.
constexpr uint64_t kFiltersExpected = 4;
// Deadlines that keys may wait for at a time.
constexpr size_t kWaitingMax = 64;

// False: there is no memory.
bool Count(uint32_t code, CodeCounts* codes) {
  try {
    codes->Add(code);
  } catch (const std::bad_alloc&) {
    return false;
  }
  return true;
}

// Of blocks so small that their units take no more of a slab's memory than their share.
unsigned CheckBitsMin(const FilterMakers& makers, uint64_t memory_bytes) {
  const KbfLayout& layout = makers.layout();
  unsigned bits = layout.check_bits;
  while (bits > makers.check_bits_min() &&
         kUnitBytes << (layout.symbol_bits - bits + 1) <= memory_bytes / kUnitsShare) {
    --bits;
  }
  return bits;
}

// 0 is never.
uint32_t Earlier(uint32_t a, uint32_t b) { return a == 0 ? b : b == 0 ? a : std::min(a, b); }

template <class Visit>
void ForEachBit(uint64_t mask, Visit visit) {
  for (; mask != 0; mask &= mask - 1) visit(static_cast<unsigned>(std::countr_zero(mask)));
}

}  // namespace

KbfChain::KbfChain(const ChainConfig& config, const KbfChainParts& parts)
    : config_(config),
      makers_(parts.makers),
      blobs_(parts.blobs),
      dictionary_({.layout = parts.makers.layout(),
                   .check_bits_min = CheckBitsMin(parts.makers, config.memory_bytes),
                   .value_bytes_max = config.value_bytes_max,
                   .keys_expected = kFiltersExpected * parts.makers.filter_keys(),
                   .seen_bytes = config.memory_bytes / kSeenShare},
                  parts.secret, parts.blobs) {}

// ---- values -------------------------------------------------------------------------------------

std::optional<uint32_t> KbfChain::Number(const ChainOffer& offer) {
  // The memory of values is bounded: beyond that, only those that are there already.
  const bool full = blobs_.bytes() > config_.shared_bytes_max;
  const std::optional<Dictionary::Code> code =
      dictionary_.Admit(offer.value, offer.flags, {offer.item_bytes, offer.again, !full});
  return code ? std::optional(code->number) : std::nullopt;
}

ChainValue KbfChain::ValueOf(uint32_t number) const {
  Blob* const blob = dictionary_.BlobOf(number);
  return {blob->view(), blob->flags, blob};
}

// ---- keys ---------------------------------------------------------------------------------------

void KbfChain::PrefetchPlaces(const KeyHash& key) const {
  if (live_ != 0) locator_->Prefetch(key);
}

void KbfChain::PrefetchEntries(const KeyHash& key) const {
  if (live_ == 0) return;
  ForEachBit(locator_->Candidates(key) & live_,
             [&](unsigned i) { columns_[i].filter->Prefetch(key); });
}

ChainAnswer KbfChain::Find(const KeyHash& key, uint32_t now) {
  ChainAnswer answer;
  if (live_ == 0) return answer;
  float evidence_bits = 0;  // of the answer, see kbf.h
  bool disagree = false;
  ForEachBit(locator_->Candidates(key) & live_, [&](unsigned i) {
    const Column& column = columns_[i];
    if (Expired(column, now)) return;
    const QueryResult result = column.filter->Query(key, dictionary_.blocks());
    if (result.outcome != Outcome::kFound || column.tombstones.Contains(key)) return;
    if (answer.found && !dictionary_.SameValue(answer.number, result.value)) {
      disagree = true;
      return;
    }
    // Of two that agree, one may be a false positive: the key expires with the earlier.
    const uint32_t expires =
        answer.found ? Earlier(answer.expires, column.deadline) : column.deadline;
    if (!answer.found || result.evidence_bits > evidence_bits) {
      answer.found = true;
      answer.old = (old_ >> i & 1) != 0;
      answer.strong = column.filter->IsStrong(result);
      answer.refusals = answer.strong ? kStrongRefusals : kWeakRefusals;
      answer.number = result.value;
      evidence_bits = result.evidence_bits;
    }
    answer.expires = expires;
  });
  if (disagree) {
    ++counters_.disagreements;
    answer = {};
  }
  answer.version = version_;
  return answer;
}

void KbfChain::Hide(Column* column, const KeyHash& key) {
  ++version_;
  const uint64_t bytes_before = column->tombstones.memory_bytes();
  const uint64_t before = column->tombstones.size();
  try {
    column->tombstones.Add(key);
  } catch (const std::bad_alloc&) {
    // A key that cannot be hidden must not be found: the filter is dropped, its keys become misses.
    return Drop(static_cast<unsigned>(column - columns_.data()), DropCause::kRoom);
  }
  counters_.tombstones += column->tombstones.size() - before;
  sets_bytes_ += column->tombstones.memory_bytes() - bytes_before;
}

KbfStatus KbfChain::Delete(Column* column, const KeyHash& key) {
  uint32_t code = 0;
  const KbfStatus status = column->filter->Delete(key, dictionary_.blocks(), &code);
  if (status == KbfStatus::kOk && column->codes.Remove(code)) dictionary_.RemoveEntries(code, 1);
  return status;
}

void KbfChain::Remove(const KeyHash& key, uint32_t now) {
  if (live_ == 0) return;
  ForEachBit(locator_->Candidates(key) & live_, [&](unsigned i) {
    Column& column = columns_[i];
    if (Expired(column, now) || column.tombstones.Contains(key)) return;
    switch (Delete(&column, key)) {
      case KbfStatus::kOk:
        ++counters_.removed;
        ++version_;
        break;
      case KbfStatus::kAbsent:
        break;
      default:
        // Too little evidence, or nothing decodes now but might later.
        Hide(&column, key);
    }
  });
}

void KbfChain::Forget(const KeyHash& key, uint32_t now) {
  if (live_ == 0) return;
  ForEachBit(locator_->Candidates(key) & live_, [&](unsigned i) {
    Column& column = columns_[i];
    if (Expired(column, now) || column.tombstones.Contains(key)) return;
    if (column.filter->Query(key, dictionary_.blocks()).outcome == Outcome::kAbsent) return;
    Hide(&column, key);
  });
}

bool KbfChain::IsOpen(const Column& column) const {
  return column.state == Column::State::kLive && !column.joining &&
         column.filter->size() < column.filter->capacity() &&
         static_cast<double>(column.added) <
             kColumnFillMax / 2 * static_cast<double>(makers_.filter_keys());
}

bool KbfChain::IsSettled(const Column& column, uint32_t now) const {
  return column.state == Column::State::kLive && !column.joining &&
         (column.added >= column.filter->capacity() || now - column.last_insert >= kSettleSeconds);
}

// The youngest open filter with the latest fitting deadline, of those that do not hide the key.
KbfChain::Column* KbfChain::OpenColumn(const KeyHash& key, uint32_t expires, uint32_t now,
                                       bool* hidden) {
  Column* best = nullptr;
  const uint32_t earliest = EarliestDeadlineFor(expires, now);
  ForEachBit(live_ & ~old_, [&](unsigned i) {
    Column& column = columns_[i];
    if (column.deadline < earliest || column.deadline > expires || !IsOpen(column)) return;
    if (column.tombstones.Contains(key)) {
      *hidden = true;
      return;
    }
    if (best == nullptr || column.deadline > best->deadline ||
        (column.deadline == best->deadline && AgeOf(column) > AgeOf(*best))) {
      best = &column;
    }
  });
  return best;
}

bool KbfChain::Holds(const KeyHash& key, uint32_t number, uint32_t expires, uint32_t now) {
  const ChainAnswer answer = Find(key, now);
  return answer.found && answer.strong && !answer.old && answer.number == number &&
         DeadlineFits(answer.expires, expires, now);
}

Chain::Inserted KbfChain::Insert(const KeyHash& key, uint32_t number, uint32_t expires,
                                 uint32_t now) {
  assert(expires == 0 || expires > now);
  bool hidden = false;
  Column* column = OpenColumn(key, expires, now, &hidden);
  if (column == nullptr) return {hidden ? Insertion::kRefused : Insertion::kNoRoom};
  sets_bytes_ -= column->codes.memory_bytes();
  const bool counted = Count(number, &column->codes);
  sets_bytes_ += column->codes.memory_bytes();
  if (!counted) return {Insertion::kRefused};
  dictionary_.AddEntry(number);
  column->filter->Insert(key, dictionary_.BlockOf(number).Choose(KeyCheck(key)));
  ++column->added;
  column->last_insert = now;
  column->last = counters_.inserted;
  locator_->Add(key, static_cast<unsigned>(column - columns_.data()));
  ++counters_.inserted;
  ++version_;
  (void)LocatorStep(kBlocksPerInsert);
  return {Insertion::kDone, column->sequence};
}

// The first free column, widening the locator ahead of need, so that it is wider when the last
// column is taken. Nothing: none is free now.
std::optional<unsigned> KbfChain::FreeColumn() {
  const unsigned ready = std::min(locator_->columns_ready(), kFiltersMax);
  unsigned free = 0;
  std::optional<unsigned> first;
  for (unsigned i = ready; i-- > 0;) {
    if (columns_[i].state != Column::State::kFree) continue;
    first = i;
    ++free;
  }
  if (free <= 2 && ready < kFiltersMax && !locator_->growing()) (void)locator_->Grow();
  // Brings a column that is being cleared, or a wider locator, nearer.
  if (!first) (void)LocatorStep(kBlocksPerStep);
  return first;
}

bool KbfChain::Grow(uint32_t expires, uint32_t now) {
  if (!locator_) {
    locator_ = Locator::Create({makers_.filter_keys(), kLocatorBits});
    if (!locator_) return false;
  }
  const std::optional<unsigned> index = FreeColumn();
  if (!index) return false;
  std::unique_ptr<Filter> filter;
  try {
    filter = maker().Make();
  } catch (const std::bad_alloc&) {
    return false;
  }
  if (filter == nullptr) return false;
  for (unsigned folds = WantedFolds(expires, now); folds > 0; --folds) {
    if (filter->Compress() != KbfStatus::kOk) break;
  }
  Column& column = columns_[*index];
  column.state = Column::State::kLive;
  column.joining = false;
  column.deadline = DeadlineFor(expires, now);
  column.sequence = next_sequence_++;
  column.first = column.last = counters_.inserted;
  column.added = 0;
  column.last_insert = now;
  column.clear_cursor = 0;
  column.filter = std::move(filter);
  column.codes = CodeCounts();
  cells_bytes_ += column.filter->memory_bytes();
  ++counters_.filters_added;
  std::erase_if(waiting_, [&](const Waiting& w) { return w.deadline == column.deadline; });
  RefreshOrder();
  return true;
}

void KbfChain::CountWaiting(uint32_t expires, uint32_t now) {
  const uint32_t deadline = DeadlineFor(expires, now);
  for (Waiting& waiting : waiting_) {
    if (waiting.deadline == deadline) {
      ++waiting.keys;
      return;
    }
  }
  std::erase_if(waiting_, [now](const Waiting& w) { return w.deadline != 0 && w.deadline <= now; });
  if (waiting_.size() == kWaitingMax) {
    // Room for the new one: the deadline that the fewest keys wait for goes.
    waiting_.erase(
        std::min_element(waiting_.begin(), waiting_.end(),
                         [](const Waiting& a, const Waiting& b) { return a.keys < b.keys; }));
  }
  try {
    waiting_.push_back({deadline, 1});
  } catch (const std::bad_alloc&) {
    return;  // counted when the next key waits
  }
}

uint64_t KbfChain::WaitingFor(uint32_t deadline) const {
  for (const Waiting& waiting : waiting_) {
    if (waiting.deadline == deadline) return waiting.keys;
  }
  return 0;
}

// How often a new filter is halved before use: twice the keys that wait for a deadline must fit, or
// twice what its largest filter so far could hold.
unsigned KbfChain::WantedFolds(uint32_t expires, uint32_t now) const {
  const uint32_t deadline = DeadlineFor(expires, now);
  if (deadline == 0) return 0;
  uint64_t wanted = 2 * WaitingFor(deadline);
  ForEachBit(live_, [&](unsigned i) {
    if (columns_[i].deadline == deadline)
      wanted = std::max(wanted, 2 * columns_[i].filter->capacity());
  });
  unsigned folds = 0;
  while (folds < makers_.folds() && makers_.filter_keys() >> (folds + 1) >= wanted) ++folds;
  return folds;
}

bool KbfChain::IsWanted(uint32_t expires, uint32_t now) const {
  const uint32_t deadline = DeadlineFor(expires, now);
  // Where one filter was filled, the next will be too.
  bool filled = false;
  ForEachBit(live_, [&](unsigned i) {
    const Column& column = columns_[i];
    filled = filled || (column.deadline == deadline && column.added >= column.filter->capacity());
  });
  const uint64_t capacity = makers_.filter_keys() >> WantedFolds(expires, now);
  return filled || WaitingFor(deadline) * kWaitingShare >= capacity;
}

std::optional<uint64_t> KbfChain::BytesToGrow(uint32_t expires, uint32_t now) const {
  if (!IsWanted(expires, now)) return std::nullopt;
  return maker().filter_bytes() >> WantedFolds(expires, now);
}

// Frees the filter; the locator's column is cleared in steps and can be used again after that.
void KbfChain::Drop(unsigned index, DropCause cause) {
  Column& column = columns_[index];
  assert(column.state == Column::State::kLive);
  if (join_ && (join_->from == index || join_->to == index)) CancelJoin();
  const uint64_t keys = column.filter->size();
  switch (cause) {
    case DropCause::kRoom:
      counters_.dropped_keys += keys;
      ++counters_.filters_dropped;
      break;
    case DropCause::kExpired:
      counters_.expired_keys += keys;
      ++counters_.filters_expired;
      break;
    case DropCause::kFlushed:
      counters_.flushed_keys += keys;
      break;
  }
  column.codes.ForEach(
      [&](uint32_t code, uint32_t entries) { dictionary_.DropEntries(code, entries); });
  Free(&column);
  column.state = column.added == 0 ? Column::State::kFree : Column::State::kClearing;
  RefreshOrder();
}

// The memory of a column's filter and sets.
void KbfChain::Free(Column* column) {
  cells_bytes_ -= column->filter->memory_bytes();
  sets_bytes_ -= column->codes.memory_bytes() + column->tombstones.memory_bytes();
  column->filter.reset();
  column->codes = CodeCounts();
  column->tombstones = HashSet();
  column->clear_cursor = 0;
}

bool KbfChain::DropOldest() {
  unsigned oldest = Locator::kColumnsMax;
  ForEachBit(live_, [&](unsigned i) {
    if (oldest == Locator::kColumnsMax || AgeOf(columns_[i]) < AgeOf(columns_[oldest])) oldest = i;
  });
  if (oldest == Locator::kColumnsMax) return false;
  dictionary_.ReleaseGiven();
  Drop(oldest, DropCause::kRoom);
  return true;
}

void KbfChain::Clear() {
  dictionary_.ReleaseGiven();
  ForEachBit(live_, [&](unsigned i) { Drop(i, DropCause::kFlushed); });
  waiting_.clear();
}

void KbfChain::CancelJoin() {
  // The bits ORed so far only cost false candidates.
  columns_[join_->from].joining = false;
  columns_[join_->to].joining = false;
  columns_[join_->to].added += columns_[join_->from].added;
  join_.reset();
}

// Tombstones whose entries can be deleted by now, as the filter has emptied.
void KbfChain::RetryTombstones(Column* column) {
  ++version_;
  const uint64_t before = column->tombstones.memory_bytes();
  try {
    column->tombstones.RemoveIf([&](const KeyHash& key) {
      const KbfStatus status = Delete(column, key);
      return status == KbfStatus::kOk || status == KbfStatus::kAbsent;
    });
  } catch (const std::bad_alloc&) {
    return;  // the tombstones stay
  }
  sets_bytes_ += column->tombstones.memory_bytes() - before;
}

// Two filters with one deadline and one size whose entries fit one, if the locator can bear it.
bool KbfChain::StartJoin(uint32_t now) {
  const auto fits = [&](unsigned a, unsigned b) {
    const Column& x = columns_[a];
    const Column& y = columns_[b];
    return x.deadline == y.deadline && x.filter->IsLike(*y.filter) &&
           static_cast<double>(x.filter->size() + y.filter->size()) <=
               kJoinFill * static_cast<double>(x.filter->capacity()) &&
           static_cast<double>(x.added + y.added) <=
               kColumnFillMax * static_cast<double>(makers_.filter_keys());
  };
  for (unsigned a = 0; a < Locator::kColumnsMax; ++a) {
    if (!IsSettled(columns_[a], now)) continue;
    for (unsigned b = a + 1; b < Locator::kColumnsMax; ++b) {
      if (!IsSettled(columns_[b], now) || !fits(a, b)) continue;
      // The younger one is kept, as it is dropped later.
      const bool a_younger = AgeOf(columns_[a]) > AgeOf(columns_[b]);
      join_ = JoinWork{a_younger ? b : a, a_younger ? a : b, 0};
      columns_[a].joining = columns_[b].joining = true;
      return true;
    }
  }
  return false;
}

void KbfChain::FinishJoin() {
  const auto [from_index, to_index, cursor] = *join_;
  Column& from = columns_[from_index];
  Column& to = columns_[to_index];
  RetryTombstones(&from);
  RetryTombstones(&to);
  const uint64_t codes_before = to.codes.memory_bytes();
  try {
    to.codes.AddAll(from.codes);
  } catch (const std::bad_alloc&) {
    return CancelJoin();
  }
  sets_bytes_ += to.codes.memory_bytes() - codes_before;
  [[maybe_unused]] const KbfStatus joined = to.filter->Join(*from.filter);
  assert(joined == KbfStatus::kOk);  // StartJoin asked IsLike, and neither was compressed since
  join_.reset();
  to.joining = false;
  to.added += from.added;
  const uint64_t tombstones = counters_.tombstones;
  from.tombstones.ForEach([&](const KeyHash& key) {
    if (to.state == Column::State::kLive) Hide(&to, key);
  });
  counters_.tombstones = tombstones;  // moved, not new
  ++counters_.joins;
  Free(&from);
  from.joining = false;
  from.state = Column::State::kClearing;
  RefreshOrder();
}

bool KbfChain::CompressOne(uint32_t now) {
  bool done = false;
  ForEachBit(live_, [&](unsigned i) {
    Column& column = columns_[i];
    if (done || !IsSettled(column, now)) return;
    if (static_cast<double>(column.filter->size()) >
        kJoinFill / 2 * static_cast<double>(column.filter->capacity())) {
      return;
    }
    RetryTombstones(&column);
    const uint64_t before = column.filter->memory_bytes();
    if (column.filter->Compress() != KbfStatus::kOk) return;
    cells_bytes_ -= before - column.filter->memory_bytes();
    ++counters_.compressions;
    ++version_;
    done = true;
  });
  return done;
}

// Widening first: until it is finished no filter can be added beyond the columns that are ready.
bool KbfChain::LocatorStep(uint64_t blocks) {
  if (!locator_) return false;
  if (locator_->growing()) {
    (void)locator_->GrowStep(blocks);
    return true;
  }
  for (unsigned i = 0; i < Locator::kColumnsMax; ++i) {
    Column& column = columns_[i];
    if (column.state != Column::State::kClearing) continue;
    if (locator_->ClearStep(i, &column.clear_cursor, blocks)) {
      column.state = Column::State::kFree;
      column.added = 0;
    }
    return true;
  }
  return false;
}

bool KbfChain::MaintainStep(uint32_t now) {
  if (DropOneExpired(now)) return true;
  if (LocatorStep(kBlocksPerStep)) return true;
  if (join_) {
    if (locator_->OrStep(join_->from, join_->to, &join_->cursor, kBlocksPerStep)) FinishJoin();
    return true;
  }
  if (DropOneUseless(now)) return true;
  // Compressing costs the locator nothing; joining frees a column.
  const bool crowded = num_parts() * 2 > kFiltersMax;
  return crowded ? StartJoin(now) || CompressOne(now) : CompressOne(now) || StartJoin(now);
}

bool KbfChain::DropOneExpired(uint32_t now) {
  for (unsigned i = 0; i < Locator::kColumnsMax; ++i) {
    if ((live_ >> i & 1) == 0 || !Expired(columns_[i], now)) continue;
    Drop(i, DropCause::kExpired);
    return true;
  }
  return false;
}

// A filter that is empty, or has so many tombstones that it is not worth its memory.
bool KbfChain::DropOneUseless(uint32_t now) {
  const uint64_t tombstones_max = makers_.filter_keys() / 8;
  for (unsigned i = 0; i < Locator::kColumnsMax; ++i) {
    Column& column = columns_[i];
    if (!IsSettled(column, now)) continue;
    if (column.tombstones.size() > tombstones_max) RetryTombstones(&column);
    if (column.filter->size() > 0 && column.tombstones.size() <= tombstones_max) continue;
    Drop(i, DropCause::kRoom);
    return true;
  }
  return false;
}

void KbfChain::RefreshOrder() {
  ++version_;
  live_ = 0;
  std::array<unsigned, Locator::kColumnsMax> order;
  unsigned count = 0;
  for (unsigned i = 0; i < Locator::kColumnsMax; ++i) {
    if (columns_[i].state != Column::State::kLive) continue;
    live_ |= uint64_t{1} << i;
    order[count++] = i;
  }
  std::sort(order.begin(), order.begin() + count,
            [&](unsigned a, unsigned b) { return AgeOf(columns_[a]) < AgeOf(columns_[b]); });
  old_ = 0;
  for (unsigned i = 0; i < count / 4; ++i) old_ |= uint64_t{1} << order[i];
}

bool KbfChain::HasPart(uint64_t part, uint32_t now) const {
  bool has = false;
  ForEachBit(live_, [&](unsigned i) {
    has = has || (columns_[i].sequence == part && !Expired(columns_[i], now));
  });
  return has;
}

uint64_t KbfChain::num_parts() const { return static_cast<uint64_t>(std::popcount(live_)); }

uint64_t KbfChain::num_keys() const {
  uint64_t keys = 0;
  ForEachBit(live_, [&](unsigned i) { keys += columns_[i].filter->size(); });
  return keys;
}

uint64_t KbfChain::num_tombstones() const {
  uint64_t keys = 0;
  ForEachBit(live_, [&](unsigned i) { keys += columns_[i].tombstones.size(); });
  return keys;
}

uint64_t KbfChain::oldest_bytes() const {
  uint64_t bytes = 0;
  ForEachBit(old_, [&](unsigned i) { bytes += columns_[i].filter->memory_bytes(); });
  return bytes;
}

void KbfChain::AddTo(SlabUsage* usage) const {
  usage->chain_keys += num_keys();
  usage->cells_bytes += cells_bytes();
  usage->locator_bytes += locator_bytes();
  usage->tombstones += num_tombstones();
  usage->filters += num_parts();
  usage->dictionary_bytes += dictionary_.memory_bytes();
  usage->values += dictionary_.num_values();
  usage->codes += dictionary_.num_codes();
  ForEachBit(live_, [&](unsigned i) {
    usage->cells_used += columns_[i].filter->entries();
    usage->cells += columns_[i].filter->cells();
  });
}

// A stored key misses by its own filter's rate; an absent key is found by any filter that the
// locator names falsely.
ChainErrors KbfChain::PredictedErrors() const {
  ChainErrors errors;
  ErrorRates& rates = errors.rates;
  double keys = 0;
  const double match = dictionary_.match();
  ForEachBit(live_, [&](unsigned i) {
    const Column& column = columns_[i];
    const ErrorRates one = column.filter->PredictedErrors(match);
    const auto size = static_cast<double>(column.filter->size());
    const double falsely_named = Locator::FalseCandidateRate(
        static_cast<double>(column.added), static_cast<double>(locator_->num_blocks()));
    keys += size;
    rates.false_negative += size * one.false_negative;
    rates.weak += size * one.weak;
    rates.false_positive += one.false_positive * falsely_named;
    errors.false_candidates += falsely_named;
  });
  if (keys > 0) {
    rates.false_negative /= keys;
    rates.weak /= keys;
  }
  return errors;
}

}  // namespace kbf
