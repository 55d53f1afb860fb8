// How items move from a slab's front to its chain, and when that grows for them.
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
// Keys with less time left are not worth a place in the chain.
constexpr uint32_t kDemotedSecondsMin = 60;

}  // namespace

namespace {

ChainOffer OfferOf(const Item& item) {
  return {item.value(), item.flags(), AllocatedBytes(item.total_bytes()), item.unique()};
}

}  // namespace

// The share of the front; and all that is not taken by the rest while the whole takes little. With
// no share everything that repeats goes to the chain at once.
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
    if (!item->clean()) chain_->PrefetchPlaces(batch[count].hash);
    ++count;
    over -= static_cast<double>(item->total_bytes());
  }
  for (unsigned i = 0; i < count; ++i) {
    if (!batch[i].item->clean()) chain_->PrefetchEntries(batch[i].hash);
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
  if (!MayBeDemoted(*item)) return false;
  // A value that had no number is looked at again only now and then.
  if (item->unique() && ((hash.lo ^ writes_) & 1) != 0) return false;
  const std::optional<uint32_t> number = chain_->Number(OfferOf(*item));
  if (!number) {
    item->set_unique(true);
    return false;
  }
  if (!item->clean()) {
    const bool held = chain_->Holds(hash, *number, item->expires(), now_);
    if (!held) {
      sampler_.Remove(hash);
      if (!chain_->RemoveForInsert(hash, now_)) {
        item->set_age(1);
        return false;
      }
    }
    item->set_clean(true);  // the chain holds nothing older than the item
    if (held) {             // refreshed with the value that the chain has: nothing to write there
      RemoveFromFront(item, hash, Cause::kDemoted);
      return true;
    }
  }
  return MoveToChain(item, hash, *number);
}

bool Slab::MayBeDemoted(const Item& item) const {
  // The chain has no room for these marks, nor for a CAS number that a client chose.
  if (item.stale() || item.win() || item.explicit_cas() || IsExact(item.key())) return false;
  // What expires soon frees its memory by itself.
  return item.expires() == 0 || item.expires() - now_ >= kDemotedSecondsMin;
}

bool Slab::MoveToChain(Item* item, const KeyHash& hash, uint32_t number) {
  const Chain::Inserted inserted = InsertInChain(item, hash, number);
  if (inserted.outcome == Chain::Insertion::kNoRoom) return false;
  if (inserted.outcome == Chain::Insertion::kRefused) {
    item->set_age(1);
    return false;
  }
  if (sampler_.IsSampled(hash)) {
    sampler_.Add(hash, ValueTag(item->value(), item->flags()), inserted.part);
  }
  RemoveFromFront(item, hash, Cause::kDemoted);
  return true;
}

// Inserts the key, for which the chain grows if need be.
Chain::Inserted Slab::InsertInChain(Item* item, const KeyHash& hash, uint32_t number) {
  const Chain::Inserted inserted = chain_->Insert(hash, number, item->expires(), now_);
  if (inserted.outcome != Chain::Insertion::kNoRoom) return inserted;
  item->set_age(1);
  if (!item->waiting()) chain_->CountWaiting(item->expires(), now_);  // each item once
  item->set_waiting(true);
  if (!GrowChain(item->expires())) return inserted;
  // Growth may have freed the number.
  const std::optional<uint32_t> fresh = chain_->Number(OfferOf(*item));
  return fresh ? chain_->Insert(hash, *fresh, item->expires(), now_) : inserted;
}

// Room for keys with this expiry, if enough of them wait and there is memory for it. Where the
// chain cannot grow although there is memory, the keys wait in the front.
bool Slab::GrowChain(uint32_t expires) {
  const std::optional<uint64_t> bytes = chain_->BytesToGrow(expires, now_);
  return bytes && HasMemoryToGrow(*bytes) && chain_->Grow(expires, now_);
}

// There is room, or the front will give way, which has more than its share and what would go next
// in it is worth less than the oldest part, or that part is dropped.
bool Slab::HasMemoryToGrow(uint64_t bytes) {
  if (Fits(bytes)) return true;
  if (!config_.evictions) return false;
  const bool front_can =
      static_cast<double>(front_.bytes()) >
      config_.front_share * static_cast<double>(Budget()) + static_cast<double>(bytes);
  const bool may_drop = chain_->num_parts() >= 2;
  if (front_can && (!may_drop || FrontIsColder())) return true;
  return may_drop && chain_->DropOldest();
}

}  // namespace kbf
