// How a slab keeps to its memory limit: what is freed, and what is removed when nothing else helps.
#include <algorithm>

#include "storage/slab.h"

namespace kbf {

namespace {

// Most blocks and parts of the chain that one write evicts; what is still too much goes with the
// next writes.
constexpr unsigned kEvictionsMax = 2000;
// Hits count half after so many writes.
constexpr uint64_t kDecayWrites = 4096;
// Blocks that a write which would be refused empties, if they have expired items or holes.
constexpr unsigned kReclaimMax = 64;
// Below this part of its share of the memory, a slab leaves it to others to make room.
constexpr double kOwnPart = 15.0 / 16;

}  // namespace

uint64_t Slab::MemoryBytes() const {
  return front_.bytes() + chain_->memory_bytes() + sampler_.memory_bytes() +
         (changed_ != nullptr ? changed_->memory_bytes() : 0) + sizeof(*this);
}

uint64_t Slab::Budget() const {
  // Values that the chains share count once for all slabs, and so do items that were removed but
  // are still being sent.
  const uint64_t shared =
      (shared_.engine.shared_bytes() + DetachedAllocatedBytes()) / shared_.num_slabs;
  return std::max(config_.memory_bytes / 4,
                  config_.memory_bytes - std::min(config_.memory_bytes, shared));
}

void Slab::Report() {
  const uint64_t all = MemoryBytes();
  const uint64_t other = all - front_.pages_bytes();
  reported_bytes_.store(all, std::memory_order_relaxed);
  if (other == reported_other_) return;
  memory_.AddOther(other - reported_other_);
  reported_other_ = other;
}

bool Slab::HasItsPart() const {
  return shared_.num_slabs == 1 ||
         static_cast<double>(MemoryBytes()) >= kOwnPart * static_cast<double>(Budget());
}

void Slab::MakeRoom() {
  DecayHits();
  if (FrontIsOverTarget()) {
    // The pages of what was demoted before.
    if (front_.IsSparse()) (void)front_.Compact();
    DemoteBatch();
  }
  if (!config_.evictions) return;
  for (unsigned i = 0; i < kEvictionsMax && !Fits(0) && HasItsPart(); ++i) {
    if (!EvictSome()) break;
  }
}

bool Slab::GiveWay(uint32_t now) {
  const LockedOperation operation(*this, now);
  return EvictSome();
}

void Slab::DecayHits() {
  if (++writes_ % kDecayWrites != 0) return;
  cold_hits_ /= 2;
  old_hits_ /= 2;
}

// Frees a block of items, a part of the chain or what was flushed. False: there is nothing left.
bool Slab::EvictSome() {
  if (front_.has_retired()) {
    front_.FreeRetired(1);
    return true;
  }
  if (front_.IsSparse() && front_.Compact()) return true;
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
  return front_.EvictBlock(now_, [&](Item* item, const KeyHash& hash) {
    if (!Demote(item, hash)) RemoveFromFront(item, hash, Cause::kEvicted);
  });
}

bool Slab::MakeRoomFor(uint64_t bytes) {
  if (config_.evictions) return true;
  const auto fits = [&] { return Fits(front_.GrowthFor(bytes)); };
  while (front_.has_retired() && !fits()) front_.FreeRetired(1);
  for (unsigned i = 0; i < kReclaimMax && !fits(); ++i) {
    const bool swept = front_.SweepExpired(kReclaimMax, now_, [&](Item* item, const KeyHash& hash) {
      RemoveFromFront(item, hash, Cause::kExpired);
    });
    if (!swept && !front_.Compact()) break;
  }
  if (!fits()) DemoteBatch();
  return fits();
}

}  // namespace kbf
