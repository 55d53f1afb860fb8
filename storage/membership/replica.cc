#include "storage/membership/replica.h"

#include <algorithm>
#include <limits>

#include "storage/membership/replica_update.h"

namespace kbf {

namespace {
constexpr uint8_t kStuck = std::numeric_limits<uint8_t>::max();
}  // namespace

bool BloomBits::MayContain(const KeyHash& key) const {
  for (unsigned i = 0; i < shape_.num_hashes; ++i) {
    if (!Test(PositionOf(key, i))) return false;
  }
  return true;
}

void BloomBits::Clear() { std::fill(words_.begin(), words_.end(), 0); }

std::optional<ReplicatedBloom> ReplicatedBloom::Create(const ReplicaShape& shape) {
  if (shape.bits == 0 || shape.bits > kReplicaBitsMax || shape.num_hashes == 0 ||
      shape.num_hashes > kReplicaHashesMax) {
    return std::nullopt;
  }
  return ReplicatedBloom(shape);
}

void ReplicatedBloom::FlipBit(uint64_t at) {
  now_.Flip(at);
  const bool one = now_.Test(at);
  ones_ += one ? 1 : uint64_t(-1);
  // The bit was dirty in the other sense, or is from now on in this one.
  const bool dirty = one != sent_.Test(at);
  if (one) {
    (dirty ? dirty_ones_ : dirty_zeros_) += dirty ? 1 : uint64_t(-1);
  } else {
    (dirty ? dirty_zeros_ : dirty_ones_) += dirty ? 1 : uint64_t(-1);
  }
}

void ReplicatedBloom::Insert(const KeyHash& key) {
  ++size_;
  ++new_keys_;
  for (unsigned i = 0; i < shape().num_hashes; ++i) {
    const uint64_t at = now_.PositionOf(key, i);
    if (counters_[at] == 0) FlipBit(at);
    if (counters_[at] < kStuck) ++counters_[at];
  }
}

bool ReplicatedBloom::Delete(const KeyHash& key) {
  uint64_t places[kReplicaHashesMax];
  const unsigned k = shape().num_hashes;
  for (unsigned i = 0; i < k; ++i) places[i] = now_.PositionOf(key, i);
  for (unsigned i = 0; i < k; ++i) {
    const auto times = static_cast<unsigned>(std::count(places, places + k, places[i]));
    if (counters_[places[i]] < times) return false;
  }
  for (unsigned i = 0; i < k; ++i) {
    uint8_t& counter = counters_[places[i]];
    if (counter == kStuck) continue;
    if (--counter == 0) FlipBit(places[i]);
  }
  if (size_ > 0) --size_;
  return true;
}

ReplicaState ReplicatedBloom::StateByKeys() const {
  ReplicaState state = State();
  state.one_share = 1 - BloomZeroShare(static_cast<double>(size_),
                                       static_cast<double>(shape().bits), shape().num_hashes);
  return state;
}

double ReplicatedBloom::StoredDenied() const {
  if (size_ == 0) return 0;
  const double new_share = static_cast<double>(new_keys_) / static_cast<double>(size_);
  return ReplicaStoredDenied(State(), std::min(1.0, new_share));
}

bool ReplicatedBloom::NeedsUpdate(const UpdatePolicy& policy) const {
  if (dirty_ones_ + dirty_zeros_ == 0) return false;
  switch (policy.rule) {
    case UpdatePolicy::Rule::kFalseRate:
      return ReplicaFalseRate(State(), policy.weight_positive, policy.weight_negative) >=
             policy.limit;
    case UpdatePolicy::Rule::kDirtyBits:
      return delta0() + delta1() >= policy.limit;
    case UpdatePolicy::Rule::kStoredDenied:
      return StoredDenied() >= policy.limit;
  }
  return false;
}

std::vector<std::byte> ReplicatedBloom::EncodeUpdate() {
  std::vector<uint64_t> differing(now_.words().begin(), now_.words().end());
  for (size_t i = 0; i < differing.size(); ++i) differing[i] ^= sent_.words()[i];
  auto bytes =
      EncodeReplicaUpdate({shape(), /*from_empty=*/false, version_, version_ + 1}, differing);
  sent_ = now_;
  ++version_;
  dirty_ones_ = dirty_zeros_ = new_keys_ = 0;
  return bytes;
}

std::vector<std::byte> ReplicatedBloom::EncodeWhole() const {
  return EncodeReplicaUpdate({shape(), /*from_empty=*/true, 0, version_}, sent_.words());
}

ApplyStatus BloomReplica::Apply(std::span<const std::byte> bytes) {
  ReplicaUpdate update;
  const ApplyStatus status = DecodeReplicaUpdate(bytes, bits_.shape(), &update);
  if (status != ApplyStatus::kApplied) return status;
  if (update.head.from_empty) {
    bits_.Clear();
  } else if (update.head.base != version_) {
    return ApplyStatus::kMissedUpdate;
  }
  for (const uint64_t at : update.positions) bits_.Flip(at);
  version_ = update.head.version;
  return ApplyStatus::kApplied;
}

}  // namespace kbf
