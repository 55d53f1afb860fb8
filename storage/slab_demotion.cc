// How items move from a slab's front to its chain, and when a filter is opened for them.
#include <algorithm>
#include <array>
#include <optional>

#include "storage/slab.h"

namespace kbf {

namespace {

// Cold items are demoted together, so that their cache misses overlap.
constexpr unsigned kBatch = 32;
constexpr double kTargetSlackBytes = 4096;
constexpr unsigned kEffortMin = 2;
constexpr unsigned kEffortMax = 128;
// Values of the dictionaries may take this part of the memory, in all slabs together.
constexpr uint64_t kBlobShare = 4;
// Keys with less time left are not worth a place in a filter.
constexpr uint32_t kDemotedSecondsMin = 60;

}  // namespace

// The share of the front; and all that is not taken by the rest while the whole takes little. With
// no share everything that repeats goes to the filters at once.
double Slab::FrontTarget() const {
  if (config_.front_share == 0) return 0;
  const auto budget = static_cast<double>(Budget());
  const auto rest = static_cast<double>(MemoryBytes() - front_.bytes());
  return std::max(config_.front_share * budget, config_.exact_share * budget - rest);
}

// By so much that a batch is worth it.
bool Slab::FrontIsOverTarget() const {
  const double target = FrontTarget();
  return static_cast<double>(front_.bytes()) > target + std::min(kTargetSlackBytes, target / 32);
}

void Slab::DemoteBatch() {
  struct Cold {
    Item* item;
    KeyHash hash;
  };
  std::array<Cold, kBatch> batch;
  unsigned count = 0;
  double over = static_cast<double>(front_.bytes()) - FrontTarget();
  for (unsigned looked = 0; looked < demotion_effort_ && count < kBatch && over > 0; ++looked) {
    Item* item = front_.NextCold(kExamineMax);
    if (item == nullptr) continue;
    const auto end = batch.begin() + count;
    // The hand has been all round the table.
    if (std::any_of(batch.begin(), end, [&](const Cold& c) { return c.item == item; })) break;
    batch[count] = {item, front_.HashOf(*item)};
    if (!item->clean()) chain_.PrefetchLocator(batch[count].hash);
    ++count;
    over -= static_cast<double>(AllocatedBytes(item->total_bytes()));
  }
  for (unsigned i = 0; i < count; ++i) {
    if (!batch[i].item->clean()) chain_.PrefetchCells(batch[i].hash);
  }
  unsigned removed = 0;
  for (unsigned i = 0; i < count; ++i) removed += Demote(batch[i].item, batch[i].hash);
  // Where most values are unique, looking for others costs more than it finds.
  demotion_effort_ = removed > count / 4 ? std::min(2 * demotion_effort_, kEffortMax)
                                         : std::max(demotion_effort_ / 2, kEffortMin);
}

bool Slab::Demote(Item* item, const KeyHash& hash) {
  if (IsDead(*item)) {
    RemoveDead(item, hash);
    return true;
  }
  if (item->unique()) {
    item->set_unique(false);  // its value is looked at again in the next round
    return false;
  }
  if (!MayBeDemoted(*item)) return false;
  const std::optional<Dictionary::Code> code = CodeFor(*item);
  if (!code) {
    item->set_unique(true);
    return false;
  }
  if (!item->clean()) {
    const bool held = chain_.Holds(hash, *code, item->expires(), now_);
    if (!held) RemoveFromChain(hash);
    item->set_clean(true);  // the chain holds nothing older than the item
    if (held) {             // refreshed with the value that the chain has: nothing to write there
      RemoveFromFront(item, hash, Cause::kDemoted);
      return true;
    }
  }
  return MoveToChain(item, hash, *code);
}

bool Slab::MayBeDemoted(const Item& item) const {
  // The chain has no room for these marks, nor for a CAS number that a client chose.
  if (item.stale() || item.win() || item.explicit_cas() || HasExactPrefix(item.key())) return false;
  // What expires soon frees its memory by itself.
  return item.expires() == 0 || item.expires() - now_ >= kDemotedSecondsMin;
}

// Nothing: the value is too rare for a code, or there is no room for another one.
std::optional<Dictionary::Code> Slab::CodeFor(const Item& item) {
  // The memory of values is bounded too: beyond that, only those that are there already.
  const bool full = shared_.blobs.bytes() > config_.memory_bytes / kBlobShare * shared_.num_slabs;
  // Values that were admitted for a filter that was never opened.
  if (full && chain_.num_filters() == 0) chain_.RecycleCodes();
  if (full && !dictionary_.Knows(item.value(), item.flags())) return std::nullopt;
  return dictionary_.Admit(item.value(), item.flags());
}

bool Slab::MoveToChain(Item* item, const KeyHash& hash, const Dictionary::Code& code) {
  const Chain::Inserted inserted = InsertInChain(item, hash, code);
  if (inserted.outcome == Chain::Insertion::kNoFilter) return false;
  if (inserted.outcome == Chain::Insertion::kTombstone) {
    item->set_age(1);
    return false;
  }
  if (sampler_.IsSampled(hash)) {
    sampler_.Add(hash, ValueTag(item->value(), item->flags()), inserted.filter);
  }
  RemoveFromFront(item, hash, Cause::kDemoted);
  return true;
}

// Inserts the key, if need be in a filter that is opened for it.
Chain::Inserted Slab::InsertInChain(Item* item, const KeyHash& hash, const Dictionary::Code& code) {
  const Chain::Inserted inserted = chain_.Insert(hash, code, item->expires(), now_);
  if (inserted.outcome != Chain::Insertion::kNoFilter) return inserted;
  item->set_age(1);
  if (!item->waiting()) chain_.CountWaiting(item->expires(), now_);  // each item once
  item->set_waiting(true);
  if (!OpenFilter(item->expires())) return inserted;
  // A filter that was dropped for the new one may have freed the code.
  const auto fresh = dictionary_.Admit(item->value(), item->flags());
  return fresh ? chain_.Insert(hash, *fresh, item->expires(), now_) : inserted;
}

// A filter for keys with this expiry, if enough of them wait and there is memory for it. Where all
// columns of the locator are taken but there is memory, the keys wait in the front.
bool Slab::OpenFilter(uint32_t expires) {
  return chain_.IsWanted(expires, now_) && HasMemoryForFilter(chain_.WantedBytes(expires, now_)) &&
         chain_.AddFilter(expires, now_);
}

// There is room, or the oldest filter is dropped to make some, or the front, if it has more than
// its share, will give way to the first filters.
bool Slab::HasMemoryForFilter(uint64_t bytes) {
  if (Fits(bytes)) return true;
  if (!config_.evictions) return false;
  if (chain_.num_filters() >= 2) return chain_.DropOldest();
  return static_cast<double>(front_.bytes()) >
         config_.front_share * static_cast<double>(Budget()) + static_cast<double>(bytes);
}

}  // namespace kbf
