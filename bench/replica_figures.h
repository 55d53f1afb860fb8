// What the figures of the replicas paper [Replicas] share: a filter beside its replica, and how
// often the replica is wrong.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <utility>

#include "bench/figures.h"
#include "storage/membership/replica.h"

namespace bench {

class FilterAndReplica {
 public:
  // Keys of different seeds have nothing in common.
  FilterAndReplica(uint64_t bits, unsigned num_hashes, uint64_t seed)
      : seed_(seed),
        filter_(std::move(kbf::ReplicatedBloom::Create({bits, num_hashes}).value())),
        replica_(filter_.shape()) {}

  kbf::ReplicatedBloom& filter() { return filter_; }
  const kbf::BloomReplica& replica() const { return replica_; }

  void Insert(uint64_t keys) {
    for (; keys > 0; --keys) filter_.Insert(FigureKey(seed_, newest_++));
  }
  // The oldest ones.
  void Delete(uint64_t keys) {
    for (; keys > 0; --keys) filter_.Delete(FigureKey(seed_, oldest_++));
  }
  // Returns the bytes that were sent.
  uint64_t Send() {
    const auto bytes = filter_.EncodeUpdate();
    if (replica_.Apply(bytes) != kbf::ApplyStatus::kApplied) std::abort();
    return bytes.size();
  }

  struct Wrong {
    double positive = 0;  // the replica calls an absent key present
    double negative = 0;  // the filter says yes where the replica says no, eq. 10
    double any() const { return positive + negative; }
  };
  // Random keys that were never stored.
  Wrong Measure(uint64_t asked) {
    Wrong wrong;
    for (uint64_t i = 0; i < asked; ++i) {
      const kbf::KeyHash key = FigureKey(~seed_, asked_++);
      const bool shown = replica_.MayContain(key);
      wrong.positive += shown;
      wrong.negative += !shown && filter_.MayContain(key);
    }
    wrong.positive /= static_cast<double>(asked);
    wrong.negative /= static_cast<double>(asked);
    return wrong;
  }
  // Share of the stored keys that the replica denies.
  double StoredDenied() const {
    double denied = 0;
    for (uint64_t i = oldest_; i < newest_; ++i)
      denied += !replica_.MayContain(FigureKey(seed_, i));
    return newest_ > oldest_ ? denied / static_cast<double>(newest_ - oldest_) : 0;
  }

 private:
  uint64_t seed_;
  kbf::ReplicatedBloom filter_;
  kbf::BloomReplica replica_;
  uint64_t oldest_ = 0;
  uint64_t newest_ = 0;
  uint64_t asked_ = 0;
};

}  // namespace bench
