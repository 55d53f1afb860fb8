// How a slab keeps to its memory: who leaves the front, when a filter is opened, what goes when
// nothing else helps.
#include <algorithm>
#include <optional>

#include "storage/slab.h"

namespace kbf {

namespace {

// Cold items leave together, so that their cache misses overlap.
constexpr unsigned kBatch = 32;
constexpr double kDemotionSlackBytes = 4096;
constexpr unsigned kEffortMin = 2;
constexpr unsigned kEffortMax = 128;
// Values of the dictionary may take this part of the memory, in all slabs together.
constexpr uint64_t kBlobShare = 4;
// Most items that one write evicts; what is still too much goes with the next writes.
constexpr unsigned kEvictionsMax = 2000;
// Hits count half after so many writes.
constexpr uint64_t kDecayWrites = 4096;
// Keys with less time left are not worth a filter.
constexpr uint32_t kDemotedSecondsMin = 60;
// Items that one refused write looks at, for some that have expired.
constexpr unsigned kReclaimMax = 64;
constexpr uint64_t kSweepBucketsPerWrite = 4;
constexpr uint64_t kRetiredBucketsPerWrite = 8;

}  // namespace

uint64_t Slab::Budget() const {
  // Values that the dictionaries share count once for all slabs, and so do items that have left
  // but are still being sent.
  const uint64_t blobs = (shared_.blobs.bytes() + DetachedBytes()) / shared_.num_slabs;
  return std::max(config_.memory_bytes / 4,
                  config_.memory_bytes - std::min(config_.memory_bytes, blobs));
}

uint64_t Slab::memory_bytes() const {
  return front_.bytes() + chain_.memory_bytes() + dictionary_.memory_bytes() +
         sampler_.memory_bytes() + sizeof(*this);
}

// The share of the front; and all that is not taken by the rest while the whole takes little. With
// no share everything that repeats goes to the filters at once.
double Slab::FrontTarget() const {
  if (config_.front_share == 0) return 0;
  const auto budget = static_cast<double>(Budget());
  const auto rest = static_cast<double>(memory_bytes() - front_.bytes());
  return std::max(config_.front_share * budget, config_.exact_share * budget - rest);
}

bool Slab::HasExactPrefix(std::string_view key) const {
  return std::any_of(config_.exact_prefixes.begin(), config_.exact_prefixes.end(),
                     [&](const std::string& prefix) { return key.starts_with(prefix); });
}

// Makes the front as small as it should be by demotion, then the whole as small as it must be by
// loss.
void Slab::MakeRoom(uint32_t now) {
  if (++writes_ % kDecayWrites == 0) {
    cold_hits_ /= 2;
    old_hits_ /= 2;
  }
  if (flushes_unswept_ > 0) (void)SweepFlushed(kSweepBucketsPerWrite, now);
  if (front_.has_retired()) FreeRetired(kRetiredBucketsPerWrite);
  // A batch at a time: the cache misses of one demotion hide behind those of the others.
  const double target = FrontTarget();
  if (static_cast<double>(front_.bytes()) > target + std::min(kDemotionSlackBytes, target / 32))
    DemoteCold(now);
  if (!config_.evictions) return;
  for (unsigned i = 0; i < kEvictionsMax && memory_bytes() > Budget(); ++i) {
    if (front_.has_retired()) {
      FreeRetired(1);
      continue;
    }
    const bool freed = FrontIsColder() ? EvictCold(now) || chain_.DropOldest()
                                       : chain_.DropOldest() || EvictCold(now);
    if (!freed) break;
  }
}

// Which of the two would be missed less, by hits per byte of what would go next?
bool Slab::FrontIsColder() const {
  if (chain_.num_filters() == 0) return true;
  const auto front_bytes = static_cast<double>(front_.bytes());
  if (front_bytes <= config_.front_share * static_cast<double>(Budget())) return false;
  const auto old_bytes = static_cast<double>(chain_.oldest_bytes());
  if (old_bytes == 0) return true;
  // About half of the front's items are cold at a time.
  return static_cast<double>(cold_hits_) * old_bytes <=
         static_cast<double>(old_hits_) * front_bytes / 2;
}

void Slab::DemoteCold(uint32_t now) {
  struct Leaving {
    Item* item;
    KeyHash hash;
  };
  std::array<Leaving, kBatch> batch;
  unsigned count = 0;
  double over = static_cast<double>(front_.bytes()) - FrontTarget();
  for (unsigned looked = 0; looked < effort_ && count < kBatch && over > 0; ++looked) {
    Item* item = front_.NextCold(8);
    if (item == nullptr) continue;
    const auto end = batch.begin() + count;
    if (std::any_of(batch.begin(), end, [&](const Leaving& l) { return l.item == item; }))
      break;  // once round
    batch[count] = {item, front_.HashOf(*item)};
    if (!item->clean()) chain_.PrefetchLocator(batch[count].hash);
    ++count;
    over -= static_cast<double>(AllocatedBytes(item->total_bytes()));
  }
  for (unsigned i = 0; i < count; ++i) {
    if (!batch[i].item->clean()) chain_.PrefetchCells(batch[i].hash);
  }
  unsigned left = 0;
  for (unsigned i = 0; i < count; ++i) left += Demote(batch[i].item, batch[i].hash, now);
  // Where most values are one of a kind, looking is a waste of time.
  effort_ =
      left > count / 4 ? std::min(2 * effort_, kEffortMax) : std::max(effort_ / 2, kEffortMin);
}

// True if the item left the front.
bool Slab::Demote(Item* item, const KeyHash& hash, uint32_t now) {
  if (IsFlushed(*item) || IsExpired(item->expires(), now)) {
    Leave(item, hash, IsFlushed(*item) ? Cause::kFlushed : Cause::kExpired, now);
    return true;
  }
  if (item->unique()) {
    item->set_unique(false);  // look again next time round
    return false;
  }
  if (item->stale() || item->win() || HasExactPrefix(item->key())) return false;
  // What expires soon frees its memory by itself.
  if (item->expires() != 0 && item->expires() - now < kDemotedSecondsMin) return false;
  // The values' memory is bounded too: beyond that, only those that are there already.
  const bool full = shared_.blobs.bytes() > config_.memory_bytes / kBlobShare * shared_.num_slabs;
  if (full && chain_.num_filters() == 0)
    chain_.RecycleCodes();  // values that came for a filter that never did
  std::optional<Dictionary::Code> code;
  if (!full || dictionary_.Knows(item->value(), item->flags())) {
    code = dictionary_.Admit(item->value(), item->flags());
  }
  if (!code) {
    item->set_unique(true);
    return false;
  }
  if (!item->clean()) {
    // Refreshed with the value that the chain has: nothing to write there.
    if (chain_.Holds(hash, *code, item->expires(), now)) {
      item->set_clean(true);  // for Leave: the copy is not an older one
      Leave(item, hash, Cause::kDemoted, now);
      return true;
    }
    (void)RemoveFromChain(hash, now);
    item->set_clean(true);
  }
  auto insertion = chain_.Insert(hash, *code, item->expires(), now);
  if (insertion == Chain::Insertion::kNoFilter) {
    item->set_age(1);
    if (!item->waiting()) chain_.CountWaiting(item->expires(), now);  // each item once
    item->set_waiting(true);
    if (!OpenFilter(item->expires(), now)) return false;
    code = dictionary_.Admit(item->value(),
                             item->flags());  // a dropped filter may have freed the code
    if (!code) return false;
    insertion = chain_.Insert(hash, *code, item->expires(), now);
  }
  if (insertion == Chain::Insertion::kNoFilter) return false;
  if (insertion == Chain::Insertion::kTombstone) {
    if (!config_.evictions) return false;
    Leave(item, hash, Cause::kEvicted, now);
    return true;
  }
  if (sampler_.IsSampled(hash)) {
    sampler_.Add(hash, HashKey(item->value(), shared_.secret).lo ^ item->flags(),
                 chain_.last_sequence());
  }
  Leave(item, hash, Cause::kDemoted, now);
  return true;
}

// A filter for keys with this expiry, if enough of them wait and there is memory, or something can
// make room.
bool Slab::OpenFilter(uint32_t expires, uint32_t now) {
  if (!chain_.IsWanted(expires, now)) return false;
  const uint64_t bytes = chain_.WantedBytes(expires, now);
  if (memory_bytes() + bytes > Budget()) {
    if (!config_.evictions) return false;
    if (chain_.num_filters() >= 2) {
      (void)chain_.DropOldest();
    } else if (static_cast<double>(front_.bytes()) <=
               config_.front_share * static_cast<double>(Budget()) + static_cast<double>(bytes)) {
      return false;  // the first filters are paid for by the front, if it has more than its share
    }
  }
  // Where all columns are taken but there is memory, keys wait in the front.
  return chain_.AddFilter(expires, now);
}

bool Slab::HasRoom(uint64_t bytes, uint32_t now) {
  if (config_.evictions || memory_bytes() + bytes <= Budget()) return true;
  for (unsigned i = 0; i < kEvictionsMax && front_.has_retired(); ++i) {
    if (memory_bytes() + bytes <= Budget()) return true;
    FreeRetired(1);
  }
  for (unsigned i = 0; i < kReclaimMax && memory_bytes() + bytes > Budget(); ++i) {
    Item* item = front_.NextCold(8);
    if (item == nullptr) continue;
    if (IsFlushed(*item) || IsExpired(item->expires(), now)) {
      (void)Demote(item, front_.HashOf(*item), now);
    }
  }
  if (memory_bytes() + bytes > Budget()) DemoteCold(now);
  return memory_bytes() + bytes <= Budget();
}

bool Slab::EvictCold(uint32_t now) {
  for (unsigned round = 0; front_.count() > 0 && round < 4 * (Item::kAgeMax + 1); ++round) {
    // A table of n items needs n examinations per round of the hand; most of the time the first few
    // do.
    Item* item =
        front_.NextCold(static_cast<unsigned>(std::min<uint64_t>(front_.count() + 1, 4096)));
    if (item == nullptr) continue;
    const KeyHash hash = front_.HashOf(*item);
    if (!Demote(item, hash, now)) Leave(item, hash, Cause::kEvicted, now);
    return true;
  }
  return false;
}

}  // namespace kbf
