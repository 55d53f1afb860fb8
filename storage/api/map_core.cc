#include "storage/api/map_core.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

namespace kbf {

namespace {

// Room for overrides besides a quarter of the capacity, so that a small map can keep all its keys
// as overrides: small filters show too little evidence for changes.
constexpr uint64_t kOverridesMin = 1024;

// Overrides are looked through once for every so many that come in, or a quarter of all, whichever
// is more: then that costs four queries each.
constexpr uint64_t kSettleMin = 64;

// A node of the hash table, its bucket, and the allocator's header.
constexpr uint64_t kOverrideBytes = 56;

}  // namespace

Result<std::unique_ptr<MapCore>> MapCore::Create(std::shared_ptr<MapFamily> family) {
  const Plan& plan = family->plan();
  Kbf::CreateOutcome made = Kbf::Create(
      {plan.layout, family->promised().capacity, plan.load, kMapFolds, family->secret().Id()});
  // All numbers were checked by the planner, so what is left is memory.
  if (!made.filter) return {Status::kNoMemory, std::move(made.error)};
  return std::unique_ptr<MapCore>(new MapCore(std::move(family), std::move(*made.filter)));
}

QueryResult MapCore::Find(const KeyHash& hash) const {
  if (const auto entry = overrides_.find(hash); entry != overrides_.end()) {
    const uint32_t number = entry->second.number;
    if (number == Override::kDeleted) return {};
    return {Outcome::kFound, 0, number, 0};
  }
  return filter_.Query(hash, family_->blocks());
}

Map::Answer MapCore::Get(std::string_view key) const {
  const QueryResult found = Find(HashOf(key));
  if (found.outcome == Outcome::kAbsent) return Map::Answer(Status::kNotFound);
  if (found.outcome == Outcome::kUndecodable) return Map::Answer(Status::kUndecodable);
  const std::string* value = family_->values().At(found.value);
  return value != nullptr ? Map::Answer(*value) : Map::Answer(Status::kUndecodable);
}

bool MapCore::IsStrong(const QueryResult& found) const {
  return found.outcome == Outcome::kFound &&
         found.evidence_bits >= MapEvidenceBits(filter_.capacity(), filter_.strong_evidence_bits());
}

// ---- Put ----

Status MapCore::Put(std::string_view key, std::string_view value) {
  if (value.size() > Map::kValueBytesMax) return Status::kTooLarge;
  const KeyHash hash = HashOf(key);
  if (const auto entry = overrides_.find(hash); entry != overrides_.end()) {
    return PutOverride(&entry->second, value);
  }
  const QueryResult found = filter_.Query(hash, family_->blocks());
  return found.outcome == Outcome::kAbsent ? PutAbsent(hash, value) : Replace(hash, found, value);
}

Status MapCore::PutOverride(Override* entry, std::string_view value) {
  const std::optional<uint32_t> number = family_->values().FindOrAdd(value);
  if (!number) return Status::kTooManyValues;
  keys_ += entry->number == Override::kDeleted;
  entry->number = *number;
  return Status::kOk;
}

Status MapCore::PutAbsent(const KeyHash& hash, std::string_view value) {
  if (filter_.size() >= filter_.capacity()) return Status::kFull;
  const std::optional<uint32_t> number = family_->values().FindOrAdd(value);
  if (!number) return Status::kTooManyValues;
  const Status status =
      TryInsert(hash, *number) ? Status::kOk : AddOverride(hash, {*number, false});
  keys_ += status == Status::kOk;
  return status;
}

// The filter says that the key is stored, or that it may be.
Status MapCore::Replace(const KeyHash& hash, const QueryResult& found, std::string_view value) {
  const std::optional<uint32_t> number = family_->values().FindOrAdd(value);
  if (!number) return Status::kTooManyValues;
  if (found.outcome == Outcome::kFound && found.value == *number) return Status::kOk;
  // Asked for before the old entry goes, because the new one may need it.
  if (!HasRoomForOverride()) return Status::kFull;
  if (!TryRemove(hash, found)) return AddOverride(hash, {*number, true});
  if (TryInsert(hash, *number)) return Status::kOk;
  return AddOverride(hash, {*number, false});
}

bool MapCore::TryInsert(const KeyHash& hash, uint32_t number) {
  const uint32_t symbol = family_->BlockOf(number).Choose(KeyCheck(hash));
  filter_.Insert(hash, symbol);
  const QueryResult read_back = filter_.Query(hash, family_->blocks());
  if (read_back.outcome == Outcome::kFound && read_back.value == number) return true;
  (void)filter_.DeleteSymbol(hash, symbol);
  return false;
}

bool MapCore::TryRemove(const KeyHash& hash, const QueryResult& found) {
  return IsStrong(found) && filter_.DeleteSymbol(hash, found.symbol) == KbfStatus::kOk;
}

// ---- Delete ----

Status MapCore::Delete(std::string_view key) {
  const KeyHash hash = HashOf(key);
  if (const auto entry = overrides_.find(hash); entry != overrides_.end()) {
    return DeleteOverride(entry);
  }
  const QueryResult found = filter_.Query(hash, family_->blocks());
  if (found.outcome == Outcome::kAbsent) return Status::kNotFound;
  const Status status =
      TryRemove(hash, found) ? Status::kOk : AddOverride(hash, {Override::kDeleted, true});
  if (status == Status::kOk) CountDeleted();
  return status;
}

Status MapCore::DeleteOverride(Overrides::iterator entry) {
  if (entry->second.number == Override::kDeleted) return Status::kNotFound;
  entry->second.number = Override::kDeleted;
  if (!entry->second.in_filter) overrides_.erase(entry);
  CountDeleted();
  return Status::kOk;
}

// ---- overrides ----

uint64_t MapCore::OverridesMax() const { return filter_.capacity() / 4 + kOverridesMin; }

bool MapCore::HasRoomForOverride() {
  if (overrides_.size() >= OverridesMax()) SettleNowAndThen();
  return overrides_.size() < OverridesMax();
}

Status MapCore::AddOverride(const KeyHash& hash, Override entry) {
  SettleNowAndThen();
  if (overrides_.size() >= OverridesMax()) return Status::kFull;
  overrides_[hash] = entry;
  return Status::kOk;
}

void MapCore::SettleNowAndThen() {
  if (++since_settling_ < std::max<uint64_t>(kSettleMin, overrides_.size() / 4)) return;
  since_settling_ = 0;
  for (auto item = overrides_.begin(); item != overrides_.end();) {
    item = Settle(item->first, &item->second) ? overrides_.erase(item) : std::next(item);
  }
}

// True: the filter says of the key what the override says.
bool MapCore::Settle(const KeyHash& hash, Override* entry) {
  QueryResult found = filter_.Query(hash, family_->blocks());
  if (entry->in_filter && (found.outcome == Outcome::kAbsent || TryRemove(hash, found))) {
    entry->in_filter = false;
    found = filter_.Query(hash, family_->blocks());
  }
  if (entry->in_filter) return false;
  if (entry->number == Override::kDeleted) return true;
  return found.outcome == Outcome::kAbsent && filter_.size() < filter_.capacity() &&
         TryInsert(hash, entry->number);
}

// ---- maps as a whole ----

MapCore::Overrides MapCore::MergedOverrides(const MapCore& other) const {
  Overrides merged = overrides_;
  for (const auto& [hash, theirs] : other.overrides_) {
    const QueryResult ours = Find(hash);
    Override& entry = merged.try_emplace(hash, theirs).first->second;
    entry.in_filter |= theirs.in_filter || ours.outcome != Outcome::kAbsent;
    if (theirs.number != Override::kDeleted) {
      entry.number = theirs.number;
    } else if (ours.outcome == Outcome::kFound) {
      entry.number = ours.value;
    }
  }
  for (const auto& [hash, ours] : overrides_) {
    if (ours.number != Override::kDeleted) continue;
    const QueryResult theirs = other.Find(hash);
    if (theirs.outcome == Outcome::kFound) merged[hash] = {theirs.value, true};
  }
  return merged;
}

Status MapCore::Join(const MapCore& other) {
  if (this == &other || family_ != other.family_) return Status::kUnlike;
  if (filter_.num_cells() != other.filter_.num_cells()) return Status::kUnlike;
  if (filter_.size() + other.filter_.size() > filter_.capacity()) return Status::kFull;
  Overrides merged = MergedOverrides(other);
  if (merged.size() > OverridesMax()) return Status::kFull;
  if (filter_.Join(other.filter_) != KbfStatus::kOk) return Status::kUnlike;
  overrides_ = std::move(merged);
  keys_ += other.keys_;
  return Status::kOk;
}

Status MapCore::Compress() {
  if (filter_.size() > filter_.capacity() / 2) return Status::kFull;
  switch (filter_.Compress()) {
    case KbfStatus::kOk:
      return Status::kOk;
    case KbfStatus::kCannotHalve:
      return Status::kCannotHalve;
    default:
      return Status::kNoMemory;
  }
}

uint64_t MapCore::memory_bytes() const {
  return sizeof *this + filter_.memory_bytes() + overrides_.size() * kOverrideBytes +
         family_->memory_bytes();
}

MapErrors MapCore::PredictedErrors() const {
  const double match = std::exp2(-static_cast<double>(family_->plan().layout.check_bits));
  const ErrorRates rates = filter_.PredictedErrors(match);
  return {rates.false_negative, rates.false_positive};
}

}  // namespace kbf
