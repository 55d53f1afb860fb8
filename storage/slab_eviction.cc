// How a slab keeps to its memory limit: what is freed, and what is removed when nothing else helps.
#include <algorithm>

#include "storage/slab.h"

namespace kbf {

namespace {

// Most items that one write evicts; what is still too much goes with the next writes.
constexpr unsigned kEvictionsMax = 2000;
// Hits count half after so many writes.
constexpr uint64_t kDecayWrites = 4096;
// Items that a write which would be refused looks at, for some that have expired.
constexpr unsigned kReclaimMax = 64;
constexpr uint64_t kSweepBucketsPerWrite = 4;
constexpr uint64_t kRetiredBucketsPerWrite = 8;

}  // namespace

uint64_t Slab::MemoryBytes() const {
  return front_.bytes() + chain_->memory_bytes() + sampler_.memory_bytes() +
         (changed_ != nullptr ? changed_->memory_bytes() : 0) + sizeof(*this);
}

uint64_t Slab::Budget() const {
  // Values that the chains share count once for all slabs, and so do items that were removed but
  // are still being sent.
  const uint64_t shared = (shared_.engine.shared_bytes() + DetachedBytes()) / shared_.num_slabs;
  return std::max(config_.memory_bytes / 4,
                  config_.memory_bytes - std::min(config_.memory_bytes, shared));
}

void Slab::MakeRoom() {
  DecayHits();
  if (flushes_unswept_ > 0) (void)SweepFlushed(kSweepBucketsPerWrite);
  if (front_.has_retired()) FreeRetired(kRetiredBucketsPerWrite);
  if (FrontIsOverTarget()) DemoteBatch();
  if (!config_.evictions) return;
  for (unsigned i = 0; i < kEvictionsMax && !Fits(0); ++i) {
    if (!EvictSome()) break;
  }
}

void Slab::DecayHits() {
  if (++writes_ % kDecayWrites != 0) return;
  cold_hits_ /= 2;
  old_hits_ /= 2;
}

// Frees an item, a part of the chain or what was flushed. False: there is nothing left.
bool Slab::EvictSome() {
  if (front_.has_retired()) {
    FreeRetired(1);
    return true;
  }
  return FrontIsColder() ? EvictCold() || chain_->Shrink() : chain_->Shrink() || EvictCold();
}

// Which of the two loses fewer hits per byte by its next eviction?
bool Slab::FrontIsColder() const {
  if (chain_->num_parts() == 0) return true;
  const auto front_bytes = static_cast<double>(front_.bytes());
  if (front_bytes <= config_.front_share * static_cast<double>(Budget())) return false;
  const auto old_bytes = static_cast<double>(chain_->oldest_bytes());
  if (old_bytes == 0) return true;
  // About half of the front's items are cold at a time.
  return static_cast<double>(cold_hits_) * old_bytes <=
         static_cast<double>(old_hits_) * front_bytes / 2;
}

bool Slab::EvictCold() {
  for (unsigned round = 0; front_.count() > 0 && round < 4 * (Item::kAgeMax + 1); ++round) {
    // A table of n items needs n examinations per round of the hand; most of the time the first few
    // do.
    Item* item =
        front_.NextCold(static_cast<unsigned>(std::min<uint64_t>(front_.count() + 1, 4096)));
    if (item == nullptr) continue;
    const KeyHash hash = front_.HashOf(*item);
    if (!Demote(item, hash)) RemoveFromFront(item, hash, Cause::kEvicted);
    return true;
  }
  return false;
}

bool Slab::MakeRoomFor(uint64_t bytes) {
  if (config_.evictions || Fits(bytes)) return true;
  for (unsigned i = 0; i < kEvictionsMax && front_.has_retired() && !Fits(bytes); ++i) {
    FreeRetired(1);
  }
  for (unsigned i = 0; i < kReclaimMax && !Fits(bytes); ++i) {
    Item* item = front_.NextCold(kExamineMax);
    if (item != nullptr && IsDead(*item)) RemoveDead(item, front_.HashOf(*item));
  }
  if (!Fits(bytes)) DemoteBatch();
  return Fits(bytes);
}

}  // namespace kbf
